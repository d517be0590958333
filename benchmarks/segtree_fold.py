"""Grows a segment tree over exchanges in memory, with a placer of its own choice, and says what shape it has.

Used by `segtree_shape.py` and `scripts/calibrate_segments.py`. No guard is on: neither height nor fan-out is bounded.

A leaf is placed by its likeness with each choice of the frontier: the greatest counts, and if that is below what the
height of the tree asks for, the leaf belongs to none and a new root is made. Two things are not in the paper
(SegTreeMem, arXiv 2606.04555, section 4):

- **Backing** (`PRIOR`). The mean of many leaves is nearer to anything than a single leaf is, so the root would win by its
  size. So each mean is taken with that many leaves more that are like the whole: (sum of the node + PRIOR x mean of
  the root). It is how a mean of few observations is drawn to that of the population (James & Stein 1961).
- **Falling threshold** (`FALL`). The first root is the first stretch of talk, which ends where the topic turns; a
  root above roots stands for everything, and a leaf that is like none of it should be rare. So a root of height h asks for
  tau x FALL^(h - 1). With a constant tau the tree is a flat one below the first turn that is missed, or a comb.

`PRIOR` 0 and `FALL` 1 are the paper's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.models import Embedder
from memforest.nodes import DictArena, Node, TreeHead
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.trees import segment
from memforest.trees.node import walk
from memforest.trees.segment import Grown, NewLeaf
from memforest.trees.segtree_rows import SegTreeSettings

__all__ = [
    "FALL",
    "PRIOR",
    "ByCentroid",
    "ByCosine",
    "Folded",
    "Placer",
    "Shape",
    "Texts",
    "boundary_f1",
    "embedded",
    "fold",
    "leaf_texts",
    "leaf_vectors",
    "needed",
    "parted",
    "shape",
    "unit",
    "window_diff",
]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PRIOR = SegTreeSettings().backing
"""Leaves like the whole conversation that each mean is taken with."""
FALL = SegTreeSettings().fall
"""What is left of the threshold with each level of height."""
DECIMALS = 9
SUMMARY_WORDS = 60
_NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


def needed(tau: float, height: int, fall: float = FALL) -> float:
    """Return how like one of its choices a leaf must be, below a root of a height of 1 or more."""
    return float(tau * fall ** (height - 1))


class Placer(Protocol):
    """Picks one of the frontier's choices for the exchange at a position; None for none of them."""

    calls: int

    def pick(self, at: int, open_: Sequence[tuple[Node, int]], root: Node) -> int | None:
        """Return an index into the choices, which stand lowest level first."""
        ...

    def added(self, at: int, grown: Grown, arena: DictArena) -> None:
        """Take note of where the exchange went."""
        ...


@dataclass(frozen=True, slots=True)
class Folded:
    """A grown tree, and the level that was picked for each leaf; None where there was no choice or none fitted."""

    arena: DictArena
    head: TreeHead
    levels: tuple[int | None, ...]


def fold(count: int, placer: Placer) -> Folded:
    """Grow the tree of `count` exchanges."""
    arena, head = DictArena(), TreeHead(1, 0)
    ends: list[Node] = []
    levels: list[int | None] = []
    for at in range(count):
        open_ = segment.choices(ends)
        best = placer.pick(at, open_, ends[-1]) if open_ else None
        levels.append(None if best is None else open_[best][1])
        leaf = NewLeaf((at, ""), at, at + 1, "turn", at)
        grown = segment.insert(arena, head, leaf, levels[-1], ends=ends)
        head, ends = grown.head, [grown.leaf, *grown.above]
        placer.added(at, grown, arena)
    return Folded(arena, head, tuple(levels))


class ByCentroid:
    """The likeness of a leaf with the mean of the leaves below a node."""

    def __init__(self, vectors: Matrix, tau: float, *, prior: float = PRIOR, fall: float = FALL) -> None:
        self.calls = 0
        self._vectors, self._tau, self._prior, self._fall = vectors, tau, prior, fall
        self._sums: dict[int, Vector] = {}

    def pick(self, at: int, open_: Sequence[tuple[Node, int]], root: Node) -> int | None:
        """Return the likest choice."""
        backing = self._prior * self._sums[root.id] / root.count
        means = np.stack([self._sums[node.id] for node, _ in open_]) + backing
        return _nearest(self._vectors[at], means, needed(self._tau, root.level, self._fall))

    def added(self, at: int, grown: Grown, arena: DictArena) -> None:
        """Add the leaf's vector to the nodes above it."""
        self._sums[grown.leaf.id] = self._vectors[at]
        for node in grown.above:
            if node.id in self._sums:
                self._sums[node.id] = self._sums[node.id] + self._vectors[at]
            else:
                self._sums[node.id] = sum((self._sums[child] for child in node.children), start=np.zeros(1))


