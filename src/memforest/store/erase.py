"""Rows that a deletion reads, deletes and writes: turns with what hangs on them, and whatever repeats or tells of them.

`counting` counts the rows that a deletion takes away by triggers of the connection, so that nothing that goes is missed:
rows that go with a row they refer to.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from memforest.store.connections import AMONG, AMONG_IDS, Tx
from memforest.store.corrections import Correction
from memforest.store.facts import EntityRow, OccurrenceRow, write_dates
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


def turns_named(tx: Tx, session_id: str, turn_id: str | None = None) -> list[int]:
    """Return the turns of a session; with the id of a turn that one alone."""
    sql = "SELECT t.id FROM session s JOIN turn t ON t.session = s.id WHERE s.session_id = ?"
    if turn_id is None:
        return tx.column(sql, (session_id,))
    return tx.column(f"{sql} AND t.turn_id = ?", (session_id, turn_id))


def drop_turns(tx: Tx, turns: Collection[int]) -> None:
    """Delete turns."""
    tx.execute(f"DELETE FROM turn WHERE id {AMONG}", (tx.ids(turns),))


def put_turn_anew(tx: Tx, turn: StoredTurn, text: str, metadata: str) -> int:
    """Store a turn with another text in its place under a new row id, as ids are never given to another text.

    The occurrences that it supports are to be supported by the new row; so is what is said of them.
    """
    held = tx.column("SELECT occurrence FROM occurrence_turn WHERE turn = ?", (turn.row,))
    drop_turns(tx, (turn.row,))
    (row,) = insert_turns(tx, [turn._replace(text=text, metadata=metadata)])
    tx.executemany("INSERT INTO occurrence_turn VALUES (?, ?)", [(one, row) for one in held])
    return row


def chunks_reading(tx: Tx, turns: Collection[int], context: int) -> dict[int, list[tuple[int, bool]]]:
    """Return the chunks that read one of some turns -> (turn, whether it is in it) of all that is read with them, in order.

    Args:
        tx: a transaction.
        turns: the turns.
        context: how many turns before a chunk are read with it.
    """
    found: dict[int, list[tuple[int, bool]]] = {}
    # The plus keeps SQLite from looking all turns up for each chunk.
    for chunk, turn, within in tx.execute(
        f"""WITH read AS (SELECT id, session, ordinal, first, max(first - :context, 0) AS start, last FROM chunk
                WHERE session IN (SELECT session FROM turn WHERE id {AMONG_IDS}))
            SELECT c.id, t.id, t.ordinal >= c.first FROM read c
            JOIN turn t ON t.session = c.session AND t.ordinal BETWEEN c.start AND c.last
            WHERE EXISTS (SELECT 1 FROM turn r WHERE r.session = c.session AND r.ordinal BETWEEN c.start AND c.last
                AND +r.id {AMONG_IDS})
            ORDER BY c.session, c.ordinal, t.ordinal""",
        {"ids": tx.ids(turns), "context": context},
    ):
        found.setdefault(chunk, []).append((turn, bool(within)))
    return found


def fit_sessions(
    tx: Tx, sessions: Collection[int], chunks: Collection[int], origins: Collection[int]
) -> tuple[list[int], int]:
    """Let sessions, chunks and origins have the turns that there are: those without go, and chunks begin and end at turns.

    Args:
        tx: the write transaction.
        sessions: those that have lost something, which is noted.
        chunks: those in which that was.
        origins: those of what went.

    Returns:
        The sessions that are left, and how many of the chunks.
    """
    own, wanted = tx.ids(chunks), tx.ids(sessions)
    within = "session = chunk.session AND ordinal BETWEEN chunk.first AND chunk.last"
    without = f"id {AMONG} AND NOT EXISTS (SELECT 1 FROM turn WHERE"
    tx.execute(f"DELETE FROM chunk WHERE {without} {within})", (own,))
    tx.execute(f"DELETE FROM session WHERE {without} session = session.id)", (wanted,))
    tx.execute(f"DELETE FROM origin WHERE {without} origin = origin.id)", (tx.ids(origins),))
    fitted = tx.execute(
        f"""UPDATE chunk SET first = (SELECT min(ordinal) FROM turn WHERE {within}),
            last = (SELECT max(ordinal) FROM turn WHERE {within}) WHERE id {AMONG}""",
        (own,),
    )
    left = tx.column(
        f"""UPDATE session SET erased = erased + 1, status = CASE WHEN EXISTS (SELECT 1 FROM chunk
            WHERE session = session.id AND status = 'pending') THEN status ELSE 'ingested' END
            WHERE id {AMONG} RETURNING id""",
        (wanted,),
    )
    return left, fitted.rowcount


def notes_of(tx: Tx, chunks: Collection[int]) -> list[tuple[int, list[tuple[int, str]], str | None]]:
    """Return (chunk, what it skipped, why it failed) of those chunks that are left and say one of these."""
    rows = tx.execute(
        f"SELECT id, skipped, reason FROM chunk WHERE id {AMONG} AND (skipped != '[]' OR reason IS NOT NULL)",
        (tx.ids(chunks),),
    )
    return [(row, json.loads(skipped), reason) for row, skipped, reason in rows]


def put_notes(tx: Tx, chunk: int, skipped: Sequence[tuple[int, str]], reason: str | None) -> None:
    """Write otherwise what a chunk skipped and why it failed."""
    sql = "UPDATE chunk SET skipped = ?, reason = ? WHERE id = ?"
    tx.execute(sql, (json.dumps(list(skipped)), reason, chunk))


def put_metadata(tx: Tx, session: int, metadata: str) -> None:
    """Write the metadata of a session otherwise."""
    tx.execute("UPDATE session SET metadata = ? WHERE id = ?", (metadata, session))


def occurrences_naming(tx: Tx, entities: Collection[int]) -> dict[int, list[int]]:
    """Return fact -> those of its occurrences that name one of some entities."""
    found = f"SELECT DISTINCT fact, occurrence FROM mention WHERE entity {AMONG}"
    return tx.groups(int, found, (tx.ids(entities),))


def named_in(tx: Tx, chunks: Collection[int]) -> dict[int, list[str]]:
    """Return occurrence -> the names of the entities that it mentions, of the occurrences of chunks."""
    wanted = tx.ids(chunks)
    return tx.groups(
        str,
        f"""SELECT o.id, e.label FROM occurrence o JOIN mention m ON m.fact = o.fact AND m.occurrence = o.id
            JOIN entity e ON e.id = m.entity WHERE o.chunk {AMONG} UNION
            SELECT o.id, n.name FROM occurrence o JOIN name_use n ON n.occurrence = o.id WHERE o.chunk {AMONG}""",
        (wanted, wanted),
    )


def labels_in(tx: Tx, chunks: Collection[int]) -> list[tuple[int, int, str]]:
    """Return (relation, chunk, label) of the relations that the occurrences of chunks state."""
    return tx.execute(
        f"SELECT r.id, o.chunk, r.label FROM occurrence o JOIN relation r ON r.occurrence = o.id WHERE o.chunk {AMONG}",
        (tx.ids(chunks),),
    ).fetchall()


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


def heard_besides(tx: Tx, sessions: Collection[int], gone: Collection[int]) -> set[tuple[int, str]]:
    """Return (session, speaker) of the turns of sessions but for the given ones."""
    sql = f"SELECT DISTINCT session, speaker FROM turn WHERE session {AMONG} AND id NOT {AMONG}"
    return set(tx.execute(sql, (tx.ids(sessions), tx.ids(gone))).fetchall())


def called_by_aliases(tx: Tx, entities: Collection[int]) -> dict[EntityRow, dict[int, int]]:
    """Return entity -> the occurrences that call it by an alias -> their facts."""
    found: dict[EntityRow, dict[int, int]] = {}
    for *entity, occurrence, fact in tx.execute(
        f"""SELECT e.id, e.key, e.label, e.kind, o.id, o.fact FROM alias_use u JOIN entity e ON e.id = u.entity
            JOIN occurrence o ON o.id = u.occurrence WHERE u.entity {AMONG} ORDER BY e.id, o.id""",
        (tx.ids(entities),),
    ):
        found.setdefault(EntityRow(*entity), {})[occurrence] = fact
    return found


_NAMING = (
    "FROM mention m JOIN occurrence o ON o.id = m.occurrence JOIN fact f ON f.id = m.fact WHERE m.entity ="
)


def misspelled(tx: Tx, entities: Collection[int]) -> list[EntityRow]:
    """Return those entities as whose label nobody speaks, and that no statement which names them spells so."""
    told = f"SELECT 1 {_NAMING} e.id AND instr(coalesce(o.text, f.text), e.label)"
    return tx.rows(
        EntityRow,
        f"""SELECT id, key, label, kind FROM entity e WHERE id {AMONG} AND NOT EXISTS (SELECT 1 FROM turn
            WHERE speaker = e.label) AND NOT EXISTS ({told}) ORDER BY id""",
        (tx.ids(entities),),
    )


def texts_naming(tx: Tx, entity: int) -> Iterator[str]:
    """Yield the statements that name an entity, and their speakers, in the order they were said."""
    for text, speaker in tx.execute(
        f"SELECT coalesce(o.text, f.text), o.speaker {_NAMING} ? ORDER BY o.said_ms, o.id", (entity,)
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


_LAYERS = {
    "session": "sessions",
    "turn": "turns",
    "chunk": "chunks",
    "fact": "facts",
    "occurrence": "occurrences",
    "mention": "mentions",
    "state": "states",
    "relation": "relations",
    "entity": "entities",
    "alias": "aliases",
    "name_use": "aliases",
    "choice": "choices",
    "correction": "corrections",
    "write_key": "write_keys",
}
"""Table -> the layer of a receipt under which its rows are counted."""
# Of these those that went are counted; others may be made anew at once.
_DERIVED = {"derived_turn_vector": "vectors", "derived_fact_vector": "vectors"}
_STORED = ("session", "turn", "fact")
"""Of these it is noted when those that are gone had been stored."""


def _trigger(table: str, event: str, row: str, by: int) -> str:
    stored_ms = f"{row}.stored_ms" if table in _STORED else 0
    return f"""CREATE TEMP TRIGGER erased_{table}_{event} AFTER {event} ON main.{table} BEGIN
        INSERT INTO erased_count VALUES ('{table}', {stored_ms}, {by})
        ON CONFLICT (kind, stored_ms) DO UPDATE SET n = n + excluded.n; END"""


_TRIGGERS = [
    *(_trigger(table, "DELETE", "old", 1) for table in (*_LAYERS, *_DERIVED)),
    *(_trigger(table, "INSERT", "new", -1) for table in _LAYERS),
]
_DROPPED = [f"DROP TRIGGER {sql.split()[3]}" for sql in _TRIGGERS]


@contextmanager
def counting(tx: Tx, now_ms: int) -> Iterator[Counter[str]]:
    """Count the rows that go while the block runs, by layer, those that go with others included; filled at its end.

    When sessions, turns and facts that are gone had been stored is noted then (`tombstone`).
    """
    tx.execute(
        "CREATE TEMP TABLE erased_count (kind TEXT, stored_ms INTEGER, n INTEGER, PRIMARY KEY (kind, stored_ms))"
    )
    for sql in _TRIGGERS:
        tx.execute(sql)
    counts: Counter[str] = Counter()
    yield counts
    for table, count in tx.execute("SELECT kind, sum(n) FROM erased_count GROUP BY kind"):
        counts[(_LAYERS | _DERIVED)[table]] += count
    tx.execute(
        f"""INSERT INTO tombstone (kind, count, stored_ms, deleted_ms) SELECT kind, n, stored_ms, ? FROM erased_count
            WHERE kind {AMONG} AND n > 0 ORDER BY kind, stored_ms""",
        (now_ms, tx.ids(_STORED)),
    )
    for sql in (*_DROPPED, "DROP TABLE erased_count"):
        tx.execute(sql)


def table_counts(tx: Tx) -> Counter[str]:
    """Return how many rows each layer has that a receipt counts, in a file of any version."""
    there = set(tx.column("SELECT name FROM sqlite_master WHERE type = 'table'"))
    counts: Counter[str] = Counter()
    for table, layer in (_LAYERS | _DERIVED | {"artifact": "summaries"}).items():
        if table in there:
            counts[layer] += tx.value(f"SELECT count(*) FROM {table}")
    return counts


def owner_of(tx: Tx) -> str | None:
    """Return the user of a memory's file, whatever its version; None if the file was never begun."""
    if tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return None
    return tx.row(str, "SELECT value FROM meta WHERE key = 'user_id'")


