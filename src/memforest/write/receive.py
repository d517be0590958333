"""Storing the turns of a session, the first step of a write.

Turns are checked, numbered and stored in one transaction. From then on nothing is lost and the turns can be searched by
their words; nothing is extracted yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import InputError, SessionConflictError
from memforest.ports import Embedder
from memforest.read.quoting import gone_digests
from memforest.read.views import known_shares, unknown_note
from memforest.reading.periods import window_of
from memforest.reading.timestamps import keep_zone, learn_order, order_of, zone_of
from memforest.records import Turn
from memforest.search.vectors import keep_embedder
from memforest.store import meta, sessions
from memforest.store.connections import Tx
from memforest.store.corrections import Correction
from memforest.store.database import Database
from memforest.store.erase import drop_turns, note_deleted
from memforest.store.sessions import (
    SessionRow,
    StoredTurn,
    WriteKey,
    move_keys,
    turns_behind,
    turns_of_session,
)
from memforest.text import cut
from memforest.times import floor_ms, to_ms
from memforest.write.corrections import EarlierResults, retract_chunk, retract_session, take_out, told_by
from memforest.write.erase_corrections import content_words, sweep_corrections
from memforest.write.remember import remember
from memforest.write.sessions import (
    KeyedWrite,
    StoredSession,
    additions,
    clash_of,
    keyed,
    load,
    named_apart,
    store_turns,
)
from memforest.write.turns import SessionInput, check_id, read_turns, redacted

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
        config = self.config
        with self.db.write() as tx:
            if write is not None and (before := write.find(tx)) is not None:
                return self._repeated(tx, arrival, before)
            if now is not None and arrival.session_id is None:
                day = window_of(arrival.timestamp or now, "day", zone_of(tx, config)).key
                arrival = replace(arrival, session_id=f"live-{day}{'' if arrival.infer else '-verbatim'}")
            found = sessions.find_session(tx, check_id(arrival.session_id, "session_id"))
            session = None if now is None else found
            order = order_of(tx, config)
            reading = read_turns(arrival, config, self.label, now, day_first=order, tx=tx, session=session)
            now_ms = to_ms(config.clock())
            late = keep_embedder(tx, self.db.path, self.embedder)
            keep_zone(tx, config)
            doubts = learn_order(tx, config, reading.turns)
            remembered = tuple(self._remember(tx, arrival, reading.turns))
            stored = self._store_session(tx, arrival, found, reading.turns, now_ms, append=now is not None)
            if stored.new_turns or stored.unfinished:
                stored = load(tx, config, stored)
            if write is not None:
                brought = stored.row, stored.first, stored.new_turns, stored.replaced, now_ms
                sessions.add_key(tx, write.key, WriteKey(write.request, *brought))
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
            remembered=remembered,
            refused=reading.refused,
            redacted=arrival.redacted or 0,
            known_turns=len(reading.turns) + reading.known - stored.new_turns,
            notes=(*notes, *([OUT_OF_ORDER.format(behind)] if behind else ()), *doubts),
        )

    def _remember(self, tx: Tx, arrival: SessionInput, new: Sequence[Turn]) -> Iterator[Correction]:
        """Keep the statements that come with new turns, which are yet to be stored; where none is new, they came before.

        Raises:
            InputError: if a statement is of a message that there is not.
        """
        turns = {one.id: StoredTurn.of(one, 0, arrival.session_id or "", 0) for one in new}
        for one in arrival.statements if new else ():
            turn = turns.get(one.source or new[-1].id)
            if turn is None:
                raise InputError(
                    f"a statement has the source {cut(repr(one.source), 60)}, which is not the id of a message"
                )
            yield remember(tx, self.config, one, turn)

    def _repeated(self, tx: Tx, arrival: SessionInput, write: WriteKey) -> StoredSession:
        """Return the session of a write that comes again; the first one may have been interrupted."""
        now, order = floor_ms(self.config.clock()), order_of(tx, self.config)
        reading = read_turns(arrival, self.config, self.label, now, day_first=order, first=write.first)
        session = sessions.session_with_row(tx, write.session)
        stored = StoredSession(
            write.session,
            session.session_id,
            infer=session.infer,
            unfinished=write.session in sessions.unfinished(tx),
            refused=reading.refused,
            redacted=arrival.redacted or 0,
            known_turns=len(reading.turns),
            notes=(*reading.notes, *([OUT_OF_ORDER.format(reading.late)] if reading.late else ())),
            repeats=write,
        )
        return load(tx, self.config, stored) if stored.unfinished else stored

    def _store_session(
        self,
        tx: Tx,
        arrival: SessionInput,
        found: SessionRow | None,
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
            found: the stored session with its id.
            turns: all turns in time order; with `append` only the new ones.
            now_ms: the present, UTC ms.
            append: `turns` are added to what is stored.

        Raises:
            SessionConflictError: if the session is stored with other turns, or with a damaged one, and it is not to be
                replaced.
        """
        session_id = arrival.session_id or ""
        called = f"session {cut(repr(session_id), 60)}"
        there: Sequence[StoredTurn] = ()
        replaced, reworded = False, False
        damage = None
        if found is not None:
            # An append may have the last chunk read again, and the chunks behind its first turn in time.
            late = bool(append and turns and to_ms(turns[0].said) < found.end_ms)
            since = found.next - self.config.chunk_turns if append and not late else 0
            there = turns_of_session(tx, found.row, since)
            damaged = next((turn.name for turn in there if turn.is_damaged), None)
            damage = None if damaged is None else f"{damaged} is damaged: it is not what was stored"
        if damage is not None and append:
            raise SessionConflictError(
                f"{called}: {damage}; ingest the session again with replace=True, or append to another one"
            )
        if found is not None and not append:
            stored = [turn.turn for turn in there]
            new = additions(stored, turns)
            clash = damage or (clash_of(stored, turns) if new is None else None)
            if clash is None and found.erased and len(turns) > len(stored):
                clash = "something of it was deleted"  # the turns behind that have other numbers now
            if clash is not None and not arrival.replace and not (found.erased and damage is None):
                raise SessionConflictError(f"{called}: {clash}; pass replace=True to overwrite it")
            if clash is not None:
                reworded = retract_session(tx, found.row)
                found, replaced = None, True
            else:
                turns = named_apart(stored, new or [])
        if found is not None and found.infer != arrival.infer and turns:
            raise InputError(
                f"{called} was stored with infer={found.infer}, which holds for the whole session; "
                f"pass infer={found.infer}, or another session_id"
            )
        row, infer = 0 if found is None else found.row, arrival.infer if found is None else found.infer
        if found is None:
            metadata = {} if append else dict(arrival.metadata or {})
            row = sessions.add_session(tx, session_id, infer=infer, stored_ms=now_ms, metadata=metadata)
        new_turns = [StoredTurn.of(turn, row, session_id, now_ms) for turn in turns]
        again, told, first = (
            _store_turns(tx, self.config.chunk_turns, new_turns, found) if turns else (False, ({}, ()), 0)
        )
        if replaced:  # no merge may bring back what was overwritten, and no correction keep it
            left = {one for turn in turns_of_session(tx, row) for one in gone_digests(turn, None)}
            note_deleted(tx, {one for turn in there for one in gone_digests(turn, None)} - left)
            said = (content_words(turn.speaker, turn.text) for turn in there)
            sweep_corrections(tx, session_id, frozenset[str]().union(*said))
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
            infer=infer,
            first=first,
            late=behind,
        )


