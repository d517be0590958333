"""Answering from ranked evidence; the local answerer steps in where a model fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memforest.errors import ModelRefusedError
from memforest.memory.results import Evidence
from memforest.search.texts import asks
from memforest.steps.base import Answer, Answerer, AnswerEvidence
from memforest.steps.local.answer import LocalAnswerer
from memforest.systems.modes import FALLS_BACK
from memforest.text import cut
from memforest.types import QuestionPlan

__all__ = ["Answered", "answered", "without_questions"]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, the name of the answerer that gave it, and warnings when that is the fallback."""

    answer: Answer
    answerer: str
    warnings: tuple[str, ...] = ()


def without_questions(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence without turns that only ask ("What is he, a cat?")."""
    return [one for one in evidence if one.kind != "turn" or not asks(one.text)]


async def answered(
    answerer: Answerer,
    question: str,
    *,
    plan: QuestionPlan,
    reference: datetime,
    evidence: Sequence[Evidence],
) -> Answered:
    """Return an answer from evidence; the local answerer's if the one that was asked fails."""
    pieces = [
        AnswerEvidence(
            text=one.text,
            quote=one.quote,
            said=one.said,
            start=one.start,
            end=one.end,
            score=one.score,
            speaker=one.speaker,
            turns=one.turns,
            statement=one.statement,
            spoken=one.spoken,
        )
        for one in evidence
    ]
    try:
        answer = await answerer.answer(question, plan=plan, reference=reference, evidence=pieces)
    except (*FALLS_BACK, ModelRefusedError) as exc:
        local = LocalAnswerer()
        answer = await local.answer(question, plan=plan, reference=reference, evidence=pieces)
        return Answered(answer, local.name, (f"{cut(str(exc), 300)}: the local answerer answered",))
    return Answered(answer, answerer.name)
