"""Column reads of a whole memory, for the arrays that a query works on."""

from __future__ import annotations

from typing import NamedTuple

from memforest.store.db import Tx
from memforest.store.packing import unpack_ids

__all__ = [
    "EntityName",
    "FactColumns",
    "NodeRow",
    "StateSeen",
    "TreeRow",
    "TurnRow",
    "cell_spans",
    "entity_names",
    "fact_rows",
    "mentions",
    "names",
    "node_rows",
    "states_of",
    "states_seen",
    "supports",
    "tree_rows",
    "turn_rows",
]


class TurnRow(NamedTuple):
    """A turn; rows come ordered by the session's first time, its id, and position."""

    id: int
    session: int
    speaker: str
    said_ms: int
    text: str


class FactColumns(NamedTuple):
    """A fact; `speaker` is the entity row of whoever said it first, 0 when there is none."""

    id: int
    speaker: int
    start_ms: int | None
    end_ms: int | None
    said_ms: int


class StateSeen(NamedTuple):
    """One observation of a state: an occurrence of a fact that asserts it."""

    entity: int
    attribute: str
    value: str
    previous: str | None
    change: str
    fact: int
    at_ms: int
    tie: str


class EntityName(NamedTuple):
    """An entity's names."""

    key: str
    label: str
    kind: str


class TreeRow(NamedTuple):
    """A tree's head."""

    id: int
    kind: str
    scope: int
    root: int | None


class NodeRow(NamedTuple):
    """A node's shape."""

    id: int
    tree: int
    level: int
    children: tuple[int, ...]
    item_kind: str | None
    item: int


def turn_rows(tx: Tx) -> list[TurnRow]:
    """Return all turns."""
    rows = tx.execute(
        """SELECT t.id, t.session, t.speaker, t.said_ms, t.text FROM turn t
           JOIN (SELECT s.id, s.session_id, min(u.said_ms) AS first FROM session s
                 JOIN turn u ON u.session = s.id GROUP BY s.id) s ON s.id = t.session
           ORDER BY s.first, s.session_id, t.ordinal"""
    )
    return [TurnRow(*row) for row in rows]


def fact_rows(tx: Tx) -> list[FactColumns]:
    """Return all facts, by id."""
    rows = tx.execute(
        """SELECT f.id, coalesce((SELECT m.entity FROM mention m JOIN entity e ON e.id = m.entity
                WHERE m.fact = f.id AND e.kind = 'participant' AND e.label = f.speaker LIMIT 1), 0),
           f.start_ms, f.end_ms, f.said_ms FROM fact f ORDER BY f.id"""
    )
    return [FactColumns(*row) for row in rows]


def supports(tx: Tx) -> list[tuple[int, int]]:
    """Return distinct (fact, turn) pairs."""
    rows = tx.execute(
        """SELECT DISTINCT o.fact, x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
           ORDER BY 1, 2"""
    )
    return [(row[0], row[1]) for row in rows]


def mentions(tx: Tx) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs."""
    rows = tx.execute("SELECT DISTINCT fact, entity FROM mention ORDER BY 1, 2")
    return [(row[0], row[1]) for row in rows]


_STATES = """SELECT s.entity, s.attribute, s.value, s.previous, s.change, s.fact,
    coalesce(f.start_ms, o.said_ms), o.tie
    FROM state s JOIN fact f ON f.id = s.fact JOIN occurrence o ON o.id = s.occurrence"""


def states_seen(tx: Tx) -> list[StateSeen]:
    """Return every observation of a state: dated by the fact itself, else by each time it was said."""
    return [StateSeen(*row) for row in tx.execute(f"{_STATES} ORDER BY s.entity, s.attribute, 7, 8")]


def states_of(tx: Tx, entity: int, attribute: str) -> list[StateSeen]:
    """Return the observations of one attribute of one entity."""
    rows = tx.execute(f"{_STATES} WHERE s.entity = ? AND s.attribute = ? ORDER BY 7, 8", (entity, attribute))
    return [StateSeen(*row) for row in rows]


def entity_names(tx: Tx) -> dict[int, EntityName]:
    """Return every entity's names by row id."""
    return {
        row[0]: EntityName(*row[1:])
        for row in tx.execute("SELECT id, key, label, kind FROM entity ORDER BY id")
    }


def names(tx: Tx) -> list[tuple[str, int]]:
    """Return every key and alias with its entity's row id."""
    rows = tx.execute("SELECT key, id FROM entity UNION ALL SELECT key, entity FROM alias ORDER BY 1")
    return [(row[0], row[1]) for row in rows]


def tree_rows(tx: Tx) -> list[TreeRow]:
    """Return the head of every tree, by id."""
    return [TreeRow(*row) for row in tx.execute("SELECT id, kind, scope, root FROM tree ORDER BY id")]


def node_rows(tx: Tx) -> list[NodeRow]:
    """Return the shape of every node, by id."""
    found = []
    for node, tree, level, children, item_kind, item in tx.execute(
        "SELECT id, tree, level, children, item_kind, item FROM node ORDER BY id"
    ):
        found.append(NodeRow(node, tree, level, unpack_ids(children), item_kind, item or 0))
    return found


def cell_spans(tx: Tx) -> dict[int, tuple[int, int]]:
    """Return each cell's first and last turn by row id."""
    rows = tx.execute(
        """SELECT c.id, a.id, b.id FROM cell c JOIN turn a ON a.session = c.session AND a.ordinal = c.first
           JOIN turn b ON b.session = c.session AND b.ordinal = c.last"""
    )
    return {row[0]: (row[1], row[2]) for row in rows}
