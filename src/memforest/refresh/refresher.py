"""Refresh: summaries and vectors of nodes that a write left out of date (paper Alg. 1).

A `Refresher` brings every dirty node up to date (`refresh`), or some nodes with what is dirty beneath them
(`ensure_fresh`). A node is made as soon as its own children are; trees do not wait for each other. What is ready is
read in one transaction, summarised, and committed by compare-and-set: a node gets clean only if it is still dirty, of
the version that was read, and its inputs are the texts that were read. So several processes may refresh one memory: the
first to finish a node wins, and what was made of it otherwise, or of older inputs, is thrown away. A node that has the
summary of just this request is marked clean, and nobody is asked (`memforest.refresh.made.unchanged`). One whose child could
not be refreshed stays dirty, and so does everything above it. A crash leaves dirty marks, and the next refresh goes on
from there.

Vectors are made while other nodes are summarised, and written at the end, to those nodes whose text still is what was
embedded; a crash before that leaves vectors missing, which `resume` makes. Writes are of at most `WRITE_NODES` nodes
each, so that other writers wait for none of them long.

How a node is to be summarised, and whether it gets a vector, its index says (`Index.work`). When a refresh is
begun, a policy says (`memforest.config.REFRESH`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from memforest.concurrency import to_thread
from memforest.errors import BudgetError, ModelError
from memforest.ports import Summariser, is_remote
from memforest.refresh.made import Job, Made, Refreshed, keep_unchanged, made_of, put, summarised, unchanged
from memforest.refresh.requests import Describe, inputs_of
from memforest.refresh.timing import timed
from memforest.refresh.vectors import Embed, NodeVectors, write_means, write_vectors
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.owned import nodes_without
from memforest.store.tx import Tx
from memforest.tree import Node

WRITE_NODES = 128
"""Most nodes written in one transaction."""


class Refresher:
    """Makes the summaries of one memory's nodes, and their vectors.

    Args:
        db: the memory.
        describe: says how nodes are to be summarised.
        summariser: makes a node's text from its children's. One behind an endpoint (`remote`) gets every node by
            itself, as soon as the node can be made; another one gets all that are ready together.
        embed: makes vectors, or None in a memory without an embedder.
        model: id of the embedder.
        without: names indexes whose nodes are neither made nor counted.
        report: called on the event loop with how many nodes are up to date, how many failed, and how many were not.
    """

    def __init__(
        self,
        db: Database,
        describe: Describe,
        summariser: Summariser,
        embed: Embed | None,
        model: str | None = None,
        without: Callable[[Tx], Collection[str]] = lambda tx: (),
        report: Callable[[int, int, int], object] = lambda done, failed, total: None,
    ) -> None:
        self._db = db
        self._describe = describe
        self._summariser = summariser
        self._embed = embed
        self._model = model
        self._without = without
        self._report = report

    async def refresh(self, *, but: Collection[int] = ()) -> Refreshed:
        """Bring every dirty node up to date, as far as the steps succeed; those of the trees in `but` are left.

        Raises:
            StoreError: if the database cannot be read or written.
        """
        return await self._run(None, but)

    async def ensure_fresh(self, nodes: Collection[int]) -> Refreshed:
        """Bring these nodes up to date with everything that is dirty beneath them, and no others.

        Args:
            nodes: ids; those that are up to date, have nothing to be brought up to date, or are gone cost nothing.

        Raises:
            StoreError: if the database cannot be read or written.
        """
        return await self._run(nodes)

    async def _run(self, nodes: Collection[int] | None, but: Collection[int] = ()) -> Refreshed:
        done = Refreshed()
        with timed(done, "store_ms"):
            dirty = await to_thread(_dirty_beneath, self._db, nodes, but, self._without)
        if dirty:
            vectors = NodeVectors(self._embed)
            try:
                await self._make_texts(_Order(dirty), vectors, done)
                with timed(done, "embed_ms"):
                    rows = await vectors.rows(done.failures)
            finally:
                await vectors.cancel()
            with timed(done, "store_ms"):
                await to_thread(self._write_vectors, rows, vectors.means)
        done.left = await to_thread(_still_dirty, self._db, None if nodes is None else dirty, self._without)
        return done

    # -- texts ------------------------------------------------------------------------------------

    async def _make_texts(self, order: _Order, vectors: NodeVectors, done: Refreshed) -> None:
        """Make and commit the texts of nodes, each when its children have theirs."""
        under_way: dict[asyncio.Task[list[str | ModelError]], list[Job]] = {}
        ready, failed = order.first, 0
        try:
            while ready or under_way:
                self._report(order.clean, failed, order.total)
                with timed(done, "store_ms"):
                    jobs = await to_thread(self._read, order, ready, vectors)
                under_way |= {self._begin(jobs_): jobs_ for jobs_ in self._together(jobs)}
                if not under_way:
                    break
                with timed(done, "summarise_ms"):
                    ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                failed += sum(_is_failure(text) for task in ended for text in task.result())
                made = [one for task in ended for one in made_of(under_way.pop(task), task.result(), done)]
                with timed(done, "store_ms"):
                    ready = order.after(await self._commit(made, vectors, done))
            self._report(order.clean, failed, order.total)
        except ModelError as exc:  # no other node will fare better
            done.failures.append(f"summaries are left: {exc}")
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _together(self, jobs: list[Job]) -> list[list[Job]]:
        if is_remote(self._summariser):
            return [[job] for job in jobs]
        return [jobs] if jobs else []

    def _begin(self, jobs: Sequence[Job]) -> asyncio.Task[list[str | ModelError]]:
        return asyncio.ensure_future(summarised(jobs, self._summariser))

    def _read(self, order: _Order, ready: Sequence[int], vectors: NodeVectors) -> list[Job]:
        """Return the requests of nodes.

        Nodes that need no summary, or have the one that they would get, are marked clean, and their parents are read next.
        """
        embeds = self._embed is not None
        found: list[Job] = []
        while ready:
            with self._db.read() as tx:
                jobs, idle = _describe(tx, self._describe, ready)
                same = unchanged(tx, jobs, self._summariser, embeds=embeds)
            kept: list[int] = []
            if idle or same:
                with self._db.write() as tx:
                    tree_rows.mark_clean(tx, [(node.id, node.version) for node in idle])
                    kept = keep_unchanged(tx, same, self._summariser, embeds=embeds)
                    vectors.means += derived.kept_texts(tx, kept) if embeds else ()
            found += [job for job in jobs if job.node.id not in kept]
            ready = order.after([node.id for node in idle] + kept)
        return found

    async def _commit(self, made: Sequence[Made], vectors: NodeVectors, done: Refreshed) -> list[int]:
        """Write texts, begin their vectors, and return the nodes that are clean now."""
        clean: list[int] = []
        for first in range(0, len(made), WRITE_NODES):
            part = made[first : first + WRITE_NODES]
            written = await to_thread(_write, self._db, part, self._summariser)
            vectors.begin([(one.node.id, one.text) for one in written if one.vector == "own"])
            vectors.means += [one.node.id for one in written if one.vector == "mean"]
            clean += [one.node.id for one in written]
        done.nodes += len(clean)
        return clean

    def _write_vectors(self, rows: Sequence[derived.VectorRow], means: Sequence[int]) -> None:
        if self._embed is None:
            return
        for first in range(0, len(rows), WRITE_NODES):
            write_vectors(self._db, rows[first : first + WRITE_NODES], self._model)
        for first in range(0, len(means), WRITE_NODES):
            write_means(self._db, means[first : first + WRITE_NODES])


class _Order:
    """The order in which dirty nodes are refreshed: each node after its dirty children.

    Args:
        dirty: node -> its children.
    """

    def __init__(self, dirty: Mapping[int, tuple[int, ...]]) -> None:
        self.total, self.clean = len(dirty), 0
        self._above: dict[int, int] = {}
        self._waits: dict[int, int] = {}
        for node, children in dirty.items():
            below = [child for child in children if child in dirty]
            self._waits[node] = len(below)
            self._above.update(dict.fromkeys(below, node))

    @property
    def first(self) -> list[int]:
        """The nodes without dirty children."""
        return [node for node, waits in self._waits.items() if not waits]

    def after(self, clean: Iterable[int]) -> list[int]:
        """Count nodes as clean and return those whose last dirty children they were; each node is returned once."""
        found = []
        for node in clean:
            self.clean += 1
            above = self._above.get(node)
            if above is not None:
                self._waits[above] -= 1
                if not self._waits[above]:
                    found.append(above)
        return found


def _is_failure(text: str | ModelError) -> bool:
    """Return whether a summary could not be made; one that the budget did not reach was not tried."""
    return isinstance(text, ModelError) and not isinstance(text, BudgetError)


# -- reading --------------------------------------------------------------------------------------


def _dirty_beneath(
    db: Database,
    nodes: Collection[int] | None,
    but: Collection[int],
    without: Callable[[Tx], Collection[str]],
) -> dict[int, tuple[int, ...]]:
    """Return the children of every dirty node, or of those among nodes and beneath them, from the leaves up.

    Leaves that have a summary of their own are among them, without children.
    """
    with db.read() as tx:
        if nodes is None:
            return tree_rows.dirty_children(tx, but=but, without=without(tx))
        found: dict[int, Node] = {}
        # What is above a dirty node is dirty, so nothing dirty lies beneath a clean one.
        frontier = nodes_without(tx, nodes, without(tx))
        while frontier:
            read = tree_rows.nodes_with_ids(tx, sorted(frontier))
            dirty = {node.id: node for node in read.values() if node.dirty}
            found |= dirty
            frontier = {child for node in dirty.values() for child in node.children} - found.keys()
    ordered = sorted(found.values(), key=lambda node: (node.level, node.id))
    return {node.id: node.children for node in ordered}


def _still_dirty(
    db: Database, nodes: Collection[int] | None, without: Callable[[Tx], Collection[str]]
) -> int:
    with db.read() as tx:
        if nodes is None:
            return tree_rows.dirty_count(tx, without=without(tx))
        return sum(node.dirty for node in tree_rows.nodes_with_ids(tx, nodes).values())


def _describe(tx: Tx, describe: Describe, wanted: Sequence[int]) -> tuple[list[Job], list[Node]]:
    """Return the requests of nodes whose children are clean, and the nodes that need no summary."""
    found = tree_rows.nodes_with_ids(tx, wanted)
    nodes = [node for one in wanted if (node := found.get(one)) is not None and node.dirty]
    children = tree_rows.nodes_with_ids(tx, [child for node in nodes for child in node.children])
    ready = [node for node in nodes if not any(children[child].dirty for child in node.children)]
    work = {one.node: one for one in describe(tx, ready, inputs_of(tx, ready, children))}
    jobs = [Job(node, work[node.id]) for node in ready if node.id in work]
    return jobs, [node for node in ready if node.id not in work]


# -- writing --------------------------------------------------------------------------------------


def _write(db: Database, made: Sequence[Made], summariser: Summariser) -> list[Made]:
    """Write summaries, and return the nodes that were still dirty with unchanged inputs."""
    with db.write() as tx:
        valid = _unmoved(tx, made)
        put(tx, valid, summariser)
        if valid:
            meta.bump(tx)
    return valid


def _unmoved(tx: Tx, made: Sequence[Made]) -> list[Made]:
    """Mark nodes clean that are still dirty and whose inputs are unchanged; return them."""
    now = tree_rows.nodes_with_ids(tx, [one.node.id for one in made])
    same = [one for one in made if (node := now.get(one.node.id)) and node.version == one.node.version]
    children = tree_rows.nodes_with_ids(tx, [child for one in same for child in one.node.children])
    inputs = inputs_of(tx, [one.node for one in same], children)
    same = [one for one in same if inputs[one.node.id] == one.job.work.request.inputs]
    clean = tree_rows.mark_clean(tx, [(one.node.id, one.node.version) for one in same])
    return [one for one in same if one.node.id in clean]
