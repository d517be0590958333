"""The embedder that needs no network: a local encoder behind worker threads and a cache.

`LocalEmbedder` keeps the event loop free (every run happens in a worker thread, see `memforest.models.local`),
and never runs a text twice while its vector is in the cache.

Cancelling an `embed` stops it after the groups in flight; what they computed stays in the cache. A forked
child starts with workers and locks of its own. At interpreter exit the groups in flight are finished.


Worker threads for model runs: they keep the event loop free, and share the cores fairly between calls.

A call has at most one small group of items per worker in flight, so a query does not wait behind a whole ingest.
Cancelling a call stops it after the groups in flight. A forked child starts with threads and a lock of its own.


Rerankers: local cross-encoder weights in worker threads, and any function of a question and texts.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError, ModelError
from memforest.models.base import Vectors, checked_texts, finite_scores
from memforest.models.onnx import OnnxModel, known_share, shared_cross_encoder, shared_encoder
from memforest.spans import PROVIDER, span

T = TypeVar("T")
R = TypeVar("R")

_GROUP = 4
"""Most items per hand-over to a worker: a few tens of ms, so that waiting and cancelling stay short."""


class Workers:
    """A few threads, started when first used.

    Args:
        count: threads at once, at least 1; the default is 2, or 1 on a single core.
        name: prefix of the threads' names.

    Raises:
        ConfigError: if the count is below 1.
    """

    def __init__(self, count: int | None, name: str) -> None:
        self.count = min(2, os.cpu_count() or 1) if count is None else count
        if self.count < 1:
            raise ConfigError(f"workers must be at least 1, got {count!r}")
        self._name = name
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        _alive_workers.add(self)

    async def run(
        self, work: Callable[[Sequence[T]], R], items: Sequence[T], done: Callable[[R], object]
    ) -> None:
        """Run all items, a lane per worker, all lanes taking groups from one queue.

        Args:
            work: runs a group in a thread.
            items: in the order in which they are begun.
            done: gets the result of each group, on the event loop.
        """
        queue = iter(items)
        # A question and its variant run side by side, not one behind the other in one group.
        size = min(_GROUP, -(-len(items) // self.count))
        lanes = [asyncio.ensure_future(self._drain(work, queue, size, done)) for _ in range(self.count)]
        try:
            await asyncio.gather(*lanes)
        finally:
            # After a failure the other lanes must not go on behind the caller's back.
            for lane in lanes:
                lane.cancel()

    async def _drain(
        self, work: Callable[[Sequence[T]], R], queue: Iterator[T], size: int, done: Callable[[R], object]
    ) -> None:
        while group := list(islice(queue, size)):
            done(await asyncio.wrap_future(self._submit(work, group)))

    def _submit(self, work: Callable[[Sequence[T]], R], group: Sequence[T]) -> Future[R]:
        # Under the lock, so that close() cannot shut the threads down in between.
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.count, thread_name_prefix=self._name)
            return self._threads.submit(work, group)

    def close(self) -> None:
        """Give the threads back when what they do is done; a later `run` starts them again."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def _after_fork_in_child(self) -> None:
        # Threads do not cross a fork, and the lock may be held by one that is gone.
        self._lock = threading.Lock()
        self._threads = None


_alive_workers: weakref.WeakSet[Workers] = weakref.WeakSet()


def _workers_after_fork() -> None:
    for workers in list(_alive_workers):
        workers._after_fork_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_workers_after_fork)


DEFAULT_CACHE_BYTES = 32 * 1024 * 1024
"""About 19,000 vectors of 384 numbers."""
_ENTRY_OVERHEAD_BYTES = 240
"""A cache entry beside its numbers: the key, the array header and the links. Measured on CPython 3.11."""

_Row = NDArray[np.float32]
_Keyed = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class EmbedderUsage:
    """What an embedder did since it was made."""

    texts_asked: int = 0
    """Texts handed to `embed`, repetitions included."""
    texts_run: int = 0
    """Texts the model really ran; the rest came from the cache or from the same call."""
    run_seconds: float = 0.0
    """Time spent running, summed over workers (two workers busy for 1 s count 2 s)."""


