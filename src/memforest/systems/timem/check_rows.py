"""Queries for what is wrong between turns and nodes."""

from __future__ import annotations

from typing import NamedTuple

from memforest.store.tx import Tx
from memforest.systems.timem.levels import SEGMENT


class Stored(NamedTuple):
    """A node as the index's table has it."""

    node: int
    level: int
    parent: int | None
    session: int | None
    window: str | None
    begin_ms: int
    start_ms: int
    end_ms: int
    leaves: int


def all_rows(tx: Tx) -> list[Stored]:
    """Return all nodes, in the order of siblings."""
    found = tx.execute(
        """SELECT node, level, parent, session, window, begin_ms, start_ms, end_ms, leaves FROM ix_timem_node
           ORDER BY level, begin_ms, tie"""
    )
    return [Stored(*row) for row in found]


def wrong_segments(tx: Tx, size: int) -> list[int]:
    """Return the segments whose turns, number or interval are not those of the turns that are stored."""
    found = tx.execute(
        f"""SELECT i.node FROM ix_timem_node i LEFT JOIN turn a ON a.id = i.turn LEFT JOIN turn b ON b.id = i.turn_last
            WHERE i.level = {SEGMENT} AND (a.session IS NOT i.session OR b.session IS NOT i.session
                OR a.ordinal / ?1 IS NOT i.part OR b.ordinal / ?1 IS NOT i.part OR a.ordinal > b.ordinal
                OR (i.turns, i.start_ms, i.end_ms) IS NOT (SELECT count(*), min(t.said_ms), max(t.said_ms) + 1
                    FROM turn t WHERE t.session = i.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal))
            ORDER BY i.node""",
        (size,),
    )
    return [row[0] for row in found]


def uncovered(tx: Tx, size: int) -> list[int]:
    """Return the turns that are not in the segment of their place."""
    found = tx.execute(
        f"""SELECT t.id FROM turn t WHERE NOT EXISTS (SELECT 1 FROM ix_timem_node i
                JOIN turn a ON a.id = i.turn JOIN turn b ON b.id = i.turn_last
                WHERE i.level = {SEGMENT} AND i.session = t.session AND i.part = t.ordinal / ?
                AND t.ordinal BETWEEN a.ordinal AND b.ordinal)
            ORDER BY t.id""",
        (size,),
    )
    return [row[0] for row in found]


def open_jobs(tx: Tx, owner: str) -> set[str]:
    """Return the keys of the jobs of an owner that are not done."""
    return {row[0] for row in tx.execute("SELECT key FROM job WHERE owner = ? AND state != 'done'", (owner,))}
