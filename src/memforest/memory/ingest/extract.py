"""Extracting statements from the open cells of a stored session, and embedding its turns and statements.

No transaction is open meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of
from memforest.facts.canonical import Said, Same
from memforest.interval import to_ms
from memforest.memory.chunks import MOST_REFUSED, ChunkReport, RefusedStatement
from memforest.memory.ingest.stored_session import StoredSession
from memforest.memory.progress import NOBODY, Watch
from memforest.memory.vectors import VectorMaker
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import is_remote
from memforest.search.texts import turn_text
from memforest.steps.choose import Steps
from memforest.store.sessions import CellRow
from memforest.text import DATA_RUN, cut
from memforest.types import UNSPOKEN_ROLES, Candidate, Chunk, ChunkOutcome, Skipped

READ_CHUNKS = 64
"""Chunks that are read together without a model, so that progress shows in a long session."""


@dataclass(frozen=True, slots=True)
class ExtractedSession:
    """A stored session with the outcomes of its chunks and the vectors of its turns and statements, ready to be written."""

    stored: StoredSession
    outcomes: Sequence[tuple[CellRow, ChunkOutcome]]
    """Each open cell, and what became of its chunk."""
    maker: str
    """What extracted the statements."""
    vectors: Mapping[bytes, NDArray[np.float32]] = field(default_factory=dict)
    """Digest of a text -> its unit vector; empty in a memory without an embedder."""
    model: str | None = None
    """Id of the embedder that made them."""
    threshold: float | None = None
    """Least cosine of a near merge."""
    same: Mapping[str, Same] = field(default_factory=dict)
    """A judge's verdicts: identity of a new statement -> what says the same."""
    spent: Ledger = field(default_factory=Ledger)
    """What extracting and embedding cost."""
    embeds: Mapping[str, int] = field(default_factory=dict)
    """Kind -> texts that the embedder really ran."""

    def parts(self, cells: int) -> list[ExtractedSession]:
        """Return the session in parts of at most so many cells, of which each can be written by itself.

        Chunks that the budget did not reach are in none: they stay open.
        """
        done = [(cell, outcome) for cell, outcome in self.outcomes if not outcome.left]
        return [replace(self, outcomes=done[first : first + cells]) for first in range(0, len(done), cells)]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and last ordinals of the cells."""
        return [(cell.first, cell.last) for cell, _ in self.outcomes]

    @property
    def statements(self) -> list[Said]:
        """The statements of the chunks, each with its place."""
        return [one for cell, outcome in self.outcomes for one in self._statements(cell, outcome)]

    def _statements(self, cell: CellRow, outcome: ChunkOutcome) -> Iterator[Said]:
        for seq, candidate in enumerate(outcome.candidates):
            turns = [self.stored.turns[at] for at in candidate.turns]
            place = f"{self.stored.session_id}\x1f{cell.ordinal:06d}\x1f{seq:03d}"
            yield Said(candidate, cell.row, tuple(row for row, _ in turns), to_ms(turns[0][1].said), place)

    @property
    def reports(self) -> tuple[ChunkReport, ...]:
        """A report of each chunk: extracted, verbatim, failed or left."""
        ids = {ordinal: turn.id for ordinal, (_, turn) in self.stored.turns.items()}
        read: Literal["extracted", "verbatim"] = "extracted" if self.stored.infer else "verbatim"
        return tuple(
            ChunkReport(
                turn_ids=tuple(turn.id for _, turn in self.stored.span(cell.first, cell.last)),
                status="left" if outcome.left else read if outcome.failure is None else "failed",
                skipped=tuple((ids[skipped.turn], skipped.reason) for skipped in outcome.skipped),
                failure=outcome.failure,
                refused=tuple(
                    RefusedStatement(one.text, ids[one.turn], one.reason)
                    for one in outcome.skipped
                    if one.statement
                )[:MOST_REFUSED],
            )
            for cell, outcome in self.outcomes
        )


async def extract(
    stored: StoredSession,
    steps: Steps,
    vectors: VectorMaker | None,
    threshold: float | None,
    watch: Watch = NOBODY,
) -> ExtractedSession:
    """Extract statements from the open cells of a session, and embed its turns and statements.

    Turns are embedded while the extractor works. So are a chunk's statements by a local embedder, while a model
    reads the other chunks; one behind an endpoint gets them all at once. Without a model, some chunks are read after
    the others.

    Args:
        stored: the session, loaded.
        steps: with the extractor.
        vectors: None in a memory without an embedder.
        threshold: least cosine of a near merge.
        watch: told of the chunks that were read.
    """
    spent = current_ledger().part()
    maker = None if vectors is None else vectors.anew()
    at_once = maker is not None and is_remote(maker.embedder)
    outcomes: dict[int, ChunkOutcome] = {}
    found: dict[bytes, NDArray[np.float32]] = {}
    told: list[int] = []
    before = {cell.ordinal for cell in stored.cells if cell.status == "failed"}

    async def embed(texts: Sequence[str], kind: str) -> None:
        if maker is not None:
            found.update(await maker.make(texts, kind))

    async def read(chunks: Sequence[Chunk]) -> None:
        made = await steps.extractor.extract(chunks) if stored.infer else [_verbatim(one) for one in chunks]
        made = [
            await _or_read(steps, one, outcome, before) for one, outcome in zip(chunks, made, strict=True)
        ]
        outcomes.update(zip((chunk.ordinal for chunk in chunks), made, strict=True))
        if not at_once:
            await embed(_statements(made), "fact")
        tell()

    async def read_in_turn(parts: Sequence[Sequence[Chunk]]) -> None:
        for part in parts:
            await read(part)

    def tell() -> None:
        failed = sum(one.failure is not None and not one.left for one in outcomes.values())
        done = silent + sum(one.failure is None for one in outcomes.values())
        if stored.cells and told != [done, failed]:
            told[:] = [done, failed]
            watch.extracted(stored.session_id, done, failed, len(stored.cells))

    with keeping(spent):
        chunks = [chunk for chunk in stored.chunks if chunk.turns]
        silent = len(stored.cells) - len(chunks)
        tell()
        jobs = _jobs(chunks, apart=steps.extracts_apart and stored.infer)
        await all_of((embed(_said(stored), "turn"), *(read_in_turn(parts) for parts in jobs)))
        if at_once:
            await embed(_statements(list(outcomes.values())), "fact")
    return ExtractedSession(
        stored,
        [(cell, _with_unspoken(stored, cell, outcomes)) for cell in stored.cells],
        steps.extractor.name if stored.infer else "verbatim",
        found,
        None if maker is None else maker.embedder.model_id,
        threshold,
        spent=spent,
        embeds={} if maker is None else maker.ran,
    )


async def _or_read(
    steps: Steps, chunk: Chunk, outcome: ChunkOutcome, before: Collection[int]
) -> ChunkOutcome:
    """Return what became of a chunk; one of which the extractor made nothing, as it failed, is read without a model.

    So it is found by what it says until `resume` succeeds. One that has failed `before` was read so then.
    """
    if outcome.failure is None or outcome.left or outcome.candidates or chunk.ordinal in before:
        return outcome
    [found] = await steps.reader.extract([chunk])
    return replace(found, failure=outcome.failure, maker=steps.reader.name)


def _with_unspoken(
    stored: StoredSession, cell: CellRow, outcomes: Mapping[int, ChunkOutcome]
) -> ChunkOutcome:
    """Return what became of a cell, its turns that nobody says among what was skipped."""
    outcome = outcomes.get(cell.ordinal, ChunkOutcome())
    turns = (turn for _, turn in stored.span(cell.first, cell.last))
    silent = [Skipped(t.ordinal, cut(t.text), f"role {t.role}") for t in turns if t.role in UNSPOKEN_ROLES]
    return replace(outcome, skipped=tuple(sorted((*outcome.skipped, *silent), key=lambda one: one.turn)))


def _jobs(chunks: Sequence[Chunk], *, apart: bool) -> list[list[Sequence[Chunk]]]:
    """Return what is read side by side: parts of the chunks, of which one is read after the other."""
    if apart:
        return [
            [[one]] for one in sorted(chunks, key=_length, reverse=True)
        ]  # nothing takes as long as the longest
    return [[chunks[first : first + READ_CHUNKS] for first in range(0, len(chunks), READ_CHUNKS)]]


def _length(chunk: Chunk) -> int:
    return sum(len(turn.text) for turn in chunk.turns)


def _said(stored: StoredSession) -> list[str]:
    """Return the turns of the open cells, as they are embedded."""
    turns = [turn for cell in stored.cells for _, turn in stored.span(cell.first, cell.last)]
    return [turn_text(turn.speaker, turn.text) for turn in turns]


def _statements(outcomes: Sequence[ChunkOutcome]) -> list[str]:
    return [candidate.text for outcome in outcomes for candidate in outcome.candidates]


def _verbatim(chunk: Chunk) -> ChunkOutcome:
    """Return every turn as it is, as one statement (``infer=False``); one that is nothing but data makes none."""
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
            for turn in chunk.turns
            if not _is_data(turn.text)
        ),
    )


def _is_data(text: str) -> bool:
    return not DATA_RUN.sub("", text).strip()
