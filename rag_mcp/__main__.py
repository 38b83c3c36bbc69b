"""``python -m rag_mcp`` is the MCP server on stdio."""

from __future__ import annotations

import sys


def run() -> int:
    """Serve until the client leaves; return the exit code."""
    try:
        from rag_mcp.server import main

        return main()
    except KeyboardInterrupt:
        # Interrupted before the server took over signals: an order to stop, not a fault.
        return 0


if __name__ == "__main__":
    sys.exit(run())
