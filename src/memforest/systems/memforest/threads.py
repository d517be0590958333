"""Timelines of attributes that nobody has listed: threads of interchangeable values in a memory.

"What does Bob open with these days?" asks about something that no lexicon knows. The topic is a kind of values
(`memforest.systems.memforest.topic`); the timeline is what was said of the one person and those values, read by
its stance (so, begun, over, only wished for), in time order. From there on it is a timeline like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from memforest.facts.timeline import Observation, Segment, same_value, timeline
from memforest.search.snapshot import OPEN, Snapshot
from memforest.steps.local.phrases import Statement, read_statement
from memforest.steps.local.stance import Stance, stances_of
from memforest.store.db import Tx
from memforest.systems.memforest.topic import Topic, choose_values, nearness
from memforest.systems.memforest.vocabulary import Vocabulary, vocabulary
from memforest.systems.places import fact_places

__all__ = ["Thread", "find_thread", "settle"]

DAY_MS = 86_400_000
MAX_SPAN_MS = 40 * DAY_MS
"""A stated time longer than this ("in 2023") is taken from its start."""
MONTH_MS = 31 * DAY_MS


@dataclass(frozen=True, slots=True)
class Thread:
    """The timeline of one person and one kind of values; `facts` of the segments are row ids of the store.

    `told` are the facts that tell a beginning, `returned` those that tell a return, `values` all values of the
    kind. `exchanged`: values of it are known to take each other's place. `nearness`: of the statements about
    them to the question, as a share of the nearest of all.
    """

    segments: tuple[Segment, ...]
    told: frozenset[int]
    returned: frozenset[int]
    values: frozenset[str]
    exchanged: bool
    nearness: float


def find_thread(tx: Tx, snapshot: Snapshot, topic: Topic) -> Thread | None:
    """Return the timeline of the kind of thing that a question is about, for one person, or None.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        topic: of the question.
    """
    known = vocabulary(tx, snapshot)
    values = choose_values(known, topic)
    heard = _observe(known, snapshot, topic.who, values)
    if not heard.observed:
        return None
    segments = tuple(timeline(settle(heard.observed)))
    return Thread(
        segments,
        frozenset(heard.told),
        frozenset(heard.returned),
        frozenset(values),
        _exchanged(known, values, segments),
        nearness(known, topic, values),
    )


def _exchanged(known: Vocabulary, values: Mapping[str, float], segments: Sequence[Segment]) -> bool:
    """Return whether values are known to take each other's place, and did so in a timeline.

    A memory is full of things that somebody talks about at different times; they make no timeline unless some
    statement says of two of them that one followed the other, or two are known of one attribute.
    """
    told = any(old in values and new in values for old, new in known.replaced)
    listed = any(len(found & values.keys()) > 1 for found in known.attributes.values())
    return (told or listed) and len({segment.value for segment in segments}) > 1


@dataclass(frozen=True, slots=True)
class Heard:
    """An observation, how late it may have been (ms; its own time if that is known), whether its time is stated."""

    observation: Observation
    latest_ms: int
    stated: bool


@dataclass(frozen=True, slots=True)
class _Heard:
    observed: list[Heard] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)


def _observe(known: Vocabulary, snapshot: Snapshot, who: str, values: Mapping[str, float]) -> _Heard:
    """Return what was said of a person and some values."""
    out = _Heard()
    facts, others, places = snapshot.facts, known.people - {who}, fact_places(snapshot)
    others = frozenset(name for name in others if name.lower() not in values)  # who is a value is nobody here
    rows = known.rows(values)
    for row in rows[
        known.about(who)[rows]
    ].tolist():  # one that does not name the person says nothing of them
        reading = known.readings.of[int(facts.ids[row])]
        ranked = _ranked(values, reading.terms)
        fact, stated, latest = int(facts.ids[row]), bool(facts.stated[row]), _latest(snapshot, row)
        at = _moment(snapshot, row)
        times = (at,) if stated else known.said.get(row, (at,))
        stances = _stances(
            reading.text, who, _named(reading.statement, others), ranked, _speaker(snapshot, row)
        )
        for place, (value, stance) in enumerate(stances):
            if stance in ("unreal", "over", "event"):
                continue
            change: Literal["is", "start", "end"] = (
                "end" if stance == "end" else "is" if stance == "is" else "start"
            )
            tie = f"{0 if change == 'end' else 1}{place} {places[row]:09}"
            out.observed.extend(
                Heard(Observation(time, tie, fact, value, None, change), latest, stated) for time in times
            )
            if stance == "back":
                out.returned.add(fact)
            if stance == "start" or (stated and stance != "end"):
                out.told.add(fact)
    return out


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
    """Return the latest time (ms) at which what a fact tells may have begun."""
    facts = snapshot.facts
    start, end, said = int(facts.start_ms[row]), int(facts.end_ms[row]), int(facts.said_ms[row])
    if not facts.stated[row]:
        return start
    if end == OPEN:  # "since April" has the first of April for its start
        first = datetime.fromtimestamp(start / 1000, timezone.utc).day == 1
        return min(said, start + MONTH_MS) if first else start
    return min(end, said) if end - start <= MAX_SPAN_MS else start


def settle(heard: Sequence[Heard]) -> list[Observation]:
    """Return observations at the times that agree best with each other, without those that nothing bears out."""
    exact = [one.observation for one in heard if one.latest_ms <= one.observation.at_ms]
    placed = [replace(one, observation=_placed(one, exact)) for one in heard]
    placed.sort(key=lambda one: (one.observation.at_ms, one.observation.tie, one.observation.fact))
    often = Counter(one.observation.value for one in placed)
    passing = {
        i
        for i, ((before, one), (_, after)) in enumerate(pairwise(pairwise(placed)), start=1)
        if often[one.observation.value] == 1 and _is_passing(before.observation, one, after.observation)
    }
    return [one.observation for i, one in enumerate(placed) if i not in passing]


def _placed(one: Heard, exact: Sequence[Observation]) -> Observation:
    """Return an observation, if its time is coarse moved behind other values that were so within that time.

    "Since April" begins after the 5th, if something else was so on the 5th, unless the value itself was so by then.
    """
    seen = one.observation
    if one.latest_ms <= seen.at_ms or seen.change == "end":
        return seen
    inside = [o for o in exact if seen.at_ms <= o.at_ms < one.latest_ms and o.change != "end"]
    own = [o for o in inside if same_value(o.value, seen.value)]
    began = min((o.at_ms for o in own if o.change == "start"), default=None)
    if began is not None:
        return replace(seen, at_ms=began)
    until = min((o.at_ms for o in own), default=one.latest_ms)
    others = [o.at_ms for o in inside if o.at_ms < until and not same_value(o.value, seen.value)]
    return replace(seen, at_ms=max(others) + 1) if others else seen


def _is_passing(before: Observation, one: Heard, after: Observation) -> bool:
    """Return whether an undated beginning is outlived by what was so before: a loaf bought once is no new habit."""
    began = one.observation.change == "start" and not one.stated
    return began and after.change == "is" and before.change != "end" and same_value(before.value, after.value)
