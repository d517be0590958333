"""A memory that is in no file, for tests of single functions of the store: its schema, and rows by hand.

Rows are written through the store's own functions, with as few values as a test has something to say about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from memforest.reading.canonical import EntityBook
from memforest.records import EntityKind, State, Turn
from memforest.search.timeline import Segment, observe, time_order
from memforest.store import facts, sessions
from memforest.store.connections import Connection, connect
from memforest.store.database import make_schema
from memforest.store.facts import (
    FactRow,
    OccurrenceRef,
    StoredOccurrence,
    add_facts,
    add_occurrences,
    write_dates,
)
from memforest.store.reads import StateSeen
from memforest.times import from_ms

__all__ = [
    "add_mention",
    "add_relation",
    "add_state",
    "chunk_of",
    "empty_memory",
    "finish_chunk",
    "put_entities",
    "put_entity",
    "put_fact",
    "put_session",
    "say",
    "use_alias",
    "value",
]


@cache
def _template() -> Connection:
    made = connect(":memory:", 1.0)
    make_schema(made)
    made.commit()
    return made


def empty_memory() -> Connection:
    """Return an empty memory in a database of its own, whose rows may not point at nothing."""
    made = connect(":memory:", 1.0)
    _template().backup(made)
    made.execute("PRAGMA foreign_keys = on")
    return made


def value(tx: Connection, sql: str, *args: object) -> Any:
    """Return the only value of the only row that a query finds."""
    [[found]] = tx.execute(sql, args).fetchall()
    return found


def put_session(
    tx: Connection, session_id: str = "s", texts: Sequence[str] = ("Hi.",), *, at_ms: int = 0, chunk: int = 8
) -> tuple[int, list[int]]:
    """Store a session of Ana's turns, a second apart, in chunks of `chunk` turns; return its row and theirs."""
    row = sessions.add_session(tx, session_id, infer=True, stored_ms=0, metadata={})
    turns = [Turn(f"t{n}", "Ana", text, from_ms(at_ms + 1000 * n), ordinal=n) for n, text in enumerate(texts)]
    ids = add_turns(tx, row, turns)
    starts = range(0, len(texts), chunk)
    sessions.add_chunks(tx, row, [(n, at, min(at + chunk, len(texts)) - 1) for n, at in enumerate(starts)])
    return row, ids


def add_turns(tx: Connection, session: int, turns: Sequence[Turn], stored_ms: int = 0) -> list[int]:
    """Store turns of a session, and return their rows."""
    name = value(tx, "SELECT session_id FROM session WHERE id = ?", session)
    return sessions.insert_turns(
        tx, [sessions.StoredTurn.of(turn, session, name, stored_ms) for turn in turns]
    )


def chunk_of(tx: Connection, turn: int) -> int:
    """Return the chunk that a turn is in."""
    return int(
        value(
            tx,
            """SELECT c.id FROM chunk c JOIN turn t ON t.session = c.session
               AND t.ordinal BETWEEN c.first AND c.last WHERE t.id = ?""",
            turn,
        )
    )


def put_fact(tx: Connection, fact_id: str = "f", text: str = "Ana paints.", **values: Any) -> int:
    """Store a fact that states no time and was said first at 0, unless told otherwise."""
    given = {
        "speaker": "Ana", "start_ms": None, "end_ms": None, "precision": "unknown", "negated": False, "said_ms": 0,
        "tie": f"s\x1f000000\x1f{fact_id}", "topics": (), "stored_ms": 0, **values,
    }  # fmt: skip
    return add_facts(tx, [FactRow(row=0, fact_id=fact_id, text=text, **given)])[0]


def say(tx: Connection, fact: int, *turns: int, text: str = "Ana paints.", **values: Any) -> OccurrenceRef:
    """Record that turns of one chunk say a fact, at the time of the first."""
    given = {
        "speaker": "Ana", "quote": "Hi.", "topics": (), "cosine": None, "tie": f"s\x1f{turns[0]:06}",
        "said_ms": value(tx, "SELECT said_ms FROM turn WHERE id = ?", turns[0]), **values,
    }  # fmt: skip
    given |= {"topics": json.dumps(given["topics"]), "dates": write_dates(given.get("dates", ()))}
    given = {"correction": None, "stored_ms": None, **given}
    one = StoredOccurrence(row=0, fact=fact, chunk=chunk_of(tx, turns[0]), text=text, **given)
    (row,) = add_occurrences(tx, [one], [turns])
    return fact, row


def put_entities(tx: Connection, *keys: str) -> list[int]:
    """Store entities of unknown kind, called by their keys; return their rows."""
    return [put_entity(tx, key, key.title(), "unknown") for key in keys]


def finish_chunk(
    tx: Connection, chunk: int, status: Any, *, maker: str, reason: str | None = None, skipped: Any = ()
) -> None:
    """Record the outcome of a chunk."""
    nobody = -1  # the status of no session changes
    sessions.finish_chunks(tx, nobody, [(chunk, status, maker, reason, skipped)])


def add_mention(tx: Connection, where: OccurrenceRef, entity: int, role: str) -> None:
    """Record that an occurrence of a fact names an entity."""
    facts.add_named(tx, [(where[0], entity, where[1], facts.ROLES[role])])


def add_state(tx: Connection, where: OccurrenceRef, entity: int, state: State) -> int:
    """Record a state that an occurrence asserts, dated by the fact if that states a time, and return its row id."""
    sql = "SELECT coalesce(f.start_ms, o.said_ms) FROM fact f, occurrence o WHERE f.id = ? AND o.id = ?"
    at_ms = value(tx, sql, *where)
    one = facts.NewState(*where, entity, state.attribute, state.value, state.previous, state.change, at_ms)
    return facts.add_named(tx, states=[one])[0]


def use_alias(tx: Connection, key: str, entity: int, occurrence: int) -> None:
    """Record that an occurrence calls an entity by an alias."""
    facts.use_aliases(tx, [(key, entity, occurrence)])


def add_relation(tx: Connection, where: OccurrenceRef, source: int, label: str, target: int) -> None:
    """Store a relation that an occurrence states."""
    facts.add_named(tx, relations=[(*where, source, label, target)])


def put_entity(tx: Connection, key: str, label: str, kind: EntityKind) -> int:
    """Store an entity, or a surer kind of it, and return its row id."""
    book = EntityBook(tx)
    row = book.put(key, label, kind)
    book.write()
    return row


def observed(
    at_ms: int,
    tie: str,
    fact: int,
    value: str,
    previous: str | None = None,
    change: str = "is",
    row: int = 0,
    latest_ms: int = 0,
) -> StateSeen:
    """Return an observation of one attribute of one entity."""
    return StateSeen(1, "home", value, previous, change, fact, at_ms, tie, row, latest_ms)


def superseded(observations: Iterable[StateSeen], new: Iterable[StateSeen]) -> set[int]:
    """Return the facts of the segments that new observations of one attribute superseded, by its whole timeline."""
    wanted, segments, found = set(new), list[Segment](), set[int]()
    for seen in sorted(observations, key=time_order):
        before = observe(segments, seen)
        if before is not None and seen in wanted:
            found |= {*before.facts} - {seen.fact}
    return found
