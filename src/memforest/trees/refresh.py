"""Refresh: summaries and vectors of nodes that a write left out of date (paper Alg. 1).

A `Refresher` brings every dirty node up to date (`refresh`), or some nodes with what is dirty beneath them
(`ensure_fresh`). A node is made as soon as its own children are; trees do not wait for each other. What is ready is
read in one transaction, summarised, and committed by compare-and-set: a node gets clean only if it is still dirty, of
the version that was read, and its inputs are the texts that were read. So several processes may refresh one memory: the
first to finish a node wins, and what was made of it otherwise, or of older inputs, is thrown away. A node that has the
summary of just this request is marked clean, and nobody is asked (`unchanged`). One whose child could not be refreshed
stays dirty, and so does everything above it. A crash leaves dirty marks, and the next refresh goes on from there.

Vectors are made while other nodes are summarised, and written at the end, to those nodes whose text still is what was
embedded; a crash before that leaves vectors missing, which `resume` makes. Writes are of at most `WRITE_NODES` nodes
each, so that other writers wait for none of them long.

How a node is to be summarised, and whether it gets a vector, its index says (`Index.work`); when a refresh is begun,
`memforest.config.REFRESH`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of, to_thread
from memforest.errors import BudgetError, ModelError
from memforest.nodes import Node
from memforest.ports import Summariser, UnchangedText, is_remote
from memforest.records import SummaryRequest
from memforest.search.vectors import digest, mean_digest
from memforest.store import derived, meta, trees
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.meta import nodes_without
from memforest.store.trees import leaf_texts
from memforest.text import cut
from memforest.times import EARLIEST

PROMPTS = ("", "segment", "session", "day", "week", "profile", "memory")
"""What a request may name as its prompt; see `memforest.records.SummaryRequest`."""


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The summary request of a node, and whether the node gets a vector.

    With `kept` the node's text is the inputs, a line each, and its vector the mean of its children's: nobody is asked. With
    `words` the request's own bound of words holds, else the memory's.
    """

    node: int
    request: SummaryRequest
    vector: bool = True
    kept: bool = False
    words: bool = False


Describe = Callable[[Tx, Sequence[Node], Mapping[int, tuple[str, ...]]], Sequence[NodeWork]]
"""Says how nodes are to be summarised, given their children's texts; of those that need it."""


