"""The time that a question states in so many words.

Only dates count: "in May 2023", "last summer", "before June 2023", "between March and May 2023". Left
alone are bounds by an event ("before moving to Miami", "after the wedding"), durations ("for how
long", "for 5 years"), recurring days ("on Fridays") and order ("the first time", "most recently"):
they are the planner's. Several dates make one window, the smallest that covers them all, so that a
date named in passing widens the search instead of hiding evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.calendar.fold import fold_text
from memforest.calendar.language import load_language
from memforest.calendar.phrases import DateSpan, find_dates
from memforest.interval import Interval, hull

__all__ = ["question_window"]

_MS = timedelta(milliseconds=1)
_REACH = 24


def question_window(
    question: str, reference: datetime, tz: tzinfo, languages: Sequence[str] = ("en", "es")
) -> tuple[Interval | None, datetime | None]:
    """Return the window a question states and the instant it asks about; either may be None.

    - "before June 2023" starts at `EARLIEST` and ends where June begins; "until" and "by" include the
      days named; "since 2016" includes them and is open; "after 2016" begins where they end.
    - "as of 1 June 2024" is an instant and no window: the last millisecond of the days named, since
      what began on that day counts; or the reference itself, if it lies within those days.

    Args:
        question: as it was typed.
        reference: aware; what "last summer" is relative to.
        tz: the zone whose calendar days are meant.
        languages: as in `find_dates`.

    Raises:
        TimestampError: if `reference` is naive.
    """
    windows: list[Interval] = []
    as_of: datetime | None = None
    for span in find_dates(question, reference, tz, languages):
        if _asks_as_of(question[: span.start_char], languages):
            moment = reference.astimezone(timezone.utc)
            as_of = moment if span.start <= moment < span.end else span.end - _MS
        elif span.direction != "for":
            windows.extend(_window(span))
    return hull(windows), as_of


def _window(span: DateSpan) -> list[Interval]:
    return [] if span.window is None else [span.window]


def _asks_as_of(before: str, languages: Sequence[str]) -> bool:
    folded, _ = fold_text(before[-_REACH:])
    loaded = (load_language(code) for code in languages)
    return any(lang is not None and lang.as_of is not None and lang.as_of.search(folded) for lang in loaded)
