"""The leaves of trees: the fact, chunk or run of turns that each stands for.

Where in time that is is read from what they stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memforest.store.dialect import AMONG, AMONG_IDS, place_tie
from memforest.store.digests import damaged_turns
from memforest.store.packing import unpack_ids
from memforest.store.snapshot import muted_turns
from memforest.store.tx import Tx
from memforest.tree import Node, TreeHead

QUOTED_MAKERS = ("local-", "verbatim")
"""Beginnings of the names of what makes facts by rule: people are shown what was said, not the statement."""

_START = "coalesce(f.start_ms, f.said_ms)"

_LEAVES = f"""
    SELECT l.id, l.tree, {_START}, f.tie, CASE WHEN f.start_ms IS NULL OR f.end_ms IS NULL THEN {_START} + 1
        ELSE max(f.end_ms, f.start_ms + 1) END, 'fact', f.id, NULL
    FROM leaf l JOIN fact f ON f.id = l.fact WHERE l.id {AMONG_IDS}
    UNION ALL
    SELECT l.id, l.tree, a.said_ms, {place_tie("s.session_id", "c.ordinal")},
        max(a.said_ms, b.said_ms) + 1, 'cell', c.id, NULL
    FROM leaf l JOIN cell c ON c.id = l.cell JOIN session s ON s.id = c.session
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

_COLUMN = {"fact": "fact", "cell": "cell", "turn": "turn"}
"""Item kind -> the column of `leaf` that has the item."""


def leaves_with_ids(tx: Tx, ids: Collection[int]) -> dict[int, Node]:
    """Return leaves by id, without those whose item does not exist."""
    found = {}
    for leaf, tree, start, tie, end, kind, item, last in tx.execute(_LEAVES, {"ids": tx.ids(ids)}):
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
            version=1,
            dirty=False,  # unless it has a summary of its own (`memforest.store.trees`)
            item_last=last,
        )
    return found


def put_leaf(tx: Tx, leaf: Node) -> None:
    """Store which item a leaf stands for; its time is that of the item."""
    tx.execute(
        f"INSERT INTO leaf (id, tree, {_COLUMN[leaf.item_kind or '']}, last) VALUES (?, ?, ?, ?)",
        (leaf.id, leaf.tree, leaf.item, leaf.item_last),
    )


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
    SELECT l.id, t.id, t.speaker || ': ' || t.text, t.ordinal FROM leaf l JOIN cell c ON c.id = l.cell
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
    LEFT JOIN cell c ON c.id = o.cell
    LEFT JOIN turn t ON t.id = (SELECT max(x.turn) FROM occurrence_turn x WHERE x.occurrence = o.id)
    WHERE l.id {AMONG}"""
"""Leaves of facts with the occurrence that the fact has its wording from; its quote, and the turn that it is of."""


def leaf_texts(tx: Tx, found: Iterable[Node]) -> dict[int, str]:
    """Return what leaves say, by their ids: of a fact what was said; of a chunk or a run its turns; each line with the speaker.

    A fact that a model worded, or any extractor but the local rules, or a correction, is told in its own words. A fact that is
    hidden has no text. Turns are told as `told_lines` has them.
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
    """Return what may be told of turns: the line of each, by row id, as it was said.

    In the place of a damaged turn there is a line that says so; in that of a turn that says what is hidden are the facts that
    it supports and that are not.
    """
    if not said:
        return {}
    damaged, shown = damaged_turns(tx, said.keys()), _shown_of_muted(tx, said.keys())
    return {
        turn: [f"[{damaged[turn].name} is damaged]"] if turn in damaged else shown.get(turn, [line])
        for turn, line in said.items()
    }


def _shown_of_muted(tx: Tx, turns: Collection[int]) -> dict[int, list[str]]:
    """Return, for those of some turns that are muted, the facts that they support and that are not hidden, in order."""
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
