"""What is written into other programs' configuration, and what must never happen to it."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, InvalidArgument
from rag_mcp.server.hostfile import cut_server, put_server, render_block, write_config
from rag_mcp.server.hosts import Host, client_block, find_place, parse_host, server_env
from rag_mcp.server.registration import Registration

WITH_FILE = [host for host in Host if host is not Host.GENERIC]
JSON_HOSTS = [host for host in WITH_FILE if host is not Host.CODEX]
NOON = datetime(2026, 3, 4, 12, 0, 0)
SECTION = {Host.VSCODE: "servers", Host.ZED: "context_servers", Host.CODEX: "mcp_servers"}


def block_for(host: Host, **env: str) -> dict:
    return client_block(host, command="/venv/bin/python", args=["-m", "rag_mcp"], env=env or {"RAG_MCP_DB_PATH": "/db"})


def servers_in(path: Path, host: Host) -> dict:
    text = path.read_text(encoding="utf-8-sig")
    whole = tomllib.loads(text) if host is Host.CODEX else json.loads(text)
    return whole[SECTION.get(host, "mcpServers")]


def entry_in(path: Path, host: Host) -> dict:
    (entry,) = servers_in(path, host).values()
    return entry


def with_entries(path: Path, host: Host, servers: dict) -> None:
    """A file of ``host`` with these servers, in its own form."""
    if host is Host.CODEX:
        text = "".join(render_block(host, {"mcp_servers": {name: entry}}) + "\n" for name, entry in servers.items())
    else:
        text = json.dumps({SECTION.get(host, "mcpServers"): servers}, indent=2)
    path.write_text(text, encoding="utf-8")


# --- the block -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [Host.GENERIC, Host.CLAUDE_DESKTOP, Host.CURSOR])
def test_most_hosts_list_a_command_under_mcp_servers(host):
    assert block_for(host) == {
        "mcpServers": {
            "rag-mcp-db": {"command": "/venv/bin/python", "args": ["-m", "rag_mcp"], "env": {"RAG_MCP_DB_PATH": "/db"}}
        }
    }


def test_each_host_with_a_form_of_its_own_gets_it():
    assert block_for(Host.CLAUDE_CODE)["mcpServers"]["rag-mcp-db"]["type"] == "stdio"
    assert block_for(Host.VSCODE)["servers"]["rag-mcp-db"]["type"] == "stdio"
    assert block_for(Host.ZED)["context_servers"]["rag-mcp-db"]["command"] == "/venv/bin/python"
    assert "type" not in block_for(Host.ZED)["context_servers"]["rag-mcp-db"]


@pytest.mark.parametrize("host", list(Host))
def test_what_is_printed_parses_to_the_block(host):
    text = render_block(host, block_for(host, RAG_MCP_DB_PATH='C:\\Users\\Zoë "x"\\db\x7f'))
    parsed = tomllib.loads(text) if host is Host.CODEX else json.loads(text)
    assert parsed == block_for(host, RAG_MCP_DB_PATH='C:\\Users\\Zoë "x"\\db\x7f')


@given(st.dictionaries(st.text(min_size=1), st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_any_environment_survives_the_toml_writer(env):
    block = client_block(
        Host.CODEX, command="p", args=[], env={k.encode("utf-8", "replace").decode(): v for k, v in env.items()}
    )
    assert tomllib.loads(render_block(Host.CODEX, block)) == block


def test_an_unknown_host_is_answered_with_the_known_ones():
    with pytest.raises(InvalidArgument, match=r"emacs.*claude-desktop.*generic"):
        parse_host("emacs")
    assert parse_host("zed") is Host.ZED


def test_the_environment_of_the_block_gives_the_server_the_same_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config.load(
        {}, corpus_root=Path("notes"), embedder="hash", profile="engineer", policy_path=Path("policy.yaml")
    )
    env = server_env(config)
    again = Config.load(env)
    assert again == replace(
        config,
        corpus_root=tmp_path / "notes",
        db_path=tmp_path / "notes.rag_mcp.store",
        policy_path=tmp_path / "policy.yaml",
    )
    assert "RAG_MCP_COLLECTION" not in env


# --- the place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "platform", "env", "expected"),
    [
        (Host.CLAUDE_DESKTOP, "linux", {}, "h/.config/Claude/claude_desktop_config.json"),
        (Host.CLAUDE_DESKTOP, "darwin", {}, "h/Library/Application Support/Claude/claude_desktop_config.json"),
        (Host.CLAUDE_DESKTOP, "win32", {"APPDATA": "roam"}, "roam/Claude/claude_desktop_config.json"),
        (Host.CLAUDE_DESKTOP, "win32", {}, "h/AppData/Roaming/Claude/claude_desktop_config.json"),
        (Host.CLAUDE_CODE, "linux", {}, "h/.claude.json"),
        (Host.CLAUDE_CODE, "linux", {"CLAUDE_CONFIG_DIR": "cc"}, "cc/.claude.json"),
        (Host.CURSOR, "win32", {}, "h/.cursor/mcp.json"),
        (Host.VSCODE, "linux", {"XDG_CONFIG_HOME": "xdg"}, "xdg/Code/User/mcp.json"),
        (Host.VSCODE, "darwin", {}, "h/Library/Application Support/Code/User/mcp.json"),
        (Host.ZED, "darwin", {}, "h/.config/zed/settings.json"),
        (Host.ZED, "win32", {"APPDATA": "roam"}, "roam/Zed/settings.json"),
        (Host.CODEX, "linux", {}, "h/.codex/config.toml"),
        (Host.CODEX, "linux", {"CODEX_HOME": "cx"}, "cx/config.toml"),
    ],
)
def test_each_host_is_written_where_it_reads(host, platform, env, expected):
    assert find_place(host, platform=platform, home=Path("h"), env=env).path == Path(expected)


def test_the_generic_host_has_no_file():
    with pytest.raises(InvalidArgument, match="paste"):
        find_place(Host.GENERIC, platform="linux", home=Path("h"), env={})


PACKAGED = "LocalCache/Roaming/Claude/claude_desktop_config.json"


def windows_home(home: Path, files: list[str], folders: list[str]) -> list[Path]:
    for name in folders:
        (home / name).mkdir(parents=True, exist_ok=True)
    for name in files:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}", encoding="utf-8")
    return [home / name for name in files]


ORDINARY = "AppData/Roaming/Claude/claude_desktop_config.json"
ONE, TWO = (f"AppData/Local/Packages/Claude_{name}" for name in ("aa11", "bb22"))


@pytest.mark.parametrize("env", [{}, {"APPDATA": "AppData/Roaming", "LOCALAPPDATA": "AppData/Local"}])
@pytest.mark.parametrize(
    ("files", "folders", "chosen", "uncertain"),
    [
        ([], [], ORDINARY, False),
        ([ORDINARY], ["AppData/Local/Packages/Other_aa11", "AppData/Local/Packages/ClaudeX"], ORDINARY, False),
        ([f"{ONE}/{PACKAGED}"], [], f"{ONE}/{PACKAGED}", True),
        ([], [ONE], f"{ONE}/{PACKAGED}", True),
        ([f"{ONE}/{PACKAGED}", ORDINARY], [], f"{ONE}/{PACKAGED}", True),
        ([ORDINARY], [ONE], ORDINARY, True),
        ([f"{TWO}/{PACKAGED}"], [ONE], f"{TWO}/{PACKAGED}", True),
    ],
    ids=["none", "other packages", "package", "package without file", "both", "ordinary file only", "one of two"],
)
def test_the_packaged_claude_desktop_is_written_where_it_reads(tmp_path, files, folders, chosen, uncertain, env):
    windows_home(tmp_path, files, folders)
    settings_ = {name: str(tmp_path / value) for name, value in env.items()}
    place = find_place(Host.CLAUDE_DESKTOP, platform="win32", home=tmp_path, env=settings_)
    assert place.path == tmp_path / chosen and bool(place.why) is uncertain
    assert find_place(Host.CLAUDE_DESKTOP, platform="win32", home=tmp_path, env=settings_).path == place.path


@pytest.mark.parametrize("files", [[], [f"{ONE}/{PACKAGED}", f"{TWO}/{PACKAGED}"]])
def test_of_several_packages_that_could_be_the_one_the_user_names_the_file(tmp_path, files):
    windows_home(tmp_path, files, [ONE, TWO])
    with pytest.raises(InvalidArgument, match=r"file: several packages.*aa11.*bb22"):
        find_place(Host.CLAUDE_DESKTOP, platform="win32", home=tmp_path, env={})


# --- the merge -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", WITH_FILE)
def test_a_missing_file_is_made_with_its_folders_and_needs_no_backup(tmp_path, host):
    path = tmp_path / "not" / "yet" / "file"
    result = write_config(path, host, block_for(host), now=NOON)
    assert result.changed and result.backup is None
    assert entry_in(path, host)["command"] == "/venv/bin/python"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("host", WITH_FILE)
def test_writing_twice_changes_nothing_the_second_time(tmp_path, host):
    path = tmp_path / "file"
    write_config(path, host, block_for(host), now=NOON)
    first, stamp = path.read_bytes(), path.stat().st_mtime_ns
    result = write_config(path, host, block_for(host), now=NOON)
    assert not result.changed and result.backup is None
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (first, stamp)


@pytest.mark.parametrize("host", JSON_HOSTS)
def test_other_servers_settings_and_the_order_of_keys_stay(tmp_path, host):
    path = tmp_path / "file"
    section = SECTION.get(host, "mcpServers")
    theirs = {"zeta": 1.5, section: {"weather": {"command": "w"}}, "alpha": [None, "ü", True]}
    path.write_text(json.dumps(theirs, indent=4, ensure_ascii=False), encoding="utf-8")
    before = path.read_bytes()
    result = write_config(path, host, block_for(host), now=NOON)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert list(written) == ["zeta", section, "alpha"]
    assert list(written[section]) == ["weather", "rag-mcp-db"]
    del written[section]["rag-mcp-db"]
    assert written == theirs
    assert '\n    "zeta"' in path.read_text(encoding="utf-8")
    assert result.backup == tmp_path / "file.20260304-120000.bak"
    assert result.backup.read_bytes() == before


def test_two_changes_in_one_second_leave_two_backups(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    first = write_config(path, Host.CURSOR, block_for(Host.CURSOR, RAG_MCP_DB_PATH="/a"), now=NOON)
    second = write_config(path, Host.CURSOR, block_for(Host.CURSOR, RAG_MCP_DB_PATH="/b"), now=NOON)
    assert first.backup != second.backup
    assert first.backup.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("host", JSON_HOSTS)
@pytest.mark.parametrize(
    "content",
    [
        b'{\n  // a comment\n  "a": 1\n}',
        b'{"a": 1,}',
        b'{"a": ',
        b"[1, 2]",
        b'"text"',
        b"null",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b"[" * 100_000,
    ],
    ids=["comment", "comma", "torn", "list", "string", "null", "nan", "twins", "bytes", "depth"],
)
def test_a_file_that_is_not_plain_json_is_refused_untouched(tmp_path, host, content):
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="by hand"):
        write_config(path, host, block_for(host), now=NOON)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("content", ['{"mcpServers": []}', '{"mcpServers": null}'])
def test_a_section_of_another_shape_is_refused_untouched(tmp_path, content):
    path = tmp_path / "mcp.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError):
        write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    assert path.read_text(encoding="utf-8") == content


def test_an_empty_file_counts_as_no_settings(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(" \n", encoding="utf-8")
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    assert entry_in(path, Host.CURSOR)["args"] == ["-m", "rag_mcp"]


def test_byte_order_mark_line_ends_and_tabs_stay_as_they_were(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"a": 1\r\n}\r\n')
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    written = path.read_bytes()
    assert written.startswith(b'\xef\xbb\xbf{\r\n\t"a": 1,\r\n\t"mcpServers": {')
    assert written.endswith(b"}\r\n") and written.count(b"\n") == written.count(b"\r\n")


@pytest.mark.skipif(os.name == "nt", reason="POSIX permission bits and symbolic links")
def test_a_linked_file_stays_a_link_and_permissions_stay(tmp_path):
    real, link = tmp_path / "dotfiles.json", tmp_path / "mcp.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o600)
    link.symlink_to(real)
    write_config(link, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    assert link.is_symlink() and entry_in(real, Host.CURSOR)
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_file_changed_by_another_program_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    real_fsync = os.fsync

    def other_program_writes(descriptor):
        path.write_text('{"theirs": 1}', encoding="utf-8")
        return real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", other_program_writes)
    with pytest.raises(ConfigError, match="another program"):
        write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    assert path.read_text(encoding="utf-8") == '{"theirs": 1}'


def test_a_folder_in_the_files_place_is_an_error_that_says_so(tmp_path):
    (tmp_path / "mcp.json").mkdir()
    with pytest.raises(ConfigError, match="by hand"):
        write_config(tmp_path / "mcp.json", Host.CURSOR, block_for(Host.CURSOR), now=NOON)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, max_size=4))
def test_whatever_else_a_json_file_holds_is_the_same_afterwards(tmp_path, theirs):
    theirs.pop("mcpServers", None)
    path = tmp_path / "any.json"
    path.write_bytes(json.dumps(theirs).encode())
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    written = json.loads(path.read_bytes())
    assert written.pop("mcpServers") == block_for(Host.CURSOR)["mcpServers"]
    assert written == theirs and list(written) == list(theirs)
    for backup in tmp_path.glob("*.bak"):
        backup.unlink()


# --- whose entry -----------------------------------------------------------------------------------------------------

OLDER = {
    "command": "/somewhere/else",
    "args": ["--profile", "auditor"],
    "env": {
        "RAG_MCP_DB_PATH": "/db",
        "RAG_MCP_CLIENT_PROFILE": "auditor",
        "RAG_MCP_POLICY": "/wide.yaml",
        "RAG_MCP_GAP_LOG": "/log",
        "RAG_MCP_EMBEDDER": "ollama",
        "RAG_MCP_OLLAMA_URL": "http://127.0.0.1:9",
        "rag_mcp_scratch_dir": "/scratch",
        "HTTP_PROXY": "p",
    },
    "cwd": "/shadow",
    "disabled": True,
}


@pytest.mark.parametrize("host", WITH_FILE)
@pytest.mark.parametrize("asked", [None, "reading"])
def test_no_setting_of_ours_outlives_its_entry_unseen_and_what_the_user_added_stays(tmp_path, host, asked):
    path = tmp_path / "file"
    elsewhere = OLDER if asked is None else {**OLDER, "env": {**OLDER["env"], "RAG_MCP_DB_PATH": "/other"}}
    with_entries(path, host, {"reading": elsewhere})
    made = write_config(path, host, block_for(host), name=asked, replace=asked is not None, now=NOON).registration
    entry = servers_in(path, host)["reading"]
    assert {key: value for key, value in entry.items() if key != "type"} == {
        "command": "/venv/bin/python",
        "args": ["-m", "rag_mcp"],
        "env": {"HTTP_PROXY": "p", "RAG_MCP_DB_PATH": "/db"},
        "disabled": True,
    }
    gone = {line.split(":")[0] for line in made.changed}
    assert gone >= {"command", "args", "cwd", *(name for name in OLDER["env"] if name.startswith(("RAG", "rag")))} - {
        "RAG_MCP_DB_PATH"
    }
    assert "RAG_MCP_CLIENT_PROFILE: auditor -> not set" in made.changed
    assert set(made.kept) == {"disabled", "HTTP_PROXY"}


def test_variables_a_host_hands_on_from_its_own_environment_are_ours_by_name_too(tmp_path):
    path = tmp_path / "config.toml"
    with_entries(path, Host.CODEX, {"x": {**OLDER, "env_vars": ["RAG_MCP_CLIENT_PROFILE", "HTTP_PROXY"]}})
    write_config(path, Host.CODEX, block_for(Host.CODEX), now=NOON)
    assert servers_in(path, Host.CODEX)["x"]["env_vars"] == ["HTTP_PROXY"]


def block_of(host: Host, folder: str, store: str | None = None, **env: str) -> dict:
    return block_for(host, RAG_MCP_CORPUS_ROOT=folder, RAG_MCP_DB_PATH=store or f"{folder}.store", **env)


@pytest.mark.parametrize("host", WITH_FILE)
def test_each_folder_has_an_entry_of_its_own_and_the_same_command_again_changes_nothing(tmp_path, host):
    path = tmp_path / "file"
    folders = ["/u/desk/Field Notes", "/u/home/Field Notes", "/v/home/Field Notes", "/u/übung", "/u/заметки", "/u/記録"]
    names = [write_config(path, host, block_of(host, folder), now=NOON).registration.name for folder in folders]
    assert names == [
        "rag-mcp-field-notes",
        "rag-mcp-home-field-notes",
        "rag-mcp-field-notes-2",
        "rag-mcp-ubung",
        "rag-mcp",
        "rag-mcp-u",
    ]
    before = path.read_bytes()
    for folder, name in zip(folders, names, strict=True):
        again = write_config(path, host, block_of(host, folder), now=NOON)
        assert (again.changed, again.registration.name) == (False, name)
    assert path.read_bytes() == before
    listed = [entry["env"]["RAG_MCP_CORPUS_ROOT"] for entry in servers_in(path, host).values()]
    assert listed == folders


@pytest.mark.parametrize("host", WITH_FILE)
def test_an_entry_is_known_by_its_store_under_whatever_name_its_user_gave_it(tmp_path, host):
    path = tmp_path / "file"
    renamed = {'My "old" vault': OLDER, "weather": {"command": "w"}}
    with_entries(path, host, renamed)
    write_config(path, host, block_for(host), now=NOON)
    write_config(path, host, block_of(host, "/v/second"), now=NOON)
    assert sorted(servers_in(path, host)) == ['My "old" vault', "rag-mcp-second", "weather"]
    assert not write_config(path, host, block_for(host), now=NOON).changed


def test_a_second_folder_named_with_the_store_of_the_first_replaces_nothing_but_one_that_moved_keeps_its_entry(
    tmp_path,
):
    path, one, two = tmp_path / "file", tmp_path / "one", tmp_path / "two"
    one.mkdir()
    for folder in (one, two):
        write_config(path, Host.CURSOR, block_of(Host.CURSOR, str(folder), "/shared"), now=NOON)
    assert list(servers_in(path, Host.CURSOR)) == ["rag-mcp-one", "rag-mcp-two"]
    one.rename(two)
    write_config(
        path, Host.CURSOR, block_of(Host.CURSOR, str(tmp_path / "three"), "/shared"), name="rag-mcp-one", now=NOON
    )
    assert servers_in(path, Host.CURSOR)["rag-mcp-one"]["env"]["RAG_MCP_CORPUS_ROOT"] == str(tmp_path / "three")


def test_a_collection_is_a_store_of_its_own(tmp_path):
    path = tmp_path / "file"
    for env in ({}, {"RAG_MCP_COLLECTION": "drafts"}):
        write_config(path, Host.CURSOR, block_of(Host.CURSOR, "/v/notes", **env), now=NOON)
    assert list(servers_in(path, Host.CURSOR)) == ["rag-mcp-notes", "rag-mcp-notes-drafts"]


@pytest.mark.parametrize("taken", [block_of(Host.CURSOR, "/v/other")["mcpServers"]["rag-mcp-other"], {"command": "w"}])
def test_a_name_asked_for_that_belongs_to_something_else_is_refused_until_it_is_given_up(tmp_path, taken):
    path = tmp_path / "file"
    with_entries(path, Host.CURSOR, {"mine": taken})
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match=r"--name.*--replace"):
        write_config(path, Host.CURSOR, block_for(Host.CURSOR), name="mine", now=NOON)
    assert path.read_bytes() == before
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), name="mine", replace=True, now=NOON)
    assert entry_in(path, Host.CURSOR)["env"] == {"RAG_MCP_DB_PATH": "/db"}


def test_a_name_that_is_another_programs_is_not_taken_by_default_and_none_is_too_long_for_a_host(tmp_path):
    path = tmp_path / "file"
    with_entries(path, Host.CURSOR, {"RAG-MCP-DB": {"command": "w"}})
    made = write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON).registration
    assert made.name == "rag-mcp-db-2" and made.others == ()
    long = write_config(path, Host.CURSOR, block_of(Host.CURSOR, f"/v/{'long name ' * 30}"), now=NOON).registration
    assert len(long.name) <= 36
    with pytest.raises(InvalidArgument, match="letters"):
        write_config(path, Host.CURSOR, block_for(Host.CURSOR), name="a b", now=NOON)


def test_two_entries_of_one_store_are_told_apart_by_name(tmp_path):
    path = tmp_path / "file"
    wide = block_for(Host.CURSOR, RAG_MCP_DB_PATH="/db", RAG_MCP_CLIENT_PROFILE="auditor")
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    write_config(path, Host.CURSOR, wide, name="audit", now=NOON)
    assert list(servers_in(path, Host.CURSOR)) == ["rag-mcp-db", "audit"]
    assert not write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON).changed
    assert not write_config(path, Host.CURSOR, wide, now=NOON).changed
    other = block_for(Host.CURSOR, RAG_MCP_DB_PATH="/db", RAG_MCP_CLIENT_PROFILE="engineer")
    with pytest.raises(InvalidArgument, match=r"--name.*rag-mcp-db, audit"):
        write_config(path, Host.CURSOR, other, now=NOON)


# --- codex -----------------------------------------------------------------------------------------------------------

CODEX = """# my settings
model = "o9"   # the good one

