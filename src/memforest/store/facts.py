"""Canonical facts with their occurrences, and what these say of entities: mentions, states, names, aliases, relations.

A fact is known by the digest of its wording, so that near-duplicates are found without looking at every fact. What its
words of time mean is one column: JSON, times in UTC ms. Occurrences without a text, tie or dates of their own have those
of their fact; a quote that is all of the only turn is not stored again.

A mention without a row of `name_use` spells the label, so most need none. An occurrence that spells a name in several ways
has a row of each, the label among them; so what is counted does not depend on which spelling came first and became the
label.

An alias is a short name by which occurrences call an entity; an unused one is deleted. Where occurrences mean two entities
by one alias, it stands for the one that was called so first, whichever session was stored first.

A relation goes with its occurrence. What the graph makes of relations (edges with weights, intervals and evidence) is kept
nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from memforest.records import EntityKind, Precision, ResolvedDate
from memforest.store import meta
from memforest.store.connections import AMONG, Tx, gathered, listed, parts
from memforest.times import from_ms, to_ms

_RULES = 0
"""The row that stands for no fact and tells by which rules the other rows were made."""


def wording_rules(tx: Tx) -> bytes | None:
    """Return the rules that made the stored wordings, None when there are none."""
    return tx.row(bytes, "SELECT wording FROM derived_wording WHERE fact = ?", (_RULES,))


def drop_wordings(tx: Tx, rules: bytes) -> None:
    """Delete all wordings, and store the rules that make the next ones."""
    tx.execute("DELETE FROM derived_wording")
    put_wordings(tx, [(_RULES, rules)])


def put_wordings(tx: Tx, rows: Iterable[tuple[int, bytes]]) -> None:
    """Store (fact, digest of its wording)."""
    tx.executemany(
        """INSERT INTO derived_wording VALUES (?, ?)
           ON CONFLICT (fact) DO UPDATE SET wording = excluded.wording""",
        rows,
    )


def facts_worded(tx: Tx, wordings: Collection[bytes]) -> dict[int, bytes]:
    """Return the facts that are worded in one of these ways, by row id, each with the digest of its wording."""
    found: dict[int, bytes] = {}
    for part, marks in parts(set(wordings)):
        sql = f"SELECT fact, wording FROM derived_wording WHERE fact != {_RULES} AND wording IN ({marks})"
        found |= tx.pairs(sql, part)
    return dict(sorted(found.items()))


NO_DATES = "[]"


def write_dates(dates: Iterable[ResolvedDate]) -> str:
    """Return dates as they are stored: a list of words, start, end (or null) and precision each."""
    rows = [
        [one.words, to_ms(one.start), None if one.end is None else to_ms(one.end), one.precision]
        for one in dates
    ]
    return json.dumps(rows, ensure_ascii=False) if rows else NO_DATES


def read_dates(stored: str) -> tuple[ResolvedDate, ...]:
    """Return stored dates.

    Raises:
        ValueError: if it is not what `write_dates` writes.
    """
    if stored == NO_DATES:
        return ()
    return tuple(
        ResolvedDate(words, from_ms(start), None if end is None else from_ms(end), precision)
        for words, start, end, precision in json.loads(stored)
    )


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
    precision: Precision
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


OccurrenceRef = tuple[int, int]
"""Row ids of a fact and of one of its occurrences."""


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """One place where a fact was said: its wording there, the raw quote and the supporting turns."""

    row: int
    fact: int
    chunk: int
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


_COLUMNS = (
    """fact_id, text, speaker, start_ms, end_ms, precision, negated, said_ms, tie, topics, stored_ms, dates"""
)
_FACT = f"SELECT id, {_COLUMNS}, verdict FROM fact"


def _fact(*row: Any) -> FactRow:
    values = list(row)
    values[7] = bool(row[7])
    values[10] = tuple(json.loads(row[10]))
    values[12] = read_dates(row[12])
    return FactRow(*values)


def statements(tx: Tx) -> list[str]:
    """Return every statement: the texts of facts, and of the occurrences that say one in other words."""
    return tx.column("SELECT text FROM fact UNION SELECT text FROM occurrence WHERE text IS NOT NULL")


def iter_facts(tx: Tx) -> Iterator[FactRow]:
    """Yield all facts in the order they were stored."""
    return (_fact(*row) for row in tx.execute(f"{_FACT} ORDER BY id"))


def facts_with_ids(tx: Tx, rows: Collection[int]) -> dict[int, FactRow]:
    """Return facts by row id."""
    found = tx.rows(_fact, f"{_FACT} WHERE id {AMONG}", (tx.ids(rows),))
    return {fact.row: fact for fact in found}


def rows_of_ids(tx: Tx, fact_ids: Collection[str]) -> dict[str, int]:
    """Return public id -> row id of the facts that there are."""
    return tx.pairs(f"SELECT fact_id, id FROM fact WHERE fact_id {AMONG}", (tx.ids(fact_ids),))


def fact_by_id(tx: Tx, fact_id: str) -> FactRow | None:
    """Return the fact with that public id, or None."""
    return tx.row(_fact, f"{_FACT} WHERE fact_id = ?", (fact_id,))


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


_OCCURRENCES = f"""SELECT o.id, o.fact, o.chunk, o.speaker, coalesce(o.text, f.text), {QUOTE}, o.said_ms,
    coalesce(o.tie, f.tie) AS tie, o.topics, o.cosine,
    (SELECT {gathered("turn")} FROM occurrence_turn WHERE occurrence = o.id),
    coalesce(o.dates, f.dates), o.correction, coalesce(o.stored_ms, f.stored_ms)
    FROM occurrence o JOIN fact f ON f.id = o.fact WHERE o.fact {AMONG} AND o.id NOT {AMONG}
    ORDER BY o.said_ms, tie, o.id"""


def occurrences(
    tx: Tx, facts: Collection[int], without: Collection[int] = ()
) -> dict[int, list[OccurrenceRow]]:
    """Return the occurrences of facts, each list in the order they were said; those with the ids `without` are left out."""
    rows = tx.execute(_OCCURRENCES, (tx.ids(facts), tx.ids(without)))
    found: dict[int, list[OccurrenceRow]] = {fact: [] for fact in facts}
    for row in rows:
        topics, turns = tuple(json.loads(row[8])), tuple(sorted(json.loads(row[10])))
        values = (*row[:8], topics, row[9], turns, read_dates(row[11]), *row[12:])
        found[row[1]].append(OccurrenceRow(*values))
    return found


def occurrences_in(tx: Tx, chunks: Collection[int]) -> dict[int, int]:
    """Return the occurrences that chunks tell, each with its fact."""
    return tx.pairs(
        f"SELECT id, fact FROM occurrence WHERE chunk {AMONG} ORDER BY fact, id", (tx.ids(chunks),)
    )


_ENTITY = "SELECT id, key, label, kind FROM entity"


def entity_by_key(tx: Tx, key: str) -> EntityRow | None:
    """Return the entity with that key or alias, or None."""
    found = "(SELECT id FROM entity WHERE key = ?), (SELECT entity FROM alias WHERE key = ?)"
    return tx.row(EntityRow, f"{_ENTITY} WHERE id = coalesce({found})", (key, key))


def entities_with_keys(tx: Tx, keys: Collection[str]) -> dict[str, EntityRow]:
    """Return the entities with these keys of their own, by key; aliases do not count."""
    found = tx.rows(EntityRow, f"{_ENTITY} WHERE key {AMONG}", (tx.ids(keys),))
    return {one.key: one for one in found}


def entity_with_row(tx: Tx, row: int) -> EntityRow:
    """Return the entity with that row id.

    Raises:
        KeyError: if there is none.
    """
    return entities(tx, (row,))[row]


def demote(tx: Tx, entity: int) -> None:
    """Set the kind of a participant who no longer speaks to unknown."""
    tx.execute("UPDATE entity SET kind = 'unknown' WHERE id = ?", (entity,))


def unnamed(tx: Tx, entities: Collection[int]) -> list[int]:
    """Return those entities that no fact names any more and that take no part."""
    return tx.column(
        f"""SELECT id FROM entity WHERE kind != 'participant' AND id {AMONG}
           AND NOT EXISTS (SELECT 1 FROM mention WHERE mention.entity = entity.id) ORDER BY id""",
        (tx.ids(entities),),
    )


def drop_entities(tx: Tx, entities: Collection[int]) -> None:
    """Delete entities."""
    tx.executemany("DELETE FROM entity WHERE id = ?", [(entity,) for entity in entities])


def entities(tx: Tx, only: Collection[int] | None = None) -> dict[int, EntityRow]:
    """Return entities by row id, in the order of these; with `only`, those with these."""
    where, args = ("", ()) if only is None else (f"WHERE id {AMONG}", (tx.ids(only),))
    return {one.row: one for one in tx.rows(EntityRow, f"{_ENTITY} {where} ORDER BY id", args)}


KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
"""Kinds of entities, the surest first: who speaks is known, places and firms stand behind telling words."""


def add_entities(tx: Tx, new: Sequence[EntityRow]) -> None:
    """Insert entities, whose row ids were reserved (`memforest.store.meta.take_ids`)."""
    tx.executemany(
        "INSERT INTO entity VALUES (?, ?, ?, ?)", [(one.row, one.key, one.label, one.kind) for one in new]
    )


def put_kinds(tx: Tx, kinds: Iterable[tuple[EntityKind, int]]) -> None:
    """Write (kind, row id) of entities."""
    tx.executemany("UPDATE entity SET kind = ? WHERE id = ?", kinds)


ROLES = {"speaker": 1, "subject": 2, "object": 4, "other": 8}
"""Role -> its bit in `roles` of a mention: one occurrence may name an entity in several."""


def mentions_of(tx: Tx, fact: int) -> list[tuple[int, str]]:
    """Return (entity, role) of every mention in a fact."""
    found = mentions(tx, (fact,))
    return sorted({(one.entity, role) for one in found for role, bit in ROLES.items() if one.roles & bit})


def entity_facts(tx: Tx, entities: Collection[int]) -> list[int]:
    """Return the row ids of the facts that name one of some entities, hidden ones among them."""
    return tx.column(
        f"SELECT DISTINCT fact FROM mention WHERE entity {AMONG} ORDER BY fact", (tx.ids(entities),)
    )


class NewState(NamedTuple):
    """A state without its id."""

    fact: int
    occurrence: int
    entity: int
    attribute: str
    value: str
    previous: str | None
    change: str
    at_ms: int


def add_named(
    tx: Tx,
    mentions: Collection[tuple[int, int, int, int]] = (),
    states: Collection[NewState] = (),
    relations: Iterable[tuple[int, int, int, str, int]] = (),
    names: Collection[tuple[int, int, str]] = (),
) -> list[int]:
    """Record what occurrences of facts say of entities, and return the row ids of the states, in order.

    Args:
        tx: the write transaction.
        mentions: (fact, entity, occurrence, bits of `ROLES`); those of a mention that is there are added to its own.
        states: attributes that are asserted.
        relations: (fact, occurrence, source, label, target); a repeated one of an occurrence is stored once, one of an entity
            to itself is not.
        names: (occurrence, entity, name), how names are spelled.
    """
    tx.executemany(
        """INSERT INTO mention VALUES (?, ?, ?, ?)
           ON CONFLICT (fact, entity, occurrence) DO UPDATE SET roles = roles | excluded.roles""",
        mentions,
    )
    first = int(tx.value("SELECT coalesce(max(id), 0) FROM state")) + 1 if states else 0
    tx.executemany(
        """INSERT INTO state (id, fact, occurrence, entity, attribute, value, previous, change, at_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [(row, *one) for row, one in enumerate(states, first)],
    )
    tx.executemany(
        """INSERT INTO relation (fact, occurrence, source, label, target) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT DO NOTHING""",
        [row for row in relations if row[2] != row[4]],
    )
    tx.executemany("INSERT INTO name_use VALUES (?, ?, ?) ON CONFLICT DO NOTHING", names)
    return list(range(first, first + len(states)))


