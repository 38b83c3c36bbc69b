"""How hosts are told of a warm server: each in its own form, and no token in any file."""

from __future__ import annotations

import json
import tomllib

import pytest
from http_daemon import Daemon, Place

from rag_mcp.server.hosts import Host
from rag_mcp.server.http.entries import http_block

URL = "https://notes.example.org/mcp"


@pytest.mark.parametrize(
    ("host", "block"),
    [
        (
            Host.CLAUDE_CODE,
            {
                "mcpServers": {
                    "notes": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${RAGMCP_TOKEN}"}}
                }
            },
        ),
        (
            Host.CURSOR,
            {"mcpServers": {"notes": {"url": URL, "headers": {"Authorization": "Bearer ${env:RAGMCP_TOKEN}"}}}},
        ),
        (Host.CODEX, {"mcp_servers": {"notes": {"url": URL, "bearer_token_env_var": "RAGMCP_TOKEN"}}}),
        (
            Host.VSCODE,
            {
                "inputs": [
                    {"type": "promptString", "id": "rag-mcp-token", "description": "Token of rag-mcp", "password": True}
                ],
                "servers": {
                    "notes": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${input:rag-mcp-token}"}}
                },
            },
        ),
        (Host.ZED, None),
        (Host.CLAUDE_DESKTOP, None),
    ],
)
def test_each_host_is_told_of_an_address_in_its_own_form_and_the_token_is_in_none(host, block):
    assert http_block(host, "notes", URL) == block


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path).fill()


def test_the_block_names_the_running_server_or_the_usual_port(place):
    usual = place.run("client-config", "--host", "claude-code", "--http")
    assert '"url": "http://127.0.0.1:8377/mcp"' in usual.stdout and "rag-mcp token add" in usual.stderr
    token = place.token("auditor")
    with Daemon(place) as daemon:
        done = place.run("client-config", "--host", "codex", "--http", "--name", "notes")
        assert tomllib.loads(done.stdout)["mcp_servers"]["notes"]["url"] == daemon.url
        assert token not in done.stdout + done.stderr
    named = place.run("client-config", "--host", "cursor", "--http", "--url", URL)
    (entry,) = json.loads(named.stdout)["mcpServers"].values()
    assert entry["url"] == URL


@pytest.mark.parametrize("host", ["claude-desktop", "zed"])
def test_a_host_that_would_keep_the_token_in_its_file_starts_the_bridge(place, tmp_path, host):
    file = tmp_path / "host.json"
    arguments = ("client-config", "--host", host, "--http", "--profile", "engineer")
    for _ in range(2):
        assert place.run(*arguments, "--write", "--file", file).returncode == 0
    (section,) = json.loads(file.read_text()).values()
    (entry,) = section.values()
    assert entry["args"] == ["-m", "rag_mcp", "connect"] and entry["env"]["RAG_MCP_CLIENT_PROFILE"] == "engineer"
    assert place.run(*arguments, "--url", URL).returncode == 2
    back = place.run("client-config", "--host", host, "--profile", "engineer", "--write", "--file", file)
    assert back.returncode == 0 and json.loads(file.read_text())[next(iter(json.loads(file.read_text())))]
    assert "connect" not in file.read_text()


def test_what_can_not_be_done_is_refused(place):
    for arguments in (("--url", URL), ("--http", "--host", "codex", "--write")):
        assert place.run("client-config", *arguments).returncode == 2
