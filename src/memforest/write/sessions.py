"""A session whose turns are stored, as the later steps of its write see it.

`KeyedWrite` recognises a write that comes again with its idempotency key. `InHand` lists the sessions that the writes of
this process are at work on: `resume` leaves those to them, as two would pay twice.

`fill_vectors` embeds what lacks a vector after a crash, a time without an embedder, or `repair`. No transaction is open
meanwhile, so each vector is written only to what still has none and still says what was embedded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from memforest.config import Config
from memforest.errors import IdempotencyError, InputError, SessionConflictError
from memforest.progress import Timer
from memforest.read.results import ChunkReport, IngestResult
from memforest.reading.timestamps import order_of
from memforest.records import UNSPOKEN_ROLES, Chunk, Refused, Turn
from memforest.search.timeline import superseded_facts
from memforest.search.vectors import VectorMaker, digest, index_tokens, turn_text
from memforest.store import corrections, derived, facts, meta, sessions
from memforest.store.connections import Tx
from memforest.store.corrections import Correction
from memforest.store.database import Database
from memforest.store.sessions import ChunkRow, StoredTurn, WriteKey, damaged_turns, insert_turns
from memforest.text import cut
from memforest.times import from_ms
from memforest.write.corrections import EarlierResults
from memforest.write.turns import SessionInput, check_id

CONTEXT_TURNS = 2
"""Turns before a chunk that an extractor may read, for who asked what."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session whose turns are stored, what its write has changed so far, and what is to be extracted, which `load` adds."""

    row: int
    session_id: str
    new_turns: int = 0
    replaced: bool = False
    """It has overwritten another one."""
    unfinished: bool = False
    """An earlier write of this session did not come to its end."""
    reworded: bool = False
    """What was taken back has left facts that are worded otherwise, and without a vector."""
    told: EarlierResults = field(default_factory=lambda: ({}, ()))
    """What earlier results have reported of the chunks that are cut anew."""
    refused: tuple[Refused, ...] = ()
    """Turns that the caller gave and that could not be stored."""
    notes: tuple[str, ...] = ()
    """What the caller should know of the turns, and of how they were read."""
    timer: Timer = field(default_factory=Timer)
    infer: bool = True
    first: int = 0  # the ordinal of the first new turn
    late: int = 0  # new turns that are said before stored ones
    redacted: int = 0  # turns that redaction has changed
    known_turns: int = 0  # turns that were given, and had been stored before
    repeats: WriteKey | None = None
    """The write with the same idempotency key that was done before; this one writes nothing."""
    day_first: bool | None = None
    """How the memory's people write numeric dates; None is not known."""
    speakers: tuple[str, ...] = ()
    """Who speaks in the session, in order of first appearance, without systems and tools."""
    turns: Mapping[int, tuple[int, Turn]] = field(default_factory=dict)
    """Ordinal -> (row id, turn), of all that an extractor reads; empty before `load`, as the next three are."""
    digests: Mapping[int, bytes] = field(default_factory=dict)
    """Ordinal -> digest of each turn that an extractor is shown: no damaged one, and none of systems and tools."""
    chunk_rows: Sequence[ChunkRow] = ()
    """The chunks that are to be extracted, and can be."""
    damaged: Mapping[int, str] = field(default_factory=dict)
    """Ordinal -> name of each damaged turn: no chunk with one of them is read."""
    replies: Mapping[int, str | None] = field(default_factory=dict)
    """Ordinal of a chunk -> what a model has answered about it before."""
    understood: Collection[int] = ()
    """Ordinals of the turns at which a statement was remembered; with ``infer=False`` no other is made of them."""
    remembered: tuple[Correction, ...] = ()
    """The statements that came with the turns, as they are kept."""

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks as an extractor reads them, without the turns of unspoken roles, which may leave none."""
        chunks = []
        for row in self.chunk_rows:
            read = (turn for _, turn in self.span(row.first - CONTEXT_TURNS, row.last))
            spoken = [one for one in read if not (one.role in UNSPOKEN_ROLES or one.ordinal in self.damaged)]
            before = tuple(turn for turn in spoken if turn.ordinal < row.first)
            turns = tuple(spoken[len(before) :])
            known = self.speakers, self.day_first, self.replies.get(row.ordinal)
            chunks.append(Chunk(self.session_id, row.ordinal, turns, before, *known))
        return chunks

    @property
    def open_chunks(self) -> list[ChunkReport]:
        """A report of each open chunk: left, or failed before."""
        ids = {ordinal: turn.id for ordinal, (_, turn) in self.turns.items()}
        return [report_of(chunk, ids) for chunk in self.chunk_rows]

    def span(self, first: int, last: int) -> list[tuple[int, Turn]]:
        """Return the turns from ordinal `first` to `last`, both included, with their row ids; deleted ones are absent."""
        return [self.turns[at] for at in range(first, last + 1) if at in self.turns]


def load(
    tx: Tx, config: Config, stored: StoredSession, wanted: Sequence[ChunkRow] | None = None
) -> StoredSession:
    """Read what is to be extracted of a session, however long it is, as a crash or another writer may have changed it.

    Args:
        tx: a transaction.
        config: for the order of numeric dates.
        stored: the session.
        wanted: the chunks that are to be extracted; the open ones if None.

    Raises:
        SessionConflictError: if another writer has overwritten the session.
    """
    if wanted is None:
        wanted = sessions.chunks(tx, stored.row, only_open=True)
        if not wanted and not sessions.rows_at(tx, stored.row):
            raise overwritten()
    first = min((one.first for one in wanted), default=0) - CONTEXT_TURNS
    last = max((one.last for one in wanted), default=-1)
    said = sessions.turns_of_session(tx, stored.row, first, last)
    damaged = {one.ordinal: one.name for one in said if one.is_damaged}
    shown = [one for one in said if one.role not in UNSPOKEN_ROLES and one.ordinal not in damaged]
    return replace(
        stored,
        day_first=order_of(tx, config),
        speakers=sessions.speakers_of(tx, stored.row),
        turns={one.ordinal: (one.row, one.turn) for one in said},
        digests={one.ordinal: one.digest for one in shown},
        chunk_rows=[one for one in wanted if damaged.keys().isdisjoint(range(one.first, one.last + 1))],
        damaged=damaged,
        understood=corrections.remembered_at(tx, stored.row),
    )


def store_turns(tx: Tx, new: Sequence[StoredTurn]) -> list[int]:
    """Insert turns with their word rows; return their row ids, in order."""
    rows = insert_turns(tx, new)
    words = [
        (row, " ".join(index_tokens(turn.speaker, turn.text, from_ms(turn.said_ms))))
        for row, turn in zip(rows, new, strict=True)
    ]
    derived.add_words(tx, "turn", words)
    return rows


def overwritten() -> SessionConflictError:
    """Return the error of a session that another writer has overwritten since it was read."""
    return SessionConflictError(
        "the session was overwritten by another writer while it was being ingested; ingest it again"
    )


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """The digests of a write's key and of its request."""

    name: str
    key: bytes
    request: bytes

    def find(self, tx: Tx) -> WriteKey | None:
        """Return the earlier write with this key, None if this is the first.

        Raises:
            IdempotencyError: if that one was another request.
        """
        found = sessions.find_key(tx, self.key)
        if found is not None and found.request != self.request:
            raise IdempotencyError(
                f"the idempotency_key {cut(repr(self.name), 60)} was used for another request; give each write "
                "a key of its own"
            )
        return found


