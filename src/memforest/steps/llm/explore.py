"""Asking a chat model to take a question apart, and to reason about a part from what was found for it.

A failed call is raised: what is then done instead is for the index to say. A question is one plan, one call a part, and one more
where a follow-up is asked; the synthesis is an answerer's (`memforest.steps.llm.answer`).

Source: H-Mem (arXiv 2605.15701) §3.3 and App. B: sub-queries with what they depend on, a scope, a hint of time and a coverage; an
answer, what is missing, and one follow-up a sub-query. The prompts are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from typing import Any

from memforest.limits import QUESTION_CHARS
from memforest.plans import SubQuery
from memforest.ports import Settled
from memforest.steps.choose import Steps
from memforest.steps.llm.explore_checks import (
    FOLLOW_UP_CHARS,
    MOST_PARTS,
    answer_problem,
    hint_of,
    in_order,
    plan_problem,
)
from memforest.steps.llm.explore_replies import PlannedPart, QuestionParts, Reasoning
from memforest.steps.llm.prompt import Value
from memforest.steps.llm.shown import head_and_tail, shown_day, shown_days
from memforest.text import cut

NAME_CHARS = 60
PEOPLE = 40
"""Names shown to the planner at most."""
TEXT_CHARS = 2_000
"""Most characters shown of a line; of a longer one, head and tail."""
ALL_CHARS = 40_000
"""Most characters shown of all lines of a call, some 10,000 tokens."""
ANSWER_CHARS = 400
"""Most characters of the answer to a part: it goes into the text of those that need it."""
PLAN_TOKENS, REASON_TOKENS = 1_024, 512


@dataclass(frozen=True, slots=True)
class Planned:
    """The parts of a question, in the order in which they can be answered, and what was left out of the plan, in words."""

    parts: tuple[SubQuery, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """A line of evidence that a model is shown: what was said, or the text of a memory with its time ``[start, end)``.

    Of what was said `start` is when, and `end` is None.
    """

    text: str
    start: datetime
    end: datetime | None = None
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Reasoned:
    """What a model made of one part: its answer, and what is missing with the question that asks for it; each may be empty.

    Whether that question may be asked, `follow_up_refused` says.
    """

    answer: str = ""
    missing: str = ""
    query: str = ""


async def plan_parts(
    steps: Steps,
    question: str,
    participants: Sequence[str],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
    most: int = MOST_PARTS,
) -> Planned:
    """Return the parts of a question, by the chat model of the step "plan": one call.

    A plan with a circle, an unknown or repeated id, or more than `most` parts is sent back once, and then refused. A time that
    is reversed, or lies further away than a lifetime or two, is left out and noted.

    Args:
        steps: those of the memory.
        question: as it was asked.
        participants: who is known in the memory.
        reference: what "today" is.
        zone: whose days are meant.
        most: most parts.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; says why.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    text = question[:QUESTION_CHARS]
    people = [cut(name, NAME_CHARS) for name in participants[:PEOPLE]]
    row = {"question": text, "today": shown_day(reference, zone)} | ({"people": people} if people else {})
    reply = await steps.ask(
        "hmem_plan",
        QuestionParts,
        {"question": [row], "most": most},
        max_tokens=PLAN_TOKENS,
        check=lambda found: plan_problem(found, text, most),
    )
    notes: list[str] = []
    return Planned(
        tuple(_sub_query(one, text, reference, zone, notes) for one in in_order(reply)), tuple(notes)
    )


def _sub_query(
    one: PlannedPart, question: str, reference: datetime, zone: tzinfo, notes: list[str]
) -> SubQuery:
    interval, problem = hint_of(one, question, reference, zone)
    if problem is not None:
        notes.append(f"sub-query {one.id!r}: {problem}")
    return SubQuery(
        id=one.id,
        text=one.text[:QUESTION_CHARS],
        depends_on=tuple(dict.fromkeys(one.depends_on)),
        scope=one.scope,
        interval=interval,
        coverage=one.coverage,
    )


async def reason(
    steps: Steps,
    sub: SubQuery,
    lines: Sequence[Told],
    settled: Sequence[Settled],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
) -> Reasoned:
    """Return what the chat model of the step "answer" makes of a part of a question: one call, none without lines.

    Args:
        steps: those of the memory.
        sub: the part.
        lines: what was found for it, best first.
        settled: the parts that it depends on, with their answers.
        reference: what "now" is.
        zone: whose days are shown.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; also if the answer names what no line names.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    if not lines:
        return Reasoned()
    values: dict[str, Value] = {
        "query": [{"query": sub.text[:QUESTION_CHARS], "now": shown_day(reference, zone)}],
        "answers": [
            {"query": cut(one.text, FOLLOW_UP_CHARS), "answer": cut(one.answer, ANSWER_CHARS)}
            for one in settled
        ],
        "lines": shown_lines(lines, zone),
    }
    known = [sub.text, *(one.text for one in lines), *(one.speaker for one in lines)]
    known += [text for one in settled for text in (one.text, one.answer)]
    reply = await steps.ask(
        "hmem_reason",
        Reasoning,
        values,
        max_tokens=REASON_TOKENS,
        check=lambda found: answer_problem(found.answer or "", known),
    )
    missing, query = cut(reply.missing or "", FOLLOW_UP_CHARS), cut(reply.query or "", FOLLOW_UP_CHARS)
    return Reasoned(cut(reply.answer or "", ANSWER_CHARS), missing if query else "", query if missing else "")


def shown_lines(lines: Sequence[Told], zone: tzinfo) -> list[dict[str, Any]]:
    """Return lines as rows, numbered from 1: what was said with its day, a memory with its days."""
    chars = max(1, min(TEXT_CHARS, ALL_CHARS // max(1, len(lines))))
    rows = []
    for number, one in enumerate(lines, 1):
        lasts = one.end is not None and one.end > one.start
        time = (
            {"days": shown_days(one.start, one.end, zone)} if lasts else {"said": shown_day(one.start, zone)}
        )
        who = {"speaker": cut(one.speaker, NAME_CHARS)} if one.speaker else {}
        rows.append({"line": number, **time, **who, "text": head_and_tail(one.text, chars)})
    return rows
