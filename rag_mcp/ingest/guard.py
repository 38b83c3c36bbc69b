"""Recognised secrets in a text, by kind and line and never by value; the one owner of detect-secrets.

Two steps. A text is first searched for shapes of our own, each a superset of what the library's plugin of that kind
accepts; that takes about a millisecond for 10,000 characters and imports nothing. Only around a shape found is the
plugin asked, directly (``analyze_string``): the library's scanner keeps global settings and may verify a key over the
network. Kinds the library has no (or only an outdated) plugin for are decided by the shape alone.

A file is left out as a whole, so an example must not count: a value is dropped when it is an evident placeholder, a
sample login, a JSON Web Token that has expired or lacks a signature, or a private key's header without a key behind
it. Left out on purpose, counted over 3,525 files of public documentation: the library's high-entropy plugins (50 hits in 29
files: digests and ids) and its keyword plugin (49 hits in 18 files, all examples), whose place a stricter rule takes:
a long value of mixed letters and digits assigned to a name that says it is secret. Kinds are the library's names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice

__all__ = ["MAX_FINDINGS", "AllowList", "SecretFinding", "find_secrets", "secret_kinds"]

MAX_FINDINGS = 20
"""At most so many per rule: a caller that lets one kind pass must still hear of the others."""

_CONTEXT_CHARS = 96  # what a plugin may need around a value: a name, an assignment, quotes


@dataclass(frozen=True, slots=True, order=True)
class SecretFinding:
    """``line`` counts from 1. The value itself is kept nowhere."""

    line: int
    kind: str


def _nothing(_path: str, _kind: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AllowList:
    """What is known to be harmless: ``accepts(path, kind)``, or the SHA-256 (hex, of UTF-8) of a value in ``values``."""

    accepts: Callable[[str, str], bool] = _nothing
    values: frozenset[str] = field(default=frozenset(), repr=False)


def find_secrets(
    text: str, *, path: str = "", allow: AllowList | None = None, now_s: float | None = None
) -> list[SecretFinding]:
    """Return what ``allow`` does not accept, by line, each line once a kind.

    ``path`` is relative and posix, for ``allow`` only. ``now_s`` (Unix time, default: now) decides which JSON Web
    Tokens have expired.
    """
    allow = allow or AllowList()
    caseless = text.casefold()
    now = time.time() if now_s is None else now_s
    found: set[SecretFinding] = set()
    for rule in _RULES:
        if not rule.may_match(text, caseless) or allow.accepts(path, rule.kind):
            continue
        found.update(islice(_apply(rule, text, allow, now), MAX_FINDINGS))
    return sorted(found)


def secret_kinds() -> tuple[str, ...]:
    """Return every kind that can be reported, sorted; the names an allow list uses."""
    return tuple(sorted({rule.kind for rule in _RULES}))


# --- one rule --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    value: str
    found: re.Match[str]
    now_s: float


def _no_placeholder(match: _Match) -> bool:
    return not _is_placeholder(match.value)


@dataclass(frozen=True, slots=True)
class _Rule:
    """``marks``: one of them stands in every text with a match, ``caseless_marks`` in its casefolded form; none of
    both means the shape itself is cheap.

    ``shape`` may name its ``value``, else the whole match is the value; it must run in linear time on any text.
    ``plugin`` ("module.Class" of detect_secrets.plugins) must confirm the match in its line, if given.
    """

    kind: str
    shape: re.Pattern[str]
    marks: tuple[str, ...]
    caseless_marks: tuple[str, ...]
    plugin: str | None
    genuine: Callable[[_Match], bool]

    def may_match(self, text: str, caseless: str) -> bool:
        if not self.marks and not self.caseless_marks:
            return True
        return any(mark in text for mark in self.marks) or any(mark in caseless for mark in self.caseless_marks)


def _apply(rule: _Rule, text: str, allow: AllowList, now_s: float) -> Iterator[SecretFinding]:
    line, counted, line_end = 1, 0, -1
    for found in rule.shape.finditer(text):
        if found.start() < line_end:
            continue  # this line is reported already
        named = "value" in rule.shape.groupindex and found["value"] is not None
        value = found["value"] if named else found[0]
        if not rule.genuine(_Match(value, found, now_s)) or _digest(value) in allow.values:
            continue
        if rule.plugin is not None and not _confirms(rule.plugin, _surroundings(text, found)):
            continue
        start = found.start("value") if named else found.start()
        line, counted = line + text.count("\n", counted, start), start
        line_end = text.find("\n", start)
        if line_end < 0:
            line_end = len(text)
        yield SecretFinding(line, rule.kind)


def _surroundings(text: str, found: re.Match[str]) -> str:
    """The match with a little of its line on either side, so that a plugin's cost does not grow with the line."""
    start = max(found.start() - _CONTEXT_CHARS, 0)
    start = max(start, text.rfind("\n", start, found.start()) + 1)
    line_end = text.find("\n", found.end(), found.end() + _CONTEXT_CHARS)
    return text[start : line_end if line_end >= 0 else found.end() + _CONTEXT_CHARS]


