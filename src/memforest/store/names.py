"""Names as they were spelled: how occurrences of facts call an entity, where that is not by its label alone.

A mention without a row here spells the label, so most need none. An occurrence that spells a name in several ways has a
row of each, the label among them; so what is counted does not depend on which spelling came first and became the label.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

SPEAKS = 1
"""The bit of a mention's roles that names nobody: who speaks."""


class NameUse(NamedTuple):
    """A name by which an occurrence calls an entity."""

    occurrence: int
    entity: int
    name: str


class Spelled(NamedTuple):
    """A name by which an occurrence of a fact calls an entity."""

    fact: int
    occurrence: int
    entity: int
    name: str


def add(tx: Tx, occurrence: int, entity: int, spelled: Collection[str], label: str) -> None:
    """Record how an occurrence spells the name of an entity; of its label alone nothing is recorded."""
    if set(spelled) <= {label}:
        return
    tx.executemany(
        "INSERT INTO name_use VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(occurrence, entity, name) for name in sorted(spelled)],
    )


def counts(tx: Tx, entities: Collection[int] | None = None) -> dict[int, dict[str, int]]:
    """Return entity -> name -> in how many occurrences it is spelled so, of all names but the label.

    The label has the rest of what `mentions_named` counts.

    Args:
        tx: a transaction.
        entities: whose names; None for those of all.
    """
    of, args = _of("n.entity", tx, entities)
    rows = tx.execute(
        f"""SELECT n.entity, n.name, count(*) FROM name_use n JOIN entity e ON e.id = n.entity
            WHERE n.name != e.label {of} GROUP BY n.entity, n.name ORDER BY n.entity, n.name""",
        args,
    )
    found: dict[int, dict[str, int]] = {}
    for entity, name, count in rows:
        found.setdefault(entity, {})[name] = count
    return found


def mentions_named(tx: Tx, entities: Collection[int] | None = None) -> dict[int, int]:
    """Return entity -> how often occurrences spell a name of it: once each, or once for every spelling that one has.

    Who only speaks there is not named. What `counts` does not have of it is spelled as the label.
    """
    of, args = _of("m.entity", tx, entities)
    found: dict[int, int] = dict(
        tx.execute(
            f"""SELECT m.entity, count(*) FROM mention m WHERE (m.roles != {SPEAKS} OR EXISTS (SELECT 1 FROM name_use n
                WHERE n.occurrence = m.occurrence AND n.entity = m.entity)) {of} GROUP BY m.entity""",
            args,
        ).fetchall()
    )
    of, args = _of("n.entity", tx, entities)
    several = tx.execute(
        f"""SELECT n.entity, count(*) - count(DISTINCT n.occurrence) FROM name_use n WHERE 1 {of} GROUP BY n.entity""",
        args,
    )
    for entity, more in several:
        found[entity] = found.get(entity, 0) + more
    return found


def uses(tx: Tx) -> list[Spelled]:
    """Return every name that an occurrence has a row of, by occurrence, entity and name."""
    rows = tx.execute(
        """SELECT o.fact, n.occurrence, n.entity, n.name FROM name_use n JOIN occurrence o ON o.id = n.occurrence
           ORDER BY n.occurrence, n.entity, n.name"""
    )
    return [Spelled(*row) for row in rows]


def spelled(tx: Tx, entities: Collection[int]) -> list[Spelled]:
    """Return every name by which an occurrence calls some entities, labels among them, by entity, fact and occurrence."""
    rows = tx.execute(
        f"""SELECT m.fact, m.occurrence, m.entity, coalesce(n.name, e.label) FROM mention m JOIN entity e ON e.id = m.entity
            LEFT JOIN name_use n ON n.occurrence = m.occurrence AND n.entity = m.entity
            WHERE m.roles != {SPEAKS} AND m.entity {AMONG} ORDER BY m.entity, m.fact, m.occurrence, 4""",
        (tx.ids(entities),),
    )
    return [Spelled(*row) for row in rows]


def named_apart(tx: Tx) -> list[tuple[int, int, int]]:
    """Return (fact, occurrence, entity) of every mention by the facts that have several occurrences, in this order."""
    return tx.execute(
        """SELECT fact, occurrence, entity FROM mention
           WHERE fact IN (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1) ORDER BY 1, 2, 3"""
    ).fetchall()


def of_occurrences(tx: Tx, occurrences: Collection[int]) -> list[NameUse]:
    """Return the rows of occurrences, in order."""
    rows = tx.execute(
        f"SELECT occurrence, entity, name FROM name_use WHERE occurrence {AMONG} ORDER BY occurrence, entity, name",
        (tx.ids(occurrences),),
    )
    return [NameUse(*row) for row in rows]


def _of(column: str, tx: Tx, entities: Collection[int] | None) -> tuple[str, tuple[object, ...]]:
    return ("", ()) if entities is None else (f"AND {column} {AMONG}", (tx.ids(entities),))
