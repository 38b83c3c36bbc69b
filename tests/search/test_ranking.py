"""Order, shape and confidence of answers: exact values where they are pure, real indexes and the real model where not."""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.models import Chunk, DocClass, Evidence, Level, Mode, SourceClass
from rag_mcp.search.relevance import FEATURES, Calibration, Thresholds, load_model, recalibrated, size_bonus
from rag_mcp.search.score import by_words, lift_exact, supported
from rag_mcp.search.shape import Candidate, _Print, cut_text, order_candidates, shape


def chunk(source="a.md", index=0, text="words", **more):
    values = {
        "id": f"{source}#{index}",
        "text_key": "k",
        "source": source,
        "source_class": SourceClass.DOCS,
        "project": None,
        "doc_class": DocClass.NOTE,
        "title": "T",
        "heading_path": ("H",),
        "index": index,
        "line_start": 1,
        "line_end": 2,
        "start": 0,
        "end": 5,
        "text": text,
    }
    return Chunk(**{**values, **more})


def candidate(probability, level=Level.MEDIUM, rrf=0.0, exact=0.0, rank_score=None, **of_chunk):
    ranked = probability if rank_score is None else rank_score
    return Candidate(chunk(**of_chunk), Evidence(), {"exact": exact}, rrf, ranked, probability, level)


def sources(found):
    return [one.chunk.source for one in found]


def test_order_is_by_rank_score_then_fused_rank_then_source_and_position():
    found = [
        candidate(0.5, source="b.md"),
        candidate(0.5, source="a.md", index=1),
        candidate(0.5, source="a.md", index=0),
        candidate(0.5, source="z.md", rrf=0.1),
        candidate(0.9, source="y.md"),
    ]
    ordered = order_candidates(found, day=None)
    assert [(one.chunk.source, one.chunk.index) for one in ordered] == [
        ("y.md", 0),
        ("z.md", 0),
        ("a.md", 0),
        ("a.md", 1),
        ("b.md", 0),
    ]
    for shuffled in itertools.permutations(found):
        assert order_candidates(shuffled, day=None) == ordered


def state(day, probability, *later):
    return candidate(
        probability, source=f"r-{day}.md", series="docs:r", valid_on=(day, *later), heading_path=(f"R {day}", "Lamp")
    )


def test_equal_states_come_newest_first_and_a_better_match_stays_before_a_newer_one():
    old, new, best = state("2031-01-01", 0.61), state("2031-01-03", 0.60), state("2031-01-02", 0.80)
    assert sources(order_candidates([old, new], day=None)) == ["r-2031-01-03.md", "r-2031-01-01.md"]
    assert sources(order_candidates([old, new, best], day=None))[0] == "r-2031-01-02.md"
    assert sources(order_candidates([old, new, best], day="2031-01-01"))[0] == "r-2031-01-01.md"


def test_what_is_ranked_and_what_is_probable_are_two_things():
    found = [
        candidate(0.9, rank_score=1.0, source="likely.md", text="one"),
        candidate(0.5, rank_score=2.0, source="better.md", text="two"),
    ]
    assert sources(shape(order_candidates(found, day=None))) == ["better.md", "likely.md"]


def test_a_file_rises_by_its_next_good_passages_and_its_probability_stays():
    alone = candidate(0.9, rank_score=4.0, source="alone.md")
    page = [candidate(0.8, rank_score=3.95 - n / 10, source="page.md", index=2 * n) for n in range(3)]
    aside = [candidate(0.8, rank_score=3.95 - 2 * n, source="aside.md", index=2 * n) for n in range(3)]
    ranked = order_candidates(supported([alone, *page, *aside]), day=None)
    assert sources(ranked)[:3] == ["page.md", "alone.md", "aside.md"]
    assert ranked[0].rank_score == pytest.approx(3.95 + 0.1 * (3.85 - 2.8 + 3.75 - 2.8))
    assert sorted(each.probability for each in ranked) == [0.8] * 6 + [0.9]
    assert supported([]) == []


def test_a_file_does_not_rise_by_passages_far_from_its_best():
    def best_of(distance):
        found = supported([candidate(0.8, rank_score=4.0 - n / 10, index=n * distance) for n in range(2)])
        return max(each.rank_score for each in found)

    assert best_of(1) == best_of(10) > best_of(11) == 4.0


