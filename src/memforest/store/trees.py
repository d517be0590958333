"""Trees and their inner nodes in SQLite: a write-back `Arena` for one transaction. Leaves: `memforest.store.leaves`.

A leaf that has a summary of its own has a row among the nodes too, of level 0 and with the same id: it has what a leaf
has not, a version and a dirty mark, and the summary hangs on it as on any node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memforest.store import derived, leaves, meta
from memforest.store.dialect import AMONG
from memforest.store.packing import pack_ids, unpack_ids
from memforest.store.tx import Tx
from memforest.tree import Node, TreeHead

_COLUMNS = """id, tree, level, key_ms, key_tie, start_ms, end_ms, count, children, version, dirty,
    span_lo, span_hi, window, state"""
_HEAD = "id, coalesce(k, 0), root, height, count"
_OTHERS = f"AND n.tree NOT IN (SELECT id FROM tree WHERE owner {AMONG})"
_DIRTY_OF = "tree t CROSS JOIN node n ON n.tree = t.id", "AND t.owner = ?"
_ID_BLOCK = 64


def _node(row: tuple[object, ...]) -> Node:
    rowid, tree, level, key_ms, key_tie, start, end, count, children, version, dirty, *more = row
    span_lo, span_hi, window, state = more
    return Node(
        id=rowid,  # type: ignore[arg-type]  # STRICT columns: integers and texts are what they say
        tree=tree,  # type: ignore[arg-type]
        level=level,  # type: ignore[arg-type]
        key=(key_ms, key_tie),  # type: ignore[arg-type]
        start_ms=start,  # type: ignore[arg-type]
        end_ms=end,  # type: ignore[arg-type]
        count=count,  # type: ignore[arg-type]
        children=unpack_ids(children),  # type: ignore[arg-type]
        item_kind=None,
        item=None,
        version=version,  # type: ignore[arg-type]
        dirty=bool(dirty),
        span=None if span_lo is None else (span_lo, span_hi),  # type: ignore[arg-type]
        window=window,  # type: ignore[arg-type]
        state=state,  # type: ignore[arg-type]
    )


class SqliteArena:
    """The nodes of one file, read when first touched. Leaves are written at once, inner nodes back by `flush`.

    Lives inside one write transaction. `written` counts the nodes that were written or dropped.

    Args:
        tx: the transaction.
        summarised: the kinds of items whose leaves get a summary of their own.
    """

    def __init__(self, tx: Tx, summarised: Collection[str] = ()) -> None:
        self._tx = tx
        self._summarised = summarised
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
            found = nodes_with_ids(self._tx, missing)
            self._nodes.update({i: node for i, node in found.items() if i not in self._dropped})
        return [self._nodes[i] for i in ids]

    def new_id(self) -> int:
        """Return an id that no node of this file has had."""
        if self._next == self._end:
            self._next = meta.take_ids(self._tx, "node", _ID_BLOCK)
            self._end = self._next + _ID_BLOCK
        self._next += 1
        return self._next - 1

    def put(self, node: Node) -> None:
        """Insert or change an inner node, or insert a leaf."""
        self._nodes[node.id] = node
        if not node.level:
            leaves.put_leaf(self._tx, node)
        if node.level or node.item_kind in self._summarised:
            self._changed.add(node.id)
        else:
            self.written += 1

    def drop(self, node_id: int) -> None:
        """Delete a node.

        Raises:
            KeyError: if there is none with that id.
        """
        if not self.get(node_id).level:
            leaves.drop_leaves(self._tx, (node_id,))
        self._changed.discard(node_id)
        del self._nodes[node_id]
        self._dropped.add(node_id)

    def flush(self) -> None:
        """Write everything back; the derived rows of dropped nodes go with them."""
        if self._dropped:
            gone = [(i,) for i in sorted(self._dropped)]
            self._tx.executemany("DELETE FROM node WHERE id = ?", gone)
            self._tx.executemany("DELETE FROM derived_node_vector WHERE item = ?", gone)
        self._tx.executemany(
            f"""INSERT INTO node ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET key_ms = excluded.key_ms, key_tie = excluded.key_tie,
                start_ms = excluded.start_ms, end_ms = excluded.end_ms, count = excluded.count,
                children = excluded.children, version = excluded.version, dirty = excluded.dirty,
                span_lo = excluded.span_lo, span_hi = excluded.span_hi, window = excluded.window,
                state = excluded.state""",
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
            node.version,
            int(node.dirty),
            *(node.span or (None, None)),
            node.window,
            node.state,
        )


def find_head(tx: Tx, owner: str, kind: str, scope: int) -> TreeHead | None:
    """Return an index's tree of a scope, or None."""
    row = tx.execute(
        f"SELECT {_HEAD} FROM tree WHERE owner = ? AND kind = ? AND scope = ?", (owner, kind, scope)
    ).fetchone()
    return None if row is None else TreeHead(*row)


