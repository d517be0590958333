"""Processing the sessions of one call together, from `received` to their results.

What the sessions of a call share (judging, routing, the refresh) counts for the last of them. A session is finished when
it is written; those that were processed last are when the call has done the rest.


Advancing indexes that lag behind the feed: after a crash, an error, or their addition; deferred ones after each write.

Each step is a transaction of its own, so that other writers wait for none of them long, and a crash loses no more
than the step that it ends.


Writing sessions to one memory: extract, judge, commit, refresh - and resume from any point of it.

Each stage ends in a short transaction, and what a stage needs is read back from the store, so that a crash
between any two leaves work that `resume` finds: sessions not ingested, failed chunks, missing vectors,
dirty nodes.

"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal

from memforest.concurrency import all_of, to_thread
from memforest.config import Config
from memforest.errors import MemForestError, ModelError, SessionConflictError
from memforest.models.ledger import current_ledger
from memforest.progress import NOBODY, Timer, Watch
from memforest.read.host import MemoryHost
from memforest.read.results import ChunkReport, IngestResult, Usage, shared, usage
from memforest.read.summaries import Summaries
from memforest.reading.steps import Steps
from memforest.records import Refused
from memforest.search.cache import SnapshotCache
from memforest.search.vectors import VectorMaker
from memforest.store import indexes
from memforest.store import trees as trees_rows
from memforest.store.connections import IndexProblem, attempted, described, named
from memforest.store.database import Database
from memforest.store.sessions import WriteKey
from memforest.text import cut
from memforest.trees.attached import Attached
from memforest.trees.index import Index, Occasion
from memforest.trees.refresh import Refreshed
from memforest.write.commit import CommittedSession, commit_in_parts
from memforest.write.extract import extract, find_same
from memforest.write.receive import Receiver
from memforest.write.sessions import StoredSession, fill_vectors, load, with_first_result
from memforest.write.turns import SessionInput


async def catch_up(
    host: MemoryHost, attached: Attached, names: Collection[str] | None = None, *, failed: bool = True
) -> list[str]:
    """Bring indexes up to the end of the feed; return which could not be, and why.

    Args:
        host: the memory.
        attached: its indexes.
        names: of these; None for all that are behind, or deferred. Those that cannot be used here are passed over.
        failed: also those that have failed before.

    Raises:
        StoreError: if the memory cannot be written.
    """
    problems: list[str] = []
    for index in await to_thread(_wanted, host.db, attached, names, failed):
        until, lost = await to_thread(_target, host.db, attached, index.name)
        if lost is not None:
            problems.append(lost)
        elif (error := await attempted(index.advance(host, until))) is not None:
            why = described(error)
            await host.write(partial(indexes.stop, name=index.name, reason=why))
            goes_on = "it stays behind, and resume() moves it on"
            problems.append(
                IndexProblem.of(
                    f"the index {index.name!r} {why}; {goes_on}",
                    f"the index {index.name!r} failed: {named(error)}; {goes_on}",
                )
            )
        elif await to_thread(_is_stopped, host.db, index.name):  # by what failed before, also elsewhere
            await host.write(partial(indexes.go_on, name=index.name))
    return problems


def _wanted(db: Database, attached: Attached, names: Collection[str] | None, failed: bool) -> list[Index]:
    with db.read() as tx:
        stopped = {row.name for row in indexes.rows(tx) if row.reason is not None}
        behind = attached.lagging(tx)
        return [
            index
            for index in attached.of(tx)
            if (
                index.name in behind or index.deferred or index.paced
                if names is None
                else index.name in names
            )
            and (failed or index.name not in stopped)
        ]


def _target(db: Database, attached: Attached, name: str) -> tuple[int, str | None]:
    """Return the end of the feed, and why an index cannot go on to it from where it stands."""
    with db.read() as tx:
        row = indexes.find(tx, name)
        return indexes.feed_position(tx), None if row is None else attached.lost(tx, row)


def _is_stopped(db: Database, name: str) -> bool:
    with db.read() as tx:
        row = indexes.find(tx, name)
        return row is not None and row.reason is not None


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
        """Take stored sessions, at least one, to `ingested`: extract their open chunks, embed, judge, and commit each.

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
            return frozenset(tree for tree, owner in trees_rows.dirty_trees(tx).items() if owner in deferred)

    def _roots(self, trees: Collection[int]) -> list[int]:
        with self.db.read() as tx:
            return sorted(trees_rows.roots(tx, trees))

    async def refresh_nothing(self) -> Refreshed:
        """Return how many nodes are out of date."""
        return Refreshed(left=await to_thread(self._dirty))

    def _dirty(self) -> int:
        with self.db.read() as tx:
            return trees_rows.dirty_count(tx, without=self.attached.paced(tx))

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


