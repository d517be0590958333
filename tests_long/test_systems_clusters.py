"""Clustering of facts: sums that hold after any history, splits and merges that are carried out, determinism."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memforest.trees.scenes import (
    MAX_SCENES,
    MAX_SIZE,
    Clusters,
    DictPlaces,
    Member,
    SceneThresholds,
    derive,
    halves,
    scene_thresholds,
)

DAY = 86_400_000
DIMENSION = 8
RULES = SceneThresholds(join=0.3, second=0.5, merge=0.6, time=0.05)


def fact(number: int, axis: int, *, day: int = 0, noise: float = 0.3, seed: int = 0) -> Member:
    """Return a fact near one axis; the same arguments give the same vector."""
    vector = np.random.default_rng((seed, number)).normal(scale=noise, size=DIMENSION)
    vector[axis % DIMENSION] += 1.0
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    return Member(number, unit, day * DAY, day * DAY + 1)


def empty(facts: Sequence[Member]) -> tuple[Clusters, DictPlaces]:
    """Return clusters without a scene."""
    places = DictPlaces({one.fact: one for one in facts})
    return Clusters(places, (), (), np.zeros((0, DIMENSION), dtype=np.float32)), places


def check(clusters: Clusters, places: DictPlaces, placed: set[int]) -> None:
    """Assert what holds at all times."""
    assert clusters.ids == sorted(places.scenes)
    memberships: dict[int, list[bool]] = {}
    for at, scene in enumerate(clusters.ids):
        members = places.members(scene)
        assert members
        assert clusters.sizes[at] == len(members)
        mean = np.mean([one.vector for one in members], axis=0)
        np.testing.assert_allclose(clusters.means[at], mean, atol=1e-5)
        for one in members:
            memberships.setdefault(one.fact, []).append(one.main)
    assert memberships.keys() == placed
    assert all(mains.count(True) == 1 and len(mains) <= 2 for mains in memberships.values())
    assert max(clusters.sizes, default=0) <= MAX_SIZE


class Histories(RuleBasedStateMachine):
    """Facts come in batches and leave one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Member] = {}
        self.placed: set[int] = set()
        self.places = DictPlaces(self.known)
        self.clusters = Clusters(self.places, (), (), np.zeros((0, DIMENSION), dtype=np.float32))

    @rule(
        axes=st.lists(st.integers(0, 3), min_size=1, max_size=50),
        day=st.integers(0, 200),
        noise=st.sampled_from([0.0, 0.2, 0.6]),
    )
    def route(self, axes: list[int], day: int, noise: float) -> None:
        """Add facts near some axes."""
        start = len(self.known)
        new = [fact(start + i, axis, day=day, noise=noise) for i, axis in enumerate(axes)]
        self.known.update({one.fact: one for one in new})
        self.clusters.route(new, RULES)
        self.placed |= {one.fact for one in new}

    @precondition(lambda self: self.placed)
    @rule(pick=st.integers(0, 10_000))
    def leave(self, pick: int) -> None:
        """Take a fact out of all its scenes."""
        number = sorted(self.placed)[pick % len(self.placed)]
        for scene in [s for s, members in self.places.scenes.items() if number in members]:
            self.clusters.leave(scene, number, self.known[number].vector)
        self.placed.discard(number)

    @invariant()
    def sums(self) -> None:
        """Sizes, means and memberships agree."""
        check(self.clusters, self.places, self.placed)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


