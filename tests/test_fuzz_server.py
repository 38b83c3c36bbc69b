"""Random arguments through the real server: it answers every one, within its schemas, and tells nothing internal."""

import random

import pytest
from jsonschema import Draft202012Validator
from raw_server import RawServer
from support import Library

from rag_mcp.server.tools import OUTPUT_SCHEMAS

CALLS = 2_000
FIELDS = {
    "search_knowledge": (
        "query",
        "k",
        "mode",
        "source_class",
        "project",
        "doc_class",
        "confidence",
        "as_of",
        "max_chars",
        "explain",
        "x",
    ),
    "get_document": ("source", "chunk_index", "context", "from_chunk", "from_char", "max_chars", "path"),
    "list_documents": ("source_class", "project", "prefix", "cursor", "limit", "profile"),
    "list_knowledge_sources": ("profile",),
    "rag_status": ("verbose",),
}
VALUES = (
    None,
    True,
    False,
    0,
    1,
    5,
    -3,
    10**30,
    2.5,
    5.0,
    "",
    " ",
    "5",
    "abc",
    "lantern",
    "harbour lantern",
    "docs",
    "all",
    "memory",
    "DOCS",
    "hybrid",
    "fts",
    "vector",
    "strict",
    "normal",
    "note",
    "2031-01-01",
    "2031-13-45",
    "a.md",
    "docs/a.md",
    "../a.md",
    "/etc/passwd",
    "C:\\x",
    "nul",
    "a\u0000b",
    "\u202e\u200b",
    "((((",
    '"unclosed',
    "*",
    "-word",
    "title:x AND",
    "\U0001f525" * 9,
    "x" * 4_001,
    "y" * 300,
    [],
    ["docs"],
    {},
    {"a": 1},
    "bm90IGEgY3Vyc29y",
)
INTERNAL = ("Traceback", 'File "', "rag_mcp/", "site-packages", ".py", "Error(", "0x")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(
            {
                "a.md": "# Lantern\n\nHarbour lantern.\n",
                "docs/b.md": "# B\n\nText.\n",
                "memory/c.md": "# C\n\nHidden.\n",
            }
        )
        library.ingest()
        settings = {"RAG_MCP_DB_PATH": str(library.store_path), "RAG_MCP_EMBEDDER": "hash"}
        with RawServer(env=settings) as running:
            yield running, str(folder)


def random_call(chance: random.Random) -> tuple[str, dict[str, object]]:
    tool = chance.choice(sorted(FIELDS))
    names = chance.sample(FIELDS[tool], chance.randint(0, min(4, len(FIELDS[tool]))))
    arguments = {name: chance.choice(VALUES) for name in names}
    if tool == "get_document" and chance.random() < 0.4:
        arguments = {"source": chance.choice(("a.md", "docs/b.md", "memory/c.md"))}
    if tool == "search_knowledge" and chance.random() < 0.7:
        arguments["query"] = chance.choice(("lantern", "harbour", "hidden", "zzz", "(", "what is a lantern?"))
    return tool, arguments


def test_two_thousand_random_calls_are_all_answered_within_the_schemas(server):
    running, folder = server
    running.initialize()
    validators = {tool: Draft202012Validator(schema) for tool, schema in OUTPUT_SCHEMAS.items()}
    chance = random.Random(20311203)
    outcomes = set()
    for number in range(CALLS):
        tool, arguments = random_call(chance)
        reply = running.ask("tools/call", {"name": tool, "arguments": arguments}, id=number + 10)
        result = reply["result"]
        content = result["structuredContent"]
        validators[tool].validate(content)
        outcomes.add((tool, content["ok"]))
        text = str(content)
        assert folder not in text
        assert "Hidden" not in text and "c.md" not in text
        if not content["ok"]:
            assert result["isError"] is True
            assert not any(word in content["error"]["message"] for word in INTERNAL), (arguments, content)
    assert {(tool, True) for tool in FIELDS} <= outcomes
    assert {(tool, False) for tool in FIELDS} <= outcomes
    assert running.process.poll() is None
