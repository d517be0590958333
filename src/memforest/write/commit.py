"""The transactions that turn extracted chunks into memory (design: write path, step 4).

Facts, occurrences, entities, states, routing, placements, dirty marks and the chunks' status are written
together, a part of a long session at a time. The plan of which candidates are which facts is made inside the
transaction, so that it holds against whatever another process has written in the meantime; it needs no model, only
vectors.


Writing a session part by part, so that other writers wait for none of its transactions long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.models.ledger import Ledger
from memforest.progress import Timer
from memforest.read.host import PAUSE_S
from memforest.read.results import ChunkReport
from memforest.reading.canonical import EntityBook, FactPlan, Signature, plan_facts, signature
from memforest.records import ChunkOutcome, ExtractedFact
from memforest.search.timeline import superseded_facts
from memforest.search.vectors import check_own, digest, turn_text
from memforest.store import derived, meta, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.facts import FactRow, add_occurrence
from memforest.store.sessions import AGAIN, ChunkRow, ChunkStatus
from memforest.times import to_ms
from memforest.trees.attached import Attached, Placings
from memforest.trees.index import Placed
from memforest.write.corrections import retract_chunk, settle_corrections
from memforest.write.extract import ExtractedSession
from memforest.write.reword import (
    drop_chosen,
    ensure_wordings,
    fact_signature,
    insert_fact,
    restate_fact,
    write_mentions,
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
    placed: Placed = field(default_factory=Placed)
    unembedded: bool = False
    """Whether a corrected statement was written that has no vector yet."""


def commit(
    tx: Tx, placings: Placings, work: ExtractedSession, stored_ms: int, done: CommittedSession
) -> None:
    """Write a session's extracted chunks; chunks that another process has finished are left alone.

    Args:
        tx: the open write transaction.
        placings: the indexes, which are told what changes.
        work: the session, or a part of it.
        stored_ms: the present, UTC ms.
        done: what was written of the session before; what is written now is added.

    Raises:
        SessionConflictError: if another writer has overwritten the session since it was read.
    """
    still_open = _read_again(tx, placings, _still_open(tx, work), done)
    if not still_open.outcomes:
        return
    ensure_wordings(tx)
    book = EntityBook(tx)
    for speaker in work.stored.speakers:
        book.participant(speaker)
    for plan in _plan(tx, still_open):
        _write_fact(tx, placings, book, work, plan, stored_ms, done)
    for chunk, outcome in still_open.outcomes:
        _finish(tx, chunk, outcome, work.maker)
    settled = settle_corrections(tx, placings, [chunk.row for chunk, _ in still_open.outcomes], work.vectors)
    done.unembedded |= settled.unembedded
    done.warnings.update(dict.fromkeys(settled.warnings))
    rows = [
        (row, key, work.vectors[key])
        for first, last in still_open.spans
        for row, turn in work.stored.span(first, last)
        if (key := digest(turn_text(turn.speaker, turn.text))) in work.vectors
    ]
    derived.put_vectors(tx, "turn", rows)
    if not sessions.pending(tx, work.stored.row):
        sessions.set_status(tx, work.stored.row, "ingested")
        drop_chosen(tx, placings)
    done.placed = placings.close(done.placed)
    meta.bump(tx)


def _still_open(tx: Tx, work: ExtractedSession) -> ExtractedSession:
    """Return the part with those chunks that are still open and span the same turns; another writer may have changed them.

    Raises:
        SessionConflictError: if the turns are not those that were read.
    """
    try:
        sessions.session_with_row(tx, work.stored.row)
    except KeyError:
        raise overwritten() from None
    spans = {
        (chunk.row, chunk.first, chunk.last)
        for chunk in sessions.chunks(tx, work.stored.row)
        if chunk.status in ("pending", "failed")
    }
    # Those of which another writer has cut the turns anew, as an earlier one came between, are that writer's to read.
    work = replace(
        work, outcomes=[pair for pair in work.outcomes if (pair[0].row, pair[0].first, pair[0].last) in spans]
    )
    if not work.outcomes:
        return work
    first, last = min(work.spans)[0] - CONTEXT_TURNS, max(last for _, last in work.spans)
    turns = {turn.ordinal: (row, turn) for row, turn in sessions.turns(tx, work.stored.row, first, last)}
    if any(
        turns.get(at) != work.stored.turns.get(at)
        for start, end in work.spans
        for at in range(start - CONTEXT_TURNS, end + 1)
    ):
        raise overwritten()
    return work


def _read_again(
    tx: Tx, placings: Placings, work: ExtractedSession, done: CommittedSession
) -> ExtractedSession:
    """Take back what was made of the chunks that had failed, where they are read now; leave the others as they were."""
    outcomes: list[tuple[ChunkRow, ChunkOutcome]] = []
    for chunk, outcome in work.outcomes:
        if chunk.status != "failed":
            outcomes.append((chunk, outcome))
        elif outcome.failure is not None:
            sessions.fail_again(tx, chunk.row, outcome.failure)
        else:
            done.unembedded |= retract_chunk(tx, placings, chunk.row)
            sessions.add_chunks(tx, chunk.session, [(chunk.ordinal, chunk.first, chunk.last)])
            [anew] = sessions.chunks(tx, chunk.session, chunk.first, chunk.last)
            outcomes.append((anew, outcome))
    return replace(work, outcomes=outcomes)


def _finish(tx: Tx, chunk: ChunkRow, outcome: ChunkOutcome, maker: str) -> None:
    skipped = [(one.turn, one.reason) for one in outcome.skipped]
    status: ChunkStatus = "extracted" if outcome.failure is None else "failed"
    sessions.finish_chunk(
        tx, chunk.row, status, maker=outcome.maker or maker, reason=outcome.failure, skipped=skipped
    )


# -- canonical facts ------------------------------------------------------------------------------


def _plan(tx: Tx, work: ExtractedSession) -> list[FactPlan]:
    """Return which statements are which facts, stored ones or new ones."""
    said = work.statements
    ids = {one.fact_id for one in said}
    ids |= {work.same[one].fact_id for one in ids if one in work.same}
    stored = {fid: fact.row for fid in ids if (fact := facts_rows.fact_by_id(tx, fid)) is not None}
    vectors = {
        one.fact_id: work.vectors[key] for one in said if (key := digest(one.candidate.text)) in work.vectors
    }
    near = near_facts(
        tx, [one.candidate for one in said if one.fact_id in vectors.keys() - stored], work.threshold
    )
    return plan_facts(
        said, stored_ids=stored, vectors=vectors, stored=near, threshold=work.threshold, same=work.same
    )


def near_facts(
    tx: Tx, wanted: Sequence[ExtractedFact], threshold: float | None
) -> list[tuple[int, Signature, NDArray[np.float32]]]:
    """Return the stored facts that may be near-duplicates: those worded alike, however many facts there are."""
    if threshold is None or not wanted:
        return []
    rows = facts_rows.facts_worded(tx, [signature(candidate).digest for candidate in wanted])
    facts = facts_rows.facts_with_ids(tx, rows)
    vectors = derived.vectors_of_items(tx, "fact", rows)
    return [(row, _stored_signature(tx, facts[row]), vectors[row]) for row in rows if row in vectors]


def _stored_signature(tx: Tx, fact: FactRow) -> Signature:
    parts = frozenset(
        (facts_rows.entity_with_row(tx, entity).key, role)
        for entity, role in facts_rows.mentions_of(tx, fact.row)
        if role != "speaker"
    )
    return fact_signature(fact, parts)


# -- writing one fact -----------------------------------------------------------------------------


def _write_fact(
    tx: Tx,
    placings: Placings,
    book: EntityBook,
    work: ExtractedSession,
    plan: FactPlan,
    stored_ms: int,
    done: CommittedSession,
) -> None:
    """Write a planned fact."""
    first_told = work.stored.told.stored  # of a chunk that is cut anew
    if plan.joins is None:
        fact = _new_fact(tx, plan, min(first_told.get(one.fact_id, stored_ms) for one in plan.said))
        told = done.added
    else:
        fact = facts_rows.facts_with_ids(tx, (plan.joins,))[plan.joins]
        told = done.merged
    again = all(one.fact_id in work.stored.told.facts for one in plan.said)
    if not again and fact.row not in done.facts:  # in an earlier part
        told.append(fact.text)
    done.facts.add(fact.row)
    known = {(one.chunk, one.text) for one in facts_rows.occurrences(tx, (fact.row,))[fact.row]}
    for one in plan.said:
        if (one.chunk, one.candidate.text) in known:
            continue  # kept from a reply that was cut short
        occurrence = add_occurrence(
            tx,
            fact.row,
            one.chunk,
            speaker=one.candidate.speaker,
            text=one.candidate.text,
            quote=one.candidate.quote,
            dates=one.candidate.dates,
            said_ms=one.said_ms,
            tie=one.tie,
            topics=one.candidate.topics,
            cosine=plan.cosines.get(one.fact_id),
            turns=one.turns,
            stored_ms=first_told.get(one.fact_id, stored_ms),
        )
        done.states += write_mentions(tx, book, one.candidate, occurrence)
    if plan.joins is not None:  # a new one stands already as its first occurrence says
        fact = restate_fact(tx, placings, fact)
    _put_vector(tx, work, fact)


def _new_fact(tx: Tx, plan: FactPlan, stored_ms: int) -> FactRow:
    candidate, first = plan.candidate, plan.said[0]
    fact = FactRow(
        row=0,
        fact_id=plan.fact_id,
        text=candidate.text,
        speaker=candidate.speaker,
        start_ms=None if candidate.start is None else to_ms(candidate.start),
        end_ms=None if candidate.end is None else to_ms(candidate.end),
        precision=candidate.precision,
        dates=candidate.dates,
        negated=candidate.negated,
        said_ms=first.said_ms,
        tie=first.tie,
        topics=candidate.topics,
        stored_ms=stored_ms,
    )
    return insert_fact(tx, fact)


def _put_vector(tx: Tx, work: ExtractedSession, fact: FactRow) -> None:
    key = digest(fact.text)
    if key in work.vectors:
        derived.put_vectors(tx, "fact", [(fact.row, key, work.vectors[key])])


def superseded_texts(tx: Tx, states: Sequence[int], told: Collection[tuple[str, str]]) -> list[str]:
    """Return the texts of the facts that new observations, by row id, have ended.

    Args:
        tx: the transaction.
        states: the observations.
        told: identity and attribute of what need not be told.
    """
    ended = superseded_facts(tx, states)
    facts = facts_rows.facts_with_ids(tx, {row for row, _ in ended})
    new = {row for row, attribute in ended if (facts[row].fact_id, attribute) not in told}
    return [facts[row].text for row in sorted(new)]


PART_CHUNKS = 128
"""Most chunks written in one transaction: about half a second's work."""


