"""Any function as an embedder: a remote API, another library, a model of one's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from memforest.errors import ConfigError, ModelError
from memforest.models.base import Vectors
from memforest.models.inputs import checked_texts, unit_rows


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
        if not callable(fn):
            raise ConfigError(f"fn must be callable, got {type(fn).__name__}")
        if not model_id:
            raise ConfigError("model_id must not be empty; vectors of different models must not be mixed")
        for name, value in (("dimension", dimension), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value!r}")
        self.model_id = model_id
        self.dimension = dimension or 0
        self._fn = fn
        self._batch_size = batch_size
        self._is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
            getattr(fn, "__call__", None)  # noqa: B004 - asked for its kind, not whether it exists
        )

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
        try:
            reply = self._fn(texts) if self._is_async else await asyncio.to_thread(self._fn, texts)
            if inspect.isawaitable(reply):
                reply = await reply
        except ModelError:
            raise
        except Exception as exc:
            # Foreign code may raise anything; this is the one place where it becomes an error of ours.
            raise ModelError(f"embedder {self.model_id!r} failed: {type(exc).__name__}: {exc}") from exc
        rows = unit_rows(reply, len(texts), self.dimension, f"embedder {self.model_id!r}")
        self.dimension = rows.shape[1]
        return rows
