"""A watcher never goes deaf: a change is used up only by a run that succeeded, whatever stands at the path meanwhile."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import watchfiles
from support import Library

from rag_mcp.errors import CorpusError
from rag_mcp.ingest.watch import LONGEST_PAUSE_S, Schedule, watch_corpus

WITHIN_S = 30


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        found.write({"one.md": "# One\n\nThe lamp is lit.\n"})
        yield found


def eventually(true, what):
    ends = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < ends, f"not within {WITHIN_S} s: {what}"
        time.sleep(0.02)


@contextmanager
def watching(library, run=None, **options):
    """A watcher in a thread of its own; gives what it said."""
    said, stop, failed = [], threading.Event(), []

    def work():
        try:
            watch_corpus(
                library.config(), run or library.ingest, debounce_s=0.05, say=said.append, stop=stop, **options
            )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield said
    finally:
        stop.set()
        thread.join(WITHIN_S)
        assert not thread.is_alive()
        assert not failed


def indexed(library):
    return set(library.manifest().files) if library.generations.current() is not None else set()


def test_a_change_is_found(library):
    with watching(library) as said:
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        library.write({"two.md": "# Two\n\nThe foghorn needs reeds.\n"})
        eventually(lambda: indexed(library) == {"one.md", "two.md"}, "the second note")
    assert said == []


def test_a_change_that_met_the_lock_is_taken_in_later_and_the_refusal_is_said_once(library):
    attempts, done = [], []

    def run():
        attempts.append(1)
        summary = library.ingest()
        done.append(1)
        return summary

    with watching(library, run) as said:
        eventually(lambda: done, "the first run")
        with library.generations.writer_lock():
            library.write({"two.md": "# Two\n\nThe foghorn needs reeds.\n"})
            eventually(lambda: len(attempts) >= 4, "more than one attempt while the lock is held")
        eventually(lambda: "two.md" in indexed(library), "the second note")
    assert len(said) == 1
    assert said[0].endswith("Trying again until a run succeeds.")


@pytest.mark.parametrize("gap", [True, False], ids=["with a gap", "swapped"])
def test_another_folder_at_the_path_is_watched(library, tmp_path, gap):
    with watching(library) as said:
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        library.corpus.rename(tmp_path / "away")
        if gap:
            eventually(lambda: any("is gone" in text for text in said), "the folder is missed")
            assert indexed(library) == {"one.md"}
        library.write({"one.md": "# One\n\nThe lamp is lit.\n", "two.md": "# Two\n\nThe foghorn needs reeds.\n"})
        eventually(lambda: "two.md" in indexed(library), "the note in the new folder")
        library.write({"three.md": "# Three\n\nThe bell is cracked.\n"})
        eventually(lambda: "three.md" in indexed(library), "a later note in the new folder")
    assert len(said) == len(set(said))


def test_a_link_that_is_set_to_another_place_is_followed(library, tmp_path):
    link = tmp_path / "link"
    try:
        link.symlink_to(library.corpus, target_is_directory=True)
    except OSError as error:
        pytest.skip(f"this system makes no links here: {error}")
    other = tmp_path / "other"
    other.mkdir()
    (other / "two.md").write_text("# Two\n\nThe foghorn needs reeds.\n", encoding="utf-8")
    linked = Library(tmp_path / "link", library.store_path)
    with watching(linked):
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        spare = tmp_path / "spare"
        spare.symlink_to(other, target_is_directory=True)
        spare.replace(link)
        eventually(lambda: indexed(library) == {"two.md"}, "the folder the link leads to now")


def test_an_emptied_folder_is_refused_once_and_looked_at_until_it_is_filled_again(library, tmp_path):
    with watching(library) as said:
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        (library.corpus / "one.md").rename(tmp_path / "one.md")
        eventually(lambda: said, "the refusal")
        (tmp_path / "one.md").rename(library.corpus / "one.md")
        library.write({"two.md": "# Two\n\nThe foghorn needs reeds.\n"})
        eventually(lambda: "two.md" in indexed(library), "the folder filled again")
    assert [text for text in said if "--allow-shrink" not in text] == []
    assert len(said) == 1


@pytest.mark.parametrize("events", ["silent", "refused"])
def test_a_folder_that_sends_no_events_is_looked_at_now_and_then(library, monkeypatch, events):
    def no_events(*_, stop_event, **__):
        if events == "refused":
            raise OSError(28, "no watch left")
        while not stop_event.wait(0.02):
            yield set()

    monkeypatch.setattr(watchfiles, "watch", no_events)
    with watching(library, look_every_s=0.3) as said:
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        library.write({"two.md": "# Two\n\nThe foghorn needs reeds.\n"})
        eventually(lambda: "two.md" in indexed(library), "the note nobody told of")
    assert len(said) == (events == "refused")


def test_a_run_that_fails_in_an_unforeseen_way_ends_no_watcher(library):
    calls = []

    def run():
        calls.append(1)
        if len(calls) < 3:
            raise ZeroDivisionError("by chance")
        return library.ingest()

    with watching(library, run) as said:
        eventually(lambda: indexed(library) == {"one.md"}, "the run that worked")
    assert said == ["ZeroDivisionError: by chance. Trying again until a run succeeds."]


def test_a_run_that_could_not_read_a_file_is_repeated(library, monkeypatch):
    from rag_mcp.ingest import content
    from rag_mcp.ingest.walk import FileUnreadable

    real, refused = content.read_file, []

    def read_file(root, file, **options):
        if file.path == "two.md" and len(refused) < 2:
            refused.append(1)
            raise FileUnreadable("two.md: can't be read (busy).")
        return real(root, file, **options)

    monkeypatch.setattr(content, "read_file", read_file)
    library.write({"two.md": "# Two\n\nThe foghorn needs reeds.\n"})
    with watching(library) as said:
        eventually(lambda: "two.md" in indexed(library), "the file that was busy")
    assert said == ["1 files or folders can't be read now. Trying again until they can."]


def test_a_watcher_needs_a_folder_to_begin_with(library, tmp_path):
    with pytest.raises(CorpusError, match="exists"):
        watch_corpus(library.config(corpus_root=tmp_path / "gone"), library.ingest, debounce_s=1, say=print)


def test_pauses_after_failures_grow_are_bounded_and_no_change_cuts_them_short():
    schedule, now, pauses = Schedule(2.0), 100.0, []
    schedule.look(now, afresh=True)
    for _ in range(12):
        schedule.failed(now)
        schedule.changed(now)
        schedule.look(now, afresh=False)
        pauses.append(schedule.due_at - now)
        now = schedule.due_at
    assert pauses == [1, 2, 4, 8, 16, 32, *[LONGEST_PAUSE_S] * 6]
    schedule.look(now - 50, afresh=True)
    assert schedule.due_at == now - 50


def test_a_run_waits_for_quiet_but_not_for_ever():
    schedule = Schedule(2.0)
    schedule.succeeded()
    due = []
    for now in (10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0):
        schedule.changed(now)
        due.append(schedule.due_at)
    assert due == [12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 18.0]
    schedule.succeeded()
    assert schedule.due_at == float("inf")


@pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C")
def test_the_command_says_what_it_does_and_on_ctrl_c_what_was_kept(library):
    command = "from rag_mcp.cli import main; main()"
    arguments = ["watch", library.corpus, "--db", library.store_path, "--embedder", "hash", "--debounce", "0.1"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        # A suite started in the background of a shell ignores the signal, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        eventually(lambda: indexed(library) == {"one.md"}, "the first run")
        first = process.stdout.readline()
        second = process.stdout.readline()  # printed after the run, so nothing is under way when the signal comes
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert first.startswith(f"watching {library.corpus}: a run after every change, and every 5 minutes")
    assert second.startswith("done: 1 files seen, 1 ingested")
    assert "stopped; generation 1 is live, and vectors computed so far are kept" in errors
    assert process.returncode == 130
