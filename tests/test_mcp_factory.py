"""The manifest in mcp.yaml: it says what the tools say, mcp-factory loads it, and its hub reaches our tools through it.

mcp-factory needs Python 3.12 and an older mcp, so it gets an environment of its own, kept in pytest's cache. Without such
a Python, or without a network of packages the first time, the tests that need it are skipped and say why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
import yaml
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from rag_mcp.config import SETTINGS
from rag_mcp.server.tools import INPUT_SCHEMAS

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = yaml.safe_load((ROOT / "mcp.yaml").read_text(encoding="utf-8"))
FACTORY = "jaimenbell-mcp-factory==0.1.3"
INSTALL_WITHIN_S = 200
NUMBERS = {"integer": "number"} | {kind: kind for kind in ("number", "string", "boolean", "array", "object")}


# --- the manifest against the contract -------------------------------------------------------------------------------


def test_the_manifest_lists_every_tool_with_every_argument_as_the_server_declares_it():
    listed = {tool["name"]: {arg["name"]: arg for arg in tool["args"]} for tool in MANIFEST["tools"]}
    assert list(listed) == list(INPUT_SCHEMAS)
    for name, schema in INPUT_SCHEMAS.items():
        assert list(listed[name]) == list(schema["properties"]), name
        for argument, declared in schema["properties"].items():
            kinds = {option["type"] for option in declared.get("anyOf", [declared])} - {"null"}
            assert {NUMBERS[kind] for kind in kinds} == {listed[name][argument]["type"]}
            assert listed[name][argument]["required"] == (argument in schema.get("required", ()))


def test_the_manifest_starts_a_script_that_is_there_and_names_settings_that_exist():
    assert (ROOT / MANIFEST["runtime"]["script"]).is_file()
    assert set(MANIFEST["env_required"]) <= set(SETTINGS)
    assert MANIFEST["env"] == {}


# --- mcp-factory itself ----------------------------------------------------------------------------------------------


def pythons() -> Iterator[str]:
    """Interpreters that might be 3.12 or newer, the likeliest first."""
    yield sys.executable
    yield from (found for minor in (12, 13, 14) if (found := shutil.which(f"python3.{minor}")))
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    homes.append(Path.home() / ".local" / "share" / "uv" / "python")
    name = "python.exe" if os.name == "nt" else "bin/python3"
    for home in homes:
        yield from sorted(str(path) for path in home.glob(f"*3.1[2-9]*/{name}"))


def fits(python: str) -> bool:
    code = "import sys, venv; sys.exit(sys.version_info < (3, 12))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def install(folder: Path, python: Path) -> None:
    """Make the environment; skip, with the reason, where that is not possible."""
    base = next((candidate for candidate in pythons() if fits(candidate)), None)
    if base is None:
        pytest.skip("mcp-factory needs Python 3.12 or newer, and none was found")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "15", FACTORY]
    for command in ([base, "-m", "venv", str(folder)], pip):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"installing mcp-factory took longer than {INSTALL_WITHIN_S} s")
        if done.returncode:
            pytest.skip(f"mcp-factory could not be installed: {last_line(done.stderr)}")


@pytest.fixture(scope="session")
def factory(request, tmp_path_factory) -> Path:
    """The Python of an environment that has mcp-factory."""
    cache = getattr(request.config, "cache", None)
    folder = (cache.mkdir("mcp-factory") if cache else tmp_path_factory.mktemp("mcp-factory")) / "env"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed.txt"
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == FACTORY and fits(str(python))):
        install(folder, python)
        stamp.write_text(FACTORY, encoding="utf-8")
    return python


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_its_own_loader_accepts_the_manifest_as_it_stands(factory):
    code = (
        "import json, sys; from mcp_factory.manifest import load_manifest; from mcp_factory.config import build_claude_entry\n"
        "m = load_manifest(sys.argv[1])\n"
        "print(json.dumps([m.name, m.tool_names, m.runtime.has_existing_script, m.env_required, build_claude_entry(m)]))"
    )
    done = subprocess.run(
        [str(factory), "-c", code, str(ROOT / "mcp.yaml")],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    name, tools, found, required, entry = json.loads(done.stdout)
    assert (name, tools, found) == ("rag-mcp", list(INPUT_SCHEMAS), True)
    assert required == ["RAG_MCP_CORPUS_ROOT", "RAG_MCP_DB_PATH"]
    assert entry == {"command": "python", "args": [str(ROOT / "run_server.py")], "env": {}}


@pytest.fixture
def hub(factory, tmp_path) -> StdioServerParameters:
    """The hub over our manifest, as it is, with a small store behind it."""
    clone, notes, store = tmp_path / "clones" / "rag-mcp", tmp_path / "notes", tmp_path / "store"
    clone.mkdir(parents=True)
    notes.mkdir()
    for name in ("mcp.yaml", MANIFEST["runtime"]["script"]):
        shutil.copy(ROOT / name, clone / name)
    text = "# Kiln schedule\n\nThe glaze firing starts at six in the morning and holds 1240 degrees for an hour.\n"
    (notes / "kiln.md").write_text(text, encoding="utf-8")
    ingest = "from rag_mcp.cli import main; main()"
    command = [sys.executable, "-c", ingest, "ingest", str(notes), "--db", str(store), "--quiet"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    return StdioServerParameters(
        command=str(factory),
        args=["-m", "mcp_factory", "--serve", "--scan-root", str(clone.parent)],
        env={
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "RAG_MCP_CORPUS_ROOT": str(notes),
            "RAG_MCP_DB_PATH": str(store),
        },
    )


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_the_hub_lists_our_tools_and_answers_a_search_through_them(hub, tmp_path):
    async def talk():
        with anyio.fail_after(90), open(tmp_path / "hub.log", "w", encoding="utf-8") as log:
            async with Client(stdio_client(hub, errlog=log)) as client:
                listed = await client.list_tools()
                found = await client.call_tool("rag-mcp.search_knowledge", {"query": "glaze firing", "k": 2})
                wrong = await client.call_tool("rag-mcp.search_knowledge", {"query": "glaze", "mode": "psychic"})
                bots = await client.call_tool("_hub.list_bots", {})
                return listed, *(result.content[0].text for result in (found, wrong, bots))

    listed, found, wrong, bots = anyio.run(talk)
    assert {tool.name for tool in listed.tools} == {"_hub.list_bots", *(f"rag-mcp.{name}" for name in INPUT_SCHEMAS)}
    assert "status: OK" in found.splitlines()  # the hub hands on the text alone
    assert re.search(r"^1\. \[\w+ 0\.\d+, docs\] kiln\.md:\d+-\d+ #\d+", found, re.MULTILINE)
    assert wrong.startswith("Error invalid_argument: ") and "hybrid" in wrong
    assert json.loads(bots)["rag-mcp"]["status"] == "running"