class _VectorCache:
    """Vectors by text key, the least recently used dropped first. Not locked: its owner does that."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._rows: OrderedDict[bytes, _Row] = OrderedDict()

    def get(self, key: bytes) -> _Row | None:
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, key: bytes, row: _Row) -> None:
        if key in self._rows:
            return
        self._rows[key] = row
        self._size += row.nbytes + _ENTRY_OVERHEAD_BYTES
        while self._size > self._limit:
            _, dropped = self._rows.popitem(last=False)
            self._size -= dropped.nbytes + _ENTRY_OVERHEAD_BYTES


class LocalEmbedder:
    """Embeds texts with local weights, in threads. Use it from any thread or event loop.

    Making one loads nothing; the first `embed` opens the model. All embedders of one model share its
    weights; share the embedder too where you can, for its cache.

    Args:
        model: the weights, e.g. `memforest.models.catalog.MINILM`.
        workers: threads that run texts at once; at least 1. The default is 2, or 1 on a single core.
        cache_bytes: upper bound of the vectors kept in memory; 0 keeps none.

    Raises:
        ConfigError: if a setting is out of range.
    """

    def __init__(
        self, model: OnnxModel, *, workers: int | None = None, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        if cache_bytes < 0:
            raise ConfigError(f"cache_bytes must not be negative, got {cache_bytes!r}")
        self.model_id = model.model_id
        self.dimension = model.dimension
        self._workers = Workers(workers, "memforest-embed")
        self._encoder = shared_encoder(model)
        self._cache_bytes = cache_bytes
        self._cache = _VectorCache(cache_bytes)
        self._usage = EmbedderUsage()
        self._lock = threading.Lock()
        _alive.add(self)

    @property
    def workers(self) -> int:
        """Threads that run texts at once."""
        return self._workers.count

    @property
    def usage(self) -> EmbedderUsage:
        """What was asked and run so far, in this process."""
        with self._lock:
            return self._usage

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order; float32, shape (n, dimension). The array is the caller's.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            WeightsError: if the weights are missing or not the pinned ones.
            ModelError: if the model cannot be run.
        """
        keys = [_key(text) for text in checked_texts(texts)]
        rows = self._cached(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
        if missing:

            def keep(made: list[tuple[bytes, _Row]]) -> None:
                rows.update(made)

            with span(f"embeddings {self.model_id}", self._about):
                await self._workers.run(self._run, list(missing.items()), keep)
        result = np.empty((len(keys), self.dimension), dtype=np.float32)
        for index, key in enumerate(keys):
            result[index] = rows[key]
        return result

    def known_shares(self, texts: Sequence[str]) -> list[float]:
        """Return which share of each text the model has words for; see `WordPiece.known_share`.

        Raises:
            WeightsError: if the shipped vocabulary cannot be used.
        """
        return [known_share(text) for text in texts]

    def close(self) -> None:
        """Give the worker threads and the cached vectors back; a later `embed` starts them again."""
        with self._lock:
            self._cache = _VectorCache(self._cache_bytes)
        self._workers.close()

    @property
    def _about(self) -> dict[str, str | int | float | bool]:
        """What a span says of a run of the model; it runs in this process."""
        return {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": self.model_id,
        }

    def _cached(self, keys: Sequence[bytes]) -> dict[bytes, _Row]:
        with self._lock:
            done = self._usage
            self._usage = EmbedderUsage(done.texts_asked + len(keys), done.texts_run, done.run_seconds)
            found = {key: self._cache.get(key) for key in keys}
        return {key: row for key, row in found.items() if row is not None}

    def _run(self, group: Sequence[_Keyed]) -> list[tuple[bytes, _Row]]:
        """Run a group's texts one by one; the only place that uses the model."""
        started = perf_counter()
        made = [(key, self._encoder.encode(text)) for key, text in group]
        seconds = perf_counter() - started
        with self._lock:
            done = self._usage
            self._usage = EmbedderUsage(
                done.texts_asked, done.texts_run + len(made), done.run_seconds + seconds
            )
            for key, row in made:
                self._cache.put(key, row)
        return made

    def _after_fork_in_child(self) -> None:
        # The lock may be held by a thread that is gone; a cache that a thread was changing at that moment may be
        # half-changed.
        self._lock = threading.Lock()
        self._cache = _VectorCache(self._cache_bytes)


def _key(text: str) -> bytes:
    # surrogatepass: a transcript may hold lone surrogates, and they must not collide.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_alive: weakref.WeakSet[LocalEmbedder] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for embedder in list(_alive):
        embedder._after_fork_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)


class LocalReranker:
    """Scores pairs with local weights, one pair per run, in threads. Use it from any thread or event loop.

    Making one loads nothing; the first `score` opens the model. All rerankers of one model share its weights.

    Args:
        model: the weights, `memforest.models.catalog.MS_MARCO`.
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
