"""Making the summaries that are missing, and their vectors (paper Alg. 1).

What a node says is known by a digest (`memforest.trees.texts`), and so is whether it was ever made. A `Refresher`
finds the summaries that the file lacks, and makes them level by level. A node is made as soon as its children and its
other inputs have texts. Trees do not wait for each other. What is made is written as soon as it is there, so a
crash costs what is under way and nothing else. If the memory has changed meanwhile, only what it still asks for is written: a
summary never outlives what it tells of. Two processes that make the same at once both pay, and one of the two is kept.

Vectors are made while other nodes are summarised; what is left without one, as when the embedder failed, is made by the next
refresh.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of, to_thread
from memforest.errors import BudgetError, IndexStateError, ModelError
from memforest.ports import Summariser, UnchangedText, is_remote
from memforest.records import SummaryRequest
from memforest.search.cache import Snapshots, digests_of, forest_of, missing_of
from memforest.search.forest import INNER, Forest, as_keys
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import digest
from memforest.store import artifacts, meta
from memforest.store.artifacts import Artifact, VectorOf
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.text import cut
from memforest.times import EARLIEST
from memforest.trees.texts import leaf_texts

if TYPE_CHECKING:
    from memforest.trees.index import Index

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


def maker_of(summariser: Summariser, request: SummaryRequest) -> str:
    """Return the name stored as the maker of a summary: that of the summariser, or of the request's prompt."""
    return str(summariser.maker_of(request) if hasattr(summariser, "maker_of") else summariser.name)


def makers_of(summariser: Summariser, length: str) -> frozenset[str]:
    """Return everything that the summariser may be noted as, with the length that is set (`Steps.summary_length`)."""
    blank = SummaryRequest("", "", EARLIEST, EARLIEST, ())
    return frozenset(maker_of(summariser, replace(blank, prompt=prompt)) + length for prompt in PROMPTS)


@dataclass(slots=True)
class Refreshed:
    """The result of a refresh. `left` counts the summaries asked for that are due and still missing, `failures` says why."""

    nodes: int = 0
    left: int = 0
    summarise_ms: float = 0.0
    embed_ms: float = 0.0
    store_ms: float = 0.0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A node whose summary is asked for: its digest, the request, and the text once it is made."""

    place: tuple[int, int]
    """Which index's plan, and the row of its forest."""
    key: bytes
    work: NodeWork
    inner: bool
    text: str = ""

    @property
    def vector(self) -> VectorOf:
        """A node with its children's texts has their mean for a vector; a root is compared as a whole.

        A leaf that keeps what its turns say has the mean of theirs, where a prompt of its own asked for it.
        """
        work = self.work
        if not work.vector:
            return "none"
        inside = self.inner or work.request.prompt
        kept = (isinstance(self.text, UnchangedText) and not work.request.root) or work.kept
        return "mean" if kept and inside else "own"

    def artifact(self, summariser: Summariser, length: str) -> Artifact:
        """Return the summary as it is stored."""
        maker = maker_of(summariser, self.work.request) + length
        return Artifact(self.key, maker, str(self.text), self.vector)


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


class NodeVectors:
    """The vectors of new summaries, made while other nodes are summarised."""

    def __init__(self, embed: Embed | None) -> None:
        self._embed = embed
        self._waiting: list[tuple[bytes, str]] = []
        self._parts: list[tuple[list[tuple[bytes, str]], asyncio.Task[Vectors]]] = []

    def begin(self, made: Sequence[tuple[bytes, str]], least: int = EMBED_TEXTS) -> None:
        """Start embedding collected texts, given by the digests of their summaries, once there are at least so many."""
        self._waiting += made
        if self._embed is not None and self._waiting and len(self._waiting) >= least:
            part, self._waiting = self._waiting, []
            job = self._embed([text for _, text in part])
            self._parts.append((part, asyncio.ensure_future(job)))

    def lack(self, stored: Sequence[tuple[bytes, str]]) -> None:
        """Collect the texts of stored summaries that have no vector, as far as they are not collected."""
        known = dict([*self._waiting, *(one for part, _ in self._parts for one in part)])
        self._waiting += [one for one in stored if one[0] not in known]

    async def rows(self, failures: list[str]) -> list[tuple[bytes, NDArray[np.float32]]]:
        """Return the vectors made; failures are added to `failures`, and the next refresh makes those vectors."""
        self.begin([], least=1)
        found = []
        for made, task in self._parts:
            try:
                vectors = await task
            except ModelError as exc:
                failures.append(f"the vectors of {len(made)} summaries are left: {exc}")
                continue
            found += [(key, vectors[digest(text)]) for key, text in made]
        return found

    async def cancel(self) -> None:
        """Cancel the running embeddings."""
        for _, task in self._parts:
            task.cancel()
        await asyncio.gather(*(task for _, task in self._parts), return_exceptions=True)


