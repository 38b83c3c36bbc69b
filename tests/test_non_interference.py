"""Non-interference: what a profile may not see changes nothing in what it is told (Goguen & Meseguer 1982).

Two stores are built under one policy: one holds random hidden material beside the visible files, the other does not.
Whatever is asked, the answers must be the same byte for byte but for generation numbers, times and latencies.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from governed import CLASSES, POLICY, PROFILES, Caller, settled
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support import Library

# Few words, so that visible and hidden texts share most of them; their neighbours in spelling invite typo expansion.
WORDS = (
    "harbour",
    "harbours",
    "harbor",
    "lamp",
    "lamps",
    "mast",
    "gauge",
    "tide",
    "tides",
    "ERR-7731",
    "getTideById",
    "año",
)
# These stand in hidden texts, names, titles and projects only.
CANARIES = ("zyxcanary", "quuxcanary", "vexcanary")
FOLDERS = {"code": "src", "docs": "docs", "decisions": "decisions", "config": "config", "memory": "journal"}
ENDING = {"code": "py"}

# What texts link to and callers ask by: names of visible and of hidden files, of both, and of none.
NAMES = ("lamp", "[[Lamp]]", "tide-table", "a\u00f1o", "log-2031-05-01", "zyxcanar", "lampp", "src/lamp.py", "nowhere")

# Building two stores for each step of a long shrinking would outlast any patience.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)

# Keys, values, tags and dates of hidden documents, and keys that are nearly theirs.
FILTERS: tuple[dict[str, Any], ...] = (
    {"tags": ["harbour"]},
    {"path": "docs"},
    {"path": "**/lamp*"},
    {"since": "2031-05-02", "until": "2031-05-03"},
    {"where": {"pier": "quay"}},
    {"where": {"keepr": "quay"}},
    {"where": {"keeper": "quay"}},
    {"where": {"title": "lamp"}},
)

# A file that says no date of its own has that of its file: one day in all stores, whenever they are built.
FILE_TIME = 1_935_900_000  # in May 2031
filters = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "tags": st.sampled_from(["harbour", "harbour/east", "zyxcanary", ["harbour", "#east"]]),
            "path": st.sampled_from(["docs", "docs/pier", "**/lamp*", "journal", "*/*.md", "docs/denied/**"]),
            "since": st.sampled_from(["2031-05-01", "2031-05-02", "2031-05-07"]),
            "until": st.sampled_from(["2031-05-02", "2031-05-03", "2032-01-01"]),
            "where": st.sampled_from(
                [
                    {"keep": "pier"},
                    {"keeper": "quay"},
                    {"keepe": 1},
                    {"zyxcanar": 1},
                    {"date": "2031-05-02", "keep": "pier"},
                ]
            ),
            "source_class": st.sampled_from(["all", *CLASSES]),
            "project": st.sampled_from(["pier", "quay"]),
        },
    ),
    min_size=1,
    max_size=4,
)

texts = st.lists(st.sampled_from(WORDS), min_size=3, max_size=25).map(" ".join)
stems = st.sampled_from(
    [
        "a",
        "lamp",
        "a\u00f1o",
        "an\u0303o",
        "tide-table",
        "log-2031-05-01",
        "log-2031-05-02",
        "log-2031-05-03",
        "log-2031-05-04",
    ]
)
links = st.sampled_from(
    ["", "[[lamp]] [[a]] [[nowhere]]", "[[docs/lamp]] [x](./a.md)", "![[tide-table#tide|x]] [y](../docs/lamp.md)"]
)


@st.composite
def visible_files(draw: st.DrawFn, classes: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for _ in range(draw(st.integers(1, 5))):
        source_class = draw(st.sampled_from(classes))
        path = f"{FOLDERS[source_class]}/{draw(stems)}.{ENDING.get(source_class, 'md')}"
        head = draw(st.sampled_from(["", "", "---\nkeep: pier\ntags: [harbour/east]\ndate: 2031-05-02\n---\n"]))
        found[path] = (
            f"{head}# {draw(texts)[:40]}\n\n{draw(texts)}\n\n## {draw(st.sampled_from(WORDS))}\n\n{draw(texts)} {draw(links)}\n"
        )
    return found


@st.composite
def hidden_files(draw: st.DrawFn, classes: tuple[str, ...]) -> dict[str, str | bytes]:
    """Files of hidden classes, and files nobody may see that lie beside the visible ones."""
    found: dict[str, str | bytes] = {}
    for number in range(draw(st.integers(1, 6))):
        canary = draw(st.sampled_from(CANARIES))
        words = f"{draw(texts)} {canary} {draw(texts)} {draw(links)}"
        kind = draw(st.sampled_from(["class", "class", "class", "copy", "denied", "draft", "withheld", "bytes"]))
        source_class = draw(st.sampled_from(classes))
        place = f"{FOLDERS[source_class]}/{draw(st.sampled_from(['', 'pier/', f'{canary}/']))}"
        path = f"{place}{draw(stems)}.{ENDING.get(source_class, 'md')}"
        text = f"---\ntitle: {canary}\naliases: [{canary}]\ntags: [harbour]\nkeeper: quay\n{canary}: 1\ndate: 2031-05-02\n---\n# {draw(texts)[:40]}\n\n{words}\n"
        if kind == "class":
            found[path] = text
        elif kind == "copy":
            found[path] = "COPY"
        elif kind == "denied":
            found[f"docs/denied/{number}.md"] = text
        elif kind == "draft":
            found[f"docs/lamp{number}.draft.md"] = text
        elif kind == "withheld":
            found[f"docs/lamp{number}.md"] = f"---\naccess: none\n---\n{text}\n-----BEGIN RSA PRIVATE KEY-----\n"
        else:
            found[f"{place}bytes-{canary}.md"] = b"\0\0\xff"
    return found


queries = st.lists(
    st.one_of(
        texts,
        st.sampled_from([*WORDS, *CANARIES]),
        st.sampled_from([*WORDS, *CANARIES]).map(lambda word: f"{word[:4]}*"),
        st.sampled_from([*WORDS, *CANARIES]).map(lambda word: word[:2] + word[3:]),
        st.tuples(st.sampled_from(WORDS), st.sampled_from(CANARIES)).map(
            lambda pair: f'"{pair[0]} {pair[1]}" 2031-05-02'
        ),
    ),
    min_size=1,
    max_size=4,
)


def everything(
    caller: Caller, questions: list[str], paths: list[str], narrowed: Sequence[dict[str, Any]], *, named: bool = True
) -> list[str]:
    """All answers to these questions and about these paths, plain and ``narrowed``, each as one JSON text."""
    answers: list[Any] = []
    classes = ("all", *CLASSES) if named else ("all",)
    for question, mode in itertools.product(questions, ("hybrid", "fts", "vector")):
        answers += [caller.search(question, mode=mode, source_class=name, explain=True) for name in classes]
        answers.append(caller.search(question, mode=mode, confidence="strict", k=3))
        answers.append(caller.search(question, mode=mode, neighbours=3))
    for arguments in ({"project": "pier"}, {"project": "quay"}, {"doc_class": "handoff"}, {"as_of": "2031-05-03"}):
        answers.append(caller.search(questions[0], **arguments))
    for arguments in (*FILTERS, *(each for each in narrowed if named or "source_class" not in each)):
        answers += [caller.search(question, **arguments, neighbours=1, explain=True) for question in questions]
        answers += [
            caller.search(questions[0], **arguments, mode=mode, confidence="strict") for mode in ("fts", "vector")
        ]
        answers += [caller.ask("list_documents", **arguments, limit=limit) for limit in (2, 100)]
        answers += [caller.ask("list_documents", **arguments, linked_to=name) for name in (NAMES[:2] if named else ())]
    answers += [caller.ask("list_documents", source_class=name, limit=2) for name in classes]
    answers += [
        caller.ask("list_documents", prefix=prefix)
        for prefix in ("docs", "docs/denied", "journal", "docs/an\u0303o.md")
    ]
    if named:
        answers += [caller.ask("get_document", source=path) for path in paths]
        answers += [caller.ask("get_document", source=path, chunk_index=1) for path in paths]
        answers += [caller.ask("get_document", source=path, from_chunk=1, max_chars=200) for path in paths]
        answers += [caller.ask("get_document", source=unicodedata.normalize("NFD", path)) for path in paths]
        for name in NAMES:
            answers += [caller.ask("get_document", source=name), caller.ask("list_documents", linked_to=name)]
        answers += [caller.ask("list_knowledge_sources"), caller.ask("rag_status")]
    return [json.dumps(settled(answer), ensure_ascii=False) for answer in answers]


def store_of(folder: Path, files: dict[str, str | bytes]) -> Library:
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    library = Library(folder / "corpus", folder / "store", policy_path=folder / "policy.yaml")
    library.write(files)
    for name in files:
        os.utime(library.corpus / name, (FILE_TIME, FILE_TIME))
    library.ingest()
    return library


def assert_no_interference(
    profile: str,
    visible: dict[str, str],
    hidden: dict[str, str | bytes],
    questions: list[str],
    narrowed: Sequence[dict[str, Any]] = (),
    *,
    named: bool = True,
) -> None:
    copied = next(iter(visible.values()))
    hidden = {path: copied if text == "COPY" else text for path, text in hidden.items() if path not in visible}
    paths = sorted({*visible, *hidden, "docs/never-was.md"})
    with tempfile.TemporaryDirectory() as where:
        with (
            store_of(Path(where, "alone"), dict(visible)) as alone,
            store_of(Path(where, "beside"), {**visible, **hidden}) as beside,
        ):
            without = everything(Caller(alone, profile), questions, paths, narrowed, named=named)
            with_hidden = everything(Caller(beside, profile), questions, paths, narrowed, named=named)
        for mine, other in zip(without, with_hidden, strict=True):
            assert mine == other
        told = "\n".join(with_hidden).lower()
        assert not [canary for canary in CANARIES if canary in told]
        assert where not in told


HIDDEN_FROM = {
    "restricted": ("code", "config", "memory"),
    "engineer": ("config", "memory"),
    "nobody_special": ("code", "docs", "config", "memory"),
}


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(st.data())
def test_nothing_hidden_changes_a_byte_of_any_answer(data):
    profile = data.draw(st.sampled_from(sorted(HIDDEN_FROM)))
    classes = tuple(sorted(PROFILES[profile][0]))
    assert_no_interference(
        profile,
        data.draw(visible_files(classes)),
        data.draw(hidden_files(HIDDEN_FROM[profile])),
        data.draw(queries),
        data.draw(filters),
    )


@settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(visible_files(("docs", "memory", "code")), hidden_files(("config",)), queries, filters)
def test_a_class_that_must_be_named_changes_nothing_where_it_is_not_named(visible, hidden, questions, narrowed):
    assert_no_interference("auditor", visible, hidden, questions, narrowed, named=False)


def test_a_hidden_series_a_hidden_copy_and_a_hidden_project_leave_no_trace():
    days = [f"log-2031-05-0{day}.md" for day in (1, 2, 3, 4)]
    shared = "# Log\n\n## Gauge\n\nThe tide gauge reads eleven.\n"
    visible = {f"docs/{day}": shared for day in days[:3]} | {"docs/lamp.md": "# Lamp\n\nThe harbour lamp is lit.\n"}
    hidden: dict[str, str | bytes] = {f"journal/{day}": shared for day in days}
    hidden |= {"journal/pier/lamp.md": visible["docs/lamp.md"], "docs/denied/lamp.md": visible["docs/lamp.md"]}
    hidden |= {f"journal/{number}.md": f"# Tide\n\nzyxcanary tide {number}\n" for number in range(80)}
    questions = ["tide gauge eleven", "harbour lamp", "zyxcanary", "zyxc*", "tide gauge on 2031-05-04", "gauje"]
    assert_no_interference("restricted", visible, hidden, questions)


def test_the_nearest_places_of_a_refusal_are_those_of_a_store_without_the_hidden_files():
    """A code that no visible file holds makes every match weak, however well the rest of the question fits."""
    visible = {
        f"docs/lamp-{name}.md": f"# Lamp {name}\n\nThe harbour lamp of the {name} pier is lit.\n" for name in ("a", "b")
    }
    question = "the harbour lamp of the pier is lit ERR-7731"
    hidden: dict[str, str | bytes] = {
        "journal/pier.md": f"# Lamp zyxcanary\n\n{question} zyxcanary\n",
        "docs/denied/pier.md": f"# Lamp zyxcanary\n\n{question} zyxcanary\n",
    }
    with tempfile.TemporaryDirectory() as where, store_of(Path(where, "beside"), {**visible, **hidden}) as beside:
        told = Caller(beside, "restricted").search(question, confidence="strict", k=3)
    assert (told["reason"], told["withheld"]) == ("strict_blocked_low", 2)
    assert {place["source"] for place in told["nearest"]} == set(visible)
    assert_no_interference("restricted", visible, hidden, [question])