def test_the_less_cosines_are_believed_the_more_words_rank():
    meant = replace(candidate(0.8, rank_score=3.0, source="meant.md"), evidence=Evidence(cosine=0.6, bm25=4.0))
    said = replace(candidate(0.7, rank_score=2.8, source="said.md"), evidence=Evidence(cosine=0.4, bm25=9.0))
    orders = {trust: sources(order_candidates(by_words([meant, said], trust), day=None)) for trust in (1.0, 0.9, 0.4)}
    assert orders == {1.0: ["meant.md", "said.md"], 0.9: ["meant.md", "said.md"], 0.4: ["said.md", "meant.md"]}
    assert [each.probability for each in by_words([meant, said], 0.4)] == [0.8, 0.7]
    assert by_words([], 0.4) == []


def test_more_than_three_further_passages_add_nothing():
    def best_of(count):
        found = supported([candidate(0.8, rank_score=4.0, index=n) for n in range(count)])
        return max(each.rank_score for each in found)

    assert best_of(1) < best_of(4) == best_of(40)


def test_copies_collapse_and_say_where_else_the_text_stands():
    text = "The same passage stands in two places, word for word, from its beginning to its very end."
    found = shape([candidate(0.9, source="a.md", text=text), candidate(0.8, source="b.md", text=text + "\n")])
    assert [(one.chunk.source, [twin.source for twin in one.also_in]) for one in found] == [("a.md", ["b.md"])]


def test_equal_text_under_two_headings_of_one_file_is_two_places():
    text = "Closed at dusk by the watchman, who hangs the key on the second nail."
    found = shape(
        [
            candidate(0.9, index=5, text=text, heading_path=("Gates", "South", "Hours")),
            candidate(0.8, index=2, text=text, heading_path=("Gates", "North", "Hours")),
            candidate(0.7, index=8, text=text, heading_path=("Gates", "South", "Hours")),
        ]
    )
    assert [[twin.index for twin in one.also_in] for one in found] == [[2, 8]]


def test_nearly_equal_text_is_a_copy_under_the_same_heading_and_an_answer_of_its_own_under_another():
    words = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrst")
    for headings, count in (((("A", "Use"), ("A", "Use")), 1), ((("A", "Use"), ("A", "Abuse")), 2)):
        near = [
            candidate(0.9 - n / 10, source=f"{n}.md", text=f"{words} {end}", heading_path=path)
            for n, (path, end) in enumerate(zip(headings, ("ending", "ends"), strict=True))
        ]
        found = shape(near)
        assert len(found) == count
        assert [twin.source for twin in found[0].also_in] == ["1.md"][count - 1 :]


def test_copies_collapse_however_far_down_the_list_they_stand():
    text = "The same words stand in every one of these notes, in the same order."
    others = [candidate(0.9 - n / 1_000, source=f"other{n}.md", text=f"Note {n} of its own.") for n in range(60)]
    copies = [candidate(0.8 - n / 1_000, source=f"copy{n:02}.md", text=text) for n in range(60)]
    found = shape(sorted([*others, *copies], key=lambda one: -one.probability))
    assert len(found) == 61
    assert sorted(len(one.also_in) for one in found)[-1] == 59


def test_neighbours_read_as_one_keep_the_other_places_of_each():
    first, second = "The first half is told at length here.", "The second half is told at length there."
    found = shape(
        [
            candidate(0.9, source="a.md", index=4, text=second),
            candidate(0.8, source="a.md", index=3, text=first),
            candidate(0.7, source="b.md", index=7, text=first),
            candidate(0.6, source="c.md", index=1, text=second),
        ]
    )
    assert [(one.chunk.source, sorted((t.source, t.index) for t in one.also_in)) for one in found] == [
        ("a.md", [("b.md", 7), ("c.md", 1)])
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from("xyz"), st.sampled_from(["P", "Q"])),
        unique_by=lambda row: row[:2],
        max_size=14,
    )
)
def test_every_candidate_is_shown_joined_or_named(rows):
    given_ = [
        candidate(1 - n / 50, source=f"{name}.md", index=index, text=f"{letter} stands here", heading_path=(heading,))
        for n, (name, index, letter, heading) in enumerate(rows)
    ]
    told = [part for one in shape(given_) for part in (*one.joined, *one.also_in)]
    assert sorted((part.source, part.index) for part in told) == sorted(row_place(one) for one in given_)


def row_place(one):
    return one.chunk.source, one.chunk.index


def test_the_words_of_a_passage_are_taken_in_time_that_grows_with_it():
    uncached = partial(vars(_Print)["of"].__func__.__wrapped__, _Print)
    assert growth(lambda size: "a" * size, uncached, 4_000) < 3


