"""Relevance on the nodes of any forest: propagation, ancestors, sums, and parts of a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.search.flow import (
    Ascent,
    ancestors,
    bounded,
    decay_sum,
    propagate,
    relevance_shares,
)
from memforest.search.scores import activation, robustness, time_overlap

DAY = 86_400_000


@dataclass(frozen=True)
class Forest:
    """Parents and levels of nodes, in any order of rows."""

    parent: np.ndarray
    level: np.ndarray

    def children(self, row: int) -> list[int]:
        """Return the rows below a row."""
        return np.flatnonzero(self.parent == row).tolist()


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Up to 25 nodes in any number of trees; levels rise by one or more; rows are shuffled."""
    n = draw(st.integers(0, 25))
    parent = [draw(st.integers(-1, i - 1)) for i in range(n)]
    level = [0] * n
    for i in reversed(range(n)):
        level[i] += draw(st.integers(0, 2))
        if parent[i] >= 0:
            level[parent[i]] = max(level[parent[i]], level[i] + 1)
    rows = draw(st.permutations(range(n)))
    shuffled = np.full(n, -1, dtype=np.int64)
    levels = np.zeros(n, dtype=np.int64)
    for i in range(n):
        shuffled[rows[i]] = rows[parent[i]] if parent[i] >= 0 else -1
        levels[rows[i]] = level[i]
    return Forest(shuffled, levels)


def values_for(forest: Forest, seed: int) -> np.ndarray:
    """Return a relevance for every node, some of them alike and some negative."""
    return np.random.default_rng(seed).integers(-2, 6, len(forest.parent)) / 5


def one_edge(forest: Forest, at: list[float], policy: str) -> list[float]:
    """Send everything one edge on, node by node, as the paper's matrix is described."""
    out = [0.0] * len(at)
    for v, has in enumerate(at):
        targets = forest.children(v) if policy == "top-down" else [p for p in (forest.parent[v],) if p >= 0]
        for u in targets:
            out[u] += has / len(targets)
    return out