async def commit_in_parts(
    db: Database,
    config: Config,
    attached: Attached,
    work: ExtractedSession,
    timer: Timer,
) -> CommittedSession | SessionConflictError:
    """Commit the extracted chunks of a session in parts, and return what they added and superseded.

    After a crash between two parts the session is `received`, and `resume` goes on with the chunks that are open.

    Args:
        db: the memory.
        config: for the clock.
        attached: the memory's indexes.
        work: the session.
        timer: of the write.

    Returns:
        An error if another writer has overwritten the session meanwhile.

    Raises:
        EmbedderMismatchError: if the memory was given another embedder meanwhile; the session stays `received`.
    """
    damaged = (f"{name} is damaged and its chunk is left; {AGAIN}" for name in work.stored.damaged.values())
    done = CommittedSession(work.reports, work.spent, work.embeds, dict.fromkeys(damaged))
    for at, part in enumerate(work.parts(PART_CHUNKS)):
        if at:
            await asyncio.sleep(PAUSE_S)
        try:
            await to_thread(_commit_part, db, config, attached, part, done, timer)
        except SessionConflictError as exc:
            return exc
    done.superseded = await to_thread(_superseded, db, work, done)
    return done


def _commit_part(
    db: Database,
    config: Config,
    attached: Attached,
    part: ExtractedSession,
    done: CommittedSession,
    timer: Timer,
) -> None:
    with db.write() as tx:
        if part.model is not None:
            check_own(tx, db.path, part.model)
        commit(tx, Placings(tx, attached), part, to_ms(config.clock()), done)
        written = time.perf_counter()
    timer.add("route.commit", written)


def _superseded(db: Database, work: ExtractedSession, done: CommittedSession) -> list[str]:
    if not done.states:
        return []
    with db.read() as tx:
        return superseded_texts(tx, done.states, work.stored.told.superseded)
