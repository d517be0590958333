"""The graph of a memory: whom and what it names, and what joins them; worked out from a snapshot, and kept nowhere.

What is stored are observations (what statements name, relate and tell of states) and what people decided of names. Which names are
one entity, how much joins two, and since when a relation holds are a function of these alone: the order in which they were
stored does not matter, what is deleted leaves nothing, and two processes see the same. A snapshot of an earlier moment has the graph
of what it holds; what people decided of names by then holds in it.

An entity of the graph is a *place*, 0 to n - 1: one or several stored entities that are one, under the row id of the one that
stands for them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from memforest.graph.known import Graph
from memforest.graph.made import Making, Read, make_graph, read_graph
from memforest.search.snapshot import Delta, Snapshot, count_bytes, once_per_snapshot
from memforest.store import meta, names, relations
from memforest.store.tx import Tx


class _Handed:
    """What a graph leaves to the next one, for the first who takes it."""

    def __init__(self, making: Making) -> None:
        self._making = [making]

    def take(self) -> Making | None:
        try:
            return self._making.pop()
        except IndexError:
            return None


@dataclass(slots=True)
class _Kept:
    """The graph of one snapshot, of what state it is, and what the last graph has left."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    graph: Graph | None = None
    generation: int = -1
    stamp: object = None
    left: _Handed | None = None


def _carry(_snapshot: Snapshot, _delta: Delta, kept: _Kept) -> _Kept:
    return _Kept(left=kept.left)


_kept = once_per_snapshot(lambda _snapshot: _Kept(), _carry)


def graph_of(tx: Tx, snapshot: Snapshot) -> Graph:
    """Return the graph of a snapshot; made once, and shared.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, now or at a moment.

    Raises:
        ValueError: if the transaction is of another state.
    """
    kept = _kept(snapshot)
    if kept.graph is not None and kept.generation == snapshot.generation:
        return kept.graph
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "a graph is read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    with kept.lock:
        stamp = relations.stamp(tx)
        if kept.graph is None or stamp != kept.stamp:
            making = (kept.left and kept.left.take()) or Making()
            kept.graph = make_graph(snapshot, read_graph(tx, snapshot), making)
            kept.left = _Handed(making)
            count_bytes(snapshot, kept.graph.nbytes)
        kept.generation, kept.stamp = snapshot.generation, stamp
        return kept.graph


def put_graph(snapshot: Snapshot, read: Read | None = None) -> Graph:
    """Set the graph of a snapshot that was not read from a file, and return it."""
    kept = _kept(snapshot)
    kept.graph, kept.generation = make_graph(snapshot, read or Read()), snapshot.generation
    return kept.graph


def names_of(tx: Tx, snapshot: Snapshot, graph: Graph, places: Collection[int]) -> dict[int, dict[str, int]]:
    """Return place -> name -> how many occurrences of facts call it so, the most frequent first.

    Who was never named, and only spoke, has their label with 0.
    """
    asked = {entity: place for place in places for entity in graph.members[place]}
    found: dict[int, dict[str, int]] = {place: {} for place in places}
    for use in names.spelled(tx, asked):
        if use.fact in snapshot.fact_row and use.occurrence not in snapshot.without:
            counted = found[asked[use.entity]]
            counted[use.name] = counted.get(use.name, 0) + 1
    return {
        place: dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))) or {graph.labels[place]: 0}
        for place, counted in found.items()
    }
