"""A sentence's dates as its statement needs them: written out for people, and as the valid time it states."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from memforest.calendar import DateSpan
from memforest.interval import local_time
from memforest.types import Precision

__all__ = ["show_dates", "until_now", "valid_time"]

_PERFECT = re.compile(r"\b(?:have|has|haven['’]t|hasn['’]t|been)\b|['’](?:ve|s)\b", re.IGNORECASE)


def until_now(before: str) -> bool:
    """Return whether "for two years" behind `before` reaches to the present: "have lived", but not "lived"."""
    clause = re.split(r"[.;,]| and | but ", before)[-1]
    return _PERFECT.search(clause) is not None


def valid_time(span: DateSpan | None) -> tuple[datetime | None, datetime | None, Precision]:
    """Return the valid time that a statement states: from a start, open for "since"; none for "until June"."""
    window = span.window if span and span.direction not in ("before", "until") else None
    if span is None or window is None:
        return None, None, "unknown"
    return window.start, window.end, span.precision


def show_dates(span: DateSpan, zone: tzinfo, *, english: bool) -> str:
    """Return a resolved date as people write it ("7 May 2023", "May 2023"), or in ISO form when not English."""
    first = local_time(span.start, zone)
    last = local_time(span.end - timedelta(microseconds=1), zone)
    lead = "since " if english and span.direction == "for" else ""
    if first.date() == last.date():
        return lead + _day(first, english=english)
    if span.precision == "year" and first.year == last.year:
        return f"{lead}{first.year}"
    if span.precision == "month" and (first.year, first.month) == (last.year, last.month):
        return f"{lead}{_MONTHS[first.month - 1]} {first.year}" if english else f"{first:%Y-%m}"
    if not english:
        return f"{first:%Y-%m-%d}/{last:%Y-%m-%d}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{lead}{first.day}-{_day(last, english=True)}"
    return f"{lead}{_day(first, english=True)} to {_day(last, english=True)}"


_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def _day(when: datetime, *, english: bool) -> str:
    """Return one day, without a locale: strftime's month names would follow the process's."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}" if english else f"{when:%Y-%m-%d}"
