"""Every secret here is put together at run time, so that no scanner takes this file for one that holds any."""

import base64
import json
import random
import string
import subprocess
import sys
import time
from importlib import import_module

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from rag_mcp.ingest import guard
from rag_mcp.ingest.guard import MAX_FINDINGS, AllowList, SecretFinding, find_secrets, secret_kinds

NOW = 1_900_000_000.0
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


KEY_BODY = [chars(ALNUM + "+/", 64, seed) for seed in range(3)]

SECRETS = {
    "AWS Access Key": "AKIA" + chars(string.ascii_uppercase + string.digits, 16),
    "Artifactory Credentials": "token: AKC" + chars(ALNUM, 20) + " ",
    "Azure Storage Account access key": "AccountKey" + "=" + chars(ALNUM + "+/", 86) + "==",
    "Basic Auth Credentials": "postgres://ledger" + ":" + "Tr0ub4dor-9" + "@db.internal:5432/books",
    "Cloudant Credentials": "cloudant_key" + "=" + chars(HEX, 64),
    "Discord Bot Token": "M" + chars(ALNUM, 23) + "." + chars(ALNUM, 6) + "." + chars(ALNUM, 27),
    "GitHub Token": "ghp_" + chars(ALNUM, 36),
    "GitLab Token": "glpat-" + chars(ALNUM, 20),
    "IBM Cloud IAM Key": "ibm_cloud_key " + chars(ALNUM, 44),
    "IBM COS HMAC Credentials": "secret_access_key" + " = " + chars(HEX, 48),
    "JSON Web Token": jwt({"sub": "svc", "exp": NOW + 60}),
    "Mailchimp Access Key": chars(LOWER, 32) + "-us14",
    "NPM tokens": "//registry.npmjs.org/:_auth" + "Token=npm_" + chars(ALNUM, 36),
    "OpenAI Token": "sk-" + chars(ALNUM, 20) + "T3Blbk" + "FJ" + chars(ALNUM, 20),
    "Anthropic Token": "sk-ant-" + "api03-" + chars(ALNUM, 60),
    "Google API Key": "AIza" + chars(ALNUM, 35),
    "Hugging Face Token": "hf_" + chars(ALNUM, 34),
    "PyPI Token": "pypi-AgE" + "IcHlwaS5vcmc" + chars(ALNUM, 90),
    "Private Key": pem("RSA PRIVATE" + " KEY", KEY_BODY),
    "SendGrid API Key": "SG." + chars(ALNUM, 22) + "." + chars(ALNUM, 43),
    "Slack Token": "xoxb-" + "839204117563-" + chars(LOWER, 24),
    "SoftLayer Credentials": "softlayer_api_key" + ": " + chars(LOWER, 64),
    "Square OAuth Secret": "sq0csp-" + chars(ALNUM, 43),
    "Stripe Access Key": "sk_live_" + chars(ALNUM, 24),
    "Telegram Bot Token": "839204117:AA" + chars(ALNUM, 33),
    "Twilio API Key": "SK" + chars(LOWER, 32),
    "Secret Keyword": 'ledger_api_key = "' + chars(ALNUM, 28) + '"',
}

MORE_SECRETS = [
    ("AWS Access Key", 'aws_secret_key = "' + chars(ALNUM + "+/", 40) + '"'),
    ("Secret Keyword", "aws_secret_access_key = " + chars(ALNUM, 40)),
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
    ("Private Key", "AGE-SECRET-" + "KEY-1" + chars(string.ascii_uppercase + string.digits, 58)),
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
}


def kinds(text, **options):
    return {finding.kind for finding in find_secrets(text, now_s=NOW, **options)}


def test_every_kind_that_can_be_reported_is_tried_below():
    assert set(SECRETS) == set(secret_kinds())


@pytest.mark.parametrize(("kind", "secret"), [*SECRETS.items(), *MORE_SECRETS])
def test_a_secret_in_the_middle_of_a_note_is_found_with_kind_and_line(kind, secret):
    findings = find_secrets(f"# Ops\n\nWrite it down:\n\n{secret}\n\nDone.\n", now_s=NOW)
    assert kind in {each.kind for each in findings}
    assert all(5 <= each.line <= 7 for each in findings)


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_documentation_and_placeholders_are_no_secrets(text):
    assert find_secrets(f"Text before.\n{text}\nText behind.\n", now_s=NOW) == []


def test_a_placeholder_does_not_hide_the_secret_beside_it():
    line = f"old ghp_{'x' * 36} new {SECRETS['GitHub Token']}"
    assert find_secrets(line, now_s=NOW) == [SecretFinding(1, "GitHub Token")]


def test_findings_come_by_line_and_each_line_counts_once_a_kind():
    token, key = SECRETS["GitHub Token"], SECRETS["AWS Access Key"]
    text = f"{token} {token}\n\n{key}\n{token}\n"
    assert [(each.line, each.kind) for each in find_secrets(text, now_s=NOW)] == [
        (1, "GitHub Token"),
        (3, "AWS Access Key"),
        (4, "GitHub Token"),
    ]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_report_holds_the_value(secret):
    shown = repr(find_secrets(secret, now_s=NOW)) + str(find_secrets(secret, now_s=NOW))
    assert not any(
        secret[at : at + 12] in shown.replace(repr(secret_kinds()), "") for at in range(20, len(secret) - 12)
    )


