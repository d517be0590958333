"""Dating statements: the model points at the words, and the calendar says what they mean.

A model's own arithmetic is not trusted with a date. What it says is used to choose among the dates that the turns
state, and among the days that words may mean there: "on Monday" is either of two, and the model has read which. The
chosen one is resolved against the turn that states it, as the local extractor does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta, tzinfo

from memforest.calendar import DateSpan, window_of
from memforest.calendar.period import to_utc
from memforest.interval import Interval, local_time
from memforest.language.dating import resolved_dates
from memforest.language.language import Code
from memforest.steps.llm.grounding import date_is_spelt, says_number, says_weekday
from memforest.steps.llm.replies import Statement
from memforest.steps.llm.source import Source, SourceTurn, dates_of, folded, plain_words
from memforest.types import ResolvedDate

_PREPOSITION = re.compile(r"\b(?:on|in|at|by|from|el|en|am|im)\s+$", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:of |de |del )?\d{4}\b")
_WEEK, _FORTNIGHT, _MONTH = 7, 14, 31
_NOT_STATED = "a date that the turns do not state was left out"
_EXCLUDED = "a date that the words exclude was left out"


@dataclass(frozen=True, slots=True)
class Dated:
    """A statement's text without dates that were worked out wrongly, its date, and all dates of its words.

    `invented` is a date of the text that no turn states; `left_out` is what the model gave as its time and the turns do
    not state, or the words exclude, with the reason.
    """

    text: str
    span: DateSpan | None
    dateless: str
    """The text without its dates, for the checks of its other words and numbers."""
    dates: tuple[ResolvedDate, ...] = ()
    invented: str | None = None
    left_out: tuple[str, str] | None = None


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
    own = _own_dates(text, language, supports, source)
    span, left_out = _chosen(statement, own, supports, source)
    days = [window_of(said.turn.said, "day", source.zone).interval for said in supports]
    translated = source.is_translated(language, supports)
    out, plain, found = text, text, []
    for one in sorted(own, key=lambda found: found.start_char, reverse=True):
        own_days = () if one.direction == "for" else days  # how long something takes is no day
        known = any(meant.covers(other) for meant in one.readings for other in (*source.stated, *own_days))
        if not known and (one.direction == "for" or date_is_spelt(one.text, supports)):
            continue  # how long something takes is checked as a number, and words may be no date by themselves
        plain = plain[: one.start_char] + " " + plain[one.end_char :]
        if not known and _may_be_meant(one, supports, source, translated=translated):
            continue
        if not known and (span is None or one.relative):
            return Dated(text, None, plain, invented=one.text)
        if not known:
            out = _without(out, one)  # the model worked it out, and wrongly; the chosen one is the date
        elif span is not None and span.interval in one.readings:
            found.append(_read_as(one, span.interval))
        elif one.decided:
            found.append(one)
    if span is not None and all(one.interval != span.interval for one in found):
        found.append(replace(span, start_char=len(text)))
    return Dated(out, span, plain, resolved_dates(found), left_out=left_out)


def _may_be_meant(
    span: DateSpan, supports: Sequence[SourceTurn], source: Source, *, translated: bool
) -> bool:
    """Return whether a written date may be meant by words that the calendar does not read: it is not shown to be wrong.

    Its month or season is said, and the year is the next but one at most; the number of its day is said, and its weekday,
    too, or a time that has it, or it is a month away at most; its weekday is said, and it is two weeks away at most; or the
    language is one without rules and it is a week away at most. Words that the calendar reads mean what it says.
    """
    if span.relative or span.start is None:
        # Of a translation it is not known which words it has been.
        return span.relative and source.language == "other" and translated
    yearless = _YEAR.sub("", span.text).strip(" ,")
    day = local_time(span.start, source.zone).date()
    named = any(days.covers(span.interval) for days in source.stated)
    for said in supports:
        on = local_time(said.turn.said, source.zone).date()
        away = abs((day - on).days)
        if abs(day.year - on.year) <= 1 and _is_unread(yearless, said) and date_is_spelt(yearless, (said,)):
            return True
        if span.precision != "day":
            continue
        weekday = says_weekday(day.weekday(), said)
        if says_number(day.day, said) and (weekday or named or away <= _MONTH):
            return True
        if (weekday and away <= _FORTNIGHT) or (source.language == "other" and away <= _WEEK):
            return True
    return False


def _is_unread(text: str, said: SourceTurn) -> bool:
    """Return whether the calendar reads no date of a turn in the words of a text, in whatever order."""
    wanted = set(plain_words(text))
    return not any(wanted <= set(plain_words(one.text)) for one in said.dates)


def _own_dates(text: str, language: Code, supports: Sequence[SourceTurn], source: Source) -> list[DateSpan]:
    """Return the dates of a statement's text; relative ones mean what they mean in the turn that has these words."""
    beside = "\n".join(one.told for one in supports)

    def read(said: SourceTurn) -> tuple[DateSpan, ...]:
        return dates_of(text, language, said.turn.said, source.zone, source.day_first, beside=beside)

    found = []
    for span in read(supports[0]):
        words = folded(span.text)
        said = next(
            (one for one in supports if words in one.folded and words not in supports[0].folded), None
        )
        again = () if said is None else read(said)
        found.append(next((one for one in again if one.start_char == span.start_char), span))
    return found


