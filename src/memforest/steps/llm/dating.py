"""Dating statements: the model points at the words, and the calendar says what they mean.

A model's own arithmetic is not trusted with a date. What it says is used to choose among the dates that the turns
state; the chosen one is resolved against the turn that states it, as the local extractor does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo

from memforest.calendar import DateSpan, window_of
from memforest.calendar.period import to_utc
from memforest.interval import Interval
from memforest.language.dating import show_dates
from memforest.language.language import Code
from memforest.steps.llm.grounding import date_is_spelt
from memforest.steps.llm.replies import Statement
from memforest.steps.llm.source import Source, SourceTurn, dates_of, folded

__all__ = ["Dated", "date_statement"]

_PREPOSITION = re.compile(r"\b(?:on|in|at|by|from|el|en|am|im)\s+$", re.IGNORECASE)
_END_MARKS = re.compile(r"[.!。！…\s]*$")
_WAYS = {"since": "since ", "until": "until ", "before": "before ", "after": "after "}


@dataclass(frozen=True, slots=True)
class Dated:
    """A statement's text with its relative dates written out, and its date.

    `invented` is a date of the text that no turn states; `unstated` is what the model gave as its time, when that is
    found nowhere in the turns and there is no other.
    """

    text: str
    span: DateSpan | None
    dateless: str
    """The text without its dates, for the checks of its other words and numbers."""
    invented: str | None = None
    unstated: str | None = None


def date_statement(
    statement: Statement, text: str, language: Code, supports: Sequence[SourceTurn], source: Source
) -> Dated:
    """Return a statement with its date.

    Args:
        statement: as the model gave it.
        text: its text, already in the third person.
        language: of the text.
        supports: the turns that it rests on, at least one.
        source: the chunk.
    """
    own = _own_dates(text, language, supports, source.zone)
    span, unstated = _chosen(statement, own, supports, source.zone)
    days = [window_of(said.turn.said, "day", source.zone).interval for said in supports]
    shown = None if span is None else _shown(span, source.zone, language)
    out, plain, written = text, text, False
    for one in sorted(own, key=lambda found: found.start_char, reverse=True):
        known = any(one.interval.covers(other) for other in (*source.stated, *days))
        if not known and date_is_spelt(one.text, supports):
            continue  # in words that are no date by themselves: "How long?" - "Three years"
        plain = plain[: one.start_char] + " " + plain[one.end_char :]
        if known and one.relative:
            out = _with_date(out, one, _shown(one, source.zone, language))
        elif not known and (shown is None or one.relative):
            return Dated(text, None, plain, invented=one.text)
        elif not known:
            # The model worked out a date, and wrongly: the right one takes its place.
            out = _without(out, one)
        written = written or known
    if shown is not None and not written:
        out = _at_end(out, shown)
    return Dated(out, span, plain, unstated=unstated)


def _own_dates(text: str, language: Code, supports: Sequence[SourceTurn], zone: tzinfo) -> list[DateSpan]:
    """Return the dates of a statement's text; relative ones mean what they mean in the turn that has these words."""
    found = []
    for span in dates_of(text, (language,), supports[0].turn.said, zone):
        words = folded(span.text)
        said = next(
            (one for one in supports if words in one.folded and words not in supports[0].folded), None
        )
        again = () if said is None else dates_of(text, (language,), said.turn.said, zone)
        found.append(next((one for one in again if one.start_char == span.start_char), span))
    return found


def _chosen(
    statement: Statement, own: Sequence[DateSpan], supports: Sequence[SourceTurn], zone: tzinfo
) -> tuple[DateSpan | None, str | None]:
    """Return the date that the model points at, and the words or days it named when no turn states them."""
    given, named = _given(statement, zone), _by_own(own, supports)
    if statement.when is not None:
        found = _by_words(statement.when, given, supports)
        if found is not None or _says(statement.when, supports):
            return found or named, None  # what is said may be no date: "when I was ten"
        given = given or _as_date(statement.when, supports[0], zone)
    if given is not None:
        found = next((one for one in _stated(supports) if one.interval.covers(given)), None)
        if found is not None:
            return found, None
    if named is not None or (given is None and statement.when is None):
        return named, None
    return None, statement.when or f"{statement.start} - {statement.end}"


def _as_date(when: str, said: SourceTurn, zone: tzinfo) -> Interval | None:
    """Return the days that a model means by words of its own: "3 June 2024" for "3 June"."""
    found = dates_of(when, ("en", "es"), said.turn.said, zone)
    return found[0].interval if found else None


def _says(when: str, supports: Sequence[SourceTurn]) -> bool:
    words = folded(when)
    return any(words in one.folded for one in supports)


def _by_words(when: str, given: Interval | None, supports: Sequence[SourceTurn]) -> DateSpan | None:
    """Return the date that the words tell in the turn they stand in; of several the one that the model means."""
    words = folded(when)
    for said in supports:
        if words not in said.folded:
            continue
        # The words alone may read otherwise: "every Friday" is no date, and "Friday" is one.
        near = [one for one in said.dates if folded(one.text) in words or words in folded(one.text)]
        if near:
            return next((one for one in near if given is not None and one.interval.covers(given)), near[0])
    return None


def _by_own(own: Sequence[DateSpan], supports: Sequence[SourceTurn]) -> DateSpan | None:
    """Return the first date of the text that a supporting turn states, too."""
    stated = list(_stated(supports))
    for one in own:
        same = next((other for other in stated if other.interval == one.interval), None)
        if same is not None:
            return same
    return None


def _stated(supports: Sequence[SourceTurn]) -> Iterable[DateSpan]:
    return (one for said in supports for one in said.dates)


def _given(statement: Statement, zone: tzinfo) -> Interval | None:
    """Return the interval of the days that the model gave; None if it gave none, or invalid ones."""
    first, last = (_iso(text) for text in (statement.start, statement.end))
    first, last = first or last, last or first
    if first is None or last is None or not 1 < first.year <= last.year < 9999 or first > last:
        return None
    return Interval(to_utc(first, zone), to_utc(last + timedelta(days=1), zone))


def _iso(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text[:10])
    except ValueError:
        return None


# -- writing dates --------------------------------------------------------------------------------


def _shown(span: DateSpan, zone: tzinfo, language: Code) -> str:
    """Return a date for the text, with its direction where the date itself does not tell it."""
    english = language == "en"
    lead = _WAYS.get(span.direction, "") if english and not span.relative else ""
    return lead + show_dates(span, zone, english=english)


def _with_date(text: str, span: DateSpan, shown: str) -> str:
    """Write a date behind the words that mean it, unless something in brackets stands there."""
    behind = text[span.end_char :]
    if behind.lstrip().startswith(("(", "（")):
        return text
    return f"{text[: span.end_char]} ({shown}){behind}"


def _without(text: str, span: DateSpan) -> str:
    """Take a date out, with its preposition, and with the brackets around it."""
    before, behind = _PREPOSITION.sub("", text[: span.start_char]), text[span.end_char :]
    if (before[-1:], behind[:1]) in (("(", ")"), ("（", "）")):
        before, behind = _PREPOSITION.sub("", before[:-1]), behind[1:]
    return (
        f"{before.rstrip()}{behind}"
        if behind[:1] in ("", ".", ",", ";", "。", ")", "）")
        else f"{before}{behind.lstrip()}"
    )


def _at_end(text: str, shown: str) -> str:
    """Write a date before the full stop."""
    end = _END_MARKS.search(text)
    at = end.start() if end else len(text)
    return f"{text[:at]} ({shown}){text[at:]}"
