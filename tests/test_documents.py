"""The documents say what is so: references are generated, commands run, options, paths and links exist.

A fenced block marked ``sh run`` is run, block after block in one folder for each document, with the notes of
tests/documents. A ``text output`` block behind it must be found in what it printed, line by line and in this order; times
and scores may differ. ``sh run clone`` is run in a copy of the checkout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from cli_process import warm_command
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from rag_mcp.config import SETTINGS, Config
from rag_mcp.ingest.options import Step

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / "tests" / "documents" / "notes"
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
# Commands of README and CUTOVER that no test here runs, and what stands for them.
NOT_RUN = {
    "pip install .": "tests/test_packaging.py installs the built wheel",
    "rag-mcp models pull multilingual-e5-small": "needs the network",
    "rag-mcp ingest notes --db notes.e5 --embedder multilingual-e5-small": "needs the model fetched before",
    "rag-mcp setup ~/notes": "tests/test_setup.py does it in throw-away homes",
}
posix = pytest.mark.skipif(os.name == "nt", reason="the documents' commands are written for a POSIX shell")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- generated -------------------------------------------------------------------------------------------------------


def test_generated_references_are_what_the_code_says(generator):
    stale = [name for name, text in generator.outputs().items() if text_of(name) != text]
    assert not stale, "run: python3 scripts/generate_docs.py"


def test_the_check_names_what_is_out_of_date_and_writes_nothing(generator, monkeypatch, tmp_path, capsys):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copy(ROOT / "server.json", tmp_path)
    (tmp_path / "docs" / "CLI.md").write_text("old", encoding="utf-8")
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().out == "out of date: docs/CLI.md\n"
    assert (tmp_path / "docs" / "CLI.md").read_text(encoding="utf-8") == "old"
    assert generator.main([]) == 0 and generator.main(["--check"]) == 0


def test_every_setting_stands_in_the_table_with_its_default(generator):
    rows = generator.configuration_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(SETTINGS)
    with_default = [row for row in rows if row.split("|")[3].strip()]
    config = Config()
    values = {name: getattr(config, setting.field) for name, setting in SETTINGS.items()}
    shown = {row.split("`")[1]: row.split("|")[3].strip() for row in with_default}
    assert {name: shown[name] for name, value in values.items() if value} == {n: v for n, v in values.items() if v}
    in_words = {name for name, setting in SETTINGS.items() if setting.unset}
    assert set(shown) == in_words | {name for name, value in values.items() if value}


def without_figures(value):
    """An answer without what differs from processor to processor, or by the day it was made."""
    if isinstance(value, dict):
        return {key: without_figures(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_figures(inner) for inner in value]
    return "a figure" if isinstance(value, float) else value


@pytest.mark.slow
def test_the_answers_shown_are_what_the_server_answers_today(generator):
    shown = {tool: json.loads(text_of(f"docs/examples/{tool}.json")) for tool in generator.EXAMPLES}
    today = json.loads(json.dumps(generator.example_answers()))
    assert without_figures(today) == without_figures(shown), "run: python3 scripts/generate_docs.py --examples"
    for tool, answer in shown.items():
        Draft202012Validator(json.loads(text_of(f"docs/schemas/{tool}.output.json"))).validate(answer)
        Draft202012Validator(json.loads(text_of(f"docs/schemas/{tool}.input.json"))).validate(generator.EXAMPLES[tool])


def test_there_is_a_schema_and_an_example_for_each_tool_and_no_other(generator):
    schemas = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "schemas").iterdir()}
    assert schemas == {name for name in generator.outputs() if name.startswith("docs/schemas/")}
    examples = {path.stem for path in (ROOT / "docs" / "examples").iterdir()}
    assert examples == set(generator.EXAMPLES) == {tool.name for tool in generator.contract.TOOLS}


def test_the_readme_is_short_enough_to_be_read():
    assert len(text_of("README.md").splitlines()) <= 150


# --- what is mentioned exists ----------------------------------------------------------------------------------------


@cache
def headings(name: str) -> frozenset[str]:
    """Anchors of a document, as GitHub makes them."""
    tokens = MarkdownIt().parse(text_of(name))
    titles = [after.content for token, after in zip(tokens, tokens[1:], strict=False) if token.type == "heading_open"]
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def links(name: str) -> list[str]:
    """Targets of a document's links and images that lead to this project."""
    found = []
    for token in MarkdownIt().enable("table").parse(text_of(name)):
        for child in token.children or ():
            target = child.attrs.get("href") or child.attrs.get("src")
            if target and not re.match(r"[a-z]+:", str(target)):
                found.append(str(target))
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_internal_links_lead_somewhere(name):
    for link in links(name):
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name} links to {link}"
        if anchor:
            relative = target.resolve().relative_to(ROOT).as_posix()
            assert anchor in headings(relative), f"{name} links to {link}"


