"""Rows of one memory read for, and written into, another one: what `memforest.write` copies.

Rows are tuples in the order of the columns named here. Reading takes a transaction of the source, writing one of the
memory that is written; ids of the source never get into it.

"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from memforest.store import meta
from memforest.store.connections import AMONG, Tx
from memforest.store.facts import EntityRow, NewState, StoredOccurrence


class MentionCopy(NamedTuple):
    """A mention as it is stored."""

    fact: int
    entity: int
    occurrence: int
    roles: int


class RelationCopy(NamedTuple):
    """A relation without its id."""

    fact: int
    occurrence: int
    source: int
    label: str
    target: int


def origin_of(tx: Tx, session: int) -> int | None:
    """Return the origin of a session's first turn; None where that was said here, or there is none."""
    row = tx.execute(
        "SELECT origin FROM turn WHERE session = ? ORDER BY ordinal LIMIT 1", (session,)
    ).fetchone()
    return None if row is None else row[0]


def speakers_of(tx: Tx, session: int) -> list[str]:
    """Return who speaks in a session, in order of first appearance."""
    return tx.column(
        "SELECT speaker, min(ordinal) FROM turn WHERE session = ? GROUP BY speaker ORDER BY 2", (session,)
    )


def sessions_with_root(tx: Tx, root: str, first: str) -> dict[str, int]:
    """Return id -> row of the session with an id and of the sessions that merges named after it; `first` stands first."""
    return tx.pairs(
        """SELECT session_id, id FROM session WHERE session_id IN (?, ?)
           OR (session_id > ? AND session_id < ?) ORDER BY session_id != ?, session_id""",
        (root, first, f"{root}~", f"{root}~g", first),
    )


