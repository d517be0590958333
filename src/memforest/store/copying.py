"""Rows of one memory read for another one that is merged with it; ids of the source never get into that."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memforest.store.connections import AMONG, Tx
from memforest.store.facts import NewState


class MentionCopy(NamedTuple):
    """A mention as it is stored."""

    fact: int
    entity: int
    occurrence: int
    roles: int


def sessions_with_root(tx: Tx, root: str, first: str) -> dict[str, int]:
    """Return id -> row of the session with an id and of the sessions that merges named after it; `first` stands first."""
    return tx.pairs(
        """SELECT session_id, id FROM session WHERE session_id IN (?, ?)
           OR (session_id > ? AND session_id < ?) ORDER BY session_id != ?, session_id""",
        (root, first, f"{root}~", f"{root}~g", first),
    )


def occurrence_counts(tx: Tx, facts: Collection[int]) -> dict[int, int]:
    """Return how many occurrences facts have."""
    return tx.pairs(
        f"SELECT fact, count(*) FROM occurrence WHERE fact {AMONG} GROUP BY fact", (tx.ids(facts),)
    )


def mentions(tx: Tx, facts: Collection[int]) -> list[MentionCopy]:
    """Return the mentions of facts."""
    return tx.rows(
        MentionCopy,
        f"SELECT fact, entity, occurrence, roles FROM mention WHERE fact {AMONG} ORDER BY occurrence, entity",
        (tx.ids(facts),),
    )


def states(tx: Tx, occurrence_rows: Collection[int]) -> list[NewState]:
    """Return the states that occurrences tell, in the order in which they were written."""
    return tx.rows(
        NewState,
        f"""SELECT fact, occurrence, entity, attribute, value, previous, change, at_ms FROM state
            WHERE occurrence {AMONG} ORDER BY id""",
        (tx.ids(occurrence_rows),),
    )


def alias_uses(tx: Tx, occurrence_rows: Collection[int]) -> list[tuple[str, int, int]]:
    """Return (short name, entity, occurrence) of the short names by which occurrences call entities."""
    return tx.execute(
        f"SELECT key, entity, occurrence FROM alias_use WHERE occurrence {AMONG} ORDER BY key, occurrence",
        (tx.ids(occurrence_rows),),
    ).fetchall()
