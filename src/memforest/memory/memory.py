"""One user's memory: the file, the steps, and the verbs that need both.

Everything here is async; SQLite and other blocking work runs in worker threads, never on the loop, and
nothing is held across a step that a model may do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.config import Config, Ranking
from memforest.errors import EmbedderMismatchError, InputError, ModelError
from memforest.interval import from_ms, to_ms
from memforest.memory.read import (
    SnapshotCache,
    cut_hits,
    make_evidence,
    once_per_fact,
    surface_names,
    tree_titles,
    without_names,
)
from memforest.memory.receive import Received, receive
from memforest.memory.results import AskResult, Evidence, IngestResult, QueryResult, Usage, VerifyReport
from memforest.memory.turns import TurnReader, check_id, json_object
from memforest.memory.vectors import VectorMaker
from memforest.memory.verify import verify
from memforest.memory.views import Look
from memforest.memory.write import Timer, Writer, ingest_result, report
from memforest.models import Embedder
from memforest.search.budget import count_tokens, render
from memforest.search.snapshot import Snapshot
from memforest.search.texts import question_tokens, turn_text
from memforest.steps.base import AnswerEvidence
from memforest.steps.choose import Steps
from memforest.store import derived, meta, sessions
from memforest.store.db import Database, Tx
from memforest.store.sessions import SessionRow
from memforest.systems.base import MemoryIndex, Search
from memforest.text import cut
from memforest.types import Turn

__all__ = ["Asked", "Memory", "Opened", "other_embedder"]

T = TypeVar("T")
Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its checked options; times are aware UTC. See `AsyncMemForest.query`."""

    question: str
    reference: datetime
    as_of: datetime | None
    during: tuple[datetime, datetime] | None
    top_k: int
    max_facts: int
    max_tokens: int | None
    index: MemoryIndex
    ranking: Ranking


@dataclass(frozen=True, slots=True)
class _Searched:
    """What a search found; `trees` are the recalled ones as (title, score), best first."""

    evidence: list[Evidence]
    facts: list[Evidence]
    trees: list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Opened:
    """What a memory is opened with. `embedder` is None when there is none, and `warnings` say why."""

    embedder: Embedder | None
    steps: Steps
    threshold: float | None
    warnings: tuple[str, ...] = ()


