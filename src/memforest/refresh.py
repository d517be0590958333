"""Refresh: summaries and vectors of nodes that a write left out of date (paper Alg. 1).

A `Refresher` brings every dirty node up to date (`refresh`), or some nodes with what is dirty beneath them
(`ensure_fresh`). A node is made as soon as its own children are; trees do not wait for each other. What is ready is
read in one transaction, summarised, and committed by compare-and-set: a node gets clean only if it is still dirty, of
the version that was read, and its inputs are the texts that were read. So several processes may refresh one memory: the
first to finish a node wins, and what was made of it otherwise, or of older inputs, is thrown away. One whose child could
not be refreshed stays dirty, and so does everything above it. A crash leaves dirty marks, and the next refresh goes on
from there.

Vectors are made while other nodes are summarised, and written at the end, to those nodes whose text still is what was
embedded; a crash before that leaves vectors missing, which `resume` makes. Writes are of at most `WRITE_NODES` nodes
each, so that other writers wait for none of them long.

How a node is to be summarised, and whether it gets a vector, its index says (`MemoryIndex.work`). When a refresh is
begun, a policy says (`memforest.config.REFRESH`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest.errors import BudgetError, ModelError
from memforest.ports import is_remote
from memforest.search.texts import digest, mean_digest
from memforest.steps.base import Kept, Summariser
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database, Tx
from memforest.text import cut
from memforest.tree import Node
from memforest.types import SummaryRequest

__all__ = ["Describe", "Embed", "Refreshed", "Refresher", "Work", "fingerprint", "stale_nodes", "write_means"]

WRITE_NODES = 128
"""Most nodes written in one transaction."""

EMBED_TEXTS = 32
"""Texts that are embedded together, if as many are there; the rest at the end."""

Embed = Callable[[Sequence[str]], Coroutine[Any, Any, Mapping[bytes, NDArray[np.float32]]]]
"""Maps texts to unit vectors by their digest."""


@dataclass(slots=True)
class Refreshed:
    """What a refresh did. `left` counts the nodes asked for that are still dirty, `failures` says why."""

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


Describe = Callable[
    [Tx, Sequence[Node], Mapping[int, tuple[str, ...]]], tuple[Sequence[Work], Collection[int]]
]
"""Says how nodes are to be summarised, given their children's texts; of those that need it. And which nodes are to be
left as they are."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A node as it was read, and what its text is to be made from."""

    node: Node
    work: Work


@dataclass(frozen=True, slots=True)
class _Made:
    """A node as it was read, what its text was made from, and the text."""

    node: Node
    request: SummaryRequest
    text: str
    compared: bool

    @property
    def vector(self) -> derived.VectorOf:
        """A node with its children's texts has their mean for a vector; a root is compared as a whole."""
        if not self.compared:
            return "none"
        return "mean" if isinstance(self.text, Kept) and not self.request.root else "own"


