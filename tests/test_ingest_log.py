"""``rag-mcp ingest --log``: what a schedule leaves behind for whoever looks after it."""

from __future__ import annotations

import os
import re
import stat
import time

import pytest
from cli_process import forked_cli
from filelock import FileLock

from rag_mcp.cli.runlog import RunLog, ending_after, logged, run_line
from rag_mcp.errors import ConfigError
from rag_mcp.models import IngestSummary

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "kiln.md").write_text("# Kiln\n\nThe glaze firing holds 1240 degrees for an hour.\n", encoding="utf-8")
    return folder


def ingest(notes, *more):
    log = notes.with_name("logs") / "run.log"
    return forked_cli("ingest", notes, "--db", notes.with_name("db"), "--log", log, *more), log


def lines_of(log):
    return log.read_text(encoding="utf-8").splitlines()


def test_each_run_is_one_line_and_prints_nothing(notes):
    for expected in ("ingested=1", "ingested=0"):
        done, log = ingest(notes)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert re.fullmatch(rf"{STAMP} exit=0 seconds=\d+\.\d\d seen=1 {expected} .* generation=1", lines_of(log)[-1])
    assert len(lines_of(log)) == 2
    if os.name != "nt":  # names of files stand in it
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_failure_is_logged_said_and_kept_as_the_exit_code(notes):
    (notes / "kiln.md").unlink()
    done, log = ingest(notes)
    assert done.returncode == 1 and done.stdout == "" and "no markdown file" in done.stderr
    assert re.fullmatch(rf"{STAMP} exit=1 seconds=\d+\.\d\d error=rag-mcp: .*no markdown file.*", *lines_of(log))


def test_what_was_left_out_ends_a_strict_run_with_its_code_and_counts(notes):
    (notes / "broken.md").write_bytes(b"\xff\xfe\xfd" * 9)
    done, log = ingest(notes, "--strict")
    assert done.returncode == 4 and " exit=4 " in lines_of(log)[0] and " skipped=1 " in lines_of(log)[0]


def test_another_run_at_work_is_no_failure_of_a_schedule(notes):
    ingest(notes)
    with FileLock(notes.with_name("db") / "writer.lock"):
        done, log = ingest(notes)
        without = forked_cli("ingest", notes, "--db", notes.with_name("db"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert re.search(r" exit=3 seconds=\d+\.\d\d note=another run is at work$", lines_of(log)[-1])
    assert without.returncode == 3


def test_json_is_still_printed_when_it_is_asked_for(notes):
    done, log = ingest(notes, "--json")
    assert done.stdout.startswith('{"ok": true') and len(lines_of(log)) == 1


@pytest.mark.parametrize("place", ["notes/run.md", "notes/sub/run.log", "db/run.log"])
def test_a_log_in_the_corpus_or_the_store_is_refused_before_anything_is_made(notes, place):
    done = forked_cli("ingest", notes, "--db", notes.with_name("db"), "--log", notes.parent / place)
    assert done.returncode == 1 and "lies inside the" in done.stderr and "beside it" in done.stderr
    assert sorted(os.listdir(notes.parent)) == ["notes"] and os.listdir(notes) == ["kiln.md"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_log_that_is_no_file_is_refused_and_a_link_not_followed(notes):
    elsewhere = notes.with_name("elsewhere")
    elsewhere.write_text("mine", encoding="utf-8")
    link = notes.with_name("link.log")
    link.symlink_to(elsewhere)
    for place in (link, notes.parent):
        done = forked_cli("ingest", notes, "--db", notes.with_name("db"), "--log", place)
        assert done.returncode == 1 and "can't be written" in done.stderr and "name another file" in done.stderr
    assert elsewhere.read_text(encoding="utf-8") == "mine" and not notes.with_name("db").exists()


def test_the_log_does_not_grow_for_ever(tmp_path):
    log = RunLog(tmp_path / "run.log", max_bytes=300, keep=2)
    for number in range(40):
        log.note(0, 0.0, note=f"run {number}")
    kept = [tmp_path / name for name in ("run.log.2", "run.log.1", "run.log")]
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in kept)
    assert all(path.stat().st_size <= 300 for path in kept)
    numbers = [int(line.rsplit(" ", 1)[1]) for path in kept for line in lines_of(path)]
    assert numbers == list(range(numbers[0], 40))


def test_a_line_is_one_line_whatever_an_error_says():
    line = run_line(1, 0.5, error="no such\nfolder\r\x1b[31m \u202e" + "x" * 5_000)
    assert line.startswith("exit=1 seconds=0.50 error=") and len(line) < 600
    assert line.isprintable()


def test_counts_that_are_not_known_are_left_out():
    summary = IngestSummary(**{**dict.fromkeys(IngestSummary.__dataclass_fields__, 0), "generation": None})
    assert "generation" not in run_line(0, 1.0, summary=summary) and " store=0" in run_line(0, 1.0, summary=summary)


def test_a_log_that_can_not_be_written_hides_no_error(tmp_path, capsys):
    log = RunLog(tmp_path)
    with pytest.raises(ZeroDivisionError):
        logged(log, lambda: 1 // 0)
    assert "can't be written" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="can't be written"):
        logged(log, lambda: (0, None))


def test_a_run_that_takes_too_long_is_ended_and_said_so(notes):
    done, log = ingest(notes, "--timeout", "0.001")
    assert done.returncode == 1 and "stopped after 0.001 s" in done.stderr
    assert " exit=1 " in lines_of(log)[0] and "stopped after 0.001 s (--timeout)" in lines_of(log)[0]


def test_a_run_that_is_done_in_time_is_not_ended(tmp_path):
    with ending_after(0.05, None):
        pass
    time.sleep(0.1)  # it would have ended this process


def test_of_several_corpora_each_has_its_line_and_no_heading_is_printed(notes):
    other = notes.with_name("empty")
    other.mkdir()
    log = notes.with_name("run.log")
    done = forked_cli("ingest", f"a={notes};b={other}", "--log", log)
    assert (done.returncode, done.stdout) == (1, "") and "rag-mcp: b: " in done.stderr
    assert [re.sub(r"^\S+ | seconds=.*", "", line) for line in lines_of(log)] == ["corpus=a exit=0", "corpus=b exit=1"]
    inside = forked_cli("ingest", f"a={notes};b={other}", "--log", other / "run.log")
    assert "lies inside the corpus" in inside.stderr and not os.listdir(other) and len(lines_of(log)) == 2


def test_a_setting_of_the_command_line_stands_before_the_environment(notes):
    done, _ = ingest(notes, "--setting", "RAG_MCP_EMBEDDER=no-such")
    assert done.returncode == 1 and "no-such" in done.stderr
    done, _ = ingest(notes, "--setting", "RAG_MCP_NONSENSE=1")
    assert done.returncode == 2 and "RAG_MCP_NONSENSE" in done.stderr and "RAG_MCP_COLLECTION" in done.stderr
