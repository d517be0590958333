"""The answer by its time: which of the candidates that a reranker finds relevant was said when the question wants it.

It is asked only where the words of a question show a time operator ("before", "first", "now", a date) and no timeline
leads. `memforest.ranking.choose_by_time` chooses; here is what it is told, and what becomes of its choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memforest.memory.query.explain import LeafKey, Searched, leaf_key
from memforest.memory.results import Evidence
from memforest.ranking import choose_by_time
from memforest.search.texts import asks, question_tokens
from memforest.text import entity_key
from memforest.types import QuestionPlan, TimeOperator

LEAD = 1_000.0
"""Added to what is chosen, as an index adds it to what a timeline says: it stands in front of all that is only similar."""
OF_CHANGE = frozenset(("current", "first", "last", "predecessor", "successor", "changed_back"))
"""Operators with which a question mostly asks for a state; dates and beginnings stand in as many about events."""
_FEWEST = 3
"""Fewest candidates about a person for the others to be left out."""
_COVERED = 0.5
"""Least share of an anchor's words that a turn has which tells of it."""
_WHY = {
    "predecessor": "said last of what answers before {anchor}",
    "successor": "said first of what answers after {anchor}",
    "first": "said first of what answers",
}


def operator_of(plan: QuestionPlan, found: Searched) -> TimeOperator | None:
    """Return the operator by which a question's answer is to be chosen: None if it shows none, or a timeline leads.

    None also if the operator is one with which as many questions ask for an event ("What did Ana paint in May?").
    """
    operator = plan.operator or plan.kind_operator
    if plan.core is None or operator is None or operator.kind not in OF_CHANGE:
        return None
    if any(one.why for one in found.evidence):
        return None
    return operator


def answer_by_time(
    plan: QuestionPlan, operator: TimeOperator, found: Searched, relevance: NDArray[np.float64]
) -> tuple[LeafKey, str] | None:
    """Return which evidence answers by its time, and why; None if none does.

    Args:
        plan: of the question, with a core.
        operator: see `operator_of`.
        found: the candidates, best first, with the order in which they were said.
        relevance: logits of how well the first of them answer the core.
    """
    read = found.evidence[: len(relevance)]
    anchor = (plan.anchor if plan.kind == operator.kind else None) or operator.anchor
    turn = np.array([one.kind != "memory" for one in read], dtype=np.bool_)
    within = turn & _about(plan.entities, read)
    row = choose_by_time(
        operator.kind,
        relevance,
        np.array(found.order[: len(read)], dtype=np.int64),
        asks=np.array([asks(one.quote) for one in read], dtype=np.bool_),
        within=within,
        anchored=_anchored(anchor, read),
    )
    if row is None:
        return None
    why = _WHY.get(operator.kind, "said last of what answers").format(anchor=anchor)
    return leaf_key(read[row]), f"{operator.kind}: {why}"


def led(found: Searched, key: LeafKey, why: str) -> Searched:
    """Return what was found with one evidence in front, for a reason."""
    chosen = next(one for one in found.evidence if leaf_key(one) == key)
    parts = {**chosen.scores, "lead": chosen.scores.get("lead", 0.0) + LEAD}
    top = replace(chosen, score=chosen.score + LEAD, scores=parts, why=why)
    return replace(
        found,
        evidence=[top, *(one for one in found.evidence if one is not chosen)],
        notes={**found.notes, "time_order": {"why": why, "turns": 1}},
    )


def _about(entities: Sequence[str], read: Sequence[Evidence]) -> NDArray[np.bool_]:
    """Return what the first person of a question says or is named in; everything where that is little."""
    every = np.ones(len(read), dtype=np.bool_)
    if not entities:
        return every
    name, key = entities[0].casefold(), entity_key(entities[0])
    found = np.array(
        [entity_key(one.speaker) == key or name in f"{one.text} {one.quote}".casefold() for one in read],
        dtype=np.bool_,
    )
    return found if found.sum() >= _FEWEST else every


def _anchored(anchor: str, read: Sequence[Evidence]) -> NDArray[np.bool_]:
    """Return what has most of an anchor's words: as many as any, and at least half."""
    wanted = set(question_tokens(anchor))
    if not wanted:
        return np.zeros(len(read), dtype=np.bool_)
    share = np.array(
        [len(wanted & set(question_tokens(f"{one.text} {one.quote}"))) / len(wanted) for one in read]
    )
    covered: NDArray[np.bool_] = share >= max(_COVERED, share.max(initial=0.0))
    return covered
