"""Rerankers: local cross-encoder weights in worker threads, and any function of a question and texts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, ModelError
from memforest.models.inputs import checked_texts, finite_scores
from memforest.models.onnx import OnnxModel, shared_cross_encoder
from memforest.models.workers import Workers


class LocalReranker:
    """Scores pairs with local weights, one pair per run, in threads. Use it from any thread or event loop.

    Making one loads nothing; the first `score` opens the model. All rerankers of one model share its weights.

    Args:
        model: the weights, `memforest.models.MS_MARCO`.
        workers: threads that run pairs at once; at least 1. The default is 2, or 1 on a single core.

    Raises:
        ConfigError: if `workers` is below 1.
    """

    logits = True
    """Its scores are logits; see `Reranker.score`."""

    def __init__(self, model: OnnxModel, *, workers: int | None = None) -> None:
        self.model_id = model.model_id
        self._encoder = shared_cross_encoder(model)
        self._workers = Workers(workers, "memforest-rerank")

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one logit per text, in order; float64 of shape (n,). Equal texts run once.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            WeightsError: if the weights are missing or not the pinned ones.
            ModelError: if the model cannot be run.
        """
        found: dict[str, float] = {}

        def work(group: Sequence[str]) -> list[tuple[str, float]]:
            return [(text, self._encoder.score(question, text)) for text in group]

        def keep(scored: list[tuple[str, float]]) -> None:
            found.update(scored)

        if distinct := list(dict.fromkeys(checked_texts(texts))):
            await self._workers.run(work, distinct, keep)
        return np.array([found[text] for text in texts], dtype=np.float64)

    def close(self) -> None:
        """Give the worker threads back; a later `score` starts them again."""
        self._workers.close()


class CallableReranker:
    """Wraps a function of a question and texts; checks what it returns.

    The function gets the question and a list of strings and returns one number per string, higher is better. It
    may be a coroutine function; a plain one runs in a thread, so it may block, and may be called from several
    threads at once.

    Args:
        fn: the function.
        model_id: identity of the model behind it, shown in traces. Not empty.
        logits: whether its numbers are logits; see `Reranker.score`.

    Raises:
        ConfigError: if `fn` is not callable or `model_id` is empty.
    """

    def __init__(self, fn: Callable[[str, list[str]], Any], *, model_id: str, logits: bool = False) -> None:
        if not callable(fn):
            raise ConfigError(f"fn must be callable, got {type(fn).__name__}")
        if not model_id:
            raise ConfigError("model_id must not be empty; traces say by it who ranked")
        self.model_id = model_id
        self.logits = logits
        self._fn = fn
        self._is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
            getattr(fn, "__call__", None)  # noqa: B004 - asked for its kind, not whether it exists
        )

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one number per text, in order; float64 of shape (n,). No text, no call.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            ModelError: if the function fails (its exception is the cause), or returns something else than one
                finite number per text.
        """
        asked = list(checked_texts(texts))
        if not asked:
            return np.zeros(0)
        try:
            reply = (
                self._fn(question, asked)
                if self._is_async
                else await asyncio.to_thread(self._fn, question, asked)
            )
            if inspect.isawaitable(reply):
                reply = await reply
        except ModelError:
            raise
        except Exception as exc:
            # Foreign code may raise anything; this is the one place where it becomes an error of ours.
            raise ModelError(f"reranker {self.model_id!r} failed: {type(exc).__name__}: {exc}") from exc
        return finite_scores(reply, len(asked), f"reranker {self.model_id!r}")
