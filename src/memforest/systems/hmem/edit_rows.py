"""Writing the table of the index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from memforest.store.tx import Tx
from memforest.systems.hmem.event_rows import Event
from memforest.systems.hmem.rows import Row


def add(tx: Tx, row: Row) -> None:
    """Store a node."""
    tx.execute("INSERT INTO ix_hmem_node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def delete(tx: Tx, nodes: Iterable[int]) -> None:
    """Delete rows."""
    tx.executemany("DELETE FROM ix_hmem_node WHERE node = ?", [(node,) for node in nodes])


def join(tx: Tx, joins: Iterable[tuple[int, float | None, int]]) -> None:
    """Put nodes under others: the parent, how like it the node was, and the node."""
    tx.executemany("UPDATE ix_hmem_node SET parent = ?, likeness = ? WHERE node = ?", joins)


def put_event(tx: Tx, node: int, event: Event) -> None:
    """Note of an event when it was so, when it was last told, and how often."""
    tx.execute(
        "UPDATE ix_hmem_node SET start_ms = ?, end_ms = ?, r_ms = ?, n = ? WHERE node = ?",
        (event.start_ms, event.end_ms, event.r_ms, event.n, node),
    )


class Hull(NamedTuple):
    """What the children of a node are together: ids in order, interval, leaves, when last consolidated, and how often."""

    children: tuple[int, ...]
    start_ms: int
    end_ms: int
    leaves: int
    r_ms: int
    n: int


def hull(tx: Tx, node: int) -> Hull | None:
    """Return what the children of a node are together, and note it of the node; None of one without any.

    Each child but the first has been a join, and so has each of a child's own.
    """
    ids = tx.execute(
        "SELECT node FROM ix_hmem_node WHERE parent = ? ORDER BY said_ms, tie", (node,)
    ).fetchall()
    if not ids:
        return None
    sums = tx.execute(
        """SELECT min(start_ms), max(end_ms), sum(leaves), max(r_ms), sum(n) + count(*) - 1
           FROM ix_hmem_node WHERE parent = ?""",
        (node,),
    ).fetchone()
    made = Hull(tuple(one for (one,) in ids), *sums)
    tx.execute(
        "UPDATE ix_hmem_node SET start_ms = ?, end_ms = ?, leaves = ?, r_ms = ?, n = ? WHERE node = ?",
        (*made[1:], node),
    )
    return made
