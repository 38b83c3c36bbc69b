"""Writes the parts of the documents that the code already knows, so that they can't drift from it.

    python3 scripts/generate_docs.py               write docs/CLI.md, docs/TOOLS.md, docs/schemas, the settings of
                                                   server.json and the marked tables
    python3 scripts/generate_docs.py --check       write nothing; exit 1 and name what is out of date
    python3 scripts/generate_docs.py --examples    ask every tool anew for docs/examples first, about ten seconds

A marked table stands between ``<!-- generated:NAME -->`` and ``<!-- /generated:NAME -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp import models  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.access.policy import BUILT_IN_PROFILES  # noqa: E402
from rag_mcp.config import SETTINGS, Kind, Setting  # noqa: E402
from rag_mcp.errors import RagMcpError  # noqa: E402
from rag_mcp.requests import SearchRequest  # noqa: E402
from rag_mcp.server import tools as contract  # noqa: E402

HELP_COLUMNS = 100
NOTICE = "<!-- Written by scripts/generate_docs.py; change the code it describes and run that script. -->\n"
WITH_TABLES = ("README.md", "docs/configuration.md")
NOTES_ASKED = ROOT / "tests" / "documents" / "notes"
# In this order, so that the last one has calls to count.
EXAMPLES: dict[str, dict[str, Any]] = {
    "search_knowledge": {"query": "Why would a pot burst in the kiln?", "k": 1},
    "get_document": {"source": "kiln.md", "chunk_index": 1, "context": 0},
    "list_documents": {"prefix": "status/", "limit": 2},
    "list_knowledge_sources": {},
    "rag_status": {},
}
A_MOMENT = "2026-03-04T12:00:03+00:00"
A_DURATION = 12.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 done, 1 something was out of date under --check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    parser.add_argument("--examples", action="store_true", help="ask every tool anew for docs/examples first")
    options = parser.parse_args(argv)
    if options.examples:
        _write({_example(tool): _indented(answer) for tool, answer in example_answers().items()})
    stale = {name: text for name, text in outputs().items() if _read(ROOT / name) != text}
    for name in stale:
        print(f"{'out of date' if options.check else 'written'}: {name}")
    if not options.check:
        _write(stale)
    return 1 if stale and options.check else 0


def outputs() -> dict[str, str]:
    """{path relative to the project: what the file should hold}."""
    made = {"docs/CLI.md": command_line(), "docs/TOOLS.md": tools(), "server.json": registry_entry()}
    for tool in contract.TOOLS:
        made[_schema(tool.name, "input")] = _indented(tool.input_schema)
        made[_schema(tool.name, "output")] = _indented(tool.output_schema)
    for name in WITH_TABLES:
        made[name] = with_tables(_read(ROOT / name))
    return made


def _write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8", newline="\n")


def _schema(tool: str, kind: str) -> str:
    return f"docs/schemas/{tool}.{kind}.json"


def _example(tool: str) -> str:
    return f"docs/examples/{tool}.json"


def _indented(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def with_tables(text: str) -> str:
    """``text`` with every marked table made anew. Raises ValueError for a mark that nobody fills."""

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
        return f"<!-- generated:{name} -->\n{TABLES[name]()}<!-- /generated:{name} -->"

    return re.sub(r"<!-- generated:(?P<name>\S+) -->\n.*?<!-- /generated:(?P=name) -->", fill, text, flags=re.DOTALL)


# --- the command line ------------------------------------------------------------------------------------------------


def command_line() -> str:
    """docs/CLI.md: every ``--help``, as printed."""
    parts = [
        "# Command line\n",
        NOTICE,
        "Every option stands over the environment variable named with it, and that over the default. Exit codes: "
        "[operations](operations.md#exit-codes).\n",
        _help_block("rag-mcp", []),
    ]
    for name, known in command().commands.items():
        parts += [f"## rag-mcp {name}\n", _help_block(f"rag-mcp {name}", [name])]
        parts += [_help_block(f"rag-mcp {name} {inner}", [name, inner]) for inner in _inner(known)]
    return "\n".join(parts)


def command() -> Any:
    """The click command behind the console script."""
    import typer.main

    from rag_mcp.cli.app import command_line

    return typer.main.get_command(command_line())


def help_text(arguments: Sequence[str]) -> str:
    """What ``rag-mcp ARGUMENTS --help`` prints on a terminal of fixed width."""
    from typer.testing import CliRunner

    from rag_mcp.cli.app import command_line

    done = CliRunner().invoke(command_line(), [*arguments, "--help"], prog_name="rag-mcp", terminal_width=HELP_COLUMNS)
    if done.exit_code:
        raise RuntimeError(f"rag-mcp {' '.join(arguments)} --help ended with {done.exit_code}")
    return "\n".join(line.rstrip() for line in done.output.strip().splitlines()) + "\n"


def _help_block(shown: str, arguments: Sequence[str]) -> str:
    return f"```text\n$ {shown} --help\n{help_text(arguments)}```\n"


def options() -> dict[str, set[str]]:
    """{command: the options it knows}; "" is ``rag-mcp`` itself."""
    top = command()
    commands = {"": [top], **{name: [found, *_inner(found).values()] for name, found in top.commands.items()}}
    shared = {"-h", "--help"}
    return {
        name: shared.union(*(item.opts for one in found for item in one.params)) for name, found in commands.items()
    }


def _inner(command: Any) -> dict[str, Any]:
    """The commands of a command, such as ``token add``."""
    return getattr(command, "commands", {})


# --- the tools -------------------------------------------------------------------------------------------------------


def tools() -> str:
    """docs/TOOLS.md: the contract of every tool, for people; programs read the schemas it links to."""
    parts = [
        "# Tools\n",
        NOTICE,
        "What the server offers to a host, as it lists it. Every tool is annotated as read-only, idempotent and closed-"
        'world. An answer comes as structured content and as text that says the same. Null and blank mean "not given", '
        "numbers may come as strings, and a number out of range is moved to the nearest allowed one; a name or value "
        "that is not understood is an error that lists what is allowed.\n",
        tools_table(),
        "How an answer reads:\n",
        READING,
        f"Resource `{contract.CAPABILITIES_URI}`: version, modes, classes and limits as JSON.\n",
        "Instructions given to the host:\n",
        f"> {contract.INSTRUCTIONS}\n",
        "What the documents are about follows, where it is known, in quotation marks.\n",
    ]
    for tool in contract.TOOLS:
        parts += _tool(tool)
    parts += [
        "## Refusals and failures\n",
        "One shape for a caller's mistake and for a failed store, with `isError` true:\n",
        _json(_an_error()),
        table(("error.type", "when"), _error_types()),
        "## No answer\n",
        "`status` is then `NO_RELEVANT_CONTEXT`, `results` is empty, and `reason` is one of:\n",
        table(("reason", "meaning"), ((reason.value, REASONS[reason]) for reason in models.Reason)),
    ]
    return "\n".join(parts)


READING = """- A search has `status` `OK` or `NO_RELEVANT_CONTEXT` with a `reason`; `degraded` says that a branch could not be used.
- Each passage has a `confidence`: high, medium or low, from a calibrated probability (`score`). With `confidence: strict`,
  the default, low passages are withheld.
