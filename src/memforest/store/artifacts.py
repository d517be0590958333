"""What models made, under the digest of what they were asked: replies to chunks, verdicts, summaries, placements.

A row is known by 16 bytes that follow from the request alone. A restart, a rebuild, a merge or an import finds what
was made before, and pays for nothing twice. What made it stands beside it, so that a memory which is opened
without its model shows what the model wrote, and another model is asked again.

| step | the digest is of | the text |
|---|---|---|
| extract | all that is shown of a chunk (`memforest.write.extract.asked_of`) | the reply |
| judge | two statements (`memforest.write.extract.pair_of`) | whether they say the same |
| summary | what a node is made of (`memforest.trees.texts.node_digests`); nothing else of trees is stored | the summary |
| place | a leaf, and the tree that it comes into | where it was placed |

Whoever deletes something sweeps what nothing in the memory asks for any more (`memforest.write.batch.SessionWriter.sweep`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from memforest.store.connections import AMONG, Tx, parts
from memforest.store.derived import NUMBER, pack_text, pack_vector, unpack_text, unpack_vectors

TreeStep = Literal["summary", "place"]
Step = Literal[TreeStep, "extract", "judge"]
STEPS: tuple[Step, ...] = get_args(Step)
OF_TREES: tuple[Step, ...] = get_args(TreeStep)
"""The steps whose artifacts trees ask for."""
VectorOf = Literal["own", "mean", "none"]
"""What vector a summary gets: that of its text, the mean of its children's, or none."""

_BLOCK = 1024


class Artifact(NamedTuple):
    """Something that was made: the digest of its request, what made it, its text, and which vector it gets."""

    digest: bytes
    maker: str
    text: str
    vector: VectorOf = "none"


def state(tx: Tx) -> int:
    """Return a number that triggers raise whenever a row is written or deleted."""
    return int(tx.value("SELECT value FROM meta WHERE key = 'artifact_stamp'"))


def any_stored(tx: Tx) -> bool:
    """Return whether there is any row."""
    return tx.execute("SELECT 1 FROM artifact LIMIT 1").fetchone() is not None


def count(tx: Tx) -> int:
    """Return how many rows there are."""
    return int(tx.value("SELECT count(*) FROM artifact"))


def put(tx: Tx, step: Step, made: Iterable[Artifact]) -> None:
    """Store what was made; something else that stood there under the same digest goes, with its vector."""
    rows = [(one.digest, step, one.maker, pack_text(one.text), one.vector) for one in made]
    tx.executemany(
        "DELETE FROM artifact WHERE digest = ?1 AND (step, maker, text, vector_of) IS NOT (?2, ?3, ?4, ?5)",
        rows,
    )
    tx.executemany(
        "INSERT OR IGNORE INTO artifact (digest, step, maker, text, vector_of) VALUES (?, ?, ?, ?, ?)", rows
    )


def last(tx: Tx) -> int:
    """Return the number of what was written last."""
    return int(tx.value("SELECT coalesce(max(id), 0) FROM artifact"))


def written_since(tx: Tx, number: int) -> list[bytes]:
    """Return the digests of what was written behind a number of `last`."""
    return tx.column("SELECT digest FROM artifact WHERE id > ?", (number,))


def put_vectors(tx: Tx, rows: Iterable[tuple[bytes, NDArray[np.float32]]]) -> int:
    """Store the vectors of texts by digest, of those that are still there, and return how many."""
    found = [(pack_vector(vector), digest) for digest, vector in rows]
    sql = "UPDATE artifact SET vector = ? WHERE digest = ? AND vector_of = 'own'"
    return max(0, tx.executemany(sql, found).rowcount)


def drop_vectors(tx: Tx) -> None:
    """Delete all vectors: the embedder is another one."""
    tx.execute("UPDATE artifact SET vector = NULL WHERE vector IS NOT NULL")


def texts(tx: Tx, digests: Collection[bytes], by: str | None = None) -> dict[bytes, str]:
    """Return texts by digest, of those that are stored and can be read; with `by` what that maker made."""
    return {digest: one.text for digest, one in found(tx, digests).items() if by in (None, one.maker)}


def found(tx: Tx, digests: Collection[bytes]) -> dict[bytes, Artifact]:
    """Return artifacts by digest, of those that are stored and can be read."""
    made: dict[bytes, Artifact] = {}
    for part, marks in parts(digests):
        for row in tx.execute(
            f"SELECT digest, maker, text, vector_of FROM artifact WHERE digest IN ({marks})", part
        ):
            if (text := _readable(row[2])) is not None:
                made[row[0]] = Artifact(row[0], row[1], text, row[3])
    return made


def _readable(blob: bytes) -> str | None:
    """Return a stored text; None of a damaged one, which is made anew."""
    try:
        return unpack_text(blob)
    except ValueError:
        return None


