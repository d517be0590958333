"""Column reads of the trees of one index, for the arrays that a query works on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from memforest.store.dialect import AMONG, listed
from memforest.store.tx import Tx

LEAF_KINDS = ("cell", "fact", "turn")
"""What a leaf may stand for: the columns of its row, the first that is filled."""


class TreeRow(NamedTuple):
    """A tree's head."""

    id: int
    kind: str
    scope: int
    root: int | None


class InnerRow(NamedTuple):
    """An inner node, or with level 0 a leaf that has a summary of its own, which is a `LeafRow` too.

    `children` are packed ids; what it does not have is None.
    """

    id: int
    tree: int
    level: int
    children: bytes
    start_ms: int
    end_ms: int
    span_lo: int | None
    span_hi: int | None
    window: str | None


class LeafRow(NamedTuple):
    """A leaf. `kind` is a place in `LEAF_KINDS`; `item` is a fact or the first turn of a run, `last` its last turn."""

    id: int
    tree: int
    kind: int
    item: int
    last: int


Only = Collection[int] | None
"""Row ids that a read is limited to; None reads all of the index."""


def _own(tx: Tx, table: str, owner: str, only: Only) -> tuple[str, str, tuple[object, ...]]:
    """Return what to select an index's rows of a table `n` from, the condition, and the arguments of both."""
    if only is None:
        return f"{table} n", "WHERE n.tree IN (SELECT id FROM tree WHERE owner = ?)", (owner,)
    source = f"""{listed("?")} j CROSS JOIN {table} n ON n.id = j.value
        CROSS JOIN tree own ON own.id = n.tree AND own.owner = ?"""
    return source, "", (tx.ids(only), owner)


def tree_rows(tx: Tx, owner: str, only: Only = None) -> list[TreeRow]:
    """Return the heads of trees, by id."""
    among = "" if only is None else f"AND id {AMONG}"
    args = (owner,) if only is None else (owner, tx.ids(only))
    rows = tx.execute(f"SELECT id, kind, scope, root FROM tree WHERE owner = ? {among} ORDER BY id", args)
    return [TreeRow(*row) for row in rows]


def inner_rows(tx: Tx, owner: str, only: Only = None) -> Iterator[InnerRow]:
    """Yield inner nodes, and leaves that have a summary of their own, by id."""
    source, where, args = _own(tx, "node", owner, only)
    rows = tx.execute(
        f"""SELECT n.id, n.tree, n.level, n.children, n.start_ms, n.end_ms, n.span_lo, n.span_hi, n.window
            FROM {source} {where} ORDER BY n.id""",
        args,
    )
    return (InnerRow(*row) for row in rows)


def leaf_rows(tx: Tx, owner: str, only: Only = None) -> Iterator[LeafRow]:
    """Yield leaves, by id; a chunk's with its first and last turn."""
    source, where, args = _own(tx, "leaf", owner, only)
    rows = tx.execute(
        f"""SELECT n.id, n.tree, CASE WHEN n.cell IS NOT NULL THEN 0 WHEN n.fact IS NOT NULL THEN 1 ELSE 2 END,
                coalesce(a.id, n.fact, n.turn, 0), coalesce(b.id, n.last, n.turn, 0)
            FROM {source} LEFT JOIN cell c ON c.id = n.cell
            LEFT JOIN turn a ON a.session = c.session AND a.ordinal = c.first
            LEFT JOIN turn b ON b.session = c.session AND b.ordinal = c.last
            {where} ORDER BY n.id""",
        args,
    )
    return (LeafRow(*row) for row in rows)
