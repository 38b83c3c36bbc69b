"""Compares converters of PDF, DOCX and HTML: python3 scripts/documents_study.py DIR, which has a folder for each format.

Needs an environment with the extra ``documents``, the other candidates (``pip install "markitdown[pdf,docx]" pypdf``) and
poppler's ``pdftotext``. Each file is converted twice by each candidate, every time in a process of its own; a row of the table gives the mean
over a format's files.

words: share of the reference's words that the text has, with their counts. headings: share of the titles in the outline,
heading styles or h1 to h6 that are heading lines. pages: share of files whose pages are told. same: share of files
with the same text both times. The reference is poppler for PDF, and else the words of the XML or HTML as they stand there;
the titles of a PDF's outline are read by pdfium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from statistics import mean
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = [sys.executable, "-P", str(ROOT / "rag_mcp" / "ingest" / "converter.py")]
LIMITS = [str(600), str(4 << 30), str(1 << 30)]
MARKITDOWN = """
import io, json, sys
from markitdown import MarkItDown, StreamInfo
found = MarkItDown().convert_stream(io.BytesIO(sys.stdin.buffer.read()), stream_info=StreamInfo(extension="." + sys.argv[1]))
print(json.dumps({"parts": found.text_content.split(chr(12))}))
"""
PYPDF = """
import io, json, sys
import pypdf
print(json.dumps({"parts": [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages]}))
"""
KINDS = ("pdf", "docx", "html")
CANDIDATES = {  # command, formats, distributions that it is made of
    "pypdfium2 + mammoth + html-to-markdown": (SHIPPED, KINDS, ("pypdfium2", "mammoth", "html-to-markdown")),
    "markitdown": (
        [sys.executable, "-c", MARKITDOWN], KINDS, ("markitdown", "mammoth", "lxml", "pdfminer.six", "pdfplumber"),
    ),
    "pypdf": ([sys.executable, "-c", PYPDF], ("pdf",), ("pypdf",)),
}  # fmt: skip
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
HEADING_TAGS = ("h1", "h2", "h3", "h4", "h5", "h6")
WORD = re.compile(r"\w{2,}")


class Page(HTMLParser):
    """Words that stand in an HTML file outside scripts and styles, and the texts of its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts, self.headings, self.silent, self.heading = [], [], 0, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.silent += tag in ("script", "style", "head")
        if tag in HEADING_TAGS:
            self.heading = []

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style", "head") and self.silent > 0
        if tag in HEADING_TAGS and self.heading is not None:
            self.headings.append("".join(self.heading))
            self.heading = None

    def handle_data(self, data):
        if not self.silent:
            self.texts.append(data)
            if self.heading is not None:
                self.heading.append(data)


def reference(kind: str, path: Path) -> tuple[str, list[str]]:
    """(text, headings) by a reader that is none of the candidates."""
    if kind == "html":
        page = Page(path.read_text(encoding="utf-8", errors="replace"))
        return " ".join(page.texts), page.headings
    if kind == "docx":
        with zipfile.ZipFile(path) as archive:
            root = ElementTree.fromstring(archive.read("word/document.xml"))
        paragraphs = [("".join(each.text or "" for each in p.iter(f"{W}t")), p) for p in root.iter(f"{W}p")]
        styles = [(text, p.find(f"{W}pPr/{W}pStyle")) for text, p in paragraphs]
        headings = [text for text, style in styles if style is not None and "Heading" in style.get(f"{W}val", "")]
        return "\n".join(text for text, _ in paragraphs), headings
    import pypdfium2

    told = subprocess.run(["pdftotext", str(path), "-"], stdout=subprocess.PIPE, check=True)
    return told.stdout.decode("utf-8", "replace"), [each.get_title() for each in pypdfium2.PdfDocument(path).get_toc()]


def words(text: str) -> Counter:
    return Counter(word.lower() for word in WORD.findall(text))


def plain(heading: str) -> str:
    return " ".join(WORD.findall(heading)).lower()


def convert(command: list[str], kind: str, raw: bytes) -> tuple[list[str], float, float]:
    """(parts, seconds, peak MiB); no parts where it failed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, kind, *LIMITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write(raw)
    process.stdin.close()
    answer = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    try:
        parts = json.loads(answer).get("parts", [])
    except ValueError:
        parts = []
    return parts, time.perf_counter() - started, usage.ru_maxrss / 1024


def measured(command: list[str], kind: str, path: Path) -> dict[str, float]:
    raw = path.read_bytes()
    text, headings = reference(kind, path)
    parts, seconds, peak = convert(command, kind, raw)
    found = "\n".join(parts)
    wanted, got = words(text), words(found)
    lines = {plain(line) for line in found.splitlines() if line.startswith("#")}
    known = [plain(each) for each in headings if plain(each)]
    hit = [any(each == line or line.endswith(f" {each}") for line in lines) for each in known]
    return {
        "words": (wanted & got).total() / max(1, wanted.total()),
        **({"headings": mean(hit)} if hit else {}),
        **({"pages": float(len(parts) > 1)} if kind == "pdf" else {}),
        "same": float(convert(command, kind, raw)[0] == parts),
        "seconds": seconds,
        "peak MiB": peak,
    }


def tree(roots: tuple[str, ...]) -> tuple[int, float]:
    """(distributions, MiB) of what is installed for ``roots``."""
    pending, seen, size = list(roots), set(), 0
    while pending:
        name = re.match(r"[\w.-]+", pending.pop())[0].lower().replace("_", "-")
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name in seen:
            continue
        seen.add(name)
        size += sum(file.locate().stat().st_size for file in found.files or () if file.locate().is_file())
        pending += [each for each in found.requires or () if "extra ==" not in each]
    return len(seen), size / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, (command, kinds, distributions) in CANDIDATES.items():
        count, size = tree(distributions)
        print(f"\n{name}: {count} distributions, {size:.0f} MiB")
        for kind in kinds:
            rows = [measured(command, kind, path) for path in sorted((folder / kind).glob(f"*.{kind}"))]
            keys = dict.fromkeys(key for row in rows for key in row)
            means = [f"{key} {mean(row[key] for row in rows if key in row):.3f}" for key in keys]
            worst = f"worst words {min(row['words'] for row in rows):.3f}" if rows else ""
            print(f"  {kind}, {len(rows)} files: {', '.join([*means, worst])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
