"""Answers from Postgres are those of the embedded store, question by question."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from shelves import PostgresShelf, copied
from support import Library

from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import Rights, resolve_profile
from rag_mcp.requests import SearchRequest
from rag_mcp.search.answer import answer
from rag_mcp.search.calibrated import relevance_model
from rag_mcp.search.generation import OpenGeneration

GOLDEN = Path(__file__).parent.parent / "golden"
QUESTIONS = [
    json.loads(line)["question"] for line in (GOLDEN / "questions.jsonl").read_text("utf-8").split("\n") if line
]
OTHERS = [
    "brine pump",
    '"brine pump" valve',
    "BRN-4471",
    "brn*",
    "pmup",
    "what of it",
    "the",
    "2026-03-05",
    "kilns? and pumps!",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory, database):
    """The same generation in both, open."""
    with Library(GOLDEN / "corpus", tmp_path_factory.mktemp("golden") / "store") as library:
        library.ingest()
        shelf = PostgresShelf(database)
        copied(library.generations, shelf)
        with closing(shelf), opened(library.generations.open()) as embedded, opened(shelf.store.open()) as postgres:
            yield library, embedded, postgres


@contextmanager
def opened(snapshot):
    generation = OpenGeneration(snapshot, scratch=None)
    generation.load_vectors()
    yield generation
    generation.retire()


def asked(library, generation, question, **arguments):
    from rag_mcp.embedders import open_embedder

    request = SearchRequest.parse({"query": question, "confidence": "normal", "k": 10, **arguments})
    policy = Policy()
    rights = Rights(resolve_profile("auditor", policy), policy)
    info = generation.generation.info
    embedder = open_embedder(library.config())
    view = generation.view(lambda: embedder, wait_s=5)
    return answer(request, rights, view, relevance_model(None, info.identity, info.notes))


def told(response):
    return [
        (hit.citation.source, hit.citation.heading, hit.text, hit.confidence, pytest.approx(hit.score, abs=1e-4))
        for hit in response.results
    ]


@pytest.mark.parametrize("mode", ["hybrid", "fts"])
@pytest.mark.parametrize("question", [*QUESTIONS, *OTHERS])
def test_a_question_gets_the_same_answer(both, question, mode):
    library, embedded, postgres = both
    ours, theirs = (asked(library, each, question, mode=mode) for each in (postgres, embedded))
    assert told(ours) == told(theirs)
    assert (ours.status, ours.reason, ours.degraded) == (theirs.status, theirs.reason, theirs.degraded)
