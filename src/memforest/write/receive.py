"""Storing the turns of a session, the first step of a write.

Turns are checked, numbered and stored in one transaction. From then on nothing is lost and the turns can be searched by
their words; nothing is extracted yet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import InputError, SessionConflictError
from memforest.ports import Embedder
from memforest.read.quoting import gone_digests
from memforest.read.views import known_shares, unknown_note
from memforest.reading.periods import window_of
from memforest.reading.timestamps import keep_zone, learn_order, order_of, zone_of
from memforest.records import Turn
from memforest.search.vectors import index_tokens, keep_embedder
from memforest.store import derived, meta, sessions
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.erase import drop_turns, note_deleted
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
from memforest.write.corrections import EarlierResults, retract_chunk, retract_session, take_out, told_by
from memforest.write.erase_corrections import sweep_corrections
from memforest.write.sessions import KeyedWrite, StoredSession, additions, clash_of, keyed, named_apart
from memforest.write.turns import SessionInput, check_id, json_object, read_addition, read_arrival, redacted

OUT_OF_ORDER = "{} turn(s) came out of order; all are stored, in the order of their times"
"""The note on turns that came behind some of a later time."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Stores what arrives in one memory. `label` is the display name of its user."""

    db: Database
    config: Config
    label: str
    embedder: Embedder | None

    async def receive(self, arrival: SessionInput, *, append: bool = False) -> StoredSession:
        """Check the turns of a session and store them; with `append` they are added to a stored session.

        Turns that are appended without a session id go to the live session of their day.
        """
        arrival = await redacted(arrival, self.config)
        write = None if arrival.idempotency_key is None else keyed(arrival, append=append)
        now = floor_ms(self.config.clock()) if append else None
        if append and arrival.session_id is not None:
            check_id(arrival.session_id, "session_id")
        started = time.perf_counter()
        stored = await to_thread(self._store, arrival, write, now)
        stored.timer.add("store", started)
        return stored

    def _store(self, arrival: SessionInput, write: KeyedWrite | None, now: datetime | None) -> StoredSession:
        """Read the turns and store them; a write that comes again stores nothing.

        Numbering and storing are one transaction, as other processes may append too. `now` stamps appended turns.
        """
        config, append = self.config, now is not None
        with self.db.write() as tx:
            before = None if write is None else write.find(tx)
            if before is not None:
                return self._repeated(tx, arrival, before)
            order = order_of(tx, config)
            if now is None:
                reading = read_arrival(arrival, config, self.label, order)
            else:
                if arrival.session_id is None:
                    day = window_of(arrival.timestamp or now, "day", zone_of(tx, config)).key
                    arrival = replace(arrival, session_id=f"live-{day}{'' if arrival.infer else '-verbatim'}")
                session = sessions.find_session(tx, check_id(arrival.session_id, "session_id"))
                reading = read_addition(
                    arrival,
                    config,
                    self.label,
                    now,
                    day_first=order,
                    first=0 if session is None else session.next,
                    floor=None if session is None else from_ms(session.end_ms),
                    tx=tx,
                    session=session,
                )
            now_ms = to_ms(config.clock())
            late = keep_embedder(tx, self.db.path, self.embedder)
            keep_zone(tx, config)
            doubts = learn_order(tx, config, reading.turns)
            stored = self._store_session(tx, arrival, reading.turns, now_ms, append=append)
            if write is not None:
                write.keep(tx, stored.row, stored.first, stored.new_turns, stored.replaced, now_ms)
            written = time.perf_counter()
        stored.timer.add("store.commit", written)
        notes = [*reading.notes]
        if self.embedder is not None and reading.turns:
            shares = known_shares(self.embedder, [turn.text for turn in reading.turns])
            if note := unknown_note(sum(shares) / len(shares), self.embedder.model_id, "this session"):
                notes.insert(0, note)
        behind = max(reading.late, stored.late)
        return replace(
            stored,
            reworded=stored.reworded or late,
            refused=reading.refused,
            redacted=arrival.redacted or 0,
            known_turns=len(reading.turns) + reading.known - stored.new_turns,
            notes=(*notes, *([OUT_OF_ORDER.format(behind)] if behind else ()), *doubts),
        )

    def _repeated(self, tx: Tx, arrival: SessionInput, write: WriteKey) -> StoredSession:
        """Return the session of a write that comes again; the first one may have been interrupted."""
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
            notes=(*reading.notes, *([OUT_OF_ORDER.format(reading.late)] if reading.late else ())),
            repeats=write,
        )

    def _store_session(
        self,
        tx: Tx,
        arrival: SessionInput,
        turns: Sequence[Turn],
        now_ms: int,
        *,
        append: bool,
    ) -> StoredSession:
        """Store a session, or the turns that it has grown by.

        A stored session that differs is overwritten if `arrival.replace` is set, or if something of it was deleted.

        Args:
            tx: the open write transaction.
            arrival: the session as its caller gave it.
            turns: all turns in time order; with `append` only the new ones.
            now_ms: the present, UTC ms.
            append: `turns` are added to what is stored.

        Raises:
            SessionConflictError: if the session is stored with other turns, or with a damaged one, and it is not to be
                replaced.
        """
        config, session_id = self.config, check_id(arrival.session_id, "session_id")
        called = f"session {cut(repr(session_id), 60)}"
        found = sessions.find_session(tx, session_id)
        old: list[StoredTurn] = []
        replaced, reworded = False, False
        damage = None
        if found is not None:
            # An append may have the last chunk read again, and the chunks behind its first turn in time.
            late = bool(append and turns and to_ms(turns[0].said) < found.end_ms)
            since = found.next - config.chunk_turns if append and not late else 0
            damaged = [turn.name for turn in damaged_turns(tx, session=found.row, first=since).values()]
            damage = f"{damaged[0]} is damaged: it is not what was stored" if damaged else None
        if damage is not None and append:
            raise SessionConflictError(
                f"{called}: {damage}; ingest the session again with replace=True, or append to another one"
            )
        if found is not None and not append:
            stored = [turn for _, turn in sessions.turns(tx, found.row)]
            new = additions(stored, turns)
            clash = damage or (clash_of(stored, turns) if new is None else None)
            if clash is None and found.erased and len(turns) > len(stored):
                clash = "something of it was deleted"  # the turns behind that have other numbers now
            if clash is not None and not arrival.replace and not (found.erased and damage is None):
                raise SessionConflictError(f"{called}: {clash}; pass replace=True to overwrite it")
            if clash is not None:
                old = turns_of_session(tx, found.row)
                reworded = retract_session(tx, found.row)
                found, replaced = None, True
            else:
                turns = named_apart(stored, new or [])
        if found is not None and found.infer != arrival.infer and turns:
            raise InputError(
                f"{called} was stored with infer={found.infer}, and a session is read in one way; "
                f"pass infer={found.infer}, or another session_id"
            )
        metadata = {} if append else json_object(arrival.metadata, "metadata")
        row = (
            sessions.add_session(tx, session_id, infer=arrival.infer, stored_ms=now_ms, metadata=metadata)
            if found is None
            else found.row
        )
        again, told, first = (
            _store_turns(tx, config, row, turns, found, now_ms) if turns else (False, ({}, ()), 0)
        )
        if replaced:  # no merge may bring back what was overwritten, and no correction keep it
            left = {one for turn in turns_of_session(tx, row) for one in gone_digests(turn, None)}
            note_deleted(tx, {one for turn in old for one in gone_digests(turn, None)} - left)
            sweep_corrections(tx, session_id)
        unfinished = found is not None and not turns and row in sessions.unfinished(tx)
        behind = 0 if found is None else sum(to_ms(turn.said) < found.end_ms for turn in turns)
        return StoredSession(
            row,
            session_id,
            len(turns),
            replaced,
            unfinished,
            reworded or again,
            told,
            first=first,
            late=behind,
        )


