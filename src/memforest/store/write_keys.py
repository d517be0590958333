"""The keys that writes were given, so that a write that comes again is known: digests, and which turns it stored.

A key hangs on its session, and goes with it. Nothing of what was said is kept with it: what a write has brought is read
from the rows that it made, as far as they are still there.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx


class WriteKey(NamedTuple):
    """A write with a key.

    `request` is a digest of what was to be written, `session` the row of its session. Its turns begin at ordinal `first`;
    `replaced` says whether it has overwritten another session.
    """

    request: bytes
    session: int
    first: int
    turns: int
    replaced: bool
    stored_ms: int


def add_key(tx: Tx, key: bytes, write: WriteKey) -> None:
    """Keep the key of a write, by its digest, in the transaction that stores its turns."""
    result = {"first": write.first, "turns": write.turns, "replaced": write.replaced}
    tx.execute(
        "INSERT INTO write_key (key, request, session, result, stored_ms) VALUES (?, ?, ?, ?, ?)",
        (key, write.request, write.session, json.dumps(result), write.stored_ms),
    )


def move_keys(tx: Tx, session: int, first: int, by: int) -> None:
    """Let the writes of a session's turns from the ordinal `first` on be of those that stand further behind now."""
    held = [
        (json.loads(result), key)
        for key, result in tx.execute("SELECT key, result FROM write_key WHERE session = ?", (session,))
    ]
    tx.executemany(
        "UPDATE write_key SET result = ? WHERE key = ?",
        [
            (json.dumps({**result, "first": result["first"] + by}), key)
            for result, key in held
            if result["first"] >= first
        ],
    )


def find_key(tx: Tx, key: bytes) -> WriteKey | None:
    """Return the write that had a key, by the key's digest; None if there was none, or its session is gone."""
    found = tx.execute(
        "SELECT request, session, result, stored_ms FROM write_key WHERE key = ?", (key,)
    ).fetchone()
    if found is None:
        return None
    result = json.loads(found[2])
    return WriteKey(found[0], found[1], result["first"], result["turns"], bool(result["replaced"]), found[3])


class Brought(NamedTuple):
    """The facts that a write has added, those that it has merged with what it said, and its observations of states; by row id."""

    added: list[int]
    merged: list[int]
    states: list[int]


def brought(tx: Tx, write: WriteKey) -> Brought:
    """Return what the turns of a write have brought, as far as it is still there.

    What an earlier write had told of a chunk that was read again with these turns is not among it.
    """
    found = tx.execute(
        """SELECT DISTINCT o.id, o.fact, o.stored_ms IS NULL FROM turn t JOIN occurrence_turn x ON x.turn = t.id
           JOIN occurrence o ON o.id = x.occurrence JOIN fact f ON f.id = o.fact
           WHERE t.session = ? AND t.ordinal >= ? AND t.ordinal < ? AND coalesce(o.stored_ms, f.stored_ms) >= ?
           ORDER BY o.fact, o.id""",
        (write.session, write.first, write.first + write.turns, write.stored_ms),
    ).fetchall()
    added = dict.fromkeys(fact for _, fact, new in found if new)
    merged = dict.fromkeys(fact for _, fact, new in found if not new and fact not in added)
    states = tx.execute(
        f"SELECT id FROM state WHERE occurrence {AMONG} ORDER BY id", (tx.ids([row for row, *_ in found]),)
    )
    return Brought([*added], [*merged], [row for (row,) in states])


def cells_of(tx: Tx, write: WriteKey) -> list[int]:
    """Return the chunks that hold turns of a write, by ordinal."""
    found = tx.execute(
        "SELECT ordinal FROM cell WHERE session = ? AND last >= ? AND first < ? ORDER BY ordinal",
        (write.session, write.first, write.first + write.turns),
    )
    return [ordinal for (ordinal,) in found]
