"""Sessions, turns and cells: the append-only record of a conversation, and the status of each cell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from memforest.interval import from_ms, to_ms
from memforest.store import meta
from memforest.store.dialect import AMONG
from memforest.store.turns import MOST, StoredTurn, insert_turns
from memforest.store.tx import Tx
from memforest.types import TimeSource, Turn

CellStatus = Literal["pending", "extracted", "verbatim", "failed"]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as stored; `row` is its integer id in this file. `turns` counts its turns."""

    row: int
    session_id: str
    status: Literal["received", "ingested"]
    infer: bool
    stored_ms: int
    metadata: dict[str, object]
    turns: int
    start_ms: int
    end_ms: int
    next: int = 0
    """The ordinal of the next turn; more than `turns` where some were deleted."""
    erased: int = 0
    """How many times something of it was deleted."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """A dialogue cell: the turns with ordinals `first` to `last`, both included."""

    row: int
    session: int
    ordinal: int
    first: int
    last: int
    status: CellStatus
    reason: str | None
    maker: str | None
    skipped: tuple[tuple[int, str], ...]
    """Pairs of turn ordinal and reason, for what became no statement."""


_SESSION = """SELECT s.id, s.session_id, s.status, s.infer, s.stored_ms, s.metadata, count(t.id),
    coalesce(min(t.said_ms), 0), coalesce(max(t.said_ms), 0), coalesce(max(t.ordinal) + 1, 0), s.erased
    FROM session s LEFT JOIN turn t ON t.session = s.id"""


def add_session(tx: Tx, session_id: str, *, infer: bool, stored_ms: int, metadata: dict[str, object]) -> int:
    """Insert a session with status ``received`` and return its row id."""
    row = meta.take_ids(tx, "session")
    tx.execute(
        "INSERT INTO session (id, session_id, status, infer, stored_ms, metadata) VALUES (?, ?, 'received', ?, ?, ?)",
        (row, session_id, int(infer), stored_ms, json.dumps(metadata, ensure_ascii=False)),
    )
    return row


def _session(row: tuple[object, ...]) -> SessionRow:
    rowid, session_id, status, infer, stored, metadata, count, start, end, following, erased = row
    return SessionRow(
        row=cast(int, rowid),
        session_id=str(session_id),
        status=cast("Literal['received', 'ingested']", status),
        infer=bool(infer),
        stored_ms=cast(int, stored),
        metadata=json.loads(str(metadata)),
        turns=cast(int, count),
        start_ms=cast(int, start),
        end_ms=cast(int, end),
        next=cast(int, following),
        erased=cast(int, erased),
    )


def find_session(tx: Tx, session_id: str) -> SessionRow | None:
    """Return the session with that id, or None."""
    row = tx.execute(f"{_SESSION} WHERE s.session_id = ? GROUP BY s.id", (session_id,)).fetchone()
    return None if row is None else _session(row)


def session_with_row(tx: Tx, row: int) -> SessionRow:
    """Return the session with that row id.

    Raises:
        KeyError: if there is none.
    """
    found = tx.execute(f"{_SESSION} WHERE s.id = ? GROUP BY s.id", (row,)).fetchone()
    if found is None:
        raise KeyError(row)
    return _session(found)


def sessions_with_rows(tx: Tx, rows: Sequence[int]) -> list[SessionRow]:
    """Return sessions by row id, in the order that is given; those that there are."""
    found = tx.execute(f"{_SESSION} WHERE s.id {AMONG} GROUP BY s.id", (tx.ids(rows),))
    by_row = {row[0]: _session(row) for row in found}
    return [by_row[row] for row in rows if row in by_row]


def list_sessions(tx: Tx) -> list[SessionRow]:
    """Return all sessions in time order (ties by session id)."""
    rows = tx.execute(f"{_SESSION} GROUP BY s.id ORDER BY min(t.said_ms), s.session_id")
    return [_session(row) for row in rows]


def set_status(tx: Tx, session: int, status: Literal["received", "ingested"]) -> None:
    """Set the status of a session."""
    tx.execute("UPDATE session SET status = ? WHERE id = ?", (status, session))


def waiting(tx: Tx) -> int:
    """Return how many sessions are received but not ingested."""
    return int(tx.execute("SELECT count(*) FROM session WHERE status = 'received'").fetchone()[0])


def known_ids(tx: Tx, session: int, ids: Sequence[str]) -> set[str]:
    """Return which of these turn ids a session has already."""
    rows = tx.execute(
        f"SELECT turn_id FROM turn WHERE session = ? AND turn_id {AMONG}",
        (session, tx.ids(ids)),
    )
    return {row[0] for row in rows}


def has_turn(tx: Tx, session: int, turn_id: str) -> bool:
    """Return whether a session has a turn of this id."""
    return bool(known_ids(tx, session, [turn_id]))


def turn_with_id(tx: Tx, session: int, turn_id: str) -> Turn | None:
    """Return the turn of a session with that id, or None."""
    at = tx.execute(
        "SELECT ordinal FROM turn WHERE session = ? AND turn_id = ?", (session, turn_id)
    ).fetchone()
    return None if at is None else turns(tx, session, at[0], at[0])[0][1]


def unfinished(tx: Tx) -> list[int]:
    """Return the row ids of sessions with work left: not ingested, or with failed cells."""
    rows = tx.execute(
        """SELECT id FROM session WHERE status = 'received'
           UNION SELECT session FROM cell WHERE status IN ('pending', 'failed') ORDER BY 1"""
    )
    return [row[0] for row in rows]


def delete_session(tx: Tx, session: int) -> None:
    """Delete a session's row; its turns and cells go with it."""
    tx.execute("DELETE FROM session WHERE id = ?", (session,))


