"""Extracting statements from the open chunks of a stored session, and asking a judge which of them are one fact.

No transaction is open meanwhile. Turns and statements are embedded beside the extraction.

`find_same` is the judging of paper §4.1. Rules merge what is worded the same (`memforest.reading.canonical`); what is
only near is put to a model, each new statement with the few stored or earlier ones that are nearest. Statements that
differ in polarity, stated time or numbers are never asked about: they are two facts, whatever a model says. Verdicts
are by the statements' identities, so they hold whatever another process writes in the meantime.

What a model answers is kept as soon as it is there (`memforest.store.artifacts`), a reply under the digest of all that was
shown of its chunk, a verdict under those of the two statements. Who extracts or judges the same again is answered from
there: after a crash, in a session that is overwritten in part, with chunks that are cut as they were before.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of, to_thread
from memforest.config import Config
from memforest.errors import ModelError, ModelRefusedError
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import Judge, is_remote
from memforest.progress import NOBODY, Watch
from memforest.reading.canonical import PlacedFact, Same, judge_threshold, signature
from memforest.reading.steps import Steps
from memforest.records import UNSPOKEN_ROLES, Chunk, ChunkOutcome, Equivalence, ExtractedFact, Skipped
from memforest.search.cache import SnapshotCache
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import VectorMaker, digest, turn_text
from memforest.store import artifacts, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.artifacts import Artifact
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.sessions import ChunkRow
from memforest.text import DATA_RUN, cut, numbers
from memforest.times import to_ms
from memforest.write.reword import fact_signature
from memforest.write.sessions import CONTEXT_TURNS, StoredSession, load

READ_CHUNKS = 64
"""Chunks that are read together without a model, so that progress shows in a long session."""


@dataclass(frozen=True, slots=True)
class ExtractedSession:
    """A stored session with the outcomes of its chunks and the vectors of its turns and statements, ready to be written."""

    stored: StoredSession
    outcomes: Sequence[tuple[ChunkRow, ChunkOutcome]]
    """Each open chunk, and what the extractor made of it."""
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
    labels: Mapping[str, str] = field(default_factory=dict)
    """Key -> how an entity is called, if it is new; of others the first name that is met counts."""
    spent: Ledger = field(default_factory=Ledger)
    """What extracting and embedding cost."""
    embeds: Mapping[str, int] = field(default_factory=dict)
    """Kind -> texts that the embedder really ran."""

    @property
    def statements(self) -> list[PlacedFact]:
        """The statements of the chunks, each with its place."""
        placed = []
        for chunk_row, outcome in self.outcomes:
            for seq, candidate in enumerate(outcome.candidates):
                turns = [self.stored.turns[at] for at in candidate.turns]
                place = f"{self.stored.session_id}\x1f{chunk_row.ordinal:06d}\x1f{seq:03d}"
                rows, said_ms = tuple(row for row, _ in turns), to_ms(turns[0][1].said)
                placed.append(PlacedFact(candidate, chunk_row.row, rows, said_ms, place))
        return placed


def asked_of(stored: StoredSession, config: Config) -> dict[int, bytes]:
    """Return the digest of all that a model is shown of each chunk of a session, by the chunk's ordinal."""
    found = {}
    for row in stored.chunk_rows:
        read = range(row.first - CONTEXT_TURNS, row.last + 1)
        head = json.dumps([config.timezone, stored.speakers, row.first]).encode()
        whole = b"".join((head, *(stored.digests[at] for at in read if at in stored.digests)))
        found[row.ordinal] = blake2b(whole, digest_size=16).digest()
    return found


def pair_of(one: str, other: str) -> bytes:
    """Return the digest of two statements, in whichever order: it holds that of each."""
    return b"".join(sorted((digest(one), digest(other))))


def asked_again(tx: Tx, config: Config, known: Mapping[bytes, artifacts.Step]) -> set[bytes]:
    """Return those replies and verdicts, of some artifacts by digest, that may be asked for again.

    A reply is one of a chunk as it is now; a verdict is one on two statements that are here, each worded so in some place.
    """
    steps, wanted = set(known.values()), set[bytes]()
    if "extract" in steps:
        for row, turns in sessions.spoken(tx).items():
            speakers = tuple(dict.fromkeys(speaker for _, speaker, _ in turns))
            digests, chunks = {at: one for at, _, one in turns}, sessions.chunks(tx, row)
            stored = StoredSession(row, "", speakers=speakers, digests=digests, chunk_rows=chunks)
            wanted.update(asked_of(stored, config).values())
    said = {digest(text) for text in facts_rows.statements(tx)} if "judge" in steps else set()
    return {key for key in known if key in wanted or said.issuperset((key[:8], key[8:]))}