def vectors(tx: Tx, digests: Collection[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """Return the vectors of texts by digest, of those that have one."""
    made: dict[bytes, NDArray[np.float32]] = {}
    for part, marks in parts(digests):
        rows = tx.execute(
            f"SELECT digest, vector FROM artifact WHERE vector IS NOT NULL AND digest IN ({marks})", part
        )
        made |= {digest: unpack_vectors(vector)[0] for digest, vector in rows}
    return made


def known(tx: Tx, steps: Collection[Step] = STEPS) -> dict[bytes, Step]:
    """Return the digests of some steps, with these."""
    return tx.pairs(f"SELECT digest, step FROM artifact WHERE step {AMONG}", (tx.ids(steps),))


_OF_OTHERS = f"step = 'summary' AND maker NOT {AMONG}"


def of_others(tx: Tx, makers: Collection[str]) -> dict[str, int]:
    """Return, for every other maker of summaries than the given ones, how many it has made."""
    sql = f"SELECT maker, count(*) FROM artifact WHERE {_OF_OTHERS} GROUP BY maker ORDER BY maker"
    return tx.pairs(sql, (tx.ids(makers),))


def drop_of_others(tx: Tx, makers: Collection[str]) -> int:
    """Delete the summaries of other makers than the given ones, and return how many went."""
    return int(tx.execute(f"DELETE FROM artifact WHERE {_OF_OTHERS}", (tx.ids(makers),)).rowcount)


def without_vector(tx: Tx) -> list[tuple[bytes, str]]:
    """Return (digest, text) of what should have a vector of its text and has none."""
    rows = tx.execute(
        "SELECT digest, text FROM artifact WHERE vector_of = 'own' AND vector IS NULL ORDER BY id"
    )
    return [(digest, text) for digest, blob in rows if (text := _readable(blob)) is not None]


def vector_blocks(
    tx: Tx, dimension: int, digests: Collection[bytes] | None = None
) -> Iterator[tuple[list[bytes], NDArray[np.float32], NDArray[np.bool_]]]:
    """Yield what has a vector, or is to have the mean of its children's: digests, vectors (n, d), and which are means.

    Args:
        tx: a transaction.
        dimension: of the memory's vectors.
        digests: of what is wanted; None for everything.
    """
    sql = "SELECT digest, vector, vector_of = 'mean' FROM artifact WHERE (vector IS NOT NULL OR vector_of = 'mean')"
    queries = (
        [tx.execute(sql)]
        if digests is None
        else (tx.execute(f"{sql} AND digest IN ({marks})", part) for part, marks in parts(digests))
    )
    blank = bytes(dimension * NUMBER.itemsize)
    for rows in queries:
        while block := rows.fetchmany(_BLOCK):
            vectors = [one if one is not None and len(one) == len(blank) else blank for _, one, _ in block]
            yield (
                [digest for digest, _, _ in block],
                unpack_vectors(*vectors),
                np.array([mean for _, _, mean in block], dtype=np.bool_),
            )


def keep(tx: Tx, wanted: Collection[bytes]) -> int:
    """Delete all rows but those of some digests, and return how many went."""
    tx.execute("UPDATE meta SET value = '2' WHERE key = 'sweep'")  # the log is yet to be emptied
    return drop(tx, known(tx).keys() - wanted)


def drop(tx: Tx, digests: Collection[bytes]) -> int:
    """Delete the rows of some digests, and return how many there are."""
    tx.executemany("DELETE FROM artifact WHERE digest = ?", [(digest,) for digest in digests])
    return len(digests)


def damaged(tx: Tx) -> list[str]:
    """Return what is wrong with rows, in words; `repair` deletes those, and they are made anew."""
    return [what for _, what in _damaged(tx)]


def _damaged(tx: Tx) -> Iterator[tuple[bytes, str]]:
    """Yield the digest of every row that is wrong, and what is wrong with it."""
    lengths = tx.pairs(
        "SELECT length(vector), count(*) FROM artifact WHERE vector IS NOT NULL GROUP BY 1 ORDER BY 2, 1"
    )
    usual = list(lengths)[-1] if lengths else 0
    for digest, step, text, vector in tx.execute(
        "SELECT digest, step, text, vector FROM artifact"
    ).fetchall():
        if len(digest) != 16 or _readable(text) is None:
            yield digest, f"the {step} {digest.hex()} cannot be read"
        elif vector is not None and (len(vector) != usual or not _is_unit(vector)):
            yield (
                digest,
                f"the vector of the summary {digest.hex()} has another length than the others, or is not of unit length",
            )


def _is_unit(blob: bytes) -> bool:
    if not blob or len(blob) % NUMBER.itemsize:
        return False
    return bool(abs(float(np.linalg.norm(unpack_vectors(blob)[0])) - 1.0) < 0.01)


def drop_damaged(tx: Tx) -> int:
    """Delete the rows that `damaged` names, and return how many."""
    return drop(tx, [digest for digest, _ in _damaged(tx)])


def everything(tx: Tx) -> Iterator[tuple[bytes, str, str, str, str, bytes | None]]:
    """Yield all rows: digest, step, maker, text, which vector, and the vector as it is stored."""
    rows = tx.execute("SELECT digest, step, maker, text, vector_of, vector FROM artifact ORDER BY digest")
    for digest, step, maker, blob, vector_of, vector in rows:
        if (text := _readable(blob)) is not None:
            yield digest, step, maker, text, vector_of, vector


def add_all(tx: Tx, rows: Iterable[tuple[bytes, str, str, str, str, bytes | None]]) -> None:
    """Store rows of another memory, as `everything` yields them; what is here already stays."""
    tx.executemany(
        """INSERT INTO artifact (digest, step, maker, text, vector_of, vector) VALUES (?, ?, ?, ?, ?, ?)
           ON CONFLICT DO NOTHING""",
        [
            (digest, step, maker, pack_text(text), of, vector)
            for digest, step, maker, text, of, vector in rows
        ],
    )