def add_turns(tx: Tx, session: int, new: Sequence[Turn], stored_ms: int) -> list[int]:
    """Insert turns, each with its digest, and return their row ids, in order."""
    (session_id,) = tx.execute("SELECT session_id FROM session WHERE id = ?", (session,)).fetchone()
    return insert_turns(
        tx,
        [
            StoredTurn(
                0,
                session,
                session_id,
                turn.ordinal,
                turn.id,
                turn.speaker,
                turn.role,
                turn.text,
                to_ms(turn.said),
                turn.time_source,
                json.dumps(dict(turn.metadata), ensure_ascii=False),
                stored_ms,
            )
            for turn in new
        ],
    )


def turn_of(row: Sequence[Any]) -> Turn:
    """Return the turn of a row: its id, then turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata."""
    return Turn(
        id=row[1],
        speaker=row[2],
        text=row[3],
        said=from_ms(row[4]),
        ordinal=row[5],
        role=row[6],
        time_source=cast(TimeSource, row[7]),
        metadata=json.loads(row[8]),
    )


def turns(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[tuple[int, Turn]]:
    """Return a session's turns with their row ids, in order; with `first` and `last`, those between."""
    rows = tx.execute(
        """SELECT id, turn_id, speaker, text, said_ms, ordinal, role, time_source, metadata
           FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal""",
        (session, first, last),
    )
    return [(row[0], turn_of(row)) for row in rows]


def turn_rows(tx: Tx, session: int) -> set[int]:
    """Return the row ids of a session's turns."""
    return {row for (row,) in tx.execute("SELECT id FROM turn WHERE session = ?", (session,))}


def speakers(tx: Tx) -> set[str]:
    """Return the names of everyone who speaks in any session, as written; each is looked up, so that few turns are read."""
    rows = tx.execute(
        """WITH RECURSIVE names (name) AS (SELECT min(speaker) FROM turn
           UNION ALL SELECT (SELECT min(speaker) FROM turn WHERE speaker > name) FROM names WHERE name IS NOT NULL)
           SELECT name FROM names WHERE name IS NOT NULL"""
    )
    return {row[0] for row in rows}


def add_cells(tx: Tx, session: int, spans: Iterable[tuple[int, int, int]]) -> None:
    """Insert pending cells from (ordinal, first turn, last turn)."""
    wanted = list(spans)
    first = meta.take_ids(tx, "cell", len(wanted))
    tx.executemany(
        "INSERT INTO cell (id, session, ordinal, first, last, status) VALUES (?, ?, ?, ?, ?, 'pending')",
        [(row, session, *span) for row, span in enumerate(wanted, first)],
    )


def pending(tx: Tx, session: int) -> bool:
    """Return whether a session has cells that were never extracted."""
    found = tx.execute(
        "SELECT EXISTS (SELECT 1 FROM cell WHERE session = ? AND status = 'pending')", (session,)
    )
    return bool(found.fetchone()[0])


def cells(tx: Tx, session: int, first: int = 0, last: int = MOST) -> list[CellRow]:
    """Return a session's cells, in order; with `first` and `last`, those of the turns between."""
    rows = tx.execute(
        """SELECT id, session, ordinal, first, last, status, reason, maker, skipped
           FROM cell WHERE session = ? AND last >= ? AND first <= ? ORDER BY ordinal""",
        (session, first, last),
    )
    return [
        CellRow(
            row=row[0],
            session=row[1],
            ordinal=row[2],
            first=row[3],
            last=row[4],
            status=row[5],
            reason=row[6],
            maker=row[7],
            skipped=tuple((turn, reason) for turn, reason in json.loads(row[8])),
        )
        for row in rows
    ]


def finish_cell(
    tx: Tx,
    cell: int,
    status: CellStatus,
    *,
    maker: str,
    reason: str | None = None,
    skipped: Sequence[tuple[int, str]] = (),
) -> None:
    """Record the outcome of a cell."""
    tx.execute(
        "UPDATE cell SET status = ?, reason = ?, maker = ?, skipped = ? WHERE id = ?",
        (status, reason, maker, json.dumps(list(skipped)), cell),
    )


def fail_again(tx: Tx, cell: int, reason: str) -> None:
    """Record why a cell that had failed has failed again; what was read of it meanwhile stays."""
    tx.execute("UPDATE cell SET reason = ? WHERE id = ?", (reason, cell))


def delete_cell(tx: Tx, cell: int) -> None:
    """Delete a cell; its occurrences go with it."""
    tx.execute("DELETE FROM cell WHERE id = ?", (cell,))
