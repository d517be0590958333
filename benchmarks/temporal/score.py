"""Scoring: is a ranked evidence item right, and how sure are the averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from temporal.phrasing import contains
from temporal.questions import Question, TurnRef

__all__ = ["Estimate", "Evidence", "bootstrap", "first_correct", "is_correct"]

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Evidence:
    """An item a system returned: its text (with its quote, if it has one) and the turns it is from."""

    text: str
    turns: frozenset[TurnRef]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` questions with the bounds of its 95% bootstrap interval; all are 0 without questions."""

    mean: float
    low: float
    high: float
    n: int


def is_correct(question: Question, item: Evidence) -> bool:
    """Tell whether an item comes from an acceptable turn and names the answer."""
    return not question.acceptable.isdisjoint(item.turns) and contains(item.text, question.answer)


def first_correct(question: Question, ranked: Sequence[Evidence]) -> int | None:
    """Return the rank, from 1, of the first correct item, or ``None``."""
    return next((rank for rank, item in enumerate(ranked, 1) if is_correct(question, item)), None)


def bootstrap(values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean and its percentile bootstrap interval, resampling questions with replacement.

    Given paired differences it gives the paired interval.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), ch. 13 (percentile).
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size:
        return Estimate(0.0, 0.0, 0.0, 0)
    draws = np.random.default_rng(seed).integers(0, data.size, (resamples, data.size))
    low, high = np.percentile(data[draws].mean(axis=1), [2.5, 97.5])
    return Estimate(float(data.mean()), float(low), float(high), int(data.size))
