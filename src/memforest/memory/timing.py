"""Wall time by step, as results report it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Timer:
    """Wall milliseconds per step."""

    ms: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, started: float) -> None:
        """Add the time since `started` (of `time.perf_counter`)."""
        self.ms[step] = self.ms.get(step, 0.0) + (time.perf_counter() - started) * 1000

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time that a block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(step, started)


async def timed(timer: Timer, step: str, job: Callable[[], Awaitable[T]]) -> T:
    """Run a job and add its wall time to a step; a task that is cancelled before it starts makes none."""
    started = time.perf_counter()
    try:
        return await job()
    finally:
        timer.add(step, started)
