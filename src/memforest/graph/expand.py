"""From some entities to those around them: a few edges of each, a few hops, and not more than so many in all.

An entity that was reached scores less than the one it was reached from, the less the lighter the edge: `DAMPING` times w / (1 + w).
Of several ways to it the best counts, of equal ones the one from what stands first by its key. So the same memory gives the
same entities, whatever was stored first.

Example:
    >>> from memforest.graph.expand import damped
    >>> damped(1.0, 1.0), damped(1.0, 9.0)
    (0.25, 0.45)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from memforest.graph.known import Graph
from memforest.search.snapshot import Ints

DAMPING = 0.5
"""What is left of a score with each hop, of the heaviest of edges."""
HOPS, MOST, LIMIT = 2, 8, 64


class Via(NamedTuple):
    """The edge by which a place was reached: from where, what it is made of (bits of `Edges.kinds`), and its weight."""

    source: int
    kind: int
    weight: float
    hop: int


@dataclass(frozen=True, slots=True)
class Expansion:
    """Places in the order they were reached, the best of a hop first, with their scores; the first ones are the seeds."""

    places: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    via: Mapping[int, Via] = field(default_factory=dict)
    """The edge to each place but the seeds."""


def damped(score: float, weight: float) -> float:
    """Return the score of what is reached from a score by an edge."""
    return score * DAMPING * weight / (1 + weight)


def expand(
    graph: Graph,
    seeds: Mapping[int, float],
    *,
    hops: int = HOPS,
    most: int = MOST,
    limit: int = LIMIT,
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
    via: dict[int, Via] = {}
    frontier = list(found)
    for hop in range(1, hops + 1):
        reached = _step(graph, found, frontier, most, at_ms, hop)
        best = sorted(reached, key=lambda place: (-reached[place][0], graph.order[place]))
        frontier = best[: max(limit - len(found), 0)]
        found |= {place: reached[place][0] for place in frontier}
        via |= {place: reached[place][1] for place in frontier}
        if not frontier:
            break
    return Expansion(tuple(found), tuple(found.values()), via)


def _step(
    graph: Graph, found: Mapping[int, float], frontier: list[int], most: int, at_ms: int | None, hop: int
) -> dict[int, tuple[float, Via]]:
    """Return what the edges of some places lead to that was not found yet: the score, and the edge."""
    edges = graph.edges
    reached: dict[int, tuple[float, Via]] = {}
    for place in sorted(frontier, key=lambda one: int(graph.order[one])):
        columns = _followed(graph, place, most, at_ms)
        targets, weights, kinds = (
            column[columns].tolist() for column in (edges.targets, edges.weights, edges.kinds)
        )
        for target, weight, kind in zip(targets, weights, kinds, strict=True):
            score = damped(found[place], weight)
            if target not in found and (target not in reached or reached[target][0] < score):
                reached[target] = score, Via(place, kind, weight, hop)
    return reached


def _followed(graph: Graph, place: int, most: int, at_ms: int | None) -> Ints | slice:
    """Return the columns of the edges of a place that are followed."""
    span = graph.edges.span(place)
    if at_ms is None:
        return slice(span.start, min(span.stop, span.start + most))
    told: Ints = np.flatnonzero(graph.edges.first_ms[span] <= at_ms)[:most]
    columns: Ints = told + span.start
    return columns
