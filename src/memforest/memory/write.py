"""The write path of one memory: receive, extract, embed, commit, refresh - and resume from any point of it.

Each stage ends in a short transaction, and what a stage needs is read back from the store, so that a crash
between any two leaves work that `resume` finds: sessions not ingested, failed chunks, missing vectors,
dirty nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.interval import to_ms
from memforest.memory.commit import Commit, Extracted, commit
from memforest.memory.receive import Received
from memforest.memory.results import ChunkReport, IngestResult, Usage
from memforest.memory.vectors import VectorMaker
from memforest.refresh import Refreshed, refresh
from memforest.search.texts import digest, turn_text
from memforest.steps.choose import Steps
from memforest.store import derived, meta, sessions
from memforest.store.db import Database
from memforest.store.sessions import CellRow
from memforest.systems.memforest.grow import ForestWriter
from memforest.systems.memforest.scenes import routed_by
from memforest.types import Candidate, Chunk, ChunkOutcome, Turn

__all__ = ["Timer", "Writer", "ingest_result", "report"]

CONTEXT_TURNS = 2
"""Turns before a chunk that an extractor may read, for who asked what."""


@dataclass(slots=True)
class Timer:
    """Wall milliseconds per step."""

    ms: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, started: float) -> None:
        """Add the time since `started` (of `time.perf_counter`)."""
        self.ms[step] = self.ms.get(step, 0.0) + (time.perf_counter() - started) * 1000


@dataclass(frozen=True, slots=True)
class _Work:
    """A session with open cells."""

    session: int
    session_id: str
    infer: bool
    turns: Mapping[int, tuple[int, Turn]]
    cells: Sequence[CellRow]


@dataclass(slots=True)
class Writer:
    """Writes one memory. `vectors` is None in a memory without an embedder."""

    db: Database
    config: Config
    steps: Steps
    vectors: VectorMaker | None
    threshold: float | None

    @property
    def model(self) -> str | None:
        """Id of the embedder."""
        return None if self.vectors is None else self.vectors.embedder.model_id

    async def process(self, session: int, timer: Timer) -> tuple[_Work, Sequence[ChunkOutcome], Commit]:
        """Take a received session to `ingested`: extract its open cells, embed, and commit."""
        started = time.perf_counter()
        work = await asyncio.to_thread(self._load, session)
        timer.add("store", started)
        started = time.perf_counter()
        outcomes = await self._extract(work)
        timer.add("extract", started)
        started = time.perf_counter()
        found = await self._embed(work, outcomes)
        timer.add("embed", started)
        started = time.perf_counter()
        extracted = Extracted(
            session=session,
            session_id=work.session_id,
            maker=self.steps.extractor.name if work.infer else "verbatim",
            turns=work.turns,
            outcomes=list(zip(work.cells, outcomes, strict=True)),
            vectors=found,
            model=self.model,
            threshold=self.threshold,
        )
        done = await asyncio.to_thread(self._commit, extracted, timer)
        timer.add("route", started)
        return work, outcomes, done

    def _load(self, session: int) -> _Work:
        with self.db.read() as tx:
            try:
                row = sessions.session_with_row(tx, session)
            except KeyError:
                raise SessionConflictError(
                    "the session was overwritten by another writer while it was being ingested; ingest it again"
                ) from None
            turns = {turn.ordinal: (rowid, turn) for rowid, turn in sessions.turns(tx, session)}
            cells = [cell for cell in sessions.cells(tx, session) if cell.status in ("pending", "failed")]
        return _Work(session, row.session_id, row.infer, turns, cells)

    async def _extract(self, work: _Work) -> list[ChunkOutcome]:
        turns = tuple(turn for _, turn in work.turns.values())
        speakers = tuple(dict.fromkeys(turn.speaker for turn in turns))
        chunks = [_chunk(work.session_id, turns, speakers, cell) for cell in work.cells]
        if not work.infer:
            return [_verbatim(chunk) for chunk in chunks]
        return await self.steps.extractor.extract(chunks)

    async def _embed(
        self, work: _Work, outcomes: Sequence[ChunkOutcome]
    ) -> Mapping[bytes, NDArray[np.float32]]:
        if self.vectors is None:
            return {}
        span = {t for cell in work.cells for t in range(cell.first, cell.last + 1)}
        said = [
            turn_text(turn.speaker, turn.text) for ordinal, (_, turn) in work.turns.items() if ordinal in span
        ]
        facts = [candidate.text for outcome in outcomes for candidate in outcome.candidates]
        found = dict(await self.vectors.make(said, "turn"))
        found.update(await self.vectors.make(facts, "fact"))
        return found

    def _commit(self, work: Extracted, timer: Timer) -> Commit:
        with self.db.write() as tx:
            done = commit(tx, self.config, work, to_ms(self.config.clock()))
            ended = time.perf_counter()
        timer.add("route.commit", ended)
        return done

    async def refresh(self, timer: Timer) -> Refreshed:
        """Bring every dirty node up to date."""
        started = time.perf_counter()
        maker = self.vectors
        done = await refresh(
            self.db,
            summariser=self.steps.summariser,
            embed=None if maker is None else lambda texts: maker.make(texts, "node"),
            model=self.model,
            max_words=self.config.summary_words or 60,
        )
        timer.add("refresh", started)
        for part, ms in (
            ("summarise", done.summarise_ms),
            ("embed", done.embed_ms),
            ("store", done.store_ms),
        ):
            timer.ms[f"refresh.{part}"] = timer.ms.get(f"refresh.{part}", 0.0) + ms
        return done

    async def fill_vectors(self) -> int:
        """Make the vectors that a crash, or a time without an embedder, left missing; return how many."""
        if self.vectors is None:
            return 0
        filled = 0
        for kind in ("turn", "fact", "node"):
            missing = await asyncio.to_thread(self._missing, kind)
            if missing:
                found = await self.vectors.make([text for _, text in missing], kind)
                rows = [(item, digest(text), found[digest(text)]) for item, text in missing]
                await asyncio.to_thread(self._put_vectors, kind, rows)
                filled += len(rows)
        return filled

    async def make_scenes(self, *, anew: bool = False) -> None:
        """Route the facts of a memory that was written before it had scenes; with `anew`, of any.

        Derives the canonical scenes: what the facts in time order give, however they were stored.
        """
        if self.model is not None:
            await asyncio.to_thread(self._make_scenes, self.model, anew)

    def _make_scenes(self, model: str, anew: bool) -> None:
        with self.db.write() as tx:
            if anew or routed_by(tx) != model:
                writer = ForestWriter(tx, self.config)
                writer.scenes.derive(model)
                writer.close()
                meta.bump(tx)

    def _missing(self, kind: derived.ItemKind) -> list[tuple[int, str]]:
        with self.db.read() as tx:
            rows = derived.missing_vectors(tx, kind)
        return [(item, turn_text(speaker, text) if kind == "turn" else text) for item, speaker, text in rows]

    def _put_vectors(self, kind: derived.ItemKind, rows: Sequence[derived.VectorRow]) -> None:
        with self.db.write() as tx:
            derived.put_vectors(tx, kind, self.model or "", rows)
            if kind == "fact" and self.model is not None:
                writer = ForestWriter(tx, self.config)
                writer.scenes.route([item for item, _, _ in rows], self.model)
                writer.close()
            meta.bump(tx)


def _chunk(session_id: str, turns: tuple[Turn, ...], speakers: tuple[str, ...], cell: CellRow) -> Chunk:
    return Chunk(
        session_id=session_id,
        ordinal=cell.ordinal,
        turns=turns[cell.first : cell.last + 1],
        before=turns[max(0, cell.first - CONTEXT_TURNS) : cell.first],
        participants=speakers,
    )


def _verbatim(chunk: Chunk) -> ChunkOutcome:
    """Store every turn as it is, as one statement (``infer=False``)."""
    return ChunkOutcome(
        candidates=tuple(
            Candidate(
                text=turn_text(turn.speaker, turn.text),
                turns=(turn.ordinal,),
                speaker=turn.speaker,
                quote=turn.text,
            )
            for turn in chunk.turns
        )
    )


def report(work: _Work, outcomes: Sequence[ChunkOutcome]) -> tuple[ChunkReport, ...]:
    """Say what became of each chunk."""
    ids = {ordinal: turn.id for ordinal, (_, turn) in work.turns.items()}
    return tuple(
        ChunkReport(
            turn_ids=tuple(ids[t] for t in range(cell.first, cell.last + 1)),
            status="failed" if outcome.failure is not None else "extracted" if work.infer else "verbatim",
            skipped=tuple((ids[skipped.turn], skipped.reason) for skipped in outcome.skipped),
            failure=outcome.failure,
        )
        for cell, outcome in zip(work.cells, outcomes, strict=True)
    )


def ingest_result(
    session_id: str,
    got: Received,
    *,
    timer: Timer,
    embeds: Mapping[str, int],
    done: Commit | None = None,
    chunks: tuple[ChunkReport, ...] = (),
    refreshed: Refreshed | None = None,
    warnings: Sequence[str] = (),
) -> IngestResult:
    """Put the parts of a write together."""
    done = done or Commit()
    refreshed = refreshed or Refreshed()
    return IngestResult(
        session_id=session_id,
        turns_added=got.new_turns,
        added=tuple(done.added),
        merged=tuple(done.merged),
        superseded=tuple(done.superseded),
        chunks=chunks,
        replaced=got.replaced,
        trees_updated=done.trees,
        nodes_written=done.nodes_written,
        nodes_refreshed=refreshed.nodes,
        nodes_dirty=refreshed.left,
        usage=Usage(embeds=dict(embeds), ms={step: round(ms, 3) for step, ms in timer.ms.items()}),
        warnings=(*warnings, *refreshed.failures),
    )
