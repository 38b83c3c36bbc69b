"""Values that something beside them calls a secret: a key in any notation, a column, an option, a sentence.

The words are looked for first, in one pass; around each, a bounded stretch is looked at. Which value counts is
``guard_values``' decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rag_mcp.text.secret_values import MIN_VALUE_CHARS, decoded_login, is_filler, is_key, is_login, is_password

__all__ = ["KEY_KINDS", "find_keyed"]

PASSWORD, KEY, LOGIN, HEADER = "Password", "Secret Keyword", "Basic Auth Credentials", "Authorization Header"
KEY_KINDS = (HEADER, LOGIN, PASSWORD, KEY)

_Found = Iterator[tuple[int, int, str]]

_PASSWORD_WORDS = (
    "password passwd passphrase passcode passwort passord passwd pass_word pass pwd pw pswd kennwort kennw contraseña contrasena"
    " contrasenya clave senha palavra-passe mdp wachtwoord lösenord losenord adgangskode kodeord salasana hasło haslo"
    " heslo jelszó jelszo parola parolă lozinka zaporka geslo parool slaptažodis parole şifre sifre пароль парола κωδικός"
    " 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호 סיסמה รหัสผ่าน पासवर्ड psk requirepass masterauth identifiedby"
)
_PASSWORD_PHRASES = (
    "mot de passe",
    "palavra passe",
    "كلمة المرور",
    "كلمة السر",
    "mật khẩu",
    "kata sandi",
    "wpa key",
    "wi-fi key",
    "wifi key",
    "network key",
    "pre-shared key",
    "pre shared key",
    "preshared key",
    "identified by",
    "snmp community",
    "snmp-server community",
)
_KEY_WORDS = (
    "secret token bearer credential cookie webhook mnemonic пин токен секрет 令牌 密钥 トークン jeton geheimnis"
)
_KEY_KINDS = (
    "api app application access auth account master signing sign encryption encrypt private priv service storage client"
    " server deploy license admin shared session db database aes hmac jwt cipher root project write ingest ingestion"
    " integration bot function host publish subscription management personal instance consumer"
)
_KINDS_OF_KEY = tuple(sorted(_KEY_KINDS.split(), key=len, reverse=True))
_PASSWORDS = frozenset([*_PASSWORD_WORDS.split(), *_PASSWORD_PHRASES])
_WORDS = sorted({*_PASSWORDS, *_KEY_WORDS.split()})
_ASCII_WORDS = tuple(word for word in _WORDS if word.isascii())
_OTHER_LETTER = re.compile(f"[{''.join(sorted({char for word in _WORDS for char in word if not char.isascii()}))}]")


def _words(lowered: str) -> list[tuple[int, int]]:
    """Where the words stand, the longest at each place, in order. ``in`` and ``find`` beat any one pattern of them."""
    places: list[tuple[int, int]] = []
    for word in _WORDS if _OTHER_LETTER.search(lowered) else _ASCII_WORDS:
        at = lowered.find(word)
        while at >= 0:
            places.append((at, -at - len(word)))
            at = lowered.find(word, at + len(word))
    at = lowered.find("key")
    while at >= 0:
        before = lowered[max(0, at - 16) : at]
        if before.endswith(("?", "&")) and lowered.startswith("=", at + 3):  # a key in an address
            places.append((at, -at - 3))
        before = before[:-1] if before.endswith(("_", "-", " ")) else before
        if before.endswith(_KINDS_OF_KEY):
            kind = next(kind for kind in _KINDS_OF_KEY if before.endswith(kind))
            places.append((lowered.rfind(kind, 0, at), -at - 3))
        at = lowered.find("key", at + 3)
    places.sort()
    kept: list[tuple[int, int]] = []
    for start, minus_end in places:
        if not kept or start >= kept[-1][1]:
            kept.append((start, -minus_end))
    return kept


# A key whose name ends with one of these only speaks of a secret.
_NOT_THE_SECRET = frozenset(
    [
        "name",
        "names",
        "id",
        "ids",
        "path",
        "paths",
        "file",
        "files",
        "filename",
        "dir",
        "dirs",
        "url",
        "urls",
        "uri",
        "ref",
        "refs",
        "reference",
        "type",
        "types",
        "length",
        "len",
        "size",
        "hash",
        "hashes",
        "hashed",
        "policy",
        "policies",
        "field",
        "fields",
        "count",
        "expiry",
        "expires",
        "expiration",
        "expired",
        "ttl",
        "age",
        "issuer",
        "format",
        "version",
        "enabled",
        "required",
        "min",
        "max",
        "label",
        "hint",
        "prompt",
        "reset",
        "manager",
        "store",
        "stores",
        "class",
        "method",
        "provider",
        "algorithm",
        "salt",
        "namespace",
        "selector",
        "volume",
        "mount",
        "mounts",
        "review",
        "request",
        "projection",
        "controller",
        "endpoint",
        "audience",
        "audiences",
        "generator",
        "engine",
        "backend",
        "rotation",
        "lifetime",
        "duration",
        "strength",
        "rule",
        "rules",
        "input",
        "box",
        "change",
        "changes",
        "changed",
        "protected",
        "less",
        "through",
        "auth",
        "authentication",
        "authenticator",
        "plugin",
        "s",
        "arn",
        "scope",
        "scopes",
        "server",
        "service",
        "header",
        "template",
        "budget",
        "limit",
        "used",
        "usage",
        "cache",
        "sum",
        "digest",
        "fingerprint",
        "thumbprint",
        "status",
        "state",
        "error",
        "source",
        "env",
        "location",
        "date",
        "time",
        "at",
        "on",
        "in",
        "by",
        "from",
        "pattern",
        "regex",
        "index",
        "column",
        "row",
        "tier",
        "level",
        "group",
        "role",
    ]
)
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$"
_NAME_AFTER = re.compile(r"[A-Za-z0-9_-]{0,40}")

_QUOTED = r""""(?P<a>[^"\n]{8,300})"|'(?P<b>[^'\n]{8,300})'|`{1,3}(?P<c>[^`\n]{8,300})`"""
_BARE = r"""(?P<d>[^\s"'`<>|][^\s"'`<|]{7,300})"""
_TO_LINE_END = r"""(?P<e>[^\s|"'`<>][^\s|]{7,300})(?=[ \t]*(?:\n|\Z))"""
_VALUE = rf"(?:(?:[brfu]|!!str[ ]|@)?(?:{_QUOTED})|{_TO_LINE_END}|{_BARE})"
_CLOSE = r"""["'`*_)\]}>]{0,4}"""

