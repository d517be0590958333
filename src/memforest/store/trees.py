"""Trees in SQLite: heads, inner nodes and leaves, and a write-back `Arena` of them for one transaction.

A leaf stands for a fact, a chunk or a run of turns; where in time it stands is read from that. A leaf that has a summary
of its own has a row among the nodes too, of level 0 and with the same id: the row has its version and dirty mark, and the
summary hangs on it as on any node.

`graft` copies whole trees of another memory with their summaries and vectors: nodes and leaves get new ids; their places
in time order, intervals and marks stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memforest.nodes import Node, TreeHead
from memforest.store import derived, meta
from memforest.store.connections import AMONG, AMONG_IDS, Tx, place_tie
from memforest.store.derived import pack_ids, unpack_ids
from memforest.store.sessions import damaged_turns
from memforest.store.snapshot import muted_turns

QUOTED_MAKERS = ("local-", "verbatim")
"""Beginnings of the names of what makes facts by rule: people are shown what was said, not the statement."""

_START = "coalesce(f.start_ms, f.said_ms)"

_LEAVES = f"""
    SELECT l.id, l.tree, {_START}, f.tie, CASE WHEN f.start_ms IS NULL OR f.end_ms IS NULL THEN {_START} + 1
        ELSE max(f.end_ms, f.start_ms + 1) END, 'fact', f.id, NULL
    FROM leaf l JOIN fact f ON f.id = l.fact WHERE l.id {AMONG_IDS}
    UNION ALL
    SELECT l.id, l.tree, a.said_ms, {place_tie("s.session_id", "c.ordinal")},
        max(a.said_ms, b.said_ms) + 1, 'chunk', c.id, NULL
    FROM leaf l JOIN chunk c ON c.id = l.chunk JOIN session s ON s.id = c.session
    JOIN turn a ON a.session = s.id AND a.ordinal = c.first JOIN turn b ON b.session = s.id AND b.ordinal = c.last
    WHERE l.id {AMONG_IDS}
    UNION ALL
    SELECT l.id, l.tree, a.said_ms, {place_tie("s.session_id", "a.ordinal")},
        max(a.said_ms, b.said_ms) + 1, 'turn', a.id, l.last
    FROM leaf l JOIN turn a ON a.id = l.turn JOIN turn b ON b.id = coalesce(l.last, l.turn)
    JOIN session s ON s.id = a.session
    WHERE l.id {AMONG_IDS}"""
"""Leaves with key, end and item: a fact's as `FactRow.leaf_key` and `leaf_span` have it, a chunk's and a run's
from first to last turn."""

_COLUMN = {"fact": "fact", "chunk": "chunk", "turn": "turn"}
"""Item kind -> the column of `leaf` that has the item."""


def drop_leaves(tx: Tx, ids: Iterable[int]) -> None:
    """Delete leaves."""
    tx.executemany("DELETE FROM leaf WHERE id = ?", [(leaf,) for leaf in ids])


def leaves_of(tx: Tx, head: TreeHead) -> list[int]:
    """Return the ids of the leaves of a tree, by way of its nodes: there is no index of leaves by tree."""
    rows = tx.execute("SELECT id, children FROM node WHERE tree = ? AND level", (head.tree,)).fetchall()
    if not rows:
        return [] if head.root is None else [head.root]
    inner = {row[0] for row in rows}
    return [child for _, packed in rows for child in unpack_ids(packed) if child not in inner]


def drop_strays(tx: Tx) -> None:
    """Delete the leaves whose tree does not exist; reads all leaves."""
    tx.execute("DELETE FROM leaf WHERE tree NOT IN (SELECT id FROM tree)")


def placements(tx: Tx, owner: str, item_kind: str, item: int) -> list[tuple[int, int]]:
    """Return (tree, leaf) of every leaf in an index's trees that stands for an item, by tree."""
    rows = tx.execute(
        f"""SELECT l.tree, l.id FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = ?
            WHERE l.{_COLUMN[item_kind]} = ? ORDER BY l.tree""",
        (owner, item),
    )
    return [(row[0], row[1]) for row in rows]


