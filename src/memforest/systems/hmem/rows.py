"""The table of the index: every node with the window in which it joins others, what it joined, and its state.

A node is known by its founder: the item, fact or turn, that began it; an event by its own; a root has none. `said_ms` and `tie`
are those of the founder, and order the nodes of a window; a root has 0 and "". `within` is the key of the window of the parent's size, of the memory of a year and of
a root that of the year. `likeness` is how like its cluster a node was when it joined; None of one that began it. `r_ms` is when
it was last consolidated, and `n` how often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx
from memforest.systems.hmem.levels import EVENT, ROOT

_COLUMNS = (
    "i.node, i.level, i.founder, i.parent, i.within, i.said_ms, i.tie, i.likeness,"
    " i.start_ms, i.end_ms, i.leaves, i.r_ms, i.n"
)


def make_tables(tx: Tx) -> None:
    """Make the tables of the index."""
    for statement in (
        """CREATE TABLE ix_hmem_node (
            node INTEGER PRIMARY KEY,
            level INTEGER NOT NULL,
            founder INTEGER,
            parent INTEGER,
            within TEXT NOT NULL,
            said_ms INTEGER NOT NULL,
            tie TEXT NOT NULL,
            likeness REAL,
            start_ms INTEGER NOT NULL,
            end_ms INTEGER NOT NULL,
            leaves INTEGER NOT NULL,
            r_ms INTEGER NOT NULL,
            n INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX ix_hmem_node_within ON ix_hmem_node (level, within, said_ms, tie)",
        "CREATE UNIQUE INDEX ix_hmem_node_founder ON ix_hmem_node (founder, level)",
        "CREATE INDEX ix_hmem_node_parent ON ix_hmem_node (parent, said_ms, tie)",
    ):
        tx.execute(statement)


class Row(NamedTuple):
    """A node as it is stored."""

    node: int
    level: int
    founder: int | None
    parent: int | None
    within: str
    said_ms: int
    tie: str
    likeness: float | None
    start_ms: int
    end_ms: int
    leaves: int
    r_ms: int
    n: int

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands among the nodes of its window."""
        return self.said_ms, self.tie


def _read(tx: Tx, condition: str, args: Sequence[object]) -> list[Row]:
    return [
        Row(*row) for row in tx.execute(f"SELECT {_COLUMNS} FROM ix_hmem_node i {condition}", tuple(args))
    ]


def by_node(tx: Tx, nodes: Collection[int]) -> dict[int, Row]:
    """Return the rows of nodes."""
    return {row.node: row for row in _read(tx, f"WHERE i.node {AMONG}", (tx.ids(nodes),))}


def by_founder(tx: Tx, level: int, founders: Collection[int]) -> dict[int, Row]:
    """Return the nodes of a level by their founders."""
    found = _read(tx, f"WHERE i.founder {AMONG} AND i.level = ?", (tx.ids(founders), level))
    return {row.founder: row for row in found if row.founder is not None}


def behind(tx: Tx, level: int, within: str, place: tuple[int, str]) -> list[Row]:
    """Return the nodes of a level in a window from a place on, in order."""
    return _read(
        tx,
        "WHERE i.level = ? AND i.within = ? AND (i.said_ms, i.tie) >= (?, ?) ORDER BY i.said_ms, i.tie",
        (level, within, *place),
    )


def before(tx: Tx, level: int, within: str, place: tuple[int, str], most: int) -> list[Row]:
    """Return the last nodes of a level in a window before a place, in order."""
    found = _read(
        tx,
        """WHERE i.level = ? AND i.within = ? AND (i.said_ms, i.tie) < (?, ?)
           ORDER BY i.said_ms DESC, i.tie DESC LIMIT ?""",
        (level, within, *place, most),
    )
    return found[::-1]


def not_under(tx: Tx, level: int, within: str, parent: int | None) -> list[Row]:
    """Return the nodes of a level in a window that are not under a node, in order; all of them where there is none."""
    return _read(
        tx,
        "WHERE i.level = ? AND i.within = ? AND (? IS NULL OR i.parent IS NOT ?) ORDER BY i.said_ms, i.tie",
        (level, within, parent, parent),
    )


def founders_of(tx: Tx, nodes: Collection[int]) -> dict[int, int]:
    """Return the founders of nodes."""
    found = tx.execute(
        f"SELECT node, founder FROM ix_hmem_node WHERE node {AMONG} AND founder IS NOT NULL", (tx.ids(nodes),)
    )
    return dict(found.fetchall())


def above(tx: Tx, nodes: Collection[int]) -> list[Row]:
    """Return the nodes above some nodes, up to the roots, each once, the lowest level first."""
    return _read(
        tx,
        f"""WHERE i.node IN (WITH RECURSIVE up(node) AS (
                SELECT parent FROM ix_hmem_node WHERE node {AMONG}
                UNION SELECT a.parent FROM up JOIN ix_hmem_node a ON a.node = up.node)
            SELECT node FROM up) ORDER BY i.level, i.said_ms, i.tie""",
        (tx.ids(nodes),),
    )


def root_of(tx: Tx, year: str) -> Row | None:
    """Return the root of a year."""
    found = _read(tx, "WHERE i.level = ? AND i.within = ?", (ROOT, year))
    return found[0] if found else None


def windows_of(tx: Tx, level: int) -> list[str]:
    """Return the keys of the windows of a level in which there are nodes, in order."""
    return [
        row[0]
        for row in tx.execute(
            "SELECT DISTINCT within FROM ix_hmem_node WHERE level = ? ORDER BY within", (level,)
        )
    ]


def first_said(tx: Tx) -> int | None:
    """Return when the first event was told, UTC ms; None without any."""
    found = tx.execute(
        "SELECT said_ms FROM ix_hmem_node WHERE level = ? ORDER BY within, said_ms, tie LIMIT 1", (EVENT,)
    ).fetchone()
    return None if found is None else int(found[0])


def level_sizes(tx: Tx) -> Mapping[int, int]:
    """Return how many nodes each level has."""
    return dict(tx.execute("SELECT level, count(*) FROM ix_hmem_node GROUP BY level").fetchall())


def around(tx: Tx) -> dict[str, int]:
    """Return how many turns there are, on which events rest, how many entities, and how many relations between these.

    Entities are counted as they are stored, before names are resolved, and relations as they were told, states left out.
    """
    found = tx.execute(
        """SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM entity),
           (SELECT count(*) FROM (SELECT DISTINCT source, label, target FROM relation))"""
    ).fetchone()
    return dict(zip(("fragments", "entities", "edges"), found, strict=True))


def names(tx: Tx, nodes: Collection[int]) -> list[tuple[int, int, int, str | None]]:
    """Return id, level, times consolidated and calendar window of inner nodes."""
    found = tx.execute(
        f"""SELECT i.node, i.level, i.n, m.window FROM ix_hmem_node i JOIN node m ON m.id = i.node
            WHERE i.node {AMONG} AND i.level > {EVENT}""",
        (tx.ids(nodes),),
    )
    return [(row[0], row[1], row[2], row[3]) for row in found]


def everything(tx: Tx) -> list[Row]:
    """Return all nodes, the lowest level first, in order."""
    return _read(tx, "ORDER BY i.level, i.within, i.said_ms, i.tie", ())
