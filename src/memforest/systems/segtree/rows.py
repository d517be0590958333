"""The table of the index: the exchanges of a memory in their order, each in the tree or waiting.

Their order is (`place`, `tie`): the time of an exchange (the latest until then in its session, ms), then session and position.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from memforest.store.dialect import AMONG, place_tie
from memforest.store.tx import Tx

WAITING, PLACED = 0, 1
"""States of an exchange: not in the tree yet, and in it."""


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        """CREATE TABLE ix_segtree_exchange (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            turn_last INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            place INTEGER NOT NULL,
            tie TEXT NOT NULL,
            state INTEGER NOT NULL,
            level INTEGER,
            maker TEXT,
            vector BLOB
        ) STRICT""",
        "CREATE INDEX ix_segtree_exchange_order ON ix_segtree_exchange (state, place, tie)",
        "CREATE INDEX ix_segtree_exchange_session ON ix_segtree_exchange (session, first)",
    ):
        tx.execute(statement)


class SaidTurn(NamedTuple):
    """A turn, as far as the cutting into exchanges looks at it."""

    row: int
    ordinal: int
    speaker: str
    said_ms: int


class Cut(NamedTuple):
    """An exchange as it is to be: positions and row ids of its first and last turn, their number, and its place in the order."""

    first: int
    last: int
    turn: int
    turn_last: int
    turns: int
    place: int


class Exchange(NamedTuple):
    """An exchange as it is stored; `start_ms` and `end_ms` are those of its leaf: from its first turn to its last."""

    id: int
    session: int
    first: int
    last: int
    turn: int
    turn_last: int
    place: int
    tie: str
    state: int
    start_ms: int
    end_ms: int


class Place(NamedTuple):
    """Where an exchange stands, also one whose turns have gone."""

    id: int
    session: int
    place: int
    tie: str
    state: int


_SELECT = """SELECT e.id, e.session, e.first, e.last, e.turn, e.turn_last, e.place, e.tie, e.state,
    a.said_ms, max(a.said_ms, b.said_ms) + 1 FROM ix_segtree_exchange e
    JOIN turn a ON a.id = e.turn JOIN turn b ON b.id = e.turn_last"""


HOLDS = """SELECT o.id FROM ix_segtree_exchange o WHERE o.session = t.session AND o.first <= t.ordinal
    ORDER BY o.first DESC LIMIT 1"""
"""The only exchange that can hold a turn `t`."""


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[Exchange]:
    rows = tx.execute(f"{_SELECT} {condition}", tuple(args))
    return [Exchange(*row) for row in rows]


# -- sessions -------------------------------------------------------------------------------------


def sessions_of(tx: Tx, turns: Collection[int]) -> tuple[dict[int, int], bool]:
    """Return the sessions of those of some turns that are stored, each with the least position of one, and whether all are."""
    sql = (
        f"SELECT session, min(ordinal), count(*) FROM turn WHERE id {AMONG} GROUP BY session ORDER BY session"
    )
    found = tx.execute(sql, (tx.ids(turns),)).fetchall()
    return {row[0]: row[1] for row in found}, sum(row[2] for row in found) == len(turns)


def all_sessions(tx: Tx) -> list[int]:
    """Return all sessions that have turns."""
    return [row[0] for row in tx.execute("SELECT DISTINCT session FROM turn ORDER BY session")]


def turns_of_session(tx: Tx, session: int, first: int = 0) -> list[SaidTurn]:
    """Return the turns of a session from a position on."""
    rows = tx.execute(
        "SELECT id, ordinal, speaker, said_ms FROM turn WHERE session = ? AND ordinal >= ? ORDER BY ordinal",
        (session, first),
    )
    return [SaidTurn(*row) for row in rows]


def turns_between(tx: Tx, session: int, first: int, last: int) -> tuple[int, ...]:
    """Return the row ids of the turns of a session from one position to another."""
    rows = tx.execute(
        "SELECT id FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        (session, first, last),
    )
    return tuple(row[0] for row in rows)


def first_speaker(tx: Tx) -> str | None:
    """Return who speaks first in a memory; None in one without turns."""
    row = tx.execute(
        f"""SELECT t.speaker FROM session s JOIN turn t ON t.id =
            (SELECT o.id FROM turn o WHERE o.session = s.id ORDER BY o.ordinal LIMIT 1)
            ORDER BY t.said_ms, {place_tie("s.session_id", "t.ordinal")} LIMIT 1"""
    ).fetchone()
    return None if row is None else str(row[0])


# -- exchanges ------------------------------------------------------------------------------------


def add(tx: Tx, session: int, cuts: Sequence[Cut]) -> None:
    """Store exchanges of a session, which wait."""
    name = tx.execute("SELECT session_id FROM session WHERE id = ?", (session,)).fetchone()[0]
    tx.executemany(
        f"""INSERT INTO ix_segtree_exchange (session, first, last, turn, turn_last, turns, place, tie, state)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {place_tie("?8", "?2")}, {WAITING})""",
        [(session, *cut, name) for cut in cuts],
    )


def delete(tx: Tx, exchanges: Collection[int]) -> None:
    """Delete exchanges."""
    tx.executemany("DELETE FROM ix_segtree_exchange WHERE id = ?", [(one,) for one in exchanges])


def of_session(tx: Tx, session: int, first: int = 0) -> dict[tuple[int, int, int], int]:
    """Return the exchanges of a session from a position on by their first turn, their last one and their place."""
    rows = tx.execute(
        "SELECT turn, turn_last, place, id FROM ix_segtree_exchange WHERE session = ? AND first >= ? ORDER BY first",
        (session, first),
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def last_before(tx: Tx, session: int, position: int, limit: int) -> list[tuple[int, int]]:
    """Return first position and place of the last exchanges of a session that end before a position, the last one first."""
    rows = tx.execute(
        """SELECT first, place FROM ix_segtree_exchange WHERE session = ?1 AND first < ?2 AND last < ?2
           ORDER BY first DESC LIMIT ?3""",
        (session, position, limit),
    )
    return [(row[0], row[1]) for row in rows]


def of_turns(tx: Tx, turns: Collection[int]) -> list[Exchange]:
    """Return the exchanges that hold one of some turns, in their order."""
    found = tx.execute(
        f"""SELECT DISTINCT e.id FROM turn t JOIN ix_segtree_exchange e ON e.id = ({HOLDS})
            AND e.last >= t.ordinal WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )
    return by_id(tx, [row[0] for row in found])


