"""How many secrets the guard finds, and what it takes for one: recall and false positives by kind.

    python3 scripts/guard_report.py                     on a generated set of labelled notes
    python3 scripts/guard_report.py DIR [DIR ...]       on a folder with labels.json, or on any tree of documents

Run it with the environment's Python (.venv). The set is made at run time from templates and a seed, so nothing in this
file is a secret; ``--seed`` and ``--variants`` make another. A tree has no labels: there every finding is listed by kind
and tier. A value is found when its file is left out, or none of it is left in the masked text.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import string
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.text.decode import Undecodable, decode, shorten_data_uris  # noqa: E402
from rag_mcp.text.secret_keys import KEY_KINDS  # noqa: E402
from rag_mcp.text.secret_tokens import TOKEN_KINDS  # noqa: E402
from rag_mcp.text.secrets import Tier, find_secrets, mask  # noqa: E402

DOCUMENTS = {".md", ".markdown", ".rst", ".txt"}
ALNUM = string.ascii_letters + string.digits
ALPHABETS = {
    "mixed": ALNUM,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "hex": "0123456789abcdef",
    "url": ALNUM + "-_",
    "digits": string.digits,
    "marks": ALNUM + "!#%*+?^~",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "b32": string.ascii_uppercase + "234567",
}
WORDS = ["Ferry", "Anchor", "Willow", "Pebble", "Saffron", "Lantern", "Quarry", "Meadow", "Thistle", "Cobalt"]

# Kind, and a template: ``{alphabet.length}`` is random, and so are {human}, {base64.bytes} and {pem.KIND}. The mark ¬
# only keeps what stands here from looking like what it makes.
SECRETS = (
    ("cloud key", "Uploads run as AS¬IA{upper.16} for now."),
    ("cloud key", "| region | key |\n| --- | --- |\n| north | AI¬za{url.35} |"),
    ("cloud key", "The secret acc¬ess key of the bucket is {base64.30}."),
    ("cloud key", 'aws_sess¬ion_token = "{base64.120}"'),
    ("forge token", "git clone https://oauth2:gl¬pat-{url.20}@git.ferry.dev/quay/tide.git"),
    ("forge token", "> use github¬_pat_{mixed.22}_{mixed.59} for the mirror"),
    ("forge token", "curl -H 'PRIVATE-TO¬KEN: {url.24}' https://git.ferry.dev/api"),
    ("chat token", 'slack: "xo¬xp-{digits.12}-{digits.12}-{digits.12}-{hex.32}"'),
    ("chat token", "https://hooks.sl¬ack.com/services/T{upper.8}/B{upper.10}/{mixed.24}"),
    ("chat token", "https://discord.com/api/web¬hooks/{digits.18}/{url.68}"),
    ("payment key", "STRIPE=rk_l¬ive_{mixed.24}"),
    ("payment key", "signing secret wh¬sec_{mixed.32}"),
    ("model key", "ANTHROPIC=sk-a¬nt-api03-{url.93}AA"),
    ("model key", "export GROQ=gs¬k_{mixed.52}"),
    ("infrastructure token", "doctl auth init -t do¬p_v1_{hex.64}"),
    ("infrastructure token", "grafana gl¬sa_{mixed.32}_{hex.8}"),
    ("infrastructure token", "ts up --authkey tsk¬ey-auth-{mixed.12}CNTRL-{mixed.32}"),
    ("infrastructure token", "dap¬i{hex.32} is the notebook's"),
    ("mail key", "S¬G.{url.22}.{url.43}"),
    ("registry token", "pypi-A¬gEIcHlwaS5vcmc{url.140}"),
    ("key block", "{pem.EC PRIVATE KEY}"),
    ("key block", "- the old one:\n\n      {pem.PRIVATE KEY}"),
    ("key block, torn", "-----BEG¬IN OPENSSH PRIVATE KEY-----\n{wrapped.180}"),
    ("key block, torn", "{wrapped.180}\n-----E¬ND RSA PRIVATE KEY-----"),
    ("key block, encoded", "  tls.key: {pem64.PRIVATE KEY}"),
    ("key block, encoded", '"private¬_key": "{pem1.PRIVATE KEY}\\n"'),
    ("key of a person", "age: AGE-SEC¬RET-KEY-1{upper.58}"),
    ("web token", "Authorization: Bea¬rer {jwt}"),
    ("header", "authorization: bea¬rer {url.44}"),
    ("header", "AUTHORIZATION: ba¬sic {login64}"),
    ("header", "X-Api-K¬ey: {hex.40}"),
    ("password, assigned", "pass¬word = {human}"),
    ("password, assigned", "spring.datasource.pass¬word={marks.14}"),
    ("password, assigned", "'pass¬word' => '{human}',"),
    ("password, assigned", "<pass¬word>{human}</pass¬word>"),
    ("password, assigned", "**Pass¬word:** `{human}`"),
    ("password, assigned", "Pass¬word:\n\n    {human}"),
    ("password, assigned", "- name: DB_PASS¬WORD\n  value: {human}"),
    ("password, assigned", "CREATE USER quay WITH PASS¬WORD '{human}';"),
    ("password, other language", "Das Pass¬wort lautet {human}."),
    ("password, other language", "Contra¬seña: {human}"),
    ("password, other language", "mot de pa¬sse : {human}"),
    ("password, other language", "пар¬оль: {human}"),
    ("password, other language", "パスワ¬ード：{human}"),
    ("password, sentence", "The guest pass¬word for the ferry is {human}, ask Ida."),
    ("password, sentence", "Use `{human}` as the root pass¬word."),
    ("password, table", "| host | user | pass¬word |\n|---|---|---|\n| quay | ida | {human} |"),
    ("password, table", "host,user,pass¬word\nquay,ida,{human}"),
    ("password, command", "mysql -u ida -p{human} tides"),
    ("password, command", "sshp¬ass -p '{human}' ssh ida@quay"),
    ("password, command", "restic --pass¬word={human} backup"),
    ("password, command", "ENV ADMIN_PASS¬WORD {human}"),
    ("login in a URL", "amqps://ida:{human}@mq.quay.internal/tides"),
    ("login in a URL", "https://ida:{digits.9}@quay.internal/"),
    ("login file", "machine quay.internal login ida pass¬word {human}"),
    ("login file", "quay.internal:5432:tides:ida:{human}"),
    ("key, assigned", "client_sec¬ret: {mixed.32}"),
    ("key, assigned", 'const api¬Key = "{lower.30}"'),
    ("key, assigned", "My access tok¬en: {hex.36}"),
    ("key, assigned", "https://quay.dev/feed?api¬_key={mixed.30}&page=2"),
)
HARMLESS = (
    ("placeholder", "pass¬word: <choose one>"),
    ("placeholder", "api_key = 'YOUR-KEY-GOES-HERE-42'"),
    ("placeholder", "tok¬en: xxxxxxxxxxxxxxxxxxxxxxxx"),
    ("placeholder", "gh¬p_000000000000000000000000000000000000"),
    ("placeholder", "pass¬word: changeme123"),
    ("placeholder", "secret: ..."),
    ("reference", "pass¬word: ${ADMIN_PASSWORD_2}"),
    ("reference", "pass¬word = os.environ['QUAY_PASSWORD1']"),
    ("reference", "tok¬en: {{{{ lookup('env', 'TIDE_TOKEN_2') }}}}"),
    ("reference", "api_key: op://harbour/Tide-Api9/credential"),
    ("reference", "secret: vault:kv/data/Quay2#Token7"),
    ("digest", "sha512-{base64.64}"),
    ("digest", "commit {hex.40} changed the pass¬word form"),
    ("digest", "--discovery-token-ca-cert-hash sha256:{hex.64}"),
    ("identifier", "run {uuid} failed"),
    ("identifier", "secretName: quay-tls-secret-v2"),
    ("identifier", "tok¬en_type: bearer-jwt-2"),
    ("identifier", "password_hash: argon2id"),
    ("public key", "ssh-rsa AAAAB3NzaC1yc2E{base64.270} ida@quay"),
    ("public key", "{pem.CERTIFICATE}"),
    ("public key", "{pem.PUBLIC KEY}"),
    ("empty block", "-----BEG¬IN RSA PRIVATE KEY-----\n<your key>\n-----E¬ND RSA PRIVATE KEY-----"),
    ("sample login", "mysql://root:root@127.0.0.1:3306/app"),
    ("sample login", "curl -u user:password https://quay.dev/"),
    ("prose", "The pass¬word is base64-encoded before it is sent, the tok¬en is SHA256-hashed."),
    ("prose", "A pass¬word of 8 to 64 characters is required; passwords expire after 180 days."),
    ("prose", "Tok¬en: a word or a part of a word. Secret: something only two people know."),
    ("prose", "| field | type |\n|---|---|\n| pass¬word | string(255) |"),
    ("code", "if pass¬word != confirm_password2: raise ValueError"),
    ("code", "tok¬en = response.json()['access_token']"),
    ("code", "def login(user: str, pass¬word: SecretStr | None = None):"),
    ("data", "```compressed-json\n{base64.900}\n```"),
)


# More of both, of how people keep credentials and of what only looks like them.
MORE = [line.split("\t") for line in (ROOT / "scripts" / "guard_notes.txt").read_text("utf-8").splitlines()[1:]]


@dataclass(frozen=True)
class Note:
    kind: str
    text: str
    values: tuple[str, ...]
    secret: bool


def labelled(seed: int, variants: int) -> Iterator[Note]:
    """The generated set; the same for the same seed."""
    for number, (secret, rows) in enumerate(((True, SECRETS), (False, HARMLESS))):
        more = ((kind, json.loads(written)) for sign, kind, written in MORE if (sign == "+") is secret)
        for place, (kind, template) in enumerate([*rows, *more]):
            for variant in range(variants):
                made = random.Random(f"{seed}/{number}/{place}/{variant}")
                values: list[str] = []
                body = _filled(template.replace("¬", ""), made, values)
                yield Note(kind, f"# Tides\n\nBefore.\n\n{body}\n\nAfter.\n", tuple(values), secret)


def _filled(template: str, made: random.Random, values: list[str]) -> str:
    filled = _GAP.sub(lambda gap: _keep(_make(made, gap[1], gap[2]), values), template)
    return filled.replace("{{", "{").replace("}}", "}")


_GAP = re.compile(r"\{([a-z0-9]+)(?:\.([\w ]+))?\}")


def _keep(value: str, values: list[str]) -> str:
    values += [line for line in value.split("\n") if len(line) >= 8 and "-----" not in line]
    return value


def _make(made: random.Random, name: str, argument: str | None) -> str:
    if name in ALPHABETS:
        return "".join(made.choices(ALPHABETS[name], k=int(argument or 0)))
    if name == "human":
        return made.choice(WORDS) + made.choice("-_!.") + made.choice(WORDS).lower() + str(made.randint(10, 999))
    if name == "any":
        word, other = made.choice(WORDS), made.choice(WORDS)
        number, mark = made.randint(1000, 99999), made.choice("!?#")
        return made.choice(
            [
                f"{word}{made.choice('-_!.')}{other.lower()}{number}",
                f"{word.lower()}{number}{mark}",
                f"{word}{made.randint(2021, 2039)}!",
                _make(made, "mixed", "14"),
                f"{number % 10}{word.lower()}{made.choice('$%+')}{other}",
            ]
        )
    if name == "bytes":
        return ",".join(str(byte) for byte in made.randbytes(int(argument or 0)))
    if name == "bitlocker":
        return "-".join(_make(made, "digits", "6") for _ in range(8))
    if name == "base64":
        return base64.b64encode(made.randbytes(int(argument or 0))).decode()
    if name == "wrapped":
        return re.sub(r"(.{64})", r"\1\n", base64.b64encode(made.randbytes(int(argument or 0))).decode()).strip()
    if name == "uuid":
        return "-".join("".join(made.choices("0123456789abcdef", k=k)) for k in (8, 4, 4, 4, 12))
    if name == "login64":
        return base64.b64encode(f"ida:{_make(made, 'human', None)}".encode()).decode()
    if name == "jwt":
        parts = ({"alg": "HS256"}, {"sub": _make(made, "lower", "9")})
        return ".".join(
            [
                *(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts),
                _make(made, "url", "43"),
            ]
        )
    block = f"-----BEGIN {argument}-----\n{_make(made, 'wrapped', '300')}\n-----END {argument}-----"
    if name == "pem":
        return block
    return block.replace("\n", "\\n") if name == "pem1" else base64.b64encode(block.encode()).decode()


def from_folder(folder: Path) -> Iterator[Note]:
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    for name, label in labels.items():
        text = decode((folder / name).read_bytes())
        yield Note(label["kind"], text, tuple(label["values"]), label["expect"] != "clean")


def right(note: Note) -> bool:
    """Found when it should be, untouched when not."""
    text = shorten_data_uris(note.text)
    findings = find_secrets(text)
    if not note.secret:
        return not findings
    if any(finding.tier is Tier.STRONG for finding in findings):
        return True
    masked = mask(text, findings)
    return not any(value in masked for value in note.values)


def report_labelled(notes: Iterator[Note]) -> None:
    tally: dict[tuple[bool, str], list[bool]] = defaultdict(list)
    for note in notes:
        tally[note.secret, note.kind].append(right(note))
    for secret, head in ((True, "| secret | notes | found |"), (False, "| harmless | notes | taken for a secret |")):
        rows = {kind: results for (is_secret, kind), results in tally.items() if is_secret is secret}
        print(f"\n{head}\n| --- | ---: | ---: |")
        rows["all"] = [each for results in rows.values() for each in results]
        for kind, results in rows.items():
            share = sum(results) / len(results) if results else 0.0
            print(f"| {kind} | {len(results)} | {share if secret else 1 - share:.3f} |")


def report_tree(folder: Path) -> None:
    files, chars, elapsed = 0, 0, 0.0
    hits: Counter[tuple[str, str]] = Counter()
    touched: dict[str, set[Path]] = defaultdict(set)
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in DOCUMENTS and path.is_file()):
        try:
            text = shorten_data_uris(decode(path.read_bytes()))
        except Undecodable:
            continue
        started = time.perf_counter()
        findings = find_secrets(text)
        elapsed += time.perf_counter() - started
        files, chars = files + 1, chars + len(text)
        for finding in findings:
            hits[finding.tier.value, finding.kind] += 1
            touched[finding.tier.value].add(path)
    speed = chars / elapsed / 1e6 if elapsed else 0.0
    print(f"\n{files} files, {chars / 1e6:.1f} million characters, {speed:.1f} million a second")
    masked = touched["loose"] - touched["strong"]
    print(
        f"left out: {len(touched['strong'])} files; masked: {len(masked)} files\n\n| tier | kind | findings |\n| --- | --- | ---: |"
    )
    for (tier, kind), count in sorted(hits.items()):
        print(f"| {tier} | {kind} | {count} |")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--kinds", action="store_true", help="list every kind and leave")
    options = parser.parse_args(arguments)
    if options.kinds:
        print("\n".join(sorted({*TOKEN_KINDS, *KEY_KINDS})))
        return 0
    if not options.folders:
        report_labelled(labelled(options.seed, options.variants))
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"not a folder: {folder}")
        if (folder / "labels.json").is_file():
            report_labelled(from_folder(folder))
        else:
            report_tree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
