"""Asks a chat model to take a question apart, to reason about a part, and to write what a memory knows of one entity.

A failed call is raised: what is then done instead is for the index to say. A question is one plan, one call a part, and one
more where a follow-up is asked; the synthesis is an answerer's (`memforest.reading.steps_llm`). Whether a plan, an answer to a
part or a follow-up may be used is decided by pure checks on search tokens (`memforest.text.lexical_tokens`), so in any language.

Source: H-Mem (arXiv 2605.15701) §3.2, §3.3 and App. B: sub-queries with what they depend on, a scope and a hint of time; an
answer, what is missing, and one follow-up a sub-query, which asks for what is missing, is no paraphrase, and has a concrete
anchor of the first evidence; profiles with a persistent and a recent part. The prompts are our own. Of the paper's planner the
coverage of a sub-query is left out: nothing says what is read otherwise for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from graphlib import TopologicalSorter
from typing import Annotated, Any

from pydantic import Field

from memforest.errors import InputError
from memforest.ports import Settled
from memforest.reading.date_phrases import question_time
from memforest.reading.entities import names_inside
from memforest.reading.periods import iso_day, to_utc
from memforest.reading.prompts import (
    NAME_CHARS,
    Value,
    asked_row,
    head_and_tail,
    positions_of,
    shown_day,
    shown_days,
)
from memforest.reading.replies import Items, MaybeText, Reply, one_of
from memforest.reading.steps import Steps
from memforest.reading.summarise_llm import RecordCheck
from memforest.reading.tokens import count_words
from memforest.records import QuestionPlan, SubQuery, SubQueryScope, SummaryRequest
from memforest.settings import QUESTION_CHARS
from memforest.text import cut, fold, lexical_tokens
from memforest.times import local_time


class PlannedPart(Reply):
    """A part of a question; `when`, `start` and `end` are its time, in words and as days."""

    id: str
    text: str
    depends_on: Items[str] = Field(default_factory=list)
    scope: Annotated[SubQueryScope, one_of(SubQueryScope, "mixed")] = "mixed"
    when: MaybeText = None
    start: MaybeText = None
    end: MaybeText = None


class QuestionParts(Reply):
    """Reply of the step "plan" with the parts of a question."""

    queries: Items[PlannedPart]


class Reasoning(Reply):
    """Reply of the step "answer" about one part of a question: its answer, or what is missing and how to ask for it."""

    answer: MaybeText = None
    missing: MaybeText = None
    query: MaybeText = None


class SourcedLine(Reply):
    """A line with the numbers of the lines that it was made of."""

    text: str
    sources: Items[int]


class EntityFile(Reply):
    """Reply of the step "summarise" about an entity: what is lasting, and what is recent."""

    lasting: Items[SourcedLine]
    recent: Items[SourcedLine]


MOST_PARTS = 5
"""Parts of a question at most (H-Mem has 1.15 to 1.58 on average)."""
MOST_YEARS = 200
"""How far from the question's present a time may lie: what a memory holds was said within a lifetime or two."""
PARAPHRASE = 0.6
"""Jaccard likeness of the search tokens of two questions from which on one is a paraphrase of the other."""
MISSING_SHARE = 0.5
"""Least share of the search tokens of the missing information that a follow-up has."""
FOLLOW_UP_CHARS = 400
_A_DAY = timedelta(days=1)
_SHOWN = 60

Hint = tuple[datetime, datetime | None]


def plan_problem(reply: QuestionParts, question: str, most: int = MOST_PARTS) -> str | None:
    """Return why the parts of a question cannot be answered one after the other, None if they can.

    There are none, or more than `most`; an id is empty, repeated or unknown; they depend on each other in a circle; or one that
    depends on nothing has no word of the question, so that it is about something else.
    """
    parts = reply.queries
    if not parts:
        return "queries: there is none; the question itself is one"
    if len(parts) > most:
        return f"queries: there are {len(parts)}; at most {most} are allowed"
    try:
        QuestionPlan(
            sub_queries=tuple(
                SubQuery(cut(one.id, _SHOWN), one.text, tuple(cut(id, _SHOWN) for id in one.depends_on))
                for one in parts
            )
        )
    except InputError as exc:
        return f"queries: {exc}"
    asked = frozenset(lexical_tokens(question))
    for one in parts:
        if asked and not one.depends_on and asked.isdisjoint(lexical_tokens(one.text)):
            return f"query {cut(one.id, _SHOWN)!r} has no word of the question"
    return None


def in_order(reply: QuestionParts) -> list[PlannedPart]:
    """Return the parts of a valid plan, each behind those it depends on, else in the order of the reply."""
    parts = {one.id: one for one in reply.queries}
    sorter = TopologicalSorter({id: one.depends_on for id, one in parts.items()})
    sorter.prepare()
    place, found = {id: at for at, id in enumerate(parts)}, []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        found += [parts[id] for id in ready]
        sorter.done(*ready)
    return found


