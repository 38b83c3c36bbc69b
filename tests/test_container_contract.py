"""The container's promises, kept without a container engine: what the Dockerfile says, and the same command run as a user
with no rights, on a read-only index, with sockets forbidden.

As root on Linux the process gets its own mounts (root file system and index read-only, an empty scratch folder) and no
network interface; elsewhere the index is made read-only by permission bits, and the rest is the same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from rag_mcp.config import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
UID = 10001


# --- the Dockerfile --------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) in order, continued lines joined, comments left out."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word.upper(), rest.strip()) for line in lines if line.strip() for word, _, rest in [line.partition(" ")]]


def final_stage() -> dict[str, str]:
    """The last value of each instruction after the last FROM."""
    listed = instructions()
    last = max(index for index, (word, _) in enumerate(listed) if word == "FROM")
    return dict(listed[last:])


def test_the_image_runs_the_command_as_an_unprivileged_user():
    stage = final_stage()
    assert stage["USER"] == f"{UID}:{UID}"
    assert json.loads(stage["ENTRYPOINT"]) == ["rag-mcp"]
    assert "rag-mcp" in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    after_user = instructions()[[word for word, _ in instructions()].index("USER") :]
    assert not [word for word, _ in after_user if word in {"RUN", "COPY"}]


def test_the_image_is_built_from_a_small_base_and_from_pinned_packages_only():
    bases = [rest for word, rest in instructions() if word == "FROM"]
    assert bases == ["python:3.12-slim AS build", "python:3.12-slim"]
    assert not [rest for word, rest in instructions() if word == "ADD"]
    runs = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert not re.search(r"https?:|curl|wget|git clone|apt", runs)
    assert '--constraint requirements.txt ".$EXTRAS"' in runs


def test_the_image_sets_only_settings_that_exist_and_paths_it_makes():
    setting = dict(pair.split("=", 1) for pair in shlex.split(final_stage()["ENV"]))
    ours = {name: value for name, value in setting.items() if name.startswith("RAG_MCP_")}
    assert set(ours) <= set(SETTINGS)
    assert ours == {"RAG_MCP_CORPUS_ROOT": "/corpus", "RAG_MCP_DB_PATH": "/index"}
    assert f"mkdir /corpus /index && chown {UID}:{UID} /index" in final_stage()["RUN"]


def test_what_is_copied_into_the_image_is_there_and_nothing_else_reaches_the_builder():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert {line[1:] for line in ignored if line.startswith("!")} == {source.removeprefix("./") for source in copied}
    assert all((ROOT / source).exists() for source in copied)


# --- the same command, confined --------------------------------------------------------------------------------------

NO_SOCKETS = """
import socket
import sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"} or (
        event == "socket.__new__" and arguments[1] in (socket.AF_INET, socket.AF_INET6)
    ):
        sys.stderr.write(f"FORBIDDEN {event}\\n")
        raise PermissionError(f"{event} is forbidden here")

sys.addaudithook(refuse)
"""

CONFINE = """
set -e
mount -t tmpfs -o size=256m,mode=1777 scratch "$SCRATCH"
mount --bind "$INDEX" "$INDEX"
mount -o remount,bind,ro "$INDEX"
mount -o remount,bind,ro /
exec "$@"
"""


@pytest.fixture(scope="module")
def world() -> Iterator[dict[str, Path]]:
    """A corpus, its index, a scratch folder, and the module that forbids sockets, where another user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="rag_mcp-container-"))  # pytest's own folders are closed to others
    folder.chmod(0o755)
    yield furnished(folder)
    shutil.rmtree(folder, ignore_errors=True)


def furnished(folder: Path) -> dict[str, Path]:
    places = {name: folder / name for name in ("corpus", "index", "scratch", "site")}
    for place in places.values():
        place.mkdir()
    places["scratch"].chmod(0o777)
    text = "# Kiln schedule\n\nThe glaze firing starts at six in the morning and holds 1240 degrees for an hour.\n"
    (places["corpus"] / "kiln.md").write_text(text, encoding="utf-8")
    (places["site"] / "sitecustomize.py").write_text(textwrap.dedent(NO_SOCKETS), encoding="utf-8")
    command = [sys.executable, "-c", "from rag_mcp.cli import main; main()", "ingest", str(places["corpus"])]
    subprocess.run(
        [*command, "--db", str(places["index"]), "--quiet"], env=environment(places), check=True, timeout=120, cwd=ROOT
    )
    return places


