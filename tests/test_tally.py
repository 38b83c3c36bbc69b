"""Of many files few words are said, and the totals in them are right: in status, doctor and reports."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cli_process import cli_json, forked_cli
from fake_knowledge import FakeKnowledge
from governed import PROFILES, Caller, governed
from hypothesis import given
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.access.policy import Policy, Rule, classes_told_of
from rag_mcp.models import Notice, Skipped, SourceClass
from rag_mcp.server.tools import answer_payload
from rag_mcp.stores.embedded.lastrun import LastRun, read_last_run, write_last_run
from rag_mcp.text.tally import tally

ITEMS = st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["link", "key (line 3)", "key (line 4)", "7 masked"])))


@given(ITEMS, st.integers(0, 8), st.none() | st.integers(0, 200))
def test_totals_count_everything_and_examples_stay_within_their_bounds(items, most, max_bytes):
    told = tally(items, most=most, max_bytes=max_bytes)
    assert told.total == len(items) == sum(told.by_kind.values())
    assert len(told.examples) <= most
    if max_bytes is None:
        assert set(told.examples) <= set(items)
        assert len(told.examples) == min(most, len(items))
    else:
        assert sum(len(f"{a}{b}".encode()) for a, b in told.examples) <= max_bytes


def test_kinds_leave_out_the_particulars_of_a_file():
    said = [
        ("a.md", "possible secret: Token (line 3)"),
        ("b.md", "possible secret: Key (line 80)"),
        ("c.md", "c.md: can't be read (Permission denied). Kept as last indexed, if it was."),
        ("d.md", "larger than 5,000,000 bytes"),
        ("e.md", "2 secrets masked (lines 3, 9)"),
        ("f.md", "11 secrets masked (lines 1, 2)"),
        ("g.md", ""),
    ]
    assert tally(said, most=0).by_kind == {
        "possible secret": 2, "N secrets masked": 2, "can't be read": 1, "larger than N bytes": 1, "other": 1
    }  # fmt: skip


def test_many_kinds_end_in_one_that_holds_the_rest():
    told = tally([(f"{n}.md", f"reason {chr(97 + n)}") for n in range(26)], most=0)
    assert len(told.by_kind) == 11 and told.by_kind["other"] == 16


def test_a_rare_kind_is_among_the_examples_of_many():
    told = tally([(f"{n}.md", "link") for n in range(500)] + [("rare.md", "possible secret: Token")], most=3)
    assert ("rare.md", "possible secret: Token") in told.examples


def test_the_work_grows_with_the_files():
    assert (
        growth(lambda size: [(f"{n}.md", f"reason {n % 7}") for n in range(size)], lambda i: tally(i, most=20), 2_000)
        < 3
    )


# --- in the answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["notes/a-rather-long-name-for-a-note-{}.md", "\U0001f4a7" * 300 + "{}", "x\u2028\r\x85{}"]
)
def test_the_status_of_twenty_thousand_files_stays_small_and_its_totals_right(name):
    status = replace(
        FakeKnowledge().status(),
        skipped=tuple(Skipped(name.format(n), "symlink") for n in range(20_000)),
        notices=tuple(Notice(name.format(n), f"{n} secrets masked (line {n})") for n in range(20_000)),
    )
    answer = answer_payload(status)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 10_000  # it is sent twice: as text and as data
    assert answer["skipped_total"] == answer["notices_total"] == 20_000
    assert answer["skipped_by_reason"] == {"symlink": 20_000}
    assert answer["notices_by_text"] == {"N secrets masked": 20_000}
    assert answer["skipped"] and answer["notices"]
    assert not any(len(text.splitlines()) > 1 for item in answer["skipped"] for text in item.values())


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """300 files left out and 60 indexed ones of which something is said."""
    folder = tmp_path_factory.mktemp("crowded")
    with Library(folder / "corpus", folder / "store") as library:
        notes = {f"n{n}.md": f"# Note {n}\n\nThe gauge of lock {n}.\n\npassword: Kx{n:02}wq8Tz\n" for n in range(60)}
        library.write({**notes, **{f"bytes{n}.md": b"\0\0" for n in range(300)}})
        library.ingest()
        yield library


def test_reports_for_people_and_as_json_are_bounded_with_right_totals(crowded):
    place = (crowded.corpus, "--db", crowded.store_path)
    told = forked_cli("ingest", *place).stdout
    assert told.count("Left out: bytes") == 20 and "Left out: 300 in all (holds a NUL" in told
    assert told.count("Note: n") == 20 and ": 60); --json names up to 1,000." in told
    report = cli_json("ingest", *place)
    assert report["files_skipped"] == 300 == len(report["skipped"]) == sum(report["skipped_by_reason"].values())
    assert report["notices_total"] == 60 == len(report["notices"]) == sum(report["notices_by_text"].values())


def test_json_of_a_run_names_a_thousand_files_and_counts_all(crowded, monkeypatch):
    from rag_mcp.cli.ingest import summary_payload

    summary = crowded.ingest()
    many = tuple(Skipped(f"{n}.md", "symlink") for n in range(5_000))
    report = summary_payload(replace(summary, skipped=many, files_skipped=len(many)))
    assert len(report["skipped"]) == 1_000 and report["files_skipped"] == 5_000
    assert report["skipped_by_reason"] == {"symlink": 5_000}


def test_doctor_and_status_say_what_the_last_run_left_out_and_noted(crowded):
    doctor = {
        item["what"]: item for item in json.loads(forked_cli("doctor", "--db", crowded.store_path, "--json").stdout)
    }
    assert doctor["last ingest"]["ok"] is True
    assert "300 left out (" in doctor["last ingest"]["detail"] and "60 notes (" in doctor["last ingest"]["detail"]
    status = cli_json("status", "--db", crowded.store_path)
    assert (status["skipped_total"], status["notices_total"]) == (300, 60)


def test_what_an_ingest_noted_is_told_only_to_who_may_see_its_place(tmp_path):
    with governed(tmp_path) as library:
        sources = ("docs/guide.md", "journal/monday.md", "src/tide.py", "docs/denied/plan.md", "--exclude journl")
        last = read_last_run(library.store_path)
        notices = [Notice(source, "2 secrets masked (lines 3, 9); did you mean journal?") for source in sources]
        write_last_run(library.store_path, replace(last, notices=notices, classes=dict.fromkeys(sources, frozenset())))
        told = {}
        for profile in PROFILES:
            answer = Caller(library, profile).ask("rag_status")
            told[profile] = {item["source"] for item in answer["notices"]}
            assert answer["notices_total"] == len(told[profile]) == sum(answer["notices_by_text"].values())
    assert told["restricted"] == told["root"] == {"docs/guide.md"}
    assert told["engineer"] == {"docs/guide.md", "src/tide.py"}
    assert told["auditor"] == {"docs/guide.md", "src/tide.py", "journal/monday.md"}
    assert told["nobody_special"] == set()


def test_the_class_of_the_index_counts_for_what_is_said_of_a_file(tmp_path):
    """By the policy now it would be seen; the index holds it as hidden, so nothing is said of it."""
    with governed(tmp_path) as library:
        last = read_last_run(library.store_path)
        source = "journal/monday.md"
        note = LastRun(
            last.finished_at, (Skipped(source, "unreadable"),), (Notice(source, "noted"),), {source: frozenset()}
        )
        write_last_run(library.store_path, note)
        opened = tmp_path / "open.yaml"
        opened.write_text("version: 1\n", encoding="utf-8")
        answer = Caller(library, "restricted", policy_path=opened).ask("rag_status")
        assert (answer["skipped_total"], answer["notices_total"]) == (0, 0)
        assert "monday" not in json.dumps(answer)


RULED = 'version: 1\nrules: [{path: "hr/**", class: memory}]\ndeny: ["vault/"]\n'
LEFT_OUT = {
    "hr/broken.md": "---\ntitle: [\naccess: none\n---\n# Wages\n",
    "hr/key.md": "# Key\n\nAKIA" + "QX7RT2LMW4ZNB6KD\n",
    "hr/masked.md": "# Login\n\npassword: vTq9-rrK2-mm41\n",
    "hr/me\u200bmo.md": "# Memo\n\nThe quay memo.\n",
    "quay.md": "# Quay\n\nThe quay is swept.\n",
    "quay-login.md": "# Quay login\n\npassword: vTq9-rrK2-mm42\n",
}


@pytest.fixture
def ruled(tmp_path):
    policy, without = tmp_path / "ruled.yaml", tmp_path / "open.yaml"
    policy.write_text(RULED, encoding="utf-8")
    without.write_text("version: 1\n", encoding="utf-8")
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write(LEFT_OUT)
        yield library, {"ruled": policy, "open": without, "none": None}


def places_told(library, profile, policy):
    answer = Caller(library, profile, policy_path=policy).ask("rag_status")
    told = {item["source"].partition("/")[0] for kind in ("skipped", "notices") for item in answer[kind]}
    assert ("hr/" in json.dumps(answer)) == ("hr" in told)
    return told


@pytest.mark.parametrize("at_ingest", ["ruled", "open", "none"])
@pytest.mark.parametrize("reader", ["ruled", "open", "none"])
def test_what_was_left_out_is_told_where_the_policies_of_ingest_and_reader_permit_it(ruled, at_ingest, reader):
    library, policies = ruled
    library.ingest(config={"policy_path": policies[at_ingest]})
    hidden = "ruled" in (at_ingest, reader)
    told = places_told(library, "restricted", policies[reader])
    assert ("hr" in told) == (not hidden)
    assert any(place.startswith("quay") for place in told)
    assert "hr" in places_told(library, "auditor", policies[reader])


def test_a_note_without_classes_is_told_file_by_file_only_to_who_may_see_all(ruled):
    library, policies = ruled
    library.ingest(config={"policy_path": policies["ruled"]})
    path = library.store_path / "last-run.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert not any(source.startswith("vault") for source in kept["classes"])
    del kept["classes"]
    path.write_text(json.dumps(kept), encoding="utf-8")
    assert places_told(library, "restricted", None) == places_told(library, "engineer", None) == set()
    assert "hr" in places_told(library, "auditor", None)
    for torn in ([], {"hr/key.md": ["unheard-of"]}, {"hr/key.md": 5}):
        path.write_text(json.dumps({**kept, "classes": torn}), encoding="utf-8")
        assert read_last_run(library.store_path) is None


def test_nothing_is_noted_of_what_the_policy_of_the_ingest_denies(ruled):
    library, policies = ruled
    (library.corpus / "vault").mkdir()
    library.ingest(config={"policy_path": policies["ruled"]})
    assert "vault" not in (library.store_path / "last-run.json").read_text(encoding="utf-8")
    policy = Policy(rules=(Rule("hr/**", SourceClass.MEMORY),), deny=("vault/",))
    assert classes_told_of(policy, "vault") is classes_told_of(policy, "vault/x.md") is None
    assert classes_told_of(policy, "va\ufffdult/x.md") is None
    assert classes_told_of(policy, "hr") == {SourceClass.MEMORY, SourceClass.CODE}
    assert classes_told_of(policy, "docs/a\u2026") == frozenset(SourceClass)
