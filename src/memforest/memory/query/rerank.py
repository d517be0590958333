"""Reranking the best candidates: what the reranker reads, and the sum of its scores and the ranking's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError
from memforest.language.requests import asked_in
from memforest.memory.query.explain import Searched, leaf_key
from memforest.memory.query.time_choice import answer_by_time, led, operator_of
from memforest.memory.results import Evidence
from memforest.models.inputs import finite_scores
from memforest.ports import Reranker
from memforest.search.snapshot import Snapshot
from memforest.search.texts import turn_text
from memforest.store import evidence as rows
from memforest.store.tx import Tx
from memforest.systems.base import Hit, NodeHit
from memforest.systems.places import turn_places
from memforest.text import cut
from memforest.tokens import count_tokens
from memforest.types import QuestionPlan

WARNING_CHARS = 600
"""Most of an error in a warning: what a server said is cut shorter, and the setting to mend comes after it."""
BEFORE_CHARS = 120
"""Most of the turn before, from its end: it says what "it" is, and costs as much to read as the candidate."""
READ_CHARS = 1_500
"""Most of a turn: what a cross-encoder has room for. Of a longer one it reads what was found."""
_FRAME = 3
"""Tokens that a cross-encoder puts around the two texts of a pair: [CLS] and two [SEP]."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much the reranker reads, how much it counts, and whether an answer may be chosen `by_time`.

    `top` is the most candidates and `tokens` about the most tokens (`Config.rerank_top`, `Config.rerank_tokens`); `weight` is
    `Ranking.rerank`.
    """

    top: int
    tokens: int
    weight: float
    by_time: bool


def said_before(tx: Tx, snapshot: Snapshot, hits: Sequence[Hit | NodeHit]) -> list[str]:
    """Return, for each hit, the turn before it in its session with its speaker; "" for a session's first and a node.

    So it is where that turn says what is hidden.
    """
    turns = snapshot.turns
    before = [int(turns.previous[hit.turn]) if isinstance(hit, Hit) else -1 for hit in hits]
    previous = [row if row >= 0 and not turns.muted[row] else -1 for row in before]
    texts = rows.turn_texts(tx, [int(snapshot.turns.ids[row]) for row in previous if row >= 0])
    found = []
    for row in previous:
        turn = texts[int(snapshot.turns.ids[row])] if row >= 0 else None
        found.append("" if turn is None else turn_text(turn.speaker, turn.text))
    return found


def said_order(snapshot: Snapshot, hits: Sequence[Hit | NodeHit]) -> list[int]:
    """Return the place of each hit's turn in the order in which turns were said; -1 for a node."""
    places = turn_places(snapshot)
    return [int(places[hit.turn]) if isinstance(hit, Hit) else -1 for hit in hits]


def rerank_text(before: str, one: Evidence) -> str:
    """Return what the reranker reads of a candidate: the turn, after the one before it.

    The turn before says what "it" and "there" are. Measured against the turn alone, and against the statement
    extracted from it: docs/ranking.md. A summary is read as it is.
    """
    if one.kind == "memory":
        return one.text
    read = one.read if len(one.read) <= READ_CHARS else one.text
    return f"{before[-BEFORE_CHARS:]} {turn_text(one.speaker, read)}".strip()


def within_tokens(question: str, texts: Sequence[str], most: int) -> int:
    """Return how many texts, from the first on, are read with a question each in `most` tokens; one at least.

    Tokens are estimated (`count_tokens`), with the frame of a pair.
    """
    each = np.array([count_tokens(question) + count_tokens(text) + _FRAME for text in texts])
    return max(1, int(np.searchsorted(np.cumsum(each), most, side="right")))


async def second_look(
    reranker: Reranker, question: str, plan: QuestionPlan, found: Searched, reading: Reading
) -> tuple[Searched, list[str]]:
    """Order the best candidates by their score plus the reranker's, and let one lead that answers by its time.

    Where the answer is to be chosen by its time, the core of the question and each turn alone are read, else the question and each
    turn behind the one before it. A reranker that fails leaves the order as it is, with a warning.
    """
    operator = operator_of(plan, found) if reading.by_time and getattr(reranker, "logits", False) else None
    asked = asked_in(question) if operator is None or plan.core is None else plan.core
    pool = found.evidence[: reading.top]
    before = found.before[: len(pool)] if operator is None else [""] * len(pool)
    texts = [rerank_text(*pair) for pair in zip(before, pool, strict=True)]
    texts = texts[: within_tokens(asked, texts, reading.tokens)]
    try:
        told = await reranker.score(asked, texts)
        scores = finite_scores(told, len(texts), f"reranker {reranker.model_id!r}")
    except ModelError as exc:
        return found, [f"{cut(str(exc), WARNING_CHARS)}: ranked without the reranker"]
    first = pool[: len(texts)]
    done = replace(
        found,
        evidence=[*reranked(first, scores, reading.weight), *found.evidence[len(first) :]],
        reranker=reranker.model_id,
        places={leaf_key(one): place for place, one in enumerate(first, 1)},
    )
    chosen = None if operator is None else answer_by_time(plan, operator, found, scores)
    if chosen is not None:
        done = led(done, *chosen)
    return done, []


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