def _store_turns(
    tx: Tx, chunk_turns: int, new: Sequence[StoredTurn], found: SessionRow | None
) -> tuple[bool, EarlierResults, int]:
    """Insert the turns that a session begins with or has grown by, with their word rows and pending chunks.

    Ordinals are always in time order, because chunks, leaves and exchanges are stretches of them. So turns that were said
    before stored ones take their places, and the turns behind are inserted again. Their chunks are cut anew, as is a last
    chunk that was not full. That costs what reading the session from there on costs, and the result is the same as
    ingesting all turns in time order.

    Returns:
        Whether a fact is worded otherwise now, the earlier results of the chunks that are cut anew, and the first new
        ordinal.
    """
    session, first = new[0].session, 0 if found is None else found.next
    kept: list[StoredTurn] = []
    if found is not None and new[0].said_ms < found.end_ms:
        kept = turns_behind(tx, session, new[0].said_ms)
        first = kept[0].ordinal
        move_keys(tx, session, first, len(new))
    chunks = [] if found is None else sessions.chunks(tx, session, first - 1)
    again = [chunk for chunk in chunks if chunk.last >= first]
    again = again or [chunk for chunk in chunks if chunk.last - chunk.first + 1 < chunk_turns]
    told = told_by(tx, [chunk.row for chunk in again]) if again else ({}, ())
    reworded = [retract_chunk(tx, chunk.row) for chunk in again]
    if kept:
        take_out(tx, [turn.row for turn in kept])
        drop_turns(tx, [turn.row for turn in kept])
    turns = sorted([*kept, *new], key=attrgetter("said_ms"))  # of one time, those that were there first
    store_turns(tx, [turn._replace(ordinal=at) for at, turn in enumerate(turns, first)])
    begin = min([first, *(chunk.first for chunk in again)])
    ordinal = again[0].ordinal if again else max((chunk.ordinal + 1 for chunk in chunks), default=0)
    last = first + len(turns) - 1
    spans = [
        (ordinal + i, start, min(start + chunk_turns - 1, last))
        for i, start in enumerate(range(begin, last + 1, chunk_turns))
    ]
    sessions.add_chunks(tx, session, spans)
    meta.bump(tx)
    return any(reworded), told, first