def head_of(tx: Tx, tree: int) -> tuple[str, int, TreeHead]:
    """Return (kind, scope, head) of a tree.

    Raises:
        KeyError: if there is none with that id.
    """
    row = tx.execute(f"SELECT kind, scope, {_HEAD} FROM tree WHERE id = ?", (tree,)).fetchone()
    if row is None:
        raise KeyError(tree)
    return row[0], row[1], TreeHead(*row[2:])


def heads(tx: Tx, owner: str | None = None) -> list[tuple[str, int, TreeHead]]:
    """Return (kind, scope, head) of every tree of an index, or of all."""
    rows = tx.execute(
        f"SELECT kind, scope, {_HEAD} FROM tree WHERE owner = coalesce(?, owner) ORDER BY id", (owner,)
    )
    return [(row[0], row[1], TreeHead(*row[2:])) for row in rows]


def owners(tx: Tx, trees: Collection[int] | None = None) -> dict[int, str]:
    """Return the index of each of some trees, or of all."""
    if trees is None:
        return dict(tx.execute("SELECT id, owner FROM tree ORDER BY id").fetchall())
    rows = tx.execute(
        f"SELECT id, owner FROM tree WHERE id {AMONG} ORDER BY id",
        (tx.ids(trees),),
    )
    return dict(rows.fetchall())


def owner_of_node(tx: Tx, node: int) -> str | None:
    """Return the index of the tree that an inner node is of; None if there is no such node."""
    row = tx.execute(
        "SELECT t.owner FROM node n JOIN tree t ON t.id = n.tree WHERE n.id = ?", (node,)
    ).fetchone()
    return None if row is None else str(row[0])


