"""The lexical leg: BM25 over the tokens that FTS5 indexes.

FTS5 is the durable, incremental inverted index; the scores are ours, because its own ``bm25()`` has fixed
constants (k1 1.2, b .75). Source of ours: k1 .9 and b .4 are the values tuned for short passages in Anserini
(https://github.com/castorini/anserini); on conversations they measured 0.7 recall@10 better than 1.2/.75.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, bm25_idf, bm25_weight
from memforest.store import derived
from memforest.store.db import Tx

__all__ = ["K1", "B", "bm25"]

K1 = 0.9
B = 0.4


def bm25(
    tx: Tx,
    kind: Literal["turn", "fact"],
    tokens: Sequence[str],
    row_of: Mapping[int, int],
    lengths: NDArray[np.float32],
) -> Scores:
    """Return the BM25 score of every turn or fact for the tokens of a question, shape (n,).

    Args:
        tx: a read transaction of the same generation as `row_of`.
        kind: which index.
        tokens: of the question; repeats count once.
        row_of: item id -> row.
        lengths: tokens per row.
    """
    scores = np.zeros(len(lengths))
    mean = float(lengths.mean()) if len(lengths) else 0.0
    for token in sorted(set(tokens)):
        found = [(row_of[item], n) for item, n in derived.postings(tx, kind, token) if item in row_of]
        if not found:
            continue
        rows, counts = np.array(found, dtype=np.int64).T
        weight = bm25_weight(counts.astype(np.float64), lengths[rows].astype(np.float64), mean, k1=K1, b=B)
        scores[rows] += bm25_idf(len(lengths), len(rows)) * weight
    return scores