Rows = Mapping[str, Collection[int] | None]
"""Name of an index -> rows of its forest, None for all."""
Choose = Callable[[Tx, Snapshot], Rows]
"""Names nodes whose summaries are wanted, with what these are made of."""


Due = Callable[["Index", Forest], NDArray[np.bool_] | None]
"""Says which summaries of an index may be made now, a flag for each node; None for all."""


@dataclass(slots=True)
class IndexPlan:
    """What one index lacks: nodes with what they wait for, and the texts that there are."""

    index: Index
    snapshot: Snapshot
    forest: Forest
    keys: dict[int, bytes] = field(default_factory=dict)
    """Of the nodes that are missing and not made yet."""
    texts: dict[int, str] = field(default_factory=dict)
    """Of nodes and leaves that missing ones are made of."""
    waits: dict[int, set[int]] = field(default_factory=dict)
    left: int = 0
    """Missing nodes that cannot be made now: they are not due, or what they are made of was tried and failed."""

    def inputs(self, row: int) -> tuple[str, ...]:
        """Return the texts that a node is made of: its children's in order, or what it says itself, as a leaf."""
        of = self.forest.children[row] or (row,)
        return tuple(self.texts[child] for child in of if child in self.texts)


WRITE_NODES = 128
"""Most summaries written in one transaction."""


