"""The indexes of a memory and their settings; chunks that would be made otherwise now; and vectors by a next embedder.

Vectors by the embedder that a memory is to have next stand beside those in use until every text has one. A row goes with
its text, by triggers, so what is there is of the present texts; `switch` puts them in the place of those in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from memforest.store import artifacts, meta
from memforest.store.connections import AMONG, Tx
from memforest.store.derived import (
    ITEM_KINDS,
    VECTOR_TABLES,
    ItemKind,
    VectorRow,
    embedded_texts,
    pack_vector,
)


class IndexRow(NamedTuple):
    """An index of a memory, and its settings as JSON."""

    name: str
    settings: str


def rows(tx: Tx) -> list[IndexRow]:
    """Return the indexes of a memory, by name."""
    return tx.rows(IndexRow, "SELECT name, settings FROM index_ ORDER BY name")


def find(tx: Tx, name: str) -> IndexRow | None:
    """Return an index of a memory, or None."""
    return tx.row(IndexRow, "SELECT name, settings FROM index_ WHERE name = ?", (name,))


def add(tx: Tx, row: IndexRow) -> None:
    """Insert an index."""
    tx.execute("INSERT INTO index_ (name, settings) VALUES (?, ?)", row)


def change(tx: Tx, name: str, settings: str) -> None:
    """Write an index's settings."""
    tx.execute("UPDATE index_ SET settings = ? WHERE name = ?", (settings, name))


def remove(tx: Tx, name: str) -> None:
    """Delete an index's row."""
    tx.execute("DELETE FROM index_ WHERE name = ?", (name,))


_CUT = """(c.first / :turns != c.last / :turns OR EXISTS (SELECT 1 FROM turn t WHERE t.session = c.session
    AND t.ordinal BETWEEN c.first / :turns * :turns AND c.first / :turns * :turns + :turns - 1
    AND t.ordinal NOT BETWEEN c.first AND c.last))"""
"""A chunk that does not hold just those of `turns` turns that are there: beside what was deleted it is shorter."""


def chunks_by_maker(tx: Tx) -> list[tuple[bool, str, int]]:
    """Return (whether statements were extracted, or turns taken as they are; what made them; number of chunks)."""
    rows = tx.execute(
        """SELECT s.infer, c.maker, count(*) FROM chunk c JOIN session s ON s.id = c.session
           WHERE c.status = 'extracted' AND c.maker IS NOT NULL GROUP BY s.infer, c.maker ORDER BY c.maker"""
    )
    return [(bool(infer), maker, count) for infer, maker, count in rows]


def chunks_cut_otherwise(tx: Tx, turns: int) -> int:
    """Return the number of chunks that would not be cut so with `turns` turns a chunk."""
    found = tx.execute(f"SELECT count(*) FROM chunk c WHERE {_CUT}", {"turns": turns})
    return int(found.fetchone()[0])


def stale_sessions(tx: Tx, extractor: str, turns: int) -> list[int]:
    """Return the fully read sessions, in time order, that have a chunk of another extractor or another length.

    Args:
        tx: a transaction.
        extractor: what extracts statements now.
        turns: most turns of a chunk now.
    """
    return tx.column(
        f"""SELECT s.id FROM session s WHERE s.status = 'ingested' AND EXISTS (SELECT 1 FROM chunk c
            WHERE c.session = s.id AND ((s.infer AND c.status = 'extracted' AND c.maker != :extractor) OR {_CUT}))
            ORDER BY (SELECT min(t.said_ms) FROM turn t WHERE t.session = s.id), s.session_id""",
        {"extractor": extractor, "turns": turns},
    )


def facts_stored(tx: Tx, chunks: Collection[int]) -> dict[str, int]:
    """Return when the facts of some chunks were stored, in UTC ms, by their identities."""
    return tx.pairs(
        f"SELECT DISTINCT f.fact_id, f.stored_ms FROM fact f JOIN occurrence o ON o.fact = f.id WHERE o.chunk {AMONG}",
        (tx.ids(chunks),),
    )


