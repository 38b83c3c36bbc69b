"""Every secret here is put together at run time, so that no scanner takes this file for one that holds any."""

import base64
import json
import random
import string
import time
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import keeps_pace

from rag_mcp.text import secret_keys as guard_keys
from rag_mcp.text import secret_tokens as guard_tokens
from rag_mcp.text.secret_values import is_key, is_live_jwt, is_password
from rag_mcp.text.secrets import MASK, Tier, find_secrets, mask

NOW = time.time()

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"


def chars(alphabet, count, seed=7):
    """Random characters; none of them spells a placeholder for these seeds, which the tests themselves would show."""
    return "".join(random.Random(f"{alphabet}{count}{seed}").choices(alphabet, k=count))


def jwt(payload, signature=43):
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "RS256"}, payload)
    ]
    return ".".join([*parts, chars(ALNUM, signature)] if signature else parts)


def pem(kind, body, indent=""):
    return "\n".join(indent + line for line in (f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"))


def wrapped(text, width=76):
    return [text[at : at + width] for at in range(0, len(text), width)]


KEY_BODY = [chars(ALNUM + "+/", 64, seed) for seed in range(3)]

STRONG = {
    "AWS Access Key": "AKIA" + chars(string.ascii_uppercase + string.digits, 16),
    "Artifactory Credentials": "AKC" + "p" + chars(ALNUM, 69),
    "Azure Storage Account access key": "AccountKey" + "=" + chars(ALNUM + "+/", 86) + "==",
    "Discord Bot Token": "MT" + chars(ALNUM, 22) + "." + chars(ALNUM, 6) + "." + chars(ALNUM, 27),
    "GitHub Token": "ghp_" + chars(ALNUM, 36),
    "GitLab Token": "glpat-" + chars(ALNUM, 20),
    "JSON Web Token": jwt({"sub": "svc", "exp": NOW + 10**8}),
    "Mailchimp Access Key": chars(HEX, 32) + "-us14",
    "NPM tokens": "//registry.npmjs.org/:_auth" + "Token=npm_" + chars(ALNUM, 36),
    "OpenAI Token": "sk-" + chars(ALNUM, 20) + "T3Blbk" + "FJ" + chars(ALNUM, 20),
    "Anthropic Token": "sk-ant-" + "api03-" + chars(ALNUM, 60),
    "Google API Key": "AIza" + chars(ALNUM, 35),
    "Hugging Face Token": "hf_" + chars(ALNUM, 34),
    "PyPI Token": "pypi-AgE" + "IcHlwaS5vcmc" + chars(ALNUM, 90),
    "Private Key": pem("RSA PRIVATE" + " KEY", KEY_BODY),
    "SendGrid API Key": "SG." + chars(ALNUM, 22) + "." + chars(ALNUM, 43),
    "Slack Token": "xoxb-" + "839204117563-" + chars(LOWER, 24),
    "Square OAuth Secret": "sq0csp-" + chars(ALNUM, 43),
    "Stripe Access Key": "sk_live_" + chars(ALNUM, 24),
    "Telegram Bot Token": "839204117:AA" + chars(ALNUM, 33),
    "Twilio API Key": "SK" + chars(HEX, 32),
}

MORE_STRONG = [
    ("GitHub Token", "github_pat_" + chars(ALNUM, 82)),
    ("OpenAI Token", "sk-proj-" + chars(ALNUM, 60)),
    ("Slack Token", "https://hooks.slack.com/services/" + "T01AB2CD3/B04EF5GH6/" + chars(ALNUM, 24)),
    ("Private Key", pem("OPENSSH PRIVATE" + " KEY", KEY_BODY, indent="    ")),
    ("Private Key", pem("ENCRYPTED PRIVATE" + " KEY", KEY_BODY, indent="> ")),
    ("Private Key", pem("PGP PRIVATE" + " KEY BLOCK", ["", *KEY_BODY])),
    ("Private Key", '{"private_key": "' + "\\n".join(["-----BEGIN PRIVATE" + " KEY-----", *KEY_BODY]) + '\\n"}'),
    (
        "Private Key",
        "PuTTY-User-Key-" + "File-3: ssh-ed25519\nPrivate-Lines: 1\n" + KEY_BODY[0][:48] + "\nPrivate-MAC: 0",
    ),
    ("Private Key", "\n".join(KEY_BODY) + "\n-----END EC PRIVATE" + " KEY-----"),
    ("Private Key", "-----BEGIN RSA PRIVATE" + " KEY-----\n" + KEY_BODY[0] + "\n(torn off here)"),
    ("Private Key", "-----BEGIN PRIVATE" + " KEY-----\n" + "\n".join(KEY_BODY[0][at : at + 20] for at in (0, 20, 40))),
    ("Private Key", "\n".join(wrapped(base64.b64encode(pem("PRIVATE" + " KEY", KEY_BODY).encode()).decode()))),
    ("Private Key", "[Interface]\nPrivate" + "Key = " + base64.b64encode(bytes(range(3, 99, 3))).decode()),
    ("netrc", "machine quay.internal\n  login ida\n  password" + " Ferry-anchor42"),
    ("JSON Web Key", '{"kty": "OKP", "d": "' + chars(ALNUM, 43) + '"}'),
    ("Private Key", "AGE-SECRET-" + "KEY-1" + chars(string.ascii_uppercase + string.digits, 58)),
    ("Private Key", "wallet 5" + chars("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 50)),
    ("Private Key", "drive " + "-".join(chars(string.digits, 6, seed) for seed in range(8))),
    ("Twitter Bearer Token", "A" * 21 + chars(ALNUM, 80)),
    ("Asana Token", "1/" + chars(string.digits, 16) + ":" + chars(HEX, 32)),
    ("Azure DevOps Token", chars(ALNUM, 76) + "AZ" + "DO" + chars(ALNUM, 4)),
    ("RapidAPI Key", chars(HEX, 10) + "msh" + chars(HEX, 15) + "p1" + chars(HEX, 6) + "jsn" + chars(HEX, 12)),
]

HARMLESS = {
    "vendor's example key": "AKIA" + "IOSFODNN7EXAMPLE",
    "x-ed out token": "ghp_" + "x" * 36,
    "counting token": "glpat-" + "1234567890abcdefghij",
    "capital placeholder": 'api_key = "YOUR_COMET_API_KEY_0123"',
    "header of a key": pem("RSA PRIVATE" + " KEY", ["..."]),
    "key to be filled in": pem("PRIVATE" + " KEY", ["<base64 encoded private key data goes in here>"]),
    "key in words": pem("EC PRIVATE" + " KEY", ["YOUR-BASE64-ENCODED-KEY-MATERIAL-GOES-HERE-1234"]),
    "public key": pem("PUBLIC KEY", KEY_BODY),
    "certificate": pem("CERTIFICATE", KEY_BODY),
    "default login": "amqp://guest" + ":guest@rabbitmq:5672",
    "words for a login": "https://username" + ":personal_access_token@github.com/",
    "shell variables": "https://deploy" + ":${DEPLOY_TOKEN}@git.internal/",
    "angle brackets": "https://deploy" + ":<token>@git.internal/",
    "reserved host": "https://deploy" + ":Tr0ub4dor-9@ci.example.com/",
    "expired JSON Web Token": jwt({"sub": "svc", "exp": NOW - 60}),
    "unsigned JSON Web Token": jwt({"sub": "svc"}, signature=0),
    "well-known JSON Web Token": jwt({"sub": "1", "name": "John Doe"}),
    "prose about secrets": "The password: see the wiki. A secret = something only you know, a token: a word.",
    "base64 of a sentence": "secret: " + base64.b64encode(b"this is no password 123").decode(),
    "name of a secret": "secretName: ClusterIngressDefaultTlsSecret2",
    "digest": "token-ca-cert-hash sha256:" + chars(HEX, 64),
    "commit": "access key changed in " + chars(HEX, 40),
    "meeting": "https://zoom.us/j/614261834?pwd" + "=" + chars(ALNUM, 32),
    "ticket": "AKIAbc SK-1234 AC/DC eyJ is how it starts, xoxb- too, and ://x:@",
    "seven characters": "password: Ab3-xyz",
    "tag": "password: !vault quay/data/Tide1#Password2",
    "template": "password: {{ tide_db_password_V2 }}",
    "variable in a header": 'curl -H "Authorization: Bearer $TIDE_TOKEN_2031" https://quay.dev',
    "resource name": "arn:aws:secretsmanager:eu-west-1:000000000000:secret:Quay/Tide1/DbPassword-AbCdEf",
    "words as a password": "password: ferry-anchor-willow-pebble",
    "table of options": "| option | value |\n| --- | --- |\n| API_KEY | your key |",
    "type annotation": "def login(password: SecretStr2, token: str = None) -> None: ...",
    "technical words": "The password is base64-encoded, the token is SHA256-hashed, OAuth2 is not used.",
    "stars": "password: ************",
    "tokenizer": "tokenizer: quay100k_base_v2, tokenization = pieces_32k_v3",
    "secretary": "secretary: Ida-Willow42",
    "escaped placeholder": '{\\"password\\": \\"<password-1>\\"} password%3D%24%7BQUAY_PASSWORD1%7D',
    "variable in a pipe": 'echo "$QUAY_PASS1" | sudo -S ls; kinit <<< "${QUAY_PASS2}"',
    "steps below a heading": "## Recovery codes\n\n1. Open the app2\n2. Tap Backup",
    "database behind a flag": "mysql -h quay -P 3306 -u ida -p tides2031",
    "sentence without blanks": "パスワードは8文字以上です。",
    "attribute": "password = random_password.db2.result",
    "long row of one letter": "A" * 40,
    "pair of versions": "login with ida / OIDC-2031 (SSO)",
}


LOOSE = {
    "yaml": ("password: ", "Ferry-anchor42", "\nuser: ida"),
    "ini": ("db_passwd = ", chars(ALNUM, 12), ""),
    "environment": ("export QUAY_PASS=", "Ferry_anchor42", ""),
    "json": ('{"api_key": "', chars(ALNUM, 32), '", "page": 2}'),
    "hex key": ("API_KEY=", chars(HEX, 32), ""),
    "cloud secret": ("aws_secret_access_key = ", chars(ALNUM + "+/", 40), ""),
    "php": ("'password' => '", "Ferry-anchor42", "',"),
    "define": ("define('DB_PASSWORD', '", "Ferry-anchor42", "');"),
    "xml": ("<password>", "Ferry-anchor42", "</password>"),
    "attributes": ('<add key="Password" value="', "Ferry-anchor42", '"/>'),
    "two lines": ("- name: DB_PASSWORD\n  value: ", "Ferry-anchor42", ""),
    "next line": ("Password:\n\n```\n", "Ferry-anchor42", "\n```"),
    "sql": ("CREATE ROLE quay WITH PASSWORD '", "Ferry-anchor42", "';"),
    "connection string": ("Server=quay;User Id=ida;Password=", "Ferry-anchor42", ";Encrypt=true"),
    "query": ("https://quay.dev/feed?api_key=", chars(ALNUM, 30), "&page=2"),
    "sentence": ("The wifi password for guests is ", "Ferry-anchor42", ", ask Ida."),
    "sentence the other way": ("Use `", "Ferry-anchor42", "` as the root password."),
    "sentence on a key": ("My API key: `", chars(ALNUM, 32), "`, keep it."),
    "German": ("Das Passwort lautet ", "Ferry-anchor42", "."),
    "Spanish": ("Contraseña: ", "Ferry-anchor42", ""),
    "French": ("mot de passe : ", "Ferry-anchor42", ""),
    "Russian": ("пароль: ", "Ferry-anchor42", ""),
    "Japanese": ("パスワード：", "Ferry-anchor42", ""),
    "Chinese": ("密码是", "Ferry-anchor42", ""),
    "row": ("| password | ", "Ferry-anchor42", " |"),
    "column": ("| host | password |\n| --- | --- |\n| quay | ", "Ferry-anchor42", " |"),
    "comma-separated": ("host,user,password\nquay,ida,", "Ferry-anchor42", ""),
    "option": ("restic --password ", "Ferry-anchor42", " backup"),
    "escaped quotes": ('{\\"password\\": \\"', "Ferry-anchor42", '\\"}'),
    "entities": ("password=&quot;", "Ferry-anchor42", "&quot;"),
    "escaped markup": ("&lt;password&gt;", "Ferry-anchor42", "&lt;/password&gt;"),
    "percent signs": ("body=user%3Dida%26password%3D", "Ferry-anchor42", "%26page%3D1"),
    "code points": ("{\\u0022password\\u0022: \\u0022", "Ferry-anchor42", "\\u0022}"),
    "arrow": ("pwd → ", "Ferry-anchor42", ""),
    "quotation marks": ("Kennwort lautet: „", "Ferry-anchor42", "“"),
    "label above": ("> The password for Ida's laptop:\n> ", "Ferry-anchor42", ""),
    "heading above": ("## Root password\n\n", "Ferry-anchor42", ""),
    "label in brackets": ("lpass: ", "Ferry-anchor42", " (password)"),
    "label behind an arrow": ("", "Ferry-anchor42", " <- root password"),
    "pair": ("- Router: admin / ", "Ferry-anchor42", ""),
    "two lines of a login": ("NAS\n  login ida\n  pass ", "Ferry-anchor42", ""),
    "here-string": ("kinit <<< '", "Ferry-anchor42", "'"),
    "pipe": ("echo '", "Ferry-anchor42", "' | sudo -S ls"),
    "pipe with a user": ("echo 'root:", "Ferry-anchor42", "' | chpasswd"),
    "flag of its own": ("openssl enc -k ", "Ferry-anchor42", " -in tides"),
    "by place": ("rabbitmqctl add_user ida ", "Ferry-anchor42", ""),
    "recovery code": ("Recovery code: ", "wadge-ebr9x", ""),
    "numbered codes": ("## Backup codes\n\n1. ", "83910274", ""),
    "one-time secret": ("TOTP: ", chars(string.ascii_uppercase + "234567", 32), ""),
    "curl": ("curl -u ida:", "Ferry-anchor42", " https://quay.dev"),
    "mysql": ("mysql -u ida -p", "Ferry-anchor42", " tides"),
    "docker": ("ENV QUAY_PASSWORD ", "Ferry-anchor42", ""),
    "url": ("postgres://ida:", "Ferry-anchor42", "@db.internal:5432/tides"),
    "url with digits": ("redis://cache:", "8250349167", "@redis.internal:6379/0"),
    "basic": ("Authorization: Basic ", base64.b64encode(b"ida:Ferry-anchor42").decode(), ""),
    "bearer": ("curl -H 'Authorization: Bearer ", chars(ALNUM, 40), "' https://quay.dev"),
    "encoded": ("kind: Secret\ndata:\n  password: ", base64.b64encode(b"Ferry-anchor42").decode(), ""),
    "whole encoded block": (
        "  tls.key: ",
        base64.b64encode(pem("PRIVATE" + " KEY", KEY_BODY).encode()).decode(),
        "",
    ),
}


def strong_kinds(text, **options):
    return {finding.kind for finding in find_secrets(text, **options) if finding.tier is Tier.STRONG}


@pytest.mark.parametrize(("kind", "secret"), [*STRONG.items(), *MORE_STRONG])
def test_what_tells_by_itself_that_it_is_a_secret_is_found_with_kind_and_line(kind, secret):
    findings = find_secrets(f"# Ops\n\nWrite it down:\n\n{secret}\n\nDone.\n")
    strong = [each for each in findings if each.tier is Tier.STRONG]
    assert kind in {each.kind for each in strong}
    assert all(5 <= each.line <= 8 for each in strong)


@pytest.mark.parametrize(("before", "value", "behind"), LOOSE.values(), ids=LOOSE)
def test_a_value_that_is_called_a_secret_is_masked_and_nothing_else(before, value, behind):
    text = f"# Ops\n\nText.\n\n{before}{value}{behind}\n\nDone.\n"
    findings = find_secrets(text)
    assert {each.tier for each in findings} == {Tier.LOOSE}
    assert mask(text, findings) == f"# Ops\n\nText.\n\n{before}{MASK}{behind}\n\nDone.\n"


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_documentation_and_placeholders_are_no_secrets(text):
    assert find_secrets(f"Text before.\n{text}\nText behind.\n") == []


def test_a_placeholder_does_not_hide_the_secret_beside_it():
    line = f"old ghp_{'x' * 36} new {STRONG['GitHub Token']}"
    assert [(each.line, each.kind) for each in find_secrets(line)] == [(1, "GitHub Token")]


def test_every_rule_of_the_table_finds_what_it_describes_and_names_a_known_kind():
    assert set(STRONG) <= {*guard_tokens.TOKEN_KINDS, *guard_keys.KEY_KINDS}


def test_a_mask_keeps_every_line_where_it_is():
    text = "a\npassword: |\n  Ferry-anchor42\nb\ntoken: " + chars(HEX, 40) + "\nc\n"
    masked = mask(text, find_secrets(text))
    assert [place for place, line in enumerate(masked.split("\n")) if line in "abc"] == [0, 3, 5, 6]
    assert masked.count(MASK) == 2


def test_no_finding_holds_the_value():
    for secret in [*STRONG.values(), *(value for _, value, _ in LOOSE.values())]:
        shown = repr(find_secrets(f"password: {secret}"))
        assert secret[-16:] not in shown


def test_random_base64_is_nothing_by_chance():
    made = random.Random(20310301)
    for width in (76, 256, 10**6):
        block = base64.b64encode(made.randbytes(384_000)).decode()
        assert find_secrets("\n".join(wrapped(block, width))) == []


@pytest.mark.parametrize(
    ("value", "password", "key"),
    [
        ("Ferry-anchor42", True, True),
        (chars(HEX, 32), True, True),
        ("ferry-anchor-willow", False, False),
        ("8250349167", True, False),
        ("20310301", False, False),
        ("ClusterIngressDefaultTlsSecret2", True, False),
        ("quay-tls-v2", False, False),
        ("/etc/quay/password-file", False, False),
        ("short1A", False, False),
        ("sha256:" + chars(HEX, 64), False, False),
    ],
)
def test_which_values_count(value, password, key):
    assert (is_password(value), is_key(value)) == (password, key)


def test_a_web_token_counts_until_it_expires():
    token = jwt({"sub": "svc", "exp": 1_000})
    assert is_live_jwt(token, now_s=999)
    assert not is_live_jwt(token, now_s=1_001)


# --- allow list ------------------------------------------------------------------------------------------------------


def test_a_predicate_accepts_kinds_by_path_in_both_tiers():
    text = STRONG["GitHub Token"] + "\n" + STRONG["AWS Access Key"] + "\npassword: Ferry-anchor42\n"

    def allowed(path, kind):
        return path.startswith("fixtures/") and kind in ("GitHub Token", "Password")

    assert {each.kind for each in find_secrets(text, accepts=partial(allowed, "fixtures/a.md"))} == {"AWS Access Key"}
    assert {each.kind for each in find_secrets(text, accepts=partial(allowed, "notes/a.md"))} == {
        "GitHub Token",
        "AWS Access Key",
        "Password",
    }


# --- any text, and its cost ------------------------------------------------------------------------------------------


@given(st.text(max_size=300))
@example("\ud800" + STRONG["GitHub Token"])
@example("eyJ" + "e30" * 3 + "." + "[" * 5000)
@example("İpassword: Ferry-anchor42")
def test_any_text_is_scanned_and_masked_without_an_error(text):
    findings = find_secrets(text)
    assert all(text[each.start : each.end] for each in findings)
    assert mask(text, findings).count("\n") == text.count("\n")


RULE_MARKS = sorted({mark for rule in guard_tokens.TOKEN_RULES for mark in rule.marks})
WORDS = sorted({*guard_keys._WORDS, "api_key", "key"})
LOGIN_MARKS = sorted({mark for rule in guard_keys._LOGIN_RULES for mark in rule.marks})
UNITS = (
    (
        "a A 0 / ' \" | = : sk- eyJ eyJaaaaaaaa. =eyJaaaaaaaa :// ://a: ://a:b@ BEGIN\u2007PRIVATE\u2007KEY----- "
        "-----END\u2007PRIVATE\u2007KEY----- UFJJVkFURSBLRVkt password='a >password<a password,b\n |password|\n|---|\n"
    )
    .replace("\u2007", " ")
    .split(" ")
)


def cost(text):
    started = time.process_time()
    find_secrets(text)
    return time.process_time() - started


def grows_in_proportion(unit, small, before=""):
    def repeated(size):
        return cost(before + (unit * (size // len(unit) + 1))[:size])

    return keeps_pace(repeated, small, at_most=16, floor=1e-3)


@pytest.mark.parametrize("tail", ["", "=", " ", "\n", ": a", "a1B2c3"])
@pytest.mark.parametrize("marks", [RULE_MARKS, WORDS, LOGIN_MARKS, UNITS], ids=["tokens", "words", "logins", "units"])
def test_every_rule_costs_time_in_proportion_to_the_text_whatever_is_repeated(marks, tail):
    slow = [mark for mark in marks if mark and not grows_in_proportion(mark + tail, 1_000)]
    assert slow == []


@pytest.mark.parametrize(
    "unit", ["sk-", "eyJ", "password=", "://a:", " ", "A", "a1B2", "-----BEGIN PRIVATE" + " KEY-----"]
)
def test_a_long_line_of_one_beginning_costs_time_in_proportion(unit):
    assert grows_in_proportion(unit, 25_000)


@pytest.mark.parametrize(
    "run", [" ", "\n", "\t", "\\", "`", "%", "&", "a ", "- ", "> ", "| ", "\n1. ", "tide ", "a1b2c3 "]
)
def test_one_word_before_a_long_run_costs_time_in_proportion(run):
    """A run that two repetitions of one shape can share is what makes it quadratic."""
    words = [
        "password",
        "password:",
        "api_key",
        "login a",
        "admin",
        "echo a1b2c3d4e5 |",
        "backup codes",
        "otp",
        "<<<",
        "seed",
    ]

    slow = [word for word in words if not grows_in_proportion(run, 10_000, before=word)]
    assert slow == []


@pytest.mark.parametrize("before", ["", "=", "'", "/", "\\n", "a/b="])
def test_a_token_is_found_behind_every_sign_that_lets_it_begin(before):
    token = STRONG["GitHub Token"]
    assert strong_kinds(f"text {before}{token} text") == {"GitHub Token"}


def test_a_secret_behind_megabytes_without_a_line_break_is_found():
    text = "lorem ipsum " * 420_000 + STRONG["GitHub Token"]
    assert strong_kinds(text) == {"GitHub Token"}
