"""One user's memory: the verbs that write it.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop, and
nothing is held across a step that a model may do.


What a memory is opened with.

One user's open memory: its file, its models, and what is read of it.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop.

"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from memforest.concurrency import Turns, reading, to_thread
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import MemForestError, ModelError, StoreError
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import Embedder, Extractor
from memforest.progress import NOBODY, OnProgress, Timer, Watch
from memforest.read import entities
from memforest.read.corrections import verdicts_at
from memforest.read.entities import Entity
from memforest.read.host import MemoryHost
from memforest.read.profiles import GRAPH, Profile, graph_profile, kept_profile, profile_and_kind, written
from memforest.read.query import Query, QueryPath
from memforest.read.receipts import DeleteReceipt, MergeResult
from memforest.read.results import AskResult, FlushResult, IngestResult, QueryResult, Usage, usage
from memforest.read.stored import IndexView, RepairReport, Stale, TreeView, VerifyReport
from memforest.read.summaries import Summaries, policy_of
from memforest.read.verify import first_problem, verify, with_residue
from memforest.read.views import (
    Makers,
    TreeQuery,
    ViewContext,
    known_of,
    shown_nodes,
    tree_views,
    what_is_stale,
)
from memforest.reading.steps import Steps
from memforest.records import StepUsage
from memforest.search.as_of import Moment, MomentCache
from memforest.search.cache import SnapshotCache
from memforest.search.vectors import VectorMaker, check_own, keep_embedder
from memforest.store import jobs, meta, sessions
from memforest.store.connections import UNEXPECTED, Tx
from memforest.store.database import Database
from memforest.store.sessions import SessionRow
from memforest.store.upkeep import purge
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees.attached import Attached
from memforest.trees.index import Index, ProfileRequest
from memforest.write import delete
from memforest.write import rebuild as rebuild_module
from memforest.write.batch import Batch, Refresh, SessionWriter, groups_of, groups_of_turns
from memforest.write.correct import Corrector, decide_apart, decide_same
from memforest.write.delete import DeleteTarget
from memforest.write.jobs import Handlers, run_due
from memforest.write.merge import MergeOptions, Other, merge_memory
from memforest.write.merge_plan import Owner
from memforest.write.rebuild import Rebuild, rebuild, reclaim_space, repair_parts
from memforest.write.receive import Receiver
from memforest.write.sessions import InHand, StoredSession
from memforest.write.turns import SessionInput


@dataclass(frozen=True, slots=True)
class OpenedWith:
    """The models and warnings with which a memory is opened. `embedder` is None when there is none, and `warnings` say why."""

    embedder: Embedder | None
    steps: Steps
    threshold: float | None
    warnings: tuple[str, ...] = ()
    chunk_turns: int | None = None
    """Configured turns per chunk, where the memory has another number."""


R = TypeVar("R", QueryResult, AskResult)


class ReadableMemory:
    """One user's memory as far as it is read; `memforest.memory.memory.Memory` writes it too."""

    def __init__(self, db: Database, user_id: str, label: str, config: Config, opened: OpenedWith) -> None:
        self.user_id = user_id
        self.db = db
        self.config = config
        self._steps = opened.steps
        self._embedder = opened.embedder
        self._warnings = opened.warnings
        self.handlers: Handlers = {}
        """What does the due jobs of indexes, by owner and kind."""
        self._cache = SnapshotCache(known_of(opened.embedder), self._check_embedder)
        self._threshold = opened.threshold
        self._chunk_turns = opened.chunk_turns
        self._resuming, self._in_hand = Turns(), InHand()
        self._attached = Attached(config)
        self._receiver = Receiver(db, config, label, self._attached, opened.embedder)
        policy, made = policy_of(config, opened.steps), (opened.steps, opened.embedder)
        self._summaries = Summaries(db, *made, self._attached, policy=policy, accounted=self._writes)
        db.examine_with(partial(first_problem, attached=self._attached))

    def _check_embedder(self, tx: Tx) -> None:
        """Raise if the memory was given another embedder since it was opened: its vectors do not compare with this one's."""
        if self._embedder is not None:
            check_own(tx, self.db.path, self._embedder.model_id)

    @property
    def label(self) -> str:
        """The display name of the user, who "I" is and who an unnamed ``user`` turn is by."""
        return self._receiver.label

    @label.setter
    def label(self, name: str) -> None:
        self._receiver = replace(self._receiver, label=name)

    @property
    def attached(self) -> Attached:
        """The indexes of the memory."""
        return self._attached

    @property
    def query_path(self) -> QueryPath:
        """The read path."""
        return QueryPath(
            self.db,
            self._cache,
            self._steps,
            self._embedder,
            self._warnings,
            self._attached,
            self.config,
            self._summaries,
            verdicts_at,
        )

    async def query(self, asked: Query) -> QueryResult:
        """Return ranked evidence; see `AsyncMemForest.query`."""
        return await self._asked("query", self.query_path.query(asked, self.label))

    async def ask(self, asked: Query) -> AskResult:
        """Answer from the best evidence, or abstain; see `AsyncMemForest.ask`."""
        return await self._asked("ask", self.query_path.ask(asked, self.label))

    async def _asked(self, operation: str, asking: Awaitable[R]) -> R:
        """Await a query and store its usage; an error that only damage can cause names the damage."""
        try:
            with reading():
                result = await asking
        except UNEXPECTED as exc:
            await to_thread(self.db.explain, exc)
            raise
        if result.usage.steps:
            await to_thread(self._keep_spent, operation, result.usage.steps)
        return result

    async def view(self, make: Callable[..., T], *args: Any, moment: Moment | None = None, **how: Any) -> T:
        """Run one of `memforest.read.views` in a read transaction, on the memory as it was at a moment."""
        cache = self._cache if moment is None else MomentCache(self._cache, moment, verdicts_at)

        def run() -> T:
            with self.db.read() as tx:
                context = ViewContext(
                    tx, cache, self.config, self._attached, present=self._present, moment=moment
                )
                return make(context, *args, **how)

        with reading():
            return await to_thread(run)

    async def tree(self, wanted: TreeQuery) -> list[TreeView]:
        """Return trees, with the summaries that they show; see `AsyncUserMemory.tree`."""

        def shown(tx: Tx) -> list[int]:
            context = ViewContext(tx, self._cache, self.config, self._attached)
            return shown_nodes(context, wanted)

        await self._ready()
        await self._writes("refresh", None, lambda: self._summaries.ensure_fresh(shown, Timer()))
        return await self.view(tree_views, wanted)

    async def profile(
        self,
        participant: str | None,
        as_of_ms: int | None,
        said_by_ms: int | None,
        index: str | None = None,
    ) -> Profile:
        """Return the profile in force; see `AsyncUserMemory.profile`."""
        wanted = self._wants(participant, as_of_ms, said_by_ms)
        if index != GRAPH:
            late = await self._ready()
            kept = await self.view(kept_profile, wanted, index, late)
            if kept is not None:
                return kept
        return await self.view(graph_profile, wanted, moment=_said_by(wanted))

    async def written_profile(
        self, name: str, as_of_ms: int | None, said_by_ms: int | None, budget: Budget | None
    ) -> Profile:
        """Return what the graph tells of an entity, written by the chat model; see `AsyncUserMemory.profile`."""
        wanted = self._wants(name, as_of_ms, said_by_ms)
        told, kind, zone = await self.view(profile_and_kind, wanted, moment=_said_by(wanted))
        when = from_ms(wanted.now_ms if wanted.bound_ms is None else wanted.bound_ms)
        return await self._writes(
            "profile",
            budget or self.config.query_budget,
            lambda: written(self._steps, told, kind, when, zone),
        )

    def _wants(self, participant: str | None, as_of_ms: int | None, said_by_ms: int | None) -> ProfileRequest:
        return ProfileRequest(to_ms(self.config.clock()), participant, as_of_ms, said_by_ms)

    async def _ready(self) -> list[str]:
        """Let indexes make what is due and costs no call; return why some of it could not be made."""

        def ready() -> list[Index]:
            with self.db.read() as tx:
                return self._attached.of(tx)

        async def work() -> list[str]:
            host = MemoryHost(
                self.db, self._cache, self.config, self._steps, self._vector_maker(), self._summaries
            )
            return [why for index in await to_thread(ready) for why in await index.ready(host)]

        return await self._writes("refresh", None, work)

    async def verify(self, deleted: Sequence[str] = ()) -> VerifyReport:
        """Check every invariant, and that texts are nowhere; see `memforest.read.verify`."""

        def run() -> VerifyReport:
            with self.db.fresh() as tx:
                report = verify(tx, self._attached)
                return report if not deleted else with_residue(tx, self.db.path, report, deleted)

        with reading():
            return await to_thread(run)

    async def stale(self) -> Stale:
        """Return what would be made otherwise now; see `AsyncUserMemory.stale`."""

        def run() -> Stale:
            with self.db.read() as tx:
                return what_is_stale(tx, self.config, self._attached, self._present, self._summaries.describe)

        with reading():
            return await to_thread(run)

    @property
    def _present(self) -> Makers:
        turns = self._chunk_turns or self.config.chunk_turns
        model = None if self._embedder is None else self._embedder.model_id
        return Makers(self._steps.extractor.name, self._steps.summariser, turns, model)

    # -- what writes share ---------------------------------------------------------------------

    def _vector_maker(self) -> VectorMaker | None:
        return None if self._embedder is None else VectorMaker(self.db, self._embedder)

    async def _writes(self, operation: str, budget: Budget | None, work: Callable[[], Awaitable[T]]) -> T:
        """Run a write under a ledger, and keep what it spent with the memory, however it ends."""
        ledger = Ledger(budget or self.config.ingest_budget, operation)
        try:
            with keeping(ledger):
                return await work()
        finally:
            if ledger.steps:
                await to_thread(self._keep_spent, ledger.operation, ledger.steps)

    def _keep_spent(self, operation: str, steps: Mapping[str, StepUsage]) -> None:
        """Add usage to the stored sums; a failure to write them is ignored, because the operation itself succeeded."""
        with suppress(StoreError), self.db.write() as tx:
            meta.add(tx, operation, steps)

    async def checkpoint(self) -> None:
        """Fold the write-ahead log into the file."""
        await to_thread(purge if self.db.unfinished else Database.checkpoint, self.db)

    # -- what is held open --------------------------------------------------------------------

    @property
    def open_files(self) -> int:
        """Files that this memory holds open."""
        return self.db.open_files

    @property
    def cached_bytes(self) -> int:
        """Approximate size of the cached snapshot in bytes."""
        return self._cache.nbytes

    def drop_cache(self) -> int:
        """Drop the cached snapshot and return its approximate size in bytes; the next query reads it again."""
        return self._cache.drop()

    @property
    def at_work(self) -> bool:
        """Whether summaries are being made behind a write."""
        return self._summaries.at_work

    async def end(self, *, finish: bool = True) -> None:
        """Stop background work and close; see `close`. Without `finish` no summary is made first."""
        try:
            await self._summaries.close(finish=finish)
        finally:
            await to_thread(self.close)

    def close(self) -> None:
        """Fold the log into the file and close it; a second call does nothing."""
        if self.db.unfinished:
            with suppress(StoreError):  # it is read still, or somebody else is at work on it
                purge(self.db)
        self.db.close()


