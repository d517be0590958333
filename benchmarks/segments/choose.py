"""Which way to rank is best, with the conversation held out on which it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segments.cells import Table

__all__ = ["HeldOut", "held_out"]


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
    gap: NDArray[np.float64] = np.zeros(len(table.conversation))
    picked = []
    for held in np.unique(table.conversation):
        here = table.conversation == held
        best = max(candidates, key=lambda name: round(float(columns[name][~here].mean()), 6))
        gap[here] = columns[best][here] - columns[base][here]
        picked.append(best)
    return HeldOut(picked, table.spread(gap))
