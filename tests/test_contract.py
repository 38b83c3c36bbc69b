"""The contract: arguments helped where clear and refused where not; answers that always fit their schema."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest
from fake_knowledge import CITATION, DOCUMENT, RESULT, FakeKnowledge, response
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rag_mcp.answers import DocumentPage
from rag_mcp.errors import ConfigError, InvalidArgument, InvalidQuery, NotFound, RagMcpError, StoreDamaged
from rag_mcp.models import DocClass, Gate, Level, Mode, Reason, Skipped, SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest, NoRequest, SearchRequest
from rag_mcp.server import tools as contract

PARSERS = {
    "search_knowledge": SearchRequest.parse,
    "get_document": DocumentRequest.parse,
    "list_documents": ListRequest.parse,
    "list_knowledge_sources": NoRequest.parse,
    "rag_status": NoRequest.parse,
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def valid(tool: str, payload: object) -> None:
    """The payload is strict JSON and fits the tool's output schema."""
    again = json.loads(json.dumps(payload, allow_nan=False, ensure_ascii=False).encode("utf-8"))
    assert again == payload
    for schemas in (contract.OUTPUT_SCHEMAS, {tool.name: tool.listed_output for tool in contract.TOOLS}):
        Draft202012Validator(schemas[tool]).validate(again)


# --- arguments


def test_a_query_alone_gives_the_documented_defaults():
    request = SearchRequest.parse({"query": "teal gate"})
    assert request == SearchRequest("teal gate", 5, Mode.HYBRID, None, None, None, Gate.STRICT, None, 12_000, False)


def test_defaults_of_the_models_of_the_schemas_and_of_the_parsers_agree():
    assert SearchRequest.parse({"query": "x"}) == SearchRequest("x")
    assert DocumentRequest.parse({"source": "x.md"}) == DocumentRequest("x.md")
    assert ListRequest.parse({}) == ListRequest()
    for tool, parse, base in (
        ("search_knowledge", SearchRequest.parse, {"query": "x"}),
        ("get_document", DocumentRequest.parse, {"source": "x.md"}),
        ("list_documents", ListRequest.parse, {}),
    ):
        properties = contract.INPUT_SCHEMAS[tool]["properties"]
        stated = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
        unstated = set(properties) - set(stated) - set(base)
        assert all(getattr(parse(base), name) in (None, ()) for name in unstated)
        assert parse(base | stated | dict.fromkeys(unstated)) == parse(base)


def test_every_argument_arrives():
    request = SearchRequest.parse(
        {
            "query": " what ",
            "k": 7,
            "mode": "fts",
            "source_class": "code",
            "project": "alpha-2.x_y",
            "doc_class": "handoff",
            "confidence": "normal",
            "as_of": "2025-03-01",
            "max_chars": 500,
            "explain": True,
            "neighbours": "2",
        }
    )
    assert request == SearchRequest(
        "what",
        7,
        Mode.FTS,
        SourceClass.CODE,
        "alpha-2.x_y",
        DocClass.HANDOFF,
        Gate.NORMAL,
        date(2025, 3, 1),
        500,
        True,
        2,
    )


@pytest.mark.parametrize(
    ("given_k", "used"),
    [
        ("5", 5), (" 7 ", 7), ("5.0", 5), (5.0, 5), (None, 5), ("", 5), ("  ", 5),
        (0, 1), (-3, 1), ("-3", 1), (10**30, 20), ("1" * 5000, 20), (1e300, 20), (21, 20),
    ],
)  # fmt: skip
def test_a_clear_number_is_understood_and_clamped(given_k, used):
    assert SearchRequest.parse({"query": "x", "k": given_k}).k == used


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 5.5), ("k", True), ("k", "abc"), ("k", "5.5"), ("k", "٥"), ("k", [5]), ("k", {"n": 5}),
        ("k", float("nan")), ("k", float("inf")),
        ("mode", "HYBRID"), ("mode", "semantic"), ("mode", 1), ("mode", ["fts"]),
        ("source_class", "DOCS"), ("source_class", "dcos"), ("source_class", ["docs"]), ("source_class", " docs"),
        ("doc_class", "all"), ("confidence", "low"), ("confidence", False),
        ("project", "a/b"), ("project", "a b"), ("project", "x" * 101), ("project", 3), ("project", "a\n"),
        ("as_of", "2025-02-30"), ("as_of", "20250301"), ("as_of", "yesterday"), ("as_of", 20250301),
        ("max_chars", "lots"), ("neighbours", "some"), ("explain", "yes"), ("explain", 1), ("explain", []),
    ],
)  # fmt: skip
def test_an_unclear_value_is_refused_and_the_field_named(field, value):
    with pytest.raises(InvalidArgument) as refused:
        SearchRequest.parse({"query": "x", field: value})
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


