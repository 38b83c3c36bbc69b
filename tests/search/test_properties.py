"""Properties of documents: what is kept, what is shown, and that a filter is what filtering the whole list gives."""

from __future__ import annotations

import json
import os
from datetime import date
from fnmatch import fnmatchcase

import pytest
from cli_process import cli_json, forked_cli
from governed import Caller
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.errors import InvalidArgument
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.requests import ListRequest
from rag_mcp.search.document_filter import without_others
from rag_mcp.search.facets import facets_of
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.frontmatter import parse_front_matter
from rag_mcp.text.properties import UNDATED, DocumentFilter, body_properties, own_date

HEADS = {
    "boats/skiff.md": "status: open\nowner: Ada Quill\nlength: 4.0\ndate: 2031-02-03\ntags: [boat/small, wood]\nsold: false\n",
    "boats/barge.md": "Status: Closed\nowner: '[[Ben Oar]]'\nlength: 30\ntags: boat/large\nsold: true\n",
    "boats/2031-04-01 launch.md": "status: open\ncrew: [Ada Quill, Ben Oar]\n",
    "ropes/hemp.md": "created: 2030-12-31\nlength: 12\ntags: [boatyard]\n",
    "ropes/wire.md": "",
}
BODY = "The mooring lamp burns.\n"


def note(head: str, body: str = BODY) -> str:
    return f"---\n{head}---\n{body}" if head else body


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("properties")
    with Library(folder / "corpus", folder / "store") as library:
        library.write({path: note(head) for path, head in HEADS.items()})
        library.write({"ropes/wire.md": "season:: spring, autumn\n\nThe mooring lamp burns. #metal/steel `#no` #12\n"})
        for name in HEADS:
            os.utime(library.corpus / name, (1_800_000_000, 1_800_000_000))  # in January 2027
        library.ingest()
        yield library


@pytest.fixture(scope="module")
def caller(library):
    return Caller(library, "restricted")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"tags": "boat"}, ["boats/barge.md", "boats/skiff.md"]),
        ({"tags": ["#Boat/small", "wood"]}, ["boats/skiff.md"]),
        ({"tags": ["metal"]}, ["ropes/wire.md"]),
        ({"tags": ["no"]}, []),
        ({"path": "ropes"}, ["ropes/hemp.md", "ropes/wire.md"]),
        ({"path": "rope"}, []),
        ({"path": "**/*a*e.md"}, ["boats/barge.md"]),
        ({"since": "2031-02-03"}, ["boats/2031-04-01 launch.md", "boats/skiff.md"]),
        ({"until": "2031-02-03"}, ["boats/barge.md", "boats/skiff.md", "ropes/hemp.md", "ropes/wire.md"]),
        ({"since": "2030-01-01", "until": "2031-02-03"}, ["boats/skiff.md", "ropes/hemp.md"]),
        ({"where": {"STATUS": "closed"}}, ["boats/barge.md"]),
        ({"where": {"length": 4}}, ["boats/skiff.md"]),
        ({"where": {"length": "30.0"}}, ["boats/barge.md"]),
        ({"where": {"sold": True}}, ["boats/barge.md"]),
        ({"where": {"sold": "false"}}, ["boats/skiff.md"]),
        ({"where": {"date": "2031-02-03"}}, ["boats/skiff.md"]),
        ({"where": {"crew": ["Ben Oar", "ada quill"]}}, ["boats/2031-04-01 launch.md"]),
        ({"where": {"owner": "Ben Oar"}}, ["boats/barge.md"]),
        ({"where": {"season": "autumn"}}, ["ropes/wire.md"]),
        ({"where": {"status": "open"}, "tags": "wood", "path": "boats"}, ["boats/skiff.md"]),
    ],
)
def test_a_filter_leaves_the_documents_it_names_in_search_and_in_the_list(caller, arguments, found):
    assert sorted(caller.listed(**arguments)) == found
    for mode in ("hybrid", "fts", "vector"):
        searched = caller.sources("mooring lamp", mode=mode, k=20, confidence="normal", **arguments)
        assert set(searched) <= set(found)
        whole = caller.search("mooring lamp", mode=mode, k=20, confidence="normal", **arguments)
        shown = {place["source"] for hit in whole["results"] for place in (hit["citation"], *hit.get("also_in", ()))}
        assert shown == set(found)


def test_an_unknown_property_is_an_error_that_names_near_ones(caller):
    for tool, arguments in (("list_documents", {}), ("search_knowledge", {"query": "lamp"})):
        said = json.dumps(caller.ask(tool, where={"statsu": "open"}, **arguments))
        assert "statsu" in said and "Near: status" in said


@pytest.mark.parametrize(
    "arguments",
    [{"where": "a"}, {"where": {"a": {}}}, {"where": {"a": []}}, {"tags": {}}, {"path": "[a]"}, {"since": "x"}],
)
def test_a_filter_that_is_not_understood_is_an_error(arguments):
    with pytest.raises(InvalidArgument):
        ListRequest.parse(arguments)