def scopes(tx: Tx, trees: Collection[int]) -> dict[int, tuple[str, int]]:
    """Return (kind, scope) of trees."""
    rows = tx.execute(
        f"SELECT id, kind, scope FROM tree WHERE id {AMONG}",
        (tx.ids(trees),),
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def put_head(tx: Tx, owner: str, kind: str, scope: int, head: TreeHead) -> TreeHead:
    """Store a head; one whose `tree` is 0 is new and comes back with its id."""
    if head.tree == 0:
        tree = meta.take_ids(tx, "tree")
        tx.execute(
            "INSERT INTO tree (id, owner, kind, scope, k, root, height, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (tree, owner, kind, scope, head.k or None, head.root, head.height, head.count),
        )
        return TreeHead(tree, head.k, head.root, head.height, head.count)
    tx.execute(
        "UPDATE tree SET root = ?, height = ?, count = ? WHERE id = ?",
        (head.root, head.height, head.count, head.tree),
    )
    return head


def drop_trees(tx: Tx, owner: str) -> int:
    """Delete all trees of an index and return how many those were."""
    of_owner = "SELECT id FROM tree WHERE owner = ?"
    tx.execute(f"DELETE FROM leaf WHERE tree IN ({of_owner})", (owner,))
    tx.execute(
        f"DELETE FROM derived_node_vector WHERE item IN (SELECT id FROM node WHERE tree IN ({of_owner}))",
        (owner,),
    )
    return tx.execute("DELETE FROM tree WHERE owner = ?", (owner,)).rowcount


def drop_tree(tx: Tx, head: TreeHead) -> None:
    """Delete a tree with its nodes, leaves and derived rows."""
    leaves.drop_leaves(tx, leaves.leaves_of(tx, head))
    tx.execute(
        "DELETE FROM derived_node_vector WHERE item IN (SELECT id FROM node WHERE tree = ?)",
        (head.tree,),
    )
    tx.execute("DELETE FROM tree WHERE id = ?", (head.tree,))


def nodes_with_ids(tx: Tx, ids: Collection[int]) -> dict[int, Node]:
    """Return nodes and leaves by id."""
    rows = tx.execute(f"SELECT {_COLUMNS} FROM node WHERE id {AMONG}", (tx.ids(ids),))
    stored = {row[0]: _node(row) for row in rows}
    found = {i: node for i, node in stored.items() if node.level}
    if rest := [i for i in ids if i not in found]:
        for i, leaf in leaves.leaves_with_ids(tx, rest).items():
            if (marks := stored.get(i)) is not None:
                leaf.version, leaf.dirty = marks.version, marks.dirty
            found[i] = leaf
    return found


def node_texts(tx: Tx, nodes: Collection[Node]) -> dict[int, str]:
    """Return what nodes say: their summaries, or of leaves without one their items; of other nodes nothing."""
    found = derived.summaries(tx, [node.id for node in nodes])
    return found | leaves.leaf_texts(tx, [node for node in nodes if not node.level and node.id not in found])


def roots(tx: Tx, trees: Collection[int]) -> set[int]:
    """Return the ids of trees' root nodes."""
    rows = tx.execute(
        f"SELECT root FROM tree WHERE root IS NOT NULL AND id {AMONG}",
        (tx.ids(trees),),
    )
    return {row[0] for row in rows}


def dirty_children(
    tx: Tx, owner: str | None = None, *, but: Collection[int] = (), without: Collection[str] = ()
) -> dict[int, tuple[int, ...]]:
    """Return the children of every dirty node of an index's trees, or of all, from the leaves up; a leaf has none.

    The trees in `but` are left out, and all those of the indexes in `without`.
    """
    # The trees of one index are looked up one by one: others may have many more dirty nodes than it has trees.
    source, own = ("node n JOIN tree t ON t.id = n.tree", "") if owner is None else _DIRTY_OF
    rows = tx.execute(
        f"""SELECT n.id, n.children FROM {source} WHERE n.dirty {own} AND t.id NOT {AMONG} {_OTHERS} ORDER BY n.level, n.id""",
        (*([] if owner is None else [owner]), tx.ids(but), tx.ids(without)),
    )
    return {node: unpack_ids(children) for node, children in rows}


def dirty_trees(tx: Tx) -> dict[int, str]:
    """Return the trees that have dirty nodes, and the indexes that own them."""
    rows = tx.execute(
        "SELECT id, owner FROM tree WHERE id IN (SELECT tree FROM node WHERE dirty) ORDER BY id"
    )
    return dict(rows.fetchall())


def dirty_mark(tx: Tx, *, without: Collection[str] = ()) -> tuple[int, int, int]:
    """Return a mark that changes with the set of dirty nodes and their versions; those of some indexes left out."""
    counted = "count(*), coalesce(sum(n.id), 0), coalesce(sum(n.version), 0)"
    row = tx.execute(f"SELECT {counted} FROM node n WHERE n.dirty {_OTHERS}", (tx.ids(without),)).fetchone()
    return row[0], row[1], row[2]


def mark_all_dirty(tx: Tx) -> None:
    """Mark every node that has a summary dirty, with a new version, so that a refresh under way commits nothing it read before.

    The requests of the summaries are forgotten, so that none passes for the one that is asked for.
    """
    tx.execute("UPDATE node SET dirty = 1, version = version + 1")
    tx.execute("UPDATE derived_summary SET inputs = NULL")


def mark_dirty(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Mark nodes that have a summary, and all above them; return both."""
    marked = set(nodes)
    if not marked:
        return marked
    for node, children in tx.execute("SELECT id, children FROM node ORDER BY level, id"):
        if not marked.isdisjoint(unpack_ids(children)):
            marked.add(node)
    tx.execute(
        f"UPDATE node SET dirty = 1, version = version + 1 WHERE id {AMONG}",
        (tx.ids(sorted(marked)),),
    )
    return marked


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


def sizes(tx: Tx) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of trees, inner nodes and leaves by owner."""
    # `+` has the nodes read in the order of their table, not one by one by the index of trees.
    inner = dict(tx.execute("SELECT +tree, count(*) FROM node WHERE level GROUP BY 1").fetchall())
    found: dict[str, tuple[int, int, int]] = {}
    for tree, owner, leaves_ in tx.execute("SELECT id, owner, count FROM tree"):
        trees_, nodes, all_leaves = found.get(owner, (0, 0, 0))
        found[owner] = trees_ + 1, nodes + inner.get(tree, 0), all_leaves + leaves_
    return found


def node_count(tx: Tx, *, without: Collection[str] = ()) -> tuple[int, int]:
    """Return how many nodes there are and how many are dirty, of the latter not those of some indexes."""
    sql = "SELECT (SELECT count(*) FROM node WHERE level) + (SELECT count(*) FROM leaf)"
    total = tx.execute(sql).fetchone()[0]
    return total, dirty_count(tx, without=without)


def leaf_count(tx: Tx) -> int:
    """Return the number of leaves of all trees."""
    return int(tx.execute("SELECT count(*) FROM leaf").fetchone()[0])


def any_dirty(tx: Tx, *, without: Collection[str] = ()) -> bool:
    """Return whether a node is dirty, other than those of some indexes; reads no clean ones."""
    sql = f"SELECT 1 FROM node n WHERE n.dirty {_OTHERS} LIMIT 1"
    return tx.execute(sql, (tx.ids(without),)).fetchone() is not None


def dirty_count(tx: Tx, *, without: Collection[str] = ()) -> int:
    """Return how many nodes are dirty, other than those of some indexes; reads no clean ones."""
    sql = f"SELECT count(*) FROM node n WHERE n.dirty {_OTHERS}"
    return int(tx.execute(sql, (tx.ids(without),)).fetchone()[0])
