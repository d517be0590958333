"""When one memory's summaries are made: before they are read, with a write, or behind it (`Config.refresh`).

Whoever is about to read summaries has those made that are missing (`Summaries.ensure_fresh`), so no policy changes what is
read, only when it is paid for. In a process one refresh runs at a time. Another process may run one as well, see
`memforest.trees.refresh`.

A background task (`Behind`) belongs to the event loop of the write that began it, and ends with it. Nothing is lost then:
the next refresh goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial

from memforest.concurrency import Turns, to_thread, writing
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import MemForestError, StoreClosedError, StoreLockedError, StoreWriteError
from memforest.models.ledger import Ledger
from memforest.ports import Embedder, is_remote
from memforest.progress import NOBODY, Timer, Watch
from memforest.read.results import FlushResult, usage
from memforest.reading.steps import Steps
from memforest.search.cache import Snapshots, forest_of
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import VectorMaker
from memforest.store import artifacts, meta
from memforest.store.connections import Tx, named
from memforest.store.database import Database
from memforest.times import Clock, to_ms
from memforest.trees.attached import Attached
from memforest.trees.index import ChooseRows, Index
from memforest.trees.refresh import Choose, Refreshed, Refresher, Rows, drop_outdated

LOOK_AGAIN_S = 1.0
QUIET_S = 0.1
"""Seconds without a write after which what is left is made behind it: sessions that come one after the other touch the
same trees, whose summaries are then made once."""
MOST_WAIT_S = 30.0
"""Longest that writes which do not end hold that up."""

_log = logging.getLogger(__name__)


def _promise() -> Future[None]:
    """Return a future that no waiter can cancel for the others."""
    made: Future[None] = Future()
    made.set_running_or_notify_cancel()
    return made


async def _until(ended: Future[None]) -> None:
    """Wait until a task ends, at most `LOOK_AGAIN_S`: a task whose loop was closed never ends."""
    await asyncio.wait({asyncio.ensure_future(asyncio.wrap_future(ended))}, timeout=LOOK_AGAIN_S)


class Behind:
    """Runs a job in the background when there is something to do; several requests are one run.

    Args:
        job: is given what may be spent: all that was allowed since the run before.
    """

    def __init__(self, job: Callable[[Budget], Awaitable[object]]) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._waiting: Budget | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = _promise()
        self._error: BaseException | None = None

    @property
    def at_work(self) -> bool:
        """Whether a run is under way."""
        with self._lock:
            return self._runs()

    def _runs(self) -> bool:
        return self._task is not None and self._loop is not None and not self._loop.is_closed()

    def begin(self, budget: Budget) -> None:
        """Start the job on this event loop; if it is running, let it run once more when it has ended."""
        with self._lock:
            self._waiting = budget if self._waiting is None else self._waiting.plus(budget)
            if not self._runs():
                self._loop, self._ended = asyncio.get_running_loop(), _promise()
                self._task = self._loop.create_task(self._run())
                self._task.add_done_callback(partial(self._note_end, self._ended))

    async def _run(self) -> None:
        while (budget := self._next()) is not None:
            await self._job(budget)

    def _next(self) -> Budget | None:
        """Return what the next run may spend; None ends the task."""
        with self._lock:
            budget, self._waiting = self._waiting, None
            if budget is None:
                self._task = None
            return budget

    def _note_end(self, ended: Future[None], task: asyncio.Task[None]) -> None:
        """Record how a task ended, and wake those who wait for it."""
        with self._lock:
            if self._task is task:
                self._task, self._waiting = None, None
            if not task.cancelled() and (error := task.exception()) is not None:
                self._error = error
                _log.error("work behind a write failed: %s", named(error))
        ended.set_result(None)

    async def wait(self) -> bool:
        """Wait until nothing is under way; return whether something was.

        Raises:
            Exception: what ended the task, if that was no error that the job deals with.
        """
        waited = False
        while self.at_work:
            waited = True
            await _until(self._ended)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return waited

    async def stop(self) -> None:
        """Cancel the task and wait until it has ended."""
        with self._lock:
            task, loop, ended = self._task, self._loop, self._ended
            runs = self._runs()
        if runs and task is not None and loop is not None:
            with suppress(RuntimeError):  # the loop was closed just now
                loop.call_soon_threadsafe(task.cancel)
            while self.at_work and not ended.done():
                await _until(ended)


Spending = Callable[[str, Budget | None], AbstractAsyncContextManager[Ledger]]
"""Counts what a block spends under an operation's name, within a budget, and keeps it with the memory."""