def test_get_document_shows_every_property_with_its_type(caller):
    shown = caller.ask("get_document", source="boats/skiff.md")["properties"]
    assert shown == {
        "tags": ["boat/small", "wood"],
        "status": ["open"],
        "owner": ["Ada Quill"],
        "length": [4.0],
        "date": ["2031-02-03"],
        "sold": [False],
    }


def test_access_is_no_property_and_code_holds_none():
    assert parse_front_matter("---\naccess: all\nowner: Ada\n---\n").properties == {"owner": ("Ada",)}
    assert body_properties("access:: none\n```\nkey:: value #tag\n```\n") == {}


def test_a_secret_among_the_properties_is_masked(tmp_path):
    secret = "q7Zr-Lm2x-Wp94-Tk31"
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"gate.md": note(f"owner: Ada\npassword: {secret}\n")})
        library.ingest()
        assert secret not in json.dumps([dict(entry.properties) for entry in library.manifest().files.values()])


DAYS = ("2030-12-31", "2031-01-02", "2031-02-03", "2031-04-01")
labels = st.sampled_from(
    ["open", "Closed", "[[Ada]]", "Ada", 1, "1.0", 1.5, True, "true", "a/b", "a", *DAYS, f"{DAYS[1]}T10:00"]
)
entries = st.builds(
    lambda properties, file_day: FileEntry(
        "", SourceClass.DOCS, None, DocClass.NOTE, "", None, None, (), properties=properties, file_day=file_day
    ),
    st.dictionaries(
        st.sampled_from(["tags", "status", "date", "updated"]), st.lists(labels, min_size=1, max_size=3), max_size=3
    ),
    st.sampled_from(["", *DAYS]),
)
files = st.dictionaries(st.sampled_from(["a/x.md", "a/b/y.md", "a/2031-01-02.md", "b/20310203 z.md", "z.md"]), entries)
days = st.sampled_from([None, *map(date.fromisoformat, DAYS)])
narrowings = st.builds(
    DocumentFilter,
    tags=st.lists(st.sampled_from(["a", "#A/b", "open"]), max_size=2).map(tuple),
    path=st.sampled_from([None, "a", "a/b/", "a/*", "**/*z.md", "z.md"]),
    since=days,
    until=days,
    where=st.lists(
        st.tuples(st.sampled_from(["status", "Date"]), st.lists(labels, min_size=1, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
)


def asked_for(narrowing: DocumentFilter, path: str, entry: FileEntry) -> bool:
    """What the filters are documented to mean, said of one document without any index."""
    held = entry.properties
    tags = [str(tag).casefold() for tag in held.get("tags", ())]
    wanted = [tag.lstrip("#").casefold() for tag in narrowing.tags]
    day = own_date(path, held, entry.file_day).day
    place = narrowing.path
    return (
        all(any(f"{tag}/".startswith(f"{each}/") for tag in tags) for each in wanted)
        and (
            place is None
            or (fnmatchcase(path, place) if "*" in place else f"{path}/".startswith(place.rstrip("/") + "/"))
        )
        and (narrowing.since is None or (day is not None and day >= narrowing.since.isoformat()))
        and (narrowing.until is None or (day is not None and day <= narrowing.until.isoformat()))
        and all(
            any(same(one, each) for one in held.get(key.lower(), ())) for key, all_ in narrowing.where for each in all_
        )
    )


def same(held: object, wanted: object) -> bool:
    """Whether one value of a document is the one asked for: 1 is 1.0, [[Ada]] is Ada, and a time is of its day."""
    one, other = (str(each).casefold().strip("[]").replace("1.0", "1") for each in (held, wanted))
    return one == other or (one[4:5] == "-" and one[:10] == other)


@settings(deadline=None)
@given(files, narrowings)
def test_a_filter_selects_what_looking_at_each_document_selects(files, narrowing):
    assert facets_of(files).select(narrowing) == {path for path in files if asked_for(narrowing, path, files[path])}


@given(st.frozensets(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("abcdef")))
def test_an_index_is_told_those_that_pass_or_the_others_whichever_are_fewer(shown, selected):
    passed = shown & selected
    told = without_others(passed, shown)
    named = told.left_out if told.sources is None else told.sources
    assert len(named) <= len(shown) / 2
    assert passed == (shown if told.sources is None else shown & told.sources) - told.left_out


wire = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.sampled_from(["boat", "#Boat/small", "wood", ["boat", "wood"], "none"]),
        "path": st.sampled_from(["boats", "ropes/", "**/*a*e.md", "boats/*l*"]),
        "since": st.sampled_from(["2031-02-03", "2031-02-04"]),
        "until": st.sampled_from(["2031-02-03", "2031-04-01"]),
        "where": st.sampled_from([{"status": "open"}, {"Length": 30}, {"owner": "Ada Quill"}, {"sold": [False]}]),
    },
)


@settings(deadline=None, max_examples=40)
@given(wire, st.sampled_from(["hybrid", "fts", "vector"]))
def test_a_filtered_answer_is_the_unfiltered_one_without_the_others(caller, arguments, mode):
    """Each filter alone leaves a part of the whole list; together they leave what is in all of these parts."""
    whole = caller.listed()
    parts = [set(caller.listed(**{name: value})) for name, value in arguments.items()]
    left = [path for path in whole if all(path in part for part in parts)]
    assert caller.listed(**arguments) == left
    question = {"query": "mooring lamp", "mode": mode, "k": 20, "confidence": "normal"}
    found, narrowed = (caller.ask("search_knowledge", **question, **more)["results"] for more in ({}, arguments))
    assert places(narrowed) == [place for place in places(found) if place[0] in left]


def places(results):
    """What was found where, whichever of several places of the same text is named first."""
    return sorted(
        (place["source"], place["line_start"], hit["text"])
        for hit in results
        for place in (hit["citation"], *hit.get("also_in", ()))
    )


def test_a_date_is_that_of_the_head_and_else_that_of_the_name_and_else_that_of_the_file():
    assert own_date("2031-01-02.md", {"created": ("2030-05-06T10:00",)}, "2032-01-01") == ("2030-05-06", "created")
    assert own_date("a.md", {"updated": ("2031-01-01",), "date": ("2030-01-01",)}, "") == ("2030-01-01", "date")
    assert own_date("x/log 2031-01-02.md", {"date": ("soon",)}, "2032-01-01") == ("2031-01-02", "file name")
    assert own_date("2031-01-02/x.md", {}, "2032-01-01") == ("2032-01-01", "file time")
    assert own_date("2031-13-02.md", {}, "") == UNDATED


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2031_02_03.md", "2031-02-03"),
        ("2031.02.03.md", "2031-02-03"),
        ("20310203 pier.md", "2031-02-03"),
        ("203102031405.md", "2031-02-03"),
        ("2031-02_03.md", None),
        ("order 30310203.md", None),
        ("1203102031405.md", None),
        ("20311399.md", None),
    ],
)
def test_a_date_in_a_name_is_read_as_people_write_it(name, day):
    assert own_date(name, {}, "").day == day


