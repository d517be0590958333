"""A turn's time is read from many forms, and never guessed."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import ConfigError, TimestampError
from memforest.reading.timestamps import parse_timestamp, zone_named

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")


def read(value: object, zone: tzinfo = NEW_YORK) -> tuple[str, bool]:
    """Parse and return the ISO form, which is easier to compare by eye."""
    moment, naive = parse_timestamp(value, timezone=zone, field="turns[3].timestamp")
    assert moment.tzinfo is UTC
    assert type(moment) is datetime
    return moment.isoformat().removesuffix("+00:00"), naive


@each(
    ("value", "expected"),
    [
        ("2023-06-16T13:00:00Z", "2023-06-16T13:00:00"),
        ("2023-06-16T13:00:00.123456Z", "2023-06-16T13:00:00.123000"),
        ("2023-06-16T13:00:00.1234567+05:30", "2023-06-16T07:30:00.123000"),
        ("20230616T130000Z", "2023-06-16T13:00:00"),
        ("2023-06-16 13:00:00-0400", "2023-06-16T17:00:00"),
        ("2023-06-16 13:00:00 -0400 (EDT)", "2023-06-16T17:00:00"),
        ("2023-05-20 2:21 UTC", "2023-05-20T02:21:00"),
        ("2023-05-20 2:21 UTC+3", "2023-05-19T23:21:00"),
        ("Fri, 16 Jun 2023 13:00:00 +0200", "2023-06-16T11:00:00"),
        ("Fri, 16 Jun 2023 13:00:00 EST", "2023-06-16T18:00:00"),
        ("Fri, 16 Jun 2023 13:00:00 GMT", "2023-06-16T13:00:00"),
        (1686920000, "2023-06-16T12:53:20"),
        (1686920000.5, "2023-06-16T12:53:20.500000"),
        (1686920000123, "2023-06-16T12:53:20.123000"),
        (-1000000000, "1938-04-24T22:13:20"),
        ("1686920000", "2023-06-16T12:53:20"),
        ("1686920000123", "2023-06-16T12:53:20.123000"),
        (datetime(2023, 6, 16, 13, tzinfo=NEW_YORK), "2023-06-16T17:00:00"),
        (datetime(1066, 10, 14, tzinfo=UTC), "1066-10-14T00:00:00"),
    ],
)
def test_times_with_an_offset(value: object, expected: str) -> None:
    """What carries its own zone is converted to UTC and not flagged."""
    assert read(value) == (expected, False)


@each(
    ("value", "expected"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T17:56:00"),
        ("2023/05/20 (Sat) 02:21", "2023-05-20T06:21:00"),
        ("2023年5月20日 02:21", "2023-05-20T06:21:00"),
        ("2023-05-20", "2023-05-20T04:00:00"),
        ("20230520", "2023-05-20T04:00:00"),
        ("2023-05-20T24:00", "2023-05-21T04:00:00"),
        ("Jun 16, 2023, 1:00:00 PM", "2023-06-16T17:00:00"),
        ("Tue May  8 13:56:00 2018", "2018-05-08T17:56:00"),
        ("01/02/2023", "2023-01-02T05:00:00"),
        ("13/02/2023", "2023-02-13T05:00:00"),
        ("01.02.2023 10:00", "2023-02-01T15:00:00"),
        ("5/8/68", "2068-05-08T04:00:00"),
        ("5/8/69", "1969-05-08T04:00:00"),
        (date(2023, 5, 1), "2023-05-01T04:00:00"),
        (datetime(2023, 1, 1, 12), "2023-01-01T17:00:00"),  # noqa: DTZ001
        (datetime(2023, 3, 12, 2, 30), "2023-03-12T07:30:00"),  # noqa: DTZ001 - skipped by the clocks
        (datetime(2023, 11, 5, 1, 30), "2023-11-05T05:30:00"),  # noqa: DTZ001 - occurs twice
        (datetime(2023, 11, 5, 1, 30, fold=1), "2023-11-05T06:30:00"),  # noqa: DTZ001
    ],
)
def test_times_without_an_offset(value: object, expected: str) -> None:
    """What has none is read in the given zone and flagged."""
    assert read(value) == (expected, True)


@each(
    "value",
    [
        *(
            "10:30",
            "Friday",
            "Friday 10:30",
            "8 May",
            "May 2023",
            "2023",
            "2023-05",
            "2023-W20",
            "May 8 10:30",
        ),
        *("2023-13-05", "2023-02-30", "31/02/2023", "2023/13/05"),
        *("", "   ", "today", "yesterday", "None", "nan", "soon", "x" * 1000),
        *("2023-05-20T10:00:00+25:00", "Fri, 16 Jun 2023 13:00:00 CET"),
        *(True, False, None, b"2023-05-20", [], {}, object(), timedelta(1)),
        *(float("nan"), float("inf"), -float("inf"), 1e30, 10**400, 0, 0.0, 1, 2023, 20230520),
        datetime.max,  # noqa: DTZ901
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_what_is_not_a_full_time_is_an_error(value: object) -> None:
    """Nothing is filled in from the clock or from 1970; the message names field and remedy."""
    with pytest.raises(TimestampError) as caught:
        read(value)
    assert len(str(caught.value)) < 400


def test_the_message_shows_the_value() -> None:
    """A reader can find the offending input."""
    with pytest.raises(TimestampError):
        read("May 2023")


def test_not_a_time_of_pandas_is_refused() -> None:
    """A datetime that is unequal to itself, as pandas' NaT is, is not a time."""

    class NotATime(datetime):
        def __eq__(self, other: object) -> bool:
            return False

        def __ne__(self, other: object) -> bool:
            return True

        __hash__ = datetime.__hash__

    with pytest.raises(TimestampError):
        read(NotATime(2023, 1, 1))


@given(st.text(max_size=40) | st.text("0123456789-/:., TZapm+MayFri年月", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes it raise anything but `TimestampError`."""
    try:
        moment, _ = parse_timestamp(text, timezone=UTC, field="f")
    except TimestampError:
        return
    assert moment.tzinfo is UTC


@given(st.datetimes(timezones=st.just(UTC)))
def test_iso_round_trip(moment: datetime) -> None:
    """Every UTC time is read back from its ISO form, to the millisecond."""
    kept = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert parse_timestamp(moment.isoformat(), timezone=NEW_YORK, field="f") == (kept, False)


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9998, 1, 1)))  # noqa: DTZ001
def test_written_dates_round_trip(moment: datetime) -> None:
    """A date with its month in words is read as written."""
    text = f"{moment:%H:%M:%S} on {moment.day} {moment:%B}, {moment.year}"
    expected = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_timestamp(text, timezone=UTC, field="f") == (expected, True)


def test_zones_by_name() -> None:
    """IANA names give a zone; anything else is a setting that is wrong."""
    assert zone_named("UTC") is UTC
    assert zone_named("America/New_York").utcoffset(datetime(2023, 6, 1)) == timedelta(hours=-4)  # noqa: DTZ001
    for name in ("Mars/Olympus", "", "../etc/passwd", "a" * 500, "Europe"):
        with pytest.raises(ConfigError):
            zone_named(name)
