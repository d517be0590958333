"""Three times tell the truth: what was so, what had been said, what this memory held - and the three together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import fact, holding, opened, statements, texts

from memforest import MemForest, UserMemory
from memforest.errors import InputError, TimestampError
from memforest.testing import FrozenClock

TALK = (
    # said, stored, what
    ("2024-01-10", "2024-03-01", "I live in Ghent."),
    ("2024-02-10", "2024-02-11", "I work at Kestrel Books."),
    ("2024-03-10", "2024-05-01", "I moved to Lille."),
    ("2024-04-10", "2024-04-11", "I moved to Bruges."),
    ("2024-05-10", "2024-05-11", "I work at Harbour Press now."),
    ("2024-02-20", "2024-05-20", "My dentist is Dr. Okafor."),
)
"""Some of it reached the memory long after it was said, so the three times differ."""

STATES = {
    "I live in Ghent.": ("2024-01-10", "2024-03-10"),
    "I moved to Lille.": ("2024-03-10", "2024-04-10"),
    "I moved to Bruges.": ("2024-04-10", None),
    "I work at Kestrel Books.": ("2024-02-10", "2024-05-10"),
    "I work at Harbour Press now.": ("2024-05-10", None),
    "My dentist is Dr. Okafor.": ("2024-02-20", None),
}
"""From when until when each is so, as all of it tells."""

MOMENTS = ("2024-01-01", "2024-02-15", "2024-03-15", "2024-04-20", "2024-05-15", "2024-06-01")
QUESTIONS = ("Where does Anna live?", "Where does Anna work?", "Who is Anna's dentist?")


def fill(forest: MemForest, clock: FrozenClock, said_by: str = "9999", known_at: str = "9999") -> UserMemory:
    """Make a memory of what had been said and received by then, received when it was."""
    clock.set("2023-12-01T00:00:00+00:00")
    forest.register_user("u", display_name="Anna")
    for when, stored, text in sorted(TALK, key=lambda one: one[1]):
        if when <= said_by and stored <= known_at:
            clock.set(f"{stored}T00:00:00+00:00")
            forest.user("u").add(
                {"speaker": "Anna", "content": text, "timestamp": when}, session_id=f"s{when}"
            )
    clock.set("2024-06-01T12:00:00+00:00")
    return forest.user("u")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserMemory]:
    """The memory that has all of it; tests only read."""
    clock = FrozenClock("2023-12-01T00:00:00+00:00")
    with opened(tmp_path_factory.mktemp("times") / "m", clock) as forest:
        yield fill(forest, clock)


def day(text: str | None) -> datetime | None:
    """Return the beginning of a day in UTC."""
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def told(memory: UserMemory, **when: Any) -> dict[str, Any]:
    """Return what a memory tells at a moment, as far as a memory of less tells it in the same words."""
    return {
        "list": [(one.text, one.start, one.end) for one in memory.list(**when)],
        "lines": [(one.attribute, one.value, one.start, one.end) for one in memory.timeline("Anna", **when)]
        if memory.list(**when)
        else [],
        "search": {
            question: [
                (one.text, one.start, one.end) for one in memory.search(question, index="flat", **when)
            ]
            for question in QUESTIONS
        },
        "answers": {question: memory.ask(question, **when).answer for question in QUESTIONS},
    }


@pytest.mark.parametrize(
    ("said_by", "known_at"),
    [*zip(MOMENTS, MOMENTS[::-1], strict=True), ("2024-03-15", "2024-05-15"), ("2024-05-15", "2024-04-20")],
)
def test_a_moment_is_told_as_the_memory_of_it_would(
    memory: UserMemory, folder: Path, said_by: str, known_at: str
) -> None:
    """With `said_by` and `known_at` a memory tells what one would into which no more had been put."""
    clock = FrozenClock("2023-12-01T00:00:00+00:00")
    with opened(folder, clock) as forest:
        less = fill(forest, clock, said_by, known_at)
        assert told(memory, said_by=said_by, known_at=known_at) == told(less)


def test_all_moments_together_are_told_right(memory: UserMemory) -> None:
    """For every said, stored and valid time of a grid, `list` has just what was said, stored and so by then."""
    for said_by, known_at, as_of in product(MOMENTS, repeat=3):
        known = [text for when, stored, text in TALK if when <= said_by and stored <= known_at]
        expected = []
        for text in known:
            start, end = STATES[text]
            later = [
                STATES[one][0]
                for one in known
                if STATES[one][0] > start and _attribute(one) == _attribute(text)
            ]
            end = min(later) if later else None
            if start <= as_of and (end is None or as_of < end):
                expected.append(text)
        got = texts(memory.list(said_by=said_by, known_at=known_at, as_of=as_of))
        assert sorted(got) == sorted(expected), (said_by, known_at, as_of)


def _attribute(text: str) -> str:
    return "home" if "live" in text or "moved" in text else text.split()[1]


def test_as_of_is_half_open(memory: UserMemory) -> None:
    """A value is so from its first instant, and no longer at its end."""
    for text, (start, end) in STATES.items():
        first, last = day(start), day(end)
        assert first is not None
        assert text in statements(memory, as_of=first)
        assert text not in statements(memory, as_of=first - timedelta(milliseconds=1))
        if last is not None:
            assert text in statements(memory, as_of=last - timedelta(milliseconds=1))
            assert text not in statements(memory, as_of=last)


def test_windows_are_half_open(memory: UserMemory) -> None:
    """`during` keeps what overlaps [start, end): what ends at its start or starts at its end does not."""
    for text, (start, end) in STATES.items():
        first, last = day(start), day(end)
        assert first is not None
        assert text not in statements(memory, during=(first - timedelta(days=1), first))
        assert text in statements(
            memory, during=(first - timedelta(days=1), first + timedelta(milliseconds=1))
        )
        if last is not None:
            assert text in statements(
                memory, during=(last - timedelta(milliseconds=1), last + timedelta(days=1))
            )
            assert text not in statements(memory, during=(last, last + timedelta(days=1)))


def test_said_by_and_known_at_include_their_instant(memory: UserMemory) -> None:
    """What was said, or stored, at that very time counts."""
    for when, stored, text in TALK:
        assert text in statements(memory, said_by=when)
        assert text not in statements(memory, said_by=day(when) - timedelta(milliseconds=1))  # type: ignore[operator]
        assert text in statements(memory, known_at=stored)
        assert text not in statements(memory, known_at=day(stored) - timedelta(milliseconds=1))  # type: ignore[operator]


def test_diff_agrees_with_what_was_so(memory: UserMemory) -> None:
    """For all pairs of times, and as it had been said by some time: the values that differ, and no others."""

    def so(at: str, **when: Any) -> dict[str, str]:
        found = {}
        for line in memory.timeline("Anna", kind="state", **when):
            if line.start <= day(at) and (line.end is None or day(at) < line.end):  # type: ignore[operator]
                found[str(line.attribute)] = str(line.value)
        return found

    for when in ({}, {"said_by": "2024-03-15"}, {"known_at": "2024-04-20"}):
        for a, b in product(MOMENTS, repeat=2):
            before, after = so(a, **when), so(b, **when)
            expected = {
                (name, before.get(name), after.get(name))
                for name in before.keys() | after.keys()
                if before.get(name) != after.get(name)
            }
            assert {(one.attribute, one.before, one.after) for one in memory.diff(a, b, **when)} == expected


def test_a_moment_before_everything_is_empty(memory: UserMemory) -> None:
    """Nothing had been said, nothing was held."""
    for when in ({"said_by": "2020-01-01"}, {"known_at": "2020-01-01"}):
        assert not memory.list(**when)  # type: ignore[arg-type]
        assert not memory.search("Where does Anna live?", **when)  # type: ignore[arg-type]
        assert memory.ask("Where does Anna live?", **when).abstained  # type: ignore[arg-type]


def test_times_of_all_kinds_are_the_same_time(memory: UserMemory) -> None:
    """Text, datetime, date and Unix time, in any zone."""
    same: tuple[Any, ...] = (
        "2024-03-10", "2024-03-10T00:00:00Z", "2024-03-10T05:30:00+05:30", date(2024, 3, 10), day("2024-03-10"),
        datetime(2024, 3, 9, 19, tzinfo=timezone(timedelta(hours=-5))), 1710028800,
    )  # fmt: skip
    expected = statements(memory, as_of="2024-03-10")
    assert [one for one in same if statements(memory, as_of=one) != expected] == []
    with pytest.raises(TimestampError):
        memory.list(as_of="some day")
    with pytest.raises(InputError):
        memory.list(during=("2024-03-10", "2024-03-10"))


def test_naive_times_are_those_of_the_configured_zone(folder: Path) -> None:
    """In talk, and in the arguments of every question; aware ones are what they say."""
    with opened(folder, timezone="Asia/Tokyo") as forest:
        memory = forest.user("u")
        memory.add(
            {"speaker": "Anna", "content": "I live in Ghent.", "timestamp": "2024-05-02T01:00:00"},
            session_id="s",
        )
        assert fact(memory, "Ghent").said == datetime(2024, 5, 1, 16, tzinfo=timezone.utc)
        assert holding(memory.list(as_of="2024-05-02T01:00:00"), "Ghent")
        assert not holding(memory.list(as_of="2024-05-02T00:59:00"), "Ghent")
        assert not holding(memory.list(said_by="2024-05-02T00:59:00"), "Ghent")
        assert holding(memory.list(said_by="2024-05-01T16:00:00Z"), "Ghent")
        assert not holding(memory.list(as_of="2024-05-01T15:59:00Z"), "Ghent")


def test_yesterday_is_a_day_of_the_zone(folder: Path) -> None:
    """Late in the evening in Los Angeles it is the next day in UTC, and yesterday is that of Los Angeles."""
    with opened(folder, timezone="America/Los_Angeles") as forest:
        memory = forest.user("u")
        turn = {
            "speaker": "Anna",
            "content": "I bought a canoe yesterday.",
            "timestamp": "2024-05-03T04:30:00Z",
        }
        memory.add(turn, session_id="s")
        [when] = fact(memory, "canoe").dates
        assert when.start == datetime(2024, 5, 1, 7, tzinfo=timezone.utc)
        assert "1 May 2024" in memory.search("canoe").context()


def test_times_are_kept_to_the_millisecond(folder: Path) -> None:
    """What is given more exactly is cut towards the past, so that a turn that comes again is the same."""
    exact = datetime(2024, 5, 1, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    with opened(folder) as forest:
        memory = forest.user("u")
        turn = {"speaker": "Anna", "content": "I own a kiln.", "timestamp": exact}
        forest.ingest_session("u", "s", [turn])
        assert memory.turns("s")[0].said == exact.replace(microsecond=999_000)
        assert forest.ingest_session("u", "s", [turn]).unchanged


def test_every_time_that_comes_out_is_aware_and_utc(memory: UserMemory) -> None:
    """Whatever zone it came in."""
    times = [one.said for one in memory.list()] + [one.start for one in memory.list()]
    times += [one.start for one in memory.sessions()] + [
        one.at for one in memory.changes("2020-01-01", limit=1000)
    ]
    times += [one.said for one in memory.search("Where does Anna live?")]
    assert {one.utcoffset() for one in times} == {timedelta(0)}


@pytest.mark.parametrize(
    ("words", "same"),
    [("last March", "2024-03-31T23:59:59.999Z"), ("two months ago", "2024-04-30T23:59:59.999Z"), ("today", "2024-06-01T12:00:00Z")],
)  # fmt: skip
def test_times_are_read_in_a_person_s_words(memory: UserMemory, words: str, same: str) -> None:
    """Of an instant they are the last moment of the days named, by the clock, or now; of a stretch of time the first."""
    for name in ("as_of", "said_by", "known_at"):
        found: list[Any] = [memory.search("Where does Anna live?", **{name: one}) for one in (same, words)]  # type: ignore[arg-type]
        assert texts(found[0]) == texts(found[1])
    assert memory.diff(words).b == memory.diff(same).b == datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
    assert memory.diff("last March").a == datetime(2024, 3, 1, tzinfo=timezone.utc)
    with pytest.raises(TimestampError, match="as_of"):
        memory.search("Where does Anna live?", as_of=f"{words} or so")
    with pytest.raises(TimestampError, match="timestamp"):
        memory.add("I live in Ghent.", timestamp=words)
