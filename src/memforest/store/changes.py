"""The change log: the rows written since a snapshot was made, from which it is brought up to date.

Triggers write it, so no write path can forget to, and a process of an older version that has the file open
keeps it too. A row says that a turn, fact, node, tree or entity is new, gone, or different in anything that a
snapshot holds: a fact also when an occurrence, mention, state or vector of it was. Only the newest rows are
kept; a reader further behind reads the memory anew.
"""

from __future__ import annotations

from typing import NamedTuple

from memforest.store.tx import Tx

KEPT = 8_192
"""Numbers of the log that are kept for each index of the memory: a few hundred turns' worth, beyond which reading all costs little more."""


class Changes(NamedTuple):
    """Row ids of what has changed, by kind."""

    turn: frozenset[int]
    fact: frozenset[int]
    node: frozenset[int]
    tree: frozenset[int]
    entity: frozenset[int]


def position(tx: Tx) -> int:
    """Return the number of the newest change, 0 when there was none."""
    return int(tx.execute("SELECT coalesce(max(seq), 0) FROM change").fetchone()[0])


def changes_since(tx: Tx, seq: int) -> Changes | None:
    """Return what has changed after change number `seq`; None when the log does not reach back that far."""
    oldest = tx.execute("SELECT min(seq) FROM change").fetchone()[0]
    if seq < 0 or seq > position(tx) or (oldest is not None and oldest > seq + 1):
        return None
    found: dict[str, set[int]] = {kind: set() for kind in Changes._fields}
    for kind, item in tx.execute("SELECT kind, item FROM change WHERE seq > ?", (seq,)):
        found[kind].add(item)
    return Changes(*(frozenset(found[kind]) for kind in Changes._fields))


def prune(tx: Tx, kept: int = KEPT) -> None:
    """Delete all but the newest rows; the newest stays always, so that numbers are never given again.

    Now and then the older notes of rows that have a newer one go too: half of the log. It reads all of it, so it is
    done at few of the writes.
    """
    newest = position(tx)
    indexes = tx.execute("SELECT count(*) FROM index_").fetchone()[0]
    tx.execute("DELETE FROM change WHERE seq <= ?", (newest - max(kept * max(indexes, 1), 1),))
    if newest % (KEPT // 2) < KEPT // 64:
        tx.execute("DELETE FROM change WHERE seq NOT IN (SELECT max(seq) FROM change GROUP BY kind, item)")


def forget(tx: Tx) -> None:
    """Forget what has changed, so that whoever has read the memory before reads all of it anew."""
    tx.execute("INSERT INTO change (kind, item) VALUES ('turn', 0), ('turn', 0)")  # the gap says: not known
    tx.execute("DELETE FROM change WHERE seq < (SELECT max(seq) FROM change)")
