"""Turns as they are stored: what a write, a merge and a deletion put there, and how the latter two read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from memforest.store import meta
from memforest.store.dialect import AMONG
from memforest.store.digests import turn_digest
from memforest.store.tx import Tx

MOST = 2**62
"""More than any session has turns."""


class StoredTurn(NamedTuple):
    """A turn with its session; `metadata` is JSON, `origin` the row of the memory that it was merged from."""

    row: int
    session: int
    session_id: str
    ordinal: int
    turn_id: str
    speaker: str
    role: str | None
    text: str
    said_ms: int
    time_source: str
    metadata: str
    stored_ms: int
    origin: int | None = None


_TURN = """SELECT t.id, t.session, s.session_id, t.ordinal, t.turn_id, t.speaker, t.role, t.text, t.said_ms,
    t.time_source, t.metadata, t.stored_ms, t.origin FROM turn t JOIN session s ON s.id = t.session"""


def turns_with_ids(tx: Tx, rows: Collection[int]) -> list[StoredTurn]:
    """Return turns by row id, in the order of their sessions and positions."""
    found = tx.execute(f"{_TURN} WHERE t.id {AMONG} ORDER BY t.session, t.ordinal", (tx.ids(rows),))
    return [StoredTurn(*row) for row in found]


def turns_of_session(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[StoredTurn]:
    """Return the turns of a session with ordinals from `first` to `last`, both included, in order."""
    found = tx.execute(
        f"{_TURN} WHERE t.session = ? AND t.ordinal BETWEEN ? AND ? ORDER BY t.ordinal",
        (session, first, last),
    )
    return [StoredTurn(*row) for row in found]


def turns_behind(tx: Tx, session: int, said_ms: int) -> list[StoredTurn]:
    """Return the turns of a session that stand behind those said at a time, in order."""
    (first,) = tx.execute(
        "SELECT min(ordinal) FROM turn WHERE session = ? AND said_ms > ?", (session, said_ms)
    ).fetchone()
    return [] if first is None else turns_of_session(tx, session, first)


def insert_turns(tx: Tx, new: Sequence[StoredTurn]) -> list[int]:
    """Insert turns, each with its digest, under new row ids, which are returned in order; `row` is ignored."""
    first = meta.take_ids(tx, "turn", len(new))
    tx.executemany(
        """INSERT INTO turn (id, session, ordinal, turn_id, speaker, role, text, said_ms, time_source, metadata, stored_ms,
           origin, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [
            (row, turn.session, *turn[3:], turn_digest(turn[2:11]))  # from the session's id to the metadata
            for row, turn in enumerate(new, first)
        ],
    )
    return list(range(first, first + len(new)))
