"""The front door for people: one module a group of commands."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``rag-mcp``: what the console scripts call. The bridge, and a question that a running server answers, need none of
    the command line's libraries."""
    if sys.argv[1:] == ["connect"]:
        from rag_mcp.server.http.bridge import main as bridge

        sys.exit(bridge())
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    if sys.argv[1:2] == ["query"]:
        from rag_mcp.cli.warm import answered

        if answered(sys.argv[2:]):
            sys.exit(0)
    from rag_mcp.cli.app import main as run

    run()
