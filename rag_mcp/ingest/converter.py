"""One PDF, DOCX or HTML document on stdin -> its text as JSON on stdout. Run as a process of its own by ``convert``.

A file of its own, not imported by any other: what parses hostile bytes does so under limits, without a network, reading
no file but those of its libraries, and nothing of it stays. ``READERS`` is the table to add a format to, together with
``text/filetypes.py``. The answer is ``{"parts": [...]}``, a part for each page or one for all, or ``{"failed": name}``.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Sequence
from typing import Any
from xml.etree import ElementTree

__all__ = ["READERS", "Unreadable", "main"]

# A DOCX is a few hundred kilobytes of XML; parsed, it takes some fifty times its size.
_MAX_XML_BYTES = 64 * 1024 * 1024
_MAX_PAGES = 10_000  # each stands in the manifest, also where a file names one page a million times
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a]")
# What would be markup in markdown and is none on a printed page: a heading, a fence, a rule, an HTML block.
_MARKUP = re.compile(r"^(?=#{1,6}(?:\s|$)|`{3}|~{3}|[-=_*]{3,}\s*$|>|<)")
_NUMBERED = r"(?:(?:chapter|section|appendix|part)\s+)?(?:[\dA-Z]{1,3}(?:\.\d{1,3}){0,5}\.?:?\s+)?"
_DEEPEST = 6
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})</title", re.IGNORECASE)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CALLED_LATIN = ("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1")  # to browsers it is Windows-1252
_HEAD_BYTES = 4_096
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OFF = ("0", "false", "off", "none")


class Unreadable(Exception):
    """The argument names why, in a word that ``convert`` has a sentence for."""


# --- PDF -------------------------------------------------------------------------------------------------------------


def _pdf(raw: bytes) -> list[str]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(raw)
    except pypdfium2.PdfiumError as error:
        raise Unreadable("password" if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD else "broken") from None
    if len(document) > _MAX_PAGES:
        raise Unreadable("long")
    headings = _outline(document)
    # PDFium marks where it has joined a word that a line end had divided.
    texts = (page.get_textpage().get_text_bounded().replace("\x02", "") for page in document)
    return [_page(text, headings.get(number, ())) for number, text in enumerate(texts)]


def _outline(document: Any) -> dict[int, list[tuple[int, str]]]:
    """(level, title) of what the table of contents names, by page; a torn entry ends it, and costs no more."""
    found: dict[int, list[tuple[int, str]]] = {}
    with contextlib.suppress(ValueError):
        for entry in document.get_toc(max_depth=_DEEPEST):
            target, title = entry.get_dest(), " ".join(entry.get_title().split())
            number = target.get_index() if target is not None else None
            if number is not None and title:
                found.setdefault(number, []).append((entry.level + 1, title))
    return found


def _page(text: str, headings: Sequence[tuple[int, str]]) -> str:
    lines = [_MARKUP.sub(r"\\", line.strip()) for line in text.replace("\r\n", "\n").split("\n")]
    at = 0
    for level, title in headings:
        line = re.compile(_NUMBERED + re.escape(title), re.IGNORECASE)
        place = next((n for n in range(at, len(lines)) if line.fullmatch(" ".join(lines[n].split()))), None)
        if place is not None:
            lines[place] = f"\n{'#' * level} {lines[place]}\n"
            at = place + 1
    return "\n".join(lines)


# --- DOCX ------------------------------------------------------------------------------------------------------------


def _docx(raw: bytes) -> list[str]:
    import mammoth

    shown = io.BytesIO(_without_hidden(raw))
    styles = "p[style-name='Title'] => h1:fresh"
    page = mammoth.convert_to_html(shown, style_map=styles, convert_image=mammoth.images.img_element(lambda image: {}))
    return [_markdown(page.value)]


def _without_hidden(raw: bytes) -> bytes:
    """The document without the runs that Word does not show: hidden ones, and white ones on no colour."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as before, zipfile.ZipFile(out, "w") as after:
        parts = [part for part in before.infolist() if part.filename.endswith((".xml", ".rels"))]
        if sum(part.file_size for part in parts) > _MAX_XML_BYTES:
            raise Unreadable("large")
        styles = (
            _hidden_styles(before.read("word/styles.xml")) if "word/styles.xml" in before.namelist() else frozenset()
        )
        for part in parts:
            content = before.read(part)
            if part.filename.startswith("word/") and part.filename.endswith(".xml"):
                content = _visible(content, styles)
            after.writestr(part.filename, content)
    return out.getvalue()


def _hidden_styles(content: bytes) -> frozenset[str | None]:
    styles = ElementTree.fromstring(content).iter(f"{_W}style")
    return frozenset(style.get(f"{_W}styleId") for style in styles if _vanishes(style.find(f"{_W}rPr")))


def _vanishes(properties: ElementTree.Element | None) -> bool:
    vanish = properties.find(f"{_W}vanish") if properties is not None else None
    return vanish is not None and vanish.get(f"{_W}val") not in _OFF


def _visible(content: bytes, hidden_styles: Collection[str | None]) -> bytes:
    root = ElementTree.fromstring(content)
    pending, changed = [(root, False)], False
    while pending:
        element, shaded = pending.pop()
        shaded = shaded or any(_is_shaded(child) for child in element if child.tag.endswith("Pr"))
        hidden = [child for child in element if child.tag == f"{_W}r" and _is_hidden(child, shaded, hidden_styles)]
        for child in hidden:
            element.remove(child)
        changed = changed or bool(hidden)
        pending.extend((child, shaded) for child in element)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) if changed else content


