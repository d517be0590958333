"""Answering from ranked evidence; the local answerer steps in where a model fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memforest.errors import ModelRefusedError
from memforest.memory.results import Evidence
from memforest.search.budget import fit
from memforest.search.cache import Snapshots
from memforest.search.texts import asks
from memforest.steps.base import Answer, AnswerEvidence
from memforest.steps.choose import Steps
from memforest.store import evidence as rows
from memforest.store.db import Database
from memforest.systems.modes import FALLS_BACK
from memforest.text import cut
from memforest.types import QuestionPlan

__all__ = ["Answered", "answered", "turns_before", "without_questions"]

Place = tuple[str, str]
_NO_VALUE = ("since", "changed_back")
"""Operators whose timeline names what the question names already."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, the name of the answerer that gave it, and warnings when that is the fallback."""

    answer: Answer
    answerer: str
    warnings: tuple[str, ...] = ()


def without_questions(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence without turns that only ask ("What is he, a cat?")."""
    return [one for one in evidence if one.kind != "turn" or not asks(one.text)]


def turns_before(db: Database, cache: Snapshots, evidence: Sequence[Evidence]) -> Mapping[Place, Place]:
    """Return where evidence was said -> speaker and text of the turn before it in its session, where there is one."""
    with db.read() as tx:
        turns = cache.get(tx).turns
        places = [_place(one) for one in evidence if one.kind != "memory"]
        return rows.turns_before(tx, places, set(turns.ids[turns.muted].tolist()))


async def answered(
    steps: Steps,
    question: str,
    *,
    plan: QuestionPlan,
    reference: datetime,
    evidence: Sequence[Evidence],
    before: Mapping[Place, Place],
) -> Answered:
    """Return an answer from evidence; the local answerer's if the one that was asked fails."""
    pieces = [_piece(one, before) for one in evidence]
    try:
        answer = await steps.answerer.answer(question, plan=plan, reference=reference, evidence=pieces)
    except (*FALLS_BACK, ModelRefusedError) as exc:
        answer = await steps.fallback.answer(question, plan=plan, reference=reference, evidence=pieces)
        why = f"{cut(str(exc), 300)}: the local answerer answered"
        return Answered(answer, steps.fallback.name, (why,))
    return Answered(answer, steps.answerer.name)


def _place(one: Evidence) -> Place:
    """Return the session and turn in which evidence was said, which come first among its sources."""
    return one.sources[0].session_id, one.sources[0].turn_ids[0]


def _piece(one: Evidence, before: Mapping[Place, Place]) -> AnswerEvidence:
    operator, _, value = one.why.partition(": ")
    return AnswerEvidence(
        text=one.text,
        quote=one.read,
        said=one.said,
        start=one.start,
        end=one.end,
        score=one.score,
        speaker=one.speaker,
        turns=one.turns,
        statement=one.statement,
        spoken=one.spoken,
        precision=one.precision,
        before=("", "") if one.kind == "memory" else before.get(_place(one), ("", "")),
        leads=bool(one.why) and not operator.endswith(", perhaps"),
        value="" if operator.split(" ")[0] in _NO_VALUE else value,
    )


def within_budget(evidence: Sequence[Evidence], max_tokens: int | None) -> Sequence[Evidence]:
    """Return the longest prefix whose texts and quotes stay within the budget, and the pinned ones behind it."""
    if max_tokens is None:
        return evidence
    lines = [one.line(number) for number, one in enumerate(evidence, 1)]
    pinned = [at for at, one in enumerate(evidence) if one.pinned]
    return [evidence[at] for at in fit(lines, max_tokens, first=pinned)]