def hint_of(
    one: PlannedPart, question: str, reference: datetime, zone: tzinfo
) -> tuple[Hint | None, str | None]:
    """Return the time ``[start, end)`` that a part is about, and what was left out of it, in words; each may be None.

    The words of the question that name it go before the days that the model worked out. Days that are none, stand the wrong way
    round, or lie more than `MOST_YEARS` from the reference are left out.
    """
    if one.when is not None and fold(one.when) in fold(question):
        window = question_time(one.when, reference, zone).window
        if window is not None:
            return (window.start, window.end), None
    if one.start is None and one.end is None:
        return None, None
    first, last = iso_day(one.start or one.end), iso_day(one.end or one.start)
    if first is None or last is None:
        return None, "a time that is no two days was left out"
    if last < first:
        return None, "a time that ends before it begins was left out"
    year = local_time(reference, zone).year
    if max(abs(first.year - year), abs(last.year - year)) > MOST_YEARS:
        return None, f"a time that lies more than {MOST_YEARS} years away was left out"
    try:
        start = to_utc(first, zone)
        end = None if one.end is None else to_utc(last + _A_DAY, zone)
    except OverflowError:
        return None, "a time at the end of the calendar was left out"
    return (start, end), None


def answer_problem(answer: str, known: Iterable[str]) -> str | None:
    """Return a message about a name in an answer that the model was not shown; None if there is none.

    Other words, and numbers and dates that may have been worked out, are let pass: the synthesis goes by the evidence.
    """
    shown = {token for text in known for token in lexical_tokens(text)}
    for name in sorted(names_inside(answer)):
        tokens = lexical_tokens(name)
        if tokens and shown.isdisjoint(tokens):
            return f"answer: {cut(name, _SHOWN)!r} stands in none of the lines"
    return None


def anchors_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the search tokens of evidence, one of which a follow-up has to name."""
    return frozenset(token for text in texts for token in lexical_tokens(text))


def follow_up_refused(
    query: str, sub: SubQuery, anchors: Collection[str], *, missing: str | None = None
) -> str | None:
    """Return why a follow-up may not be asked, None if it may.

    It has to ask for what is missing, and to have an anchor of the first evidence that the sub-query does not have: otherwise it
    would find the same again. A question that is much like the sub-query is refused unless a word of what is missing is new in it.

    Args:
        query: the follow-up.
        sub: the sub-query that it follows.
        anchors: search tokens of the first evidence (`anchors_of`).
        missing: the missing information, in words; None if it is not known.

    Example:
        >>> sub = SubQuery("1", "Who repaired the tandem?")
        >>> seen = anchors_of(["It was the dentist's brother who did it."])
        >>> follow_up_refused("What is the dentist's brother called?", sub, seen, missing="name of the dentist's brother")
        >>> follow_up_refused("Who was it that repaired the tandem?", sub, seen)
        'it is the sub-query in other words'
        >>> follow_up_refused("What does Per do?", sub, seen)
        'it has nothing of the first evidence that the sub-query does not have'
    """
    if not query.strip():
        return "it asks nothing"
    if len(query) > FOLLOW_UP_CHARS:
        return f"it has more than {FOLLOW_UP_CHARS} characters"
    asked, before = set(lexical_tokens(query)), set(lexical_tokens(sub.text))
    wanted, new = set(lexical_tokens(missing or "")), asked - before
    if not new or (new.isdisjoint(wanted) and len(asked & before) >= PARAPHRASE * len(asked | before)):
        return "it is the sub-query in other words"
    if missing is not None and (not wanted or len(wanted & asked) < MISSING_SHARE * len(wanted)):
        return "it does not ask for what is missing"
    if new.isdisjoint(anchors):
        return "it has nothing of the first evidence that the sub-query does not have"
    return None


TEXT_CHARS = 2_000
"""Most characters shown of a line; of a longer one, head and tail."""
ALL_CHARS = 40_000
"""Most characters shown of all lines of a call, some 10,000 tokens."""
ANSWER_CHARS = 400
"""Most characters of the answer to a part: it goes into the text of those that need it."""
PLAN_TOKENS, REASON_TOKENS = 1_024, 512


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line of evidence shown to a model: a turn, or the text of a memory with its time ``[start, end)``.

    For a turn, `start` is its time and `end` is None.
    """

    text: str
    start: datetime
    end: datetime | None = None
    speaker: str = ""


