"""Where a question enters the graph: at the entities that it names, and at those whose facts are nearest to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.graph.known import Graph
from memforest.search.snapshot import Snapshot
from memforest.text import entity_key

PARTLY = 0.5
"""Score of an entity of whose name a part was asked for, shared among all that have it."""
MOST_PARTLY = 4
"""Entities that a part of a name may mean; of one that more have, none is meant."""
AS_IF = 3
"""An entity is as near as if it had so many more facts of the usual likeness: few facts are chance."""

_tokens: WeakKeyDictionary[Graph, Mapping[str, tuple[int, ...]]] = WeakKeyDictionary()


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
    tokens = _tokens.get(graph)
    if tokens is None:
        tokens = _tokens.setdefault(graph, _words_of_names(graph))
    found = [frozenset(tokens.get(word, ())) for word in key.split()]
    both = frozenset.intersection(*found) if found else frozenset()
    few = len(both) <= MOST_PARTLY
    return tuple(sorted(both, key=lambda place: int(graph.order[place]))) if few else ()


def _words_of_names(graph: Graph) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {}
    for key, place in graph.by_key.items():
        for word in key.split():
            found.setdefault(word, {})[place] = None
    return {word: tuple(places) for word, places in found.items()}


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
