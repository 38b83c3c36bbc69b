"""Questions in another language than the notes: told by script and stop words, judged by a head of their own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rag_mcp.models import Chunk, DocClass, Evidence, Level, Mode, SourceClass
from rag_mcp.search.relevance import ABROAD, FEATURES, Scale, load_model
from rag_mcp.search.retrieve import Match, Retrieved
from rag_mcp.search.score import score
from rag_mcp.text.scripts import in_another_language, script_of, writing_of

SPANISH = "El ancla de reserva se guarda en el pañol de proa, junto a las cadenas y los cabos."
ENGLISH = "The spare anchor is kept in the forward locker, beside the chains and the ropes."
RUSSIAN = "Запасной якорь хранится в носовой кладовой рядом с цепями."
CHINESE = "备用锚存放在船头的储藏室里，靠近铁链。"
JAPANESE = "予備の錨は船首の倉庫に保管されています。"


@pytest.mark.parametrize(
    ("question", "passage", "language", "other"),
    [
        ("Where is the spare anchor kept?", SPANISH, "es", True),
        ("¿Dónde se guarda el ancla de reserva de la lancha?", SPANISH, "es", False),
        ("Где хранится запасной якорь?", SPANISH, "es", True),
        ("备用锚在哪里？", SPANISH, "es", True),
        ("备用锚在哪里？", CHINESE, "none", False),
        ("备用锚在哪里？", JAPANESE, "none", True),
        ("予備の錨はどこ？", JAPANESE, "none", False),
        ("Where is the spare anchor kept?", RUSSIAN, "none", True),
        # What can't be told is taken for the same language.
        ("spare anchor", SPANISH, "es", False),
        ("Where is the spare anchor kept?", "MAX_CHAIN = 40", "none", False),
        ("42?", SPANISH, "es", False),
        ("Where is the spare anchor kept?", "42 | 17 | 8", "none", False),
    ],
)
def test_another_language_is_told_by_script_and_by_stop_words(question, passage, language, other):
    assert in_another_language(question, passage, language=language) is other


def test_the_writing_of_a_text_is_that_of_most_of_its_letters():
    assert [writing_of(text) for text in (ENGLISH, RUSSIAN, CHINESE, JAPANESE, "17 + 4", "")] == [
        "LATIN", "CYRILLIC", "CJK", "HIRAGANA", "", "",
    ]  # fmt: skip
    assert writing_of("Якорь типа Danforth") == "CYRILLIC"
    assert script_of("ñ") == "LATIN"


def test_a_scale_maps_its_bounds_to_zero_and_one_and_none_changes_nothing():
    assert Scale(0.5, 1.0).of(0.75) == 0.5
    assert [Scale().of(cosine) for cosine in (-0.2, 0.1 + 0.2, 1.0)] == [-0.2, 0.1 + 0.2, 1.0]


def found(text: str, language: str, cosine: float, **evidence: float) -> Match:
    chunk = Chunk(
        id="c",
        text_key="k",
        source="locker.md",
        source_class=SourceClass.DOCS,
        project=None,
        doc_class=DocClass.NOTE,
        title="Locker",
        heading_path=("Locker",),
        index=0,
        line_start=1,
        line_end=2,
        start=0,
        end=5,
        text=text,
        language=language,
    )
    return Match(chunk, Evidence(cosine=cosine, bm25=0.0, bm25_bound=9.0, term_share=0.0, **evidence), None, 0.01)


def judged(question: str, match: Match, *, mode: Mode = Mode.HYBRID, embedder: str = "multilingual-e5-small"):
    scope = SimpleNamespace(request=SimpleNamespace(query=question))
    retrieved = Retrieved(scope=scope, mode=mode, matches=(match,), passages=3_000)
    (candidate,) = score(retrieved, load_model(embedder))
    return candidate


QUESTION = "Where is the spare anchor kept?"


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.VECTOR])
def test_a_passage_in_another_language_passes_on_its_cosine_alone(mode):
    assert judged(QUESTION, found(SPANISH, "es", 0.84), mode=mode).level is not Level.LOW
    assert judged(QUESTION, found(SPANISH, "es", 0.77), mode=mode).level is Level.LOW


def test_the_same_cosine_without_a_common_word_is_weak_in_one_language():
    assert judged(QUESTION, found(ENGLISH, "en", 0.84)).level is Level.LOW


def test_a_model_of_one_language_has_no_head_for_others():
    for embedder in ("minilm-int8", "minilm", "some other model"):
        candidate = judged(QUESTION, found(SPANISH, "es", 0.84), embedder=embedder)
        assert ABROAD not in candidate.features
        assert load_model(embedder).abroad is None


def test_words_alone_are_judged_as_ever():
    match = found(SPANISH, "es", 0.0)
    alone = replace(match, evidence=replace(match.evidence, cosine=None))
    assert judged(QUESTION, alone, mode=Mode.FTS).level is Level.LOW


def test_what_other_languages_are_judged_by_never_falls_when_evidence_rises():
    model = load_model("multilingual-e5-small")
    base = {**dict.fromkeys(FEATURES, 0.3), ABROAD: 1.0}
    for feature in FEATURES:
        assert model.probability(Mode.HYBRID, {**base, feature: 0.9}) >= model.probability(Mode.HYBRID, base)
    explained = model.explain(Mode.HYBRID, base)
    assert set(explained) == {"intercept", "cosine", "term_share"}
