"""Whole trees of another memory, copied with their summaries and vectors.

Nodes and leaves get new ids; their places in time order, intervals and marks stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from memforest.store import meta
from memforest.store.dialect import AMONG
from memforest.store.packing import pack_ids, unpack_ids
from memforest.store.tx import Tx
from memforest.tree import TreeHead


class LeafRow(NamedTuple):
    """A leaf, and the item that it stands for: one of the three."""

    row: int
    tree: int
    fact: int | None
    cell: int | None
    turn: int | None
    last: int | None


class Graft(NamedTuple):
    """A tree of another memory, its scope here, and its leaves with the items that they stand for here."""

    head: TreeHead
    kind: str
    scope: int
    leaves: tuple[LeafRow, ...]


def leaf_rows(tx: Tx, owner: str) -> dict[int, list[LeafRow]]:
    """Return tree -> leaves of all trees of an index."""
    found: dict[int, list[LeafRow]] = {}
    for row in tx.execute(
        """SELECT l.id, l.tree, l.fact, l.cell, l.turn, l.last FROM leaf l
           JOIN tree t ON t.id = l.tree AND t.owner = ? ORDER BY l.tree, l.id""",
        (owner,),
    ):
        found.setdefault(row[1], []).append(LeafRow(*row))
    return found


def graft(
    tx: Tx, source: Tx, owner: str, grafts: Sequence[Graft], session_ids: Mapping[str, str], *, vectors: bool
) -> None:
    """Copy trees of another memory.

    Args:
        tx: a write transaction.
        source: a read transaction of the other memory.
        owner: the index, there and here.
        grafts: the trees.
        session_ids: session id there -> here, where it is another one: leaves of one time stand in their order.
        vectors: whether vectors are of the same embedder, and are copied too.
    """
    tree = {one.head.tree: row for row, one in enumerate(grafts, meta.take_ids(tx, "tree", len(grafts)))}
    inner = _nodes(source, tree)
    old = sorted({*(row[0] for row in inner), *(leaf.row for one in grafts for leaf in one.leaves)})
    first = meta.take_ids(tx, "node", len(old))
    new = {row: first + at for at, row in enumerate(old)}
    tx.executemany(
        "INSERT INTO tree (id, owner, kind, scope, k, root, height, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                tree[one.head.tree],
                owner,
                one.kind,
                one.scope,
                one.head.k or None,
                None if one.head.root is None else new[one.head.root],
                one.head.height,
                one.head.count,
            )
            for one in grafts
        ],
    )
    tx.executemany(
        "INSERT INTO leaf (id, tree, fact, cell, turn, last) VALUES (?, ?, ?, ?, ?, ?)",
        [(new[leaf.row], tree[leaf.tree], *leaf[2:]) for one in grafts for leaf in one.leaves],
    )
    tx.executemany(
        f"INSERT INTO node ({_NODE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_moved(row, tree, new, session_ids) for row in inner],
    )
    _copy_derived(tx, source, {row[0]: new[row[0]] for row in inner}, vectors)


_NODE = """id, tree, key_tie, children, level, key_ms, start_ms, end_ms, count, version, dirty,
    span_lo, span_hi, window, state"""


def _nodes(source: Tx, trees: Collection[int]) -> list[tuple[Any, ...]]:
    return source.execute(
        f"SELECT {_NODE} FROM node WHERE tree {AMONG} ORDER BY id", (source.ids(trees),)
    ).fetchall()


def _moved(
    row: tuple[Any, ...], tree: Mapping[int, int], new: Mapping[int, int], session_ids: Mapping[str, str]
) -> tuple[Any, ...]:
    node, of, tie, children, *rest = row
    session, sign, place = tie.partition("\x1f")
    tie = f"{session_ids.get(session, session)}{sign}{place}"
    return new[node], tree[of], tie, pack_ids([new[child] for child in unpack_ids(children)]), *rest


def _copy_derived(tx: Tx, source: Tx, new: Mapping[int, int], vectors: bool) -> None:
    """Copy the summaries of nodes, and their vectors."""
    rows = source.execute(
        f"SELECT node, text, maker, vector, inputs FROM derived_summary WHERE node {AMONG}",
        (source.ids(new),),
    )
    tx.executemany(
        "INSERT INTO derived_summary VALUES (?, ?, ?, ?, ?)", [(new[row[0]], *row[1:]) for row in rows]
    )
    if not vectors:
        return
    rows = source.execute(
        f"SELECT item, digest, vector FROM derived_node_vector WHERE item {AMONG}", (source.ids(new),)
    )
    tx.executemany(
        "INSERT INTO derived_node_vector VALUES (?, ?, ?)", [(new[row[0]], *row[1:]) for row in rows]
    )