@given(order=st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_canonical_scenes_are_of_the_facts_in_time_order(order: Random) -> None:
    """What is derived is what the sorted facts give, however they were handed out before sorting."""
    facts = [fact(i, i % 3, day=i) for i in range(60)]
    shuffled = facts[:]
    order.shuffle(shuffled)
    again = sorted(shuffled, key=lambda one: one.start_ms)
    assert list(derive(again, RULES)) == list(derive(facts, RULES))


def test_facts_of_different_topics_part() -> None:
    """Three directions become three scenes, whatever their order."""
    facts = [fact(i, i % 3, noise=0.1) for i in range(30)]
    found = list(derive(facts, RULES))
    assert sorted(sorted(scene) for scene in found) == [list(range(i, 30, 3)) for i in range(3)]


def test_a_full_scene_is_split_along_what_it_is_made_of() -> None:
    """Two topics that were near enough to share a scene are told apart when it is full."""
    tight = SceneThresholds(join=-1.0, second=2.0, merge=2.0, time=0.0)
    facts = [fact(i, i % 2, noise=0.05) for i in range(MAX_SIZE + 1)]
    clusters, places = empty(facts)
    clusters.route(facts[:-1], tight)
    assert len(clusters.ids) == 1
    clusters.route(facts[-1:], tight)
    assert sorted(sorted(scene) for scene in places.scenes.values()) == [
        list(range(0, MAX_SIZE + 1, 2)),
        list(range(1, MAX_SIZE + 1, 2)),
    ]
    check(clusters, places, set(range(MAX_SIZE + 1)))


def test_scenes_that_have_grown_alike_become_one() -> None:
    """The larger one takes the members, and the other is gone from everything."""
    apart = SceneThresholds(join=2.0, second=2.0, merge=2.0, time=0.0)
    facts = [fact(i, 0 if i < 5 else 1, noise=0.05) for i in range(10)]
    clusters, places = empty(facts)
    clusters.route(facts[:9], apart)
    assert len(clusters.ids) == 9
    clusters.route(facts[9:], SceneThresholds(join=2.0, second=2.0, merge=0.5, time=0.0))
    joined = [scene for scene in places.scenes.values() if len(scene) > 1]
    assert joined == [dict.fromkeys([5, 6, 7, 8, 9], True)]
    check(clusters, places, set(range(10)))


def test_a_fact_very_like_two_scenes_stands_in_both() -> None:
    """The second membership is not the main one, and counts for the second scene's mean."""
    rules = SceneThresholds(join=0.1, second=0.1, merge=2.0, time=0.0)
    facts = [fact(i, i % 2, noise=0.0) for i in range(4)] + [fact(4 + i, 2 + i, noise=0.0) for i in range(6)]
    clusters, places = empty(facts)
    clusters.route(facts, rules)
    between = np.zeros(DIMENSION, dtype=np.float32)
    between[:2] = np.sqrt(0.5)
    both = Member(99, between, 0, 1)
    places.facts = {**places.facts, 99: both}
    clusters.route([both], rules)
    assert sorted(scene[99] for scene in places.scenes.values() if 99 in scene) == [False, True]
    check(clusters, places, {*range(10), 99})


def test_of_two_scenes_as_like_the_one_near_in_time_is_taken() -> None:
    """The time term decides between equals; without it the older scene would."""
    rules = SceneThresholds(join=0.2, second=2.0, merge=2.0, time=0.1)
    old, new = fact(0, 0, day=0, noise=0.0), fact(1, 1, day=400, noise=0.0)
    other = fact(2, 2, day=200, noise=0.0)
    clusters, places = empty([old, new, other])
    clusters.route([old, other, new], rules)
    between = np.zeros(DIMENSION, dtype=np.float32)
    between[:2] = np.sqrt(0.5)
    late = Member(3, between, 401 * DAY, 401 * DAY + 1)
    places.facts = {**places.facts, 3: late}
    clusters.route([late], rules)
    assert [sorted(scene) for scene in places.scenes.values() if 3 in scene] == [[1, 3]]


def test_the_number_of_scenes_is_bounded() -> None:
    """When there are too many, a fact like none of them joins the one it is most like."""
    apart = SceneThresholds(join=2.0, second=2.0, merge=2.0, time=0.0)
    facts = [fact(i, i, noise=0.5) for i in range(MAX_SCENES + 20)]
    clusters, _ = empty(facts)
    clusters.route(facts, apart)
    assert len(clusters.ids) == MAX_SCENES
    assert int(clusters.sizes.sum()) == len(facts)


@given(st.integers(2, 40), st.integers(0, 1000))
def test_halves_are_never_lopsided(count: int, seed: int) -> None:
    """Both halves of a split have at least a quarter of the rows, less rounding, and one row at least."""
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    first = halves(rows)
    assert min(int(first.sum()), int((~first).sum())) >= max(1, count // 4)


def test_halves_of_equal_rows() -> None:
    """Rows without a difference are split all the same."""
    assert 0 < int(halves(np.ones((9, DIMENSION))).sum()) < 9


def test_an_unknown_embedder_gets_the_strictest_thresholds() -> None:
    """A model that was not measured groups less rather than more."""
    known = [scene_thresholds(m) for m in ("bge-small-en-v1.5-int8@68807e3f", "minilm-l6-v2-int8@8199be6f")]
    other = scene_thresholds("some-other-model")
    assert other.join == max(one.join for one in known)
    assert all(0 < one.join < one.merge < one.second < 1 for one in (*known, other))
