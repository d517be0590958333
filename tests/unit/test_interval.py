"""Milliseconds and intervals are exact, half-open and full-range."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import TimestampError
from memforest.records import Precision
from memforest.times import (
    EARLIEST,
    LATEST,
    Interval,
    Style,
    floor_ms,
    format_interval,
    from_ms,
    hull,
    local_time,
    to_ms,
)

UTC = timezone.utc
MS = timedelta(milliseconds=1)
BERLIN = ZoneInfo("Europe/Berlin")


def utc(*parts: int) -> datetime:
    """Build an aware UTC datetime."""
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


moments = st.integers(to_ms(EARLIEST), to_ms(LATEST)).map(from_ms)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Draw an interval within a few hours, so that overlaps are common; some are open."""
    start = draw(st.integers(0, 12))
    length = draw(st.none() | st.integers(1, 6))
    first = utc(2023, 1, 1) + start * MS
    return Interval(first, None if length is None else first + length * MS)


@given(st.integers(to_ms(EARLIEST), to_ms(LATEST)))
def test_milliseconds_round_trip(milliseconds: int) -> None:
    """Every representable millisecond survives the way to a datetime and back."""
    assert to_ms(from_ms(milliseconds)) == milliseconds


@given(st.datetimes(timezones=st.just(UTC)))
def test_milliseconds_round_down(moment: datetime) -> None:
    """Microseconds are cut towards the past, before and after 1970 alike."""
    back = from_ms(to_ms(moment))
    assert timedelta(0) <= moment - back < MS


def test_a_time_in_another_zone_is_the_same_instant() -> None:
    """The offset counts, the second half of a repeated hour included."""
    assert to_ms(datetime(2023, 6, 16, 15, tzinfo=BERLIN)) == to_ms(utc(2023, 6, 16, 13))
    first = datetime(2023, 10, 29, 2, 30, tzinfo=BERLIN)
    assert to_ms(first.replace(fold=1)) - to_ms(first) == 3_600_000


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2023, 6, 16),  # noqa: DTZ001
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))),
    ],
)
def test_naive_and_out_of_range_times_are_refused(moment: datetime) -> None:
    """A time without a zone, or outside the years 1 to 9999 in UTC, has no millisecond."""
    with pytest.raises(TimestampError):
        to_ms(moment)


@each("value", [True, 1.0, "1", 10**18, -(10**18)])
def test_only_ints_in_range_are_milliseconds(value: int) -> None:
    """Bools, floats, strings and numbers out of range are refused by name."""
    with pytest.raises(TimestampError):
        from_ms(value)


def test_an_interval_is_half_open() -> None:
    """The start belongs to it, the end does not; touching intervals do not overlap."""
    first = Interval(utc(2023, 5, 1), utc(2023, 6, 1))
    assert first.contains(utc(2023, 5, 1))
    assert not first.contains(utc(2023, 6, 1))
    assert not first.overlaps(Interval(utc(2023, 6, 1)))
    assert first.hull(Interval(utc(2023, 6, 1))) == Interval(utc(2023, 5, 1))


def test_an_interval_normalises_its_zone_and_refuses_to_be_empty() -> None:
    """Bounds are kept in UTC; an end that is not after the start is an error."""
    assert Interval(datetime(2023, 5, 1, tzinfo=BERLIN)).start == utc(2023, 4, 30, 22)
    assert Interval(datetime(2023, 5, 1, tzinfo=BERLIN)).start.tzinfo is UTC
    with pytest.raises(TimestampError):
        Interval(utc(2023, 5, 1), utc(2023, 5, 1))
    with pytest.raises(TimestampError):
        Interval(datetime(2023, 5, 1))  # noqa: DTZ001


@given(moments)
def test_a_moment_is_an_interval_of_one_millisecond(moment: datetime) -> None:
    """`Interval.at` contains its moment and fits everywhere in the calendar."""
    point = Interval.at(moment)
    assert point.end is not None
    assert point.end - point.start == MS
    assert point.contains(moment) or moment == LATEST


@given(intervals(), intervals())
def test_the_algebra_agrees_with_membership(one: Interval, two: Interval) -> None:
    """Overlap, intersection, cover and hull say what membership of every millisecond says."""
    instants = [utc(2023, 1, 1) + n * MS for n in range(40)]
    ours = {t for t in instants if one.contains(t)}
    theirs = {t for t in instants if two.contains(t)}
    common = one.intersection(two)
    assert one.overlaps(two) == two.overlaps(one) == bool(ours & theirs) == (common is not None)
    assert common is None or {t for t in instants if common.contains(t)} == ours & theirs
    assert one.covers(two) == (theirs <= ours and (one.end is None or two.end is not None))
    both = one.hull(two)
    assert both.covers(one)
    assert both.covers(two)
    assert both == hull([one, two])
    assert both.start in (one.start, two.start)


