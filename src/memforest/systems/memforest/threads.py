"""Threads: timelines of interchangeable values in a memory, of attributes that nobody listed.

"What does Bob open with these days?" asks about something that no list knows. The topic is a kind of values
(`memforest.systems.memforest.topic`); the timeline is what was said of the one person and those values, read by
its stance (so, begun, over, only wished for), in time order. From there on it is a timeline like any other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.facts.timeline import Observation, Segment, same_value, timeline
from memforest.language.aspect import Stance
from memforest.language.phrases import Statement, read_statement
from memforest.language.stance import stances_of
from memforest.search.snapshot import OPEN, Delta, Snapshot, count_bytes, once_per_snapshot
from memforest.store.tx import Tx
from memforest.systems.memforest.topic import Topic, choose_values, nearness
from memforest.systems.memforest.vocabulary import Vocabulary, vocabulary
from memforest.systems.places import fact_places

Ints = NDArray[np.int64]

DAY_MS = 86_400_000
MAX_SPAN_MS = 40 * DAY_MS
"""A stated time longer than this ("in 2023") is taken from its start."""
MONTH_MS = 31 * DAY_MS


@dataclass(frozen=True, slots=True)
class Choice:
    """The kind of values that a question is about, for one person.

    `replaced` are those of which some statement says that one took another's place. `attributes`: those of which two of
    them are told, which are `listed`; either shows that they hold by turns. `nearness`: of the statements about them to
    the question, as a share of the nearest of all.
    """

    who: str
    values: Mapping[str, float]
    replaced: frozenset[str]
    attributes: frozenset[str]
    listed: frozenset[str]
    nearness: float

    @property
    def by_turns(self) -> bool:
        """Whether values of the kind are known to take each other's place.

        A memory is full of things that somebody talks about at different times; they make no timeline by themselves.
        """
        return bool(self.replaced or self.attributes)


@dataclass(frozen=True, slots=True)
class Thread:
    """The timeline of one person and one kind of values; `facts` of the segments are row ids of the store.

    `told` are the facts that tell a beginning, `returned` those that tell a return, `changes` how many tell any change.
    """

    segments: tuple[Segment, ...]
    told: frozenset[int]
    returned: frozenset[int]
    changes: int = 0


def choose_kinds(tx: Tx, snapshot: Snapshot, topic: Topic) -> Iterator[Choice]:
    """Yield the kinds of thing that a question may be about, the likeliest first."""
    known = vocabulary(tx, snapshot)
    for values in choose_values(known, topic):
        pairs = [pair for pair in known.replaced if values.keys() >= {*pair}]
        told = {name: found & values.keys() for name, found in known.attributes.items()}
        attributes = frozenset(name for name, found in told.items() if len(found) > 1)
        yield Choice(
            topic.who,
            values,
            frozenset(value for pair in pairs for value in pair),
            attributes,
            frozenset[str]().union(*(told[name] for name in attributes)),
            nearness(known, topic, values),
        )


def find_thread(tx: Tx, snapshot: Snapshot, choice: Choice) -> Thread | None:
    """Return the timeline of one person and one kind of values, or None if nothing is told of it.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        choice: the person and the values.
    """
    line = _line(vocabulary(tx, snapshot), snapshot, choice.who, choice.values)
    changes = sum(any(seen.observation.change != "is" for seen in one.heard) for one in line.of.values())
    return Thread(line.segments, line.told, line.returned, changes) if line.segments else None


@dataclass(frozen=True, slots=True)
class DatedObservation:
    """An observation, how late it may have been (ms; its own time if that is known), whether its time is stated."""

    observation: Observation
    latest_ms: int
    stated: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """The observations that one statement makes of a person and some values."""

    heard: tuple[DatedObservation, ...] = ()
    begins: bool = False
    returns: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The observations of a person and some values, and the statements they were read from. Immutable.

    `facts` are those that name the person and a value, ascending; `places` theirs in the order of what was said.
    """

    who: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    """People whose being named matters."""
    names: frozenset[str] = frozenset()
    facts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    places: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranked: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """The order of the values in statements that have several."""
    of: Mapping[int, _Told] = field(default_factory=dict)
    """Of those statements that tell something."""
    segments: tuple[Segment, ...] = ()
    told: frozenset[int] = frozenset()
    returned: frozenset[int] = frozenset()

    def unread(self, now: _Line, changed: Ints, moved: Ints) -> Ints:
        """Return the facts of another line whose observations this one does not have.

        Args:
            now: the line to be made.
            changed: facts that were written since.
            moved: facts with a value that only one of the lines has.
        """
        if (now.who, now.others, now.names) != (self.who, self.others, self.names) or not len(self.facts):
            return now.facts
        at = np.minimum(np.searchsorted(self.facts, now.facts), len(self.facts) - 1)
        known = (self.facts[at] == now.facts) & (self.places[at] == now.places)
        unread: Ints = now.facts[~known | np.isin(now.facts, changed) | np.isin(now.facts, moved)]
        return unread