async def with_replies(
    db: Database, config: Config, stored: Iterable[StoredSession], maker: str
) -> list[StoredSession]:
    """Return sessions with the replies about their chunks that are kept of an extractor."""
    keys = [(one, asked_of(one, config)) for one in stored]
    kept = await db.reading(artifacts.texts, {key for _, of in keys for key in of.values()}, maker)
    return [replace(one, replies={at: kept.get(key) for at, key in of.items()}) for one, of in keys]


def _keep_reply(
    tx: Tx, config: Config, stored: StoredSession, made: Artifact, current: dict[int, Collection[bytes]]
) -> None:
    """Keep a reply, unless its chunk says something else by now: something of it may have been deleted.

    `current` keeps what may be asked of the session, generation of the memory -> digests.
    """
    now = meta.generation(tx)
    if now not in current:
        current.clear()
        current[now] = asked_of(load(tx, config, stored, stored.chunk_rows), config).values()
    if made.digest in current[now]:
        artifacts.put(tx, "extract", [made])


async def extract(
    db: Database,
    config: Config,
    stored: StoredSession,
    steps: Steps,
    vectors: VectorMaker | None,
    threshold: float | None,
    gate: asyncio.Lock,
    watch: Watch = NOBODY,
) -> ExtractedSession:
    """Extract statements from the open chunks of a session, and embed its turns and statements.

    Turns are embedded while the extractor works. A local embedder also gets the statements of a chunk while a model
    reads the other chunks; an embedder behind an endpoint gets all statements at once. Without a model, blocks of chunks
    are read one after the other.

    A chunk on which a model fails is read by local rules, so that it can be found until `resume` succeeds.

    Args:
        db: the memory, which keeps what a model answers.
        config: for the zone of the times that a model is shown.
        stored: the session, loaded.
        steps: with the extractor.
        vectors: None in a memory without an embedder.
        threshold: least cosine of a near merge.
        gate: of all sessions that are extracted together: none writes while another tells how far it is.
        watch: told of the chunks that were read.
    """
    spent = current_ledger().part()
    maker = None if vectors is None else replace(vectors, ran={})  # it counts for itself
    at_once = maker is not None and is_remote(maker.embedder)
    outcomes: dict[int, ChunkOutcome] = {}
    found: dict[bytes, NDArray[np.float32]] = {}
    told: list[int] = []
    failed_before = {row.ordinal for row in stored.chunk_rows if row.status == "failed"}
    chunks = [chunk for chunk in stored.chunks if chunk.turns]
    silent = len(stored.chunk_rows) - len(chunks)
    asked = asked_of(stored, config) if steps.extracts_apart else {}
    current: dict[int, Collection[bytes]] = {}

    async def embed(texts: Sequence[str], kind: str) -> None:
        found.update({} if maker is None else await maker.make(texts, kind))

    async def read(parts: Sequence[Sequence[Chunk]]) -> None:
        for part in parts:
            made = (
                await steps.extractor.extract(part)
                if stored.infer
                else [_verbatim(chunk, stored.understood) for chunk in part]
            )
            async with gate:
                outcomes.update(zip((chunk.ordinal for chunk in part), made, strict=True))
                for chunk, one in zip(part, made, strict=True):
                    if one.reply is not None and one.reply != chunk.reply:
                        reply = Artifact(asked[chunk.ordinal], steps.extractor.name, one.reply)
                        await db.writing(_keep_reply, config, stored, reply, current)
                lost = [
                    chunk
                    for chunk, one in zip(part, made, strict=True)
                    if one.failure is not None and not (one.left or one.candidates)
                    if chunk.ordinal not in failed_before  # it was read by rules then
                ]
                for chunk, local in zip(lost, await steps.reader.extract(lost) if lost else [], strict=True):
                    failure = outcomes[chunk.ordinal].failure
                    outcomes[chunk.ordinal] = replace(local, failure=failure, maker=steps.reader.name)
                if not at_once:
                    await embed(
                        [one.text for chunk in part for one in outcomes[chunk.ordinal].candidates], "fact"
                    )
                tell()

    def tell() -> None:
        failed = sum(one.failure is not None and not one.left for one in outcomes.values())
        done = silent + sum(one.failure is None for one in outcomes.values())
        if stored.chunk_rows and told != [done, failed]:
            told[:] = [done, failed]
            watch.say("extracted", stored.session_id, done, failed, len(stored.chunk_rows))

    with keeping(spent):
        tell()
        jobs: list[list[Sequence[Chunk]]] = (
            # The longest first, as nothing takes as long.
            [[[one]] for one in sorted(chunks, key=lambda one: -sum(len(turn.text) for turn in one.turns))]
            if steps.extracts_apart and stored.infer
            else [[chunks[first : first + READ_CHUNKS] for first in range(0, len(chunks), READ_CHUNKS)]]
        )
        turns = [turn for row in stored.chunk_rows for _, turn in stored.span(row.first, row.last)]
        said = [turn_text(turn.speaker, turn.text) for turn in turns]
        await all_of((embed(said, "turn"), *(read(parts) for parts in jobs)))
        if at_once:
            await embed([one.text for outcome in outcomes.values() for one in outcome.candidates], "fact")
    done = []
    for row in stored.chunk_rows:
        outcome = outcomes.get(row.ordinal, ChunkOutcome())
        unspoken = [turn for _, turn in stored.span(row.first, row.last) if turn.role in UNSPOKEN_ROLES]
        skipped = [*outcome.skipped, *(Skipped(t.ordinal, cut(t.text), f"role {t.role}") for t in unspoken)]
        done.append((row, replace(outcome, skipped=tuple(sorted(skipped, key=attrgetter("turn"))))))
    return ExtractedSession(
        stored,
        done,
        steps.extractor.name if stored.infer else "verbatim",
        found,
        None if maker is None else maker.embedder.model_id,
        threshold,
        spent=spent,
        embeds={} if maker is None else maker.ran,
    )


