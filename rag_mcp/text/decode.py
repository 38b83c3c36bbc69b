"""From the bytes of a file to the text that is indexed: encoding, line ends, inline images."""

from __future__ import annotations

import hashlib
import re

from rag_mcp.errors import CorpusError

__all__ = ["Undecodable", "decode", "raw_digest", "shorten_data_uris", "text_digest"]

_BOM = "\ufeff"

# UTF-32 LE starts with the two bytes of UTF-16 LE, so the longer marks come first.
_MARKED_ENCODINGS = (
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\xfe\xff", "UTF-16"),
    (b"\xff\xfe", "UTF-16"),
)

_MIN_PAYLOAD_CHARS = 200

# Every repetition is bounded or possessive, and no two can match the same characters, so a scan never backtracks.
# A payload may be wrapped: a next line counts when it is one long word, or a short one that meets the closing mark.
_DATA_URI = re.compile(
    r"""(?ix)
    (?<![a-z0-9]) data:
    (?P<mime> [a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80} )?
    (?: ;[a-z0-9.=_+-]{0,80} ){0,8}?
    (?:
        ;base64, (?P<base64>
            [a-z0-9+/=_%-]*+
            (?: [ \t]*+ \n [ \t]*+ [a-z0-9+/=_%-]{20,}+ )*+
            (?: [ \t]*+ \n [ \t]*+ [a-z0-9+/_%-]{0,19}+ (?: ={1,2}+ | (?= [ \t]*+ [)"'>] ) ) )?+
        )
      | , (?P<escaped> [^\s"'<>()`]*+ )
    )
    """
)


class Undecodable(CorpusError):
    """The file is not text that can be indexed; ``reason`` says why and never holds any of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(raw: bytes) -> str:
    """Return the text with line feed as its only line break and without byte order marks.

    UTF-8 unless a byte order mark says UTF-16 or UTF-32. Marks inside the text (left by joining files) go too.
    Raises Undecodable for anything else and for text that holds NUL.
    """
    encoding = next((name for mark, name in _MARKED_ENCODINGS if raw.startswith(mark)), "UTF-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        # The cause is cut off: it carries the whole content of the file.
        raise Undecodable(f"not valid {encoding} (byte {error.start}); save it as UTF-8") from None
    if "\x00" in text:
        raise Undecodable("holds a NUL character, so it is probably not text")
    return text.replace(_BOM, "").replace("\r\n", "\n").replace("\r", "\n")


def text_digest(text: str) -> str:
    """Return the SHA-256 (hex) of decoded text: byte order marks and line endings do not count as changes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def raw_digest(raw: bytes) -> str:
    """Name the bytes of a file that has no text of its own: it is converted, or can't be decoded."""
    return f"raw:{hashlib.sha256(raw).hexdigest()}"


def shorten_data_uris(text: str) -> str:
    """Replace long payloads of ``data:`` URIs by their size; alt text, mime type and line numbers stay."""
    return _DATA_URI.sub(_shortened, text)


def _shortened(match: re.Match[str]) -> str:
    payload = match["base64"] if match["base64"] is not None else match["escaped"]
    if len("".join(payload.split())) <= _MIN_PAYLOAD_CHARS:
        return match[0]
    if match["base64"] is None and match["mime"] is None:
        return match[0]
    mime = match["mime"] or "text/plain"
    return f"data:{mime},{_byte_size(match)}-bytes-left-out" + "\n" * match[0].count("\n")


def _byte_size(match: re.Match[str]) -> int:
    """Size of the decoded payload in bytes; escapes (``%2B``) stand for one character each."""
    payload = "".join((match["base64"] or match["escaped"]).split())
    chars = len(payload) - 2 * payload.count("%")
    if match["base64"] is None:
        return chars
    padding = len(payload) - len(payload.rstrip("="))
    return max(0, (chars - padding) * 3 // 4)
