"""Civil periods (half-open runs of days) and calendar windows (a day, week, month or year in a zone).

Weeks start on Monday (ISO 8601). Seasons are the meteorological ones of the northern hemisphere (spring
starts on 1 March); a winter belongs to the year of its December. Only `to_utc` says when a local day begins: a day is
23 or 25 hours long when the clocks change, and may begin within the hour that they skip.

Windows of one unit tile time: each instant lies in exactly one, and a window ends where the next begins, ``[start, end)``
in aware UTC. When clocks are put back over midnight, the hour that comes twice belongs to the later day, and a day that a
zone has repeated is one day of up to 48 hours. A day that a zone has skipped (Pacific/Apia, 30 December 2011) is no window.

Instants lie in the years 1 to 9999. The first window of a unit begins at `EARLIEST` and the last one ends at
`END_OF_TIME`, whatever the zone's offset; the day before 1 January of year 1 and the one after 9999 are theirs.

A key names a window of a unit in any zone: "2024-02-05", "2024-W06", "2024-02/2024-W06", "2024-02",
"2024". Keys of one unit sort as their windows do in time. A week within a month carries the year of its ISO week,
as 30 December 2024 lies in week 1 of 2025: "2024-12/2025-W01".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal, get_args

from memforest.errors import InputError
from memforest.records import Precision
from memforest.times import EARLIEST, floor_ms, shown

Kind = Literal["weekday", "weekend", "day_of_month", "day", "month", "quarter", "season", "holiday"]
"""Kinds of periods named without a year; "day" is a day with its month."""

_DAY = timedelta(days=1)
SEASON_STARTS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
"""First month of each northern meteorological season."""

# name -> (pieces, first piece, piece after the last)
_PARTS = {"early": (3, 0, 1), "mid": (3, 1, 2), "late": (3, 2, 3), "half1": (2, 0, 1), "half2": (2, 1, 2)}

_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_DAYS_IN = {"week": 7, "weekend": 7, "fortnight": 14}


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open run of days ``[start, end)`` and how exactly it is meant.

    `relative` is true when the reference day was needed to find it, `approx` when the wording is vague.
    `open_year` is true when the words named no year, so that a partner ("March and May 2023") may. `doubt` is true
    when nothing tells which of several is meant: such a one counts only with a year from elsewhere.
    """

    start: date
    end: date
    precision: Precision
    relative: bool = False
    approx: bool = False
    open_year: bool = False
    doubt: bool = False
    kind: Kind | None = None
    """The kind of a recurring period named alone, such as "Friday" or "May"; a partner may tell which one is meant."""
    ahead: bool | None = None
    """Whether the chosen one of a recurring period is yet to come; None if it was not chosen so."""
    other: Period | None = None
    """The other period that the words may mean: the May before or after this one."""

    def later(self, count: int) -> Period:
        """Return the period moved by `count` days."""
        return replace(self, start=self.start + count * _DAY, end=self.end + count * _DAY, other=None)


def to_utc(local: date, zone: tzinfo) -> datetime:
    """Return the moment, in aware UTC, at which the day `local` begins in `zone`.

    Of a midnight that comes twice it is the first. If the clocks skip midnight, it is the moment at which they do, so a
    day that is skipped begins when the next one does.

    Raises:
        OverflowError: if that moment lies outside the years 1 to 9999.
    """
    midnight = datetime.combine(local, time(), tzinfo=zone)
    moment = midnight.astimezone(timezone.utc)
    if moment.astimezone(zone).replace(tzinfo=None, fold=0) == midnight.replace(tzinfo=None):
        return moment
    # Read with the offset before the change a skipped time lies after it, with the one behind it before (PEP 495).
    before = midnight.replace(fold=1).astimezone(timezone.utc)
    seconds = range(int((moment - before).total_seconds()))
    return before + timedelta(
        seconds=bisect_left(
            seconds, local, key=lambda s: (before + timedelta(seconds=s)).astimezone(zone).date()
        )
    )


def iso_day(text: str | None) -> date | None:
    """Return the day that a model's text begins with, as "2024-02-05T10:00"; None if it begins with none."""
    try:
        return None if text is None else date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None


def days(start: date, count: int, precision: Precision = "day") -> Period:
    """Return `count` days from `start` on."""
    return Period(start, start + count * _DAY, precision)


def day(start: date) -> Period:
    """Return one day."""
    return Period(start, start + _DAY, "day")