# Behind the key's name, the first that matches: an assignment in any notation …
_ASSIGNED = tuple(
    re.compile(shape)
    for shape in (
        rf"{_CLOSE}[ \t]{{0,24}}(?:\[[^\]\n]{{0,24}}\][ \t]{{0,4}})?(?::[ \t]?[A-Za-z_][\w.\[\]?]{{0,24}}[ \t]?=|:=|\?=|=>|->|={{1,2}}|：|＝|:|\|)[ \t]{{0,24}}[*_]{{0,3}}[ \t]?{_VALUE}",
        # … on the next line, alone
        rf"{_CLOSE}[ \t]{{0,8}}[:=：]{_CLOSE}[ \t]{{0,8}}(?:[|>][-+]?)?[ \t]*\n(?:[ \t]*\n)?(?:[ \t]*(?:`{{3}}|~{{3}})\w{{0,16}}\n)?[ \t>*-]{{0,24}}(?:{_QUOTED}|{_TO_LINE_END})",
        # … name and value as two elements, attributes, arguments or lines
        rf"""{_CLOSE}[ \t]{{0,4}}[,(][ \t]{{0,8}}(?:{_QUOTED})""",
        rf"""["']?[,;]?\s{{1,40}}["']?(?:\{{\s{{0,40}}["']?)?(?:value|Value|VALUE|default)["']?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTED}|{_TO_LINE_END}|{_BARE})""",
        r"""[^<>\n]{0,40}>[ \t]{0,8}(?P<a>[^<>\n]{8,300}?)[ \t]{0,8}</""",
        # … an SQL statement, a quoted argument
        r"""[ \t]{1,8}(?:[brf]?"(?P<a>[^"\s]{8,128})"|'(?P<b>[^'\s]{8,128})'|`(?P<c>[^`\s]{8,128})`)""",
    )
)
# … or a sentence.
_IS = (
    r"is|was|are|remains|being|became|set to|changed to|now|equals|ist|lautet|war|es|era|est|è|é|jest|to|är|er|on|je|este|olarak|is:|are:"
    r"|—|–|-|=|:|это|είναι"
)
_SENTENCE = re.compile(
    rf"""["'`*)_]{{0,3}}(?:[ \t]+[^\s:=|{{}}<>]{{1,24}}){{0,6}}?[ \t]*\n?(?:[ \t]+(?:{_IS})|:|是|为|為|は|는|은)[ \t]*(?:(?:now|still|currently|always|set|jetzt|ahora)[ \t]+)?(?:to[ \t]+)?:?[ \t]*[*_]{{0,3}}(?:{_QUOTED}|(?P<d>[^\s"'`<>|]{{8,128}}))"""
)
_OPTION = re.compile(rf"""[ \t]+(?:{_QUOTED}|(?P<d>[^\s"'`<>|-][^\s"'`<>|]{{7,128}}))""")
_BEFORE = re.compile(
    r"""(?:"(?P<a>[^"\s]{8,64})"|'(?P<b>[^'\s]{8,64})'|`(?P<c>[^`\s]{8,64})`|(?<!\S)(?P<d>[^\s"'`<>|]{8,64}))[ \t]"""
    r"""(?:is|as|for|was|ist|als|es|como|est|comme|è|come|é)[ \t](?:[\w-]{1,16}[ \t]){0,4}\Z"""
)
_ALONE = re.compile(r"""[ \t]{1,4}(?:\d[ \t]{1,4})?(?P<d>[^\s"'`<>|(){}=/-][^\s"'`<>|(){}=]{7,128})""")
_ABOUT = re.compile(r"[ \t]+(?:manager|polic|hash|length|reset|field|generator|store|format|strength|type|prompt|hint)")
_BEFORE_CHARS = 140
_LINK = re.compile(r"[ \t](?:is|as|for|was|ist|als|es|como|est|comme|è|come|é)[ \t]")
_ENV_COMMAND = re.compile(r"(?:^|\n)[ \t]*(?:ENV|ARG|setx|SETX|SetEnv|requirepass|masterauth)[ \t]+[\w.]*\Z")


