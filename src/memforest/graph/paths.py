"""The way from one entity to another: the shortest, of these the heaviest; each step with what tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memforest.graph.edges import columns_of
from memforest.graph.known import Graph
from memforest.graph.relations import KnownRelation
from memforest.search.snapshot import Ints, Snapshot

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

    @property
    def weight(self) -> float:
        """The sum of the weights of its steps."""
        return sum(step.weight for step in self.steps)


def path(graph: Graph, snapshot: Snapshot, a: int, b: int, hops: int = 4) -> Path | None:
    """Return the shortest way from one place to another, of equal ones the heaviest; None if there is none of so few steps.

    Of equally heavy ones it is the one whose places come first by their keys, from the end. It costs the edges that are as
    near to the first place as the last one is.
    """
    layers = _layers(graph, a, b, hops)
    if layers is None:
        return None
    weight = np.zeros(len(graph))
    before = np.full(len(graph), -1, dtype=np.int64)
    for near, far in pairwise(layers):
        source, column = columns_of(graph.edges, near)
        target = graph.edges.targets[column]
        forward = np.isin(target, far)
        source, target, heavy = source[forward], target[forward], graph.edges.weights[column[forward]]
        total = weight[source] + heavy
        best = np.lexsort((graph.order[source], -total, target))
        first = best[np.flatnonzero(np.diff(target[best], prepend=-1))]
        weight[target[first]], before[target[first]] = total[first], source[first]
    places = [b]
    while places[-1] != a:
        places.append(int(before[places[-1]]))
    places.reverse()
    return Path(tuple(places), tuple(_step(graph, snapshot, *ends) for ends in pairwise(places)))


def _layers(graph: Graph, a: int, b: int, hops: int) -> list[Ints] | None:
    """Return the places by their distance from the first, up to where the last one is; None if that is too far."""
    seen = np.zeros(len(graph), dtype=np.bool_)
    seen[a] = True
    layers = [np.array([a], dtype=np.int64)]
    while not seen[b]:
        reached = np.unique(graph.edges.targets[columns_of(graph.edges, layers[-1])[1]])
        reached = reached[~seen[reached]]
        if len(layers) > hops or not len(reached):
            return None
        seen[reached] = True
        layers.append(reached)
    return layers


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
    known = [graph.relations[at] for at in graph.relations_of[place]]
    if at_ms is None:
        return [one for one in known if one.end_ms is None], [one for one in known if one.end_ms is not None]
    holding = [one for one in known if one.holds_at(at_ms)]
    over = [
        one
        for one in known
        if not one.holds_at(at_ms) and any(end is not None and end <= at_ms for _, end in one.spans)
    ]
    return holding, over
