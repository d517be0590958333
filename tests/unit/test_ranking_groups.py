"""Groups, levels, sorting and BM25 against loops over rows: small and large groups, in order and mixed, and none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.search.scores import (
    Groups,
    Levels,
    activation,
    best_first,
    cosines,
    leading,
    order,
    robustness,
    stable_order,
    standardise,
    term_scores,
    time_overlap,
)
from memforest.times import DAY_MS

NODES = st.lists(st.integers(-1, 4), max_size=60)
"""The node above each row, -1 for none."""


def rows_of(nodes: list[int]) -> dict[int, list[int]]:
    """Return node -> its rows, of those that are nodes."""
    return {node: [at for at, one in enumerate(nodes) if one == node] for node in nodes if node >= 0}


def values_for(nodes: list[int], seed: int = 0) -> np.ndarray:
    """Return a value for every row, some alike and some negative."""
    return np.random.default_rng(seed).integers(-9, 9, len(nodes)).astype(np.float64)


@each("large", [1, 15, 16, 17, 40])
@each("mixed", [False, True])
@each("outside", [0, 3])
def test_groups_of_every_size(large: int, mixed: bool, outside: int) -> None:
    """Whatever their layout, groups have the best and the sum of their own rows, and rows outside belong to none."""
    nodes = [*[5] * large, *[2] * 3, 9, *[-1] * outside]
    if mixed:
        np.random.default_rng(large).shuffle(nodes)
    values, groups = values_for(nodes, large), Groups.of(np.array(nodes))
    expected = rows_of(nodes)
    first = groups.first.tolist()
    found = [nodes[row] for row in first]
    assert sorted(found) == [2, 5, 9]
    assert [min(expected[node]) for node in found] == first
    assert groups.sizes.tolist() == [len(expected[node]) for node in found]
    assert groups.best(values).tolist() == [max(values[expected[node]]) for node in found]
    assert groups.total(values).tolist() == [sum(values[expected[node]]) for node in found]


@given(NODES, st.integers(0, 99))
def test_groups_equal_a_loop(nodes: list[int], seed: int) -> None:
    """Best and total of each group, in one order; a group once, also of no rows at all."""
    values, groups = values_for(nodes, seed), Groups.of(np.array(nodes, dtype=np.int64))
    expected = rows_of(nodes)
    found = [nodes[row] for row in groups.first]
    assert sorted(found) == sorted(expected)
    assert groups.best(values).tolist() == [max(values[expected[node]]) for node in found]
    assert groups.total(values).tolist() == [sum(values[expected[node]]) for node in found]


def test_taking_the_best_changes_no_values() -> None:
    """The same values are compared again and again, level by level."""
    nodes = [0] * 20 + [1] * 20 + [0, 1]
    values = values_for(nodes)
    before = values.copy()
    groups = Groups.of(np.array(nodes))
    assert groups.best(values).tolist() == groups.best(values).tolist()
    np.testing.assert_array_equal(values, before)


@st.composite
def blocks(draw: st.DrawFn) -> np.ndarray:
    """Up to three levels over up to forty leaves; trees end at different heights, and some leaves are in none."""
    low = draw(st.lists(st.integers(-1, 9), min_size=1, max_size=40))
    levels = [low]
    for _ in range(draw(st.integers(0, 2))):
        above = {node: draw(st.integers(-1, 3)) for node in set(levels[-1]) if node >= 0}
        levels.append([above.get(node, -1) for node in levels[-1]])
    # names of nodes are of one level
    return np.array([[100 * at + node if node >= 0 else -1 for node in one] for at, one in enumerate(levels)])


@given(blocks(), st.integers(0, 99))
def test_the_flow_is_the_sum_of_z_scores_over_levels(above: np.ndarray, seed: int) -> None:
    """Of each leaf: on every level its node is worth its best leaf, and no node is worth 0."""
    values = values_for(above[0].tolist(), seed)
    expected = sum(
        standardise(np.array([values[nodes == node].max() if node >= 0 else 0.0 for node in nodes]))
        for nodes in above
    )
    np.testing.assert_allclose(Levels.of(above).flow(values), expected, atol=1e-9)


def test_no_levels_and_no_leaves() -> None:
    """A memory without trees has a flow of zeros, one without leaves none."""
    assert Levels.of(np.zeros((0, 3), dtype=np.int64)).flow(np.ones(3)).tolist() == [0.0] * 3
    assert Levels.of(np.full((2, 3), -1)).flow(np.ones(3)).tolist() == [0.0] * 3
    assert Levels.of(np.zeros((1, 4), dtype=np.int64)).flow(np.arange(4.0)).tolist() == [0.0] * 4


@given(st.lists(st.sampled_from([0, 1, 2, 65_535, 65_536, 65_537, 2**31, 2**32, 2**48 + 1]), max_size=40))
def test_a_stable_order_by_digits_is_a_stable_sort(numbers: list[int]) -> None:
    """Numbers of one, two, three and four digits of 16 bits; equal ones stay in their order."""
    found = stable_order(np.array(numbers, dtype=np.int64))
    assert found.tolist() == sorted(range(len(numbers)), key=lambda at: numbers[at])


@pytest.mark.parametrize("gap", [1e-8, 2e-9])
def test_what_differs_by_more_than_noise_is_no_tie(gap: float) -> None:
    """The better row comes first although its id is larger."""
    scores, ids = np.array([0.5, 0.5 + gap]), np.array([1, 2])
    assert order(scores, ids).tolist() == leading(scores, ids, 2).tolist() == [1, 0]
    assert order(scores, ids[::-1].copy()).tolist() == [1, 0]


def test_the_head_of_an_order_has_as_many_rows_as_asked_for() -> None:
    """None for none, also when ties go on behind it; ids decide among them, not rows."""
    scores, ids = np.array([0.5, 0.9, 0.5, 0.5]), np.array([4, 3, 2, 1])
    assert leading(scores, ids, 0).tolist() == leading(scores, ids, -1).tolist() == []
    assert leading(scores, ids, 1).tolist() == [1]
    assert leading(scores, ids, 2).tolist() == [1, 3]
    assert leading(scores, ids, 3).tolist() == [1, 3, 2]
    assert leading(scores, ids, 9).tolist() == [1, 3, 2, 0]
    noise = np.array([0.3, 0.1 + 0.2, 0.2])
    assert leading(noise, np.array([2, 1, 0]), 1).tolist() == [1]
    assert leading(noise, np.array([1, 2, 0]), 1).tolist() == [0]


def test_reading_on_goes_behind_what_was_sorted_first() -> None:
    """A reader of three hundred rows, who gets the first 256 without a sort of all, misses and repeats none."""
    scores = np.random.default_rng(4).integers(0, 50, 600) / 50
    ids, keep = np.random.default_rng(5).permutation(600), np.arange(600) % 2 == 0
    expected = [row for row in order(scores, ids).tolist() if keep[row]]
    assert list(best_first(scores, ids, keep)) == expected
    assert list(best_first(scores, ids, np.zeros(600, dtype=np.bool_))) == []


@given(st.integers(0, 1030))
def test_cosines_are_dot_products(n: int) -> None:
    """Of every row, at the borders of the blocks in which they are computed too."""
    random = np.random.default_rng(n)
    rows = random.normal(size=(n, 8)).astype(np.float32)
    one, other = (random.normal(size=8).astype(np.float32) for _ in range(2))
    found = cosines(rows, one, other)
    for got, vector in zip(found, (one, other), strict=True):
        np.testing.assert_allclose(got, rows.astype(np.float64) @ vector, atol=1e-5)
        np.testing.assert_array_equal(got, cosines(rows, vector)[0])
        assert got.dtype == np.float64


@given(st.integers(3, 50), st.floats(0.1, 2), st.floats(0, 1))
def test_bm25_as_published(total: int, k1: float, b: float) -> None:
    """Robertson & Zaragoza 2009, Eq. 3.15 with 1 added inside the logarithm of the document frequency."""
    idf = math.log(1 + (total - 3 + 0.5) / (3 + 0.5))
    counts, lengths = np.array([0.0, 1.0, 4.0]), np.array([3.0, 10.0, 30.0])
    for mean in (1.0, 10.0):
        found = term_scores(counts, lengths, mean, total, k1=k1, b=b)
        expected = [
            idf * n * (k1 + 1) / (n + k1 * ((1 - b) + b * size / mean))
            for n, size in zip(counts, lengths, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_documents_without_words_divide_by_nothing() -> None:
    """A mean length of 0 is an empty memory's; a term then weighs nothing, and is a number."""
    found = term_scores(np.array([0.0, 1.0]), np.zeros(2), 0.0, 2, k1=0.9, b=0.4)
    assert np.isfinite(found).all()
    assert found[0] == 0 < found[1]