def _confirms(plugin: str, text: str) -> bool:
    module, _, name = plugin.partition(".")
    detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
    return any(True for _ in detector.analyze_string(text))


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


# --- what is no secret -----------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"example|placeholder|change[_-]?me|redacted|dummy|foobar|insert|your[_-]|x{5}|\*{3}|\.{3}|…|[<>{}]|\$[({A-Z_]"
    r"|0123456|1234567|2345678|abcdefg|deadbeef|(.)\1{5}",
    re.IGNORECASE,
)


def _is_placeholder(value: str) -> bool:
    return _PLACEHOLDER.search(value) is not None or len(set(value)) < 6


def _is_random(match: _Match) -> bool:
    """Lower and upper case letters and at least two digits, as a generated key has and a name in prose has not."""
    value = match.value
    mixed = re.search("[a-z]", value) and re.search("[A-Z]", value)
    return bool(mixed) and len(re.findall("[0-9]", value)) >= 2 and not _is_placeholder(value)


_SAMPLE_WORDS = re.compile(
    r"""(?x)(?:
        a | access | admin | api | apikey | auth | bar | basic | baz | changeme | client | database | db |
        default | demo | example | foo | guest | hostname | key | login | me | minioadmin | mongo | my |
        mypassword | mysecret | mysql | name | oauth | pass | passwd | password | personal | port | postgres
        | pswd | pw | pwd | rabbitmq | redis | root | sample | secret | some | t | test | the | token | u |
        user | username | userpass | value | x | xxx | your
    )"""
)
_RESERVED_HOST = re.compile(
    r"(?:[\w.-]*\.)?(?:example(?:\.(?:com|net|org|edu))?|test|invalid)(?![\w.-]*\w)", re.IGNORECASE
)


def _is_login(match: _Match) -> bool:
    """No sample login: user equal to password, only words such as "password", or a host reserved for examples."""
    user, password, host = (match.found[name] for name in ("user", "value", "host"))
    words = [word for word in re.split(r"[\W\d_]+", password.casefold()) if word]
    sample = user == password or all(_SAMPLE_WORDS.fullmatch(word) for word in words) or _RESERVED_HOST.match(host)
    return not sample and not re.search(r"[<>{}…*%\"'`|\\]|\.{3}|x{3}", password + user)


def _is_live_jwt(match: _Match) -> bool:
    """Signed, with a JSON payload that has not expired and is not the well-known sample of a John Doe."""
    parts = match.value.split(".")
    if len(parts) < 3 or len(parts[2]) < 16:
        return False
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return False
    if not isinstance(payload, dict) or payload.get("name") == "John Doe":
        return False
    expires = payload.get("exp")
    return not isinstance(expires, (int, float)) or expires > match.now_s


def _holds_key(match: _Match) -> bool:
    """A line behind a private key's header is base64, not dots or words in angle brackets."""
    body = re.sub(r"\\[nr]", "\n", match.value)
    body = re.sub(r"(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*", "", body)
    runs = re.findall(r"[A-Za-z0-9+/=]{24,}", body)
    return any(len(set(run)) >= 12 and re.search("[0-9]", run) and not _is_placeholder(run[:64]) for run in runs)


def _is_openai(match: _Match) -> bool:
    return "T3BlbkFJ" in match.value and _no_placeholder(match)


_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd|secret|contrase[nñ]a|token|credential"
    r"|(?:api|auth|access|account|client|service|signing|encryption|priv(?:ate)?|db|database|master|storage)[_-]?key"
    r"|(?:db|database|key)[_-]?pass)[\w-]{0,24}[\"'`\]]{0,3}\s{0,3}\Z",
    re.IGNORECASE,
)


def _is_assigned(match: _Match) -> bool:
    """A random value behind a name that says it is secret (``api_key = "..."``), and no readable text in base64.

    A ``pwd`` in a web address is the number plate of a public meeting.
    """
    if len(match.value) > 512 or not _is_random(match) or _encodes_words(match.value):
        return False
    text, start = match.found.string, match.found.start()
    name = _SECRET_NAME.search(text, max(0, start - 64), start)
    return name is not None and not (name[0] == "pwd" and text[name.start() - 1] in "?&")


