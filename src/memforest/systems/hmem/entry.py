"""Where a question enters the memory: the entities that it names or is near to, those around them, and what these lead to.

Source: H-Mem (arXiv 2605.15701) §3.3: seeds by name and by vectors, then several hops; from entities to what was said, and from there
to events. That the entities' nearness counts for what they lead to is this package's (`Explore.entity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.explore import Explore
from memforest.graph.expand import Expansion, expand
from memforest.graph.graph import graph_of
from memforest.graph.known import Graph
from memforest.graph.near import near, seeds
from memforest.ranking import Scores, standardise
from memforest.search.snapshot import Lists, Snapshot, ranges
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.legs import Base
from memforest.systems.speak import LEXICAL, told_by

Flags = NDArray[np.bool_]

SHOWN = 8
"""Entities of a trace, of each sort."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What entities lead to."""

    facts: Flags | None = None
    """Which facts they lead to, shape (m,); None where there is no entity to enter by, and everything is searched."""
    turns: Flags | None = None
    """Which turns, shape (n,)."""
    nearness: Scores | None = None
    """How near the entities are to the question that lead to each turn, as z-scores; None where that tells nothing."""
    known: Scores | None = None
    """1 for every turn that tells a state or a relation of an entity that the question names; None where none is asked for."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The entities, for a trace."""


NOWHERE = Entry()
"""A question that enters by no entity."""


def names_in(request: Search) -> tuple[str, ...]:
    """Return the names in a question, each once."""
    plan = request.plan
    return tuple(dict.fromkeys((*plan.entities, *plan.mentions, *plan.owners)))


def enter(tx: Tx, snapshot: Snapshot, request: Search, explore: Explore, base: Base) -> Entry:
    """Return what the entities of a question lead to.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        request: the question.
        explore: `hops`, `neighbours` and `entities` count.
        base: how relevant facts are by themselves, by words and vectors: an entity is as near as its facts on average.
    """
    if not len(snapshot.facts.ids):
        return NOWHERE
    graph = graph_of(tx, snapshot)
    named = seeds(graph, names_in(request))
    closest = _closest(snapshot, graph, explore, base)
    if not named and not closest:
        return NOWHERE
    found = expand(
        graph,
        {**closest, **named},
        hops=explore.hops,
        most=explore.neighbours,
        limit=explore.entities,
        at_ms=request.as_of_ms,
    )
    facts, turns = _led_to(snapshot, graph, found.places)
    return Entry(
        facts,
        turns,
        _nearness(snapshot, graph, closest),
        _told_of(snapshot, graph, named),
        _notes(graph, named, closest, found),
    )


def _closest(snapshot: Snapshot, graph: Graph, explore: Explore, base: Base) -> dict[int, float]:
    """Return the entities that are nearer than facts usually are: how far above that, the nearest as 1."""
    told = LEXICAL * standardise(base.fact_lexical) + (1 - LEXICAL) * standardise(base.fact)
    usual = float(told.mean())
    excess = {
        place: value - usual
        for place, value in near(graph, snapshot, told, explore.entities).items()
        if value > usual
    }
    most = max(excess.values(), default=0.0)
    return {place: value / most for place, value in excess.items()}


def _led_to(snapshot: Snapshot, graph: Graph, places: Sequence[int]) -> tuple[Flags, Flags]:
    """Return which facts and turns entities lead to."""
    chosen = np.array(places, dtype=np.int64)
    facts, turns = (
        np.zeros(len(snapshot.facts.ids), dtype=np.bool_),
        np.zeros(len(snapshot.turns.ids), dtype=np.bool_),
    )
    for flags, lists in ((facts, graph.facts), (turns, graph.turns)):
        ends = lists.ends[chosen]
        flags[lists.values[ranges(ends - lists.counts[chosen], ends)]] = True
    return facts, turns


def _nearness(snapshot: Snapshot, graph: Graph, closest: Mapping[int, float]) -> Scores | None:
    """Return, per turn, how near the nearest entity of its facts is, as z-scores."""
    if not closest:
        return None
    of_place = np.zeros(len(graph))
    of_place[list(closest)] = list(closest.values())
    of_fact = np.zeros(len(snapshot.facts.ids))
    np.maximum.at(of_fact, graph.facts.values, of_place[graph.facts.owners])
    found = told_by(snapshot).best(of_fact, np.zeros(len(snapshot.turns.ids)))
    return standardise(found) if found.any() else None


_states: WeakKeyDictionary[Graph, Lists] = WeakKeyDictionary()


def _told_of(snapshot: Snapshot, graph: Graph, named: Mapping[int, float]) -> Scores | None:
    """Return 1 for the turns that tell what is known of the entities that are named whole: their states and relations."""
    places = [place for place, score in named.items() if score == 1]
    if not places:
        return None
    known = _states.get(graph)
    if known is None:
        known = _states.setdefault(graph, _facts_of_states(snapshot, graph))
    of_fact = np.zeros(len(snapshot.facts.ids))
    for place in places:
        of_fact[list(known[place])] = 1.0
    found = told_by(snapshot).best(of_fact, np.zeros(len(snapshot.turns.ids)))
    return found if found.any() else None


def _facts_of_states(snapshot: Snapshot, graph: Graph) -> Lists:
    """Return place -> rows of the facts that tell its states, and the relations that it is an end of."""
    told: list[set[int]] = [set() for _ in range(len(graph))]
    for line in graph.states:
        told[line.place].update(state.fact for state in line.states)
    for one in graph.relations:
        for place in (one.source, one.target):
            told[place].update(one.facts)
    return Lists.of(snapshot.rows_of_facts(sorted(facts)) for facts in told)


def _notes(
    graph: Graph, named: Mapping[int, float], closest: Mapping[int, float], found: Expansion
) -> dict[str, Any]:
    return {
        "named": [graph.labels[place] for place in named],
        "near": [graph.labels[place] for place in list(closest)[:SHOWN]],
        "entities": len(found.places),
        "reached": [
            f"{graph.labels[via.source]} > {graph.labels[place]}"
            for place, via in list(found.via.items())[:SHOWN]
        ],
    }
