"""Calendar windows tile time, in every zone and in every year that a datetime can tell.

The properties run on a few zones here, and on 300 zones with 10,000 instants each in `make test-long`.
"""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import groupby, pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from tests.table import each

from memforest.errors import InputError, TimestampError
from memforest.reading.periods import (
    END_OF_TIME,
    UNITS,
    CalendarWindow,
    Unit,
    to_utc,
    window_of,
)
from memforest.times import EARLIEST, LATEST, from_ms, to_ms

UTC = timezone.utc
LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
ZONES, INSTANTS = (300, 10_000) if LONG else (24, 300)
NEIGHBOURS = 10 if LONG else 3
"""Of how many instants one has the windows beside its own looked at."""
DAY, MS = timedelta(days=1), timedelta(milliseconds=1)
LARGER: dict[Unit, tuple[Unit, ...]] = {
    "day": ("week_of_month", "week", "month", "year"),
    "week_of_month": ("week", "month", "year"),
    "week": (),
    "month": ("year",),
    "year": (),
}
"""The units of which one window holds each whole window of a unit; an ISO week may lie in two months."""
ODD = (
    "Pacific/Apia",  # skipped 30 December 2011, repeated 4 July 1892
    "Pacific/Kwajalein",  # repeated most of a day in 1969, skipped one in 1993
    "Pacific/Kiritimati",
    "Asia/Manila",  # skipped 31 December 1844
    "America/Juneau",  # went back by a day within a day, 1867
    "America/Toronto",  # 1919: from 23:30 to 00:30
    "America/St_Johns",  # until 2011 the clocks changed at one minute past midnight
    "America/Sao_Paulo",  # summer time began at midnight
    "America/Havana",  # ends at 01:00, so midnight comes twice
    "Africa/Monrovia",  # -0:44:30 until 1972
    "Asia/Tehran",
    "Europe/Amsterdam",
    "UTC",
)  # fmt: skip


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """The odd zones, and others by lot."""
    others = sorted(
        name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith("Etc/")
    )
    return (*ODD, *Random(8).sample(sorted(set(others) - set(ODD)), ZONES - len(ODD)))