def policy_of(config: Config, steps: Steps) -> str:
    """Return when a memory's summaries are made: one of `memforest.config.Refresh`."""
    return config.refresh or ("behind" if is_remote(steps.summariser) else "lazy")


class Summaries:
    """Makes the summaries of one memory, for any event loop.

    Args:
        db: the memory.
        steps: with the summariser.
        embedder: None in a memory that works by words alone.
        attached: the memory's indexes, which say how nodes are summarised.
        policy: one of `memforest.config.Refresh`.
        spending: counts what is made outside of another operation.
    """

    def __init__(
        self,
        db: Database,
        steps: Steps,
        embedder: Embedder | None,
        attached: Attached,
        cache: Snapshots,
        *,
        policy: str,
        spending: Spending,
        clock: Clock,
    ) -> None:
        self.policy = policy
        self._db = db
        self._steps = steps
        self._embedder = embedder
        self._attached = attached
        self._cache, self._clock = cache, clock
        self._spending = spending
        self._turns = Turns()
        self._behind = Behind(self._run_behind)
        self._lock = threading.Lock()
        self._did = FlushResult()
        self._unreported: list[str] = []
        self._writing = 0
        self._hurried = 0
        """Writes that are under way, and callers who wait for what is made behind them."""
        self._quiet_since = 0.0
        self.failures: tuple[str, ...] = ()
        """Why summaries could not be made when they were last to be."""
        self._asked = 0
        """How many artifacts trees asked for when that was last looked at."""
        self._given_up: object = None
        """The state of the memory when a refresh last failed: reading does not try the same again."""

    async def make(
        self,
        maker: VectorMaker | None,
        timer: Timer,
        *,
        now_ms: int | None = None,
        watch: Watch = NOBODY,
    ) -> Refreshed:
        """Make all summaries that are missing and due, as part of the operation under way.

        Args:
            maker: makes vectors.
            timer: of the operation.
            now_ms: the instant by which they are due; None for what was said last.
            watch: is told how far it is.
        """
        async with self._turns.turn():
            return await self._run(maker, timer, None, None, self._cache, now_ms, watch)

    async def _run(
        self,
        maker: VectorMaker | None,
        timer: Timer,
        indexes: Sequence[Index] | None,
        choose: Choose | None,
        cache: Snapshots,
        now_ms: int | None,
        watch: Watch = NOBODY,
    ) -> Refreshed:
        """Refresh with the memory's embedder, if this is the maker's, and note time and whether it failed."""
        with timer.timed("refresh"):
            # A memory that was only read keeps no vectors yet.
            own = maker and await self._db.reading(meta.get, "embedder") == maker.embedder.model_id
            embed = partial(maker.make, kind="node") if maker and own else None
            refresher = Refresher(
                self._db,
                cache,
                self._attached.of if indexes is None else (lambda tx: indexes),
                self._steps.summariser,
                embed,
                self._steps.summary_words,
                maker.embedder.model_id if maker and own else None,
                self._steps.summary_length,
                lambda index, forest: index.due(forest, now_ms),
                partial(watch.say, "refreshed", None),
            )
            done = await refresher.make(choose)
            if done.nodes:
                self._asked = await to_thread(
                    drop_outdated, self._db, self._cache.get, self._attached.of, self._asked
                )
            self._given_up = await self._db.reading(_mark) if done.failures else None
            if done.failures or choose is None:
                self.failures = tuple(dict.fromkeys(done.failures))
        parts = {"summarise": done.summarise_ms, "embed": done.embed_ms, "store": done.store_ms}
        for part, ms in parts.items():
            timer.ms[f"refresh.{part}"] = timer.ms.get(f"refresh.{part}", 0.0) + ms
        return done

    def try_again(self) -> None:
        """Let what could not be made be tried once more in the same state: the model may be back."""
        self._given_up = None

    async def ensure_fresh(
        self,
        index: Index,
        timer: Timer,
        choose: ChooseRows | None = None,
        maker: VectorMaker | None = None,
        cache: Snapshots | None = None,
    ) -> list[str]:
        """Make summaries of an index that are about to be read, within the current operation; return why some could not be.

        What has failed in the same state of the memory is not tried again.
        """

        def chosen(tx: Tx, snapshot: Snapshot) -> Rows:
            rows = None if choose is None else choose(tx, snapshot, forest_of(tx, snapshot, index))
            return {index.name: rows}

        async with self._turns.turn():
            if await self._db.reading(_mark) == self._given_up:
                return ["summaries are out of date, as they could not be made; flush() tries again"]
            now_ms = to_ms(self._clock())
            try:
                with writing():  # also where a question waits for it
                    done = await self._run(
                        maker or self._maker(), timer, [index], chosen, cache or self._cache, now_ms
                    )
            except (StoreWriteError, StoreLockedError) as exc:
                return [f"summaries are left: {exc}"]
            return done.failures

    def _maker(self) -> VectorMaker | None:
        return None if self._embedder is None else VectorMaker(self._db, self._embedder)

    def begin(self, budget: Budget) -> None:
        """Start making all summaries in the background, within a budget."""
        self._behind.begin(budget)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Note that a write is under way: the summaries that it leaves missing are not made while it goes on."""
        with self._lock:
            self._writing += 1
        try:
            yield
        finally:
            with self._lock:
                self._writing -= 1
                self._quiet_since = time.monotonic()

    async def _run_behind(self, budget: Budget) -> None:
        """Refresh when no write has been under way for `QUIET_S`, after `MOST_WAIT_S` at most, or when somebody waits."""
        deadline = time.monotonic() + MOST_WAIT_S
        while not self._hurried and (now := time.monotonic()) < deadline:
            if not self._writing and now - self._quiet_since >= QUIET_S:
                break
            await asyncio.sleep(QUIET_S)
        try:
            did = await self._refresh(budget, None)
        except StoreClosedError:
            return  # what is left is marked in the file
        except MemForestError as exc:
            did = FlushResult(warnings=(f"summaries are left: {exc}",))
        with self._lock:
            self._did = self._did.plus(did)  # with the next write, or flush, it is told
            self._unreported += did.warnings

    async def _refresh(self, budget: Budget | None, now_ms: int | None) -> FlushResult:
        """Run a refresh that is no part of another operation, and return its counts."""
        async with self._spending("refresh", budget) as ledger:
            timer, maker = Timer(), self._maker()
            done = await self.make(maker, timer, now_ms=now_ms)
            return FlushResult(
                nodes_refreshed=done.nodes,
                nodes_dirty=done.left,
                usage=usage(ledger, timer.ms, {} if maker is None else maker.ran),
                warnings=(*done.failures, *_over_budget(ledger.refused), *ledger.warnings),
            )

    async def flush(self, budget: Budget | None = None) -> FlushResult:
        """Wait for background refreshes, refresh what is left, and return the counts of both."""
        with self._lock:
            self._hurried += 1
        try:
            waited = await self._behind.wait()
        finally:
            with self._lock:
                self._hurried -= 1
        with self._lock:
            did, self._did = self._did, FlushResult()
            self._unreported.clear()
        if waited and did.warnings:
            return did  # it failed just now
        return did.plus(await self._refresh(budget, to_ms(self._clock())))

    def take_warnings(self) -> list[str]:
        """Return the warnings of background work since the last call."""
        with self._lock:
            unreported, self._unreported = list(dict.fromkeys(self._unreported)), []
            return unreported

    @property
    def at_work(self) -> bool:
        """Whether background work is under way."""
        return self._behind.at_work

    async def close(self, *, finish: bool = True) -> None:
        """Refresh everything if the policy is "close", then cancel background work; what is not made is missing, and the next refresh finds it.

        Args:
            finish: False refreshes nothing.
        """
        if self.policy == "close" and finish:
            await self.flush()
        await self._behind.stop()


def _mark(tx: Tx) -> object:
    return meta.generation(tx), artifacts.state(tx)


def _over_budget(refused: Mapping[str, int]) -> list[str]:
    count = sum(refused.values())
    return [f"the budget is used up, and {count} summaries are left; flush() makes them"] if count else []
