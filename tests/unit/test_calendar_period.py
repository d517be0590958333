"""Civil periods are whole calendar units: each against a walk over days, and parts and neighbours against each other."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.periods import (
    Period,
    day,
    days,
    decade,
    latest,
    month,
    months_from,
    part,
    season,
    soonest,
    to_utc,
    unit_period,
    year,
)

DAY = timedelta(days=1)
DATES = st.dates(date(500, 1, 1), date(9500, 1, 1))
UNITS = ("day", "week", "weekend", "month", "quarter", "season", "year", "decade")
TILING = tuple(unit for unit in UNITS if unit != "weekend")
LEAP = date(2024, 2, 29)


def place(unit: str, at: date) -> tuple[int, ...]:
    """Return the name of the unit in which a day lies, as a calendar on the wall has it."""
    december = at.year if at.month == 12 else at.year - 1
    return {
        "day": (at.toordinal(),),
        "week": at.isocalendar()[:2],
        "month": (at.year, at.month),
        "quarter": (at.year, (at.month + 2) // 3),
        "season": (december, 0) if at.month in (12, 1, 2) else (at.year, at.month // 3),
        "year": (at.year,),
        "decade": (at.year // 10,),
    }[unit]


@given(DATES, st.sampled_from(TILING))
def test_a_unit_holds_the_days_of_one_name(inside: date, unit: str) -> None:
    """It contains its day; its first and last day have the day's name, and the days beside it have others."""
    found = unit_period(unit, inside)
    assert found.start <= inside < found.end
    name = place(unit, inside)
    assert place(unit, found.start) == place(unit, found.end - DAY) == name
    assert name not in (place(unit, found.start - DAY), place(unit, found.end))


@given(DATES, st.sampled_from(UNITS), st.integers(-40, 40))
def test_shifts_go_from_unit_to_unit(inside: date, unit: str, shift: int) -> None:
    """So many units on is one unit on, so many times; units but weekends touch, and there and back is where it was."""
    found = unit_period(unit, inside, shift)
    after = unit_period(unit, inside, shift + 1)
    assert after == unit_period(unit, found.start, 1)
    assert unit_period(unit, found.start, -shift) == unit_period(unit, inside)
    gap = timedelta(days=5) if unit == "weekend" else timedelta()
    assert after.start - found.end == gap


@each(
    ("unit", "shift", "start", "end", "precision"),
    [
        ("hour", 0, "2024-02-29", "2024-03-01", "day"),
        ("day", -1, "2024-02-28", "2024-02-29", "day"),
        ("week", 0, "2024-02-26", "2024-03-04", "week"),
        ("weekend", 0, "2024-03-02", "2024-03-04", "day"),
        ("weekend", -1, "2024-02-24", "2024-02-26", "day"),
        ("month", 0, "2024-02-01", "2024-03-01", "month"),
        ("month", -2, "2023-12-01", "2024-01-01", "month"),
        ("month", 11, "2025-01-01", "2025-02-01", "month"),
        ("quarter", 0, "2024-01-01", "2024-04-01", "season"),
        ("quarter", -1, "2023-10-01", "2024-01-01", "season"),
        ("season", 0, "2023-12-01", "2024-03-01", "season"),
        ("season", 1, "2024-03-01", "2024-06-01", "season"),
        ("season", -1, "2023-09-01", "2023-12-01", "season"),
        ("year", 1, "2025-01-01", "2026-01-01", "year"),
        ("decade", 0, "2020-01-01", "2030-01-01", "decade"),
        ("decade", -3, "1990-01-01", "2000-01-01", "decade"),
    ],
)
def test_units_by_hand(unit: str, shift: int, start: str, end: str, precision: str) -> None:
    """Around 29 February 2024, a Thursday; the precision says how exactly such words are meant."""
    found = unit_period(unit, LEAP, shift)
    assert (found.start.isoformat(), found.end.isoformat(), found.precision) == (start, end, precision)
    assert found == Period(found.start, found.end, found.precision)


def test_a_day_of_the_weekend_is_in_its_weekend() -> None:
    """Monday to Sunday mean the two days at the end of their week."""
    monday = date(2024, 2, 26)
    for at in range(7):
        assert unit_period("weekend", monday + at * DAY) == days(date(2024, 3, 2), 2)
        assert unit_period("week", monday + at * DAY) == days(monday, 7, "week")
    assert unit_period("weekend", monday + 7 * DAY).start == date(2024, 3, 9)


@given(st.integers(300, 9000), st.integers(-30, 30), st.integers(1, 20))
def test_month_numbers_carry_over(of_year: int, number: int, count: int) -> None:
    """Month 0 is the December before, month 13 the January after; a run is as many months as were asked for."""
    found = months_from(of_year, number, count, "month")
    at = date(of_year, 1, 1)
    for _ in range(abs(number - 1)):
        at = (at - DAY).replace(day=1) if number < 1 else (at + 31 * DAY).replace(day=1)
    assert found.start == at
    assert [found.start.day, found.end.day] == [1, 1]
    months = {(found.start + step * DAY).replace(day=1) for step in range((found.end - found.start).days)}
    assert len(months) == count


def test_units_by_their_numbers() -> None:
    """A month, a season and a year by number or name are what a day in them gives; a winter is that of its December."""
    assert month(2024, 2) == unit_period("month", LEAP)
    assert month(2024, 0) == unit_period("month", date(2023, 12, 31))
    assert year(2024) == unit_period("year", LEAP)
    assert decade(1985) == Period(date(1985, 1, 1), date(1995, 1, 1), "decade")
    assert day(LEAP) == unit_period("day", LEAP)
    for name, inside in (("spring", (3, 1)), ("summer", (8, 31)), ("autumn", (9, 1)), ("winter", (12, 1))):
        assert season(2024, name) == unit_period("season", date(2024, *inside))
    assert season(2023, "winter") == unit_period("season", LEAP)