def _encodes_words(value: str) -> bool:
    """Base64 of a sentence, of JSON (the head of a JSON Web Token, which has a rule of its own) or of a placeholder."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except ValueError:
        return False
    return " " in decoded or decoded.startswith("{") or _is_placeholder(decoded)


# --- the rules -------------------------------------------------------------------------------------------------------

# Characters that end a user name or password in a URL, as the library's plugin has them.
_URL_RESERVED = re.escape(":/?#[]@!$&'()*+,;=")


def _rule(
    kind: str,
    shape: str,
    *,
    marks: str = "",
    caseless_marks: str = "",
    plugin: str | None = None,
    genuine: Callable[[_Match], bool] = _no_placeholder,
) -> _Rule:
    return _Rule(kind, re.compile(shape), tuple(marks.split()), tuple(caseless_marks.split()), plugin, genuine)


# A shape begins with a literal or a small class where it can, for that is what makes a search fast. The long s and the
# Kelvin sign are what a caseless pattern of the library accepts for s and k.
_RULES: tuple[_Rule, ...] = (
    _rule(
        "AWS Access Key",
        r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
        marks="AKIA ASIA ABIA ACCA A3T",
        plugin="aws.AWSKeyDetector",
    ),
    _rule(
        "AWS Access Key",
        r"['\"](?P<value>[0-9a-zA-Z/+\u017f\u212a]{40})['\"]",
        caseless_marks="aws",
        plugin="aws.AWSKeyDetector",
    ),
    _rule(
        "Artifactory Credentials",
        r"AKC[a-zA-Z0-9]{10,}|AP[\dABCDEF][a-zA-Z0-9]{8,}",
        marks="AKC AP",
        plugin="artifactory.ArtifactoryDetector",
        genuine=_is_random,
    ),
    _rule(
        "Azure Storage Account access key",
        r"AccountKey=(?P<value>[a-zA-Z0-9+/=]{88})",
        marks="AccountKey=",
        plugin="azure_storage_key.AzureStorageKeyDetector",
    ),
    _rule(
        "Basic Auth Credentials",
        rf"://(?P<user>[^{_URL_RESERVED}\s]++):(?P<value>[^{_URL_RESERVED}\s]++)@(?P<host>[\w.-]{{0,255}})",
        marks="://",
        plugin="basic_auth.BasicAuthDetector",
        genuine=_is_login,
    ),
    _rule(
        "Cloudant Credentials",
        r"[=:> ][\"']?(?P<value>[0-9a-fA-F]{64}|[a-zA-Z\u017f\u212a]{24})",
        caseless_marks="cloudant clou_ clou- cloukey cloupw cloupass cloutoken clouapi clapi cl_ cl- clkey clpw clpass cltoken",
        plugin="cloudant.CloudantDetector",
    ),
    _rule(
        "Cloudant Credentials",
        r"(?i::(?P<value>[0-9a-f]{64}|[a-z]{24})@[\w-]+\.cloudant\.com)",
        caseless_marks=".cloudant.com",
        plugin="cloudant.CloudantDetector",
    ),
    _rule(
        "Discord Bot Token",
        r"\.[a-zA-Z\d_-]{6}\.(?P<value>[a-zA-Z\d_-]{27})",
        plugin="discord.DiscordBotTokenDetector",
        genuine=_is_random,
    ),
    _rule(
        "GitHub Token",
        r"gh[pousr]_[A-Za-z0-9_]{36}",
        marks="ghp_ gho_ ghu_ ghs_ ghr_",
        plugin="github_token.GitHubTokenDetector",
    ),
    _rule("GitHub Token", r"github_pat_[A-Za-z0-9_]{60,}+", marks="github_pat_"),
    _rule(
        "GitLab Token",
        r"(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[A-Za-z0-9_-]{20,}+",
        marks="glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- glagent- gloas- GR1348941",
        plugin="gitlab_token.GitLabTokenDetector",
    ),
    _rule(
        "IBM Cloud IAM Key",
        r"[=:> ][\"']?(?P<value>[a-zA-Z0-9_\u017f\u212a-]{44}(?![a-zA-Z0-9_-]))",
        caseless_marks="key pwd pass token",
        plugin="ibm_cloud_iam.IbmCloudIamDetector",
        genuine=_is_random,
    ),
    _rule(
        "IBM COS HMAC Credentials",
        r"[=:> ][\"']?(?P<value>[a-fA-F0-9]{48}(?![a-fA-F0-9]))",
        caseless_marks="secret",
        plugin="ibm_cos_hmac.IbmCosHmacDetector",
    ),
    _rule(
        "JSON Web Token",
        r"eyJ[A-Za-z0-9_=-]++\.[A-Za-z0-9_=-]++(?:\.[A-Za-z0-9_+/=-]*+)?+",
        marks="eyJ",
        plugin="jwt.JwtTokenDetector",
        genuine=_is_live_jwt,
    ),
    _rule(
        "Mailchimp Access Key",
        r"-us(?<=(?P<value>[0-9a-z]{32})-us)[0-9]{1,2}",
        marks="-us",
        plugin="mailchimp.MailchimpDetector",
    ),
    # The library's pattern for npm takes quadratic time on a line full of slashes.
    _rule(
        "NPM tokens",
        r":_authToken=\s*(?P<value>npm_[\w-]{8,}+|[A-Fa-f0-9-]{36})|npm_[A-Za-z0-9]{36}",
        marks=":_authToken= npm_",
    ),
    _rule(
        "OpenAI Token", r"sk-[A-Za-z0-9_-]{20,}+", marks="T3BlbkFJ", plugin="openai.OpenAIDetector", genuine=_is_openai
    ),
    _rule("OpenAI Token", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}+", marks="sk-proj- sk-svcacct- sk-admin-"),
    _rule("Anthropic Token", r"sk-ant-[A-Za-z0-9_-]{40,}+", marks="sk-ant-"),
    _rule("Google API Key", r"AIza[0-9A-Za-z_-]{35}", marks="AIza"),
    _rule("Hugging Face Token", r"hf_[A-Za-z0-9]{34}", marks="hf_"),
    _rule("PyPI Token", r"pypi-AgE[A-Za-z0-9_-]{70,}+", marks="pypi-AgE", plugin="pypi_token.PypiTokenDetector"),
    # The library reports the header line alone, which every TLS guide quotes.
    _rule(
        "Private Key",
        r"BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?(?:-----| ----)?(?P<value>(?:[^-]|-(?!-)){0,4096})",
        marks="PRIVATE KEY",
        genuine=_holds_key,
    ),
    _rule(
        "Private Key",
        r"Private-Lines: *[0-9]+(?P<value>[^-]{0,4096})",
        marks="PuTTY-User-Key-File-",
        genuine=_holds_key,
    ),
    _rule("Private Key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", marks="AGE-SECRET-KEY-1"),
    _rule(
        "SendGrid API Key",
        r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}",
        marks="SG.",
        plugin="sendgrid.SendGridDetector",
    ),
    _rule(
        "Slack Token",
        r"(?i:xox[abposr]-(?:\d++-)++[a-z0-9]+|https://hooks\.slack\.com/services/T\w+/B\w+/(?P<value>\w+))",
        caseless_marks="xoxa- xoxb- xoxp- xoxo- xoxs- xoxr- hooks.slack.com/services/",
        plugin="slack.SlackDetector",
    ),
    _rule("Slack Token", r"xapp-\d-[A-Z0-9]{8,}+-\d{8,}+-[a-f0-9]{32,}+", marks="xapp-"),
    _rule(
        "SoftLayer Credentials",
        r"[=:> /][\"']?(?P<value>[a-zA-Z0-9\u017f\u212a]{64})",
        caseless_marks="softlayer slapi sl_ sl- slkey slpwd slpass sltoken",
        plugin="softlayer.SoftlayerDetector",
    ),
    _rule(
        "Square OAuth Secret",
        r"sq0csp-[0-9A-Za-z\\_-]{43}",
        marks="sq0csp-",
        plugin="square_oauth.SquareOAuthDetector",
    ),
    _rule("Stripe Access Key", r"[rs]k_live_[0-9a-zA-Z]{24,}+", marks="k_live_", plugin="stripe.StripeDetector"),
    _rule(
        "Telegram Bot Token",
        r":(?<=\d{8}:)(?P<value>[0-9A-Za-z_-]{35})",
        plugin="telegram_token.TelegramBotTokenDetector",
        genuine=_is_random,
    ),
    _rule("Twilio API Key", r"(?:AC|SK)[a-z0-9]{32}", marks="AC SK", plugin="twilio.TwilioKeyDetector"),
    _rule("Secret Keyword", r"[=:]>?\s{0,3}[\"'`]?(?P<value>[A-Za-z0-9+/_=-]{20,}+)", genuine=_is_assigned),
)
