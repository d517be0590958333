"""The time filters of a query: facts valid at an instant (`as_of`), and those that overlap a window (`during`).

*Valid* time is a fact's stated interval, or open from when it was first said. A fact that asserts a state
holds until another value takes its place (see `memforest.facts.timeline`); an event, once it has happened,
stays so. A raw turn counts from when it was said, and falls out when all that it supports was not so. A turn that says what
is hidden passes only with a fact that it supports and that is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.states import valid_until


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which turns and facts pass the filters: boolean arrays of shape (n,) and (m,)."""

    turns: NDArray[np.bool_]
    facts: NDArray[np.bool_]


def allowed(snapshot: Snapshot, request: Search) -> Allowed:
    """Return the turns and facts that pass `as_of_ms` and `during_ms`; all that may be shown when both are None."""
    turns, facts = snapshot.turns, snapshot.facts
    keep = Allowed(np.ones(len(turns.ids), dtype=np.bool_), np.ones(len(facts.ids), dtype=np.bool_))
    if request.as_of_ms is None and request.during_ms is None:
        keep.turns[turns.muted] = False
        keep.turns[facts.pairs[:, 1]] = True
        return keep
    keep.facts[:] = allowed_facts(snapshot, request.as_of_ms, request.during_ms)
    said = np.ones(len(turns.ids), dtype=np.bool_)
    if request.as_of_ms is not None:
        said &= turns.said_ms <= request.as_of_ms
    if request.during_ms is not None:
        start, end = request.during_ms
        said &= (turns.said_ms >= start) & (turns.said_ms < end)
    supports, passes = np.zeros(len(turns.ids), dtype=np.bool_), np.zeros(len(turns.ids), dtype=np.bool_)
    supports[facts.pairs[:, 1]] = True
    passes[facts.pairs[keep.facts[facts.pairs[:, 0]], 1]] = True
    keep.turns[:] = passes | (said & ~supports & ~turns.muted)
    return keep


def allowed_facts(
    snapshot: Snapshot, as_of_ms: int | None, during_ms: tuple[int, int] | None
) -> NDArray[np.bool_]:
    """Return which facts were so at an instant, and overlap a window."""
    facts, until = snapshot.facts, valid_until(snapshot)
    kept = np.ones(len(facts.ids), dtype=np.bool_)
    if as_of_ms is not None:
        kept &= (facts.start_ms <= as_of_ms) & (as_of_ms < until)
    if during_ms is not None:
        start, end = during_ms
        # An event without a stated end happened when it was said; only states go on.
        last = np.where(until == OPEN, np.where(is_state(snapshot), OPEN, facts.start_ms + 1), until)
        last = np.where(facts.stated & ~is_state(snapshot), facts.end_ms, last)
        kept &= (facts.start_ms < end) & (start < last)
    return kept


def filter_notes(keep: Allowed) -> dict[str, int]:
    """Return how many turns and facts there are and how many passed, for `explain=True`."""
    return {
        "turns": len(keep.turns),
        "turns_kept": int(keep.turns.sum()),
        "facts": len(keep.facts),
        "facts_kept": int(keep.facts.sum()),
    }


@once_per_snapshot
def valid_end(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of the time it was so, in ms, `OPEN` when there is none.

    A state ends when another value takes its place; an event at its stated end.
    """
    return np.where(is_state(snapshot), valid_until(snapshot), snapshot.facts.end_ms)


@once_per_snapshot
def is_state(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return, per fact, whether it asserts a state."""
    found = np.zeros(len(snapshot.facts.ids), dtype=np.bool_)
    facts = np.fromiter((seen.fact for seen in snapshot.states), dtype=np.int64, count=len(snapshot.states))
    found[np.searchsorted(snapshot.facts.ids, facts)] = True
    return found
