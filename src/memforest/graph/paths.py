"""Ways through the graph: from one entity to another, where a question enters it, and who stands around some entities.

`path` is the shortest way, of these the heaviest; each step with what tells of it. A question enters at the entities that it
names (`seeds`), and at those whose facts are nearest to it (`near`). `expand` goes from some entities to those around them: a
few edges of each, a few hops, and not more than so many in all.

An entity that was reached scores less than the one it was reached from, the less the lighter the edge: `DAMPING` times
w / (1 + w). Of several ways to it the best counts, of equal ones the one from what stands first by its key. So the same
memory gives the same entities, whatever was stored first.

Example:
    >>> from memforest.graph.paths import damped
    >>> damped(1.0, 1.0), damped(1.0, 9.0)
    (0.25, 0.45)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memforest.graph.graph import Graph, columns_of
from memforest.graph.relations import KnownRelation
from memforest.search.snapshot import Snapshot, as_array
from memforest.text import entity_key

MOST_EVIDENCE = 8
"""Facts of a step: those that relate the two first, then the latest of those that name both."""


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a path, from a place to another."""

    source: int
    target: int
    kind: int
    """Bits of `Edges.kinds`: a relation, statements that name both, names that look alike."""
    weight: float
    relations: tuple[KnownRelation, ...]
    """Between the two, in either direction, the heaviest first."""
    facts: tuple[int, ...]
    """Fact rows of the snapshot that tell of it; of names that look alike none."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its relations, each once."""
        return tuple(dict.fromkeys(one.label for one in self.relations))


@dataclass(frozen=True, slots=True)
class Path:
    """The steps from one place to another; none where both are one."""

    places: tuple[int, ...]
    steps: tuple[Step, ...]


def path(graph: Graph, snapshot: Snapshot, a: int, b: int, hops: int = 4) -> Path | None:
    """Return the shortest way from one place to another, of equal ones the heaviest; None if there is none of so few steps.

    Of equally heavy ones it is the one whose places come first by their keys, from the end. It costs the edges that are as
    near to the first place as the last one is.
    """
    edges, near = graph.edges, as_array([a])
    weight, before = np.zeros(len(graph)), np.full(len(graph), -1, dtype=np.int64)
    before[a] = a
    while before[b] < 0:
        source, column = columns_of(edges, near)
        further = before[edges.targets[column]] < 0
        source, column = source[further], column[further]
        if hops < 1 or not len(column):
            return None
        target, total = edges.targets[column], weight[source] + edges.weights[column]
        best = np.lexsort((graph.order[source], -total, target))
        first = best[np.flatnonzero(np.diff(target[best], prepend=-1))]
        near, hops = target[first], hops - 1
        weight[near], before[near] = total[first], source[first]
    places = [b]
    while places[-1] != a:
        places.append(int(before[places[-1]]))
    places.reverse()
    return Path(tuple(places), tuple(_step(graph, snapshot, *ends) for ends in pairwise(places)))


def _step(graph: Graph, snapshot: Snapshot, source: int, target: int) -> Step:
    column = graph.edges.between(source, target)
    both = set(graph.relations_of[source]) & set(graph.relations_of[target])
    related = sorted((graph.relations[at] for at in sorted(both)), key=lambda one: -one.weight)
    telling = dict.fromkeys(row for one in related for row in snapshot.rows_of_facts(one.facts))
    naming = np.intersect1d(graph.facts[source], graph.facts[target]).astype(np.int64)
    naming = naming[np.lexsort((naming, -snapshot.facts.said_ms[naming]))]
    facts = tuple(telling | dict.fromkeys(naming.tolist()))[:MOST_EVIDENCE]
    return Step(
        source,
        target,
        int(graph.edges.kinds[column]),
        float(graph.edges.weights[column]),
        tuple(related),
        facts,
    )


def relations_of(graph: Graph, place: int, at_ms: int | None = None) -> tuple[Sequence[KnownRelation], ...]:
    """Return the relations of a place: those in force at an instant, and those that had ended by then.

    One that begins later is in neither. Without an instant those that have no end are in force. Each is in the order of
    `Graph.relations`.
    """
    holding, over = [], []
    for one in (graph.relations[at] for at in graph.relations_of[place]):
        if one.holds_at(at_ms):
            holding.append(one)
        elif at_ms is None or any(end is not None and end <= at_ms for _, end in one.spans):
            over.append(one)
    return holding, over


PARTLY = 0.5
"""Score of an entity of whose name a part was asked for, shared among all that have it."""
MOST_PARTLY = 4
"""Entities that a part of a name may mean; of one that more have, none is meant."""
AS_IF = 3
"""An entity is as near as if it had so many more facts of the usual likeness: few facts are chance."""


