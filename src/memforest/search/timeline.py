"""What was true when: the values an attribute of an entity had, as intervals in time order.

A timeline is derived from observations ("Bob lives in Davis", said on a day or dated by itself). An observation of another
value ends the one before: that is what *superseded* means here, and why it is reversible - take the observation away and
the interval grows back.

Example:
    >>> from memforest.store.reads import StateSeen
    >>> first = StateSeen(1, "home", "Davis", "Boston", "is", 1, 10, "a")
    >>> for s in timeline([first, StateSeen(1, "home", "Miami", None, "is", 2, 30, "b")]):
    ...     print(s.value, s.start_ms, s.end_ms, s.facts)
    Boston None 10 (1,)
    Davis 10 30 (1,)
    Miami 30 None (2,)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, groupby, pairwise, zip_longest
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from memforest.reading.states import UNSPECIFIED, holds_many
from memforest.search.snapshot import OPEN, Delta, Snapshot, joined_entities, members_of, once_per_snapshot
from memforest.store import reads
from memforest.store.connections import Tx
from memforest.store.reads import StateSeen
from memforest.text import fold, words
from memforest.times import DAY_MS


@dataclass(frozen=True, slots=True)
class Segment:
    """One value and the half-open interval it held for; None is open. `facts` support it, oldest first.

    `ended_by` is the fact that ended it: it names the next value, or says that this one is over.
    """

    value: str
    start_ms: int | None
    end_ms: int | None
    facts: tuple[int, ...]
    ended_by: int | None = None

    def holds_at(self, at_ms: int) -> bool:
        """Return whether the value held at an instant."""
        return (self.start_ms is None or self.start_ms <= at_ms) and (
            self.end_ms is None or at_ms < self.end_ms
        )


@lru_cache(maxsize=4096)  # a timeline compares the same few values over and over
def _content(value: str) -> frozenset[str]:
    return frozenset(words(fold(value))) - {"a", "an", "the", "el", "la", "un", "una"}


@lru_cache(maxsize=65_536)
def same_value(a: str, b: str) -> bool:
    """Return whether two wordings name one value: the words of one are among the other's, in any case.

    Example:
        >>> same_value("Lisbon", "Lisbon, Portugal"), same_value("a Tesla", "Tesla"), same_value("Rome", "Davis")
        (True, True, False)
    """
    left, right = _content(a), _content(b)
    if not left or not right:
        return fold(a) == fold(b)
    return left <= right or right <= left


time_order = attrgetter("at_ms", "tie", "fact", "row")
"""The sort key of observations: by time, then by tie, fact and row."""


def timeline(observations: Iterable[StateSeen]) -> list[Segment]:
    """Return the segments of one attribute that holds one value at a time, in time order."""
    segments: list[Segment] = []
    for seen in sorted(observations, key=time_order):
        observe(segments, seen)
    return segments


def observe(segments: list[Segment], seen: StateSeen) -> Segment | None:
    """Read the next observation, in time order, into the segments of those before it.

    Args:
        segments: changed in place.
        seen: the observation.

    Returns:
        The segment that was the last one, if a new one takes its place.
    """
    last = segments[-1] if segments else None
    if seen.change == "end":
        if last is not None and same_value(last.value, seen.value):
            if last.end_ms is None:
                segments[-1] = _supported(_ended(last, seen), seen.fact)
            return None
        earlier = range(len(segments) - 2, -1, -1)
        before = next((i for i in earlier if same_value(segments[i].value, seen.value)), None)
        if before is not None:
            segments[before] = _supported(segments[before], seen.fact)
            return None
    elif last is not None and last.end_ms is None and same_value(last.value, seen.value):
        segments[-1] = _supported(last, seen.fact)
        return None
    if last is not None and last.end_ms is None:
        segments[-1] = _ended(last, seen)
    if seen.change == "end":  # of a value that no observation has named yet
        segments.append(Segment(seen.value, None, seen.at_ms, (seen.fact,), seen.fact))
        return last
    left = None if seen.previous is None or same_value(seen.previous, seen.value) else seen.previous
    if left and not (last is not None and same_value(last.value, left)):
        # "moved from Davis to Miami" tells of Davis too, when nothing else has.
        segments.append(Segment(left, None, seen.at_ms, (seen.fact,), seen.fact))
    segments.append(Segment(seen.value, seen.at_ms, None, (seen.fact,)))
    return last


def _ended(segment: Segment, seen: StateSeen) -> Segment:
    return Segment(segment.value, segment.start_ms, seen.at_ms, segment.facts, seen.fact)


def _supported(segment: Segment, fact: int) -> Segment:
    if fact in segment.facts:
        return segment
    facts = (*segment.facts, fact)
    return Segment(segment.value, segment.start_ms, segment.end_ms, facts, segment.ended_by)


MARKS = (0, 16, 128, 1024)
"""How many observations before its end a timeline can be read on from: what is told of last month stands there."""

LineKey = tuple[int, str, int]
"""Entity, attribute, and which of its timelines: only of what is unspecified there are several, by the things that changed."""
Timelines = Mapping[LineKey, tuple[Segment, ...]]


@dataclass(frozen=True, slots=True)
class _StateLine:
    """A timeline, and what it was read from."""

    states: list[StateSeen]
    segments: tuple[Segment, ...]
    marks: tuple[tuple[int, tuple[Segment, ...]], ...]
    """How many observations were read, and the segments of these: places to read on from."""
    ends: NDArray[np.int64]
    """Every fact of every segment, where that ends (ms), and the fact that ended it; of an attribute that holds many values none.

    What still holds ends at `OPEN`, by `NOBODY`.
    """
    values: frozenset[str]
    """Every value that was observed, lower case."""


def _line(attribute: str, states: list[StateSeen], before: _StateLine | None = None) -> _StateLine:
    """Return the timeline of observations, in time order; continued from `before` where they begin alike."""
    marks: list[tuple[int, tuple[Segment, ...]]] = [(0, ())]
    same = 0
    if before is not None:
        pairs = enumerate(zip(states, before.states, strict=False))
        shorter = min(len(states), len(before.states))
        same = next((at for at, (one, other) in pairs if one is not other and one != other), shorter)
        marks = [mark for mark in before.marks if mark[0] <= same]
    read, segments = marks[-1][0], list(marks[-1][1])
    for at, seen in enumerate(states[read:], read + 1):
        observe(segments, seen)
        if len(states) - at in MARKS:
            marks.append((at, tuple(segments)))
    ends = _ends([] if holds_many(attribute) else segments, before)
    new = states if before is None or same < len(before.states) else states[same:]
    values = frozenset(v.lower() for v in {v for s in new for v in (s.value, s.previous)} if v)
    if before is not None and len(new) < len(states):
        values |= before.values
    latest = marks[1:][-len(MARKS) :]
    return _StateLine(states, tuple(segments), (marks[0], *latest), ends, values)


NOBODY = -1
"""Stands for no fact."""


def _ends(segments: Sequence[Segment], before: _StateLine | None) -> NDArray[np.int64]:
    """Return every fact of some segments, the end of its segment and what ended that; unchanged ones are taken from before."""
    same, known = 0, np.zeros((0, 3), dtype=np.int64)
    if before is not None and len(before.ends):
        pairs = enumerate(zip(segments, before.segments, strict=False))
        shorter = min(len(segments), len(before.segments))
        same = next((at for at, (one, other) in pairs if one is not other), shorter)
        same = max(same - 1, 0)  # what ended a value holds until the next one begins
        known = before.ends[: sum(len(segment.facts) for segment in segments[:same])]
    told = fact_ends(segments[same:])
    return np.concatenate([known, np.array(told, dtype=np.int64).reshape(-1, 3)])


def fact_ends(segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
    """Return, for every fact of every segment, when it ceased to be so, ms, and the fact that ended it: `OPEN` by `NOBODY` for what holds.

    What tells nothing but an end ("I no longer work there") holds until something of the kind begins again.
    """
    found = []
    for one, following in zip_longest(segments, segments[1:]):
        end = OPEN if one.end_ms is None else one.end_ms
        goes_on = () if following is None else following.facts
        for fact in one.facts:
            by = NOBODY if one.ended_by in (None, fact) else one.ended_by
            begun = one.start_ms is not None and fact == one.facts[0]
            if fact != one.ended_by or begun or fact in goes_on:
                found.append((fact, end, by))
            elif following is None or following.start_ms is None:
                found.append((fact, OPEN, NOBODY))
            else:
                found.append((fact, following.start_ms, following.facts[0]))
    return found


_Lines = Mapping[LineKey, _StateLine]


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
    """Return an attribute's observations grouped by timeline: one group, or for the unspecified attribute one per linked values.

    Who swapped the oolong for sencha and later one gym for another has changed two things, and neither ended the other.
    """
    states = settled(states)
    if attribute != UNSPECIFIED:
        return [states]
    chains: list[list[int]] = []  # of places
    for place, state in enumerate(states):
        linked = [chain for chain in chains if any(_linked(state, states[other]) for other in chain)]
        chains = [chain for chain in chains if chain not in linked]
        chains.append(sorted([*(other for chain in linked for other in chain), place]))
    return [[states[place] for place in chain] for chain in sorted(chains)]


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


def settled(states: Sequence[StateSeen]) -> list[StateSeen]:
    """Return observations in time order, each of a coarse time moved behind what contradicts it within that time.

    "I moved to Lille last month", said on 10 July, stands behind "I live in Ghent" of 10 June: both are true then.

    Args:
        states: of one attribute of an entity, in time order.
    """
    if not any(one.latest_ms > one.at_ms for one in states):
        return list(states)
    exact = [one for one in states if one.latest_ms <= one.at_ms and one.change != "end"]
    found, times = list(states), [one.at_ms for one in exact]
    for place, seen in enumerate(states):
        if seen.latest_ms <= seen.at_ms:
            continue
        within = exact[bisect_left(times, seen.at_ms) : bisect_left(times, seen.latest_ms)]
        same = [same_value(one.value, seen.value) for one in within]
        begins = [one.at_ms for one, own in zip(within, same, strict=True) if own and one.change == "start"]
        if seen.change != "end" and True in same:  # it has begun by then
            within = within[: same.index(True)]
        against = [one for one, own in zip(within, same, strict=False) if own == (seen.change == "end")]
        if begins and seen.change != "end":
            found[place] = seen._replace(at_ms=begins[0])
        elif against:
            found[place] = seen._replace(at_ms=against[-1].at_ms + 1)
    return sorted(found, key=time_order)


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

    A value that took the place of another one is told together with that.
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
            gone = [one for one in before if not any(same_value(one.value, other.value) for other in after)]
            come = [one for one in after if not any(same_value(one.value, other.value) for other in before)]
            if holds_many(attribute):
                found += [Difference(key, one, None) for one in gone] + [
                    Difference(key, None, one) for one in come
                ]
            elif gone or come:
                found.append(Difference(key, gone[0] if gone else None, come[0] if come else None))
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


@once_per_snapshot
def latest_endings(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of its validity in ms and the fact that ended it, shape (m, 2); `OPEN` by `NOBODY` when there is none.

    Events that state an end keep `OPEN` here: that they happened stays true. Only states end.
    """
    ends = np.concatenate(
        [np.zeros((0, 3), dtype=np.int64), *(one.ends for one in _lines(snapshot).values())]
    )
    ends = ends[np.argsort(ends[:, 1], kind="stable")]  # of several of a fact the last one is written last
    found = np.tile(np.array([OPEN, NOBODY]), (len(snapshot.facts.ids), 1))
    found[np.searchsorted(snapshot.facts.ids, ends[:, 0])] = ends[:, 1:]
    return found


