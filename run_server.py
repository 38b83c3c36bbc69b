"""The MCP server on stdio, for hosts that are configured with the path of a script."""

from __future__ import annotations

import sys

from rag_mcp.__main__ import run

if __name__ == "__main__":
    sys.exit(run())
