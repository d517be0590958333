"""Grows a segment tree over exchanges with the index's own fold, and says what shape it has.

Used by `segtree_shape.py` and `scripts/calibrate_segments.py`. No guard is on: neither height nor fan-out is bounded. What
backing (`PRIOR`) and the falling threshold (`FALL`) are for is told in `memforest.trees.segtree_grow` (`by_likeness`, `needed`);
`PRIOR` 0 and `FALL` 1 are the paper's (SegTreeMem, arXiv 2606.04555, section 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.models import Embedder
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.trees.segtree_grow import (
    Fold,
    Node,
    SegTreeSettings,
    by_likeness,
    nearest,
    needed,
)

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
SUMMARY_WORDS = 60
_NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


class Placer(Protocol):
    """Picks the level that the next exchange joins; None for none of those that there are."""

    calls: int
    vectors: Any
    """Of the exchanges, shape (n, d)."""

    def pick(self, at: int, grown: Fold) -> int | None:
        """Return the level."""
        ...

    def added(self, at: int, grown: Fold) -> None:
        """Take note of where the exchange went."""
        ...


@dataclass(frozen=True, slots=True)
class Folded:
    """A grown tree, and the level that was picked for each leaf; None where there was no choice or none fitted."""

    root: Node
    levels: tuple[int | None, ...]


def fold(count: int, placer: Placer) -> Folded:
    """Grow the tree of `count` exchanges."""
    grown, settings = Fold(), SegTreeSettings(height_max=0, fan_out_max=0)
    levels: list[int | None] = []
    for at in range(count):
        levels.append(placer.pick(at, grown) if grown.choices() else None)
        grown = grown.insert(placer.vectors[at], levels[-1], settings)
        placer.added(at, grown)
    return Folded(grown.ends[-1], tuple(levels))


class ByCentroid:
    """The likeness of a leaf with the mean of the leaves below a node."""

    calls = 0

    def __init__(self, vectors: Matrix, tau: float, *, prior: float = PRIOR, fall: float = FALL) -> None:
        self.vectors: Any = vectors
        self._choose = by_likeness(SegTreeSettings(backing=prior, fall=fall), tau)

    def pick(self, at: int, grown: Fold) -> int | None:
        """Return the likest choice."""
        return self._choose(grown, self.vectors[at]) or None

    def added(self, at: int, grown: Fold) -> None:
        """Take note of nothing: the fold has the sums."""


class Texts:
    """What nodes say: a leaf its text, an inner node its local summary, made anew on the whole path (policy ``"path"``)."""

    calls = 0

    def __init__(self, texts: Sequence[str]) -> None:
        self.annotated = 0
        self._leaves = texts
        self._says: dict[Node, str] = {}

    def says(self, node: Node) -> str:
        """Return what a node says."""
        return self._says[node] if node.kids else self._leaves[node.first]

    def added(self, at: int, grown: Fold) -> None:
        """Renew the path, bottom-up."""
        for node in _above(grown):
            inputs = tuple(map(self.says, node.kids))
            request = SummaryRequest("conversation", "", _NOW, _NOW, inputs, SUMMARY_WORDS, node.level)
            self._says[node] = LocalSummariser().summarise_one(request)
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
        self.vectors: Any = vectors
        self._embedder, self._tau, self._fall = embedder, tau, fall
        self._known = {} if known is None else known

    def pick(self, at: int, grown: Fold) -> int | None:
        """Return the likest choice."""
        open_ = grown.choices()
        seen = [self._known[self.says(node)] if node.kids else node.total for node, _ in open_]
        best = nearest(self.vectors[at], seen, needed(self._tau, grown.height, self._fall))
        return None if best is None else open_[best][1]

    def added(self, at: int, grown: Fold) -> None:
        """Renew the path and embed what says something else."""
        super().added(at, grown)
        new = [text for text in dict.fromkeys(map(self.says, _above(grown))) if text not in self._known]
        if new:
            self._known.update(zip(new, embedded(self._embedder, new), strict=True))


def _above(grown: Fold) -> Sequence[Node]:
    """Return the nodes above the last leaf, lowest first."""
    return grown.ends[1:]


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


def nodes_of(node: Node, depth: int = 1) -> Iterator[tuple[Node, int]]:
    """Yield all nodes at or below one, each with its depth."""
    stack = [(node, depth)]
    while stack:
        one, deep = stack.pop()
        yield one, deep
        stack += [(kid, deep + 1) for kid in reversed(one.kids)]


def shape(folded: Folded) -> Shape:
    """Measure a tree of at least two leaves."""
    nodes = list(nodes_of(folded.root))
    inner = [node for node, _ in nodes if node.kids]
    depths = np.array([depth for node, depth in nodes if not node.kids])
    return Shape(
        leaves=folded.root.count,
        nodes=len(nodes),
        max_depth=int(depths.max()),
        mean_depth=float(depths.mean()),
        std_depth=float(depths.std()),
        branching=(len(nodes) - 1) / len(inner),
        height=inner[0].level,
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
