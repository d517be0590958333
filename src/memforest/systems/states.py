"""Timelines of a memory's states, and the end of each fact's validity."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memforest.facts.superseding import superseded_by
from memforest.facts.timeline import Change, Observation, Segment, observe, same_value, superseded
from memforest.language.telling import UNSPECIFIED, holds_many
from memforest.search.snapshot import OPEN, Delta, Snapshot, once_per_snapshot
from memforest.store import snapshot as rows
from memforest.store.snapshot import StateSeen
from memforest.store.tx import Tx

MARKS = (0, 16, 128, 1024)
"""How many observations before its end a timeline can be read on from: what is told of last month stands there."""

LineKey = tuple[int, str, int]
"""Entity, attribute, and which of its timelines: only of what is unspecified there are several, by the things that changed."""
Timelines = Mapping[LineKey, tuple[Segment, ...]]


@dataclass(frozen=True, slots=True)
class _Line:
    """A timeline, and what it was read from."""

    states: list[StateSeen]
    segments: tuple[Segment, ...]
    marks: tuple[tuple[int, tuple[Segment, ...]], ...]
    """How many observations were read, and the segments of these: places to read on from."""
    facts: NDArray[np.int64]
    """Every fact of every segment; not of an attribute that holds many values, which end nothing."""
    ends: NDArray[np.int64]
    """Where the segment of each ends, ms."""
    values: frozenset[str]
    """Every value that was observed, lower case."""


def _line(attribute: str, states: list[StateSeen], before: _Line | None = None) -> _Line:
    """Return the timeline of observations, in time order; continued from `before` where they begin alike."""
    marks: list[tuple[int, tuple[Segment, ...]]] = [(0, ())]
    same = 0
    if before is not None:
        pairs = enumerate(zip(states, before.states, strict=False))
        shorter = min(len(states), len(before.states))
        same = next((at for at, (one, other) in pairs if one is not other and one != other), shorter)
        marks = [mark for mark in before.marks if mark[0] <= same]
    read, segments = marks[-1][0], list(marks[-1][1])
    for at, seen in enumerate(observations(states[read:]), read + 1):
        observe(segments, seen)
        if len(states) - at in MARKS:
            marks.append((at, tuple(segments)))
    facts, ends = _ends([] if holds_many(attribute) else segments, before)
    new = states if before is None or same < len(before.states) else states[same:]
    values = frozenset(v.lower() for v in {v for s in new for v in (s.value, s.previous)} if v)
    if before is not None and len(new) < len(states):
        values |= before.values
    latest = marks[1:][-len(MARKS) :]
    return _Line(states, tuple(segments), (marks[0], *latest), facts, ends, values)


def _ends(segments: Sequence[Segment], before: _Line | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every fact of some segments and the end of its segment; unchanged ones are taken from before."""
    same, facts, ends = 0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if before is not None and len(before.facts):
        pairs = enumerate(zip(segments, before.segments, strict=False))
        shorter = min(len(segments), len(before.segments))
        same = next((at for at, (one, other) in pairs if one is not other), shorter)
        count = sum(len(segment.facts) for segment in segments[:same])
        facts, ends = before.facts[:count], before.ends[:count]
    told = [(fact, OPEN if s.end_ms is None else s.end_ms) for s in segments[same:] for fact in s.facts]
    new = np.array(told, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([facts, new[:, 0]]), np.concatenate([ends, new[:, 1]])


_Lines = Mapping[LineKey, _Line]


def _all_lines(snapshot: Snapshot) -> _Lines:
    seen: dict[tuple[int, str], list[StateSeen]] = {}
    for state in snapshot.states:
        seen.setdefault((state.entity, state.attribute), []).append(state)
    return {
        (*key, number): _line(key[1], states)
        for key, found in seen.items()
        for number, states in enumerate(_chains(key[1], found))
    }


def segments_of(attribute: str, states: list[StateSeen]) -> list[tuple[Segment, ...]]:
    """Return the segments of every timeline of an attribute of one entity, from its observations in time order."""
    return [_line(attribute, chain).segments for chain in _chains(attribute, states)]


def _chains(attribute: str, states: list[StateSeen]) -> list[list[StateSeen]]:
    """Return the observations of an attribute by timeline: all in one, but of what is unspecified those linked by a value.

    Who swapped the oolong for sencha and later one gym for another has changed two things, and neither ended the other.
    """
    if attribute != UNSPECIFIED:
        return [states]
    chains: list[list[StateSeen]] = []
    for state in states:
        linked = [chain for chain in chains if any(_linked(state, other) for other in chain)]
        chains = [chain for chain in chains if chain not in linked]
        chains.append([*(other for chain in linked for other in chain), state])
    place = {id(state): i for i, state in enumerate(states)}
    return sorted(
        (sorted(chain, key=lambda one: place[id(one)]) for chain in chains), key=lambda c: place[id(c[0])]
    )


def _linked(one: StateSeen, other: StateSeen) -> bool:
    return any(
        same_value(a, b) for a in (one.value, one.previous) for b in (other.value, other.previous) if a and b
    )


def _later_lines(snapshot: Snapshot, delta: Delta, before: _Lines) -> _Lines:
    """Return the timelines of a snapshot, made from the older one's and the observations since."""
    lines = dict(before)
    for key in delta.states:
        first = bisect_left(snapshot.states, key, key=_key)
        states = list(snapshot.states[first : bisect_right(snapshot.states, key, lo=first, key=_key)])
        for old in [line for line in lines if line[:2] == key] if key[1] == UNSPECIFIED else [(*key, 0)]:
            lines.pop(old, None)
        if states:
            for number, chain in enumerate(_chains(key[1], states)):
                lines[(*key, number)] = _line(key[1], chain, before.get((*key, number)))
    return dict(sorted(lines.items()))


def _key(state: StateSeen) -> tuple[int, str]:
    return state.entity, state.attribute


_lines = once_per_snapshot(_all_lines, _later_lines)


@once_per_snapshot
def timelines(snapshot: Snapshot) -> Timelines:
    """Return the segments of every timeline in time order; facts are row ids of the store."""
    return {key: line.segments for key, line in _lines(snapshot).items()}


def states_of_entity(snapshot: Snapshot, entity: int) -> Sequence[StateSeen]:
    """Return the observations of an entity, by attribute and time."""
    first = bisect_left(snapshot.states, entity, key=lambda state: state.entity)
    return snapshot.states[
        first : bisect_right(snapshot.states, entity, lo=first, key=lambda state: state.entity)
    ]


def timelines_of(snapshot: Snapshot, entity: int) -> Timelines:
    """Return the segments of every timeline of an entity, at the cost of those."""
    attributes = {state.attribute for state in states_of_entity(snapshot, entity)}
    return {key: line for name in sorted(attributes) for key, line in _lines_of(snapshot, entity, name)}


def _lines_of(
    snapshot: Snapshot, entity: int, attribute: str
) -> Iterable[tuple[LineKey, tuple[Segment, ...]]]:
    """Yield the timelines of one attribute of an entity, which are numbered from 0."""
    lines = _lines(snapshot)
    for number in count():
        found = lines.get((entity, attribute, number))
        if found is None:
            return
        yield (entity, attribute, number), found.segments


def known_values(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Return every (attribute, value in lower case) that was observed of anybody."""
    lines = _lines(snapshot).items()
    return {(name, value) for (_, name, _), line in lines if name != UNSPECIFIED for value in line.values}


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


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of an attribute that was so at one time and not at another; None where there was none."""

    key: LineKey
    before: Segment | None
    after: Segment | None


def differences(
    snapshot: Snapshot, first_ms: int, last_ms: int, entity: int | None = None
) -> list[Difference]:
    """Return what was so at one of two times and not at the other, by entity and attribute.

    Only the timelines of which something was observed between the two are read: others say the same at both.

    Args:
        snapshot: of the memory.
        first_ms: the earlier time, UTC ms.
        last_ms: the later one.
        entity: only of this entity.
    """
    at_ms, entities = _observed(snapshot)
    between = (at_ms > first_ms) & (at_ms <= last_ms)
    if entity is not None:
        between &= entities == entity
    touched = dict.fromkeys(_key(snapshot.states[place]) for place in np.flatnonzero(between).tolist())
    found: list[Difference] = []
    for owner, attribute in touched:
        for key, segments in _lines_of(snapshot, owner, attribute):
            before = _holding(segments, attribute, first_ms)
            after = _holding(segments, attribute, last_ms)
            found += _different(key, before, after)
    return found


@once_per_snapshot
def _observed(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when each observation was so, ms, and of which entity it is."""
    n = len(snapshot.states)
    times = np.fromiter((state.at_ms for state in snapshot.states), dtype=np.int64, count=n)
    return times, np.fromiter((state.entity for state in snapshot.states), dtype=np.int64, count=n)


def _holding(segments: Sequence[Segment], attribute: str, at_ms: int) -> list[Segment]:
    """Return the segments that held at a time; a value beside which others may hold ends with none of them."""
    if holds_many(attribute):
        return [one for one in segments if one.start_ms is None or one.start_ms <= at_ms]
    holding = [one for one in segments if one.holds_at(at_ms)]
    # A value that was left at a time that nobody knows held before all others.
    return holding[-1:]


def _different(key: LineKey, before: Sequence[Segment], after: Sequence[Segment]) -> Iterable[Difference]:
    """Yield the values that are only on one side; one that took the place of another together with that."""
    gone = [one for one in before if not any(same_value(one.value, other.value) for other in after)]
    come = [one for one in after if not any(same_value(one.value, other.value) for other in before)]
    if holds_many(key[1]):
        yield from (Difference(key, one, None) for one in gone)
        yield from (Difference(key, None, one) for one in come)
    elif gone or come:
        yield Difference(key, gone[0] if gone else None, come[0] if come else None)


@once_per_snapshot
def valid_until(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of its validity in ms, `OPEN` when there is none.

    Events that state an end keep `OPEN` here: that they happened stays true. Only states end.
    """
    until = np.full(len(snapshot.facts.ids), OPEN, dtype=np.int64)
    lines = _lines(snapshot).values()
    facts = np.concatenate([np.zeros(0, dtype=np.int64), *(line.facts for line in lines)])
    latest = np.zeros(len(until), dtype=np.int64)
    rows_of_facts = np.searchsorted(snapshot.facts.ids, facts)
    np.maximum.at(latest, rows_of_facts, np.concatenate([latest[:0], *(line.ends for line in lines)]))
    until[rows_of_facts] = latest[rows_of_facts]
    return until


def superseded_facts(tx: Tx, new: Sequence[int]) -> set[tuple[int, str]]:
    """Return the facts that new observations superseded, and in which attribute; one that holds many values supersedes none.

    Args:
        tx: the transaction that has written them.
        new: row ids of observations.
    """
    found: set[tuple[int, str]] = set()
    pasts: dict[tuple[int, str], _StoredPast] = {}
    for state in rows.states_with_ids(tx, new):
        if not holds_many(state.attribute):
            (seen,) = observations([state])
            if state.attribute == UNSPECIFIED:
                ended = _superseded_in_chain(tx, state, seen)
            else:
                past = pasts.setdefault((state.entity, state.attribute), _StoredPast(tx, state))
                ended = superseded_by(seen, past)
            found |= {(fact, state.attribute) for fact in ended}
    return found


def _superseded_in_chain(tx: Tx, state: StateSeen, seen: Observation) -> set[int]:
    """Return the facts that a change of something unspecified superseded: of those before it only its own chain counts."""
    before = [*rows.states_before(tx, state, -1), state]
    chain = next(chain for chain in _chains(UNSPECIFIED, before) if state in chain)
    return superseded(observations(chain), [seen])


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

    def naming(self, seen: Observation, values: Collection[str]) -> Sequence[tuple[str, str | None]]:
        return rows.values_before(self._tx, self._at(seen), values)

    def _at(self, seen: Observation) -> StateSeen:
        return self._state._replace(at_ms=seen.at_ms, tie=seen.tie, fact=seen.fact, row=seen.row)
