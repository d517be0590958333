"""Rows that a deletion reads, deletes and writes: turns with what hangs on them, and whatever repeats or tells of them.

`counting` counts the rows that a deletion takes away by triggers of the connection, so that nothing that goes is missed:
rows that go with a row they refer to.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from memforest.store.connections import AMONG, Tx
from memforest.store.facts import OccurrenceRow, write_dates
from memforest.store.sessions import FIRST_MS, StoredTurn, insert_turns


def turns_between(tx: Tx, start_ms: int | None, end_ms: int) -> list[int]:
    """Return the turns said in [start, end), None for all before the end, by way of the index of said times."""
    start = FIRST_MS if start_ms is None else start_ms
    return tx.column("SELECT id FROM turn WHERE said_ms < ? AND said_ms >= ? ORDER BY id", (end_ms, start))


def turns_by(tx: Tx, speaker: str) -> list[int]:
    """Return the turns of a speaker, as the name is written."""
    return tx.column("SELECT id FROM turn WHERE speaker = ? ORDER BY id", (speaker,))


def told_beside(tx: Tx) -> Iterator[tuple[int, str]]:
    """Yield (turn, metadata as readable JSON) of turns with metadata; a session's metadata comes with its first turn."""
    sql = """SELECT id, metadata FROM turn WHERE metadata != '{}' UNION ALL
        SELECT (SELECT t.id FROM turn t WHERE t.session = s.id ORDER BY t.ordinal LIMIT 1), s.metadata
        FROM session s WHERE s.metadata != '{}' AND EXISTS (SELECT 1 FROM turn t WHERE t.session = s.id)"""
    for turn, metadata in tx.execute(sql).fetchall():
        yield turn, json.dumps(json.loads(metadata), ensure_ascii=False)


def all_turns(tx: Tx) -> list[int]:
    """Return the rows of all turns."""
    return tx.column("SELECT id FROM turn ORDER BY id")


def drop_turn(tx: Tx, turn: int) -> None:
    """Delete a turn."""
    tx.execute("DELETE FROM turn WHERE id = ?", (turn,))


def put_turn_anew(tx: Tx, turn: StoredTurn, text: str, metadata: str) -> int:
    """Store a turn with another text in its place under a new row id, as ids are never given to another text.

    The occurrences that it supports are to be supported by the new row; so is what is said of them.
    """
    held = tx.column("SELECT occurrence FROM occurrence_turn WHERE turn = ?", (turn.row,))
    drop_turn(tx, turn.row)
    (row,) = insert_turns(tx, [turn._replace(text=text, metadata=metadata)])
    tx.executemany("INSERT INTO occurrence_turn VALUES (?, ?)", [(one, row) for one in held])
    return row


def chunks_reading(
    tx: Tx, session: int, ordinals: Collection[int], context: int
) -> list[tuple[int, int, int]]:
    """Return (row, first, last) of the chunks that hold one of some turns, or that it stands at most `context` before.

    Args:
        tx: a transaction.
        session: whose chunks.
        ordinals: of the turns, at least one.
        context: how many turns before a chunk are read with it.
    """
    wanted = sorted(ordinals)
    rows = tx.execute(
        "SELECT id, first, last FROM chunk WHERE session = ? AND last >= ? AND first <= ? ORDER BY first",
        (session, wanted[0], wanted[-1] + context),
    )
    return [
        (row, first, last)
        for row, first, last in rows
        if bisect_left(wanted, first - context) < bisect_right(wanted, last)
    ]


def fit_chunk(tx: Tx, chunk: int, skipped: Sequence[tuple[int, str]], reason: str | None) -> bool:
    """Let a chunk begin and end at turns that there are, and write what it skipped and why it failed.

    Returns:
        False if none of its turns is left; then it stays as it was.
    """
    first, last = tx.execute(
        """SELECT min(t.ordinal), max(t.ordinal) FROM chunk c JOIN turn t ON t.session = c.session
           AND t.ordinal BETWEEN c.first AND c.last WHERE c.id = ?""",
        (chunk,),
    ).fetchone()
    if first is None:
        return False
    tx.execute(
        "UPDATE chunk SET first = ?, last = ?, skipped = ?, reason = ? WHERE id = ?",
        (first, last, json.dumps(list(skipped)), reason, chunk),
    )
    return True


