"""What repeats or tells of what is deleted: corrections, reasons, jobs, origins; and how much was deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import blake2b

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx


def corrections_of_sessions(tx: Tx, sessions: Collection[str]) -> list[int]:
    """Return the corrections that have a place in sessions, by id, in turns that are stored or not; those that were undone too."""
    sql = f"SELECT DISTINCT correction FROM correction_place WHERE session_id {AMONG} ORDER BY correction"
    return [row[0] for row in tx.execute(sql, (tx.ids(sessions),))]


def corrections_in_cells(tx: Tx, cells: Collection[int]) -> list[tuple[int, int]]:
    """Return (correction, cell) of the corrections that have a place in cells, those that were undone too."""
    rows = tx.execute(
        f"""SELECT DISTINCT p.correction, c.id FROM cell c JOIN session s ON s.id = c.session
            JOIN correction_place p ON p.session_id = s.session_id
            JOIN turn t ON t.session = s.id AND t.turn_id = p.turn_id
            WHERE c.id {AMONG} AND t.ordinal BETWEEN c.first AND c.last""",
        (tx.ids(cells),),
    )
    return [(row[0], row[1]) for row in rows]


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
    rows = tx.execute(f"SELECT id, fact FROM occurrence WHERE correction {AMONG}", (tx.ids(corrections),))
    return dict(rows.fetchall())


def drop_corrections(tx: Tx, corrections: Collection[int]) -> None:
    """Delete corrections, of which no occurrence is left; no merge brings them back."""
    wanted = tx.ids(corrections)
    keys = tx.execute(f"SELECT key FROM correction WHERE id {AMONG}", (wanted,)).fetchall()
    note_deleted(tx, (correction_digest(key) for (key,) in keys))
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
    return frozenset(row[0] for row in tx.execute("SELECT digest FROM deleted"))


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
