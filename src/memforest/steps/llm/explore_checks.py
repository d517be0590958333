"""Whether a plan, an answer to a part and a follow-up of a model may be used: pure checks of what it replied.

Source: H-Mem (arXiv 2605.15701) §3.3: a follow-up asks for what is missing, is no paraphrase, and has a concrete anchor of the
first evidence. How each is told is ours: by search tokens (`memforest.text.lexical_tokens`), so in any language.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, datetime, timedelta, tzinfo
from graphlib import TopologicalSorter

from memforest.calendar.period import to_utc
from memforest.calendar.question import question_time
from memforest.errors import InputError
from memforest.interval import local_time
from memforest.language.entities import names_inside
from memforest.plans import QuestionPlan, SubQuery
from memforest.steps.llm.explore_replies import PlannedPart, QuestionParts
from memforest.text import cut, fold, lexical_tokens

MOST_PARTS = 5
"""Parts of a question at most (H-Mem has 1.15 to 1.58 on average)."""
MOST_YEARS = 200
"""How far from the question's present a time may lie: what a memory holds was said within a lifetime or two."""
PARAPHRASE = 0.6
"""Jaccard likeness of the search tokens of two questions from which on one is a paraphrase of the other."""
MISSING_SHARE = 0.5
"""Part of the search tokens of what is missing that a question for it has to have."""
FOLLOW_UP_CHARS = 400
_A_DAY = timedelta(days=1)
_SHOWN = 60

Hint = tuple[datetime, datetime | None]


# -- plans ----------------------------------------------------------------------------------------


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
    """Return the parts of a plan that has no problem so that each stands behind those it depends on, else as they stand."""
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
    first, last = _day(one.start or one.end), _day(one.end or one.start)
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


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None


# -- answers --------------------------------------------------------------------------------------


def answer_problem(answer: str, known: Iterable[str]) -> str | None:
    """Return the name in an answer that nothing of what the model was shown has, in words; None if there is none.

    Other words, and numbers and dates that may have been worked out, are let pass: the synthesis goes by the evidence.
    """
    shown = {token for text in known for token in lexical_tokens(text)}
    for name in sorted(names_inside(answer)):
        tokens = lexical_tokens(name)
        if tokens and shown.isdisjoint(tokens):
            return f"answer: {cut(name, _SHOWN)!r} stands in none of the lines"
    return None


# -- follow-ups -----------------------------------------------------------------------------------


def anchors_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the search tokens of evidence, by which a follow-up may be tied to it: names, numbers and things."""
    return frozenset(token for text in texts for token in lexical_tokens(text))


def follow_up_refused(
    query: str, sub: SubQuery, anchors: Collection[str], *, missing: str | None = None
) -> str | None:
    """Return why a follow-up may not be asked, None if it may.

    It has to ask for what is missing, to be no paraphrase of the sub-query, and to have an anchor of the first evidence that the
    sub-query does not have: otherwise it would find the same again.

    Args:
        query: the follow-up.
        sub: the sub-query that it follows.
        anchors: search tokens of the first evidence (`anchors_of`).
        missing: what is missing, in words; None where nobody says, and it is not compared.

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
    if asked <= before or _jaccard(asked, before) >= PARAPHRASE:
        return "it is the sub-query in other words"
    if missing is not None:
        wanted = set(lexical_tokens(missing))
        if not wanted or len(wanted & asked) < MISSING_SHARE * len(wanted):
            return "it does not ask for what is missing"
    if (asked - before).isdisjoint(anchors):
        return "it has nothing of the first evidence that the sub-query does not have"
    return None


def _jaccard(one: set[str], other: set[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 1.0