def mark_erased(tx: Tx, session: int, metadata: str) -> bool:
    """Note that something of a session was deleted, and write its metadata; return whether any turn is left."""
    if tx.execute("SELECT 1 FROM turn WHERE session = ? LIMIT 1", (session,)).fetchone() is None:
        return False
    tx.execute(
        """UPDATE session SET erased = erased + 1, metadata = ?, status = CASE WHEN EXISTS (SELECT 1 FROM chunk
           WHERE session = session.id AND status = 'pending') THEN status ELSE 'ingested' END WHERE id = ?""",
        (metadata, session),
    )
    return True


def occurrences_naming(tx: Tx, entity: int) -> dict[int, list[int]]:
    """Return fact -> those of its occurrences that name an entity."""
    return tx.groups(int, "SELECT fact, occurrence FROM mention WHERE entity = ?", (entity,))


def entities_spelled(tx: Tx, facts: Collection[int]) -> dict[int, list[str]]:
    """Return occurrence -> the names of the entities that it mentions, of the occurrences of facts."""
    wanted = tx.ids(facts)
    return tx.groups(
        str,
        f"""SELECT m.occurrence, e.label FROM mention m JOIN entity e ON e.id = m.entity WHERE m.fact {AMONG} UNION
            SELECT n.occurrence, n.name FROM occurrence o JOIN name_use n ON n.occurrence = o.id WHERE o.fact {AMONG}""",
        (wanted, wanted),
    )


def drop_occurrences(tx: Tx, rows: Collection[int]) -> tuple[set[str], set[int]]:
    """Delete occurrences with what they name and tell; return the aliases that they used and the entities that they named."""
    wanted = tx.ids(sorted(rows))
    used = tx.column(f"SELECT key FROM alias_use WHERE occurrence {AMONG}", (wanted,))
    named = tx.column(
        f"""SELECT m.entity FROM occurrence o JOIN mention m ON m.fact = o.fact AND m.occurrence = o.id
            WHERE o.id {AMONG}""",
        (wanted,),
    )
    tx.execute(f"DELETE FROM occurrence WHERE id {AMONG}", (wanted,))
    return set(used), set(named)


def move_occurrence(tx: Tx, one: OccurrenceRow, fact: int) -> None:
    """Make an occurrence one of another fact, with its mentions, states and relations; it keeps its wording, tie and dates."""
    tx.execute(
        """UPDATE occurrence SET fact = f.id, text = nullif(?, f.text), tie = nullif(?, f.tie),
           dates = nullif(?, f.dates) FROM fact f WHERE occurrence.id = ? AND f.id = ?""",
        (one.text, one.tie, write_dates(one.dates), one.row, fact),
    )
    tx.execute("UPDATE mention SET fact = ? WHERE fact = ? AND occurrence = ?", (fact, one.fact, one.row))
    tx.execute("UPDATE relation SET fact = ? WHERE occurrence = ?", (fact, one.row))
    tx.execute(
        """UPDATE state SET fact = ?, at_ms = coalesce((SELECT start_ms FROM fact WHERE id = ?),
           (SELECT said_ms FROM occurrence WHERE id = state.occurrence)) WHERE occurrence = ?""",
        (fact, fact, one.row),
    )


def still_heard(tx: Tx, session: int, speakers: Collection[str], gone: Collection[int]) -> set[str]:
    """Return the speakers who have turns in a session besides the given ones."""
    sql = f"SELECT DISTINCT speaker FROM turn WHERE session = ? AND id NOT {AMONG}"
    return set(tx.column(sql, (session, tx.ids(gone)))).intersection(speakers)


def called_by_aliases(tx: Tx, entities: Collection[int]) -> dict[int, dict[int, int]]:
    """Return entity -> the occurrences that call it by an alias -> their facts."""
    found = tx.groups(
        lambda occurrence, fact: (occurrence, fact),
        f"""SELECT u.entity, o.id, o.fact FROM alias_use u JOIN occurrence o ON o.id = u.occurrence
            WHERE u.entity {AMONG} ORDER BY u.entity, o.id""",
        (tx.ids(entities),),
    )
    return {entity: dict(pairs) for entity, pairs in found.items()}


