"""The `Host` of one memory: what its indexes use for work that waits; see `memforest.trees.index.Host`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import writing
from memforest.config import Config
from memforest.errors import InputError, ModelError
from memforest.ports import embed_questions
from memforest.progress import Timer
from memforest.read.summaries import Summaries
from memforest.reading.steps import Steps
from memforest.search.cache import Snapshots
from memforest.search.filters import Search
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import VectorMaker
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.trees.index import ChooseRows, Index

T = TypeVar("T")

PAUSE_S = 0.1
"""Seconds between two writes that let others come in: as long as SQLite lets a waiting writer sleep before it looks again.
Source: https://www.sqlite.org/src/file/src/main.c, `sqliteDefaultBusyCallback`."""

BUSY_S = 0.5
"""Seconds of writing after which work behind a write pauses."""


@dataclass(frozen=True, slots=True)
class MemoryHost:
    """Gives indexes access to one memory: transactions, models, and fresh summaries.

    `vectors` counts what is embedded; None where there is no embedder, or it has just failed.
    """

    db: Database
    cache: Snapshots
    config: Config
    steps: Steps
    vectors: VectorMaker | None
    summaries: Summaries
    timer: Timer = field(default_factory=Timer)
    question: str = ""
    """The text of the question that is asked, if one is."""
    ask: Callable[[str], Awaitable[Search]] | None = None
    """Reads a further question as the one that is asked was read."""
    _busy_s: list[float] = field(default_factory=partial(list, (0.0,)))
    """The seconds that an index has spent on writing since its last pause."""

    @property
    def now(self) -> datetime:
        """The present, by the configured clock."""
        return self.config.clock()

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded here and now."""
        return self.vectors is not None

    async def read(self, work: Callable[[Tx, Snapshot], T]) -> T:
        """Run work in a read transaction, with the snapshot of its state, in another thread."""

        def run(tx: Tx) -> T:
            return work(tx, self.cache.get(tx))

        return await self.db.reading(run)

    async def look(self, work: Callable[[Tx], T]) -> T:
        """Run work in a read transaction alone, in another thread."""
        return await self.db.reading(work)

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises."""
        if self._busy_s[0] >= BUSY_S:
            await asyncio.sleep(PAUSE_S)
            self._busy_s[0] = 0.0
        started = time.perf_counter()
        try:
            with writing():  # also where a question waits for it
                return await self.db.writing(work)
        finally:
            self._busy_s[0] += time.perf_counter() - started

    async def ensure_fresh(self, index: Index, choose: ChooseRows | None = None) -> list[str]:
        """Have the missing summaries of an index made before they are read; return why some of them could not be."""
        return await self.summaries.ensure_fresh(index, self.timer, choose, self.vectors, self.cache)

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as questions are embedded; some models want an instruction before them.

        Raises:
            ModelError: if the embedder fails, or there is none.
        """
        if self.vectors is None:
            raise ModelError("this memory has no embedder here")
        return await embed_questions(self.vectors.embedder, list(texts))

    async def read_questions(self, texts: Sequence[str]) -> list[Search]:
        """Return further questions as the one that is asked was read.

        Raises:
            InputError: outside of a query.
            StepError: if what the planner returns is no plan.
        """
        if self.ask is None:
            raise InputError("further questions are read in a query alone")
        return [await self.ask(text) for text in texts]

    def timed(self, step: str) -> AbstractContextManager[None]:
        """Add the wall time of a block to a step."""
        return self.timer.timed(step)