def _verbatim(chunk: Chunk, understood: Collection[int]) -> ChunkOutcome:
    """Return every turn as one statement (``infer=False``).

    A turn that is nothing but data makes none, nor does one of which the caller has given a statement.
    """
    data = dict.fromkeys(understood, "statement given")
    data |= {turn.ordinal: "data" for turn in chunk.turns if not DATA_RUN.sub("", turn.text).strip()}
    return ChunkOutcome(
        skipped=tuple(
            Skipped(turn.ordinal, cut(turn.text), data[turn.ordinal])
            for turn in chunk.turns
            if turn.ordinal in data
        ),
        candidates=tuple(
            ExtractedFact(
                text=turn_text(turn.speaker, turn.text),
                turns=(turn.ordinal,),
                speaker=turn.speaker,
                quote=turn.text,
            )
            for turn in chunk.turns
            if turn.ordinal not in data
        ),
    )


MOST_JUDGED = 8
"""Questions that a judge is asked in one call."""
MAX_KNOWN = 4
"""Most statements that a new one is compared with (reference configuration: max_llm_pairs_per_item 4)."""
NEAREST = 8
"""Stored facts that are looked at for each new one (reference configuration: fact_manager.top_k 8)."""


NewFacts = tuple[Sequence[PlacedFact], Mapping[bytes, NDArray[np.float32]]]
"""Statements that are about to be written, and digest of a text -> its unit vector."""


@dataclass(frozen=True, slots=True)
class _JudgedFact:
    """A statement as it is compared: `key` is equal for those that a judge may be asked about together."""

    fact_id: str
    text: str
    key: tuple[object, ...]
    wording: bytes
    """Equal for statements that rules may merge."""
    vector: NDArray[np.float32]


_Question = tuple[_JudgedFact, dict[bytes, tuple[_JudgedFact, float]]]
"""A new statement, and those near it with their cosines, nearest first, by the digest of the pair."""


async def find_same(
    judge: Judge,
    db: Database,
    cache: SnapshotCache,
    works: Sequence[NewFacts],
    model: str | None,
    *,
    among: bool = True,
) -> Mapping[str, Same]:
    """Return identity of a new statement -> the stored or earlier statement that says the same.

    What cannot be judged is not the same: a missed merge costs a line of context, a false one destroys a memory.

    Args:
        judge: is asked what is not known yet, side by side.
        db: the memory.
        cache: of its snapshots.
        works: what is about to be written.
        model: the embedder's id; without an embedder nothing is near.
        among: whether new statements are compared with one another too.

    Raises:
        ModelRefusedError: if no call can succeed.
    """
    if model is None:
        return {}
    asked = await to_thread(_questions, db, cache, works, judge_threshold(model), among)
    if not asked:
        return {}
    told = await db.reading(artifacts.texts, {key for _, near in asked for key in near}, judge.name)
    left = [
        (new, {key: near[key] for key in near if key not in told})
        for new, near in asked
        if not near.keys() <= told.keys() and SAME not in map(told.get, near)
    ]
    packs = [left[at : at + MOST_JUDGED] for at in range(0, len(left), MOST_JUDGED)]
    for made in await all_of(_judged(judge, db, pack) for pack in packs):
        told |= made
    return {
        new.fact_id: Same(other.fact_id, cosine)
        for new, near in asked
        for key, (other, cosine) in reversed(near.items())  # the nearest is the last
        if told.get(key) == SAME
    }


