"""A killed ingest loses nothing: SIGKILL at every step, on a first run and on a later one."""

import json
import sys

import pytest
from fault_process import SLICE, FaultProcess
from support import Library

from rag_mcp.errors import StoreAbsent
from rag_mcp.ingest.options import Step
from rag_mcp.stores.embedded.recent import RECENT_ROWS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

BEFORE = {
    **{f"notes/n{number}.md": f"# Note {number}\n\nBody {number} about herons.\n" for number in range(8)},
    "log-2026-01-01.md": "# Log\n\nThe pump runs.\n",
    "log-2026-01-02.md": "# Log\n\nThe pump runs.\n",
    "log-2026-01-03.md": "# Log\n\nThe pump stands still.\n",
    "solo.md": "# Solo\n\nAn oldmark stands here.\n",
    "memory/secretary.md": "# Diary\n\nNothing happened.\n",
}
AFTER = {
    **{f"notes/n{number}.md": f"# Note {number}\n\nBody {number} about otters.\n" for number in range(5)},
    "solo.md": "# Solo\n\nA newmark stands here.\n",
    "code/added.md": "# Added\n\nA third class appears.\n",
    "log-2026-01-04.md": "# Log\n\nThe pump stands still.\n",
}
GONE = ("notes/n7.md", "memory/secretary.md")

# Moments between two steps at which something is half done, and how often a run passes there before it dies.
INSIDE = {
    "while the second slice is embedded": (Step.EMBEDDING.value, 2),
    "before a batch of vectors is kept": ("rag_mcp.stores.embedded.cache:EmbeddingCache.put", 1),
    "while vectors are added": ("rag_mcp.stores.embedded.vectors:ChromaWriter.upsert", 1),
    "while terms are added": ("rag_mcp.stores.embedded.keywords:TantivyWriter.commit", 1),
    "before everything is synced": ("rag_mcp.stores.embedded.generations:fsync_tree", 1),
    "before the pointer is swapped": ("rag_mcp.stores.embedded.generations:GenerationStore.point_to", 1),
    "before the run is noted": ("rag_mcp.ingest.collect:write_stat_cache", 1),
    "before old vectors are dropped": ("rag_mcp.stores.embedded.cache:EmbeddingCache.trim", 1),
}
LATER = {"while recent vectors are written": ("rag_mcp.stores.embedded.write:write_recent", 1)}
MOMENTS = {**{f"at {step.value}": (step.value, 1) for step in Step}, **INSIDE}
# A slice that was computed but not kept is the most that can be paid for twice.
LOSES_A_SLICE = "before a batch of vectors is kept"
PUBLISHED = {
    "at published",
    "at collected",
    "before the run is noted",
    "before old vectors are dropped",
}


@pytest.fixture(scope="module")
def faults():
    process = FaultProcess()
    yield process
    process.close()


def change(library: Library) -> None:
    library.write(AFTER)
    library.remove(*GONE)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """What a first ingest gives before and after the change."""
    folder = tmp_path_factory.mktemp("fresh")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(BEFORE)
        before = library.fresh(folder / "before")
        change(library)
        return before, library.fresh(folder / "after")


def embedded(log) -> list[str]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def assert_tidy(library: Library) -> None:
    names = sorted(entry.name for entry in (library.store_path / "generations").iterdir())
    assert all(name.isdecimal() for name in names), names
    assert len(names) <= 2
    left = {entry.name for entry in library.store_path.iterdir()}
    assert not [name for name in left if name.endswith((".tmp", "-journal", "-wal"))], left


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_first_ingest_killed_anywhere_is_finished_by_the_next(library, faults, fresh, tmp_path, moment):
    kill, at = MOMENTS[moment]
    library.write(BEFORE)
    log = tmp_path / "texts"
    running = library.base()
    with pytest.raises(StoreAbsent):
        library.search("oldmark", base=running)
    assert faults.ingest(library.corpus, library.store_path, log, kill=kill, at=at) == -9
    for base in (running, library.base()):
        # Without a pointer, as before the first one was written, the newest whole generation counts as live.
        if moment in PUBLISHED or moment == "before the pointer is swapped":
            assert library.search("oldmark", base=base).results[0].citation.source == "solo.md"
        else:
            with pytest.raises(StoreAbsent, match="rag-mcp ingest"):
                library.search("oldmark", base=base)
    finish(library, faults, log, fresh[0], repeated=SLICE if moment == LOSES_A_SLICE else 0)
    assert library.search("oldmark", base=running).results[0].citation.source == "solo.md"


@pytest.mark.parametrize("moment", {**MOMENTS, **LATER})
def test_a_later_ingest_killed_anywhere_leaves_the_old_answers_until_the_next(library, faults, fresh, tmp_path, moment):
    kill, at = {**MOMENTS, **LATER}[moment]
    recent = 0 if moment == "while vectors are added" else RECENT_ROWS
    library.write(BEFORE)
    log = tmp_path / "texts"
    assert faults.ingest(library.corpus, library.store_path, log) == 0
    running = library.base()
    assert library.search("oldmark", base=running, mode="vector").results
    change(library)
    assert faults.ingest(library.corpus, library.store_path, log, kill=kill, at=at, recent=recent) == -9
    was, now = ("newmark", "oldmark") if moment in PUBLISHED else ("oldmark", "newmark")
    for base in (running, library.base()):
        for mode in ("hybrid", "fts", "vector"):
            found = library.search(f"a {was} stands here", base=base, mode=mode)
            text = "\n".join(result.text for result in found.results)
            assert was in text and now not in text, (mode, found)
            assert not found.degraded, found.degraded_reason
    finish(library, faults, log, fresh[1], repeated=SLICE if moment == LOSES_A_SLICE else 0)
    assert "newmark" in library.search("newmark", base=running).results[0].text


def finish(library: Library, faults: FaultProcess, log, wanted, *, repeated: int) -> None:
    """The next run needs no help, gives what a fresh build gives, and no text was embedded twice but ``repeated``."""
    assert faults.ingest(library.corpus, library.store_path, log) == 0
    assert library.dump() == wanted
    texts = embedded(log)
    assert len(texts) > SLICE
    assert len(texts) - len(set(texts)) == repeated
    again = library.ingest()
    assert (again.published, again.chunks_embedded) == (False, 0)
    assert_tidy(library)


def test_runs_killed_one_after_another_at_every_step_end_where_one_run_would(library, faults, fresh, tmp_path):
    log = tmp_path / "texts"
    library.write(BEFORE)
    for kill, at in MOMENTS.values():
        faults.ingest(library.corpus, library.store_path, log, kill=kill, at=at)
    finish(library, faults, log, fresh[0], repeated=0)


@pytest.mark.parametrize("option", ["full", "clean"])
def test_a_killed_rebuild_embeds_nothing_and_loses_nothing(library, faults, fresh, tmp_path, option):
    log = tmp_path / "texts"
    library.write(BEFORE)
    assert faults.ingest(library.corpus, library.store_path, log) == 0
    paid = len(embedded(log))
    base = library.base()
    for moment in ("at vectors_written", "at sealed", "at published"):
        kill, at = MOMENTS[moment]
        assert faults.ingest(library.corpus, library.store_path, log, kill=kill, at=at, **{option: True}) == -9
        assert library.sources("oldmark", base=base)[0] == "solo.md"
    assert faults.ingest(library.corpus, library.store_path, log, **{option: True}) == 0
    assert library.dump() == fresh[0]
    assert len(embedded(log)) == paid
    assert_tidy(library)