_LONG = 48


@dataclass(frozen=True, slots=True)
class _Name:
    """A word as it stands in a text, and the whole name it is part of."""

    start: int
    end: int
    whole: str
    password: bool


def find_keyed(text: str) -> _Found:
    """Yield start, end and kind of each value; some may be found twice."""
    lowered = text.lower()
    if len(lowered) != len(text):  # the one letter that grows: offsets must stay
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    tables = _Tables(text)
    behind = 0
    for word_start, word_end in _words(lowered):
        name = _named(text, lowered, word_start, word_end)
        if name is None:
            continue
        yield from tables.columns(name)
        if word_start < behind:
            continue  # inside a value
        for start, end, counts in _beside(text, name):
            if counts or end - start >= _LONG:
                behind = max(behind, end)  # no character is judged again and again
            if counts:
                yield start, end, PASSWORD if name.password else KEY
                break
    yield from _logins(text, lowered)


def _named(text: str, lowered: str, start: int, end: int) -> _Name | None:
    if text[start - 1 : start] == ":" and text[end : end + 1] == ":":
        return None  # one of a row of names, as in arn:aws:…:secret:…
    word = lowered[start:end]
    if word.isascii():
        if len(word) <= 4 and not _stands_alone(text, start, end):
            return None
        before = text[max(0, start - 48) : start]
        start -= len(before) - len(before.rstrip(_NAME_CHARS))
        after = _NAME_AFTER.match(text, end)
        tail = after[0] if after is not None else ""
        if _only_speaks_of_it(tail):
            return None
        end += len(tail)
    if _PLACE_IN_A_LIST.fullmatch(lowered[start:end].lstrip("-$")):
        return None
    return _Name(start, end, lowered[start:end], word in _PASSWORDS)