def keyed(arrival: SessionInput, *, append: bool) -> KeyedWrite:
    """Return the digests of a write with a key, as its caller gave it.

    The request is what would be stored, so it is taken after redaction.

    Raises:
        InputError: if the key is no usable text.
    """
    name = check_id(arrival.idempotency_key, "idempotency_key")
    given = {
        "append": append,
        "session_id": arrival.session_id,
        "turns": arrival.turns,
        "timestamp": arrival.timestamp,
        "infer": arrival.infer,
        "statements": arrival.statements,
        "replace": arrival.replace,
        "metadata": arrival.metadata,
    }
    text = json.dumps(given, sort_keys=True, default=str)
    key, request = (blake2b(one.encode(), digest_size=16).digest() for one in (name, text))
    return KeyedWrite(name, key, request)


def additions(stored: Sequence[Turn], turns: Sequence[Turn]) -> list[Turn] | None:
    """Return the turns of a session that are not stored yet, wherever they stand; None if one of the stored is missing.

    What was numbered by its place has another number where an earlier turn has come in; so numbers are not compared.
    """
    new: list[Turn] = []
    at = 0
    for turn in turns:
        if at < len(stored) and not _differences(stored[at], turn, numbered=True):
            at += 1
        else:
            new.append(turn)
    return new if at == len(stored) else None


def named_apart(stored: Sequence[Turn], new: Sequence[Turn]) -> list[Turn]:
    """Give those of new turns that were numbered by their place, and whose number is taken, the next that are free.

    Raises:
        InputError: if a name that is no number is another turn's already.
    """
    taken, number = {turn.id for turn in stored}, len(stored)
    named = []
    for turn in new:
        if turn.id in taken and not turn.id.isdecimal():
            raise InputError(
                f"turn {turn.ordinal} has the id {cut(repr(turn.id), 60)} of a turn that is stored"
            )
        if turn.id in taken:
            while str(number) in taken:
                number += 1
            turn = replace(turn, id=str(number))
        taken.add(turn.id)
        named.append(turn)
    return named


def clash_of(stored: Sequence[Turn], turns: Sequence[Turn]) -> str | None:
    """Return how a session conflicts with the stored one; None when it equals or continues it.

    Times that the store stamped itself are not compared: they were not the caller's.
    """
    for old, new in zip(stored, turns, strict=False):
        # Not the text itself: a message may go into logs.
        if others := _differences(old, new):
            return f"turn {old.ordinal} is stored with another {' and another '.join(others)}"
    if len(turns) < len(stored):
        return f"{len(stored)} turns are stored and {len(turns)} came"
    return None