_NAMING = """FROM mention m JOIN occurrence o ON o.id = m.occurrence JOIN fact f ON f.id = m.fact
    WHERE m.entity = ?"""


def is_spelled(tx: Tx, entity: int, label: str) -> bool:
    """Return whether somebody speaks by a name, or a statement that names the entity spells it so."""
    told = f"SELECT 1 {_NAMING} AND instr(coalesce(o.text, f.text), ?)"
    sql = f"SELECT EXISTS (SELECT 1 FROM turn WHERE speaker = ?) OR EXISTS ({told})"
    return bool(tx.value(sql, (label, entity, label)))


def texts_naming(tx: Tx, entity: int) -> Iterator[str]:
    """Yield the statements that name an entity, and their speakers, in the order they were said."""
    for text, speaker in tx.execute(
        f"SELECT coalesce(o.text, f.text), o.speaker {_NAMING} ORDER BY o.said_ms, o.id", (entity,)
    ).fetchall():
        yield text
        yield speaker


def relabel(tx: Tx, entity: int, label: str) -> None:
    """Spell an entity's name otherwise; occurrences that spell it so alone need not say so any more."""
    tx.execute("UPDATE entity SET label = ? WHERE id = ?", (label, entity))
    tx.execute(
        """DELETE FROM name_use WHERE entity = ? AND name = ? AND NOT EXISTS (SELECT 1 FROM name_use o
           WHERE o.occurrence = name_use.occurrence AND o.entity = name_use.entity AND o.name != name_use.name)""",
        (entity, label),
    )


_PLAIN = (
    "session",
    "turn",
    "chunk",
    "fact",
    "occurrence",
    "mention",
    "state",
    "relation",
    "name_use",
    "entity",
    "alias",
    "choice",
    "correction",
    "write_key",
)
_VECTORS = ("derived_turn_vector", "derived_fact_vector")


def _trigger(name: str, event: str, table: str, by: int) -> str:
    return f"""CREATE TEMP TRIGGER erased_{name} AFTER {event} ON main.{table} BEGIN
        INSERT INTO erased_count VALUES ('{table}', {by})
        ON CONFLICT (kind) DO UPDATE SET n = n + excluded.n; END"""


# Of vectors those that went are counted; others may be made anew at once.
_TRIGGERS = [
    *(_trigger(f"{table}_out", "DELETE", table, 1) for table in (*_PLAIN, *_VECTORS)),
    *(_trigger(f"{table}_in", "INSERT", table, -1) for table in _PLAIN),
]
_DROPPED = [f"DROP TRIGGER {sql.split()[3]}" for sql in _TRIGGERS]


@contextmanager
def counting(tx: Tx) -> Iterator[dict[str, int]]:
    """Count the rows that go while the block runs, by table, those that go with others included; filled at its end."""
    tx.execute("CREATE TEMP TABLE erased_count (kind TEXT PRIMARY KEY, n INTEGER)")
    for sql in _TRIGGERS:
        tx.execute(sql)
    counts: dict[str, int] = {}
    yield counts
    counts |= tx.pairs("SELECT kind, n FROM erased_count")
    for sql in (*_DROPPED, "DROP TABLE erased_count"):
        tx.execute(sql)


def table_counts(tx: Tx) -> dict[str, int]:
    """Return how many rows each table has that a receipt counts, in a file of any version."""
    there = set(tx.column("SELECT name FROM sqlite_master WHERE type = 'table'"))
    return {
        table: int(tx.value(f"SELECT count(*) FROM {table}"))
        for table in (*_PLAIN, "artifact", *_VECTORS)
        if table in there
    }


def owner_of(tx: Tx) -> str | None:
    """Return the user of a memory's file, whatever its version; None if the file was never begun."""
    if tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return None
    return tx.row(str, "SELECT value FROM meta WHERE key = 'user_id'")


