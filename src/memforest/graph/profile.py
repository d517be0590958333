"""What is known of an entity, as lines with their sources: a lasting part, and what was told of it last. Nothing is concluded.

The lasting part is the states in force, each since when, and the relations that statements tell. The recent part is the
latest statements that name the entity. Of each there are not more than `MOST`. Labels of time are English, days are ISO days
of the zone; all else is in the language in which it was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timezone, tzinfo
from itertools import islice

import numpy as np

from memforest.graph.graph import Graph
from memforest.graph.paths import relations_of
from memforest.graph.relations import KnownRelation, StateLine
from memforest.ports import FoundLine, LineKind, StatedSpan, ends_of, since_text, stated_time
from memforest.records import EntityKind
from memforest.search.snapshot import Snapshot
from memforest.search.timeline import Segment, same_value
from memforest.store.connections import Tx
from memforest.store.facts import dated_words, mentions_of, spans_of
from memforest.store.snapshot import wordings
from memforest.text import cut, entity_key, fold
from memforest.times import one_line

MOST: Mapping[LineKind, int] = {"state": 16, "relation": 16, "fact": 8}
"""Lines of a kind that a profile has at most."""
MOST_CHARS = 400
"""Characters of a line."""
MOST_READ = 64
"""Latest statements among which those are looked for that tell of the entity: of who says most, others are what they tell of."""
FIRST: tuple[EntityKind, ...] = ("participant", "person", "organisation", "place")
"""Kinds of which there are profiles first."""


def salient(graph: Graph, most: int) -> list[int]:
    """Return the places that most facts name: people, organisations and places first, then all others."""
    places = [place for place in range(len(graph)) if graph.supports[place]]
    return sorted(
        places,
        key=lambda place: (
            graph.kinds[place] not in FIRST,
            -int(graph.supports[place]),
            int(graph.order[place]),
        ),
    )[: max(most, 0)]


def profile_of(
    tx: Tx,
    snapshot: Snapshot,
    graph: Graph,
    place: int,
    at_ms: int | None = None,
    *,
    zone: tzinfo = timezone.utc,
) -> list[FoundLine]:
    """Return the lines of an entity's profile: states by attribute, relations the heaviest first, facts the latest first.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory; at a moment, what was held then.
        graph: of the snapshot.
        place: whose profile.
        at_ms: the instant of which it tells; None for now. What began later is left out, and what had ended by then.
        zone: whose days are written.
    """
    profile = _Profile(tx, snapshot, graph, place, at_ms, zone)
    return [*profile.states(), *profile.relations(), *profile.facts()]


class _Profile:
    """The lines of one entity."""

    def __init__(
        self, tx: Tx, snapshot: Snapshot, graph: Graph, place: int, at_ms: int | None, zone: tzinfo
    ) -> None:
        self._tx, self._snapshot, self._graph = tx, snapshot, graph
        self._place, self._at_ms, self._zone = place, at_ms, zone
        self._name = one_line(graph.labels[place])

    def states(self) -> list[FoundLine]:
        """Return lines of the values in force; of too many, the latest observed."""
        found = [
            (line, segment)
            for line in (self._graph.states[at] for at in self._graph.states_of[self._place])
            for segment in line.segments
            if segment.start_ms is not None
            if (segment.end_ms is None if self._at_ms is None else segment.holds_at(self._at_ms))
        ]
        facts = [fact for _, segment in found for fact in segment.facts]
        spans, dated = spans_of(self._tx, facts), dated_words(self._tx, facts)
        sure = []
        for line, segment in found:
            words = (told for fact in segment.facts for told in dated.get(fact, ()))
            if any(fold(segment.value) in fold(told) for told in words):
                continue  # a date that a rule took for a value ("my last day is Monday 9")
            told_last = max((state.at_ms for state in line.states if state.fact in segment.facts), default=0)
            sure.append((-told_last, line.attribute, segment.value, line, segment))
        sure.sort(key=lambda one: one[:3])
        shown = [(line, segment) for *_, line, segment in sure[: MOST["state"]]]
        shown.sort(key=lambda one: (one[0].attribute, one[1].start_ms, one[1].value))
        return [
            self._line(
                f"{line.attribute}: {segment.value} ({self._since(line, segment, spans)})",
                "state",
                segment.facts,
            )
            for line, segment in shown
        ]

    def _since(
        self, line: StateLine, segment: Segment, spans: Mapping[int, tuple[int | None, int | None, object]]
    ) -> str:
        start_ms = segment.start_ms or 0
        began = any(
            state.change == "start" and state.at_ms == start_ms and same_value(state.value, segment.value)
            for state in line.states
        )
        return since_text(start_ms, _stated(spans.get(segment.facts[0])), self._zone, began=began)

    def relations(self) -> list[FoundLine]:
        """Return the relations in force that are no state of the entity's own, which stands there already."""
        own = {
            (fold(line.attribute), self._graph.by_key.get(entity_key(segment.value) or ""))
            for line in (self._graph.states[at] for at in self._graph.states_of[self._place])
            for segment in line.segments
        }
        holding = [
            one
            for one in relations_of(self._graph, self._place, self._at_ms)[0]
            if one.source != self._place or (one.label, one.target) not in own
        ]
        holding.sort(key=lambda one: (-one.weight, -one.latest_ms))
        first = [one.facts[0] for one in holding[: MOST["relation"]]]
        spans = spans_of(self._tx, first)
        return [
            self._line(self._relation_text(one, spans), "relation", one.facts)
            for one in holding[: MOST["relation"]]
        ]

    def _relation_text(
        self, one: KnownRelation, spans: Mapping[int, tuple[int | None, int | None, object]]
    ) -> str:
        ends = self._graph.labels[one.source], self._graph.labels[one.target]
        words = f"{ends[0]} / {one.label} / {ends[1]}"
        start_ms = one.start_ms
        if start_ms is None:
            return words
        when = _stated(spans.get(one.facts[0]))
        exact = when if when is not None and when[0] == start_ms else (start_ms, None, "day")
        return f"{words} ({stated_time(exact, self._zone)})"

    def facts(self) -> list[FoundLine]:
        """Return lines of the latest facts that name the entity in another role than speaker."""
        rows = np.array(self._graph.facts[self._place], dtype=np.int64)
        said = self._snapshot.facts.said_ms[rows]
        if self._at_ms is not None:
            rows, said = rows[said <= self._at_ms], said[said <= self._at_ms]
        latest = rows[np.lexsort((self._snapshot.facts.key[rows], -said))][:MOST_READ]
        ids = self._snapshot.facts.ids[latest].tolist()
        here = set(ids)
        restated = {row: fact.text for row, fact in self._snapshot.restated.items() if row in here}
        texts = wordings(self._tx, ids) | restated
        days = dict(zip(ids, self._snapshot.facts.said_ms[latest].tolist(), strict=True))
        telling = islice((fact for fact in ids if self._tells(fact, texts[fact])), MOST["fact"])
        return [
            self._line(f"{stated_time((days[fact], None, 'day'), self._zone)}: {texts[fact]}", "fact", [fact])
            for fact in telling
        ]

    def _tells(self, fact: int, text: str) -> bool:
        """Return whether a fact names the entity in another role than speaker.

        What stands as 'Ana: "..."' may tell of anybody, and names her as its speaker.
        """
        if text.startswith(tuple(f"{name}:" for name in self._graph.names(self._place))):
            return False
        members = set(self._graph.members[self._place])
        return any(entity in members and role != "speaker" for entity, role in mentions_of(self._tx, fact))

    def _line(self, text: str, kind: LineKind, facts: Iterable[int]) -> FoundLine:
        own = list(facts)
        rows = self._snapshot.rows_of_facts(own)
        turns = [turn for row in rows for turn in self._snapshot.turns_of_fact[row]]
        ids: Sequence[int] = self._snapshot.turns.ids[sorted(turns)].tolist()
        return FoundLine(self._name, cut(one_line(text), MOST_CHARS), kind, ends_of(own), ends_of(ids))


def _stated(span: tuple[int | None, int | None, object] | None) -> StatedSpan | None:
    """Return the time that a fact states, None when it states none."""
    return None if span is None or span[0] is None else span  # type: ignore[return-value]  # it has a beginning
