"""The table of the index: every node of its tree with what it is of, the node above it, and its place in time.

Of a segment and a session `session` is the row of the session, of a segment also `turn` and `turn_last`, the rows of its
turns, and `part`, its number in its session. Others have the key of their window. `begin_ms` orders the nodes of a level: the
first turn of a segment or session, the start of a window; `tie` orders those of one instant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from memforest.store.dialect import AMONG, place_tie
from memforest.store.leaves import drop_leaves
from memforest.store.tx import Tx
from memforest.systems.timem.levels import ROOT, SEGMENT, SESSION

__all__ = [
    "Cut",
    "Hull",
    "Row",
    "Said",
    "above",
    "above_sessions",
    "add",
    "add_segment",
    "all_sessions",
    "before",
    "below",
    "by_node",
    "change_place",
    "clean_unwritten",
    "children_before",
    "delete",
    "dirty_among",
    "drop_segments",
    "end_of",
    "first_tables",
    "following",
    "groups_of",
    "holding",
    "hull",
    "last_ordinal",
    "newest_session",
    "of_session",
    "of_window",
    "parts_before",
    "previous_session",
    "put_parent",
    "root",
    "sessions_below",
    "set_dirty",
    "speakers",
    "stale",
    "supporting",
    "turns_below",
    "turns_of_parts",
    "with_window",
]

_COLUMNS = "i.node, i.level, i.parent, i.session, i.part, i.turn, i.turn_last, i.turns, i.window, i.begin_ms, i.tie"


def first_tables(tx: Tx) -> None:
    """Make the tables of version 1."""
    for statement in (
        """CREATE TABLE ix_timem_node (
            node INTEGER PRIMARY KEY,
            level INTEGER NOT NULL,
            parent INTEGER,
            session INTEGER,
            part INTEGER,
            turn INTEGER,
            turn_last INTEGER,
            turns INTEGER,
            window TEXT,
            begin_ms INTEGER NOT NULL,
            tie TEXT NOT NULL,
            start_ms INTEGER NOT NULL,
            end_ms INTEGER NOT NULL,
            leaves INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX ix_timem_node_level ON ix_timem_node (level, begin_ms, tie)",
        "CREATE INDEX ix_timem_node_parent ON ix_timem_node (parent, begin_ms, tie)",
        "CREATE INDEX ix_timem_node_window ON ix_timem_node (level, window) WHERE window IS NOT NULL",
        "CREATE INDEX ix_timem_node_session ON ix_timem_node (session, level, part)",
    ):
        tx.execute(statement)


class Row(NamedTuple):
    """A node as it is stored."""

    node: int
    level: int
    parent: int | None
    session: int | None
    part: int | None
    turn: int | None
    turn_last: int | None
    turns: int | None
    window: str | None
    begin_ms: int
    tie: str


class Said(NamedTuple):
    """A turn, as far as the cutting into segments looks at it."""

    row: int
    ordinal: int
    said_ms: int


class Cut(NamedTuple):
    """A segment as it is to be: its number, its first and last turn, how many there are, and its interval."""

    part: int
    turn: int
    turn_last: int
    turns: int
    start_ms: int
    end_ms: int


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[Row]:
    found = tx.execute(f"SELECT {_COLUMNS} FROM ix_timem_node i {condition}", tuple(args))
    return [Row(*row) for row in found]


# -- turns ------------------------------------------------------------------------------------------


