"""Rows that a deletion reads and writes: turns with what hangs on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from memforest.store import meta
from memforest.store.dates import write_dates
from memforest.store.dialect import AMONG, listed
from memforest.store.digests import turn_digest
from memforest.store.facts import OccurrenceRow
from memforest.store.tx import Tx

__all__ = [
    "Spot",
    "add_tombstones",
    "all_turns",
    "cells_reading",
    "drop_cell",
    "drop_corrections",
    "drop_jobs",
    "drop_occurrences",
    "drop_origins",
    "drop_turn",
    "entities_spelled",
    "facts_of_cells",
    "fit_cell",
    "forget_reasons",
    "forget_results",
    "free_corrections",
    "is_spelled",
    "mark_erased",
    "move_occurrence",
    "occurrences_made",
    "occurrences_naming",
    "put_turn_anew",
    "relabel",
    "sessions_of_values",
    "spots",
    "spots_between",
    "spots_by",
    "spots_of_session",
    "still_heard",
    "texts_naming",
    "turn_named",
]


class Spot(NamedTuple):
    """A turn in its place; `metadata` is JSON."""

    row: int
    session: int
    session_id: str
    ordinal: int
    turn_id: str
    speaker: str
    role: str | None
    text: str
    said_ms: int
    time_source: str
    metadata: str
    stored_ms: int
    origin: int | None


_SPOT = """SELECT t.id, t.session, s.session_id, t.ordinal, t.turn_id, t.speaker, t.role, t.text, t.said_ms,
    t.time_source, t.metadata, t.stored_ms, t.origin FROM turn t JOIN session s ON s.id = t.session"""


def spots(tx: Tx, turns: Collection[int]) -> list[Spot]:
    """Return turns by row id, in the order of their sessions and positions."""
    rows = tx.execute(f"{_SPOT} WHERE t.id {AMONG} ORDER BY t.session, t.ordinal", (tx.ids(turns),))
    return [Spot(*row) for row in rows]


def spots_of_session(tx: Tx, session: int, first: int, last: int) -> list[Spot]:
    """Return the turns of a session with ordinals from `first` to `last`, both included."""
    rows = tx.execute(
        f"{_SPOT} WHERE t.session = ? AND t.ordinal BETWEEN ? AND ? ORDER BY t.ordinal",
        (session, first, last),
    )
    return [Spot(*row) for row in rows]


def spots_between(tx: Tx, start_ms: int | None, end_ms: int) -> list[int]:
    """Return the turns said in [start, end), None for all before the end, by way of the index of said times."""
    sql = "SELECT id FROM turn WHERE said_ms < ? AND said_ms >= coalesce(?, said_ms) ORDER BY id"
    if start_ms is not None:
        sql = "SELECT id FROM turn WHERE said_ms < ? AND said_ms >= ? ORDER BY id"
    return [row[0] for row in tx.execute(sql, (end_ms, start_ms))]


def spots_by(tx: Tx, speaker: str) -> list[int]:
    """Return the turns of a speaker, as the name is written."""
    return [row[0] for row in tx.execute("SELECT id FROM turn WHERE speaker = ? ORDER BY id", (speaker,))]


def all_turns(tx: Tx) -> list[int]:
    """Return the rows of all turns."""
    return [row[0] for row in tx.execute("SELECT id FROM turn ORDER BY id")]


def turn_named(tx: Tx, session: int, turn_id: str) -> int | None:
    """Return the row of a session's turn, None when it has none of that id."""
    row = tx.execute("SELECT id FROM turn WHERE session = ? AND turn_id = ?", (session, turn_id)).fetchone()
    return None if row is None else int(row[0])


def drop_turn(tx: Tx, turn: int) -> None:
    """Delete a turn."""
    tx.execute("DELETE FROM turn WHERE id = ?", (turn,))