PLACE = re.compile(r"(?<![\w./<])(?:rag_mcp|tests|scripts|docs|\.ci)/[\w./-]*\w")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_of_the_project_that_a_document_names_is_there(name):
    missing = [place for place in PLACE.findall(text_of(name)) if not (ROOT / place).exists()]
    assert not missing


def commands(text: str) -> list[list[str]]:
    """Every ``rag-mcp COMMAND ...`` in prose or code, up to the end of its line or inline code."""
    found = []
    for match in re.finditer(r"(?<![\w/.-])rag-mcp((?: +[^\s`|;]+)+)", text):
        found.append(match[1].split())
    return found


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "transcript" not in name])
def test_every_option_that_a_document_names_exists(name, generator):
    known = generator.options()
    for words in commands(text_of(name)):
        command = words[0] if words[0] in known else ""
        for word in words:
            option = word.split("=")[0].rstrip(".,:)")
            if option == "--":
                break
            if re.fullmatch(r"-k|--[a-z][\w-]*", option):
                assert option in known[command] | known[""], f"{name}: rag-mcp {' '.join(words)}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_option_and_setting_in_inline_code_is_one_of_ours_or_of_a_script(name, generator):
    ours = set().union(*generator.options().values())
    scripts = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "scripts").glob("*.py"))
    for option in re.findall(r"`(--[a-z][\w-]*)", text_of(name)):
        assert option in ours or f'"{option}"' in scripts, f"{name}: {option}"
    settings = re.findall(r"RAG_MCP_[A-Z_]+[A-Z]", text_of(name))
    assert set(settings) <= set(SETTINGS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_names_a_place_on_some_machine(name):
    assert not re.search(r"/(?:tmp|home|root|Users|work|opt)/\w|[A-Z]:\\Users", text_of(name))


def test_the_architecture_has_a_place_for_every_module_step_and_dependency():
    text = text_of("ARCHITECTURE.md")
    modules = (path.relative_to(ROOT).as_posix() for path in (ROOT / "rag_mcp").rglob("*.py"))
    missing = [name for name in modules if not name.endswith("__init__.py") and f"`{name}`" not in text]
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    packages = (re.match(r"[\w-]+", line)[0] for line in listed)
    missing += [package for package in packages if f"`{package}`" not in text]
    life = text[text.index("## Life of an ingest") : text.index("### Killed")]
    missing += [step.value for step in Step if step.value not in life]
    missing += [path.name for path in (ROOT / "scripts").glob("*.py") if f"`{path.name}`" not in text]
    assert not missing


# --- what is shown runs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    marks: tuple[str, ...]
    content: str


def blocks(name: str) -> list[Block]:
    tokens = MarkdownIt().parse(text_of(name))
    return [Block(tuple(token.info.split()), token.content) for token in tokens if token.type == "fence"]


@dataclass(frozen=True)
class Example:
    """Commands, and the lines of output that a document shows for them."""

    script: str
    shown: tuple[str, ...]


def examples(name: str, *marks: str) -> list[Example]:
    found = []
    listed = blocks(name)
    for place, block in enumerate(listed):
        if block.marks != ("sh", *marks):
            continue
        after = listed[place + 1] if place + 1 < len(listed) else Block((), "")
        shown = after.content.splitlines() if after.marks == ("text", "output") else []
        found.append(Example(block.content, tuple(shown)))
    return found


def plain(line: str) -> str:
    """A line without what differs from run to run and from processor to processor."""
    line = re.sub(r"\d+\.\d+ s$", "N s", line.strip())
    return re.sub(r"(high|medium|low), 0\.\d\d\]", r"\1]", line)


def assert_shown(example: Example, printed: str) -> None:
    rest = iter([plain(line) for line in printed.splitlines()])
    for line in filter(None, map(plain, example.shown)):
        assert line in rest, f"not printed, or not in this place: {line}\n--- printed:\n{printed}"


@pytest.fixture
def shell(tmp_path):
    """Runs a script as a reader would: ``rag-mcp`` and ``python3`` are on PATH, home and folder are new."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("rag-mcp", warm_command()), ("python3", [sys.executable])):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAG_MCP_", "PYTHON", "XDG_"))}
    environment = {
        **kept,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }

    def run(script: str, folder: Path, **changes: str) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=folder,
            env=environment | changes,
            capture_output=True,
            encoding="utf-8",
            timeout=170,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{script}\n--- stdout:\n{done.stdout}\n--- stderr:\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def folder(tmp_path) -> Path:
    """What the documents speak of: the notes, the scripts, and a store of a Chroma-only server."""
    place = tmp_path / "reader"
    shutil.copytree(NOTES, place / "notes")
    shutil.copytree(ROOT / "scripts", place / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    make_chroma_only_store(place / "old.chroma")
    return place


def make_chroma_only_store(path: Path) -> None:
    """Documents and metadata in Chroma, and a manifest beside: in a process of its own, which lets go of the folder."""
    code = """
import json, sys
from pathlib import Path
import chromadb
from chromadb.config import Settings
path = Path(sys.argv[1])
client = chromadb.PersistentClient(path=str(path), settings=Settings(anonymized_telemetry=False))
collection = client.create_collection("corpus", embedding_function=None)
collection.add(
    ids=["kiln.md::0"], embeddings=[[1.0, 0.0]], documents=["The glaze firing starts at six."],
    metadatas=[{"source": "kiln.md", "heading": "Glaze firing", "chunk_index": 0}],
)
client.close()
(path / "ingest-manifest.json").write_text(json.dumps({"files": {}}), encoding="utf-8")
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, timeout=120)


