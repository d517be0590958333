"""Extracting statements from the open chunk_rows of a stored session, and embedding its turns and statements.

No transaction is open meanwhile.


Asking a judge which near statements are one fact, before anything is written (paper §4.1).

Rules merge what is worded the same (`memforest.reading.canonical`). What is only near is put to a model: each new
statement with the few stored or earlier ones that are nearest. Statements that differ in polarity, stated time or
numbers are never asked about: they are two facts, whatever a model says. Verdicts are by the statements'
identities, so they hold whatever another process writes in the meantime.

"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of, to_thread
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import Judge, is_remote
from memforest.progress import NOBODY, Watch
from memforest.read.results import MOST_REFUSED, ChunkReport, RefusedStatement
from memforest.reading.canonical import PlacedFact, Same, judge_threshold, signature
from memforest.reading.steps import Steps
from memforest.records import UNSPOKEN_ROLES, Chunk, ChunkOutcome, Equivalence, ExtractedFact, Skipped
from memforest.search.cache import SnapshotCache
from memforest.search.vectors import VectorMaker, digest, turn_text
from memforest.store import facts as facts_rows
from memforest.store.database import Database
from memforest.store.sessions import ChunkRow
from memforest.text import DATA_RUN, cut, numbers
from memforest.times import to_ms
from memforest.write.reword import fact_signature
from memforest.write.sessions import StoredSession

READ_CHUNKS = 64
"""Chunks that are read together without a model, so that progress shows in a long session."""


@dataclass(frozen=True, slots=True)
class ExtractedSession:
    """A stored session with the outcomes of its chunks and the vectors of its turns and statements, ready to be written."""

    stored: StoredSession
    outcomes: Sequence[tuple[ChunkRow, ChunkOutcome]]
    """Each open chunk_row, and what became of its chunk."""
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

    def parts(self, chunk_rows: int) -> list[ExtractedSession]:
        """Return the session in parts of at most so many chunk_rows, of which each can be written by itself.

        Chunks that the budget did not reach are in none: they stay open.
        """
        done = [(chunk_row, outcome) for chunk_row, outcome in self.outcomes if not outcome.left]
        return [
            replace(self, outcomes=done[first : first + chunk_rows])
            for first in range(0, len(done), chunk_rows)
        ]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and last ordinals of the chunk_rows."""
        return [(chunk_row.first, chunk_row.last) for chunk_row, _ in self.outcomes]

    @property
    def statements(self) -> list[PlacedFact]:
        """The statements of the chunks, each with its place."""
        return [one for chunk_row, outcome in self.outcomes for one in self._statements(chunk_row, outcome)]

    def _statements(self, chunk_row: ChunkRow, outcome: ChunkOutcome) -> Iterator[PlacedFact]:
        for seq, candidate in enumerate(outcome.candidates):
            turns = [self.stored.turns[at] for at in candidate.turns]
            place = f"{self.stored.session_id}\x1f{chunk_row.ordinal:06d}\x1f{seq:03d}"
            yield PlacedFact(
                candidate, chunk_row.row, tuple(row for row, _ in turns), to_ms(turns[0][1].said), place
            )

    @property
    def reports(self) -> tuple[ChunkReport, ...]:
        """A report of each chunk: extracted, verbatim, failed or left."""
        ids = {ordinal: turn.id for ordinal, (_, turn) in self.stored.turns.items()}
        read: Literal["extracted", "verbatim"] = "extracted" if self.stored.infer else "verbatim"
        return tuple(
            ChunkReport(
                turn_ids=tuple(turn.id for _, turn in self.stored.span(chunk_row.first, chunk_row.last)),
                status="left" if outcome.left else read if outcome.failure is None else "failed",
                skipped=tuple((ids[skipped.turn], skipped.reason) for skipped in outcome.skipped),
                failure=outcome.failure,
                refused=tuple(
                    RefusedStatement(one.text, ids[one.turn], one.reason)
                    for one in outcome.skipped
                    if one.statement
                )[:MOST_REFUSED],
            )
            for chunk_row, outcome in self.outcomes
        )