_log = logging.getLogger(__name__)

Refresh = Literal["all", "path", "nothing"]
"""What a write brings up to date before it returns."""

MOST_TURNS_AT_ONCE = 4096
"""Turns whose chunks go to a model together. Enough to keep hundreds of requests in flight; what is made of a
group is written before the next is begun, so that a crash costs at most one group's replies."""


def groups_of(arrivals: Sequence[SessionInput], *, together: bool) -> list[list[int]]:
    """Return which arrivals go through the steps together; no session comes twice in a group.

    Args:
        arrivals: in the order of the call.
        together: several at once; else each by itself.
    """
    turns = [len(one.turns) if isinstance(one.turns, Sized) else 0 for one in arrivals]
    names = [one.session_id if isinstance(one.session_id, str) else None for one in arrivals]  # as they came
    return groups_of_turns(turns, names, together=together)


def groups_of_turns(turns: Sequence[int], names: Sequence[str | None], *, together: bool) -> list[list[int]]:
    """Return which sessions go through the steps together, by their numbers of turns and their names; see `groups_of`."""
    groups: list[list[int]] = []
    size, inside = 0, set[str | None]()
    for at, (count, name) in enumerate(zip(turns, names, strict=True)):
        if groups and together and name not in inside and size < MOST_TURNS_AT_ONCE:
            groups[-1].append(at)
        else:
            groups.append([at])
            size, inside = 0, set()
        size += count
        inside.add(name)
    return groups


