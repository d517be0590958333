"""Dirty-path refresh: summaries and vectors of exactly the nodes that a write touched (paper Alg. 1).

Level by level over all trees: what is dirty at a level is read, summarised in one batch, and
committed by compare-and-set: a node gets clean only if it is still dirty, of the version that was read, and
its inputs are the texts that were read. So several processes may refresh one memory: the first to finish a
node wins, and what was made of it otherwise, or of older inputs, is thrown away. One whose child could not be
refreshed stays dirty, and so does everything above it. A crash leaves dirty marks, and the next refresh goes
on from there. Vectors are made while the next levels are summarised, and written at the end, to those nodes whose
text still is what was embedded; a crash before that leaves vectors missing, which `resume` makes. Writes are of at most `WRITE_NODES` nodes each, so that other writers wait for none of them long.

How a node is to be summarised, and whether it gets a vector, its index says (`MemoryIndex.work`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.errors import BudgetError, ModelError
from memforest.search.texts import digest, mean_digest
from memforest.steps.base import Kept, Summariser
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database, Tx
from memforest.text import cut
from memforest.tree import Node
from memforest.types import SummaryRequest

__all__ = ["Describe", "Embed", "Refreshed", "Work", "refresh", "write_means"]

WRITE_NODES = 128
"""Most nodes written in one transaction."""

Embed = Callable[[Sequence[str]], Coroutine[Any, Any, Mapping[bytes, NDArray[np.float32]]]]
"""Maps texts to unit vectors by their digest."""


@dataclass(slots=True)
class Refreshed:
    """What a refresh did; `left` counts the nodes still dirty, `failures` says why."""

    nodes: int = 0
    left: int = 0
    summarise_ms: float = 0.0
    embed_ms: float = 0.0
    store_ms: float = 0.0
    failures: list[str] = field(default_factory=list)


class Work(Protocol):
    """What a node's summary is to be made from, and whether the node gets a vector."""

    @property
    def node(self) -> int:
        """The node's id."""
        ...

    @property
    def request(self) -> SummaryRequest:
        """What the summariser reads."""
        ...

    @property
    def vector(self) -> bool:
        """Whether questions are compared with the node."""
        ...


Describe = Callable[[Tx, Sequence[Node], Mapping[int, tuple[str, ...]]], Sequence[Work]]
"""Says how nodes of one level are to be summarised, given their children's texts; of those that need it."""


@dataclass(frozen=True, slots=True)
class _Level:
    nodes: list[Node]
    work: list[Work]


@dataclass(frozen=True, slots=True)
class _Made:
    """A node as it was read, what its text was made from, and the text."""

    node: Node
    inputs: tuple[str, ...]
    text: str
    root: bool
    compared: bool

    @property
    def vector(self) -> derived.VectorOf:
        """A node with its children's texts has their mean for a vector; a root is compared as a whole."""
        if not self.compared:
            return "none"
        return "mean" if isinstance(self.text, Kept) and not self.root else "own"


async def refresh(
    db: Database, describe: Describe, *, summariser: Summariser, embed: Embed | None
) -> Refreshed:
    """Bring every dirty node up to date, as far as the steps succeed.

    Args:
        db: the memory.
        describe: says how nodes are to be summarised.
        summariser: makes a node's text from its children's.
        embed: makes vectors, or None in a memory without an embedder.

    Raises:
        StoreError: if the database cannot be read or written.
    """
    done = Refreshed()
    vectors = _Vectors(embed)
    try:
        await _refresh_levels(db, describe, summariser, vectors, done)
        started = time.perf_counter()
        rows = await vectors.rows(done)
        done.embed_ms += _since(started)
    finally:
        await vectors.cancel()
    started = time.perf_counter()
    if embed is not None:
        for first in range(0, len(rows), WRITE_NODES):
            await asyncio.to_thread(_write_vectors, db, rows[first : first + WRITE_NODES])
        for first in range(0, len(vectors.means), WRITE_NODES):
            await asyncio.to_thread(write_means, db, vectors.means[first : first + WRITE_NODES])
    done.left = await asyncio.to_thread(_dirty, db)
    done.store_ms += _since(started)
    return done