class Texts:
    """What nodes say: a leaf its text, an inner node its local summary, made anew on the whole path (policy ``"path"``)."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.calls = self.annotated = 0
        self._leaves = texts
        self.says: dict[int, str] = {}

    def added(self, at: int, grown: Grown, arena: DictArena) -> None:
        """Renew the path, bottom-up."""
        self.says[grown.leaf.id] = self._leaves[at]
        for node in grown.above:
            inputs = tuple(self.says[child] for child in node.children)
            request = SummaryRequest("conversation", "", _NOW, _NOW, inputs, SUMMARY_WORDS, node.level)
            self.says[node.id] = LocalSummariser().summarise_one(request)
            self.annotated += 1


class ByCosine(Texts):
    """The cosine of a leaf with what a node says (paper i)."""

    def __init__(
        self,
        texts: Sequence[str],
        vectors: Matrix,
        embedder: Embedder,
        tau: float,
        *,
        fall: float = FALL,
        known: dict[str, Vector] | None = None,
    ) -> None:
        super().__init__(texts)
        self._vectors, self._embedder, self._tau, self._fall = vectors, embedder, tau, fall
        self._known = {} if known is None else known
        self._seen: dict[int, Vector] = {}

    def pick(self, at: int, open_: Sequence[tuple[Node, int]], root: Node) -> int | None:
        """Return the likest choice."""
        seen = np.stack([self._seen[node.id] for node, _ in open_])
        return _nearest(self._vectors[at], seen, needed(self._tau, root.level, self._fall))

    def added(self, at: int, grown: Grown, arena: DictArena) -> None:
        """Renew the path and embed what says something else."""
        super().added(at, grown, arena)
        texts = [self.says[node.id] for node in grown.above]
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, embedded(self._embedder, new), strict=True))
        self._seen[grown.leaf.id] = self._vectors[at]
        self._seen.update((node.id, self._known[text]) for node, text in zip(grown.above, texts, strict=True))


def _nearest(vector: Vector, candidates: Matrix, least: float) -> int | None:
    likes = np.round(unit(candidates) @ vector, DECIMALS)
    best = int(np.argmax(likes))  # the first of equal ones
    return best if likes[best] >= least else None


# Leaves


def leaf_texts(exchanges: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return what each exchange says: "speaker: text", a line each."""
    return ["\n".join(f"{speaker}: {text}" for speaker, text in one) for one in exchanges]


def leaf_vectors(
    embedder: Embedder, exchanges: Sequence[Sequence[tuple[str, str]]], of_text: bool = False
) -> Matrix:
    """Return a unit row for each exchange: the mean of its turns' vectors, or the vector of its text."""
    if of_text:
        return embedded(embedder, leaf_texts(exchanges))
    rows = embedded(embedder, [f"{speaker}: {text}" for one in exchanges for speaker, text in one])
    starts = np.cumsum([0, *(len(one) for one in exchanges)])[:-1]
    return unit(np.add.reduceat(rows, starts, axis=0))


def embedded(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Return the texts' unit vectors, kept in half precision as the store keeps them."""
    return unit(asyncio.run(embedder.embed(list(texts))).astype(np.float16).astype(np.float64))


def unit(rows: Matrix) -> Matrix:
    """Return the rows with a length of 1; zero rows stay as they are."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


# Measures


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the paper's Table 5 (App. C), without calls.

    Depth is counted in nodes from the root to the leaf, both included; `branching` is children per inner node.
    """

    leaves: int
    nodes: int
    max_depth: int
    mean_depth: float
    std_depth: float
    branching: float
    height: int

    @property
    def nodes_a_leaf(self) -> float:
        """Nodes by leaves."""
        return self.nodes / self.leaves


def shape(folded: Folded) -> Shape:
    """Measure a tree of at least two leaves."""
    nodes = list(walk(folded.arena, folded.head))
    inner = [node for node in nodes if node.level]
    above = np.zeros(folded.head.count + 1, dtype=np.int64)
    for node in inner:
        low, high = node.span or (1, 1)
        above[low - 1] += 1
        above[high - 1] -= 1
    depths = np.cumsum(above)[:-1] + 1
    return Shape(
        leaves=folded.head.count,
        nodes=len(nodes),
        max_depth=int(depths.max()),
        mean_depth=float(depths.mean()),
        std_depth=float(depths.std()),
        branching=(len(nodes) - 1) / len(inner),
        height=folded.head.height,
    )


def parted(folded: Folded) -> list[bool]:
    """Tell for each leaf but the first whether it begins a stretch of the lowest level.

    In the literal form every leaf has a parent on level 1, and those are the stretches; a leaf stays in the one of the
    leaf before it just when level 1 was picked for it. The second leaf always does.
    """
    return [False, *(level != 1 for level in folded.levels[2:])]


def boundary_f1(found: Sequence[bool], known: Sequence[bool]) -> float:
    """Return the harmonic mean of precision and recall of places where something begins, 0 to 1."""
    hits = sum(a and b for a, b in zip(found, known, strict=True))
    return 2 * hits / (sum(found) + sum(known)) if hits else 0.0


def window_diff(found: Sequence[bool], known: Sequence[bool]) -> float:
    """Return the share of windows with another number of boundaries than they should have, 0 to 1; 0 is best.

    A window is half a known segment long (Pevzner & Hearst 2002, "A Critique and Improvement of an Evaluation Metric
    for Text Segmentation").
    """
    width = max(1, round((len(known) + 1) / (sum(known) + 1) / 2))
    a, b = np.cumsum([0, *found]), np.cumsum([0, *known])
    return float(np.mean((a[width:] - a[:-width]) != (b[width:] - b[:-width])))
