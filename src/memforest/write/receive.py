"""Storing the turns of a session, the first step of a write.

Turns are checked, numbered and stored in one transaction, behind which nothing is lost and the turns are already
searchable by their words; nothing is extracted yet.

"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import InputError, SessionConflictError
from memforest.ports import Embedder
from memforest.read.quoting import gone_digests
from memforest.read.views import known_shares, mean_share, unknown_note
from memforest.reading.periods import window_of
from memforest.reading.timestamps import doubtful_dates, keep_order, keep_zone, order_of, zone_of
from memforest.records import Turn
from memforest.search.vectors import index_tokens, keep_embedder
from memforest.store import derived, meta, sessions
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.erase import drop_turn, note_deleted
from memforest.store.sessions import (
    SessionRow,
    StoredTurn,
    WriteKey,
    damaged_turns,
    insert_turns,
    move_keys,
    turns_behind,
    turns_of_session,
)
from memforest.text import cut
from memforest.times import floor_ms, from_ms, to_ms
from memforest.trees.attached import Attached, Placings
from memforest.write.corrections import EarlierResults, retract_chunk, retract_session, take_out, told_by
from memforest.write.erase_corrections import sweep_corrections
from memforest.write.sessions import (
    KeyedWrite,
    KnownTurns,
    StoredSession,
    additions,
    clash_of,
    keyed,
    named_apart,
)
from memforest.write.turns import (
    ReadTurns,
    SessionInput,
    check_id,
    json_object,
    read_addition,
    read_arrival,
    redacted,
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Stores what arrives in one memory. `label` is the display name of its user."""

    db: Database
    config: Config
    label: str
    attached: Attached
    embedder: Embedder | None

    async def receive(self, arrival: SessionInput) -> StoredSession:
        """Check the turns of a session and store them."""
        arrival = await redacted(arrival, self.config)
        write = keyed(arrival, append=False)

        def read(tx: Tx) -> ReadTurns:
            return read_arrival(arrival, self.config, self.label, order_of(tx, self.config))

        return await self._in_thread(arrival, read, write, append=False)

    async def append(self, arrival: SessionInput) -> StoredSession:
        """Append turns to a stored session; numbering and storing are one transaction, as other processes may append too."""
        arrival = await redacted(arrival, self.config)
        write = keyed(arrival, append=True)
        now = floor_ms(self.config.clock())
        if arrival.session_id is None:
            day = await to_thread(self._day, arrival.timestamp or now)
            arrival = replace(arrival, session_id=f"live-{day}{'' if arrival.infer else '-verbatim'}")

        session_id = check_id(arrival.session_id, "session_id")

        def read(tx: Tx) -> ReadTurns:
            found = sessions.find_session(tx, session_id)
            first, floor = (0, None) if found is None else (found.next, from_ms(found.end_ms))
            known = None if found is None else KnownTurns(tx, found)
            reading = read_addition(
                arrival,
                self.config,
                self.label,
                now,
                day_first=order_of(tx, self.config),
                first=first,
                floor=floor,
                is_taken=None if found is None else partial(sessions.has_turn, tx, found.row),
                is_known=known,
            )
            return reading if known is None else replace(reading, notes=(*reading.notes, *known.notes))

        return await self._in_thread(arrival, read, write, append=True)

    async def _in_thread(
        self,
        arrival: SessionInput,
        read: Callable[[Tx], ReadTurns],
        write: KeyedWrite | None,
        *,
        append: bool,
    ) -> StoredSession:
        started = time.perf_counter()
        stored = await to_thread(self._store, arrival, read, write, append)
        stored.timer.add("store", started)
        return stored

    def _store(
        self, arrival: SessionInput, read: Callable[[Tx], ReadTurns], write: KeyedWrite | None, append: bool
    ) -> StoredSession:
        """Read the turns and store them, in one transaction; a write that comes again stores nothing."""
        with self.db.write() as tx:
            before = None if write is None else write.find(tx)
            if before is not None:
                return self._repeated(tx, arrival, before)
            reading, now_ms = read(tx), to_ms(self.config.clock())
            placings = Placings(tx, self.attached)
            late = keep_embedder(tx, self.db.path, self.embedder)
            keep_zone(tx, self.config)
            keep_order(tx, (turn.text for turn in reading.turns))
            doubts = doubtful_dates(reading.turns, order_of(tx, self.config))
            stored = _store_session(
                tx,
                self.config,
                placings,
                check_id(arrival.session_id, "session_id"),
                reading.turns,
                infer=arrival.infer,
                replace=arrival.replace,
                append=append,
                stored_ms=now_ms,
                metadata={} if append else json_object(arrival.metadata, "metadata"),
            )
            if write is not None:
                write.keep(tx, stored.row, stored.first, stored.new_turns, stored.replaced, now_ms)
            placed = placings.close()
            if stored.replaced:
                derived.drop_stale(tx)  # now that the nodes above what went are marked
            written = time.perf_counter()
        stored.timer.add("store.commit", written)
        return replace(
            stored,
            reworded=stored.reworded or late,
            placed=placed,
            problems=tuple(self._unknown(reading)),
            refused=reading.refused,
            redacted=arrival.redacted or 0,
            known_turns=len(reading.turns) + reading.known - stored.new_turns,
            notes=(*reading.notes, *_order_notes(max(reading.late, stored.late)), *doubts),
        )

    def _repeated(self, tx: Tx, arrival: SessionInput, write: WriteKey) -> StoredSession:
        """Return the session of a write that comes again, which may have been interrupted."""
        reading = read_addition(
            arrival,
            self.config,
            self.label,
            floor_ms(self.config.clock()),
            day_first=order_of(tx, self.config),
            first=write.first,
        )
        return StoredSession(
            write.session,
            sessions.session_with_row(tx, write.session).session_id,
            unfinished=write.session in sessions.unfinished(tx),
            refused=reading.refused,
            redacted=arrival.redacted or 0,
            known_turns=len(reading.turns),
            notes=(*reading.notes, *_order_notes(reading.late)),
            repeats=write,
        )

    def _unknown(self, reading: ReadTurns) -> list[str]:
        """Return a warning when the embedder has words for little of a session's turns."""
        if self.embedder is None or not reading.turns:
            return []
        share = mean_share(known_shares(self.embedder, [turn.text for turn in reading.turns]))
        note = unknown_note(share, self.embedder.model_id, "this session")
        return [] if note is None else [note]

    def _day(self, now: datetime) -> str:
        """Return the day of a time in the zone in which the memory's days begin."""
        with self.db.read() as tx:
            return window_of(now, "day", zone_of(tx, self.config)).key