@given(DATES, st.sampled_from(TILING), st.sampled_from([("early", "mid", "late"), ("half1", "half2")]))
def test_parts_tile_what_they_divide(inside: date, unit: str, names: tuple[str, ...]) -> None:
    """Thirds and halves lie end to end, none is empty, none is much longer; a single day has no parts."""
    whole = unit_period(unit, inside)
    found = [part(whole, name) for name in names]
    if unit == "day":
        assert {(one.start, one.end) for one in found} == {(whole.start, whole.end)}
        return
    assert (found[0].start, found[-1].end) == (whole.start, whole.end)
    assert all(one.end == other.start for one, other in pairwise(found))
    lengths = [(one.end - one.start).days for one in found]
    assert min(lengths) > 0
    whole_months = whole.precision in ("season", "year", "decade")
    assert max(lengths) - min(lengths) <= (34 if whole_months else 1)
    assert all(one.start.day == 1 for one in found) or not whole_months
    assert {one.precision for one in found} == {whole.precision}


@each(
    ("whole", "which", "start", "end"),
    [
        (year(2022), "early", "2022-01-01", "2022-05-01"),
        (year(2022), "mid", "2022-05-01", "2022-09-01"),
        (year(2022), "late", "2022-09-01", "2023-01-01"),
        (year(2022), "half2", "2022-07-01", "2023-01-01"),
        (season(2023, "winter"), "early", "2023-12-01", "2024-01-01"),
        (season(2023, "winter"), "late", "2024-02-01", "2024-03-01"),
        (decade(1990), "early", "1990-01-01", "1993-05-01"),
        (decade(1990), "half1", "1990-01-01", "1995-01-01"),
        (month(2022, 6), "early", "2022-06-01", "2022-06-11"),
        (month(2022, 6), "late", "2022-06-21", "2022-07-01"),
        (month(2024, 2), "half1", "2024-02-01", "2024-02-15"),
        (unit_period("week", LEAP), "half1", "2024-02-26", "2024-02-29"),
        (unit_period("weekend", LEAP), "late", "2024-03-03", "2024-03-04"),
    ],
)
def test_parts_by_hand(whole: Period, which: str, start: str, end: str) -> None:
    """As the words are commonly meant: whole months of a season or more, days of what is shorter."""
    found = part(whole, which)
    assert (found.start.isoformat(), found.end.isoformat()) == (start, end)


def test_a_third_is_vague_and_a_half_is_not() -> None:
    """What was known of the whole is known of the part: that it was found from today, that no year was named."""
    for whole in (year(2022), month(2022, 6)):
        marked = replace(whole, relative=True, open_year=True)
        for which in ("early", "mid", "late", "half1", "half2"):
            found = part(marked, which)
            assert (found.relative, found.open_year) == (True, True)
            assert found.approx == (which in ("early", "mid", "late"))
            assert part(whole, which) == replace(found, relative=False, open_year=False)


@given(st.permutations(range(2015, 2030)), st.dates(date(2014, 1, 1), date(2031, 1, 1)), st.booleans())
def test_the_last_and_the_next_of_a_day(numbers: list[int], today: date, strict: bool) -> None:
    """Among summers of several years, in any order: the last that has begun or is over, the next that ends or begins."""
    summers = [season(number, "summer") for number in numbers]
    before, after = latest(summers, today, strict=strict), soonest(summers, today, strict=strict)
    past = [one for one in summers if today >= (one.end if strict else one.start)]
    ahead = [one for one in summers if today < (one.start if strict else one.end)]
    assert before == (max(past, key=lambda one: one.start) if past else None)
    assert after == (min(ahead, key=lambda one: one.start) if ahead else None)
    during = [one for one in summers if one.start <= today < one.end]
    if during:
        assert ([before] == during) is ([after] == during) is (not strict)


def test_the_first_and_the_last_day_decide() -> None:
    """A period has begun on its first day, and is over on the day behind its last one."""
    june = month(2024, 6)
    for today, begun, over in (
        (date(2024, 5, 31), False, False),
        (date(2024, 6, 1), True, False),
        (date(2024, 6, 30), True, False),
        (date(2024, 7, 1), True, True),
    ):
        assert (latest([june], today, strict=False) == june) is begun
        assert (latest([june], today, strict=True) == june) is over
        assert (soonest([june], today, strict=False) == june) is not over
        assert (soonest([june], today, strict=True) == june) is not begun
    assert latest([], LEAP, strict=False) is soonest([], LEAP, strict=True) is None


@given(DATES, st.integers(-14 * 60, 14 * 60))
def test_a_day_begins_at_its_midnight(local: date, minutes: int) -> None:
    """In a zone of any offset: the date is on the clock then, and was not a moment before."""
    zone = timezone(timedelta(minutes=minutes))
    begins = to_utc(local, zone)
    assert begins.tzinfo is timezone.utc
    assert begins.astimezone(zone) == datetime(local.year, local.month, local.day, tzinfo=zone)
    assert (begins - timedelta(microseconds=1)).astimezone(zone).date() == local - DAY


def test_a_day_that_begins_outside_of_all_years_is_refused() -> None:
    """Where clocks are ahead the first day of the calendar begins in no year; the last day always begins in one."""
    ahead, behind = (timezone(timedelta(hours=hours)) for hours in (14, -14))
    with pytest.raises(OverflowError):
        to_utc(date.min, ahead)
    assert to_utc(date.min, behind) == datetime(1, 1, 1, 14, tzinfo=timezone.utc)
    assert to_utc(date.max, behind) == datetime(9999, 12, 31, 14, tzinfo=timezone.utc)
