"""One user's open memory: its file, its models, and every verb of `AsyncUserMemory` that reads or writes it.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop, and no transaction is held across
a step that a model may do.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

from memforest.concurrency import Turns, reading, to_thread
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import MemForestError, ModelError, StoreError
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import Embedder, Extractor, is_remote
from memforest.progress import NOBODY, OnProgress, Timer, Watch
from memforest.read import entities, facts
from memforest.read.corrections import verdicts_at
from memforest.read.entities import Entity
from memforest.read.profiles import GRAPH, Profile, graph_profile, kept_profile, profile_and_kind, written
from memforest.read.query import Query, QueryPath
from memforest.read.receipts import DeleteReceipt, MergeResult
from memforest.read.results import AskResult, FlushResult, IngestResult, QueryResult, Usage, usage
from memforest.read.stored import CorrectionView, IndexView, RepairReport, TreeView, VerifyReport
from memforest.read.summaries import Summaries, policy_of
from memforest.read.verify import first_problem, verify, with_residue
from memforest.read.views import (
    Makers,
    TreeQuery,
    ViewContext,
    indexes_shown,
    known_of,
    rows_shown,
    tree_views,
)
from memforest.reading.steps import Steps
from memforest.records import StepUsage
from memforest.search.as_of import Moment, MomentCache
from memforest.search.cache import SnapshotCache
from memforest.search.vectors import VectorMaker, check_own, keep_embedder
from memforest.store import meta, sessions
from memforest.store.connections import UNEXPECTED, Tx
from memforest.store.database import Database
from memforest.store.sessions import Origin, SessionRow
from memforest.store.upkeep import purge
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees.attached import Attached
from memforest.trees.index import Index, ProfileRequest
from memforest.trees.refresh import makers_of
from memforest.write import correct, delete
from memforest.write import rebuild as rebuild_module
from memforest.write.batch import Batch, Refresh, SessionWriter, groups_of
from memforest.write.correct import Update, decide_apart, decide_same
from memforest.write.delete import DeleteTarget
from memforest.write.merge import merge_memory
from memforest.write.merge_plan import MergeOptions
from memforest.write.rebuild import Rebuild, rebuild, reclaim_space, repair_parts
from memforest.write.receive import Receiver
from memforest.write.sessions import InHand, StoredSession
from memforest.write.turns import GivenStatement, SessionInput


@dataclass(frozen=True, slots=True)
class OpenedWith:
    """The models and warnings with which a memory is opened. `embedder` is None when there is none, and `warnings` say why."""

    embedder: Embedder | None
    steps: Steps
    threshold: float | None
    warnings: tuple[str, ...] = ()
    chunk_turns: int | None = None
    """Configured turns per chunk, where the memory has another number."""


P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Memory:
    """One user's open memory: its file, its models, and what is read and written; made by `open_memory`."""

    def __init__(self, db: Database, user_id: str, label: str, config: Config, opened: OpenedWith) -> None:
        self.user_id = user_id
        self.db = db
        self.config = config
        self._steps = opened.steps
        self._embedder = opened.embedder
        self._warnings = opened.warnings
        self._cache = SnapshotCache(known_of(opened.embedder), self._check_embedder)
        self._threshold = opened.threshold
        self._chunk_turns = opened.chunk_turns
        self._resuming, self._in_hand = Turns(), InHand()
        self.attached = Attached(config)
        self._receiver = Receiver(db, config, label, opened.embedder)
        policy, made = policy_of(config, opened.steps), (opened.steps, opened.embedder)
        self._summaries = Summaries(
            db, *made, self.attached, self._cache, policy=policy, spending=self._spending, clock=config.clock
        )
        self._query_path = QueryPath(
            self.db,
            self._cache,
            self._steps,
            self._embedder,
            self._warnings,
            self.attached,
            self.config,
            self._summaries,
        )
        db.examine_with(partial(first_problem, attached=self.attached))

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

    async def query(self, asked: Query) -> QueryResult:
        """Return ranked evidence; see `AsyncMemForest.query`."""
        async with self._asking("query", asked) as (path, ledger):
            return (await path.query(asked, self._receiver.label, ledger))[0]

    async def ask(self, asked: Query) -> AskResult:
        """Answer from the best evidence, or abstain; see `AsyncMemForest.ask`."""
        async with self._asking("ask", asked) as (path, ledger):
            return await path.ask(asked, self._receiver.label, ledger)

    @asynccontextmanager
    async def _asking(self, operation: str, asked: Query) -> AsyncIterator[tuple[QueryPath, Ledger]]:
        """Yield what answers from the memory as it was at the moment, and keep what it has spent.

        An error that only damage can cause names the damage.
        """
        path = self._query_path
        if asked.moment is not None:
            path = replace(path, cache=MomentCache(self._cache, asked.moment, verdicts_at))
        try:
            with reading(), keeping(Ledger(asked.budget, operation)) as ledger:
                yield path, ledger
        except UNEXPECTED as exc:
            await to_thread(self.db.explain, exc)
            raise
        if ledger.steps:
            await self._keep_spent(operation, ledger.steps)

    async def view(self, make: Callable[..., T], *args: Any, moment: Moment | None = None, **how: Any) -> T:
        """Run one of `memforest.read.views` in a read transaction, on the memory as it was at a moment."""
        cache = self._cache if moment is None else MomentCache(self._cache, moment, verdicts_at)

        def run(tx: Tx) -> T:
            context = ViewContext(
                tx, cache, self.config, self.attached, self._present, moment, self._summaries.failures
            )
            return make(context, *args, **how)

        with reading():
            return await self.db.reading(run)

    async def tree(self, wanted: TreeQuery) -> list[TreeView]:
        """Return trees, with the summaries that they show; see `AsyncUserMemory.tree`."""
        async with self._spending("refresh"):
            indexes = await self.view(indexes_shown, wanted)
            for index in indexes:
                await self._summaries.ensure_fresh(
                    index, Timer(), partial(rows_shown, index=index, wanted=wanted)
                )
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
        async with self._spending("profile", budget or self.config.query_budget):
            return await written(self._steps, told, kind, when, zone)

    def _wants(self, participant: str | None, as_of_ms: int | None, said_by_ms: int | None) -> ProfileRequest:
        return ProfileRequest(self._now_ms, participant, as_of_ms, said_by_ms)

    async def _ready(self) -> list[str]:
        """Have the profiles written that are due and cost no call; return why some could not be made."""
        if is_remote(self._steps.summariser):
            return []
        return await self._fresh(lambda index: index.profiles)

    async def _fresh(self, which: Callable[[Index], bool]) -> list[str]:
        """Have the summaries of some indexes made that are missing; return why some could not be."""
        async with self._spending("refresh"):
            indexes = filter(which, await self.db.reading(self.attached.of))
            return [why for index in indexes for why in await self._summaries.ensure_fresh(index, Timer())]

    async def verify(self, deleted: Sequence[str] = ()) -> VerifyReport:
        """Check every invariant, and that texts are nowhere; see `memforest.read.verify`."""

        def run() -> VerifyReport:
            with self.db.fresh() as tx:
                report = verify(tx, self.attached)
                return report if not deleted else with_residue(tx, self.db.path, report, deleted)

        with reading():
            return await to_thread(run)

    @property
    def _present(self) -> Makers:
        turns = self._chunk_turns or self.config.chunk_turns
        model = None if self._embedder is None else self._embedder.model_id
        steps, length = self._steps, self._steps.summary_length
        summaries = makers_of(steps.summariser, length)
        return Makers(steps.extractor.name, steps.summariser.name + length, summaries, turns, model)

    @asynccontextmanager
    async def _spending(self, operation: str, budget: Budget | None = None) -> AsyncIterator[Ledger]:
        """Count what the block spends on models, within a budget, and keep it with the memory, however the block ends."""
        ledger = Ledger(budget or self.config.ingest_budget, operation)
        try:
            with keeping(ledger):
                yield ledger
        finally:
            if ledger.steps:
                await self._keep_spent(ledger.operation, ledger.steps)

    async def _keep_spent(self, operation: str, steps: Mapping[str, StepUsage]) -> None:
        """Add usage to the stored sums; a failure to write them is ignored, because the operation itself succeeded."""
        with suppress(StoreError):
            await self.db.writing(meta.add_spent, operation, steps)

    async def checkpoint(self) -> None:
        """Fold the write-ahead log into the file."""
        await to_thread(purge if self.db.unfinished else Database.checkpoint, self.db)

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
        batch = Batch(self._writer(extractor, Watch(self.user_id, on_progress)), self._warnings)

        with self._summaries.writing():
            async with self._spending("ingest", budget):
                with self._in_hand.write() as number:
                    if defer:  # each is stored in a transaction of its own, and left to `resume`
                        for at, arrival in enumerate(arrivals):
                            if (stored := await batch.receive(at, arrival, self._receiver)) is not None:
                                batch.defer(at, stored)
                        await batch.finish(refresh=None)
                    else:
                        # As they came: they are checked one by one.
                        turns = [len(one.turns) if isinstance(one.turns, Sized) else 0 for one in arrivals]
                        names = [str(one.session_id) for one in arrivals]
                        for group in groups_of(turns, names, together=self._steps.extracts_apart):
                            received: dict[int, StoredSession] = {}
                            for at in group:
                                if (one := await batch.receive(at, arrivals[at], self._receiver)) is not None:
                                    received[at] = one
                                    self._in_hand.hold(number, one.row)
                            await batch.process(received)
                        await self._finish(batch, refresh)
                if batch.replaced:  # the log still holds what was overwritten in the file
                    await to_thread(purge, self.db)
                return [batch.results[at] for at in range(len(arrivals))]

    async def _finish(self, batch: Batch, refresh: bool | None, now_ms: int | None = None) -> None:
        """Finish a write: make the summaries that the caller or the policy wants now, and start background work."""
        policy = self._summaries.policy
        how: Refresh = "all" if refresh or (refresh is None and policy == "path") else "nothing"
        batch.problems += self._summaries.take_warnings()
        if self.config.retention is not None and (expired := await delete.expire_if_due(self._writer())):
            batch.problems.append(expired)
        await batch.finish(refresh=how, now_ms=now_ms)
        if refresh is None and policy == "behind" and batch.changed:
            ledger = current_ledger()
            self._summaries.begin(ledger.budget.less(ledger.calls, ledger.tokens))

    async def append(
        self, arrival: SessionInput, *, budget: Budget | None = None, on_progress: OnProgress | None = None
    ) -> IngestResult:
        """Append live turns to a session, by default one a day; see `AsyncUserMemory.add`."""
        stored = await self._receiver.receive(arrival, append=True)
        batch = Batch(self._writer(watch=Watch(self.user_id, on_progress)), self._warnings)
        batch.tell_received(stored)

        with self._summaries.writing():
            async with self._spending("ingest", budget):
                with self._in_hand.write(stored.row):
                    await batch.process({0: stored})
                    await self._finish(batch, None)
                if isinstance(result := batch.results[0], MemForestError):
                    raise result
                if arrival.doubtful and self._embedder is not None:
                    found = await self.view(facts.doubts, self._embedder.model_id, batch.facts_of(0))
                    return replace(result, doubtful=found)
                return result

    async def delete(self, target: DeleteTarget, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete something, or count what would go; see `AsyncUserMemory.delete`."""
        with self._summaries.writing():
            async with self._spending("delete"):
                return await delete.delete(self._writer(), target, dry_run=dry_run)

    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete what is kept no longer; see `AsyncUserMemory.expire`."""
        with self._summaries.writing():
            async with self._spending("delete"):
                return await delete.expire(self._writer(), dry_run=dry_run)

    async def merge(
        self, other: Memory, options: MergeOptions, *, budget: Budget | None = None
    ) -> MergeResult:
        """Merge another memory into this one; see `AsyncUserMemory.merge`."""
        owner, theirs = (Origin("", one.user_id, one.label, {}) for one in (self, other))
        with self._summaries.writing():
            async with self._spending("merge", budget):
                return await merge_memory(self._writer(), owner, other.db, theirs, options)

    def sweep(self) -> None:
        """Delete what models made and nothing asks for any more; for a thread."""
        self._writer().sweep()

    def _writer(self, extractor: Extractor | None = None, watch: Watch = NOBODY) -> SessionWriter:
        return SessionWriter(
            self.db,
            self.config,
            self._steps if extractor is None else replace(self._steps, extractor=extractor),
            None if self._embedder is None else VectorMaker(self.db, self._embedder),
            self._threshold,
            self._cache,
            self.attached,
            self._summaries,
            watch,
        )

    async def update(self, fact_id: str, given: Update) -> CorrectionView:
        """Put another fact in the place of one; see `AsyncUserMemory.update`."""
        async with self._spending("correct"):
            return await correct.update(self._writer(), fact_id, given)

    async def remember_at(self, given: GivenStatement, session_id: str, turn_id: str) -> CorrectionView:
        """Remember what a stored turn says; see `AsyncUserMemory.remember`."""
        async with self._spending("correct"):
            return await correct.remember_at(self._writer(), given, session_id, turn_id)

    async def mark(self, fact_id: str, verdict: Literal["pin", "forget"]) -> CorrectionView:
        """Pin or forget a fact; see `AsyncUserMemory.pin` and `forget`."""
        async with self._spending("correct"):
            return await correct.mark(self._writer(), fact_id, verdict)

    async def undo(self, key: str) -> CorrectionView:
        """Take a correction back; see `AsyncUserMemory.undo`."""
        async with self._spending("correct"):
            return await correct.undo(self._writer(), key)

    async def merge_entities(self, a: str, b: str) -> Entity:
        """Decide that two names are one entity; see `AsyncUserMemory.merge_entities`."""
        (one, own), (other, others) = await self.view(entities.two_named, a, b)
        await self.db.writing(decide_same, now_ms=self._now_ms, one=one, other=other, groups=(own, others))
        return await self.view(entities.entity_named, a)

    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is another entity; see `AsyncUserMemory.split_entity`."""
        one, group = await self.view(entities.name_within, entity, name)
        rest = [row for row in group if row != one]
        await self.db.writing(decide_apart, now_ms=self._now_ms, one=one, others=rest)
        return await self.view(entities.entity_named, name)

    @property
    def _now_ms(self) -> int:
        return to_ms(self.config.clock())

    async def flush(self, budget: Budget | None = None) -> FlushResult:
        """Wait for what goes on behind writes, and make every summary that is missing; see `AsyncUserMemory.flush`."""
        async with self._spending("refresh", budget) as ledger:
            late = await self._writer().ready()
        done = await self._summaries.flush(ledger.budget.less(ledger.calls, ledger.tokens))
        return replace(done, warnings=(*late, *done.warnings))

    async def resume(
        self, budget: Budget | None = None, on_progress: OnProgress | None = None
    ) -> list[IngestResult]:
        """Finish what an interrupted write left: sessions, failed chunks, missing vectors, missing summaries.

        One call at a time does so in this process, and leaves to other writes what they are at work on: nothing is asked for
        twice.
        """
        async with self._resuming.turn(), self._spending("resume", budget):
            return await self._resume(self._writer(watch=Watch(self.user_id, on_progress)))

    async def _resume(self, writer: SessionWriter) -> list[IngestResult]:
        left = await self.db.writing(self._unfinished, self._in_hand.rows())
        batch = Batch(writer, self._warnings)
        turns, names = [one.turns for one in left], [one.session_id for one in left]
        for group in groups_of(turns, names, together=self._steps.extracts_apart):
            await batch.process(
                {
                    at: StoredSession(
                        left[at].row, left[at].session_id, unfinished=True, infer=left[at].infer
                    )
                    for at in group
                }
            )
        await writer.fill_vectors()
        self._summaries.try_again()
        await self._finish(batch, refresh=True, now_ms=self._now_ms)
        return batch.all()

    async def rebuild(self, what: Rebuild, budget: Budget | None = None) -> Usage:
        """Rebuild what is derived; see `AsyncUserMemory.rebuild`."""
        async with self._spending("rebuild", budget) as ledger:
            if what.stale and self._chunk_turns is not None:
                await self._cut_otherwise(self._chunk_turns)
            writer, timer = self._writer(), Timer()
            await rebuild(writer, timer, what)
            return usage(ledger, timer.ms, {} if writer.vectors is None else writer.vectors.ran)

    async def _cut_otherwise(self, chunk_turns: int) -> None:
        """Cut what comes from now on into chunks of the configured size."""
        await self.db.writing(meta.put, "chunk_turns", str(chunk_turns))
        self.config, self._chunk_turns = replace(self.config, chunk_turns=chunk_turns), None
        self._receiver = replace(self._receiver, config=self.config)

    async def add_index(self, name: str, settings: Any, budget: Budget | None = None) -> IndexView:
        """Add an index; see `AsyncUserMemory.add_index`."""
        async with self._spending("rebuild", budget):
            return await rebuild_module.add_index(self._writer(), name, settings)

    async def drop_index(self, name: str) -> None:
        """Delete an index; see `AsyncUserMemory.drop_index`."""
        await to_thread(rebuild_module.drop_index, self._writer(), name)

    async def advance(
        self, as_of: datetime | None, *, force: bool = False, budget: Budget | None = None
    ) -> list[IndexView]:
        """Make what is due by a time; see `AsyncUserMemory.advance`."""
        async with self._spending("resume", budget):
            return await rebuild_module.advance(self._writer(), as_of, force=force)

    async def advance_due(self) -> list[str]:
        """Make the summaries of paced indexes that are due by the clock; return why some could not be made, once each."""
        known = self._summaries.failures
        await self._fresh(lambda index: index.paced)
        return [why for why in self._summaries.failures if why not in known]

    async def settle(self, *, vectors: bool, budget: Budget | None = None) -> int:
        """Make missing vectors, if wanted, and return how many."""
        async with self._spending("resume", budget):
            if not vectors:
                return 0
            await self.db.writing(keep_embedder, self.db.path, self._embedder)
            return await self._writer().fill_vectors()

    def _unfinished(self, tx: Tx, in_hand: Collection[int]) -> list[SessionRow]:
        """Return the unfinished sessions; resuming is a write, so it keeps the embedder too."""
        keep_embedder(tx, self.db.path, self._embedder)
        rows = [row for row in sessions.unfinished(tx) if row not in in_hand]
        return [sessions.session_with_row(tx, row) for row in rows]

    async def repair(self) -> RepairReport:
        """Rebuild broken derived parts, resume, and reclaim space; see `AsyncUserMemory.repair`."""
        found = await self.verify()
        if any(problem.part == "file" for problem in found.problems):
            return RepairReport((), found.problems)
        did = await to_thread(repair_parts, self.db, found)
        try:
            resumed = await self.resume()
        except ModelError as exc:
            did.append(f"could not finish what was left: {exc}")
        else:
            did += [f"finished session {cut(repr(one.session_id), 60)}" for one in resumed]
        did += await to_thread(reclaim_space, self.db)
        return RepairReport(tuple(did), (await self.verify()).problems)


def _said_by(wanted: ProfileRequest) -> Moment | None:
    """Return the moment by which was said what a profile may tell."""
    return None if wanted.bound_ms is None else Moment(said_ms=wanted.bound_ms)
