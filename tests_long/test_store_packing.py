"""BLOBs give back what was put into them, on every machine alike, and bytes that are none are an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.table import each

from memforest.store.derived import (
    NUMBER,
    pack_text,
    pack_vector,
    unpack_text,
    unpack_vectors,
)
from memforest.store.sessions import turn_digest

NUMBERS = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=64)
VALUES = st.lists(st.none() | st.integers() | st.text(max_size=8), min_size=1, max_size=9)


def as_stored(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors as they are read back."""
    return rows.astype(NUMBER).astype(np.float32)


@given(st.text())
def test_texts_come_back(text: str) -> None:
    """In every script."""
    assert unpack_text(pack_text(text)) == text


@given(st.text(min_size=1, max_size=200), st.integers(1, 10))
def test_a_text_that_was_cut_is_an_error(text: str, lost: int) -> None:
    """It is not taken for a shorter one."""
    blob = pack_text(text)
    with pytest.raises(ValueError, match="no compressed text"):
        unpack_text(blob[: -min(lost, len(blob))])


@given(NUMBERS)
def test_a_vector_is_before_it_is_written_what_it_is_after(numbers: list[float]) -> None:
    """Rounding is done once: what was compared with questions is what is read again."""
    vector = np.array(numbers, dtype=np.float32)
    stored = as_stored(vector)
    assert np.array_equal(unpack_vectors(pack_vector(vector))[0], stored)
    assert np.array_equal(as_stored(stored), stored)
    assert np.abs(stored - vector).max() <= 2**-11


@given(st.integers(0, 2**32 - 1))
def test_half_precision_moves_no_cosine_by_more_than_is_said(seed: int) -> None:
    """Of unit vectors of 384 numbers, by some 1e-5."""
    rng = np.random.default_rng(seed)
    one, other = (row / np.linalg.norm(row) for row in rng.standard_normal((2, 384)).astype(np.float32))
    assert abs(float(as_stored(one) @ as_stored(other)) - float(one @ other)) < 1e-4


def test_vectors_of_two_lengths_are_refused() -> None:
    """They would be read as others."""
    one, other = pack_vector(np.ones(3, dtype=np.float32)), pack_vector(np.ones(4, dtype=np.float32))
    with pytest.raises(ValueError, match="reshape"):
        unpack_vectors(one, other)


@given(VALUES, VALUES)
def test_turns_that_differ_have_digests_that_do(one: list[object], other: list[object]) -> None:
    """Wherever the difference is: a value, its kind, or where one value ends and the next begins."""
    read = [[None if value is None else str(value) for value in values] for values in (one, other)]
    digests = [turn_digest(values) for values in (one, other)]  # type: ignore[arg-type]
    assert (digests[0] == digests[1]) == (read[0] == read[1])


@each(
    ("one", "other"),
    [(["ab", "c"], ["a", "bc"]), (["", "a"], ["a", ""]), ([None], [""]), (["1:a"], ["a"]), (["-"], [None])],
)
def test_no_two_turns_read_alike(one: list[str | None], other: list[str | None]) -> None:
    """Joined, these are the same characters."""
    assert turn_digest(one) != turn_digest(other)


@given(st.text())
def test_a_text_and_its_bytes_have_one_digest(text: str) -> None:
    """Damaged texts are read as bytes."""
    assert turn_digest([text, 1]) == turn_digest([text.encode(), 1])
