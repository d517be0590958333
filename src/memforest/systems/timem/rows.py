"""The table of the index: every node of its tree with what it is of, the node above it, and its place in time.

Of a segment and a session `session` is the row of the session, of a segment also `turn` and `turn_last`, the rows of its
turns, and `part`, its number in its session. Others have the key of their window. `begin_ms` orders the nodes of a level: the
first turn of a segment or session, the start of a window; `tie` orders those of one instant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx
from memforest.systems.timem.levels import ROOT, SEGMENT, SESSION

_COLUMNS = (
    "i.node, i.level, i.parent, i.session, i.part, i.turn, i.turn_last, i.turns, i.window, i.begin_ms, i.tie"
)


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
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


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[Row]:
    found = tx.execute(f"SELECT {_COLUMNS} FROM ix_timem_node i {condition}", tuple(args))
    return [Row(*row) for row in found]


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


def with_window(tx: Tx, level: int, key: str) -> Row | None:
    """Return the node of a window by its key."""
    found = _read(tx, "WHERE i.level = ? AND i.window = ?", (level, key))
    return found[0] if found else None


def root(tx: Tx) -> Row | None:
    """Return the root."""
    found = _read(tx, f"WHERE i.level = {ROOT}", ())
    return found[0] if found else None


def told(tx: Tx, level: int) -> list[tuple[Row, int]]:
    """Return the nodes of a level that have a text, the latest first, each with when its interval ends, ms."""
    found = tx.execute(
        f"""SELECT {_COLUMNS}, i.end_ms FROM ix_timem_node i JOIN derived_summary d ON d.node = i.node
            WHERE i.level = ? ORDER BY i.begin_ms DESC, i.tie DESC""",
        (level,),
    )
    return [(Row(*row[:-1]), row[-1]) for row in found]


def untold(tx: Tx, level: int) -> list[tuple[Row, int]]:
    """Return the nodes of a level that have no text, in order, each with when its interval ends, ms."""
    found = tx.execute(
        f"""SELECT {_COLUMNS}, i.end_ms FROM ix_timem_node i LEFT JOIN derived_summary d ON d.node = i.node
            WHERE i.level = ? AND d.node IS NULL ORDER BY i.begin_ms, i.tie""",
        (level,),
    )
    return [(Row(*row[:-1]), row[-1]) for row in found]


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


def previous_session(tx: Tx, begin_ms: int, tie: str) -> list[Row]:
    """Return the session that begins last in front of a place."""
    return _read(
        tx,
        f"WHERE i.level = {SESSION} AND (i.begin_ms, i.tie) < (?, ?) ORDER BY i.begin_ms DESC, i.tie DESC LIMIT 1",
        (begin_ms, tie),
    )


def end_of(tx: Tx, node: int) -> int:
    """Return when a node's interval ends, ms."""
    return int(tx.execute("SELECT end_ms FROM ix_timem_node WHERE node = ?", (node,)).fetchone()[0])


def beginning(tx: Tx, level: int, first_ms: int, until_ms: int) -> list[int]:
    """Return the nodes of a level that begin in [first_ms, until_ms)."""
    found = tx.execute(
        "SELECT node FROM ix_timem_node WHERE level = ? AND begin_ms >= ? AND begin_ms < ?",
        (level, first_ms, until_ms),
    )
    return [row[0] for row in found]


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


def names(tx: Tx, nodes: Collection[int]) -> list[tuple[int, int, str | None, str | None]]:
    """Return (node, level, key of the window, id of the session) of nodes, without the root; a segment has neither."""
    return tx.execute(
        f"""SELECT i.node, i.level, i.window, s.session_id FROM ix_timem_node i
            LEFT JOIN session s ON s.id = i.session AND i.level = {SESSION}
            WHERE i.level < {ROOT} AND i.node {AMONG}""",
        (tx.ids(nodes),),
    ).fetchall()


def dirty_among(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Return those of some nodes that are out of date."""
    found = tx.execute(f"SELECT id FROM node WHERE dirty AND id {AMONG}", (tx.ids(nodes),))
    return {row[0] for row in found}


def dirty_texts(tx: Tx) -> list[int]:
    """Return the nodes that have a text which is out of date."""
    found = tx.execute(
        """SELECT n.id FROM node n JOIN ix_timem_node i ON i.node = n.id JOIN derived_summary d ON d.node = n.id
           WHERE n.dirty"""
    )
    return [row[0] for row in found]


def leased(tx: Tx, owner: str) -> set[str]:
    """Return the keys of the jobs of an owner that somebody holds."""
    # By the index of jobs that are not done: those that are done are as many as there are windows.
    found = tx.execute(
        "SELECT key FROM job WHERE state != 'done' AND state = 'leased' AND +owner = ?", (owner,)
    )
    return {row[0] for row in found}


def any_clean(tx: Tx) -> bool:
    """Return whether a node is up to date."""
    found = tx.execute("SELECT 1 FROM node n JOIN ix_timem_node i ON i.node = n.id WHERE NOT n.dirty LIMIT 1")
    return found.fetchone() is not None


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


def level_sizes(tx: Tx) -> dict[int, int]:
    """Return the number of nodes by level; the root tells how many segments there are."""
    found = tx.execute(
        f"""SELECT level, count(*) FROM ix_timem_node WHERE level > {SEGMENT} GROUP BY level
            UNION ALL SELECT {SEGMENT}, leaves FROM ix_timem_node WHERE level = {ROOT}"""
    )
    return dict(found.fetchall())


def unwritten(tx: Tx, tree: int) -> list[tuple[int, bool, int]]:
    """Return (level, whether there is a text, number of nodes) of the nodes of the tree that are out of date; reads no others."""
    found = tx.execute(
        """SELECT i.level, d.node IS NOT NULL, count(*) FROM node n JOIN ix_timem_node i ON i.node = n.id
           LEFT JOIN derived_summary d ON d.node = n.id WHERE n.tree = ? AND n.dirty GROUP BY 1, 2 ORDER BY 1, 2""",
        (tree,),
    )
    return [(row[0], bool(row[1]), row[2]) for row in found]
