"""What the path of a source may look like: the names ingest takes and a citation or a request may carry.

Names are kept exactly as on disk. Refused is what would mean something else on another system, or in an answer: a
backslash, control characters, Windows device names (with any extension), a component of dots and blanks only, and a
name that is not Unicode. Folder names may end in a dot ("Acme Inc."), file names may not.
"""

from __future__ import annotations

import re

__all__ = ["MAX_PATH_CHARS", "name_problem", "path_problem", "printable"]

MAX_PATH_CHARS = 4096

_DEVICE_NAMES = r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ ]*"
_DEVICE = re.compile(rf"{_DEVICE_NAMES}(?:[.:].*)?", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")

# Finds every path that any name in it makes unfit, and only those: one look instead of four for each of its names.
_SUSPECT = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\\]"
    r"|(?:^|/)[. ]*(?:/|\Z)"
    rf"|(?:^|/){_DEVICE_NAMES}(?:[.:/]|\Z)",
    re.IGNORECASE,
)


def name_problem(name: str) -> str | None:
    """Say why one path component can't be part of a source's path, or None."""
    if _SURROGATE.search(name):
        return "name is not valid UTF-8"
    if _CONTROL.search(name):
        return "name has a control character"
    if "\\" in name or "/" in name:
        return "name has a slash or backslash"
    if not name.strip(". "):
        return "name has nothing but dots and blanks"
    if _DEVICE.fullmatch(name):
        return "name is a Windows device"
    return None


def path_problem(path: str) -> str | None:
    """Say why a relative posix path can't be a source's path, or None."""
    if len(path) > MAX_PATH_CHARS:
        return f"path is longer than {MAX_PATH_CHARS} characters"
    if _DRIVE.match(path):
        return "path starts like a drive letter"
    if path.endswith((".", " ")):
        return "name ends in a dot or blank"
    if _SUSPECT.search(path) is None:
        return None
    return next((problem for name in path.split("/") if (problem := name_problem(name))), None)


def printable(text: str, *, max_chars: int = 200) -> str:
    """Return ``text`` fit for a report: one line, nothing invisible, bytes that are not UTF-8 in hexadecimal."""
    shown = "".join(character if character.isprintable() else _stand_in(character) for character in text)
    return shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"


def _stand_in(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"