_PLACE_IN_A_LIST = re.compile(
    r"(?:next|prev|previous|page|paging|pagination|continue|continuation|request|cursor|sync|starting|lifecycle-action)[_-]?token"
)


def _only_speaks_of_it(tail: str) -> bool:
    parts = _NAME_PART.findall(tail)
    return bool(parts) and parts[-1].lower() in _NOT_THE_SECRET


def _stands_alone(text: str, start: int, end: int) -> bool:
    """A short word (pass, pw) is one of a name's parts, by a separator or by its capital; not a part of "compass"."""
    before, after = text[start - 1 : start], text[end : end + 1]
    opens = not before.isalpha() or (before.islower() and text[start].isupper())
    closes = not after.isalpha() or (text[end - 1].islower() and after.isupper())
    return opens and closes


def _beside(text: str, name: _Name) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of what may be the value, and whether it counts; nothing comes after one that does."""
    decide: Callable[[str], bool] = is_password if name.password else is_key
    if name.whole == "pwd" and text[name.start - 1 : name.start] in ("?", "&"):
        return  # the number plate of a meeting in its address
    verb = name.whole == "pass"  # what is passed on
    for found in (shape.match(text, name.end) for shape in (_ASSIGNED[:-1] if verb else _ASSIGNED)):
        if found is not None:
            yield _judged(found, decide)
    if text.startswith("-", name.start) or _ENV_COMMAND.search(text, max(0, name.start - 80), name.end):
        option = _OPTION.match(text, name.end)
        if option is not None:
            yield _judged(option, decide)
    elif not verb:
        behind = None if _ABOUT.match(text, name.end) else _SENTENCE.match(text, name.end)
        if behind is not None:
            yield _judged(behind, decide, prose=True)
        line = max(text.rfind("\n", max(0, name.start - _BEFORE_CHARS), name.start) + 1, name.start - _BEFORE_CHARS, 0)
        alone = _ALONE.match(text, name.end)
        if alone is not None and _is_plain_secret(alone["d"].rstrip(".,;:!?)")):
            yield _judged(alone, decide, prose=True)
        if _LINK.search(text, line, name.start):
            before = _BEFORE.search(text, line, name.start)
            if before is not None:
                yield _judged(before, decide, prose=True)


_MARKUP = re.compile(r"&(?:#\d+|quot|lt|gt|nbsp);|</|[;&,](?=[\w .-]{1,40}=)")
_CUT = re.compile(r"""["'`]$|;|"[,}\])]|'[,}\])]|,(?=\s|["'])|[)\]}]+[;,]*$|[;,]+$""")


def _judged(found: re.Match[str], decide: Callable[[str], bool], *, prose: bool = False) -> tuple[int, int, bool]:
    """The place of the value and whether it counts. A bare one ends where the notation around it goes on."""
    name = next(each for each in "abcde" if each in found.re.groupindex and found[each] is not None)
    value, start = found[name], found.start(name)
    judged = value
    if name in "de":
        markup = _MARKUP.search(value)
        if markup is not None:
            value = value[: markup.start()]
        cut = _CUT.search(value)
        if cut is not None and cut.start() >= MIN_VALUE_CHARS:
            value = value[: cut.start()]
        judged = value.rstrip(".,;:!?)]}*_")
        value = judged if prose else value
    counts = not value.startswith(("//", "--", "![")) and (not prose or _is_odd(judged)) and decide(judged.strip())
    return start, start + len(value), counts


_WORDS_AND_NUMBER = re.compile(r"[^\W\d_]{3,20}[-_!#.+*][^\W\d_]{3,20}\d{2,4}")


def _is_plain_secret(value: str) -> bool:
    """Without any word between, only what has capitals, small letters and two digits, or is long and has both."""
    if value == value.upper() or len(re.findall(r"[0-9]", value)) < 2:
        return False
    return value != value.lower() or len(value) >= 20 or _WORDS_AND_NUMBER.fullmatch(value) is not None


def _is_odd(value: str) -> bool:
    """In a sentence a value must differ from every word: digits and letters, or marks inside."""
    return re.search(r"[0-9]", value) is not None or re.search(r"\w[!#$%&*+?@^~]\w", value) is not None


# --- tables ----------------------------------------------------------------------------------------------------------

_MAX_LINE = 2000
_RULE_LINE = re.compile(r"[ \t>]{0,16}\|?[ \t]{0,40}:?-{1,200}:?[ \t]{0,40}(?:\|[ \t:|-]{0,1000})?")
_CELL_NAME_CHARS = 32


class _Tables:
    """Columns whose head names a secret, in tables of markdown and in lines of comma-separated values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._behind = 0
        self._head = -1

    def columns(self, name: _Name) -> _Found:
        text = self._text
        if name.start < self._behind:
            return
        line_start = text.rfind("\n", max(0, name.start - _MAX_LINE), name.start) + 1
        line_end = text.find("\n", name.end, name.end + _MAX_LINE)
        if line_end < 0 or line_start == self._head or (line_start == 0 and name.start > _MAX_LINE):
            return
        self._head = line_start
        head = text[line_start:line_end]
        separator = next((each for each in "|\t;," if each in head), None)
        if separator is None:
            return
        heads = head.split(separator)
        wanted = {place: password for place, cell in enumerate(heads) if (password := _column(cell)) is not None}
        if not wanted:
            return
        if separator != "|" and any(len(cell.strip()) > _CELL_NAME_CHARS or not cell.strip() for cell in heads):
            return
        if separator == "|":
            second_end = text.find("\n", line_end + 1, line_end + 1 + _MAX_LINE)
            if second_end < 0 or not _RULE_LINE.fullmatch(text, line_end + 1, second_end):
                return
            line_end = second_end
        yield from self._rows(line_end + 1, separator, len(heads), wanted)

    def _rows(self, start: int, separator: str, width: int, wanted: dict[int, bool]) -> _Found:
        text = self._text
        while 0 < start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            self._behind = end
            cells = text[start:end].split(separator)
            if len(cells) < 2 or (separator != "|" and len(cells) != width):
                return
            at = start
            for place, cell in enumerate(cells):
                value = cell.strip(" \t*_`\"'")
                if (
                    place in wanted
                    and not re.search(r"\s", value)
                    and (is_password if wanted[place] else is_key)(value)
                ):
                    begin = at + cell.find(value)
                    yield begin, begin + len(value), PASSWORD if wanted[place] else KEY
                at += len(cell) + 1
            start = end + 1


