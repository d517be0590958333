"""Checking the texts that an embedder is given, and the rows that a model returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import InputError, ModelError
from memforest.models.base import Vectors


def checked_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts as they are, after checking that they are a sequence of strings.

    Raises:
        InputError: if `texts` is one string, whose characters would pass for texts, or holds anything else.
    """
    if isinstance(texts, str):
        raise InputError("embed() takes a sequence of texts, not one string; pass [text]")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {index} is not a string but {type(text).__name__}")
    return texts


def finite_scores(reply: Any, count: int, who: str) -> NDArray[np.float64]:
    """Return what a reranker returned as one number per text; float64 of shape (count,).

    Args:
        reply: anything that NumPy can read as a list of numbers.
        count: how many texts it was asked for.
        who: the reranker, for messages.

    Raises:
        ModelError: if it is something else, or a number is not finite.
    """
    try:
        found = np.asarray(reply)
    except (TypeError, ValueError, RuntimeError) as exc:
        raise ModelError(f"{who} returned what is no list of numbers: {exc}") from exc
    if found.dtype.kind not in "fiu" or found.shape != (count,):
        raise ModelError(
            f"{who} returned {found.dtype} of shape {found.shape} for {count} texts; expected one number per text"
        )
    scores = found.astype(np.float64)
    if not np.isfinite(scores).all():
        bad = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ModelError(f"{who} returned a number that is not finite for text {bad} of {count}")
    return scores


def unit_rows(reply: Any, count: int, dimension: int, who: str) -> Vectors:
    """Return what a model returned as rows of unit length.

    Args:
        reply: anything that NumPy can read as a matrix.
        count: how many texts it was asked for.
        dimension: length of the rows; 0 when it is not known yet.
        who: the embedder, for messages.

    Raises:
        ModelError: if the shape is wrong, or a row is all zeros or holds a number that is not finite.
    """
    try:
        raw = np.asarray(reply)
    except (TypeError, ValueError, RuntimeError) as exc:
        raise ModelError(f"{who} returned rows that are no matrix: {exc}") from exc
    if raw.dtype.kind not in "fiu":
        raise ModelError(f"{who} returned {raw.dtype} instead of real numbers")
    if raw.ndim != 2 or raw.shape[0] != count or raw.shape[1] == 0:
        raise ModelError(f"{who} returned shape {raw.shape} for {count} texts; expected ({count}, n)")
    if dimension and raw.shape[1] != dimension:
        raise ModelError(f"{who} returned {raw.shape[1]} numbers per text; expected {dimension}")
    rows = raw.astype(np.float64)
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ModelError(f"{who} returned a number that is not finite for text {bad} of {count}")
    # By the largest number first: squares of very large or small ones leave the range of a float.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        bad = int(np.flatnonzero(largest[:, 0] == 0)[0])
        raise ModelError(f"{who} returned a row of zeros for text {bad} of {count}")
    rows /= largest
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)
