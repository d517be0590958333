"""Vectors by the embedder that a memory is to have next, beside those in use until every text has one.

A row goes with its text, by triggers, so what is there is of the present texts; readers and writers of the vectors in
use notice nothing of it. `switch` puts them in the place of those in use.
"""

from __future__ import annotations

from collections.abc import Iterable

from memforest.store import meta
from memforest.store.derived import ITEM_KINDS, VECTOR_TABLES, ItemKind, VectorRow, embedded_texts
from memforest.store.packing import pack_vector, unpack_text
from memforest.store.tx import Tx

_NEXT = "next_embedder"


def next_embedder(tx: Tx) -> str | None:
    """Return the embedder whose vectors are being made; None when none are."""
    return meta.get(tx, _NEXT)


def begin(tx: Tx, model: str) -> None:
    """Begin to keep vectors by another embedder; those of the same one stay, those of a third one go."""
    if next_embedder(tx) != model:
        drop(tx)
        meta.put(tx, _NEXT, model)


def drop(tx: Tx) -> None:
    """Delete the vectors that were made so far, and forget by which embedder."""
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
    return [(row[0], row[1], unpack_text(row[2]) if kind == "node" else row[2]) for row in rows]


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
    sizes = dict(tx.execute("SELECT length(vector), count(*) FROM derived_next_vector GROUP BY 1").fetchall())
    kinds = {row[0] for row in tx.execute("SELECT DISTINCT kind FROM derived_next_vector")}
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

    An item that has none by the next embedder has none then; those of nodes that had the mean of their children's go, too.
    """
    model = next_embedder(tx)
    if model is None:
        raise ValueError("there are no vectors to switch to")
    for kind in ITEM_KINDS:
        table = VECTOR_TABLES[kind]
        found = f"SELECT item FROM derived_next_vector WHERE kind = '{kind}'"
        tx.execute(f"DELETE FROM {table} WHERE item NOT IN ({found})")
        # Rows are changed in place: one that is inserted is noted in the feed, as that of a new fact.
        tx.execute(
            f"""UPDATE {table} SET digest = n.digest, vector = n.vector FROM derived_next_vector n
                WHERE n.kind = '{kind}' AND n.item = {table}.item"""
        )
        tx.execute(
            f"""INSERT INTO {table} SELECT item, digest, vector FROM derived_next_vector
                WHERE kind = '{kind}' AND item NOT IN (SELECT item FROM {table}) ORDER BY item"""
        )
    drop(tx)
    meta.put(tx, "embedder", model)
