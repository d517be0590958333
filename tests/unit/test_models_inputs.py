"""What is taken from a model of one's own: texts that are texts, rows of unit length, scores that are numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import InputError, ModelError
from memforest.models import CallableEmbedder, CallableReranker, HashEmbedder
from memforest.models.base import checked_texts, finite_scores, unit_rows

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


class Ragged:
    """What NumPy asks for its numbers, and gets an error from."""

    def __array__(self, *_args: Any, **_more: Any) -> Any:
        """Fail as a tensor on another device does."""
        raise RuntimeError("the tensor is not here")


@each("texts", [[], ["a"], ("a", ""), ["\ud800", "a\x00"]])
def test_texts_are_handed_on_as_they_are(texts: Sequence[str]) -> None:
    """The same object, whatever characters are in them."""
    assert checked_texts(texts) is texts


@each(
    ("texts", "said"),
    [
        ("", "not one string"),
        ("abc", r"pass \[text\]"),
        ([1], "text 0 is not a string but int"),
        (["a", None, 2], "text 1 is not a string but NoneType"),
        (["a", b"b"], "text 1 is not a string but bytes"),
    ],
)
def test_what_is_no_list_of_texts_is_told_by_its_place(texts: Any, said: str) -> None:
    """The first that is wrong, and what it is."""
    with pytest.raises(InputError, match=said):
        checked_texts(texts)


@pytest.mark.parametrize("texts", ["abc", ["a", 1]])
def test_no_model_is_asked_about_bad_texts(texts: Any) -> None:
    """Every embedder and reranker refuses them first."""
    asked: list[Any] = []
    embedder = CallableEmbedder(lambda got: asked.append(got), model_id="mine")
    reranker = CallableReranker(lambda _question, got: asked.append(got), model_id="mine")
    for call in (embedder.embed(texts), reranker.score("q", texts), HashEmbedder().embed(texts)):
        with pytest.raises(InputError):
            asyncio.run(call)
    assert asked == []


@given(rows=st.lists(st.lists(NUMBERS, min_size=3, max_size=3), max_size=4))
def test_any_finite_rows_become_unit_rows_or_are_refused_as_zeros(rows: list[list[float]]) -> None:
    """Also of the largest and the smallest numbers there are; the direction stays."""
    if not rows or not all(any(row) for row in rows):
        with pytest.raises(ModelError):
            unit_rows(rows, len(rows), 3, "it")
        return
    found = unit_rows(rows, len(rows), 3, "it")
    assert found.dtype == np.float32
    assert np.linalg.norm(found.astype(np.float64), axis=1) == pytest.approx(1, abs=1e-6)
    for row, unit in zip(rows, found, strict=True):
        largest = int(np.argmax(np.abs(row)))
        assert np.sign(unit[largest]) == np.sign(row[largest])
        assert abs(unit[largest]) == pytest.approx(np.abs(unit).max())


@each("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64])
def test_rows_of_every_kind_of_number_are_taken(dtype: Any) -> None:
    """Whole numbers too, as quantised models return them; what was handed in is not changed."""
    given_rows = np.array([[3, 4], [0, 1]], dtype=dtype)
    found = unit_rows(given_rows, 2, 0, "it")
    assert found.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 1.0]]
    assert given_rows.tolist() == [[3, 4], [0, 1]]


@each(
    ("reply", "count", "dimension", "said"),
    [
        (Ragged(), 1, 0, r"rows that are not a matrix: the tensor is not here"),
        ([[True]], 1, 0, r"returned bool instead of real numbers"),
        ([["1"]], 1, 0, r"instead of real numbers"),
        ([[[1.0]]], 1, 0, r"shape \(1, 1, 1\) for 1 texts; expected \(1, n\)"),
        ([[1.0]], 2, 0, r"shape \(1, 1\) for 2 texts"),
        (np.zeros((2, 0)), 2, 0, r"shape \(2, 0\)"),
        ([[1.0, 2.0]], 1, 3, r"returned 2 numbers per text; expected 3"),
        ([[1.0, 2.0]], 1, 1, r"returned 2 numbers per text; expected 1"),
        ([[1.0], [np.nan], [np.inf]], 3, 0, r"not finite for text 1 of 3"),
        ([[0.0, 1.0], [0.0, -0.0]], 2, 0, r"zeros for text 1 of 2"),
    ],
)
def test_rows_that_are_none_are_told_with_what_was_wrong(
    reply: Any, count: int, dimension: int, said: str
) -> None:
    """Who returned them, and the first text concerned."""
    with pytest.raises(ModelError, match=said) as caught:
        unit_rows(reply, count, dimension, "embedder 'mine'")
    assert str(caught.value).startswith("embedder 'mine' returned ")


@given(scores=st.lists(NUMBERS, min_size=1, max_size=5))
def test_finite_scores_are_taken_to_the_last_bit(scores: list[float]) -> None:
    """As float64, whatever they came as."""
    found = finite_scores(scores, len(scores), "it")
    assert found.dtype == np.float64
    assert found.tolist() == scores


@each(
    ("reply", "count", "said"),
    [
        (Ragged(), 1, "not a list of numbers: the tensor is not here"),
        ([[1.0], [2.0, 3.0]], 2, "not a list of numbers"),
        ([True, False], 2, r"bool of shape \(2,\)"),
        ([[1.0], [2.0]], 2, r"shape \(2, 1\) for 2 texts; expected numbers of shape \(2,\)"),
        ([1.0], 2, r"shape \(1,\) for 2 texts"),
        (1.0, 1, r"shape \(\) for 1 texts"),
        (None, 1, "object of shape"),
        ([1.0, np.nan, np.inf], 3, "not finite for text 1 of 3"),
    ],
)
def test_scores_that_are_none_are_told_with_what_was_wrong(reply: Any, count: int, said: str) -> None:
    """Who returned them, and the first text concerned."""
    with pytest.raises(ModelError, match=said) as caught:
        finite_scores(reply, count, "reranker 'mine'")
    assert str(caught.value).startswith("reranker 'mine' returned ")
