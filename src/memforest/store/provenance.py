"""Whose memory merged turns came from, and who of it is called otherwise here."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx


class Origin(NamedTuple):
    """Whose memory turns came from: its id and its user; `label` and `names` are who they are here."""

    memory: str
    user_id: str
    label: str
    names: Mapping[str, str]


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


def session_origins(tx: Tx, sessions: Collection[int]) -> dict[int, str]:
    """Return session -> the user whose memory it was merged from, of those sessions whose first turn was."""
    rows = tx.execute(
        f"""SELECT t.session, o.user_id FROM turn t JOIN origin o ON o.id = t.origin WHERE t.session {AMONG} AND t.ordinal =
           (SELECT min(f.ordinal) FROM turn f WHERE f.session = t.session)""",
        (tx.ids(sessions),),
    )
    return dict(rows.fetchall())