@pytest.mark.parametrize("field", ["mode", "source_class", "confidence", "doc_class"])
def test_an_unknown_choice_lists_what_is_allowed(field):
    with pytest.raises(InvalidArgument) as refused:
        SearchRequest.parse({"query": "x", field: "nope"})
    schema = contract.INPUT_SCHEMAS["search_knowledge"]["properties"][field]
    expected = schema["enum"]
    assert list(refused.value.allowed) == expected
    assert all(value in str(refused.value) for value in expected)


@pytest.mark.parametrize(
    "name", ["k", "mode", "source_class", "project", "doc_class", "confidence", "as_of", "max_chars", "explain"]
)
@pytest.mark.parametrize("blank", [None, "", "  "])
def test_null_and_blank_mean_not_given(name, blank):
    assert SearchRequest.parse({"query": "x", name: blank}) == SearchRequest("x")


def test_all_means_every_class_not_a_class_of_that_name():
    assert SearchRequest.parse({"query": "x", "source_class": "all"}).source_class is None


@pytest.mark.parametrize("unknown", ["sources", "filter", "profile", "limit", "top_k", "Query"])
def test_an_unknown_argument_is_refused_by_name_never_ignored(unknown):
    with pytest.raises(InvalidArgument, match=f"^{unknown}: unknown argument.*Allowed: query, k, ") as refused:
        SearchRequest.parse({"query": "x", unknown: "docs"})
    assert refused.value.field == unknown


def test_a_misspelt_query_says_that_query_is_missing():
    with pytest.raises(InvalidArgument, match="query is missing"):
        SearchRequest.parse({"Query": "teal gate"})


@pytest.mark.parametrize("tool", ["rag_status", "list_knowledge_sources"])
def test_a_tool_without_arguments_refuses_any(tool):
    with pytest.raises(InvalidArgument, match="no arguments at all"):
        NoRequest.parse({"verbose": True})


@pytest.mark.parametrize(
    "query",
    [
        None, "", "  \n ", "\u200b\u200d", "\x00\x01", "\u3164", "\ufeff", "\u202e", "\ufe0f",
        ["teal"], 7, {"q": 1}, True, "x" * 4001, "x" * 10**6,
    ],
)  # fmt: skip
def test_a_query_that_asks_nothing_is_refused(query):
    with pytest.raises(InvalidQuery, match="^query: "):
        SearchRequest.parse({"query": query})


def test_a_missing_query_is_said_to_be_missing():
    with pytest.raises(InvalidQuery, match="^query: missing"):
        SearchRequest.parse({})


def test_the_longest_query_is_taken_and_lone_surrogates_are_replaced():
    assert len(SearchRequest.parse({"query": "x" * 4000}).query) == 4000
    assert SearchRequest.parse({"query": "a\ud800"}).query == "a\ufffd"


@pytest.mark.parametrize(
    ("field", "value", "used"),
    [
        ("max_chars", 1, 200),
        ("max_chars", 10**9, 100_000),
        ("max_chars", "300", 300),
        ("neighbours", -1, 0),
        ("neighbours", 99, 20),
    ],
)
def test_budgets_are_clamped(field, value, used):
    assert getattr(SearchRequest.parse({"query": "x", field: value}), field) == used


