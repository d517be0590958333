"""The pure scoring functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from memforest.search.scores import (
    Groups,
    Levels,
    best_first,
    cosines,
    group_place,
    leading,
    order,
    standardise,
    term_scores,
)

numbers = arrays.arrays(
    np.float64, st.integers(1, 30), elements=st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 3))
)


@given(numbers)
def test_standardised_values_have_mean_zero_and_spread_one(values: np.ndarray) -> None:
    """Whatever the scale, the result has mean 0 and deviation 1; values that do not differ give zeros."""
    out = standardise(values)
    assert out.mean() == pytest.approx(0, abs=1e-6)
    assert out.std() == pytest.approx(1 if len(set(values.tolist())) > 1 else 0, abs=1e-6)


@given(numbers, st.floats(0.1, 10), st.floats(-10, 10))
def test_scale_and_origin_do_not_matter(values: np.ndarray, scale: float, origin: float) -> None:
    """A leg may be in any unit: z-scores are the same."""
    np.testing.assert_allclose(standardise(values * scale + origin), standardise(values), atol=1e-5)


def test_nothing_to_standardise() -> None:
    """An empty memory has empty scores."""
    assert standardise(np.zeros(0)).shape == (0,)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-9, 9)), min_size=1, max_size=60))
def test_the_best_of_groups_equals_a_loop(rows: list[tuple[int, int]]) -> None:
    """Whether groups are small or large, in order or mixed: each has its best value, once, in order of `starts`."""
    groups = np.array([group for group, _ in rows])
    values = np.array([float(value) for _, value in rows])
    laid = Groups.of(groups)
    named = [node for node in dict.fromkeys(groups.tolist()) if node >= 0]
    expected = {node: values[groups == node].max() for node in named}
    members = np.arange(len(rows)) if laid.members is None else laid.members
    assert [expected[int(groups[members[start]])] for start in laid.starts] == laid.best(values).tolist()
    assert len(laid.starts) == len(named)


@given(st.lists(st.tuples(st.integers(-1, 7), st.integers(-9, 9)), min_size=1, max_size=30))
def test_flow_equals_a_loop_over_levels(rows: list[tuple[int, int]]) -> None:
    """Level by level: a node's best leaf, 0 outside of all trees, standardised over all leaves, and added up."""
    low = np.array([group for group, _ in rows])
    values = np.array([float(value) for _, value in rows])
    blocks = np.array([low, np.where(low < 0, -1, low // 2), np.where(low < 0, -1, low // 4)])
    expected = np.zeros(len(rows))
    for nodes in blocks:
        best = [values[nodes == node].max() if node >= 0 else 0.0 for node in nodes]
        expected += standardise(np.array(best))
    np.testing.assert_allclose(Levels.of(blocks).flow(values), expected, atol=1e-9)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=1, max_size=20))
def test_order_is_descending_and_ties_go_by_id(values: list[float]) -> None:
    """Best first; equal scores in the order of their ids, whatever the row order."""
    ids = np.arange(len(values))[::-1].copy()
    ranked = [(-values[i], int(ids[i])) for i in order(np.array(values), ids)]
    assert ranked == sorted(ranked)


def test_noise_below_nine_decimals_is_a_tie() -> None:
    """Sums in another order differ in the last bits; that must not reorder evidence."""
    assert order(np.array([0.1 + 0.2, 0.3]), np.array([2, 1])).tolist() == [1, 0]


def test_a_term_counts_less_the_more_documents_hold_it_and_never_nothing() -> None:
    """A word in every document still counts a little, a rare one more; a single occurrence has the weight of its rarity."""
    found = [
        float(term_scores(np.ones(matching), np.full(matching, 5.0), 5.0, 10, k1=0.9, b=0.4)[0])
        for matching in range(1, 11)
    ]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 0
    assert found[0] == pytest.approx(math.log(1 + 9.5 / 1.5))


def test_weight_saturates_and_punishes_length() -> None:
    """The tenth occurrence adds less than the second; a longer document scores lower."""
    counts = np.array([1.0, 2.0, 10.0, 11.0])
    weights = term_scores(counts, np.full(4, 5.0), 5.0, 20, k1=0.9, b=0.4)
    assert weights[1] - weights[0] > weights[3] - weights[2] > 0
    short, long = term_scores(np.ones(2), np.array([5.0, 50.0]), 10.0, 20, k1=0.9, b=0.4)
    assert short > long


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 20)), min_size=1, max_size=25), st.integers(0, 9)
)
def test_group_place_gives_the_greedy_choice(rows: list[tuple[int, int]], weight: int) -> None:
    """Lowering each row once per better row of its group orders them as choosing one at a time does."""
    groups = np.array([group for group, _ in rows])
    scores = np.array([float(score) for _, score in rows])
    ids = np.arange(len(rows))
    ranked = order(scores, ids)
    lowered = scores.copy()
    lowered[ranked] -= weight * group_place(ranked, groups)
    left = list(range(len(rows)))
    chosen: list[int] = []
    while left:
        best = max(left, key=lambda i: (scores[i] - weight * sum(groups[c] == groups[i] for c in chosen), -i))
        left.remove(best)
        chosen.append(best)
    taken = [
        scores[i] - weight * sum(groups[c] == groups[i] for c in chosen[:n]) for n, i in enumerate(chosen)
    ]
    assert taken == lowered[order(lowered, ids)].tolist()


def test_places_in_an_empty_ranking() -> None:
    """Nothing is ranked when nothing is there."""
    assert group_place(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).shape == (0,)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=20), st.integers(0, 22))
def test_leading_is_the_head_of_order(values: list[float], count: int) -> None:
    """Sorting only as far as somebody reads gives the same rows, ties included."""
    scores, ids = np.array(values, dtype=np.float64), np.arange(len(values))[::-1].copy()
    assert leading(scores, ids, count).tolist() == order(scores, ids)[:count].tolist()


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), max_size=20), st.integers(1, 22))
def test_best_first_is_order_without_what_is_dropped(rows: list[tuple[float, bool]], begin: int) -> None:
    """However much of it is sorted at first, every kept row comes once and in its place."""
    scores, ids = np.array([score for score, _ in rows]), np.arange(len(rows))
    keep = np.array([kept for _, kept in rows], dtype=np.bool_)
    ranked = order(scores, ids)
    assert list(best_first(scores, ids, keep, begin)) == ranked[keep[ranked]].tolist()


@given(st.integers(0, 1100), st.booleans())
def test_two_cosines_at_once_are_the_same(n: int, same: bool) -> None:
    """Reading the rows once changes no bit of what two passes give."""
    random = np.random.default_rng(n)
    rows, one, other = (random.random(shape, dtype=np.float32) for shape in ((n, 24), 24, 24))
    other = one if same else other
    first, second = cosines(rows, one, other)
    np.testing.assert_array_equal(first, cosines(rows, one)[0])
    np.testing.assert_array_equal(second, cosines(rows, other)[0])
