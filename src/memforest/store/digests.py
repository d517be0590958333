"""The digest that every turn carries from its first write on, by which damage to its text is found.

SQLite keeps no checksums, so a flipped bit in a stored text reads like any other text. A digest is written with
its turn and never again: nothing but a new ingest of the session replaces either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx
from memforest.text import cut

AGAIN = "restore a backup, or ingest the session again with replace=True"
"""What to do about a damaged turn."""

Value = str | bytes | int | None

_READ = """SELECT t.id, t.session, t.digest, CAST(s.session_id AS BLOB), t.ordinal, CAST(t.turn_id AS BLOB),
    CAST(t.speaker AS BLOB), CAST(t.role AS BLOB), CAST(t.text AS BLOB), t.said_ms, CAST(t.time_source AS BLOB),
    CAST(t.metadata AS BLOB) FROM turn t JOIN session s ON s.id = t.session"""
"""Texts as bytes: damaged ones may be no UTF-8."""


class DamagedTurn(NamedTuple):
    """A turn that is not what was stored; `name` is for messages."""

    row: int
    session: int
    ordinal: int
    name: str


def turn_digest(values: Iterable[Value]) -> bytes:
    """Return the 16-byte BLAKE2b of a turn's values, each behind its length, so that no two turns read alike.

    Args:
        values: session id, ordinal, turn id, speaker, role, text, said_ms, time_source and metadata as stored;
            texts as str or as their UTF-8 bytes.
    """
    whole = blake2b(digest_size=16)
    for value in values:
        raw = _bytes(value)
        whole.update(b"-" if raw is None else b"%d:%b" % (len(raw), raw))
    return whole.digest()


def _bytes(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def damaged_turns(
    tx: Tx, turns: Collection[int] | None = None, *, session: int | None = None, first: int = 0
) -> dict[int, DamagedTurn]:
    """Return, by row, the turns that differ from their digest.

    Args:
        tx: an open transaction.
        turns: look at these rows only; None for all.
        session: look at the turns of this session only, from the one numbered `first` on.
        first: see `session`.
    """
    if session is not None:
        found = tx.execute(f"{_READ} WHERE t.session = ? AND t.ordinal >= ?", (session, first))
    elif turns is not None:
        wanted = tx.ids(turns)
        found = tx.execute(f"{_READ} WHERE t.id {AMONG}", (wanted,))
    else:
        found = tx.execute(f"{_READ} ORDER BY t.session, t.ordinal")
    return {one.row: one for one in _differing(found)}


def fill_digests(tx: Tx) -> None:
    """Give every turn the digest of what it is now; for a migration alone, as it would bless any damage."""
    tx.executemany(
        "UPDATE turn SET digest = ? WHERE id = ?",
        [(turn_digest(values), row) for row, _, _, *values in tx.execute(f"{_READ} ORDER BY t.id")],
    )


def _differing(found: Iterable[tuple[Any, ...]]) -> Iterator[DamagedTurn]:
    for row, session, stored, *values in found:
        if turn_digest(values) != stored:
            session_id, ordinal, turn_id = (_shown(value) for value in values[:3])
            yield DamagedTurn(
                row, session, values[1], f"turn {turn_id} (number {ordinal}) of session {session_id}"
            )


def _shown(value: Value) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return cut(repr(text), 60)
