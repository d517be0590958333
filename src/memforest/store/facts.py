"""Canonical facts with their occurrences, entities, mentions and states."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from memforest.store import meta
from memforest.store.dates import read_dates, write_dates
from memforest.store.dialect import AMONG, gathered
from memforest.store.tx import Tx
from memforest.types import EntityKind, ResolvedDate, State


@dataclass(frozen=True, slots=True)
class FactRow:
    """A canonical fact.

    `start_ms`/`end_ms` are its stated valid time, None when it states none; `said_ms` is when it was first
    said; `tie` orders facts of one instant (session id, ordinals).
    """

    row: int
    fact_id: str
    text: str
    speaker: str
    start_ms: int | None
    end_ms: int | None
    precision: str
    negated: bool
    said_ms: int
    tie: str
    topics: tuple[str, ...]
    stored_ms: int
    dates: tuple[ResolvedDate, ...] = ()
    verdict: int = 0
    """One of `memforest.store.corrections.VERDICTS`."""

    @property
    def leaf_key(self) -> tuple[int, str]:
        """Where the fact stands in a tree's time order."""
        return (self.said_ms if self.start_ms is None else self.start_ms, self.tie)

    @property
    def leaf_span(self) -> tuple[int, int]:
        """The interval [start, end) of the fact's leaf, in ms."""
        start = self.said_ms if self.start_ms is None else self.start_ms
        end = start + 1 if self.start_ms is None or self.end_ms is None else self.end_ms
        return start, max(end, start + 1)


OccurrenceRef = tuple[int, int]
"""Row ids of a fact and of one of its occurrences."""


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """One place where a fact was said: its wording there, the raw quote and the supporting turns."""

    row: int
    fact: int
    cell: int
    speaker: str
    text: str
    quote: str
    said_ms: int
    tie: str
    topics: tuple[str, ...]
    cosine: float | None
    turns: tuple[int, ...]
    dates: tuple[ResolvedDate, ...] = ()
    correction: int | None = None
    stored_ms: int = 0


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity."""

    row: int
    key: str
    label: str
    kind: str


_FACT = """SELECT id, fact_id, text, speaker, start_ms, end_ms, precision, negated, said_ms, tie, topics,
    stored_ms, dates, verdict FROM fact"""


def _fact(row: tuple[object, ...]) -> FactRow:
    values = list(row)
    values[7] = bool(row[7])
    values[10] = tuple(json.loads(str(row[10])))
    values[12] = read_dates(str(row[12]))
    return FactRow(*values)  # type: ignore[arg-type]  # a STRICT table's columns have these types


def iter_facts(tx: Tx) -> Iterator[FactRow]:
    """Yield all facts in the order they were stored."""
    return (_fact(row) for row in tx.execute(f"{_FACT} ORDER BY id"))


def facts_with_ids(tx: Tx, rows: Collection[int]) -> dict[int, FactRow]:
    """Return facts by row id."""
    found = tx.execute(f"{_FACT} WHERE id {AMONG}", (tx.ids(rows),))
    return {fact.row: fact for fact in map(_fact, found)}


def fact_by_id(tx: Tx, fact_id: str) -> FactRow | None:
    """Return the fact with that public id, or None."""
    row = tx.execute(f"{_FACT} WHERE fact_id = ?", (fact_id,)).fetchone()
    return None if row is None else _fact(row)


def restate(tx: Tx, fact: FactRow) -> None:
    """Write a fact's identity, wording, dates, speaker, topics and first occurrence anew."""
    dates, topics = write_dates(fact.dates), json.dumps(fact.topics, ensure_ascii=False)
    # Occurrences without a text, tie or dates of their own have those of the fact, which are about to be others.
    tx.execute(
        """UPDATE occurrence SET text = coalesce(occurrence.text, f.text), tie = coalesce(occurrence.tie, f.tie),
           dates = coalesce(occurrence.dates, f.dates) FROM fact f WHERE f.id = occurrence.fact AND f.id = ?""",
        (fact.row,),
    )
    tx.execute(
        """UPDATE fact SET fact_id = ?, text = ?, dates = ?, speaker = ?, topics = ?, said_ms = ?, tie = ?
           WHERE id = ?""",
        (fact.fact_id, fact.text, dates, fact.speaker, topics, fact.said_ms, fact.tie, fact.row),
    )
    tx.execute(
        """UPDATE occurrence SET text = nullif(text, ?), tie = nullif(tie, ?), dates = nullif(dates, ?)
           WHERE fact = ?""",
        (fact.text, fact.tie, dates, fact.row),
    )


