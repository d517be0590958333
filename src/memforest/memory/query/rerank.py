"""Reranking the best candidates: the text that the reranker reads, and the sum of its scores and the ranking's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memforest.memory.results import Evidence
from memforest.search.snapshot import Snapshot
from memforest.search.texts import turn_text
from memforest.store import evidence as rows
from memforest.store.tx import Tx
from memforest.systems.base import Hit, NodeHit

__all__ = ["rerank_text", "reranked", "said_before"]

BEFORE_CHARS = 400
"""Most of the turn before, from its end: a long one must not push the candidate out of the model's window."""


def said_before(tx: Tx, snapshot: Snapshot, hits: Sequence[Hit | NodeHit]) -> list[str]:
    """Return, for each hit, the turn before it in its session with its speaker; "" for a session's first and a node."""
    previous = [int(snapshot.turns.previous[hit.turn]) if isinstance(hit, Hit) else -1 for hit in hits]
    texts = rows.turn_texts(tx, [int(snapshot.turns.ids[row]) for row in previous if row >= 0])
    found = []
    for row in previous:
        turn = texts[int(snapshot.turns.ids[row])] if row >= 0 else None
        found.append("" if turn is None else turn_text(turn.speaker, turn.text))
    return found


def rerank_text(before: str, one: Evidence) -> str:
    """Return what the reranker reads of a candidate: the turn, after the one before it.

    The turn before says what "it" and "there" are. Measured against the turn alone, and against the statement
    extracted from it: docs/ranking.md. A summary is read as it is.
    """
    if one.kind == "memory":
        return one.text
    return f"{before[-BEFORE_CHARS:]} {turn_text(one.speaker, one.quote)}".strip()


def reranked(first: Sequence[Evidence], scores: NDArray[np.float64], weight: float) -> list[Evidence]:
    """Return candidates by their score plus the weighted reranker's, which becomes a part of the score.

    The part is the distance to the worst of these candidates, in standard deviations: it takes nothing from
    anyone, so that no candidate that was not read comes to stand before one that was. Ties keep their order.
    """
    spread = float(scores.std()) if len(scores) else 0.0
    if spread < 1e-9:
        return list(first)
    parts = weight * (scores - scores.min()) / spread
    joined = [
        replace(one, score=one.score + part, scores={**one.scores, "rerank": part})
        for one, part in zip(first, parts.tolist(), strict=True)
    ]
    return sorted(joined, key=lambda one: -round(one.score, 9))
