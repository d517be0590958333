"""Memories served by MCP for tests: in memory, and keys without a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client
from mcp.types import CallToolResult
from tests_long.worlds import fast_config

from memforest import AsyncMemForest
from memforest.errors import RateLimitError, UnauthenticatedError
from memforest.server.auth import OpenAccess, Principal
from memforest.server.mcp.server import MemoryServer

__all__ = ["ERAS", "Keys", "call", "serve", "text_of"]

T = TypeVar("T")

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""How a client connects -> the version that comes of it."""


class Keys(OpenAccess):
    """Access by keys that a test names; counts requests, and lets `most` of them pass."""

    def __init__(self, forest: AsyncMemForest, keys: dict[str, Principal], most: int = 1000) -> None:
        super().__init__(forest)
        self.keys = keys
        self.left = most

    async def identify(self, credential: str | None) -> Principal:
        """Return whose key it is."""
        if credential is None or credential not in self.keys:
            raise UnauthenticatedError("give a key that holds")
        return self.keys[credential]

    async def count(self, principal: Principal) -> None:
        """Count down."""
        self.left -= 1
        if self.left < 0:
            raise RateLimitError("too many requests", retry_after_s=7)


@asynccontextmanager
async def serving(
    directory: Path, era: str, user: str | None, tools: Any, settings: dict[str, Any], options: dict[str, Any]
) -> AsyncIterator[Client]:
    """Give a client of a server in the same process."""
    async with AsyncMemForest(directory, fast_config(**settings)) as forest:
        server = MemoryServer(OpenAccess(forest), user=user, tools=tools)
        async with Client(server, mode=era, **options) as client:
            yield client


def serve(
    directory: Path,
    work: Callable[[Client], Awaitable[T]],
    *,
    era: str = "auto",
    user: str | None = "ana",
    tools: str = "default",
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> T:
    """Return what comes of work with a client of a server over memories in a directory."""

    async def run() -> T:
        async with serving(directory, era, user, tools, settings or {}, options) as client:
            return await work(client)

    return asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured content of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    found: dict[str, Any] = result.structured_content
    return found


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text
