"""Links between like stretches of a conversation that are far apart, and relevance sent along them.

A tree over time splits a topic that comes back: no narrow node has both occurrences, and few edges do not lead from one to the
other. Source: SegTreeMem (arXiv 2606.04555) App. C.3.2, which suggests such links and leaves open how they are made; the
threshold, the most links a node and what counts as far apart are this package's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.config import Sink
from memforest.ranking.scores import Scores

Ints = NDArray[np.int64]

_CELLS = 1 << 20
"""Cosines that are held at once, 4 MB: a block of so many nodes is compared with all others."""


class Links(NamedTuple):
    """Directed links between rows, as the entries of a sparse matrix: by column, then the heaviest first."""

    rows: Ints
    """Where each link leads to, shape (m,)."""
    cols: Ints
    """Where it comes from."""
    weights: Scores
    """Its cosine, above 0."""

    @property
    def nbytes(self) -> int:
        """Bytes of the three columns."""
        return sum(one.nbytes for one in self)


def cross_links(
    vectors: NDArray[np.float32],
    first: Ints,
    end: Ints,
    *,
    threshold: float = 0.6,
    most: int = 4,
    apart: int = 1,
) -> Links:
    """Return links from each node to the nodes most like it that are far from it in the conversation.

    Two nodes are far apart if at least `apart` leaves lie between their spans. So none of them is above the
    other, whose spans would overlap, and they are no neighbours. A link from one to another need not have one back:
    that one may have others that are nearer.

    Every node is compared with every other, n * n * d multiplications, which is for once and not for a question. What is held is
    a block of them, and the links: at most `most` * n.

    Args:
        vectors: of unit length, shape (n, d); a row of zeros gets no links.
        first: the first ordinal of each node's span, shape (n,).
        end: one past its last ordinal.
        threshold: least cosine, above 0 and at most 1.
        most: most links that come from one node, at least 0. Of equal ones (to 6 decimals) those to the smaller rows are kept.
        apart: least number of leaves between two nodes, at least 1.

    Raises:
        ValueError: if an argument is out of range, a span is empty, or there are not as many spans as vectors.

    Example:
        >>> talk = np.array([[1, 0], [0, 1], [0.8, 0.6]], dtype=np.float32)
        >>> found = cross_links(talk, np.array([1, 2, 3]), np.array([2, 3, 4]), threshold=0.5)
        >>> found.rows.tolist(), found.cols.tolist(), found.weights.tolist()
        ([2, 0], [0, 2], [0.8, 0.8])
    """
    _check_links(vectors, first, end, threshold, most, apart)
    count, found = len(vectors), []
    step = max(1, _CELLS // max(count, 1))
    for begin in range(0, count if most else 0, step):
        block = np.arange(begin, min(begin + step, count))
        likeness = vectors[block] @ vectors.T
        sources, targets = np.nonzero(likeness >= threshold - 1e-6)
        weights = likeness[sources, targets].astype(np.float64).round(6)
        between = np.maximum(first[targets] - end[block[sources]], first[block[sources]] - end[targets])
        linked = (between >= apart) & (weights >= threshold)
        sources, targets, weights = sources[linked], targets[linked], weights[linked]
        ordered = np.lexsort((targets, -weights, sources))
        sources, targets, weights = sources[ordered], targets[ordered], weights[ordered]
        kept = np.arange(len(sources)) - np.searchsorted(sources, sources) < most
        found.append((targets[kept], block[sources[kept]], weights[kept]))
    if not found:
        none = np.zeros(0, dtype=np.int64)
        return Links(none, none, np.zeros(0))
    return Links(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _check_links(
    vectors: NDArray[np.float32], first: Ints, end: Ints, threshold: float, most: int, apart: int
) -> None:
    if not len(vectors) == len(first) == len(end):
        raise ValueError(f"there are {len(vectors)} vectors for {len(first)} and {len(end)} ends of spans")
    if (np.asarray(end) <= np.asarray(first)).any():
        raise ValueError("a span ends before it begins, or is empty")
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold={threshold!r}: give a number above 0 and at most 1")
    if most < 0 or apart < 1:
        raise ValueError(f"most={most!r} and apart={apart!r}: give whole numbers of at least 0 and 1")


def along_links(shares: Scores, links: Links, decay: float = 0.10, *, sink: Sink = "leak") -> Scores:
    """Return the score of every node after a share of its relevance went along its links, as one edge of `propagate` does.

    The score is (s + decay * L s) / (1 + decay), where the columns of L sum to 1: a node divides what it has among its links by
    their weights. What has no link leaks, as in `propagate`, or stays.

    Args:
        shares: what each node has at first, shape (n,).
        links: between rows of them.
        decay: weight of a link, from 0 to 1.
        sink: ``"leak"`` or ``"stay"``.

    Raises:
        ValueError: if an argument is out of range, or a link is not between rows.

    Example:
        >>> links = Links(np.array([1]), np.array([0]), np.array([0.9]))
        >>> along_links(np.array([0.6, 0.4]), links, 0.5).round(3).tolist()
        [0.4, 0.467]
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"decay={decay!r}: give a number from 0 to 1")
    if sink not in ("leak", "stay"):
        raise ValueError(f"sink={sink!r}: give 'leak' or 'stay'")
    count, have = len(shares), np.asarray(shares, dtype=np.float64)
    ends = np.concatenate([links.rows, links.cols])
    if len(ends) and (ends.min() < 0 or ends.max() >= count):
        raise ValueError("a link is not between rows of the nodes")
    total = np.bincount(links.cols, weights=links.weights, minlength=count)
    portion = have[links.cols] * links.weights / total[links.cols]
    sent = np.bincount(links.rows, weights=portion, minlength=count)
    if sink == "stay":
        sent = np.where(total == 0, sent + have, sent)
    return np.asarray((have + decay * sent) / (1 + decay), dtype=np.float64)