class Batch:
    """Processes stored sessions together (extract, judge, commit, refresh), and makes the result of each.

    Args:
        writer: of the memory; its `watch` is told how far the sessions are.
        warnings: said with every result.
    """

    def __init__(self, writer: SessionWriter, warnings: Sequence[str]) -> None:
        self._writer = writer
        self._warnings = tuple(warnings)
        self._stored: dict[int, StoredSession] = {}
        self._committed: dict[int, CommittedSession] = {}
        self._errors: dict[int, MemForestError] = {}
        self._refreshed = Refreshed()
        self._failures: list[str] = []
        self._tried = False
        self._repeated: dict[int, IngestResult] = {}
        self._deferred: dict[int, tuple[ChunkReport, ...]] = {}
        self._unfinished: dict[int, str] = {}
        """The sessions that were processed last, by place."""

    def fail(self, at: int, error: MemForestError) -> None:
        """Record an error as the result of a session."""
        self._errors[at] = error

    async def receive(self, at: int, arrival: SessionInput, receiver: Receiver) -> StoredSession | None:
        """Store the turns of a session and tell of it; None if they could not be, which is the session's result then.

        Args:
            at: place in the call.
            arrival: the session.
            receiver: of the memory.
        """
        try:
            stored = await receiver.receive(arrival)
        except MemForestError as exc:
            self.fail(at, exc)
            self._writer.watch.finished(arrival.session_id, failed=True)
            return None
        if stored.replaced:
            self._writer.db.unfinished = True  # the log still holds what was overwritten in the file
        self.tell_received(stored)
        return stored

    def tell_received(self, stored: StoredSession) -> None:
        """Tell how many turns of a session are stored."""
        turns = stored.known_turns + stored.new_turns
        self._writer.watch.received(stored.session_id, turns, len(stored.refused))

    async def defer(self, at: int, stored: StoredSession) -> None:
        """Leave a session as it was received; its result names the chunks that are to be read."""
        self._stored[at] = stored
        open_ = stored.new_turns or stored.unfinished
        self._deferred[at] = await self._writer.open_chunks(stored) if open_ else ()

    def _tell_finished(self) -> None:
        """Tell that the sessions that were processed last are written, or have failed."""
        last, self._unfinished = self._unfinished, {}
        for at, name in last.items():
            self._writer.watch.finished(name, failed=at in self._errors)

    def warn(self, problems: Sequence[str]) -> None:
        """Add warnings to the results."""
        self._failures += problems

    @property
    def replaced(self) -> bool:
        """Whether a session has overwritten another one."""
        return any(one.replaced for one in self._stored.values())

    @property
    def left_dirty(self) -> bool:
        """Whether summaries are out of date, of this write or an earlier one."""
        return self._refreshed.left > 0

    @property
    def placed(self) -> frozenset[int]:
        """The trees that were written, also those that lost what was taken back."""
        placed = [one.placed for one in self._stored.values()]
        placed += [one.placed for one in self._committed.values()]
        return frozenset[int]().union(*(one.trees for one in placed))

    async def process(self, stored: Mapping[int, StoredSession]) -> None:
        """Extract, embed, judge and commit some sessions together.

        Args:
            stored: place in the call -> the session.
        """
        self._tell_finished()  # of those before
        self._unfinished = {at: one.session_id for at, one in stored.items()}
        self._stored.update(stored)
        open_ = {at: one for at, one in stored.items() if one.new_turns or one.unfinished}
        if not open_:
            return
        try:
            done = await self._writer.process(list(open_.values()))
        except MemForestError as exc:
            for at, one in open_.items():
                self.fail(at, _with_stored(exc, one.session_id) if isinstance(exc, ModelError) else exc)
            return
        for at, committed in zip(open_, done, strict=True):
            if isinstance(committed, CommittedSession):
                self._committed[at] = committed
            else:
                self.fail(at, committed)

    async def finish_deferred(self) -> None:
        """Make the results of sessions that were received and no more."""
        self._refreshed = await self._writer.refresh_nothing()
        await self._read_repeated()

    async def finish(self, *, refresh: Refresh) -> None:
        """Make the vectors of reworded and corrected facts, advance indexes that lag, and refresh the summaries that are wanted.

        What a model fails to make is left for `resume`, with a warning: the sessions are written.

        Args:
            refresh: all summaries that are out of date, those above what was written, or none.
        """
        committed = self._committed.values()
        if any(one.reworded for one in self._stored.values()) or any(one.unembedded for one in committed):
            try:
                await self._writer.fill_vectors()
            except ModelError as exc:
                self._failures.append(f"vectors are left: {exc}; resume() makes them")
        self.warn(await self._writer.catch_up(failed=False, occasion="write"))
        timer = self._stored[max(self._committed)].timer if self._committed else Timer()
        if refresh == "all" and (self._committed or not self._stored):
            self._refreshed = await self._writer.refresh(timer)
        elif refresh == "path" and (trees := self.placed | await self._writer.deferred_trees()):
            self._refreshed = await self._writer.refresh_above(trees, timer)
        else:
            self._refreshed = await self._writer.refresh_nothing()
        self._tried = refresh != "nothing"
        await self._read_repeated()
        self._tell_finished()

    async def _read_repeated(self) -> None:
        """Read what the first calls of those that came again with their keys have done."""
        for at, one in self._stored.items():
            if one.repeats is not None and at not in self._errors:
                self._repeated[at] = await self._writer.first_result(self._own_result(at), one.repeats)

    def result(self, at: int) -> IngestResult | MemForestError:
        """Return the result of a session, or the error that it ended with."""
        return self._errors.get(at) or self._repeated.get(at) or self._own_result(at)

    def _own_result(self, at: int) -> IngestResult:
        """Return what this call has done of a session."""
        stored, done = self._stored[at], self._committed.get(at, CommittedSession())
        last = at == max(self._committed or self._stored)
        refreshed = self._refreshed if last else Refreshed()
        return IngestResult(
            session_id=stored.session_id,
            turns_added=stored.new_turns,
            added=tuple(done.added),
            merged=tuple(done.merged),
            superseded=tuple(done.superseded),
            chunks=self._deferred.get(at, done.chunks),
            deferred=at in self._deferred,
            refused=stored.refused,
            redacted=stored.redacted,
            replaced=stored.replaced,
            trees_updated=len(done.placed.trees),
            nodes_written=done.placed.nodes,
            nodes_refreshed=refreshed.nodes,
            nodes_dirty=refreshed.left,
            usage=self._usage(stored, done, last and bool(self._committed)),
            warnings=(
                *self._warnings,
                *stored.problems,
                *stored.notes,
                *_refusals(stored.refused),
                *_unread(done.chunks),
                *_failures(done.chunks),
                *(self._whole_warnings() if last else ()),
                *done.warnings,
                *refreshed.failures,
            ),
        )

    def _usage(self, stored: StoredSession, done: CommittedSession, last: bool) -> Usage:
        """Return what a session cost; with the last one counts what the sessions of the call share."""
        cost = usage(done.spent, stored.timer.ms, done.embeds)
        if not last:
            return cost
        parts = [each.spent for each in self._committed.values()]
        nodes = {} if self._writer.vectors is None else self._writer.vectors.ran
        return cost.plus(usage(shared(current_ledger(), parts), {}, nodes))

    def only(self) -> IngestResult:
        """Return the result of the only session.

        Raises:
            MemForestError: if it failed.
        """
        [result] = self.all()
        return result

    def all(self) -> list[IngestResult]:
        """Return the results of all sessions.

        Raises:
            MemForestError: if one failed; the first of them.
        """
        found = []
        for at in sorted({*self._stored, *self._errors}):
            result = self.result(at)
            if isinstance(result, MemForestError):
                raise result
            found.append(result)
        return found

    def _whole_warnings(self) -> list[str]:
        """Return the warnings of the whole operation."""
        return [*self._failures, *self._budget_warning(), *current_ledger().warnings]

    def _budget_warning(self) -> list[str]:
        """Return the warning that names what the budget did not reach; empty when it reached everything."""
        ledger = current_ledger()
        if not ledger.refused:
            return []
        chunks = sum(chunk.status == "left" for one in self._committed.values() for chunk in one.chunks)
        left = {
            "chunks": chunks,
            "judgements": ledger.refused.get("judge", 0),
            "summaries": self._refreshed.left if self._tried else 0,
        }
        what = ", ".join(f"{count} {name}" for name, count in left.items() if count)
        bounds = [
            f"{most} {name}"
            for name, most in (("calls", ledger.budget.max_calls), ("tokens", ledger.budget.max_tokens))
            if most is not None
        ]
        return [
            f"the budget of {' and '.join(bounds)} is used up and these are left: {what}; "
            "resume() goes on with chunks and summaries"
        ]


