"""How a timeline is read: stories by hand, and values that only follow each other against a walk over instants."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each
from tests_long.stored import observed, superseded

from memforest.search.timeline import (
    Segment,
    same_value,
    time_order,
    timeline,
)
from memforest.store.reads import StateSeen

Told = tuple[int, str]
"""An instant, and what is said then: "Rome", "Rome<Oslo" (Rome, Oslo before it), "-Rome" (it has ended)."""


def observations(told: list[Told]) -> list[StateSeen]:
    """Return the observations of a story; each is of the fact of its place, from 1."""
    found = []
    for fact, (at_ms, said) in enumerate(told, 1):
        value, _, previous = said.removeprefix("-").partition("<")
        change = "end" if said.startswith("-") else "is"
        found.append(observed(at_ms, "", fact, value, previous or None, change))
    return found


def written(segments: list[Segment]) -> str:
    """Return segments as text, such as "Rome 1..5 [1 2], Oslo 5.. [2]"."""
    return ", ".join(
        f"{one.value} {'' if one.start_ms is None else one.start_ms}..{'' if one.end_ms is None else one.end_ms}"
        f" [{' '.join(map(str, one.facts))}]"
        for one in segments
    )


STORIES: list[tuple[list[Told], str]] = [
    ([], ""),
    ([(5, "Rome")], "Rome 5.. [1]"),
    ([(1, "Rome"), (5, "Oslo")], "Rome 1..5 [1], Oslo 5.. [2]"),
    ([(1, "Rome"), (5, "Rome"), (9, "rome")], "Rome 1.. [1 2 3]"),
    ([(1, "Rome"), (5, "Oslo"), (9, "Rome")], "Rome 1..5 [1], Oslo 5..9 [2], Rome 9.. [3]"),
    # a wider or narrower name of the same place changes nothing, and the first one stands
    ([(1, "Lisbon"), (5, "Lisbon, Portugal"), (9, "Portugal")], "Lisbon 1..9 [1 2], Portugal 9.. [3]"),
    # what was before is told together with what is
    ([(5, "Rome<Oslo")], "Oslo ..5 [1], Rome 5.. [1]"),
    ([(1, "Oslo"), (5, "Rome<Oslo")], "Oslo 1..5 [1], Rome 5.. [2]"),
    ([(1, "Vigo"), (5, "Rome<Oslo")], "Vigo 1..5 [1], Oslo ..5 [2], Rome 5.. [2]"),
    ([(1, "Rome"), (5, "Rome<Oslo")], "Rome 1.. [1 2]"),
    ([(5, "Rome<rome")], "Rome 5.. [1]"),
    ([(1, "Oslo"), (3, "-Oslo"), (5, "Rome<Oslo")], "Oslo 1..3 [1 2], Rome 5.. [3]"),
    # endings: of what holds, of what held before, of what nobody has told
    ([(1, "Rome"), (5, "-Rome")], "Rome 1..5 [1 2]"),
    ([(1, "Rome"), (5, "-Rome"), (9, "-Rome")], "Rome 1..5 [1 2]"),
    ([(1, "Rome"), (5, "-Rome"), (9, "Rome")], "Rome 1..5 [1 2], Rome 9.. [3]"),
    ([(1, "Rome"), (5, "-Rome"), (9, "Oslo")], "Rome 1..5 [1 2], Oslo 9.. [3]"),
    ([(1, "Rome"), (5, "Oslo"), (9, "-Rome")], "Rome 1..5 [1 3], Oslo 5.. [2]"),
    ([(1, "Rome"), (2, "Oslo"), (3, "Rome"), (4, "Vigo"), (9, "-Rome")],
     "Rome 1..2 [1], Oslo 2..3 [2], Rome 3..4 [3 5], Vigo 4.. [4]"),
    ([(1, "Rome"), (3, "Oslo"), (5, "Vigo"), (9, "-Rome")], "Rome 1..3 [1 4], Oslo 3..5 [2], Vigo 5.. [3]"),
    ([(5, "-Rome")], "Rome ..5 [1]"),
    ([(1, "Rome"), (3, "Oslo"), (5, "-Vigo")], "Rome 1..3 [1], Oslo 3..5 [2], Vigo ..5 [3]"),
    ([(1, "Oslo"), (5, "-Rome")], "Oslo 1..5 [1], Rome ..5 [2]"),
    ([(1, "Oslo"), (3, "-Oslo"), (5, "-Rome"), (9, "Vigo")], "Oslo 1..3 [1 2], Rome ..5 [3], Vigo 9.. [4]"),
]  # fmt: skip


@each(("told", "expected"), STORIES)
def test_a_story(told: list[Told], expected: str) -> None:
    """Intervals are half-open, an unknown beginning is open to the past, and supporting facts stand oldest first."""
    assert written(timeline(observations(told))) == expected


SUPERSEDED: list[tuple[list[Told], int, set[int]]] = [
    ([(1, "Rome"), (5, "Oslo")], 2, {1}),
    ([(1, "Rome"), (2, "rome"), (5, "Oslo")], 3, {1, 2}),
    ([(1, "Rome"), (5, "Rome")], 2, set()),
    ([(1, "Rome"), (5, "-Rome")], 2, set()),
    ([(1, "Rome"), (5, "-Oslo")], 2, {1}),
    ([(1, "Rome"), (3, "Oslo"), (5, "Vigo")], 3, {2}),
    ([(5, "Oslo"), (1, "Rome")], 2, set()),  # said late: nothing stood before it
    ([(1, "Rome"), (3, "-Rome"), (5, "Oslo")], 3, {1, 2}),
    ([(1, "Rome<Oslo"), (5, "Oslo")], 2, {1}),
]


@each(("told", "new", "expected"), SUPERSEDED)
def test_what_a_new_observation_superseded(told: list[Told], new: int, expected: set[int]) -> None:
    """The facts of the segment whose place it took, wherever in time it stands; never itself."""
    seen = observations(told)
    assert superseded(seen, [seen[new - 1]]) == expected
    assert superseded(seen, []) == set()


def test_a_fact_does_not_supersede_itself() -> None:
    """One that says two values of one instant, as "Rome, then Oslo" does, leaves itself out."""
    seen = [observed(1, "", 1, "Rome"), observed(1, "", 1, "Oslo", row=1)]
    assert superseded(seen, seen) == set()
    assert written(timeline(seen)) == "Rome 1..1 [1], Oslo 1.. [1]"


CITIES = ("Rome", "Oslo", "Vigo")
MOVES = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(CITIES)), max_size=12)


@given(MOVES, st.integers(-1, 13))
def test_without_endings_the_last_value_told_holds(moves: list[Told], at_ms: int) -> None:
    """At every instant: what was observed last until then; before the first observation, nothing."""
    seen = observations(moves)
    until = [one for one in sorted(seen, key=time_order) if one.at_ms <= at_ms]
    holding = [one.value for one in timeline(seen) if one.holds_at(at_ms)]
    assert holding == ([until[-1].value] if until else [])


@given(MOVES)
def test_without_endings_every_observation_supports_one_segment(moves: list[Told]) -> None:
    """The one of its value at its instant; segments touch, and only the last is open."""
    seen = observations(moves)
    segments = timeline(seen)
    assert sorted(fact for one in segments for fact in one.facts) == [one.fact for one in seen]
    for one in segments:
        assert {seen[fact - 1].value for fact in one.facts} == {one.value}
        assert list(one.facts) == sorted(one.facts, key=lambda fact: time_order(seen[fact - 1]))
        assert one.start_ms == min(seen[fact - 1].at_ms for fact in one.facts)
    assert [one.end_ms for one in segments] == [
        *(one.start_ms for one in segments[1:]),
        *[None] * bool(segments),
    ]


def test_observations_of_one_instant_have_one_order() -> None:
    """By their place in what was said, then by their fact, then by their row."""
    seen = [
        observed(at_ms, tie, fact, "x", row=row)
        for at_ms in (1, 2)
        for tie in ("a", "b")
        for fact in (3, 20)
        for row in (4, 30)
    ]
    assert sorted(Random(1).sample(seen, len(seen)), key=time_order) == seen


@each(
    ("one", "other", "same"),
    [
        ("Rome", "rome", True),
        ("the Hague", "Hague", True),
        ("a red car", "car", True),
        ("una casa", "casa", True),
        ("Lisbon, Portugal", "Portugal", True),
        ("Lisbon, Portugal", "Porto, Portugal", False),
        ("New York", "York New", True),
        ("Rome", "Oslo", False),
        ("東京", "東京", True),
        ("東京", "京都", False),
        ("...", " ... ", True),
        ("...", "!!!", False),
        ("...", "Rome", False),  # no words: a part of everything, and the same as nothing
        ("the", "Rome", False),
        ("the", "THE ", True),
    ],
)
def test_one_value_in_two_wordings(one: str, other: str, same: bool) -> None:
    """All words of one are among the other's, without articles; what has no words is compared as it is written."""
    assert same_value(one, other) is same
    assert same_value(other, one) is same


@each(
    ("start", "end", "held"),
    [
        (3, 5, [3, 4]),
        (None, 5, [2, 3, 4]),
        (3, None, [3, 4, 5, 6]),
        (None, None, [2, 3, 4, 5, 6]),
        (4, 4, []),
    ],
)
def test_a_segment_holds_from_its_start_until_before_its_end(
    start: int | None, end: int | None, held: list[int]
) -> None:
    """An open side has no bound."""
    segment = Segment("Rome", start, end, (1,))
    assert [at_ms for at_ms in range(2, 7) if segment.holds_at(at_ms)] == held
