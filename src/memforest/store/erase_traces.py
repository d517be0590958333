"""What repeats or tells of what is deleted: corrections, kept results, reasons, jobs, origins; and how much was deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

__all__ = [
    "add_tombstones",
    "drop_corrections",
    "drop_jobs",
    "drop_origins",
    "forget_reasons",
    "forget_results",
    "free_corrections",
    "occurrences_made",
    "sessions_of_values",
]


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
    """Return the sessions whose kept results may tell of facts: those that said them, or that observed what they observe."""
    if tx.execute("SELECT 1 FROM write_key WHERE result != '' LIMIT 1").fetchone() is None:
        return set()
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