def frozen(path: Path) -> dict[str, tuple[int, bytes]]:
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "CUTOVER.md", "docs/operations.md"])
def test_what_a_document_shows_is_what_happens(name, shell, folder):
    listed = examples(name, "run")
    assert listed
    before = frozen(folder / "old.chroma")
    for example in listed:
        assert_shown(example, shell(example.script, folder))
    assert frozen(folder / "old.chroma") == before


def test_every_command_of_the_readme_and_the_cutover_is_run_or_has_a_reason():
    for name in ("README.md", "CUTOVER.md"):
        for block in blocks(name):
            if block.marks[:1] == ("sh",) and block.marks[1:2] != ("run",):
                assert set(block.content.splitlines()) <= set(NOT_RUN)


def test_every_block_says_what_it_is():
    known = {("sh",), ("sh", "run"), ("sh", "run", "clone"), ("text",), ("text", "output"), ("json",), ("mermaid",)}
    for name in DOCUMENTS:
        marks = {block.marks for block in blocks(name)}
        assert marks <= known, name


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A copy of the project with its environment already made: the libraries are lent by the one that runs the tests."""
    place = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".git", ".venv", ".*cache", ".hypothesis", ".rag_mcp-quickstart", "__pycache__")
    shutil.copytree(ROOT, place, ignore=left_out)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(place / ".venv")
    python = place / ".venv" / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    lent = [str(place), *sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})]
    Path(site, "lent.pth").write_text("\n".join(lent) + "\n", encoding="utf-8")
    sys.path.insert(0, str(place / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location("bootstrap_of_the_copy", place / "scripts" / "bootstrap.py")
        bootstrap = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bootstrap)
    finally:
        sys.path.remove(str(place / "scripts"))
    stamp = {"fingerprint": bootstrap.fingerprint(place), "extras": []}
    (place / ".venv" / bootstrap.STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    return place


@posix
@pytest.mark.slow
def test_the_first_command_of_the_readme_gives_the_answer_it_shows(shell, checkout):
    (example,) = examples("README.md", "run", "clone")
    printed = shell(example.script, checkout, PYTHONPATH="")
    assert_shown(example, printed)
    assert '"mcpServers"' in printed