def test_the_date_of_a_file_stays_while_its_text_does(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"wire.md": BODY, "skiff.md": note(HEADS["boats/skiff.md"])})
        os.utime(library.corpus / "wire.md", (1_900_000_000, 1_900_000_000))
        library.ingest()
        own = Caller(library, "restricted")
        day = date.fromtimestamp(1_900_000_000).isoformat()
        dated = {each["source"]: (each["date"], each["date_from"]) for each in own.ask("list_documents")["documents"]}
        assert dated == {"wire.md": (day, "file time"), "skiff.md": ("2031-02-03", "date")}
        shown = own.ask("get_document", source="wire.md")
        assert (shown["date"], shown["date_from"]) == (day, "file time")
        assert own.listed(since=day) == ["skiff.md", "wire.md"] and own.listed(until="2029-01-01") == []
        os.utime(library.corpus / "wire.md", (1_950_000_000, 1_950_000_000))
        library.ingest()
        assert library.manifest().files["wire.md"].file_day == day
        library.write({"wire.md": BODY + "It burns on.\n"})
        os.utime(library.corpus / "wire.md", (1_950_000_000, 1_950_000_000))
        library.ingest()
        assert library.manifest().files["wire.md"].file_day == date.fromtimestamp(1_950_000_000).isoformat()


def test_reading_properties_of_a_text_takes_linear_time():
    assert growth(lambda size: "a:: b #tag/x `c` \n" * size, body_properties, 500) < 3


def test_the_command_line_takes_the_same_filters(library):
    place = ("--db", library.store_path, "--corpus", library.corpus)
    answer = cli_json(
        "query", "mooring lamp", "--mode", "fts", "--confidence", "normal", *place,
        "--tag", "wood", "--path", "boats", "--since", "2031-01-01", "--until", "2031-12-31", "--where", "status=open",
    )  # fmt: skip
    assert [hit["citation"]["source"] for hit in answer["results"]] == ["boats/skiff.md"]
    done = forked_cli("query", "lamp", *place, "--where", "status")
    assert done.returncode != 0 and "KEY=VALUE" in done.stderr


@pytest.mark.parametrize(
    "arguments", [{"tags": ["a"] * 51}, {"where": {str(n): n for n in range(51)}}, {"where": {"a": [1] * 51}}]
)
def test_more_filters_than_are_looked_at_are_refused(arguments):
    with pytest.raises(InvalidArgument, match="at most 50"):
        ListRequest.parse(arguments)
