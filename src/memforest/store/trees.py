"""Trees, nodes and placements in SQLite: a write-back `Arena` for one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from memforest.store import meta
from memforest.store.db import Tx
from memforest.store.digests import damaged_turns
from memforest.store.packing import pack_ids, unpack_ids
from memforest.tree import Node, TreeHead

__all__ = [
    "SqliteArena",
    "dirty_count",
    "dirty_nodes",
    "drop_tree",
    "find_head",
    "head_of",
    "heads",
    "item_texts",
    "labels",
    "mark_all_dirty",
    "mark_clean",
    "mark_stale",
    "next_dirty_level",
    "node_count",
    "nodes_of",
    "nodes_with_ids",
    "place",
    "placements",
    "put_head",
    "roots",
    "unplace",
]

_COLUMNS = (
    "id, tree, level, key_ms, key_tie, start_ms, end_ms, count, children, item_kind, item, version, dirty"
)
_ID_BLOCK = 64


def _node(row: tuple[object, ...]) -> Node:
    rowid, tree, level, key_ms, key_tie, start, end, count, children, item_kind, item, version, dirty = row
    return Node(
        id=rowid,  # type: ignore[arg-type]  # STRICT columns: integers and texts are what they say
        tree=tree,  # type: ignore[arg-type]
        level=level,  # type: ignore[arg-type]
        key=(key_ms, key_tie),  # type: ignore[arg-type]
        start_ms=start,  # type: ignore[arg-type]
        end_ms=end,  # type: ignore[arg-type]
        count=count,  # type: ignore[arg-type]
        children=unpack_ids(children),  # type: ignore[arg-type]
        item_kind=item_kind,  # type: ignore[arg-type]
        item=item,  # type: ignore[arg-type]
        version=version,  # type: ignore[arg-type]
        dirty=bool(dirty),
    )


class SqliteArena:
    """The nodes of one file, read when first touched and written back by `flush`.

    Lives inside one write transaction. `written` counts the node rows that were written or dropped.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._nodes: dict[int, Node] = {}
        self._changed: set[int] = set()
        self._dropped: set[int] = set()
        self._next = 0
        self._end = 0
        self.written = 0

    def get(self, node_id: int) -> Node:
        """Return a node.

        Raises:
            KeyError: if there is none with that id.
        """
        return self.get_many((node_id,))[0]

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Return nodes in the order of their ids, reading what is not at hand in one statement."""
        missing = [i for i in ids if i not in self._nodes]
        if missing:
            rows = self._tx.execute(
                f"SELECT {_COLUMNS} FROM node WHERE id IN ({','.join('?' * len(missing))})", missing
            )
            for row in rows:
                if row[0] not in self._dropped:
                    self._nodes[row[0]] = _node(row)
        return [self._nodes[i] for i in ids]

    def new_id(self) -> int:
        """Return an id that no node of this file has had."""
        if self._next == self._end:
            self._next = meta.take_ids(self._tx, "node", _ID_BLOCK)
            self._end = self._next + _ID_BLOCK
        self._next += 1
        return self._next - 1

    def put(self, node: Node) -> None:
        """Insert or change a node."""
        self._nodes[node.id] = node
        self._changed.add(node.id)

    def drop(self, node_id: int) -> None:
        """Delete a node."""
        self._nodes.pop(node_id, None)
        self._changed.discard(node_id)
        self._dropped.add(node_id)

    def flush(self) -> None:
        """Write everything back; the derived rows of dropped nodes go with them."""
        if self._dropped:
            gone = [(i,) for i in sorted(self._dropped)]
            self._tx.executemany("DELETE FROM node WHERE id = ?", gone)
            self._tx.executemany("DELETE FROM derived_vector WHERE kind = 'node' AND item = ?", gone)
        self._tx.executemany(
            f"""INSERT INTO node ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET key_ms = excluded.key_ms, key_tie = excluded.key_tie,
                start_ms = excluded.start_ms, end_ms = excluded.end_ms, count = excluded.count,
                children = excluded.children, version = excluded.version, dirty = excluded.dirty""",
            [self._row(self._nodes[i]) for i in sorted(self._changed)],
        )
        self.written += len(self._changed) + len(self._dropped)
        self._changed.clear()
        self._dropped.clear()

    @staticmethod
    def _row(node: Node) -> tuple[object, ...]:
        return (
            node.id,
            node.tree,
            node.level,
            node.key[0],
            node.key[1],
            node.start_ms,
            node.end_ms,
            node.count,
            pack_ids(node.children),
            node.item_kind,
            node.item,
            node.version,
            int(node.dirty and node.level > 0),  # a leaf has nothing of its own to refresh
        )


def find_head(tx: Tx, kind: str, scope: int) -> TreeHead | None:
    """Return the tree of a scope, or None."""
    row = tx.execute(
        "SELECT id, k, root, height, count FROM tree WHERE kind = ? AND scope = ?", (kind, scope)
    ).fetchone()
    return None if row is None else TreeHead(*row)


def head_of(tx: Tx, tree: int) -> tuple[str, int, TreeHead]:
    """Return (kind, scope, head) of a tree.

    Raises:
        KeyError: if there is none with that id.
    """
    row = tx.execute(
        "SELECT kind, scope, id, k, root, height, count FROM tree WHERE id = ?", (tree,)
    ).fetchone()
    if row is None:
        raise KeyError(tree)
    return row[0], row[1], TreeHead(*row[2:])


def heads(tx: Tx) -> list[tuple[str, int, TreeHead]]:
    """Return (kind, scope, head) of every tree."""
    rows = tx.execute("SELECT kind, scope, id, k, root, height, count FROM tree ORDER BY id")
    return [(row[0], row[1], TreeHead(*row[2:])) for row in rows]


def put_head(tx: Tx, kind: str, scope: int, head: TreeHead) -> TreeHead:
    """Store a head; one whose `tree` is 0 is new and comes back with its id."""
    if head.tree == 0:
        tree = meta.take_ids(tx, "tree")
        tx.execute(
            "INSERT INTO tree (id, kind, scope, k, root, height, count) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (tree, kind, scope, head.k, head.root, head.height, head.count),
        )
        return TreeHead(tree, head.k, head.root, head.height, head.count)
    tx.execute(
        "UPDATE tree SET root = ?, height = ?, count = ? WHERE id = ?",
        (head.root, head.height, head.count, head.tree),
    )
    return head


def drop_tree(tx: Tx, tree: int) -> None:
    """Delete a tree with its nodes, placements and derived rows."""
    tx.execute(
        "DELETE FROM derived_vector WHERE kind = 'node' AND item IN (SELECT id FROM node WHERE tree = ?)",
        (tree,),
    )
    tx.execute("DELETE FROM tree WHERE id = ?", (tree,))


def place(tx: Tx, item_kind: str, item: int, tree: int, leaf: int) -> None:
    """Record which leaf of a tree stands for an item."""
    tx.execute("INSERT OR REPLACE INTO placement VALUES (?, ?, ?, ?)", (item_kind, item, tree, leaf))


def unplace(tx: Tx, item_kind: str, item: int, tree: int) -> None:
    """Forget an item's leaf in one tree."""
    tx.execute("DELETE FROM placement WHERE item_kind = ? AND item = ? AND tree = ?", (item_kind, item, tree))