@pytest.mark.parametrize(
    "source",
    [
        "/etc/passwd", "../secret.md", "docs/../../x.md", "docs/..", ".", "a\\b.md",
        "C:/x.md", "c:x.md", "\\\\host\\share\\x.md", "NUL", "docs/con", "docs/aux.md", "a\x00.md", "a\nb.md",
        "a\ud800.md", "x" * 4097, "docs/",
    ],
)  # fmt: skip
def test_a_path_no_corpus_can_hold_is_answered_like_a_missing_document(source):
    with pytest.raises(NotFound) as refused:
        DocumentRequest.parse({"source": source})
    assert contract.error_payload(refused.value) == contract.error_payload(NotFound("docs/other.md is hidden"))


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("docs/a.md", "docs/a.md"), ("./docs/a.md", "docs/a.md"), ("100%.md", "100%.md"), ("a%20b.md", "a%20b.md"),
        ("日本/漢字.md", "日本/漢字.md"), (".hidden/a.md", ".hidden/a.md"), ("docs//a.md", "docs/a.md"),
        ("docs/./a.md", "docs/a.md"), ("a..b/c...md", "a..b/c...md"), ("%2e%2e/a.md", "%2e%2e/a.md"), ("x" * 1025, "x" * 1025),
    ],
)  # fmt: skip
def test_an_ordinary_path_is_asked_for_as_it_is(source, asked):
    assert DocumentRequest.parse({"source": source}).source == asked


@pytest.mark.parametrize("index", [-1, 10**30, "x", 1.5, True])
def test_a_chunk_index_that_is_none_is_refused(index):
    with pytest.raises(InvalidArgument) as refused:
        DocumentRequest.parse({"source": "a.md", "chunk_index": index})
    assert refused.value.field == "chunk_index"


def test_a_document_without_source_says_what_to_give():
    with pytest.raises(InvalidArgument, match="^source: missing"):
        DocumentRequest.parse({"chunk_index": 1})


@pytest.mark.parametrize(
    ("prefix", "asked"),
    [("docs/", "docs"), ("docs/gu", "docs/gu"), ("./docs", "docs"), ("docs//gu", "docs/gu"), ("", None)],
)
def test_a_prefix_is_a_relative_path_or_the_start_of_one(prefix, asked):
    assert ListRequest.parse({"prefix": prefix}).prefix == asked


@pytest.mark.parametrize("prefix", ["/", "/etc", "../", "docs/../x", "a\\b", "docs//", "x" * 4097])
def test_a_prefix_outside_the_corpus_is_refused(prefix):
    with pytest.raises(InvalidArgument, match="^prefix: "):
        ListRequest.parse({"prefix": prefix})


@pytest.mark.parametrize("cursor", ["x" * 5000, "\ud800", 5, "docs/a.md", "YS5tZA", " YS5tZA==", "Li4vYQ=="])
def test_a_cursor_that_is_none_of_ours_is_refused(cursor):
    with pytest.raises(InvalidArgument, match="^cursor: "):
        ListRequest.parse({"cursor": cursor})


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_json_gives_a_request_or_an_error_fit_to_send(data):
    tool = data.draw(st.sampled_from(sorted(PARSERS)))
    names = st.sampled_from([*contract.INPUT_SCHEMAS[tool]["properties"], "other"]) | st.text(max_size=8)
    arguments = data.draw(st.dictionaries(names, ANY_JSON, max_size=4))
    try:
        PARSERS[tool](arguments)
    except RagMcpError as error:
        assert len(str(error)) < 400
        valid(tool, contract.error_payload(error))


@settings(deadline=None)
@given(st.text(st.characters(), max_size=30) | st.text("./\\%2ef5cC:~", max_size=12))
def test_no_accepted_source_leaves_the_corpus(source):
    try:
        accepted = DocumentRequest.parse({"source": source}).source
    except RagMcpError:
        return
    assert ".." not in accepted.split("/")
    assert not accepted.startswith(("/", "\\")) and "\\" not in accepted


# --- answers


def test_an_answer_has_exactly_the_contracts_keys():
    answer = contract.answer_payload(response(SearchRequest("x")))
    assert list(answer) == ["ok", "status", "text_is_untrusted_context", "results"]
    assert answer["text_is_untrusted_context"] is True
    result = answer["results"][0]
    assert list(result) == ["text", "citation", "source_class", "confidence", "score"]
    assert list(result["citation"]) == ["source", "heading_path", "chunk_index", "line_start", "line_end"]


