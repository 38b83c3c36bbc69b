"""Every profile x tool x filter gives exactly what the table says, at once after a denial, and nothing when in doubt."""

from __future__ import annotations

import json
import re

import pytest
from governed import (
    CLASSES,
    DOC_CLASSES,
    OUTSIDE,
    PLACES,
    POLICY,
    PROFILES,
    PROJECTS,
    TOOL_NAMES,
    Caller,
    governed,
    strings,
    visible,
)

FILTERS = ("all", *CLASSES)
MODES = ("hybrid", "fts", "vector")
ALL_WORDS = " ".join(place.word for place in PLACES)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with governed(tmp_path_factory.mktemp("governed")) as found:
        yield found


@pytest.fixture(scope="module")
def callers(library):
    return {profile: Caller(library, profile) for profile in PROFILES}


@pytest.fixture
def own(tmp_path):
    """A store whose policy a test may change."""
    with governed(tmp_path) as found:
        yield found


def words_of_others(profile: str, source_class: str = "all") -> set[str]:
    seen = {place.word for place in visible(profile, source_class)}
    return {place.word for place in PLACES} - seen | {"phalarope"}


def assert_nothing_hidden(answer: object, profile: str, source_class: str = "all") -> None:
    """No word and no path of what the profile does not see, wherever in the answer."""
    shown = "\n".join(strings(answer)).lower()
    hidden_paths = {place.path for place in PLACES} - {place.path for place in visible(profile, source_class)}
    for secret in (*words_of_others(profile, source_class), *hidden_paths, *OUTSIDE):
        assert secret not in shown, secret


# --- the table


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_search_gives_each_profile_its_classes_for_every_filter(callers, profile, mode):
    for source_class in FILTERS:
        for project in PROJECTS:
            for doc_class in DOC_CLASSES:
                wanted = sorted(
                    place.path
                    for place in visible(profile, source_class)
                    if project in (None, place.project) and doc_class in (None, place.doc_class)
                )
                answer = callers[profile].search(
                    source_class=source_class, project=project, doc_class=doc_class, mode=mode
                )
                asked = (source_class, project, doc_class)
                assert sorted(hit["citation"]["source"] for hit in answer["results"]) == wanted, asked
                assert_nothing_hidden(answer, profile, source_class)
                for hit in answer["results"]:
                    place = next(place for place in PLACES if place.path == hit["citation"]["source"])
                    assert (hit["source_class"], hit.get("project"), hit.get("doc_class", "note")) == (
                        place.source_class,
                        place.project,
                        place.doc_class,
                    )


@pytest.mark.parametrize("profile", PROFILES)
def test_coverage_names_the_searched_classes_and_only_a_refused_request_of_the_caller(callers, profile):
    classes, explicit = PROFILES[profile]
    for source_class in FILTERS:
        answer = callers[profile].search(source_class=source_class, explain=True)
        if source_class != "all" and source_class not in classes:
            assert (answer["status"], answer["reason"]) == ("NO_RELEVANT_CONTEXT", "acl_denied")
            assert answer["coverage"] == {"skipped_by_acl": [source_class]} and answer["explain"]["queried"] == []
            assert answer["results"] == [] and "degraded" not in answer
        else:
            queried = sorted(classes - explicit) if source_class == "all" else [source_class]
            assert "coverage" not in answer and answer["explain"]["queried"] == queried
            assert answer.get("reason") != "acl_denied"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_the_very_words_of_a_hidden_document_find_nothing_of_it(callers, profile, mode):
    for place in PLACES:
        for source_class in FILTERS:
            answer = callers[profile].search(place.word, source_class=source_class, mode=mode, neighbours=20)
            assert_nothing_hidden(answer, profile, source_class)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_refused_class_answers_alike_whatever_it_holds(callers, profile):
    classes, _ = PROFILES[profile]
    for source_class in set(CLASSES) - classes:
        answers = {json.dumps(callers[profile].search(query, source_class=source_class)) for query in ALL_WORDS.split()}
        assert len(answers) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_list_documents_gives_each_profile_its_classes_for_every_filter(callers, profile):
    for source_class in FILTERS:
        for project in PROJECTS:
            for prefix in (None, "docs", "docs/pier/", "journal", "notes/ops", "nowhere"):
                wanted = sorted(
                    place.path
                    for place in visible(profile, source_class)
                    if project in (None, place.project)
                    and (prefix is None or place.path.startswith(f"{prefix.rstrip('/')}/"))
                )
                given = {"source_class": source_class, "project": project, "prefix": prefix}
                assert callers[profile].listed(**given) == wanted, given
                assert_nothing_hidden(callers[profile].ask("list_documents", **given), profile, source_class)


