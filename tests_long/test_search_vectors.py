"""Vector tables: shared, immutable, and the same numbers however they came about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memforest.search.scores import cosines
from memforest.search.vectors import SIDE_BY_SIDE, Side, VectorTable


def unit(n: int, seed: int = 0, dimension: int = 8) -> NDArray[np.float32]:
    """Return n random unit rows."""
    rows: NDArray[np.float32] = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 99)), max_size=12))
def test_a_changed_table_holds_what_an_array_would(
    steps: list[tuple[int, int, int]],
) -> None:
    """Any sequence of dropped, kept, new and changed rows; and no older table is disturbed by it."""
    table, expected = VectorTable.of(unit(5)), unit(5)
    older = []
    for drop, new, seed in steps:
        kept = np.flatnonzero(np.arange(len(expected)) != drop)
        take = np.r_[kept, np.full(new, -1)].astype(np.int64)
        at = np.arange(len(kept), len(take))
        if len(kept) and seed % 2:
            at = np.r_[0, at]
        vectors = unit(len(at), seed)
        older.append((table, expected))
        wanted = np.zeros((len(take), 8), dtype=np.float32)
        wanted[: len(kept)] = expected[kept]
        wanted[at] = vectors
        table, expected = table.changed(take, at, vectors), wanted
    question = unit(1, 7)[0]
    for made, want in [*older, (table, expected)]:
        assert np.array_equal(made.rows, want)
        assert np.array_equal(made.cosines(question), VectorTable.of(want).cosines(question))
        first, second = made.cosines_of(question, -question)
        assert np.array_equal(first, made.cosines(question))
        assert np.array_equal(second, made.cosines(-question))
        some = np.arange(len(want))[::-2]
        assert np.array_equal(made.cosines_at(some, question), first[some])
        assert np.array_equal(made[np.arange(len(want))], want)


def test_unused_places_are_given_back() -> None:
    """A table whose rows change again and again does not grow without end."""
    table = VectorTable.of(unit(100))
    take, every = np.arange(100), np.arange(100)
    for seed in range(200):
        table = table.changed(take, every, unit(100, seed))
    assert table.nbytes < 100 * 8 * 4 * 30
    assert np.array_equal(table.rows, unit(100, 199))


def test_two_tables_that_come_of_one_do_not_mix() -> None:
    """Two threads may bring the same snapshot up to date."""
    base = VectorTable.of(unit(3))
    take, last = np.array([0, 1, 2, -1]), np.array([3])
    one, other = base.changed(take, last, unit(1, 1)), base.changed(take, last, unit(1, 2))
    assert np.array_equal(one.rows[3], unit(1, 1)[0])
    assert np.array_equal(other.rows[3], unit(1, 2)[0])


def test_a_table_cannot_be_changed_or_taken_for_an_array() -> None:
    """Its numbers are read-only, and arithmetic with arrays says so instead of looping over rows."""
    table = VectorTable.of(unit(3))
    with pytest.raises(ValueError, match="read-only"):
        table.rows[0, 0] = 1
    with pytest.raises(TypeError):
        unit(1)[0] @ table


def test_an_empty_table() -> None:
    """A memory without vectors has tables of no dimension."""
    table = VectorTable.blank(0, 0)
    assert (len(table), table.dimension, table.rows.shape) == (0, 0, (0, 0))
    assert table.changed(
        np.array([-1]), np.zeros(0, dtype=np.int64), np.zeros((0, 0), np.float32)
    ).rows.shape == (1, 0)


@pytest.mark.parametrize("n", [SIDE_BY_SIDE - 1, SIDE_BY_SIDE, SIDE_BY_SIDE + 1])
def test_halves_compared_side_by_side_give_the_same_bits(n: int) -> None:
    """From a number of rows on two threads share the work; no number shows it, in a changed table neither."""
    rows, one, other = unit(n), unit(1, 1)[0], unit(1, 2)[0]
    table = VectorTable.of(rows)
    assert np.array_equal(table.cosines(one), cosines(rows, one)[0])
    for found, question in zip(table.cosines_of(one, other), (one, other), strict=True):
        assert np.array_equal(found, cosines(rows, question)[0])
    changed = table.changed(np.arange(n), [3], unit(1, 3))
    rows[3] = unit(1, 3)[0]
    assert np.array_equal(changed.cosines(one), cosines(rows, one)[0])


def test_what_fails_beside_is_raised() -> None:
    """An error of the second thread is the caller's, not lost."""

    def fail() -> int:
        raise ZeroDivisionError

    with Side(fail) as side:
        pass
    with pytest.raises(ZeroDivisionError):
        side.result()


def test_vectors_of_another_length_are_refused_in_large_tables_too() -> None:
    """A question of the wrong dimension is an error, whoever compares."""
    with pytest.raises(ValueError, match="dimension"):
        VectorTable.of(unit(SIDE_BY_SIDE)).cosines(unit(1, 0, 9)[0])
