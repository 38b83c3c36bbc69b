"""``rag-mcp setup`` and ``--remove``: what it leaves in a home, and that nothing of it is left afterwards."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_process import forked_cli, warm_command
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import cli_environment

from rag_mcp.errors import InvalidArgument
from rag_mcp.intervals import Interval
from rag_mcp.setup.schedule import Job, Scheduler, commands, cron_lines, files
from rag_mcp.setup.service import Service, service_file
from rag_mcp.setup.shared import CRONTAB, OWN, Shared, changed, digest
from rag_mcp.setup.system import find_scheduler

posix = pytest.mark.skipif(os.name == "nt", reason="of cron and systemd")

CRONTAB_COMMAND = """#!/bin/sh
spool="$HOME/spool"
case "$1" in
-l) if [ -n "$BROKEN" ]; then echo "pam says no" >&2; exit 1; fi
    if [ -f "$spool" ]; then cat "$spool"; else echo "no crontab for $USER" >&2; exit 1; fi ;;
-r) rm "$spool" ;;
-) cat > "$spool.new" && mv "$spool.new" "$spool" ;;
*) exit 2 ;;
esac
"""
SYSTEMCTL_COMMAND = """#!/bin/sh
[ -n "$BROKEN" ] && { echo "Failed to connect to bus" >&2; exit 1; }
echo "$@" >> "$SAID"
case "$2 $3" in
enable*.timer) mkdir -p "$HOME/.config/systemd/user/timers.target.wants" ;;
enable*.service) mkdir -p "$HOME/.config/systemd/user/default.target.wants" ;;
esac
exit 0
"""
LAUNCHCTL_COMMAND = """#!/bin/sh
echo "$@" >> "$SAID"
"""
TOLD = {"crontab": CRONTAB_COMMAND, "systemctl": SYSTEMCTL_COMMAND, "launchctl": LAUNCHCTL_COMMAND}
ODD = "my 100% 'own' \"notes\" $HOME é"


class Home:
    """A throw-away home with the scheduler's commands; what they were told is in ``said``."""

    def __init__(self, base: Path, monkeypatch, name: str = "notes") -> None:
        self.path = base / "home"
        self.said = base / "said"
        self.notes = self.path / name
        self.notes.mkdir(parents=True)
        (self.notes / "kiln.md").write_text("# Kiln\n\nA bisque firing holds 1000 degrees.\n", encoding="utf-8")
        commands = base / "bin"
        commands.mkdir()
        for command, text in TOLD.items():
            (commands / command).write_text(text, encoding="utf-8")
            (commands / command).chmod(0o700)
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(self.path))
        monkeypatch.setenv("USERPROFILE", str(self.path))
        monkeypatch.setenv("USER", "somebody")
        monkeypatch.setenv("SAID", str(self.said))

    def setup(self, *words, notes=None, yes=True):
        return forked_cli("setup", notes or self.notes, *words, *(["--yes"] if yes else []))

    def write(self, name: str, content: bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def everything(self) -> dict[str, object]:
        """Every folder and the bytes and mode of every file."""
        return {
            str(path.relative_to(self.path)): (path.read_bytes(), path.stat().st_mode) if path.is_file() else "folder"
            for path in sorted(self.path.rglob("*"))
        }


@pytest.fixture
def home(tmp_path, monkeypatch):
    return Home(tmp_path, monkeypatch)


DESKTOP = ".config/Claude/claude_desktop_config.json"
ODD_DESKTOP = b'{"theme" : "dark",\r\n\t"mcpServers":{"mine":{"command":"x","args":[ ]}} }'
CODEX = b'# of my own\nmodel = "o"   # why\n[mcp_servers.mine]\ncommand = "x"'


# --- there and back --------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("kind", "serve"),
    [("cron", []), ("systemd", []), ("server", []), ("none", []), ("systemd", ["--serve"]), ("launchd", ["--serve"])],
)
@pytest.mark.parametrize("before", ["empty", "full"])
def test_after_remove_every_file_and_folder_is_what_it_was(tmp_path, monkeypatch, kind, serve, before):
    home = Home(tmp_path, monkeypatch, ODD)
    if before == "full":
        home.write(DESKTOP, ODD_DESKTOP).chmod(0o640)
        home.write(".codex/config.toml", CODEX)
        home.write("spool", b"# mine\n0 4 * * * backup %x\n")
    was = home.everything()
    hosts = [word for host in ("claude-desktop", "codex", "zed") for word in ("--host", host)]
    done = home.setup(*hosts, "--schedule", kind, *serve)
    assert done.returncode == 0, done.stderr
    made = home.everything()
    assert {DESKTOP, ".codex/config.toml", ".config/zed/settings.json"} <= made.keys()
    assert stat.S_IMODE((home.path / ".local/state/rag-mcp/setup.json").stat().st_mode) == 0o600
    undo = shlex.split(re.search(r"Undo it with: rag-mcp (.*)", done.stdout)[1])
    undone = forked_cli(*undo, "--yes")
    assert (undone.returncode, undone.stderr) == (0, "") and "Undone." in undone.stdout
    assert home.everything() == was


