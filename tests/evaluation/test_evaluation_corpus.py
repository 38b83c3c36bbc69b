from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.errors import CorpusError
from rag_mcp.evaluation.corpus import ResultSpans, corpus_digest, line_span, line_starts, provenance_of


def test_every_kind_of_line_end_starts_one_line_and_a_form_feed_none():
    text = "a\nb\r\nc\rd\x0ce\u2028f"
    starts = line_starts(text)
    assert [text[a:b] for a, b in zip(starts, starts[1:], strict=False)] == ["a\n", "b\r\n", "c\r", "d\x0ce\u2028f"]


@given(st.text(alphabet="ab\r\n\x0c", max_size=40))
def test_lines_tile_the_text(text):
    starts = line_starts(text)
    assert starts[0] == 0 and starts[-1] == len(text) and list(starts) == sorted(set(starts))


def test_lines_past_the_end_are_cut_off():
    starts = line_starts("one\ntwo\n")
    assert line_span(starts, 2, 2) == (4, 8)
    assert line_span(starts, 1, 99) == (0, 8)
    assert line_span(starts, 98, 99) == (8, 8)


def test_offsets_count_characters_of_the_decoded_file_with_its_line_ends(tmp_path, result):
    (tmp_path / "a.md").write_bytes("é\r\nñandú\r\n".encode())
    assert ResultSpans(tmp_path)(result("a.md", lines=(2, 2))) == (3, 10)


def test_an_exact_span_is_used_without_reading_the_file(tmp_path, result):
    assert ResultSpans(tmp_path)(result("gone.md", span=(5, 9))) == (5, 9)


def test_a_cited_file_that_is_gone_is_named(tmp_path, result):
    with pytest.raises(CorpusError, match=r"gone\.md is in the index"):
        ResultSpans(tmp_path)(result("gone.md"))


def test_the_digest_follows_names_and_content_of_markdown_only(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("one", encoding="utf-8")
    first = corpus_digest(tmp_path)
    (tmp_path / "other.txt").write_text("x", encoding="utf-8")
    assert corpus_digest(tmp_path) == first
    (tmp_path / "sub" / "a.md").rename(tmp_path / "a.md")
    moved = corpus_digest(tmp_path)
    (tmp_path / "a.md").write_text("two", encoding="utf-8")
    assert len({first, moved, corpus_digest(tmp_path)}) == 3


def test_provenance_names_the_folder_not_its_place(tmp_path):
    root = tmp_path / "notes"
    root.mkdir()
    questions = tmp_path / "q.jsonl"
    questions.write_text("{}", encoding="utf-8")
    got = provenance_of(root, questions, embedder="hash", date="2024-06-01")
    assert got.corpus == "notes" and "rag_mcp" in got.versions
    with pytest.raises(CorpusError, match="can't be read"):
        provenance_of(root, tmp_path / "none.jsonl", embedder="hash", date="2024-06-01")