@dataclass(frozen=True, slots=True)
class Refresher:
    """Makes the summaries that a memory's trees ask for and that are not stored, and their vectors."""

    db: Database
    cache: Snapshots
    indexes: Callable[[Tx], Sequence[Index]]
    summariser: Summariser
    """Makes a node's text from its children's. One behind an endpoint (`remote`) gets every node by itself, as soon as the
    node can be made; another one gets all that are ready together."""
    embed: Embed | None
    """Makes vectors; None in a memory without an embedder."""
    max_words: int
    """Words of a summary whose request has no bound of its own."""
    model: str | None = None
    """Id of the embedder."""
    length: str = ""
    """Is noted behind the maker of a summary; see `Steps.summary_length`."""
    due: Due = lambda index, forest: None
    report: Callable[[int, int, int], object] = lambda done, failed, total: None
    """Called on the event loop with how many nodes are made, how many failed, and how many were missing."""

    async def make(self, choose: Choose | None = None) -> Refreshed:
        """Make what is missing, of all indexes or of chosen nodes with what these are made of, as far as the steps succeed.

        Raises:
            ModelRefusedError: the endpoint rejects the key or the model.
            StoreError: the file cannot be read or written.
        """
        done, tried, vectors = Refreshed(), set[bytes](), NodeVectors(self.embed)
        try:
            while True:
                with timed(done, "store_ms"):
                    plans = await self.db.reading(self._plan, choose, tried, vectors, done)
                if not any(plan.keys for plan in plans):
                    break
                if not await self._make_texts(plans, vectors, tried, done):
                    plans = await self.db.reading(self._plan, choose, tried, vectors, done)
                    break
                if not any(plan.keys for plan in plans) and await self.db.reading(self._is_current, plans):
                    break  # all is made, and nothing else was written meanwhile
            with timed(done, "embed_ms"):
                rows = await vectors.rows(done.failures)
        finally:
            await vectors.cancel()
        if rows:
            with timed(done, "store_ms"):
                await to_thread(self._write_vectors, rows)
        done.left = sum(plan.left + len(plan.keys) for plan in plans)
        return done

    def _plan(
        self, tx: Tx, choose: Choose | None, tried: Collection[bytes], vectors: NodeVectors, done: Refreshed
    ) -> list[IndexPlan]:
        """Return what each index lacks of what is stored, vectors apart; what was tried and failed is not tried again."""
        plans = []
        snapshot = self.cache.get(tx)
        chosen = None if choose is None else choose(tx, snapshot)
        for index in self.indexes(tx):
            if chosen is None or index.name in chosen:
                rows = None if chosen is None else chosen[index.name]
                try:
                    plans.append(self._lacking(tx, snapshot, index, rows, tried))
                except IndexStateError as exc:
                    done.failures += [] if str(exc) in done.failures else [str(exc)]
        if self.embed is not None:
            vectors.lack(artifacts.without_vector(tx))
        return plans

    def _is_current(self, tx: Tx, plans: Sequence[IndexPlan]) -> bool:
        """Return whether the memory is as it was when plans were made."""
        return all(plan.snapshot.generation == meta.generation(tx) for plan in plans)

    def _lacking(
        self,
        tx: Tx,
        snapshot: Snapshot,
        index: Index,
        rows: Collection[int] | None,
        tried: Collection[bytes],
        lost: Collection[int] = (),
    ) -> IndexPlan:
        """Return what an index lacks; `lost` are nodes whose stored summaries cannot be read."""
        forest = forest_of(tx, snapshot, index)
        plan = IndexPlan(index, snapshot, forest)
        missing = {*missing_of(tx, snapshot, index).tolist(), *lost}
        if rows is not None:
            missing &= beneath(index, forest, rows, missing)
        if not missing:
            return plan
        may, blocked = self.due(index, forest), set[int]()
        needs = {row: index.made_of(forest, row) for row in missing}
        read = np.array(sorted(missing.union(*needs.values())), dtype=np.int64)
        read = read[np.isin(read, forest.told)]
        keys = dict(zip(read.tolist(), as_keys(digests_of(tx, snapshot, index)[read]), strict=True))
        for row in sorted(missing, key=lambda row: (forest.level[row], row)):
            held = (may is not None and not may[row]) or keys[row] in tried
            if held or not blocked.isdisjoint(needs[row]):
                blocked.add(row)
        plan.left = sum(may is None or bool(may[row]) for row in blocked)
        plan.keys = {row: keys[row] for row in sorted(missing - blocked)}
        plan.waits = {row: {one for one in needs[row] if one in plan.keys} for row in plan.keys}
        wanted = {one for row in plan.keys for one in needs[row]} - plan.keys.keys()
        texts = artifacts.texts(tx, {keys[row] for row in wanted if row in keys})
        more = {row for row in wanted if row in keys and keys[row] not in texts}
        if more:  # they are stored and cannot be read: nothing is made of what is left beside them
            return self._lacking(tx, snapshot, index, rows, tried, more.union(lost))
        plan.texts = {row: texts[keys[row]] for row in wanted if row in keys and keys[row] in texts}
        leaves = {
            one for row in plan.keys for one in (forest.children[row] or (row,)) if forest.kind[one] != INNER
        }
        plan.texts |= leaf_texts(tx, forest, sorted(leaves - plan.texts.keys() - (plan.keys.keys() & wanted)))
        return plan

    async def _make_texts(
        self, plans: Sequence[IndexPlan], vectors: NodeVectors, tried: set[bytes], done: Refreshed
    ) -> bool:
        """Make and write the texts of nodes, each when what it is made of has its own; return whether to look again."""
        order = TopologicalSorter(
            {
                (at, row): [(at, one) for one in waits]
                for at, plan in enumerate(plans)
                for row, waits in plan.waits.items()
            }
        )
        order.prepare()
        under_way: dict[asyncio.Task[list[str | ModelError]], list[SummaryJob]] = {}
        ready, clean, failed, total = order.get_ready(), 0, 0, sum(len(plan.keys) for plan in plans)
        try:
            while ready or under_way:
                self.report(clean, failed, total)
                with timed(done, "store_ms"):
                    jobs = await self.db.reading(self._read, plans, ready)
                calls = [[job] for job in jobs] if is_remote(self.summariser) else [jobs] if jobs else []
                under_way |= {
                    asyncio.ensure_future(summarised(call, self.summariser)): call for call in calls
                }
                if not under_way:
                    break
                with timed(done, "summarise_ms"):
                    ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                made: list[SummaryJob] = []
                for task in ended:
                    call, texts = under_way.pop(task), task.result()
                    made += made_of(call, texts, done)
                    failed += sum(
                        isinstance(text, ModelError) and not isinstance(text, BudgetError) for text in texts
                    )
                    tried |= {job.key for job in call}
                tried -= {job.key for job in made}
                with timed(done, "store_ms"):
                    written = await self._commit(plans, made, vectors, done)
                clean += len(written)
                order.done(*(job.place for job in written))
                ready = order.get_ready()
            self.report(clean, failed, total)
        except ModelError as exc:  # no other node will fare better
            done.failures.append(f"summaries are left: {exc}")
            return False
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return clean > 0

    def _read(self, tx: Tx, plans: Sequence[IndexPlan], ready: Sequence[tuple[int, int]]) -> list[SummaryJob]:
        """Return the requests of nodes; nothing of an index whose memory has changed: what it lacks is looked up anew."""
        found: list[SummaryJob] = []
        now = meta.generation(tx)
        for at, plan in enumerate(plans):
            rows = [row for number, row in ready if number == at]
            if not rows or (plan.index.reads_store and now != plan.snapshot.generation):
                continue
            for work in plan.index.requests(tx, plan, rows, remote=is_remote(self.summariser)):
                request = work.request
                if not work.words:
                    request = replace(request, max_words=self.max_words)
                inner = bool(plan.forest.kind[work.node] == INNER)
                whole = replace(work, request=request)
                found.append(SummaryJob((at, work.node), plan.keys[work.node], whole, inner))
        return found

    async def _commit(
        self, plans: Sequence[IndexPlan], made: Sequence[SummaryJob], vectors: NodeVectors, done: Refreshed
    ) -> list[SummaryJob]:
        """Write texts, begin their vectors, and return the nodes that are made now."""
        clean: list[SummaryJob] = []
        for first in range(0, len(made), WRITE_NODES):
            written = await self.db.writing(self._write, plans, made[first : first + WRITE_NODES])
            vectors.begin([(job.key, job.text) for job in written if job.vector == "own"])
            clean += written
        for job in clean:
            at, row = job.place
            plans[at].texts[row] = str(job.text)
            plans[at].keys.pop(row, None)
        done.nodes += len(clean)
        return clean

    def _write(self, tx: Tx, plans: Sequence[IndexPlan], made: Sequence[SummaryJob]) -> list[SummaryJob]:
        """Write summaries, and return them; those that a memory which has changed does not ask for any more are left out."""
        if any(meta.generation(tx) != plan.snapshot.generation for plan in plans[:1]):
            snapshot = self.cache.get(tx)
            wanted = reachable(tx, snapshot, self.indexes(tx))
            made = [job for job in made if job.key in wanted]
        artifacts.put(tx, "summary", [job.artifact(self.summariser, self.length) for job in made])
        return list(made)

    def _write_vectors(self, rows: Sequence[tuple[bytes, NDArray[np.float32]]]) -> None:
        for first in range(0, len(rows), WRITE_NODES):
            with self.db.write() as tx:
                if meta.get(tx, "embedder") == self.model:  # else it was given another one meanwhile
                    artifacts.put_vectors(tx, rows[first : first + WRITE_NODES])