@pytest.mark.parametrize("profile", PROFILES)
def test_pages_of_one_document_join_to_the_whole_list_and_no_cursor_leads_out_of_it(callers, profile):
    import base64

    caller, found, cursor = callers[profile], [], None
    while True:
        page = caller.ask("list_documents", limit=1, cursor=cursor)
        found += [entry["source"] for entry in page["documents"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
        assert_nothing_hidden(base64.urlsafe_b64decode(cursor).decode(), profile)
    assert found == sorted(place.path for place in visible(profile))
    for place in PLACES:  # a forged cursor names a hidden path: it is only a place in the alphabet
        forged = base64.urlsafe_b64encode(place.path.encode()).decode()
        assert caller.listed(cursor=forged) == [path for path in found if path > place.path]
        beside = base64.urlsafe_b64encode(f"{place.path}!".encode()).decode()
        assert caller.listed(cursor=beside) == [path for path in found if path > place.path]


@pytest.mark.parametrize("profile", PROFILES)
def test_get_document_opens_what_the_profile_holds_and_gives_one_answer_to_all_else(callers, profile):
    classes, _ = PROFILES[profile]

    def told(path, **extra):
        """The answer without the names like the one asked for; these are of documents the profile may see."""
        answer = callers[profile].ask("get_document", source=path, **extra)
        if "error" in answer:
            message, _, near = answer["error"]["message"].partition(" Nearest: ")
            seen = {place.path for place in PLACES if place.source_class in classes}
            assert set(re.findall(r'"([^"]*)"', near)) <= seen
            answer["error"]["message"] = message
        return answer

    missing = told("docs/never-was.md")
    assert missing["error"]["type"] == "not_found"
    for place in PLACES:
        for extra in ({}, {"chunk_index": 0}, {"chunk_index": 99}):
            answer = told(place.path, **extra)
            if place.source_class not in classes:
                assert json.dumps(answer) == json.dumps(missing)
            elif extra.get("chunk_index") == 99:
                assert answer["error"]["type"] == "invalid_argument"
            else:
                assert place.word in answer["text"]
    for path in (*OUTSIDE, "docs", "docs/", "/etc/passwd", "docs/../journal/monday.md", "journal/monday.md/"):
        assert json.dumps(told(path)) == json.dumps(missing)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_inventory_and_the_status_count_the_classes_of_the_profile_and_no_others(callers, profile):
    classes, explicit = PROFILES[profile]
    wanted = {
        name: {"files": len(visible(profile, name)), "chunks": len(visible(profile, name))} for name in sorted(classes)
    }
    sources = callers[profile].ask("list_knowledge_sources")
    assert sources["classes"] == wanted
    assert sources["explicit_only"] == sorted(explicit)
    assert sources["projects"] == sorted(
        {place.project for place in PLACES if place.source_class in classes and place.project}
    )
    status = callers[profile].ask("rag_status")
    assert status["inventory"] == wanted
    assert (
        status["profile"] == sources["profile"] == (profile if profile not in ("", "Auditor", "root") else "restricted")
    )
    for answer in (sources, status):
        shown = "\n".join(strings(answer))
        hidden = {name for name in CLASSES if name not in classes} | {
            place.path for place in PLACES if place.source_class not in classes
        }
        assert not [secret for secret in (*hidden, *OUTSIDE, "phalarope") if secret in shown]


def test_telemetry_names_the_class_of_a_winner_only_to_who_may_see_it(library):
    auditor, restricted = Caller(library, "auditor"), Caller(library, "restricted")
    for caller in (auditor, restricted):
        for place in PLACES:
            caller.search(place.word, source_class=place.source_class)
    assert set(auditor.ask("rag_status")["telemetry"]["by_winner"]) == set(CLASSES)
    assert set(restricted.ask("rag_status")["telemetry"]["by_winner"]) == {"docs", "decisions"}


# --- at once


def test_a_denial_holds_at_once_in_every_tool_and_its_removal_too(own):
    policy = own.config().policy_path
    caller = Caller(own, "auditor")
    assert "docs/guide.md" in caller.sources() and "docs/guide.md" in caller.listed()
    missing = caller.ask("get_document", source="docs/never-was.md")
    before = caller.ask("list_knowledge_sources")["classes"]["docs"]["files"]
    policy.write_text(POLICY.replace("deny: [", 'deny: ["docs/GUIDE.md", '), encoding="utf-8")
    for mode in MODES:
        assert "docs/guide.md" not in caller.sources("heron", mode=mode)
        assert "heron" not in json.dumps(caller.search("heron", mode=mode, explain=True)).lower()
    assert "docs/guide.md" not in caller.listed()
    assert json.dumps(caller.ask("get_document", source="docs/guide.md")) == json.dumps(missing)
    assert caller.ask("list_knowledge_sources")["classes"]["docs"]["files"] == before - 1
    assert caller.ask("rag_status")["inventory"]["docs"]["files"] == before - 1
    policy.write_text(POLICY, encoding="utf-8")
    assert "docs/guide.md" in caller.sources("heron")


def test_a_denied_day_of_a_series_leaves_no_date_and_no_citation(tmp_path):
    days = [f"docs/log-2031-05-0{day}.md" for day in (1, 2, 3, 4)]
    with governed(tmp_path) as own:
        own.write({path: "# Log\n\nThe osprey gauge reads eleven.\n" for path in days})
        own.ingest()
        caller = Caller(own, "restricted")
        whole = caller.search("osprey gauge")["results"][0]["citation"]
        assert whole["also_unchanged_on"] == ["2031-05-02", "2031-05-03", "2031-05-04"]
        own.config().policy_path.write_text(POLICY.replace("deny: [", f'deny: ["{days[2]}", '), encoding="utf-8")
        for arguments in ({}, {"as_of": "2031-05-03"}, {"as_of": "2031-05-04"}):
            answer = caller.search("osprey gauge", **arguments)
            assert "osprey" in answer["results"][0]["text"]
            assert "2031-05-03" not in json.dumps(answer), arguments
        assert caller.search("osprey gauge", as_of="2031-05-03")["results"][0]["citation"]["source"] != days[2]


def test_a_profile_made_narrower_holds_at_once(own):
    caller = Caller(own, "custodian")
    assert caller.sources(source_class="memory")
    narrower = POLICY.replace("[docs, config, memory]", "[docs]").replace("[config, memory]", "[]")
    own.config().policy_path.write_text(narrower, encoding="utf-8")
    assert caller.search(source_class="memory")["reason"] == "acl_denied"
    assert caller.ask("get_document", source="journal/monday.md")["error"]["type"] == "not_found"
    assert set(caller.ask("list_knowledge_sources")["classes"]) == {"docs"}


def test_a_class_changes_with_the_next_ingest_and_not_before(own):
    caller = Caller(own, "restricted")
    moved = POLICY.replace('{path: "journal/**", class: memory}', '{path: "journal/**", class: docs}')
    own.config().policy_path.write_text(moved, encoding="utf-8")
    assert "journal/monday.md" not in caller.sources("sanderling")
    assert caller.ask("get_document", source="journal/monday.md")["error"]["type"] == "not_found"
    own.ingest()
    assert "journal/monday.md" in caller.sources("sanderling")
    own.config().policy_path.write_text(POLICY, encoding="utf-8")
    own.ingest()
    assert "journal/monday.md" not in caller.sources("sanderling")


@pytest.mark.parametrize(
    "harm",
    ["profiles: [", "sanderling_key: 1", "deny: ['journal/[x]']", "sanderling: {a", None, "\x00\xff"],
    ids=["torn", "key", "pattern", "quoted", "gone", "bytes"],
)
def test_a_broken_policy_file_closes_every_tool_until_it_is_repaired(own, harm):
    policy = own.config().policy_path
    caller = Caller(own, "auditor")
    assert caller.sources()
    if harm is None:
        policy.unlink()
    else:
        policy.write_text(harm, encoding="utf-8")
    for tool in TOOL_NAMES:
        arguments = {"search_knowledge": {"query": "harbour"}, "get_document": {"source": "docs/guide.md"}}.get(
            tool, {}
        )
        answer = caller.ask(tool, **arguments)
        assert answer["error"]["type"] == "policy_invalid", tool
        assert not any(word in json.dumps(answer) for word in (str(policy.parent), "sanderling", "journal", "[x]"))
        assert_nothing_hidden(answer, "nobody_special")
    policy.write_text(POLICY, encoding="utf-8")
    assert caller.sources()


def test_what_an_ingest_left_out_is_told_only_to_who_may_see_its_place(own):
    outside = own.corpus.parent / "outside"
    outside.mkdir()
    for link in ("docs/link.md", "journal/link.md", "docs/denied-too.draft.md", "memory"):
        (own.corpus / link).symlink_to(outside)
    own.write({"docs/bytes.md": b"\0\0", "journal/bytes.md": b"\0\0", "src/bytes.py": b"\0\0"})
    own.ingest()
    told = {
        profile: {item["source"] for item in Caller(own, profile).ask("rag_status")["skipped"]} for profile in PROFILES
    }
    assert told["restricted"] == told["root"] == {"docs/link.md", "docs/bytes.md"}
    assert told["engineer"] == {"docs/link.md", "docs/bytes.md", "src/bytes.py"}
    assert told["auditor"] == told["engineer"] | {"journal/link.md", "journal/bytes.md", "memory"}
    assert told["nobody_special"] == set()