def test_values_that_differ_by_noise_alone_are_alike() -> None:
    """Z-scores of rounding errors would be as large as those of answers."""
    assert standardise(np.array([0.5, 0.5 + 1e-14, 0.5])).tolist() == [0.0] * 3
    assert standardise(np.array([0.5, 0.5 + 1e-9])).tolist() == pytest.approx([-1, 1], abs=1e-3)
    values = np.array([1.0, 3.0])
    standardise(values)
    assert values.tolist() == [1.0, 3.0]


@given(
    st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 9)), min_size=1, max_size=20), st.integers(0, 22)
)
def test_similarity_counts_for_the_nearest_leaves_alone(rows: list[tuple[int, int]], top: int) -> None:
    """Against a loop: both channels divided by their maximum, what is negative or not among the first counts 0."""
    dense, lexical = (np.array([float(row[at]) for row in rows]) for at in (0, 1))
    ids = np.arange(len(rows))[::-1].copy()
    near = sorted(range(len(rows)), key=lambda at: (-max(float(dense[at]), 0.0), ids[at]))[:top]
    kept = [max(value, 0.0) if at in near else 0.0 for at, value in enumerate(dense)]
    expected = [
        0.7 * (kept[at] / max(kept) if max(kept) else 0)
        + 0.3 * (lexical[at] / max(lexical) if max(lexical) else 0)
        for at in range(len(rows))
    ]
    found = activation(dense, lexical, ids, weight=0.7, dense_top=top)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_forty_leaves_count_by_default() -> None:
    """The forty-first has its words alone, and similarity weighs nine tenths."""
    found = activation(np.linspace(1, 0.5, 60), np.zeros(60), np.arange(60))
    assert np.count_nonzero(found) == 40
    assert found[0] == pytest.approx(0.9)