# --- allow list ------------------------------------------------------------------------------------------------------


def test_a_predicate_accepts_kinds_by_path():
    text = SECRETS["GitHub Token"] + "\n" + SECRETS["AWS Access Key"]
    allow = AllowList(accepts=lambda path, kind: path.startswith("fixtures/") and kind == "GitHub Token")
    assert kinds(text, path="fixtures/a.md", allow=allow) == {"AWS Access Key"}
    assert kinds(text, path="notes/a.md", allow=allow) == {"GitHub Token", "AWS Access Key"}


def test_a_digest_accepts_one_value_only():
    token, other = SECRETS["GitHub Token"], "ghp_" + chars(ALNUM, 36, seed=8)
    allow = AllowList(values=frozenset({guard._digest(token)}))
    assert find_secrets(f"{token}\n{other}", allow=allow, now_s=NOW) == [SecretFinding(2, "GitHub Token")]


# --- the shapes against the library ----------------------------------------------------------------------------------

RULES_BY_PLUGIN = {}
for _each in guard._RULES:
    if _each.plugin is not None:
        RULES_BY_PLUGIN.setdefault(_each.plugin, []).append(_each)


def _patterns():
    for plugin in RULES_BY_PLUGIN:
        module, _, name = plugin.partition(".")
        for number, pattern in enumerate(getattr(import_module(f"detect_secrets.plugins.{module}"), name).denylist):
            yield pytest.param(plugin, pattern, id=f"{name}-{number}")


@pytest.mark.parametrize(("plugin", "pattern"), list(_patterns()))
def test_whatever_the_library_would_find_our_shapes_find_first(plugin, pattern):
    rules = RULES_BY_PLUGIN[plugin]

    @settings(max_examples=25, deadline=None, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern))
    def covered(text):
        found = pattern.search(text)[0]
        if "\n" not in found:  # the library reads line by line
            assert any(rule.may_match(text, text.casefold()) and rule.shape.search(text) for rule in rules)

    covered()


@given(st.text(max_size=300))
@example("\ud800" + SECRETS["GitHub Token"])
@example("eyJ" + "e30" * 3 + "." + "[" * 5000)
def test_any_text_is_scanned_without_an_error(text):
    assert all(1 <= finding.line <= text.count("\n") + 1 for finding in find_secrets(text, now_s=NOW))


# --- cost ------------------------------------------------------------------------------------------------------------


def test_a_clean_text_does_not_load_the_library():
    script = (
        "import sys; from rag_mcp.ingest.guard import find_secrets;"
        "assert not find_secrets('A key = value, http://a.b:80/ and a token. ' * 300);"
        "assert 'detect_secrets' not in sys.modules and 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=60)


def test_the_plugins_are_asked_without_their_network_check(monkeypatch):
    import requests

    def refuse(*_args, **_kwargs):
        raise AssertionError("a scan must not go online")

    monkeypatch.setattr(requests.sessions.Session, "request", refuse)
    for kind, secret in SECRETS.items():
        assert kind in kinds(secret)


HOSTILE = {
    "one letter": "a",
    "one capital": "M",
    "digits": "0123456789",
    "slashes": "//",
    "urls without end": "://a:",
    "assignments": "secret=",
    "quotes": "'aws key'",
    "headers": "BEGIN PRIVATE" + " KEY-----",
    "putty": "PuTTY-User-Key-" + "File-2Private-Lines:1",
    "tokens begun": "eyJeyJ.",
    "slack begun": "xoxb-1-",
    "npm begun": "//:_auth" + "Token=",
    "example keys": "AKIA" + "IOSFODNN7EXAMPLE ",
    "keys": "AKIA" + chars(string.ascii_uppercase + string.digits, 16) + " ",
    "near misses": "key " + chars(ALNUM, 44) + "\t",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_a_long_line_costs_time_in_proportion(unit):
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    assert len(find_secrets(text, now_s=NOW)) <= 2
    assert time.process_time() - start < 8


def test_five_megabytes_without_a_line_break_are_scanned_to_the_end():
    start = time.process_time()
    text = "lorem ipsum " * 420_000 + SECRETS["GitHub Token"]
    assert find_secrets(text, now_s=NOW) == [SecretFinding(1, "GitHub Token")]
    assert time.process_time() - start < 15


def test_many_secrets_of_one_kind_are_cut_short_and_hide_no_other_kind():
    tokens = "\n".join("ghp_" + chars(ALNUM, 36, seed) for seed in range(2 * MAX_FINDINGS))
    found = [each.kind for each in find_secrets(f"{tokens}\n{SECRETS['Stripe Access Key']}", now_s=NOW)]
    assert found == ["GitHub Token"] * MAX_FINDINGS + ["Stripe Access Key"]
