"""What occurrences of facts say of entities beside naming them: how they spell names, short names, and relations.

A mention without a row of `name_use` spells the label, so most need none. An occurrence that spells a name in several ways
has a row of each, the label among them; so what is counted does not depend on which spelling came first and became the
label.

An alias is a short name by which occurrences call an entity; an unused one is deleted. Where occurrences mean two entities
by one alias, it stands for the one that was called so first, whichever session was stored first.

A relation goes with its occurrence. What the graph makes of relations (edges with weights, intervals and evidence) is kept
nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeAlias

from memforest.store import meta
from memforest.store.connections import AMONG, Tx

SPEAKS = 1
"""The bit of a mention's roles that names nobody: who speaks."""


Spelled: TypeAlias = tuple[int, int, int, str]
"""A name by which an occurrence of a fact calls an entity: (fact, occurrence, entity, name)."""


def add_names(tx: Tx, rows: Iterable[tuple[int, int, str]]) -> None:
    """Record how occurrences spell the names of entities: (occurrence, entity, name)."""
    tx.executemany("INSERT INTO name_use VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)


def uses(tx: Tx) -> list[Spelled]:
    """Return every name that an occurrence has a row of, by occurrence, entity and name."""
    return tx.execute("""SELECT o.fact, n.occurrence, n.entity, n.name FROM name_use n JOIN occurrence o ON o.id = n.occurrence
           ORDER BY n.occurrence, n.entity, n.name""").fetchall()


def spelled(tx: Tx, entities: Collection[int]) -> list[Spelled]:
    """Return every name by which an occurrence calls some entities, labels among them, by entity, fact and occurrence."""
    return tx.execute(
        f"""SELECT m.fact, m.occurrence, m.entity, coalesce(n.name, e.label) FROM mention m JOIN entity e ON e.id = m.entity
            LEFT JOIN name_use n ON n.occurrence = m.occurrence AND n.entity = m.entity
            WHERE m.roles != {SPEAKS} AND m.entity {AMONG} ORDER BY m.entity, m.fact, m.occurrence, 4""",
        (tx.ids(entities),),
    ).fetchall()


def named_apart(tx: Tx) -> list[tuple[int, int, int]]:
    """Return (fact, occurrence, entity) of every mention by the facts that have several occurrences, in this order."""
    return tx.execute(
        """SELECT fact, occurrence, entity FROM mention
           WHERE fact IN (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1) ORDER BY 1, 2, 3"""
    ).fetchall()


def of_occurrences(tx: Tx, occurrences: Collection[int]) -> list[tuple[int, int, str]]:
    """Return (occurrence, entity, name) of the names that occurrences have a row of, in order."""
    return tx.execute(
        f"SELECT occurrence, entity, name FROM name_use WHERE occurrence {AMONG} ORDER BY occurrence, entity, name",
        (tx.ids(occurrences),),
    ).fetchall()


_USED = """SELECT u.entity FROM alias_use u JOIN occurrence o ON o.id = u.occurrence
    JOIN fact f ON f.id = o.fact JOIN entity e ON e.id = u.entity WHERE u.key = {key} ORDER BY o.said_ms, coalesce(o.tie, f.tie), e.key LIMIT 1"""


def use_aliases(tx: Tx, rows: Collection[tuple[str, int, int]]) -> None:
    """Record that occurrences call entities by aliases: (alias, entity, occurrence)."""
    tx.executemany("INSERT INTO alias_use VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
    resolve_aliases(tx, {key for key, _, _ in rows})


def resolve_aliases(tx: Tx, keys: Collection[str]) -> None:
    """Set the entity of each alias from its uses, after some were added or deleted."""
    for key in sorted(keys):
        had = tx.execute("SELECT entity FROM alias WHERE key = ?", (key,)).fetchone()
        now = tx.execute(_USED.format(key="?"), (key,)).fetchone()
        if had == now:
            continue
        tx.execute("DELETE FROM alias WHERE key = ?", (key,))
        if now is not None:
            tx.execute("INSERT INTO alias VALUES (?, ?)", (key, now[0]))


def wrong_aliases(tx: Tx) -> list[tuple[str, str]]:
    """Return (alias, problem) of aliases that contradict their uses."""
    told = "stands for another entity than whom it is used for, or is used by nothing"
    rows = tx.execute(f"SELECT a.key FROM alias a WHERE a.entity IS NOT ({_USED.format(key='a.key')})")
    found = [(row[0], told) for row in rows]
    rows = tx.execute("SELECT DISTINCT key FROM alias_use WHERE key NOT IN (SELECT key FROM alias)")
    found += [(row[0], "is used, and is not there") for row in rows]
    rows = tx.execute(
        """SELECT DISTINCT u.key FROM alias_use u WHERE NOT EXISTS
           (SELECT 1 FROM occurrence o JOIN mention m ON m.fact = o.fact AND m.entity = u.entity AND m.occurrence = o.id
            WHERE o.id = u.occurrence)"""
    )
    return found + [(row[0], "is used by an occurrence that does not mention the entity") for row in rows]


STAMP = "graph_stamp"
"""The setting of the memory that triggers raise with every write of a relation, a name's use or a choice."""


class RelationRow(NamedTuple):
    """A relation that an occurrence of a fact states; `at_ms` is the start of the fact's stated time, else `said_ms`."""

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


def add_relations(tx: Tx, rows: Iterable[tuple[int, int, int, str, int]]) -> None:
    """Store relations that occurrences of facts state: (fact, occurrence, source, label, target).

    A repeated relation of one occurrence is stored once; a relation of an entity to itself is not stored.
    """
    tx.executemany(
        """INSERT INTO relation (fact, occurrence, source, label, target) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT DO NOTHING""",
        [row for row in rows if row[2] != row[4]],
    )


def drop(tx: Tx, rows: Collection[int]) -> None:
    """Delete relations."""
    tx.executemany("DELETE FROM relation WHERE id = ?", [(row,) for row in sorted(rows)])


def count_relations(tx: Tx) -> int:
    """Return how many relations are stated, each counted once however often it is."""
    (found,) = tx.execute(
        "SELECT count(*) FROM (SELECT DISTINCT source, label, target FROM relation)"
    ).fetchone()
    return int(found)


def read_relations(tx: Tx) -> list[RelationRow]:
    """Return all relations, by id."""
    return tx.rows(RelationRow, f"{_RELATION} ORDER BY r.id")


def of_facts(tx: Tx, facts: Collection[int]) -> list[RelationRow]:
    """Return the relations of facts, by id."""
    return tx.rows(RelationRow, f"{_RELATION} WHERE r.fact {AMONG} ORDER BY r.id", (tx.ids(facts),))


def stamp(tx: Tx) -> int:
    """Return a number that is another one after every change of a relation, a name's use or a choice."""
    row = tx.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", (STAMP,)).fetchone()
    return 0 if row is None else int(row[0])


def has_changed(tx: Tx) -> None:
    """Raise the stamp after rows were written past the triggers."""
    meta.put(tx, STAMP, str(stamp(tx) + 1))
