"""The time that a question states in so many words.

Only dates count: "in May 2023", "last summer", "before June 2023", "between March and May 2023". Left
alone are bounds by an event ("before moving to Miami", "after the wedding"), durations ("for how
long", "for 5 years"), recurring days ("on Fridays") and order ("the first time", "most recently"):
they are the planner's. Several dates make one window, the smallest that covers them all, so that a
date named in passing widens the search instead of hiding evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo

from memforest.calendar.fold import fold_text
from memforest.calendar.language import load_language
from memforest.calendar.period import to_utc
from memforest.calendar.phrases import DateSpan, find_dates
from memforest.interval import EARLIEST, Interval, hull

_MS = timedelta(milliseconds=1)
_REACH = 24
_MOST_YEARS = 200
"""How far back a day without a year is looked for; what a memory holds was said within a lifetime or two."""


@dataclass(frozen=True, slots=True)
class QuestionTime:
    """What a question says about time.

    `window` and `as_of` are those of `question_window`; `words` are the stretches of the question that name them, in
    order, and `places` where they stand, in characters. `open_year` is true when all days named lack their year, so that another year's may be meant.
    """

    window: Interval | None = None
    as_of: datetime | None = None
    words: tuple[str, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    open_year: bool = False


def question_window(
    question: str,
    reference: datetime,
    tz: tzinfo,
    languages: Sequence[str] = ("en", "es"),
) -> tuple[Interval | None, datetime | None]:
    """Return the window a question states and the instant it asks about; either may be None.

    - "before June 2023" starts at `EARLIEST` and ends where June begins; "until" and "by" include the
      days named; "since 2016" includes them and is open; "after 2016" begins where they end.
    - "as of 1 June 2024" is an instant and no window: the last millisecond of the days named, since
      what began on that day counts; or the reference itself, if it lies within those days.
    - "6 May", "Friday" are chosen as in what is said, and in doubt are the last ones: a memory holds what was.

    Args:
        question: as it was typed.
        reference: aware; what "last summer" is relative to.
        tz: the zone whose calendar days are meant.
        languages: as in `find_dates`.

    Raises:
        TimestampError: if `reference` is naive.
    """
    found = question_time(question, reference, tz, languages)
    return found.window, found.as_of


def question_time(
    question: str, reference: datetime, tz: tzinfo, languages: Sequence[str] = ("en", "es")
) -> QuestionTime:
    """Return what a question says about time; arguments and errors are those of `question_window`."""
    windows: list[Interval] = []
    as_of: datetime | None = None
    read: list[DateSpan] = []
    for found in find_dates(question, reference, tz, languages, doubtful=True):
        span = found if found.decided else _last_by(found, reference)
        if _asks_as_of(question[: span.start_char], languages):
            moment = reference.astimezone(timezone.utc)
            as_of = moment if span.start <= moment < span.end else span.end - _MS
        elif span.direction == "for" or span.window is None:
            continue
        else:
            windows.append(span.window)
        read.append(span)
    return QuestionTime(
        window=hull(windows),
        as_of=as_of,
        words=tuple(span.text for span in read),
        places=tuple((span.start_char, span.end_char) for span in read),
        open_year=bool(read) and all(span.open_year for span in read),
    )


def _last_by(span: DateSpan, moment: datetime) -> DateSpan:
    """Return a date as the last of its readings that has begun by a moment; as it is if none has."""
    begun = [days for days in span.readings if days.start <= moment]
    if not begun:
        return span
    days = max(begun, key=lambda one: one.start)
    return replace(span, start=days.start, end=days.end or span.end, decided=True, other=None)


def latest_within(
    start: datetime | None, end: datetime | None, first: datetime, last: datetime, tz: tzinfo
) -> int | None:
    """Return by how many years the days ``[start, end)`` go back to the latest like days that a memory covers.

    Covered are days that begin no later than `last` and end after `first`; of a bound that is open, or the beginning
    of time, the other one decides. None if no year's are; bounds move with `years_back`.
    """
    for years in range(_MOST_YEARS):
        low, high = years_back(start, years, tz), years_back(end, years, tz, ends=True)
        bound = high if low is None or low == EARLIEST else low
        if (start is None) != (low is None) or bound is None:
            continue  # that year has no such day
        if bound <= last and (high or bound) > first:
            return years
    return None


def years_back(moment: datetime | None, years: int, tz: tzinfo, *, ends: bool = False) -> datetime | None:
    """Return the same day and time of day so many years before; None if that year has no such day.

    With `ends` the moment is the end of a window: what ends where 29 February begins then ends with February.
    """
    if moment is None or years == 0 or moment == EARLIEST:
        return moment
    local = moment.astimezone(tz)
    try:
        day = local.date().replace(year=local.year - years)
    except ValueError:  # there is no 29 February
        if not ends:
            return None
        day = date(local.year - years, 3, 1)
    begins = to_utc(local.date(), tz)
    return to_utc(day, tz) + (moment - begins)


def _asks_as_of(before: str, languages: Sequence[str]) -> bool:
    folded, _ = fold_text(before[-_REACH:])
    loaded = (load_language(code) for code in languages)
    return any(lang is not None and lang.as_of is not None and lang.as_of.search(folded) for lang in loaded)
