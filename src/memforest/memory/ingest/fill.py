"""Embedding turns, facts and nodes that lack a vector: after a crash, a time without an embedder, or `repair`.

No transaction is open while texts are embedded, so another writer may overwrite them meanwhile. Each vector is
written only to what still has none and still says what was embedded.
"""

from __future__ import annotations

from collections.abc import Sequence

from memforest.concurrency import to_thread
from memforest.memory.vectors import VectorMaker
from memforest.refresh.vectors import write_means
from memforest.search.texts import digest, turn_text
from memforest.store import derived, meta
from memforest.store.db import Database
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings

ROUNDS = 4
"""Times that missing vectors are looked for: what another writer has changed meanwhile is made again."""


async def fill_vectors(db: Database, attached: Attached, maker: VectorMaker) -> int:
    """Make the missing vectors of turns, facts and nodes, let the indexes place the facts by them, and return how many were made.

    Raises:
        ModelError: if the embedder fails, or the memory has been given another one since it was opened.
        StoreError: if the memory cannot be written.
    """
    filled = 0
    for kind in ("turn", "fact", "node"):
        filled += await _fill(db, attached, maker, kind)
    means = await to_thread(_missing_means, db)
    if means:
        await to_thread(write_means, db, means)
    return filled + len(means)


async def _fill(db: Database, attached: Attached, maker: VectorMaker, kind: derived.ItemKind) -> int:
    """Make the missing vectors of a kind and return how many; what other writers keep changing is left."""
    filled = 0
    for _ in range(ROUNDS):
        missing = await to_thread(_missing, db, kind)
        if not missing:
            break
        found = await maker.make([text for _, text in missing], kind)
        rows = [(item, digest(text), found[digest(text)]) for item, text in missing]
        filled += await to_thread(_put, attached, maker, kind, rows)
    return filled


def _missing(db: Database, kind: derived.ItemKind) -> list[tuple[int, str]]:
    with db.read() as tx:
        return _without_vector(tx, kind)


def _missing_means(db: Database) -> list[int]:
    with db.read() as tx:
        return list(derived.kept_texts(tx))


def _put(
    attached: Attached, maker: VectorMaker, kind: derived.ItemKind, rows: Sequence[derived.VectorRow]
) -> int:
    """Write the vectors of those items that still have none and whose text is unchanged; return how many."""
    with maker.db.write() as tx:
        maker.check_own(tx)
        now = {(item, digest(text)) for item, text in _without_vector(tx, kind)}
        same = [row for row in rows if row[:2] in now]
        if not same:
            return 0
        placings = Placings(tx, attached)
        derived.put_vectors(tx, kind, same)
        placings.close()
        meta.bump(tx)
    return len(same)


def _without_vector(tx: Tx, kind: derived.ItemKind) -> list[tuple[int, str]]:
    """Return (row, text to embed) of what has no vector; a damaged turn gets none, as its text is not what was said."""
    rows = derived.missing_vectors(tx, kind)
    damaged = damaged_turns(tx, [item for item, _, _ in rows]) if kind == "turn" else ()
    return [
        (item, turn_text(speaker, text) if kind == "turn" else text)
        for item, speaker, text in rows
        if item not in damaged
    ]