@each(
    ("start", "end", "expected"),
    [
        (0, 10, 1.0),  # the same
        (0, 5, 0.5 * 0.5 + 0.5 * 0.75),  # its first half
        (5, 15, 0.5 * 5 / 15 + 0.5 * (1 - 5 / 15)),
        (10, 20, 0.5 * 0.5),  # touching: nothing is shared
        (20, 30, 0.5 * (1 - 20 / 30)),
        (5, 5, 0.5 * 0.1 + 0.5),  # an instant in the middle counts as a day
        (-90, 110, 0.5 * 10 / 200 + 0.5 * (1 - 5 / 200)),  # one that holds it, nearly centred
    ],
)
def test_how_an_interval_fits_ten_days(start: int, end: int, expected: float) -> None:
    """H-Mem's Eq. 1 over the whole time from the first to the last of both, half and half."""
    days = np.array([start, end]) * DAY_MS
    (found,) = time_overlap(days[:1], days[1:], (0, 10 * DAY_MS))
    assert found == pytest.approx(expected)


def test_an_interval_is_as_long_as_the_least_length_allows() -> None:
    """An hour is a day around its centre; with a least length of an hour it stays one."""
    hour = DAY_MS // 24
    start = np.array([12 * hour - hour // 2])
    asked = (0, DAY_MS)
    assert time_overlap(start, start + hour, asked).tolist() == pytest.approx([1.0])
    (found,) = time_overlap(start, start + hour, asked, least_ms=hour, overlap=1.0)
    assert found == pytest.approx(1 / 24)
    for wrong in ({"least_ms": 0}, {"overlap": -0.1}, {"overlap": 1.1}):
        with pytest.raises(ValueError, match="overlap takes a number from 0 to 1"):
            time_overlap(start, start + hour, asked, **wrong)


@given(st.integers(0, 4000), st.integers(0, 60), st.floats(1, 900), st.floats(0, 3))
def test_memories_fade_as_the_formula_says(days: int, times: int, decay: float, gain: float) -> None:
    """Age counts the less the more often a memory was reinforced; what is of now or later has none."""
    last = np.array([0, days * DAY_MS, 2 * days * DAY_MS])
    found = robustness(last, np.full(3, times), days * DAY_MS, decay_days=decay, reinforcement=gain)
    stretched = days / (1 + gain * math.log(1 + times))
    assert found[0] == pytest.approx(math.exp(-stretched / decay))
    assert found[1:].tolist() == [1.0, 1.0]  # just now, and after the question's present
    for wrong in ({"decay_days": 0}, {"reinforcement": -1}):
        with pytest.raises(ValueError, match="decay_days takes a positive number"):
            robustness(last, np.zeros(3), 0, **wrong)  # type: ignore[arg-type]
