"""Column reads of a whole memory, for the arrays that a query works on.

Facts that are hidden (forgotten, or corrected by another) are not among them, nor what they support, name or assert,
unless they are asked for: what was held at an earlier moment may have been hidden since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from memforest.records import UNIT_DAYS
from memforest.store.connections import AMONG, AMONG_IDS, Tx
from memforest.store.corrections import HOLDS, NOW
from memforest.times import DAY_MS


class FactColumns(NamedTuple):
    """A fact; `speaker` is the entity row of whoever said it first, 0 when there is none."""

    id: int
    speaker: int
    start_ms: int | None
    end_ms: int | None
    said_ms: int
    fact_id: str
    pinned: int


class StateSeen(NamedTuple):
    """One observation of a state: an occurrence of a fact that asserts it.

    `change` is "is", "start" or "end". `at_ms` is when it was so, or its earliest time where that is coarse ("last month"); then `latest_ms` is the latest,
    not after it was said; 0 if no time is stated. `tie` orders observations of one instant, `row` those of one `tie`.
    """

    entity: int
    attribute: str
    value: str
    previous: str | None
    change: str
    fact: int
    at_ms: int
    tie: str
    row: int = 0
    latest_ms: int = 0
    occurrence: int = 0


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


class NameUse(NamedTuple):
    """A name by which an occurrence of a fact calls an entity, where that is not its label alone."""

    fact: int
    occurrence: int
    entity: int
    name: str


class NamedApart(NamedTuple):
    """A mention by one of the several occurrences of a fact."""

    fact: int
    occurrence: int
    entity: int


class SessionSpan(NamedTuple):
    """Where a session stands in the order of turns."""

    first_ms: int
    session_id: str
    id: int


Only = Collection[int] | None
"""Row ids that a read is limited to; None reads all."""


def _among(tx: Tx, column: str, only: Only) -> tuple[str, tuple[object, ...]]:
    """Return the condition that a column is among some ids, with its argument."""
    return ("", ()) if only is None else (f"WHERE {column} {AMONG}", (tx.ids(only),))


_HIDDEN = "(SELECT id FROM fact WHERE verdict > 1)"
"""The facts that are hidden; an index has just these."""


def _of_facts(tx: Tx, column: str, only: Only, hidden: bool) -> tuple[str, tuple[object, ...]]:
    """Return the condition that a column's fact is among some, with its argument; hidden facts are left out unless wanted."""
    shown = "TRUE" if hidden else f"{column} NOT IN {_HIDDEN}"
    return (
        (f"WHERE {shown} ", ()) if only is None else (f"WHERE {shown} AND {column} {AMONG}", (tx.ids(only),))
    )


def session_spans(tx: Tx, only: Only = None) -> list[SessionSpan]:
    """Return the sessions that have turns, in the order of turns: by first time, then id."""
    where, args = _among(tx, "s.id", only)
    return tx.rows(
        SessionSpan,
        f"""SELECT min(u.said_ms) AS first, s.session_id, s.id FROM session s
            JOIN turn u ON u.session = s.id {where} GROUP BY s.id ORDER BY first, s.session_id""",
        args,
    )


def turn_rows(tx: Tx, only: Only = None) -> Iterator[tuple[int, int, str, int, str, str | None]]:
    """Yield (id, session, speaker, said ms, text, role) of the turns of sessions, by session and position."""
    where, args = _among(tx, "session", only)
    sql = f"SELECT id, session, speaker, said_ms, text, role FROM turn {where} ORDER BY session, ordinal"
    return iter(tx.execute(sql, args))


def first_of_chunks(tx: Tx, only: Only = None) -> list[int]:
    """Return the turns that begin a chunk, of sessions."""
    where, args = _among(tx, "c.session", only)
    return tx.column(
        f"SELECT t.id FROM chunk c JOIN turn t ON t.session = c.session AND t.ordinal = c.first {where}", args
    )