async def extract(
    stored: StoredSession,
    steps: Steps,
    vectors: VectorMaker | None,
    threshold: float | None,
    watch: Watch = NOBODY,
) -> ExtractedSession:
    """Extract statements from the open chunk_rows of a session, and embed its turns and statements.

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
    before = {chunk_row.ordinal for chunk_row in stored.chunk_rows if chunk_row.status == "failed"}

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
        if stored.chunk_rows and told != [done, failed]:
            told[:] = [done, failed]
            watch.extracted(stored.session_id, done, failed, len(stored.chunk_rows))

    with keeping(spent):
        chunks = [chunk for chunk in stored.chunks if chunk.turns]
        silent = len(stored.chunk_rows) - len(chunks)
        tell()
        jobs = _jobs(chunks, apart=steps.extracts_apart and stored.infer)
        await all_of((embed(_said(stored), "turn"), *(read_in_turn(parts) for parts in jobs)))
        if at_once:
            await embed(_statements(list(outcomes.values())), "fact")
    return ExtractedSession(
        stored,
        [(chunk_row, _with_unspoken(stored, chunk_row, outcomes)) for chunk_row in stored.chunk_rows],
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
    stored: StoredSession, chunk_row: ChunkRow, outcomes: Mapping[int, ChunkOutcome]
) -> ChunkOutcome:
    """Return what became of a chunk_row, its turns that nobody says among what was skipped."""
    outcome = outcomes.get(chunk_row.ordinal, ChunkOutcome())
    turns = (turn for _, turn in stored.span(chunk_row.first, chunk_row.last))
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
    """Return the turns of the open chunk_rows, as they are embedded."""
    turns = [
        turn for chunk_row in stored.chunk_rows for _, turn in stored.span(chunk_row.first, chunk_row.last)
    ]
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
            ExtractedFact(
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


MAX_KNOWN = 4
"""Most statements that a new one is compared with (reference configuration: max_llm_pairs_per_item 4)."""
NEAREST = 8
"""Stored facts that are looked at for each new one (reference configuration: fact_manager.top_k 8)."""


class NewFacts(Protocol):
    """Statements that are about to be written."""

    @property
    def statements(self) -> Sequence[PlacedFact]:
        """The statements."""

    @property
    def vectors(self) -> Mapping[bytes, NDArray[np.float32]]:
        """Digest of a text -> its unit vector."""


@dataclass(frozen=True, slots=True)
class _JudgedFact:
    """A statement as it is compared: `key` is equal for those that a judge may be asked about together."""

    fact_id: str
    text: str
    key: tuple[object, ...]
    wording: bytes
    """Equal for statements that rules may merge."""
    vector: NDArray[np.float32]


async def find_same(
    judge: Judge,
    db: Database,
    cache: SnapshotCache,
    works: Sequence[NewFacts],
    model: str | None,
    *,
    among: bool = True,
) -> Mapping[str, Same]:
    """Return identity of a new statement -> the stored or earlier one that says the same.

    Args:
        judge: is asked once, with all questions.
        db: the memory.
        cache: of its snapshots.
        works: what is about to be written.
        model: the embedder's id; without an embedder nothing is near.
        among: whether new statements are compared with one another too.
    """
    if model is None:
        return {}
    asked = await to_thread(_questions, db, cache, works, judge_threshold(model), among)
    if not asked:
        return {}
    verdicts = await judge.judge(
        [Equivalence(new.text, tuple(one.text for one, _ in known)) for new, known in asked]
    )
    same = {}
    for (new, known), verdict in zip(asked, verdicts, strict=True):
        if verdict is not None and 0 <= verdict < len(known):
            other, cosine = known[verdict]
            same[new.fact_id] = Same(other.fact_id, cosine)
    return same


_Asked = tuple[_JudgedFact, list[tuple[_JudgedFact, float]]]


def _questions(
    db: Database, cache: SnapshotCache, works: Sequence[NewFacts], threshold: float, among: bool
) -> list[_Asked]:
    """Return the new statements with those near them, nearest first, the stored before the new at equal nearness."""
    new = _new(works)
    with db.read() as tx:
        snapshot = cache.get(tx)
        stored = {one.fact_id for one in new if facts_rows.fact_by_id(tx, one.fact_id) is not None}
        new = [one for one in new if one.fact_id not in stored]
        near: list[list[tuple[_JudgedFact, float]]] = []
        for one in new:
            rows = (
                _nearest(snapshot.facts.vectors.cosines(one.vector), threshold) if snapshot.dimension else []
            )
            facts = facts_rows.facts_with_ids(tx, [int(snapshot.facts.ids[row]) for row, _ in rows])
            vectors = snapshot.facts.vectors
            found = []
            for row, cosine in rows:
                fact = facts[int(snapshot.facts.ids[row])]
                key = _key(fact.text, fact.negated, fact.start_ms, fact.end_ms)
                wording = fact_signature(fact).digest
                found.append((_JudgedFact(fact.fact_id, fact.text, key, wording, vectors[row]), cosine))
            near.append(found)
    asked = []
    for at, one in enumerate(new):
        before = new[:at] if among else ()
        earlier = [(other, float(other.vector @ one.vector)) for other in before if other.key == one.key]
        known = [pair for pair in (*near[at], *earlier) if pair[0].key == one.key and pair[1] >= threshold]
        if known and all(other.wording != one.wording for other, _ in known):
            asked.append((one, sorted(known, key=lambda pair: -pair[1])[:MAX_KNOWN]))
    return asked


def _new(works: Sequence[NewFacts]) -> list[_JudgedFact]:
    """Return the new statements, each once, in the order in which they were said."""
    said: dict[str, tuple[PlacedFact, NewFacts]] = {}
    every = [(one, work) for work in works for one in work.statements]
    for one, work in sorted(every, key=lambda pair: (pair[0].said_ms, pair[0].tie)):
        if digest(one.candidate.text) in work.vectors:
            said.setdefault(one.fact_id, (one, work))
    return [
        _JudgedFact(
            fact_id,
            one.candidate.text,
            _key(one.candidate.text, one.candidate.negated, one.start_ms, one.end_ms),
            signature(one.candidate).digest,
            work.vectors[digest(one.candidate.text)],
        )
        for fact_id, (one, work) in said.items()
    ]


def _key(text: str, negated: bool, start_ms: int | None, end_ms: int | None) -> tuple[object, ...]:
    return (negated, start_ms, end_ms, tuple(sorted(numbers(text))))


def _nearest(cosines: NDArray[np.float64], threshold: float) -> list[tuple[int, float]]:
    """Return the rows of the nearest stored facts, best first; ties by row."""
    rows = np.flatnonzero(cosines >= threshold)
    best = rows[np.lexsort((rows, -cosines[rows]))][:NEAREST]
    return [(int(row), float(cosines[row])) for row in best]
