"""Whose memory turns came from, and what people have decided of statements: what a merge carries over beside what was said."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

__all__ = [
    "Correction",
    "Origin",
    "corrections",
    "corrections_with_keys",
    "live_verdicts",
    "origins",
    "put_correction",
    "put_origin",
    "session_origins",
    "set_verdicts",
]


class Origin(NamedTuple):
    """Whose memory turns came from: its id and its user; `label` and `names` are who they are here."""

    memory: str
    user_id: str
    label: str
    names: Mapping[str, str]


class Correction(NamedTuple):
    """A correction with all of its columns; `places` are (session id, turn id, digest of the quote)."""

    row: int
    key: str
    kind: str
    fact_id: str
    made: str | None
    text: str | None
    start_ms: int | None
    end_ms: int | None
    precision: str
    made_ms: int
    undone_ms: int | None
    places: tuple[tuple[str, str, bytes], ...] = ()


# -- origins --------------------------------------------------------------------------------------


def origins(tx: Tx) -> dict[int, Origin]:
    """Return the origins of a memory's turns by row id."""
    rows = tx.execute("SELECT id, memory, user_id, label, names FROM origin ORDER BY id")
    return {row[0]: Origin(row[1], row[2], row[3], json.loads(row[4])) for row in rows}


def put_origin(tx: Tx, origin: Origin, merged_ms: int) -> int:
    """Return the row id of an origin, which is inserted if it is not stored."""
    tx.execute(
        """INSERT INTO origin (memory, user_id, merged_ms, label, names) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (memory, user_id) DO NOTHING""",
        (origin.memory, origin.user_id, merged_ms, origin.label, _object(origin.names)),
    )
    found = tx.execute(
        "SELECT id FROM origin WHERE memory = ? AND user_id = ?", (origin.memory, origin.user_id)
    )
    return int(found.fetchone()[0])


def _object(names: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(names.items())), ensure_ascii=False)


def session_origins(tx: Tx) -> dict[int, str]:
    """Return session -> the user whose memory it was merged from, of sessions whose first turn was."""
    rows = tx.execute(
        """SELECT t.session, o.user_id FROM turn t JOIN origin o ON o.id = t.origin WHERE t.ordinal =
           (SELECT min(f.ordinal) FROM turn f WHERE f.session = t.session)"""
    )
    return dict(rows.fetchall())


# -- corrections ----------------------------------------------------------------------------------

_CORRECTION = "id, key, kind, fact_id, made, text, start_ms, end_ms, precision, made_ms, undone_ms"


def corrections(tx: Tx) -> list[Correction]:
    """Return all corrections, with their places, in the order in which they were made."""
    places: dict[int, list[tuple[str, str, bytes]]] = defaultdict(list)
    for row, *place in tx.execute(
        "SELECT correction, session_id, turn_id, quote FROM correction_place ORDER BY 1, 2, 3, 4"
    ):
        places[row].append((place[0], place[1], place[2]))
    rows = tx.execute(f"SELECT {_CORRECTION} FROM correction ORDER BY made_ms, id").fetchall()
    return [Correction(*row)._replace(places=tuple(places[row[0]])) for row in rows]


def corrections_with_keys(tx: Tx) -> dict[str, int]:
    """Return key -> row id of every correction."""
    return dict(tx.execute("SELECT key, id FROM correction").fetchall())


def put_correction(tx: Tx, one: Correction, merged_ms: int) -> int:
    """Insert a correction (its `row` is ignored), or note that a stored one of its key was undone; return its row id.

    This memory knows of both from the merge on.
    """
    tx.execute(
        """INSERT INTO correction
           (key, kind, fact_id, made, text, start_ms, end_ms, precision, made_ms, undone_ms, stored_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
           undone_ms = coalesce(undone_ms, iif(excluded.undone_ms IS NULL, NULL, excluded.stored_ms))""",
        (*one[1:11], merged_ms),
    )
    (row,) = tx.execute("SELECT id FROM correction WHERE key = ?", (one.key,)).fetchone()
    tx.executemany(
        "INSERT INTO correction_place VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(row, *place) for place in one.places],
    )
    return int(row)


_VERDICTS = {"pin": 1, "forget": 2, "update": 3}


def live_verdicts(tx: Tx, fact_ids: Collection[str]) -> dict[str, int]:
    """Return fact id -> its verdict, by the newest of its corrections that is not undone; 0 where there is none."""
    found = dict.fromkeys(fact_ids, 0)
    for fact_id, kind in tx.execute(
        f"SELECT fact_id, kind FROM correction WHERE undone_ms IS NULL AND fact_id {AMONG} ORDER BY made_ms, id",
        (tx.ids(fact_ids),),
    ):
        found[fact_id] = _VERDICTS[kind]
    return found


def set_verdicts(tx: Tx, verdicts: Mapping[str, int]) -> None:
    """Write the verdicts of facts, by fact id."""
    tx.executemany(
        "UPDATE fact SET verdict = ? WHERE fact_id = ? AND verdict != ?",
        [(verdict, fact_id, verdict) for fact_id, verdict in verdicts.items()],
    )