SAME, APART = "same", "apart"
"""Verdicts on two statements."""


async def _judged(judge: Judge, db: Database, asked: Sequence[_Question]) -> dict[bytes, str]:
    """Ask a judge, and keep and return what it says; nothing where it fails.

    Raises:
        ModelRefusedError: if no call can succeed.
    """
    try:
        verdicts = await judge.judge(
            [Equivalence(new.text, tuple(one.text for one, _ in near.values())) for new, near in asked]
        )
    except ModelRefusedError:
        raise
    except ModelError:
        return {}
    made = {
        key: APART if same is None else SAME
        for (_, near), same in zip(asked, verdicts, strict=True)
        for at, key in enumerate(near)
        if same in (None, at)  # it names one that is the same, and tells nothing of the others
    }
    kept = [Artifact(key, judge.name, verdict) for key, verdict in made.items()]
    await db.writing(artifacts.put, "judge", kept)
    return made


def _questions(
    db: Database, cache: SnapshotCache, works: Sequence[NewFacts], threshold: float, among: bool
) -> list[_Question]:
    """Return the new statements with the ones near them, nearest first, the stored before the new at equal nearness."""
    said: dict[str, tuple[PlacedFact, NDArray[np.float32]]] = {}
    every = [(one, vectors) for statements, vectors in works for one in statements]
    for one, vectors in sorted(every, key=lambda pair: (pair[0].said_ms, pair[0].tie)):
        if (key := digest(one.candidate.text)) in vectors:
            said.setdefault(one.fact_id, (one, vectors[key]))
    new = [
        _JudgedFact(
            fact_id,
            one.candidate.text,
            _key(one.candidate.text, one.candidate.negated, one.start_ms, one.end_ms),
            signature(one.candidate).digest,
            vector,
        )
        for fact_id, (one, vector) in said.items()
    ]
    with db.read() as tx:
        snapshot = cache.get(tx)
        stored = facts_rows.rows_of_ids(tx, [one.fact_id for one in new])
        new = [one for one in new if one.fact_id not in stored]
        near = [_near(tx, snapshot, one.vector, threshold) if snapshot.dimension else [] for one in new]
    asked = []
    for at, judged in enumerate(new):
        before = new[:at] if among else ()
        earlier = [
            (other, float(other.vector @ judged.vector)) for other in before if other.key == judged.key
        ]
        known = [pair for pair in (*near[at], *earlier) if pair[0].key == judged.key and pair[1] >= threshold]
        if known and all(other.wording != judged.wording for other, _ in known):
            known = sorted(known, key=lambda pair: -pair[1])[:MAX_KNOWN]
            asked.append((judged, {pair_of(judged.text, pair[0].text): pair for pair in known}))
    return asked


def _near(
    tx: Tx, snapshot: Snapshot, vector: NDArray[np.float32], threshold: float
) -> list[tuple[_JudgedFact, float]]:
    """Return the nearest stored facts with their cosines, best first; ties by row."""
    vectors, ids = snapshot.facts.vectors, snapshot.facts.ids
    cosines = vectors.cosines(vector)
    rows = np.flatnonzero(cosines >= threshold)
    best = rows[np.lexsort((rows, -cosines[rows]))][:NEAREST].tolist()
    facts = facts_rows.facts_with_ids(tx, [int(ids[row]) for row in best])
    found = []
    for row in best:
        fact = facts[int(ids[row])]
        key = _key(fact.text, fact.negated, fact.start_ms, fact.end_ms)
        judged = _JudgedFact(fact.fact_id, fact.text, key, fact_signature(fact).digest, vectors[row])
        found.append((judged, float(cosines[row])))
    return found


def _key(text: str, negated: bool, start_ms: int | None, end_ms: int | None) -> tuple[object, ...]:
    return (negated, start_ms, end_ms, tuple(sorted(numbers(text))))