def test_rows_that_differ_in_a_number_are_no_copies():
    rows = [
        candidate(0.9, source=f"{n}.md", text=f"Valve number {n} of the northern register stands in hall seven.")
        for n in (1, 2)
    ]
    assert len(shape(rows)) == 2


def test_neighbours_of_one_section_are_read_as_one():
    found = shape(
        [
            candidate(0.9, index=4, text="second"),
            candidate(0.7, index=3, text="first"),
            candidate(0.6, index=9, text="far"),
        ]
    )
    assert [[part.index for part in one.joined] for one in found] == [[3, 4], [9]]
    low = shape([candidate(0.9, index=4, text="second"), candidate(0.1, level=Level.LOW, index=3, text="first")])
    assert [len(one.joined) for one in low] == [1, 1]


def test_one_file_does_not_fill_the_list_before_others_about_as_good():
    many = [candidate(0.80, source="a.md", index=2 * n, text=f"a{n}") for n in range(5)]
    other = candidate(0.75, source="b.md", text="b")
    weak = candidate(0.30, source="c.md", text="c")
    assert sources(shape([*many, other, weak])) == ["a.md", "a.md", "a.md", "b.md", "a.md", "a.md", "c.md"]


def test_a_rare_literal_match_is_never_low_and_stands_among_the_first_three():
    rivals = [candidate(0.9 - n / 100, source=f"r{n}.md") for n in range(6)]
    exact = candidate(0.2, level=Level.LOW, source="code.md", exact=1.0)
    lifted = lift_exact([*rivals, exact], 0.45)
    assert lifted[-1].level is Level.MEDIUM
    assert sources(order_candidates(lifted, day=None))[2] == "code.md"
    common = lift_exact([candidate(0.1, level=Level.LOW, exact=1.0, index=n) for n in range(9)], 0.45)
    assert all(one.level is Level.LOW for one in common)


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("short", 10, "short"),
        ("One sentence. Another one here.", 20, "One sentence."),
        ("line one\nline two\nline three", 20, "line one\nline two"),
        ("wordswithoutanyspace", 5, "words"),
        ("\u4e00\u4e8c\u4e09\u3002\u56db\u4e94\u516d", 5, "\u4e00\u4e8c\u4e09\u3002\u56db"),
    ],
)
def test_cut_text_ends_at_a_line_a_sentence_or_a_word(text, limit, cut):
    assert cut_text(text, limit) == cut


@pytest.mark.parametrize("name", ["minilm", "minilm-int8", "multilingual-e5-small", "default"])
def test_probability_never_falls_when_any_feature_rises(name):
    model = load_model(name)
    for mode, head in model.heads.items():
        assert set(head.weights) <= set(FEATURES)
        base = dict.fromkeys(FEATURES, 0.3)
        for feature in FEATURES:
            assert model.probability(mode, {**base, feature: 0.9}) >= model.probability(mode, base)
        assert 0 < head.thresholds.medium < head.thresholds.high <= 1
        logit = sum(model.explain(mode, base).values())
        assert model.probability(mode, base) == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-3)


def test_an_embedder_nobody_fitted_gets_the_default_model():
    assert load_model("something-else").name == "default"
    assert load_model("minilm-int8").name == "minilm-int8"


def test_medium_starts_lower_in_a_small_corpus_and_high_does_not():
    model = load_model("minilm-int8")
    large, small = model.thresholds(Mode.HYBRID, passages=50_000), model.thresholds(Mode.HYBRID, passages=20)
    assert large == model.heads[Mode.HYBRID].thresholds
    assert small.medium < large.medium
    assert small.high == large.high
    assert size_bonus(3_000) == 0.0 < size_bonus(300) < size_bonus(30) == size_bonus(3)
    own = model.calibrated({Mode.HYBRID: Calibration(Thresholds(0.8, 0.5), ((0.0, 0.1), (1.0, 0.9)))})
    assert own.thresholds(Mode.HYBRID, passages=20) == Thresholds(0.8, 0.5)


def test_recalibration_reads_off_the_broken_line():
    points = ((0.2, 0.1), (0.6, 0.5), (0.8, 0.9))
    assert [recalibrated(p, points) for p in (0.0, 0.2, 0.4, 0.6, 0.7, 1.0)] == pytest.approx(
        [0.1, 0.1, 0.3, 0.5, 0.7, 0.9]
    )
    assert recalibrated(0.4, ()) == 0.4


