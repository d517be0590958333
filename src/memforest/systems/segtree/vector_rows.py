"""What exchanges say, and the vectors by which they are compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from memforest.store.dialect import AMONG
from memforest.store.leaves import told_lines
from memforest.store.packing import NUMBER, pack_vector, unpack_vectors
from memforest.store.tx import Tx
from memforest.systems.segtree.rows import WAITING, Exchange


def texts(tx: Tx, exchanges: Collection[int]) -> dict[int, str]:
    """Return what exchanges say, "speaker: text" a line, without what is hidden; see `memforest.store.leaves.told_lines`."""
    turns = tx.execute(
        f"""SELECT e.id, t.id, t.speaker || ': ' || t.text FROM ix_segtree_exchange e
            JOIN turn t ON t.session = e.session AND t.ordinal BETWEEN e.first AND e.last
            WHERE e.id {AMONG} ORDER BY e.id, t.ordinal""",
        (tx.ids(exchanges),),
    ).fetchall()
    told = told_lines(tx, {turn: line for _, turn, line in turns})
    lines: dict[int, list[str]] = {}
    for one, turn, _ in turns:
        lines.setdefault(one, []).extend(told[turn])
    return {one: "\n".join(said) for one, said in lines.items()}


def without_vector(tx: Tx, limit: int) -> list[int]:
    """Return the first waiting exchanges that have no vector of their text."""
    rows = tx.execute(
        f"""SELECT id FROM ix_segtree_exchange WHERE state = {WAITING} AND vector IS NULL
            ORDER BY place, tie LIMIT ?""",
        (limit,),
    )
    return [row[0] for row in rows]


def put_vectors(tx: Tx, found: Sequence[tuple[Exchange, NDArray[np.float32]]]) -> None:
    """Store the vectors of texts, of those exchanges that are of the same turns still."""
    tx.executemany(
        "UPDATE ix_segtree_exchange SET vector = ? WHERE id = ? AND turn = ? AND turn_last = ?",
        [(pack_vector(vector), one.id, one.turn, one.turn_last) for one, vector in found],
    )


def leaf_vectors(tx: Tx, exchanges: Collection[int], *, of_text: bool) -> dict[int, NDArray[np.float64]]:
    """Return the vectors by which exchanges are compared, those that there are: unit, of numbers of half precision.

    So a sum of fewer than 2^20 of them in float64 is exact, in whatever order it is taken: each number is a multiple of
    2^-24 below 1, and float64 has 53 bits.
    """
    if of_text:
        sql = f"SELECT id, vector FROM ix_segtree_exchange WHERE id {AMONG}"
    else:
        sql = f"""SELECT e.id, v.vector FROM ix_segtree_exchange e
            JOIN turn t ON t.session = e.session AND t.ordinal BETWEEN e.first AND e.last
            LEFT JOIN derived_turn_vector v ON v.item = t.id WHERE e.id {AMONG} ORDER BY e.id, t.ordinal"""
    blobs: dict[int, list[bytes | None]] = {}
    for one, blob in tx.execute(sql, (tx.ids(exchanges),)):
        blobs.setdefault(one, []).append(blob)
    return {one: _unit(found) for one, found in blobs.items() if all(found)}  # type: ignore[arg-type]


def text_vectors(tx: Tx) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the first turns of all exchanges that have a vector of their text, ascending, and these vectors, shape (n, d)."""
    found = tx.execute(
        "SELECT turn, vector FROM ix_segtree_exchange WHERE vector IS NOT NULL ORDER BY turn"
    ).fetchall()
    turns = np.array([row[0] for row in found], dtype=np.int64)
    return turns, unpack_vectors(*(row[1] for row in found)) if found else np.zeros((0, 0), dtype=np.float32)


def _unit(blobs: Sequence[bytes]) -> NDArray[np.float64]:
    mean = unpack_vectors(*blobs).astype(np.float64).sum(axis=0)
    length = float(np.sqrt((mean * mean).sum()))
    unit: NDArray[np.float64] = (mean / length if length else mean).astype(NUMBER).astype(np.float64)
    return unit
