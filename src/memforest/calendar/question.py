"""The time that a question states in so many words.

Only dates count: "in May 2023", "last summer", "before June 2023", "between March and May 2023". Left
alone are bounds by an event ("before moving to Miami", "after the wedding"), durations ("for how
long", "for 5 years"), recurring days ("on Fridays") and order ("the first time", "most recently"):
they are the planner's. Several dates make one window, the smallest that covers them all, so that a
date named in passing widens the search instead of hiding evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.calendar.fold import fold_text
from memforest.calendar.language import load_language
from memforest.calendar.phrases import DateSpan, find_dates
from memforest.interval import Interval, hull

__all__ = ["last_by", "question_window"]

_MS = timedelta(milliseconds=1)
_REACH = 24


def question_window(
    question: str,
    reference: datetime,
    tz: tzinfo,
    languages: Sequence[str] = ("en", "es"),
    *,
    latest: datetime | None = None,
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
        latest: aware; where the memory ends, for a question whose time is not known: "6 May" is then the last one that
            has begun by then.

    Raises:
        TimestampError: if `reference` or `latest` is naive.
    """
    windows: list[Interval] = []
    as_of: datetime | None = None
    for span in _dates(question, reference, tz, languages, latest):
        if _asks_as_of(question[: span.start_char], languages):
            moment = reference.astimezone(timezone.utc)
            as_of = moment if span.start <= moment < span.end else span.end - _MS
        elif span.direction != "for":
            windows.extend(_window(span))
    return hull(windows), as_of


def _dates(
    question: str, reference: datetime, tz: tzinfo, languages: Sequence[str], latest: datetime | None
) -> list[DateSpan]:
    found = find_dates(question, reference, tz, languages, doubtful=True)
    known = [last_by(one, reference) if not one.decided else one for one in found]
    if latest is None or not any(one.bare for one in known):
        return known
    last = {
        one.start_char: last_by(one, latest)
        for one in find_dates(question, latest, tz, languages, doubtful=True)
    }
    return [last.get(one.start_char, one) if one.bare else one for one in known]


def last_by(span: DateSpan, moment: datetime) -> DateSpan:
    """Return a date as the last of its readings that has begun by a moment; as it is if none has."""
    begun = [days for days in span.readings if days.start <= moment]
    if not begun:
        return span
    days = max(begun, key=lambda one: one.start)
    return replace(span, start=days.start, end=days.end or span.end, decided=True, other=None)


def _window(span: DateSpan) -> list[Interval]:
    return [] if span.window is None else [span.window]


def _asks_as_of(before: str, languages: Sequence[str]) -> bool:
    folded, _ = fold_text(before[-_REACH:])
    loaded = (load_language(code) for code in languages)
    return any(lang is not None and lang.as_of is not None and lang.as_of.search(folded) for lang in loaded)
