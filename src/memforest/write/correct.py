"""Correcting a memory: update, pin and forget facts, take that back; and decide which names are one entity.

Nothing that was said is overwritten. A correction is a row of its own, and its consequences are written in the same
transaction (`memforest.write.corrections`). Only the text of an update is embedded, before the transaction begins.

Of entities only the decision is written. Which names are one follows from it, and from what was said, each time a
snapshot is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import CorrectionError, InputError, ModelError, NotFoundError
from memforest.read.stored import CorrectionView
from memforest.reading.canonical import fact_identity
from memforest.reading.extract_local import read_statement
from memforest.reading.timestamps import keep_zone, zone_of
from memforest.store import corrections, facts, meta, sessions
from memforest.store.connections import Tx
from memforest.store.corrections import PINNED, Correction, CorrectionKind, Verdict
from memforest.store.facts import FactRow
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.write.batch import SessionWriter
from memforest.write.corrections import chunks_about, note_places, settle_chunks
from memforest.write.rebuild import keep_writers_embedder
from memforest.write.remember import about_fact, decide, hidden_by, newest, precision_of, remember, shown
from memforest.write.reword import drop_chosen, with_end
from memforest.write.turns import GivenStatement, redacted_statement

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Update:
    """The new text and stated time of a fact, in aware UTC; None leaves a part as it is."""

    text: str | None = None
    start: datetime | None = None
    end: datetime | None = None


_Done = tuple[Correction, bool]
"""A correction that was made or undone, and whether a fact lacks its vector now."""


async def update(writer: SessionWriter, fact_id: str, given: Update) -> CorrectionView:
    """Put another statement in the place of a fact; see `AsyncUserMemory.update`."""
    # Wrong arguments are refused before a model is asked.
    text = await to_thread(_text, writer, fact_id, given)
    vectors = {} if writer.vectors is None else await writer.vectors.make([text], "fact")

    def write(tx: Tx) -> _Done:
        fact = shown(tx, fact_id)
        return _make(tx, writer, fact, _instead(tx, writer.config, fact, given), vectors)

    return await _corrected(writer, write)


async def mark(writer: SessionWriter, fact_id: str, kind: CorrectionKind) -> CorrectionView:
    """Pin or forget a fact; see `AsyncUserMemory.pin` and `forget`."""

    def write(tx: Tx) -> _Done:
        fact = shown(tx, fact_id)
        if kind == "pin" and fact.verdict == PINNED:
            raise CorrectionError(f"fact {fact_id} is pinned already{newest(tx, fact)}")
        return _make(tx, writer, fact, about_fact(fact, kind), {})

    return await _corrected(writer, write)


async def remember_at(
    writer: SessionWriter, given: GivenStatement, session_id: str, turn_id: str
) -> CorrectionView:
    """Remember what a stored turn says; see `AsyncUserMemory.remember`."""
    given = await to_thread(redacted_statement, given, writer.config)

    def write(tx: Tx) -> _Done:
        session = sessions.find_session(tx, session_id)
        turn = None if session is None else sessions.turn_with_id(tx, session.row, turn_id)
        if turn is None:
            where = f"{cut(repr(turn_id), 60)} of session {cut(repr(session_id), 60)}"
            raise NotFoundError(f"there is no turn {where}; sources of evidence name turns")
        done = remember(tx, writer.config, given, turn)
        return done, _settle(tx, chunks_about(tx, [done]), {})

    return await _corrected(writer, write)


async def undo(writer: SessionWriter, key: str) -> CorrectionView:
    """Take a correction back; see `AsyncUserMemory.undo`."""

    def write(tx: Tx) -> _Done:
        found = corrections.correction_with_key(tx, key)
        if found is None:
            raise NotFoundError(
                f"there is no correction {cut(repr(key), 60)}; history(fact_id) names those of a statement"
            )
        if found.undone_ms is not None:
            when = from_ms(found.undone_ms)
            raise CorrectionError(f"correction {key} was undone already, on {when:%Y-%m-%d %H:%M} UTC")
        together = [found, *corrections.ended_with(tx, found)]
        for after in (each for one in together if one.made for each in hidden_by(tx, one.made)):
            raise CorrectionError(
                f"the result of correction {key} was corrected itself; call undo({after.key!r}) first"
            )
        undone_ms = to_ms(writer.config.clock())
        chunks = chunks_about(tx, together)
        for one in together:
            corrections.undo_correction(tx, one.row, undone_ms)
        return replace(found, undone_ms=undone_ms), _settle(tx, chunks, {})

    return await _corrected(writer, write)


async def _corrected(writer: SessionWriter, work: Callable[[Tx], _Done]) -> CorrectionView:
    """Write a correction, then make the vector that it lacks."""

    def run() -> _Done:
        with writer.db.write() as tx:
            keep_writers_embedder(tx, writer)
            keep_zone(tx, writer.config)
            done = work(tx)
            meta.bump(tx)
            return done

    correction, unembedded = await to_thread(run)
    if unembedded:
        with suppress(ModelError):  # it is corrected; resume() makes what is left
            await writer.fill_vectors()
    return CorrectionView.of(correction)


def _text(writer: SessionWriter, fact_id: str, given: Update) -> str:
    with writer.db.read() as tx:
        return _instead(tx, writer.config, shown(tx, fact_id), given).text or ""


def _make(
    tx: Tx,
    writer: SessionWriter,
    fact: FactRow,
    correction: Correction,
    vectors: Mapping[bytes, NDArray[np.float32]],
) -> _Done:
    correction = decide(tx, writer.config, correction)
    chunks = {one.chunk for one in facts.occurrences(tx, (fact.row,))[fact.row]}
    note_places(tx, correction.row, fact.row, chunks)
    return correction, _settle(tx, chunks, vectors)


def _settle(tx: Tx, chunks: Collection[int], vectors: Mapping[bytes, NDArray[np.float32]]) -> bool:
    """Apply the corrections to some chunks; return whether a fact lacks its vector now."""
    settled = settle_chunks(tx, sorted(chunks), vectors)
    drop_chosen(tx)
    return settled.unembedded


def _instead(tx: Tx, config: Config, fact: FactRow, given: Update) -> Correction:
    """Return the correction that an update makes, without its key and time.

    The time that it states is the one that is given; else the one that a new text tells; else the old one.

    Raises:
        InputError: if the interval ends before it begins, or nothing differs from the statement as it is.
    """
    text = fact.text if given.text is None else given.text
    start, end, precision = fact.start_ms, fact.end_ms, fact.precision
    if given.text is not None:
        told = read_statement(
            text,
            speaker=fact.speaker,
            participants=(fact.speaker,),
            said=from_ms(fact.said_ms),
            zone=zone_of(tx, config),
        )
        if told.start is not None:
            start, precision = to_ms(told.start), told.precision
            end = None if told.end is None else to_ms(told.end)
    if given.start is not None:
        start, precision = to_ms(given.start), precision_of(given.start, config)
        end = None if end is not None and end <= start else end
    if given.end is not None:
        end = to_ms(given.end)
        start, precision = (start, precision) if start is not None else (fact.said_ms, "instant")
        precision = with_end(start, end, precision)
    if start is not None and end is not None and end <= start:
        why = "" if given.start is not None else "; give valid_from too"
        raise InputError(
            f"the statement would hold from {from_ms(start):%Y-%m-%d %H:%M} and end at {from_ms(end):%Y-%m-%d %H:%M} UTC, "
            f"which is not after it{why}"
        )
    made = fact_identity(
        text, None if start is None else from_ms(start), None if end is None else from_ms(end)
    )
    same_time = (start, end) == (fact.start_ms, fact.end_ms)
    if made == fact.fact_id or (text == fact.text and same_time):
        raise InputError("the fact says that already; give another text, valid_from or valid_to")
    about = about_fact(fact, "update")
    return replace(about, made=made, text=text, start_ms=start, end_ms=end, precision=precision)


Pair = tuple[int, int]


def decide_same(
    tx: Tx, one: int, other: int, groups: tuple[Collection[int], Collection[int]], now_ms: int
) -> None:
    """Decide that two entities are one, and so that no decision that two of their names are apart counts any more.

    Args:
        tx: a write transaction.
        one: row of an entity.
        other: row of another one.
        groups: the rows that were one with each of them.
        now_ms: the present.

    Raises:
        NotFoundError: if one of them has gone.
    """
    crossing = {_pair(a, b) for a in groups[0] for b in groups[1] if a != b}
    apart = {
        pair
        for each in corrections.read(tx)
        if not each.same and (pair := _pair(each.entity, each.other)) in crossing
    }
    _decide(tx, "same", {_pair(one, other), *apart}, now_ms)


def decide_apart(tx: Tx, one: int, others: Collection[int], now_ms: int) -> None:
    """Decide that an entity is none of some others. Those that people have decided to be one with it stay one with each other.

    Args:
        tx: a write transaction.
        one: row of the entity.
        others: rows of those that it was one with.
        now_ms: the present.

    Raises:
        NotFoundError: if one of them has gone.
    """
    linked = sorted(
        each.other if each.entity == one else each.entity
        for each in corrections.read(tx)
        if each.same and one in (each.entity, each.other) and {each.entity, each.other} <= {one, *others}
    )
    _decide(tx, "same", {_pair(linked[0], other) for other in linked[1:]}, now_ms)
    _decide(tx, "apart", {_pair(one, other) for other in others}, now_ms)


def _decide(tx: Tx, verdict: Verdict, pairs: Iterable[Pair], now_ms: int) -> None:
    for one, other in sorted(pairs):
        try:
            facts.entity_with_row(tx, one)
            facts.entity_with_row(tx, other)
        except KeyError:
            raise NotFoundError("the entity was deleted just now; entities() lists the others") from None
        corrections.add(tx, verdict, one, other, now_ms)
    meta.bump(tx)


def _pair(one: int, other: int) -> Pair:
    return min(one, other), max(one, other)
