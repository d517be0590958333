"""How calendar trees are measured: the space of their vectors, and what evidence tells of what answers a question."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

from calendar_tree.manifold import (
    NEIGHBOURS,
    continuity,
    distances,
    drawn_dimension,
    intrinsic_dimension,
    manifold,
    projected,
    separation,
    silhouette,
    trustworthiness,
    users_of,
)
from locomo.conversations import Conversation, Question
from memforest.importers import FileSession

Matrix = NDArray[np.float64]


def points(count: int, dimensions: int, seed: int = 1) -> Matrix:
    """Return random points."""
    return np.random.default_rng(seed).normal(size=(count, dimensions))


def test_distances_are_euclidean() -> None:
    """As the norm of the difference of every two rows, and exactly 0 of a row to itself."""
    rows = points(7, 3)
    wanted = [[float(np.linalg.norm(a - b)) for b in rows] for a in rows]
    assert distances(rows) == pytest.approx(np.array(wanted))
    assert (np.diag(distances(rows)) == 0).all()


def test_dimension_counts_the_directions_of_the_variance() -> None:
    """A plane in ten dimensions has two; a direction with little of the variance does not count; one point has none."""
    plane = points(50, 2) @ points(2, 10, seed=2)
    assert intrinsic_dimension(plane) == 2
    axes = np.diag([10.0, 10.0, 0.1])
    cross = np.vstack([axes, -axes])
    assert intrinsic_dimension(cross) == 2
    assert intrinsic_dimension(cross, 1.0) == 3
    assert intrinsic_dimension(np.ones((4, 3))) == 0


def test_few_rows_drawn_of_many_have_few_dimensions() -> None:
    """What a level of few memories is to be compared with."""
    rows = points(200, 30)
    assert intrinsic_dimension(rows) > 20
    assert drawn_dimension(rows, 6, seed=3) <= 5
    assert drawn_dimension(rows, 999, seed=3) == intrinsic_dimension(rows)


def test_silhouette_by_hand() -> None:
    """(b - a) / max(a, b), the mean of all; 0 for a user of one memory."""
    rows = np.array([[0.0], [1.0], [10.0], [12.0]])
    users = users_of([2, 2])
    wanted = [(11 - 1) / 11, (10 - 1) / 10, (9.5 - 2) / 9.5, (11.5 - 2) / 11.5]
    assert silhouette(distances(rows), users) == pytest.approx(np.mean(wanted))
    alone = silhouette(distances(rows[:3]), users_of([2, 1]))
    assert alone == pytest.approx(np.mean([(10 - 1) / 10, (9 - 1) / 9, 0.0]))
    assert silhouette(distances(np.zeros((4, 2))), users) == 0.0
    assert math.isnan(silhouette(distances(rows), users_of([4])))


def test_users_in_each_others_place_have_a_negative_silhouette() -> None:
    """Memories that are nearer to another user's."""
    rows = np.array([[0.0], [10.0], [0.1], [10.1]])
    assert silhouette(distances(rows), users_of([2, 2])) < -0.4


def test_separation_by_hand() -> None:
    """Mean distance of centroids over mean distance to the own one."""
    rows = np.array([[-1.0, 0], [1.0, 0], [-2.0, 8], [2.0, 8]])
    assert separation(rows, users_of([2, 2])) == pytest.approx(8 / 1.5)
    three = np.vstack([rows, [[0.0, 6.0]]])
    assert separation(three, users_of([2, 2, 1])) == pytest.approx(((8 + 6 + 2) / 3) / (6 / 5))
    assert separation(np.array([[0.0], [3.0]]), users_of([1, 1])) == math.inf
    assert math.isnan(separation(rows, users_of([4])))


def slow_trust(here: Matrix, there: Matrix, k: int) -> float:
    """Return the trustworthiness as it is defined, row by row."""
    count, lost = len(here), 0
    for at in range(count):
        others = [one for one in range(count) if one != at]
        rank = {one: place for place, one in enumerate(sorted(others, key=lambda x: here[at][x]), 1)}
        near = sorted(others, key=lambda x: there[at][x])[:k]
        lost += sum(rank[one] - k for one in near if rank[one] > k)
    return 1 - 2 * lost / (count * k * (2 * count - 3 * k - 1))


@each("seed", range(4))
def test_trustworthiness_is_as_defined(seed: int) -> None:
    """Equal to the definition on random points and their projection; continuity is that of the reverse."""
    rows = points(30, 8, seed)
    here, there = distances(rows), distances(projected(rows))
    assert trustworthiness(here, there) == pytest.approx(slow_trust(here, there, NEIGHBOURS))
    assert continuity(here, there) == pytest.approx(slow_trust(there, here, NEIGHBOURS))
    assert trustworthiness(here, there) != pytest.approx(continuity(here, there))


def test_a_plane_is_projected_as_it_is() -> None:
    """Nothing is lost of what has two dimensions, and much of what has twenty."""
    plane = points(40, 2) @ points(2, 20, seed=2)
    here = distances(plane)
    assert distances(projected(plane)) == pytest.approx(here, abs=1e-6)
    assert trustworthiness(here, distances(projected(plane))) == 1.0
    many = points(40, 20)
    assert trustworthiness(distances(many), distances(projected(many))) < 0.9


def test_too_few_memories_have_no_neighbours() -> None:
    """An error of the measure itself, and not a number in the table; one more than twice the neighbours is enough."""
    few = distances(points(2 * NEIGHBOURS, 3))
    with pytest.raises(ValueError, match="at most 4"):
        trustworthiness(few, few)
    measured = [manifold(points(n, 3), users_of([n // 2, n - n // 2])) for n in (10, 12)]
    assert [math.isnan(one.trustworthiness) for one in measured] == [True, False]
    assert [one.memories for one in measured] == [10, 12]


def test_users_that_stand_apart_are_told() -> None:
    """Directions: a tight group a user has a higher silhouette and separation than one cloud."""
    centres = np.repeat(10 * np.eye(3, 16), 8, axis=0)
    apart, cloud = (manifold(shift + points(24, 16), users_of([8, 8, 8])) for shift in (centres, 0 * centres))
    assert apart.silhouette > 0.3 > 0.1 > cloud.silhouette
    assert apart.separation > 2 > 1 > cloud.separation


LONG = "We painted the garden fence green yesterday."


def said_in(*texts: str, session: int = 1) -> FileSession:
    """Return a session."""
    turns = tuple(
        {"speaker": "AB"[at % 2], "dia_id": f"D{session}:{at}", "text": text} for at, text in enumerate(texts)
    )
    return FileSession(f"session_{session}", turns, "1:56 pm on 8 May, 2023")


def conversation(*sessions: FileSession, questions: int = 2) -> Conversation:
    """Return a conversation with questions."""
    asked = tuple(Question(f"what {at}?", 4, frozenset({"D1:0"})) for at in range(questions))
    return Conversation("c-1", sessions, asked)
