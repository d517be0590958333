"""The timelines of a memory's states, and how long each fact held."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memforest.facts.superseding import superseded_by
from memforest.facts.timeline import Change, Observation, Segment, timeline
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.steps.local.lexicon import holds_many
from memforest.store import snapshot as rows
from memforest.store.db import Tx
from memforest.store.snapshot import StateSeen

__all__ = ["Timelines", "observations", "superseded_facts", "timelines", "valid_until"]

Timelines = Mapping[tuple[int, str], tuple[Segment, ...]]


@once_per_snapshot
def timelines(snapshot: Snapshot) -> Timelines:
    """Return (entity, attribute) -> its segments in time order; facts are row ids of the store."""
    seen: dict[tuple[int, str], list[StateSeen]] = {}
    for state in snapshot.states:
        seen.setdefault((state.entity, state.attribute), []).append(state)
    return {key: tuple(timeline(observations(found))) for key, found in seen.items()}


def observations(states: Iterable[StateSeen]) -> list[Observation]:
    """Return stored observations as what `timeline` reads."""
    return [
        Observation(
            state.at_ms,
            state.tie,
            state.fact,
            state.value,
            state.previous,
            cast("Change", state.change),
            state.row,
        )
        for state in states
    ]


@once_per_snapshot
def valid_until(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of its validity in ms, `OPEN` when there is none.

    Events that state an end keep `OPEN` here: that they happened stays true. Only states end.
    """
    until = np.full(len(snapshot.facts.ids), OPEN, dtype=np.int64)
    ends: dict[int, int] = {}
    for (_, attribute), segments in timelines(snapshot).items():
        if holds_many(attribute):
            continue
        for segment in segments:
            for fact in segment.facts:
                end = OPEN if segment.end_ms is None else segment.end_ms
                ends[fact] = max(ends.get(fact, 0), end)
    for fact, end in ends.items():
        until[snapshot.fact_row[fact]] = end
    return until


def superseded_facts(tx: Tx, new: Sequence[int]) -> set[int]:
    """Return the facts whose place new observations took; what an attribute holds many of ends nothing.

    Args:
        tx: the transaction that has written them.
        new: row ids of observations.
    """
    found: set[int] = set()
    pasts: dict[tuple[int, str], _StoredPast] = {}
    for state in rows.states_with_ids(tx, new):
        if not holds_many(state.attribute):
            past = pasts.setdefault((state.entity, state.attribute), _StoredPast(tx, state))
            (seen,) = observations([state])
            found |= superseded_by(seen, past)
    return found


class _StoredPast:
    """The stored observations of one state's attribute, as `memforest.facts.superseding.Past`."""

    def __init__(self, tx: Tx, state: StateSeen) -> None:
        self._tx = tx
        self._state = state

    @cached_property
    def values(self) -> Collection[str]:
        return rows.values_of(self._tx, self._state.entity, self._state.attribute)

    def before(self, seen: Observation, most: int) -> Sequence[Observation]:
        return observations(rows.states_before(self._tx, self._at(seen), most))

    def told(self, seen: Observation, values: Collection[str]) -> Sequence[tuple[str, str | None]]:
        return rows.values_before(self._tx, self._at(seen), values)

    def _at(self, seen: Observation) -> StateSeen:
        return self._state._replace(at_ms=seen.at_ms, tie=seen.tie, fact=seen.fact, row=seen.row)
