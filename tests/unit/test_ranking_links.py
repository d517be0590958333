"""Links between like nodes that are far apart, against a walk over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.ranking import Links, along_links, cross_links, links

seeds = st.integers(0, 10_000)


def nodes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vectors and spans of up to 20 nodes: leaves, runs of them, and some without a vector."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 21))
    vectors = rng.normal(size=(count, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    vectors[rng.random(count) < 0.1] = 0
    first = rng.integers(1, 12, count)
    return vectors, first, first + rng.integers(1, 5, count)


@settings(max_examples=60)
@given(seeds, st.sampled_from([0.01, 0.4, 0.9]), st.integers(0, 4), st.integers(1, 3))
def test_links_are_the_nearest_of_those_far_apart(seed: int, threshold: float, most: int, apart: int) -> None:
    """Pair by pair: likest first, smaller rows first of equal ones; no relative, no neighbour, no node without a vector."""
    vectors, first, end = nodes(seed)
    wanted = []
    for col in range(len(vectors)):
        like = []
        for row in range(len(vectors)):
            between = max(first[row] - end[col], first[col] - end[row])
            cosine = round(float(vectors[row] @ vectors[col]), 6)
            if between >= apart and cosine >= threshold:
                like.append((-cosine, row))
        wanted += [(row, col, -cosine) for cosine, row in sorted(like)[:most]]
    found = cross_links(vectors, first, end, threshold=threshold, most=most, apart=apart)
    assert list(zip(found.rows.tolist(), found.cols.tolist(), strict=True)) == [one[:2] for one in wanted]
    assert found.weights.tolist() == pytest.approx([one[2] for one in wanted], abs=2e-6)


def test_blocks_change_nothing_and_bound_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node by node the same links come out; a link has three numbers, and a node few links."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first = np.arange(1, 301)
    whole = cross_links(vectors, first, first + 1, threshold=0.3, most=3)
    monkeypatch.setattr(links, "_CELLS", 300)
    single = cross_links(vectors, first, first + 1, threshold=0.3, most=3)
    assert [one.tolist() for one in single[:2]] == [one.tolist() for one in whole[:2]]
    assert 0 < len(whole.rows) <= 900
    assert whole.nbytes == 24 * len(whole.rows)


@settings(max_examples=60)
@given(seeds, st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from(["leak", "stay"]))
def test_shares_go_along_links_by_their_weights(seed: int, decay: float, sink: str) -> None:
    """As by a matrix whose columns sum to 1 where a node has links, and to 0, or 1 on the diagonal, where it has none."""
    vectors, first, end = nodes(seed)
    found = cross_links(vectors, first, end, threshold=0.1, most=3)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(vectors))) if len(vectors) else np.zeros(0)
    matrix = np.zeros((len(vectors), len(vectors)))
    matrix[found.rows, found.cols] = found.weights
    sums = matrix.sum(axis=0)
    matrix = matrix / np.where(sums > 0, sums, 1)
    if sink == "stay":
        matrix += np.diag(sums == 0)
    got = along_links(shares, found, decay, sink=sink)  # type: ignore[arg-type]
    np.testing.assert_allclose(got, (shares + decay * matrix @ shares) / (1 + decay), atol=1e-12)
    if sink == "stay":
        assert got.sum() == pytest.approx(shares.sum())


def test_a_recurring_topic_is_reached() -> None:
    """What is relevant lifts its distant like, which no edge of a tree leads to, and not what lies between."""
    vectors = np.array([[1, 0], [0, 1], [0, 1], [1, 0]], dtype=np.float32)
    first = np.arange(1, 5)
    found = cross_links(vectors, first, first + 1)
    lifted = along_links(np.array([1.0, 0, 0, 0]), found, 0.5)
    assert lifted.tolist() == pytest.approx([2 / 3, 0, 0, 1 / 3])


@each(
    ("options", "said"),
    [
        ({"threshold": 0.0}, r"threshold=0\.0"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"most": -1}, "most=-1"),
        ({"apart": 0}, "apart=0"),
        ({"end": np.array([1, 3])}, "empty"),
        ({"end": np.array([2])}, "2 vectors for 2 and 1"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, object], said: str) -> None:
    """Each is an error that says which."""
    right = {"vectors": np.eye(2, dtype=np.float32), "first": np.array([1, 2]), "end": np.array([2, 3])}
    with pytest.raises(ValueError, match=said):
        cross_links(**{**right, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"decay": 2.0}, "decay=2"),
        ({"sink": "drain"}, "sink='drain'"),
        ({"shares": np.ones(1)}, "not between rows"),
    ],
)
def test_wrong_links_are_refused(options: dict[str, object], said: str) -> None:
    """A decay, a sink, or a link to a row that is not there."""
    one = Links(np.array([1]), np.array([0]), np.array([0.5]))
    with pytest.raises(ValueError, match=said):
        along_links(**{"shares": np.ones(2), "links": one, **options})  # type: ignore[arg-type]
