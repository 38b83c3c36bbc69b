"""The shape of the package: who may import whom, and the one owner of each thing."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "rag_mcp"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A module may import from its own level and from those above it in this list.
LEVELS = (
    ("errors", "models", "data"),
    ("text", "places", "intervals", "telemetry"),
    ("access",),
    ("answers", "requests"),
    ("config", "logs"),
    ("stores", "embedders"),
    ("ingest", "search"),
    ("knowledge", "federation", "evaluation"),
    ("maintenance",),
    ("server",),
    ("setup",),
    ("cli", "__main__", "generated"),
)
# Of one level, and yet none needs the other.
STRANGERS = {"ingest": "search", "search": "ingest"}
# Decisions: no I/O, no third party.
PURE = (
    "ingest/plan.py",
    "text/series.py",
    "text/dates.py",
    "text/scripts.py",
    "text/hidden.py",
    *(f"text/{name}.py" for name in ("chunking", "limits", "lines", "sections", "stubs", "spans", "units", "cuts")),
    "text/filetypes.py",
    "text/headings.py",
    "text/embedded.py",
    "text/links.py",
    "search/fusion.py",
    "search/score.py",
    "search/shape.py",
    "search/excerpt.py",
    "evaluation/names.py",
    "text/tally.py",
    "access/policy.py",
    "access/profiles.py",
    "stores/base.py",
    "stores/manifest.py",
    "errors.py",
    "models.py",
)
OWNERS = {
    "chromadb": ("stores/embedded/vectors.py",),
    "chromadb_rust_bindings": ("stores/embedded/chroma_rows.py",),
    "tantivy": tuple(f"stores/embedded/keywords/{name}.py" for name in ("document", "index", "stemmer", "writer")),
    "psycopg": tuple(
        f"stores/postgres/{name}.py"
        for name in ("connect", "copying", "migrate", "passages", "roles", "store", "workplace", "write")
    ),
    "psycopg_pool": ("stores/postgres/connect.py",),
    "mcp": ("server/http/profiles.py", "server/mcp.py", "server/stdio.py"),
    "uvicorn": ("server/http/connections.py",),
    "h11": ("server/http/connections.py",),
    "starlette": (
        "server/http/app.py",
        "server/http/connections.py",
        "server/http/guard.py",
        "server/page/site.py",
    ),
    "jinja2": ("server/page/rendering.py",),
    "onnxruntime": ("embedders/onnx.py",),
    "tokenizers": ("embedders/onnx.py",),
    "huggingface_hub": ("embedders/fetch.py",),
    "markdown_it": ("text/blocks.py",),
    "watchfiles": ("ingest/watch.py",),
    "rich": ("cli/ingest.py", "cli/output.py"),
    "typer": tuple(
        f"cli/{name}.py"
        for name in (
            "app",
            "evaluate",
            "hosts",
            "ingest",
            "models",
            "output",
            "params",
            "query",
            "serve",
            "setup",
            "several",
            "store",
            "tokens",
        )
    ),
    "pydantic_core": ("ingest/ignore.py",),
    "pypdfium2": ("ingest/converter.py",),
    "mammoth": ("ingest/converter.py",),
    "html_to_markdown": ("ingest/converter.py",),
}
HEAVY = (
    "chromadb",
    "chromadb_rust_bindings",
    "onnxruntime",
    "tokenizers",
    "tantivy",
    "mcp",
    "numpy",
    "uvicorn",
    "starlette",
    "jinja2",
)


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(nodes) -> list[tuple[str, str]]:
    """(module, name) of every import among ``nodes``; name is empty for ``import module``."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute in this package"
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def level_of(part: str) -> int:
    known = [index for index, level in enumerate(LEVELS) if part in level]
    assert known, f"rag_mcp.{part} has no place in LEVELS: give it one"
    return known[0]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_from_the_front_doors_to_the_values(path):
    own = name_of(path).removesuffix(".py").split("/")[0]
    if own == "__init__":
        return
    for module, name in imported(ast.walk(tree_of(path))):
        if module.split(".")[0] != "rag_mcp":
            continue
        target = module.split(".")[1] if "." in module else name
        if target == "__version__":
            continue
        assert level_of(target) <= level_of(own), f"{name_of(path)} imports rag_mcp.{target}"
        assert STRANGERS.get(own) != target, f"{name_of(path)} imports rag_mcp.{target}"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("stores/*.py")), ids=name_of)
