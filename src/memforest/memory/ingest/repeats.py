"""What comes again: writes with an idempotency key, which get the first one's result, and turns that are stored already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from memforest.errors import IdempotencyError, InputError
from memforest.memory.chunks import ChunkReport
from memforest.memory.ingest.turns import Arrival, check_id
from memforest.memory.results import IngestResult
from memforest.store import facts as fact_rows
from memforest.store import sessions, write_keys
from memforest.store.sessions import SessionRow
from memforest.store.tx import Tx
from memforest.store.write_keys import WriteKey
from memforest.systems.states import superseded_facts
from memforest.text import cut
from memforest.types import Turn


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
        found = write_keys.find_key(tx, self.key)
        if found is not None and found.request != self.request:
            raise IdempotencyError(
                f"the idempotency_key {cut(repr(self.name), 60)} was given with another request before; give each write "
                "a key of its own"
            )
        return found

    def keep(self, tx: Tx, session: int, first: int, new: int, replaced: bool, stored_ms: int) -> None:
        """Keep the key with what is stored in this transaction: `new` turns of a session, from the ordinal `first` on."""
        write_keys.add_key(tx, self.key, WriteKey(self.request, session, first, new, replaced, stored_ms))


def keyed(arrival: Arrival, *, append: bool) -> KeyedWrite | None:
    """Return the digests of a write as its caller gave it, None for one without a key.

    The request is what would be stored, so it is taken after redaction.

    Raises:
        InputError: if the key is no usable text.
    """
    if arrival.idempotency_key is None:
        return None
    name = check_id(arrival.idempotency_key, "idempotency_key")
    given = {
        "append": append,
        "session_id": arrival.session_id,
        "turns": arrival.turns,
        "timestamp": arrival.timestamp,
        "infer": arrival.infer,
        "replace": arrival.replace,
        "metadata": arrival.metadata,
    }
    text = json.dumps(given, sort_keys=True, default=str)
    return KeyedWrite(name, _digest(name), _digest(text))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


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


class KnownTurns:
    """Says which messages that are added to a session are in it already, by their own ids and what they say.

    When they were said is not compared: a message that is sent again may be stamped anew. `notes` tells of those that
    state another time themselves.

    Args:
        tx: the open write transaction.
        session: which they are added to.
    """

    def __init__(self, tx: Tx, session: SessionRow) -> None:
        self._tx = tx
        self._session = session
        self.notes: list[str] = []

    def __call__(self, turn: Turn) -> bool:
        """Return whether a turn is stored.

        Raises:
            InputError: if another one with its id is.
        """
        stored = sessions.turn_with_id(self._tx, self._session.row, turn.id)
        if stored is None:
            return False
        called = f"session {cut(repr(self._session.session_id), 60)} has a message with the id {cut(repr(turn.id), 60)} already"
        if (stored.speaker, stored.text) != (turn.speaker, turn.text):
            raise InputError(
                f"{called}, of other content or by another speaker; leave the id out or change it"
            )
        if stored.said != turn.said and {stored.time_source, turn.time_source} <= {"given", "naive"}:
            self.notes.append(f"{called}, said at another time; it stays as it is")
        return True


def with_first_result(tx: Tx, result: IngestResult, write: WriteKey) -> IngestResult:
    """Return a result as that of the first call with its key, as far as what that brought is still there.

    Args:
        tx: a read transaction.
        result: of the repeated call.
        write: the first one.
    """
    found = write_keys.brought(tx, write)
    ended = superseded_facts(tx, found.states)
    texts = fact_rows.facts_with_ids(tx, {*found.added, *found.merged, *(row for row, _ in ended)})
    return replace(
        result,
        turns_added=write.turns,
        replaced=write.replaced,
        replayed=True,
        added=tuple(texts[row].text for row in found.added),
        merged=tuple(texts[row].text for row in found.merged),
        superseded=tuple(texts[row].text for row in sorted({row for row, _ in ended})),
        chunks=_chunks(tx, write),
    )


def _chunks(tx: Tx, write: WriteKey) -> tuple[ChunkReport, ...]:
    """Return what became of the chunks that hold turns of a write."""
    wanted = set(write_keys.cells_of(tx, write))
    ids = {turn.ordinal: turn.id for _, turn in sessions.turns(tx, write.session)}
    return tuple(
        ChunkReport(
            turn_ids=tuple(ids[at] for at in range(cell.first, cell.last + 1) if at in ids),
            status="left" if cell.status == "pending" else cell.status,
            skipped=tuple((ids[at], reason) for at, reason in cell.skipped if at in ids),
            failure=cell.reason if cell.status == "failed" else None,
        )
        for cell in sessions.cells(tx, write.session)
        if cell.ordinal in wanted
    )