def placements(tx: Tx, item_kind: str, item: int) -> list[tuple[int, int]]:
    """Return (tree, leaf) of every leaf that stands for an item."""
    rows = tx.execute(
        "SELECT tree, leaf FROM placement WHERE item_kind = ? AND item = ? ORDER BY tree", (item_kind, item)
    )
    return [(row[0], row[1]) for row in rows]


def next_dirty_level(tx: Tx, above: int) -> int | None:
    """Return the lowest level above `above` that has dirty nodes, or None."""
    row = tx.execute(
        "SELECT min(level) FROM node WHERE dirty AND level > 0 AND level > ?", (above,)
    ).fetchone()
    return None if row[0] is None else int(row[0])


def nodes_with_ids(tx: Tx, ids: Collection[int]) -> dict[int, Node]:
    """Return nodes by id."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM node WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return {row[0]: _node(row) for row in rows}


def labels(tx: Tx, trees: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return (kind, name of the scope) of trees: a session's id, an entity's display name, a scene's number."""
    rows = tx.execute(
        """SELECT t.id, t.kind, coalesce(s.session_id, e.label, CAST(t.scope AS TEXT)) FROM tree t
           LEFT JOIN session s ON t.kind = 'session' AND s.id = t.scope
           LEFT JOIN entity e ON t.kind = 'entity' AND e.id = t.scope
           WHERE t.id IN (SELECT value FROM json_each(?))""",
        (json.dumps(list(trees)),),
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def roots(tx: Tx, trees: Collection[int]) -> set[int]:
    """Return the ids of trees' root nodes."""
    rows = tx.execute(
        "SELECT root FROM tree WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(trees)),)
    )
    return {row[0] for row in rows}


def item_texts(tx: Tx, item_kind: str, items: Collection[int]) -> dict[int, str]:
    """Return the texts of leaves' items: a fact's text; a cell's turns, a line each, with the speaker.

    In the place of a damaged turn there is a line that says so.
    """
    ids = json.dumps(list(items))
    if item_kind == "fact":
        rows = tx.execute("SELECT id, text FROM fact WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        return dict(rows.fetchall())
    turns = tx.execute(
        """SELECT c.id, t.id, t.speaker || ': ' || t.text FROM cell c
           JOIN turn t ON t.session = c.session AND t.ordinal BETWEEN c.first AND c.last
           WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, t.ordinal""",
        (ids,),
    ).fetchall()
    damaged = damaged_turns(tx, [turn for _, turn, _ in turns])
    lines: dict[int, list[str]] = {}
    for cell, turn, line in turns:
        lines.setdefault(cell, []).append(f"[{damaged[turn].name} is damaged]" if turn in damaged else line)
    return {cell: "\n".join(found) for cell, found in lines.items()}


def dirty_nodes(tx: Tx, level: int) -> list[Node]:
    """Return the dirty inner nodes of one level over all trees, by id."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM node WHERE dirty AND level > 0 AND level = ? ORDER BY id", (level,)
    )
    return [_node(row) for row in rows]


def nodes_of(tx: Tx, tree: int) -> Iterator[Node]:
    """Yield every node of a tree, leaves included, by id."""
    return (
        _node(row) for row in tx.execute(f"SELECT {_COLUMNS} FROM node WHERE tree = ? ORDER BY id", (tree,))
    )


def mark_all_dirty(tx: Tx) -> None:
    """Mark every inner node: a refresh that is under way cannot take what it has read for current."""
    tx.execute("UPDATE node SET dirty = 1, version = version + 1 WHERE level > 0")


def mark_stale(tx: Tx, maker: str) -> int:
    """Mark the inner nodes whose summary something else than `maker` has made, and all above them; return how many."""
    stale = {
        row[0]
        for row in tx.execute("SELECT node FROM derived_summary WHERE maker <> ? ORDER BY node", (maker,))
    }
    if not stale:
        return 0
    for node, children in tx.execute("SELECT id, children FROM node WHERE level > 0 ORDER BY level, id"):
        if not stale.isdisjoint(unpack_ids(children)):
            stale.add(node)
    tx.execute(
        "UPDATE node SET dirty = 1, version = version + 1 WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(stale)),),
    )
    return len(stale)


def mark_clean(tx: Tx, nodes: Sequence[tuple[int, int]]) -> set[int]:
    """Mark (id, version) pairs clean and return the ids that were dirty and of that version."""
    cleaned = set()
    for node, version in nodes:
        cursor = tx.execute(
            "UPDATE node SET dirty = 0 WHERE id = ? AND version = ? AND dirty", (node, version)
        )
        if cursor.rowcount:
            cleaned.add(node)
    return cleaned


def node_count(tx: Tx) -> tuple[int, int]:
    """Return how many nodes there are and how many inner ones are dirty."""
    total = tx.execute("SELECT count(*) FROM node").fetchone()[0]
    return total, dirty_count(tx)


def dirty_count(tx: Tx) -> int:
    """Return how many inner nodes are dirty; reads no others."""
    return int(tx.execute("SELECT count(*) FROM node WHERE dirty AND level > 0").fetchone()[0])
