"""A chat model for tests that says what it is told to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from memforest.errors import ModelError
from memforest.models.calls import Calls
from memforest.ports import ChatReply, ChatRequest

Said = str | ChatReply | ModelError


class Scripted:
    """Answers with the next of `replies`, or with what `answer` returns; an error is raised."""

    model_id = "scripted"

    def __init__(
        self, *replies: Said, answer: Callable[[ChatRequest], Said] | None = None, delay_s: float = 0.0
    ) -> None:
        self.replies = list(replies)
        self.answer = answer
        self.delay_s = delay_s
        self.requests: list[ChatRequest] = []
        self.cancelled = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply that the test asks for."""
        self.requests.append(request)
        said = self.answer(request) if self.answer else self.replies.pop(0)
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(said, ModelError):
            raise said
        return said if isinstance(said, ChatReply) else ChatReply(said)

    @property
    def calls(self) -> Calls:
        """A way to this model."""
        return Calls(self)

    def data(self, index: int = -1) -> str:
        """Return the data message of a request."""
        return self.requests[index].messages[1].content


def run(awaitable: Any) -> Any:
    """Run a coroutine to its end."""
    return asyncio.run(awaitable)
