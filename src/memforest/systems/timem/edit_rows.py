"""Writing the table of the index, and the marks of its nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from memforest.store.dialect import place_tie
from memforest.store.node_marks import drop_leaf_nodes, mark_out_of_date, mark_up_to_date
from memforest.store.tx import Tx
from memforest.systems.timem.levels import SEGMENT
from memforest.systems.timem.rows import Row


class Cut(NamedTuple):
    """A segment as it is to be: its number, its first and last turn, how many there are, and its interval."""

    part: int
    turn: int
    turn_last: int
    turns: int
    start_ms: int
    end_ms: int


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
    drop_leaf_nodes(tx, nodes)
    delete(tx, nodes)


def add(tx: Tx, row: Row) -> None:
    """Store a session, a window or the root, which is empty as yet."""
    tx.execute(
        "INSERT INTO ix_timem_node VALUES (?, ?, ?, ?, NULL, NULL, NULL, NULL, ?, ?, ?, ?, ?, 0)",
        (
            row.node,
            row.level,
            row.parent,
            row.session,
            row.window,
            row.begin_ms,
            row.tie,
            row.begin_ms,
            row.begin_ms + 1,
        ),
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


def set_dirty(tx: Tx, nodes: Collection[int]) -> None:
    """Mark nodes as out of date, with a new version."""
    mark_out_of_date(tx, nodes)


def clean_unwritten(tx: Tx, levels: Sequence[int]) -> None:
    """Mark those nodes clean of levels that are not written, the lowest first, below which nothing is out of date."""
    for level in levels:
        found = tx.execute(
            """SELECT i.node FROM ix_timem_node i JOIN node m ON m.id = i.node AND m.dirty WHERE i.level = ?
               AND NOT EXISTS (SELECT 1 FROM ix_timem_node c JOIN node n ON n.id = c.node
                               WHERE c.parent = i.node AND n.dirty)""",
            (level,),
        )
        mark_up_to_date(tx, [row[0] for row in found])
