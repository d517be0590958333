"""The embedder that needs no network: a local encoder behind worker threads and a cache.

`LocalEmbedder` keeps the event loop free (every run happens in a worker thread, see `memforest.models.workers`),
and never runs a text twice while its vector is in the cache.

Cancelling an `embed` stops it after the groups in flight; what they computed stays in the cache. A forked
child starts with workers and locks of its own. At interpreter exit the groups in flight are finished.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError
from memforest.models.base import Vectors
from memforest.models.inputs import checked_texts
from memforest.models.onnx import OnnxModel, known_share, shared_encoder
from memforest.models.workers import Workers
from memforest.spans import PROVIDER, span

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
        model: the weights, e.g. `memforest.models.MINILM`.
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