[mcp_servers.weather]
command = "w"

[mcp_servers.rag-mcp]  # ours
command = "/old"
args = []
startup_timeout_sec = 20

[mcp_servers.rag-mcp.env]
RAG_MCP_DB_PATH = "/db"

[profiles.quick]
model = "o9-mini"
"""


def test_in_toml_comments_and_other_tables_stay_and_ours_is_renewed(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CODEX, encoding="utf-8")
    write_config(path, Host.CODEX, block_for(Host.CODEX), now=NOON)
    text = path.read_text(encoding="utf-8")
    assert text.startswith('# my settings\nmodel = "o9"   # the good one\n')
    whole = tomllib.loads(text)
    assert whole["profiles"] == {"quick": {"model": "o9-mini"}}
    assert whole["mcp_servers"]["weather"] == {"command": "w"}
    assert whole["mcp_servers"]["rag-mcp"] == {
        "command": "/venv/bin/python",
        "args": ["-m", "rag_mcp"],
        "startup_timeout_sec": 20,
        "env": {"RAG_MCP_DB_PATH": "/db"},
    }
    assert text.count("rag-mcp]") == 1


@pytest.mark.parametrize(
    "content",
    [
        'mcp_servers = { old = { env = { RAG_MCP_DB_PATH = "/db" } } }\n',
        'mcp_servers.old.env.RAG_MCP_DB_PATH = "/db"\n',
        '[mcp_servers]\nold = { env = { RAG_MCP_DB_PATH = "/db" } }\n',
        'text = """\n[mcp_servers.old]\n"""\n\n[mcp_servers.old.env]\nRAG_MCP_DB_PATH = "/db"\n',
        "mcp_servers = 3\n",
        "not toml",
        '[mcp_servers.old]\nsince = 2026-01-01\n[mcp_servers.old.env]\nRAG_MCP_DB_PATH = "/db"\n',
    ],
)
def test_toml_that_cannot_be_edited_for_certain_is_refused_untouched(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="by hand"):
        write_config(path, Host.CODEX, block_for(Host.CODEX), now=NOON)
    assert path.read_text(encoding="utf-8") == content
    assert len(list(tmp_path.iterdir())) == 1


# --- cut out again ---------------------------------------------------------------------------------------------------


def put(host, content, name):
    entry = {"command": "p", "args": ["-m", "rag_mcp"], "env": {"RAG_MCP_DB_PATH": f"/{name}"}}
    return put_server(host, content, lambda _: Registration(name, entry))[1]


GONE = """,

      "gone": {"env": {"}": "{,\\\"", "gone": 1}, "args": ["]"]}"""
ODD_JSON = (
    """{ "a" : [1,
 2 ], "%s":{"mine":{"command":"x"  , "args":[]}"""
    + GONE
    + """ ,
   "other" : {"command":"é"} }
 ,"z":null}

