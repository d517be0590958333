"""A summariser as a server would be one: it counts what it is asked, says what it was told, and fails where it is to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from zlib import crc32

from memforest.errors import ModelError, StepError
from memforest.records import SummaryRequest

__all__ = ["Writer", "text_of"]


def text_of(request: SummaryRequest) -> str:
    """Return what is written: level and window, and a number that changes with the inputs."""
    return f"{request.prompt} of {request.window or request.start.isoformat()} {crc32(repr(request.inputs).encode())}"


class Writer:
    """Writes a line that names level and window, with the first words of each input.

    Args:
        fails: says of a request why it cannot be done; None where it can.
        wait_s: how long each request takes.
    """

    name = "writer"
    remote = True

    def __init__(
        self, fails: Callable[[SummaryRequest], str | None] = lambda _: None, *, wait_s: float = 0.0
    ) -> None:
        self.asked: list[SummaryRequest] = []
        self.fails, self.wait_s = fails, wait_s

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the texts, and an error in the place of one that is to fail."""
        made: list[str | ModelError] = []
        for one in requests:
            self.asked.append(one)
            await asyncio.sleep(self.wait_s)
            why = self.fails(one)
            made.append(text_of(one) if why is None else StepError(why))
        return made

    def counts(self) -> Counter[str]:
        """Return how often each prompt was asked since the last call."""
        found = Counter(one.prompt for one in self.asked)
        self.asked.clear()
        return found