def inputs_of(tx: Tx, nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """Return the inputs of each node's summary: its children's texts, in order; of a leaf, what its item says."""
    below = [child for node in nodes for child in node.children]
    texts = derived.summaries(tx, below)
    rest = trees.nodes_with_ids(tx, [child for child in below if child not in texts]).values()
    texts |= leaf_texts(tx, [node for node in rest if not node.level])
    items = leaf_texts(tx, [node for node in nodes if not node.level])
    own = {node.id: tuple(texts[child] for child in node.children if child in texts) for node in nodes}
    return own | {leaf: (text,) for leaf, text in items.items()}


class _Inputs(dict[int, tuple[str, ...]]):
    """The inputs of nodes, read when one is first asked for: a root that has no summary may have thousands of children."""

    def __init__(self, tx: Tx, nodes: Sequence[Node]) -> None:
        self._tx, self._nodes = tx, nodes

    def __missing__(self, node: int) -> tuple[str, ...]:
        self.update(inputs_of(self._tx, self._nodes))
        return self[node]


def bounded(work: NodeWork, max_words: int) -> NodeWork:
    """Return the work with the memory's bound of words, unless the request's own holds."""
    return work if work.words else replace(work, request=replace(work.request, max_words=max_words))


def maker_of(summariser: Summariser, request: SummaryRequest) -> str:
    """Return the name stored as the maker of a summary: that of the summariser, or of the request's prompt."""
    made: str = summariser.maker_of(request) if hasattr(summariser, "maker_of") else summariser.name
    return made


def makers_of(summariser: Summariser) -> frozenset[str]:
    """Return everything that the summariser may be noted as."""
    blank = SummaryRequest("", "", EARLIEST, EARLIEST, ())
    return frozenset(maker_of(summariser, replace(blank, prompt=prompt)) for prompt in PROMPTS)


def fingerprint(request: SummaryRequest, maker: str, *, kept: bool = False) -> bytes:
    """Return the fingerprint of a summary: a digest of the request, of the summariser's name and version, and of whether it was asked."""
    asked = asdict(request)
    for later in ("prompt", "statements"):  # stored digests say nothing of these where they are empty
        if not asked[later]:
            del asked[later]
    told = [maker, asked, *(["kept"] if kept else [])]
    return digest(json.dumps(told, default=str, ensure_ascii=False))


def stale_nodes(tx: Tx, describe: Describe, summariser: Summariser) -> list[int]:
    """Return the nodes whose summary was made by another maker or request than it would be now.

    A request is known by its digest, so that a summary that was made with another prompt, model, length or instruction,
    or for another name, is found; of one that was stored without a digest, the maker alone is compared. Nodes that are
    dirty already are left out.
    """
    made, makers = derived.summary_makers(tx), makers_of(summariser)
    stale = {node for node, by in made.items() if by.maker not in makers}
    nodes = [one for one in trees.nodes_with_ids(tx, made.keys() - stale).values() if not one.dirty]
    for _, level in groupby(sorted(nodes, key=lambda one: (one.level, one.id)), key=lambda one: one.level):
        group = list(level)
        for work in describe(tx, group, inputs_of(tx, group)):
            by, maker = made[work.node], maker_of(summariser, work.request)
            now = fingerprint(work.request, maker, kept=work.kept)
            if by.maker != maker or by.inputs not in (None, now):
                stale.add(work.node)
    return sorted(stale)


@dataclass(slots=True)
class Refreshed:
    """The result of a refresh. `left` counts the nodes asked for that are still dirty, `failures` says why."""

    nodes: int = 0
    left: int = 0
    summarise_ms: float = 0.0
    embed_ms: float = 0.0
    store_ms: float = 0.0
    failures: list[str] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    """Of one wave of a paced index: why nodes were not made."""

    def plus(self, later: Refreshed) -> Refreshed:
        """Return what two refreshes did, one after the other; the later one says what is left."""
        return Refreshed(
            self.nodes + later.nodes,
            later.left,
            self.summarise_ms + later.summarise_ms,
            self.embed_ms + later.embed_ms,
            self.store_ms + later.store_ms,
            [*self.failures, *later.failures],
        )


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A dirty node as it was read, with the request of its summary, and its text once that is made."""

    node: Node
    work: NodeWork
    text: str = ""

    def made_by(self, summariser: Summariser) -> tuple[str, bytes]:
        """Return the maker and the fingerprint of the summary that is asked for."""
        maker = maker_of(summariser, self.work.request)
        return maker, fingerprint(self.work.request, maker, kept=self.work.kept)

    @property
    def vector(self) -> derived.VectorOf:
        """A node with its children's texts has their mean for a vector; a root is compared as a whole.

        So has a leaf the mean of its turns' that a level's own prompt was asked for.
        """
        work = self.work
        if not work.vector:
            return "none"
        inside = self.node.level or work.request.prompt
        kept = isinstance(self.text, UnchangedText) and inside and not work.request.root
        return "mean" if kept or work.kept else "own"


async def summarised(jobs: Sequence[SummaryJob], summariser: Summariser) -> list[str | ModelError]:
    """Return the texts of nodes in one wave: one call for all of them, or for a remote summariser one each, side by side.

    What is kept costs no call.

    Raises:
        ModelError: if no call can succeed.
    """
    asked = [job.work.request for job in jobs if not job.work.kept]
    if is_remote(summariser):
        replies = await all_of(summariser.summarise([one]) for one in asked)
        texts = iter([text for reply in replies for text in reply])
    else:
        texts = iter(await summariser.summarise(asked) if asked else [])
    return [
        UnchangedText("\n".join(job.work.request.inputs)) if job.work.kept else next(texts) for job in jobs
    ]


def made_of(
    jobs: Sequence[SummaryJob], texts: Sequence[str | ModelError], done: Refreshed
) -> list[SummaryJob]:
    """Return nodes with their texts, without those that the step failed on; `done` gets why it failed."""
    made = []
    failed: dict[str, list[str]] = {}
    for job, text in zip(jobs, texts, strict=True):
        request = job.work.request
        if isinstance(text, BudgetError):
            continue  # the ledger has counted it
        if isinstance(text, ModelError):
            failed.setdefault(str(text), []).append(f"{request.kind} {cut(request.label, 40)}")
        else:
            made.append(replace(job, text=text))
    for reason, scopes in failed.items():
        more = f" and {len(scopes) - 3} more" if len(scopes) > 3 else ""
        done.failures.append(f"{', '.join(scopes[:3])}{more}: {reason}")
    return made


def put(tx: Tx, made: Sequence[SummaryJob], summariser: Summariser) -> None:
    """Store summaries; vectors of other texts go."""
    keys = []
    for one in made:
        maker, inputs = one.made_by(summariser)
        derived.put_summary(tx, one.node.id, str(one.text), maker, one.vector, inputs)
        keys.append((one.node.id, (mean_digest if one.vector == "mean" else digest)(one.text)))
    # A memory opened without its embedder must not keep vectors of summaries that it has replaced.
    derived.drop_other_vectors(tx, "node", keys)


def unchanged(
    tx: Tx, jobs: Sequence[SummaryJob], summariser: Summariser, *, embeds: bool
) -> list[SummaryJob]:
    """Return the jobs whose nodes already have the summary asked for, by fingerprint, and the vector that they should have.

    A mean is made anew without a model, so it need not be there.
    """
    ids = [job.node.id for job in jobs]
    stored = derived.summary_makers(tx, ids)
    same = [
        job
        for job in jobs
        if (found := stored.get(job.node.id)) is not None
        and (found.maker, found.inputs) == job.made_by(summariser)
        and (found.vector != "none") == job.work.vector
    ]
    if not embeds:
        return same
    has = derived.stored_vectors(tx, "node", [job.node.id for job in same])
    return [job for job in same if stored[job.node.id].vector != "own" or job.node.id in has]


def keep_unchanged(tx: Tx, jobs: Sequence[SummaryJob], summariser: Summariser, *, embeds: bool) -> list[int]:
    """Mark nodes clean that are `unchanged` now and of the version that was read; return their ids.

    It is looked at again in the write transaction: a deletion takes the summary of every dirty node away. A vector that is a
    mean is dropped, to be made anew: those of the children may be others now.
    """
    same = unchanged(tx, jobs, summariser, embeds=embeds)
    clean = trees.mark_clean(tx, [(job.node.id, job.node.version) for job in same])
    if embeds:
        stored = derived.summary_makers(tx, clean)
        derived.drop_vectors(tx, "node", [node for node in clean if stored[node].vector == "mean"])
    return [job.node.id for job in same if job.node.id in clean]


@contextmanager
def timed(done: Refreshed, part: str) -> Iterator[None]:
    """Add the wall time of the block, in milliseconds, to a field of `Refreshed`; also of a block that raises."""
    started = time.perf_counter()
    try:
        yield
    finally:
        setattr(done, part, getattr(done, part) + (time.perf_counter() - started) * 1000)


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
    found = trees.nodes_with_ids(tx, list(texts))
    written = 0
    for node in sorted(found.values(), key=lambda one: (one.level, one.id)):
        if node.level:
            mean = _mean(tx, trees.nodes_with_ids(tx, node.children).values())
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


WRITE_NODES = 128
"""Most nodes written in one transaction."""


@dataclass(frozen=True, slots=True)
class Refresher:
    """Makes the summaries of one memory's nodes, and their vectors."""

    db: Database
    describe: Describe
    summariser: Summariser
    """Makes a node's text from its children's. One behind an endpoint (`remote`) gets every node by itself, as soon as the
    node can be made; another one gets all that are ready together."""
    embed: Embed | None
    """Makes vectors; None in a memory without an embedder."""
    model: str | None = None
    """Id of the embedder."""
    without: Callable[[Tx], Collection[str]] = lambda tx: ()
    """Names indexes whose nodes are neither made nor counted."""
    report: Callable[[int, int, int], object] = lambda done, failed, total: None
    """Called on the event loop with how many nodes are up to date, how many failed, and how many were not."""

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
            dirty = await to_thread(_dirty_beneath, self.db, nodes, but, self.without)
        if dirty:
            vectors = NodeVectors(self.embed)
            try:
                await self._make_texts(_Order(dirty), vectors, done)
                with timed(done, "embed_ms"):
                    rows = await vectors.rows(done.failures)
            finally:
                await vectors.cancel()
            with timed(done, "store_ms"):
                await to_thread(self._write_vectors, rows, vectors.means)
        done.left = await to_thread(_still_dirty, self.db, None if nodes is None else dirty, self.without)
        return done

    async def _make_texts(self, order: _Order, vectors: NodeVectors, done: Refreshed) -> None:
        """Make and commit the texts of nodes, each when its children have theirs."""
        under_way: dict[asyncio.Task[list[str | ModelError]], list[SummaryJob]] = {}
        ready, failed = order.first, 0
        try:
            while ready or under_way:
                self.report(order.clean, failed, order.total)
                with timed(done, "store_ms"):
                    jobs = await to_thread(self._read, order, ready, vectors)
                calls = [[job] for job in jobs] if is_remote(self.summariser) else [jobs] if jobs else []
                under_way |= {
                    asyncio.ensure_future(summarised(call, self.summariser)): call for call in calls
                }
                if not under_way:
                    break
                with timed(done, "summarise_ms"):
                    ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                failed += sum(
                    isinstance(text, ModelError)
                    and not isinstance(text, BudgetError)  # else it was not tried
                    for task in ended
                    for text in task.result()
                )
                made = [one for task in ended for one in made_of(under_way.pop(task), task.result(), done)]
                with timed(done, "store_ms"):
                    ready = order.after(await self._commit(made, vectors, done))
            self.report(order.clean, failed, order.total)
        except ModelError as exc:  # no other node will fare better
            done.failures.append(f"summaries are left: {exc}")
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _read(self, order: _Order, ready: Sequence[int], vectors: NodeVectors) -> list[SummaryJob]:
        """Return the requests of nodes.

        Nodes that need no summary, or have the one that they would get, are marked clean, and their parents are read next.
        """
        embeds = self.embed is not None
        found: list[SummaryJob] = []
        while ready:
            with self.db.read() as tx:
                jobs, idle = _describe(tx, self.describe, ready)
                same = unchanged(tx, jobs, self.summariser, embeds=embeds)
            kept: list[int] = []
            if idle or same:
                with self.db.write() as tx:
                    trees.mark_clean(tx, [(node.id, node.version) for node in idle])
                    kept = keep_unchanged(tx, same, self.summariser, embeds=embeds)
                    vectors.means += derived.kept_texts(tx, kept) if embeds else ()
            found += [job for job in jobs if job.node.id not in kept]
            ready = order.after([node.id for node in idle] + kept)
        return found

    async def _commit(self, made: Sequence[SummaryJob], vectors: NodeVectors, done: Refreshed) -> list[int]:
        """Write texts, begin their vectors, and return the nodes that are clean now."""
        clean: list[int] = []
        for first in range(0, len(made), WRITE_NODES):
            part = made[first : first + WRITE_NODES]
            written = await to_thread(self._write, part)
            vectors.begin([(one.node.id, one.text) for one in written if one.vector == "own"])
            vectors.means += [one.node.id for one in written if one.vector == "mean"]
            clean += [one.node.id for one in written]
        done.nodes += len(clean)
        return clean

    def _write(self, made: Sequence[SummaryJob]) -> list[SummaryJob]:
        """Write summaries, and return the nodes that were still dirty with unchanged inputs."""
        with self.db.write() as tx:
            valid = _unmoved(tx, made)
            put(tx, valid, self.summariser)
            if valid:
                meta.bump(tx)
        return valid

    def _write_vectors(self, rows: Sequence[derived.VectorRow], means: Sequence[int]) -> None:
        if self.embed is None:
            return
        for first in range(0, len(rows), WRITE_NODES):
            write_vectors(self.db, rows[first : first + WRITE_NODES], self.model)
        for first in range(0, len(means), WRITE_NODES):
            write_means(self.db, means[first : first + WRITE_NODES])


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
            return trees.dirty_children(tx, but=but, without=without(tx))
        found: dict[int, tuple[int, tuple[int, ...]]] = {}
        # What is above a dirty node is dirty, so nothing dirty lies beneath a clean one.
        frontier = nodes_without(tx, nodes, without(tx))
        while frontier:
            dirty = trees.dirty_among(tx, frontier)
            found |= dirty
            frontier = {child for _, children in dirty.values() for child in children} - found.keys()
    ordered = sorted(found, key=lambda node: (found[node][0], node))
    return {node: found[node][1] for node in ordered}


def _still_dirty(
    db: Database, nodes: Collection[int] | None, without: Callable[[Tx], Collection[str]]
) -> int:
    with db.read() as tx:
        if nodes is None:
            return trees.dirty_count(tx, without=without(tx))
        return len(trees.dirty_among(tx, nodes))


def _describe(tx: Tx, describe: Describe, wanted: Sequence[int]) -> tuple[list[SummaryJob], list[Node]]:
    """Return the requests of nodes whose children are clean, and the nodes that need no summary."""
    found = trees.nodes_with_ids(tx, wanted)
    nodes = [node for one in wanted if (node := found.get(one)) is not None and node.dirty]
    dirty = trees.dirty_among(tx, [child for node in nodes for child in node.children])
    ready = [node for node in nodes if dirty.keys().isdisjoint(node.children)]
    work = {one.node: one for one in describe(tx, ready, _Inputs(tx, ready))}
    jobs = [SummaryJob(node, work[node.id]) for node in ready if node.id in work]
    return jobs, [node for node in ready if node.id not in work]


def _unmoved(tx: Tx, made: Sequence[SummaryJob]) -> list[SummaryJob]:
    """Mark nodes clean that are still dirty and whose inputs are unchanged; return them."""
    now = trees.nodes_with_ids(tx, [one.node.id for one in made])
    same = [one for one in made if (node := now.get(one.node.id)) and node.version == one.node.version]
    inputs = inputs_of(tx, [one.node for one in same])
    same = [one for one in same if inputs[one.node.id] == one.work.request.inputs]
    clean = trees.mark_clean(tx, [(one.node.id, one.node.version) for one in same])
    return [one for one in same if one.node.id in clean]