def test_what_is_empty_is_left_out_and_a_nought_that_says_something_is_not():
    citation = replace(CITATION, heading_path=(), chunk_index=0, line_start=0, line_end=0)
    result = replace(RESULT, citation=citation, score=0.0, text="")
    answer = contract.answer_payload(response(SearchRequest("x"), result))["results"][0]
    assert (answer["score"], answer["text"]) == (0.0, "")
    assert answer["citation"] == {
        "source": "docs/gate.md", "chunk_index": 0, "line_start": 0, "line_end": 0, "title": "Gates"
    }  # fmt: skip
    spent = contract.answer_payload(response(SearchRequest("x"), replace(RESULT, text=None)))["results"][0]
    assert spent["text"] is None
    next_at_zero = contract.answer_payload(replace(DOCUMENT, text="", next_chunk=0, chunk_count=0))
    assert next_at_zero["next"] == {"from_chunk": 0, "from_char": 0}
    assert (next_at_zero["chunk_start"], next_at_zero["chunk_count"], next_at_zero["text"]) == (0, 0, "")
    properties = {"draft": False, "rank": 0, "owner": None}
    assert contract.answer_payload(replace(DOCUMENT, properties=properties))["properties"] == properties
    nothing = replace(response(SearchRequest("x")), status="NO_RELEVANT_CONTEXT", reason=Reason.NO_RESULTS, results=())
    assert contract.answer_payload(nothing) == {
        "ok": True, "status": "NO_RELEVANT_CONTEXT", "reason": "no_results", "results": []
    }  # fmt: skip


def test_a_title_stands_only_where_no_heading_says_it():
    told = replace(CITATION, title="Opening hours")
    answer = contract.answer_payload(response(SearchRequest("x"), replace(RESULT, citation=told)))
    assert answer["results"][0]["citation"]["title"] == "Opening hours"


def test_settings_and_generation_come_with_explain_alone():
    answer = contract.answer_payload(response(SearchRequest("x", explain=True)))
    assert answer["explain"] == {
        "mode": "hybrid", "confidence": "strict", "generation": 7, "indexed_at": "2026-01-02T03:04:05Z",
        "queried": ["docs", "decisions"],
    }  # fmt: skip
    valid("search_knowledge", answer)


@pytest.mark.parametrize("tool", contract.TOOLS, ids=lambda tool: tool.name)
def test_hosts_are_listed_names_and_types_of_what_every_answer_has(tool):
    listed = tool.listed_output["properties"]
    assert set(listed) == {"ok", *tool.listed} <= set(tool.output_schema["properties"])
    assert "description" not in str(tool.listed_output)
    knowledge = FakeKnowledge()
    answers = {
        "search_knowledge": replace(response(SearchRequest("x")), results=()),
        "get_document": DOCUMENT,
        "list_documents": DocumentPage((), None, None),
        "list_knowledge_sources": knowledge.list_sources(),
        "rag_status": knowledge.status(),
    }
    assert set(listed) <= set(contract.answer_payload(answers[tool.name]))


def test_snapshot_keys_appear_only_inside_a_series():
    cited = replace(
        CITATION, snapshot_date="2025-01-01", also_unchanged_on=("2025-02-01", "2025-03-01"), snapshots_covered=3
    )
    payload = contract.answer_payload(response(SearchRequest("x"), replace(RESULT, citation=cited)))
    citation = payload["results"][0]["citation"]
    assert citation["snapshot_date"] == "2025-01-01"
    assert citation["also_unchanged_on"] == ["2025-02-01", "2025-03-01"]
    assert citation["snapshots_covered"] == 3
    valid("search_knowledge", payload)


def test_hostile_text_and_headings_leave_neutralised_and_named():
    hostile = replace(
        RESULT, text="see \x1b[2Jthis", citation=replace(CITATION, title="T\u202eitle"), warnings=("cut",)
    )
    result = contract.answer_payload(response(SearchRequest("x"), hostile))["results"][0]
    assert (result["text"], result["warnings"]) == ("see this", ["cut", "ansi_escape"])
    assert result["citation"]["title"] == "Title"
    document = contract.answer_payload(replace(DOCUMENT, text="a\u200bb"))
    assert (document["text"], document["warnings"]) == ("ab", ["zero_width"])


TEXTS = st.text(st.characters(), max_size=30)


@settings(deadline=None)
@given(st.data())
def test_every_search_answer_is_strict_json_that_fits_its_schema(data):
    citation = replace(
        CITATION,
        title=data.draw(TEXTS),
        source=data.draw(TEXTS),
        heading_path=tuple(data.draw(st.lists(TEXTS, max_size=3))),
        snapshot_date=data.draw(st.none() | st.just("2025-01-01")),
    )
    result = replace(
        RESULT,
        citation=citation,
        text=data.draw(st.none() | TEXTS),
        score=data.draw(st.floats()),
        confidence=data.draw(st.sampled_from(Level)),
        project=data.draw(st.none() | TEXTS),
        also_in=tuple(replace(CITATION, source=source) for source in data.draw(st.lists(TEXTS, max_size=2))),
        explain=data.draw(st.none() | st.dictionaries(TEXTS, ANY_JSON, max_size=3)),
    )
    answer = replace(
        response(SearchRequest("x"), result),
        reason=data.draw(st.none() | st.sampled_from(Reason)),
        degraded_reason=data.draw(st.none() | TEXTS),
        explained=data.draw(st.booleans()),
    )
    valid("search_knowledge", contract.answer_payload(answer))


