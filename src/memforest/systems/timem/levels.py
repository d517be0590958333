"""The levels of the tree: their names and numbers, and the calendar windows that they stand for.

A node's `level` is the place of its name in `LEVELS`, so that levels which a memory does not write are left out of its tree
and no number changes. The paper's L1 to L5 are the levels 0 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from memforest.calendar import Unit

LEVELS: Sequence[str] = ("segment", "session", "day", "week", "month", "year", "root")
SEGMENT, SESSION, DAY, WEEK, MONTH, YEAR, ROOT = range(len(LEVELS))

MEMORY_LEVELS: Sequence[str] = LEVELS[:ROOT]
"""Those that memories may be written on."""

UNITS: Mapping[int, Unit] = MappingProxyType(
    {DAY: "day", WEEK: "week_of_month", MONTH: "month", YEAR: "year"}
)
"""Level -> its calendar windows. ISO weeks are cut at month ends: a whole one may lie in two months."""


def windowed(levels: Sequence[str]) -> list[int]:
    """Return the levels of a tree that stand for calendar windows, the lowest first; the year always is one of them.

    Args:
        levels: the names of those that memories are written on.
    """
    return [level for level in UNITS if LEVELS[level] in levels or level == YEAR]


def unwritten(levels: Sequence[str]) -> list[int]:
    """Return the levels of a tree that no memories are written on, the lowest first.

    Args:
        levels: the names of those that memories are written on.
    """
    return [level for level in (YEAR, ROOT) if LEVELS[level] not in levels]
