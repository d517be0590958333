"""Descending a tree level by level, where a model or the embedding chooses the children to follow (paper §4.3).

`recall.browse` steers by the similarity to the question. Here whoever steers (a model, or the similarity to a
sub-query) orders the children of a level, and what counts of a leaf is its place on each level of its path. So the
leaves of trees that were browsed in different ways can be compared. Nothing here asks a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import CELL, FACT, INNER, EmbeddedForest, Forest
from memforest.search.snapshot import Snapshot, ranges
from memforest.systems.memforest.settings import DEFAULTS, MemForestSettings
from memforest.systems.speak import told_by

MOST_CHILDREN = 24
"""Most children that are put before a model at once: longer lists are read with less care, and cost a call more."""
UNASKED = 0.5
"""Share of a level at which nobody was asked, because all children fitted into the beam: neither for nor against."""

Row = NDArray[np.float32]


class Descent:
    """A descent of one tree for one sub-query: its frontier, and the leaves reached.

    A leaf's score is the mean, over the levels of its path, of 1 - place / beam, the first place being 0; a level that
    nobody ordered counts `UNASKED`. It is in (0, 1].

    Args:
        forest: the trees.
        root: forest row of the tree's root.
        beam: most nodes kept of a level.
    """

    def __init__(self, forest: Forest, root: int, beam: int = DEFAULTS.beam_width) -> None:
        self._children = forest.children
        self._beam = beam
        self._paths = {root: 0.0}
        """Node of the frontier, in time order -> sum over the levels down to it."""
        self._parent: dict[int, int] = {}
        self.levels = 0
        """Levels that were gone down."""
        self.reached: dict[int, float] = {}
        """Forest row of a leaf -> its score."""
        self._take_out_leaves()

    @property
    def below(self) -> list[int]:
        """The children of the frontier in time order, as forest rows; empty when the way down has ended."""
        return list(self._parent)

    @property
    def fits(self) -> bool:
        """Whether all children of the frontier fit into the beam, so that no choice is needed."""
        return len(self._parent) <= self._beam

    def keep(self, rows: Sequence[int], *, ordered: bool) -> None:
        """Go one level down.

        Args:
            rows: the children to keep, best first; what is behind the beam is not kept.
            ordered: whether their order counts.
        """
        kept = {}
        for place, row in enumerate(rows[: self._beam]):
            share = 1 - place / self._beam if ordered else UNASKED
            kept[row] = self._paths[self._parent[row]] + share
        self.levels += 1
        self._paths = {row: kept[row] for row in self._parent if row in kept}
        self._take_out_leaves()

    def _take_out_leaves(self) -> None:
        """Move leaves from the frontier to `reached`, and read the children of the remaining nodes."""
        self._parent = {}
        for row, total in self._paths.items():
            children = self._children[row]
            if not children:
                self.reached[row] = total / self.levels if self.levels else UNASKED
            self._parent.update(dict.fromkeys(children, row))


def browse_by(descent: Descent, nearness: Callable[[Sequence[int]], list[float]]) -> None:
    """Finish a descent by nearness, which orders the children of every level; ties by node."""
    while rows := descent.below:
        near = dict(zip(rows, nearness(rows), strict=True))
        descent.keep(sorted(rows, key=lambda row: (-near[row], row)), ordered=True)


def split(rows: Sequence[int], most: int = MOST_CHILDREN) -> list[Sequence[int]]:
    """Return the rows in as few runs of at most `most` as there can be, of about the same length.

    Example:
        >>> [len(part) for part in split(range(50))]
        [17, 17, 16]
    """
    parts = -(-len(rows) // most)
    length, longer = divmod(len(rows), parts) if parts else (0, 0)
    ends = [(i + 1) * length + min(i + 1, longer) for i in range(parts)]
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def merged(chosen: Iterable[Sequence[int]]) -> list[int]:
    """Return what was chosen of several runs as one order: the first of each, the second of each; ties by node.

    Example:
        >>> merged([[7, 3], [5]])
        [5, 7, 3]
    """
    placed = [(place, row) for part in chosen for place, row in enumerate(part)]
    return [row for _, row in sorted(placed)]


def nearness_to(
    snapshot: Snapshot,
    found: EmbeddedForest,
    vector: Row,
    bare: Row,
    settings: MemForestSettings = DEFAULTS,
) -> Callable[[Sequence[int]], list[float]]:
    """Return a function from forest rows to how near they are to a sub-query.

    As in `recall`: a node is as near as its summary, and a leaf without one as its fact or its best turn. An inner node of
    a scene is as near as the facts below it on average, if `scene_vectors` says so. With `leaves` "facts" a leaf of turns
    without a summary is as near as the best fact that they support.

    Args:
        snapshot: of the memory.
        found: the trees with their vectors.
        vector: of the sub-query, unit length.
        bare: of the sub-query without participants' names.
        settings: `scene_vectors` and `leaves` count; of these "aligned" changes nothing inside of a tree.
    """
    forest = found.forest
    by_vector = np.isin(np.arange(len(forest.ids)), forest.embedded)
    if settings.scene_vectors == "facts":
        by_vector &= ~forest.of_kind("scene")[forest.tree]
    by_facts = None
    if settings.leaves == "facts":
        none = np.full(len(snapshot.turns.ids), -1.0)
        by_facts = told_by(snapshot).best(snapshot.facts.vectors.cosines(bare), none)

    def facts_below(row: int) -> list[int]:
        if forest.kind[row] == FACT:
            return [int(forest.item[row])]
        return [fact for child in forest.children[row] for fact in facts_below(child)]

    def nearness(rows: Sequence[int]) -> list[float]:
        nodes = np.array(rows, dtype=np.int64)
        out = np.zeros(len(nodes))
        kind, own = forest.kind[nodes], by_vector[nodes]
        out[own] = found.cosines_at(nodes[own], vector)
        cells = np.flatnonzero((kind == CELL) & ~own)
        starts, ends = forest.item[nodes[cells]], forest.item_end[nodes[cells]]
        if len(cells):
            turns = ranges(starts, ends)
            cosines = forest.turns.vectors.cosines_at(turns, vector) if by_facts is None else by_facts[turns]
            out[cells] = np.maximum.reduceat(cosines, np.cumsum(ends - starts) - (ends - starts))
        for i in np.flatnonzero((kind == FACT) | ((kind == INNER) & ~own)):
            facts = np.array(facts_below(int(nodes[i])), dtype=np.int64)
            out[i] = forest.facts.vectors.cosines_at(facts, bare).mean()
        return [float(value) for value in out]

    return nearness
