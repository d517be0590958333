"""The relations of a memory: each source, label and target once, with what tells of it and when it held.

They are read from two kinds of observations. A statement relates two entities that it names ("Ana visited Porto"); and a
state whose value is the name of an entity relates two ("Ana / employer / Orrin"). A relation that is told again gains
weight. Only a state ends: where another value took its place or somebody said that it is over, as
`memforest.search.timeline` reads it. What has ended stays, with its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from memforest.reading.states import UNSPECIFIED, holds_many
from memforest.search.timeline import Segment, same_value, settled, timeline
from memforest.store.reads import RelationRow, StateSeen
from memforest.text import entity_key, fold

Span = tuple[int | None, int | None]
"""[start, end) in UTC ms; no start where it is not known since when, no end where none was told."""


@dataclass(frozen=True, slots=True)
class StateLine:
    """What one attribute of an entity was: the values in time order, and the observations that they were read from."""

    place: int
    attribute: str
    segments: tuple[Segment, ...]
    states: tuple[StateSeen, ...]
    telling: tuple[tuple[str | None, tuple[StateSeen, ...]], ...]
    """Of each segment: the key of its value, and the observations that tell of it."""


@dataclass(frozen=True, slots=True)
class KnownRelation:
    """A source, a label and a target, with all that tells of it. `facts` are row ids of the store, in the order of their times."""

    source: int
    label: str
    target: int
    weight: int
    """Occurrences that tell of it."""
    spans: tuple[Span, ...]
    """When it held, in order; what was ended and began anew has several."""
    facts: tuple[int, ...]
    occurrences: tuple[int, ...]
    first_ms: int
    latest_ms: int

    @property
    def start_ms(self) -> int | None:
        """When it began, None if that is not known."""
        return self.spans[0][0]

    @property
    def end_ms(self) -> int | None:
        """When it was over for the last time, None if it is not."""
        return self.spans[-1][1]

    def holds_at(self, at_ms: int | None) -> bool:
        """Return whether it was in force at an instant, or has no end if that is None."""
        if at_ms is None:
            return self.end_ms is None
        return any(
            (start is None or start <= at_ms) and (end is None or at_ms < end) for start, end in self.spans
        )


_Ends = tuple[int, str, int]
_Evidence = tuple[list[Span], list[StateSeen | RelationRow]]
"""When states say that a relation held, and what tells of it."""
Known = Mapping[_Ends, tuple[_Evidence, KnownRelation]]
"""Source, label and target -> what tells of these, and the relation that it makes."""
Lines = Mapping[tuple[StateSeen, ...], StateLine]
"""Observations -> the timeline that is read from them."""


def state_lines(
    states: Iterable[StateSeen], place_of: Mapping[int, int], before: Lines = MappingProxyType({})
) -> Lines:
    """Return the timelines of entities, by place and attribute; of an attribute that holds many values one a value.

    The observations of entities that are one are read together. What is not told to be of something is left out. What
    was read from the same observations before is not read again.
    """
    gathered: dict[tuple[int, str], list[StateSeen]] = {}
    for state in states:
        if state.attribute != UNSPECIFIED and state.entity in place_of:
            gathered.setdefault((place_of[state.entity], state.attribute), []).append(state)
    found: dict[tuple[StateSeen, ...], StateLine] = {}
    for (place, attribute), told in sorted(gathered.items()):
        told.sort(key=lambda state: (state.at_ms, state.tie, state.fact, state.row))
        for group in map(tuple, by_value(told) if holds_many(attribute) else [told]):
            had = before.get(group)
            found[group] = _line(place, attribute, group) if had is None else replace(had, place=place)
    return found


def _line(place: int, attribute: str, states: tuple[StateSeen, ...]) -> StateLine:
    segments = tuple(timeline(settled(states)))
    by_fact: dict[int, list[StateSeen]] = {}
    for state in states:
        by_fact.setdefault(state.fact, []).append(state)
    telling = []
    for segment in segments:
        seen = (state for fact in set(segment.facts) for state in by_fact.get(fact, ()))
        told = tuple(
            state
            for state in seen
            if any(same_value(value or "", segment.value) for value in (state.value, state.previous))
        )
        telling.append((entity_key(segment.value), told))
    return StateLine(place, attribute, segments, states, tuple(telling))


def by_value(states: Sequence[StateSeen]) -> list[list[StateSeen]]:
    """Return observations in groups of one value each, in the order in which the values were first told."""
    found: list[list[StateSeen]] = []
    for state in states:
        same = next((group for group in found if same_value(group[-1].value, state.value)), None)
        if same is None:
            found.append([state])
        else:
            same.append(state)
    return found


def known_relations(
    seen: Collection[RelationRow],
    lines: Iterable[StateLine],
    place_of: Mapping[int, int],
    place_of_key: Mapping[str, int],
    before: Known = MappingProxyType({}),
) -> Known:
    """Return the relations. One of an entity to itself is none.

    Args:
        seen: what statements relate.
        lines: what was told of states.
        place_of: entity -> place of the graph.
        place_of_key: key or alias -> place of the graph.
        before: relations that were made before; what the same tells of is not made again.
    """
    held: defaultdict[_Ends, list[Span]] = defaultdict(list)
    told: defaultdict[_Ends, list[StateSeen | RelationRow]] = defaultdict(list)
    for line in lines:
        label = fold(line.attribute)
        for segment, (key, states) in zip(line.segments, line.telling, strict=True):
            target = place_of_key.get(key or "")
            if states and target is not None and target != line.place:
                ends = line.place, label, target
                held[ends].append((segment.start_ms, segment.end_ms))
                told[ends] += states
    labels = {label: fold(label) for label in {one.label for one in seen}}
    for one in seen:
        source, related = place_of.get(one.source), place_of.get(one.target)
        if source is not None and related is not None and source != related and labels[one.label]:
            told[source, labels[one.label], related].append(one)
    found: dict[_Ends, tuple[_Evidence, KnownRelation]] = {}
    for ends, telling in told.items():
        evidence, had = (held.get(ends, []), telling), before.get(ends)
        found[ends] = had if had is not None and had[0] == evidence else (evidence, _known(*ends, *evidence))
    return found


def _known(
    source: int, label: str, target: int, held: list[Span], told: list[StateSeen | RelationRow]
) -> KnownRelation:
    told = sorted(told, key=lambda one: (one.at_ms, one.fact))
    spans = sorted(held, key=lambda span: (span[0] is not None, span[0] or 0))
    occurrences = sorted({one.occurrence for one in told})
    first_ms = told[0].at_ms
    return KnownRelation(
        source,
        label,
        target,
        len(occurrences),
        tuple(spans) or ((first_ms, None),),
        tuple(dict.fromkeys(one.fact for one in told)),
        tuple(occurrences),
        first_ms,
        told[-1].at_ms,
    )
