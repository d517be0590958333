"""The transactions that turn extracted chunks into memory (design: write path, step 4).

Facts, occurrences, entities, states, vectors and the chunks' status are written together, a part
of a long session at a time, so that other writers wait for no transaction long. Which statements are which facts is
planned inside the transaction, so that it holds against whatever another process has written in the meantime. That needs
no model, only vectors.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.models.ledger import Ledger
from memforest.progress import Timer
from memforest.read.host import PAUSE_S
from memforest.read.results import MOST_REFUSED, ChunkReport, RefusedStatement
from memforest.reading.canonical import (
    EntityBook,
    FactPlan,
    PlacedFact,
    Same,
    Signature,
    plan_facts,
    signature,
    speaker_key,
)
from memforest.records import ChunkOutcome, ExtractedFact
from memforest.search.timeline import superseded_facts
from memforest.search.vectors import check_own, digest, turn_text
from memforest.store import corrections, derived, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.facts import ROLES, FactRow
from memforest.store.sessions import AGAIN, ChunkRow
from memforest.times import to_ms
from memforest.write.corrections import retract_chunk, settle_chunks
from memforest.write.extract import ExtractedSession
from memforest.write.reword import (
    Naming,
    drop_chosen,
    ensure_wordings,
    fact_signature,
    insert_facts,
    restate_fact,
)
from memforest.write.sessions import CONTEXT_TURNS, overwritten


@dataclass(slots=True)
class CommittedSession:
    """The outcome of a session's commits: facts that were added, merged and superseded, reports of its chunks, and costs."""

    chunks: tuple[ChunkReport, ...] = ()
    spent: Ledger = field(default_factory=Ledger)
    """What extracting and embedding cost."""
    embeds: Mapping[str, int] = field(default_factory=dict)
    """Kind -> texts that the embedder really ran."""
    warnings: dict[str, None] = field(default_factory=dict)
    """Which turns are damaged, and which indexes could not place what was written, and why."""
    added: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    """Texts of facts whose value another one took the place of."""
    facts: set[int] = field(default_factory=set)
    """Row ids of the facts that are among `added` or `merged`."""
    states: list[int] = field(default_factory=list)
    """Row ids of the observations of states that were written now."""
    unembedded: bool = False
    """Whether a corrected statement was written that has no vector yet."""


def commit(tx: Tx, work: ExtractedSession, stored_ms: int, done: CommittedSession) -> None:
    """Write a session's extracted chunks; chunks that another process has finished are left alone.

    Args:
        tx: the open write transaction.
        work: the session, or a part of it.
        stored_ms: the present, UTC ms.
        done: what was written of the session before; what is written now is added.

    Raises:
        SessionConflictError: if another writer has overwritten the session since it was read.
    """
    work = _still_open(tx, work, done)
    if not work.outcomes:
        return
    ensure_wordings(tx)
    plans = planned(tx, work.statements, work.vectors, work.threshold, work.same)
    _write_facts(tx, work, plans, stored_ms, done)
    is_whole = sessions.finish_chunks(
        tx,
        work.stored.row,
        [
            (
                chunk.row,
                "extracted" if outcome.failure is None else "failed",
                outcome.maker or work.maker,
                outcome.failure,
                [(one.turn, one.reason) for one in outcome.skipped],
            )
            for chunk, outcome in work.outcomes
        ],
    )
    if corrections.exists(tx):
        settled = settle_chunks(tx, [chunk.row for chunk, _ in work.outcomes], work.vectors)
        done.unembedded |= settled.unembedded
        done.warnings.update(dict.fromkeys(settled.warnings))
    rows = [
        (row, key, work.vectors[key])
        for chunk, _ in work.outcomes
        for row, turn in work.stored.span(chunk.first, chunk.last)
        if (key := digest(turn_text(turn.speaker, turn.text))) in work.vectors
    ]
    derived.put_vectors(tx, "turn", rows)
    if is_whole:
        drop_chosen(tx)
    meta.bump(tx)


def planned(
    tx: Tx,
    said: Sequence[PlacedFact],
    vectors: Mapping[bytes, NDArray[np.float32]],
    threshold: float | None,
    same: Mapping[str, Same],
) -> list[FactPlan]:
    """Return which facts statements are, of those that are stored and of new ones; see `ExtractedSession`."""
    ids = {one.fact_id for one in said}
    ids |= {same[one].fact_id for one in ids if one in same}
    stored = facts_rows.rows_of_ids(tx, ids)
    own = {one.fact_id: vectors[key] for one in said if (key := digest(one.candidate.text)) in vectors}
    near = near_facts(tx, [one.candidate for one in said if one.fact_id in own.keys() - stored], threshold)
    return plan_facts(said, stored_ids=stored, vectors=own, stored=near, threshold=threshold, same=same)


