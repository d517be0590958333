"""The drawings of the inspector as numbers, and texts as they may stand in a page."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.server.ui.visit import LEAST, MOST_TICKS, Axis, link, minute, plain, safe_text, short, span
from memforest.times import EARLIEST

UTC = timezone.utc
TIMES = st.datetimes(timezones=st.just(UTC))
EITHER = st.none() | TIMES


def at(year: int, month: int = 1, day: int = 1, hour: int = 0) -> datetime:
    """Return a time."""
    return datetime(year, month, day, hour, tzinfo=UTC)


@given(
    st.lists(st.tuples(EITHER, EITHER), min_size=1, max_size=6),
    st.sampled_from([UTC, ZoneInfo("Asia/Kolkata")]),
)
def test_every_bar_and_tick_is_on_the_axis(
    pairs: list[tuple[datetime | None, datetime | None]], zone: timezone | ZoneInfo
) -> None:
    """Whatever the times are: none of them, one instant, the whole calendar."""
    pairs = [(min(one), max(one)) if None not in one else one for one in pairs]  # type: ignore[type-var]
    axis = Axis.of(pairs, zone)
    if all(start in (None, EARLIEST) and end is None for start, end in pairs):
        assert axis is None
        return
    assert axis is not None
    for start, end in pairs:
        x, width = axis.bar(start, end)
        assert width >= LEAST
        assert 0 <= x <= x + width <= 100.01
    assert all(0 <= x <= 100 for x, _ in axis.ticks)
    assert [x for x, _ in axis.ticks] == sorted(x for x, _ in axis.ticks)
    assert len(axis.ticks) <= MOST_TICKS + 1
    assert all(text for _, text in axis.ticks)


def axis_of(*pairs: tuple[datetime | None, datetime | None]) -> Axis:
    """Return the axis of some spans, in UTC."""
    found = Axis.of(pairs, UTC)
    assert found is not None
    return found


def test_bars_stand_in_the_proportions_of_their_times() -> None:
    """Half of the time is half of the width; what begins where another ends stands where it ends."""
    halves = (at(2024), at(2024, 7, 2)), (at(2024, 7, 2), at(2025))
    axis = axis_of(*halves)
    (x, width), (next_x, next_width) = (axis.bar(*one) for one in halves)
    assert x == 0
    assert next_x == pytest.approx(width, abs=0.02)
    assert width == pytest.approx(next_width, rel=0.01)


def test_what_is_open_goes_on_to_the_edge() -> None:
    """On either side, with room for it; a start that is unknown is open, however it is written."""
    axis = axis_of((at(2023), at(2024)), (at(2024), None))
    assert sum(axis.bar(at(2024), None)) == pytest.approx(100, abs=0.02)
    assert sum(axis.bar(at(2023), at(2024))) < 95
    for unknown in (None, EARLIEST):
        axis = axis_of((unknown, at(2024)), (at(2023), at(2024)))
        assert axis.bar(unknown, at(2024))[0] == 0 < axis.bar(at(2023), at(2024))[0]


def test_one_value_alone_has_months_beside_it() -> None:
    """The times of one day would say nothing."""
    assert [text for _, text in axis_of((at(2024, 1, 20, 9), None)).ticks] == ["Feb 2024", "Mar 2024"]


def test_an_instant_is_seen() -> None:
    """At the right edge, too."""
    axis = axis_of((at(2023), at(2024)), (at(2024), at(2024)))
    assert axis.bar(at(2024), at(2024)) == (100 - LEAST, LEAST)


@each(
    ("length", "expected"),
    [
        (timedelta(minutes=3), "00:00"),
        (timedelta(hours=4), "00:00"),
        (timedelta(hours=28), "01 Jan, 00:00"),
        (timedelta(days=5), "01 Jan"),
        (timedelta(days=200), "Jan 2024"),
        (timedelta(days=365 * 20), "2025"),
    ],
)
def test_ticks_are_as_fine_as_the_time_is_short(length: timedelta, expected: str) -> None:
    """Hours, days, months, years."""
    axis = axis_of((at(2024), at(2024) + length))
    assert axis.ticks[0][1] == expected
    assert 2 <= len(axis.ticks) <= MOST_TICKS + 1


@each(
    ("start", "end", "words"),
    [
        (None, None, "no time known"),
        (at(2024), None, "from 1 January 2024"),
        (None, at(2024), "until 1 January 2024"),
        (EARLIEST, at(2024), "until 1 January 2024"),
        (at(2024), at(2024, 1, 2), "1 January 2024"),
        (at(2024), at(2025), "1 January 2024 to 31 December 2024"),
        (at(2024, 1, 1, 9), at(2024, 1, 1, 10), "1 January 2024, 09:00 to 09:59"),
        (at(2024, 1, 1, 9), at(2024, 1, 1, 9) + timedelta(milliseconds=1), "1 January 2024, 09:00"),
        (at(2024, 1, 1, 9), at(2024, 1, 1, 9), "1 January 2024, 09:00"),
        (at(2024, 1, 1, 9), at(2024, 1, 3, 9), "1 January 2024 to 3 January 2024"),
        (at(2024), at(2024, 1, 1, 10), "1 January 2024, 00:00 to 09:59"),
    ],
)
def test_a_span_is_told_as_a_person_would(start: datetime | None, end: datetime | None, words: str) -> None:
    """The end is not part of it; what is not known is not said."""
    assert span(start, end, UTC).striptags() == words


@given(EITHER, EITHER, st.sampled_from([UTC, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/Lima")]))
def test_every_span_has_words(
    start: datetime | None, end: datetime | None, zone: timezone | ZoneInfo
) -> None:
    """Whatever the times are."""
    assert span(start, end, zone).striptags()


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_no_text_leaves_its_place(text: str) -> None:
    """Whatever characters it has, also halves of pairs: it can be sent, and holds no tag but ours."""
    for made in (safe_text(text), short(text)):
        made.encode()
        inner = str(made).replace('<bdi dir="auto">', "").replace("</bdi>", "")
        assert "<" not in inner.replace('<span class="mark">', "").replace("</span>", "")
    plain(text).encode()
    link("/ui", "forest", user=text).encode("ascii")


def test_long_texts_are_cut_and_say_so() -> None:
    """In the page and in a table."""
    assert "… 90 more characters" in safe_text("x" * 100, 10)
    assert plain("x" * 100, 10) == "x" * 9 + "…"


def test_times_are_those_of_the_zone() -> None:
    """With their offset for machines; none is a dash, and midnight is the day."""
    berlin = ZoneInfo("Europe/Berlin")
    assert (
        minute(at(2024, 1, 1, 22), berlin)
        == '<time datetime="2024-01-01T23:00:00+01:00">1 January 2024, 23:00</time>'
    )
    assert ">2 January 2024<" in minute(at(2024, 1, 1, 23), berlin)
    assert minute(None, UTC) == "–"
    assert ">1 January 300<" in minute(at(300), UTC)