def months_from(first_year: int, first_month: int, count: int, precision: Precision) -> Period:
    """Return `count` calendar months from a month on; month numbers outside 1-12 carry over.

    Example:
        >>> months_from(2023, 13, 1, "month").start
        datetime.date(2024, 1, 1)
    """
    first = first_year * 12 + first_month - 1
    last = first + count
    return Period(date(first // 12, first % 12 + 1, 1), date(last // 12, last % 12 + 1, 1), precision)


def month(of_year: int, number: int) -> Period:
    """Return a calendar month; month 0 is the December before."""
    return months_from(of_year, number, 1, "month")


def year(number: int) -> Period:
    """Return a calendar year."""
    return months_from(number, 1, 12, "year")


def decade(first_year: int) -> Period:
    """Return the ten years from `first_year` on."""
    return months_from(first_year, 1, 120, "decade")


def season(of_year: int, name: str) -> Period:
    """Return a northern season by the year in which it starts."""
    return months_from(of_year, SEASON_STARTS[name], 3, "season")


def easter(of_year: int) -> date:
    """Return the Easter Sunday of the western churches.

    Source: the anonymous Gregorian algorithm, J. Meeus, Astronomical Algorithms, 2nd ed. 1998, chapter 8.

    Example:
        >>> easter(2024)
        datetime.date(2024, 3, 31)
    """
    century, of_century = divmod(of_year, 100)
    golden = of_year % 19
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (of_century // 4) - moon - of_century % 4) % 7
    late = (golden + 11 * moon + 22 * weekday) // 451
    month_, day_ = divmod(moon + weekday - 7 * late + 114, 31)
    return date(of_year, month_, day_ + 1)


def unit_period(unit: str, inside: date, shift: int = 0) -> Period:
    """Return the calendar unit `shift` units after the one that contains `inside`.

    Args:
        unit: ``hour`` (its day), ``day``, ``week``, ``weekend``, ``month``, ``quarter``, ``season``,
            ``year``, ``decade`` or ``fortnight`` (its last week).
        inside: a day.
        shift: whole units, negative for the past. A shift of hours is the caller's business.

    Example:
        >>> unit_period("week", date(2023, 6, 16), -2).start
        datetime.date(2023, 5, 29)
    """
    if unit in ("hour", "day"):
        return day(inside + shift * _DAY)
    if unit in _DAYS_IN:
        inside += shift * _DAYS_IN[unit] * _DAY
        monday = inside - inside.weekday() * _DAY
        return days(monday + 5 * _DAY, 2) if unit == "weekend" else Period(monday, monday + 7 * _DAY, "week")
    if unit == "month":
        return month(inside.year, inside.month + shift)
    if unit == "quarter":
        return months_from(inside.year, (inside.month - 1) // 3 * 3 + 1 + 3 * shift, 3, "season")
    if unit == "season":
        return months_from(inside.year, inside.month // 3 * 3 + 3 * shift, 3, "season")
    if unit == "decade":
        return decade(inside.year // 10 * 10 + 10 * shift)
    return year(inside.year + shift)


def nth_weekday(base: Period, weekday: int, number: int) -> Period | None:
    """Return the first, second, ... such weekday of a period, -1 for the last; None if it has none.

    Example:
        >>> nth_weekday(month(2024, 11), 3, 4).start
        datetime.date(2024, 11, 28)
    """
    if number < 0:
        last = base.end - _DAY
        found = last - (last.weekday() - weekday) % 7 * _DAY
    else:
        found = base.start + ((weekday - base.start.weekday()) % 7 + 7 * (number - 1)) * _DAY
    return day(found) if base.start <= found < base.end else None


def stepped(inside: date, unit: str, count: int) -> date:
    """Return the day `count` units after a day, at most the last day of a shorter month.

    Example:
        >>> stepped(date(2024, 1, 31), "month", 1)
        datetime.date(2024, 2, 29)
    """
    months = _MONTHS_IN.get(unit)
    if months is None:
        return inside + _DAYS_IN.get(unit, 1) * count * _DAY
    found = month(inside.year, inside.month + count * months)
    return min(found.start + (inside.day - 1) * _DAY, found.end - _DAY)


def part(period: Period, which: str) -> Period:
    """Return the early, middle or late third, or the first or second half, of a period.

    Thirds of a season or more are whole months ("early 2022" is January to April); shorter periods are
    cut at days ("early June" is the 1st to the 10th, "late June" the 21st on).

    Args:
        period: the period to divide.
        which: ``early``, ``mid``, ``late``, ``half1`` or ``half2``.
    """
    pieces, low, high = _PARTS[which]
    if period.precision in ("season", "year", "decade"):
        first = period.start.year * 12 + period.start.month
        count = period.end.year * 12 + period.end.month - first
        begin, finish = count * low // pieces, count * high // pieces
        found = months_from(period.start.year, period.start.month + begin, finish - begin, period.precision)
    else:
        length = (period.end - period.start).days
        begin, finish = length * low // pieces, length * high // pieces
        if finish <= begin:  # a single day has no parts
            return period
        found = Period(period.start + begin * _DAY, period.start + finish * _DAY, period.precision)
    vague = pieces == 3
    return replace(
        found, relative=period.relative, approx=vague, open_year=period.open_year, doubt=period.doubt
    )


def latest(candidates: Iterable[Period], today: date, *, strict: bool) -> Period | None:
    """Return the last candidate that has begun by `today`; if `strict`, the last that is over."""
    fitting = [p for p in candidates if (p.end <= today if strict else p.start <= today)]
    return max(fitting, key=lambda p: p.start, default=None)


def soonest(candidates: Iterable[Period], today: date, *, strict: bool) -> Period | None:
    """Return the first candidate not over by `today`; if `strict`, the first that begins after it."""
    fitting = [p for p in candidates if (p.start > today if strict else p.end > today)]
    return min(fitting, key=lambda p: p.start, default=None)


Unit = Literal["day", "week", "week_of_month", "month", "year"]
"""``week`` is the ISO 8601 week, Monday to Sunday; ``week_of_month`` is its part that lies in one month."""

UNITS: tuple[Unit, ...] = get_args(Unit)

END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)
"""Where the last window ends: after every instant that can be stored, which are whole milliseconds."""


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """One window of a unit: ``[start, end)`` in aware UTC, and the `key` that names it."""

    unit: Unit
    key: str
    start: datetime
    end: datetime

    def contains(self, moment: datetime) -> bool:
        """Return whether an aware `moment` lies in the window; the end does not."""
        return self.start <= moment < self.end


def window_of(instant: datetime, unit: Unit, zone: tzinfo) -> CalendarWindow:
    """Return the window of a unit in which an instant lies.

    Example:
        >>> window_of(datetime(2024, 12, 30, tzinfo=timezone.utc), "week_of_month", timezone.utc).key
        '2024-12/2025-W01'

    Args:
        instant: aware; it is cut to the millisecond, as in the store.
        unit: one of `UNITS`.
        zone: whose calendar days are meant.

    Raises:
        TimestampError: if `instant` is naive, or outside the years 1 to 9999 in UTC.
        InputError: if there is no such unit.
    """
    moment = floor_ms(instant)
    try:
        local = moment.astimezone(zone)
    except OverflowError:  # a local day outside the years 1 to 9999
        return _window(unit, _first_day(unit, date.min if moment.year == 1 else date.max), zone)
    day = local.date()
    # Heard for the second time: the day after may have begun before the clocks were put back.
    if local.fold and day < date.max and to_utc(day + _DAY, zone) <= moment:
        day += _DAY
    return _window(unit, _first_day(unit, day), zone)


def _window(unit: Unit, first: date, zone: tzinfo) -> CalendarWindow:
    """Return the window that begins with a day; it is empty if the zone has skipped it."""
    after = _next_first_day(unit, first)
    start = EARLIEST if first == date.min else to_utc(first, zone)
    end = END_OF_TIME if after is None else to_utc(after, zone)
    return CalendarWindow(unit, _key(unit, first), start, end)


def _first_day(unit: Unit, day: date) -> date:
    """Return the first day of the window of a unit in which a day lies.

    Raises:
        InputError: if there is no such unit.
    """
    month = day.replace(day=1)
    monday = day - day.weekday() * _DAY  # 1 January of year 1 is a Monday
    first = {
        "day": day,
        "week": monday,
        "week_of_month": max(monday, month),
        "month": month,
        "year": month.replace(month=1),
    }.get(unit)
    if first is None:
        raise InputError(f"unknown calendar unit {shown(unit, 40)}; known: {', '.join(UNITS)}")
    return first


def _next_first_day(unit: Unit, first: date) -> date | None:
    """Return the first day of the window after one that begins on `first`; None beyond the year 9999."""
    if unit == "week_of_month":
        ends = (_next_first_day(larger, _first_day(larger, first)) for larger in ("week", "month"))
        return min((end for end in ends if end is not None), default=None)
    try:
        if unit in ("day", "week"):
            return first + (1 if unit == "day" else 7) * _DAY
        return _first_day(unit, first + (31 if unit == "month" else 366) * _DAY)
    except OverflowError:
        return None


def _key(unit: Unit, first: date) -> str:
    """Return the key of the window of a unit that begins with a day."""
    day = first.isoformat()
    of_year, week, _ = first.isocalendar()
    if unit == "week":
        return f"{of_year:04d}-W{week:02d}"
    return {"day": day, "month": day[:7], "year": day[:4]}.get(unit) or f"{day[:7]}/{of_year:04d}-W{week:02d}"