MAX_LINES = 16
"""Lines that are kept with a snapshot, the latest ones."""
TOLD_BYTES = 1_000
"""What a statement that tells something takes in memory with its observations, about."""


@dataclass(slots=True)
class _Lines:
    """The lines that questions have needed, the latest last, and the facts written since those of an older snapshot."""

    made: tuple[_Line, ...] = ()
    before: tuple[_Line, ...] = ()
    changed: frozenset[int] = frozenset()


def _carried(snapshot: Snapshot, delta: Delta, lines: _Lines) -> _Lines:
    """Keep the lines for the next snapshot: those that it was asked for, or else those of the one before."""
    changed = frozenset(snapshot.facts.ids[delta.facts].tolist())
    count_bytes(snapshot, TOLD_BYTES * sum(len(line.of) for line in lines.made or lines.before))
    if lines.made:
        return _Lines(before=lines.made, changed=changed)
    return _Lines(before=lines.before, changed=lines.changed | changed)


_lines = once_per_snapshot(lambda _: _Lines(), _carried)


def _line(known: Vocabulary, snapshot: Snapshot, who: str, values: Mapping[str, float]) -> _Line:
    """Return the observations of a person and some values, starting from the most similar line made before."""
    lines = _lines(snapshot)
    for line in lines.made:
        if line.who == who and line.values == values:
            return line
    similar = [
        (len(line.values.keys() & values.keys()), here, line)
        for here, kept in enumerate((lines.before, lines.made))
        for line in kept
        if line.who == who
    ]
    _, here, base = max(similar, key=lambda one: one[:2], default=(0, 1, _Line()))
    made = _made(known, snapshot, who, values, base, frozenset() if here else lines.changed)
    lines.made = (*lines.made, made)[-MAX_LINES:]
    count_bytes(snapshot, TOLD_BYTES * len(made.of))
    return made


def _made(
    known: Vocabulary,
    snapshot: Snapshot,
    who: str,
    values: Mapping[str, float],
    base: _Line,
    changed: Set[int],
) -> _Line:
    """Return the observations of a person and some values; unchanged statements that `base` has are not read again."""
    rows = known.rows(values)
    rows = rows[known.about(who)[rows]]  # a statement that does not name the person says nothing of them
    facts, places = snapshot.facts.ids[rows], fact_places(snapshot)[rows]
    # Who is a value is nobody here.
    others = frozenset(name for name in known.people - {who} if name.lower() not in values)
    line = _Line(who, values, others, known.readings.names, facts, places)
    moved = snapshot.facts.ids[known.rows((values.keys() ^ base.values.keys()) & known.terms.keys())]
    unread = base.unread(line, np.array(sorted(changed), dtype=np.int64), moved)
    ranked, of = _kept(base, facts, unread)
    terms = known.readings.of
    again = set(unread.tolist())
    if values != base.values:
        again |= {fact for fact, found in ranked.items() if found != _ranked(values, terms[fact].terms)}
    for fact in again:
        row = int(np.searchsorted(snapshot.facts.ids, fact))
        order = _ranked(values, terms[fact].terms)
        told = _tell(known, snapshot, row, who, others, order, int(places[np.searchsorted(facts, fact)]))
        of.pop(fact, None)
        if told.heard or told.begins or told.returns:
            of[fact] = told
        if len(order) > 1:
            ranked[fact] = order
    return replace(
        line,
        ranked=ranked,
        of=of,
        segments=tuple(timeline(order_observations([one for fact in sorted(of) for one in of[fact].heard]))),
        told=frozenset(fact for fact, one in of.items() if one.begins),
        returned=frozenset(fact for fact, one in of.items() if one.returns),
    )


def _kept(
    base: _Line, facts: Ints, unread: Ints
) -> tuple[dict[int, tuple[tuple[str, int], ...]], dict[int, _Told]]:
    """Return what an older line has read of facts, without those that are to be read again."""
    if len(unread) == len(facts):
        return {}, {}
    ranked, of = dict(base.ranked), dict(base.of)
    for fact in (*np.setdiff1d(base.facts, facts, assume_unique=True).tolist(), *unread.tolist()):
        ranked.pop(fact, None)
        of.pop(fact, None)
    return ranked, of


def _tell(
    known: Vocabulary,
    snapshot: Snapshot,
    row: int,
    who: str,
    others: frozenset[str],
    ranked: tuple[tuple[str, int], ...],
    where: int,
) -> _Told:
    """Return the observations that the statement of a fact makes of a person and of the values in `ranked`."""
    facts = snapshot.facts
    fact, stated, latest = int(facts.ids[row]), bool(facts.stated[row]), _latest(snapshot, row)
    reading, at = known.readings.of[fact], _moment(snapshot, row)
    times = (at,) if stated else known.said.get(fact, (at,))
    heard: list[DatedObservation] = []
    begins = returns = False
    stances = _stances(reading.text, who, _named(reading.statement, others), ranked, _speaker(snapshot, row))
    for place, (value, stance) in enumerate(stances):
        if stance in ("unreal", "over", "event"):
            continue
        change: Literal["is", "start", "end"] = (
            "end" if stance == "end" else "is" if stance == "is" else "start"
        )
        tie = f"{0 if change == 'end' else 1}{place} {where:09}"
        heard.extend(
            DatedObservation(Observation(time, tie, fact, value, None, change), latest, stated)
            for time in times
        )
        returns = returns or stance == "back"
        begins = begins or stance == "start" or (stated and stance != "end")
    return _Told(tuple(heard), begins, returns)


