"""One memory's searchable state as arrays, read in one transaction and kept until its generation moves.

Turns are ordered by session time and position, so a turn's neighbours in its session tree are the rows
beside it. Facts point at the turns that support them, inner nodes at their parents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.texts import QUESTION_MARKS, asks
from memforest.store import derived, meta
from memforest.store import snapshot as rows
from memforest.store.db import Tx

__all__ = ["Facts", "Forest", "Snapshot", "Turns", "load_snapshot", "once_per_snapshot"]

T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns as columns, n rows. `previous`/`following` are the row beside it in its session, or -1."""

    ids: Ints
    session: Ints
    speaker: Ints
    """Index into `Snapshot.speakers`."""
    said_ms: Ints
    length: Floats
    """Number of lexical tokens."""
    asks: NDArray[np.bool_]
    """Holds a question mark (of any script)."""
    asks_last: NDArray[np.bool_]
    """Ends with one."""
    dated: NDArray[np.bool_]
    """Supports a fact that states a time of its own."""
    previous: Ints
    following: Ints
    vectors: Floats
    """Unit rows, shape (n, d); zero where there is no vector."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts as columns, m rows. `pairs` are (fact row, turn row) of every support, shape (p, 2)."""

    ids: Ints
    speaker: Ints
    start_ms: Ints
    """Start of the stated valid time, else when it was first said."""
    end_ms: Ints
    """End of the stated valid time, else `OPEN`."""
    stated: NDArray[np.bool_]
    said_ms: Ints
    pairs: Ints
    length: Floats
    vectors: Floats


@dataclass(frozen=True, slots=True)
class Forest:
    """All nodes of all trees as columns; `parent` is a row, or -1 at a root.

    `item` is the row of a leaf's fact, or of the first turn of its cell; -1 for inner nodes.
    """

    ids: Ints
    tree: Ints
    level: Ints
    parent: Ints
    kind: NDArray[np.int8]
    """0 inner node, 1 cell leaf, 2 fact leaf."""
    item: Ints
    item_end: Ints
    """One past the last turn row of a cell leaf."""
    vectors: Floats
    roots: Ints
    tree_kind: tuple[str, ...]
    tree_scope: Ints
    children: tuple[tuple[int, ...], ...]


OPEN = np.iinfo(np.int64).max
"""The end of an interval that has none, ms."""