def corrections_reached(
    tx: Tx, sessions: Collection[str], chunks: Collection[int]
) -> list[tuple[int, int | None]]:
    """Return (correction, chunk) of the corrections that have a place in sessions, those that were undone too.

    The chunk is one of the given ones in which the place is; None where it is elsewhere, or in a turn that is not stored.
    """
    return tx.execute(
        f"""SELECT DISTINCT p.correction, c.id FROM correction_place p LEFT JOIN session s ON s.session_id = p.session_id
            LEFT JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
            LEFT JOIN chunk c ON c.session = s.id AND t.ordinal BETWEEN c.first AND c.last AND c.id {AMONG}
            WHERE p.session_id {AMONG} ORDER BY 1, 2""",
        (tx.ids(chunks), tx.ids(sessions)),
    ).fetchall()


def rewrite_correction(tx: Tx, one: Correction) -> None:
    """Write otherwise what a correction is, says and puts in the place of its statement."""
    tx.execute(
        "UPDATE correction SET kind = ?, made = ?, text = ?, start_ms = ?, end_ms = ?, precision = ?, said = ?, state = ? WHERE id = ?",
        (
            *(one.kind, one.made, one.text, one.start_ms, one.end_ms, one.precision),
            *(one.said, one.state, one.row),
        ),
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
