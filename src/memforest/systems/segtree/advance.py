"""Placing what waits: notes of the feed become exchanges, and these become leaves, in their order.

Whatever is done is done in short transactions, each from what is stored, so that a crash or another process at the same
time costs nothing but work: an exchange is in the tree or waits, and what waits is placed once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from memforest.store import indexes, meta
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.by_text import place_by_text
from memforest.systems.segtree.grow import OWNER, SegTree
from memforest.systems.segtree.receive import receive, settle
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.thresholds import least_likeness

TAU = "ix_segtree_tau"
"""Entry of `meta`: the threshold that the tree was begun with, if it was measured for the embedder."""
BATCH = 256
"""Leaves that are placed in one transaction where no text is read: a tenth of a second's work."""


@dataclass(frozen=True, slots=True)
class _State:
    """How the index stands: notes and exchanges that wait, and whether the memory has vectors."""

    behind: bool
    waiting: int
    vectors: bool


async def advance(host: Host, settings: SegTreeSettings, until: int) -> None:
    """Place everything that the feed has noted up to a number, as far as there are the vectors for it.

    Raises:
        ModelError: if texts are to be embedded and cannot be.
    """
    state = await host.look(partial(_state, until=until))
    while state.behind and await host.write(partial(receive, settings=settings, until=until)):
        pass
    if state.behind:
        state = await host.look(partial(_state, until=until))
    if not state.waiting:
        return
    if settings.leaf_vector == "text" and state.vectors:
        await _embed(host)
    if settings.reads_texts:
        await host.write(partial(settle, settings=settings))
        await place_by_text(host, settings)
    else:
        while await host.write(partial(grow, settings=settings)):
            pass


def _state(tx: Tx, until: int) -> _State:
    row = indexes.find(tx, OWNER)
    return _State(
        behind=row is not None and row.cursor < until,
        waiting=rows.count(tx, rows.WAITING),
        vectors=meta.get(tx, "embedder") is not None,
    )


async def _embed(host: Host) -> None:
    """Make the vectors of the texts of exchanges that wait."""

    def look(tx: Tx) -> list[tuple[rows.Exchange, str]]:
        found = rows.by_id(tx, vector_rows.without_vector(tx, BATCH))
        said = vector_rows.texts(tx, [one.id for one in found])
        return [(one, said[one.id]) for one in found]

    while found := await host.look(look):
        vectors = await host.embed_texts([text for _, text in found])
        made = [(one, vector) for (one, _), vector in zip(found, vectors, strict=True)]
        await host.write(partial(vector_rows.put_vectors, found=made))


def grow(tx: Tx, settings: SegTreeSettings) -> bool:
    """Place the next exchanges that wait, without reading a text; return whether there may be more.

    One whose vector is missing, because the embedder failed, waits for it, and all behind it with it.
    """
    settle(tx, settings)
    found = rows.waiting(tx, BATCH + 1)
    model = meta.get(tx, "embedder")
    of_text = settings.leaf_vector == "text"
    vectors = (
        vector_rows.leaf_vectors(tx, [one.id for one in found], of_text=of_text) if model is not None else {}
    )
    ready = found if model is None else _with_vectors(found, vectors.keys())
    if not ready:
        return False
    tau = settings.tau
    if tau is None and model is not None:
        tau = least_likeness(model, "centroid", settings.leaf_vector)
        if not rows.last_placed(tx):
            meta.put(tx, TAU, str(tau))
    tree = SegTree(tx, settings)
    made = []
    for one in ready[:BATCH]:
        where = tree.by_count() if tau is None or model is None else tree.by_likeness(vectors[one.id], tau)
        tree.add(one, where.level, vectors.get(one.id))
        made.append((one.id, where.level, where.maker))
    rows.mark_placed(tx, made)
    tree.close()
    return len(ready) > BATCH


def _with_vectors(found: Sequence[rows.Exchange], having: Collection[int]) -> list[rows.Exchange]:
    """Return the exchanges in front of the first that has no vector."""
    ready: list[rows.Exchange] = []
    for one in found:
        if one.id not in having:
            break
        ready.append(one)
    return ready