def _column(cell: str) -> bool | None:
    """True when a head names a password, False for another secret, None for neither."""
    name = cell.strip(" \t*_`\"'").lower()
    if len(name) > _CELL_NAME_CHARS:
        return None
    for start, end in _words(name):
        word = name[start:end]
        if (len(word) > 4 or _stands_alone(name, start, end)) and not _only_speaks_of_it(name[end:].strip()):
            return word in _PASSWORDS
    return None


# --- user and password -------------------------------------------------------------------------------------------------

_URL_LOGIN = re.compile(
    r"://(?P<user>[^:/?#@\s\"'<>|`]{0,128}):(?P<a>[^\s\"'<>|`/]{1,200})@(?P<host>\[?[\w.:$-]{1,255})"
)
_URL_TOKEN = re.compile(r"://(?P<a>[A-Za-z0-9_-]{20,200})@[\w.-]{1,255}")
_BASIC = re.compile(
    r"basic[ \t]{1,4}(?P<a>[A-Za-z0-9+/_-]{8,400}={0,2})|auth[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<b>[A-Za-z0-9+/_-]{8,400}={0,2})(?![\w+/=])",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"(?:bearer|ssws|genie-?key|bot|oauth)[ \t]{1,4}(?:token=)?[\"']?(?P<a>[A-Za-z0-9_.~+/=:-]{12,512})",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    r"authorization[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?(?:(?P<scheme>[A-Za-z-]{2,16})[ \t]{1,4})?(?P<a>[A-Za-z0-9_.~+/=:-]{12,512})",
    re.IGNORECASE,
)
_USER_OPTION = re.compile(
    r"\s(?:-u|--user|--proxy-user|-U|--userpwd|--creds?|--auth|-a|--basic)(?:[ \t]{1,4}|=)?[\"']?(?P<user>[^\s:%\"'/=]{1,64})[:%](?P<a>[^\s\"']{6,128})"
)
_PASS_OPTION = re.compile(
    r"[\w-]{2,20}[ \t][^\n]{0,120}?(?<=[ \t])(?:-p|-P|-a|-w|-W|/p:|/pass:|pass=)[ \t]?[\"']?(?P<a>[^\s\"']{8,128})"
)
_PASS_SOURCE = re.compile(r"pass:(?P<a>[^\s\"']{8,128})")
_HTPASSWD = re.compile(
    r"htpasswd[ \t]{1,4}-\w{0,4}b\w{0,4}[ \t]{1,4}\S{1,120}[ \t]{1,4}\S{1,64}[ \t]{1,4}[\"']?(?P<a>[^\s\"']{8,128})"
)
_WIFI_CODE = re.compile(r"wifi:[^\n]{0,80}?;p:(?P<a>[^;\n]{8,64});", re.IGNORECASE)
_SECURE_STRING = re.compile(
    r"securestring[ \t]{1,4}(?:-string[ \t]{1,4})?[\"'](?P<a>[^\"'\n]{8,128})[\"']", re.IGNORECASE
)
_PGPASS = re.compile(r":(?:\d{2,5}|\*):[\w*-]{1,64}:[\w.*-]{1,64}:(?P<a>[^\s:]{8,128})(?=\n|\Z)")
_PAIR = re.compile(
    r"(?:log ?in|logged in|sign in|credentials?|creds|zugangsdaten|zugang|anmeldung|identifiants|accesso|acceso)\b[^\n:=|]{0,32}?[ \t:=(]{1,4}[\"'`*]{0,3}"
    r"(?P<user>[A-Za-z][\w.@-]{1,40})[\"'`*]{0,3}[ \t]?(?:/|:|\||,|–|—|\band\b|with)[ \t]?[\"'`*]{0,3}(?P<a>[^\s\"'`|]{8,64})",
    re.IGNORECASE,
)
_NET_USE = re.compile(
    r"/user:\S{1,64}[ \t]+(?P<a>[^\s\"'/]{8,64})|/user:\S{1,64}[ \t]+\"(?P<b>[^\"\n]{8,64})\"", re.IGNORECASE
)
_PHRASE = re.compile(
    r"(?:seed|recovery|mnemonic|backup|secret recovery)(?:[ _-](?:phrase|words?|seed))?[^\n\w]{0,8}(?:is|are)?[^\w\n]{0,4}\n{0,2}[^\w\n]{0,8}"
    r"(?P<a>[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,24})(?![ ,]{1,2}[a-z])",
    re.IGNORECASE,
)
_APP_PASSWORD = re.compile(
    r"(?:password|passwort|contraseña|passwd|pass)\b[^\n]{0,32}?[:=][ \t*`\"']{0,5}(?P<a>[a-z]{4}(?:[ -][a-z]{4}){3})(?![\w-])",
    re.IGNORECASE,
)