Ending = tuple[int, int]
"""When what a fact says ended, ms, and the row id of the fact that ended it."""


def endings(snapshot: Snapshot, segments: Sequence[Segment]) -> dict[int, Ending]:
    """Return, by row, how the facts ended that support a value of one timeline; none of what holds."""
    last = {fact: (end, by) for fact, end, by in fact_ends(segments)}
    return {snapshot.fact_row[fact]: ended for fact, ended in last.items() if ended[1] != NOBODY}


def valid_until(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return, per fact, the end of its validity in ms; see `latest_endings`."""
    return latest_endings(snapshot)[:, 0]


def superseded_facts(tx: Tx, new: Sequence[int]) -> set[tuple[int, str]]:
    """Return the facts that new observations superseded, and in which attribute; one that holds many values supersedes none.

    Args:
        tx: the transaction that has written them.
        new: row ids of observations.
    """
    joined, found = joined_entities(tx), set[tuple[int, str]]()
    told = [one for one in reads.states_with_ids(tx, new) if not holds_many(one.attribute)]
    for (entity, attribute), group in groupby(sorted(told, key=_key), key=_key):
        one, own = members_of(joined, joined.get(entity, entity)), sorted(group, key=time_order)
        # What is told of long ago is a stretch of its own; but of what is unspecified anything may be linked with anything.
        gaps = [n for n in range(1, len(own)) if own[n].at_ms - own[n - 1].at_ms > GAP_MS]
        cuts = [0, *([] if attribute == UNSPECIFIED else gaps), len(own)]
        for begin, end in pairwise(cuts):
            found |= {(fact, attribute) for fact in _superseded_by(tx, one, attribute, own[begin:end])}
    return found


def _superseded_by(tx: Tx, entities: Collection[int], attribute: str, new: Sequence[StateSeen]) -> set[int]:
    """Return the facts that some observations of an attribute superseded, read from no more of its timeline than tells that."""
    rows, until_ms = {state.row for state in new}, max(max(state.at_ms, state.latest_ms) for state in new)
    if attribute == UNSPECIFIED:
        return _superseded(attribute, reads.states_of_attribute(tx, entities, attribute), rows)[0]
    ended: set[int] = set()
    for most in (*LATEST, None):
        since_ms = most and reads.time_before(tx, entities, attribute, new[0].at_ms, most)
        states = reads.states_of_attribute(tx, entities, attribute, since_ms, until_ms)
        moved_ms = max(state.latest_ms for state in states)
        if moved_ms > until_ms:  # a coarse one moves behind what was so meanwhile
            states += reads.states_of_attribute(tx, entities, attribute, until_ms + 1, moved_ms)
        ended, hangs = _superseded(attribute, states, rows)
        if since_ms is None or not hangs:
            break
    return ended


GAP_MS = 31 * DAY_MS
"""Observations that are further apart are looked at by themselves."""
LATEST = (32, 256)
"""Observations before a new one from which its timeline is read, if they tell how it stood then; else more are, in the end all."""


def _superseded(attribute: str, states: list[StateSeen], rows: Set[int]) -> tuple[set[int], bool]:
    """Return the facts that some observations, by row id, superseded among others, and whether it may hang on what came before these."""
    found: set[int] = set()
    hangs = False
    for chain in _chains(attribute, states):
        segments: list[Segment] = []
        for seen in chain:
            ends = seen.change == "end"
            hangs |= ends and not any(same_value(one.value, seen.value) for one in segments)
            is_second = len(segments) == 1
            before = observe(segments, seen)
            if before is not None and seen.row in rows:
                hangs |= is_second
                found |= {fact for fact in before.facts if fact != seen.fact}
    return found, hangs