def _refusals(refused: Sequence[Refused]) -> list[str]:
    """Say which turns were not stored, the first of them by name."""
    if not refused:
        return []
    more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
    said = "; ".join(str(one) for one in refused[:3])
    return [f"{len(refused)} turn(s) were not stored, all others are: {said}{more}"]


def _unread(chunks: Sequence[ChunkReport]) -> list[str]:
    """Say how many turns were not read to their end, because of a limit."""
    turns = {
        turn for one in chunks for turn, reason in one.skipped if reason in ("too long", "over the limit")
    }
    if not turns:
        return []
    more = f" and {len(turns) - 3} more" if len(turns) > 3 else ""
    named = ", ".join(cut(repr(turn), 60) for turn in sorted(turns)[:3])
    return [
        f"turn {named}{more}: what is over a limit is found by its words and in no statement; give it in shorter turns"
    ]


def _failures(chunks: Sequence[ChunkReport]) -> list[str]:
    """Say which chunks a model failed on, and log that it did; what it said may hold anything, so the log has no word of it."""
    failed = [one.failure or "" for one in chunks if one.status == "failed"]
    if not failed:
        return []
    kind = failed[0].partition(":")[0]
    _log.warning("the extractor failed on %d of %d chunks (%s)", len(failed), len(chunks), cut(kind, 60))
    return [
        f"{len(failed)} chunk(s) could not be read by the model and are read by local rules until resume() succeeds: "
        f"{cut(failed[0], 200)}"
    ]


def _with_stored(exc: ModelError, session_id: str) -> ModelError:
    """Return the same error, saying that nothing of the session is lost."""
    said = copy(exc)  # with status and retries
    said.args = (
        f"{exc}; the turns of session {cut(repr(session_id), 60)} are stored, and resume() makes memory of them",
    )
    said.__cause__ = exc
    return said
