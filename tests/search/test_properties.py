"""Properties of documents: what is kept, what is shown, and that a filter is what filtering the whole list gives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cli_process import cli_json, forked_cli
from governed import Caller
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.errors import InvalidArgument
from rag_mcp.requests import ListRequest
from rag_mcp.stores.embedded.manifest_file import read_manifest, write_manifest
from rag_mcp.text.frontmatter import parse_front_matter
from rag_mcp.text.properties import DocumentFilter, body_properties, own_day

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
        ({"until": "2031-02-03"}, ["boats/skiff.md", "ropes/hemp.md"]),
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


@pytest.mark.parametrize("length", [8, 10])
def test_a_manifest_without_properties_is_read(tmp_path, length):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"skiff.md": note(HEADS["boats/skiff.md"])})
        library.ingest()
        manifest = library.manifest()
        path = tmp_path / "manifest.json"
        write_manifest(path, manifest)
        assert read_manifest(path).files["skiff.md"].properties["sold"] == [False]
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["files"] = {source: values[:length] for source, values in raw["files"].items()}
        path.write_text(json.dumps(raw), encoding="utf-8")
        assert read_manifest(path).files["skiff.md"].properties == {}


labels = st.sampled_from(["open", "closed", 1, 1.5, True, "a/b", "2031-01-01", "Ada"])
documents = st.dictionaries(
    st.sampled_from(["a/x.md", "a/b/y.md", "2031-01-02.md", "z.md"]),
    st.dictionaries(st.sampled_from(["tags", "status", "date"]), st.lists(labels, max_size=3).map(tuple), max_size=3),
)
narrowings = st.builds(
    DocumentFilter,
    tags=st.lists(st.sampled_from(["a", "a/b", "open"]), max_size=1).map(tuple),
    path=st.sampled_from([None, "a", "a/*", "*.md"]),
    where=st.lists(st.tuples(st.sampled_from(["status", "date"]), labels.map(lambda one: (one,))), max_size=2).map(
        tuple
    ),
)


@settings(deadline=None)
@given(documents, narrowings, narrowings)
def test_two_filters_together_leave_what_each_leaves_of_the_other(files, one, other):
    both = DocumentFilter(one.tags + other.tags, one.path, where=one.where + other.where)
    alone = replace(other, path=one.path)
    left = {path for path, held in files.items() if one.test()(path, held)}
    assert {path for path, held in files.items() if both.test()(path, held)} == {
        path for path in left if alone.test()(path, files[path])
    }


def test_a_date_is_that_of_the_head_and_else_that_of_the_name():
    assert own_day("2031-01-02.md", {"created": ("2030-05-06T10:00",)}) == "2030-05-06"
    assert own_day("x/log 2031-01-02.md", {"date": ("soon",)}) == "2031-01-02"
    assert own_day("2031-13-02.md", {}) is None


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
