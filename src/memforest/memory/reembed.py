"""Giving a memory another embedder: all vectors made anew beside those in use, then switched in one transaction.

Until then readers and writers go on with the old ones. What is written meanwhile is found as lacking a vector, as what a
killed run has left is, so the same loop makes both. Verdicts on near-duplicates stay: facts are what they were.
"""

from __future__ import annotations

from memforest.concurrency import to_thread
from memforest.errors import StoreLockedError
from memforest.memory.progress import Progress, Report
from memforest.memory.vectors import VectorMaker
from memforest.refresh.vectors import put_means
from memforest.search.texts import digest, turn_text
from memforest.store import changes, derived, meta, next_vectors
from memforest.store.db import Database
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Placings

BLOCK = 256
"""Texts that are read, embedded and written together."""

LEFT = 64
"""Texts that may lack a vector when it is switched, because they were written since the last look; `fill_vectors` makes
theirs at once."""

ROUNDS = 20
"""Times that missing vectors are looked for: a writer who is quicker than the embedder ends it."""


async def reembed(db: Database, attached: Attached, maker: VectorMaker, report: Report) -> bool:
    """Give a memory the embedder of `maker`; return whether it had another one, or none.

    What was made before a crash or an error is kept, and the same call goes on there.

    Args:
        db: the memory.
        attached: its indexes, which make anew what they have made of vectors.
        maker: runs the new embedder.
        report: told how many texts are done.

    Raises:
        ModelError: if the embedder fails.
        StoreError: if the memory cannot be written.
        StoreLockedError: if other writers add texts more quickly than they are embedded.
    """
    if not await to_thread(_begin, maker):
        return False
    for _ in range(ROUNDS):
        left = await to_thread(_left, db)
        progress = Progress("vectors", left, report)
        for kind in derived.ITEM_KINDS:
            await _make(maker, kind, progress)
        if await to_thread(_switch, db, attached, maker):
            return True
    raise StoreLockedError(
        f"{db.path.name!r} grows more quickly than its texts are embedded; what was made is kept: run it again when less "
        "is written"
    )


def _begin(maker: VectorMaker) -> bool:
    """Begin to keep vectors of the embedder; return whether the memory has those of another one."""
    model = maker.embedder.model_id
    with maker.db.write() as tx:
        if meta.get(tx, "embedder") == model and derived.dimension(tx) in (None, maker.embedder.dimension):
            next_vectors.drop(tx)
            return False
        next_vectors.begin(tx, model)
    return True


def _left(db: Database) -> int:
    with db.read() as tx:
        return next_vectors.lacking_count(tx)


async def _make(maker: VectorMaker, kind: derived.ItemKind, progress: Progress) -> None:
    """Make the vectors of a kind that are lacking, block by block."""
    after = 0
    while True:
        last, texts = await to_thread(_block, maker.db, kind, after)
        if last is None:
            return
        if texts:
            rows = await maker.embed([text for _, text in texts], kind)
            found = [(item, digest(text), row) for (item, text), row in zip(texts, rows, strict=True)]
            await to_thread(_put, maker, kind, found)
        progress.add(len(texts))
        after = last


def _block(db: Database, kind: derived.ItemKind, after: int) -> tuple[int | None, list[tuple[int, str]]]:
    """Return the last id of the next block and its (item, text to embed); damaged turns get no vector."""
    with db.read() as tx:
        rows = next_vectors.lacking(tx, kind, after, BLOCK)
        return (rows[-1][0] if rows else None), _texts(tx, kind, rows)


def _texts(tx: Tx, kind: derived.ItemKind, rows: list[tuple[int, str, str]]) -> list[tuple[int, str]]:
    damaged = damaged_turns(tx, [item for item, _, _ in rows]) if kind == "turn" else ()
    return [
        (item, turn_text(speaker, text) if kind == "turn" else text)
        for item, speaker, text in rows
        if item not in damaged
    ]


def _put(maker: VectorMaker, kind: derived.ItemKind, found: list[derived.VectorRow]) -> None:
    """Write the vectors of those items that still lack one and whose text is unchanged."""
    with maker.db.write() as tx:
        if next_vectors.next_embedder(tx) != maker.embedder.model_id:
            return  # another process has switched, or has begun with a third embedder
        rows = next_vectors.lacking(tx, kind, found[0][0] - 1, 2 * BLOCK)
        now = {(item, digest(text)) for item, text in _texts(tx, kind, rows)}
        next_vectors.put(tx, kind, [row for row in found if row[:2] in now])


def _switch(db: Database, attached: Attached, maker: VectorMaker) -> bool:
    """Switch to the new vectors, unless too many are lacking; return whether the memory has them."""
    model = maker.embedder.model_id
    with db.write() as tx:
        if next_vectors.next_embedder(tx) != model:
            if meta.get(tx, "embedder") == model:
                return True  # another process was quicker
            raise StoreLockedError(
                f"another process is giving {db.path.name!r} another embedder than {model!r}; one at a time"
            )
        lacking = next_vectors.lacking_count(tx)
        if lacking > LEFT and lacking - len(damaged_turns(tx)) > LEFT:
            return False
        placings = Placings(tx, attached)
        next_vectors.switch(tx)
        put_means(tx)
        _tell(tx, attached)
        placings.close()
        changes.forget(tx)  # a vector that changes in place is not noted
        meta.bump(tx)
    return True


def _tell(tx: Tx, attached: Attached) -> None:
    """Let every index make anew what it has made of vectors; one that cannot is cleared."""
    for index in attached.of(tx):
        if not index.reembed(tx):
            attached.clear(tx, index.name)