class Memory:
    """One user's memory; made by `open_memory`."""

    def __init__(self, db: Database, user_id: str, label: str, config: Config, opened: Opened) -> None:
        self.user_id = user_id
        self.label = label
        self.db = db
        self.config = config
        self._steps = opened.steps
        self._embedder = opened.embedder
        self._warnings = opened.warnings
        self._cache = SnapshotCache()
        self._threshold = opened.threshold

    # -- writing ------------------------------------------------------------------------------

    async def ingest(
        self,
        session_id: str,
        turns: Sequence[Any],
        *,
        timestamp: datetime | None = None,
        infer: bool = True,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        refresh: bool = True,
    ) -> IngestResult:
        """Store a session and make memory of it; see `AsyncMemForest.ingest_session`."""
        check_id(session_id, "session_id")
        reader = self._reader(session_time=timestamp)
        read = reader.read(turns)
        if not read:
            raise InputError(f"session {session_id!r} has no turns; give it at least one")
        timer = Timer()
        started = time.perf_counter()
        got = await asyncio.to_thread(
            self._receive,
            session_id,
            read,
            infer=infer,
            replace=replace,
            append=False,
            metadata=json_object(metadata, "metadata"),
        )
        timer.add("store", started)
        return await self._finish(session_id, got, timer, refresh=refresh)

    async def append(
        self,
        turns: Sequence[Any],
        *,
        session_id: str | None,
        timestamp: datetime | None,
        infer: bool,
        metadata: Mapping[str, Any] | None,
    ) -> IngestResult:
        """Append live turns to a session, by default one a day; see `AsyncUserMemory.add`."""
        now = self.config.clock()
        name = f"live-{now.astimezone(self.config.zone):%Y-%m-%d}" if session_id is None else session_id
        check_id(name, "session_id")
        reader = self._reader(session_time=timestamp, now=now)
        kept = json_object(metadata, "metadata")
        timer = Timer()
        started = time.perf_counter()
        got = await asyncio.to_thread(self._receive_more, name, reader, turns, infer=infer, metadata=kept)
        timer.add("store", started)
        return await self._finish(name, got, timer, refresh=True)

    def _receive_more(
        self,
        session_id: str,
        reader: TurnReader,
        raw: Sequence[Any],
        *,
        infer: bool,
        metadata: dict[str, Any],
    ) -> Received:
        """Number and store turns after what is stored; both in one transaction, as others may append too."""
        with self.db.write() as tx:
            found = sessions.find_session(tx, session_id)
            first, floor = (0, None) if found is None else (found.turns, from_ms(found.end_ms))
            turns = reader.read(raw, first=first, floor=floor)
            if not turns:
                raise InputError("there is nothing to add; give a text or at least one message")
            return self._received(
                tx, session_id, turns, infer=infer, replace=False, append=True, metadata=metadata
            )

    def _reader(self, *, session_time: datetime | None, now: datetime | None = None) -> TurnReader:
        return TurnReader(
            zone=self.config.zone,
            user_label=self.label,
            max_turn_chars=self.config.max_turn_chars,
            session_time=session_time,
            now=now,
        )

    def _receive(self, session_id: str, turns: Sequence[Turn], **how: Any) -> Received:
        with self.db.write() as tx:
            return self._received(tx, session_id, turns, **how)

    def _received(self, tx: Tx, session_id: str, turns: Sequence[Turn], **how: Any) -> Received:
        late = self._keep_embedder(tx)
        got = receive(tx, self.config, session_id, turns, stored_ms=to_ms(self.config.clock()), **how)
        return replace(got, reworded=got.reworded or late)

    def _keep_embedder(self, tx: Tx) -> bool:
        """Note the embedder at the first write; return whether older texts still lack its vectors.

        Raises:
            EmbedderMismatchError: if another process has written with another embedder since the opening.
        """
        if self._embedder is None:
            return False
        have = meta.get(tx, "embedder")
        if have is None:
            meta.put(tx, "embedder", self._embedder.model_id)
            return bool(derived.missing_vectors(tx, "turn"))
        if have != self._embedder.model_id:
            raise other_embedder(self.db, have, self._embedder.model_id)
        return False

    def _writer(self) -> Writer:
        maker = None if self._embedder is None else VectorMaker(self.db, self._embedder)
        return Writer(self.db, self.config, self._steps, maker, self._threshold)

    async def _finish(self, session_id: str, got: Received, timer: Timer, *, refresh: bool) -> IngestResult:
        """Take a received session through the rest of the write path."""
        writer = self._writer()
        if got.new_turns == 0 and not got.unfinished:
            return ingest_result(session_id, got, timer=timer, embeds={}, warnings=self._warnings)
        try:
            work, outcomes, done = await writer.process(got.session, timer)
        except ModelError as exc:
            raise type(exc)(
                f"{exc}; the turns of session {cut(repr(session_id), 60)} are stored, and resume() makes memory of them"
            ) from exc
        if got.reworded:
            await writer.fill_vectors()
        refreshed = await writer.refresh(timer) if refresh else None
        if got.replaced:
            # The log still holds what was overwritten in the file.
            await asyncio.to_thread(self.db.checkpoint)
        return ingest_result(
            session_id,
            got,
            timer=timer,
            embeds={} if writer.vectors is None else writer.vectors.ran,
            done=done,
            chunks=report(work, outcomes),
            refreshed=refreshed,
            warnings=self._warnings,
        )

    async def refresh(self) -> Usage:
        """Bring every dirty node up to date (after ingests with ``refresh=False``)."""
        writer, timer = self._writer(), Timer()
        await writer.refresh(timer)
        return Usage(embeds={} if writer.vectors is None else writer.vectors.ran, ms=timer.ms)

    async def resume(self) -> list[IngestResult]:
        """Finish what an interrupted write left: sessions, failed chunks, missing vectors, dirty nodes."""
        left = await asyncio.to_thread(self._left)
        results = []
        for session in left:
            got = Received(session.row, 0, unfinished=True)
            results.append(await self._finish(session.session_id, got, Timer(), refresh=False))
        writer = self._writer()
        await writer.fill_vectors()
        await writer.refresh(Timer())
        return results

    def _left(self) -> list[SessionRow]:
        """Return the unfinished sessions; resuming is a write, so it keeps the embedder too."""
        with self.db.write() as tx:
            self._keep_embedder(tx)
            return [sessions.session_with_row(tx, row) for row in sessions.unfinished(tx)]

    # -- reading ------------------------------------------------------------------------------

    async def query(self, asked: Asked) -> QueryResult:
        """Return ranked evidence; see `AsyncMemForest.query`."""
        timer = Timer()
        started = time.perf_counter()
        snapshot = await asyncio.to_thread(self._snapshot)
        timer.add("open", started)
        names = surface_names(snapshot, self.label)
        planning = self._steps.planner.plan(asked.question, reference=asked.reference, names=names)
        # The embedder works in threads of its own, so it goes first: the plan is made meanwhile.
        vectors, plan = await asyncio.gather(
            _timed(timer, "embed", self._question_vectors(asked.question, snapshot)),
            _timed(timer, "plan", planning),
        )
        started = time.perf_counter()
        request = Search(
            question=asked.question,
            tokens=question_tokens(asked.question),
            plan=plan,
            reference_ms=to_ms(asked.reference),
            vector=vectors[0],
            bare_vector=vectors[1],
            as_of_ms=None if asked.as_of is None else to_ms(asked.as_of),
            during_ms=None if asked.during is None else (to_ms(asked.during[0]), to_ms(asked.during[1])),
            ranking=asked.ranking,
        )
        found = await asyncio.to_thread(self._search, asked, request)
        timer.add("search", started)
        return QueryResult(
            question=asked.question,
            evidence=tuple(_within(found.evidence, asked.max_tokens)),
            top_facts=tuple(found.facts),
            plan=plan,
            reference_date=asked.reference,
            index=asked.index.name,
            usage=Usage(ms={step: round(ms, 3) for step, ms in timer.ms.items()}),
            trace={
                "generation": snapshot.generation,
                "embedder": self.embedder_id,
                "planner": self._steps.planner.name,
                "trees": found.trees,
            },
            warnings=self._warnings,
        )

    @property
    def embedder_id(self) -> str | None:
        """Id of the embedder in use, None when the memory works by words alone."""
        return None if self._embedder is None else self._embedder.model_id

    def _snapshot(self) -> Snapshot:
        with self.db.read() as tx:
            return self._cache.get(tx)

    async def _question_vectors(self, question: str, snapshot: Snapshot) -> tuple[Row | None, Row | None]:
        """Return the vectors of the question, and of the question without participants' names."""
        if self._embedder is None or not snapshot.dimension:
            return None, None
        bare = without_names(question, snapshot.speakers)
        maker = VectorMaker(self.db, self._embedder, stored_dimension=snapshot.dimension)
        rows = await self._embedder.embed([question, bare])
        maker.check_dimension()
        return rows[0], rows[1]

    def _search(self, asked: Asked, request: Search) -> _Searched:
        with self.db.read() as tx:
            snapshot = self._cache.get(tx)
            found = asked.index.search(tx, snapshot, request)
            best, facts = cut_hits(once_per_fact(found.hits), asked.top_k, asked.max_facts)
            shared = {hit.turn for hit in best}
            hits = [*best, *(hit for hit in facts if hit.turn not in shared)]
            made = {hit.turn: one for hit, one in zip(hits, make_evidence(tx, snapshot, hits), strict=True)}
            titles = tree_titles(tx, snapshot, [tree for tree, _ in found.trees])
        return _Searched(
            evidence=[made[hit.turn] for hit in best],
            facts=[made[hit.turn] for hit in facts],
            trees=[(title, round(score, 4)) for title, (_, score) in zip(titles, found.trees, strict=True)],
        )

    async def ask(self, asked: Asked) -> AskResult:
        """Answer from the best evidence, or abstain; see `AsyncMemForest.ask`."""
        result = await self.query(asked)
        evidence = [
            AnswerEvidence(
                text=one.text if one.kind == "fact" else turn_text(one.speaker, one.text),
                quote=one.quote,
                said=one.said,
                start=one.start,
                end=one.end,
                score=one.score,
            )
            for one in result.evidence
        ]
        answer = await self._steps.answerer.answer(
            asked.question, plan=result.plan, reference=asked.reference, evidence=evidence
        )
        cited = tuple(result.evidence[i] for i in answer.cited)
        return AskResult(asked.question, answer.text, cited, answer.reason, result)

    # -- looking ------------------------------------------------------------------------------

    async def look(self, view: Callable[..., T], *args: Any, **how: Any) -> T:
        """Run one of `memforest.memory.views` in a read transaction."""

        def run() -> T:
            with self.db.read() as tx:
                return view(Look(tx, self._cache.get(tx), self.config), *args, **how)

        return await asyncio.to_thread(run)

    async def verify(self) -> VerifyReport:
        """Check every invariant; see `memforest.memory.verify`."""

        def run() -> VerifyReport:
            with self.db.read() as tx:
                return verify(tx)

        return await asyncio.to_thread(run)

    async def checkpoint(self) -> None:
        """Fold the write-ahead log into the file."""
        await asyncio.to_thread(self.db.checkpoint)

    def close(self) -> None:
        """Fold the log into the file and close it; a second call does nothing."""
        self.db.close()


def other_embedder(db: Database, have: str, given: str) -> EmbedderMismatchError:
    """Return the error of a memory that has vectors of another embedder."""
    return EmbedderMismatchError(
        f"{db.path.name!r} was made with the embedder {have!r} and {given!r} is configured; "
        f"open it with embedder={have!r} (or 'auto'), or ingest into a new directory"
    )


async def _timed(timer: Timer, step: str, job: Awaitable[T]) -> T:
    """Await a job and add its wall time to a step."""
    started = time.perf_counter()
    try:
        return await job
    finally:
        timer.add(step, started)


def _within(evidence: Sequence[Evidence], max_tokens: int | None) -> Sequence[Evidence]:
    """Return the longest prefix whose texts and quotes stay within the budget."""
    if max_tokens is None:
        return evidence
    used, kept = 0, 0
    for one in evidence:
        used += count_tokens(render(kept + 1, one.said, one.speaker, one.text, one.quote)) + 1
        if used > max_tokens:
            break
        kept += 1
    return evidence[:kept]
