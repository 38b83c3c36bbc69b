"""How each host names a server over HTTP in its configuration, with the token where no file keeps it. Pure."""

from __future__ import annotations

from rag_mcp.server.hosts import Host
from rag_mcp.server.registration import Block

__all__ = ["TOKEN_VARIABLE", "http_block"]

TOKEN_VARIABLE = "RAGMCP_TOKEN"  # RAG_MCP_* are settings of a server
_ASKED = "rag-mcp-token"


def http_block(host: Host, name: str, url: str) -> Block | None:
    """The part of ``host``'s configuration for a server at ``url``. None for a host that would want the token itself in its
    file (Zed puts in no variables) or takes no address there (Claude Desktop): for these is ``connect``.
    """
    if host in (Host.CLAUDE_DESKTOP, Host.ZED):
        return None
    if host is Host.CODEX:
        return {"mcp_servers": {name: {"url": url, "bearer_token_env_var": TOKEN_VARIABLE}}}
    if host is Host.VSCODE:
        ask = {"type": "promptString", "id": _ASKED, "description": "Token of rag-mcp", "password": True}
        return {"inputs": [ask], "servers": {name: _entry(url, f"${{input:{_ASKED}}}", typed=True)}}
    if host is Host.CURSOR:
        return {"mcpServers": {name: _entry(url, f"${{env:{TOKEN_VARIABLE}}}", typed=False)}}
    return {"mcpServers": {name: _entry(url, f"${{{TOKEN_VARIABLE}}}", typed=True)}}


def _entry(url: str, token: str, *, typed: bool) -> Block:
    return {**({"type": "http"} if typed else {}), "url": url, "headers": {"Authorization": f"Bearer {token}"}}
