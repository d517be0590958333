"""A chat model that answers by local rules after a fixed time, and counts its calls by prompt and those that wait for one another."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from memforest.models.base import ChatReply, ChatRequest
from memforest.steps.llm.prompt import all_prompts
from memforest.testing import local_reply

__all__ = ["Counting", "prompt_of"]

Reply = Callable[[ChatRequest], str | Awaitable[str]]


def prompt_of(request: ChatRequest) -> str:
    """Return the id of the prompt by which a request was made; its step, if it was made by none of the package's."""
    first = request.messages[0].content
    return next((one.id for one in all_prompts() if one.first.content == first), request.step)


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
    """By prompt, also those that were not answered."""
    chain: int = 0
    """Calls of which each began when the one before had ended."""
    most: int = 0
    """Calls that were under way at once, at most."""
    _under_way: int = 0
    _gate: asyncio.Semaphore | None = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer; a call waits for those that had ended when it was asked for."""
        depth = self.chain + 1
        self.calls[prompt_of(request)] += 1
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
