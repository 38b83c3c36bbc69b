"""Small PDF, DOCX and HTML documents, made by hand: what a test means is in its bytes."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"


def pdf(pages: Sequence[Sequence[str]], *, outline: Sequence[tuple[str, int]] = (), trailer: str = "") -> bytes:
    """``pages`` of lines; ``outline`` names (title, page from 0); ``trailer`` is added to the trailer's entries."""
    count = len(pages)
    first_page, first_entry = 4, 4 + 2 * count
    kids = " ".join(f"{first_page + 2 * n} 0 R" for n in range(count))
    objects = ["<< /Type /Catalog /Pages 2 0 R" + (f" /Outlines {first_entry} 0 R >>" if outline else " >>")]
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {count} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, lines in enumerate(pages):
        content = "BT /F1 11 Tf 60 780 Td 14 TL " + " ".join(f"({_escaped(line)}) Tj T*" for line in lines) + " ET"
        font = "<< /Font << /F1 3 0 R >> >>"
        stream = first_page + 2 * number + 1
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {font} /Contents {stream} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    if outline:
        last = first_entry + len(outline)
        objects.append(f"<< /Type /Outlines /First {first_entry + 1} 0 R /Last {last} 0 R /Count {len(outline)} >>")
    for at, (title, page) in enumerate(outline, start=first_entry + 1):
        following = f" /Next {at + 1} 0 R" if at < first_entry + len(outline) else ""
        target = f"[{first_page + 2 * page} 0 R /Fit]"
        objects.append(f"<< /Title ({_escaped(title)}) /Parent {first_entry} 0 R /Dest {target}{following} >>")
    return _assembled(objects, trailer)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _assembled(objects: Sequence[str], trailer: str) -> bytes:
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(out)
    rows = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}".encode()
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def docx(paragraphs: Sequence[tuple[str, str]], *, more: str = "", files: dict[str, bytes] | None = None) -> bytes:
    """(style, text) a paragraph, style empty for body text; ``more`` is XML behind them."""
    body = "".join(paragraph(text, style=style) for style, text in paragraphs)
    parts = {
        "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{_TYPES}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<?xml version="1.0"?><Relationships xmlns="{_TYPES}/relationships">'
        f'<Relationship Id="r1" Type="{_OFFICE}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<?xml version="1.0"?><w:document {W}><w:body>{body}{more}</w:body></w:document>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**parts, **(files or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def paragraph(text: str, *, style: str = "", run: str = "") -> str:
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    properties = f"<w:rPr>{run}</w:rPr>" if run else ""
    return f"<w:p>{named}<w:r>{properties}<w:t>{text}</w:t></w:r></w:p>"


def packed_pdf(content: bytes, times: int) -> bytes:
    """One page that shows ``content`` so many times over, in a file that is much smaller."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(content * 1000) for _ in range(times // 1000)) + packer.flush()
    head = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\n"
    head += (
        b"endobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font "
    )
    head += b"<< /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>\nendobj\n4 0 obj\n"
    head += b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(packed)
    return head + packed + b"\nendstream\nendobj\ntrailer\n<< /Size 5 /Root 1 0 R >>\n%%EOF\n"