- `as_of` asks what a series of dated snapshots (`status-2026-03-01.md`, three or more) said on a day. A passage that
  repeats the snapshot before it is stored once and lists its dates.
- Where a server serves [several corpora](operations.md#one-server-over-several), a source is `name/path`, `search_knowledge`,
  `list_documents` and `list_knowledge_sources` take `corpus`, the name of one, and the last lists `corpora` too; a corpus that can't answer
  is named in `degraded_reason`.
- `text_is_untrusted_context` marks an answer that quotes documents; invisible and reordering characters are neutralised.
- A field that would say nothing is left out: none, false, an empty list; `doc_class` where it is `note`, `coverage` where every class
  was searched, `title` where a heading says it. Branch scores, ranks, settings and generation come with `explain`.
- `content` holds the same answer as text: a line for each passage (`1. [level score, class] source:lines #chunk; headings`), lines of
  documents behind `| `, everything else as `name: value`. Either form is enough alone. `tools/list` names the fields every answer
  has; the schemas below are the whole contract.

The server speaks both protocol eras on stdio: 2026-07-28, and the `initialize` handshake up to 2025-11-25.
[A transcript](transcript-independent-client.md) shows it driven by the MCP Inspector. The answers below are about six small
notes on a pottery, with the default model and profile; times are invented, scores differ a little between processors.
"""

REASONS = {
    models.Reason.STRICT_BLOCKED_LOW: "passages were found, all of them of level low, and `confidence` is strict; "
    "`withheld` counts them, `nearest` names up to three places (none far below level medium), `advice` says what to do",
    models.Reason.ACL_DENIED: "the caller named a class that the profile may not see",
    models.Reason.PLANE_FAILED: "the index or the model that the mode needs can't be used; `degraded_reason` says why",
    models.Reason.NO_RESULTS: "nothing matched",
}


def _tool(tool: contract.ToolSpec) -> list[str]:
    parts = [f"## {tool.name}\n", f"{tool.description}\n"]
    properties = tool.input_schema["properties"]
    if properties:
        required = tool.input_schema.get("required", ())
        rows = [_argument(name, schema, name in required) for name, schema in properties.items()]
        parts.append(table(("argument", "type", "default", "allowed", "meaning"), rows))
    else:
        parts.append("No arguments.\n")
    asked = json.dumps(EXAMPLES[tool.name], ensure_ascii=False)
    links = ", ".join(f"[{kind}](schemas/{tool.name}.{kind}.json)" for kind in ("input", "output"))
    parts += [
        f"`{tool.name}` with `{asked}` answers:\n",
        f"```json\n{_read(ROOT / _example(tool.name))}```\n",
        f"JSON schemas: {links}.\n",
    ]
    return parts


def example_answers() -> dict[str, Any]:
    """{tool: what the server answers to the call of EXAMPLES}, over a new index of the notes of tests/documents.

    Times are replaced, so that asking again changes nothing; scores differ in their last digits between processors.
    """
    from rag_mcp.config import Config
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.ingest.run import run_ingest
    from rag_mcp.server.mcp import ToolRunner, open_knowledge
    from rag_mcp.telemetry import Telemetry

    with tempfile.TemporaryDirectory() as folder:
        config = Config.load({"RAG_MCP_CORPUS_ROOT": str(NOTES_ASKED), "RAG_MCP_DB_PATH": str(Path(folder) / "store")})
        run_ingest(config, IngestOptions())
        knowledge = open_knowledge(config)
        try:
            knowledge.warm_up()
            runner = ToolRunner(knowledge, Telemetry())
            return {tool: _timeless(runner.run(tool, asked).payload) for tool, asked in EXAMPLES.items()}
        finally:
            knowledge.close()


def _timeless(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        held = {name: A_DURATION for name in value} if key == "latency_ms" else dict(value)
        if held.get("date_from") == "file time":
            held["date"] = A_MOMENT[:10]
        return {name: _timeless(inner, name) for name, inner in held.items()}
    if isinstance(value, list | tuple):
        return [_timeless(inner) for inner in value]
    return A_MOMENT if key.endswith("_at") and value is not None else value


def _argument(name: str, schema: Mapping[str, Any], required: bool) -> tuple[str, ...]:
    inner = next((part for part in schema.get("anyOf", ()) if part["type"] != "null"), schema)
    default = "required" if required else _shown(schema.get("default"))
    return f"`{name}`", inner["type"], default, _allowed(inner), schema["description"]


def _shown(value: object) -> str:
    return "none" if value is None else f"`{json.dumps(value).strip(chr(34))}`"


def _allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "pattern" in schema:
        return f"`{schema['pattern']}`"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None or high is not None:
        return f"{low:,} to {high:,}" if high is not None else f"{low:,} and more"
    longest = schema.get("maxLength")
    return f"up to {longest:,} characters" if longest else ""


def _json(value: object) -> str:
    return f"```json\n{_indented(value)}```\n"


def _an_error() -> dict[str, Any]:
    try:
        SearchRequest.parse({"query": "kiln", "mode": "fuzzy"})
    except RagMcpError as error:
        return contract.error_payload(error)
    raise AssertionError("a mode that does not exist was accepted")


def _error_types() -> Iterable[tuple[str, str]]:
    """Wire codes in the order of the error tree, with the note beside each in its drawing."""
    from rag_mcp import errors

    drawn = re.findall(r"[├└]── (\w+)\s+([a-z_]+)(?: {2,}(.*))?", errors.__doc__ or "")
    for name, code, note in drawn:
        if getattr(errors, name).code != code:
            raise AssertionError(f"errors.py draws {name} with another code than it has")
        yield f"`{code}`", note or NOTES.get(code, "")
    yield "`internal_error`", "unexpected; the server's log holds the details"


NOTES = {
    "invalid_query": "the question is missing, empty or too long",
    "config_error": "an environment variable or option can't be used",
    "corpus_error": "the corpus folder can't be read",
    "store_error": "the store can't be read or written",
    "store_read_only": "the store's folder can't be written, and that was needed",
    "store_too_new": "the store was written by a newer version",
    "store_damaged": "files of the store have changed on disk",
    "embedder_error": "the model can't be used",
    "unknown_embedder": "no embedder has that name",
    "model_damaged": "the model's files are not what they should be",
}


# --- tables in other documents ---------------------------------------------------------------------------------------


def configuration_table() -> str:
    """Every environment variable, with its default and the option that stands over it."""
    rows = (
        (f"`{name}`", f"`{each.option}`" if each.option else "", each.without, each.meaning)
        for name, each in SETTINGS.items()
    )
    return table(("variable", "option", "default", "meaning"), rows)


def registry_entry() -> str:
    """server.json with every environment variable as the settings have it."""
    whole = json.loads(_read(ROOT / "server.json"))
    for package in whole["packages"]:
        package["environmentVariables"] = [_variable(name, setting) for name, setting in SETTINGS.items()]
    return _indented(whole)


def _variable(name: str, setting: Setting) -> dict[str, Any]:
    default = f" (default: {setting.without})" if setting.without else ""
    variable: dict[str, Any] = {"name": name, "description": setting.meaning + default}
    if setting.field == "corpus_root":
        variable["isRequired"] = True
    if setting.kind in FORMATS:
        variable["format"] = FORMATS[setting.kind]
    if setting.choices:
        variable |= {"choices": list(setting.choices), "default": setting.default}
    return variable


FORMATS = {Kind.PATH: "filepath", Kind.COUNT: "number"}


def profiles_table() -> str:
    """The built-in access profiles."""
    rows = []
    for name, rule in BUILT_IN_PROFILES.items():
        listed = [item.value for item in models.SourceClass if item in rule.classes - rule.explicit_only]
        asked = [item.value for item in models.SourceClass if item in rule.explicit_only]
        rows.append((f"`{name}`", ", ".join(listed), ", ".join(asked) or "none"))
    return table(("profile", "searches", "and only when named"), rows)


def tools_table() -> str:
    """Tools and their arguments in one line each."""
    rows = []
    for tool in contract.TOOLS:
        schema = tool.input_schema
        names = [f"`{name}`" if name in schema.get("required", ()) else name for name in schema["properties"]]
        rows.append((f"[`{tool.name}`](#{tool.name})", ", ".join(names) or "none", PURPOSES[tool.name]))
    return table(("tool", "arguments (`required`)", "answers with"), rows)


PURPOSES = {
    "search_knowledge": "passages, best first, each with source, heading path, line range, level and score",
    "get_document": "a whole document, or the passages around one chunk, from the index",
    "list_documents": "one page of documents, with title and class",
    "list_knowledge_sources": "classes and projects the caller may see, with counts",
    "rag_status": "generation, freshness, integrity, files left out, counts of this process",
}

TABLES = {"configuration": configuration_table, "profiles": profiles_table}


if __name__ == "__main__":
    sys.exit(main())
