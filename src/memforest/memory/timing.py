"""Wall time by step, as results report it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Timer"]


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
