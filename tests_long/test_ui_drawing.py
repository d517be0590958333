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

from memforest.server.ui.asking import HALF, score_bars, steps_of
from memforest.server.ui.visit import (
    CHAR,
    EDGE,
    LABELS,
    LEAST,
    WIDTH,
    AxisSpan,
    draw,
    link,
    minute,
    plain,
    safe_text,
    short,
)

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
def test_every_bar_and_tick_is_in_the_picture(
    pairs: list[tuple[datetime | None, datetime | None]], zone: timezone | ZoneInfo
) -> None:
    """Whatever the times are: none of them, one instant, the whole calendar."""
    drawn = draw([AxisSpan("x", *pair) for pair in pairs], zone)
    if all(one is None for pair in pairs for one in pair):
        assert drawn is None
        return
    assert drawn is not None
    assert len(drawn["bars"]) == len(pairs)
    for bar in drawn["bars"]:
        assert bar["width"] >= LEAST
        assert bar["x"] + bar["width"] <= WIDTH - EDGE + 0.2
        assert bar["y"] + 16 <= drawn["height"]
    assert all(LABELS <= x <= WIDTH - EDGE + 0.2 for x, _ in drawn["ticks"])
    assert len(drawn["ticks"]) <= 12


def test_bars_stand_in_the_proportions_of_their_times() -> None:
    """Half of the time is half of the width; what begins where another ends stands where it ends."""
    drawn = draw([AxisSpan("a", at(2024), at(2024, 7, 2)), AxisSpan("b", at(2024, 7, 2), at(2025))], UTC)
    assert drawn is not None
    first, second = drawn["bars"]
    assert first["x"] == LABELS
    assert second["x"] == pytest.approx(first["x"] + first["width"], abs=0.2)
    assert first["width"] == pytest.approx(second["width"], rel=0.01)


def test_what_is_open_goes_on_to_the_edge() -> None:
    """And says that it is open."""
    drawn = draw([AxisSpan("a", at(2023), at(2024)), AxisSpan("b", at(2024), None)], UTC)
    assert drawn is not None
    assert [one["open"] for one in drawn["bars"]] == [False, True]
    assert drawn["bars"][1]["x"] + drawn["bars"][1]["width"] == pytest.approx(WIDTH - EDGE, abs=0.2)
    assert drawn["bars"][0]["x"] + drawn["bars"][0]["width"] < WIDTH - EDGE


def test_pieces_of_one_row_share_a_line() -> None:
    """With one name in front."""
    drawn = draw(
        [AxisSpan("job", at(2023), at(2024), row="j"), AxisSpan("job", at(2024), at(2025), row="j")], UTC
    )
    assert drawn is not None
    assert [name for _, name in drawn["names"]] == ["job"]
    assert drawn["bars"][0]["y"] == drawn["bars"][1]["y"]


@each(
    ("span", "expected"),
    [
        (timedelta(hours=4), "00:00"),
        (timedelta(days=5), "01 Jan 2024"),
        (timedelta(days=200), "Jan 2024"),
        (timedelta(days=365 * 20), "2025"),
    ],
)
def test_ticks_are_as_fine_as_the_time_is_short(span: timedelta, expected: str) -> None:
    """Hours, days, months, years."""
    drawn = draw([AxisSpan("a", at(2024), at(2024) + span)], UTC)
    assert drawn is not None
    assert drawn["ticks"][0][1] == expected


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(-1e6, 1e6), max_size=4), st.booleans())
def test_parts_of_a_score_fit_their_drawing(parts: dict[str, float], lead: bool) -> None:
    """Those that lift stand to the right of the middle, those that lower to its left; the heaviest come first."""
    bars = score_bars({**parts, **({"lead": 1000.0} if lead else {})})
    assert [abs(one["value"]) for one in bars] == sorted((abs(one["value"]) for one in bars), reverse=True)
    for one in bars:
        assert 0 <= one["x"] <= HALF
        assert 0 <= one["width"] <= HALF
        assert (
            one["x"] == HALF if one["value"] >= 0 else one["x"] + one["width"] == pytest.approx(HALF, abs=0.1)
        )


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
    """With their offset for machines; none is a dash."""
    when = minute(at(2024, 1, 1, 23), ZoneInfo("Europe/Berlin"))
    assert when == '<time datetime="2024-01-02T00:00:00+01:00">2024-01-02 00:00</time>'
    assert minute(None, UTC) == "–"
    assert ">0300-01-01 00:00<" in minute(at(300), UTC)