def delete_fact(tx: Tx, fact: int) -> None:
    """Delete a fact; its occurrences, mentions and states go with it."""
    tx.execute("DELETE FROM derived_wording WHERE fact = ?", (fact,))
    tx.execute("DELETE FROM fact WHERE id = ?", (fact,))


QUOTE = """coalesce(o.quote, (SELECT t.text FROM occurrence_turn x JOIN turn t ON t.id = x.turn
    WHERE x.occurrence = o.id), '')"""
"""The quote of occurrence `o`: its own, else all of its turn."""


def occurrences(
    tx: Tx, facts: Collection[int], without: Collection[int] = ()
) -> dict[int, list[OccurrenceRow]]:
    """Return the occurrences of facts, each list in the order they were said; those with the ids `without` are left out."""
    rows = tx.execute(
        f"""SELECT o.id, o.fact, o.cell, o.speaker, coalesce(o.text, f.text), {QUOTE}, o.said_ms,
           coalesce(o.tie, f.tie) AS tie, o.topics, o.cosine, (SELECT {gathered("turn")} FROM occurrence_turn WHERE occurrence = o.id),
           coalesce(o.dates, f.dates), o.correction, coalesce(o.stored_ms, f.stored_ms)
           FROM occurrence o JOIN fact f ON f.id = o.fact WHERE o.fact {AMONG} AND o.id NOT {AMONG}
           ORDER BY o.said_ms, tie, o.id""",
        (tx.ids(facts), tx.ids(without)),
    )
    found: dict[int, list[OccurrenceRow]] = {fact: [] for fact in facts}
    for row in rows:
        topics, turns = tuple(json.loads(row[8])), tuple(sorted(json.loads(row[10])))
        values = (*row[:8], topics, row[9], turns, read_dates(row[11]), *row[12:])
        found[row[1]].append(OccurrenceRow(*values))
    return found


def facts_of_cell(tx: Tx, cell: int) -> list[int]:
    """Return the row ids of the facts that a cell supports."""
    rows = tx.execute("SELECT DISTINCT fact FROM occurrence WHERE cell = ? ORDER BY fact", (cell,))
    return [row[0] for row in rows]


_ENTITY = "SELECT e.id, e.key, e.label, e.kind FROM entity e"


def _entity(row: tuple[int, str, str, str]) -> EntityRow:
    return EntityRow(*row)


def entity_by_key(tx: Tx, key: str) -> EntityRow | None:
    """Return the entity with that key or alias, or None."""
    if (found := entity_with_key(tx, key)) is not None:
        return found
    row = tx.execute(f"{_ENTITY} JOIN alias a ON a.entity = e.id WHERE a.key = ?", (key,)).fetchone()
    return None if row is None else _entity(row)


def entity_with_key(tx: Tx, key: str) -> EntityRow | None:
    """Return the entity with that key of its own, or None; aliases do not count."""
    row = tx.execute(f"{_ENTITY} WHERE e.key = ?", (key,)).fetchone()
    return None if row is None else _entity(row)


def entity_with_row(tx: Tx, row: int) -> EntityRow:
    """Return the entity with that row id.

    Raises:
        KeyError: if there is none.
    """
    found = tx.execute(f"{_ENTITY} WHERE e.id = ?", (row,)).fetchone()
    if found is None:
        raise KeyError(row)
    return _entity(found)


def demote(tx: Tx, entity: int) -> None:
    """Make a participant who no longer speaks an entity like others."""
    tx.execute("UPDATE entity SET kind = 'unknown' WHERE id = ?", (entity,))


