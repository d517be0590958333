"""Asking a chat model how much of a memory a question needs, and which of the recalled memories help.

A failed call is raised: what is then done instead is for the index to say. The order of calls is that of a question: one plan,
one sifting.

Source: TiMem (arXiv 2601.02845), §3.3 and its released configuration: complexity 0, 1, 2, one to three keywords without
names, and how many memories are to be left of each. The prompts are our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Literal

from memforest.language.entities import find_mentions
from memforest.language.language import detect_language
from memforest.limits import QUESTION_CHARS
from memforest.steps.choose import Steps
from memforest.steps.llm.replies import QuestionNeeds, Sifted
from memforest.steps.llm.shown import head_and_tail, shown_day, shown_days
from memforest.text import cut, entity_key, lexical_tokens, words

Complexity = Literal[0, 1, 2]

LEVEL_NAMES: Mapping[int, str] = {1: "segment", 2: "session", 3: "day", 4: "week", 5: "profile"}
"""What a model is told of a level, 1 to 5."""
TARGETS: Mapping[Complexity, tuple[int, int]] = {0: (3, 8), 1: (8, 18), 2: (15, 30)}
"""How many memories are to be left at each complexity, from and to."""
KEYWORDS = 3
"""Keywords of a plan at most."""
KEYWORD_CHARS = 60
PEOPLE = 40
"""Names shown to the planner at most."""
TEXT_CHARS = 4_000
"""Most characters shown of a memory: 600 words; of a longer one, head and tail."""
ALL_CHARS = 60_000
"""Most characters shown of all memories of a call, some 15,000 tokens."""
PLAN_TOKENS, GATE_TOKENS = 512, 1_024
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """How much of a memory a question needs: 0 one fact, 1 several, 2 a picture of a person; and words to look for."""

    complexity: Complexity
    keywords: tuple[str, ...]
    """At most three, in lower case, none of them a person's name."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that may be kept: its level (1 a segment to 5 a profile), its text, and its time ``[start, end)``."""

    level: int
    text: str
    start: datetime
    end: datetime


async def plan_recall(
    steps: Steps,
    question: str,
    participants: Sequence[str],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
) -> RecallPlan:
    """Return how much of a memory a question needs, by the chat model of the step "plan": one call.

    Args:
        steps: those of the memory.
        question: as it was asked.
        participants: who is known in the memory; no name of them is a keyword.
        reference: what "today" is.
        zone: whose day that is.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    text = question[:QUESTION_CHARS]
    people = [cut(name, KEYWORD_CHARS) for name in participants[:PEOPLE]]
    row = {"question": text, "today": shown_day(reference, zone)} | ({"people": people} if people else {})
    reply = await steps.ask("timem_plan", QuestionNeeds, {"question": [row]}, max_tokens=PLAN_TOKENS)
    return RecallPlan(reply.complexity, _keywords(reply.keywords, text, participants))


def _keywords(given: Sequence[str], question: str, participants: Sequence[str]) -> tuple[str, ...]:
    """Return keywords in lower case, each once, without the names of people; at most `KEYWORDS`."""
    language = detect_language(question)
    known = {key: name for name in participants if (key := entity_key(name)) is not None}
    mentions = find_mentions(question, participants=known, language=language)
    people = {one.name for one in mentions if one.kind in ("participant", "person")} | set(participants)
    names = {token for name in people for token in lexical_tokens(name)}
    kept: list[str] = []
    for one in given:
        left = [word for word in words(one.lower()) if names.isdisjoint(lexical_tokens(word))]
        kept.append(" ".join(left)[:KEYWORD_CHARS].strip())
    return tuple(dict.fromkeys(one for one in kept if one))[:KEYWORDS]


async def gate(
    steps: Steps,
    question: str,
    complexity: Complexity,
    candidates: Sequence[Recalled],
    *,
    zone: tzinfo = timezone.utc,
) -> list[int]:
    """Return the positions, from 0, of the memories that help with a question, the most useful first: one call.

    It may be empty. What the model is shown has numbers of its own, level by level; of those it replies with, the ones that
    do not exist and repetitions are left out. Without candidates nothing is asked.

    Args:
        steps: those of the memory; a chat model does the step "sift".
        question: as it was asked.
        complexity: that of its plan.
        candidates: in any order.
        zone: whose days are shown.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; also if it names numbers and none of them exists.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    if not candidates:
        return []
    order = sorted(range(len(candidates)), key=lambda at: candidates[at].level)  # as given within a level
    chars = max(1, min(TEXT_CHARS, ALL_CHARS // len(candidates)))
    rows = [_row(number, candidates[at], chars, zone) for number, at in enumerate(order, 1)]
    least, most = TARGETS[complexity]
    asked: dict[str, Any] = {
        "question": question[:QUESTION_CHARS],
        "complexity": complexity,
        "keep": f"{min(least, len(rows))} to {min(most, len(rows))}",
    }

    def known(reply: Sifted) -> list[int]:
        return [order[one - 1] for one in dict.fromkeys(reply.relevant) if 1 <= one <= len(order)]

    def problem(reply: Sifted) -> str | None:
        if reply.relevant and not known(reply):
            return f"relevant: there are memories 1 to {len(order)} only"
        return None

    values = {"question": [asked], "memories": rows}
    return known(await steps.ask("timem_gate", Sifted, values, max_tokens=GATE_TOKENS, check=problem))


def _row(number: int, one: Recalled, chars: int, zone: tzinfo) -> dict[str, int | str]:
    return {
        "number": number,
        "level": LEVEL_NAMES.get(one.level, str(one.level)),
        "days": shown_days(one.start, one.end if one.end > one.start else one.start + _TICK, zone),
        "text": head_and_tail(one.text, chars),
    }