@given(
    forests(),
    st.integers(0, 9),
    st.sampled_from(["top-down", "bottom-up"]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(0, 4),
)
def test_propagation_equals_the_matrix_walked_node_by_node(
    forest: Forest, seed: int, policy: str, decay: float, horizon: int
) -> None:
    """Eq. 3 and 4 on any forest, whatever the order of rows."""
    shares = relevance_shares(values_for(forest, seed))
    found = propagate(shares, forest.parent, policy, decay=decay, horizon=horizon)  # type: ignore[arg-type]
    steps = [shares.tolist()]
    for _ in range(horizon):
        steps.append(one_edge(forest, steps[-1], policy))
    weights = [decay**k for k in range(horizon + 1)]
    expected = [
        sum(w * step[v] for w, step in zip(weights, steps, strict=True)) / sum(weights)
        for v in range(len(shares))
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def matrix_of(forest: Forest, policy: str) -> np.ndarray:
    """Return the paper's W: in each column, how a node divides what it has."""
    n = len(forest.parent)
    columns = [one_edge(forest, np.eye(n)[v].tolist(), policy) for v in range(n)]
    return np.array(columns).reshape(n, n).T


@given(
    forests(),
    st.integers(0, 9),
    st.sampled_from(["top-down", "bottom-up"]),
    st.integers(0, 4),
)
def test_propagation_equals_powers_of_a_matrix_with_columns_of_0_and_1(
    forest: Forest, seed: int, policy: str, horizon: int
) -> None:
    """A column is 0 where a node has nowhere to send; shares sum to 1."""
    matrix = matrix_of(forest, policy)
    ends = [not forest.children(v) if policy == "top-down" else p < 0 for v, p in enumerate(forest.parent)]
    sums = matrix.sum(axis=0)
    np.testing.assert_allclose(sums, np.where(ends, 0.0, 1.0), atol=1e-12)
    shares = relevance_shares(values_for(forest, seed))
    assert shares.sum() == pytest.approx(1.0 if (values_for(forest, seed) > 0).any() else 0.0)
    wanted = sum(0.5**k * np.linalg.matrix_power(matrix, k) @ shares for k in range(horizon + 1))
    found = propagate(shares, forest.parent, policy, decay=0.5, horizon=horizon)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, wanted / decay_sum(0.5, horizon), atol=1e-12)


@given(forests(), st.data(), st.sampled_from(["top-down", "bottom-up"]), st.integers(1, 4))
def test_nothing_moves_down_from_a_leaf_or_up_from_a_root(
    forest: Forest, data: st.DataObject, policy: str, horizon: int
) -> None:
    """What such a node has leaks: no other node gets any of it."""
    ends = [
        v for v, p in enumerate(forest.parent) if (p < 0 if policy == "bottom-up" else not forest.children(v))
    ]
    if not ends:
        return
    at = np.eye(len(forest.parent))[data.draw(st.sampled_from(ends))]
    leaked = propagate(at, forest.parent, policy, decay=0.5, horizon=horizon)  # type: ignore[arg-type]
    np.testing.assert_allclose(leaked, at / decay_sum(0.5, horizon), atol=1e-12)


@each("decay", [0.1, 0.95, 1.0])
def test_a_horizon_beyond_the_forest_ends_with_it(decay: float) -> None:
    """Everything is lost after a few edges, and the rest of the sum is known: no number of edges takes time."""
    found = propagate(SHARES, TREE, "top-down", decay=decay, horizon=10**400)
    steps = [SHARES.tolist()]
    for _ in range(500):
        steps.append(one_edge(Forest(TREE, TREE), steps[-1], "top-down"))
    if decay < 1:
        weights = decay ** np.arange(501.0)
        np.testing.assert_allclose(found, weights @ np.array(steps) / weights.sum(), atol=1e-9)
    else:
        np.testing.assert_allclose(found, steps[-1], atol=1e-8)


@each("decay", [0.0, 1e-9, 0.1, 0.5, 1 - 1e-12, 1.0])
def test_the_sum_of_weights_is_that_of_the_powers(decay: float) -> None:
    """Also next to 0 and 1."""
    for horizon in (0, 1, 2, 40):
        assert decay_sum(decay, horizon) == pytest.approx(
            sum(decay**k for k in range(horizon + 1)), rel=1e-12
        )


# Root 0 over 1 and 2; 1 over the leaves 3 and 4, 2 over the leaf 5.
TREE = np.array([-1, 0, 0, 1, 1, 2])
SHARES = np.array([0.1, 0.3, 0.0, 0.2, 0.0, 0.4])


def test_down_by_hand() -> None:
    """One edge: the root halves its .1, node 1 halves its .3, leaves send nothing and keep nothing."""
    moved = np.array([0.0, 0.05, 0.05, 0.15, 0.15, 0.0])
    found = propagate(SHARES, TREE, "top-down", decay=0.1, horizon=1)
    np.testing.assert_allclose(found, (SHARES + 0.1 * moved) / 1.1)


def test_up_by_hand() -> None:
    """Two edges: parents sum their children's shares, then what came to 1 and 2 comes to the root."""
    one, two = np.array([0.3, 0.2, 0.4, 0, 0, 0]), np.array([0.6, 0, 0, 0, 0, 0])
    found = propagate(SHARES, TREE, "bottom-up", decay=0.5, horizon=2)
    np.testing.assert_allclose(found, (SHARES + 0.5 * one + 0.25 * two) / 1.75)


@given(forests(), st.integers(0, 9))
def test_no_way_no_decay_or_no_horizon_is_the_collapsed_tree(forest: Forest, seed: int) -> None:
    """Each of the three gives back the shares to the last bit."""
    shares = relevance_shares(values_for(forest, seed))
    for found in (
        propagate(shares, forest.parent, "none"),
        propagate(shares, forest.parent, "top-down", decay=0.0),
        propagate(shares, forest.parent, "bottom-up", horizon=0),
    ):
        assert found.tolist() == shares.tolist()


def test_degenerate_forests() -> None:
    """Nothing; one node; a chain; two trees that give each other nothing."""
    nothing = np.zeros(0, dtype=np.int64)
    assert propagate(np.zeros(0), nothing, "top-down").tolist() == []
    assert relevance_shares(np.zeros(0)).tolist() == []
    assert relevance_shares(np.array([-1.0, 0.0])).tolist() == [0.0, 0.0]
    alone = np.array([-1])
    assert propagate(np.ones(1), alone, "bottom-up", decay=0.5, horizon=1).tolist() == pytest.approx([2 / 3])
    chain = np.array([-1, 0, 1, 2])
    down = propagate(np.array([1.0, 0, 0, 0]), chain, "top-down", decay=1.0, horizon=3)
    assert down.tolist() == [0.25] * 4
    two = np.array([-1, 0, -1, 2])
    assert propagate(np.array([0.0, 1, 0, 0]), two, "bottom-up", decay=0.5, horizon=2)[2:].tolist() == [
        0.0,
        0.0,
    ]


@each(
    ("options", "said"),
    [
        ({"policy": "sideways"}, "policy='sideways'"),
        ({"decay": 1.5}, r"decay=1\.5"),
        ({"decay": float("nan")}, "decay=nan"),
        ({"horizon": -1}, "horizon=-1"),
        ({"parent": np.array([-1, 0])}, "2 parents for 6 nodes"),
        ({"parent": np.array([-1, 0, 0, 1, 1, 6])}, "not a row"),
        ({"parent": np.array([-2, 0, 0, 1, 1, 2])}, "not a row"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, object], said: str) -> None:
    """Each is an error that says which."""
    with pytest.raises(ValueError, match=said):
        propagate(**{"shares": SHARES, "parent": TREE, "policy": "top-down", **options})  # type: ignore[arg-type]


def test_relevance_that_is_no_number_is_refused() -> None:
    """It would make the share of every node no number."""
    for bad in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="finite"):
            relevance_shares(np.array([1.0, bad]))


@given(forests(), st.data())
def test_ancestors_equal_a_walk_from_the_best_leaf(forest: Forest, data: st.DataObject) -> None:
    """Leaf by leaf, best first, up to the root: a node joins its level while that has room."""
    n = len(forest.parent)
    leaves = data.draw(st.lists(st.integers(0, n - 1), max_size=6)) if n else []
    budgets = data.draw(st.dictionaries(st.integers(0, 8), st.integers(-1, 3)))
    taken: dict[int, list[tuple[int, int]]] = {}
    for leaf in leaves:
        node = int(forest.parent[leaf])
        while node >= 0:
            level = taken.setdefault(int(forest.level[node]), [])
            if node not in [one for one, _ in level] and len(level) < budgets.get(int(forest.level[node]), 0):
                level.append((node, leaf))
            node = int(forest.parent[node])
    nodes, best = ancestors(np.array(leaves, dtype=np.int64), forest.parent, forest.level, budgets)
    expected = [pair for level in sorted(taken) for pair in taken[level]]
    assert list(zip(nodes.tolist(), best.tolist(), strict=True)) == expected


def test_budgets_are_filled_from_the_best_leaf() -> None:
    """Not from the earliest: of four sessions, the one of the best leaf, which is the last, is the one that is kept."""
    parent = np.array([4, 5, 6, 7, 8, 8, 8, 8, -1])
    level = np.array([1, 1, 1, 1, 2, 2, 2, 2, 3])
    by_score = np.array([3, 1, 0, 2])
    nodes, best = ancestors(by_score, parent, level, {2: 2, 3: 1})
    assert nodes.tolist() == [7, 5, 8]
    assert best.tolist() == [3, 1, 3]


def test_a_forest_that_goes_round_is_refused() -> None:
    """A parent must be above its child, or going up would not end."""
    round_about = np.array([1, 0])
    for call in (
        lambda: ancestors(np.array([0]), round_about, np.array([1, 2]), {1: 1}),
        lambda: Ascent(round_about, np.array([1, 2])),
    ):
        with pytest.raises(ValueError, match="higher level"):
            call()
    with pytest.raises(ValueError, match="a leaf is not a row"):
        ancestors(np.array([9]), TREE, np.array([3, 2, 2, 1, 1, 1]), {2: 1})


@given(forests(), st.integers(0, 9))
def test_sums_below_equal_a_recursive_sum(forest: Forest, seed: int) -> None:
    """A node's own value and all below it."""
    values = values_for(forest, seed)

    def total(row: int) -> float:
        return float(values[row]) + sum(total(child) for child in forest.children(row))

    found = Ascent(forest.parent, forest.level).sums(values)
    np.testing.assert_allclose(found, [total(row) for row in range(len(values))], atol=1e-12)


@given(forests(), st.integers(0, 9))
def test_means_below_equal_a_walk_to_the_leaves(forest: Forest, seed: int) -> None:
    """Each leaf counts once, however deep; what stands at inner nodes counts nothing."""
    values = values_for(forest, seed)

    def leaves(row: int) -> list[int]:
        return [leaf for child in forest.children(row) for leaf in leaves(child)] or [row]

    found = Ascent(forest.parent, forest.level).means(values)
    np.testing.assert_allclose(found, [values[leaves(row)].mean() for row in range(len(values))], atol=1e-12)
    with pytest.raises(ValueError, match="parents for"):
        Ascent(forest.parent, np.ones(len(values) + 1, dtype=np.int64))


def test_no_node_over_a_share_of_the_leaves_is_admitted() -> None:
    """Leaves always are; the share is of the whole tree, or of each node's own."""
    counts = np.array([10, 5, 4, 1, 1])
    assert bounded(counts, 10, 0.4).tolist() == [False, False, True, True, True]
    assert bounded(counts, 10, 0.0).tolist() == [False, False, False, True, True]
    assert bounded(counts, 10, 1.0).all()
    assert bounded(counts, np.array([20, 5, 20, 1, 1]), 0.5).tolist() == [True, False, True, True, True]
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="share="):
            bounded(counts, 10, share)