def unnamed(tx: Tx, entities: Collection[int]) -> list[int]:
    """Return those entities that no fact names any more and that take no part."""
    rows = tx.execute(
        f"""SELECT id FROM entity WHERE kind != 'participant' AND id {AMONG}
           AND NOT EXISTS (SELECT 1 FROM mention WHERE mention.entity = entity.id) ORDER BY id""",
        (tx.ids(entities),),
    )
    return [row[0] for row in rows]


def drop_entities(tx: Tx, entities: Collection[int]) -> None:
    """Delete entities."""
    tx.executemany("DELETE FROM entity WHERE id = ?", [(entity,) for entity in entities])


def entities(tx: Tx) -> list[EntityRow]:
    """Return all entities, by key."""
    return [_entity(row) for row in tx.execute(f"{_ENTITY} ORDER BY e.key")]


KINDS: tuple[EntityKind, ...] = (
    "participant",
    "place",
    "organisation",
    "person",
    "event",
    "work",
    "product",
    "date",
    "time",
    "thing",
    "unknown",
)
"""Kinds of entities, the surest first: who speaks is known, places and firms stand behind telling words."""
_KINDS = " ".join(KINDS)


def put_entity(tx: Tx, key: str, label: str, kind: EntityKind) -> int:
    """Insert an entity and return its row id; an existing one may only gain a surer kind.

    Of several kinds the surest counts, in the order of `KINDS`, so that it does not matter which mention came first.
    """
    found = tx.execute("SELECT id FROM entity WHERE key = ?", (key,)).fetchone()
    if found is None:
        row = meta.take_ids(tx, "entity")
        tx.execute("INSERT INTO entity VALUES (?, ?, ?, ?)", (row, key, label, kind))
        return row
    tx.execute(
        "UPDATE entity SET kind = CASE WHEN instr(?, ?) < instr(?, kind) THEN ? ELSE kind END WHERE id = ?",
        (_KINDS, kind, _KINDS, kind, found[0]),
    )
    return int(found[0])


ROLES = {"speaker": 1, "subject": 2, "object": 4, "other": 8}
"""Role -> its bit in `roles` of a mention: one occurrence may name an entity in several."""


def add_mention(tx: Tx, occurrence: OccurrenceRef, entity: int, role: str) -> None:
    """Record that an occurrence of a fact names an entity."""
    tx.execute(
        """INSERT INTO mention VALUES (?, ?, ?, ?)
           ON CONFLICT (fact, entity, occurrence) DO UPDATE SET roles = roles | excluded.roles""",
        (occurrence[0], entity, occurrence[1], ROLES[role]),
    )


def mentions_of(tx: Tx, fact: int) -> list[tuple[int, str]]:
    """Return (entity, role) of every mention in a fact."""
    found = tx.execute("SELECT entity, roles FROM mention WHERE fact = ?", (fact,))
    return sorted({(entity, role) for entity, roles in found for role, bit in ROLES.items() if roles & bit})


def entity_facts(tx: Tx, entity: int) -> list[int]:
    """Return the row ids of the facts that name an entity, hidden ones among them."""
    rows = tx.execute("SELECT DISTINCT fact FROM mention WHERE entity = ? ORDER BY fact", (entity,))
    return [row[0] for row in rows]


def add_state(tx: Tx, occurrence: OccurrenceRef, entity: int, state: State, *, ends: bool = False) -> int:
    """Record an attribute that an occurrence of a fact asserts of an entity; return the row's id.

    It is dated by the fact if that states a time, else by when it was said. Where a correction says until when it was so, the
    end is dated by the end of that time.
    """
    fact, row = occurrence
    return tx.insert(
        """INSERT INTO state (fact, occurrence, entity, attribute, value, previous, change, at_ms)
           SELECT f.id, o.id, ?, ?, ?, ?, ?, coalesce(CASE WHEN ? THEN f.end_ms END, f.start_ms, o.said_ms)
           FROM fact f, occurrence o WHERE f.id = ? AND o.id = ? RETURNING id""",
        (entity, state.attribute, state.value, state.previous, state.change, ends, fact, row),
    )
