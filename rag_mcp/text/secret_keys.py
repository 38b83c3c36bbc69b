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
    " 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호 סיסמה รหัสผ่าน पासवर्ड psk requirepass masterauth identifiedby storepass keypass"
)
_PASSWORD_PHRASES = "mot de passe|palavra passe|كلمة المرور|كلمة السر|mật khẩu|kata sandi|identified by|snmp community|snmp-server community"
_NETWORKS = ("wpa", "wi-fi", "wifi", "network", "pre-shared", "pre shared", "preshared")
_KEY_WORDS = (
    "secret token bearer credential cookie webhook mnemonic пин токен секрет 令牌 密钥 トークン jeton geheimnis"
)
_KEY_KINDS = (
    "api app application access auth account master signing sign encryption encrypt private priv service storage client"
    " server deploy license admin shared session db database aes hmac jwt cipher root project write ingest ingestion"
    " integration setup bot function host publish subscription management personal instance consumer"
)
_KINDS_OF_KEY = tuple(sorted([*_KEY_KINDS.split(), *_NETWORKS], key=len, reverse=True))
_WORDS = sorted({*_PASSWORD_WORDS.split(), *_PASSWORD_PHRASES.split("|"), *_KEY_WORDS.split()}, key=len, reverse=True)
_PASSWORDS = frozenset([*_WORDS, *(f"{network} key" for network in _NETWORKS)]) - {*_KEY_WORDS.split()}


def _by_stem(words: list[str]) -> dict[str, tuple[str, ...]]:
    """The words, longest first, by the shortest of them that they begin with: one search finds them all."""
    stems: dict[str, tuple[str, ...]] = {}
    for word in reversed(words):
        stem = next((each for each in stems if word.startswith(each)), word)
        stems[stem] = (word, *stems.get(stem, ()))
    return stems


_STEMS = _by_stem(_WORDS)
_ASCII_STEMS = _by_stem([word for word in _WORDS if word.isascii()])
_OTHER_LETTER = re.compile(f"[{''.join(sorted({char for word in _WORDS for char in word if not char.isascii()}))}]")


def _words(lowered: str) -> list[tuple[int, int]]:
    """Where the words stand, the longest at each place, in order. ``in`` and ``find`` beat any one pattern of them."""
    places: list[tuple[int, int]] = []
    for stem, words in (_ASCII_STEMS if lowered.isascii() else _STEMS).items():
        at = lowered.find(stem)
        while at >= 0:
            end = at + next(len(word) for word in words if lowered.startswith(word, at))
            places.append((at, -end))
            at = lowered.find(stem, end)
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
_NOT_THE_SECRET_WORDS = (
    "name names id ids path paths file files filename dir dirs url urls uri ref refs reference type types length "
    "len size hash hashes hashed policy policies field fields count expiry expires expiration expired ttl age "
    "issuer format version enabled required min max label hint prompt reset manager store stores class method "
    "provider algorithm salt namespace selector volume mount mounts review request projection controller endpoint "
    "audience audiences generator engine backend rotation lifetime duration strength rule rules input box change "
    "changes changed protected less through auth authentication authenticator plugin s arn scope scopes server "
    "service header template budget limit used usage cache sum digest fingerprint thumbprint status state error "
    "source env location date time at on in by from pattern regex index column row tier level group role "
)
_NOT_THE_SECRET = frozenset(_NOT_THE_SECRET_WORDS.split())
# … and what makes another word of it: tokenizer, secretary, passwordless.
_OTHER_WORD = re.compile(r"i[sz](?:e|a|ing)|ar(?:y|ie)|less|cutter|ly\b|i(?:on|ve)\b")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$"
_NAME_AFTER = re.compile(r"[A-Za-z0-9_-]{0,40}")

_QUOTED = r""""(?P<a>[^"\n]{8,300})"|'(?P<b>[^'\n]{8,300})'|`{1,3}(?P<c>[^`\n]{8,300})`"""
_BARE = r"""(?P<d>[^\s"'`<>|][^\s"'`<|]{7,300})"""
_TO_LINE_END = r"""(?P<e>[^\s|"'`<>][^\s|]{7,300})(?=[ \t]{0,24}(?:\n|\Z))"""
_VALUE = rf"(?:(?:[brfu]|!!str[ ]|@)?(?:{_QUOTED})|{_TO_LINE_END}|{_BARE})"
_CLOSE = r"""["'`*_)\]}>]{0,4}"""

