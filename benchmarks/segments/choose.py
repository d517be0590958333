"""Which way to rank is best, with the conversation held out on which it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segments.cells import Table

__all__ = ["HeldOut", "chosen", "held_out"]

Column = NDArray[np.float64]


class HeldOut(NamedTuple):
    """What comes of choosing on all conversations but one and measuring on that one, for each in turn."""

    picked: Sequence[str]
    """For each conversation."""
    gap: dict[str, Any]
    """Of the chosen ways to another one, in points: the mean, and intervals over questions and conversations."""


def held_out(table: Table, candidates: Sequence[str], base: str, measure: str) -> HeldOut:
    """Choose by the mean of a measure on the other conversations; of equal ways the first.

    Args:
        table: of all questions.
        candidates: names of ways to rank, the simpler ones first.
        base: the way that the choice is compared with.
        measure: see `Table.column`.
    """
    columns = {name: table.column(name, measure) for name in (*candidates, base)}
    picked, gap = chosen({name: columns[name] for name in candidates}, columns[base], table.conversation)
    return HeldOut(picked, table.spread(gap))


def chosen(
    columns: Mapping[str, Column], base: Column, conversation: NDArray[np.int64]
) -> tuple[list[str], Column]:
    """Return which way is chosen for each conversation by the others, and the gap of the chosen ones to another way, by question.

    Args:
        columns: a measure of every question, by way, the simpler ways first.
        base: the measure of the way that the choice is compared with.
        conversation: of every question.
    """
    gap: Column = np.zeros(len(conversation))
    picked = []
    for held in np.unique(conversation):
        here = conversation == held
        best = max(columns, key=lambda name: round(float(columns[name][~here].mean()), 6))
        gap[here] = columns[best][here] - base[here]
        picked.append(best)
    return picked, gap
