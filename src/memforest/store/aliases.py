"""Aliases: short names by which occurrences call an entity. An unused alias is deleted.

Where occurrences mean two entities by one alias, it stands for the one that was called so first, whichever
session was stored first.
"""

from __future__ import annotations

from collections.abc import Collection

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

_USED = """SELECT u.entity FROM alias_use u JOIN occurrence o ON o.id = u.occurrence
    JOIN fact f ON f.id = o.fact JOIN entity e ON e.id = u.entity WHERE u.key = {key} ORDER BY o.said_ms, coalesce(o.tie, f.tie), e.key LIMIT 1"""


def use_alias(tx: Tx, key: str, entity: int, occurrence: int) -> None:
    """Record that an occurrence calls an entity by an alias."""
    tx.execute("INSERT INTO alias_use VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, entity, occurrence))
    resolve_aliases(tx, (key,))


def aliases_of_cell(tx: Tx, cell: int) -> set[str]:
    """Return the aliases that the occurrences of a cell use."""
    rows = tx.execute(
        "SELECT DISTINCT u.key FROM alias_use u JOIN occurrence o ON o.id = u.occurrence WHERE o.cell = ?",
        (cell,),
    )
    return {row[0] for row in rows}


def aliases_of_occurrences(tx: Tx, occurrences: Collection[int]) -> set[str]:
    """Return the aliases that occurrences use."""
    rows = tx.execute(f"SELECT DISTINCT key FROM alias_use WHERE occurrence {AMONG}", (tx.ids(occurrences),))
    return {row[0] for row in rows}


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
    """Return (alias, what is wrong) of aliases whose entity is not the one that their uses give."""
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