# --- whole answers ---------------------------------------------------------------------------------------------------


def test_a_shorter_answer_is_the_beginning_of_a_longer_one_whatever_the_order_of_ingest(tmp_path):
    texts = {f"n{n:02d}.md": f"# Siren {n % 3}\n\nThe siren test of yard {n % 5} is on Monday.\n" for n in range(24)}
    answers = []
    for turn, names in enumerate((sorted(texts), sorted(texts, reverse=True))):
        with Library(tmp_path / f"c{turn}", tmp_path / f"s{turn}") as library:
            for name in names:
                library.write({name: texts[name]})
                if turn:
                    library.ingest()
            library.ingest()
            base = library.base()
            lists = {
                k: [r.citation for r in library.search("siren test", base=base, k=k).results] for k in (1, 3, 5, 10, 20)
            }
            assert all(lists[k] == lists[20][:k] for k in lists)
            answers.append([(c.source, c.chunk_index) for c in lists[20]])
    assert answers[0] == answers[1]


def test_words_alone_rank_by_bm25_and_keep_the_probability_for_the_gate(tmp_path, monkeypatch):
    filler = " ".join(f"word{n}" for n in range(150))
    with Library(tmp_path / "c", tmp_path / "s", embedder="minilm-int8") as library:
        library.write({f"n{n}.md": f"# Note {n}\n\nOn day {n} nothing was lifted.\n" for n in range(9)})
        library.write(
            {
                "much.md": "# Winch\n\nwinch, capstan, winch, capstan, winch, capstan, winch, capstan\n",
                "all.md": f"# List\n\n{filler} winch capstan davit.\n",
            }
        )
        library.ingest()
        words = library.search("winch capstan davit", mode="fts", explain=True).results
        monkeypatch.setattr("rag_mcp.embedders.onnx_spec.MINILM_PACKAGE", "no_such_package_here")
        lost = library.search("winch capstan davit", explain=True)
    assert [each.citation.source for each in words] == ["much.md", "all.md"]
    assert words[0].explain["bm25"] > words[1].explain["bm25"]
    assert words[0].score < words[1].score
    assert lost.degraded
    assert [(each.citation, each.score) for each in lost.results] == [(each.citation, each.score) for each in words]


