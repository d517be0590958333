"""The `Host` of one memory: what its indexes use for work that waits; see `memforest.systems.host.Host`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.config import Config
from memforest.errors import ModelError
from memforest.memory.summaries import Summaries
from memforest.memory.timing import Timer
from memforest.models import Embedder
from memforest.ports import embed_questions
from memforest.search.cache import Snapshots
from memforest.search.snapshot import Snapshot
from memforest.steps.choose import Steps
from memforest.store import meta
from memforest.store.db import Database
from memforest.store.savepoint import attempt
from memforest.store.tx import Tx

__all__ = ["PAUSE_S", "MemoryHost"]

T = TypeVar("T")

PAUSE_S = 0.1
"""Seconds between two writes that let others come in: as long as SQLite lets a waiting writer sleep before it looks again.
Source: https://www.sqlite.org/src/file/src/main.c, `sqliteDefaultBusyCallback`."""

BUSY_S = 0.5
"""Seconds of writing after which an index that catches up pauses."""


@dataclass(slots=True)
class _Pace:
    """The seconds that an index has spent on writing since its last pause."""

    busy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryHost:
    """Gives indexes access to one memory: transactions, models, and fresh summaries. `embedder` is None where there is none, or it has just failed."""

    db: Database
    cache: Snapshots
    config: Config
    steps: Steps
    embedder: Embedder | None
    summaries: Summaries
    timer: Timer = field(default_factory=Timer)
    question: str = ""
    """The text of the question that is asked, if one is."""
    _pace: _Pace = field(default_factory=_Pace)

    @property
    def now(self) -> datetime:
        """The present, by the configured clock."""
        return self.config.clock()

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded here and now."""
        return self.embedder is not None

    async def read(self, work: Callable[[Tx, Snapshot], T]) -> T:
        """Run work in a read transaction, with the snapshot of its state, in another thread."""

        def run() -> T:
            with self.db.read() as tx:
                return work(tx, self.cache.get(tx))

        return await asyncio.to_thread(run)

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises."""
        if self._pace.busy_s >= BUSY_S:
            await asyncio.sleep(PAUSE_S)
            self._pace.busy_s = 0.0
        started = time.perf_counter()
        try:
            return await asyncio.to_thread(self._write, work)
        finally:
            self._pace.busy_s += time.perf_counter() - started

    def _write(self, work: Callable[[Tx], T]) -> T:
        done: list[T] = []
        with self.db.write() as tx:
            # In a savepoint: what an index's code raises is not taken for damage of the file.
            error = attempt(tx, lambda: done.append(work(tx)))
            if error is None:
                meta.bump(tx)
        if error is not None:
            raise error
        return done[0]

    async def ensure_fresh(self, chosen: Callable[[Tx], Collection[int]]) -> list[str]:
        """Bring nodes up to date with what is dirty beneath them; return why some of them could not be."""
        return await self.summaries.ensure_fresh(chosen, self.timer)

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as questions are embedded; some models want an instruction before them.

        Raises:
            ModelError: if the embedder fails, or there is none.
        """
        if self.embedder is None:
            raise ModelError("this memory has no embedder here")
        return await embed_questions(self.embedder, list(texts))

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the wall time of the block to a step; a block that raises adds nothing."""
        started = time.perf_counter()
        yield
        self.timer.add(step, started)
