"""Which dates a memory claims: the one place that knows how a fact shows them."""

from __future__ import annotations

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
    found = list(_resolved(fact, zone))
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