def _chosen(
    statement: Statement, own: Sequence[DateSpan], supports: Sequence[SourceTurn], source: Source
) -> tuple[DateSpan | None, tuple[str, str] | None]:
    """Return the date that the model points at, and what it gave that cannot be, with the reason."""
    given, plan = _given(statement, source.zone), statement.kind == "plan"
    named = _meant(_by_own(own, supports), given, plan=plan)
    shown = f"{statement.start} - {statement.end}"
    if statement.when is not None:
        near = _by_words(statement.when, supports)
        if near or _says(statement.when, supports):  # what is said may be no date: "when I was ten"
            excluded = given is not None and near and not any(_meets(one, given) for one in near)
            return _meant(near, given, plan=plan) or named, (shown, _EXCLUDED) if excluded else None
        given = given or _as_date(statement.when, supports[0], source)
    if given is not None:
        found = _covering(_stated(supports), given)
        if found is not None:
            return found, None
    if named is not None or (given is None and statement.when is None):
        return named, None
    return None, (statement.when or shown, _NOT_STATED)


def _meant(spans: Sequence[DateSpan], given: Interval | None, *, plan: bool) -> DateSpan | None:
    """Return the date that the model means: one with a reading that has the days it gave, else the first.

    One in doubt is dated only where the model says which days it means, or that it is a plan: then the later ones.
    """
    found = None if given is None else _covering(spans, given)
    if found is not None or not spans:
        return found
    first = spans[0]
    if first.decided:
        return first
    return _read_as(first, max(first.readings, key=lambda days: days.start)) if plan else None


def _covering(spans: Iterable[DateSpan], given: Interval) -> DateSpan | None:
    """Return the first date that may mean days, as it means them."""
    return next((_read_as(one, days) for one in spans for days in one.readings if days.covers(given)), None)


def _meets(span: DateSpan, given: Interval) -> bool:
    return any(days.overlaps(given) for days in span.readings)


def _read_as(span: DateSpan, days: Interval) -> DateSpan:
    """Return a date that means one of its readings."""
    return replace(span, start=days.start, end=days.end or span.end, decided=True, other=None)


def _as_date(when: str, said: SourceTurn, source: Source) -> Interval | None:
    """Return the days that a model means by words of its own: "3 June 2024" for "3 June"."""
    found = dates_of(when, "en", said.turn.said, source.zone, source.day_first)
    return found[0].interval if found else None


def _says(when: str, supports: Sequence[SourceTurn]) -> bool:
    words = folded(when)
    return any(words in one.folded for one in supports)


def _by_words(when: str, supports: Sequence[SourceTurn]) -> list[DateSpan]:
    """Return the dates that words tell in the first turn in which they stand and tell any."""
    words = folded(when)
    for said in supports:
        if words not in said.folded:
            continue
        # The words alone may read otherwise: "every Friday" is no date, and "Friday" is one.
        near = [one for one in said.dates if folded(one.text) in words or words in folded(one.text)]
        if near:
            return near
    return []


def _by_own(own: Sequence[DateSpan], supports: Sequence[SourceTurn]) -> list[DateSpan]:
    """Return the first date of the text that a supporting turn states, too, as the turn states it."""
    stated = list(_stated(supports))
    for one in own:
        same = next((other for other in stated if set(other.readings) & set(one.readings)), None)
        if same is not None:
            return [same]
    return []


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
