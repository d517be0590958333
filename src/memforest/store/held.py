"""What a memory did not hold yet at an earlier moment, read by index: turns, occurrences, states, verdicts, deletions.

A turn is held from when it was stored; an occurrence from when it, its fact and all of its turns were. What was deleted
since is not there to be read: `deleted_since` counts it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from memforest.store.corrections import HELD_FROM
from memforest.store.dialect import AMONG, listed
from memforest.store.tx import Tx


class Deleted(NamedTuple):
    """How many turns and facts that were held at a moment have been deleted since."""

    turns: int
    facts: int


def later_turns(tx: Tx, known_ms: int) -> list[int]:
    """Return the turns that were stored after a moment."""
    return [row for (row,) in tx.execute("SELECT id FROM turn WHERE stored_ms > ?", (known_ms,))]


def turns_having(tx: Tx, having: str) -> list[int]:
    """Return the turns whose metadata, or that of their session, has all of some (a JSON object); a turn's own goes first."""
    wanted = json.loads(having)
    about = {
        session: json.loads(metadata)
        for session, metadata in tx.execute("SELECT id, metadata FROM session WHERE metadata != '{}'")
    }
    rows = tx.execute(
        """SELECT t.id, t.session, t.metadata FROM turn t JOIN session s ON s.id = t.session
           WHERE t.metadata != '{}' OR s.metadata != '{}'"""
    )
    found = []
    for row, session, metadata in rows:
        held = {**about.get(session, {}), **json.loads(metadata)}
        if all(key in held and held[key] == one for key, one in wanted.items()):
            found.append(row)
    return found


def keys_unknown(tx: Tx, having: str) -> list[str]:
    """Return the keys of metadata (a JSON object) that no turn and no session has."""
    has = " UNION ALL ".join(
        f"SELECT 1 FROM {table}, {listed(f'{table}.metadata')} j WHERE {table}.metadata != '{{}}' AND j.key = :key"
        for table in ("turn", "session")
    )
    return [
        key for key in json.loads(having) if tx.execute(f"{has} LIMIT 1", {"key": key}).fetchone() is None
    ]


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


def mentions_lost(tx: Tx, facts: Collection[int], without: Collection[int]) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs that only some occurrences of facts mention."""
    mention = f"SELECT fact, entity FROM mention WHERE fact {AMONG} AND occurrence"
    args = (tx.ids(facts), tx.ids(without))
    return tx.execute(f"{mention} {AMONG} EXCEPT {mention} NOT {AMONG}", args * 2).fetchall()


def states_of(tx: Tx, occurrences: Collection[int]) -> set[int]:
    """Return the row ids of the observations of states that some occurrences make."""
    found = tx.execute(f"SELECT id FROM state WHERE occurrence {AMONG}", (tx.ids(occurrences),))
    return {row for (row,) in found}


def updates_taken_back(tx: Tx, known_ms: int) -> int:
    """Return how many updates held at a moment and were undone since: what they said is deleted then."""
    found = tx.execute(
        f"SELECT count(*) FROM correction c WHERE c.kind = 'update' AND c.undone_ms > ? AND {HELD_FROM} <= ?",
        (known_ms, known_ms),
    )
    return int(found.fetchone()[0])


def deleted_since(tx: Tx, known_ms: int) -> Deleted:
    """Return how much that was held at a moment, UTC ms, has been deleted since."""
    found = dict(
        tx.execute(
            """SELECT kind, sum(count) FROM tombstone WHERE deleted_ms > ? AND stored_ms <= ? GROUP BY kind""",
            (known_ms, known_ms),
        ).fetchall()
    )
    return Deleted(found.get("turn", 0), found.get("fact", 0))