def _still_open(tx: Tx, work: ExtractedSession, done: CommittedSession) -> ExtractedSession:
    """Return the part with the chunks that are still open and span the same turns, as another writer may have changed them.

    What was made of a failed chunk is taken back where it could be read now; else it stays as it was.

    Raises:
        SessionConflictError: if the turns are not those that were read.
    """
    first = min(chunk.first for chunk, _ in work.outcomes)
    last = max(chunk.last for chunk, _ in work.outcomes)
    chunks = sessions.chunks(tx, work.stored.row, first, last)
    if not chunks:
        raise overwritten()
    # A chunk that another writer has cut anew, as an earlier turn came between, is that writer's to read.
    spans = {
        (chunk.row, chunk.first, chunk.last) for chunk in chunks if chunk.status in ("pending", "failed")
    }
    open_ = [pair for pair in work.outcomes if (pair[0].row, pair[0].first, pair[0].last) in spans]
    if not open_:
        return replace(work, outcomes=[])
    rows = sessions.rows_at(tx, work.stored.row, first - CONTEXT_TURNS, last)
    were = {at: row for at, (row, _) in work.stored.turns.items()}
    read = {at for chunk, _ in open_ for at in range(chunk.first - CONTEXT_TURNS, chunk.last + 1)}
    if any(rows.get(at) != were.get(at) for at in read):
        raise overwritten()
    outcomes: list[tuple[ChunkRow, ChunkOutcome]] = []
    for chunk, outcome in open_:
        if chunk.status != "failed":
            outcomes.append((chunk, outcome))
        elif outcome.failure is not None:
            sessions.fail_again(tx, chunk.row, outcome.failure)
        else:
            done.unembedded |= retract_chunk(tx, chunk.row)
            sessions.add_chunks(tx, chunk.session, [(chunk.ordinal, chunk.first, chunk.last)])
            [anew] = sessions.chunks(tx, chunk.session, chunk.first, chunk.last)
            outcomes.append((anew, outcome))
    return replace(work, outcomes=outcomes)


def near_facts(
    tx: Tx, wanted: Sequence[ExtractedFact], threshold: float | None
) -> list[tuple[int, Signature, NDArray[np.float32]]]:
    """Return the stored facts that may be near-duplicates: those worded alike, however many facts there are."""
    if threshold is None or not wanted:
        return []
    worded = facts_rows.facts_worded(tx, [signature(candidate).digest for candidate in wanted])
    if not worded:
        return []
    vectors = derived.vectors_of_items(tx, "fact", worded)
    facts = facts_rows.facts_with_ids(tx, vectors)
    mentions = facts_rows.mentions(tx, vectors)
    named = facts_rows.entities(tx, {one.entity for one in mentions})
    parts: dict[int, set[tuple[str, str]]] = {}
    for one in mentions:
        roles = {role for role, bit in ROLES.items() if one.roles & bit and role != "speaker"}
        parts.setdefault(one.fact, set()).update((named[one.entity].key, role) for role in roles)
    return [
        (row, fact_signature(facts[row], frozenset(parts.get(row, ()))), vectors[row])
        for row in sorted(vectors)
    ]


def _write_facts(
    tx: Tx,
    work: ExtractedSession,
    plans: Sequence[FactPlan],
    stored_ms: int,
    done: CommittedSession,
) -> None:
    """Write planned facts, new ones and the occurrences that join stored ones, and who spoke; a statement for each table."""
    first_stored, _ = work.stored.told  # of chunks that are cut anew
    stands = [
        FactRow(
            row=0,
            fact_id=plan.fact_id,
            text=plan.candidate.text,
            speaker=plan.candidate.speaker,
            start_ms=None if plan.candidate.start is None else to_ms(plan.candidate.start),
            end_ms=None if plan.candidate.end is None else to_ms(plan.candidate.end),
            precision=plan.candidate.precision,
            dates=plan.candidate.dates,
            negated=plan.candidate.negated,
            said_ms=plan.said[0].said_ms,
            tie=plan.said[0].tie,
            topics=plan.candidate.topics,
            # It was held since the earliest of what is read again.
            stored_ms=min(first_stored.get(one.fact_id, stored_ms) for one in plan.said),
        )
        for plan in plans
        if plan.joins is None
    ]
    new = iter(insert_facts(tx, stands))
    joins = {plan.joins for plan in plans if plan.joins is not None}
    joined = facts_rows.facts_with_ids(tx, joins) if joins else {}
    # Of a chunk whose reply was cut short some occurrences are kept.
    kept = (
        set(facts_rows.occurrences_in(tx, {one.chunk for plan in plans for one in plan.said}).values())
        & joins
    )
    told = facts_rows.occurrences(tx, kept) if kept else {}
    known = {(row, one.chunk, one.text) for row, found in told.items() for one in found}
    facts: list[FactRow] = []
    said: list[tuple[FactRow, PlacedFact]] = []
    occurrences: list[facts_rows.StoredOccurrence] = []
    for plan in plans:
        fact = next(new) if plan.joins is None else joined[plan.joins]
        facts.append(fact)
        again = all(one.fact_id in first_stored for one in plan.said)
        if not again and fact.row not in done.facts:  # in an earlier part
            (done.added if plan.joins is None else done.merged).append(fact.text)
        done.facts.add(fact.row)
        for one in plan.said:
            if (fact.row, one.chunk, one.candidate.text) in known:
                continue
            said.append((fact, one))
            occurrences.append(
                facts_rows.StoredOccurrence(
                    row=0,
                    fact=fact.row,
                    chunk=one.chunk,
                    speaker=one.candidate.speaker,
                    said_ms=one.said_ms,
                    topics=json.dumps(one.candidate.topics, ensure_ascii=False),
                    cosine=plan.cosines.get(one.fact_id),
                    text=one.candidate.text,
                    quote=one.candidate.quote,
                    tie=one.tie,
                    dates=facts_rows.write_dates(one.candidate.dates),
                    stored_ms=first_stored.get(one.fact_id, stored_ms),
                )
            )
    rows = facts_rows.add_occurrences(tx, occurrences, [one.turns for _, one in said])
    naming = Naming(tx, EntityBook(tx, known=work.labels))
    names = [*work.stored.speakers]
    for _, one in said:
        names += [one.candidate.speaker, *(mention.name for mention in one.candidate.mentions)]
        names += [state.entity for state in one.candidate.states]
        names += [name for relation in one.candidate.relations for name in (relation.source, relation.target)]
    naming.book.learn(one_key for name in names if (one_key := speaker_key(name)) is not None)
    for speaker in work.stored.speakers:
        naming.book.participant(speaker)
    for row, (fact, one) in zip(rows, said, strict=True):
        naming.add(one.candidate, fact, row, one.said_ms)
    done.states += naming.write()
    # A fact stands as its first occurrences say.
    earlier = {fact.row: fact for fact, one in said if (one.said_ms, one.tie) < (fact.said_ms, fact.tie)}
    restated = {row: restate_fact(tx, fact) for row, fact in earlier.items()}
    facts = [restated.get(fact.row, fact) for fact in facts]
    derived.put_vectors(
        tx,
        "fact",
        [(one.row, key, work.vectors[key]) for one in facts if (key := digest(one.text)) in work.vectors],
    )


