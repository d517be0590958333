"""What a memory adds to the reading of a question: which year's 6 May is meant, and which words to look for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, tzinfo

from memforest.calendar.question import latest_within, years_back
from memforest.interval import from_ms
from memforest.memory.known import unknown_note
from memforest.ports import Embedder
from memforest.search.snapshot import Snapshot
from memforest.search.texts import day_text, question_tokens
from memforest.types import QuestionPlan

_ONE_DAY = timedelta(hours=25)
"""The longest day: when clocks are put back."""


def in_memory(plan: QuestionPlan, snapshot: Snapshot, reference_ms: int, zone: tzinfo) -> QuestionPlan:
    """Return the plan of a question that names days without a year, moved to the last such days of the memory.

    For questions without a reference date: a memory of years ago is asked about its own 6 May, and not about that of the
    clock's year. Days ahead of the clock stay, and so do days of which no year is covered.

    Args:
        plan: with `open_year`, its bounds as the clock has them.
        snapshot: of the memory.
        reference_ms: the clock's time.
        zone: whose calendar days are meant.
    """
    said, now = snapshot.turns.said_ms, from_ms(reference_ms)
    named = plan.as_of if plan.start is None and plan.end is None else plan.start
    if not len(said) or (named is not None and named > now):
        return plan
    start, end = (plan.as_of, None) if plan.start is None and plan.end is None else (plan.start, plan.end)
    years = latest_within(start, end, from_ms(int(said.min())), from_ms(int(said.max())), zone)
    if not years:
        return plan
    return replace(
        plan,
        start=years_back(plan.start, years, zone),
        end=years_back(plan.end, years, zone, ends=True),
        as_of=years_back(plan.as_of, years, zone),
    )


def search_tokens(question: str, plan: QuestionPlan, zone: tzinfo) -> list[str]:
    """Return the tokens to search a question by: its own, and the day that it asks about as the index spells days.

    So "on March 4th" and "on 4 March" find the same. The words of the date stay: without them nDCG@10 of
    dated questions was 3 to 8 points lower, by the weight of nearness (docs/ranking.md).
    """
    if plan.start is None or plan.end is None or plan.end - plan.start > _ONE_DAY:
        return question_tokens(question)
    return question_tokens(f"{question} {day_text(plan.start.astimezone(zone))}")


def memory_notes(snapshot: Snapshot, embedder: Embedder | None) -> list[str]:
    """Return a warning when the embedder has words for little of the memory."""
    if embedder is None or not len(snapshot.turns.known):
        return []
    note = unknown_note(float(snapshot.turns.known.mean()), embedder.model_id)
    return [] if note is None else [note]
