"""``connect``: the warm server as a process on stdio."""

from __future__ import annotations

import sys

__all__ = ["connect"]


def connect() -> None:
    """Answer a host on stdio from the warm server, which is started if none runs. Settings: the environment's."""
    from rag_mcp.server.http.bridge import main

    sys.exit(main())
