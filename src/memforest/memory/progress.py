"""Telling how far a long operation has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Report", "no_report"]

Report = Callable[[str, int, int], object]
"""Called with what is being made ("vectors", "sessions", ...), how many of them are done, and how many there are in all."""


def no_report(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Progress:
    """Counts the items of one kind, and reports each step.

    Args:
        what: the kind.
        total: how many there are.
        report: called with both and the count.
    """

    what: str
    total: int
    report: Report
    done: int = 0

    def __post_init__(self) -> None:
        if self.total:
            self.report(self.what, 0, self.total)

    def add(self, count: int = 1) -> None:
        """Count so many more."""
        self.done += count
        self.total = max(self.total, self.done)
        self.report(self.what, self.done, self.total)
