"""The seam between a memory and its indexes: what an index is told, what it answers, and the protocol it keeps.

An index is a view of what was said. It lives in one folder, `systems/NAME/`, and is found through
`memforest.systems.registry`; nothing outside of its folder names it. What it has in the file are the trees that it
owns, and tables of its own called ``ix_NAME_…``: they can be dropped and made anew from what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memforest.config import Ranking
from memforest.search.snapshot import Snapshot
from memforest.store import indexes
from memforest.store import trees as tree_rows
from memforest.store.db import Tx
from memforest.store.feed import Items, Kind
from memforest.store.trees import SqliteArena
from memforest.tree import ORDERED, Contract, Node, check
from memforest.types import QuestionPlan, SummaryRequest

__all__ = [
    "Found",
    "Hit",
    "Index",
    "IndexProblem",
    "Items",
    "Kind",
    "MemoryIndex",
    "NodeWork",
    "Placed",
    "Placing",
    "Search",
    "TreeIndex",
    "Upgrade",
]

Upgrade = Callable[[Tx], None]
"""Makes or changes an index's own tables, from one version to the next."""


@dataclass(frozen=True, slots=True)
class Search:
    """A question made ready: tokens, vectors, plan, and the time filters in UTC ms.

    `vector` is the question's unit vector and `bare_vector` that of the question without participants'
    names; both are None in a memory without an embedder. `as_of_ms` keeps what was so at that instant;
    `during_ms` keeps what overlaps [start, end). `reference_ms` is the question's present.
    """

    question: str
    tokens: Sequence[str]
    plan: QuestionPlan
    reference_ms: int
    vector: NDArray[np.float32] | None = None
    bare_vector: NDArray[np.float32] | None = None
    as_of_ms: int | None = None
    during_ms: tuple[int, int] | None = None
    ranking: Ranking = field(default_factory=Ranking)
    leaves: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked turn with the fact that speaks best for it, as rows of the snapshot and of the index's forest.

    `fact` is -1 when the turn speaks for itself. `scores` are the parts of `score`, already weighted, whose sum
    it is. `leaf` is the forest row of the leaf it was found at, or -1. `browsed` is the mean similarity of the
    path by which browse reached that leaf, or its score in `Search.leaves`; None when it did not come there.
    """

    turn: int
    fact: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    leaf: int = -1
    why: str = ""
    browsed: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What an index found: every candidate turn, best first, each made when it is asked for.

    `trees` are the trees that were looked into, as (tree row of the snapshot, score), best first. `notes` say for
    `explain=True` what filters, time order and diversity did, as plain values.
    """

    hits: Iterable[Hit]
    trees: tuple[tuple[int, float], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """What placing wrote: node rows, and the trees that changed."""

    nodes: int = 0
    trees: frozenset[int] = frozenset()

    def plus(self, other: Placed) -> Placed:
        """Return both together."""
        return Placed(self.nodes + other.nodes, self.trees | other.trees)


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """Something that an index finds wrong with itself: in which part, and what."""

    part: str
    message: str


class Placing(Protocol):
    """One index inside one write transaction. No model is asked, and nothing waits."""

    def leave(self, items: Items) -> None:
        """Take items out of their places before they change or go, while they are stored with their vectors."""
        ...

    def place(self, items: Items) -> None:
        """Place items that are new or have changed; those that are not stored any more are gone.

        Placing an item again changes nothing.
        """
        ...

    def close(self) -> Placed:
        """Write everything back; the last call of the transaction."""
        ...


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What a node's summary is to be made from, and whether the node is compared with questions by a vector."""

    node: int
    request: SummaryRequest
    vector: bool = True


class MemoryIndex(Protocol):
    """One way to organise a memory and to find evidence in it. All indexes read the same persistent state."""

    name: str
    version: int
    """Of its tables and of what it stores; see `tables`."""
    follows: frozenset[Kind]
    """The kinds of items that it places; none when it reads the memory as it is."""
    deferred: bool
    """Whether it is placed by `advance` alone, because placing reads summaries or asks a model. Others are placed
    in the transaction that writes what they follow."""
    tables: Sequence[Upgrade]
    """What makes its own tables: one step for each version, from the first on."""
    numbered: frozenset[str]
    """The kinds of its trees whose scopes have numbers for names."""
    contracts: Mapping[str, Contract]
    """What must hold of its trees, by their kind; those of a kind that is not in it are MemTrees."""
    settings: Any
    """A frozen dataclass, of which the fields named in its ``KEPT`` are kept in the file from the first write on."""

    def placing(self, tx: Tx) -> Placing:
        """Begin to edit its trees inside a write transaction."""
        ...

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the summaries of nodes are to be made; of a node that needs none, nothing.

        Args:
            tx: a read transaction.
            nodes: dirty inner nodes of its trees, all of one level.
            inputs: the texts of each node's children, in order.
        """
        ...

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every candidate turn, best first; deterministic for equal inputs."""
        ...

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the names of the scopes of its trees."""
        ...

    def titles(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what its trees are called where they are listed: kind, scope, and what sets it apart."""
        ...

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return everything that is wrong with its trees and tables."""
        ...

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return counts of what it holds."""
        ...

    def notes(self, tx: Tx) -> list[str]:
        """Return what it does not have, and why."""
        ...

    def clear(self, tx: Tx) -> None:
        """Delete its trees and the rows of its tables; then everything is to be placed from the start."""
        ...


class _NoPlacing:
    """The placing of an index that reads the memory as it is."""

    def leave(self, items: Items) -> None:
        """Do nothing."""

    def place(self, items: Items) -> None:
        """Do nothing."""

    def close(self) -> Placed:
        """Return that nothing was written."""
        return Placed()


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of an index that has none."""

    KEPT: ClassVar[tuple[str, ...]] = ()


class Index:
    """What indexes have in common; an index says its name, and changes what is different in it."""

    name: str
    version = 1
    follows: frozenset[Kind] = frozenset()
    deferred = False
    tables: Sequence[Upgrade] = (lambda tx: None,)
    Settings: type[Any] = NoSettings
    numbered: frozenset[str] = frozenset()
    contracts: Mapping[str, Contract] = MappingProxyType({})

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    def placing(self, tx: Tx) -> Placing:
        """Place nothing."""
        return _NoPlacing()

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Ask for no summaries."""
        return []

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the numbers of the scopes of its trees."""
        return {tree: str(scope) for tree, (_, scope) in tree_rows.scopes(tx, trees).items()}

    def titles(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return kind and scope of its trees."""
        labels = self.labels(tx, trees)
        return {tree: f"{kind} {labels[tree]}" for tree, (kind, _) in tree_rows.scopes(tx, trees).items()}

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return where its trees break their contracts."""
        arena = SqliteArena(tx)
        return [
            IndexProblem("tree", f"{kind} tree {scope}: {message}")
            for kind, scope, head in tree_rows.heads(tx, self.name)
            for message in check(arena, head, self.contracts.get(kind, ORDERED))
        ]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return nothing but what every index has."""
        return {}

    def notes(self, tx: Tx) -> list[str]:
        """Return nothing."""
        return []

    def clear(self, tx: Tx) -> None:
        """Delete its trees and the rows of its tables."""
        tree_rows.drop_trees(tx, self.name)
        indexes.empty_tables(tx, self.name)


@runtime_checkable
class TreeIndex(MemoryIndex, Protocol):
    """An index with trees that can be browsed before it is searched; see `Search.leaves`."""

    def recall(self, tx: Tx, snapshot: Snapshot, request: Search) -> Sequence[tuple[int, float]]:
        """Return the trees to browse as (tree row of the snapshot, score), best first; none without an embedder."""
        ...
