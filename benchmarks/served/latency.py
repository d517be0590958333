"""One question at a time: in one's own process, over REST, and over MCP on stdio, on the same memory."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memforest import AsyncMemForest, Config
from served.http import Connection, call
from served.processes import command, serving

__all__ = ["latencies", "paired", "percentile"]

WARM_UP = 20
SAMPLES = 2_000
"""Of the bootstrap."""

Ask = Callable[[str], Awaitable[object]]


async def latencies(
    directory: Path, user: str, questions: Sequence[str], config: Config
) -> Mapping[str, list[float]]:
    """Ask every question each way, one after the other, and return the milliseconds of each way, in order.

    The ways take turns question by question, in an order drawn anew for each, so that what the machine does meanwhile meets all.
    """
    async with AsyncExitStack() as stack:
        forest = await stack.enter_async_context(AsyncMemForest(directory, config))
        server = stack.enter_context(serving(directory, **_environment(config)))
        rest = await stack.enter_async_context(Connection(server.host, server.port))
        tools = await _tools(stack, directory, user, config)
        path = f"/v1/users/{quote(user, safe='')}/search"

        async def over_rest(question: str) -> object:
            return await call(rest, "POST", path, {"question": question, "top_k": 10})

        async def in_process(question: str) -> object:
            return await forest.user(user).search(question, top_k=10)

        async def over_mcp(question: str) -> object:
            return await tools.call_tool("search_memory", {"query": question, "top_k": 10})

        ways: dict[str, Ask] = {"in process": in_process, "REST": over_rest, "MCP stdio": over_mcp}
        for question in questions[:WARM_UP]:
            for ask in ways.values():
                await ask(question)
        took: dict[str, list[float]] = {name: [] for name in ways}
        rng = random.Random(7)
        for question in questions[WARM_UP:]:
            for name in rng.sample(list(ways), len(ways)):
                began = time.perf_counter()
                await ways[name](question)
                took[name].append((time.perf_counter() - began) * 1e3)
        return took


async def _tools(stack: AsyncExitStack, directory: Path, user: str, config: Config) -> Any:
    """Return the official client's session with a server on stdio."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    first, *words = command("mcp", "--dir", str(directory), "--user", user)
    about = StdioServerParameters(command=first, args=words, env=_environment(config))
    read, write = await stack.enter_async_context(stdio_client(about))
    session = await stack.enter_async_context(ClientSession(read, write))
    await session.initialize()
    return session


def _environment(config: Config) -> dict[str, str]:
    return {"MEMFOREST_EMBEDDER": str(config.embedder)}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def paired(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return the difference of the medians, and its 95 % interval over resampled questions."""
    rng = random.Random(7)
    places = range(len(one))
    drawn = []
    for _ in range(SAMPLES):
        sample = rng.choices(places, k=len(one))
        drawn.append(
            statistics.median(one[at] for at in sample) - statistics.median(other[at] for at in sample)
        )
    drawn.sort()
    low, high = drawn[int(0.025 * SAMPLES)], drawn[int(0.975 * SAMPLES)]
    return statistics.median(one) - statistics.median(other), low, high
