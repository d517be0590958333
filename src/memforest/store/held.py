"""What a memory did not hold yet at an earlier moment, read by index: turns, occurrences, states, verdicts, deletions.

A turn is held from when it was stored; an occurrence from when it, its fact and all of its turns were. What was deleted
since is not there to be read: `deleted_since` counts it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

__all__ = [
    "Deleted",
    "deleted_since",
    "facts_beside",
    "hidden_facts",
    "later_occurrences",
    "later_turns",
    "mentions_without",
    "states_of",
    "supports_without",
]


class Deleted(NamedTuple):
    """How many turns and facts that were held at a moment have been deleted since."""

    turns: int
    facts: int


def later_turns(tx: Tx, known_ms: int) -> list[int]:
    """Return the turns that were stored after a moment."""
    return [row for (row,) in tx.execute("SELECT id FROM turn WHERE stored_ms > ?", (known_ms,))]


def later_occurrences(tx: Tx, known_ms: int | None, turns: Collection[int]) -> list[tuple[int, int]]:
    """Return (occurrence, fact) of what is not held: stored after a moment, or told by some turns that are not held.

    What a correction has put in the place of a statement was stored with the correction.

    Args:
        tx: a read transaction.
        known_ms: the moment, UTC ms; None leaves out nothing by stored time.
        turns: row ids of the turns that are not held.
    """
    found = tx.execute(
        f"""SELECT o.id, o.fact FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence WHERE x.turn {AMONG}""",
        (tx.ids(turns),),
    ).fetchall()
    if known_ms is not None:
        found += tx.execute(
            """SELECT o.id, o.fact FROM fact f JOIN occurrence o ON o.fact = f.id
               WHERE f.stored_ms > ? AND o.stored_ms IS NULL
               UNION ALL SELECT id, fact FROM occurrence WHERE stored_ms > ?
               UNION ALL SELECT o.id, o.fact FROM correction k JOIN occurrence o ON o.correction = k.id
               WHERE coalesce(k.stored_ms, k.made_ms) > ?""",
            (known_ms, known_ms, known_ms),
        ).fetchall()
    return sorted(set(found))


def facts_beside(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[int]:
    """Return those facts that have another occurrence than the given ones."""
    found = tx.execute(
        f"SELECT DISTINCT fact FROM occurrence WHERE fact {AMONG} AND id NOT {AMONG} ORDER BY fact",
        (tx.ids(facts), tx.ids(without)),
    )
    return [row for (row,) in found]


def supports_without(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[tuple[int, int]]:
    """Return distinct (fact, turn) pairs of facts, but for some occurrences."""
    return tx.execute(
        f"""SELECT DISTINCT o.fact, x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            WHERE o.fact {AMONG} AND o.id NOT {AMONG} ORDER BY 1, 2""",
        (tx.ids(facts), tx.ids(without)),
    ).fetchall()


def mentions_without(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs of facts, but for some occurrences."""
    return tx.execute(
        f"""SELECT DISTINCT fact, entity FROM mention WHERE fact {AMONG} AND occurrence NOT {AMONG} ORDER BY 1, 2""",
        (tx.ids(facts), tx.ids(without)),
    ).fetchall()


def states_of(tx: Tx, occurrences: Collection[int]) -> set[int]:
    """Return the row ids of the observations of states that some occurrences make."""
    found = tx.execute(f"SELECT id FROM state WHERE occurrence {AMONG}", (tx.ids(occurrences),))
    return {row for (row,) in found}


def hidden_facts(tx: Tx, known_ms: int) -> set[str]:
    """Return the identities of the facts that a correction hid at a moment: forgotten or replaced, and not undone by then."""
    found = tx.execute(
        """SELECT fact_id FROM correction WHERE coalesce(stored_ms, made_ms) <= ? AND coalesce(undone_ms > ?, 1)
           AND kind IN ('update', 'forget')""",
        (known_ms, known_ms),
    )
    return {fact_id for (fact_id,) in found}


def deleted_since(tx: Tx, known_ms: int) -> Deleted:
    """Return how much that was held at a moment, UTC ms, has been deleted since."""
    found = dict(
        tx.execute(
            """SELECT kind, sum(count) FROM tombstone WHERE deleted_ms > ? AND stored_ms <= ? GROUP BY kind""",
            (known_ms, known_ms),
        ).fetchall()
    )
    return Deleted(found.get("turn", 0), found.get("fact", 0))