def _store_turns(
    tx: Tx,
    config: Config,
    session: int,
    turns: Sequence[Turn],
    found: SessionRow | None,
    stored_ms: int,
) -> tuple[bool, EarlierResults, int]:
    """Insert turns, their word rows and pending chunks.

    Ordinals are always in time order, because chunks, leaves and exchanges are stretches of them. So turns that were said
    before stored ones take their places, and the turns behind are inserted again. Their chunks are cut anew, as is a last
    chunk that was not full. That costs what reading the session from there on costs, and the result is the same as
    ingesting all turns in time order.

    Returns:
        Whether a fact is worded otherwise now, the earlier results of the chunks that are cut anew, and the first new
        ordinal.
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
    told = told_by(tx, [chunk.row for chunk in again]) if again else ({}, ())
    reworded = [retract_chunk(tx, chunk.row) for chunk in again]
    if kept:
        take_out(tx, [turn.row for turn in kept])
        drop_turns(tx, [turn.row for turn in kept])
    said = [turn.said_ms for turn in kept] + [to_ms(turn.said) for turn in turns]
    order = sorted(range(len(said)), key=said.__getitem__)  # of one time, those that were there first
    at = dict(zip(order, range(first, first + len(said)), strict=True))
    rows = insert_turns(tx, [turn._replace(ordinal=at[n]) for n, turn in enumerate(kept)])
    rows += sessions.add_turns(
        tx, session, [replace(turn, ordinal=at[n]) for n, turn in enumerate(turns, len(kept))], stored_ms
    )
    texts = [(one.speaker, one.text) for one in kept] + [(one.speaker, one.text) for one in turns]
    words = [
        (row, " ".join(index_tokens(speaker, text, from_ms(ms))))
        for row, (speaker, text), ms in zip(rows, texts, said, strict=True)
    ]
    derived.add_words(tx, "turn", words)
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
