"""What came of every question, in every way in which it was asked, and how sure the means and differences are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calendar_tree.told import MEASURES
from locomo.conversations import Conversation
from locomo.measures import Interval, interval

__all__ = ["Spread", "Table"]

Row = NDArray[np.float64]
Rows = NDArray[np.int64]


class Spread(NamedTuple):
    """A mean in percent, or a difference in points, with its 95 % intervals."""

    mean: float
    questions: Interval
    conversations: Interval

    def line(self, sign: str = "") -> str:
        """Return it as the tables show it: over questions in brackets, over conversations in parentheses."""
        (low, high), (wide_low, wide_high) = self.questions, self.conversations
        return f"{self.mean:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}] ({wide_low:{sign}.1f}, {wide_high:{sign}.1f})"


def _percent(values: Interval) -> Interval:
    return 100 * values[0], 100 * values[1]


def _is_share(measure: str) -> bool:
    return measure.startswith(("leaves", "found", "told"))


class Table:
    """The values of every question in every way.

    Args:
        conversations: with the questions, in order.
        seed: of the bootstrap's draws.
    """

    def __init__(self, conversations: Sequence[Conversation], seed: int) -> None:
        sizes = [len(one.questions) for one in conversations]
        self.conversation: Rows = np.repeat(np.arange(len(conversations)), sizes)
        self.category: Rows = np.array(
            [q.category for one in conversations for q in one.questions], dtype=np.int64
        )
        self.seed = seed
        self._rows: dict[str, list[list[float]]] = {}

    def add(self, name: str, values: list[float]) -> None:
        """Add what came of the next question in one way: one value per entry of `MEASURES`."""
        self._rows.setdefault(name, []).append(values)

    def of(self, *categories: int) -> Table:
        """Return the questions of some categories alone."""
        found, kept = Table((), self.seed), np.isin(self.category, categories)
        found.conversation, found.category = self.conversation[kept], self.category[kept]
        for name, rows in self._rows.items():
            found._rows[name] = [row for row, keep in zip(rows, kept.tolist(), strict=True) if keep]
        return found

    def names(self) -> list[str]:
        """Return the ways, as they were added."""
        return list(self._rows)

    def column(self, name: str, measure: str) -> Row:
        """Return a measure of every question.

        Raises:
            ValueError: if not every question was asked so.
        """
        rows = np.array(self._rows[name], dtype=np.float64)
        if len(rows) != len(self.category):
            raise ValueError(f"{name!r} has {len(rows)} values for {len(self.category)} questions")
        return np.asarray(rows[:, MEASURES.index(measure)])

    def mean(self, name: str, measure: str) -> float:
        """Return a mean; of a share, in percent."""
        return float(self.column(name, measure).mean()) * (100 if _is_share(measure) else 1)

    def percentile(self, name: str, measure: str, share: float) -> float:
        """Return a percentile of a count."""
        return float(np.percentile(self.column(name, measure), share))

    def spread(self, name: str, measure: str) -> Spread:
        """Return the mean of a share in percent, with its intervals."""
        return self.spread_of(self.column(name, measure))

    def gap(self, name: str, other: str, measure: str, other_measure: str | None = None) -> Spread:
        """Return the paired difference of two ways in points, with its intervals."""
        return self.spread_of(self.column(name, measure) - self.column(other, other_measure or measure))

    def spread_of(self, values: Row) -> Spread:
        """Return the mean of one share a question, or of one difference of shares, with its intervals."""
        return Spread(
            100 * float(values.mean()),
            _percent(interval(values, None, self.seed)),
            _percent(interval(values, self.conversation, self.seed)),
        )
