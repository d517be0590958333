"""How near turns lie to the days that a question asks about.

A statement that tells its own time counts by that time, another one by the day it was said; a turn counts by the
nearest of its statements. Outside the window nearness falls off by a factor e over a time in proportion to the length of
the window: beside a day that is asked for, the next day is far, and beside a month it is near. (One scale for all windows,
which 14 days were, told the days of a week hardly apart.) A statement about a longer time than is asked for tells
less of it: "in 2023" counts as 1 / 365 on a day. Source of the shape: exponential decay in units of the asked
precision, as H-Mem's overlap (`memforest.ranking.time_overlap`) also measures time in the length of the intervals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.interval import EARLIEST
from memforest.ranking import Scores
from memforest.search.snapshot import OPEN, Snapshot
from memforest.systems.speak import told_by
from memforest.types import QuestionPlan

DAY_MS = 86_400_000
FALL = 0.5
"""Share of the window's length over which nearness falls by a factor e. It is the same before and after the window: with
the days that statements tell, later talk needs no more room (recall was the same with a third to all of it)."""
OPEN_DAYS = 14.0
"""The time of that fall in days for a window that is open on one side, as in "since March"; such a window has no length."""


def nearness(snapshot: Snapshot, plan: QuestionPlan) -> Scores:
    """Return how near each turn lies to the window of a plan, which has one: 1 inside, towards 0 far from it."""
    start, end = _bounds(plan)
    facts, told = snapshot.facts, told_by(snapshot)
    said = snapshot.turns.said_ms.astype(np.float64)
    near = _near(said, said, start, end)
    if len(told.turns):
        own, of = facts.stated[told.facts], told.facts
        first = np.where(own, facts.start_ms[of], said[told.turn_of])
        last = np.where(own & (facts.end_ms[of] != OPEN), facts.end_ms[of], first)
        near[told.turns] = told.groups.best(_near(first, last, start, end))
    return near


def said_within(snapshot: Snapshot, plan: QuestionPlan) -> NDArray[np.bool_]:
    """Return which turns were said in the window of a plan; all of them if it has none."""
    start, end = _bounds(plan)
    said = snapshot.turns.said_ms
    return (said >= start) & (said < end)


def _bounds(plan: QuestionPlan) -> tuple[float, float]:
    """Return the window of a plan in ms; a bound that is open is infinite."""
    start = -np.inf if plan.start is None or plan.start == EARLIEST else plan.start.timestamp() * 1000
    return start, np.inf if plan.end is None else plan.end.timestamp() * 1000


def _near(first: Scores, last: Scores, start: float, end: float) -> Scores:
    """Return how near times [first, last) lie to [start, end); a time is an instant where both are the same."""
    length = max(end - start, DAY_MS)
    scale = FALL * length if np.isfinite(length) else OPEN_DAYS * DAY_MS
    share = np.minimum(1.0, length / np.maximum(last - first, DAY_MS))
    middle = (first + last) / 2
    inside = (middle >= start) & (middle < end)
    # Days count whole, by their middle: what was said past midnight was said on the next day, and not just outside.
    days = np.where(inside, 0.0, np.floor(np.maximum(middle - end, start - middle) / DAY_MS) + 0.5)
    near: Scores = share * np.exp(-days * DAY_MS / scale)
    return near