PART_CHUNKS = 128
"""Most chunks written in one transaction: about half a second's work."""


async def commit_in_parts(
    db: Database,
    config: Config,
    work: ExtractedSession,
    timer: Timer,
) -> CommittedSession | SessionConflictError:
    """Commit the extracted chunks of a session in parts, and return what they added and superseded.

    After a crash between two parts the session is `received`, and `resume` goes on with the chunks that are open.

    Args:
        db: the memory.
        config: for the clock.
        work: the session.
        timer: of the write.

    Returns:
        An error if another writer has overwritten the session meanwhile.

    Raises:
        EmbedderMismatchError: if the memory was given another embedder meanwhile; the session stays `received`.
    """
    damaged = (f"{name} is damaged and its chunk is left; {AGAIN}" for name in work.stored.damaged.values())
    ids = {ordinal: turn.id for ordinal, (_, turn) in work.stored.turns.items()}
    reports = tuple(
        ChunkReport(
            turn_ids=tuple(turn.id for _, turn in work.stored.span(chunk.first, chunk.last)),
            status="left"
            if outcome.left
            else "failed"
            if outcome.failure is not None
            else "extracted"
            if work.stored.infer
            else "verbatim",
            skipped=tuple((ids[one.turn], one.reason) for one in outcome.skipped),
            failure=outcome.failure,
            refused=tuple(
                RefusedStatement(one.text, ids[one.turn], one.reason)
                for one in outcome.skipped
                if one.statement
            )[:MOST_REFUSED],
        )
        for chunk, outcome in work.outcomes
    )
    done = CommittedSession(reports, work.spent, work.embeds, dict.fromkeys(damaged))
    read = [pair for pair in work.outcomes if not pair[1].left]  # what the budget did not reach stays open
    for first in range(0, len(read), PART_CHUNKS):
        part = replace(work, outcomes=read[first : first + PART_CHUNKS])
        if first:
            await asyncio.sleep(PAUSE_S)
        try:
            await to_thread(
                _commit_part, db, config, part, done, timer, is_last=first + PART_CHUNKS >= len(read)
            )
        except SessionConflictError as exc:
            return exc
    return done


def _commit_part(
    db: Database,
    config: Config,
    part: ExtractedSession,
    done: CommittedSession,
    timer: Timer,
    *,
    is_last: bool,
) -> None:
    """Commit a part of a session; with the last one, note the facts that its states ended, but for those reported before."""
    with db.write() as tx:
        if part.model is not None:
            check_own(tx, db.path, part.model)
        commit(tx, part, to_ms(config.clock()), done)
        if is_last and done.states:
            told, ended = part.stored.told[1], superseded_facts(tx, done.states)
            facts = facts_rows.facts_with_ids(tx, {row for row, _ in ended})
            new = {row for row, attribute in ended if (facts[row].fact_id, attribute) not in told}
            done.superseded = [facts[row].text for row in sorted(new)]
        written = time.perf_counter()
    timer.add("route.commit", written)