def beneath(index: Index, forest: Forest, rows: Collection[int], among: Collection[int]) -> set[int]:
    """Return those of some nodes that are wanted, with those of the others that they are made of."""
    found = set[int]()
    waiting = [row for row in rows if row in among]
    while waiting:
        row = waiting.pop()
        if row not in found:
            found.add(row)
            waiting += [one for one in index.made_of(forest, row) if one in among]
    return found


def reachable(tx: Tx, snapshot: Snapshot, indexes: Sequence[Index]) -> set[bytes]:
    """Return the digests of all artifacts that the trees of a memory may ask for as it is."""
    found: set[bytes] = set()
    for index in indexes:
        with suppress(IndexStateError):  # what it asks for is not known, and is made anew when it is
            found |= index.asks_for(tx, snapshot)
    return found


def missing_count(tx: Tx, snapshot: Snapshot, indexes: Sequence[Index]) -> int:
    """Return how many summaries a memory's trees ask for that are not stored; those of paced indexes are left out."""
    found = 0
    for index in indexes:
        if not index.paced:
            with suppress(IndexStateError):
                found += len(missing_of(tx, snapshot, index))
    return found


def drop_outdated(
    db: Database, load: Callable[[Tx], Snapshot], indexes: Callable[[Tx], Sequence[Index]], asked: int
) -> int:
    """Delete the artifacts of trees that nothing asks for any more, if they are most of all: each write outdates some.

    Args:
        db: the memory.
        load: returns the snapshot of a transaction's state: the memory as it is now, and not as it was.
        indexes: returns all indexes of the memory, also those that nobody reads just now.
        asked: how many were asked for when this was last looked at; 0 before.

    Returns:
        How many are asked for; `asked` if there are so few that nothing is looked at.
    """
    with db.read() as tx:
        stored = artifacts.count(tx)
        if stored <= 2 * asked + WRITE_NODES:
            return asked
        asked = len(reachable(tx, load(tx), indexes(tx)))
        if stored <= 2 * asked + WRITE_NODES:
            return asked
    with db.write() as tx:
        asked_now = reachable(tx, load(tx), indexes(tx))
        artifacts.drop(tx, artifacts.known(tx, artifacts.OF_TREES).keys() - asked_now)
    return len(asked_now)