def put_turn_anew(tx: Tx, spot: Spot, text: str, metadata: str) -> int:
    """Store a turn with another text in its place under a new row id, as ids are never given to another text.

    The occurrences that it supports are to be supported by the new row; so is what is said of them.
    """
    held = [
        row[0] for row in tx.execute("SELECT occurrence FROM occurrence_turn WHERE turn = ?", (spot.row,))
    ]
    drop_turn(tx, spot.row)
    said = (
        spot.ordinal,
        spot.turn_id,
        spot.speaker,
        spot.role,
        text,
        spot.said_ms,
        spot.time_source,
        metadata,
    )
    row = meta.take_ids(tx, "turn")
    tx.execute(
        """INSERT INTO turn (id, session, ordinal, turn_id, speaker, role, text, said_ms, time_source,
           metadata, stored_ms, digest, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (row, spot.session, *said, spot.stored_ms, turn_digest((spot.session_id, *said)), spot.origin),
    )
    tx.executemany("INSERT INTO occurrence_turn VALUES (?, ?)", [(one, row) for one in held])
    return row


# -- cells and sessions ---------------------------------------------------------------------------


def cells_reading(
    tx: Tx, session: int, ordinals: Collection[int], context: int
) -> list[tuple[int, int, int]]:
    """Return (row, first, last) of the cells that hold one of some turns, or that it stands at most `context` before.

    Args:
        tx: a transaction.
        session: whose cells.
        ordinals: of the turns.
        context: how many turns before a cell are read with it.
    """
    rows = tx.execute(
        f"""SELECT DISTINCT c.id, c.first, c.last FROM (SELECT value AS at FROM {listed("?")}) w JOIN cell c
            ON c.session = ? AND c.first - ? <= w.at AND c.last >= w.at ORDER BY c.first""",
        (tx.ids(sorted(ordinals)), session, context),
    )
    return [(row[0], row[1], row[2]) for row in rows]


def fit_cell(tx: Tx, cell: int, skipped: Sequence[tuple[int, str]], reason: str | None) -> bool:
    """Let a cell begin and end at turns that there are, and write what it skipped and why it failed.

    Returns:
        False if none of its turns is left; then it stays as it was.
    """
    first, last = tx.execute(
        """SELECT min(t.ordinal), max(t.ordinal) FROM cell c JOIN turn t ON t.session = c.session
           AND t.ordinal BETWEEN c.first AND c.last WHERE c.id = ?""",
        (cell,),
    ).fetchone()
    if first is None:
        return False
    tx.execute(
        "UPDATE cell SET first = ?, last = ?, skipped = ?, reason = ? WHERE id = ?",
        (first, last, json.dumps(list(skipped)), reason, cell),
    )
    return True


def drop_cell(tx: Tx, cell: int) -> None:
    """Delete a cell without turns."""
    tx.execute("DELETE FROM cell WHERE id = ?", (cell,))


def mark_erased(tx: Tx, session: int, metadata: str) -> bool:
    """Note that something of a session was deleted, and write its metadata; return whether any turn is left."""
    if tx.execute("SELECT 1 FROM turn WHERE session = ? LIMIT 1", (session,)).fetchone() is None:
        return False
    tx.execute(
        """UPDATE session SET erased = erased + 1, metadata = ?, status = CASE WHEN EXISTS (SELECT 1 FROM cell
           WHERE session = session.id AND status = 'pending') THEN status ELSE 'ingested' END WHERE id = ?""",
        (metadata, session),
    )
    return True


# -- occurrences ----------------------------------------------------------------------------------


def facts_of_cells(tx: Tx, cells: Collection[int]) -> set[int]:
    """Return the facts that cells support."""
    rows = tx.execute(f"SELECT DISTINCT fact FROM occurrence WHERE cell {AMONG}", (tx.ids(cells),))
    return {row[0] for row in rows}


def occurrences_naming(tx: Tx, entity: int) -> dict[int, set[int]]:
    """Return fact -> those of its occurrences that name an entity."""
    found: dict[int, set[int]] = {}
    for fact, occurrence in tx.execute("SELECT fact, occurrence FROM mention WHERE entity = ?", (entity,)):
        found.setdefault(fact, set()).add(occurrence)
    return found


def entities_spelled(tx: Tx, facts: Collection[int]) -> dict[int, set[str]]:
    """Return occurrence -> the names of the entities that it mentions, of the occurrences of facts."""
    rows = tx.execute(
        f"SELECT m.occurrence, e.label FROM mention m JOIN entity e ON e.id = m.entity WHERE m.fact {AMONG}",
        (tx.ids(facts),),
    )
    found: dict[int, set[str]] = {}
    for occurrence, label in rows:
        found.setdefault(occurrence, set()).add(label)
    return found


def drop_occurrences(tx: Tx, rows: Collection[int]) -> tuple[set[str], set[int]]:
    """Delete occurrences with their mentions and states; return the aliases that they used and the entities that they named."""
    wanted = tx.ids(sorted(rows))
    used = tx.execute(f"SELECT DISTINCT key FROM alias_use WHERE occurrence {AMONG}", (wanted,)).fetchall()
    named = tx.execute(
        f"""SELECT DISTINCT m.entity FROM occurrence o JOIN mention m ON m.fact = o.fact AND m.occurrence = o.id
            WHERE o.id {AMONG}""",
        (wanted,),
    ).fetchall()
    tx.execute(f"DELETE FROM occurrence WHERE id {AMONG}", (wanted,))
    return {row[0] for row in used}, {row[0] for row in named}


def move_occurrence(tx: Tx, one: OccurrenceRow, fact: int) -> None:
    """Make an occurrence one of another fact, with its mentions and states; it keeps its wording, tie and dates."""
    tx.execute(
        """UPDATE occurrence SET fact = f.id, text = nullif(?, f.text), tie = nullif(?, f.tie),
           dates = nullif(?, f.dates) FROM fact f WHERE occurrence.id = ? AND f.id = ?""",
        (one.text, one.tie, write_dates(one.dates), one.row, fact),
    )
    tx.execute("UPDATE mention SET fact = ? WHERE fact = ? AND occurrence = ?", (fact, one.fact, one.row))
    tx.execute(
        """UPDATE state SET fact = ?, at_ms = coalesce((SELECT start_ms FROM fact WHERE id = ?),
           (SELECT said_ms FROM occurrence WHERE id = state.occurrence)) WHERE occurrence = ?""",
        (fact, fact, one.row),
    )


def still_heard(tx: Tx, session: int, speakers: Collection[str], gone: Collection[int]) -> set[str]:
    """Return those speakers who say something in a session besides the turns that go."""
    return {
        name
        for name in sorted(speakers)
        if tx.execute(
            f"SELECT 1 FROM turn WHERE session = ? AND +speaker = ? AND id NOT {AMONG} LIMIT 1",
            (session, name, tx.ids(gone)),
        ).fetchone()
    }


_NAMING = """FROM mention m JOIN occurrence o ON o.id = m.occurrence JOIN fact f ON f.id = m.fact
    WHERE m.entity = ?"""


def is_spelled(tx: Tx, entity: int, label: str) -> bool:
    """Return whether somebody speaks by a name, or a statement that names the entity spells it so."""
    found = (
        tx.execute("SELECT 1 FROM turn WHERE speaker = ? LIMIT 1", (label,)).fetchone()
        or tx.execute(
            f"SELECT 1 {_NAMING} AND instr(coalesce(o.text, f.text), ?) LIMIT 1", (entity, label)
        ).fetchone()
    )
    return found is not None


def texts_naming(tx: Tx, entity: int) -> Iterator[str]:
    """Yield the statements that name an entity, and their speakers, in the order they were said."""
    for text, speaker in tx.execute(
        f"SELECT coalesce(o.text, f.text), o.speaker {_NAMING} ORDER BY o.said_ms, o.id", (entity,)
    ).fetchall():
        yield text
        yield speaker


def relabel(tx: Tx, entity: int, label: str) -> None:
    """Spell an entity's name otherwise."""
    tx.execute("UPDATE entity SET label = ? WHERE id = ?", (label, entity))


# -- what repeats words elsewhere -------------------------------------------------------------------


def free_corrections(tx: Tx, places: Collection[tuple[str, str]]) -> tuple[list[int], int]:
    """Delete the places of corrections at turns (session id, turn id) where their statement is not made from any more.

    Returns:
        The corrections that have no place left, and how many lost one and have others.
    """
    touched: set[int] = set()
    for session_id, turn_id in sorted(places):
        rows = tx.execute(
            """SELECT DISTINCT p.correction FROM correction_place p JOIN correction c ON c.id = p.correction
               WHERE p.session_id = ? AND p.turn_id = ? AND NOT EXISTS (SELECT 1 FROM fact f
                   JOIN occurrence o ON o.fact = f.id JOIN occurrence_turn x ON x.occurrence = o.id
                   JOIN turn t ON t.id = x.turn AND t.turn_id = p.turn_id JOIN session s ON s.id = t.session
                   WHERE f.fact_id = c.fact_id AND s.session_id = p.session_id)""",
            (session_id, turn_id),
        ).fetchall()
        for (correction,) in rows:
            tx.execute(
                "DELETE FROM correction_place WHERE correction = ? AND session_id = ? AND turn_id = ?",
                (correction, session_id, turn_id),
            )
            touched.add(correction)
    rows = tx.execute(
        f"""SELECT id FROM correction WHERE id {AMONG}
            AND NOT EXISTS (SELECT 1 FROM correction_place p WHERE p.correction = correction.id)""",
        (tx.ids(sorted(touched)),),
    ).fetchall()
    return [row[0] for row in rows], len(touched) - len(rows)


def occurrences_made(tx: Tx, corrections: Collection[int]) -> dict[int, int]:
    """Return the occurrences that corrections have made, with their facts."""
    rows = tx.execute(f"SELECT id, fact FROM occurrence WHERE correction {AMONG}", (tx.ids(corrections),))
    return dict(rows.fetchall())


def drop_corrections(tx: Tx, corrections: Collection[int]) -> None:
    """Delete corrections, of which no occurrence is left."""
    tx.executemany("DELETE FROM correction WHERE id = ?", [(one,) for one in corrections])


def sessions_of_values(tx: Tx, facts: Collection[int]) -> set[int]:
    """Return the sessions whose results may tell of facts: those that said them, or that observed what they observe."""
    rows = tx.execute(
        f"""SELECT DISTINCT c.session FROM occurrence o JOIN cell c ON c.id = o.cell WHERE o.fact {AMONG}
            UNION SELECT c.session FROM state a JOIN state b ON b.entity = a.entity AND b.attribute = a.attribute
            JOIN occurrence o ON o.id = b.occurrence JOIN cell c ON c.id = o.cell WHERE a.fact {AMONG}""",
        (tx.ids(facts), tx.ids(facts)),
    )
    return {row[0] for row in rows}


def forget_results(tx: Tx, sessions: Collection[int]) -> int:
    """Empty the kept results of writes to sessions, as they tell what was learnt; return how many there were."""
    sql = f"UPDATE write_key SET result = '' WHERE result != '' AND session {AMONG}"
    return tx.execute(sql, (tx.ids(sessions),)).rowcount


def forget_reasons(tx: Tx, tells: Callable[[str], bool], instead: str) -> int:
    """Write something else over the reasons of indexes and jobs that tell of what was deleted; return how many jobs those are."""
    for name, reason in tx.execute("SELECT name, reason FROM index_ WHERE reason IS NOT NULL").fetchall():
        if tells(reason):
            tx.execute("UPDATE index_ SET reason = ? WHERE name = ?", (instead, name))
    rows = tx.execute("SELECT id, reason FROM job WHERE reason IS NOT NULL").fetchall()
    told = [(instead, job) for job, reason in rows if tells(reason)]
    tx.executemany("UPDATE job SET reason = ? WHERE id = ?", told)
    return len(told)


def drop_jobs(tx: Tx, repeats: Callable[[str], bool]) -> None:
    """Delete the jobs whose key or payload repeats what was deleted; their index adds those again that are still due."""
    rows = tx.execute("SELECT id, key, payload FROM job").fetchall()
    tx.executemany(
        "DELETE FROM job WHERE id = ?",
        [(job,) for job, key, payload in rows if repeats(key) or repeats(payload)],
    )


def drop_origins(tx: Tx, origins: Collection[int]) -> None:
    """Delete those origins of which no turn is left."""
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