def keep_stored(tx: Tx, stored: Mapping[str, int]) -> None:
    """Note that facts that were extracted again have been known since then."""
    tx.executemany(
        "UPDATE fact SET stored_ms = ? WHERE fact_id = ? AND stored_ms > ?",
        [(ms, fact_id, ms) for fact_id, ms in stored.items()],
    )


_NEXT = "next_embedder"


def next_embedder(tx: Tx) -> str | None:
    """Return the name of the embedder that vectors are being made with; None if none."""
    return meta.get(tx, _NEXT)


def begin(tx: Tx, model: str) -> None:
    """Begin to keep vectors by another embedder; those of the same one stay, those of a third one go."""
    if next_embedder(tx) != model:
        drop(tx)
        meta.put(tx, _NEXT, model)


def drop(tx: Tx) -> None:
    """Delete the vectors by the next embedder, and its name."""
    tx.execute("DELETE FROM derived_next_vector")
    meta.remove(tx, _NEXT)


def lacking_count(tx: Tx) -> int:
    """Return how many texts have no vector by the next embedder."""
    return sum(int(tx.execute(f"SELECT count(*) {_lacking(kind)}").fetchone()[0]) for kind in ITEM_KINDS)


def lacking(tx: Tx, kind: ItemKind, after: int, most: int) -> list[tuple[int, str, str]]:
    """Return (item, speaker, text) of items that lack such a vector, by id from `after` on; only a turn has a speaker."""
    rows = tx.execute(
        f"SELECT s.id, s.speaker, s.text {_lacking(kind)} AND s.id > ? ORDER BY s.id LIMIT ?", (after, most)
    )
    return [(row[0], row[1], row[2]) for row in rows]


def _lacking(kind: ItemKind) -> str:
    return f"""FROM ({embedded_texts(kind)}) s LEFT JOIN derived_next_vector v ON v.kind = '{kind}' AND v.item = s.id
               WHERE v.item IS NULL"""


def put(tx: Tx, kind: ItemKind, rows: Iterable[VectorRow]) -> None:
    """Store vectors by the next embedder."""
    tx.executemany(
        """INSERT INTO derived_next_vector VALUES (?, ?, ?, ?) ON CONFLICT (kind, item) DO UPDATE
           SET digest = excluded.digest, vector = excluded.vector""",
        [(kind, item, digest, pack_vector(vector)) for item, digest, vector in rows],
    )


def problems(tx: Tx) -> list[str]:
    """Return what is wrong with the vectors by the next embedder, in words; `drop` mends all of it."""
    sizes = tx.pairs("SELECT length(vector), count(*) FROM derived_next_vector GROUP BY 1")
    kinds = set(tx.column("SELECT DISTINCT kind FROM derived_next_vector"))
    found = [
        f"there are vectors of a next embedder for {kind!r}, which is nothing"
        for kind in kinds - set(ITEM_KINDS)
    ]
    if sizes and next_embedder(tx) is None:
        found.append("there are vectors of a next embedder, and none is named")
    if len(sizes) > 1:
        found.append(f"vectors of the next embedder have {len(sizes)} lengths")
    return found


def switch(tx: Tx) -> None:
    """Put the vectors in the place of those in use, name their embedder, and end the making of them.

    An item that has none by the next embedder has none then. Those of summaries go, and are made by the next refresh.
    """
    model = next_embedder(tx)
    if model is None:
        raise ValueError("there are no vectors to switch to")
    for kind in ITEM_KINDS:
        table = VECTOR_TABLES[kind]
        found = f"SELECT item FROM derived_next_vector WHERE kind = '{kind}'"
        tx.execute(f"DELETE FROM {table} WHERE item NOT IN ({found})")
        tx.execute(
            f"""UPDATE {table} SET digest = n.digest, vector = n.vector FROM derived_next_vector n
                WHERE n.kind = '{kind}' AND n.item = {table}.item"""
        )
        tx.execute(
            f"""INSERT INTO {table} SELECT item, digest, vector FROM derived_next_vector
                WHERE kind = '{kind}' AND item NOT IN (SELECT item FROM {table}) ORDER BY item"""
        )
    drop(tx)
    artifacts.drop_vectors(tx)
    meta.put(tx, "embedder", model)