def _credible_pair(found: re.Match[str]) -> bool:
    value = found["a"].rstrip(".,;:!?)")
    if found["user"].lower() in ("http", "https", value.lower()) or re.search(r"[/=]|^[!-]", value):
        return False
    return _is_plain_secret(value) and is_password(value)


def _option_login(found: re.Match[str]) -> bool:
    return found["user"] not in ("http", "https", "sha256") and is_password(found["a"])


def _plain_login(found: re.Match[str]) -> bool:
    return is_login(found["user"], found["a"], found["host"])


def _encoded_login(found: re.Match[str]) -> bool:
    pair = decoded_login(found["a"] or found["b"])
    return pair is not None and is_login(*pair)


def _header(found: re.Match[str]) -> bool:
    value = found["a"]
    if (value.startswith("eyJ") and "." in value) or is_filler(value):  # a JSON Web Token has a rule of its own
        return False
    return is_key(value.rstrip(".:"))


def _password(found: re.Match[str]) -> bool:
    value = next(value for value in (found["a"], found.groupdict().get("b")) if value is not None)
    return is_password(value.rstrip(".,;"))


@dataclass(frozen=True, slots=True)
class _LoginRule:
    """``shape`` is matched where one of ``marks``, in lower case, stands; never if none of ``needs`` stands anywhere."""

    kind: str
    marks: tuple[str, ...]
    shape: re.Pattern[str]
    genuine: Callable[[re.Match[str]], bool]
    needs: tuple[str, ...] = ("",)