def test_what_overlaps_stands_on_lines_of_its_own() -> None:
    """Two that hold at once hide each other nowhere; what follows stands beside, and the next row below them all."""
    drawn = draw(
        [
            AxisSpan("brother", at(2020), at(2024), row="b", said="Tom"),
            AxisSpan("brother", at(2021), at(2022), row="b", said="Sam"),
            AxisSpan("brother", at(2023), at(2024), row="b", said="Ben"),
            AxisSpan("home", at(2020), at(2024), row="h", said="Rome"),
        ],
        UTC,
    )
    assert drawn is not None
    tom, sam, ben, rome = sorted(drawn["bars"], key=lambda one: (one["text"] == "Rome", one["y"], one["x"]))
    assert [one["text"] for one in (tom, sam, ben, rome)] == ["Tom", "Sam", "Ben", "Rome"]
    assert tom["y"] < sam["y"] == ben["y"] < rome["y"]
    assert [name for _, name in drawn["names"]] == ["brother", "home"]
    assert drawn["height"] > rome["y"] + 16


@given(
    st.lists(st.tuples(EITHER, EITHER, st.text(min_size=1, max_size=30)), min_size=1, max_size=8),
)
def test_no_word_of_a_picture_runs_into_a_bar_or_out_of_it(
    told: list[tuple[datetime | None, datetime | None, str]],
) -> None:
    """Whatever stands beside it: words in a bar end in it, words behind it end before the next."""
    drawn = draw([AxisSpan("x", start, end, row="r", said=said) for start, end, said in told], UTC)
    if drawn is None:
        return
    for one in drawn["bars"]:
        ends = one["text_x"] + len(one["text"]) * CHAR
        if one["text"] and one["text_x"] < one["x"] + one["width"]:
            assert ends <= one["x"] + one["width"] + 0.2
        elif one["text"]:
            beside = [
                other["x"] for other in drawn["bars"] if other["y"] == one["y"] and other["x"] > one["x"]
            ]
            assert ends <= min(beside, default=WIDTH) + 0.2


def test_a_word_that_has_no_room_is_left_to_the_table() -> None:
    """A letter and dots say nothing; a short word that fits is told."""
    pieces = [
        AxisSpan("x", at(2000 + n), at(2001 + n), row="r", said="a long name of a place") for n in range(60)
    ]
    drawn = draw(pieces, UTC)
    assert drawn is not None
    assert {one["text"] for one in drawn["bars"][:-1]} == {""}
    short_one = draw(
        [AxisSpan("x", at(2020), at(2021), row="r", said="Ur"), AxisSpan("x", at(2000), at(2030))], UTC
    )
    assert short_one is not None
    assert short_one["bars"][0]["text"] == "Ur"


def test_the_name_of_a_row_fits_in_front_of_it() -> None:
    """Wide characters, too."""
    for name in ("W" * 60, "東京" * 20, "a" * 10):
        drawn = draw([AxisSpan(name, at(2020), at(2021))], UTC)
        assert drawn is not None
        [(_, shown)] = drawn["names"]
        chunks = sum(2 if char in "東京" else 1 for char in shown)
        assert chunks * CHAR <= LABELS
        assert (shown == name) == (len(name) == 10)


def test_what_began_nobody_knows_when_is_open_too() -> None:
    """It is drawn from the edge."""
    drawn = draw([AxisSpan("a", None, at(2024)), AxisSpan("b", at(2023), at(2024))], UTC)
    assert drawn is not None
    assert [one["open"] for one in drawn["bars"]] == [True, False]
    assert drawn["bars"][0]["x"] == LABELS < drawn["bars"][1]["x"]


def test_a_path_is_told_once_for_each_day() -> None:
    """Levels of one day are counted; spans and titles stay."""
    path = ["session a", "2024-01-02..2024-03-04", *["2024-01-02..2024-01-02"] * 3]
    assert steps_of(path) == ["session a", "2024-01-02..2024-03-04", "2024-01-02 (3 levels)"]
    assert steps_of([]) == []