def corrections_of_sessions(tx: Tx, sessions: Collection[str]) -> list[int]:
    """Return the corrections that have a place in sessions, by id, in turns that are stored or not; those that were undone too."""
    sql = f"SELECT DISTINCT correction FROM correction_place WHERE session_id {AMONG} ORDER BY correction"
    return tx.column(sql, (tx.ids(sessions),))


def corrections_in_chunks(tx: Tx, chunks: Collection[int]) -> list[tuple[int, int]]:
    """Return (correction, chunk) of the corrections that have a place in chunks, those that were undone too."""
    return tx.execute(
        f"""SELECT DISTINCT p.correction, c.id FROM chunk c JOIN session s ON s.id = c.session
            JOIN correction_place p ON p.session_id = s.session_id
            JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
            WHERE c.id {AMONG} AND t.ordinal BETWEEN c.first AND c.last""",
        (tx.ids(chunks),),
    ).fetchall()


def reword_correction(tx: Tx, correction: int, said: str) -> None:
    """Write how the statement of a correction is worded otherwise."""
    tx.execute("UPDATE correction SET said = ? WHERE id = ?", (said, correction))


def make_forget(tx: Tx, correction: int) -> None:
    """Let an update put nothing in the place of its statement any more, and only hide that."""
    tx.execute(
        """UPDATE correction SET kind = 'forget', made = NULL, text = NULL, start_ms = NULL, end_ms = NULL,
           precision = 'unknown' WHERE id = ?""",
        (correction,),
    )


def drop_stray_places(tx: Tx, corrections: Collection[int], sessions: Collection[str]) -> None:
    """Delete the places of corrections in turns of sessions that are not stored."""
    tx.execute(
        f"""DELETE FROM correction_place WHERE correction {AMONG} AND session_id {AMONG} AND NOT EXISTS (
            SELECT 1 FROM session s JOIN turn t ON t.session = s.id
            WHERE s.session_id = correction_place.session_id AND t.turn_id = correction_place.turn_id)""",
        (tx.ids(corrections), tx.ids(sessions)),
    )


def occurrences_made(tx: Tx, corrections: Collection[int]) -> dict[int, int]:
    """Return the occurrences that corrections have made, with their facts."""
    return tx.pairs(f"SELECT id, fact FROM occurrence WHERE correction {AMONG}", (tx.ids(corrections),))


def drop_corrections(tx: Tx, corrections: Collection[int]) -> None:
    """Delete corrections that no occurrence is left of, and note them so that no merge brings them back."""
    wanted = tx.ids(corrections)
    keys = tx.column(f"SELECT key FROM correction WHERE id {AMONG}", (wanted,))
    note_deleted(tx, map(correction_digest, keys))
    tx.execute(f"DELETE FROM correction WHERE id {AMONG}", (wanted,))


def correction_digest(key: str) -> bytes:
    """Return the digest by which a correction that was deleted is known."""
    return blake2b(f"correction\0{key}".encode(), digest_size=16).digest()


def note_deleted(tx: Tx, digests: Iterable[bytes]) -> None:
    """Note the digests of what was deleted, so that no merge brings it back."""
    tx.executemany(
        "INSERT INTO deleted (digest) VALUES (?) ON CONFLICT DO NOTHING", [(one,) for one in digests]
    )


def deleted(tx: Tx) -> frozenset[bytes]:
    """Return the digests of all that was deleted."""
    return frozenset(tx.column("SELECT digest FROM deleted"))


def drop_origins(tx: Tx, origins: Collection[int]) -> None:
    """Delete the origins that no turn refers to any more."""
    tx.execute(
        f"DELETE FROM origin WHERE id {AMONG} AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.origin = origin.id)",
        (tx.ids(origins),),
    )


def add_tombstones(tx: Tx, kind: str, stored: Mapping[int, int], deleted_ms: int) -> None:
    """Note how many items of a kind went: when they were stored, in ms -> how many."""
    tx.executemany(
        "INSERT INTO tombstone (kind, count, stored_ms, deleted_ms) VALUES (?, ?, ?, ?)",
        [(kind, count, stored_ms, deleted_ms) for stored_ms, count in sorted(stored.items())],
    )
