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
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of, begins_anew_in_child
from memforest.errors import ConfigError
from memforest.models.base import ForeignFunction, Vectors, checked_texts, finite_scores
from memforest.models.onnx import OnnxModel, known_share, shared_cross_encoder, shared_encoder
from memforest.ports import STANDS
from memforest.spans import PROVIDER, model_span

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
        begins_anew_in_child(self)

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
        await all_of(self._drain(work, queue, size, done) for _ in range(self.count))

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

    def after_fork_in_child(self) -> None:
        """Start other threads at the next run."""
        # Threads do not cross a fork, and the lock may be held by one that is gone.
        self._lock = threading.Lock()
        self._threads = None


DEFAULT_CACHE_BYTES = 32 * 1024 * 1024
"""About 19,000 vectors of 384 numbers."""
_ENTRY_OVERHEAD_BYTES = 240
"""A cache entry beside its numbers: the key, the array header and the links. Measured on CPython 3.11."""

_Row = NDArray[np.float32]
_Keyed = tuple[bytes, str]


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
        self.texts_run = 0
        """Texts that the model really ran since this was made; the rest came from the cache or from the same call."""
        self._lock = threading.Lock()
        begins_anew_in_child(self)

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
            keep: Callable[[list[tuple[bytes, _Row]]], None] = rows.update
            with model_span("embeddings", PROVIDER, self.model_id):
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

    def _cached(self, keys: Sequence[bytes]) -> dict[bytes, _Row]:
        with self._lock:
            return {key: row for key in keys if (row := self._cache.get(key)) is not None}

    def _run(self, group: Sequence[_Keyed]) -> list[tuple[bytes, _Row]]:
        """Run a group's texts one by one; the only place that uses the model."""
        made = [(key, self._encoder.encode(text)) for key, text in group]
        with self._lock:
            self.texts_run += len(made)
            for key, row in made:
                self._cache.put(key, row)
        return made

    def after_fork_in_child(self) -> None:
        """Begin with an empty cache."""
        # The lock may be held by a thread that is gone; a cache that a thread was changing at that moment may be
        # half-changed.
        self._lock = threading.Lock()
        self._cache = _VectorCache(self._cache_bytes)


def _key(text: str) -> bytes:
    # surrogatepass: a transcript may hold lone surrogates, and they must not collide.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class LocalReranker:
    """Scores pairs with local weights, one pair per run, in threads. Use it from any thread or event loop.

    Making one loads nothing; the first `score` opens the model. All rerankers of one model share its weights.

    Args:
        model: the weights, `memforest.models.catalog.MS_MARCO`.
        workers: threads that run pairs at once; at least 1. The default is 2, or 1 on a single core.

    Raises:
        ConfigError: if `workers` is below 1.
    """

    def __init__(self, model: OnnxModel, *, workers: int | None = None) -> None:
        self.model_id = model.model_id
        self._encoder = shared_cross_encoder(model)
        self._workers = Workers(workers, "memforest-rerank")

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one logit per text, in order; float64 of shape (n,). Errors are those of `read_states`."""
        return (await self.read_states(question, texts))[:, 0]

    async def read_states(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return what `ReadsStates.read_states` does, with a logit for each score. Equal texts run once.

        Raises:
            InputError: if `texts` is one string, or holds something else than strings.
            WeightsError: if the weights are missing or not the pinned ones.
            ModelError: if the model cannot be run.
        """
        found: dict[str, NDArray[np.float64]] = {}

        def work(group: Sequence[str]) -> list[tuple[str, NDArray[np.float64]]]:
            return [(text, self._encoder.read(question, text)) for text in group]

        keep: Callable[[list[tuple[str, NDArray[np.float64]]]], None] = found.update
        if distinct := list(dict.fromkeys(checked_texts(texts))):
            await self._workers.run(work, distinct, keep)
        return np.array([found[text] for text in texts]).reshape(-1, 1 + len(STANDS))

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

    Raises:
        ConfigError: if `fn` is not callable or `model_id` is empty.
    """

    def __init__(self, fn: Callable[[str, list[str]], Any], *, model_id: str) -> None:
        self._function = ForeignFunction(fn, "reranker", model_id, "traces say by it who ranked")
        self.model_id = model_id

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
        return finite_scores(await self._function.call(question, asked), len(asked), self._function.name)