def test_the_hull_of_nothing_is_none() -> None:
    """No intervals have no hull."""
    assert hull([]) is None


@each(
    ("start", "end", "precision", "english", "iso"),
    [
        (utc(2023, 5, 7), utc(2023, 5, 8), "day", "7 May 2023", "2023-05-07"),
        (utc(2023, 5, 20), utc(2023, 5, 22), "day", "20–21 May 2023", "2023-05-20/2023-05-21"),
        (utc(2023, 4, 30), utc(2023, 5, 2), "day", "30 April – 1 May 2023", "2023-04-30/2023-05-01"),
        (utc(2022, 12, 31), utc(2023, 1, 2), "day", "31 December 2022 – 1 January 2023", None),
        (utc(2023, 5, 1), utc(2023, 6, 1), "month", "May 2023", "2023-05"),
        (utc(2023, 3, 1), utc(2023, 6, 1), "month", "March 2023 – May 2023", "2023-03/2023-05"),
        (utc(2023, 5, 1), utc(2023, 5, 8), "week", "week of 1 May 2023", "2023-W18"),
        (utc(2022, 1, 1), utc(2023, 1, 1), "year", "2022", "2022"),
        (utc(2018, 1, 1), utc(2022, 1, 1), "year", "2018 – 2021", "2018/2021"),
        (utc(1990, 1, 1), utc(2000, 1, 1), "decade", "1990s", "1990s"),
        (utc(2022, 6, 1), utc(2022, 9, 1), "season", "summer 2022", "2022-06"),
        (utc(2022, 12, 1), utc(2023, 3, 1), "season", "winter 2022–23", "2022-12"),
        (utc(2023, 5, 8, 13, 56), None, "instant", "since 8 May 2023, 13:56", "2023-05-08T13:56/.."),
        (utc(2023, 5, 8, 13, 56), utc(2023, 5, 8, 13, 57), "instant", "8 May 2023, 13:56", None),
        (EARLIEST, utc(2023, 6, 1), "month", "before June 2023", "../2023-06"),
        (utc(2023, 5, 7), utc(2023, 6, 9), "unknown", "7 May – 8 June 2023", None),
    ],
)
def test_intervals_are_shown_as_exactly_as_they_are_known(
    start: datetime, end: datetime | None, precision: Precision, english: str, iso: str | None
) -> None:
    """The text follows the precision, not the length, in words or in ISO form."""
    interval = Interval(start, end)
    assert format_interval(interval, precision) == english
    if iso is not None:
        assert format_interval(interval, precision, style="iso") == iso


def test_days_are_shown_in_the_readers_zone() -> None:
    """A day of Berlin begins at 22:00 UTC the day before and is still that day."""
    day = Interval(datetime(2023, 5, 7, tzinfo=BERLIN), datetime(2023, 5, 8, tzinfo=BERLIN))
    assert format_interval(day, "day", zone=BERLIN) == "7 May 2023"


@given(
    intervals() | moments.filter(lambda m: m < LATEST).map(Interval),
    st.sampled_from(["instant", "day", "week", "month", "season", "year", "decade", "unknown"]),
    st.sampled_from(["en", "iso"]),
)
def test_every_interval_can_be_shown(interval: Interval, precision: Precision, style: Style) -> None:
    """No interval of the calendar is too early or too late to be written down."""
    assert format_interval(interval, precision, zone=BERLIN, style=style)


def test_milliseconds_are_counted_from_1970() -> None:
    """What is stored in files: the count of Unix, from the first to the last instant of the calendar."""
    assert to_ms(utc(1970, 1, 1)) == 0
    assert to_ms(utc(2023, 6, 16, 13)) == 1_686_920_400_000
    assert (to_ms(EARLIEST), to_ms(LATEST)) == (-62_135_596_800_000, 253_402_300_799_999)
    assert from_ms(0) == utc(1970, 1, 1)
    for bound, step in ((EARLIEST, -1), (LATEST, 1)):
        assert from_ms(to_ms(bound)) == bound
        with pytest.raises(TimestampError):
            from_ms(to_ms(bound) + step)
    assert to_ms(datetime.max.replace(tzinfo=UTC)) == to_ms(LATEST)


@given(st.datetimes(timezones=st.sampled_from([UTC, BERLIN]), min_value=datetime(2, 1, 1)))  # noqa: DTZ001
def test_a_floored_time_is_as_it_comes_back_from_a_file(moment: datetime) -> None:
    """In UTC, cut towards the past, and floored again the same."""
    found = floor_ms(moment)
    assert found == from_ms(to_ms(moment)) == floor_ms(found)
    assert found.tzinfo is UTC
    assert timedelta(0) <= moment - found < MS
    assert found.microsecond % 1000 == 0


