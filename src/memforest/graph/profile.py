"""What is known of an entity, as lines with their sources: a lasting part, and what was told of it last. Nothing is concluded.

The lasting part is the states in force, each since when, and the relations that statements tell. The recent part is the
latest statements that name the entity. Of each there are not more than `MOST`. Labels of time are English, days are ISO days
of the zone; all else is in the language in which it was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone, tzinfo

import numpy as np

from memforest.graph.graph import Graph
from memforest.graph.paths import relations_of
from memforest.graph.relations import StateLine
from memforest.ports import FoundLine, LineKind, StatedSpan, ends_of, since_text, stated_time
from memforest.reading.states import labelled
from memforest.records import EntityKind
from memforest.search.snapshot import OPEN, Snapshot, as_array
from memforest.search.timeline import same_value
from memforest.store.connections import Tx
from memforest.store.facts import dated_words, mentions_of, spans_of
from memforest.store.reads import wordings
from memforest.text import cut, fold
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
    others = np.array([kind not in FIRST for kind in graph.kinds])
    ranked = np.lexsort((graph.order, -graph.supports, others))
    found: list[int] = ranked[graph.supports[ranked] > 0].tolist()
    return found[: max(most, 0)]


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
    states = [graph.states[at] for at in graph.states_of[place]]
    return [
        *teller.states(states, at_ms),
        *_relations(teller, graph, place, states, at_ms),
        *_facts(teller, graph, place, at_ms),
    ]


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
                text = labelled(line.attribute, f"{one.value} ({since})")
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


def _relations(
    teller: Teller, graph: Graph, place: int, states: Sequence[StateLine], at_ms: int | None
) -> list[FoundLine]:
    """Return the relations in force that are no state of the entity's own, which stands there already."""
    own = {
        (place, fold(line.attribute), graph.by_key.get(key or ""))
        for line in states
        for key, _ in line.telling
    }
    holding = [
        one for one in relations_of(graph, place, at_ms)[0] if (one.source, one.label, one.target) not in own
    ]
    holding.sort(key=lambda one: (-one.weight, -one.latest_ms))
    found = []
    for one in holding[: MOST["relation"]]:
        text = f"{graph.labels[one.source]} / {one.label} / {graph.labels[one.target]}"
        if one.start_ms is not None:
            when = stated_spans(teller.tx, one.facts[:1]).get(one.facts[0])
            exact = when if when is not None and when[0] == one.start_ms else (one.start_ms, None, "day")
            text += f" ({stated_time(exact, teller.zone)})"
        found.append(teller.line(text, "relation", one.facts))
    return found


def _facts(teller: Teller, graph: Graph, place: int, at_ms: int | None) -> list[FoundLine]:
    """Return lines of the latest facts that name the entity in another role than speaker."""
    facts, restated = teller.snapshot.facts, teller.snapshot.restated
    rows = as_array(graph.facts[place])
    if at_ms is not None:
        rows = rows[facts.said_ms[rows] <= at_ms]
    latest = rows[np.lexsort((facts.key[rows], -facts.said_ms[rows]))][:MOST_READ]
    texts = wordings(teller.tx, facts.ids[latest].tolist())
    spoken, members = tuple(f"{name}:" for name in graph.names(place)), set(graph.members[place])
    found: list[FoundLine] = []
    for fact, said_ms in zip(facts.ids[latest].tolist(), facts.said_ms[latest].tolist(), strict=True):
        text = restated[fact].text if fact in restated else texts[fact]
        # What stands as 'Ana: "..."' may tell of anybody: of her where she is its subject.
        roles = ("subject",) if text.startswith(spoken) else ("subject", "object", "other")
        if any(one in members and role in roles for one, role in mentions_of(teller.tx, fact)):
            when = stated_time((said_ms, None, "day"), teller.zone)
            found.append(teller.line(f"{when}: {cut(text, MOST_CHARS)}", "fact", [fact]))
        if len(found) == MOST["fact"]:
            break
    return found