def beginning_with(tx: Tx, turns: Collection[int]) -> dict[int, int]:
    """Return the exchanges that begin with one of some turns, each with that turn."""
    rows = tx.execute(
        f"""SELECT e.id, t.id FROM turn t JOIN ix_segtree_exchange e ON e.session = t.session
            AND e.first = t.ordinal WHERE t.id {AMONG}""",
        (tx.ids(turns),),
    )
    return {row[0]: row[1] for row in rows}


def by_id(tx: Tx, exchanges: Collection[int]) -> list[Exchange]:
    """Return exchanges in their order."""
    return _read(tx, f"WHERE e.id {AMONG} ORDER BY e.place, e.tie", (tx.ids(exchanges),))


def places(tx: Tx, exchanges: Collection[int]) -> list[Place]:
    """Return where exchanges stand, in no order."""
    rows = tx.execute(
        f"SELECT id, session, place, tie, state FROM ix_segtree_exchange WHERE id {AMONG}",
        (tx.ids(exchanges),),
    )
    return [Place(*row) for row in rows]


def waiting(tx: Tx, limit: int) -> list[Exchange]:
    """Return the first exchanges that wait."""
    rows = tx.execute(
        f"SELECT id FROM ix_segtree_exchange WHERE state = {WAITING} ORDER BY place, tie LIMIT ?", (limit,)
    )
    return by_id(tx, [row[0] for row in rows])


def count(tx: Tx, state: int) -> int:
    """Return how many exchanges there are in a state."""
    row = tx.execute("SELECT count(*) FROM ix_segtree_exchange WHERE state = ?", (state,)).fetchone()
    return int(row[0])


def last_placed(tx: Tx) -> tuple[int, str] | None:
    """Return the place of the last exchange in the tree; None if there is none."""
    row = tx.execute(
        f"SELECT place, tie FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place DESC, tie DESC LIMIT 1"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def behind(tx: Tx, place: int, tie: str) -> int:
    """Return how many exchanges of the tree stand behind a place: few where it grows."""
    row = tx.execute(
        f"SELECT count(*) FROM ix_segtree_exchange WHERE state = {PLACED} AND (place, tie) > (?, ?)",
        (place, tie),
    ).fetchone()
    return int(row[0])


def last_of(tx: Tx, number: int) -> list[int]:
    """Return so many exchanges at the end of the tree, in their order."""
    rows = tx.execute(
        f"SELECT id FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place DESC, tie DESC LIMIT ?",
        (number,),
    )
    return [row[0] for row in rows][::-1]


def mark_placed(tx: Tx, made: Sequence[tuple[int, int | None, str]]) -> None:
    """Note of exchanges that they are in the tree, on which level each was put (None for a new root), and by what."""
    tx.executemany(
        f"UPDATE ix_segtree_exchange SET state = {PLACED}, level = ?2, maker = ?3 WHERE id = ?1", made
    )


def mark(tx: Tx, exchanges: Collection[int], state: int) -> None:
    """Set the state of exchanges that are not in the tree any more."""
    tx.executemany(
        "UPDATE ix_segtree_exchange SET state = ?2, level = NULL, maker = NULL WHERE id = ?1",
        [(one, state) for one in exchanges],
    )


def makers(tx: Tx) -> dict[str, int]:
    """Return how many leaves each placer has placed."""
    rows = tx.execute(
        f"SELECT coalesce(maker, ''), count(*) FROM ix_segtree_exchange WHERE state = {PLACED} GROUP BY 1 ORDER BY 1"
    )
    return {row[0]: row[1] for row in rows}
