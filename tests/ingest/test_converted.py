"""PDF, DOCX and HTML: off unless included, converted once, under limits, and from there on like any markdown."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from documents_made import W, docx, packed_pdf, paragraph, pdf
from support import Library

from rag_mcp.errors import NotFound, StoreError
from rag_mcp.ingest import content
from rag_mcp.ingest import convert as conversion
from rag_mcp.ingest.convert import Limits, NotConverted, convert
from rag_mcp.ingest.walk import FileUnreadable
from rag_mcp.maintenance import roll_back
from rag_mcp.requests import DocumentRequest

EXTRA = all(find_spec(name) for name in ("pypdfium2", "mammoth", "html_to_markdown"))
needs_extra = pytest.mark.skipif(not EXTRA, reason="the extra [documents] is not installed")
posix_limits = pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")

INCLUDE = 'include:\n  - "**/*.pdf"\n  - "**/*.docx"\n  - "**/*.html"\n  - "**/*.htm"\n'
# Longer than a note that is shown whole, so that what is cited is the page of the hit.
SHELVES = [f"Shelf {number} takes spanner {number} in its felt bag." for number in range(1, 45)]
MANUAL = pdf(
    [
        ["Pump Manual", "Read this before the marmot pump is opened.", "It weighs eleven stone."],
        ["2 Priming", "Fill the brass siphon with quince water.", "Wait until the gurgle stops."],
        ["3 Storage", "Keep the pump in a larch cabinet.", *SHELVES],
    ],
    outline=[("Pump Manual", 0), ("Priming", 1), ("Storage", 2)],
)
LEASE = docx(
    [("Heading1", "Lease"), ("", "The barn is let to the heron club."), ("Heading2", "Rent"), ("", "Nine florins.")]
)
PAGE = "<html><head><title>Ferry</title></head><body><h2>Times</h2><p>The otter ferry leaves at dawn.</p></body></html>"


ENCRYPTED = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'ab' * 32}> /U <{'cd' * 32}> >> /ID [<00> <00>]"
OUTSIDE = f"""<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<w:document {W}><w:body>{paragraph("see &a;")}</w:body></w:document>""".encode()


HIDDEN_STYLE = f"""<?xml version="1.0"?><w:styles {W}><w:style w:type="character" w:styleId="Aside">
<w:name w:val="Aside"/><w:rPr><w:vanish/></w:rPr></w:style></w:styles>""".encode()


def entity_bomb() -> bytes:
    """Ten letters, named ten times, and so on: ten gigabytes."""
    names = [f'<!ENTITY n{level} "{f"&n{level - 1};" * 10}">' for level in range(1, 10)]
    declared = f'<!DOCTYPE d [<!ENTITY n0 "{"a" * 10}">{"".join(names)}]>'
    return f'<?xml version="1.0"?>{declared}<w:document {W}><w:body>{paragraph("&n9;")}</w:body></w:document>'.encode()


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store", policy_path=tmp_path / "policy.yaml") as made:
        (tmp_path / "policy.yaml").write_text(INCLUDE, encoding="utf-8")
        made.write({"note.md": "# Note\n\nThe gate is green.\n"})
        yield made


def document(library: Library, source: str, **arguments: object):
    return library.base().get_document(DocumentRequest.parse({"source": source, **arguments}))


def reasons(summary) -> dict[str, str]:
    return {item.source: item.reason for item in summary.skipped}


def count_conversions(monkeypatch) -> list[str]:
    done: list[str] = []

    def counted(kind, *arguments, **options):
        done.append(kind)
        return convert(kind, *arguments, **options)

    monkeypatch.setattr(conversion, "convert", counted)
    return done


# --- on and off ------------------------------------------------------------------------------------------------------


def test_documents_are_left_out_unless_the_policy_includes_them(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"note.md": "# Note\n\nText.\n", "manual.pdf": MANUAL, "lease.docx": LEASE, "ferry.html": PAGE})
        library.ingest()
        assert list(library.manifest().files) == ["note.md"]


def test_without_the_extra_an_included_document_is_skipped_and_the_reason_names_it(library, monkeypatch):
    monkeypatch.setattr(conversion, "_is_installed", lambda kind: False)
    library.write({"manual.pdf": MANUAL, "ferry.html": PAGE})
    told = reasons(library.ingest())
    assert told.keys() == {"manual.pdf", "ferry.html"}
    assert all("rag-mcp-local[documents]" in reason for reason in told.values())
    again = library.ingest()
    assert reasons(again) == told and not again.published


@needs_extra
def test_a_document_waits_for_a_missing_extra_and_stays_as_indexed_meanwhile(library, monkeypatch):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    library.write({"ferry.html": PAGE})
    with monkeypatch.context() as without:
        without.setattr(conversion, "_is_installed", lambda kind: False)
        assert reasons(library.ingest(rehash=True)).keys() == {"manual.pdf", "ferry.html"}
        assert library.search("quince water siphon").results[0].citation.pages == (2,)
    assert not reasons(library.ingest())
    assert library.manifest().files.keys() == {"note.md", "manual.pdf", "ferry.html"}


# --- what it is read as ----------------------------------------------------------------------------------------------


@needs_extra
def test_a_pdf_is_found_with_its_page_and_its_heading(library):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    found = library.search("quince water siphon").results[0]
    assert "brass siphon" in (found.text or "")
    assert found.citation.heading == "2 Priming" and found.citation.title == "Pump Manual"
    assert found.citation.pages == (2,)
    whole = document(library, "manual.pdf")
    assert whole.converted_from == "pdf" and whole.pages == (1, 3)
    assert "gurgle" in whole.text and "larch" in whole.text


@needs_extra
def test_a_docx_and_a_page_are_cited_by_heading_and_have_no_pages(library):
    library.write({"lease.docx": LEASE, "ferry.html": PAGE})
    library.ingest()
    rent = next(r for r in library.search("florins").results if r.citation.source == "lease.docx")
    assert rent.citation.heading_path == ("Lease", "Rent") and rent.citation.pages == ()
    ferry = next(r for r in library.search("otter ferry dawn").results if r.citation.source == "ferry.html")
    assert ferry.citation.heading_path == ("Ferry", "Times") and ferry.citation.title == "Ferry"
    assert document(library, "lease.docx").converted_from == "docx"
    assert document(library, "note.md").converted_from == ""


@needs_extra
@pytest.mark.parametrize(
    "raw",
    [
        "<p>“naïve”</p>".encode(),
        b"\xef\xbb\xbf" + "<p>“naïve”</p>".encode(),
        b"\xff\xfe" + "<p>“naïve”</p>".encode("utf-16-le"),
        "<p>“naïve”</p>".encode("cp1252"),
        '<meta charset="ISO-8859-1"><p>“naïve”</p>'.encode("cp1252"),
        '<meta http-equiv=Content-Type content="text/html; charset=macroman"><p>“naïve”</p>'.encode("mac-roman"),
    ],
)
def test_a_page_is_decoded_as_browsers_do(tmp_path, raw):
    assert convert("html", raw, tmp_path).text.strip() == "“naïve”"


@needs_extra
def test_a_torn_entry_of_an_outline_costs_no_document(tmp_path):
    torn = pdf([["Whole page"]], outline=[("Whole page", 0), ("XX", 0)]).replace(b"(XX)", b"<FEFFD800>")
    assert convert("pdf", torn, tmp_path).text.strip() == "# Whole page"


@needs_extra
def test_a_line_of_a_printed_page_is_no_markup(tmp_path):
    lines = ["# not a heading", "~~~", "--- ", "snake_case and 2 * 3", "<div hidden>seen on paper</div>"]
    text = convert("pdf", pdf([lines]), tmp_path).text
    assert text.split("\n")[:5] == [
        "\\# not a heading", "\\~~~", "\\---", "snake_case and 2 * 3", "\\<div hidden>seen on paper</div>"
    ]  # fmt: skip


@needs_extra
def test_what_a_page_does_not_show_is_left_out(library):
    hidden = "<p style='display:none'>stoat one</p><p hidden>stoat two</p><!-- stoat three --><script>stoat=4</script>"
    library.write(
        {
            "ferry.html": PAGE.replace("<h2>", f"<style>.stoat{{}}</style>{hidden}<h2>"),
            "lease.docx": docx(
                [("", "The barn is let.")],
                more=paragraph("stoat five", run="<w:vanish/>")
                + paragraph("stoat seven", run='<w:rStyle w:val="Aside"/>')
                + paragraph("stoat six", run='<w:color w:val="FFFFFF"/>')
                + paragraph("white on blue", run='<w:color w:val="FFFFFF"/><w:shd w:val="clear" w:fill="0000FF"/>'),
                files={"word/styles.xml": HIDDEN_STYLE},
            ),
            "card.pdf": pdf([["The card is shown.", "stoat eight"]]).replace(b"[0 0 595 842]", b"[0 779 595 842]"),
        }
    )
    library.ingest()
    texts = [document(library, name).text for name in ("ferry.html", "lease.docx", "card.pdf")]
    assert not any("stoat" in text for text in texts)
    assert "white on blue" in texts[1] and "otter ferry" in texts[0]


# --- like markdown ---------------------------------------------------------------------------------------------------


@needs_extra
def test_guard_classes_and_access_hold_for_documents_too(library):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    library.write(
        {
            "memory/lease.docx": LEASE,
            "leak.pdf": pdf([["The deploy key", f"token = {token}"]]),
            "closed.html": "<pre>---\naccess: none\n---\n</pre><p>badger</p>",
            "jekyll.html": "---\naccess: none\ntitle: Sett\n---\n<html><body><p>badger</p></body></html>",
            "closed.pdf": pdf([["---", "access: none", "---", "badger"]]),
            "context/active-handoff.html": PAGE,
        }
    )
    told = reasons(library.ingest())
    assert "possible secret" in told["leak.pdf"] and token not in str(told)
    files = library.manifest().files
    assert files["memory/lease.docx"].source_class == "memory"
    assert files["context/active-handoff.html"].doc_class == "handoff"
    assert "memory/lease.docx" not in library.sources("heron club barn")
    with pytest.raises(NotFound):
        document(library, "memory/lease.docx")
    assert all("access" in told[name] for name in ("closed.html", "closed.pdf", "jekyll.html"))
    kept = [path.read_bytes() for path in (library.store_path / "converted").iterdir()]
    assert kept and not any(token.encode() in each for each in kept)


@needs_extra
def test_documents_are_docs_unless_a_rule_says_otherwise(library):
    library.write({"manual.pdf": MANUAL, "raw/ferry.html": PAGE})
    library.ingest()
    assert {entry.source_class.value for entry in library.manifest().files.values()} == {"docs"}


# --- once ------------------------------------------------------------------------------------------------------------


@needs_extra
def test_a_document_is_converted_once_also_after_a_rename_and_a_full_rebuild(library, monkeypatch):
    done = count_conversions(monkeypatch)
    library.write({"manual.pdf": MANUAL, "ferry.html": PAGE})
    library.ingest()
    before = library.dump()
    assert sorted(done) == ["html", "pdf"]
    assert not library.ingest(rehash=True).published
    library.ingest(full=True)
    assert library.dump() == before
    (library.corpus / "manual.pdf").rename(library.corpus / "pump.pdf")
    library.ingest()
    assert "pump.pdf" in library.manifest().files and len(done) == 2


@needs_extra
def test_a_dry_run_keeps_no_text(library):
    library.write({"manual.pdf": MANUAL})
    library.ingest(dry_run=True)
    assert not (library.store_path / "converted").exists()


@needs_extra
def test_kept_texts_are_their_owners_alone_and_go_with_their_document(library):
    library.write({"manual.pdf": MANUAL, "ferry.html": PAGE})
    library.ingest()
    folder = library.store_path / "converted"
    assert len(list(folder.iterdir())) == 2
    if os.name != "nt":
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
        assert modes == {0o700, 0o600}
    library.remove("manual.pdf")
    library.ingest()
    (left,) = folder.iterdir()
    assert b"otter" in left.read_bytes()


@needs_extra
def test_a_link_in_the_place_of_the_kept_texts_is_refused_and_nothing_behind_it_goes(library, tmp_path):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "letter").write_text("mine")
    shutil.rmtree(library.store_path / "converted")
    (library.store_path / "converted").symlink_to(tmp_path / "theirs")
    library.write({"ferry.html": PAGE})
    with pytest.raises(StoreError, match="link"):
        library.ingest()
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["letter"]


@needs_extra
def test_a_kept_text_that_was_changed_is_not_believed(library, monkeypatch):
    library.write({"ferry.html": PAGE})
    library.ingest()
    before = library.dump()
    (kept,) = (library.store_path / "converted").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"otter", b"stoat"))
    done = count_conversions(monkeypatch)
    library.ingest(full=True)
    assert done == ["html"] and library.dump() == before


# --- withdrawn -------------------------------------------------------------------------------------------------------


def deny(library):
    (library.store_path.parent / "policy.yaml").write_text(INCLUDE + 'deny: ["manual.pdf"]\n', encoding="utf-8")


WITHDRAWN = {
    "deleted": lambda library: library.remove("manual.pdf"),
    "denied": deny,
    "included no more": lambda library: (library.store_path.parent / "policy.yaml").write_text("version: 1\n"),
    "ignored": lambda library: library.write({".ragignore": "*.pdf\n"}),
    "closed": lambda library: library.write({"manual.pdf": pdf([["---", "access: none", "---", "quince"]])}),
    "encrypted": lambda library: library.write({"manual.pdf": pdf([["quince"]], trailer=ENCRYPTED)}),
    "with a key": lambda library: library.write({"manual.pdf": pdf([["quince", "ghp_" + "a1B2c3D4e5F6" * 3]])}),
}


def is_hidden(library: Library) -> bool:
    with pytest.raises(NotFound):
        document(library, "manual.pdf")
    return "manual.pdf" not in library.sources("quince water siphon")


@needs_extra
@pytest.mark.parametrize("how", WITHDRAWN)
def test_a_document_that_was_withdrawn_leaves_no_text_and_comes_back_in_no_way(library, how):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    WITHDRAWN[how](library)
    library.ingest()
    assert list((library.store_path / "converted").iterdir()) == []
    assert is_hidden(library)
    roll_back(library.config(), None)
    assert is_hidden(library)


@needs_extra
def test_a_document_that_was_moved_out_of_sight_is_not_shown_as_deleted(library):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    library.remove("manual.pdf")
    library.write({".attic/pump.bak": MANUAL})
    library.ingest()
    assert [each.source for each in roll_back(library.config(), 1, restore_deleted=True).refused] == ["manual.pdf"]
    assert is_hidden(library)


@needs_extra
def test_a_masked_value_is_in_no_kept_text(library):
    library.write({"lease.docx": docx([("", "The barn is let."), ("", "password: xK9#mQ2$vL7!pR4")])})
    assert not reasons(library.ingest())
    assert "[secret masked]" in document(library, "lease.docx").text
    assert list((library.store_path / "converted").iterdir()) == []


# --- hostile ---------------------------------------------------------------------------------------------------------


@needs_extra
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("torn.pdf", MANUAL[: len(MANUAL) // 3], "damaged"),
        ("junk.pdf", b"not a document at all", "damaged"),
        ("junk.docx", b"PK\x03\x04 and no more", "damaged"),
        ("other.html", MANUAL, "damaged"),
        ("other.htm", LEASE, "damaged"),
        ("other.pdf", LEASE, "damaged"),
        ("other.docx", MANUAL, "damaged"),
        ("nothing.pdf", b"", "damaged"),
        ("nothing.docx", b"", "damaged"),
        ("nothing.html", b"", "no text"),
        ("blank.pdf", pdf([[]]), "no text"),
        (
            "thick.pdf",
            pdf([["x"]])
            .replace(b"/Kids [4 0 R]", b"/Kids [%s]" % (b"4 0 R " * 10_001))
            .replace(b"/Count 1", b"/Count 10001"),
            "more text",
        ),
        ("locked.pdf", pdf([["secret"]], trailer=ENCRYPTED), "password"),
        ("deep.html", "<div>" * 5_000 + "deep", "nested too deeply"),
        ("bomb.docx", docx([], files={"word/styles.xml": b" " * (65 * 1024 * 1024)}), "unpacks to too much"),
        ("entities.docx", docx([], files={"word/document.xml": entity_bomb()}), "damaged"),
        ("outside.docx", docx([], files={"word/document.xml": OUTSIDE}), "damaged"),
    ],
)
def test_a_document_that_can_not_be_converted_is_reported_and_the_others_are_read(library, name, content, told):
    library.write({name: content, "lease.docx": LEASE})
    assert told in reasons(library.ingest())[name]
    assert library.manifest().files.keys() == {"note.md", "lease.docx"}
    again = library.ingest()
    assert told in reasons(again)[name] and not again.published


@needs_extra
def test_a_document_that_is_being_written_stays_as_indexed(library, monkeypatch):
    library.write({"manual.pdf": MANUAL})
    library.ingest()
    library.write({"manual.pdf": MANUAL[:300]})
    read = content.read_file

    def read_and_write_on(root, file, *, max_bytes):
        raw = read(root, file, max_bytes=max_bytes)
        if file.path == "manual.pdf":
            library.write({"manual.pdf": MANUAL[:400]})
        return raw

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(content, "read_file", read_and_write_on)
        assert "being written" in reasons(library.ingest())["manual.pdf"]
    assert library.search("quince water siphon").results[0].citation.pages == (2,)


@needs_extra
def test_a_document_that_breaks_later_is_left_out_as_an_undecodable_note_is(library):
    library.write({"manual.pdf": MANUAL, "other.md": "# Other\n\nText.\n"})
    library.ingest()
    library.write({"manual.pdf": b"%PDF-1.4 torn", "other.md": b"\xff\xff\x00 no text"})
    assert reasons(library.ingest()).keys() == {"manual.pdf", "other.md"}
    assert library.manifest().files.keys() == {"note.md"}


LOOP = b"""%PDF-1.4
1 0 obj
<< /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [2 0 R] /Count 1 >>
endobj
3 0 obj
<< /Type /Outlines /First 4 0 R /Last 4 0 R >>
endobj
4 0 obj
<< /Title (again) /Parent 3 0 R /Next 4 0 R /First 4 0 R >>
endobj
trailer
<< /Size 5 /Root 1 0 R >>
%%EOF
"""


@needs_extra
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(LOOP, id="its pages and outline lead back to themselves"),
        pytest.param(packed_pdf(b" " * 100, 20_000_000), marks=posix_limits, id="two gigabytes of nothing"),
        pytest.param(packed_pdf(b"BT /F1 9 Tf 9 9 Td (word) Tj ET ", 5_000_000), marks=posix_limits, id="words"),
        pytest.param(pdf([["x"]]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R 2 0 R]"), id="a tree of itself"),
    ],
)
def test_a_pdf_without_an_end_is_given_up(tmp_path, content):
    with pytest.raises(NotConverted):
        convert("pdf", content, tmp_path, Limits(cpu_s=20, wall_s=100, memory_bytes=512 << 20))


def stand_in(tmp_path: Path, monkeypatch, body: str) -> None:
    """Run a few lines in the place of a reader, behind the same limits and the same guard."""
    own = conversion._SCRIPT.read_text(encoding="utf-8").replace(
        'if __name__ == "__main__":', f"def _stand_in(raw):\n    {body}\n\n\nREADERS = {{'html': _stand_in}}\n"
        "_import = lambda kind: None\nif __name__ == \"__main__\":",
    )  # fmt: skip
    script = tmp_path / "converter.py"
    script.write_text(own, encoding="utf-8")
    monkeypatch.setattr(conversion, "_SCRIPT", script)


@pytest.mark.parametrize(
    ("body", "limits", "told"),
    [
        pytest.param("while True: pass", Limits(cpu_s=1, wall_s=100), "time", marks=posix_limits, id="processor"),
        pytest.param("import time; time.sleep(100)", Limits(wall_s=1), "time", id="clock"),
        pytest.param(
            "return ['x' * (2 << 30)]", Limits(memory_bytes=512 << 20), "memory", marks=posix_limits, id="memory"
        ),
        pytest.param("return ['x' * 5000]", Limits(chars=1000), "more text", id="text"),
        pytest.param("os._exit(7)", Limits(), "broke down", id="crash"),
        pytest.param("sys.stdout.buffer.write(b'[1]')", Limits(), "broke down", id="nonsense"),
    ],
)
def test_a_converter_that_goes_wild_is_ended_and_the_reason_says_by_what(tmp_path, monkeypatch, body, limits, told):
    stand_in(tmp_path, monkeypatch, body)
    with pytest.raises(NotConverted, match=told):
        convert("html", b"", tmp_path, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["converter.py"]


@pytest.mark.skipif(os.name == "nt", reason="such signals are of POSIX")
def test_a_converter_that_the_system_ended_says_nothing_about_the_document(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "import signal; signal.raise_signal(signal.SIGKILL)")
    with pytest.raises(FileUnreadable):
        convert("html", b"", tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "import socket; socket.socket()",
        "import subprocess; subprocess.run(['true'])",
        "open('/etc/hostname').read()",
        "open('out.txt', 'w')",
        "os.remove('somebodys')",
    ],
)
def test_a_converter_opens_no_connection_no_process_and_no_file(tmp_path, monkeypatch, body):
    stand_in(tmp_path, monkeypatch, f"{body}; return ['done']")
    with pytest.raises(NotConverted, match="damaged"):
        convert("html", b"", tmp_path)


def test_the_stand_in_itself_would_have_answered(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "return ['done']")
    assert convert("html", b"", tmp_path).text.strip() == "done"
