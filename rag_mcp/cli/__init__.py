"""The front door for people: one module a group of commands."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``rag-mcp``: what the console scripts call. The bridge starts without the command line's libraries."""
    if sys.argv[1:] == ["connect"]:
        from rag_mcp.server.http.bridge import main as bridge

        sys.exit(bridge())
    from rag_mcp.cli.app import main as run

    run()
