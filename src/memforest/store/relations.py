"""Relations: what an occurrence of a fact says of two entities that it names. A relation goes with its occurrence.

They are observations; what the graph makes of them (edges with weights, intervals and evidence) is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memforest.store import meta
from memforest.store.dialect import AMONG
from memforest.store.facts import OccurrenceRef
from memforest.store.tx import Tx

STAMP = "graph_stamp"
"""The setting of the memory that triggers raise with every write of a relation, a name's use or a choice."""


class RelationRow(NamedTuple):
    """A relation that an occurrence of a fact tells, and when: `at_ms` is when the fact's stated time begins, else `said_ms`."""

    id: int
    fact: int
    occurrence: int
    source: int
    label: str
    target: int
    at_ms: int
    said_ms: int


_RELATION = """SELECT r.id, r.fact, r.occurrence, r.source, r.label, r.target, coalesce(f.start_ms, o.said_ms), o.said_ms
    FROM relation r JOIN occurrence o ON o.id = r.occurrence JOIN fact f ON f.id = r.fact"""


def add(tx: Tx, occurrence: OccurrenceRef, source: int, label: str, target: int) -> None:
    """Record that an occurrence of a fact tells a relation between two entities that it mentions.

    The same one told twice there is one; a relation of an entity to itself is none, and is not recorded.
    """
    if source != target:
        tx.execute(
            """INSERT INTO relation (fact, occurrence, source, label, target) VALUES (?, ?, ?, ?, ?)
               ON CONFLICT DO NOTHING""",
            (*occurrence, source, label, target),
        )


def drop(tx: Tx, rows: Collection[int]) -> None:
    """Delete relations."""
    tx.executemany("DELETE FROM relation WHERE id = ?", [(row,) for row in sorted(rows)])


def read(tx: Tx) -> list[RelationRow]:
    """Return all relations, by id."""
    return [RelationRow(*row) for row in tx.execute(f"{_RELATION} ORDER BY r.id")]


def of_facts(tx: Tx, facts: Collection[int]) -> list[RelationRow]:
    """Return the relations that facts tell, by id."""
    found = tx.execute(f"{_RELATION} WHERE r.fact {AMONG} ORDER BY r.id", (tx.ids(facts),))
    return [RelationRow(*row) for row in found]


def stamp(tx: Tx) -> int:
    """Return a number that is another one after every change of a relation, a name's use or a choice."""
    row = tx.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", (STAMP,)).fetchone()
    return 0 if row is None else int(row[0])


def has_changed(tx: Tx) -> None:
    """Move the stamp where rows were written past the triggers."""
    meta.put(tx, STAMP, str(stamp(tx) + 1))
