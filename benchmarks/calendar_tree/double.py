"""A chat model that answers by local rules after a fixed time, and counts its calls by prompt and those behind one another."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.doubles.replies import local_reply, prompt_of

from memforest.ports import ChatReply, ChatRequest

__all__ = ["Counting"]

Reply = Callable[[ChatRequest], str | Awaitable[str]]


@dataclass
class Counting:
    """Counts its calls while it answers; for one event loop.

    Args:
        latency_s: what a call takes, its own work included.
        in_flight: calls that are taken at once; others wait.
        reply: what it answers.
    """

    latency_s: float = 0.0
    in_flight: int = 64
    reply: Reply = local_reply
    model_id: str = "double"
    calls: Counter[str] = field(default_factory=Counter)
    """By prompt, of another request by its step; also those that were not answered."""
    chain: int = 0
    """Calls of which each began when another had ended. Those that wait for one another are no more than that, as one may also
    begin late by chance."""
    most: int = 0
    """Calls that were under way at once, at most."""
    _under_way: int = 0
    _gate: asyncio.Semaphore | None = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer; a call may have waited for those that had ended when it was asked for."""
        depth = self.chain + 1
        self.calls[prompt_of(request) or request.step] += 1
        if self._gate is None:
            self._gate = asyncio.Semaphore(self.in_flight)
        async with self._gate:
            began = time.perf_counter()
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            try:
                made = self.reply(request)
                text = await made if inspect.isawaitable(made) else made
                await asyncio.sleep(max(0.0, began + self.latency_s - time.perf_counter()))
            finally:
                self._under_way -= 1
        self.chain = max(self.chain, depth)
        return ChatReply(text)