def seeds(graph: Graph, names: Sequence[str]) -> dict[int, float]:
    """Return the places that names mean, with a score: 1 where it is a name or alias, less where it is a part of the names of a few.

    A name that nothing has is left out.
    """
    found: dict[int, float] = {}
    for name in names:
        key = entity_key(name)
        if key is None:
            continue
        whole = graph.by_key.get(key)
        places = (whole,) if whole is not None else _partly(graph, key)
        for place in places:
            score = 1.0 if whole is not None else PARTLY / len(places)
            found[place] = max(score, found.get(place, 0.0))
    return found


def _partly(graph: Graph, key: str) -> tuple[int, ...]:
    """Return the places that have every word of a key in their names, if they are few."""
    both = frozenset.intersection(*(graph.words.get(word, frozenset()) for word in key.split()))
    return tuple(sorted(both, key=graph.order.__getitem__)) if len(both) <= MOST_PARTLY else ()


def near(graph: Graph, snapshot: Snapshot, fact_cosines: NDArray[np.floating], most: int) -> dict[int, float]:
    """Return the places whose facts are nearest to a question, the nearest first.

    An entity has no vector of its own. The product of a question with the mean of the (unit) vectors of its facts is the mean of
    their cosines, which are known anyway. It is drawn to the mean of all facts, as if the entity had `AS_IF` more facts of that.

    Args:
        graph: of the memory.
        snapshot: which it is of.
        fact_cosines: by fact row; NaN where a fact has no vector.
        most: places at most.
    """
    if len(fact_cosines) != len(snapshot.facts.ids):
        raise ValueError(f"{len(fact_cosines)} cosines for {len(snapshot.facts.ids)} facts")
    known = ~np.isnan(fact_cosines)
    if most < 1 or not known.any():
        return {}
    owners, values = graph.facts.owners, graph.facts.values
    counts = known[values]
    told = np.where(known, fact_cosines, 0.0)
    usual = float(told.sum() / known.sum())
    number = np.bincount(owners, weights=counts, minlength=len(graph))
    total = np.bincount(owners, weights=told[values], minlength=len(graph))
    means = (total + AS_IF * usual) / (number + AS_IF)
    best = np.lexsort((graph.order, -means))
    return {int(place): float(means[place]) for place in best[number[best] > 0][:most]}


DAMPING = 0.5
"""What is left of a score with each hop, of the heaviest of edges."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Places with their scores in the order they were reached, the best of a hop first; the first ones are the seeds."""

    scores: Mapping[int, float] = field(default_factory=dict)
    via: Mapping[int, int] = field(default_factory=dict)
    """From which place each was reached, but the seeds."""


def damped(score: float, weight: float) -> float:
    """Return the score of a place that is reached by an edge from a place with a score."""
    return score * DAMPING * weight / (1 + weight)


def expand(
    graph: Graph,
    seeds: Mapping[int, float],
    *,
    hops: int = 2,
    most: int = 8,
    limit: int = 64,
    at_ms: int | None = None,
) -> Expansion:
    """Return the places around some.

    Args:
        graph: of the memory.
        seeds: places with their scores; of more than `limit` the best.
        hops: edges from a seed at most.
        most: edges that are followed from one place: the heaviest, of equal ones the latest.
        limit: places in all, seeds among them.
        at_ms: an instant; an edge of which nothing had told by then is none.
    """
    found = dict(sorted(seeds.items(), key=lambda item: (-item[1], graph.order[item[0]]))[: max(limit, 0)])
    via: dict[int, int] = {}
    frontier = list(found)
    for _ in range(hops):
        reached = _expand_step(graph, found, frontier, most, at_ms)
        best = sorted(reached, key=lambda place: (-reached[place][0], graph.order[place]))
        frontier = best[: max(limit - len(found), 0)]
        found |= {place: reached[place][0] for place in frontier}
        via |= {place: reached[place][1] for place in frontier}
    return Expansion(found, via)


def _expand_step(
    graph: Graph, found: Mapping[int, float], frontier: list[int], most: int, at_ms: int | None
) -> dict[int, tuple[float, int]]:
    """Return what the edges of some places lead to that was not found yet: the score, and from where."""
    edges = graph.edges
    reached: dict[int, tuple[float, int]] = {}
    for place in sorted(frontier, key=lambda one: int(graph.order[one])):
        span = edges.span(place)
        columns = np.arange(span.start, span.stop)
        if at_ms is not None:
            columns = columns[edges.first_ms[span] <= at_ms]
        columns = columns[:most]
        for target, weight in zip(
            edges.targets[columns].tolist(), edges.weights[columns].tolist(), strict=True
        ):
            score = damped(found[place], weight)
            if target not in found and (target not in reached or reached[target][0] < score):
                reached[target] = score, place
    return reached
