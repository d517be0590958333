"""Timelines: properties of any set of observations, and how a memory's timelines come and go with its sessions."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.stored import observed
from tests_long.worlds import fast_config, fast_folder

from memforest import MemForest
from memforest.read.stored import TimelineEntry
from memforest.search.timeline import same_value, timeline
from memforest.store.reads import StateSeen

VALUES = st.sampled_from(["Davis", "Miami", "Oslo", "Lisbon, Portugal", "Lisbon"])
OBSERVATIONS = st.lists(
    st.builds(
        observed,
        at_ms=st.integers(0, 20),
        tie=st.text("ab", max_size=2),
        fact=st.integers(1, 30),
        value=VALUES,
        previous=st.none() | VALUES,
        change=st.sampled_from(["is", "start", "end"]),
    ),
    max_size=12,
    unique_by=lambda o: o.fact,
)


@given(OBSERVATIONS)
def test_segments_are_in_order_and_one_at_a_time(seen: list[StateSeen]) -> None:
    """Segments end in order, those whose start is known do not overlap, and only the last may be open."""
    segments = timeline(seen)
    for one, other in pairwise(segments):
        assert one.end_ms is not None
        assert other.end_ms is None or one.end_ms <= other.end_ms
        assert other.start_ms is None or one.end_ms <= other.start_ms
    assert all(s.start_ms is None or s.end_ms is None or s.start_ms <= s.end_ms for s in segments)


@given(OBSERVATIONS, st.integers(-1, 21))
def test_one_value_holds_at_an_instant(seen: list[StateSeen], at_ms: int) -> None:
    """At no instant do two segments with a known start hold."""
    assert sum(s.holds_at(at_ms) for s in timeline(seen) if s.start_ms is not None) <= 1


@given(OBSERVATIONS)
def test_neighbours_differ_unless_there_is_a_gap(seen: list[StateSeen]) -> None:
    """The same value twice in a row is one segment, unless it was said to have ended in between."""
    ends = {o.at_ms for o in seen if o.change == "end"}
    for one, other in pairwise(timeline(seen)):
        assert not same_value(one.value, other.value) or one.end_ms in ends or other.start_ms is None


@given(OBSERVATIONS)
def test_every_segment_is_supported_and_every_change_is_somewhere(seen: list[StateSeen]) -> None:
    """Each segment names facts that were given, once each; each start that was observed is in some segment."""
    segments = timeline(seen)
    known = {o.fact for o in seen}
    assert all(s.facts and set(s.facts) <= known and len(set(s.facts)) == len(s.facts) for s in segments)
    told = {fact for s in segments for fact in s.facts}
    assert {o.fact for o in seen if o.change != "end"} <= told


@given(st.data(), OBSERVATIONS)
def test_the_order_of_observations_does_not_matter(data: st.DataObject, seen: list[StateSeen]) -> None:
    """A timeline is a function of what was observed, not of when the memory learnt it."""
    assert timeline(data.draw(st.permutations(seen))) == timeline(seen)


@given(OBSERVATIONS)
def test_an_observation_repeated_later_changes_no_interval(seen: list[StateSeen]) -> None:
    """Saying again what holds adds support and nothing else."""
    segments = timeline(seen)
    if not segments or segments[-1].end_ms is not None:
        return
    again = timeline([*seen, observed(99, "z", 99, segments[-1].value)])
    assert [(s.value, s.start_ms, s.end_ms) for s in again] == [
        (s.value, s.start_ms, s.end_ms) for s in segments
    ]
    assert again[-1].facts == (*segments[-1].facts, 99)


@pytest.fixture
def forest() -> Iterator[MemForest]:
    """An empty forest, in memory where there is a place for it."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder, MemForest(folder, fast_config()) as made:
        yield made


def said(text: str, day: int, speaker: str = "Ana") -> list[dict[str, Any]]:
    """Return a session of one turn in May 2023."""
    return [{"speaker": speaker, "content": text, "timestamp": f"2023-05-{day:02}T10:00:00Z"}]


def residences(forest: MemForest) -> list[tuple[str | None, Any, Any]]:
    """Return the values of where Ana lives, with their intervals."""
    entries: Sequence[TimelineEntry] = forest.user("u").timeline("Ana", attribute="residence")
    return [(entry.value, entry.start, entry.end) for entry in entries]


def test_a_new_value_ends_the_old_one_and_says_so(forest: MemForest) -> None:
    """The ingest reports what it superseded; the old fact is still there, with its end."""
    forest.ingest_session("u", "s1", said("I live in Oslo.", 1))
    result = forest.ingest_session("u", "s2", said("I live in Rome.", 9))
    assert result.superseded == ('Ana: "I live in Oslo."',)
    (oslo, rome) = residences(forest)
    assert (oslo[0], oslo[2], rome[0], rome[2]) == ("Oslo", rome[1], "Rome", None)
    assert {fact.statement for fact in forest.user("u").list().facts} == {
        'Ana: "I live in Oslo."',
        'Ana: "I live in Rome."',
    }


def test_a_late_report_of_an_old_value_supersedes_nothing(forest: MemForest) -> None:
    """A session from before, ingested after, takes its place in time."""
    forest.ingest_session("u", "s2", said("I live in Rome.", 9))
    assert forest.ingest_session("u", "s1", said("I live in Oslo.", 1)).superseded == ()
    assert [value for value, _, _ in residences(forest)] == ["Oslo", "Rome"]


@pytest.mark.parametrize("days", [(1, 9, 20), (20, 9, 1), (9, 20, 1)])
def test_timelines_do_not_depend_on_the_order_of_sessions(forest: MemForest, days: tuple[int, ...]) -> None:
    """Three residences, told in any order, are one timeline."""
    city = {1: "Oslo", 9: "Rome", 20: "Kyoto"}
    for day in days:
        forest.ingest_session("u", f"s{day}", said(f"I live in {city[day]}.", day))
    found = residences(forest)
    assert [value for value, _, _ in found] == ["Oslo", "Rome", "Kyoto"]
    assert [end for _, _, end in found] == [found[1][1], found[2][1], None]


def test_taking_an_observation_back_restores_the_timeline(forest: MemForest) -> None:
    """When the session that ended a value is replaced, the value holds again."""
    forest.ingest_session("u", "s1", said("I live in Oslo.", 1))
    before = residences(forest)
    forest.ingest_session("u", "s2", said("I moved to Rome.", 9))
    assert len(residences(forest)) == 2
    forest.ingest_session("u", "s2", said("It rains a lot here.", 9), replace=True)
    assert residences(forest) == before


def test_saying_it_again_from_another_mouth_adds_a_source(forest: MemForest) -> None:
    """The state has two sources and one interval."""
    forest.ingest_session("u", "s1", said("Carla lives in Oslo.", 1))
    forest.ingest_session("u", "s2", said("Carla lives in Oslo.", 9, "Bob"))
    (entry,) = forest.user("u").timeline("Carla", attribute="residence")
    assert [source.session_id for source in entry.sources] == ["s1", "s2"]
    assert entry.end is None
