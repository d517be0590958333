"""Which dates a memory claims: the one place that knows how a fact shows them."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from dates.rows import Days

__all__ = ["Claim", "claims_of"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Days that a fact claims, and the words they came from ("" where it does not say)."""

    days: Days
    words: str = ""


def claims_of(fact: Any, zone: tzinfo) -> list[Claim]:
    """Return the dates that a `FactView` claims: its resolved dates, and its valid time where it says more.

    Args:
        fact: of a memory whose local days are those of `zone`.
        zone: of the speaker.
    """
    found = list(_resolved(fact, zone)) if hasattr(fact, "dates") else list(_in_brackets(fact))
    bounds = {bound for claim in found for bound in claim.days}
    valid = _valid_time(fact, zone)
    if valid is not None and not bounds.intersection(valid):
        found.append(Claim(valid))
    return found


def _resolved(fact: Any, zone: tzinfo) -> Iterator[Claim]:
    for one in fact.dates:
        yield Claim(_days(one.start, one.end, one.precision, zone), one.words)


def _valid_time(fact: Any, zone: tzinfo) -> Days | None:
    """Return the stated valid time; one that is open on a side is its other side, as exact as it was stated."""
    if fact.precision == "unknown":
        return None
    if fact.start == fact.said and fact.end is not None:
        last = _local(fact.end, zone) - timedelta(days=1)
        return _unit(last, fact.precision)
    return _days(fact.start, fact.end, fact.precision, zone)


def _days(start: datetime, end: datetime | None, precision: str, zone: tzinfo) -> Days:
    first = _local(start, zone)
    if end is None or end == start:
        return _unit(first, precision)
    return first, _local(end - timedelta(microseconds=1), zone) + timedelta(days=1)


def _local(moment: datetime, zone: tzinfo) -> date:
    return moment.astimezone(zone).date()


def _unit(day: date, precision: str) -> Days:
    """Return the whole day, week, month, season, year or decade that holds a day."""
    if precision == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=7)
    months = {"month": 1, "season": 3, "year": 12, "decade": 120}.get(precision)
    if months is None:
        return day, day + timedelta(days=1)
    number = day.year * 12 + day.month - 1
    first = number - (number - (2 if months == 3 else 0)) % months
    return _month(first), _month(first + months)


def _month(number: int) -> date:
    """Return the first day of a month that is counted from January of the year 0."""
    return date(number // 12, number % 12 + 1, 1)


_MONTHS = {name: number for number, name in enumerate(calendar.month_name) if name}
_MONTH = "|".join(_MONTHS)
_POINT = rf"(?:(?P<day{{0}}>\d{{{{1,2}}}}) )?(?:(?P<month{{0}}>{_MONTH}) )?(?P<year{{0}}>\d{{{{4}}}})"
_BRACKETS = re.compile(
    rf"\((?:since )?(?:(?:{_POINT.format(1)} to |(?P<from_day>\d{{1,2}})-))?{_POINT.format(2)}\)"
)
"""A date as it is written into a statement: (10 May 2024), (July 2022), (17-23 March 2025), (28 April 2025 to 4 May 2025)."""


def _in_brackets(fact: Any) -> Iterator[Claim]:
    for found in _BRACKETS.finditer(fact.text):
        last = _point(found["day2"], found["month2"], found["year2"])
        if found["from_day"]:
            first = _point(found["from_day"], found["month2"], found["year2"])
        else:
            first = _point(found["day1"], found["month1"], found["year1"]) if found["year1"] else last
        if first is not None and last is not None:
            yield Claim((first[0], last[1]))


def _point(day: str | None, month: str | None, year: str) -> Days | None:
    if day and not month:
        return None
    if day:
        return _unit(date(int(year), _MONTHS[str(month)], int(day)), "day")
    return _unit(date(int(year), _MONTHS[month] if month else 1, 1), "month" if month else "year")
