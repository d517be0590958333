"""What is known of an entity, as lines with their sources: a lasting part, and what was told of it last. Nothing is concluded.

The lasting part is the states in force, each since when, and the relations that statements tell. The recent part is the
latest statements that name the entity. Of each there are not more than `MOST`. Labels of time are English, days are ISO days
of the zone; all else is in the language in which it was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone, tzinfo
from itertools import islice

import numpy as np

from memforest.graph.graph import Graph
from memforest.graph.paths import relations_of
from memforest.graph.relations import KnownRelation, StateLine
from memforest.ports import FoundLine, LineKind, StatedSpan, ends_of, since_text, stated_time
from memforest.records import EntityKind
from memforest.search.snapshot import OPEN, Snapshot
from memforest.search.timeline import same_value
from memforest.store.connections import Tx
from memforest.store.facts import dated_words, mentions_of, spans_of
from memforest.store.snapshot import wordings
from memforest.text import cut, entity_key, fold
from memforest.times import one_line

MOST: Mapping[LineKind, int] = {"state": 16, "relation": 16, "fact": 8}
"""Lines of a kind that a profile has at most."""
MOST_CHARS = 400
"""Characters of a fact in a line."""
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
    teller = Teller(tx, snapshot, one_line(graph.labels[place]), zone)
    profile = _Profile(teller, graph, place, at_ms)
    return [*profile.states(), *profile.relations(), *profile.facts()]


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of somebody or something in lines, each with the facts and turns that it rests on.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory; at a moment, what was held then.
        name: whom or what the lines are of.
        zone: whose days are written.
        before_ms: turns that were said at or after this instant are no sources.
    """

    tx: Tx
    snapshot: Snapshot
    name: str
    zone: tzinfo
    before_ms: int = OPEN

    def line(self, text: str, kind: LineKind, facts: Sequence[int]) -> FoundLine:
        """Return a line that rests on facts, and on the turns that support them."""
        turns, rows = self.snapshot.turns, self.snapshot.rows_of_facts(facts)
        support = sorted({turn for row in rows for turn in self.snapshot.turns_of_fact[row]})
        said = [turn for turn in support if turns.said_ms[turn] < self.before_ms]
        return FoundLine(self.name, one_line(text), kind, ends_of(facts), ends_of(turns.ids[said].tolist()))

    def states(self, lines: Iterable[StateLine], at_ms: int | None = None) -> list[FoundLine]:
        """Return lines of the values in force at an instant, now if that is None; of too many, the latest observed."""
        found = []
        for line in lines:
            for one in line.segments:
                holds = one.end_ms is None if at_ms is None else one.holds_at(at_ms)
                if one.start_ms is None or not holds or self.is_date(one.value, one.facts):
                    continue
                spans = stated_spans(self.tx, one.facts)
                began = any(
                    state.change == "start"
                    and state.at_ms == one.start_ms
                    and same_value(state.value, one.value)
                    for state in line.states
                )
                if not began and all(_is_over(spans.get(fact), at_ms) for fact in one.facts):
                    continue
                since = since_text(one.start_ms, spans.get(one.facts[0]), self.zone, began=began)
                last_ms = max((state.at_ms for state in line.states if state.fact in one.facts), default=0)
                text = f"{line.attribute}: {one.value} ({since})"
                found.append((-last_ms, line.attribute, one.value, one.start_ms, text, one.facts))
        latest = sorted(found)[: MOST["state"]]
        latest.sort(key=lambda one: (one[1], one[3], one[2]))
        return [self.line(text, "state", facts) for *_, text, facts in latest]

    def is_date(self, value: str, facts: Collection[int]) -> bool:
        """Return whether a value is a date that a rule took for one ("my last day is Monday 9")."""
        told = (words for some in dated_words(self.tx, facts).values() for words in some)
        return any(fold(value) in fold(words) for words in told)


def stated_spans(tx: Tx, facts: Collection[int]) -> dict[int, StatedSpan]:
    """Return the time that facts state, of those that state one."""
    spans = spans_of(tx, facts).items()
    return {fact: (start, end, exact) for fact, (start, end, exact) in spans if start is not None}


def _is_over(span: StatedSpan | None, at_ms: int | None) -> bool:
    """Return whether a fact tells of a time that was over at an instant, or is told of by its end if that is None."""
    return span is not None and span[1] is not None and (at_ms is None or span[1] <= at_ms)


class _Profile:
    """The lines of one entity."""

    def __init__(self, teller: Teller, graph: Graph, place: int, at_ms: int | None) -> None:
        self._teller, self._graph, self._place, self._at_ms = teller, graph, place, at_ms
        self._states = [graph.states[at] for at in graph.states_of[place]]

    def states(self) -> list[FoundLine]:
        """Return lines of the values in force."""
        return self._teller.states(self._states, self._at_ms)

    def relations(self) -> list[FoundLine]:
        """Return the relations in force that are no state of the entity's own, which stands there already."""
        own = {
            (fold(line.attribute), self._graph.by_key.get(entity_key(segment.value) or ""))
            for line in self._states
            for segment in line.segments
        }
        holding = [
            one
            for one in relations_of(self._graph, self._place, self._at_ms)[0]
            if one.source != self._place or (one.label, one.target) not in own
        ]
        holding.sort(key=lambda one: (-one.weight, -one.latest_ms))
        return [
            self._teller.line(self._relation_text(one), "relation", one.facts)
            for one in holding[: MOST["relation"]]
        ]

    def _relation_text(self, one: KnownRelation) -> str:
        words = f"{self._graph.labels[one.source]} / {one.label} / {self._graph.labels[one.target]}"
        if one.start_ms is None:
            return words
        when = stated_spans(self._teller.tx, one.facts[:1]).get(one.facts[0])
        exact = when if when is not None and when[0] == one.start_ms else (one.start_ms, None, "day")
        return f"{words} ({stated_time(exact, self._teller.zone)})"

    def facts(self) -> list[FoundLine]:
        """Return lines of the latest facts that name the entity in another role than speaker."""
        teller, snapshot = self._teller, self._teller.snapshot
        rows = np.array(self._graph.facts[self._place], dtype=np.int64)
        said = snapshot.facts.said_ms[rows]
        if self._at_ms is not None:
            rows, said = rows[said <= self._at_ms], said[said <= self._at_ms]
        latest = rows[np.lexsort((snapshot.facts.key[rows], -said))][:MOST_READ]
        ids = snapshot.facts.ids[latest].tolist()
        texts = wordings(teller.tx, ids)
        texts |= {fact: snapshot.restated[fact].text for fact in ids if fact in snapshot.restated}
        days = dict(zip(ids, snapshot.facts.said_ms[latest].tolist(), strict=True))
        telling = islice((fact for fact in ids if self._tells(fact, texts[fact])), MOST["fact"])
        return [
            teller.line(
                f"{stated_time((days[fact], None, 'day'), teller.zone)}: {cut(texts[fact], MOST_CHARS)}",
                "fact",
                [fact],
            )
            for fact in telling
        ]

    def _tells(self, fact: int, text: str) -> bool:
        """Return whether a fact names the entity in another role than speaker.

        What stands as 'Ana: "..."' may tell of anybody, and names her as its speaker.
        """
        if text.startswith(tuple(f"{name}:" for name in self._graph.names(self._place))):
            return False
        members = set(self._graph.members[self._place])
        named = mentions_of(self._teller.tx, fact)
        return any(entity in members and role != "speaker" for entity, role in named)
