"""The forests of a snapshot: read at first use, index by index, and brought up to date by what was written since.

A snapshot holds what was said; trees are views of that, and a query reads those of the index that it asks. A forest
is read in the transaction of the snapshot's state. The next snapshot begins with the forests of the one before, as
they were: at its first use, a forest reads the rows of its own trees that the change log names. What other indexes
write costs it nothing, and a forest that nobody asks for is neither read nor brought up to date.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakKeyDictionary

from memforest.search.advance_forest import OldVectors, advance_forest, advance_vectors
from memforest.search.forest import EmbeddedForest, Forest
from memforest.search.load_forest import embedded_ids, load_forest, load_vectors
from memforest.search.smaller_forest import forest_without, vectors_without
from memforest.search.snapshot import Snapshot
from memforest.store import meta
from memforest.store.changes import Changes, changes_since
from memforest.store.tx import Tx

T = TypeVar("T")


@dataclass(slots=True)
class _Kept:
    """The forest of one index in one snapshot: the current one, and an older one with its position of the change log."""

    forest: Forest | None = None
    embedded: EmbeddedForest | None = None
    older_forest: tuple[int, Forest] | None = None
    older_vectors: OldVectors | None = None


@dataclass(slots=True)
class _Forests:
    """The forests of one snapshot by owner; one thread at a time makes one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    of: dict[str, _Kept] = field(default_factory=dict)
    changes: dict[int, Changes | None] = field(default_factory=dict)
    """What has changed since a position of the change log, as forests and their vectors mostly ask for the same."""


_forests: WeakKeyDictionary[Snapshot, _Forests] = WeakKeyDictionary()


def forest_of(tx: Tx, snapshot: Snapshot, owner: str) -> Forest:
    """Return the trees of an index as they are in a snapshot.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        owner: name of the index.

    Raises:
        ValueError: if the stored trees contradict each other, or the transaction is of another state.
    """

    def make(kept: _Kept) -> Forest:
        if kept.forest is None:
            older, kept.older_forest = kept.older_forest, None
            changed = None if older is None else _changes(tx, snapshot, older[0])
            if snapshot.base is not None:
                kept.forest = forest_without(forest_of(tx, snapshot.base, owner), snapshot)
            elif older is not None and changed is not None:
                kept.forest = advance_forest(tx, snapshot, older[1], changed)
            kept.forest = kept.forest or load_forest(tx, snapshot, owner)
        return kept.forest

    kept = _kept(snapshot, owner)
    return kept.forest or _made(tx, snapshot, kept, make)


def embedded_forest(tx: Tx, snapshot: Snapshot, owner: str) -> EmbeddedForest:
    """Return the trees of an index with the vectors of their summaries.

    These are read apart, as a search that does not browse needs none of them. Arguments and errors are those of
    `forest_of`.
    """
    forest = forest_of(tx, snapshot, owner)

    def make(kept: _Kept) -> EmbeddedForest:
        if kept.embedded is None:
            older, kept.older_vectors = kept.older_vectors, None
            changed = None if older is None else _changes(tx, snapshot, older.position)
            table = None
            if snapshot.base is not None:
                table = vectors_without(embedded_forest(tx, snapshot.base, owner), forest)
            elif older is not None and changed is not None:
                table = advance_vectors(tx, snapshot, forest, older, changed)
            kept.embedded = EmbeddedForest(
                forest, load_vectors(tx, snapshot, forest) if table is None else table
            )
        return kept.embedded

    kept = _kept(snapshot, owner)
    return kept.embedded or _made(tx, snapshot, kept, make)


def put_forest(snapshot: Snapshot, found: EmbeddedForest) -> None:
    """Set the trees of an index in a snapshot that was not read from a file."""
    kept = _kept(snapshot, found.forest.owner)
    kept.forest, kept.embedded = found.forest, found


def carry_forests(old: Snapshot, new: Snapshot) -> None:
    """Let a memory's next snapshot begin with the forests of the one before."""
    carried = _Forests()
    for owner, kept in dict(_of(old)).items():  # a copy: another thread may be adding to it
        forest, embedded = kept.forest, kept.embedded
        vectors = kept.older_vectors
        if embedded is not None:
            vectors = OldVectors(old.position, embedded_ids(embedded.forest), embedded.vectors)
        carried.of[owner] = _Kept(
            older_forest=kept.older_forest if forest is None else (old.position, forest),
            older_vectors=vectors,
        )
    _forests[new] = carried


def forest_bytes(snapshot: Snapshot) -> int:
    """Return the bytes of the forests that a snapshot has, about: those that are up to date, and older ones."""
    total = 0
    for kept in dict(_of(snapshot)).values():
        forest = kept.forest or (kept.older_forest and kept.older_forest[1])
        total += 0 if forest is None else forest.nbytes
        if kept.embedded is not None:
            total += kept.embedded.vectors.nbytes
        elif kept.older_vectors is not None:
            total += kept.older_vectors.ids.nbytes + kept.older_vectors.table.nbytes
    return total


def forests_read(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the indexes whose forests a snapshot has up to date."""
    return frozenset(owner for owner, kept in dict(_of(snapshot)).items() if kept.forest is not None)


def _of(snapshot: Snapshot) -> Mapping[str, _Kept]:
    found = _forests.get(snapshot)
    return {} if found is None else found.of


def _kept(snapshot: Snapshot, owner: str) -> _Kept:
    return _forests.setdefault(snapshot, _Forests()).of.setdefault(owner, _Kept())


def _made(tx: Tx, snapshot: Snapshot, kept: _Kept, make: Callable[[_Kept], T]) -> T:
    """Make something of a snapshot; other threads wait for it."""
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "trees are read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    with _forests.setdefault(snapshot, _Forests()).lock:
        return make(kept)


def _changes(tx: Tx, snapshot: Snapshot, since: int) -> Changes | None:
    """Return the changes since a position of the change log; None when the log no longer reaches back that far."""
    known = _forests.setdefault(snapshot, _Forests()).changes
    if since not in known:
        known[since] = changes_since(tx, since)
    return known[since]