def _is_hidden(run: ElementTree.Element, shaded: bool, hidden_styles: Collection[str | None]) -> bool:
    properties = run.find(f"{_W}rPr")
    if properties is None:
        return False
    style, colour = properties.find(f"{_W}rStyle"), properties.find(f"{_W}color")
    if _vanishes(properties) or (style is not None and style.get(f"{_W}val") in hidden_styles):
        return True
    white = colour is not None and (colour.get(f"{_W}val") or "").lower() == "ffffff"
    return white and not shaded and not _is_shaded(properties)


def _is_shaded(properties: ElementTree.Element) -> bool:
    fills = [each.get(f"{_W}fill") for each in properties.iter(f"{_W}shd")]
    return any(fill and fill.lower() not in ("auto", "ffffff") for fill in fills) or (
        properties.find(f"{_W}highlight") is not None
    )


# --- HTML ------------------------------------------------------------------------------------------------------------


def _html(raw: bytes) -> list[str]:
    page = _decoded(raw)
    if raw.startswith(b"%PDF-") or _BINARY.search(page):
        raise Unreadable("broken")
    text = _markdown(page)
    title = _TITLE.search(page, 0, 64 * 1024)
    name = " ".join(html.unescape(title[1]).split()) if title else ""
    return [f"# {name}\n\n{text}" if name and text and not re.search(r"^# ", text, re.MULTILINE) else text]


def _decoded(raw: bytes) -> str:
    """As browsers read it: by its mark, by what it says of itself, as UTF-8, else as Windows-1252."""
    said = _CHARSET.search(raw, 0, _HEAD_BYTES)
    names = [next((name for mark, name in _MARKS if raw.startswith(mark)), "")]
    names += [said[1].decode("ascii").lower() if said else "", "utf-8"]
    for name in filter(None, names):
        try:
            return raw.decode("cp1252" if name in _CALLED_LATIN else name)
        except (LookupError, UnicodeDecodeError):
            continue
    return raw.decode("cp1252", "replace")


def _markdown(page: str) -> str:
    """What the page shows: without comments, scripts, styles and elements that are hidden in place."""
    from html_to_markdown import ConversionOptions, InlineDataMedia, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False,
        inline_data_media=InlineDataMedia.ALT_TEXT_ONLY,
        preprocessing=PreprocessingOptions(enabled=False),
    )
    result = convert(page, options)
    if result.warnings:
        raise Unreadable("deep")
    return result.content or ""


# --- the process -----------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[bytes], list[str]]] = {"pdf": _pdf, "docx": _docx, "html": _html}


def main() -> None:
    """Arguments: the format, seconds of processor time, bytes of memory, bytes of the answer."""
    kind, limits = sys.argv[1], [int(each) for each in sys.argv[2:]]
    _limit(*limits)
    raw = sys.stdin.buffer.read()
    try:
        _import(kind)
        sys.addaudithook(_guard())
        parts = [_CONTROLS.sub(" ", part.replace("\r\n", "\n")) for part in READERS[kind](raw)]
        answer: dict[str, object] = {"parts": [part.encode("utf-8", "replace").decode() for part in parts]}
    except Unreadable as error:
        answer = {"failed": str(error)}
    except ImportError:
        answer = {"failed": "missing"}
    except MemoryError:
        answer = {"failed": "memory"}
    except RecursionError:
        answer = {"failed": "deep"}
    except Exception:  # whatever a library makes of bytes that are no document; its message may quote them
        answer = {"failed": "broken"}
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))


def _import(kind: str) -> None:
    """Before the guard stands, and at a cost that every document has."""
    if kind == "pdf":
        import pypdfium2  # noqa: F401
    else:
        import html_to_markdown  # noqa: F401
    if kind == "docx":
        import mammoth  # noqa: F401


def _limit(seconds: int, memory: int, answer: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the clock of the one who started this is left
        return
    wanted = ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, answer), (resource.RLIMIT_CORE, 0))
    for kind, most in (*wanted, (resource.RLIMIT_AS, memory)):
        try:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            # The signal of the soft limit says what it is for; the hard one's would not.
            resource.setrlimit(kind, (most, hard if kind == resource.RLIMIT_CPU else most))
        except (ValueError, OSError):  # macOS refuses some of them
            continue


def _guard() -> Callable[[str, tuple[Any, ...]], None]:
    """Refuse what no converter needs. No sandbox against native code; Python code can't get round it."""
    libraries = tuple(os.path.realpath(each) + os.sep for each in (*sys.path, sys.prefix, sys.base_prefix) if each)
    forbidden = ("socket.", "subprocess.", "os.", "shutil.", "ctypes.dl", "pty.", "ftplib.", "urllib.", "tempfile.")
    harmless = ("os.listdir", "os.scandir", "os.add_dll_directory")

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):  # open already
                return
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes or not os.path.realpath(os.fsdecode(path)).startswith(libraries):
                raise PermissionError("no file of anybody else's")
        elif event.startswith(forbidden) and event not in harmless:
            raise PermissionError(event)

    return check


if __name__ == "__main__":
    main()
