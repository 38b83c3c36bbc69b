"""``python -m rag_mcp`` is the command ``rag-mcp``: without a word more, the MCP server on stdio."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line where there is one; a server does not load it."""
    if len(sys.argv) > 1:
        from rag_mcp.cli import main as command

        command()
    return run()


def run() -> int:
    """Serve until the client leaves; return the exit code."""
    try:
        from rag_mcp.server.stdio import main

        return main()
    except KeyboardInterrupt:
        # Interrupted before the server took over signals: an order to stop, not a fault.
        return 0


if __name__ == "__main__":
    sys.exit(main())