"""
)


@pytest.mark.parametrize("host", JSON_HOSTS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_of_json_one_server_is_cut_and_every_other_character_stays(host, mark, ends):
    text = ODD_JSON.replace("%s", SECTION.get(host, "mcpServers"))
    before, after = (mark + each.replace("\n", ends).encode() for each in (text, text.replace(GONE, "")))
    assert cut_server(host, before, "gone") == after != before


@pytest.mark.parametrize("name", ["mine", "gone", "other"])
def test_the_first_and_the_last_of_several_servers_are_cut_with_one_comma(name):
    servers = json.loads(ODD_JSON % "mcpServers")["mcpServers"]
    left = json.loads(cut_server(Host.CURSOR, (ODD_JSON % "mcpServers").encode(), name))["mcpServers"]
    assert left == {other: entry for other, entry in servers.items() if other != name}


def test_of_toml_one_server_is_cut_and_the_comments_of_others_stay():
    own = '# mine\nmodel = "o"\n\n[mcp_servers.mine]\ncommand = "x" # why\n'
    tail = "\n# speaks of tools\n[tools]\nweb = true\n"
    with_ours = put(Host.CODEX, own.encode(), "gone")
    assert cut_server(Host.CODEX, with_ours, "gone") == own.encode()
    assert cut_server(Host.CODEX, with_ours + tail.encode(), "gone") == (own + tail).encode()
    assert cut_server(Host.CODEX, put(Host.CODEX, b"", "gone"), "gone", section_stays=False) == b""


@pytest.mark.parametrize("host", JSON_HOSTS)
def test_a_section_that_was_not_there_goes_with_its_last_server(host):
    for own in (b'{"theme": "dark"}', b"{}", b'{\n\t"a": {},\n\t"b": [\n\t\t1\n\t]\n}\n'):
        with_ours = put(host, own, "gone")
        assert cut_server(host, with_ours, "gone", section_stays=False) == own.replace(
            b'{"theme": "dark"}', b'{\n  "theme": "dark"\n}'
        )
        assert json.loads(cut_server(host, with_ours, "gone"))[SECTION.get(host, "mcpServers")] == {}


@pytest.mark.parametrize("content", ['mcp_servers.gone.command = "x"\n', 'mcp_servers = {gone = {command = "x"}}\n'])
def test_an_entry_in_a_form_that_is_not_edited_is_refused(content):
    with pytest.raises(ValueError, match="form this program does not edit"):
        cut_server(Host.CODEX, content.encode(), "gone")
    with pytest.raises(ValueError, match="Expecting"):
        cut_server(Host.ZED, b'{"context_servers": {"gone": {}} // mine\n}', "gone")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(), PLAIN, max_size=4), st.dictionaries(st.text(), PLAIN, min_size=1, max_size=4), st.data()
)
def test_what_is_cut_is_the_server_that_was_named_and_nothing_else(rest, servers, data):
    whole = {**rest, "mcpServers": servers}
    name = data.draw(st.sampled_from(sorted(servers)))
    indent, apart = (
        data.draw(st.sampled_from([None, 1, "\t"])),
        data.draw(st.sampled_from([(",", ":"), (" ,  ", " : ")])),
    )
    text = json.dumps(whole, indent=indent, separators=apart, ensure_ascii=data.draw(st.booleans()))
    if not text.isprintable() and any(0xD800 <= ord(character) < 0xE000 for character in text):
        return  # no UTF-8
    left = json.loads(cut_server(Host.CURSOR, text.encode(), name))
    assert left == {**whole, "mcpServers": {other: entry for other, entry in servers.items() if other != name}}
    assert list(left) == list(whole)
