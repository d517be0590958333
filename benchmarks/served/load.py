"""Many requests at once, and very many one after the other."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from memforest import AsyncMemForest, Config
from served.http import Connection, call
from served.processes import serving

__all__ = ["WRITES", "Soaked", "soaked", "throughput"]

READERS = 8
STEPS = 10
"""Times at which the resident set is looked at."""
WRITES = 0.02
"""Share of the requests of a long run that add a turn."""


async def _flight(
    questions: Sequence[str],
    width: int,
    ask: Callable[[int, str], Awaitable[object]],
    seconds: float = math.inf,
) -> float:
    """Ask all questions, so many at once, and return how many a second were answered; after some seconds ask no more."""
    waiting = list(reversed(questions))
    began = time.perf_counter()

    async def one(lane: int) -> None:
        while waiting and time.perf_counter() - began < seconds:
            await ask(lane, waiting.pop())

    await asyncio.gather(*(one(lane) for lane in range(width)))
    return (len(questions) - len(waiting)) / (time.perf_counter() - began)


async def throughput(
    directory: Path, user: str, questions: Sequence[str], config: Config, width: int, rounds: int
) -> list[tuple[float, float]]:
    """Return requests a second, in process and over REST, of each round; both ask the same questions, new in each round."""
    path = f"/v1/users/{quote(user, safe='')}/search"
    share = len(questions) // rounds
    found = []
    with serving(
        directory, ["--rate", "none", "--tenant-rate", "none"], MEMFOREST_EMBEDDER=str(config.embedder)
    ) as server:
        lanes = [Connection(server.host, server.port) for _ in range(width)]

        async def over_rest(lane: int, question: str) -> object:
            return await call(lanes[lane], "POST", path, {"question": question, "top_k": 10})

        async with AsyncMemForest(directory, config) as forest:

            async def in_process(_lane: int, question: str) -> object:
                return await forest.user(user).search(question, top_k=10)

            await _flight(questions[:width], width, over_rest)
            await _flight(questions[:width], width, in_process)
            for at in range(rounds):
                part = questions[at * share : (at + 1) * share]
                found.append((await _flight(part, width, in_process), await _flight(part, width, over_rest)))
        for lane in lanes:
            await lane.close()
    return found


@dataclass(slots=True)
class Soaked:
    """What very many requests left behind."""

    requests: int = 0
    refused: int = 0
    resident_mb: list[float] = field(default_factory=list)
    open_files: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        """The resident set at the end beside that after the first step, when everything is imported and read."""
        return self.resident_mb[-1] / self.resident_mb[0] - 1


async def soaked(
    directory: Path,
    users: Sequence[str],
    questions: Sequence[str],
    config: Config,
    requests: int,
    minutes: float = math.inf,
    writes: float = WRITES,
) -> Soaked:
    """Send requests to some users' memories, `READERS` at once, and look at the server ten times on the way.

    Args:
        directory: of the memories.
        users: who have one.
        questions: drawn from.
        config: of the server.
        requests: how many.
        minutes: send no more of them after that.
        writes: share of the requests that add a turn.
    """
    told = Soaked()
    rng = random.Random(11)
    with serving(
        directory, ["--rate", "none", "--tenant-rate", "none"], MEMFOREST_EMBEDDER=str(config.embedder)
    ) as server:
        lanes = [Connection(server.host, server.port) for _ in range(READERS)]

        async def one(lane: int, _question: str) -> None:
            user = quote(rng.choice(users), safe="")
            question = rng.choice(questions)
            if rng.random() < writes:
                body = {"content": question.replace("?", "."), "timestamp": "2025-05-05T10:00:00Z"}
                status, _ = await lanes[lane].request("POST", f"/v1/users/{user}/messages", body)
            elif rng.random() < 0.5:
                status, _ = await lanes[lane].request("GET", f"/v1/users/{user}/facts?limit=20")
            else:
                status, _ = await lanes[lane].request(
                    "POST", f"/v1/users/{user}/search", {"question": question, "top_k": 10}
                )
            told.requests += 1
            told.refused += status >= 300

        began = time.perf_counter()
        for _ in range(STEPS + 1):
            await _flight(["?"] * (requests // (STEPS + 1)), READERS, one, minutes * 60 / (STEPS + 1))
            told.resident_mb.append(server.resident_mb)
            told.open_files.append(server.open_files)
        told.seconds = time.perf_counter() - began
        for lane in lanes:
            await lane.close()
    return told