class Refresher:
    """Makes the summaries of one memory's nodes, and their vectors.

    Args:
        db: the memory.
        describe: says how nodes are to be summarised.
        summariser: makes a node's text from its children's. One behind an endpoint (`remote`) gets every node by
            itself, as soon as the node can be made; another one gets all that are ready together.
        embed: makes vectors, or None in a memory without an embedder.
    """

    def __init__(self, db: Database, describe: Describe, summariser: Summariser, embed: Embed | None) -> None:
        self._db = db
        self._describe = describe
        self._summariser = summariser
        self._embed = embed

    async def refresh(self) -> Refreshed:
        """Bring every dirty node up to date, as far as the steps succeed.

        Raises:
            StoreError: if the database cannot be read or written.
        """
        return await self._run(None)

    async def ensure_fresh(self, nodes: Collection[int]) -> Refreshed:
        """Bring these nodes up to date with everything that is dirty beneath them, and no others.

        Args:
            nodes: ids of inner nodes; those that are up to date, or gone, cost nothing.

        Raises:
            StoreError: if the database cannot be read or written.
        """
        return await self._run(nodes)

    async def _run(self, nodes: Collection[int] | None) -> Refreshed:
        done = Refreshed()
        with _timed(done, "store_ms"):
            dirty = await asyncio.to_thread(_dirty_beneath, self._db, nodes)
        if dirty:
            vectors = _Vectors(self._embed)
            try:
                await self._make_texts(_Order(dirty), vectors, done)
                with _timed(done, "embed_ms"):
                    rows = await vectors.rows(done)
            finally:
                await vectors.cancel()
            with _timed(done, "store_ms"):
                await asyncio.to_thread(self._write_vectors, rows, vectors.means)
        done.left = await asyncio.to_thread(_still_dirty, self._db, None if nodes is None else dirty)
        return done

    # -- texts ------------------------------------------------------------------------------------

    async def _make_texts(self, order: _Order, vectors: _Vectors, done: Refreshed) -> None:
        """Make and commit the texts of nodes, each when its children have theirs."""
        under_way: dict[asyncio.Task[list[str | ModelError]], list[_Job]] = {}
        ready = order.first
        try:
            while ready or under_way:
                with _timed(done, "store_ms"):
                    jobs = await asyncio.to_thread(self._read, order, ready)
                under_way |= {self._begin(jobs_): jobs_ for jobs_ in self._together(jobs)}
                if not under_way:
                    return
                with _timed(done, "summarise_ms"):
                    ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                made = [one for task in ended for one in _made(under_way.pop(task), task.result(), done)]
                with _timed(done, "store_ms"):
                    ready = order.after(await self._commit(made, vectors, done))
        except ModelError as exc:  # no other node will fare better
            done.failures.append(f"summaries are left: {exc}")
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _together(self, jobs: list[_Job]) -> list[list[_Job]]:
        if is_remote(self._summariser):
            return [[job] for job in jobs]
        return [jobs] if jobs else []

    def _begin(self, jobs: Sequence[_Job]) -> asyncio.Task[list[str | ModelError]]:
        requests = [job.work.request for job in jobs]

        async def summarise() -> list[str | ModelError]:
            return list(await self._summariser.summarise(requests))

        return asyncio.ensure_future(summarise())

    def _read(self, order: _Order, ready: Sequence[int]) -> list[_Job]:
        """Return how nodes are to be made; what needs no summary is marked clean, and what is above it comes next."""
        found: list[_Job] = []
        while ready:
            with self._db.read() as tx:
                jobs, idle = _describe(tx, self._describe, ready)
            if idle:
                with self._db.write() as tx:
                    tree_rows.mark_clean(tx, [(node.id, node.version) for node in idle])
            found += jobs
            ready = order.after([node.id for node in idle])
        return found

    async def _commit(self, made: Sequence[_Made], vectors: _Vectors, done: Refreshed) -> list[int]:
        """Write texts, begin their vectors, and return the nodes that are clean now."""
        clean: list[int] = []
        for first in range(0, len(made), WRITE_NODES):
            part = made[first : first + WRITE_NODES]
            written = await asyncio.to_thread(_write, self._db, part, self._summariser.name)
            vectors.begin([one for one in written if one.vector == "own"])
            vectors.means += [one.node.id for one in written if one.vector == "mean"]
            clean += [one.node.id for one in written]
        done.nodes += len(clean)
        return clean

    def _write_vectors(self, rows: Sequence[derived.VectorRow], means: Sequence[int]) -> None:
        if self._embed is None:
            return
        for first in range(0, len(rows), WRITE_NODES):
            _write_vectors(self._db, rows[first : first + WRITE_NODES])
        for first in range(0, len(means), WRITE_NODES):
            write_means(self._db, means[first : first + WRITE_NODES])


class _Order:
    """In what order nodes can be made: those first that have nothing dirty beneath them.

    Args:
        dirty: node -> its children.
    """

    def __init__(self, dirty: Mapping[int, tuple[int, ...]]) -> None:
        self._above: dict[int, int] = {}
        self._waits: dict[int, int] = {}
        for node, children in dirty.items():
            below = [child for child in children if child in dirty]
            self._waits[node] = len(below)
            self._above.update(dict.fromkeys(below, node))

    @property
    def first(self) -> list[int]:
        """The nodes that wait for none."""
        return [node for node, waits in self._waits.items() if not waits]

    def after(self, clean: Iterable[int]) -> list[int]:
        """Return the nodes that waited for these alone; each node is given once."""
        found = []
        for node in clean:
            above = self._above.get(node)
            if above is not None:
                self._waits[above] -= 1
                if not self._waits[above]:
                    found.append(above)
        return found


class _Vectors:
    """The vectors of new summaries, made while other nodes are summarised."""

    def __init__(self, embed: Embed | None) -> None:
        self._embed = embed
        self._waiting: list[_Made] = []
        self._parts: list[tuple[list[_Made], asyncio.Task[Mapping[bytes, NDArray[np.float32]]]]] = []
        self.means: list[int] = []
        """Nodes that get the mean of their children's vectors, from the leaves up."""

    def begin(self, made: list[_Made], least: int = EMBED_TEXTS) -> None:
        """Begin to embed some texts, when at least so many wait for it."""
        self._waiting += made
        if self._embed is not None and self._waiting and len(self._waiting) >= least:
            part, self._waiting = self._waiting, []
            job = self._embed([one.text for one in part])
            self._parts.append((part, asyncio.ensure_future(job)))

    async def rows(self, done: Refreshed) -> list[derived.VectorRow]:
        """Return what was made; what failed is noted, and `resume` makes it."""
        self.begin([], least=1)
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


def _made(jobs: Sequence[_Job], texts: Sequence[str | ModelError], done: Refreshed) -> list[_Made]:
    """Return nodes with their texts, without those that the step failed on."""
    made = []
    failed: dict[str, list[str]] = {}
    for job, text in zip(jobs, texts, strict=True):
        request = job.work.request
        if isinstance(text, BudgetError):
            continue  # the ledger has counted it
        if isinstance(text, ModelError):
            failed.setdefault(str(text), []).append(f"{request.kind} {cut(request.label, 40)}")
        else:
            made.append(_Made(job.node, request, text, job.work.vector))
    for reason, scopes in failed.items():
        more = f" and {len(scopes) - 3} more" if len(scopes) > 3 else ""
        done.failures.append(f"{', '.join(scopes[:3])}{more}: {reason}")
    return made


