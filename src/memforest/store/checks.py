"""What SQL alone can tell of a memory's consistency."""

from __future__ import annotations

import numpy as np

from memforest.store import meta
from memforest.store.db import Tx

__all__ = [
    "all_placements",
    "fact_texts",
    "file_problems",
    "session_problems",
    "state_problems",
    "summary_texts",
    "turn_texts",
    "unplaced_items",
    "vector_digests",
    "vector_problems",
    "word_problems",
]


def file_problems(tx: Tx) -> list[str]:
    """Return what SQLite's own checks find: the b-trees, and rows that point at nothing."""
    problems = [row[0] for row in tx.execute("PRAGMA integrity_check") if row[0] != "ok"]
    return problems + [
        f"{row[0]} {row[1]} points at no {row[2]}" for row in tx.execute("PRAGMA foreign_key_check")
    ]


def session_problems(tx: Tx) -> list[str]:
    """Return sessions with gaps in their turns, or whose cells do not cover them exactly."""
    rows = tx.execute(
        """SELECT s.session_id, (SELECT count(*) FROM turn t WHERE t.session = s.id),
                  (SELECT max(ordinal) + 1 FROM turn t WHERE t.session = s.id),
                  (SELECT sum(last - first + 1) FROM cell c WHERE c.session = s.id)
           FROM session s"""
    )
    return [
        f"session {name!r}: {turns} turns, numbered to {top}, in cells of {covered}"
        for name, turns, top, covered in rows
        if not turns == top == covered
    ]


def all_placements(tx: Tx) -> dict[int, tuple[str, int, int]]:
    """Return leaf -> (item kind, item, tree) of every placement."""
    return {
        row[0]: (row[1], row[2], row[3])
        for row in tx.execute("SELECT leaf, item_kind, item, tree FROM placement")
    }


def unplaced_items(tx: Tx) -> list[str]:
    """Return finished cells without a leaf, and facts missing in the tree of an active entity they name."""
    cells = tx.execute(
        """SELECT c.id FROM cell c WHERE c.status != 'pending' AND NOT EXISTS
           (SELECT 1 FROM placement p WHERE p.item_kind = 'cell' AND p.item = c.id)"""
    )
    facts = tx.execute(
        """SELECT DISTINCT m.fact, e.label FROM mention m JOIN entity e ON e.id = m.entity AND e.active
           WHERE NOT EXISTS (SELECT 1 FROM placement p JOIN tree t ON t.id = p.tree
                WHERE p.item_kind = 'fact' AND p.item = m.fact AND t.kind = 'entity' AND t.scope = e.id)"""
    )
    return [f"cell {row[0]} has no leaf" for row in cells] + [
        f"fact {row[0]} is not in the tree of {row[1]!r}" for row in facts
    ]


def state_problems(tx: Tx) -> list[str]:
    """Return the states that do not stand at the time of their fact, or of the occurrence when that states none."""
    rows = tx.execute(
        """SELECT f.fact_id, s.attribute FROM state s JOIN fact f ON f.id = s.fact
           JOIN occurrence o ON o.id = s.occurrence WHERE s.at_ms != coalesce(f.start_ms, o.said_ms)"""
    )
    return [f"{row[0]}: the state of {row[1]!r} does not stand at the fact's time" for row in rows]


def turn_texts(tx: Tx) -> list[tuple[int, str, str]]:
    """Return (row, speaker, text) of every turn."""
    return [(row[0], row[1], row[2]) for row in tx.execute("SELECT id, speaker, text FROM turn")]


def fact_texts(tx: Tx) -> list[tuple[int, str]]:
    """Return (row, text) of every fact."""
    return [(row[0], row[1]) for row in tx.execute("SELECT id, text FROM fact")]


def summary_texts(tx: Tx) -> list[tuple[int, str]]:
    """Return (node, text) of every summary."""
    return [(row[0], row[1]) for row in tx.execute("SELECT node, text FROM derived_summary")]


def vector_digests(tx: Tx) -> list[tuple[str, int, bytes]]:
    """Return (kind, item, digest of the text) of every vector."""
    return [(row[0], row[1], row[2]) for row in tx.execute("SELECT kind, item, digest FROM derived_vector")]


def vector_problems(tx: Tx) -> list[tuple[str, int, str]]:
    """Return (kind, item, what is wrong) of vectors that are of another model, another length, or not of unit length."""
    model = meta.get(tx, "embedder")
    problems: list[tuple[str, int, str]] = []
    for kind, item, made_by, dimension, blob in tx.execute(
        "SELECT kind, item, model, dimension, vector FROM derived_vector"
    ):
        if made_by != model:
            problems.append((kind, item, f"was made by {made_by!r}, not {model!r}"))
        elif len(blob) != 4 * dimension:
            problems.append((kind, item, f"has {len(blob)} bytes for dimension {dimension}"))
        elif abs(float(np.linalg.norm(np.frombuffer(blob, dtype="<f4"))) - 1) > 1e-3:
            problems.append((kind, item, "is not of unit length"))
    return problems


def word_problems(tx: Tx) -> list[str]:
    """Return turns and facts that the lexical index does not have, and rows of it that stand for nothing."""
    problems = []
    for kind, table, words in (
        ("turn", "turn", "derived_turn_words"),
        ("fact", "fact", "derived_fact_words"),
    ):
        missing = tx.execute(f"SELECT id FROM {table} EXCEPT SELECT rowid FROM {words}").fetchall()
        stray = tx.execute(f"SELECT rowid FROM {words} EXCEPT SELECT id FROM {table}").fetchall()
        problems += [f"{kind} {row[0]} is not in the lexical index" for row in missing]
        problems += [f"the lexical index has a {kind} {row[0]} that does not exist" for row in stray]
    return problems