@given(st.lists(intervals(), min_size=1, max_size=5))
def test_the_hull_of_several_is_as_small_as_can_be(several: list[Interval]) -> None:
    """It covers each, begins with the first and ends with the last; the order does not matter."""
    found = hull(several)
    assert found is not None
    assert all(found.covers(one) for one in several)
    assert found.start == min(one.start for one in several)
    ends = [one.end for one in several if one.end is not None]
    assert found.end == (max(ends) if len(ends) == len(several) else None)
    assert hull(several[::-1]) == found == hull(iter(several))


@given(intervals(), intervals(), intervals())
def test_intersections_come_in_any_order(one: Interval, two: Interval, three: Interval) -> None:
    """Of two the same either way, of three whichever come first; an interval has itself in common with itself."""
    assert one.intersection(two) == two.intersection(one)
    assert one.intersection(one) == one
    left, right = one.intersection(two), two.intersection(three)
    assert (left and left.intersection(three)) == (right and one.intersection(right))
    assert left is None or (one.covers(left) and two.covers(left))


@each(
    ("month", "english"),
    [
        (1, "winter 2022–23"), (2, "winter 2022–23"), (3, "spring 2023"), (5, "spring 2023"), (6, "summer 2023"),
        (8, "summer 2023"), (9, "autumn 2023"), (11, "autumn 2023"), (12, "winter 2023–24"),
    ],
)  # fmt: skip
def test_a_season_is_named_by_its_month(month: int, english: str) -> None:
    """A winter bears the two years that it lies in, also over a century."""
    start = utc(2023, month, 1)
    assert format_interval(Interval(start, start + timedelta(days=28)), "season") == english
    turn = Interval(utc(1999, 12, 1), utc(2000, 3, 1))
    assert format_interval(turn, "season") == "winter 1999–00"
    assert (
        format_interval(Interval(utc(2022, 12, 1), utc(2024, 3, 1)), "season")
        == "winter 2022–23 – winter 2023–24"
    )


@each(
    ("start", "end", "precision", "style", "text"),
    [
        (utc(2024, 12, 30), utc(2025, 1, 6), "week", "iso", "2025-W01"),
        (utc(2023, 5, 1), utc(2023, 5, 15), "week", "iso", "2023-W18/2023-W19"),
        (utc(2023, 5, 1), utc(2023, 5, 15), "week", "en", "week of 1 May 2023 – week of 8 May 2023"),
        (utc(2023, 5, 3), utc(2023, 5, 5), "week", "en", "week of 1 May 2023"),
        (utc(1985, 1, 1), utc(2000, 1, 1), "decade", "en", "1980s – 1990s"),
        (utc(33, 4, 3), utc(33, 4, 4), "day", "iso", "0033-04-03"),
        (utc(33, 4, 3), utc(33, 4, 4), "year", "iso", "0033"),
        (utc(33, 4, 3), utc(33, 4, 4), "day", "en", "3 April 33"),
        (utc(2023, 5, 7, 9, 5), utc(2023, 5, 7, 23), "instant", "iso", "2023-05-07T09:05"),
        (EARLIEST, None, "day", "en", "since 1 January 1"),
        (EARLIEST, utc(2023, 5, 7), "day", "iso", "../2023-05-07"),
        (utc(2023, 5, 7), utc(2023, 5, 8), "unknown", "en", "7 May 2023"),
        (utc(2023, 5, 7), utc(2023, 5, 7, 12), "day", "en", "7 May 2023"),
        (utc(2023, 5, 7, 12), utc(2023, 5, 8, 12), "day", "en", "7–8 May 2023"),
    ],
)
def test_more_intervals_as_they_are_shown(
    start: datetime, end: datetime | None, precision: Precision, style: Style, text: str
) -> None:
    """Weeks by their ISO year or their Monday, years in four digits or as they are said, an end that is not reached."""
    assert format_interval(Interval(start, end), precision, style=style) == text


def test_where_no_clock_can_show_a_time_it_is_shown_in_utc() -> None:
    """The first and the last hours of the calendar have no local date in zones that are behind or ahead."""
    behind, ahead = (timezone(timedelta(hours=hours)) for hours in (-5, 5))
    assert local_time(EARLIEST, behind) == EARLIEST
    assert local_time(EARLIEST, behind).tzinfo is UTC
    assert local_time(LATEST, ahead).tzinfo is UTC
    assert local_time(EARLIEST, ahead).hour == 5
    assert local_time(LATEST, behind).hour == 18