@contextmanager
def _timed(done: Refreshed, part: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        setattr(done, part, getattr(done, part) + (time.perf_counter() - started) * 1000)


# -- reading --------------------------------------------------------------------------------------


def _dirty_beneath(db: Database, nodes: Collection[int] | None) -> dict[int, tuple[int, ...]]:
    """Return the children of every dirty node, or of those among nodes and beneath them, from the leaves up."""
    with db.read() as tx:
        if nodes is None:
            return tree_rows.dirty_children(tx)
        found: dict[int, Node] = {}
        # What is above a dirty node is dirty, so nothing dirty lies beneath a clean one.
        frontier = set(nodes)
        while frontier:
            read = tree_rows.nodes_with_ids(tx, sorted(frontier))
            dirty = {node.id: node for node in read.values() if node.level and node.dirty}
            found |= dirty
            frontier = {child for node in dirty.values() for child in node.children} - found.keys()
    ordered = sorted(found.values(), key=lambda node: (node.level, node.id))
    return {node.id: node.children for node in ordered}


def _still_dirty(db: Database, nodes: Collection[int] | None) -> int:
    with db.read() as tx:
        if nodes is None:
            return tree_rows.dirty_count(tx)
        return sum(node.dirty for node in tree_rows.nodes_with_ids(tx, nodes).values())


def _describe(tx: Tx, describe: Describe, wanted: Sequence[int]) -> tuple[list[_Job], list[Node]]:
    """Return how those nodes are to be made whose children are up to date, and the nodes that need no summary."""
    found = tree_rows.nodes_with_ids(tx, wanted)
    nodes = [node for one in wanted if (node := found.get(one)) is not None and node.dirty]
    children = tree_rows.nodes_with_ids(tx, [child for node in nodes for child in node.children])
    ready = [n for n in nodes if not any(children[c].dirty and children[c].level > 0 for c in n.children)]
    told, left = describe(tx, ready, _inputs(tx, ready, children))
    work = {one.node: one for one in told}
    jobs = [_Job(node, work[node.id]) for node in ready if node.id in work]
    return jobs, [node for node in ready if node.id not in work and node.id not in left]


def _inputs(tx: Tx, nodes: Sequence[Node], children: Mapping[int, Node]) -> dict[int, tuple[str, ...]]:
    """Return what each node's text is to be made from: its children's texts, in order."""
    texts = _texts(tx, [children[child] for node in nodes for child in node.children])
    return {node.id: tuple(texts[child] for child in node.children if child in texts) for node in nodes}


def _texts(tx: Tx, nodes: Sequence[Node]) -> dict[int, str]:
    """Return each node's own text: an inner node's summary, a leaf's item."""
    found = derived.summaries(tx, [node.id for node in nodes if node.level > 0])
    return found | tree_rows.leaf_texts(tx, [node for node in nodes if node.level == 0])


def fingerprint(request: SummaryRequest, maker: str) -> bytes:
    """Return what a summary is known by: a digest of all that the summariser was given, and of its name and version."""
    return digest(json.dumps([maker, asdict(request)], default=str, ensure_ascii=False))


def stale_nodes(tx: Tx, describe: Describe, maker: str) -> list[int]:
    """Return the nodes with a summary that another maker has made, or of another request than would be made now.

    A request is known by its digest, so that a summary that was made with another prompt, model, length or instruction,
    or for another name, is found; of one that was stored without a digest, the maker alone is compared. Nodes that are
    dirty already are left out.
    """
    made = derived.summary_makers(tx)
    stale = {node for node, (by, _) in made.items() if by != maker}
    nodes = [one for one in tree_rows.nodes_with_ids(tx, made.keys() - stale).values() if not one.dirty]
    for _, level in groupby(sorted(nodes, key=lambda one: (one.level, one.id)), key=lambda one: one.level):
        group = list(level)
        children = tree_rows.nodes_with_ids(tx, [child for node in group for child in node.children])
        for work in describe(tx, group, _inputs(tx, group, children))[0]:
            kept = made[work.node][1]
            if kept is not None and kept != fingerprint(work.request, maker):
                stale.add(work.node)
    return sorted(stale)


# -- writing --------------------------------------------------------------------------------------


def _write(db: Database, made: Sequence[_Made], maker: str) -> list[_Made]:
    """Write texts, and return those nodes whose text was still wanted."""
    with db.write() as tx:
        valid = _unmoved(tx, made)
        keys = []
        for one in valid:
            derived.put_summary(
                tx, one.node.id, str(one.text), maker, one.vector, fingerprint(one.request, maker)
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
    same = [one for one in same if inputs[one.node.id] == one.request.inputs]
    clean = tree_rows.mark_clean(tx, [(one.node.id, one.node.version) for one in same])
    return [one for one in same if one.node.id in clean]
