"""The MCP server on stdio, for hosts that are configured with the path of a script."""

from __future__ import annotations

import sys

from rag_mcp.__main__ import run

if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(f"{sys.argv[0]} is the server and takes no arguments; the commands are those of rag-mcp.")
    sys.exit(run())