def groups_of(tx: Tx, turns: Collection[int], size: int) -> tuple[dict[int, set[int]], int]:
    """Return the numbers of the segments that some turns belong to, by session, and how many of the turns are stored.

    Args:
        tx: a transaction.
        turns: row ids.
        size: turns of a segment.
    """
    found: dict[int, set[int]] = {}
    count = 0
    for session, ordinal in tx.execute(
        f"SELECT session, ordinal FROM turn WHERE id {AMONG}", (tx.ids(turns),)
    ):
        found.setdefault(session, set()).add(ordinal // size)
        count += 1
    return found, count


def turns_of_parts(tx: Tx, session: int, parts: Iterable[int], size: int) -> dict[int, list[Said]]:
    """Return the turns of some segments of a session, by the segments' numbers."""
    wanted = sorted(parts)
    if not wanted:
        return {}
    found: dict[int, list[Said]] = {part: [] for part in wanted}
    for row in tx.execute(
        "SELECT id, ordinal, said_ms FROM turn WHERE session = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        (session, wanted[0] * size, (wanted[-1] + 1) * size - 1),
    ):
        said = Said(*row)
        if said.ordinal // size in found:
            found[said.ordinal // size].append(said)
    return found


def last_ordinal(tx: Tx, session: int) -> int | None:
    """Return the position of the last turn of a session; None of one without turns."""
    row = tx.execute("SELECT max(ordinal) FROM turn WHERE session = ?", (session,)).fetchone()
    return None if row[0] is None else int(row[0])


def supporting(tx: Tx, facts: Collection[int]) -> list[int]:
    """Return the turns that support some facts."""
    found = tx.execute(
        f"""SELECT DISTINCT x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            WHERE o.fact {AMONG} ORDER BY 1""",
        (tx.ids(facts),),
    )
    return [row[0] for row in found]


def speakers(tx: Tx, sessions: Collection[int]) -> list[str]:
    """Return who speaks in some sessions, in the order in which they first do."""
    found = tx.execute(
        f"SELECT speaker FROM turn WHERE session {AMONG} GROUP BY speaker ORDER BY min(said_ms), min(id)",
        (tx.ids(sessions),),
    )
    return [row[0] for row in found]


# -- finding ----------------------------------------------------------------------------------------


def by_node(tx: Tx, nodes: Collection[int]) -> dict[int, Row]:
    """Return the rows of nodes."""
    return {row.node: row for row in _read(tx, f"WHERE i.node {AMONG}", (tx.ids(nodes),))}


def holding(tx: Tx, turns: Collection[int], size: int) -> list[Row]:
    """Return the segments that hold one of some stored turns."""
    return _read(
        tx,
        f"""WHERE i.level = {SEGMENT} AND (i.session, i.part) IN
            (SELECT session, ordinal / ? FROM turn WHERE id {AMONG}) ORDER BY i.node""",
        (size, tx.ids(turns)),
    )


def of_session(tx: Tx, session: int, level: int, parts: Collection[int] | None = None) -> list[Row]:
    """Return the nodes of a session on a level, in order; of the segments all, or those with some numbers."""
    among = "" if parts is None else f"AND i.part {AMONG}"
    args = (session, level, *(() if parts is None else (tx.ids(parts),)))
    return _read(tx, f"WHERE i.session = ? AND i.level = ? {among} ORDER BY i.part", args)


def of_window(tx: Tx, level: int, begin_ms: int) -> Row | None:
    """Return the node of the window of a level that begins at an instant."""
    found = _read(tx, "WHERE i.level = ? AND i.begin_ms = ?", (level, begin_ms))
    return found[0] if found else None


def root(tx: Tx) -> Row | None:
    """Return the root."""
    found = _read(tx, f"WHERE i.level = {ROOT}", ())
    return found[0] if found else None


def below(tx: Tx, node: int) -> list[Row]:
    """Return the children of a node, in order."""
    return _read(tx, "WHERE i.parent = ? ORDER BY i.begin_ms, i.tie", (node,))


def above(tx: Tx, nodes: Collection[int]) -> list[Row]:
    """Return the nodes above some nodes, up to the root, each once, the lowest level first."""
    return _read(
        tx,
        f"""WHERE i.node IN (WITH RECURSIVE up(node) AS (
                SELECT parent FROM ix_timem_node WHERE node {AMONG}
                UNION SELECT a.parent FROM up JOIN ix_timem_node a ON a.node = up.node)
            SELECT node FROM up) ORDER BY i.level, i.begin_ms, i.tie""",
        (tx.ids(nodes),),
    )


def sessions_below(tx: Tx, node: int) -> list[int]:
    """Return the sessions at or below a node, in order."""
    found = tx.execute(
        f"""WITH RECURSIVE down(node, level, session, begin_ms, tie) AS (
                SELECT node, level, session, begin_ms, tie FROM ix_timem_node WHERE node = ?
                UNION ALL SELECT i.node, i.level, i.session, i.begin_ms, i.tie
                FROM down JOIN ix_timem_node i ON i.parent = down.node WHERE down.level > {SESSION})
            SELECT session FROM down WHERE level <= {SESSION} ORDER BY begin_ms, tie""",
        (node,),
    )
    return [row[0] for row in found]


def newest_session(tx: Tx) -> int | None:
    """Return when the session began that began last, ms; None before the first."""
    row = tx.execute(f"SELECT max(begin_ms) FROM ix_timem_node WHERE level = {SESSION}").fetchone()
    return None if row[0] is None else int(row[0])


# -- history ----------------------------------------------------------------------------------------


def parts_before(tx: Tx, session: int, part: int, limit: int) -> list[int]:
    """Return the last segments of a session in front of one, in order."""
    found = _read(
        tx,
        f"WHERE i.session = ? AND i.level = {SEGMENT} AND i.part < ? ORDER BY i.part DESC LIMIT ?",
        (session, part, limit),
    )
    return [row.node for row in found][::-1]


def before(tx: Tx, row: Row, limit: int) -> list[int]:
    """Return the last nodes of a level that end before one begins, in order."""
    found = tx.execute(
        """SELECT i.node FROM ix_timem_node i WHERE i.level = ? AND i.begin_ms < ? AND i.end_ms <= ?
           ORDER BY i.begin_ms DESC, i.tie DESC LIMIT ?""",
        (row.level, row.begin_ms, row.begin_ms, limit),
    )
    return [one[0] for one in found][::-1]


def children_before(tx: Tx, row: Row, limit: int) -> list[int]:
    """Return the last children of the nodes of a level that end before one begins, in order."""
    found = tx.execute(
        """SELECT c.node FROM ix_timem_node i JOIN ix_timem_node c ON c.parent = i.node
           WHERE i.level = ? AND i.begin_ms < ? AND i.end_ms <= ?
           ORDER BY i.begin_ms DESC, i.tie DESC, c.begin_ms DESC, c.tie DESC LIMIT ?""",
        (row.level, row.begin_ms, row.begin_ms, limit),
    )
    return [one[0] for one in found][::-1]


def following(tx: Tx, row: Row, limit: int) -> list[Row]:
    """Return the next nodes of a level behind one; of segments those of its session."""
    if row.level == SEGMENT:
        return _read(
            tx,
            f"WHERE i.session = ? AND i.level = {SEGMENT} AND i.part > ? ORDER BY i.part LIMIT ?",
            (row.session, row.part, limit),
        )
    return _read(
        tx,
        "WHERE i.level = ? AND (i.begin_ms, i.tie) > (?, ?) ORDER BY i.begin_ms, i.tie LIMIT ?",
        (row.level, row.begin_ms, row.tie, limit),
    )


# -- writing ----------------------------------------------------------------------------------------


def add_segment(tx: Tx, node: int, session: int, cut: Cut, parent: int) -> None:
    """Store a segment."""
    tx.execute(
        f"""INSERT INTO ix_timem_node SELECT ?1, {SEGMENT}, ?2, ?3, ?4, ?5, ?6, ?7, NULL, ?8,
            {place_tie("s.session_id", "t.ordinal")}, ?8, ?9, 1
            FROM turn t JOIN session s ON s.id = t.session WHERE t.id = ?5""",
        (node, parent, session, cut.part, cut.turn, cut.turn_last, cut.turns, cut.start_ms, cut.end_ms),
    )


def drop_segments(tx: Tx, nodes: Collection[int]) -> None:
    """Delete segments, with their leaves and all that is derived from them; their turns may be gone already."""
    drop_leaves(tx, nodes)
    gone = [(node,) for node in nodes]
    tx.executemany("DELETE FROM node WHERE id = ?", gone)
    tx.executemany("DELETE FROM derived_node_vector WHERE item = ?", gone)
    delete(tx, nodes)


def add(tx: Tx, row: Row) -> None:
    """Store a session, a window or the root, which is empty as yet."""
    tx.execute(
        "INSERT INTO ix_timem_node VALUES (?, ?, ?, ?, NULL, NULL, NULL, NULL, ?, ?, ?, ?, ?, 0)",
        (row.node, row.level, row.parent, row.session, row.window, row.begin_ms, row.tie, row.begin_ms, row.begin_ms + 1),
    )


def delete(tx: Tx, nodes: Collection[int]) -> None:
    """Delete rows."""
    tx.executemany("DELETE FROM ix_timem_node WHERE node = ?", [(node,) for node in nodes])


def put_parent(tx: Tx, node: int, parent: int) -> None:
    """Put a node under another one."""
    tx.execute("UPDATE ix_timem_node SET parent = ? WHERE node = ?", (parent, node))


def change_place(tx: Tx, node: int, begin_ms: int, tie: str) -> None:
    """Note where a session begins now."""
    tx.execute("UPDATE ix_timem_node SET begin_ms = ?, tie = ? WHERE node = ?", (begin_ms, tie, node))


class Hull(NamedTuple):
    """What the children of a node are together: ids in order, interval, leaves, and the tie of the first."""

    children: tuple[int, ...]
    start_ms: int
    end_ms: int
    leaves: int
    tie: str


def hull(tx: Tx, node: int) -> Hull | None:
    """Return what the children of a node are together, and note it of the node; None of one without any."""
    found = tx.execute(
        "SELECT node, start_ms, end_ms, leaves, tie FROM ix_timem_node WHERE parent = ? ORDER BY begin_ms, tie",
        (node,),
    ).fetchall()
    if not found:
        return None
    made = Hull(
        tuple(row[0] for row in found),
        min(row[1] for row in found),
        max(row[2] for row in found),
        sum(row[3] for row in found),
        found[0][4],
    )
    tx.execute(
        "UPDATE ix_timem_node SET start_ms = ?, end_ms = ?, leaves = ? WHERE node = ?",
        (made.start_ms, made.end_ms, made.leaves, node),
    )
    return made


# -- marks ------------------------------------------------------------------------------------------


def set_dirty(tx: Tx, nodes: Collection[int]) -> None:
    """Mark nodes as out of date, with a new version."""
    tx.executemany(
        "UPDATE node SET dirty = 1, version = version + 1 WHERE id = ?", [(node,) for node in sorted(nodes)]
    )


def dirty_among(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Return those of some nodes that are out of date."""
    found = tx.execute(f"SELECT id FROM node WHERE dirty AND id {AMONG}", (tx.ids(nodes),))
    return {row[0] for row in found}


def stale(tx: Tx) -> list[Row]:
    """Return the segments whose turns are not stored as they say."""
    return _read(
        tx,
        f"""LEFT JOIN turn a ON a.id = i.turn LEFT JOIN turn b ON b.id = i.turn_last
            WHERE i.level = {SEGMENT} AND (a.session IS NOT i.session OR b.session IS NOT i.session
            OR i.turns IS NOT (SELECT count(*) FROM turn t WHERE t.session = i.session
                AND t.ordinal BETWEEN a.ordinal AND b.ordinal)) ORDER BY i.node""",
        (),
    )


def end_of(tx: Tx, node: int) -> int:
    """Return when a node's interval ends, ms."""
    return int(tx.execute("SELECT end_ms FROM ix_timem_node WHERE node = ?", (node,)).fetchone()[0])


def previous_session(tx: Tx, begin_ms: int, tie: str) -> list[Row]:
    """Return the session that begins last in front of a place."""
    return _read(
        tx,
        f"WHERE i.level = {SESSION} AND (i.begin_ms, i.tie) < (?, ?) ORDER BY i.begin_ms DESC, i.tie DESC LIMIT 1",
        (begin_ms, tie),
    )


def with_window(tx: Tx, level: int, key: str) -> Row | None:
    """Return the node of a window by its key."""
    found = _read(tx, "WHERE i.level = ? AND i.window = ?", (level, key))
    return found[0] if found else None


def above_sessions(tx: Tx) -> list[Row]:
    """Return all nodes above the sessions, the highest first."""
    return _read(tx, f"WHERE i.level > {SESSION} ORDER BY i.level DESC, i.node", ())


def all_sessions(tx: Tx) -> list[Row]:
    """Return all sessions, in order."""
    return _read(tx, f"WHERE i.level = {SESSION} ORDER BY i.begin_ms, i.tie", ())


def turns_below(tx: Tx, segments: Collection[int]) -> dict[int, list[int]]:
    """Return the row ids of the turns of segments, in order."""
    found: dict[int, list[int]] = {node: [] for node in segments}
    for node, turn in tx.execute(
        f"""SELECT i.node, t.id FROM ix_timem_node i JOIN turn a ON a.id = i.turn JOIN turn b ON b.id = i.turn_last
            JOIN turn t ON t.session = i.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
            WHERE i.level = {SEGMENT} AND i.node {AMONG} ORDER BY i.node, t.ordinal""",
        (tx.ids(segments),),
    ):
        found[node].append(turn)
    return found


def clean_unwritten(tx: Tx, levels: Sequence[int]) -> None:
    """Mark those nodes clean of levels that are not written, the lowest first, below which nothing is out of date."""
    for level in levels:
        tx.execute(
            """UPDATE node SET dirty = 0 WHERE dirty AND id IN (SELECT node FROM ix_timem_node WHERE level = ?)
               AND NOT EXISTS (SELECT 1 FROM ix_timem_node c JOIN node n ON n.id = c.node
                               WHERE c.parent = node.id AND n.dirty)""",
            (level,),
        )
