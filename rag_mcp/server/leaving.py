"""How a server process ends: now, and never by unwinding."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable

__all__ = ["leave"]

logger = logging.getLogger(__name__)

_CLOSE_WAIT_S = 1.0


def leave(close: Callable[[], None], code: int) -> None:
    """End the process. Worker threads may be busy or parked for good, and a normal exit would wait for them; readers write
    nothing that could be lost.
    """

    def attempt() -> None:
        try:
            close()
        except BaseException:
            logger.exception("Closing failed")

    closer = threading.Thread(target=attempt, name="rag_mcp close", daemon=True)
    closer.start()
    closer.join(_CLOSE_WAIT_S)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