def sessions_of(tx: Tx, turns: Collection[int]) -> set[int]:
    """Return the sessions of turns that there are."""
    return set(tx.column(f"SELECT DISTINCT session FROM turn WHERE id {AMONG}", (tx.ids(turns),)))


def fact_rows(tx: Tx, only: Only = None, *, hidden: bool = False) -> Iterator[FactColumns]:
    """Yield facts, by id."""
    where, args = _of_facts(tx, "f.id", only, hidden)
    rows = tx.execute(
        f"""SELECT f.id, coalesce((SELECT m.entity FROM mention m JOIN entity e ON e.id = m.entity
                WHERE m.fact = f.id AND e.kind = 'participant' AND e.label = f.speaker LIMIT 1), 0),
            f.start_ms, f.end_ms, f.said_ms, f.fact_id, f.verdict = 1 FROM fact f
            {where} ORDER BY f.id""",
        args,
    )
    return (FactColumns(*row) for row in rows)


def wordings(tx: Tx, only: Only = None) -> dict[int, str]:
    """Return the texts of facts, by row id."""
    where, args = _among(tx, "id", only)
    return tx.pairs(f"SELECT id, text FROM fact {where}", args)


def said_often(tx: Tx, only: Only = None, without: Collection[int] = ()) -> dict[int, tuple[int, ...]]:
    """Return fact -> the times of its occurrences, in order, for facts that were said more than once.

    Occurrences with the ids `without` are left out.
    """
    often = "fact IN (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1)"
    among, args = (often, ()) if only is None else (f"fact {AMONG}", (tx.ids(only),))
    sql = f"SELECT fact, said_ms FROM occurrence WHERE {among} AND id NOT {AMONG} ORDER BY said_ms"
    found = tx.groups(int, sql, (*args, tx.ids(without)))
    return {fact: tuple(times) for fact, times in found.items() if len(times) > 1}