def changes(zone: tzinfo, step: timedelta = timedelta(days=5)) -> Iterator[datetime]:
    """Yield the hours before which the offset of a zone changes, from 1840 to 2040, but for those that undo each other."""
    at, end = datetime(1840, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    offset = at.astimezone(zone).utcoffset()
    while at < end:
        following = at + step
        then = following.astimezone(zone).utcoffset()
        if then != offset:
            low, high = at, following
            while high - low > timedelta(hours=1):
                middle = low + (high - low) / 2
                low, high = (middle, high) if middle.astimezone(zone).utcoffset() == offset else (low, middle)
            yield high
        at, offset = following, then


def instants(zone: tzinfo, count: int, seed: str) -> list[datetime]:
    """Return instants in order: over all of time, this century and the last, and about changes of the clock."""
    random = Random(seed)
    near = list(changes(zone)) or [datetime(2000, 1, 1, tzinfo=UTC)]
    lots = (
        lambda: random.randint(to_ms(EARLIEST), to_ms(LATEST)),
        lambda: random.randint(to_ms(datetime(1880, 1, 1, tzinfo=UTC)), to_ms(datetime(2040, 1, 1, tzinfo=UTC))),
        lambda: to_ms(random.choice(near)) + random.randint(-40 * 3_600_000, 40 * 3_600_000),
    )  # fmt: skip
    made = [EARLIEST, LATEST, *(from_ms(lots[n % 3]()) for n in range(count - 2))]
    return sorted(made)


def latest_day(moment: datetime, zone: tzinfo) -> set[date]:
    """Return the days that a moment may belong to: that on the clock, and the next while an hour is heard again."""
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        return {date.min if moment.year == 1 else date.max}
    day = local.date()
    return {day, day + DAY} if local.fold and day < date.max else {day}


@pytest.mark.soak
@pytest.mark.parametrize("name", zone_names())
def test_windows_tile_time(name: str) -> None:
    """Of each unit: an instant lies in its window, neighbours touch, keys lead back and sort as time, windows nest."""
    zone = ZoneInfo(name)
    last: dict[Unit, CalendarWindow] = {}
    for number, moment in enumerate(instants(zone, INSTANTS, name)):
        found = {unit: window_of(moment, unit, zone) for unit in UNITS}
        assert date.fromisoformat(found["day"].key) in latest_day(moment, zone)
        for unit, window in found.items():
            assert window.start <= moment < window.end
            before = last.get(unit, window)
            assert (before == window) if before.key == window.key else (before.end <= window.start)
            assert before.key <= window.key
            if window is before or window != before:
                assert window_of(window.start, unit, zone) == window
            last[unit] = window
            for larger in LARGER[unit]:
                assert found[larger].start <= window.start < window.end <= found[larger].end
        if number % NEIGHBOURS == 0:
            assert_neighbours(found, zone)


def assert_neighbours(found: dict[Unit, CalendarWindow], zone: tzinfo) -> None:
    """Each window ends where the next begins, and is found again from its first and its last instant."""
    for unit, window in found.items():
        assert window_of(window.start, unit, zone) == window
        if window.end < END_OF_TIME:
            after = window_of(window.end, unit, zone)
            assert after.start == window.end
            assert after.key > window.key
            assert window_of(window.end - timedelta(milliseconds=1), unit, zone) == window


@each("name", ODD)
def test_a_day_is_the_latest_that_has_begun(name: str) -> None:
    """Minute by minute about each change of the clock, against the dates that a clock has shown till then."""
    zone = ZoneInfo(name)
    every = list(changes(zone, timedelta(days=1)))
    for change in every if LONG else [*every[:3], *Random(name).sample(every, min(4, len(every)))]:
        begin = change - timedelta(days=2)
        at, shown = begin.replace(second=0, microsecond=0), date.min
        while at < change + timedelta(days=2):
            shown = max(shown, at.astimezone(zone).date())
            if at > begin + DAY:
                assert window_of(at, "day", zone).key == shown.isoformat()
            at += timedelta(minutes=1 if LONG else 17)


def windows_from(start: datetime, end: datetime, unit: Unit, zone: tzinfo) -> list[CalendarWindow]:
    """Return the windows from the one at `start` on, each found from where the last one ends, up to `end`."""
    found = [window_of(start, unit, zone)]
    while found[-1].end < end:
        found.append(window_of(found[-1].end, unit, zone))
    return found


def test_a_skipped_day_is_no_window() -> None:
    """30 December 2011 in Apia: the windows on both sides meet."""
    zone = ZoneInfo("Pacific/Apia")
    start, end = datetime(2011, 11, 20, 12, tzinfo=UTC), datetime(2012, 2, 3, tzinfo=UTC)
    for unit in UNITS:
        found = windows_from(start, end, unit, zone)
        assert all(a.end == b.start and a.key < b.key for a, b in pairwise(found))
    days = [one.key for one in windows_from(start, end, "day", zone)]
    assert days[-36:-33] == ["2011-12-29", "2011-12-31", "2012-01-01"]


@each(
    ("unit", "day", "key", "start", "end"),
    [
        ("day", "2024-03-31", "2024-03-31", "2024-03-30T23:00", "2024-03-31T22:00"),  # 23 hours in Madrid
        ("week", "2024-12-31", "2025-W01", "2024-12-29T23:00", "2025-01-05T23:00"),
        ("week", "2021-01-01", "2020-W53", "2020-12-27T23:00", "2021-01-03T23:00"),
        ("week_of_month", "2024-12-31", "2024-12/2025-W01", "2024-12-29T23:00", "2024-12-31T23:00"),
        ("week_of_month", "2025-01-01", "2025-01/2025-W01", "2024-12-31T23:00", "2025-01-05T23:00"),
        ("week_of_month", "2021-01-03", "2021-01/2020-W53", "2020-12-31T23:00", "2021-01-03T23:00"),
        ("month", "2024-02-29", "2024-02", "2024-01-31T23:00", "2024-02-29T23:00"),
        ("year", "2024-02-29", "2024", "2023-12-31T23:00", "2024-12-31T23:00"),
    ],
)  # fmt: skip
def test_a_window_by_its_name(unit: Unit, day: str, key: str, start: str, end: str) -> None:
    """Bounds are local midnights, and the key says unit and place as ISO 8601 does."""
    madrid = ZoneInfo("Europe/Madrid")
    window = window_of(datetime.fromisoformat(f"{day}T12:00+01:00"), unit, madrid)
    assert window.key == key
    assert (f"{window.start:%Y-%m-%dT%H:%M}", f"{window.end:%Y-%m-%dT%H:%M}") == (start, end)
    assert window.contains(window.start)
    assert not window.contains(window.end)


@each("hours", [-12, -5, 0, 9, 14])
@each("unit", UNITS)
def test_the_first_and_the_last_window_take_what_is_left(unit: Unit, hours: int) -> None:
    """At both ends of the years 1 to 9999 every instant that can be stored lies in a window that has a key."""
    zone = timezone(timedelta(hours=hours))
    first, last = window_of(EARLIEST, unit, zone), window_of(LATEST, unit, zone)
    assert (first.start, last.end) == (EARLIEST, END_OF_TIME)
    for window in (first, last, window_of(first.end, unit, zone)):
        assert window_of(window.start, unit, zone) == window
    assert first.key.startswith("0001")
    assert last.key.startswith("9999")
    assert window_of(datetime.max.replace(tzinfo=UTC), unit, zone) == last
    tail = windows_from(last.start - timedelta(days=800), LATEST, unit, zone)
    assert tail[-1] == last
    assert all(a.end == b.start for a, b in pairwise(tail))


def test_what_no_window_can_be_of_is_refused() -> None:
    """A naive time, an unknown unit."""
    with pytest.raises(TimestampError):
        window_of(datetime(2024, 1, 1), "day", UTC)  # noqa: DTZ001
    with pytest.raises(InputError):
        window_of(EARLIEST, "fortnight", UTC)  # type: ignore[arg-type]


def test_a_day_begins_within_the_hour_that_clocks_skip() -> None:
    """In Toronto 31 March 1919 began at 00:30, in São Paulo 4 November 2018 at 01:00; a midnight heard twice is the first."""
    for name, day, begins in (
        ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30:00+00:00"),
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00:00+00:00"),
        ("America/Havana", date(2023, 11, 5), "2023-11-05T04:00:00+00:00"),
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00:00+00:00"),
        ("Africa/Monrovia", date(1900, 1, 1), "1900-01-01T00:43:08+00:00"),
    ):
        assert to_utc(day, ZoneInfo(name)).isoformat() == begins


NAMES: dict[Unit, Callable[[date], str]] = {
    "day": lambda day: f"{day:%Y-%m-%d}",
    "week": lambda day: f"{day:%G-W%V}",
    "week_of_month": lambda day: f"{day:%Y-%m}/{day:%G-W%V}",
    "month": lambda day: f"{day:%Y-%m}",
    "year": lambda day: f"{day:%Y}",
}
"""The name of the window of a day, as the C library writes it."""


@each("unit", UNITS)
@each("hours", [-11, 0, 5.75])
def test_windows_are_runs_of_days_of_one_name(unit: Unit, hours: float) -> None:
    """Five years day by day, one of them of 53 ISO weeks: each run of a name is a window, and there are no others."""
    zone = timezone(timedelta(hours=hours))
    days = [date(2019, 12, 1) + at * DAY for at in range(5 * 366)]
    runs = [list(group) for _, group in groupby(days, key=NAMES[unit])][1:-1]
    start, end = (datetime(at.year, at.month, at.day, tzinfo=zone) for at in (runs[0][0], runs[-1][-1] + DAY))
    found = windows_from(start, end, unit, zone)
    assert [one.key for one in found] == [NAMES[unit](run[0]) for run in runs]
    for one, run in zip(found, runs, strict=True):
        assert one.start.astimezone(zone).date() == run[0]
        assert one.end - one.start == len(run) * DAY
        assert (one.unit, one.start.tzinfo, one.end.tzinfo) == (unit, UTC, UTC)
    assert sorted(one.key for one in found) == [one.key for one in found]


@each("unit", UNITS)
def test_the_zone_decides_and_not_that_of_the_instant(unit: Unit) -> None:
    """The same instant, told in any zone, lies in the same window; in another zone that is another one."""
    instant = datetime(2023, 12, 31, 23, 30, tzinfo=UTC)
    told = [instant.astimezone(timezone(timedelta(hours=hours))) for hours in (-12, 0, 14)]
    assert len({window_of(one, unit, UTC) for one in told}) == 1
    assert window_of(instant, unit, timezone(timedelta(hours=1))).key != window_of(instant, unit, UTC).key
    assert window_of(instant, unit, UTC).contains(instant.astimezone(timezone(timedelta(hours=1))))
