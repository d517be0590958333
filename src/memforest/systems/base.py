"""What an index answers a query with, and the protocol that every index of a memory keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memforest.config import Ranking
from memforest.search.snapshot import Snapshot
from memforest.store.db import Tx
from memforest.types import QuestionPlan

__all__ = ["Found", "Hit", "MemoryIndex", "NodeHit", "Scored", "Search", "TreeIndex"]


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
    """One ranked turn with the fact that speaks best for it, as rows of the snapshot.

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
class NodeHit:
    """One ranked inner node, by its id, whose summary is the evidence; `scores` and `why` as in `Hit`.

    A leaf is no node hit: an index hands back the turns that it stands for. `window` is the calendar key of a node that
    stands for a day, a week and so on.
    """

    node: int
    score: float
    scores: dict[str, float] = field(default_factory=dict)
    window: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The turns of a ranking as arrays, in any order, and how the hit of one is made.

    Two rankings are fused by these without making every hit. `leads` says which turns have a `Hit.why`.
    """

    turns: NDArray[np.int64]
    scores: NDArray[np.float64]
    leads: NDArray[np.bool_]
    make: Callable[[int], Hit]

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> Scored:
        """Return hits that have been made."""
        found = {hit.turn: hit for hit in hits}
        return cls(
            turns=np.fromiter(found, dtype=np.int64),
            scores=np.array([hit.score for hit in found.values()], dtype=np.float64),
            leads=np.array([bool(hit.why) for hit in found.values()], dtype=np.bool_),
            make=found.__getitem__,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What an index found: every candidate turn, best first, each made when it is asked for.

    `nodes` are the nodes it found, best first, on the same scale of scores; evidence is ranked from both. The reader
    applies the time filters to them and reads their summaries (`memforest.systems.nodes`). `scored` has the same turns as
    `hits`; an index that leaves it out is fused with others all the same, and more slowly.
    `trees` are the trees that were looked into, as (tree row of the snapshot, score), best first. `notes` say for
    `explain=True` what filters, time order and diversity did, as plain values.
    """

    hits: Iterable[Hit]
    trees: tuple[tuple[int, float], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    nodes: Iterable[NodeHit] = ()
    scored: Scored | None = None


class MemoryIndex(Protocol):
    """One way to find evidence in a memory. Indexes read the same persistent state."""

    name: str

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every candidate turn, best first; deterministic for equal inputs."""
        ...


@runtime_checkable
class TreeIndex(MemoryIndex, Protocol):
    """An index with trees that can be browsed before it is searched; see `Search.leaves`."""

    def recall(self, snapshot: Snapshot, request: Search) -> Sequence[tuple[int, float]]:
        """Return the trees to browse as (tree row of the snapshot, score), best first; none without an embedder."""
        ...