def environment(world: dict[str, Path]) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(world["site"]), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(world["scratch"]),
        "TMPDIR": str(world["scratch"]),
        "RAG_MCP_CORPUS_ROOT": str(world["corpus"]),
        "RAG_MCP_DB_PATH": str(world["index"]),
        "INDEX": str(world["index"]),
        "SCRATCH": str(world["scratch"]),
    }


def can_confine() -> bool:
    if sys.platform != "linux" or os.getuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False).returncode == 0


def confined(command: list[str]) -> list[str]:
    """``command`` with its own read-only mounts, no network, and a user that owns nothing."""
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"]
    if any(not folder.stat().st_mode & 0o001 for folder in Path(os.path.realpath(sys.executable)).parents):
        # The interpreter lies in a home folder others can't enter: let it be read, and nothing be written.
        user += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    return ["unshare", "-mn", "sh", "-c", CONFINE, "confine", *user, *command]


@pytest.fixture
def confine(world):
    """The function that confines a command; where mounts can't be had, the index is read-only by its permission bits."""
    if can_confine():
        yield confined
        return
    if os.name == "nt" or os.getuid() == 0:
        pytest.skip("as root without private mounts, or on Windows, nothing can be made read-only for a test")
    entries = [world["index"], *world["index"].rglob("*")]
    modes = {entry: entry.stat().st_mode for entry in entries}
    for entry in entries:
        entry.chmod(modes[entry] & ~0o222)
    yield lambda command: command
    for entry in entries:
        entry.chmod(modes[entry])


def probe(world, confine, code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        confine([sys.executable, "-c", code]),
        env=environment(world),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        cwd=ROOT,
    )


def test_the_confinement_of_these_tests_is_real(world, confine):
    index, scratch = world["index"], world["scratch"]
    assert probe(world, confine, f"open({str(scratch / 'x')!r}, 'w')").returncode == 0
    assert "Error" in probe(world, confine, f"open({str(index / 'x')!r}, 'w')").stderr
    assert "Error" in probe(world, confine, f"open({str(next(index.glob('CURRENT')))!r}, 'a')").stderr
    assert "FORBIDDEN" in probe(world, confine, "import socket; socket.socket()").stderr
    if can_confine():
        assert probe(world, confine, "import os; print(os.getuid())").stdout.strip() == str(UID)
        assert "Read-only" in probe(world, confine, "open('/var/tmp/x', 'w')").stderr


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_question_is_answered_from_a_read_only_index_without_a_network(world, confine):
    before = contents(world["index"])
    code = "import sys; sys.argv = ['rag-mcp', 'query', 'glaze firing', '--json']; from rag_mcp.cli import main; main()"
    done = probe(world, confine, code)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["results"][0]["citation"]["source"] == "kiln.md" and "degraded" not in answer
    assert "FORBIDDEN" not in done.stderr
    assert contents(world["index"]) == before


def test_the_server_answers_from_a_read_only_index_without_a_network(world, confine, tmp_path):
    command, *args = confine([sys.executable, "-m", "rag_mcp"])
    before = contents(world["index"])

    async def talk(log):
        with anyio.fail_after(90):
            server = StdioServerParameters(command=command, args=args, env=environment(world), cwd=ROOT)
            async with Client(stdio_client(server, errlog=log)) as client:
                found = await client.call_tool("search_knowledge", {"query": "When does the glaze firing start?"})
                return found.structured_content, (await client.call_tool("rag_status", {})).structured_content

    with open(tmp_path / "log", "w+", encoding="utf-8") as log:
        found, status = anyio.run(talk, log)
        log.seek(0)
        assert "FORBIDDEN" not in log.read()
    assert found["results"][0]["citation"]["source"] == "kiln.md" and "degraded" not in found
    assert status["ok"] is True
    assert contents(world["index"]) == before


def test_an_ingest_into_a_read_only_index_fails_with_a_message_and_changes_nothing(world, confine):
    before = contents(world["index"])
    code = (
        f"import sys; sys.argv = ['rag-mcp', 'ingest', {str(world['corpus'])!r}, '--full']; "
        "from rag_mcp.cli import main; main()"
    )
    done = probe(world, confine, code)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("rag-mcp: ") and "Traceback" not in done.stderr
    assert contents(world["index"]) == before