class StoredOccurrence(NamedTuple):
    """An occurrence as it is stored: topics and dates as JSON, None for what it shares with its fact or its turn."""

    row: int
    fact: int
    chunk: int
    speaker: str
    said_ms: int
    topics: str
    cosine: float | None
    text: str | None
    quote: str | None
    tie: str | None
    dates: str | None
    correction: int | None = None
    stored_ms: int | None = None


def add_facts(tx: Tx, new: Sequence[FactRow]) -> list[int]:
    """Insert facts (`row` and `verdict` are ignored) and return their row ids, in order."""
    first = meta.take_ids(tx, "fact", len(new))
    tx.executemany(
        f"INSERT INTO fact (id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(row, *_stored(fact)) for row, fact in enumerate(new, first)],
    )
    return list(range(first, first + len(new)))


def _stored(fact: FactRow) -> Iterator[object]:
    """Yield the values of a fact as they are stored, from its identity to its dates."""
    for name in FactRow.__slots__[1:-1]:
        value = getattr(fact, name)
        if name == "topics":
            value = json.dumps(value, ensure_ascii=False)
        yield write_dates(value) if name == "dates" else value


def add_occurrences(tx: Tx, new: Sequence[StoredOccurrence], turns: Sequence[Sequence[int]]) -> list[int]:
    """Insert occurrences (`row` is ignored), each with the turns that support it; return their row ids, in order.

    A wording, dates, a tie and a stored time that are the fact's, and a quote that is all of the only turn, are not stored
    again. An occurrence without a stored time was stored with its fact.
    """
    last = tx.value("SELECT coalesce(max(id), 0) FROM occurrence")
    rows = list(range(last + 1, last + 1 + len(new)))
    tx.executemany(
        """INSERT INTO occurrence (id, fact, chunk, speaker, text, quote, said_ms, tie, topics, cosine, dates, correction,
           stored_ms) VALUES (:row, :fact, :chunk, :speaker, nullif(:text, (SELECT text FROM fact WHERE id = :fact)),
           nullif(:quote, (SELECT text FROM turn WHERE id = :turn)), :said_ms,
           nullif(:tie, (SELECT tie FROM fact WHERE id = :fact)), :topics, :cosine,
           nullif(:dates, (SELECT dates FROM fact WHERE id = :fact)), :correction,
           nullif(:stored_ms, (SELECT stored_ms FROM fact WHERE id = :fact)))""",
        [
            {**one._asdict(), "row": row, "turn": said[0] if len(said) == 1 else None}
            for row, one, said in zip(rows, new, turns, strict=True)
        ],
    )
    tx.executemany(
        "INSERT INTO occurrence_turn VALUES (?, ?)",
        [(row, turn) for row, said in zip(rows, turns, strict=True) for turn in said],
    )
    return rows