_LOGIN_RULES = (
    _LoginRule(LOGIN, ("://",), _URL_LOGIN, _plain_login),
    _LoginRule(LOGIN, ("://",), _URL_TOKEN, lambda found: is_key(found["a"])),
    _LoginRule(LOGIN, ("basic ", "auth"), _BASIC, _encoded_login),
    _LoginRule(HEADER, ("bearer ", "ssws ", "bot ", "oauth ", "genie"), _SCHEME, _header),
    _LoginRule(HEADER, ("authorization",), _AUTHORIZATION, _header),
    _LoginRule(LOGIN, (" -u", " --user", " --proxy-user", " -a", " --cred", " --auth", " --basic"), _USER_OPTION, _option_login),
    _LoginRule(PASSWORD, tuple(["sshpass", "mysql", "mariadb", "docker", "podman", "helm", "7z", "unzip", "plink", "pscp", "mongo", "sqlcmd", "bcp", "osql", "redis-cli", "ldap", "smbclient", "xfreerdp", "ipmitool", "htpasswd", "mosquitto", "vncviewer", "rdesktop", "influx", "cqlsh", "sftp", "lftp", "kinit", "mount", "pgcli", "mycli"]), _PASS_OPTION, _password, needs=(" -p", " -a", " -w", " /p", " pass=")),
    _LoginRule(PASSWORD, ("pass:",), _PASS_SOURCE, _password),
    _LoginRule(PASSWORD, ("htpasswd ",), _HTPASSWD, _password),
    _LoginRule(PASSWORD, ("wifi:",), _WIFI_CODE, _password),
    _LoginRule(PASSWORD, ("securestring",), _SECURE_STRING, _password),
    _LoginRule(PASSWORD, (":5432:", ":*:", ":5433:", ":6432:"), _PGPASS, _password),
    _LoginRule(PASSWORD, ("log", "credential", "creds", "sign in", "zugang", "anmeldung", "identifiants", "accesso", "acceso"), _PAIR, _credible_pair),
    _LoginRule(PASSWORD, ("/user:",), _NET_USE, _password),
    _LoginRule(KEY, ("seed", "recovery", "mnemonic"), _PHRASE, lambda found: len(set(found["a"].split())) >= 10),
    _LoginRule(PASSWORD, ("password", "passwort", "contraseña", "passwd", "pass:"), _APP_PASSWORD, lambda found: not is_filler(found["a"])),
)  # fmt: skip


def _matches(rule: _LoginRule, text: str, lowered: str) -> Iterator[re.Match[str]]:
    for mark in rule.marks:
        at = lowered.find(mark)
        while at >= 0:
            found = rule.shape.match(text, at)
            if found is not None:
                yield found
            at = lowered.find(mark, max(at + len(mark), found.end() if found is not None else 0))


def _logins(text: str, lowered: str) -> _Found:
    for rule in _LOGIN_RULES:
        if not any(need in lowered for need in rule.needs):
            continue
        for found in _matches(rule, text, lowered):
            if rule.genuine(found):
                name = next(each for each in "ab" if each in found.groupdict() and found[each] is not None)
                yield found.start(name), found.end(name), rule.kind
