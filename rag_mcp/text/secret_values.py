"""Is this value a secret, or a placeholder, a reference, a sample, an identifier? Pure, and linear in the value."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time

__all__ = [
    "MAX_VALUE_CHARS",
    "MIN_VALUE_CHARS",
    "decoded_login",
    "holds_key_material",
    "is_filler",
    "is_key",
    "is_live_jwt",
    "is_login",
    "is_password",
    "is_token",
    "is_whole_encoded_key",
]

MIN_VALUE_CHARS = 8
MAX_VALUE_CHARS = 512

_FILLER = re.compile(
    r"example|placeholder|change[_-]?me|changeit|redacted|dummy|foobar|insert[_-]|replace[_-]?(?:me|with|this)|your[_-]"
    r"|goes[_-]?here|todo|x{5}|\*{3}|\.{3}|…|•{3}|█{2}|(.)\1{5}|0123456|1234567|2345678|3456789|9876543|abcdefg"
    r"|abcdef012|deadbeef|cafebabe",
    re.IGNORECASE,
)

# What stands for a value that is kept elsewhere: variables, templates, lookups, calls, tags.
_REFERENCE = re.compile(
    r"""(?xi)
      \$ (?: [{(] .* | [a-z_][\w.:>\[\]-]* )  | % [a-z_]\w* % | [{\[]{2} .* | [{\[(<] .* [}\])>] | \{ .* | < .* | @ \w+ @
    | \# \{ .* | __ \w+ __ | ! [a-z]+ (?: /\w+ )? | ENC [\[(] .* | [&*] [a-z_]\w* | & \w+ ; .*
    | (?: vault | op | ssm | aws | azure | gcp | secret s? | secretref | env | file | keyring | arn | sm | doppler
        | keyvault | bws | https? | s3 | gs | ref\+\w+ | data ) : .*
    | (?: os | process | env | config | settings | secrets? | self | this | var | local | vars | module | import\.meta
        | request | req | response | res | params | args | options | opts | props | context | ctx ) [.\[(] .*
    | [\w.:>-]{0,80} \( .*
    | [a-z_]\w* (?: \.\w+ ){0,4} \. (?: result | value | arn | id | name | text | output | secret_string | password | token | key | data )
    """
)

_DIGEST = re.compile(r"(?:sha-?\d{1,3}|md5|crc32|blake\w{0,3})[:=-]", re.IGNORECASE)
_TECHNICAL = re.compile(
    r"(?:base|sha|md|utf|oauth|ipv|pbkdf|argon|bcrypt|pkcs|x|k|s|http|tls|ed|aes|rsa|hs|rs|es|win|int|uint|float|rfc|v"
    r"|jsr|iso|h|p|e|i)\d{1,5}(?:id|s|n|k|encoded|hashed)?|totp2fa|2fa|3des|128bit|256bit|\d{1,4}",
    re.IGNORECASE,
)
_SAMPLE = re.compile(
    r"""(?xi) p[a@4][s$5]{2}@?(?:w[o0]?r?d|phrase|code)? | pwd? | s[e3]cr[e3]ts? | adm[i1]n(?:istrator)? | r[o0]{2}t | us[e3]r(?:name)?
    | t[e3]st(?:ing)? | token | keys? | api | access | client | my | your | demo | sample | default | super | strong | some
    | value | here | goes | db | mysql | postgres(?:ql)? | mongo | redis | rabbitmq | minio | database | hunter2? | letmein
    | qwerty | welcome | correct | horse | battery | staple | foo | bar | baz | guest | login | auth | basic | service | svc
    | account | aladdin | open | sesame | string | random | generated | long | very | and | the | not | this | that | new | old
    | personal | host(?:name)? | oauth | port | name | me | pass | enter | type | add | put | with | is | in | of | a | x+
    | abc(?:def)? | 1234567890 | 12345678 | 123456 | 12345 | 1234 | 123 | 321
    """
)
_JWT = re.compile(r"eyJ[\w-]{4,4000}\.[\w=-]")  # has a rule of its own
_SEPARATORS = re.compile(r"[\W_]+")
_CLASS = str.maketrans(
    {**{chr(c): "a" for c in range(97, 123)}, **{chr(c): "A" for c in range(65, 91)}}
    | {chr(c): "0" for c in range(48, 58)}
)


def is_filler(value: str) -> bool:
    """Tell whether this stands where a secret would: an example, stars, dots, a counted-up row, few characters."""
    return _FILLER.search(value) is not None or len(set(value)) < 6


def is_token(value: str) -> bool:
    """Tell whether what follows a maker's prefix was handed out: no filler, and no words joined by hyphens."""
    if is_filler(value):
        return False
    parts = _SEPARATORS.split(value)
    return any(len(part) >= 16 or not (_is_word(part) or _TECHNICAL.fullmatch(part)) for part in parts if part)


def is_password(value: str) -> bool:
    """Tell whether a person or a generator may have chosen this, given that something says it is a password.

    Letters with digits or marks, digits alone, or letters in an order no word has; never words alone.
    """
    if not _may_be(value):
        return False
    letters = sum(char.isalpha() for char in value)
    digits = sum(char.isdigit() for char in value)
    marks = sum(not char.isalnum() and char not in "-_./:,' " for char in value)
    if not letters:
        return digits >= MIN_VALUE_CHARS and not re.fullmatch(r"(?:19|20)\d\d[-/.:\d]*|\d+(?:\.\d+)+", value)
    parts = [part for part in _SEPARATORS.split(value) if part]
    if all(_TECHNICAL.fullmatch(part) or _is_word(part) for part in parts):
        varied = value != value.lower() and value != value.upper()
        strange = marks > 0 and varied
        return strange or (digits >= 2 and varied and len(parts) >= 2 and not _TECHNICAL.search(value))
    return True


def is_key(value: str) -> bool:
    """Tell whether this is what a machine hands out, given that something says it is a key or a token.

    Stricter than ``is_password``: names of resources, which such keys also hold, are made of words and a few digits.
    """
    if not _may_be(value) or _JWT.match(value) or not any(char.isalpha() for char in value) or re.search(r"\s", value):
        return False
    digits = sum(char.isdigit() for char in value)
    mixed = value != value.lower() and value != value.upper()
    if digits and mixed and len(value) >= 10 and re.search(r"[^\w./:]|[^\W_]_[^\W_]", value) and "/" not in value:
        return len([part for part in _SEPARATORS.split(value) if part and not _is_word(part)]) >= 1
    core = _SEPARATORS.sub("", value)
    if re.fullmatch(r"[a-z]+(?:[-_./][a-z]+)*", value, re.IGNORECASE) and not _is_scrambled(core):
        return False
    return len(core) >= 12 and _is_random(core, mixed=mixed, digits=digits)


def _may_be(value: str) -> bool:
    if not MIN_VALUE_CHARS <= len(value) <= MAX_VALUE_CHARS or _REFERENCE.fullmatch(value) or is_filler(value):
        return False
    if _DIGEST.match(value) or _is_path(value):
        return False
    rest = _SEPARATORS.sub("", _SAMPLE.sub("", value))
    if len(rest) < 4:
        return False
    return not _encodes_sample(value)


def _is_path(value: str) -> bool:
    """A place: folders and names, each made of words; base64 holds slashes too, and is not."""
    if value.startswith(("./", "../", "~/")):
        return True
    parts = [part for part in re.split(r"[/\\]", value) if part]
    return ("/" in value or "\\" in value) and all(
        all(_is_word(word) or _TECHNICAL.fullmatch(word) for word in _SEPARATORS.split(part) if word) for part in parts
    )


def _is_word(part: str) -> bool:
    return part.isalpha() and not _is_scrambled(part)


_CAMEL_CASE = re.compile(r"[a-z]+|[A-Z]+|[a-z]*(?:[A-Z]{1,6}[a-z]{2,})*(?:[A-Z]{1,5}s?)?")


def _is_scrambled(letters: str) -> bool:
    """Capitals where neither a word nor a name made of words has them."""
    return len(letters) >= MIN_VALUE_CHARS and letters.isascii() and _CAMEL_CASE.fullmatch(letters) is None


def _mixture(text: str) -> float:
    """The rarer case's share of the letters: about a sixth in CamelCase, a half in what is random."""
    upper, lower = sum(char.isupper() for char in text), sum(char.islower() for char in text)
    return min(upper, lower) / max(upper + lower, 1)


def _is_random(core: str, *, mixed: bool, digits: int) -> bool:
    """Lower case, upper case and digits follow each other more often than in names and dates."""
    if not digits:
        return _is_scrambled(core)
    share = _changes(core) / (len(core) - 1)
    return share >= (0.36 if mixed else 0.13) or (mixed and _mixture(core) >= 0.28)


def _changes(text: str) -> int:
    classes = text.translate(_CLASS)
    return sum(left != right for left, right in zip(classes, classes[1:], strict=False))


# --- what is inside ----------------------------------------------------------------------------------------------------


def _base64(value: str) -> bytes | None:
    try:
        return base64.b64decode(
            value + "=" * (-len(value) % 4), altchars=b"-_" if re.search("[-_]", value) else None, validate=True
        )
    except (binascii.Error, ValueError):
        return None


def _encodes_sample(value: str) -> bool:
    """Base64 of a sentence, of JSON (the head of a JSON Web Token, which has a rule of its own) or of a sample."""
    if len(value) % 4 and not value.startswith("eyJ"):
        return False
    raw = _base64(value)
    if raw is None or not raw.isascii():
        return False
    text = raw.decode("ascii").strip()
    if not text.isprintable() or len(text) < 4:
        return False
    return " " in text or text.startswith("{") or is_filler(text) or len(_SEPARATORS.sub("", _SAMPLE.sub("", text))) < 3


_RESERVED_HOST = re.compile(
    r"(?:[\w.-]*\.)?(?:example(?:\.(?:com|net|org|edu))?|test|invalid)(?![\w.-]*\w)", re.IGNORECASE
)


def is_login(user: str, password: str, host: str = "") -> bool:
    """Tell whether user and password are real: any password that is no reference, no sample word, not the user."""
    if not password or user.casefold() == password.casefold() or _RESERVED_HOST.match(host):
        return False
    if (
        _REFERENCE.fullmatch(password)
        or _FILLER.search(password)
        or re.search(r"[<>{}…`|\\]|\$[({A-Z]|x{3}|^%\w+%$", password + user)
    ):
        return False
    return len(_SEPARATORS.sub("", _SAMPLE.sub("", password))) > 1


def decoded_login(value: str) -> tuple[str, str] | None:
    """The user and password that ``value`` is base64 of, or None."""
    raw = _base64(value)
    try:
        user, colon, password = (raw or b"").decode("utf-8").partition(":")
    except UnicodeDecodeError:
        return None
    return (user, password) if colon and password and (user + password).isprintable() else None


def is_live_jwt(token: str, now_s: float | None = None) -> bool:
    """Tell whether a JSON Web Token is signed and has not expired, and is not the well-known one of a John Doe."""
    parts = token.split(".")
    if len(parts) < 3 or len(parts[2]) < 16:
        return False
    raw = _base64(parts[1].rstrip("="))
    try:
        payload = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return False
    if not isinstance(payload, dict) or payload.get("name") == "John Doe":
        return False
    expires = payload.get("exp")
    now = time.time() if now_s is None else now_s
    return not isinstance(expires, (int, float)) or expires > now


def is_whole_encoded_key(value: str) -> bool:
    """Tell whether ``value`` is base64 of a whole block, first line to last: then masking it leaves nothing behind."""
    raw = None if "\n" in value else _base64(value.rstrip("="))
    return raw is not None and raw.lstrip().startswith(b"-----BEGIN ") and raw.rstrip().endswith(b"KEY-----")


_KEY_HEADERS = re.compile(
    r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID|Encryption)\s*:[^\n]*", re.IGNORECASE
)
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/=]{12,}")


def holds_key_material(body: str) -> bool:
    """Tell whether there is base64 between the lines of a key's block, not dots or words in angle brackets."""
    body = _KEY_HEADERS.sub("", re.sub(r"\\{1,4}[nrt]", "\n", body))
    body = "\n".join(line.strip(" \t>|\\\"'`+#*,;:_-") for line in body.split("\n"))
    runs = [run for run in _BASE64_LINE.findall(body) if not is_filler(run[:96])]
    joined = "".join(runs)
    return len(joined) >= 24 and len(set(joined)) >= 12 and re.search("[0-9]", joined) is not None
