"""What a row of the gates is, how it is kept, and what is said of two of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from memforest.evaluation.measures import mean_of
from proportions import Share

__all__ = ["SEED", "Row", "counted", "of_questions", "of_rounds", "verdict"]

SEED = 7
"""Of the bootstrap's draws."""
LOUD = 1.3
"""Processor time is up to this much longer, or shorter, when others use the machine: less is no difference."""

MEASURED = ("%", "ms", "MB")
"""Units of what is measured; the others say what is counted."""

Better = Literal["more", "less"]
Noise = Literal["none", "questions", "rounds"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Args:
        name: what it is, for somebody who does not know the package.
        unit: of the figure.
        value: the mean over questions, the median over rounds, or a count.
        better: whether more of it is better, or less.
        noise: what it would differ by if measured again: nothing, by other questions, or from round to round.
        low: the lower end of the 95% interval over questions; the least of the rounds.
        high: the upper end; the most of the rounds.
        n: questions or rounds.
        each: thousandths, one for each question in order, so that two versions can be compared question by question.
        fixed: whether it is of work that no version changes, which tells a slower machine from slower code.
    """

    name: str
    unit: str
    value: float
    better: Better
    noise: Noise = "none"
    low: float = 0.0
    high: float = 0.0
    n: int = 1
    each: tuple[int, ...] = ()
    fixed: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the row for a file."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        found |= {name: _short(found[name]) for name in ("value", "low", "high")}
        return {**found, "each": " ".join(map(str, self.each))}

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Row:
        """Return the row of a file."""
        return cls(**{**kept, "each": tuple(map(int, kept["each"].split()))})

    @property
    def shown(self) -> str:
        """The figure as text, with its unit where the name of the row does not say it."""
        unit = f" {self.unit}" if self.unit in MEASURED else ""
        return f"{_text(self.value, self.unit)}{unit}"

    @property
    def spread(self) -> str:
        """The noise as text: an interval, or the least and the most of the rounds; and of how many questions or rounds."""
        return (
            "" if self.noise == "none" else f"{_text(self.low, self.unit)} to {_text(self.high, self.unit)}"
        )


def of_questions(name: str, values: Sequence[float], better: Better = "more") -> Row:
    """Return the row of a measure with a value in [0, 1] for each question: its mean in percent, with its interval."""
    if set(values) <= {0.0, 1.0}:
        low, high = Share(round(sum(values)), len(values)).bounds
    else:
        low, high = (100 * bound for bound in mean_of(values, [""] * len(values), SEED).questions)
    mean = 100 * statistics.fmean(values)
    each = tuple(round(1000 * value) for value in values)
    return Row(name, "%", mean, better, "questions", low, high, len(values), each)


def of_rounds(name: str, unit: str, rounds: Sequence[float], *, fixed: bool = False) -> Row:
    """Return the row of what a thing costs, measured in so many rounds: its median, the least and the most."""
    middle, low, high = statistics.median(rounds), min(rounds), max(rounds)
    return Row(name, unit, middle, "less", "rounds", low, high, len(rounds), fixed=fixed)


def counted(name: str, unit: str, count: float) -> Row:
    """Return the row of a count, which is the same whenever it is taken."""
    return Row(name, unit, count, "less")


def verdict(now: Row, base: Row | None, slower: float = 1.0) -> str:
    """Say how a figure stands to that of the base.

    Args:
        now: the figure.
        base: that of the base, if it is known.
        slower: how much longer this machine takes now for the same work than the one of the base did.
    """
    if base is None:
        return "no figure at base"
    if now.noise == "questions":
        return _of_questions(now, base)
    if now.fixed:
        return f"x {now.value / base.value:.2f} for the machine"
    if now.noise == "rounds":
        return _of_rounds(now, base, slower)
    if now.value == base.value:
        return "same"
    change = f"{now.value / base.value - 1:+.1%} " if base.value else ""
    return change + _word(now.value > base.value, now.better)


def _of_questions(now: Row, base: Row) -> str:
    if len(now.each) != len(base.each):
        apart = now.low > base.high or now.high < base.low
        told = _word(now.value > base.value, now.better) if apart else "not told from chance"
        return f"{now.value - base.value:+.1f}, other questions: {told}"
    changes = (np.array(now.each) - np.array(base.each)) / 10
    if not changes.any():
        return "same, question by question"
    low, high = mean_of(changes, [""] * len(changes), SEED).questions
    told = "not told from chance" if low <= 0 <= high else _word(low > 0, now.better)
    return f"{changes.mean():+.1f} [{low:+.1f}, {high:+.1f}] {told}"


def _of_rounds(now: Row, base: Row, slower: float) -> str:
    """Say by what factor, and whether it counts: as it is, and in proportion to how fast the machine was each time.

    A machine that others use is slower at one kind of work and not at another, so that one of the two alone says little.
    """
    factors = [now.value / by / base.value if base.value else 1.0 for by in (1.0, slower)]
    told = {
        _word(factor > 1, now.better)
        if (now.low / by > base.high or now.high / by < base.low) and not 1 / LOUD <= factor <= LOUD
        else "within the noise"
        for by, factor in zip((1.0, slower), factors, strict=True)
    }
    return f"x {factors[0]:.2f} {told.pop() if len(told) == 1 else 'within the noise'}"


def _word(more: bool, better: Better) -> str:
    return "better" if more == (better == "more") else "worse"


def _short(value: float) -> float:
    """Return a value with as many digits as are worth keeping."""
    return float(f"{value:.5g}") if value < 10_000 else round(value)


def _text(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1f}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