async def plan_parts(
    steps: Steps,
    question: str,
    participants: Sequence[str],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
    most: int = MOST_PARTS,
) -> tuple[list[SubQuery], list[str]]:
    """Return the parts of a question, each behind those it depends on, and what was left out of the plan, in words.

    The chat model of the step "plan" makes them: one call.

    A plan with a circle, an unknown or repeated id, or more than `most` parts is sent back once, and then refused. A time that
    is reversed, or lies further away than a lifetime or two, is left out and noted.

    Args:
        steps: those of the memory.
        question: as it was asked.
        participants: names of the people in the memory.
        reference: what "today" is.
        zone: whose days are meant.
        most: most parts.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; says why.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    text = question[:QUESTION_CHARS]
    row = asked_row(text, reference, zone, participants)
    reply = await steps.ask(
        "hmem_plan",
        QuestionParts,
        {"question": [row], "most": most},
        max_tokens=PLAN_TOKENS,
        check=lambda found: plan_problem(found, text, most),
    )
    notes: list[str] = []
    return [_sub_query(one, text, reference, zone, notes) for one in in_order(reply)], notes


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
    )


async def reason(
    steps: Steps,
    sub: SubQuery,
    lines: Sequence[EvidenceLine],
    settled: Sequence[Settled],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
) -> tuple[str, str, str]:
    """Return the answer to a part of a question, what is missing, and the question that asks for it; each may be empty.

    The chat model of the step "answer" gives them: one call, none without lines. Whether the question may be asked,
    `follow_up_refused` says.

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
        return "", "", ""
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
    answer = cut(reply.answer or "", ANSWER_CHARS)
    return (answer, missing, query) if missing and query else (answer, "", "")


def shown_lines(lines: Sequence[EvidenceLine], zone: tzinfo) -> list[dict[str, Any]]:
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


MOST_LINES = 12
"""Lines of a profile at most, both parts together."""
MOST_GIVEN = 60
"""Lines shown to the model at most, those that count most."""
LINE_WORDS = 60
"""Most words of a line of a profile."""
ENTITY_TEXT_CHARS = 600
"""Most characters shown of a line."""
ENTITY_NAME_CHARS = 80
FILE_TOKENS = 2_048
_TICK = timedelta(milliseconds=1)


async def entity_file(
    steps: Steps,
    name: str,
    kind: str,
    lines: Sequence[EvidenceLine],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
    most: int = MOST_LINES,
) -> EntityFile:
    """Return a profile of an entity, which the chat model of the step "summarise" makes of some lines in one call.

    Every line has the positions, from 0, of the given lines that it was made of. Its names, numbers, dates and quotations stand in its sources, and so does
    a part of its other words. A file with a line that does not keep to that is sent back once, and then refused.

    Args:
        steps: those of the memory.
        name: of the entity.
        kind: what it is (`memforest.records.EntityKind`).
        lines: what the memory has of it, what counts most first; the first `MOST_GIVEN` are shown.
        reference: what "now" is.
        zone: whose days are shown.
        most: most lines of both parts.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; says why.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    given = lines[:MOST_GIVEN]
    if not given or most < 1:
        return EntityFile(lasting=[], recent=[])
    called = cut(name, ENTITY_NAME_CHARS)
    short = (replace(one, text=head_and_tail(one.text, ENTITY_TEXT_CHARS)) for one in given)
    shown = shown_lines(list(short), zone)
    values: dict[str, Value] = {
        "entity": [{"name": called, "kind": kind, "now": shown_day(reference, zone)}],
        "lines": shown,
        "most": most,
    }
    # A line of the file may repeat the days of its sources.
    texts = [f"{row.get('said') or row.get('days')}: {row['text']}" for row in shown]

    def problem(reply: EntityFile) -> str | None:
        return _problem(reply, called, texts, given, zone, most)

    reply = await steps.ask("hmem_profile", EntityFile, values, max_tokens=FILE_TOKENS, check=problem)
    for line in (*reply.lasting, *reply.recent):
        line.sources = positions_of(line.sources, len(given))
    return reply


def _problem(
    reply: EntityFile, name: str, texts: Sequence[str], given: Sequence[EvidenceLine], zone: tzinfo, most: int
) -> str | None:
    """Return what is wrong with a file, each line against its own sources; None if nothing."""
    lines = [*reply.lasting, *reply.recent]
    if not lines:
        return "there is no line"
    if len(lines) > most:
        return f"there are {len(lines)} lines; at most {most} are allowed"
    for one in lines:
        known = positions_of(one.sources, len(texts))
        if not known or len(known) < len(set(one.sources)):
            return f"the line {cut(one.text, 60)!r} needs sources; there are lines 1 to {len(texts)}"
        if count_words(one.text) > LINE_WORDS:
            return f"the line {cut(one.text, 60)!r} has more than {LINE_WORDS} words"
        sources = [given[position] for position in known]
        request = SummaryRequest(
            "profile",
            name,
            min(line.start for line in sources),
            max(line.end or line.start + _TICK for line in sources),
            (),
            LINE_WORDS,
            participants=tuple(dict.fromkeys((name, *(line.speaker for line in sources if line.speaker)))),
        )
        check = RecordCheck(request, [texts[position] for position in known], (), zone, "hmem_profile")
        wrong = check.problem(one.text)
        if wrong is not None:
            return wrong
    return None
