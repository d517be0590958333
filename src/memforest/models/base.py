"""The model ports (see `memforest.ports`), and what embedders return.

Checking the texts that an embedder is given, and the rows that a model returns.

Any function as an embedder: a remote API, another library, a model of one's own.

A word-overlap embedder for tests: no weights, microseconds per text, the same bytes everywhere.

It knows spelling, not meaning: texts are near each other when they share words. Use it to test and time what
is built on embeddings; do not use it to judge retrieval, and do not give it to users as a default.

"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, InputError, ModelError
from memforest.text import snowball_stem

Vectors = NDArray[np.float32]
"""float32, shape (n, dimension), rows of unit length."""


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


def finite_scores(reply: Any, count: int, who: str, *columns: int) -> NDArray[np.float64]:
    """Return what a reranker returned as one number, or row of numbers, per text; float64 of shape (count, *columns).

    Args:
        reply: anything that NumPy can read as a list of numbers.
        count: how many texts it was asked for.
        who: the reranker, for messages.
        columns: how many numbers a row has; nothing for one number per text.

    Raises:
        ModelError: if it is something else, or a number is not finite.
    """
    try:
        found = np.asarray(reply)
    except (TypeError, ValueError, RuntimeError) as exc:
        raise ModelError(f"{who} returned something that is not a list of numbers: {exc}") from exc
    if found.dtype.kind not in "fiu" or found.shape != (count, *columns):
        raise ModelError(
            f"{who} returned {found.dtype} of shape {found.shape} for {count} texts; expected numbers of shape {(count, *columns)}"
        )
    scores = found.astype(np.float64)
    if not np.isfinite(scores).all():
        bad = int(np.argwhere(~np.isfinite(scores))[0, 0])
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
        raise ModelError(f"{who} returned rows that are not a matrix: {exc}") from exc
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


class ForeignFunction:
    """A function of the caller's as a model: a coroutine function, or a plain one, which runs in a thread.

    Args:
        fn: the function.
        what: what it stands for, for messages.
        model_id: identity of the model behind it.
        why: why there must be one.

    Raises:
        ConfigError: if `fn` is not callable or `model_id` is empty.
    """

    def __init__(self, fn: Callable[..., Any], what: str, model_id: str, why: str) -> None:
        if not callable(fn):
            raise ConfigError(f"fn must be callable, got {type(fn).__name__}")
        if not model_id:
            raise ConfigError(f"model_id must not be empty; {why}")
        self.name = f"{what} {model_id!r}"
        self._fn = fn
        self._is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
            getattr(fn, "__call__", None)  # noqa: B004 - asked for its kind, not whether it exists
        )

    async def call(self, *args: Any) -> Any:
        """Return what the function returns, or what that awaits.

        Raises:
            ModelError: if the function fails; its exception is the cause.
        """
        try:
            reply = self._fn(*args) if self._is_async else await asyncio.to_thread(self._fn, *args)
            return await reply if inspect.isawaitable(reply) else reply
        except ModelError:
            raise
        except Exception as exc:
            # Foreign code may raise anything; this is the one place where it becomes an error of ours.
            raise ModelError(f"{self.name} failed: {type(exc).__name__}: {exc}") from exc


class CallableEmbedder:
    """Wraps a function from texts to rows; checks what it returns and scales the rows to unit length.

    The function gets a list of strings and returns one row of numbers per string: nested lists, a NumPy
    array, or anything NumPy can read. It may be a coroutine function; a plain one runs in a thread, so it
    may block, and may be called from several threads at once. That a text's vector does not depend on the
    texts beside it is the function's promise to keep.

    Args:
        fn: the function.
        model_id: identity of the model behind it, stored beside every vector; change it when the vectors
            change. Not empty.
        dimension: length of the rows; learnt from the first reply when left out, and 0 until then.
        batch_size: texts per call at most; everything in one call when left out.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self,
        fn: Callable[[list[str]], Any],
        *,
        model_id: str,
        dimension: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self._function = ForeignFunction(
            fn, "embedder", model_id, "vectors of different models must not be mixed"
        )
        for name, value in (("dimension", dimension), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value!r}")
        self.model_id = model_id
        self.dimension = dimension or 0
        self._batch_size = batch_size

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order; float32, shape (n, dimension). No text, no call.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            ModelError: if the function fails (its exception is the cause), or returns the wrong shape,
                numbers that are not finite, or a row of zeros.
        """
        if not checked_texts(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        size = self._batch_size or len(texts)
        parts = [await self._embed_batch(list(texts[at : at + size])) for at in range(0, len(texts), size)]
        return np.concatenate(parts)

    async def _embed_batch(self, texts: list[str]) -> Vectors:
        reply = await self._function.call(texts)
        rows = unit_rows(reply, len(texts), self.dimension, self._function.name)
        self.dimension = rows.shape[1]
        return rows


_WORD = re.compile(r"\w+")
_SHORT = 3
"""ASCII words of at most this many letters ("the", "and") mostly carry no content."""
_SHORT_WEIGHT, _WEIGHT = 1, 4


class HashEmbedder:
    """Embeds a text as the sum of fixed pseudo-random vectors of its words. For tests and benchmarks.

    ASCII words are stemmed as English; a word with any other character counts as itself and as its pairs of
    neighbouring characters, so that scripts without spaces and other languages' endings overlap too. Word
    order is ignored. Sums are whole numbers, hence exact: the same text has the same bytes in every process
    and on every machine.

    Args:
        dimension: length of the vectors; at least 1. Unrelated texts have a cosine of about 0, with a
            standard deviation of about 1 / sqrt(dimension).

    Raises:
        ConfigError: if the dimension is out of range.

    Example:
        >>> import asyncio
        >>> rows = asyncio.run(HashEmbedder(256).embed(["Ann adopted two cats", "a cat was adopted", "tax"]))
        >>> bool(rows[0] @ rows[1] > rows[0] @ rows[2])
        True
    """

    def __init__(self, dimension: int = 64) -> None:
        if dimension < 1:
            raise ConfigError(f"dimension must be at least 1, got {dimension!r}")
        self.model_id = f"hash-words-1@{dimension}"
        self.dimension = dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order. A text without words gets a fixed row.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
        """
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for index, text in enumerate(checked_texts(texts)):
            total = np.zeros(self.dimension, dtype=np.int64)
            for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
                if word.isascii():
                    weight = _SHORT_WEIGHT if len(word) <= _SHORT else _WEIGHT
                    total += weight * _signs(_stem(word, "english"), self.dimension)
                else:
                    for term in (word, *(word[at : at + 2] for at in range(len(word) - 1))):
                        total += _WEIGHT * _signs(term, self.dimension)
            if not total.any():
                total[0] = 1
            rows[index] = total / np.sqrt(np.float64(total @ total))
        return rows


_stem = functools.lru_cache(maxsize=8192)(snowball_stem)


@functools.lru_cache(maxsize=8192)
def _signs(term: str, dimension: int) -> NDArray[np.int64]:
    """Return the term's fixed vector of +1 and -1, read off the bits of a hash."""
    data = b""
    while len(data) * 8 < dimension:
        block = len(data).to_bytes(4, "little")
        data += hashlib.blake2b(term.encode("utf-8", "surrogatepass"), salt=block).digest()
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=dimension)
    signs = bits.astype(np.int64) * 2 - 1
    signs.flags.writeable = False
    return signs
