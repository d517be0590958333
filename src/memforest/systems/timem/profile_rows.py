"""Reads of the memory that the lines of a profile are made of; each costs what it returns.

All of it is of one state of knowledge: what had been said before an instant, and is not hidden now.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from memforest.store.dialect import AMONG
from memforest.store.facts import QUOTE
from memforest.store.snapshot import StateSeen
from memforest.store.spans import dated_words, spans_of
from memforest.store.tx import Tx
from memforest.types import Precision

__all__ = [
    "Named",
    "Said",
    "StatedFact",
    "Told",
    "attributes",
    "dated_words",
    "named_by",
    "observed_before",
    "said_between",
    "said_of",
    "spans_of",
    "stated",
    "supported",
    "tell_states",
    "texts_of",
    "told_by",
    "turns_of",
    "values_named_before",
]


class Told(NamedTuple):
    """A statement as one of its occurrences tells it, with a turn that supports it there."""

    occurrence: int
    fact: int
    turn: int
    speaker: str
    said_ms: int
    session: int


class StatedFact(NamedTuple):
    """What a statement says of itself. `quote` is what was said, `maker` what read it out of that; `corrected` by a person."""

    text: str
    start_ms: int | None
    end_ms: int | None
    precision: Precision
    negated: int
    topics: str
    quote: str
    maker: str
    corrected: int


class Named(NamedTuple):
    """An entity that an occurrence of a statement names; `roles` are the bits of `memforest.store.facts.ROLES`."""

    occurrence: int
    entity: int
    roles: int
    key: str
    label: str
    kind: str


class Said(NamedTuple):
    """A turn, by when it was said."""

    turn: int
    speaker: str
    said_ms: int


def supported(tx: Tx, turns: Collection[int]) -> list[tuple[int, str]]:
    """Return (turn, statement) of what turns support and is not hidden, by turn and in the order it was said there."""
    return tx.execute(
        f"""SELECT x.turn, f.text FROM occurrence_turn x JOIN occurrence o ON o.id = x.occurrence
            JOIN fact f ON f.id = o.fact AND f.verdict < 2 WHERE x.turn {AMONG}
            ORDER BY x.turn, coalesce(o.tie, f.tie), o.id""",
        (tx.ids(turns),),
    ).fetchall()


def told_by(tx: Tx, turns: Collection[int]) -> list[Told]:
    """Return the occurrences that turns support, in the order of their turns."""
    rows = tx.execute(
        f"""SELECT o.id, o.fact, t.id, o.speaker, t.said_ms, t.session FROM turn t
            JOIN occurrence_turn x ON x.turn = t.id JOIN occurrence o ON o.id = x.occurrence
            JOIN fact f ON f.id = o.fact AND f.verdict < 2
            JOIN session s ON s.id = t.session
            WHERE t.id {AMONG} ORDER BY t.said_ms, s.session_id, t.ordinal, o.id""",
        (tx.ids(turns),),
    )
    return [Told(*row) for row in rows]


def tell_states(tx: Tx, *, turns: Collection[int] = (), facts: Collection[int] = ()) -> bool:
    """Return whether any of some turns supports a statement that tells a state, or any of some statements tells one.

    Such a state may stand in the profiles of all later months: these are out of date when it comes or goes.
    """
    by_turn = f"""SELECT 1 FROM occurrence_turn x JOIN state s ON s.occurrence = x.occurrence WHERE x.turn {AMONG} LIMIT 1"""
    by_fact = f"SELECT 1 FROM state WHERE fact {AMONG} LIMIT 1"
    return any(
        tx.execute(sql, (tx.ids(items),)).fetchone() for sql, items in ((by_turn, turns), (by_fact, facts))
    )


def stated(tx: Tx, occurrences: Collection[int]) -> dict[int, StatedFact]:
    """Return what occurrences say, by row id; the topics are a JSON list."""
    rows = tx.execute(
        f"""SELECT o.id, f.text, f.start_ms, f.end_ms, f.precision, f.negated, o.topics, {QUOTE},
            coalesce(c.maker, ''), o.correction IS NOT NULL
            FROM occurrence o JOIN fact f ON f.id = o.fact JOIN cell c ON c.id = o.cell WHERE o.id {AMONG}""",
        (tx.ids(occurrences),),
    )
    return {row[0]: StatedFact(*row[1:]) for row in rows}


def named_by(tx: Tx, facts: Collection[int]) -> list[Named]:
    """Return whom and what statements name, by statement, entity and occurrence."""
    rows = tx.execute(
        f"""SELECT m.occurrence, e.id, m.roles, e.key, e.label, e.kind FROM mention m JOIN entity e ON e.id = m.entity
            WHERE m.fact {AMONG} ORDER BY m.fact, e.id, m.occurrence""",
        (tx.ids(facts),),
    )
    return [Named(*row) for row in rows]


def said_between(tx: Tx, start_ms: int, end_ms: int) -> list[Said]:
    """Return the turns said in [start, end), in order."""
    rows = tx.execute(
        """SELECT t.id, t.speaker, t.said_ms FROM turn t JOIN session s ON s.id = t.session
           WHERE t.said_ms >= ? AND t.said_ms < ? ORDER BY t.said_ms, s.session_id, t.ordinal""",
        (start_ms, end_ms),
    )
    return [Said(*row) for row in rows]


def said_of(tx: Tx, turns: Collection[int]) -> list[Said]:
    """Return some turns, in order."""
    rows = tx.execute(
        f"""SELECT t.id, t.speaker, t.said_ms FROM turn t JOIN session s ON s.id = t.session
            WHERE t.id {AMONG} ORDER BY t.said_ms, s.session_id, t.ordinal""",
        (tx.ids(turns),),
    )
    return [Said(*row) for row in rows]


def texts_of(tx: Tx, turns: Collection[int]) -> dict[int, str]:
    """Return the texts of turns, by row id."""
    return dict(tx.execute(f"SELECT id, text FROM turn WHERE id {AMONG}", (tx.ids(turns),)).fetchall())


def turns_of(tx: Tx, facts: Collection[int], before_ms: int) -> list[tuple[int, int]]:
    """Return (fact, turn) of the turns said before an instant that support facts, by fact and in their order."""
    return tx.execute(
        f"""SELECT DISTINCT o.fact, t.id FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            JOIN turn t ON t.id = x.turn AND t.said_ms < ? JOIN session s ON s.id = t.session
            WHERE o.fact {AMONG} ORDER BY o.fact, t.said_ms, s.session_id, t.ordinal""",
        (before_ms, tx.ids(facts)),
    ).fetchall()


# -- states ---------------------------------------------------------------------------------------


def attributes(tx: Tx, entity: int) -> list[str]:
    """Return the attributes that were ever observed of an entity, by one look into the index each."""
    rows = tx.execute(
        """WITH RECURSIVE one (name) AS (SELECT min(attribute) FROM state WHERE entity = ?1 UNION ALL
           SELECT (SELECT min(attribute) FROM state WHERE entity = ?1 AND attribute > one.name)
           FROM one WHERE one.name IS NOT NULL) SELECT name FROM one WHERE name IS NOT NULL""",
        (entity,),
    )
    return [name for (name,) in rows]


_SEEN = """FROM state s JOIN occurrence o ON o.id = s.occurrence AND o.said_ms < ?4
    JOIN fact f ON f.id = s.fact AND f.verdict < 2 WHERE s.entity = ?1 AND s.attribute = ?2 AND s.at_ms < ?3"""


def observed_before(
    tx: Tx, entity: int, attribute: str, at_ms: int, said_ms: int, most: int
) -> list[StateSeen]:
    """Return the latest observations of an attribute of what was so before one instant and said before another, in order.

    At most `most`; all if it is negative.
    """
    rows = tx.execute(
        f"""SELECT s.entity, s.attribute, s.value, s.previous, s.change, s.fact, s.at_ms,
            coalesce(o.tie, f.tie) AS tie, s.id {_SEEN}
            ORDER BY s.at_ms DESC, tie DESC, s.fact DESC, s.id DESC LIMIT ?5""",
        (entity, attribute, at_ms, said_ms, most),
    )
    return [StateSeen(*row) for row in rows][::-1]


def values_named_before(
    tx: Tx, entity: int, attribute: str, at_ms: int, said_ms: int
) -> list[tuple[str, str | None]]:
    """Return every (value, value before it) that was observed so."""
    return tx.execute(
        f"SELECT DISTINCT s.value, s.previous {_SEEN}", (entity, attribute, at_ms, said_ms)
    ).fetchall()