def _said_by(wanted: ProfileRequest) -> Moment | None:
    """Return the moment by which was said what a profile may tell."""
    return None if wanted.bound_ms is None else Moment(said_ms=wanted.bound_ms)


_log = logging.getLogger(__name__)

T = TypeVar("T")


class Memory(ReadableMemory):
    """One user's memory; made by `open_memory`."""

    async def ingest(
        self,
        arrivals: Sequence[SessionInput],
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

    async def _receive(self, batch: Batch, arrivals: Sequence[SessionInput]) -> None:
        """Store sessions, each in a transaction of its own, and leave them to `resume`."""
        for at, arrival in enumerate(arrivals):
            if (stored := await batch.receive(at, arrival, self._receiver)) is not None:
                await batch.defer(at, stored)
        await batch.finish(refresh=None)

    async def _ingest(
        self, batch: Batch, arrivals: Sequence[SessionInput], refresh: bool | None, number: int
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
        expired = await delete.expire_if_due(self._writer())
        batch.warn([expired] if expired else [])
        await batch.finish(refresh=how)
        if refresh is None and policy == "behind" and batch.left_dirty:
            ledger = current_ledger()
            await self._summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens), batch.placed)

    async def append(
        self, arrival: SessionInput, *, budget: Budget | None = None, on_progress: OnProgress | None = None
    ) -> IngestResult:
        """Append live turns to a session, by default one a day; see `AsyncUserMemory.add`."""
        stored = await self._receiver.receive(arrival, append=True)
        batch = Batch(self._writer(watch=self._watch(on_progress)), self._warnings)
        batch.tell_received(stored)

        async def finish() -> IngestResult:
            with self._in_hand.write() as number:
                self._in_hand.hold(number, stored.row)
                await batch.process({0: stored})
                await self._finish(batch, None)
            return batch.all()[0]

        with self._summaries.writing():
            return await self._writes("ingest", budget, finish)

    async def delete(self, target: DeleteTarget, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete something, or count what would go; see `AsyncUserMemory.delete`."""
        with self._summaries.writing():
            work = partial(delete.delete, self._writer(), target, dry_run=dry_run)
            return await self._writes("delete", None, work)

    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete what is kept no longer; see `AsyncUserMemory.expire`."""
        with self._summaries.writing():
            return await self._writes("delete", None, partial(delete.expire, self._writer(), dry_run=dry_run))

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
        one, other = await self.view(entities.two_named, a, b)
        await self._decide(
            partial(decide_same, one=one.row, other=other.row, groups=(one.group, other.group))
        )
        return await self.view(entities.entity_named, a)

    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is another entity; see `AsyncUserMemory.split_entity`."""
        found = await self.view(entities.name_within, entity, name)
        others = [row for row in found.group if row != found.row]
        await self._decide(partial(decide_apart, one=found.row, others=others))
        return await self.view(entities.entity_named, name)

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
            if what.stale and self._chunk_turns is not None:
                await to_thread(self._cut_otherwise, self._chunk_turns)
            writer, timer = self._writer(), Timer()
            await rebuild(writer, timer, what)
            return usage(current_ledger(), timer.ms, {} if writer.vectors is None else writer.vectors.ran)

        return await self._writes("rebuild", budget, work)

    def _cut_otherwise(self, chunk_turns: int) -> None:
        """Cut what comes from now on into chunks of the configured size."""
        with self.db.write() as tx:
            meta.put(tx, "chunk_turns", str(chunk_turns))
        self.config, self._chunk_turns = replace(self.config, chunk_turns=chunk_turns), None
        self._receiver = replace(self._receiver, config=self.config)

    async def add_index(self, name: str, settings: Any, budget: Budget | None = None) -> IndexView:
        """Add an index; see `AsyncUserMemory.add_index`."""
        work = partial(rebuild_module.add_index, self._writer(), name, settings)
        return await self._writes("rebuild", budget, work)

    async def drop_index(self, name: str) -> None:
        """Delete an index; see `AsyncUserMemory.drop_index`."""
        await to_thread(rebuild_module.drop_index, self.db, self._attached, name)

    async def advance(
        self, as_of: datetime | None, *, force: bool = False, budget: Budget | None = None
    ) -> list[IndexView]:
        """Advance the deferred and the lagging indexes; see `AsyncUserMemory.advance`."""
        return await self._writes(
            "resume", budget, lambda: rebuild_module.advance(self._writer(), as_of, force=force)
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