async def _refresh_levels(
    db: Database,
    describe: Describe,
    summariser: Summariser,
    vectors: _Vectors,
    done: Refreshed,
) -> None:
    """Make and commit the texts of all dirty levels, from the leaves up."""
    level = 0
    while True:
        started = time.perf_counter()
        level, batch = await asyncio.to_thread(_read_level, db, describe, level)
        done.store_ms += _since(started)
        if batch is None:
            return
        if not batch.nodes:
            continue
        started = time.perf_counter()
        try:
            made = await _summarise(summariser, batch, done)
        except ModelError as exc:  # no other level will fare better
            done.failures.append(f"summaries are left: {exc}")
            return
        done.summarise_ms += _since(started)
        started = time.perf_counter()
        for first in range(0, len(made), WRITE_NODES):
            part = made[first : first + WRITE_NODES]
            written = await asyncio.to_thread(_write, db, part, summariser.name)
            done.nodes += len(written)
            vectors.begin([one for one in written if one.vector == "own"])
            vectors.means += [one.node.id for one in written if one.vector == "mean"]
        done.store_ms += _since(started)


class _Vectors:
    """The vectors of new summaries, made while the levels above are summarised."""

    def __init__(self, embed: Embed | None) -> None:
        self._embed = embed
        self._parts: list[tuple[list[_Made], asyncio.Task[Mapping[bytes, NDArray[np.float32]]]]] = []
        self.means: list[int] = []
        """Nodes that get the mean of their children's vectors, from the leaves up."""

    def begin(self, made: list[_Made]) -> None:
        """Begin to embed some texts."""
        if self._embed is not None and made:
            job = self._embed([one.text for one in made])
            self._parts.append((made, asyncio.ensure_future(job)))

    async def rows(self, done: Refreshed) -> list[derived.VectorRow]:
        """Return what was made; what failed is noted, and `resume` makes it."""
        found = []
        for made, task in self._parts:
            try:
                vectors = await task
            except ModelError as exc:
                done.failures.append(f"the vectors of {len(made)} summaries are left: {exc}")
                continue
            found += [(one.node.id, key, vectors[key]) for one in made for key in [digest(one.text)]]
        return found

    async def cancel(self) -> None:
        """Stop what is under way."""
        for _, task in self._parts:
            task.cancel()
        await asyncio.gather(*(task for _, task in self._parts), return_exceptions=True)


async def _summarise(summariser: Summariser, batch: _Level, done: Refreshed) -> list[_Made]:
    """Return the nodes of a level with their texts, without those that the step fails on."""
    texts = await summariser.summarise([one.request for one in batch.work])
    made = []
    failed: dict[str, list[str]] = {}
    for node, work, text in zip(batch.nodes, batch.work, texts, strict=True):
        request = work.request
        if isinstance(text, BudgetError):
            continue  # the ledger has counted it
        if isinstance(text, ModelError):
            failed.setdefault(str(text), []).append(f"{request.kind} {cut(request.label, 40)}")
        else:
            made.append(_Made(node, request.inputs, text, request.root, work.vector))
    for reason, scopes in failed.items():
        more = f" and {len(scopes) - 3} more" if len(scopes) > 3 else ""
        done.failures.append(f"{', '.join(scopes[:3])}{more}: {reason}")
    return made


def _dirty(db: Database) -> int:
    with db.read() as tx:
        return tree_rows.dirty_count(tx)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _read_level(db: Database, describe: Describe, above: int) -> tuple[int, _Level | None]:
    """Return the next dirty level above `above` with what its nodes are made from; None at the top."""
    with db.read() as tx:
        level = tree_rows.next_dirty_level(tx, above)
        if level is None:
            return above, None
        nodes = tree_rows.dirty_nodes(tx, level)
        children = tree_rows.nodes_with_ids(tx, [child for node in nodes for child in node.children])
        ready = [n for n in nodes if not any(children[c].dirty and children[c].level > 0 for c in n.children)]
        work = {one.node: one for one in describe(tx, ready, _inputs(tx, ready, children))}
        idle = [(node.id, node.version) for node in ready if node.id not in work]
    if idle:
        with db.write() as tx:
            tree_rows.mark_clean(tx, idle)
    wanted = [node for node in ready if node.id in work]
    found = [work[node.id] for node in wanted]
    return level, _Level(wanted, found)