OBJECT_BYTES = 200
"""What the look-up tables and tuples of one row take, about (measured: 170 to 230 on CPython 3.11)."""
STATE_BYTES = 400


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a query reads. Immutable, compared by identity, shared by concurrent readers."""

    generation: int
    dimension: int
    speakers: tuple[str, ...]
    entities: Mapping[int, rows.EntityName]
    names: Mapping[str, int]
    turns: Turns
    facts: Facts
    forest: Forest
    states: tuple[rows.StateSeen, ...]
    mentions: Ints
    """(fact row, entity id) of every mention, shape (q, 2)."""

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the snapshot holds, about: its arrays, and the usual size of its Python objects."""
        arrays = sum(
            value.nbytes
            for part in (self.turns, self.facts, self.forest)
            for name in part.__slots__
            if isinstance(value := getattr(part, name), np.ndarray)
        )
        objects = len(self.turns.ids) + len(self.facts.ids) + len(self.forest.ids) + len(self.names)
        return arrays + self.mentions.nbytes + OBJECT_BYTES * objects + STATE_BYTES * len(self.states)

    @cached_property
    def turn_row(self) -> dict[int, int]:
        """Turn id -> row."""
        return {int(i): row for row, i in enumerate(self.turns.ids)}

    @cached_property
    def fact_row(self) -> dict[int, int]:
        """Fact id -> row."""
        return {int(i): row for row, i in enumerate(self.facts.ids)}

    @cached_property
    def turns_of_fact(self) -> dict[int, list[int]]:
        """Fact row -> rows of the turns that support it."""
        found: dict[int, list[int]] = {}
        for fact, turn in self.facts.pairs.tolist():
            found.setdefault(fact, []).append(turn)
        return found

    @cached_property
    def cell_of_turn(self) -> Ints:
        """Shape (n,): the forest row of the session tree's leaf that holds each turn."""
        forest = self.forest
        cells = np.flatnonzero(forest.kind == 1)
        out = np.full(len(self.turns.ids), -1, dtype=np.int64)
        for cell, first, end in zip(cells, forest.item[cells], forest.item_end[cells], strict=True):
            out[first:end] = cell
        return out

    @cached_property
    def session_blocks(self) -> Ints:
        """Shape (levels, n): for each turn the nodes above it in its session's tree, from level 1 up.

        A tree that has reached its root repeats it, so that every turn has a node on every level.
        """
        forest = self.forest
        leaves = np.flatnonzero(forest.kind == 1)
        chains = self._levels(leaves)
        blocks = np.full((len(chains), len(self.turns.ids)), -1, dtype=np.int64)
        spans = forest.item_end[leaves] - forest.item[leaves]
        turns = np.concatenate(
            [np.arange(a, b) for a, b in zip(forest.item[leaves], forest.item_end[leaves], strict=True)]
            or [leaves]
        )
        for level, nodes in enumerate(chains):
            blocks[level, turns] = np.repeat(nodes, spans)
        return blocks

    @cached_property
    def fact_blocks(self) -> Ints:
        """Shape (levels, m): for each fact the nodes above it in the tree of whoever said it, or -1."""
        forest = self.forest
        leaves = np.flatnonzero(forest.kind == 2)
        own = forest.tree_scope[forest.tree[leaves]] == self.facts.speaker[forest.item[leaves]]
        chains = self._levels(leaves[own])
        blocks = np.full((len(chains), len(self.facts.ids)), -1, dtype=np.int64)
        for level, nodes in enumerate(chains):
            blocks[level, forest.item[leaves[own]]] = nodes
        return blocks

    def _levels(self, leaves: Ints) -> list[Ints]:
        """Return the nodes above leaves, level by level, until every tree has reached its root."""
        chains, nodes = [], leaves
        while len(nodes):
            above = self.forest.parent[nodes]
            if (above < 0).all():
                break
            nodes = np.where(above < 0, nodes, above)
            chains.append(nodes)
        return chains or ([leaves] if len(leaves) else [])

    def _chain(self, node: int) -> list[int]:
        """Return the rows from a node up to its root."""
        chain = [node]
        parent = self.forest.parent
        while parent[chain[-1]] >= 0:
            chain.append(int(parent[chain[-1]]))
        return chain

    def path(self, leaf: int) -> list[int]:
        """Return the node rows from the root down to a leaf."""
        return self._chain(leaf)[::-1]


def once_per_snapshot(make: Callable[[Snapshot], T]) -> Callable[[Snapshot], T]:
    """Make a function of a snapshot remember its result for as long as the snapshot is in use.

    The result is shared: nobody may change it. Two threads may both make it the first time.
    """
    made: WeakKeyDictionary[Snapshot, T] = WeakKeyDictionary()

    @wraps(make)
    def remembered(snapshot: Snapshot) -> T:
        try:
            return made[snapshot]
        except KeyError:
            return made.setdefault(snapshot, make(snapshot))

    return remembered


def load_snapshot(tx: Tx) -> Snapshot:
    """Read the searchable state of a memory."""
    names = dict(rows.names(tx))
    entities = rows.entity_names(tx)
    turn_rows = rows.turn_rows(tx)
    speakers = tuple(dict.fromkeys(row.speaker for row in turn_rows))
    turn_of = {row.id: i for i, row in enumerate(turn_rows)}
    fact_rows = rows.fact_rows(tx)
    fact_of = {row.id: i for i, row in enumerate(fact_rows)}
    pairs = [(fact_of[f], turn_of[t]) for f, t in rows.supports(tx)]
    turn_vectors = derived.vectors_of(tx, "turn")
    fact_vectors = derived.vectors_of(tx, "fact")
    dimension = max(turn_vectors[1].shape[1], fact_vectors[1].shape[1])
    dated = {turn for fact, turn in pairs if fact_rows[fact].start_ms is not None}
    return Snapshot(
        generation=meta.generation(tx),
        dimension=dimension,
        speakers=speakers,
        entities=entities,
        names=names,
        turns=_turns(
            turn_rows,
            speakers,
            dated,
            derived.word_counts(tx, "turn"),
            _dense(turn_vectors, turn_of, dimension),
        ),
        facts=_facts(
            fact_rows, pairs, derived.word_counts(tx, "fact"), _dense(fact_vectors, fact_of, dimension)
        ),
        forest=_forest(tx, turn_of, fact_of, dimension),
        states=tuple(rows.states_seen(tx)),
        mentions=_pairs([(fact_of[fact], entity) for fact, entity in rows.mentions(tx)]),
    )