# Behind the key's name, the first that matches: an assignment in any notation …
_ASSIGNED = tuple(
    re.compile(shape)
    for shape in (
        rf"{_CLOSE}[ \t]{{0,24}}(?:\[[^\]\n]{{0,24}}\][ \t]{{0,4}})?(?::[ \t]?[A-Za-z_][\w.\[\]?]{{0,24}}[ \t]?=|:=|\?=|=>|->|={{1,2}}|：|＝|:|\|)[ \t]{{0,24}}[*_]{{0,3}}[ \t]?{_VALUE}",
        # … on the next line, alone
        rf"{_CLOSE}[ \t]{{0,8}}[:=：]{_CLOSE}[ \t]{{0,8}}(?:[|>][-+]?)?[ \t]{{0,24}}\n(?:[ \t>]{{0,24}}\n)?(?:[ \t]{{0,24}}(?:`{{3}}|~{{3}})\w{{0,16}}\n)?[ \t>*-]{{0,24}}(?:{_QUOTED}|{_TO_LINE_END})",
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
    rf"""["'`*)_]{{0,3}}(?:[ \t]{{1,4}}[^\s:=|{{}}<>]{{1,24}}){{0,6}}?[ \t]{{0,4}}\n?(?:[ \t]{{1,4}}(?:{_IS})|:|是|为|為|は|는|은)[ \t]{{0,4}}(?:(?:now|still|currently|always|set|jetzt|ahora)[ \t]{{1,4}})?(?:to[ \t]{{1,4}})?:?[ \t]*[*_]{{0,3}}(?:{_QUOTED}|(?P<d>[^\s"'`<>|]{{8,128}}))"""
)
_OPTION = re.compile(rf"""[ \t]{{1,24}}(?:{_QUOTED}|(?P<d>[^\s"'`<>|-][^\s"'`<>|]{{7,128}}))""")
_BEFORE = re.compile(
    r"""(?:"(?P<a>[^"\s]{8,64})"|'(?P<b>[^'\s]{8,64})'|`(?P<c>[^`\s]{8,64})`|(?<!\S)(?P<d>[^\s"'`<>|]{8,64}))[ \t]"""
    r"""(?:is|as|for|was|ist|als|es|como|est|comme|è|come|é)[ \t](?:[\w-]{1,16}[ \t]){0,4}\Z"""
)
_LABEL_BEHIND = re.compile(
    r"""(?:"(?P<a>[^"\s]{8,64})"|'(?P<b>[^'\s]{8,64})'|`(?P<c>[^`\s]{8,64})`|(?<!\S)(?P<d>[^\s"'`<>|]{8,64}))[ \t]{1,4}"""
    r"""(?:(?P<open>[(\[])|<--?[ \t]|←[ \t])(?:[\w-]{1,16}[ \t]){0,3}\Z"""
)
# A label that closes its line, with the value alone on the next: behind a colon, or a label that is a heading or bold.
_LABEL_ABOVE = re.compile(
    r"(?P<between>[^\n:=|]{0,48})(?P<colon>[:：]?)[*_]{0,3}[ \t]{0,4}\n(?:[ \t>]{0,24}\n)?[ \t>]{0,24}(?:[-*+][ \t]{1,3})?[`*]{0,3}"
    r"(?P<d>[^\s|\"'`<>#*][^\s|\"'`<>]{7,63})[`*]{0,3}[ \t]{0,4}(?=\n|\Z)"
)
_CHANGED = re.compile(
    r"\w{2,12}(?:[ \t]{1,4}[^\s:=|]{1,24}){0,3}?[ \t]{1,4}(?:from|von)[ \t]{1,4}(?P<a>[^\s\"'`<>|]{8,64})[ \t]{1,4}(?:to|auf|zu|in)[ \t]"
)
_ALONE = re.compile(r"""[ \t]{1,4}(?:\d[ \t]{1,4})?(?P<d>[^\s"'`<>|(){}=/-][^\s"'`<>|(){}=]{7,128})""")
_ABOUT = re.compile(
    r"[ \t]{1,4}(?:manager|polic|hash|length|reset|field|generator|store|format|strength|type|prompt|hint)"
)
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


_ESCAPED = re.compile(
    r"""\\\\{0,3}(?:["']|u00(?:22|27|26|3[aAdD]))|&(?:quot|apos|lt|gt|\#(?:34|39|58|61));|%(?:25)?(?:2[2467]|3[aAdD]|7[bBdD])"""
)
_ESCAPE_MARKS = ('\\"', "\\'", "\\u00", "&quot;", "&apos;", "&lt;", "&#", "%3", "%253")
_ESCAPES = {
    "quot": '"',
    "apos": "'",
    "lt": "<",
    "gt": ">",
    "22": '"',
    "27": "'",
    "26": "&",
    "3a": ":",
    "3d": "=",
    "24": "$",
}
_ESCAPES |= {"7b": "{", "7d": "}", "34": '"', "39": "'", "58": ":", "61": "="}
_LOOK_ALIKES = tuple(zip("“”„«»「」『』→⇒➜", '"""""""""===', strict=True))


def _without_escapes(text: str) -> str:
    r"""The text with quotes, colons and equals signs that are written ``\"``, ``&quot;``, ``%3D`` or ``\u0022`` as such.

    It is as long as before: blanks fill the rest, behind the sign, or before what ends a value.
    """
    if not text.isascii():
        for alike, sign in _LOOK_ALIKES:
            text = text.replace(alike, sign)
    return _ESCAPED.sub(_sign, text) if any(mark in text for mark in _ESCAPE_MARKS) else text


def _sign(found: re.Match[str]) -> str:
    escape = found[0].lower()
    sign = _ESCAPES.get(escape.strip("&#;")) or _ESCAPES.get(escape[-2:], escape[-1])
    return sign.rjust(len(escape)) if sign in "<&" else sign.ljust(len(escape))


def find_keyed(text: str) -> _Found:
    """Yield start, end and kind of each value; some may be found twice."""
    text = _without_escapes(text)
    lowered = text.lower()
    if len(lowered) != len(text):  # the one letter that grows: offsets must stay
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    one_byte = lowered.encode("ascii", "replace").decode("ascii")  # one byte a character: searched in half the time
    tables = _Tables(text)
    behind = 0
    for word_start, word_end in _words(lowered if _OTHER_LETTER.search(lowered) else one_byte):
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
    yield from _logins(text, one_byte)
    yield from _codes(text, one_byte)


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
    return _OTHER_WORD.match(tail) is not None or bool(parts) and parts[-1].lower() in _NOT_THE_SECRET


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
        yield from _labelled(text, name, line, decide)


def _labelled(text: str, name: _Name, line: int, decide: Callable[[str], bool]) -> Iterator[tuple[int, int, bool]]:
    """Values before a label in brackets or an arrow, and below a label that stands alone."""
    behind = (
        None
        if text[name.start - 1 : name.start] not in ("(", "[", " ")
        else _LABEL_BEHIND.search(text, line, name.start)
    )
    if behind is not None and (behind["open"] is None or text[name.end : name.end + 1] in (")", "]")):
        yield _judged(behind, decide, prose=True)
    above = _LABEL_ABOVE.match(text, name.end)
    if above is not None and (above["colon"] or (not above["between"].strip(" *_#") and text[line] in "#*_")):
        yield _judged(above, decide, prose=True)


_MARKUP = re.compile(r"&(?:#\d+|quot|lt|gt|nbsp);|</|[;&,](?=[\w .-]{1,40}=)")
_CUT = re.compile(r"""["'`]$|;|"[,}\])]|'[,}\])]|,(?=\s|["'])|[)\]}]+[;,]*$|[;,]+$""")


def _judged(found: re.Match[str], decide: Callable[[str], bool], *, prose: bool = False) -> tuple[int, int, bool]:
    """The place of the value and whether it counts. A bare one ends where the notation around it goes on."""
    name = next(each for each in "abcde" if each in found.re.groupindex and found[each] is not None)
    value = found[name].lstrip()  # what fills an escape
    start = found.end(name) - len(value)
    value = judged = value.rstrip()
    if name in "de":
        markup = _MARKUP.search(value)
        if markup is not None:
            value = value[: markup.start()]
        cut = _CUT.search(value)
        if cut is not None and cut.start() >= MIN_VALUE_CHARS:
            value = value[: cut.start()]
        other = _OTHER_SCRIPT.search(value) if prose else None
        if other is not None:  # the sentence goes on without a blank
            value = value[: other.start()]
        judged = value.rstrip(".,;:!?)]}*_")
        value = judged if prose else value
    counts = not value.startswith(("//", "--", "![")) and (not prose or _is_odd(judged)) and decide(judged.strip())
    return start, start + len(value), counts


_OTHER_SCRIPT = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_WORDS_AND_NUMBER = re.compile(r"[^\W\d_]{3,20}[-_!#.+*][^\W\d_]{3,20}\d{2,4}")


def _is_plain_secret(value: str) -> bool:
    """Without any word between, only what has capitals, small letters and two digits, or is long and has both."""
    if value == value.upper():
        return False
    if _MARK_INSIDE.search(value) and re.search("[0-9]", value):
        return True
    if len(re.findall(r"[0-9]", value)) < 2:
        return False
    return value != value.lower() or len(value) >= 20 or _WORDS_AND_NUMBER.fullmatch(value) is not None


_MARK_INSIDE = re.compile(r"\w[!#$%&*+?@^~]\w")


def _is_odd(value: str) -> bool:
    """In a sentence a value must differ from every word: digits and letters, or marks inside."""
    return re.search(r"[0-9]", value) is not None or _MARK_INSIDE.search(value) is not None


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
_PASS_OPTION = re.compile(r"[ \t](?P<flag>-[A-Za-z]|/p:|/pass:|pass=)(?P<apart>[ \t]?)[\"']?(?P<a>[^\s\"']{8,128})")
# Which commands take a password by which flag; by "-p" with a blank between, mysql asks for it and names the database.
_TAKES = {
    "-k": re.compile("openssl"),
    "-n": re.compile("ssh-keygen"),
    "-x": re.compile("snmp"),
    "-a": re.compile("redis-cli|ldap|mongo|snmp|influx|mosquitto"),
    "-w": re.compile("ldap|pgcli|ipmitool"),
}
_TAKES_P = re.compile(
    r"sshpass|mysql|mariadb|docker|podman|helm|zip|7z|plink|pscp|mongo|sqlcmd|bcp|osql|ldap|smbclient|xfreerdp|ipmitool|htpasswd"
    r"|mosquitto|vncviewer|rdesktop|influx|cqlsh|sftp|lftp|kinit|mount|pgcli|mycli|ssh-keygen|az login"
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
    r"(?:1[.)][ \t]{1,3})?(?P<a>[a-z]{3,8}(?:(?:[ ,]{1,2}|[ \t]{0,2}\n[ \t]{0,8}(?:[-*]|\d{1,2}[.)])[ \t]{1,3})[a-z]{3,8}){11,24})(?![ ,]{1,2}[a-z])",
    re.IGNORECASE,
)
_APP_PASSWORD = re.compile(
    r"(?:password|passwort|contraseña|passwd|pass)\b[^\n]{0,32}?[:=][ \t*`\"']{0,5}(?P<a>[a-z]{4}(?:[ -][a-z]{4}){3})(?![\w-])",
    re.IGNORECASE,
)


_DIGITS_OR_MARK = re.compile(r"[0-9]{3}|[!#$%+^~]|[a-z][A-Z][a-z]?[A-Z0-9]")
_KNOWN_USER = re.compile(
    r"(?<![\w./@-])(?P<user>(?:admin(?:istrator)?|root))[\"'`*]{0,3}[ \t]?(?:/|:|\|)[ \t]?[\"'`*]{0,3}(?P<a>[^\s\"'`|]{8,64})",
    re.IGNORECASE,
)
_LOGIN_LINES = re.compile(
    r"login[ \t]{1,4}\S{1,120}\s{1,8}pass(?:word)?[ \t]{1,4}(?P<a>[^\s<>{}$]{8,128})", re.IGNORECASE
)
_SASL = re.compile(r"\]:\d{2,5}[ \t]{1,8}[^\s:]{1,64}:(?P<a>[^\s<>{}]{8,128})")

# Commands that take a password by a flag of their own, by place, by a here-string or by a pipe.
_ARGUMENT = r"[ \t]{1,4}[\"']?(?P<a>[^\s\"'<>|]{8,128})"
_BY_PLACE = re.compile(
    r"(?:net[ \t]{1,4}user[ \t]{1,4}\S{1,64}|rabbitmqctl[ \t][^\n]{0,60}?(?:add_user|change_password)[ \t]{1,4}\S{1,64}"
    r"|wpa_passphrase[ \t]{1,4}(?:\"[^\"\n]{1,64}\"|\S{1,64})|redis-cli[ \t][^\n]{0,80}?auth|rclone[ \t]{1,4}obscure|vault[ \t]{1,4}login"
    r"|nmcli[ \t][^\n]{0,160}?password)" + _ARGUMENT,
    re.IGNORECASE,
)
_ORACLE = re.compile(r"sqlplus[ \t]{1,4}(?:-\w{1,8}[ \t]{1,4})?[\"']?\w{1,64}/(?P<a>[^\s@\"'/<>]{8,128})")
_HERE_STRING = re.compile(r"<<<[ \t]{0,4}[\"']?(?:[a-z_][\w-]{0,31}:)?(?P<a>[^\s\"']{8,128})")
_PIPED = re.compile(
    r"(?:echo|printf)(?:[ \t]{1,4}-\w{1,3})?(?:[ \t]{1,4}[\"']?%s(?:\\n)?[\"']?)?[ \t]{1,4}[\"']?(?:[a-z_][\w-]{0,31}:)?(?P<a>[^\s\"'|]{8,128})[\"']?"
    r"[ \t]{0,4}\|(?P<command>[^\n]{1,120})"
)
_READS_SECRET = re.compile(
    r"\bsudo[ \t][^|]{0,40}?-\w*S|\bsu\b|pass(?:wd|word|phrase)|--stdin|\blogin\b|token|\b(?:kinit|cryptsetup|restic|borg|gpg|openssl|htpasswd)\b|secret"
)
_ONE_TIME = re.compile(r"(?i:2fa|mfa|otp|authenticator)[^\n]{0,32}?[ \t:=`\"']{1,4}(?P<a>[A-Z2-7]{16,64})(?![\w])")


def _line_before(found: re.Match[str]) -> str:
    return found.string[max(0, found.start() - 160) : found.start()].rpartition("\n")[2]


def _taken_by_flag(found: re.Match[str]) -> bool:
    flag, line = found["flag"], _line_before(found)
    command = _TAKES.get(flag.lower(), _TAKES_P).search(line)
    asks = found["apart"] and flag == "-p" and command is not None and command[0] in ("mysql", "mariadb")
    return command is not None and not asks and _password(found)


def _into_a_prompt(found: re.Match[str]) -> bool:
    command = found.groupdict().get("command") or _line_before(found)
    return _READS_SECRET.search(command) is not None and (is_password(found["a"]) or is_key(found["a"]))


def _seed_of_codes(found: re.Match[str]) -> bool:
    return not is_filler(found["a"]) and re.search("[2-7]", found["a"]) is not None


def _credible_pair(found: re.Match[str]) -> bool:
    value = found["a"].rstrip(".,;:!?)")
    if found["user"].lower() in ("http", "https", value.lower()) or re.search(r"[/=]|^[!-]", value):
        return False
    return (
        value != value.upper()
        and is_password(value)
        and (_is_plain_secret(value) or _DIGITS_OR_MARK.search(value) is not None)
    )


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
    _LoginRule(PASSWORD, (" -p", " -a", " -w", " -k", " -n", " -x", " /p", " pass="), _PASS_OPTION, _taken_by_flag),
    _LoginRule(PASSWORD, ("pass:",), _PASS_SOURCE, _password),
    _LoginRule(PASSWORD, ("htpasswd ",), _HTPASSWD, _password),
    _LoginRule(PASSWORD, ("wifi:",), _WIFI_CODE, _password),
    _LoginRule(PASSWORD, ("securestring",), _SECURE_STRING, _password),
    _LoginRule(PASSWORD, (":5432:", ":*:", ":5433:", ":6432:"), _PGPASS, _password),
    _LoginRule(PASSWORD, ("log", "credential", "creds", "sign in", "zugang", "anmeldung", "identifiants", "accesso", "acceso"), _PAIR, _credible_pair),
    _LoginRule(PASSWORD, ("admin", "root"), _KNOWN_USER, _credible_pair),
    _LoginRule(PASSWORD, ("login ",), _LOGIN_LINES, _password, needs=("pass",)),
    _LoginRule(PASSWORD, ("]:",), _SASL, _password),
    _LoginRule(PASSWORD, ("net user ", "rabbitmqctl ", "wpa_passphrase ", "redis-cli ", "rclone obscure ", "nmcli "), _BY_PLACE, _password),
    _LoginRule(KEY, ("vault login ",), _BY_PLACE, lambda found: is_key(found["a"])),
    _LoginRule(PASSWORD, ("sqlplus ",), _ORACLE, _password),
    _LoginRule(PASSWORD, ("<<<",), _HERE_STRING, _into_a_prompt),
    _LoginRule(PASSWORD, ("echo ", "printf "), _PIPED, _into_a_prompt, needs=("|",)),
    _LoginRule(KEY, ("otp", "2fa", "mfa", "authenticator"), _ONE_TIME, _seed_of_codes),
    _LoginRule(PASSWORD, ("password", "passwort", "kennwort", "passphrase"), _CHANGED, lambda found: _is_odd(found["a"]) and is_password(found["a"])),
    _LoginRule(PASSWORD, ("/user:",), _NET_USE, _password),
    _LoginRule(KEY, ("seed", "recovery", "mnemonic"), _PHRASE, lambda found: len(set(found["a"].split())) >= 10),
    _LoginRule(PASSWORD, ("password", "passwort", "contrase", "passwd", "pass:"), _APP_PASSWORD, lambda found: not is_filler(found["a"])),
)  # fmt: skip