def _inputs(tx: Tx, nodes: Sequence[Node], children: Mapping[int, Node]) -> dict[int, tuple[str, ...]]:
    """Return what each node's text is to be made from: its children's texts, in order."""
    texts = _texts(tx, [children[child] for node in nodes for child in node.children])
    return {node.id: tuple(texts[child] for child in node.children if child in texts) for node in nodes}


def _texts(tx: Tx, nodes: Sequence[Node]) -> dict[int, str]:
    """Return each node's own text: an inner node's summary, a leaf's item."""
    found = derived.summaries(tx, [node.id for node in nodes if node.level > 0])
    return found | tree_rows.leaf_texts(tx, [node for node in nodes if node.level == 0])


def _write(db: Database, made: Sequence[_Made], maker: str) -> list[_Made]:
    """Write texts, and return those nodes whose text was still wanted."""
    with db.write() as tx:
        valid = _unmoved(tx, made)
        keys = []
        for one in valid:
            derived.put_summary(
                tx, one.node.id, str(one.text), maker, one.vector, digest("\n".join(one.inputs))
            )
            keys.append((one.node.id, (mean_digest if one.vector == "mean" else digest)(one.text)))
        # A memory opened without its embedder must not keep vectors of summaries that it has replaced.
        derived.drop_other_vectors(tx, "node", keys)
        if valid:
            meta.bump(tx)
    return valid


def _write_vectors(db: Database, rows: Sequence[derived.VectorRow]) -> None:
    """Write the vectors of those texts that still stand."""
    with db.write() as tx:
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
        texts = derived.kept_texts(tx, nodes)
        found = tree_rows.nodes_with_ids(tx, list(texts))
        written = False
        for node in sorted(found.values(), key=lambda one: (one.level, one.id)):
            mean = _mean(tx, tree_rows.nodes_with_ids(tx, node.children).values())
            if mean is not None:
                derived.put_vectors(tx, "node", [(node.id, mean_digest(texts[node.id]), mean)])
                written = True
        if written:
            meta.bump(tx)


def _mean(tx: Tx, children: Iterable[Node]) -> NDArray[np.float32] | None:
    """Return the unit mean of nodes' vectors: a fact's, the mean of a chunk's or run's turns', an inner node's own."""
    rows: list[NDArray[np.float32]] = []
    for child in children:
        if child.item_kind is None:
            own = list(derived.vectors_of_items(tx, "node", [child.id]).values())
        elif child.item_kind == "fact":
            own = list(derived.vectors_of_items(tx, "fact", [child.item or 0]).values())
        else:
            own = derived.vectors_of_leaf(tx, child.id)
        if not own:
            return None
        rows.append(np.mean(own, axis=0))
    mean = np.mean(rows, axis=0)
    length = float(np.linalg.norm(mean))
    return None if length == 0 else np.asarray(mean / length, dtype=np.float32)


def _unmoved(tx: Tx, made: Sequence[_Made]) -> list[_Made]:
    """Mark those nodes clean that still are to be made, and from what they were made; return these."""
    now = tree_rows.nodes_with_ids(tx, [one.node.id for one in made])
    same = [one for one in made if (node := now.get(one.node.id)) and node.version == one.node.version]
    children = tree_rows.nodes_with_ids(tx, [child for one in same for child in one.node.children])
    inputs = _inputs(tx, [one.node for one in same], children)
    same = [one for one in same if inputs[one.node.id] == one.inputs]
    clean = tree_rows.mark_clean(tx, [(one.node.id, one.node.version) for one in same])
    return [one for one in same if one.node.id in clean]
