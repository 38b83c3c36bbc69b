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

from rag_mcp.clients import (
    SERVER_NAME,
    Host,
    client_block,
    default_path,
    parse_host,
    render_block,
    server_env,
    write_config,
)
from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, InvalidArgument

WITH_FILE = [host for host in Host if host is not Host.GENERIC]
JSON_HOSTS = [host for host in WITH_FILE if host is not Host.CODEX]
NOON = datetime(2026, 3, 4, 12, 0, 0)
SECTION = {Host.VSCODE: "servers", Host.ZED: "context_servers", Host.CODEX: "mcp_servers"}


def block_for(host: Host, **env: str) -> dict:
    return client_block(host, command="/venv/bin/python", args=["-m", "rag_mcp"], env=env or {"RAG_MCP_DB_PATH": "/db"})


def entry_in(path: Path, host: Host) -> dict:
    text = path.read_text(encoding="utf-8-sig")
    whole = tomllib.loads(text) if host is Host.CODEX else json.loads(text)
    return whole[SECTION.get(host, "mcpServers")][SERVER_NAME]


# --- the block -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [Host.GENERIC, Host.CLAUDE_DESKTOP, Host.CURSOR])
def test_most_hosts_list_a_command_under_mcp_servers(host):
    assert block_for(host) == {
        "mcpServers": {
            "rag-mcp": {"command": "/venv/bin/python", "args": ["-m", "rag_mcp"], "env": {"RAG_MCP_DB_PATH": "/db"}}
        }
    }


def test_each_host_with_a_form_of_its_own_gets_it():
    assert block_for(Host.CLAUDE_CODE)["mcpServers"]["rag-mcp"]["type"] == "stdio"
    assert block_for(Host.VSCODE)["servers"]["rag-mcp"]["type"] == "stdio"
    assert block_for(Host.ZED)["context_servers"]["rag-mcp"]["command"] == "/venv/bin/python"
    assert "type" not in block_for(Host.ZED)["context_servers"]["rag-mcp"]


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
        db_path=tmp_path / "rag_mcp.store",
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
    assert default_path(host, platform=platform, home=Path("h"), env=env) == Path(expected)


def test_the_generic_host_has_no_file():
    with pytest.raises(InvalidArgument, match="paste"):
        default_path(Host.GENERIC, platform="linux", home=Path("h"), env={})


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
    assert list(written[section]) == ["weather", "rag-mcp"]
    del written[section]["rag-mcp"]
    assert written == theirs
    assert '\n    "zeta"' in path.read_text(encoding="utf-8")
    assert result.backup == tmp_path / "file.20260304-120000.bak"
    assert result.backup.read_bytes() == before


def test_what_the_user_added_to_our_entry_stays_and_our_settings_are_renewed(tmp_path):
    path = tmp_path / "mcp.json"
    ours = {"command": "/old", "args": [], "env": {"RAG_MCP_CLIENT_PROFILE": "engineer"}, "disabled": True}
    path.write_text(json.dumps({"mcpServers": {"rag-mcp": ours}}), encoding="utf-8")
    write_config(path, Host.CURSOR, block_for(Host.CURSOR), now=NOON)
    assert entry_in(path, Host.CURSOR) == {
        "command": "/venv/bin/python",
        "args": ["-m", "rag_mcp"],
        "env": {"RAG_MCP_CLIENT_PROFILE": "engineer", "RAG_MCP_DB_PATH": "/db"},
        "disabled": True,
    }


def test_two_changes_in_one_second_leave_two_backups(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    first = write_config(path, Host.CURSOR, block_for(Host.CURSOR, A="1"), now=NOON)
    second = write_config(path, Host.CURSOR, block_for(Host.CURSOR, A="2"), now=NOON)
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


@pytest.mark.parametrize("content", ['{"mcpServers": []}', '{"mcpServers": {"rag-mcp": "x"}}', '{"mcpServers": null}'])
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
RAG_MCP_DB_PATH = "/elsewhere"

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
        'mcp_servers = { rag-mcp = { command = "/old" } }\n',
        'mcp_servers.rag-mcp.command = "/old"\n',
        '[mcp_servers]\nrag-mcp = { command = "/old" }\n',
        'text = """\n[mcp_servers.rag-mcp]\n"""\n\n[mcp_servers.rag-mcp]\ncommand = "/old"\n',
        "mcp_servers = 3\n",
        "not toml",
        '[mcp_servers.rag-mcp]\ncommand = "/old"\nsince = 2026-01-01\n',
    ],
)
def test_toml_that_cannot_be_edited_for_certain_is_refused_untouched(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="by hand"):
        write_config(path, Host.CODEX, block_for(Host.CODEX), now=NOON)
    assert path.read_text(encoding="utf-8") == content
    assert len(list(tmp_path.iterdir())) == 1