def test_what_a_store_is_depends_on_no_store(path):
    assert not [module for module, _ in imported(ast.walk(tree_of(path))) if "rag_mcp.stores.embedded" in module]


def test_no_module_needs_itself_to_be_imported():
    """Wherever an import stands: one inside a function, or for types alone, ties two modules together as well."""
    graph: dict[str, set[str]] = {}
    modules = {"rag_mcp." + name_of(path).removesuffix(".py").replace("/", "."): path for path in MODULES}
    modules = {module.removesuffix(".__init__"): path for module, path in modules.items()}
    for own, path in modules.items():
        found = {(module, f"{module}.{name}") for module, name in imported(ast.walk(tree_of(path)))}
        graph[own] = {inner if inner in modules else module for module, inner in found} & set(modules) - {own}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def libraries(path: Path) -> set[str]:
    """Top-level names of all a module imports, by statement or by ``import_module`` with a name that is written out."""
    found = {module.split(".")[0] for module, _ in imported(ast.walk(tree_of(path)))}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            found |= {str(text).split(".")[0] for text in texts}
    return found


@pytest.mark.parametrize("library", OWNERS)
def test_each_library_has_one_owner(library):
    users = [name_of(path) for path in MODULES if library in libraries(path)]
    assert tuple(users) == OWNERS[library]


def test_only_the_configuration_reads_the_environment():
    readers = set()
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}:
                readers.add(name_of(path))
        if any(module == "os" and name in {"environ", "getenv"} for module, name in imported(ast.walk(tree_of(path)))):
            readers.add(name_of(path))
    assert readers == {"config.py"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_but_the_command_line_prints(path):
    printing = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printing or name_of(path).startswith("cli/")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_an_underscore_name_stays_in_its_module(path):
    private = [
        f"{module}.{name}"
        for module, name in imported(ast.walk(tree_of(path)))
        if module.startswith("rag_mcp") and name.startswith("_") and not name.endswith("__")
    ]
    assert not private


@pytest.mark.parametrize("name", PURE)
def test_decisions_are_made_without_io_and_without_third_parties(name):
    modules = {module.split(".")[0] for module, _ in imported(ast.walk(tree_of(PACKAGE / name)))}
    assert modules <= sys.stdlib_module_names | {"rag_mcp"}
    assert not modules & {"os", "io", "shutil", "socket", "subprocess", "sqlite3", "tempfile", "time", "random"}
    opened = [node for node in ast.walk(tree_of(PACKAGE / name)) if isinstance(node, ast.Name) and node.id == "open"]
    assert not opened


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for_and_its_functions_stay_short(path):
    tree = tree_of(path)
    assert ast.get_docstring(tree) or not tree.body
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {node.name: length for node in functions if (length := node.end_lineno - node.body[0].lineno + 1) > 60}
    assert not long


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import rag_mcp.cli.app"],
        ["-c", "import rag_mcp, rag_mcp.config, rag_mcp.models, rag_mcp.errors, rag_mcp.server.hosts"],
        ["-c", "import sys; sys.argv = ['rag-mcp', '--help']; from rag_mcp.cli import main; main()"],
        ["-c", "import sys; sys.argv = ['rag-mcp', 'ingest', '--help']; from rag_mcp.cli import main; main()"],
    ],
    ids=["cli", "values", "help", "help-of-ingest"],
)
def test_the_command_line_answers_before_anything_heavy_is_loaded(arguments):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=PACKAGE.parent,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "rag_mcp" in loaded
    assert not loaded & set(HEAVY)
