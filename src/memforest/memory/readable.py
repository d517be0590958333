"""One user's open memory: its file, its models, and what is read of it.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from memforest.concurrency import Turns, reading, to_thread
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import StoreError
from memforest.interval import from_ms, to_ms
from memforest.memory.filing import written
from memforest.memory.host import MemoryHost
from memforest.memory.ingest.in_hand import InHand
from memforest.memory.ingest.receive import Receiver
from memforest.memory.ingest.verdicts import verdicts_at
from memforest.memory.inspect.profiles import (
    GRAPH,
    graph_profile,
    kept_profile,
    profile_and_kind,
)
from memforest.memory.inspect.residue import with_residue
from memforest.memory.inspect.stored import Stale
from memforest.memory.inspect.trees import Wanted, shown_nodes, tree_views
from memforest.memory.inspect.verify import first_problem, verify
from memforest.memory.inspect.views import ViewContext
from memforest.memory.jobs import Handlers
from memforest.memory.known import known_of
from memforest.memory.opened import Opened
from memforest.memory.query.query_path import Query, QueryPath
from memforest.memory.results import (
    AskResult,
    Profile,
    QueryResult,
    TreeView,
    VerifyReport,
)
from memforest.memory.staleness import Present, what_is_stale
from memforest.memory.summaries import Summaries, policy_of
from memforest.memory.timing import Timer
from memforest.memory.vectors import VectorMaker, check_own
from memforest.models.ledger import Ledger, keeping
from memforest.search.cache import SnapshotCache
from memforest.store import spent
from memforest.store.db import Database
from memforest.store.disposal import purge
from memforest.store.faults import UNEXPECTED
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.base import Index
from memforest.systems.moments import Moment, MomentCache
from memforest.systems.profiling import ProfileRequest
from memforest.types import StepUsage

T = TypeVar("T")
R = TypeVar("R", QueryResult, AskResult)


class ReadableMemory:
    """One user's memory as far as it is read; `memforest.memory.memory.Memory` writes it too."""

    def __init__(self, db: Database, user_id: str, label: str, config: Config, opened: Opened) -> None:
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
        self._cell_turns = opened.cell_turns
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
        """Run one of `memforest.memory.inspect.views` in a read transaction, on the memory as it was at a moment."""
        cache = self._cache if moment is None else MomentCache(self._cache, moment, verdicts_at)

        def run() -> T:
            with self.db.read() as tx:
                context = ViewContext(
                    tx, cache, self.config, self._attached, present=self._present, moment=moment
                )
                return make(context, *args, **how)

        with reading():
            return await to_thread(run)

    async def tree(self, wanted: Wanted) -> list[TreeView]:
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
        """Check every invariant, and that texts are nowhere; see `memforest.memory.inspect.verify`."""

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
    def _present(self) -> Present:
        turns = self._cell_turns or self.config.cell_turns
        model = None if self._embedder is None else self._embedder.model_id
        return Present(self._steps.extractor.name, self._steps.summariser, turns, model)

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
            spent.add(tx, operation, steps)

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