def placements_of(
    tx: Tx, owner: str, item_kind: str, items: Collection[int]
) -> dict[int, list[tuple[int, int]]]:
    """Return item -> (tree, leaf) of every leaf in an index's trees that stands for it, by tree."""
    found: dict[int, list[tuple[int, int]]] = {item: [] for item in items}
    column = _COLUMN[item_kind]
    for item, tree, leaf in tx.execute(
        f"""SELECT l.{column}, l.tree, l.id FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = ?
            WHERE l.{column} {AMONG} ORDER BY l.tree""",
        (owner, tx.ids(items)),
    ):
        found[item].append((tree, leaf))
    return found


_LEAF_TURNS = f"""
    SELECT l.id, t.id, t.speaker || ': ' || t.text, t.ordinal FROM leaf l JOIN chunk c ON c.id = l.chunk
        JOIN turn t ON t.session = c.session AND t.ordinal BETWEEN c.first AND c.last
        WHERE l.id {AMONG_IDS}
    UNION ALL
    SELECT l.id, t.id, t.speaker || ': ' || t.text, t.ordinal FROM leaf l JOIN turn a ON a.id = l.turn
        JOIN turn b ON b.id = coalesce(l.last, l.turn)
        JOIN turn t ON t.session = a.session AND t.ordinal BETWEEN a.ordinal AND b.ordinal
        WHERE l.id {AMONG_IDS}
    ORDER BY 1, 4"""


_LEAF_FACTS = f"""
    SELECT l.id, f.text, o.speaker, o.quote, t.id, t.text,
        CASE WHEN o.correction IS NULL THEN c.maker END FROM leaf l JOIN fact f ON f.id = l.fact AND f.verdict < 2
    LEFT JOIN occurrence o ON o.id = (SELECT p.id FROM occurrence p WHERE p.fact = f.id
        ORDER BY p.text IS NOT NULL, p.said_ms, p.id LIMIT 1)
    LEFT JOIN chunk c ON c.id = o.chunk
    LEFT JOIN turn t ON t.id = (SELECT max(x.turn) FROM occurrence_turn x WHERE x.occurrence = o.id)
    WHERE l.id {AMONG}"""
"""Leaves of facts with the occurrence that the fact has its wording from; its quote, and the turn that it is of."""


def leaf_texts(tx: Tx, found: Iterable[Node]) -> dict[int, str]:
    """Return the texts of leaves, by id: a fact's quote or text; the turns of a chunk or a run; each line with its speaker.

    A fact from the local rules is shown by its quote; any other fact by its own text. A hidden fact has no text. Turns are
    shown by `told_lines`.
    """
    facts: list[int] = []
    runs: list[int] = []
    for leaf in found:
        (facts if leaf.item_kind == "fact" else runs).append(leaf.id)
    texts = _fact_texts(tx, facts) if facts else {}
    turns = tx.execute(_LEAF_TURNS, {"ids": tx.ids(runs)}).fetchall() if runs else []
    told = told_lines(tx, {turn: line for _, turn, line, _ in turns})
    lines: dict[int, list[str]] = {}
    for leaf_id, turn, _, _ in turns:
        lines.setdefault(leaf_id, []).extend(told[turn])
    return texts | {leaf_id: "\n".join(said) for leaf_id, said in lines.items()}


def told_lines(tx: Tx, said: Mapping[int, str]) -> dict[int, list[str]]:
    """Return, by row id, the lines that may be shown for turns: "speaker: text" as it was said.

    A damaged turn has a line that says so; a turn that says something hidden has the shown facts that it supports.
    """
    if not said:
        return {}
    damaged, shown = damaged_turns(tx, said.keys()), _shown_of_muted(tx, said.keys())
    return {
        turn: [f"[{damaged[turn].name} is damaged]"] if turn in damaged else shown.get(turn, [line])
        for turn, line in said.items()
    }