def insert_session(tx: Tx, source: Tx, there: int, session_id: str, stored_ms: int) -> int:
    """Insert a session as it is in another memory, under an id, and return its row id."""
    row = meta.take_ids(tx, "session")
    stored = source.execute(
        "SELECT status, infer, metadata, erased FROM session WHERE id = ?", (there,)
    ).fetchone()
    tx.execute(
        """INSERT INTO session (id, session_id, stored_ms, status, infer, metadata, erased)
           VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (row, session_id, stored_ms, *stored),
    )
    return row


def settle_status(tx: Tx, session: int) -> None:
    """Give a session the status that its chunks have."""
    tx.execute(
        """UPDATE session SET status = CASE WHEN EXISTS (SELECT 1 FROM chunk WHERE session = session.id
           AND status = 'pending') THEN 'received' ELSE 'ingested' END WHERE id = ?""",
        (session,),
    )


def ends(tx: Tx, session: int) -> tuple[int, int]:
    """Return the numbers that the next turn and the next chunk of a session have."""
    turn, chunk = tx.execute(
        """SELECT (SELECT max(ordinal) FROM turn WHERE session = ?1), (SELECT max(ordinal) FROM chunk WHERE session = ?1)""",
        (session,),
    ).fetchone()
    return (0 if turn is None else turn + 1), (0 if chunk is None else chunk + 1)


def turn_ids(tx: Tx, session: int) -> set[str]:
    """Return the ids of a session's turns."""
    return set(tx.column("SELECT turn_id FROM turn WHERE session = ?", (session,)))


def chunks(tx: Tx, session: int) -> list[tuple[Any, ...]]:
    """Return a session's chunks, in order: id, ordinal, first, last, status, reason, maker, skipped."""
    return tx.execute(
        """SELECT id, ordinal, first, last, status, reason, maker, skipped FROM chunk
           WHERE session = ? ORDER BY ordinal""",
        (session,),
    ).fetchall()


def insert_chunks(tx: Tx, session: int, new: Sequence[Sequence[Any]]) -> list[int]:
    """Insert chunks as `chunks` has them, with new ids, which are returned in order."""
    first = meta.take_ids(tx, "chunk", len(new))
    tx.executemany(
        """INSERT INTO chunk (id, session, ordinal, first, last, status, reason, maker, skipped)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        [(first + at, session, *chunk[1:]) for at, chunk in enumerate(new)],
    )
    return list(range(first, first + len(new)))


def occurrence_counts(tx: Tx, facts: Collection[int]) -> dict[int, int]:
    """Return how many occurrences facts have."""
    return tx.pairs(
        f"SELECT fact, count(*) FROM occurrence WHERE fact {AMONG} GROUP BY fact", (tx.ids(facts),)
    )


def fact_places(tx: Tx, rows: Collection[int]) -> dict[int, tuple[Any, ...]]:
    """Return the columns that decide where facts stand and what their leaves say: identity, times, speaker, text, verdict, number of occurrences."""
    found = tx.execute(
        f"""SELECT id, fact_id, start_ms, end_ms, said_ms, tie, speaker, text, verdict,
            (SELECT count(*) FROM occurrence WHERE fact = fact.id) FROM fact WHERE id {AMONG}""",
        (tx.ids(rows),),
    )
    return {row[0]: tuple(row[1:]) for row in found}


def verdicts(tx: Tx, facts: Collection[int]) -> dict[int, int]:
    """Return what was decided of facts, by row id."""
    return tx.pairs(f"SELECT id, verdict FROM fact WHERE id {AMONG}", (tx.ids(facts),))


def occurrences(tx: Tx, chunks: Collection[int]) -> list[StoredOccurrence]:
    """Return the occurrences of chunks."""
    return tx.rows(
        StoredOccurrence,
        f"""SELECT id, fact, chunk, speaker, said_ms, topics, cosine, text, quote, tie, dates, correction, stored_ms
            FROM occurrence WHERE chunk {AMONG} ORDER BY id""",
        (tx.ids(chunks),),
    )


def said_in(tx: Tx, occurrence_rows: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return occurrence -> the turns that support it."""
    found: dict[int, list[int]] = defaultdict(list)
    for occurrence, turn in tx.execute(
        f"SELECT occurrence, turn FROM occurrence_turn WHERE occurrence {AMONG} ORDER BY occurrence, turn",
        (tx.ids(occurrence_rows),),
    ):
        found[occurrence].append(turn)
    return {occurrence: tuple(turns) for occurrence, turns in found.items()}


def mentions(tx: Tx, facts: Collection[int]) -> list[MentionCopy]:
    """Return the mentions of facts."""
    return tx.rows(
        MentionCopy,
        f"SELECT fact, entity, occurrence, roles FROM mention WHERE fact {AMONG} ORDER BY occurrence, entity",
        (tx.ids(facts),),
    )


def states(tx: Tx, facts: Collection[int]) -> list[NewState]:
    """Return the states of facts, in the order in which they were written."""
    return tx.rows(
        NewState,
        f"""SELECT fact, occurrence, entity, attribute, value, previous, change, at_ms FROM state
            WHERE fact {AMONG} ORDER BY id""",
        (tx.ids(facts),),
    )


def relations(tx: Tx, facts: Collection[int]) -> list[RelationCopy]:
    """Return the relations of facts, in the order in which they were written."""
    return tx.rows(
        RelationCopy,
        f"SELECT fact, occurrence, source, label, target FROM relation WHERE fact {AMONG} ORDER BY id",
        (tx.ids(facts),),
    )


def alias_uses(tx: Tx, occurrence_rows: Collection[int]) -> list[tuple[str, int, int]]:
    """Return (short name, entity, occurrence) of the short names by which occurrences call entities."""
    return tx.execute(
        f"SELECT key, entity, occurrence FROM alias_use WHERE occurrence {AMONG} ORDER BY key, occurrence",
        (tx.ids(occurrence_rows),),
    ).fetchall()


def entities(tx: Tx, rows: Collection[int]) -> dict[int, EntityRow]:
    """Return entities by row id."""
    found = tx.execute(f"SELECT id, key, label, kind FROM entity WHERE id {AMONG}", (tx.ids(rows),))
    return {row[0]: EntityRow(*row) for row in found}