# --- codes that are kept for the day a device is lost ------------------------------------------------------------------

_CODES_HEAD = re.compile(
    r"(?:recovery|backup|scratch|rescue|emergency|2fa|mfa|one[- ]time|notfall|wiederherstellungs?|einmal|(?:codes?|codici|c.digos?) (?:de|di) (?:secours|recupera\w*|backup|riserva))"
    r"[ -]?(?:codes?|keys?|schl.ssel|backup)?(?![\w-])(?:[^\n:]{0,40}:[*_]{0,3}[ \t]{0,4}|[^\n:]{0,40}(?=\n)|[ \t]{1,4})(?=[\w\n`])"
)
_CODE = re.compile(r"[A-Za-z0-9]{3,12}(?:-[A-Za-z0-9]{3,12}){0,8}")
_ITEM = re.compile(
    r"[ \t>]{0,16}(?:(?:[-*+]|\d{1,2}[.):])[ \t]{1,4})?(?:\[[ x]\][ \t]{1,4})?`?(?P<codes>[^\n`]{8,120}?)`?[ \t]{0,4}(?:\n|\Z)"
)
_MAX_CODES = 24
_HEAD_LEAD, _HEAD_CHARS = 24, 80


def _codes(text: str, lowered: str) -> _Found:
    """What stands behind or below words for recovery codes, line by line while each line is nothing but codes."""
    behind = 0
    for mark in ("code", "digo", "codici", "recovery key", "backup key", "2fa backup"):
        at = lowered.find(mark)
        while at >= 0:
            head = _CODES_HEAD.search(lowered, max(0, at - _HEAD_LEAD), at + _HEAD_CHARS)
            at = lowered.find(mark, max(at + len(mark), head.end() if head is not None else 0))
            if head is None:
                continue
            behind = head.end()
            for _ in range(_MAX_CODES):
                while text.startswith("\n", behind) and behind - head.end() < 3:
                    behind += 1
                item = _ITEM.match(text, behind)
                if item is None or not _are_codes(item["codes"]):
                    break
                yield item.start("codes"), item.end("codes"), KEY
                behind = item.end()


def _are_codes(line: str) -> bool:
    codes = re.split(r"[ ,;/\t]+", line.strip(" .,;"))
    grouped = all(code.isdigit() and len(code) >= 3 for code in codes) and len("".join(codes)) >= MIN_VALUE_CHARS
    return (
        all(
            _CODE.fullmatch(code) and len(set(code)) > 3 and (grouped or len(code) >= MIN_VALUE_CHARS) for code in codes
        )
        and sum(any(char.isdigit() for char in code) for code in codes) * 2 >= len(codes)
        and not re.search(r"example|xxxx|(?:19|20)\d\d-\d\d-\d\d", line, re.IGNORECASE)
        and not (len(codes) == 1 and re.fullmatch(r"[A-Z]?[a-z]{4,12}\d{1,4}", codes[0]))
    )


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