def test_every_other_answer_fits_its_schema():
    knowledge = FakeKnowledge()
    valid("get_document", contract.answer_payload(DOCUMENT))
    valid("list_documents", contract.answer_payload(knowledge.list_documents(ListRequest())))
    valid("list_knowledge_sources", contract.answer_payload(knowledge.list_sources()))
    status = replace(knowledge.status(), skipped=(Skipped("a.md", "symlink"),), integrity={"share": float("nan")})
    payload = contract.answer_payload(status)
    valid("rag_status", payload)
    assert payload["integrity"] == {"share": None}


@pytest.mark.parametrize("tool", sorted(contract.OUTPUT_SCHEMAS))
def test_the_error_shape_fits_every_output_schema_and_its_key_order_is_fixed(tool):
    payload = contract.error_payload(InvalidQuery("query", "empty; say what to look for."))
    assert payload == {
        "ok": False,
        "error": {"type": "invalid_query", "message": "query: empty; say what to look for."},
        "results": [],
    }
    valid(tool, payload)


def test_a_foreign_exception_tells_nothing_of_itself():
    payload = contract.error_payload(RuntimeError("/home/someone/store is at 0x7f and the password is x"))
    assert payload["error"] == {"type": "internal_error", "message": contract.INTERNAL_ERROR}


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ("Cannot open '/home/A B/store/CURRENT'.", "Cannot open <path>."),
        ("Cannot open /srv/db/gen/000017; run rag-mcp verify.", "Cannot open <path>; run rag-mcp verify."),
        ("Cannot open C:\\Users\\me\\db here", "Cannot open <path> here"),
        ("Cannot open ~/db here", "Cannot open <path> here"),
        ("No model in /srv/my model dir/x. Set another.", "No model in <path> Set another."),
        ("/srv/my dir/model.onnx is no model (wire type 7).", "<path> is no model (wire type 7)."),
        ("Set RAG_MCP_OLLAMA_URL to http://127.0.0.1:11434 and/or docs/a.md", None),
    ],
)
def test_absolute_paths_stay_inside_unless_asked_for(message, sent):
    error = StoreDamaged(message)
    assert contract.error_payload(error)["error"]["message"] == (sent or message)
    assert contract.error_payload(error, show_paths=True)["error"]["message"] == message
    degraded = replace(response(SearchRequest("x")), degraded=True, degraded_reason=message)
    assert contract.answer_payload(degraded)["degraded_reason"] == (sent or message)
    assert contract.answer_payload(degraded, show_paths=True)["degraded_reason"] == message


def test_an_error_type_is_the_codes_of_the_error_tree():
    assert contract.error_payload(ConfigError("Set it."))["error"] == {"type": "config_error", "message": "Set it."}


# --- schemas


def test_every_tool_has_schemas_that_are_themselves_valid():
    names = [tool.name for tool in contract.TOOLS]
    assert names == list(contract.INPUT_SCHEMAS) == list(contract.OUTPUT_SCHEMAS)
    for tool in contract.TOOLS:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert schema["additionalProperties"] is False
        assert tool.title and len(tool.description) > 60


def test_an_answer_with_an_unknown_key_does_not_pass_for_valid():
    payload = contract.answer_payload(response(SearchRequest("x")))
    payload["results"][0]["hidden"] = 1
    assert not Draft202012Validator(contract.OUTPUT_SCHEMAS["search_knowledge"]).is_valid(payload)


def test_capabilities_name_every_tool_and_limit():
    payload = contract.capabilities_payload(version="1.2.3", transport="stdio")
    assert (payload["version"], payload["transport"]) == ("1.2.3", "stdio")
    assert [tool["name"] for tool in payload["tools"]] == list(contract.INPUT_SCHEMAS)
    assert payload["limits"]["k_max"] == 20
    json.dumps(payload, allow_nan=False)