def dated_words(tx: Tx, facts: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return fact -> the words in it that state a date; facts without such words are left out."""
    rows = tx.execute(f"SELECT id, dates FROM fact WHERE dates != '[]' AND id {AMONG}", (tx.ids(facts),))
    return {fact: tuple(one.words for one in read_dates(dates)) for fact, dates in rows}


def spans_of(tx: Tx, facts: Collection[int]) -> dict[int, tuple[int | None, int | None, Precision]]:
    """Return the time that facts state, [start, end), and how exactly; None where there is none."""
    rows = tx.execute(f"SELECT id, start_ms, end_ms, precision FROM fact WHERE id {AMONG}", (tx.ids(facts),))
    return {row[0]: row[1:] for row in rows}


class Mention(NamedTuple):
    """A mention as it is stored."""

    fact: int
    entity: int
    occurrence: int
    roles: int


def mentions(tx: Tx, facts: Collection[int]) -> list[Mention]:
    """Return the mentions of facts."""
    return tx.rows(
        Mention,
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


SPEAKS = 1
"""The bit of a mention's roles that names nobody: who speaks."""


def spelled(tx: Tx, entities: Collection[int]) -> list[tuple[int, int, int, str]]:
    """Return (fact, occurrence, entity, name) of every name by which an occurrence calls some entities, labels among them, in order."""
    return tx.execute(
        f"""SELECT m.fact, m.occurrence, m.entity, coalesce(n.name, e.label) FROM mention m JOIN entity e ON e.id = m.entity
            LEFT JOIN name_use n ON n.occurrence = m.occurrence AND n.entity = m.entity
            WHERE m.roles != {SPEAKS} AND m.entity {AMONG} ORDER BY m.entity, m.fact, m.occurrence, 4""",
        (tx.ids(entities),),
    ).fetchall()


def names_in(tx: Tx, occurrences: Collection[int]) -> list[tuple[int, int, str]]:
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
    if not keys:
        return
    wanted = tx.ids(sorted(keys))
    had = tx.pairs(f"SELECT key, entity FROM alias WHERE key {AMONG}", (wanted,))
    used = _USED.format(key="k.value")
    now = tx.pairs(f"SELECT k.value, ({used}) FROM {listed('?')} k", (wanted,))
    changed = [key for key, entity in now.items() if had.get(key) != entity]
    tx.executemany("DELETE FROM alias WHERE key = ?", [(key,) for key in changed])
    tx.executemany(
        "INSERT INTO alias VALUES (?, ?)", [(key, now[key]) for key in changed if now[key] is not None]
    )


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


def drop_relations(tx: Tx, rows: Collection[int]) -> None:
    """Delete relations."""
    tx.executemany("DELETE FROM relation WHERE id = ?", [(row,) for row in sorted(rows)])


def count_relations(tx: Tx) -> int:
    """Return how many relations are stated, each counted once however often it is."""
    found = tx.value("SELECT count(*) FROM (SELECT DISTINCT source, label, target FROM relation)")
    return int(found)
