"""One user's memory: the verbs that write it.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop, and
nothing is held across a step that a model may do.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from memforest.concurrency import to_thread
from memforest.endpoint import Budget
from memforest.errors import MemForestError, ModelError
from memforest.interval import to_ms
from memforest.memory import indexing
from memforest.memory.choosing import decide_apart, decide_same
from memforest.memory.correct import Corrector
from memforest.memory.erase import deleting
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.erase.targets import Target
from memforest.memory.ingest.batch import Batch, Refresh, groups_of, groups_of_turns
from memforest.memory.ingest.stored_session import StoredSession
from memforest.memory.ingest.turns import Arrival
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.inspect import graph_views
from memforest.memory.inspect.entities import Entity
from memforest.memory.inspect.repair import reclaim_space, repair_parts
from memforest.memory.jobs import run_due
from memforest.memory.merge.names import Owner
from memforest.memory.merge.report import MergeResult
from memforest.memory.merge.run import MergeOptions, Other, merge_memory
from memforest.memory.progress import NOBODY, OnProgress, Watch
from memforest.memory.readable import ReadableMemory
from memforest.memory.rebuild import Rebuild, rebuild
from memforest.memory.results import (
    FlushResult,
    IndexView,
    IngestResult,
    RepairReport,
    Usage,
)
from memforest.memory.timing import Timer
from memforest.memory.usage import usage
from memforest.memory.vectors import keep_embedder
from memforest.models.ledger import current_ledger
from memforest.steps.base import Extractor
from memforest.store import jobs, meta, sessions
from memforest.store.disposal import purge
from memforest.store.sessions import SessionRow
from memforest.text import cut

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Memory(ReadableMemory):
    """One user's memory; made by `open_memory`."""

    async def ingest(
        self,
        arrivals: Sequence[Arrival],
        *,
        refresh: bool | None = None,
        budget: Budget | None = None,
        extractor: Extractor | None = None,
        on_progress: OnProgress | None = None,
        defer: bool = False,
    ) -> list[IngestResult | MemForestError]:
        """Store sessions and make memory of them; see `AsyncMemForest.ingest_session` and `ingest_parallel`.

        An extractor that asks a model for every chunk gets the chunks of all sessions at once; the local one gets
        one session after the other, each written before the next is read. Another one than the memory's may be given.
        """
        batch = Batch(self._writer(extractor, self._watch(on_progress)), self._warnings)

        async def work() -> list[IngestResult | MemForestError]:
            with self._in_hand.write() as number:
                await (
                    self._receive(batch, arrivals)
                    if defer
                    else self._ingest(batch, arrivals, refresh, number)
                )
            if batch.replaced:
                # The log still holds what was overwritten in the file.
                await to_thread(purge, self.db)
            return [batch.result(at) for at in range(len(arrivals))]

        with self._summaries.writing():
            return await self._writes("ingest", budget, work)

    async def _receive(self, batch: Batch, arrivals: Sequence[Arrival]) -> None:
        """Store sessions, each in a transaction of its own, and leave them to `resume`."""
        for at, arrival in enumerate(arrivals):
            if (stored := await batch.receive(at, arrival, self._receiver)) is not None:
                await batch.defer(at, stored)
        await batch.finish_deferred()

    async def _ingest(
        self, batch: Batch, arrivals: Sequence[Arrival], refresh: bool | None, number: int
    ) -> None:
        for group in groups_of(arrivals, together=self._steps.extracts_apart):
            stored: dict[int, StoredSession] = {}
            for at in group:
                if (one := await batch.receive(at, arrivals[at], self._receiver)) is not None:
                    stored[at] = one
                    self._in_hand.hold(number, one.row)
            await batch.process(stored)
        await self._finish(batch, refresh)

    async def _finish(self, batch: Batch, refresh: bool | None) -> None:
        """Finish a write: make the summaries that the caller or the policy wants now, and start background work."""
        policy = self._summaries.policy
        how: Refresh = "all" if refresh else "path" if refresh is None and policy == "path" else "nothing"
        batch.warn(self._summaries.take_warnings())
        expired = await deleting.expire_if_due(self._writer())
        batch.warn([expired] if expired else [])
        await batch.finish(refresh=how)
        if refresh is None and policy == "behind" and batch.left_dirty:
            ledger = current_ledger()
            await self._summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens), batch.placed)

    async def append(
        self, arrival: Arrival, *, budget: Budget | None = None, on_progress: OnProgress | None = None
    ) -> IngestResult:
        """Append live turns to a session, by default one a day; see `AsyncUserMemory.add`."""
        stored = await self._receiver.append(arrival)
        batch = Batch(self._writer(watch=self._watch(on_progress)), self._warnings)
        batch.tell_received(stored)

        async def finish() -> IngestResult:
            with self._in_hand.write() as number:
                self._in_hand.hold(number, stored.row)
                await batch.process({0: stored})
                await self._finish(batch, None)
            return batch.only()

        with self._summaries.writing():
            return await self._writes("ingest", budget, finish)

    async def delete(self, target: Target, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete something, or count what would go; see `AsyncUserMemory.delete`."""
        with self._summaries.writing():
            work = partial(deleting.delete, self._writer(), target, dry_run=dry_run)
            return await self._writes("delete", None, work)

    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete what is kept no longer; see `AsyncUserMemory.expire`."""
        with self._summaries.writing():
            return await self._writes(
                "delete", None, partial(deleting.expire, self._writer(), dry_run=dry_run)
            )

    async def merge(
        self, other: Memory, options: MergeOptions, *, budget: Budget | None = None
    ) -> MergeResult:
        """Merge another memory into this one; see `AsyncUserMemory.merge`."""
        owner = Owner("", self.user_id, self.label)
        there = Other(other.db, other.user_id, other.label)
        with self._summaries.writing():
            work = partial(merge_memory, self._writer(), owner, there, options)
            return await self._writes("merge", budget, work)

    def _watch(self, on_progress: OnProgress | None) -> Watch:
        return Watch(self.user_id, on_progress)

    def _writer(self, extractor: Extractor | None = None, watch: Watch = NOBODY) -> SessionWriter:
        return SessionWriter(
            self.db,
            self.config,
            self._steps if extractor is None else replace(self._steps, extractor=extractor),
            self._vector_maker(),
            self._threshold,
            self._cache,
            self._attached,
            self._summaries,
            watch,
        )

    async def correct(self, work: Callable[[Corrector], Awaitable[T]]) -> T:
        """Correct what was extracted; see `AsyncUserMemory.update`, `pin`, `forget` and `undo`."""
        return await self._writes("correct", None, lambda: work(Corrector(self._writer())))

    async def merge_entities(self, a: str, b: str) -> Entity:
        """Decide that two names are one entity; see `AsyncUserMemory.merge_entities`."""
        one, other = await self.view(graph_views.two_named, a, b)
        await self._decide(
            partial(decide_same, one=one.row, other=other.row, groups=(one.group, other.group))
        )
        return await self.view(graph_views.entity_named, a)

    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is another entity; see `AsyncUserMemory.split_entity`."""
        found = await self.view(graph_views.name_within, entity, name)
        others = [row for row in found.group if row != found.row]
        await self._decide(partial(decide_apart, one=found.row, others=others))
        return await self.view(graph_views.entity_named, name)

    async def _decide(self, decide: Callable[..., None]) -> None:
        def run() -> None:
            with self.db.write() as tx:
                decide(tx, now_ms=to_ms(self.config.clock()))

        await to_thread(run)

    async def flush(self, budget: Budget | None = None) -> FlushResult:
        """Wait for what goes on behind writes, and bring every dirty node up to date; see `AsyncUserMemory.flush`."""
        return await self._summaries.flush(budget)

    async def resume(
        self, budget: Budget | None = None, on_progress: OnProgress | None = None
    ) -> list[IngestResult]:
        """Finish what an interrupted write left: sessions, failed chunks, missing vectors, indexes, due jobs, dirty nodes.

        One call at a time does so in this process, and leaves to other writes what they are at work on: nothing is asked for
        twice.
        """
        async with self._resuming.turn():
            work = partial(self._resume, self._writer(watch=self._watch(on_progress)))
            return await self._writes("resume", budget, work)

    async def _resume(self, writer: SessionWriter) -> list[IngestResult]:
        left = await to_thread(self._unfinished)
        batch = Batch(writer, self._warnings)
        turns, names = [one.turns for one in left], [one.session_id for one in left]
        for group in groups_of_turns(turns, names, together=self._steps.extracts_apart):
            await batch.process(
                {at: StoredSession(left[at].row, left[at].session_id, unfinished=True) for at in group}
            )
        await writer.fill_vectors()
        behind = await writer.catch_up()
        batch.warn(behind)
        await run_due(self.db, self.config.clock, self.handlers, but=await to_thread(self._paced))
        await self._finish(batch, refresh=True)
        if not left:  # else it is said with the results
            for problem in behind:
                _log.warning("%s", getattr(problem, "logged", problem))
        return batch.all()

    def _paced(self) -> frozenset[str]:
        with self.db.read() as tx:
            return self._attached.paced(tx)

    async def rebuild(self, what: Rebuild, budget: Budget | None = None) -> Usage:
        """Rebuild what is derived; see `AsyncUserMemory.rebuild`."""

        async def work() -> Usage:
            if what.stale and self._cell_turns is not None:
                await to_thread(self._cut_otherwise, self._cell_turns)
            writer, timer = self._writer(), Timer()
            await rebuild(writer, timer, what)
            return usage(current_ledger(), timer.ms, {} if writer.vectors is None else writer.vectors.ran)

        return await self._writes("rebuild", budget, work)

    def _cut_otherwise(self, cell_turns: int) -> None:
        """Cut what comes from now on into chunks of the configured size."""
        with self.db.write() as tx:
            meta.put(tx, "cell_turns", str(cell_turns))
        self.config, self._cell_turns = replace(self.config, cell_turns=cell_turns), None
        self._receiver = replace(self._receiver, config=self.config)

    async def add_index(self, name: str, settings: Any, budget: Budget | None = None) -> IndexView:
        """Add an index; see `AsyncUserMemory.add_index`."""
        work = partial(indexing.add_index, self._writer(), name, settings)
        return await self._writes("rebuild", budget, work)

    async def drop_index(self, name: str) -> None:
        """Delete an index; see `AsyncUserMemory.drop_index`."""
        await to_thread(indexing.drop_index, self.db, self._attached, name)

    async def advance(
        self, as_of: datetime | None, *, force: bool = False, budget: Budget | None = None
    ) -> list[IndexView]:
        """Advance the deferred and the lagging indexes; see `AsyncUserMemory.advance`."""
        return await self._writes(
            "resume", budget, lambda: indexing.advance(self._writer(), as_of, force=force)
        )

    async def advance_paced(self) -> list[str]:
        """Let paced indexes do what is due by the clock, but for what has failed; return which could not, and why."""
        names = await to_thread(self._paced)
        if not names:
            return []
        problems: list[str] = await self._writes(
            "refresh", None, lambda: self._writer().catch_up(names, failed=False, occasion="timer")
        )
        for problem in problems:
            _log.warning("%s", getattr(problem, "logged", problem))
        return problems

    async def settle(self, *, vectors: bool, budget: Budget | None = None) -> tuple[int, list[str]]:
        """Make missing vectors, if wanted, and let indexes place what they have not.

        Returns:
            How many vectors were made, and which indexes could not place everything, and why.
        """

        async def work() -> tuple[int, list[str]]:
            writer = self._writer()
            if vectors:
                await to_thread(self._keep_embedder)
            made = await writer.fill_vectors() if vectors else 0
            return made, await writer.catch_up()

        return await self._writes("resume", budget, work)

    def _keep_embedder(self) -> None:
        with self.db.write() as tx:
            keep_embedder(tx, self.db.path, self._embedder)

    def _unfinished(self) -> list[SessionRow]:
        """Return the unfinished sessions; resuming is a write, so it keeps the embedder too."""
        in_hand = self._in_hand.rows()
        with self.db.write() as tx:
            keep_embedder(tx, self.db.path, self._embedder)
            jobs.retry_failed(tx, self.handlers.keys(), now_ms=to_ms(self.config.clock()))
            rows = [row for row in sessions.unfinished(tx) if row not in in_hand]
            return [sessions.session_with_row(tx, row) for row in rows]

    async def repair(self) -> RepairReport:
        """Rebuild broken derived parts, resume, and reclaim space; see `AsyncUserMemory.repair`."""
        found = await self.verify()
        if any(problem.part == "file" for problem in found.problems):
            return RepairReport((), found.problems)
        did = await to_thread(repair_parts, self.db, self.config, self._attached, found)
        try:
            resumed = await self.resume()
        except ModelError as exc:
            did.append(f"could not finish what was left: {exc}")
        else:
            did += [f"finished session {cut(repr(one.session_id), 60)}" for one in resumed]
        did += await to_thread(reclaim_space, self.db)
        return RepairReport(tuple(did), (await self.verify()).problems)
