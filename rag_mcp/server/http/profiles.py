"""One server for each access profile, over one knowledge base each; what is large and the same for all is shared.

Nothing that answers under one profile is reachable from another: a question goes to the server of its caller's profile, and
that one was opened with this profile as a process of its own would have been.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from rag_mcp.config import Config
from rag_mcp.embedders.lazy import LazyEmbedder
from rag_mcp.server.mcp import Knowledge, ToolRunner, build_server, open_knowledge
from rag_mcp.server.tools import tools_for
from rag_mcp.telemetry import Telemetry

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

__all__ = ["Profiles", "Served"]


@dataclass(frozen=True, slots=True)
class Served:
    """What answers under one profile: directly, as its tools do, and by the protocol."""

    knowledge: Knowledge
    tools: ToolRunner
    protocol: StreamableHTTPSessionManager


class Profiles:
    """Opened when a profile is first asked for, and open until the end. ``notes`` are what the process has to say of itself
    in a status."""

    def __init__(self, config: Config, *, notes: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._config = config
        self._notes = notes
        self._embedder = LazyEmbedder(config)
        self._served: dict[str, Served] = {}
        self._opening = anyio.Lock()
        self._tasks: TaskGroup | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            yield
            tasks.cancel_scope.cancel()

    async def of(self, profile: str) -> Served:
        """What answers under a profile of this name; as everywhere, a name that is not defined is restricted."""
        if profile in self._served:
            return self._served[profile]
        async with self._opening:
            if profile not in self._served:
                assert self._tasks is not None
                self._served[profile] = await self._tasks.start(self._serve, profile)
            return self._served[profile]

    async def _serve(self, profile: str, *, task_status: TaskStatus[Served]) -> None:
        """Keep one open. A task of its own: what the SDK enters has to be left by the task that entered it."""
        config = replace(self._config, profile=profile)
        knowledge = await anyio.to_thread.run_sync(partial(open_knowledge, config, embedder=self._embedder))
        telemetry = Telemetry()
        tools = ToolRunner(knowledge, telemetry, tools_for(knowledge.about()), self._notes)
        server = build_server(knowledge, transport="streamable-http", telemetry=telemetry, notes=self._notes)
        # Stateless: a client goes on after a restart of this process. JSON: an answer is one body.
        protocol = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        async with protocol.run():
            task_status.started(Served(knowledge, tools, protocol))
            await anyio.sleep_forever()

    def close(self) -> None:
        """Let go of the stores; blocks while one is being opened."""
        for served in self._served.values():
            served.knowledge.close()
