"""What the path of a source may look like: one grammar for the names ingest takes, citations carry and callers ask for.

Names are kept exactly as on disk. Refused is what would mean something else on another system, or in an answer: a
backslash, control characters, Windows device names (with any extension), a component of dots and blanks only, and a
name that is not Unicode. Folder names may end in a dot ("Acme Inc."), file names may not.

Who repeats a name (a model, a keyboard, a file system) may spell it in another canonical form of Unicode. So a name is
looked up as it stands first, and then by its form: ``same_names``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Container, Iterable, Mapping, Sequence

from rag_mcp.errors import NotFound
from rag_mcp.text.globs import composed
from rag_mcp.text.sanitize import printable

__all__ = [
    "MAX_PATH_CHARS",
    "canonical_names",
    "from_cursor",
    "name_problem",
    "no_such_document",
    "path_problem",
    "plain_path",
    "safe_source",
    "same_names",
    "to_cursor",
]

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


def plain_path(raw: str) -> str | None:
    """Return a caller's path as a relative posix path, ``.`` and doubled slashes taken out; None if it can't be one.

    Nothing is decoded: ``%2e`` is three letters.
    """
    if not isinstance(raw, str) or raw.startswith("/") or raw.endswith("/") or len(raw) > 2 * MAX_PATH_CHARS:
        return None
    path = "/".join(name for name in raw.split("/") if name not in ("", "."))
    return path if path and path_problem(path) is None else None


def safe_source(raw: str) -> str:
    """Return ``plain_path`` of a document asked for. Raises NotFound for whatever can't be a source: absolute, ``..``,
    backslashes, drives, devices, control characters, lone surrogates."""
    source = plain_path(raw)
    if source is None:
        raise no_such_document(raw)
    return source


def no_such_document(raw: str, nearest: Sequence[str] = ()) -> NotFound:
    """Build the one answer to a path that is missing, forbidden or malformed; it says nothing but the question, and
    which documents the caller may see are ``nearest``."""
    shown = printable(raw[:MAX_PATH_CHARS]) if isinstance(raw, str) else "(not text)"
    return NotFound(f"No such document: {shown}. list_documents names the ones there are.", nearest=nearest)


def canonical_names(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """{canonical form: paths} of those paths that are spelled in another form."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        form = composed(path)
        if form != path:
            found[form] = (*found.get(form, ()), path)
    return found


def same_names(path: str, known: Container[str], other_forms: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ``known`` paths that are canonically equal to ``path``; ``other_forms`` are their canonical_names."""
    form = composed(path)
    return ((form,) if form in known else ()) + other_forms.get(form, ())


def to_cursor(path: str) -> str:
    """Return the cursor of the page that begins behind ``path``."""
    return base64.urlsafe_b64encode(path.encode()).decode("ascii")


def from_cursor(cursor: str) -> str | None:
    """Return the path of ``to_cursor``; None for any text it never gives."""
    try:
        path = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    return path if path_problem(path) is None and to_cursor(path) == cursor else None
