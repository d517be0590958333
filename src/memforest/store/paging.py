"""Pages of facts, sessions and turns, each found by index from the key of the last item before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.sessions import SessionRow, sessions_with_rows, turn_of
from memforest.store.tx import Tx
from memforest.types import Turn


class FactKey(NamedTuple):
    """Where a fact stands in time order."""

    at_ms: int
    tie: str
    row: int


class SessionKey(NamedTuple):
    """Where a session stands: by its first time, then its id."""

    first_ms: int
    session_id: str


FIRST_MS = -(2**63)
"""Before every time."""
RARE = 50
"""An entity is looked up among the facts in their order where one of so many names it, else its facts are gathered and sorted."""

_AT = "coalesce(f.start_ms, f.said_ms)"
_SHOWN = "f.verdict < 2"
_IN_SESSION = """f.id IN (SELECT o.fact FROM turn t JOIN occurrence_turn x ON x.turn = t.id
    JOIN occurrence o ON o.id = x.occurrence WHERE t.session = ?)"""


def shown_facts_after(
    tx: Tx,
    after: FactKey | None,
    most: int,
    *,
    offset: int = 0,
    entity: int | None = None,
    session: int | None = None,
) -> list[FactKey]:
    """Return the keys of facts that are not hidden, in time order, from behind another one.

    Args:
        tx: a read transaction.
        after: the key behind which to begin; None for the start.
        most: how many.
        offset: how many to pass over.
        entity: only facts that name it.
        session: only facts that it supports.
    """
    start = after or FactKey(FIRST_MS, "", 0)
    where, args = [f"{_AT} >= ?", f"({_AT}, f.tie, f.id) > (?, ?, ?)", _SHOWN], [start.at_ms, *start]
    if session is not None:
        where, args = [*where, _IN_SESSION], [*args, session]
    if entity is not None:
        named = "SELECT 1 FROM mention m WHERE m.fact = f.id AND m.entity = ?"
        where.append(
            f"EXISTS ({named})"
            if session is not None or _is_frequent(tx, entity)
            else "f.id IN (SELECT m.fact FROM mention m WHERE m.entity = ?)"
        )
        args.append(entity)
    rows = tx.execute(
        f"SELECT {_AT}, f.tie, f.id FROM fact f WHERE {' AND '.join(where)} ORDER BY 1, 2, 3 LIMIT ? OFFSET ?",
        (*args, most, offset),
    )
    return [FactKey(*row) for row in rows]


def fact_keys(tx: Tx, facts: Collection[int]) -> list[tuple[FactKey, str]]:
    """Return the keys of facts, by row id, with their public ids."""
    rows = tx.execute(
        f"SELECT {_AT}, f.tie, f.id, f.fact_id FROM fact f WHERE f.id {AMONG}", (tx.ids(facts),)
    )
    return [(FactKey(*row[:3]), row[3]) for row in rows]


def _is_frequent(tx: Tx, entity: int) -> bool:
    named, facts = tx.execute(
        "SELECT (SELECT count(*) FROM mention WHERE entity = ?), (SELECT count(*) FROM fact)", (entity,)
    ).fetchone()
    return bool(named * RARE > facts)


def count_facts(tx: Tx, *, entity: int | None = None, session: int | None = None) -> int:
    """Return how many facts are not hidden; of those, how many name an entity and are supported by a session."""
    hidden = "(SELECT id FROM fact WHERE verdict > 1)"
    if session is not None:
        also = (
            ""
            if entity is None
            else "AND EXISTS (SELECT 1 FROM mention m WHERE m.fact = f.id AND m.entity = ?)"
        )
        found = tx.execute(
            f"SELECT count(*) FROM fact f WHERE {_SHOWN} AND {_IN_SESSION} {also}",
            (session,) if entity is None else (session, entity),
        )
    elif entity is not None:
        found = tx.execute(
            f"SELECT count(DISTINCT fact) FROM mention WHERE entity = ? AND fact NOT IN {hidden}", (entity,)
        )
    else:
        found = tx.execute(f"SELECT (SELECT count(*) FROM fact) - (SELECT count(*) FROM {hidden})")
    return int(found.fetchone()[0])


# -- sessions ---------------------------------------------------------------------------------------


def sessions_after(tx: Tx, after: SessionKey | None, most: int) -> list[SessionRow]:
    """Return sessions in time order (ties by id), from behind the key of another one."""
    start = after or SessionKey(FIRST_MS, "")
    rows = tx.execute(
        """SELECT s.id FROM turn t CROSS JOIN session s ON s.id = t.session
           WHERE t.said_ms >= ? AND (t.said_ms, s.session_id) > (?, ?) AND t.id =
           (SELECT u.id FROM turn u WHERE u.session = t.session ORDER BY u.said_ms, u.id LIMIT 1)
           ORDER BY t.said_ms, s.session_id LIMIT ?""",
        (start.first_ms, *start, most),
    )
    return sessions_with_rows(tx, [row for (row,) in rows])


def count_sessions(tx: Tx) -> int:
    """Return how many sessions there are."""
    return int(tx.execute("SELECT count(*) FROM session").fetchone()[0])


def participants(tx: Tx, sessions: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return who speaks in sessions, in the order of their first turns."""
    rows = tx.execute(
        f"SELECT session, speaker, min(ordinal) AS first FROM turn WHERE session {AMONG} GROUP BY 1, 2 ORDER BY first",
        (tx.ids(sessions),),
    )
    found: dict[int, list[str]] = {}
    for session, speaker, _ in rows:
        found.setdefault(session, []).append(speaker)
    return {session: tuple(names) for session, names in found.items()}


def failed_cells(tx: Tx, sessions: Collection[int]) -> Mapping[int, int]:
    """Return how many cells of sessions have failed; sessions without are not in it."""
    rows = tx.execute(
        f"SELECT session, count(*) FROM cell WHERE session {AMONG} AND status = 'failed' GROUP BY session",
        (tx.ids(sessions),),
    )
    return dict(rows.fetchall())


# -- turns ------------------------------------------------------------------------------------------


def turns_after(tx: Tx, session: int, after: int, most: int) -> list[tuple[int, Turn, int]]:
    """Return turns of a session behind the one with an ordinal: row id, turn, and when it was stored."""
    rows = tx.execute(
        """SELECT id, turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata, stored_ms
           FROM turn WHERE session = ? AND ordinal > ? ORDER BY ordinal LIMIT ?""",
        (session, after, most),
    )
    return [(row[0], turn_of(row), row[9]) for row in rows]
