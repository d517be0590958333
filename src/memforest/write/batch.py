"""Processing stored sessions to the end of their write: extract, judge, commit, refresh; and resuming from any point.

`SessionWriter` does the steps. Each ends in a short transaction or in none, so that a crash between any two leaves work
that `resume` finds: sessions not ingested, failed chunks, missing vectors, missing summaries.

`Batch` takes the sessions of one call through the steps together and makes their results. What they share (judging, the
refresh) counts for the last of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal

from memforest.concurrency import all_of, to_thread
from memforest.config import Config
from memforest.errors import MemForestError, ModelError, SessionConflictError, StoreReplacedError
from memforest.models.ledger import Ledger, current_ledger
from memforest.progress import NOBODY, Timer, Watch
from memforest.read.host import MemoryHost
from memforest.read.results import ChunkReport, IngestResult, usage
from memforest.read.stored import CorrectionView
from memforest.read.summaries import Summaries
from memforest.reading.steps import Steps
from memforest.records import Refused
from memforest.search.cache import SnapshotCache
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import VectorMaker
from memforest.store import artifacts
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.text import cut
from memforest.trees.attached import Attached
from memforest.trees.refresh import Refreshed, reachable
from memforest.write.commit import CommittedSession, commit_in_parts
from memforest.write.extract import ExtractedSession, asked_again, extract, find_same, with_replies
from memforest.write.receive import Receiver
from memforest.write.sessions import StoredSession, fill_vectors, load, with_first_result
from memforest.write.turns import SessionInput


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

    async def extract(self, stored: Iterable[StoredSession], timer: Timer) -> list[ExtractedSession]:
        """Extract and embed the open chunks of loaded sessions, and judge what is near; all of them are asked for at once.

        Raises:
            ModelError: if a model cannot be used at all; the sessions stay as they were.
        """
        steps, vectors, gate = self.steps, self.vectors, asyncio.Lock()
        with timer.timed("extract"):
            if steps.extracts_apart:
                stored = await with_replies(self.db, self.config, stored, steps.extractor.name)
            made = await all_of(
                extract(self.db, self.config, one, steps, vectors, self.threshold, gate, self.watch)
                for one in stored
            )
        if steps.judge is None:
            return made
        with timer.timed("judge"):
            model = None if vectors is None else vectors.embedder.model_id
            new = [(one.statements, one.vectors) for one in made]
            same = await find_same(steps.judge, self.db, self.cache, new, model)
        return [replace(one, same=same) for one in made]

    async def refresh(self, timer: Timer, now_ms: int | None = None) -> Refreshed:
        """Make the summaries that are missing, of what has ended by an instant, or by what was said last if that is None."""
        return await self.summaries.make(self.vectors, timer, now_ms=now_ms, watch=self.watch)

    def asked_for(self, tx: Tx, snapshot: Snapshot, known: Mapping[bytes, artifacts.Step]) -> set[bytes]:
        """Return those of some artifacts, digest -> step, that the memory may ask for as it is."""
        of_trees = reachable(tx, snapshot, self.attached.of(tx))
        return known.keys() & of_trees | asked_again(tx, self.config, known)

    def sweep(self) -> int:
        """Delete the artifacts that nothing asks for any more, and return how many; for a thread.

        Who deletes or hides something calls it before the file is purged: they may tell of it.
        """
        with self.db.write() as tx:
            known = artifacts.known(tx)
            return artifacts.keep(tx, self.asked_for(tx, self.cache.get(tx), known) if known else ())

    async def ready(self) -> list[str]:
        """Have made what the trees of indexes are grown by, where that is more than what is stored; return why some were not."""
        host = MemoryHost(self.db, self.cache, self.config, self.steps, self.vectors, self.summaries)
        grown = [index for index in await self.db.reading(self.attached.of) if index.grows_by_artifacts]
        return [why for index in grown for why in await index.ready(host)]

    async def fill_vectors(self) -> int:
        """Make the vectors that a crash, or a time without an embedder, left missing; return how many."""
        return 0 if self.vectors is None else await fill_vectors(self.db, self.vectors)


_log = logging.getLogger(__name__)

Refresh = Literal["all", "nothing"]
"""Which missing summaries a write makes before it returns."""

MOST_TURNS_AT_ONCE = 4096
"""Turns whose chunks go to a model together. Enough to keep hundreds of requests in flight; what is made of a
group is written, and found by questions, before the next is begun."""


def groups_of(turns: Sequence[int], names: Sequence[str], *, together: bool) -> list[list[int]]:
    """Return which sessions go through the steps together; none comes twice in a group.

    Args:
        turns: how many each has, in the order of the call.
        names: what each is called.
        together: several at once; else each by itself.
    """
    groups: list[list[int]] = []
    size, inside = 0, set[str]()
    for at, (count, name) in enumerate(zip(turns, names, strict=True)):
        if groups and together and name not in inside and size < MOST_TURNS_AT_ONCE:
            groups[-1].append(at)
        else:
            groups.append([at])
            size, inside = 0, set()
        size += count
        inside.add(name)
    return groups


@dataclass(slots=True)
class Batch:
    """Processes stored sessions together (extract, judge, commit, refresh), and makes the result of each.

    The sessions are known by their places in the call. `warnings` are said with every result.
    """

    writer: SessionWriter
    warnings: Sequence[str]
    _stored: dict[int, StoredSession] = field(default_factory=dict)
    _committed: dict[int, CommittedSession] = field(default_factory=dict)
    _errors: dict[int, MemForestError] = field(default_factory=dict)
    _refreshed: Refreshed = field(default_factory=Refreshed)
    problems: list[str] = field(default_factory=list)
    """Warnings of the whole operation."""
    replaced: bool = False
    """Whether a session has overwritten another one."""
    _tried: bool = False
    """Whether summaries were to be refreshed."""
    results: dict[int, IngestResult | MemForestError] = field(default_factory=dict)
    """The result of each session, or the error that it ended with; filled by `finish`."""
    _deferred: dict[int, tuple[ChunkReport, ...]] = field(default_factory=dict)
    _unfinished: dict[int, str] = field(default_factory=dict)
    """Ids of the sessions that were processed last."""

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
            self._errors[at] = exc
            self.writer.watch.say("finished", arrival.session_id, 0, 1, 1)
            return None
        if stored.replaced:
            self.replaced = self.writer.db.unfinished = True  # the log still holds what was overwritten
        self.tell_received(stored)
        return stored

    def tell_received(self, stored: StoredSession) -> None:
        """Tell how many turns of a session are stored."""
        turns = stored.known_turns + stored.new_turns
        self.writer.watch.say(
            "received", stored.session_id, turns, len(stored.refused), turns + len(stored.refused)
        )

    def defer(self, at: int, stored: StoredSession) -> None:
        """Leave a session as it was received; its result names the chunks that are to be read."""
        self._stored[at] = stored
        self._deferred[at] = tuple(stored.open_chunks)

    def _tell_finished(self) -> None:
        """Tell that the sessions that were processed last are written, or have failed."""
        last, self._unfinished = self._unfinished, {}
        for at, name in last.items():
            self.writer.watch.say("finished", name, int(at not in self._errors), int(at in self._errors), 1)

    def facts_of(self, at: int) -> Collection[int]:
        """Return the facts that a session has added or added to, by row id."""
        return self._committed[at].facts if at in self._committed else ()

    @property
    def changed(self) -> bool:
        """Whether anything was written that summaries may be missing for."""
        return bool(self._committed) or any(one.new_turns or one.replaced for one in self._stored.values())

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
        writer, timer = self.writer, [*open_.values()][-1].timer
        try:
            if any(not one.turns for one in open_.values()):  # they were received by an earlier call
                with timer.timed("store"):
                    open_ = await writer.db.reading(self._load, open_)
            extracted = await writer.extract(open_.values(), timer)
            with timer.timed("route"):
                done = [await commit_in_parts(writer.db, writer.config, one, timer) for one in extracted]
        except MemForestError as exc:
            for at, one in open_.items():
                self._errors[at] = _with_stored(exc, one.session_id) if isinstance(exc, ModelError) else exc
            return
        for at, committed in zip(open_, done, strict=True):
            if isinstance(committed, CommittedSession):
                self._committed[at] = committed
            else:
                self._errors[at] = committed

    def _load(self, tx: Tx, stored: Mapping[int, StoredSession]) -> dict[int, StoredSession]:
        """Read what is to be extracted of sessions; one that another writer has overwritten ends with an error."""
        loaded = {}
        for at, one in stored.items():
            try:
                loaded[at] = load(tx, self.writer.config, one)
            except SessionConflictError as exc:
                self._errors[at] = exc
        return loaded

    async def finish(self, *, refresh: Refresh | None, now_ms: int | None = None) -> None:
        """Make missing vectors, refresh the wanted summaries, and read repeated results.

        What a model fails to make is left for `resume`, with a warning: the sessions are written.

        Args:
            refresh: all summaries that are missing, or none; None for sessions that were received and no more.
            now_ms: the instant by which summaries are due; None for what was said last.
        """
        for error in self._errors.values():
            if isinstance(error, StoreReplacedError):
                raise error  # no session can be written, and the next call is to open what is there now
        lacking = any(one.reworded for one in self._stored.values())
        lacking = lacking or any(one.unembedded for one in self._committed.values())
        if refresh is not None and lacking:
            try:
                await self.writer.fill_vectors()
            except ModelError as exc:
                self.problems.append(f"vectors are left: {exc}; resume() makes them")
        timer = self._stored[max(self._committed)].timer if self._committed else Timer()
        if self.replaced:
            await to_thread(self.writer.sweep)
        if refresh == "all" and (self._committed or not self._stored):
            self.problems += await self.writer.ready()
            self._refreshed = await self.writer.refresh(timer, now_ms)
            self._tried = True
        for at, one in self._stored.items():
            if at not in self._errors:
                result = self._result(at)
                if one.repeats is not None:
                    result = await self.writer.db.reading(with_first_result, result, one.repeats)
                self.results[at] = result
        self.results |= self._errors
        self._tell_finished()

    def _result(self, at: int) -> IngestResult:
        """Return what this call has done for a session."""
        stored, done = self._stored[at], self._committed.get(at, CommittedSession())
        last = at == max(self._committed or self._stored)
        refreshed = self._refreshed if last else Refreshed()
        cost = usage(done.spent, stored.timer.ms, done.embeds)
        ledger, whole = current_ledger(), list[str]()
        if last and self._committed:
            parts = [each.spent for each in self._committed.values()]
            nodes = {} if self.writer.vectors is None else self.writer.vectors.ran
            cost = cost.plus(usage(ledger, {}, nodes, without=parts))
        if last:
            whole = [
                *self.problems,
                *([self._over_budget(ledger)] if ledger.refused else ()),
                *ledger.warnings,
            ]
        return IngestResult(
            session_id=stored.session_id,
            turns_added=stored.new_turns,
            added=tuple(done.added),
            merged=tuple(done.merged),
            superseded=tuple(done.superseded),
            chunks=self._deferred.get(at, done.chunks),
            deferred=at in self._deferred,
            remembered=tuple(map(CorrectionView.of, stored.remembered)),
            refused=stored.refused,
            redacted=stored.redacted,
            replaced=stored.replaced,
            nodes_refreshed=refreshed.nodes,
            nodes_dirty=refreshed.left,
            usage=cost,
            warnings=(
                *self.warnings,
                *stored.notes,
                *_turn_warnings(stored.refused, done.chunks),
                *whole,
                *done.warnings,
                *refreshed.failures,
            ),
        )

    def all(self) -> list[IngestResult]:
        """Return the results of all sessions.

        Raises:
            MemForestError: if one failed; the first of them.
        """
        found = []
        for _, result in sorted(self.results.items()):
            if isinstance(result, MemForestError):
                raise result
            found.append(result)
        return found

    def _over_budget(self, ledger: Ledger) -> str:
        """Return a warning that names what the budget did not reach."""
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
        return (
            f"the budget of {' and '.join(bounds)} is used up and these are left: {what}; "
            "resume() goes on with chunks and summaries"
        )


def _turn_warnings(refused: Sequence[Refused], chunks: Sequence[ChunkReport]) -> list[str]:
    """Return which turns were not stored, which were not read to their end, and how many chunks a model failed on.

    Failures are logged too, but without the model's message, which may hold anything.
    """
    warnings = []
    if refused:
        more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
        said = "; ".join(str(one) for one in refused[:3])
        warnings.append(f"{len(refused)} turn(s) were not stored, all others are: {said}{more}")
    turns = {
        turn for one in chunks for turn, reason in one.skipped if reason in ("too long", "over the limit")
    }
    if turns:
        more = f" and {len(turns) - 3} more" if len(turns) > 3 else ""
        names = ", ".join(cut(repr(turn), 60) for turn in sorted(turns)[:3])
        warnings.append(
            f"turn {names}{more}: what is over a limit is found by its words and in no statement; give it in shorter turns"
        )
    failed = [one.failure or "" for one in chunks if one.status == "failed"]
    if failed:
        kind = failed[0].partition(":")[0]
        _log.warning("the extractor failed on %d of %d chunks (%s)", len(failed), len(chunks), cut(kind, 60))
        warnings.append(
            f"{len(failed)} chunk(s) could not be read by the model and are read by local rules until resume() succeeds: "
            f"{cut(failed[0], 200)}"
        )
    return warnings


def _with_stored(exc: ModelError, session_id: str) -> ModelError:
    """Return the same error, saying that nothing of the session is lost."""
    said = copy(exc)  # with status and retries
    said.args = (
        f"{exc}; the turns of session {cut(repr(session_id), 60)} are stored, and resume() makes memory of them",
    )
    said.__cause__ = exc
    return said
