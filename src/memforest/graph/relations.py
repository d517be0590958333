"""The relations of a memory: each source, label and target once, with what tells of it and when it held.

They are read from two kinds of observations. A statement relates two entities that it names ("Ana visited Porto"); and a
state whose value is the name of an entity relates two ("Ana / employer / Orrin"). A relation that is told again gains
weight. Only a state ends: where another value took its place or somebody said that it is over, as
`memforest.search.timeline` reads it. What has ended stays, with its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memforest.reading.states import UNSPECIFIED, holds_many
from memforest.search.timeline import Segment, observations, same_value, timeline
from memforest.store.snapshot import StateSeen
from memforest.text import entity_key, fold

Span = tuple[int | None, int | None]
"""[start, end) in UTC ms; no start where it is not known since when, no end where none was told."""


class RelationSeen(NamedTuple):
    """One occurrence of a statement that relates two entities, which are places of the graph."""

    source: int
    label: str
    target: int
    fact: int
    occurrence: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class StateLine:
    """What one attribute of an entity was: the values in time order, and the observations that they were read from."""

    place: int
    attribute: str
    segments: tuple[Segment, ...]
    states: tuple[StateSeen, ...]


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

    def holds_at(self, at_ms: int) -> bool:
        """Return whether it was in force at an instant."""
        return any(
            (start is None or start <= at_ms) and (end is None or at_ms < end) for start, end in self.spans
        )


@dataclass(slots=True)
class _RelationEvidence:
    """What tells of one relation, while it is gathered."""

    facts: dict[int, int] = field(default_factory=dict)
    """Fact -> the first time at which it tells of it."""
    occurrences: set[int] = field(default_factory=set)
    first_ms: int | None = None
    spans: list[Span] = field(default_factory=list)
    latest_ms: int = 0

    def add(self, fact: int, occurrence: int, at_ms: int) -> None:
        self.facts[fact] = min(at_ms, self.facts.get(fact, at_ms))
        self.occurrences.add(occurrence)
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
        self.latest_ms = max(self.latest_ms, at_ms)


_Ends = tuple[int, str, int]
Known = dict[_Ends, tuple[list[RelationSeen], KnownRelation]]
"""Source, label and target -> the statements that tell of these alone, and the relation that they make."""


def state_lines(states: Iterable[StateSeen], place_of: Mapping[int, int]) -> list[StateLine]:
    """Return the timelines of entities, by place and attribute; of an attribute that holds many values one a value.

    The observations of entities that are one are read together. What is not told to be of something is left out.
    """
    gathered: dict[tuple[int, str], list[StateSeen]] = {}
    for state in states:
        if state.attribute != UNSPECIFIED and state.entity in place_of:
            gathered.setdefault((place_of[state.entity], state.attribute), []).append(state)
    found: list[StateLine] = []
    for (place, attribute), told in sorted(gathered.items()):
        told.sort(key=lambda state: (state.at_ms, state.tie, state.fact, state.row))
        for group in by_value(told) if holds_many(attribute) else [told]:
            segments = timeline(observations(group))
            found.append(StateLine(place, attribute, tuple(segments), tuple(group)))
    return found


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
    seen: Iterable[RelationSeen],
    lines: Iterable[StateLine],
    place_of_key: Mapping[str, int],
    occurrence_of: Mapping[int, int],
    keys: Sequence[str],
    before: Known | None = None,
) -> tuple[KnownRelation, ...]:
    """Return the relations, by the keys of their ends and their label. One of an entity to itself is none.

    Args:
        seen: what statements relate.
        lines: what was told of states.
        place_of_key: key or alias -> place of the graph.
        occurrence_of: row of a state -> the occurrence that tells of it.
        keys: place -> key.
        before: what was made of statements before, by which the same is not made again; it is brought up to date.
    """
    said: dict[_Ends, list[RelationSeen]] = {}
    folded: dict[str, str] = {}
    for one in seen:
        label = folded.get(one.label)
        if label is None:
            label = folded[one.label] = fold(one.label)
        if one.source != one.target and label:
            said.setdefault((one.source, label, one.target), []).append(one)
    told = _of_states(lines, place_of_key, occurrence_of)
    before = {} if before is None else before
    for ends in before.keys() - said.keys():
        del before[ends]
    found: dict[_Ends, KnownRelation] = {}
    for ends, some in said.items():
        if ends in told:
            for one in some:
                told[ends].add(one.fact, one.occurrence, one.at_ms)
        elif (had := before.get(ends)) is not None and had[0] == some:
            found[ends] = had[1]
        else:
            made = _RelationEvidence()
            for one in some:
                made.add(one.fact, one.occurrence, one.at_ms)
            found[ends] = _known(*ends, made)
            before[ends] = some, found[ends]
    found |= {ends: _known(*ends, one) for ends, one in told.items()}
    return tuple(found[ends] for ends in sorted(found, key=lambda one: (keys[one[0]], one[1], keys[one[2]])))


def _of_states(
    lines: Iterable[StateLine], place_of_key: Mapping[str, int], occurrence_of: Mapping[int, int]
) -> dict[_Ends, _RelationEvidence]:
    """Return the relations that states tell of."""
    told: dict[_Ends, _RelationEvidence] = {}
    for line in lines:
        by_fact: dict[int, list[StateSeen]] = {}
        for state in line.states:
            by_fact.setdefault(state.fact, []).append(state)
        for segment in line.segments:
            target = place_of_key.get(entity_key(segment.value) or "")
            if target is None or target == line.place:
                continue
            found = told.setdefault((line.place, fold(line.attribute), target), _RelationEvidence())
            found.spans.append((segment.start_ms, segment.end_ms))
            for state in (state for fact in set(segment.facts) for state in by_fact.get(fact, ())):
                if any(same_value(value or "", segment.value) for value in (state.value, state.previous)):
                    found.add(state.fact, occurrence_of.get(state.row, 0), state.at_ms)
    return told


def _known(source: int, label: str, target: int, told: _RelationEvidence) -> KnownRelation:
    first = told.first_ms or 0
    spans = sorted(told.spans, key=lambda span: (span[0] is not None, span[0] or 0)) or [(first, None)]
    facts = tuple(sorted(told.facts, key=lambda fact: (told.facts[fact], fact)))
    return KnownRelation(
        source,
        label,
        target,
        len(told.occurrences),
        tuple(spans),
        facts,
        tuple(sorted(told.occurrences)),
        first,
        told.latest_ms,
    )
