"""The timelines of a memory's states, and how long each fact held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from memforest.facts.timeline import Observation, Segment, timeline
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.steps.local.lexicon import holds_many
from memforest.store.snapshot import StateSeen

__all__ = ["Timelines", "observations", "timelines", "valid_until"]

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
            cast("Literal['is', 'start', 'end']", state.change),
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
