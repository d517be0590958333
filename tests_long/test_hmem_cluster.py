"""Which cluster a node joins, with ties and a cap; and the ages at which levels come."""

from __future__ import annotations

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
from memforest.trees.hmem_grow import (
    BLOCK,
    CAP,
    MONTH,
    NEVER,
    SCHEDULES,
    WEEK,
    YEAR,
    HMemSettings,
    assign,
    least_likenesses,
    top_level,
)

DAY_MS = 86_400_000


def plane(*degrees: float) -> NDArray[np.float32]:
    """Return unit vectors at angles."""
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def test_the_best_member_of_a_cluster_is_compared() -> None:
    """0, 20 and 40 degrees: the best member of (0, 20) is near to 40, their middle is not."""
    assert assign(plane(0, 20, 40), 0.93)[0].tolist() == [0, 0, 0]


def test_of_equally_like_clusters_the_older_one_is_joined() -> None:
    """A node between two clusters of one member each."""
    assert assign(plane(-21, 21, 0), 0.93)[0].tolist() == [0, 1, 0]


def test_a_cap_bounds_what_is_compared() -> None:
    """With a cap of one, only the node right before counts."""
    assert assign(plane(0, 90, 0), 0.9)[0].tolist() == [0, 1, 0]
    assert assign(plane(0, 90, 0), 0.9, cap=1)[0].tolist() == [0, 1, 2]


def plainly(vectors: NDArray[np.float32], alpha: float, cap: int) -> list[int]:
    """Return the founders of nodes that join one after the other, each compared with all that it may join."""
    wide, found = vectors.astype(np.float64), list[int]()
    near = np.round(wide @ wide.T, 6)
    for at in range(len(vectors)):
        reach = [(-near[at, other], found[other]) for other in range(max(0, at - cap), at)]
        best = min(reach, default=(0.0, at))
        found.append(best[1] if -best[0] >= alpha else at)
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nodes_join_as_one_after_the_other_does(data: Any) -> None:
    """With a cap, and over more nodes than are compared at once: each against those right before it."""
    count, cap = data.draw(st.integers(1, 2 * BLOCK + 9)), data.draw(st.integers(1, 2 * BLOCK))
    seed = data.draw(st.integers(0, 9))
    vectors = plane(*np.random.default_rng(seed).uniform(0, data.draw(st.sampled_from((20, 90, 360))), count))
    assert assign(vectors, 0.8, cap)[0].tolist() == plainly(vectors, 0.8, cap)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_nodes_that_come_and_go_anywhere_leave_a_window_as_if_it_was_made_anew(data: Any) -> None:
    """Also where angles, and so likenesses, are equal, and where others come within reach of the cap."""
    degrees = data.draw(st.lists(st.integers(0, 24), min_size=1, max_size=40))
    vectors, cap = plane(*(15.0 * one for one in degrees)), data.draw(st.sampled_from((1, 2, 5, CAP)))
    places, had = st.sets(st.integers(0, len(degrees) - 1), min_size=1), NEVER
    for _ in range(4):
        rows = np.array(sorted(data.draw(places)), dtype=np.int64)
        had = assign(vectors, 0.8, cap, rows * 7 + 1, had, rows)
        assert had[0].tolist() == plainly(vectors[rows], 0.8, cap)


@each(
    ("days", "top"),
    [(-3.0, WEEK), (0, WEEK), (6.99, WEEK), (7, MONTH), (30, MONTH), (30.01, YEAR), (9000, YEAR)],
)
def test_levels_come_with_age(days: float, top: int) -> None:
    """7 and 30 days, and a time before the first event."""
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
