"""A time is in memory what it is on disk: milliseconds, in whatever form it came."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.worlds import fast_folder

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.reading.timestamps import parse_timestamp
from memforest.times import from_ms, to_ms

UTC = timezone.utc
NUMBERS = count()
NAIVE = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@st.composite
def iso_texts(draw: st.DrawFn) -> str:
    """ISO 8601 with 0 to 9 digits of a second, and any offset or none."""
    second = draw(NAIVE).replace(microsecond=0).isoformat()
    fraction = draw(st.text("0123456789", max_size=9))
    offset = draw(
        st.just("") | st.just("Z") | OFFSETS.map(lambda zone: f"{datetime(2000, 1, 1, tzinfo=zone):%z}")
    )
    return second + (f".{fraction}" if fraction else "") + offset


@st.composite
def times(draw: st.DrawFn) -> Any:
    """Every kind of `TimeLike`, finer than a millisecond where the kind can be, before and after 1970."""
    moment = draw(NAIVE)
    written = f"{moment:%H:%M:%S} on {moment.day} {moment:%B}, {max(moment.year, 1000)}"
    return draw(
        st.sampled_from([moment, moment.date(), written.replace("29 February", "28 February")])
        | OFFSETS.map(lambda zone: moment.replace(tzinfo=zone))
        | iso_texts()
        | st.integers(10**8, 10**11 - 1)
        | st.integers(-6 * 10**10, -(10**8))
        | st.integers(10**11, 10**14 - 1)
        | st.floats(1e8, 1e11, exclude_max=True)
        | st.floats(-6e10, -1e8)
    )


@given(times())
def test_every_kind_of_time_is_what_would_be_stored(value: Any) -> None:
    """No time keeps a part that a database would cut off; dates and datetimes lose less than a millisecond."""
    said, _ = parse_timestamp(value, timezone=UTC, field="f")
    assert from_ms(to_ms(said)) == said
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        assert timedelta(0) <= aware - said < timedelta(milliseconds=1)
    elif isinstance(value, date):
        assert said.date() == value


@pytest.fixture(scope="module")
def memory_of_times() -> Iterator[MemForest]:
    """A forest that all examples share."""
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as made,
        MemForest(made, Config(embedder="none")) as forest,
    ):
        yield forest


@settings(max_examples=40)
@given(st.lists(times(), min_size=1, max_size=3))
def test_the_same_session_twice_changes_nothing(memory_of_times: MemForest, values: list[Any]) -> None:
    """In every form a time may have, as a turn's or the session's; a longer session is appended."""
    ordered = sorted(values, key=lambda value: parse_timestamp(value, timezone=UTC, field="f")[0])
    turns = [{"speaker": "Ann", "text": f"Tea {n}.", "timestamp": value} for n, value in enumerate(ordered)]
    untimed = [{"speaker": "Ann", "text": "Tea."}]
    forest, name = memory_of_times, f"session {next(NUMBERS)}"
    for session_id, sent, when in ((name, turns, None), (f"of {name}", untimed, ordered[0])):
        first = forest.ingest_session("ann", session_id, sent, timestamp=when, infer=False, refresh=False)
        again = forest.ingest_session("ann", session_id, sent, timestamp=when, infer=False, refresh=False)
        assert (first.turns_added, again.unchanged) == (len(sent), True)
    longer = [*turns, {"speaker": "Ann", "text": "More.", "timestamp": ordered[-1]}]
    assert forest.ingest_session("ann", name, longer, infer=False, refresh=False).turns_added == 1


def test_filters_see_the_time_that_was_stored(tmp_path: Path) -> None:
    """A turn is there `as_of` and `during` the very instant that it was said with, microseconds and all."""
    said = datetime(1969, 7, 20, 20, 17, 40, 123_987, tzinfo=UTC)
    turn = {"speaker": "Neil", "text": "I live in Houston.", "timestamp": said}
    clock = datetime(2024, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
    config = Config(embedder=HashEmbedder(), clock=lambda: clock)
    with MemForest(tmp_path / "forest", config) as forest:
        forest.ingest_session("n", "s", [turn])
        for options in ({"as_of": said}, {"during": (said, said + timedelta(milliseconds=1))}):
            [found, *_] = forest.query("n", "Where does Neil live?", **options).evidence
            assert found.said == from_ms(to_ms(said))
        assert forest.query("n", "Where?", as_of=said - timedelta(milliseconds=1)).evidence == ()
        assert forest.query("n", "Where?").reference_date == from_ms(to_ms(clock))