def test_activation_joins_two_channels_by_their_best() -> None:
    """Each channel's best is worth its weight, whatever the scale; similarity counts for the nearest leaves only."""
    dense, lexical = np.array([0.5, 0.25, -0.4, 0.5]), np.array([0.0, 8.0, 2.0, 0.0])
    ids = np.array([9, 7, 8, 1])
    both = activation(dense, lexical, ids, dense_top=None)
    np.testing.assert_allclose(both, [0.9, 0.45 + 0.1, 0.025, 0.9])
    np.testing.assert_allclose(activation(dense, lexical, ids, dense_top=1), [0, 0.1, 0.025, 0.9])
    np.testing.assert_allclose(activation(dense, lexical, ids, weight=1.0), [1, 0.5, 0, 1])
    np.testing.assert_allclose(activation(dense, lexical, ids, weight=0.0), [0, 1, 0.25, 0])
    assert activation(np.zeros(2), np.zeros(2), ids[:2]).tolist() == [0.0, 0.0]
    assert activation(np.zeros(0), np.zeros(0), ids[:0]).tolist() == []
    with pytest.raises(ValueError, match="weight=2"):
        activation(dense, lexical, ids, weight=2)


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 60)), min_size=1, max_size=20),
    st.tuples(st.integers(-40, 40), st.integers(0, 60)),
    st.floats(0, 1),
)
def test_fit_in_time_is_between_0_and_1(
    spans: list[tuple[int, int]], asked: tuple[int, int], overlap: float
) -> None:
    """For instants and long intervals, near and far; the interval asked about itself fits wholly."""
    start = np.array([first * DAY for first, _ in spans] + [asked[0] * DAY])
    end = start + np.array([length * DAY // 4 for _, length in spans] + [asked[1] * DAY // 4])
    found = time_overlap(start, end, (int(start[-1]), int(end[-1])), overlap=overlap)
    assert ((found >= 0) & (found <= 1)).all()
    assert found[-1] == pytest.approx(1)


def test_fit_in_time_by_hand() -> None:
    """Ten days that share five of fifteen, with centres five apart; and a wrong interval is refused."""
    start, end = np.array([0]), np.array([10 * DAY])
    (found,) = time_overlap(start, end, (5 * DAY, 15 * DAY), overlap=0.25)
    assert found == pytest.approx(0.25 * 5 / 15 + 0.75 * (1 - 5 / 15))
    assert time_overlap(start, start, (0, 0)).tolist() == [1.0]
    with pytest.raises(ValueError, match="ends before"):
        time_overlap(end, start, (0, DAY))
    with pytest.raises(ValueError, match="overlap"):
        time_overlap(start, end, (0, DAY), overlap=2)


def test_robustness_as_published() -> None:
    """A year's age after 0, 1, 5, 10 and 50 reinforcements; what is younger is stronger; the future has no age."""
    times = np.array([0, 1, 5, 10, 50])
    found = robustness(np.zeros(5, dtype=np.int64), times, 365 * DAY)
    np.testing.assert_allclose(found, [0.3679, 0.4759, 0.5901, 0.6346, 0.7138], atol=5e-5)
    younger = robustness(np.array([0, 10, 400]) * DAY, np.zeros(3, dtype=np.int64), 365 * DAY)
    assert younger[0] < younger[1] < younger[2] == 1
    with pytest.raises(ValueError, match="decay_days"):
        robustness(np.zeros(1, dtype=np.int64), np.array([-1]), 0)
