"""The lexical leg: BM25 over the tokens that FTS5 indexes.

FTS5 is the durable, incremental inverted index; the scores are ours, because its own ``bm25()`` has fixed
constants (k1 1.2, b .75). Source of ours: k1 .9 and b .4 are the values tuned for short passages in Anserini
(https://github.com/castorini/anserini); on conversations they measured 0.7 recall@10 better than 1.2/.75.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, bm25_idf, bm25_weight
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.store import derived
from memforest.store.db import Tx

__all__ = ["K1", "B", "bm25"]

K1 = 0.9
B = 0.4

_Postings = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows that hold a token, and how often."""


def bm25(tx: Tx, snapshot: Snapshot, kind: Literal["turn", "fact"], tokens: Sequence[str]) -> Scores:
    """Return the BM25 score of every turn or fact for the tokens of a question, shape (n,).

    Args:
        tx: a read transaction of the snapshot's generation.
        snapshot: of the memory.
        kind: which index.
        tokens: of the question; repeats count once.
    """
    lengths = (snapshot.turns if kind == "turn" else snapshot.facts).length.astype(np.float64)
    scores = np.zeros(len(lengths))
    mean = float(lengths.mean()) if len(lengths) else 0.0
    for token in sorted(set(tokens)):
        rows, counts = _postings(tx, snapshot, kind, token)
        if len(rows):
            weight = bm25_weight(counts, lengths[rows], mean, k1=K1, b=B)
            scores[rows] += bm25_idf(len(lengths), len(rows)) * weight
    return scores


@once_per_snapshot
def _read_before(_snapshot: Snapshot) -> dict[tuple[str, str], _Postings]:
    """Return the postings that questions to this snapshot have read: names and years come again and again."""
    return {}


def _postings(tx: Tx, snapshot: Snapshot, kind: Literal["turn", "fact"], token: str) -> _Postings:
    """Return a token's postings, from memory if they were read before; never larger than the index itself."""
    kept = _read_before(snapshot)
    if (found := kept.get((kind, token))) is None:
        row_of = snapshot.turn_row if kind == "turn" else snapshot.fact_row
        read = [(row_of[item], n) for item, n in derived.postings(tx, kind, token) if item in row_of]
        rows, counts = np.array(read, dtype=np.int64).reshape(-1, 2).T
        found = rows, counts.astype(np.float64)
        if read:  # a question may hold any number of words that nobody said
            kept[kind, token] = found
    return found
