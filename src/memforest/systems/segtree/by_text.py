"""Placing by the vectors of what nodes say, as in the paper (its compatibility model i): one leaf a transaction.

What a leaf may join is read, what these nodes say is brought up to date, and the leaf is written if the tree is as it was: of
two processes that place at once the first one wins, and the other looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.grow import Decision, SegTree
from memforest.systems.segtree.likeness import nearest
from memforest.systems.segtree.receive import is_late, settle
from memforest.systems.segtree.rows import Exchange
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.thresholds import least_likeness

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a leaf may join: the level that picking it means, what it says, and its vector."""

    level: int
    text: str
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The next exchange and what it may join, as they were read."""

    token: tuple[int, int, int]
    exchange: Exchange
    vector: Vector | None
    choices: Sequence[_Choice]
    least: float
    unread: Mapping[int, int]
    """Nodes that are to be made before they are compared, with the versions that they were read in."""
    late: bool
    """Whether the exchange stands before some that are in the tree."""
    lacks: bool
    """Whether a vector is missing that the memory's embedder is to make."""


async def place_by_text(host: Host, settings: SegTreeSettings) -> None:
    """Place the exchanges that wait, one by one.

    Raises:
        ModelError: if what nodes say cannot be made, or no call to a model can succeed.
    """
    tried: Mapping[int, int] = {}
    failures: list[str] = []
    while (seen := await host.look(partial(_look, settings=settings))) is not None and not seen.lacks:
        if seen.late:
            await host.write(partial(settle, settings=settings))
        elif seen.unread and seen.unread == tried:
            why = failures[0] if failures else "the budget is used up, or another process was at it"
            raise ModelError(f"what a stretch says could not be made: {why}")
        elif seen.unread:
            tried = seen.unread
            failures += await host.ensure_fresh(lambda tx, tried=tried: tried)  # type: ignore[misc]
        else:
            best = await _nearest(host, seen)
            await host.write(partial(_place, settings=settings, seen=seen, best=best))
            failures = []


def _look(tx: Tx, settings: SegTreeSettings) -> _Seen | None:
    """Return the next exchange that waits, and what it may join; None if none waits."""
    found = rows.waiting(tx, 1)
    if not found:
        return None
    exchange, model = found[0], meta.get(tx, "embedder")
    of_text = settings.leaf_vector == "text"
    vector = vector_rows.leaf_vectors(tx, [exchange.id], of_text=of_text).get(exchange.id)
    tree = SegTree(tx, settings)
    open_ = tree.choices()
    texts = tree_rows.node_texts(tx, [one.node for one in open_])
    vectors = derived.vectors_of_items(tx, "node", [one.node.id for one in open_])
    last = tree.vector_of_last() if open_ and not open_[0].node.level else None
    tau = settings.tau
    if tau is None:
        tau = 0.0 if model is None else least_likeness(model, "cosine", settings.leaf_vector)
    return _Seen(
        token=tree.token,
        exchange=exchange,
        vector=vector,
        choices=[
            _Choice(
                one.level,
                texts.get(one.node.id, ""),
                vectors[one.node.id].astype(np.float64)
                if one.node.id in vectors
                else (None if one.node.level else last),
            )
            for one in open_
        ],
        least=tree.needed(tau),
        unread={one.node.id: one.node.version for one in open_ if one.node.level and one.node.dirty},
        late=is_late(tx, exchange),
        lacks=model is not None and vector is None,
    )


async def _nearest(host: Host, seen: _Seen) -> int | None:
    """Return the level of the node that the leaf is most like; None if it is like none of them, or has no vector.

    Raises:
        ModelError: if a vector is missing and cannot be made.
    """
    if seen.vector is None:
        return None
    lacking = [one.text for one in seen.choices if one.vector is None]
    made = iter(await host.embed_texts(lacking) if lacking else ())
    vectors = [next(made).astype(np.float64) if one.vector is None else one.vector for one in seen.choices]
    best = nearest(seen.vector, vectors, seen.least)
    return None if best is None else seen.choices[best].level


def _place(tx: Tx, settings: SegTreeSettings, seen: _Seen, best: int | None) -> None:
    """Add the leaf if the tree and the exchange are as they were; in a memory without vectors by the number of leaves."""
    found = rows.waiting(tx, 1)
    tree = SegTree(tx, settings)
    if tree.token != seen.token or not found or found[0] != seen.exchange:
        return
    where = tree.by_count() if seen.vector is None else Decision(tree.at_most(best), "cosine")
    tree.add(seen.exchange, where.level, seen.vector)
    rows.mark_placed(tx, [(seen.exchange.id, where.level, where.maker)])
    tree.close()
