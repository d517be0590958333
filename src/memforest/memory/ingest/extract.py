"""The write path of one memory: receive, extract, embed, commit, refresh - and resume from any point of it.

Each stage ends in a short transaction, and what a stage needs is read back from the store, so that a crash
between any two leaves work that `resume` finds: sessions not ingested, failed chunks, missing vectors,
dirty nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of
from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.memory.host import MemoryHost
from memforest.memory.ingest.catch_up import catch_up
from memforest.memory.ingest.commit import Commit, Extracted, overwritten
from memforest.memory.ingest.fill import fill_vectors
from memforest.memory.ingest.judge import find_same
from memforest.memory.ingest.parts import commit_in_parts
from memforest.memory.ingest.receive import Received
from memforest.memory.results import ChunkReport, IngestResult, Usage
from memforest.memory.summaries import Summaries
from memforest.memory.timing import Timer
from memforest.memory.vectors import VectorMaker
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import is_remote
from memforest.refresh.refresher import Refreshed
from memforest.search.cache import SnapshotCache
from memforest.search.texts import turn_text
from memforest.steps.choose import Steps
from memforest.store import sessions
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.digests import AGAIN, damaged_turns
from memforest.store.sessions import CellRow
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.text import DATA_RUN, cut
from memforest.types import Candidate, Chunk, ChunkOutcome, Refused, Skipped, Turn

__all__ = ["Processed", "SessionWriter", "ingest_result", "report"]

CONTEXT_TURNS = 2
"""Turns before a chunk that an extractor may read, for who asked what."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A session as it is stored, with the open cells that are to be extracted."""

    session: int
    session_id: str
    infer: bool
    turns: Mapping[int, tuple[int, Turn]]
    cells: Sequence[CellRow]
    damaged: Mapping[int, str] = field(default_factory=dict)
    """Ordinal -> name of each damaged turn: no chunk with one of them is read."""

    @property
    def chunks(self) -> list[Chunk]:
        """The open cells, as an extractor reads them."""
        turns = tuple(turn for _, turn in self.turns.values())
        speakers = tuple(dict.fromkeys(turn.speaker for turn in turns))
        return [self._chunk(turns, speakers, cell) for cell in self.cells]

    def _chunk(self, turns: tuple[Turn, ...], speakers: tuple[str, ...], cell: CellRow) -> Chunk:
        before = turns[max(0, cell.first - CONTEXT_TURNS) : cell.first]
        return Chunk(
            session_id=self.session_id,
            ordinal=cell.ordinal,
            turns=turns[cell.first : cell.last + 1],
            before=tuple(turn for turn in before if turn.ordinal not in self.damaged),
            participants=speakers,
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """The outcomes of a session's chunks, and the vectors of its turns and statements."""

    outcomes: Sequence[ChunkOutcome]
    vectors: Mapping[bytes, NDArray[np.float32]]
    maker: VectorMaker | None


@dataclass(frozen=True, slots=True)
class Processed:
    """The committed result of a session: chunk reports, commit, and what models were used for it."""

    chunks: tuple[ChunkReport, ...]
    done: Commit
    embeds: Mapping[str, int]
    spent: Ledger
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class SessionWriter:
    """Writes one memory. `vectors` is None in a memory without an embedder."""

    db: Database
    config: Config
    steps: Steps
    vectors: VectorMaker | None
    threshold: float | None
    cache: SnapshotCache
    attached: Attached
    summaries: Summaries

    @property
    def model(self) -> str | None:
        """Id of the embedder."""
        return None if self.vectors is None else self.vectors.embedder.model_id

    async def process(self, sessions: Sequence[int], timer: Timer) -> list[Processed | SessionConflictError]:
        """Take received sessions to `ingested`: extract their open cells, embed, judge, and commit each.

        What models are asked is asked for all sessions at once. In the place of a session that another writer
        has overwritten meanwhile there is an error.

        Raises:
            ModelError: if a model cannot be used at all; the sessions stay as they were received.
            StoreError: if the memory cannot be written.
        """
        started = time.perf_counter()
        loaded = await asyncio.to_thread(self._load, sessions)
        works = [work for work in loaded if isinstance(work, _Work)]
        timer.add("store", started)
        started = time.perf_counter()
        spent = [current_ledger().part() for _ in works]
        made = await all_of(self._make(work, ledger) for work, ledger in zip(works, spent, strict=True))
        timer.add("extract", started)
        extracted = [self._extracted(work, one) for work, one in zip(works, made, strict=True)]
        if self.steps.judge is not None:
            started = time.perf_counter()
            same = await find_same(self.steps.judge, self.db, self.cache, extracted, self.model)
            extracted = [replace(one, same=same) for one in extracted]
            timer.add("judge", started)
        started = time.perf_counter()
        done = [
            await commit_in_parts(self.db, self.config, self.attached, one, timer.add) for one in extracted
        ]
        timer.add("route", started)
        processed = iter(
            Processed(
                report(work, one.outcomes),
                commit,
                {} if one.maker is None else one.maker.ran,
                ledger,
                tuple(f"{name} is damaged and its chunk is left; {AGAIN}" for name in work.damaged.values()),
            )
            if isinstance(commit, Commit)
            else commit
            for work, one, commit, ledger in zip(works, made, done, spent, strict=True)
        )
        return [next(processed) if isinstance(work, _Work) else work for work in loaded]

    def _load(self, wanted: Sequence[int]) -> list[_Work | SessionConflictError]:
        with self.db.read() as tx:
            return [_load(tx, session) for session in wanted]

    async def _make(self, work: _Work, ledger: Ledger) -> _Made:
        """Return a session's outcomes and the vectors of its turns and statements.

        Turns are embedded while the extractor works. So are a chunk's statements by a local embedder, while a model
        reads the other chunks; one behind an endpoint gets them all at once.
        """
        with keeping(ledger):
            chunks = work.chunks
            each = self.steps.extracts_apart and work.infer
            groups = [[chunk] for chunk in chunks] if each else [chunks]
            # The longest first: nothing else takes as long.
            order = sorted(
                range(len(groups)), key=lambda at: -sum(len(t.text) for c in groups[at] for t in c.turns)
            )
            maker = None if self.vectors is None else self.vectors.anew()
            at_once = maker is not None and is_remote(maker.embedder)
            found: dict[bytes, NDArray[np.float32]] = {}
            _, *read = await all_of(
                (
                    self._embed_turns(work, maker, found),
                    *(self._read(work, groups[at], None if at_once else maker, found) for at in order),
                )
            )
            by_place = dict(zip(order, read, strict=True))
            outcomes = [outcome for at in range(len(groups)) for outcome in by_place[at]]
            if at_once and maker is not None:
                found.update(await maker.make(_statements(outcomes), "fact"))
            return _Made(outcomes, found, maker)

    async def _read(
        self,
        work: _Work,
        chunks: Sequence[Chunk],
        maker: VectorMaker | None,
        found: dict[bytes, NDArray[np.float32]],
    ) -> list[ChunkOutcome]:
        """Extract statements from chunks, and embed them."""
        if work.infer:
            outcomes = await self.steps.extractor.extract(chunks)
        else:
            outcomes = [_verbatim(chunk) for chunk in chunks]
        if maker is not None:
            found.update(await maker.make(_statements(outcomes), "fact"))
        return list(outcomes)

    @staticmethod
    async def _embed_turns(
        work: _Work, maker: VectorMaker | None, found: dict[bytes, NDArray[np.float32]]
    ) -> list[ChunkOutcome]:
        """Embed the turns of open cells; no outcome comes of that."""
        if maker is None:
            return []
        span = {t for cell in work.cells for t in range(cell.first, cell.last + 1)}
        said = [
            turn_text(turn.speaker, turn.text) for ordinal, (_, turn) in work.turns.items() if ordinal in span
        ]
        found.update(await maker.make(said, "turn"))
        return []

    def _extracted(self, work: _Work, made: _Made) -> Extracted:
        """Return the session's outcomes for the commit; chunks that the budget did not reach stay open."""
        pairs = zip(work.cells, made.outcomes, strict=True)
        return Extracted(
            session=work.session,
            session_id=work.session_id,
            maker=self.steps.extractor.name if work.infer else "verbatim",
            turns=work.turns,
            outcomes=[(cell, outcome) for cell, outcome in pairs if not outcome.left],
            vectors=made.vectors,
            model=self.model,
            threshold=self.threshold,
        )

    async def refresh(self, timer: Timer) -> Refreshed:
        """Bring every dirty node up to date."""
        return await self.summaries.make(self.vectors, timer)

    async def refresh_above(self, trees: Collection[int], timer: Timer) -> Refreshed:
        """Bring the roots of some trees up to date, and so every path that leads to them from what was written."""
        return await self.summaries.make(self.vectors, timer, await asyncio.to_thread(self._roots, trees))

    def _roots(self, trees: Collection[int]) -> list[int]:
        with self.db.read() as tx:
            return sorted(tree_rows.roots(tx, trees))

    async def refresh_nothing(self) -> Refreshed:
        """Return how many nodes are out of date."""
        return Refreshed(left=await asyncio.to_thread(self._dirty))

    def _dirty(self) -> int:
        with self.db.read() as tx:
            return tree_rows.dirty_count(tx)

    async def fill_vectors(self) -> int:
        """Make the vectors that a crash, or a time without an embedder, left missing; return how many."""
        return 0 if self.vectors is None else await fill_vectors(self.db, self.attached, self.vectors)

    async def catch_up(
        self, names: Collection[str] | None = None, *, failed: bool = True, now: datetime | None = None
    ) -> list[str]:
        """Let indexes that are behind place what they have not; return which could not, and why.

        Args:
            names: of these; None for all that are behind, or deferred.
            failed: also those that have failed before.
            now: the present, aware; None is the clock's.
        """
        config = self.config if now is None else replace(self.config, clock=lambda: now)
        embedder = None if self.vectors is None else self.vectors.embedder
        host = MemoryHost(self.db, self.cache, config, self.steps, embedder, self.summaries)
        return await catch_up(host, self.attached, names, failed=failed)


def _statements(outcomes: Sequence[ChunkOutcome]) -> list[str]:
    return [candidate.text for outcome in outcomes for candidate in outcome.candidates]


def _load(tx: Tx, session: int) -> _Work | SessionConflictError:
    try:
        row = sessions.session_with_row(tx, session)
    except KeyError:
        return overwritten()
    turns = {turn.ordinal: (rowid, turn) for rowid, turn in sessions.turns(tx, session)}
    cells = [cell for cell in sessions.cells(tx, session) if cell.status in ("pending", "failed")]
    first = min((cell.first for cell in cells), default=0) - CONTEXT_TURNS
    damaged = {one.ordinal: one.name for one in damaged_turns(tx, session=session, first=first).values()}
    cells = [cell for cell in cells if damaged.keys().isdisjoint(range(cell.first, cell.last + 1))]
    return _Work(session, row.session_id, row.infer, turns, cells, damaged)


def _verbatim(chunk: Chunk) -> ChunkOutcome:
    """Store every turn as it is, as one statement (``infer=False``); one that is nothing but data makes none."""
    told = [turn for turn in chunk.turns if not _is_data(turn.text)]
    return ChunkOutcome(
        skipped=tuple(
            Skipped(turn.ordinal, cut(turn.text), "data") for turn in chunk.turns if _is_data(turn.text)
        ),
        candidates=tuple(
            Candidate(
                text=turn_text(turn.speaker, turn.text),
                turns=(turn.ordinal,),
                speaker=turn.speaker,
                quote=turn.text,
            )
            for turn in told
        ),
    )


def _is_data(text: str) -> bool:
    return not DATA_RUN.sub("", text).strip()


def report(work: _Work, outcomes: Sequence[ChunkOutcome]) -> tuple[ChunkReport, ...]:
    """Return a report of each chunk: extracted, verbatim, failed or left."""
    ids = {ordinal: turn.id for ordinal, (_, turn) in work.turns.items()}
    return tuple(
        ChunkReport(
            turn_ids=tuple(ids[t] for t in range(cell.first, cell.last + 1)),
            status=_status(work, outcome),
            skipped=tuple((ids[skipped.turn], skipped.reason) for skipped in outcome.skipped),
            failure=outcome.failure,
        )
        for cell, outcome in zip(work.cells, outcomes, strict=True)
    )


def _status(work: _Work, outcome: ChunkOutcome) -> Literal["extracted", "verbatim", "failed", "left"]:
    if outcome.left:
        return "left"
    if outcome.failure is not None:
        return "failed"
    return "extracted" if work.infer else "verbatim"


def ingest_result(
    session_id: str,
    got: Received,
    *,
    processed: Processed | None = None,
    refreshed: Refreshed | None = None,
    cost: Usage,
    refused: Sequence[Refused] = (),
    warnings: Sequence[str] = (),
) -> IngestResult:
    """Return the `IngestResult` of a session from the parts of its write."""
    done = Commit() if processed is None else processed.done
    refreshed = refreshed or Refreshed()
    return IngestResult(
        session_id=session_id,
        turns_added=got.new_turns,
        added=tuple(done.added),
        merged=tuple(done.merged),
        superseded=tuple(done.superseded),
        chunks=() if processed is None else processed.chunks,
        refused=tuple(refused),
        replaced=got.replaced,
        trees_updated=len(done.placed.trees),
        nodes_written=done.placed.nodes,
        nodes_refreshed=refreshed.nodes,
        nodes_dirty=refreshed.left,
        usage=cost,
        warnings=(
            *warnings,
            *(() if processed is None else processed.warnings),
            *done.problems,
            *refreshed.failures,
        ),
    )