def _dense(found: tuple[Ints, Floats], row_of: Mapping[int, int], dimension: int) -> Floats:
    """Return the vectors in row order, zero where one is missing."""
    ids, vectors = found
    out = np.zeros((len(row_of), dimension), dtype=np.float32)
    kept = [(row_of[i], j) for j, i in enumerate(ids.tolist()) if i in row_of]
    if kept:
        rows_, source = np.array(kept).T
        out[rows_] = vectors[source]
    return out


def _pairs(values: list[tuple[int, int]]) -> Ints:
    return np.array(values, dtype=np.int64).reshape(-1, 2)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _turns(
    found: list[rows.TurnRow],
    speakers: tuple[str, ...],
    dated: set[int],
    counts: Mapping[int, int],
    vectors: Floats,
) -> Turns:
    index = {name: i for i, name in enumerate(speakers)}
    n = len(found)
    session = _ints([row.session for row in found])
    same = session[1:] == session[:-1]
    previous, following = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    previous[1:][same] = np.flatnonzero(same)
    following[:-1][same] = np.flatnonzero(same) + 1
    flags = np.zeros(n, dtype=np.bool_)
    flags[list(dated)] = True
    return Turns(
        ids=_ints([row.id for row in found]),
        session=session,
        speaker=_ints([index[row.speaker] for row in found]),
        said_ms=_ints([row.said_ms for row in found]),
        length=np.array([counts.get(row.id, 0) for row in found], dtype=np.float32),
        asks=np.array([any(mark in row.text for mark in QUESTION_MARKS) for row in found], dtype=np.bool_),
        asks_last=np.array([asks(row.text) for row in found], dtype=np.bool_),
        dated=flags,
        previous=previous,
        following=following,
        vectors=vectors,
    )


def _facts(
    found: list[rows.FactColumns], pairs: list[tuple[int, int]], counts: Mapping[int, int], vectors: Floats
) -> Facts:
    return Facts(
        ids=_ints([row.id for row in found]),
        speaker=_ints([row.speaker for row in found]),
        start_ms=_ints([row.said_ms if row.start_ms is None else row.start_ms for row in found]),
        end_ms=_ints([OPEN if row.end_ms is None else row.end_ms for row in found]),
        stated=np.array([row.start_ms is not None for row in found], dtype=np.bool_),
        said_ms=_ints([row.said_ms for row in found]),
        pairs=_pairs(pairs),
        length=np.array([counts.get(row.id, 0) for row in found], dtype=np.float32),
        vectors=vectors,
    )


def _forest(tx: Tx, turn_of: Mapping[int, int], fact_of: Mapping[int, int], dimension: int) -> Forest:
    nodes = rows.node_rows(tx)
    row_of = {node.id: i for i, node in enumerate(nodes)}
    trees = rows.tree_rows(tx)
    tree_of = {tree.id: i for i, tree in enumerate(trees)}
    children = tuple(tuple(row_of[c] for c in node.children) for node in nodes)
    parent = np.full(len(nodes), -1, dtype=np.int64)
    for i, kids in enumerate(children):
        parent[list(kids)] = i
    cells = rows.cell_spans(tx)
    item, item_end = np.full(len(nodes), -1, dtype=np.int64), np.full(len(nodes), -1, dtype=np.int64)
    kind = np.zeros(len(nodes), dtype=np.int8)
    for i, node in enumerate(nodes):
        if node.item_kind == "fact":
            kind[i], item[i] = 2, fact_of[node.item]
        elif node.item_kind == "cell":
            first, last = cells[node.item]
            kind[i], item[i], item_end[i] = 1, turn_of[first], turn_of[last] + 1
    vectors = _dense(derived.vectors_of(tx, "node"), row_of, dimension)
    return Forest(
        ids=_ints([node.id for node in nodes]),
        tree=_ints([tree_of[node.tree] for node in nodes]),
        level=_ints([node.level for node in nodes]),
        parent=parent,
        kind=kind,
        item=item,
        item_end=item_end,
        vectors=vectors,
        roots=_ints([row_of[tree.root] for tree in trees if tree.root is not None]),
        tree_kind=tuple(tree.kind for tree in trees),
        tree_scope=_ints([tree.scope for tree in trees]),
        children=children,
    )