def supports(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[tuple[int, int]]:
    """Return distinct (fact, turn) pairs of facts."""
    where, args = _of_facts(tx, "o.fact", only, hidden)
    return tx.execute(
        f"""SELECT DISTINCT o.fact, x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id
            {where} ORDER BY 1, 2""",
        args,
    ).fetchall()


def mentions(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[tuple[int, int]]:
    """Return distinct (fact, entity) pairs of facts."""
    where, args = _of_facts(tx, "fact", only, hidden)
    return tx.execute(
        f"SELECT DISTINCT fact, entity FROM mention {where} ORDER BY 1, 2",
        args,
    ).fetchall()


def muted_turns(tx: Tx) -> list[int]:
    """Return the turns that must not be shown as they are, because they state a hidden fact.

    These are the places of corrections, which are known before the facts are extracted anew, and the turns that support
    hidden facts.
    """
    rows = tx.execute(
        f"""SELECT x.turn FROM occurrence o JOIN occurrence_turn x ON x.occurrence = o.id WHERE o.fact IN {_HIDDEN}"""
    )
    return sorted({row[0] for row in rows}.union(turns_with_hidden_places(tx)))


def turns_with_hidden_places(tx: Tx, at_ms: int = NOW) -> list[int]:
    """Return the turns in which a correction that held at a moment, and hides what it is about, has a place."""
    return tx.column(
        f"""SELECT DISTINCT t.id FROM correction c JOIN correction_place p ON p.correction = c.id
            JOIN session s ON s.session_id = p.session_id JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
            WHERE {HOLDS} AND c.kind IN ('update', 'forget') ORDER BY t.id""",
        (at_ms, at_ms),
    )


_STATES = f"""SELECT s.entity, s.attribute, s.value, s.previous, s.change, s.fact, s.at_ms,
    coalesce(o.tie, f.tie) AS tie, s.id, CASE WHEN s.at_ms = f.start_ms THEN min(o.said_ms, coalesce(f.end_ms, o.said_ms),
        s.at_ms + {DAY_MS} * CASE f.precision {" ".join(f"WHEN '{unit}' THEN {days}" for unit, days in UNIT_DAYS.items())} ELSE 0 END)
    ELSE 0 END, s.occurrence FROM state s JOIN occurrence o ON o.id = s.occurrence JOIN fact f ON f.id = s.fact"""


def states_seen(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[StateSeen]:
    """Return every observation of a state by facts: dated by the fact itself, else by each time it was said."""
    where, args = _of_facts(tx, "s.fact", only, hidden)
    return tx.rows(
        StateSeen, f"{_STATES} {where} ORDER BY s.entity, s.attribute, s.at_ms, tie, s.fact, s.id", args
    )


def relations(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[RelationRow]:
    """Return the relations that facts state, by id."""
    where, args = _of_facts(tx, "r.fact", only, hidden)
    return tx.rows(
        RelationRow,
        f"""SELECT r.id, r.fact, r.occurrence, r.source, r.label, r.target, coalesce(f.start_ms, o.said_ms), o.said_ms
            FROM relation r JOIN occurrence o ON o.id = r.occurrence JOIN fact f ON f.id = r.fact {where} ORDER BY r.id""",
        args,
    )


def name_uses(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[NameUse]:
    """Return every name that an occurrence has a row of, by occurrence, entity and name."""
    where, args = _of_facts(tx, "o.fact", only, hidden)
    return tx.rows(
        NameUse,
        f"""SELECT o.fact, n.occurrence, n.entity, n.name FROM name_use n JOIN occurrence o ON o.id = n.occurrence
            {where} ORDER BY n.occurrence, n.entity, n.name""",
        args,
    )


def named_apart(tx: Tx, only: Only = None, *, hidden: bool = False) -> list[NamedApart]:
    """Return every mention by the facts that have several occurrences, by fact, occurrence and entity."""
    where, args = _of_facts(tx, "fact", only, hidden)
    several = "fact IN (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1)"
    if only is not None:
        several = "(SELECT count(*) FROM occurrence WHERE fact = mention.fact) > 1"
    return tx.rows(
        NamedApart,
        f"SELECT fact, occurrence, entity FROM mention {where} AND {several} ORDER BY 1, 2, 3",
        args,
    )


def states_with_ids(tx: Tx, rows: Collection[int]) -> list[StateSeen]:
    """Return observations by row id."""
    return tx.rows(
        StateSeen, f"{_STATES} WHERE s.fact NOT IN {_HIDDEN} AND s.id {AMONG} ORDER BY s.id", (tx.ids(rows),)
    )


_OF = f"s.fact NOT IN {_HIDDEN} AND s.entity {AMONG_IDS} AND s.attribute = :attribute"


def states_of_attribute(tx: Tx, entities: Collection[int], attribute: str) -> list[StateSeen]:
    """Return every observation of an attribute of entities that are one, in time order."""
    return tx.rows(
        StateSeen,
        f"{_STATES} WHERE {_OF} ORDER BY s.at_ms, tie, s.fact, s.id",
        {"ids": tx.ids(entities), "attribute": attribute},
    )


def names(tx: Tx) -> dict[str, int]:
    """Return every key and alias with its entity's row id; an alias goes before another entity's key."""
    return tx.pairs("SELECT key, id, 0 FROM entity UNION ALL SELECT key, entity, 1 FROM alias ORDER BY 1, 3")


def keys_of(tx: Tx, entities: Collection[int]) -> set[str]:
    """Return the keys and aliases of entities."""
    return set(
        tx.column(
            f"SELECT key FROM entity WHERE id {AMONG_IDS} UNION SELECT key FROM alias WHERE entity {AMONG_IDS}",
            {"ids": tx.ids(entities)},
        )
    )


def entities_of(tx: Tx, keys: Collection[str]) -> dict[str, int]:
    """Return the entities of keys and aliases, as `names` resolves them."""
    wanted = tx.ids(keys)
    return tx.pairs(
        f"""SELECT key, id, 0 FROM entity WHERE key {AMONG}
           UNION ALL SELECT key, entity, 1 FROM alias WHERE key {AMONG}
           ORDER BY 1, 3""",
        (wanted, wanted),
    )