@posix
def test_set_up_is_said_before_and_asked_and_no_means_no(home, tmp_path):
    home.write(DESKTOP, ODD_DESKTOP)
    was = home.everything()
    done = forked_cli("setup", home.notes)
    assert done.returncode == 2 and "--yes" in done.stderr and home.everything() == was
    done = subprocess.run(
        [*warm_command(), "setup", str(home.notes)],
        env=cli_environment({}),
        input="n\nn\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0 and "Register it in" in done.stdout and "every 5m (systemd)" in done.stdout
    assert (home.path / DESKTOP).read_bytes() == ODD_DESKTOP
    assert not home.said.exists() or "enable" not in home.said.read_text()
    assert (home.path / "notes.rag_mcp.store/CURRENT").is_file()
    assert home.setup("--remove").returncode == 0 and home.everything() == was


@posix
def test_only_hosts_that_are_here_are_registered_unless_one_is_named(home):
    home.write(DESKTOP, b"{}")
    assert home.setup("--schedule", "none").returncode == 0
    names = {path.name for path in home.path.rglob("*") if path.suffix in (".json", ".toml")}
    assert "claude_desktop_config.json" in names and not names & {"mcp.json", ".claude.json", "config.toml"}


@posix
def test_the_registered_server_and_the_schedule_serve_the_same_store(home):
    home.setup("--host", "codex", "--schedule", "cron", "--profile", "engineer", "--exclude", "drafts", "--every", "2h")
    (server,) = tomllib.loads((home.path / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"].values()
    line = (home.path / "spool").read_text(encoding="utf-8").splitlines()[-1]
    words = shlex.split(line.split(" ", 5)[5])
    assert line.startswith("0 */2 * * * ") and words[:4] == [sys.executable, "-P", "-m", "rag_mcp"]
    assert server["env"]["RAG_MCP_CLIENT_PROFILE"] == "engineer" and "RAG_MCP_REFRESH" not in server["env"]
    assert words[words.index("--db") + 1] == server["env"]["RAG_MCP_DB_PATH"]
    assert words[words.index("--exclude") + 1] == "drafts" and "RAG_MCP_CLIENT_PROFILE=engineer" not in words
    for name in ("wheel.md", "drafts/wheel.md"):
        home.write(f"notes/{name}", b"# Wheel\n\nIt turns.\n")
    run = forked_cli(*words[4:])
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert " ingested=1 " in Path(words[words.index("--log") + 1]).read_text(encoding="utf-8")
    assert home.setup("--remove").returncode == 0
    assert sorted(os.listdir(home.path)) == ["notes"]


@posix
def test_a_second_time_changes_the_schedule_and_nothing_is_there_twice(home):
    was = home.everything()
    home.setup("--host", "codex", "--schedule", "systemd")
    home.setup("--host", "codex", "--schedule", "cron", "--every", "30m")
    assert not list(home.path.glob(".config/systemd/user/*.timer"))
    assert len((home.path / "spool").read_text(encoding="utf-8").splitlines()) == 2
    assert len(tomllib.loads((home.path / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]) == 1
    home.setup("--remove")
    assert home.everything() == was


@posix
def test_of_two_set_ups_each_is_removed_alone(home):
    other = home.path / "other"
    shutil.copytree(home.notes, other)
    was = home.everything()
    for folder in (home.notes, other):
        assert home.setup("--host", "codex", "--schedule", "cron", notes=folder).returncode == 0
    vague = forked_cli("setup", "--remove", "--yes")
    assert vague.returncode == 2 and "several" in vague.stderr and "other" in vague.stderr
    home.setup("--remove")
    left = (home.path / ".codex/config.toml").read_text(encoding="utf-8")
    assert "rag-mcp-other" in left and "rag-mcp-notes" not in left
    assert forked_cli("setup", "--remove", "--yes").returncode == 0
    assert home.everything() == was


@posix
def test_a_store_that_was_there_before_stays(home):
    forked_cli("ingest", home.notes)
    was = home.everything().keys()
    home.setup("--schedule", "none")
    assert home.setup("--remove").returncode == 0 and home.everything().keys() >= was


@posix
def test_a_store_is_kept_if_asked_for_or_while_it_is_written_to(home):
    home.setup("--schedule", "none")
    with FileLock(home.path / "notes.rag_mcp.store/writer.lock"):
        done = home.setup("--remove")
    assert done.returncode == 1 and "run it again" in done.stderr
    assert home.setup("--remove", "--keep-store").returncode == 0
    assert sorted(os.listdir(home.path)) == ["notes", "notes.rag_mcp.store"]
    again = home.setup("--remove")
    assert again.returncode == 2 and "no such folder was set up" in again.stderr


# --- a warm server ---------------------------------------------------------------------------------------------------


def service_in(home: Home) -> tuple[list[str], dict[str, str]]:
    """What systemd would run, with which variables."""
    (path,) = home.path.glob(".config/systemd/user/*-server.service")
    unit = path.read_text(encoding="utf-8")
    settings = [systemd_words(line)[0] for line in re.findall("^Environment=(.*)$", unit, re.MULTILINE)]
    return systemd_words(re.search("^ExecStart=(.*)$", unit, re.MULTILINE)[1]), dict(
        setting.split("=", 1) for setting in settings
    )


@posix
def test_hosts_reach_the_server_that_is_kept_running_and_no_other(tmp_path, monkeypatch):
    home = Home(tmp_path, monkeypatch, ODD)
    words = ("--host", "codex", "--schedule", "systemd", "--profile", "engineer", "--serve")
    assert home.setup(*words).returncode == 0
    (entry,) = tomllib.loads((home.path / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"].values()
    run, env = service_in(home)
    assert entry["args"] == ["-m", "rag_mcp", "connect"] and run[1:] == ["-P", "-m", "rag_mcp", "serve", "--on-demand"]
    # The profile is each host's own; in all the rest both are of one mind, or the server would not be asked.
    assert entry["env"].pop("RAG_MCP_CLIENT_PROFILE") == "engineer" and entry["env"] == env
    assert "$HOME" in env["RAG_MCP_DB_PATH"] and "RAG_MCP_REFRESH" not in env
    said = home.said.read_text()
    assert re.search(r"enable rag-mcp-.*-server\.service\n--user restart rag-mcp-.*-server\.service", said)


@posix
def test_a_warm_server_ends_before_its_store_goes_and_leaves_nothing(home):
    was = home.everything()
    assert home.setup("--host", "codex", "--schedule", "server", "--every", "24h", "--serve").returncode == 0
    words, env = service_in(home)
    assert env["RAG_MCP_REFRESH"] == "24h"
    variables = {**cli_environment({}), **env}
    with subprocess.Popen([*words, "--port", "0"], env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline().startswith("Serving at http://127.0.0.1:")
            assert home.setup("--remove").returncode == 0
            assert server.wait(20) == 0
        finally:
            server.kill()
    assert home.everything() == was


@posix
def test_a_server_that_is_not_taken_on_leaves_no_file_and_the_rest_stands(home, monkeypatch):
    systemctl = home.path.parent / "bin" / "systemctl"
    systemctl.write_text(SYSTEMCTL_COMMAND.replace("exit 0", 'case "$*" in *enable*-server*) exit 5 ;; esac'))
    done = home.setup("--schedule", "systemd", "--serve")
    assert done.returncode == 1 and "exit code 5" in done.stderr
    assert not list(home.path.rglob("*-server.service")) and len(list(home.path.rglob("*.timer"))) == 1


@posix
def test_without_serve_the_next_time_the_server_is_ended(home):
    home.setup("--host", "codex", "--schedule", "systemd", "--serve")
    assert home.setup("--host", "codex", "--schedule", "systemd").returncode == 0
    assert not list(home.path.rglob("*-server.service")) and len(list(home.path.rglob("*.timer"))) == 1
    assert "connect" not in (home.path / ".codex/config.toml").read_text(encoding="utf-8")
    assert re.search(r"disable --now rag-mcp-.*-server\.service", home.said.read_text())


@posix
def test_where_nothing_keeps_a_server_running_it_is_said_before_anything_is_done(home, monkeypatch):
    was = home.everything()
    monkeypatch.setenv("BROKEN", "1")
    done = home.setup("--schedule", "cron", "--serve")
    assert done.returncode == 2 and "rag-mcp connect" in done.stderr and home.everything() == was


# --- what goes wrong -------------------------------------------------------------------------------------------------


@posix
def test_a_crontab_that_can_not_be_read_for_certain_is_left_alone(home, monkeypatch):
    home.write("spool", b"0 4 * * * backup\n")
    monkeypatch.setenv("BROKEN", "1")
    done = home.setup("--host", "codex", "--schedule", "cron")
    assert done.returncode == 1 and "left as it is" in done.stderr and "pam says no" in done.stderr
    assert (home.path / "spool").read_bytes() == b"0 4 * * * backup\n" and (home.path / ".codex/config.toml").is_file()


@posix
def test_a_schedule_that_is_not_taken_leaves_no_files_and_the_rest_stands(home, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    done = home.setup("--host", "codex", "--schedule", "systemd")
    assert done.returncode == 1 and "Failed to connect to bus" in done.stderr
    assert not list(home.path.rglob("*.timer")) and (home.path / ".codex/config.toml").is_file()


@posix
def test_a_timer_is_not_forgotten_while_it_can_not_be_turned_off_but_one_that_is_gone_is(home, monkeypatch):
    was = home.everything()
    home.setup("--host", "codex", "--schedule", "systemd")
    monkeypatch.setenv("BROKEN", "1")
    done = home.setup("--remove")
    assert done.returncode == 1 and done.stderr.count("Failed to connect to bus") == 1
    assert len(list(home.path.rglob("rag-mcp-*.timer"))) == 1 and not (home.path / ".codex/config.toml").exists()
    for path in home.path.rglob(".config/systemd/user/rag-mcp-*"):
        path.unlink()
    assert home.setup("--remove").returncode == 0 and home.everything() == was


@posix
def test_where_no_scheduler_answers_the_server_ingests(home, monkeypatch):
    assert find_scheduler("linux") is Scheduler.SYSTEMD
    monkeypatch.setenv("BROKEN", "1")
    assert find_scheduler("linux") is Scheduler.CRON
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_scheduler("linux") is Scheduler.SERVER
    assert (find_scheduler("darwin"), find_scheduler("win32")) == (Scheduler.LAUNCHD, Scheduler.TASKS)
    done = home.setup("--host", "cursor")
    assert done.returncode == 0, done.stderr
    (server,) = json.loads((home.path / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"].values()
    assert server["env"]["RAG_MCP_REFRESH"] == "5m"


@posix
def test_what_can_not_be_passed_on_is_refused_before_anything_is_done(home):
    was = home.everything()
    for words, said in (
        (("--schedule", "server", "--exclude", "drafts"), ".ragignore"),
        (("--every", "7m"), "does not divide"),
        (("--every", "soon"), "as in 5m"),
        (("--schedule", "at"), "systemd, cron"),
        (("--host", "emacs"), "claude-desktop"),
        (("--exclude", "a\nb"), "no line of a scheduler"),
    ):
        done = home.setup(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert home.everything() == was


@posix
def test_a_file_with_comments_is_left_as_it_is_and_the_others_are_done(home):
    own = b'{\n  // mine\n  "context_servers": {}\n}\n'
    home.write(".config/zed/settings.json", own)
    done = home.setup("--host", "zed", "--host", "codex", "--schedule", "none")
    assert done.returncode == 1 and "can't be changed safely" in done.stderr
    assert (home.path / ".config/zed/settings.json").read_bytes() == own and (
        home.path / ".codex/config.toml"
    ).is_file()
    home.setup("--remove")
    assert (home.path / ".config/zed/settings.json").read_bytes() == own and not (
        home.path / ".codex/config.toml"
    ).exists()


@posix
def test_a_file_that_can_not_be_edited_any_more_keeps_its_place_in_the_record(home):
    home.setup("--host", "codex", "--schedule", "none")
    path = home.path / ".codex/config.toml"
    sound = path.read_bytes()
    path.write_bytes(sound + b"torn = \n")
    done = home.setup("--remove")
    assert done.returncode == 1 and "Change it by hand" in done.stderr and path.read_bytes().endswith(b"torn = \n")
    path.write_bytes(sound)
    assert home.setup("--remove").returncode == 0 and not path.exists()


# --- what others write meanwhile -------------------------------------------------------------------------------------

FORMS = {
    "claude-desktop": ODD_DESKTOP,
    "codex": CODEX,
    CRONTAB: b"# mine\n0 4 * * * backup",
}


def entry(form: str, label: str) -> object:
    if form == OWN:
        return label.encode().hex()
    if form == CRONTAB:
        return {"mark": f"rag-mcp-{label}", "lines": [f"# rag-mcp-{label}: é", f"*/5 * * * * p rag-mcp-{label}.log"]}
    env = {"RAG_MCP_DB_PATH": f"/stores/{label}"}
    return {"name": f"rag-mcp-{label}", "server": {"command": "p", "args": [], "env": env}}


def edited(form: str, content: bytes | None, number: int) -> bytes:
    """As another program would have it: one thing more, and nothing that is ours lost."""
    content = content or b""
    if form == CRONTAB:
        return content + (b"" if content.endswith(b"\n") or not content else b"\n") + b"%d 1 * * * other\n" % number
    if form == "codex":
        return content + b"\n[other%d]\nvalue = %d\n" % (number, number)
    whole = json.loads(content or b"{}")
    whole[f"other{number}"] = number
    return json.dumps(whole, indent=3).encode()


def own_of(form: str, content: bytes | None) -> object:
    """What others have in a file: lines, or values without empty sections."""
    text = (content or b"").decode()
    if form == CRONTAB:
        return [line for line in text.splitlines() if "rag-mcp" not in line]
    whole = tomllib.loads(text) if form == "codex" else json.loads(text or "{}")
    section = "mcp_servers" if form == "codex" else "mcpServers"
    servers = {name: each for name, each in whole.get(section, {}).items() if not name.startswith("rag-mcp")}
    return {**whole, section: servers}


STEPS = st.lists(st.sampled_from(["put a", "put b", "put c", "take a", "take b", "take c", "edit"]), max_size=12)


@given(st.sampled_from([*FORMS, OWN]), st.booleans(), STEPS, st.permutations("abc"))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_in_any_order_what_is_left_is_what_others_wrote(form, there, steps, order):
    first = content = FORMS.get(form, b"mine") if there else None
    shared, edits = Shared.untouched(form, content), 0
    inside: set[str] = set()
    for step in (*steps, *(f"take {label}" for label in order)):
        what, _, label = step.partition(" ")
        if what == "edit":
            if form != OWN:
                edits += 1
                content = edited(form, content, edits)
            continue
        shared, content = changed(shared, content, label, entry(form, label) if what == "put" else None)
        assert digest(content) == shared.written
        (inside.add if what == "put" else inside.discard)(label)
        assert set(shared.entries) == inside
        if form not in (OWN,):
            assert all(f"rag-mcp-{each}".encode() in (content or b"") for each in inside)
    if edits:
        assert own_of(form, content) == own_of(form, edited_from(form, first, edits))
        assert b"rag-mcp" not in content
    else:
        assert content == first


def edited_from(form: str, content: bytes | None, edits: int) -> bytes | None:
    for number in range(1, edits + 1):
        content = edited(form, content, number)
    return content


def test_an_entry_the_user_changed_goes_and_one_the_user_took_over_stays():
    shared, content = changed(Shared.untouched("cursor", b"{}"), b"{}", "a", entry("cursor", "a"))
    whole = json.loads(content)
    whole["mcpServers"]["renamed"] = {**whole["mcpServers"].pop("rag-mcp-a"), "disabled": True}
    with_changes = json.dumps(whole).encode()
    kept, _ = changed(shared, with_changes, "b", entry("cursor", "b"))
    assert kept.entries["a"]["name"] == "renamed" and kept.entries["a"]["server"]["disabled"]
    assert json.loads(changed(shared, with_changes, "a", None)[1]) == {}
    whole["mcpServers"]["renamed"]["env"] = {"RAG_MCP_DB_PATH": "/elsewhere"}
    assert json.loads(changed(shared, json.dumps(whole).encode(), "a", None)[1]) == whole


def test_an_entry_that_was_there_before_us_is_put_back():
    old = {**entry("cursor", "a")["server"], "disabled": True}
    before = json.dumps({"mcpServers": {"rag-mcp-a": old}}).encode()
    shared, content = changed(Shared.untouched("cursor", before), before, "a", entry("cursor", "a"))
    assert content != before and changed(shared, content, "a", None)[1] == before
    other = edited("cursor", content, 1)
    assert json.loads(changed(shared, other, "a", None)[1])["mcpServers"] == {"rag-mcp-a": old}


# --- what schedulers read --------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)


def job(*words: str, every: str = "5m") -> Job:
    return Job("rag-mcp-notes-1", "100% of\nthem", ("/usr/bin/env", *words), Interval.parse(every))


@posix
@given(st.lists(st.text(st.sampled_from("ab %'\"\\$`!*é~#;&"), max_size=8), max_size=4))
@settings(max_examples=20, deadline=None)
def test_the_shell_of_cron_reads_the_very_words(words):
    mark, line = cron_lines(job(*words))
    assert "\n" not in mark + line and "rag-mcp-notes-1" in mark
    command = line.split(" ", 5)[5].replace("/usr/bin/env", "printf '%s\\0'", 1) if words else "true"
    # Some crons take the backslash before a percent sign away, some leave it.
    assert not re.search(r"(?<!\\)%", line)
    for read in (command.replace("\\%", "%"), command):
        out = subprocess.run(["sh", "-c", read], capture_output=True, check=True).stdout.decode()
        assert out.split("\0")[:-1] == (words if words else [])


def systemd_words(line: str) -> list[str]:
    """A line of ExecStart as systemd.syntax(7) and systemd.service(5) read it."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
    assert not re.search(r"(?<!%)(?:%%)*%(?!%)", line)
    words = [word.replace("%%", "%") for word in words]
    return [words[0], *(word.replace("$$", "$") for word in words[1:])]


@given(st.lists(WORDS, max_size=4))
def test_systemd_reads_the_very_words(words):
    service, timer = (content.decode() for content in files(Scheduler.SYSTEMD, job(*words), Path("/u")).values())
    line = re.search("^ExecStart=(.*)$", service, re.MULTILINE)[1]
    assert systemd_words(line) == ["/usr/bin/env", *words]
    assert "OnUnitInactiveSec=5min" in timer and "Description=100%% of them" in timer


@given(WORDS, WORDS)
def test_managers_of_services_read_the_very_words_and_settings(word, value):
    service = Service("rag-mcp-notes-1-server", "100% of\nthem", ("/usr/bin/env", word), {"RAG_MCP_DB_PATH": value})
    _, unit = service_file(Scheduler.SYSTEMD, service, Path("/u"))
    found = dict(line.split("=", 1) for line in unit.decode().split("\n") if "=" in line)
    assert systemd_words(found["ExecStart"]) == ["/usr/bin/env", word] and found["Restart"] == "on-failure"
    assert systemd_words(found["Environment"]) == [f"RAG_MCP_DB_PATH={value}"]
    path, raw = service_file(Scheduler.LAUNCHD, service, Path("/u"))
    plist = plistlib.loads(raw)
    assert path == Path("/u/rag-mcp-notes-1-server.plist") and plist["ProgramArguments"] == ["/usr/bin/env", word]
    assert plist["EnvironmentVariables"] == {"RAG_MCP_DB_PATH": value} and not plist["KeepAlive"]["SuccessfulExit"]


def test_a_setting_that_is_no_line_is_refused():
    with pytest.raises(InvalidArgument, match="no line of a scheduler"):
        Service("rag-mcp-n-server", "n", ("p",), {"RAG_MCP_DB_PATH": "/notes\nExecStartPre=/bin/x"}).check()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_itself_takes_the_units(tmp_path):
    service = Service("rag-mcp-notes-1-server", ODD, ("/usr/bin/env", ODD), {"RAG_MCP_DB_PATH": ODD})
    kept_running = service_file(Scheduler.SYSTEMD, service, tmp_path)
    for path, content in (*files(Scheduler.SYSTEMD, job(ODD), tmp_path).items(), kept_running):
        path.write_bytes(content)
    units = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
    if "Failed to" in done.stderr and "rag-mcp" not in done.stderr:
        pytest.skip("systemd can't be asked here")
    assert "rag-mcp-notes-1" not in done.stderr


@given(st.lists(WORDS, max_size=4))
def test_launchd_and_task_scheduler_read_the_very_words(words):
    (plist,) = files(Scheduler.LAUNCHD, job(*words), Path("/u")).values()
    assert plistlib.loads(plist)["ProgramArguments"] == ["/usr/bin/env", *words]
    assert plistlib.loads(plist)["StartInterval"] == 300
    (task,) = files(Scheduler.TASKS, job(*words, every="2h"), Path("/u")).values()
    found = {each.tag.rpartition("}")[2]: each.text for each in ElementTree.fromstring(task).iter()}
    assert task.startswith((b"\xff\xfe", b"\xfe\xff")) and found["Interval"] == "PT120M"
    assert (found["Command"], found["Arguments"] or "") == ("/usr/bin/env", subprocess.list2cmdline(words))


def test_what_a_scheduler_would_change_is_refused():
    job("100%", "$HOME").check(Scheduler.TASKS)
    with pytest.raises(InvalidArgument, match="variable"):
        job("%TEMP%/notes").check(Scheduler.TASKS)
    job("%TEMP%/notes").check(Scheduler.CRON)
    for bad in ("a\nb", "a\x00", "a\u2028b", "\udcff"):
        with pytest.raises(InvalidArgument, match="no line of a scheduler"):
            job(bad).check(Scheduler.SYSTEMD)
    for every in ("7m", "90m", "5h"):
        with pytest.raises(InvalidArgument, match=r"does not divide.*5m"):
            job(every=every).check(Scheduler.CRON)


@pytest.mark.parametrize(
    ("every", "when"),
    [
        ("1m", "*/1 * * * *"),
        ("5m", "*/5 * * * *"),
        ("60m", "0 */1 * * *"),
        ("12h", "0 */12 * * *"),
        ("24h", "0 0 * * *"),
    ],
)
def test_cron_is_told_when(every, when):
    assert cron_lines(job(every=every))[1].startswith(f"{when} /")


def test_each_system_is_told_by_its_own_commands():
    folder = Path("/u")
    on = commands(Scheduler.LAUNCHD, "rag-mcp-n", folder, user=501).on
    assert on == (("launchctl", "bootstrap", "gui/501", str(folder / "rag-mcp-n.plist")),)
    tasks = commands(Scheduler.TASKS, "rag-mcp-n", folder)
    assert tasks.on[0][:4] == ("schtasks", "/Create", "/TN", "rag-mcp-n") and tasks.off[0][1] == "/Delete"


@given(st.integers(1, 24 * 60))
def test_an_interval_prints_as_it_is_read(minutes):
    interval = Interval(minutes)
    assert Interval.parse(str(interval)) == interval and interval.seconds == 60 * minutes


@pytest.mark.parametrize("text", ["", "5", "0m", "-1m", "5 m", "1.5h", "25h", "1441m", "5s", "５m", "5m\n5m"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(ValueError, match="use 1m to 24h"):
        Interval.parse(text)
