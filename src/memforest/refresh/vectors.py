"""The vectors of nodes: of their summaries, or the mean of their children's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError
from memforest.search.texts import digest, mean_digest
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.tree import Node

EMBED_TEXTS = 32
"""Texts that are embedded together, if as many are there; the rest at the end."""

Embed = Callable[[Sequence[str]], Coroutine[Any, Any, Mapping[bytes, NDArray[np.float32]]]]
"""Maps texts to unit vectors by their digest."""

Vectors = Mapping[bytes, NDArray[np.float32]]
"""Unit vectors of texts by their digest."""

_Text = tuple[int, str]
"""A node, and its summary."""


class NodeVectors:
    """The vectors of new summaries, made while other nodes are summarised."""

    def __init__(self, embed: Embed | None) -> None:
        self._embed = embed
        self._waiting: list[_Text] = []
        self._parts: list[tuple[list[_Text], asyncio.Task[Mapping[bytes, NDArray[np.float32]]]]] = []
        self.means: list[int] = []
        """Nodes that get the mean of their children's vectors, from the leaves up."""

    def begin(self, made: list[_Text], least: int = EMBED_TEXTS) -> None:
        """Start embedding the collected texts once there are at least so many."""
        self._waiting += made
        if self._embed is not None and self._waiting and len(self._waiting) >= least:
            part, self._waiting = self._waiting, []
            job = self._embed([text for _, text in part])
            self._parts.append((part, asyncio.ensure_future(job)))

    async def rows(self, failures: list[str]) -> list[derived.VectorRow]:
        """Return the vectors made; failures are added to `failures`, and `resume` makes those vectors."""
        self.begin([], least=1)
        found = []
        for made, task in self._parts:
            try:
                vectors = await task
            except ModelError as exc:
                failures.append(f"the vectors of {len(made)} summaries are left: {exc}")
                continue
            found += [(node, key, vectors[key]) for node, text in made for key in [digest(text)]]
        return found

    async def cancel(self) -> None:
        """Cancel the running embeddings."""
        for _, task in self._parts:
            task.cancel()
        await asyncio.gather(*(task for _, task in self._parts), return_exceptions=True)


def write_vectors(db: Database, rows: Sequence[derived.VectorRow], model: str | None) -> None:
    """Write the vectors of summaries that are still stored; none if the memory's embedder is not `model` any more."""
    with db.write() as tx:
        if meta.get(tx, "embedder") != model:
            return  # it was given another one meanwhile, and `resume` makes them
        now = derived.summaries(tx, [node for node, _, _ in rows])
        same = [row for row in rows if row[0] in now and digest(now[row[0]]) == row[1]]
        derived.put_vectors(tx, "node", same)
        if same:
            meta.bump(tx)


def write_means(db: Database, nodes: Sequence[int]) -> None:
    """Write the vectors of nodes that keep their children's texts: the mean of the children's, from the leaves up.

    Longer texts than an embedder reads are compared whole this way, and cost no embedding. A node with a child that
    has no vector is left out; `fill_vectors` comes back to it.
    """
    with db.write() as tx:
        if put_means(tx, nodes):
            meta.bump(tx)


def put_means(tx: Tx, nodes: Sequence[int] | None = None) -> int:
    """Write the vectors of nodes that keep their children's texts, all that lack one or some; return how many.

    A leaf that keeps the texts of its turns gets the mean of theirs.
    """
    texts = derived.kept_texts(tx, nodes)
    found = tree_rows.nodes_with_ids(tx, list(texts))
    written = 0
    for node in sorted(found.values(), key=lambda one: (one.level, one.id)):
        if node.level:
            mean = _mean(tx, tree_rows.nodes_with_ids(tx, node.children).values())
        else:
            mean = _unit(_of_leaf(tx, node))
        if mean is not None:
            derived.put_vectors(tx, "node", [(node.id, mean_digest(texts[node.id]), mean)])
            written += 1
    return written


def _mean(tx: Tx, children: Iterable[Node]) -> NDArray[np.float32] | None:
    """Return the unit mean of nodes' vectors: of their summaries; of a leaf without one its fact's, the mean of its turns'."""
    rows: list[NDArray[np.float32]] = []
    children = list(children)
    told = derived.summaries(tx, [child.id for child in children])
    for child in children:
        own = list(derived.vectors_of_items(tx, "node", [child.id]).values())
        if child.id not in told and child.item_kind is not None:
            own = _of_leaf(tx, child)
        if not own:
            return None
        rows.append(np.mean(own, axis=0))
    return _unit(rows)


def _of_leaf(tx: Tx, leaf: Node) -> list[NDArray[np.float32]]:
    """Return the vectors of what a leaf stands for: of its fact, or of its turns; none if one is missing."""
    if leaf.item_kind == "fact":
        return list(derived.vectors_of_items(tx, "fact", [leaf.item or 0]).values())
    return derived.vectors_of_leaf(tx, leaf.id)


def _unit(rows: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Return the unit mean of vectors, if there are any and they do not cancel out."""
    if not rows:
        return None
    mean = np.mean(rows, axis=0)
    length = float(np.linalg.norm(mean))
    return None if length == 0 else np.asarray(mean / length, dtype=np.float32)