@lru_cache(maxsize=16_384)  # more than a vocabulary reads: a statement that has not changed is not read again
def _stances(
    text: str, who: str, others: tuple[str, ...], terms: tuple[tuple[str, int], ...], speaker: str
) -> tuple[tuple[str, Stance], ...]:
    return tuple(stances_of(read_statement(text), who, others, dict(terms), speaker))


def _named(statement: Statement, others: Iterable[str]) -> tuple[str, ...]:
    """Return those people whom a statement names."""
    whole = "\n".join((statement.speaker, statement.asked, *(one.text for one in statement.sentences)))
    return tuple(sorted(name for name in others if name in whole))


def _ranked(values: Mapping[str, float], terms: Set[str]) -> tuple[tuple[str, int], ...]:
    """Return those terms that are values, each with the rank of its weight among them: only that is looked at."""
    found = sorted(terms & values.keys())
    if len(found) == 1:
        return ((found[0], 0),)
    ranks = {weight: rank for rank, weight in enumerate(sorted({values[term] for term in found}))}
    return tuple((term, ranks[values[term]]) for term in found)


def _speaker(snapshot: Snapshot, row: int) -> str:
    entity = snapshot.entities.get(int(snapshot.facts.speaker[row]))
    return entity.label if entity else ""


def _moment(snapshot: Snapshot, row: int) -> int:
    """Return when a fact is taken to have been so, in ms: the middle of its stated time, but not after it was said."""
    facts = snapshot.facts
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    if not facts.stated[row] or end == OPEN or end - start > MAX_SPAN_MS:
        return start
    return max(start, min((start + end) // 2, said))


def _latest(snapshot: Snapshot, row: int) -> int:
    """Return the latest time, in ms, at which a fact's state may have begun."""
    facts = snapshot.facts
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    if not facts.stated[row]:
        return start
    if end == OPEN:  # "since April" has the first of April for its start
        first = datetime.fromtimestamp(start / 1000, timezone.utc).day == 1
        return min(said, start + MONTH_MS) if first else start
    return min(end, said) if end - start <= MAX_SPAN_MS else start


def order_observations(heard: Sequence[DatedObservation]) -> list[Observation]:
    """Return observations in time order, coarse times moved to fit the exact ones, and unconfirmed beginnings dropped."""
    exact = [one.observation for one in heard if one.latest_ms <= one.observation.at_ms]
    exact = sorted((seen for seen in exact if seen.change != "end"), key=attrgetter("at_ms"))
    times = [seen.at_ms for seen in exact]
    placed = [one if one.latest_ms <= one.observation.at_ms else _placed(one, exact, times) for one in heard]
    placed.sort(key=lambda one: (one.observation.at_ms, one.observation.tie, one.observation.fact))
    often = Counter(one.observation.value for one in placed)
    passing = {
        i
        for i, ((before, one), (_, after)) in enumerate(pairwise(pairwise(placed)), start=1)
        if often[one.observation.value] == 1 and _is_passing(before.observation, one, after.observation)
    }
    return [one.observation for i, one in enumerate(placed) if i not in passing]


def _placed(one: DatedObservation, exact: Sequence[Observation], times: Sequence[int]) -> DatedObservation:
    """Return an observation whose time is coarse, moved behind other values that were so within that time.

    "Since April" begins after the 5th, if something else was so on the 5th, unless the value itself was so by then.

    Args:
        one: the observation.
        exact: those with a time of their own that end nothing, by time.
        times: theirs, ms.
    """
    seen = one.observation
    if seen.change == "end":
        return one
    inside = exact[bisect_left(times, seen.at_ms) : bisect_left(times, one.latest_ms)]
    own = [o for o in inside if same_value(o.value, seen.value)]
    at = next((o.at_ms for o in own if o.change == "start"), None)
    if at is None:
        until = own[0].at_ms if own else one.latest_ms
        later = reversed(inside[: bisect_left(inside, until, key=attrgetter("at_ms"))])
        other = next((o.at_ms for o in later if not same_value(o.value, seen.value)), None)
        at = seen.at_ms if other is None else other + 1
    return one if at == seen.at_ms else replace(one, observation=replace(seen, at_ms=at))


def _is_passing(before: Observation, one: DatedObservation, after: Observation) -> bool:
    """Return whether an undated beginning is outlived by what was so before: a loaf bought once is no new habit."""
    began = one.observation.change == "start" and not one.stated
    return began and after.change == "is" and before.change != "end" and same_value(before.value, after.value)