def _shown_of_muted(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return muted turn -> texts of the shown facts that it supports, in order."""
    muted = set(muted_turns(tx)).intersection(turns)
    rows = tx.execute(
        f"""SELECT x.turn, f.text FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence
           JOIN fact f ON f.id = o.fact AND f.verdict < 2 WHERE x.turn {AMONG}
           ORDER BY x.turn, coalesce(o.tie, f.tie), o.id""",
        (tx.ids(muted),),
    )
    shown: dict[int, dict[str, None]] = {turn: {} for turn in muted}
    for turn, text in rows:
        shown[turn][text] = None
    return {turn: list(texts) for turn, texts in shown.items()}


def _fact_texts(tx: Tx, found: Collection[int]) -> dict[int, str]:
    rows = tx.execute(_LEAF_FACTS, (tx.ids(found),)).fetchall()
    by_rule = [row for row in rows if (row[-1] or "").startswith(QUOTED_MAKERS)]
    damaged = damaged_turns(tx, [turn for _, _, _, _, turn, _, _ in by_rule if turn is not None])
    texts = {row[0]: row[1] for row in rows}
    for leaf_id, _, speaker, quote, turn, whole, _ in by_rule:
        if turn in damaged:
            texts[leaf_id] = f"[{damaged[turn].name} is damaged]"
        else:
            said = (quote or whole or "").splitlines()
            texts[leaf_id] = "\n".join(f"{speaker}: {line}" for line in said if line.strip())
    return texts


_COLUMNS = """id, tree, level, key_ms, key_tie, start_ms, end_ms, count, children, version, dirty,
    span_lo, span_hi, window, state"""
_HEAD = "id, coalesce(k, 0), root, height, count"
_OTHERS = f"AND n.tree NOT IN (SELECT id FROM tree WHERE owner {AMONG})"
_DIRTY_OF = "tree t CROSS JOIN node n ON n.tree = t.id", "AND t.owner = ?"
_ID_BLOCK = 64


@dataclass(slots=True, eq=False)
class SqliteArena:
    """The nodes of one file, read when first touched. Leaves are written at once, inner nodes back by `flush`.

    Lives inside one write transaction. `written` counts the nodes that were written or dropped.

    Args:
        tx: the transaction.
        summarised: the kinds of items whose leaves get a summary of their own.
    """

    tx: Tx
    summarised: Collection[str] = ()
    written: int = field(default=0, init=False)
    _nodes: dict[int, Node] = field(default_factory=dict, init=False)
    _changed: set[int] = field(default_factory=set, init=False)
    _dropped: set[int] = field(default_factory=set, init=False)
    _next: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)

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
            found = nodes_with_ids(self.tx, missing)
            self._nodes.update({i: node for i, node in found.items() if i not in self._dropped})
        return [self._nodes[i] for i in ids]

    def new_id(self) -> int:
        """Return an id that no node of this file has had."""
        if self._next == self._end:
            self._next = meta.take_ids(self.tx, "node", _ID_BLOCK)
            self._end = self._next + _ID_BLOCK
        self._next += 1
        return self._next - 1

    def put(self, node: Node) -> None:
        """Insert or change an inner node, or insert a leaf."""
        self._nodes[node.id] = node
        if not node.level:
            self.tx.execute(
                f"INSERT INTO leaf (id, tree, {_COLUMN[node.item_kind or '']}, last) VALUES (?, ?, ?, ?)",
                (node.id, node.tree, node.item, node.item_last),
            )
        if node.level or node.item_kind in self.summarised:
            self._changed.add(node.id)
        else:
            self.written += 1

    def drop(self, node_id: int) -> None:
        """Delete a node.

        Raises:
            KeyError: if there is none with that id.
        """
        if not self.get(node_id).level:
            drop_leaves(self.tx, (node_id,))
        self._changed.discard(node_id)
        del self._nodes[node_id]
        self._dropped.add(node_id)

    def flush(self) -> None:
        """Write everything back; the derived rows of dropped nodes go with them."""
        if self._dropped:
            gone = [(i,) for i in sorted(self._dropped)]
            self.tx.executemany("DELETE FROM node WHERE id = ?", gone)
            self.tx.executemany("DELETE FROM derived_node_vector WHERE item = ?", gone)
        self.tx.executemany(
            f"""INSERT INTO node ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET key_ms = excluded.key_ms, key_tie = excluded.key_tie,
                start_ms = excluded.start_ms, end_ms = excluded.end_ms, count = excluded.count,
                children = excluded.children, version = excluded.version, dirty = excluded.dirty,
                span_lo = excluded.span_lo, span_hi = excluded.span_hi, window = excluded.window,
                state = excluded.state""",
            [
                (
                    node.id,
                    node.tree,
                    node.level,
                    *node.key,
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
                for node in map(self._nodes.__getitem__, sorted(self._changed))
            ],
        )
        self.written += len(self._changed) + len(self._dropped)
        self._changed.clear()
        self._dropped.clear()


def find_head(tx: Tx, owner: str, kind: str, scope: int) -> TreeHead | None:
    """Return an index's tree of a scope, or None."""
    return tx.row(
        TreeHead, f"SELECT {_HEAD} FROM tree WHERE owner = ? AND kind = ? AND scope = ?", (owner, kind, scope)
    )


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
        return tx.pairs("SELECT id, owner FROM tree ORDER BY id")
    return tx.pairs(f"SELECT id, owner FROM tree WHERE id {AMONG} ORDER BY id", (tx.ids(trees),))


def owner_of_node(tx: Tx, node: int) -> str | None:
    """Return the index of the tree that an inner node is of; None if there is no such node."""
    return tx.row(str, "SELECT t.owner FROM node n JOIN tree t ON t.id = n.tree WHERE n.id = ?", (node,))


def scopes(tx: Tx, trees: Collection[int]) -> dict[int, tuple[str, int]]:
    """Return (kind, scope) of trees."""
    rows = tx.execute(
        f"SELECT id, kind, scope FROM tree WHERE id {AMONG}",
        (tx.ids(trees),),
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def put_head(tx: Tx, owner: str, kind: str, scope: int, head: TreeHead) -> TreeHead:
    """Store a tree's head and return it; one whose `tree` is 0 is inserted and gets its id."""
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
    drop_leaves(tx, leaves_of(tx, head))
    tx.execute(
        "DELETE FROM derived_node_vector WHERE item IN (SELECT id FROM node WHERE tree = ?)",
        (head.tree,),
    )
    tx.execute("DELETE FROM tree WHERE id = ?", (head.tree,))


def nodes_with_ids(tx: Tx, ids: Collection[int]) -> dict[int, Node]:
    """Return nodes and leaves by id, without leaves whose item does not exist."""
    stored = {}
    for row in tx.execute(f"SELECT {_COLUMNS} FROM node WHERE id {AMONG}", (tx.ids(ids),)):
        node, tree, level, key_ms, key_tie, start, end, count, children, version, dirty, *more = row
        span_lo, span_hi, window, state = more
        stored[node] = Node(
            id=node,
            tree=tree,
            level=level,
            key=(key_ms, key_tie),
            start_ms=start,
            end_ms=end,
            count=count,
            children=unpack_ids(children),
            item_kind=None,
            item=None,
            version=version,
            dirty=bool(dirty),
            span=None if span_lo is None else (span_lo, span_hi),
            window=window,
            state=state,
        )
    found = {i: node for i, node in stored.items() if node.level}
    rest = [i for i in ids if i not in found]
    for leaf, tree, start, tie, end, kind, item, last in (
        tx.execute(_LEAVES, {"ids": tx.ids(rest)}) if rest else ()
    ):
        marks = stored.get(leaf)  # of a leaf that has a summary of its own
        found[leaf] = Node(
            id=leaf,
            tree=tree,
            level=0,
            key=(start, tie),
            start_ms=start,
            end_ms=end,
            count=1,
            children=(),
            item_kind=kind,
            item=item,
            version=1 if marks is None else marks.version,
            dirty=marks is not None and marks.dirty,
            item_last=last,
        )
    return found


def node_texts(tx: Tx, nodes: Collection[Node]) -> dict[int, str]:
    """Return the texts of nodes: their summaries, or for leaves without one the texts of their items."""
    found = derived.summaries(tx, [node.id for node in nodes])
    return found | leaf_texts(tx, [node for node in nodes if not node.level and node.id not in found])


def roots(tx: Tx, trees: Collection[int]) -> set[int]:
    """Return the ids of trees' root nodes."""
    return set(tx.column(f"SELECT root FROM tree WHERE root IS NOT NULL AND id {AMONG}", (tx.ids(trees),)))


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


def dirty_among(tx: Tx, nodes: Collection[int]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Return the level and the children of those of some nodes that are dirty."""
    rows = tx.execute(f"SELECT id, level, children FROM node WHERE dirty AND id {AMONG}", (tx.ids(nodes),))
    return {node: (level, unpack_ids(children)) for node, level, children in rows}


def dirty_trees(tx: Tx) -> dict[int, str]:
    """Return the trees that have dirty nodes, and the indexes that own them."""
    return tx.pairs("SELECT id, owner FROM tree WHERE id IN (SELECT tree FROM node WHERE dirty) ORDER BY id")


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
    inner = tx.pairs("SELECT +tree, count(*) FROM node WHERE level GROUP BY 1")
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


def drop_leaf_nodes(tx: Tx, nodes: Collection[int]) -> None:
    """Delete leaves that have summaries of their own, with all that is derived from them; their items may be gone already."""
    drop_leaves(tx, nodes)
    gone = [(node,) for node in nodes]
    tx.executemany("DELETE FROM node WHERE id = ?", gone)
    tx.executemany("DELETE FROM derived_node_vector WHERE item = ?", gone)


def mark_out_of_date(tx: Tx, nodes: Collection[int]) -> None:
    """Mark nodes dirty, with a new version; the caller marks the nodes above them."""
    tx.executemany(
        "UPDATE node SET dirty = 1, version = version + 1 WHERE id = ?", [(node,) for node in sorted(nodes)]
    )


def mark_up_to_date(tx: Tx, nodes: Collection[int]) -> None:
    """Mark nodes clean that need no summary."""
    tx.executemany("UPDATE node SET dirty = 0 WHERE id = ?", [(node,) for node in sorted(nodes)])


class LeafRow(NamedTuple):
    """A leaf, and the item that it stands for: one of the three."""

    row: int
    tree: int
    fact: int | None
    chunk: int | None
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
        """SELECT l.id, l.tree, l.fact, l.chunk, l.turn, l.last FROM leaf l
           JOIN tree t ON t.id = l.tree AND t.owner = ? ORDER BY l.tree, l.id""",
        (owner,),
    ):
        found.setdefault(row[1], []).append(LeafRow(*row))
    return found


_NODE = """id, tree, key_tie, children, level, key_ms, start_ms, end_ms, count, version, dirty,
    span_lo, span_hi, window, state"""


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
    inner = source.execute(
        f"SELECT {_NODE} FROM node WHERE tree {AMONG} ORDER BY id", (source.ids(tree),)
    ).fetchall()
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
        "INSERT INTO leaf (id, tree, fact, chunk, turn, last) VALUES (?, ?, ?, ?, ?, ?)",
        [(new[leaf.row], tree[leaf.tree], *leaf[2:]) for one in grafts for leaf in one.leaves],
    )
    moved = []
    for node, of, tie, children, *rest in inner:
        session, sign, place = tie.partition("\x1f")
        tie = f"{session_ids.get(session, session)}{sign}{place}"
        moved.append(
            (new[node], tree[of], tie, pack_ids([new[child] for child in unpack_ids(children)]), *rest)
        )
    tx.executemany(
        f"INSERT INTO node ({_NODE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        moved,
    )
    nodes = source.ids([row[0] for row in inner])
    rows = source.execute(
        f"SELECT node, text, maker, vector, inputs FROM derived_summary WHERE node {AMONG}", (nodes,)
    )
    tx.executemany(
        "INSERT INTO derived_summary VALUES (?, ?, ?, ?, ?)", [(new[row[0]], *row[1:]) for row in rows]
    )
    if vectors:
        rows = source.execute(
            f"SELECT item, digest, vector FROM derived_node_vector WHERE item {AMONG}", (nodes,)
        )
        tx.executemany(
            "INSERT INTO derived_node_vector VALUES (?, ?, ?)", [(new[row[0]], *row[1:]) for row in rows]
        )
