"""Counts of the rows that a deletion takes away, those that go with others included.

Triggers of the connection count, so that nothing that goes is missed: rows that go with a row they refer to, and trees
that an index edits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from memforest.store.tx import Tx

_PLAIN = (
    "session",
    "turn",
    "cell",
    "fact",
    "occurrence",
    "mention",
    "state",
    "relation",
    "name_use",
    "entity",
    "alias",
    "choice",
    "correction",
    "write_key",
    "job",
)
_PLACED = ("leaf", "node")
_VECTORS = ("derived_turn_vector", "derived_fact_vector", "derived_node_vector")


class Counts(NamedTuple):
    """What went since counting began: rows by table, and rows of trees by index and table."""

    rows: dict[str, int]
    indexes: dict[str, dict[str, int]]


def _count(kind: str, part: str, by: int = 1) -> str:
    return f"""INSERT INTO erased_count VALUES ('{kind}', {part}, {by})
        ON CONFLICT (kind, part) DO UPDATE SET n = n + excluded.n;"""


def _trigger(name: str, event: str, table: str, body: str) -> str:
    return f"CREATE TEMP TRIGGER erased_{name} {event} ON main.{table} BEGIN {body} END"


def _triggers() -> list[str]:
    made = []
    for table in (*_PLAIN, *_PLACED, "tree", *_VECTORS):
        part = {"leaf": "{}.tree", "node": "{}.tree", "tree": "{}.id"}.get(table, "0")
        made.append(_trigger(f"{table}_out", "AFTER DELETE", table, _count(table, part.format("old"))))
        if table not in _VECTORS:  # of vectors, those that went are counted; others may be made anew at once
            made.append(_trigger(f"{table}_in", "AFTER INSERT", table, _count(table, part.format("new"), -1)))
    made.append(
        _trigger(
            "owner", "BEFORE DELETE", "tree", "INSERT OR IGNORE INTO erased_owner VALUES (old.id, old.owner);"
        )
    )
    # A summary goes with its node, whose row is gone by then; or alone.
    summary = """INSERT INTO erased_count SELECT 'derived_summary', {tree}, 1 WHERE {where}
        ON CONFLICT (kind, part) DO UPDATE SET n = n + excluded.n;"""
    has = "EXISTS (SELECT 1 FROM derived_summary WHERE node = old.id)"
    made.append(_trigger("with_node", "BEFORE DELETE", "node", summary.format(tree="old.tree", where=has)))
    alone = "EXISTS (SELECT 1 FROM node WHERE id = old.node)"
    tree = "(SELECT tree FROM node WHERE id = old.node)"
    made.append(
        _trigger("summary", "AFTER DELETE", "derived_summary", summary.format(tree=tree, where=alone))
    )
    return made


_TRIGGERS = _triggers()
_DROPPED = [f"DROP TRIGGER {sql.split()[3]}" for sql in _TRIGGERS]


@contextmanager
def counting(tx: Tx) -> Iterator[Counts]:
    """Count the rows that go while the block runs, those that go with others included; filled at its end."""
    tx.execute(
        "CREATE TEMP TABLE erased_count (kind TEXT, part INTEGER, n INTEGER, PRIMARY KEY (kind, part))"
    )
    tx.execute("CREATE TEMP TABLE erased_owner (tree INTEGER PRIMARY KEY, owner TEXT)")
    for sql in _TRIGGERS:
        tx.execute(sql)
    counts = Counts({}, {})
    yield counts
    rows = tx.execute(
        """SELECT c.kind, coalesce(t.owner, o.owner), sum(c.n) FROM erased_count c LEFT JOIN tree t ON t.id = c.part
           LEFT JOIN erased_owner o ON o.tree = c.part GROUP BY 1, 2 ORDER BY 1, 2"""
    ).fetchall()
    for kind, owner, count in rows:
        counts.rows[kind] = counts.rows.get(kind, 0) + count
        if kind in ("tree", "derived_summary", *_PLACED):
            counts.indexes.setdefault(owner or "", {})[kind] = count
    for sql in (*_DROPPED, "DROP TABLE erased_count", "DROP TABLE erased_owner"):
        tx.execute(sql)


def table_counts(tx: Tx) -> dict[str, int]:
    """Return how many rows each table has that a receipt counts, in a file of any version."""
    there = {row[0] for row in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    wanted = (*_PLAIN, *_PLACED, "tree", "derived_summary", *_VECTORS)
    return {
        table: int(tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in wanted
        if table in there
    }


def owner_of(tx: Tx) -> str | None:
    """Return whose memory a file is, in any version; None when it was never begun."""
    if tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return None
    row = tx.execute("SELECT value FROM meta WHERE key = 'user_id'").fetchone()
    return None if row is None else str(row[0])
