"""Queries for what is wrong between turns, exchanges and leaves."""

from __future__ import annotations

from memforest.store.dialect import place_tie
from memforest.store.tx import Tx
from memforest.systems.segtree.rows import HOLDS, PLACED


def stale(tx: Tx) -> list[int]:
    """Return the exchanges whose turns are not stored as they say."""
    rows = tx.execute(
        f"""SELECT e.id FROM ix_segtree_exchange e LEFT JOIN turn a ON a.id = e.turn LEFT JOIN turn b ON b.id = e.turn_last
           LEFT JOIN session s ON s.id = e.session
           WHERE a.session IS NOT e.session OR b.session IS NOT e.session OR a.ordinal IS NOT e.first
           OR e.tie IS NOT {place_tie("s.session_id", "e.first")} OR b.ordinal IS NOT e.last OR e.turns IS NOT (SELECT count(*) FROM turn t WHERE t.session = e.session
           AND t.ordinal BETWEEN e.first AND e.last) ORDER BY e.id"""
    )
    return [row[0] for row in rows]


def unplaced(tx: Tx) -> list[int]:
    """Return the exchanges that are said to be in the tree and have no leaf."""
    rows = tx.execute(
        f"""SELECT e.id FROM ix_segtree_exchange e WHERE state = {PLACED} AND NOT EXISTS (
            SELECT 1 FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'segtree'
            WHERE l.turn = e.turn AND coalesce(l.last, l.turn) = e.turn_last)"""
    )
    return [row[0] for row in rows]


def uncovered(tx: Tx) -> list[int]:
    """Return the turns that are in no exchange."""
    rows = tx.execute(
        f"""SELECT t.id FROM turn t LEFT JOIN ix_segtree_exchange e ON e.id = ({HOLDS})
            WHERE e.last IS NULL OR e.last < t.ordinal"""
    )
    return [row[0] for row in rows]


def overlapping(tx: Tx) -> list[int]:
    """Return the exchanges that begin before the one in front of them in their session has ended."""
    rows = tx.execute(
        """SELECT id FROM (SELECT id, first, max(last) OVER (PARTITION BY session ORDER BY first, id
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended FROM ix_segtree_exchange) WHERE first <= ended"""
    )
    return [row[0] for row in rows]


def leaf_order(tx: Tx) -> list[tuple[int, int]]:
    """Return the first and last turns of the exchanges of the tree, in their order."""
    rows = tx.execute(
        f"SELECT turn, turn_last FROM ix_segtree_exchange WHERE state = {PLACED} ORDER BY place, tie"
    )
    return [(row[0], row[1]) for row in rows]