def _store_session(
    tx: Tx,
    config: Config,
    placings: Placings,
    session_id: str,
    turns: Sequence[Turn],
    *,
    infer: bool,
    replace: bool,
    append: bool,
    stored_ms: int,
    metadata: dict[str, object],
) -> StoredSession:
    """Store a session, or the turns that it has grown by.

    Args:
        tx: the open write transaction.
        config: for the chunk size.
        placings: the indexes, which are told what goes.
        session_id: the caller's id.
        turns: the whole session in time order; with `append` only the new turns.
        infer: whether statements will be extracted.
        replace: overwrite a stored session that differs; one of which something was deleted is overwritten in any case.
        append: `turns` are added to what is stored.
        stored_ms: the present, UTC ms.
        metadata: kept with a new session.

    Raises:
        SessionConflictError: if the session is stored with other turns, or with a damaged one, and `replace` is
            false.
    """
    found = sessions.find_session(tx, session_id)
    old: list[StoredTurn] = []
    replaced, reworded, told = False, False, EarlierResults()
    # What is appended may have the last chunk read again, and what stands behind it in time.
    late = bool(append and found is not None and turns and to_ms(turns[0].said) < found.end_ms)
    damage = (
        None
        if found is None
        else _damage(tx, found, found.next - config.chunk_turns if append and not late else 0)
    )
    if damage is not None and append:
        raise SessionConflictError(
            f"session {cut(repr(session_id), 60)}: {damage}; ingest the session again with replace=True, or append to another one"
        )
    if found is not None and not append:
        stored = [turn for _, turn in sessions.turns(tx, found.row)]
        new = additions(stored, turns)
        clash = damage or (clash_of(stored, turns) if new is None else None)
        if clash is None and found.erased and len(turns) > len(stored):
            clash = "something of it was deleted"  # the turns behind that have other numbers now
        if clash is not None:
            if not replace and not (found.erased and damage is None):
                raise SessionConflictError(
                    f"session {cut(repr(session_id), 60)}: {clash}; pass replace=True to overwrite it"
                )
            old = turns_of_session(tx, found.row)
            reworded = retract_session(tx, placings, found.row)
            found, replaced = None, True
        else:
            turns = named_apart(stored, new or [])
    if found is not None and found.infer != infer and turns:
        raise InputError(
            f"session {cut(repr(session_id), 60)} was stored with infer={found.infer}, and a session is read in one way; "
            f"pass infer={found.infer}, or another session_id"
        )
    if found is None:
        row = sessions.add_session(tx, session_id, infer=infer, stored_ms=stored_ms, metadata=metadata)
    else:
        row = found.row
    first = 0
    if turns:
        again, told, first = _store_turns(tx, config, placings, row, turns, found, stored_ms)
        reworded |= again
    if replaced:
        _note_replaced(tx, session_id, old, turns_of_session(tx, row))
    unfinished = found is not None and row in sessions.unfinished(tx)
    behind = 0 if found is None else sum(to_ms(turn.said) < found.end_ms for turn in turns)
    return StoredSession(
        row, session_id, len(turns), replaced, unfinished, reworded, told, first=first, late=behind
    )


