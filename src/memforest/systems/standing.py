"""How some facts stand: when what they say ended, what took its place, and whom they name; without a whole memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memforest.facts.timeline import Segment
from memforest.language.telling import holds_many
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.store import snapshot as rows
from memforest.store.tx import Tx
from memforest.systems.filters import valid_end
from memforest.systems.states import segments_of, timelines

Ended = tuple[int, str, str, str]
"""When a value ended, of which entity (its key) and attribute, and the value that took its place."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How some facts stand; of those that are hidden only whom they name."""

    ends: Mapping[int, int | None]
    """When a fact that asserts a state ended, ms, None for not; others are not in it where they were read by themselves."""
    after: Mapping[int, str]
    """The value that took the place of a fact's; of several, where it held longest."""
    named: Mapping[int, Collection[int]]
    """The entities that a fact names."""

    @classmethod
    def read(cls, tx: Tx, facts: Collection[int]) -> Standing:
        """Read how facts stand now, at the cost of the attributes that they speak of."""
        ends: dict[int, int | None] = {}
        after: dict[int, Ended] = {}
        states = rows.states_seen(tx, facts)
        keys = rows.entity_names(tx, {state.entity for state in states})
        for entity, attribute in sorted({(state.entity, state.attribute) for state in states}):
            for segments in segments_of(attribute, rows.states_of_attribute(tx, entity, attribute)):
                _note_successors(after, keys[entity].key, attribute, segments)
                for segment in () if holds_many(attribute) else segments:
                    for fact in segment.facts:
                        ends[fact] = _later(segment.end_ms, ends.get(fact, segment.end_ms))
        named: dict[int, list[int]] = {fact: [] for fact in facts}
        for fact, other in rows.mentions(tx, facts, hidden=True):
            named[fact].append(other)
        return cls(
            {state.fact: ends.get(state.fact) for state in states},
            {fact: ended[-1] for fact, ended in after.items()},
            named,
        )

    @classmethod
    def at_moment(cls, tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> Standing:
        """Return how facts stand in a snapshot."""
        until, places = valid_end(snapshot), snapshot.fact_row
        ends = {fact: int(until[places[fact]]) for fact in facts if fact in places}
        return cls(
            {fact: None if end == OPEN else end for fact, end in ends.items()},
            _successors(snapshot),
            _named(tx, snapshot, facts),
        )


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _note_successors(found: dict[int, Ended], key: str, attribute: str, segments: Iterable[Segment]) -> None:
    for segment, following in pairwise(segments):
        ended = (segment.end_ms or 0, key, attribute, following.value)
        found.update((fact, max(found.get(fact, ended), ended)) for fact in segment.facts)


@once_per_snapshot
def _successors(snapshot: Snapshot) -> dict[int, str]:
    found: dict[int, Ended] = {}
    for (entity, attribute, _), segments in timelines(snapshot).items():
        _note_successors(found, snapshot.entities[entity].key, attribute, segments)
    return {fact: ended[-1] for fact, ended in found.items()}


def _named(tx: Tx, snapshot: Snapshot, facts: Collection[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {fact: [] for fact in facts}
    hidden = [fact for fact in facts if fact not in snapshot.fact_row]
    for fact, entity in rows.mentions(tx, hidden, hidden=True):
        found[fact].append(entity)
    for fact in found.keys() - set(hidden):
        row = snapshot.fact_row[fact]
        first, end = np.searchsorted(snapshot.mentions[:, 0], (row, row + 1))
        found[fact] = snapshot.mentions[first:end, 1].tolist()
    return found
