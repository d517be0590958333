"""`as_of` and `during`, and which fact speaks for a turn, on hand-made facts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, Fact, Said, hand_made, searching, state

from memforest.search.filters import Allowed, allowed, best_facts, valid_end
from memforest.search.snapshot import OPEN, Snapshot


@pytest.fixture
def lived() -> Snapshot:
    """Ana lives in Davis from day 10 and in Miami from day 50; on day 60 she tells of a trip on days 20 to 22.

    The last turn, of day 70, supports no fact.
    """
    turns = [Said("Ana", day, session=day) for day in (10, 50, 60, 70)]
    facts = [Fact((0,)), Fact((1,)), Fact((2,), start=20, end=22)]
    return hand_made(turns, facts, states=[state(0, "Davis", 10), state(1, "Miami", 50)])


def passing(
    snapshot: Snapshot, *, as_of: float | None = None, during: tuple[float, float] | None = None
) -> Allowed:
    """Return what passes filters given in days."""
    return allowed(
        snapshot,
        replace(
            searching(),
            as_of_ms=None if as_of is None else round(as_of * DAY),
            during_ms=None if during is None else (round(during[0] * DAY), round(during[1] * DAY)),
        ),
    )


def test_without_filters_everything_passes(lived: Snapshot) -> None:
    """No filter, no loss."""
    keep = passing(lived)
    assert keep.turns.all()
    assert keep.facts.all()


@pytest.mark.parametrize(
    ("day", "facts", "turns"),
    [
        (9, [], []),
        (10, [0], [0]),  # from the moment it was said
        (30, [0, 2], [0, 2]),  # an event, once it has happened, stays so, though it was told later
        (49.9, [0, 2], [0, 2]),
        (50, [1, 2], [1, 2]),  # half-open: at the change the old value no longer holds
        (75, [1, 2], [1, 2, 3]),
    ],
)
def test_as_of(lived: Snapshot, day: float, facts: list[int], turns: list[int]) -> None:
    """What was so at that instant: states until they are replaced, events ever after, turns once said."""
    keep = passing(lived, as_of=day)
    assert np.flatnonzero(keep.facts).tolist() == facts
    assert np.flatnonzero(keep.turns).tolist() == turns


@pytest.mark.parametrize(
    ("window", "facts"),
    [
        ((0, 10), []),
        ((0, 11), [0]),
        ((21, 25), [0, 2]),
        ((22, 25), [0]),  # the trip's end is not part of it
        ((45, 55), [0, 1]),
        ((50, 55), [1]),
        ((500, 501), [1]),  # a state goes on, an event does not
    ],
)
def test_during(lived: Snapshot, window: tuple[float, float], facts: list[int]) -> None:
    """What overlaps [start, end)."""
    assert np.flatnonzero(passing(lived, during=window).facts).tolist() == facts


def test_both_filters_together(lived: Snapshot) -> None:
    """A fact must pass both."""
    keep = passing(lived, as_of=30, during=(45, 55))
    assert np.flatnonzero(keep.facts).tolist() == [0]


def test_a_turn_without_facts_counts_from_when_it_was_said(lived: Snapshot) -> None:
    """Raw turns are evidence too: in a window if said in it."""
    assert np.flatnonzero(passing(lived, during=(65, 75)).turns).tolist() == [1, 3]


def test_ends_of_validity(lived: Snapshot) -> None:
    """A replaced state ends at the change, the present one is open, an event ends where it says."""
    assert valid_end(lived).tolist() == [50 * DAY, OPEN, 22 * DAY]


def test_the_nearest_allowed_fact_speaks() -> None:
    """Of a turn's facts the best one that passes the filters; -1 for a turn that supports none."""
    snapshot = hand_made([Said("Ana", 1), Said("Ana", 2)], [Fact((0,)), Fact((0,)), Fact((0,))])
    dense, lexical = np.array([0.1, 0.9, 0.5]), np.zeros(3)
    keep = Allowed(np.ones(2, dtype=np.bool_), np.ones(3, dtype=np.bool_))
    assert best_facts(snapshot, keep, dense, lexical).tolist() == [1, -1]
    keep.facts[1] = False
    assert best_facts(snapshot, keep, dense, lexical).tolist() == [2, -1]
    assert best_facts(snapshot, keep, np.zeros(3), lexical).tolist() == [0, -1]  # a tie: the older one