def test_the_same_question_gets_the_same_answer_in_every_process(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({f"n{n}.md": "# Siren\n\nThe siren test is on Monday.\n" for n in range(9)})
        library.ingest()
        code = "from rag_mcp.cli import main; main()"
        shown = set()
        for seed in ("0", "1", "7"):
            command = [sys.executable, "-c", code, "query", "siren test", "--db", str(library.store_path), "--json"]
            env = {"PYTHONHASHSEED": seed, "RAG_MCP_EMBEDDER": "hash", "PATH": ""}
            done = subprocess.run(
                [*command, "--confidence", "normal"], capture_output=True, text=True, env=env, timeout=60
            )
            shown.add(json.dumps(json.loads(done.stdout)["results"]))
        assert len(shown) == 1


def test_the_budget_is_kept_and_the_best_come_whole(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        body = "The brass lantern hangs by the quay. " * 25
        library.write({f"n{n:02d}.md": f"# Brass lantern {n}\n\n{body} Number {n}.\n" for n in range(20)})
        library.ingest()
        found = library.search("brass lantern", k=20, max_chars=3_000)
        assert len(found.results) == 20
        assert sum(len(result.text or "") for result in found.results) <= 3_000
        assert len(found.results[0].text) >= 500
        assert found.without_text == sum(result.text is None for result in found.results) > 0
        assert any(result.truncated for result in found.results) or found.without_text


def test_a_rare_class_is_found_among_thousands_in_every_mode(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        sections = "".join(
            f"## Gate {n}\n\nFlood gate {n} flood gate opens, flood gate shuts.\n\n" for n in range(2_000)
        )
        library.write({"docs/big.md": f"# Big\n\n{sections}"})
        library.write({f"adr/{n}.md": f"# Decision {n}\n\nWe keep the flood gate number {n}.\n" for n in range(3)})
        library.ingest()
        base = library.base()
        for mode in ("hybrid", "fts", "vector"):
            found = library.search("flood gate", base=base, mode=mode, source_class="decisions", k=20)
            assert {r.citation.source for r in found.results} == {"adr/0.md", "adr/1.md", "adr/2.md"}


def test_all_numbers_of_an_answer_are_finite_even_for_a_vector_of_zeros(tmp_path):
    from rag_mcp.server.tools import answer_payload

    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"a.md": "\u00b7 \u00b7 \u00b7\n", "b.md": "# B\n\nwords\n"})
        library.ingest()
        for query in ("words", "\u00b7", "???"):
            text = json.dumps(answer_payload(library.search(query)), allow_nan=False)
            assert "NaN" not in text


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """Pages that share their head and foot, one of them about each thing; and one log that names a code."""
    folder = tmp_path_factory.mktemp("workshop")
    head, foot = (
        "[Home](index.md) | [Tools](tools.md) | Contact the yard team",
        "Yard handbook - tickets at the gate - contact the team",
    )
    tools = (
        "adze",
        "bevel",
        "chisel",
        "drawknife",
        "froe",
        "gouge",
        "hatchet",
        "mallet",
        "plane",
        "rasp",
        "saw",
        "spokeshave",
    )
    pages = {
        f"tools/{t}.md": f"{head}\n\n# {t.title()}\n\nThe {t} lies in drawer {n}.\n\n{foot}\n"
        for n, t in enumerate(tools)
    }
    pages["contact.md"] = (
        f"{head}\n\n# Reaching us\n\nThe yard team answers the telephone from nine to five.\n\n{foot}\n"
    )
    pages["errors.md"] = "# Errors\n\n" + "".join(
        f"## Case {n}\n\nAn error of the panel stops the feed unit; restart it.\n\n" for n in range(6)
    )
    pages["shifts/log.md"] = "# Shift log\n\nQuiet night, two visitors, code ZK-5582 on the panel at four, then rain.\n"
    with Library(folder / "corpus", folder / "store", embedder="minilm-int8") as library:
        library.write(pages)
        library.ingest()
        base = library.base()
        base.warm_up()
        yield library, base


def test_lines_that_stand_on_every_page_do_not_win(workshop):
    library, base = workshop
    assert (
        library.search("how do I reach the yard team by telephone", base=base).results[0].citation.source
        == "contact.md"
    )
    assert library.search("which drawer is the gouge in", base=base).results[0].citation.source == "tools/gouge.md"


@pytest.mark.parametrize(
    "query", ["ZK-5582", "zk-5582", "what does error code ZK-5582 mean", "panel error ZK-5582 feed unit restart"]
)
def test_an_exact_identifier_is_among_the_first_three_and_never_low(workshop, query):
    library, base = workshop
    found = library.search(query, base=base, confidence="strict").results
    places = [place for place, result in enumerate(found) if result.citation.source == "shifts/log.md"]
    assert places
    assert places[0] <= (0 if "-" in query and " " not in query else 2)
    assert found[places[0]].confidence != "low"


@pytest.fixture(scope="module")
def village(tmp_path_factory):
    folder = tmp_path_factory.mktemp("village")
    with Library(folder / "corpus", folder / "store", embedder="minilm-int8") as library:
        library.write(
            {
                "ferry.md": "# Ferry\n\nThe ferry to the island leaves at seven and at noon.\n",
                "mill.md": "# Mill\n\nGrain is ground on Thursdays; bring your own sacks.\n",
                "baths.md": "# Baths\n\nThe baths are heated from October, and closed on Mondays.\n",
            }
        )
        library.ingest()
        base = library.base()
        base.warm_up()
        yield library, base


@pytest.mark.parametrize(
    "query",
    [
        "zxqv plorb vandeex",
        "%%%% ---- ????",
        "how to bake sourdough bread",
        "price of copper shares",
        "what is",
        "how to",
    ],
)
def test_nonsense_and_absent_subjects_are_not_answered(village, query):
    library, base = village
    assert library.search(query, base=base, confidence="strict").status == "NO_RELEVANT_CONTEXT"
    assert all(result.confidence == "low" for result in library.search(query, base=base).results)


@pytest.mark.parametrize(("query", "source"), [("who built the ferry", "ferry.md"), ("how old is the mill", "mill.md")])
def test_a_near_miss_is_never_of_high_confidence(village, query, source):
    library, base = village
    assert all(result.confidence != "high" for result in library.search(query, base=base).results)


@pytest.mark.parametrize(
    ("query", "source"), [("when does the ferry leave", "ferry.md"), ("on which day are the baths closed", "baths.md")]
)
def test_what_is_there_is_answered(village, query, source):
    library, base = village
    found = library.search(query, base=base, confidence="strict").results
    assert found[0].citation.source == source
