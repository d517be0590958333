"""Which cluster a node joins: with ties, a cap and what is known before; and the ages at which levels come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.table import each

from memforest import Config, MemForest
from memforest.errors import ConfigError
from memforest.models import available
from memforest.trees.hmem_rows import (
    MONTH,
    SCHEDULES,
    WEEK,
    YEAR,
    HMemSettings,
    WindowNode,
    assign,
    assign_anew,
    least_likenesses,
    top_level,
)

DAY_MS = 86_400_000


def plane(*degrees: float) -> NDArray[np.float32]:
    """Return unit vectors at angles."""
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def founders(found: Sequence[tuple[int, float | None]]) -> list[int]:
    """Return the places of those that began the clusters."""
    return [founder for founder, _ in found]


def test_the_best_member_of_a_cluster_is_compared() -> None:
    """0, 20 and 40 degrees: the best member of (0, 20) is near to 40, their middle is not."""
    assert founders(assign(plane(0, 20, 40), [], 0.93)) == [0, 0, 0]


def test_of_equally_like_clusters_the_older_one_is_joined() -> None:
    """A node between two clusters of one member each."""
    assert assign(plane(-20, 20, 0), [0, 1], 0.5) == [(0, 0.939693)]


def test_a_cap_bounds_what_is_compared() -> None:
    """With a cap of one, only the node right before counts."""
    assert founders(assign(plane(0, 90, 0), [], 0.9)) == [0, 1, 0]
    assert founders(assign(plane(0, 90, 0), [], 0.9, cap=1)) == [0, 1, 2]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_going_on_is_the_same_as_beginning_anew(data: Any) -> None:
    """Whatever is known of the first nodes, with a cap and only the nodes within reach: the others join as in one go."""
    count = data.draw(st.integers(1, 14))
    vectors = plane(*data.draw(st.lists(st.floats(0, 90), min_size=count, max_size=count)))
    cap = data.draw(st.integers(1, 14))
    whole = assign(vectors, [], 0.8, cap=cap)
    known = data.draw(st.integers(0, count))
    low = max(0, known - cap)
    rest = assign(vectors[low:], [at - low for at in founders(whole)[low:known]], 0.8, cap=cap)
    assert [at + low for at in founders(rest)] == founders(whole)[known:]
    assert all(likeness is None or likeness >= 0.8 for _, likeness in whole)
    assert all((likeness is None) == (founder == at) for at, (founder, likeness) in enumerate(whole))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_comes_and_goes_moves_what_it_must(data: Any) -> None:
    """Of a window that nodes come into and go from anywhere, those that are not placed anew are where they would be."""
    cap, degrees = data.draw(st.integers(1, 6)), st.sampled_from((0.0, 15.0, 31.0, 50.0, 90.0))
    at_first = data.draw(st.lists(degrees, min_size=1, max_size=16))
    angles = dict(enumerate(at_first, 100))  # by event; the order of the events is that of their numbers
    before = dict(zip(angles, assign(plane(*at_first), [], 0.8, cap=cap), strict=True))
    began = {event: 100 + founder for event, (founder, _) in before.items()}
    gone = data.draw(st.lists(st.sampled_from(sorted(angles)), unique=True, max_size=3))
    places = st.integers(99, 100 + len(at_first)).map(lambda place: place + 0.5)
    come = data.draw(st.dictionaries(places, degrees, min_size=1 if not gone else 0, max_size=3))
    now = dict(sorted({event: one for event, one in (angles | come).items() if event not in gone}.items()))
    numbers = {event: number for number, event in enumerate(now)}
    found = [
        WindowNode(numbers[event], numbers[event], None, None, None, 0, "")
        if event in come or began[event] in gone
        else WindowNode(
            numbers[event], numbers[event], began[event], before[event][1], numbers[began[event]], 0, ""
        )
        for event in now
    ]
    if not found:
        return
    first = sum(event < min([*come, *gone]) for event in now)
    vectors = plane(*now.values())
    made = assign_anew(
        found, first, vectors, 0.8, cap=cap, come=len(come), gone=[began[event] for event in gone]
    )
    whole = assign(vectors, [], 0.8, cap=cap)
    kept = [made[at][0] if at in made else one.begun_by for at, one in enumerate(found)]
    assert kept == founders(whole)
    assert [made[at][1] if at in made else one.likeness for at, one in enumerate(found)] == [
        likeness for _, likeness in whole
    ]


@each(
    ("days", "top"),
    [(-3.0, WEEK), (0, WEEK), (6.99, WEEK), (7, MONTH), (30, MONTH), (30.01, YEAR), (9000, YEAR)],
)
def test_levels_come_with_age(days: float, top: int) -> None:
    """7 and 30 days, and a clock that stands before the first event."""
    assert top_level(0, int(days * DAY_MS)) == top


def test_schedules_are_the_papers_and_the_measured() -> None:
    """The literal ones for any embedder; the calibrated ones fall with the level, for every embedder that is shipped."""
    assert list(least_likenesses(HMemSettings(schedule="paper"), "any")) == [0.8, 0.7, 0.6]
    assert SCHEDULES["strict"] == (0.9, 0.8, 0.7)
    assert SCHEDULES["loose"] == (0.7, 0.6, 0.5)
    assert least_likenesses(HMemSettings(schedule=(0.5, 0.4, 0.3)), "any") == (0.5, 0.4, 0.3)
    for status in available():
        week, month, year = least_likenesses(HMemSettings(), status.model_id)
        assert 1 > week > month > year > 0
    assert len(least_likenesses(HMemSettings(), "never measured")) == 3


@each(
    "own",
    [
        {"schedule": (0.5, 0.4)},
        {"schedule": "steep"},
        {"schedule": (2, 0.5, 0.5)},
        {"words": (1,)},
        {"cap": 0},
        {"compare": "far"},
    ],
)
def test_wrong_settings_are_refused_by_name(own: dict[str, Any]) -> None:
    """Before a file is opened."""
    with pytest.raises(ConfigError, match=next(iter(own))):
        MemForest("nowhere", Config(indexes=("hmem",), index_settings={"hmem": own}))
