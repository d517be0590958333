"""Which chunks were made otherwise than they would be now, and when facts were first stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx

_CUT = """(c.first / :turns != c.last / :turns OR EXISTS (SELECT 1 FROM turn t WHERE t.session = c.session
    AND t.ordinal BETWEEN c.first / :turns * :turns AND c.first / :turns * :turns + :turns - 1
    AND t.ordinal NOT BETWEEN c.first AND c.last))"""
"""A chunk that does not hold just those of `turns` turns that are there: beside what was deleted it is shorter."""


def cells_by_maker(tx: Tx) -> list[tuple[bool, str, int]]:
    """Return (whether statements were extracted, or turns taken as they are; what made them; number of chunks)."""
    rows = tx.execute(
        """SELECT s.infer, c.maker, count(*) FROM cell c JOIN session s ON s.id = c.session
           WHERE c.status = 'extracted' AND c.maker IS NOT NULL GROUP BY s.infer, c.maker ORDER BY c.maker"""
    )
    return [(bool(infer), maker, count) for infer, maker, count in rows]


def cells_cut_otherwise(tx: Tx, turns: int) -> int:
    """Return the number of chunks that would not be cut so with `turns` turns a chunk."""
    found = tx.execute(f"SELECT count(*) FROM cell c WHERE {_CUT}", {"turns": turns})
    return int(found.fetchone()[0])


def stale_sessions(tx: Tx, extractor: str, turns: int) -> list[int]:
    """Return the sessions, in time order, that have a chunk of another maker or cut; of those that were read to their end.

    Args:
        tx: a transaction.
        extractor: what extracts statements now.
        turns: most turns of a chunk now.
    """
    rows = tx.execute(
        f"""SELECT s.id FROM session s WHERE s.status = 'ingested' AND EXISTS (SELECT 1 FROM cell c
            WHERE c.session = s.id AND ((s.infer AND c.status = 'extracted' AND c.maker != :extractor) OR {_CUT}))
            ORDER BY (SELECT min(t.said_ms) FROM turn t WHERE t.session = s.id), s.session_id""",
        {"extractor": extractor, "turns": turns},
    )
    return [row[0] for row in rows]


def facts_stored(tx: Tx, cells: Collection[int]) -> dict[str, int]:
    """Return when the facts of some chunks were stored, in UTC ms, by their identities."""
    rows = tx.execute(
        f"SELECT DISTINCT f.fact_id, f.stored_ms FROM fact f JOIN occurrence o ON o.fact = f.id WHERE o.cell {AMONG}",
        (tx.ids(cells),),
    )
    return dict(rows.fetchall())


def keep_stored(tx: Tx, stored: Mapping[str, int]) -> None:
    """Note that facts that were extracted again have been known since then."""
    tx.executemany(
        "UPDATE fact SET stored_ms = ? WHERE fact_id = ? AND stored_ms > ?",
        [(ms, fact_id, ms) for fact_id, ms in stored.items()],
    )