def _order_notes(late: int) -> tuple[str, ...]:
    """Return the note on turns that came behind some of a later time; none of none."""
    return (f"{late} turn(s) came out of order; all are stored, in the order of their times",) if late else ()


def _note_replaced(tx: Tx, session_id: str, old: Sequence[StoredTurn], new: Sequence[StoredTurn]) -> None:
    """Let no merge bring back what a session does not say any more, and no correction tell of it."""
    left = {one for turn in new for one in gone_digests(turn, None)}
    note_deleted(tx, {one for turn in old for one in gone_digests(turn, None)} - left)
    sweep_corrections(tx, session_id)


def _damage(tx: Tx, found: SessionRow, first: int) -> str | None:
    """Return a message naming the first damaged turn of a session from ordinal `first` on; None when there is none."""
    damaged = next(iter(damaged_turns(tx, session=found.row, first=first).values()), None)
    return None if damaged is None else f"{damaged.name} is damaged: it is not what was stored"


def _store_turns(
    tx: Tx,
    config: Config,
    placings: Placings,
    session: int,
    turns: Sequence[Turn],
    found: SessionRow | None,
    stored_ms: int,
) -> tuple[bool, EarlierResults, int]:
    """Insert turns, their word rows and pending chunks.

    Ordinals are in time order, always: chunks, leaves and exchanges are stretches of them. So turns that are said before stored
    ones take their places, and those behind are put in again; chunks that hold one of these are cut anew, as a last one that
    was not full is. That costs what reading the session from there on costs, and leaves what ingesting all in time order would.

    Returns:
        Whether a fact is worded otherwise now, what was told of the chunks that are cut anew, and the first new ordinal.
    """
    first, kept = (0, []) if found is None else (found.next, [])
    if found is not None and (said_ms := to_ms(turns[0].said)) < found.end_ms:
        kept = turns_behind(tx, session, said_ms)
        first = kept[0].ordinal
        move_keys(tx, session, first, len(turns))
    chunks = sessions.chunks(tx, session)
    again = [chunk for chunk in chunks if chunk.last >= first]
    if chunks and not again and chunks[-1].last - chunks[-1].first + 1 < config.chunk_turns:
        again = chunks[-1:]
    told = told_by(tx, [chunk.row for chunk in again])
    reworded = [retract_chunk(tx, placings, chunk.row) for chunk in again]
    take_out(tx, placings, [turn.row for turn in kept])
    for turn in kept:
        drop_turn(tx, turn.row)
    said = [turn.said_ms for turn in kept] + [to_ms(turn.said) for turn in turns]
    order = sorted(range(len(said)), key=said.__getitem__)  # of one time, those that were there first
    at = dict(zip(order, range(first, first + len(said)), strict=True))
    rows = insert_turns(tx, [turn._replace(ordinal=at[n]) for n, turn in enumerate(kept)])
    rows += sessions.add_turns(
        tx, session, [replace(turn, ordinal=at[n]) for n, turn in enumerate(turns, len(kept))], stored_ms
    )
    texts = [(one.speaker, one.text) for one in kept] + [(one.speaker, one.text) for one in turns]
    for row, (speaker, text), ms in zip(rows, texts, said, strict=True):
        derived.put_words(tx, "turn", row, index_tokens(speaker, text, from_ms(ms)))
    begin = min(first, *(chunk.first for chunk in again)) if again else first
    ordinal = max((chunk.ordinal for chunk in chunks if chunk not in again), default=-1) + 1
    last = first + len(said) - 1
    spans = [
        (ordinal + i, start, min(start + config.chunk_turns - 1, last))
        for i, start in enumerate(range(begin, last + 1, config.chunk_turns))
    ]
    sessions.add_chunks(tx, session, spans)
    sessions.set_status(tx, session, "received")
    meta.bump(tx)
    return any(reworded), told, first