def _differences(old: Turn, new: Turn, *, numbered: bool = False) -> list[str]:
    """Return in what a turn is another one than the stored; `numbered` ids may be others."""
    same = {
        "text": old.text == new.text,
        "speaker": old.speaker == new.speaker,
        "id": old.id == new.id or (numbered and old.id.isdecimal() and new.id.isdecimal()),
        "time": old.said == new.said or "clock" in (old.time_source, new.time_source),
    }
    return [name for name, is_same in same.items() if not is_same]


def with_first_result(tx: Tx, result: IngestResult, write: WriteKey) -> IngestResult:
    """Return a result as that of the first call with its key, as far as what that brought is still there.

    Args:
        tx: a read transaction.
        result: of the repeated call.
        write: the first one.
    """
    added, merged, states = sessions.brought(tx, write)
    ended = superseded_facts(tx, states)
    texts = facts.facts_with_ids(tx, {*added, *merged, *(row for row, _ in ended)})
    chunks = sessions.chunks(tx, write.session, write.first, write.first + write.turns - 1)
    ids = {turn.ordinal: turn.turn_id for turn in sessions.turns_of_session(tx, write.session)}
    return replace(
        result,
        turns_added=write.turns,
        replaced=write.replaced,
        replayed=True,
        added=tuple(texts[row].text for row in added),
        merged=tuple(texts[row].text for row in merged),
        superseded=tuple(texts[row].text for row in sorted({row for row, _ in ended})),
        chunks=tuple(report_of(chunk, ids) for chunk in chunks),
    )


def report_of(chunk: ChunkRow, ids: Mapping[int, str]) -> ChunkReport:
    """Return what is told of a stored chunk, by the ids of its session's turns, ordinal -> id; deleted ones have none."""
    return ChunkReport(
        turn_ids=tuple(ids[at] for at in range(chunk.first, chunk.last + 1) if at in ids),
        status="left" if chunk.status == "pending" else chunk.status,
        skipped=tuple((ids[at], reason) for at, reason in chunk.skipped if at in ids),
        failure=chunk.reason if chunk.status == "failed" else None,
    )


class InHand:
    """The sessions of one memory that are being written, by row id; for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[int, set[int]] = {}
        self._next = 0

    @contextmanager
    def write(self, *rows: int) -> Iterator[int]:
        """Hold sessions inside the block; yield the number of the write, for `hold`."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._writes[number] = set(rows)
        try:
            yield number
        finally:
            with self._lock:
                del self._writes[number]

    def hold(self, number: int, *rows: int) -> None:
        """Say that a write is at work on sessions, until it ends."""
        with self._lock:
            self._writes[number].update(rows)

    def rows(self) -> frozenset[int]:
        """Return the sessions that a write is at work on."""
        with self._lock:
            return frozenset[int]().union(*self._writes.values())


ROUNDS = 4
"""Times that missing vectors are looked for: what another writer has changed meanwhile is made again."""
_KINDS: tuple[derived.ItemKind, ...] = ("turn", "fact")


async def fill_vectors(db: Database, maker: VectorMaker) -> int:
    """Make the missing vectors of turns and facts, and return how many were made.

    Raises:
        ModelError: if the embedder fails, or the memory has been given another one since it was opened.
        StoreError: if the memory cannot be written.
    """
    filled = 0
    for kind in _KINDS:
        for _ in range(ROUNDS):
            missing = await db.reading(_missing, kind)
            if not missing:
                break
            vectors = await maker.make([text for _, text in missing], kind)
            rows = [(item, digest(text), vectors[digest(text)]) for item, text in missing]
            filled += await db.writing(_put, maker, kind, rows)
    return filled


def _missing(tx: Tx, kind: derived.ItemKind) -> list[tuple[int, str]]:
    return to_embed(tx, kind, derived.missing_vectors(tx, kind))


def _put(tx: Tx, maker: VectorMaker, kind: derived.ItemKind, rows: Sequence[derived.VectorRow]) -> int:
    """Write the vectors of those items that still have none and whose text is unchanged; return how many."""
    maker.check_own(tx)
    now = {(item, digest(text)) for item, text in to_embed(tx, kind, derived.missing_vectors(tx, kind))}
    same = [row for row in rows if row[:2] in now]
    if not same:
        return 0
    derived.put_vectors(tx, kind, same)
    meta.bump(tx)
    return len(same)


def to_embed(tx: Tx, kind: derived.ItemKind, rows: Sequence[tuple[int, str, str]]) -> list[tuple[int, str]]:
    """Return (row, text to embed) of items with (row, speaker, text); a damaged turn gets none, as its text was never said."""
    damaged = damaged_turns(tx, [item for item, _, _ in rows]) if kind == "turn" else ()
    return [
        (item, turn_text(speaker, text) if kind == "turn" else text)
        for item, speaker, text in rows
        if item not in damaged
    ]
