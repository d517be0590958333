"""Writing sessions to one memory: extract, judge, commit, refresh - and resume from any point of it.

Each stage ends in a short transaction, and what a stage needs is read back from the store, so that a crash
between any two leaves work that `resume` finds: sessions not ingested, failed chunks, missing vectors,
dirty nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memforest.concurrency import all_of, to_thread
from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.memory.chunks import ChunkReport
from memforest.memory.host import MemoryHost
from memforest.memory.ingest.catch_up import catch_up
from memforest.memory.ingest.commit import CommittedSession
from memforest.memory.ingest.extract import extract
from memforest.memory.ingest.fill import fill_vectors
from memforest.memory.ingest.judge import find_same
from memforest.memory.ingest.parts import commit_in_parts
from memforest.memory.ingest.repeats import with_first_result
from memforest.memory.ingest.stored_session import StoredSession, load
from memforest.memory.progress import NOBODY, Watch
from memforest.memory.results import IngestResult
from memforest.memory.summaries import Summaries
from memforest.memory.timing import Timer
from memforest.memory.vectors import VectorMaker
from memforest.refresh.made import Refreshed
from memforest.search.cache import SnapshotCache
from memforest.steps.choose import Steps
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.write_keys import WriteKey
from memforest.systems.attached import Attached
from memforest.systems.host import Occasion


@dataclass(slots=True)
class SessionWriter:
    """Writes one memory. `vectors` is None in a memory without an embedder; `watch` is told how far a write has come."""

    db: Database
    config: Config
    steps: Steps
    vectors: VectorMaker | None
    threshold: float | None
    cache: SnapshotCache
    attached: Attached
    summaries: Summaries
    watch: Watch = NOBODY

    async def process(self, stored: Sequence[StoredSession]) -> list[CommittedSession | SessionConflictError]:
        """Take stored sessions, at least one, to `ingested`: extract their open cells, embed, judge, and commit each.

        What models are asked is asked for all sessions at once. In the place of a session that another writer
        has overwritten meanwhile there is an error.

        Raises:
            ModelError: if a model cannot be used at all; the sessions stay as they were received.
            StoreError: if the memory cannot be written.
        """
        timer = stored[-1].timer
        with timer.timed("store"):
            loaded = await to_thread(self._load, stored)
        with timer.timed("extract"):
            extracted = await all_of(
                extract(one, self.steps, self.vectors, self.threshold, self.watch)
                for one in loaded
                if isinstance(one, StoredSession)
            )
        if self.steps.judge is not None:
            with timer.timed("judge"):
                model = None if self.vectors is None else self.vectors.embedder.model_id
                same = await find_same(self.steps.judge, self.db, self.cache, extracted, model)
                extracted = [replace(one, same=same) for one in extracted]
        with timer.timed("route"):
            committed = iter(
                [await commit_in_parts(self.db, self.config, self.attached, one, timer) for one in extracted]
            )
        return [next(committed) if isinstance(one, StoredSession) else one for one in loaded]

    def _load(self, stored: Sequence[StoredSession]) -> list[StoredSession | SessionConflictError]:
        found: list[StoredSession | SessionConflictError] = []
        with self.db.read() as tx:
            for one in stored:
                try:
                    found.append(load(tx, self.config, one))
                except SessionConflictError as exc:
                    found.append(exc)
        return found

    async def open_chunks(self, stored: StoredSession) -> tuple[ChunkReport, ...]:
        """Return the chunks of a session that are to be read, or failed before."""
        loaded = await to_thread(self._load, [stored])
        return tuple(chunk for one in loaded if isinstance(one, StoredSession) for chunk in one.open_chunks)

    async def first_result(self, result: IngestResult, write: WriteKey) -> IngestResult:
        """Return a result as that of the first call with its idempotency key."""

        def run() -> IngestResult:
            with self.db.read() as tx:
                return with_first_result(tx, result, write)

        return await to_thread(run)

    async def refresh(self, timer: Timer) -> Refreshed:
        """Bring every dirty node up to date."""
        return await self.summaries.make(self.vectors, timer, watch=self.watch)

    async def refresh_above(self, trees: Collection[int], timer: Timer) -> Refreshed:
        """Bring the roots of some trees up to date, and so every path that leads to them from what was written."""
        roots = await to_thread(self._roots, trees)
        return await self.summaries.make(self.vectors, timer, roots, watch=self.watch)

    async def deferred_trees(self) -> frozenset[int]:
        """Return the trees of deferred indexes that have nodes out of date: they are written behind a write, not with it."""
        return await to_thread(self._deferred_trees)

    def _deferred_trees(self) -> frozenset[int]:
        with self.db.read() as tx:
            deferred = {index.name for index in self.attached.of(tx) if index.deferred and not index.paced}
            if not deferred:
                return frozenset()
            return frozenset(tree for tree, owner in tree_rows.dirty_trees(tx).items() if owner in deferred)

    def _roots(self, trees: Collection[int]) -> list[int]:
        with self.db.read() as tx:
            return sorted(tree_rows.roots(tx, trees))

    async def refresh_nothing(self) -> Refreshed:
        """Return how many nodes are out of date."""
        return Refreshed(left=await to_thread(self._dirty))

    def _dirty(self) -> int:
        with self.db.read() as tx:
            return tree_rows.dirty_count(tx, without=self.attached.paced(tx))

    async def fill_vectors(self) -> int:
        """Make the vectors that a crash, or a time without an embedder, left missing; return how many."""
        return 0 if self.vectors is None else await fill_vectors(self.db, self.attached, self.vectors)

    async def catch_up(
        self,
        names: Collection[str] | None = None,
        *,
        failed: bool = True,
        now: datetime | None = None,
        occasion: Occasion = "advance",
    ) -> list[str]:
        """Let indexes that are behind place what they have not; return which could not, and why.

        Args:
            names: of these; None for all that are behind, or deferred.
            failed: also those that have failed before, and with the summaries that failed.
            now: the present, aware; None is the clock's.
            occasion: why they are.
        """
        if failed:
            self.summaries.try_again()
        config = self.config if now is None else replace(self.config, clock=lambda: now)
        host = MemoryHost(
            self.db, self.cache, config, self.steps, self.vectors, self.summaries, occasion=occasion
        )
        return await catch_up(host, self.attached, names, failed=failed)
