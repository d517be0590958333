"""Calendar windows: the day, ISO week, week within its month, month or year in which an instant lies, in a zone.

Windows of one unit tile time: each instant lies in exactly one, and a window ends where the next begins. A window is
half-open, ``[start, end)``, in aware UTC; its days begin where `memforest.calendar.period.to_utc` says. So when clocks
are put back over midnight, what is heard twice belongs to the later day, and a day that a zone has repeated is one
day of up to 48 hours. A day that a zone has skipped (Pacific/Apia, 30 December 2011) is no window.

Only instants of the years 1 to 9999 can be told. The first window of a unit begins at `EARLIEST` and the last one ends
at `END_OF_TIME`, whatever the zone's offset; the day before 1 January of year 1 and the one after 9999 are theirs.

A key is text that names a window of a unit in any zone: "2024-02-05", "2024-W06", "2024-02/2024-W06", "2024-02",
"2024". Keys of one unit sort as their windows do in time. A week within a month carries the year of its ISO week,
as 30 December 2024 lies in week 1 of 2025: "2024-12/2025-W01".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType
from typing import Literal, get_args

from memforest.calendar.period import to_utc
from memforest.display import shown
from memforest.errors import InputError
from memforest.interval import EARLIEST, Interval, floor_ms

Unit = Literal["day", "week", "week_of_month", "month", "year"]
"""``week`` is the ISO 8601 week, Monday to Sunday; ``week_of_month`` is its part that lies in one month."""

UNITS: tuple[Unit, ...] = get_args(Unit)

WITHIN: Mapping[Unit, tuple[Unit, ...]] = MappingProxyType(
    {
        "day": ("week_of_month", "week", "month", "year"),
        "week_of_month": ("week", "month", "year"),
        "week": (),
        "month": ("year",),
        "year": (),
    }
)
"""The units of which one window holds each whole window of a unit. An ISO week may lie in two months and two years."""

END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)
"""Where the last window ends: after every instant that can be stored, which are whole milliseconds."""

_DAY = timedelta(days=1)
_SHOWN = 40
_EXAMPLES: Mapping[Unit, str] = {
    "day": "2024-02-05",
    "week": "2024-W06",
    "week_of_month": "2024-02/2024-W06",
    "month": "2024-02",
    "year": "2024",
}


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """One window of a unit: ``[start, end)`` in aware UTC, and the `key` that names it."""

    unit: Unit
    key: str
    start: datetime
    end: datetime

    @property
    def interval(self) -> Interval:
        """The window as an interval."""
        return Interval(self.start, self.end)

    def contains(self, moment: datetime) -> bool:
        """Tell whether an aware `moment` lies in the window; the end does not."""
        return self.start <= moment < self.end


def window_of(instant: datetime, unit: Unit, zone: tzinfo) -> CalendarWindow:
    """Return the window of a unit in which an instant lies.

    Example:
        >>> window_of(datetime(2024, 12, 30, tzinfo=timezone.utc), "week_of_month", timezone.utc).key
        '2024-12/2025-W01'

    Args:
        instant: aware; what is finer than a millisecond is cut off, as where it is stored.
        unit: one of `UNITS`.
        zone: whose calendar days are meant.

    Raises:
        TimestampError: if `instant` is naive, or outside the years 1 to 9999 in UTC.
        InputError: if there is no such unit.
    """
    first = _first_day(_unit(unit), _local_day(floor_ms(instant), zone))
    return _window(unit, first, zone)


def window_with_key(key: str, unit: Unit, zone: tzinfo) -> CalendarWindow:
    """Return the window of a unit that a key names.

    Raises:
        InputError: if the key names no window of the unit, or one that the zone has skipped.
    """
    first = _day_of_key(key, _unit(unit))
    if first is None or _key(unit, first) != key:
        raise InputError(f"{shown(key, _SHOWN)} is no key of a {unit}; one is {_EXAMPLES[unit]!r}")
    found = _window(unit, first, zone)
    if found.start >= found.end:
        raise InputError(f"there was no {unit} {key} in {zone}: its clocks skipped it")
    return found


def windows_between(start: datetime, end: datetime, unit: Unit, zone: tzinfo) -> Iterator[CalendarWindow]:
    """Return the windows of a unit that overlap ``[start, end)``, in time order, each made when it is asked for.

    Raises:
        TimestampError: if a bound is naive, or outside the years 1 to 9999 in UTC.
        InputError: if `end` is before `start`, or there is no such unit.
    """
    low, high = floor_ms(start), floor_ms(end)
    if high < low:
        raise InputError(f"the end {end!r} is before the start {start!r}")
    first = _first_day(_unit(unit), _local_day(low, zone)) if low < high else None
    return _walk(unit, first, high, zone)


def window_around(window: CalendarWindow, unit: Unit, zone: tzinfo) -> CalendarWindow:
    """Return the larger window in which a window lies.

    Raises:
        InputError: if windows of its unit need not lie in one of `unit`; see `WITHIN`.
    """
    if unit not in WITHIN[window.unit]:
        larger = ", ".join(WITHIN[window.unit]) or "no other unit"
        raise InputError(f"a {window.unit} need not lie in one {unit}; it lies in one of: {larger}")
    return window_of(window.start, unit, zone)


def _unit(unit: Unit) -> Unit:
    if unit not in UNITS:
        raise InputError(f"there is no calendar unit {shown(unit, _SHOWN)}; known: {', '.join(UNITS)}")
    return unit


def _walk(unit: Unit, first: date | None, high: datetime, zone: tzinfo) -> Iterator[CalendarWindow]:
    start = EARLIEST if first is None else _start(first, zone)
    while first is not None and start < high:
        after = _next_first_day(unit, first)
        end = _start(after, zone)
        if start < end:  # else the zone has skipped it
            yield CalendarWindow(unit, _key(unit, first), start, end)
        first, start = after, end


def _window(unit: Unit, first: date, zone: tzinfo) -> CalendarWindow:
    after = _next_first_day(unit, first)
    return CalendarWindow(unit, _key(unit, first), _start(first, zone), _start(after, zone))


# --- days ------------------------------------------------------------------------------------------


def _local_day(moment: datetime, zone: tzinfo) -> date:
    """Return the day to which a moment belongs: the latest that has begun."""
    try:
        local = moment.astimezone(zone)
    except OverflowError:  # a local day outside the years 1 to 9999
        return date.min if moment.year == 1 else date.max
    day = local.date()
    # Heard for the second time: the day after may have begun before the clocks were put back.
    if local.fold and day < date.max and to_utc(day + _DAY, zone) <= moment:
        return day + _DAY
    return day


def _start(day: date | None, zone: tzinfo) -> datetime:
    """Return when a day begins; None is the day after the last."""
    if day is None:
        return END_OF_TIME
    return EARLIEST if day == date.min else to_utc(day, zone)


def _first_day(unit: Unit, day: date) -> date:
    if unit == "day":
        return day
    if unit == "year":
        return day.replace(month=1, day=1)
    month = day.replace(day=1)
    if unit == "month":
        return month
    monday = day - day.weekday() * _DAY  # 1 January of year 1 is a Monday
    return monday if unit == "week" else max(monday, month)


def _next_first_day(unit: Unit, first: date) -> date | None:
    """Return the first day of the next window, from that of one; None beyond the year 9999."""
    if unit == "week_of_month":
        ends = (_next_first_day(larger, _first_day(larger, first)) for larger in ("week", "month"))
        return min((end for end in ends if end is not None), default=None)
    try:
        if unit in ("day", "week"):
            return first + (1 if unit == "day" else 7) * _DAY
        return _first_day(unit, first + (31 if unit == "month" else 366) * _DAY)
    except OverflowError:
        return None


# --- keys ------------------------------------------------------------------------------------------


def _key(unit: Unit, first: date) -> str:
    if unit == "day":
        return first.isoformat()
    if unit == "week":
        year, week, _ = first.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if unit == "week_of_month":
        return f"{_key('month', first)}/{_key('week', first)}"
    return first.isoformat()[: 7 if unit == "month" else 4]


def _day_of_key(key: str, unit: Unit) -> date | None:
    """Return the first day of what a key may name; None when it names nothing. Any spelling is taken here."""
    try:
        if unit == "day":
            return date.fromisoformat(key)
        if unit == "week":
            year, week = key.split("-W")
            return date.fromisocalendar(int(year), int(week), 1)
        if unit == "week_of_month":
            month, week = key.split("/")
            days = (_day_of_key(month, "month"), _day_of_key(week, "week"))
            return max((day for day in days if day is not None), default=None)
        return date.fromisoformat(f"{key}-01" if unit == "month" else f"{key}-01-01")
    except ValueError:
        return None
