"""Familiarity: high for English with identifiers in it, low for what the vocabulary does not know."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_mcp.embedders.base import Embedder
from rag_mcp.embedders.familiarity import WordPieces, familiarity, known_scripts, words_of

ENGLISH = [
    "How do I set RAG_MCP_DB_PATH for the getUserById handler?",
    "What does error E0382 mean when a value is moved into a closure?",
    "Why is my pod stuck in CrashLoopBackOff after the upgrade to v1.29.3?",
    "Which method of forecasting uses averages to predict future weather",
    "where is map_batches() documented",
]
FOREIGN = [
    "¿Cuántas copias de seguridad conserva el servidor después de una actualización?",
    "¿En qué estilo estaban construidos los edificios residenciales de la ciudad?",
    "Wie häufig werden die Sicherungskopien der Datenbank überprüft?",
    "Как часто проверяются резервные копии базы данных?",
    "バックアップはどのくらいの頻度で確認されますか",
    "데이터베이스 백업은 얼마나 자주 확인됩니까",
]


def test_english_technical_questions_are_told_from_other_languages(minilm: Embedder) -> None:
    lowest_english = min(minilm.familiarity(text) for text in ENGLISH)
    highest_foreign = max(minilm.familiarity(text) for text in FOREIGN)
    assert highest_foreign < 0.7 < lowest_english


@pytest.mark.parametrize("text", ["", "   ", "42", "?!", "RAG_MCP_DB_PATH", "a b", "\ud800"])
def test_a_text_without_a_word_to_judge_is_familiar(minilm: Embedder, text: str) -> None:
    assert minilm.familiarity(text) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80))
def test_any_text_has_a_familiarity_of_zero_to_one(minilm: Embedder, text: str) -> None:
    assert 0.0 <= minilm.familiarity(text) <= 1.0
    assert minilm.familiarity(f"harbour {text}") > 0.0


@pytest.mark.parametrize(
    "text",
    [
        "\u72ac",
        "\u6c34",
        "\u0e1b\u0e23\u0e30\u0e15\u0e39",
        "\u0446\u0435\u043f\u044c",
        "\u05d3\u05d2\u05dc 5",
        "\ubc30 \u6c34",
    ],
)
def test_words_of_scripts_the_model_has_at_most_letters_of_are_not_familiar_at_all(minilm: Embedder, text: str) -> None:
    assert minilm.familiarity(text) == 0.0


def test_a_script_is_known_by_words_and_not_by_letters() -> None:
    letters = [chr(code) for code in range(0x0E01, 0x0E2F)]
    words = [f"##{one}{two}" for one in letters[:6] for two in letters[:6]]
    assert known_scripts(["harbour", *letters]) == {"LATIN"}
    assert known_scripts(["harbour", *letters, *words]) == {"LATIN", "THAI"}


WORD = st.builds(WordPieces, st.sampled_from(["anchor", "basin", "cable"]), st.integers(1, 9), st.integers(0, 2))


@given(st.lists(WORD, min_size=1), st.integers(0, 8), st.data())
def test_more_pieces_or_an_unknown_piece_never_raise_it(
    words: list[WordPieces], more: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    word, pieces, unknown = (getattr(words[at], name) for name in ("word", "pieces", "unknown"))
    worse = WordPieces(word, pieces if unknown else pieces + more, unknown + 1)
    latin = {"LATIN"}
    assert familiarity([*words[:at], worse, *words[at + 1 :]], latin) <= familiarity(words, latin)


MANY = {"LATIN", "CYRILLIC", "CJK", "THAI", "GREEK"}


def test_a_vocabulary_of_many_scripts_knows_the_words_it_splits() -> None:
    split = [WordPieces("лодки", 3), WordPieces("過濾器", 4), WordPieces("Werkstatt", 2)]
    assert familiarity(split, MANY) == 1.0
    assert familiarity(split[2:], {"LATIN"}) < familiarity([WordPieces("anchor", 1)], {"LATIN"})


def test_a_vocabulary_of_many_scripts_does_not_know_unknown_words_or_other_scripts() -> None:
    unknown, foreign = WordPieces("猫", 1, 1), WordPieces("ꦲꦏ", 2)
    assert familiarity([unknown], MANY) == familiarity([foreign], MANY) == 0.0
    assert 0.0 < familiarity([WordPieces("anchor", 2), unknown], MANY) < 1.0
    assert 0.0 < familiarity([WordPieces("anchor", 2), foreign], MANY) < 1.0


def test_pieces_are_counted_for_the_word_they_stand_in() -> None:
    found = words_of("un-knowable, 言", [(0, 2), (2, 3), (3, 7), (7, 11), (11, 12), (13, 14)], list("abcdef"), ["f"])
    assert found == [WordPieces("un", 1), WordPieces("knowable", 2), WordPieces("言", 1, 1)]
