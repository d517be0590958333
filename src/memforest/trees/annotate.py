"""Summaries of a paced index, which says itself when each of its nodes is due, and wants to know which could not be made, and why.

A wave is made of the nodes that the index chooses: dirty ones whose children are all clean. Nothing waits for the whole wave:
of a summariser behind an endpoint each text is written as soon as it has come, so that what was paid for survives a crash.
Written is by compare-and-set: to a node that is still dirty, of the version that was read, over children that are as they were
read. A node that has the summary of just this request is marked clean, and nobody is asked.

Several waves may be made at once, also of one memory. Who chooses sees to it that no node is in two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memforest.concurrency import to_thread
from memforest.errors import BudgetError, ModelError, ModelRefusedError
from memforest.ports import Summariser, is_remote
from memforest.search.vectors import digest
from memforest.store import derived, meta, trees
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.trees.refresh import (
    Embed,
    NodeWork,
    Refreshed,
    SummaryJob,
    Vectors,
    put,
    put_means,
    summarised,
    timed,
    unchanged,
)

OVER_BUDGET = "the budget is used up"
WAITS = "what it is made of is out of date"
WRITE_NODES = 128
"""Most nodes written in one transaction."""


async def consolidate(
    db: Database,
    choose: Callable[[Tx], Sequence[NodeWork]],
    summariser: Summariser,
    embed: Embed | None,
    model: str | None,
) -> Refreshed:
    """Make the summaries and vectors of nodes whose children have theirs, each written when it is there.

    Args:
        db: the memory.
        choose: names the nodes and their requests, in a read transaction; those that are clean or gone are passed over.
        summariser: gets all requests in one call; one behind an endpoint gets each by itself, side by side.
        embed: makes vectors, or None in a memory without an embedder.
        model: id of the embedder.

    Raises:
        ModelRefusedError: if no call can succeed; what was made before is written.
        StoreError: if the database cannot be read or written.
    """
    done = Refreshed()
    with timed(done, "store_ms"):
        due, same, below, done.reasons = await to_thread(_read_due, db, choose, summariser)
        kept = await to_thread(_keep, db, same, below, summariser) if same else frozenset()
        done.nodes = len(kept)
    refused: ModelRefusedError | None = None
    under_way = {
        asyncio.ensure_future(_texts(jobs, summariser)): jobs
        for jobs in _calls([job for job in due if job.node.id not in kept], summariser)
    }
    try:
        while under_way:
            with timed(done, "summarise_ms"):
                ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            made = []
            replies = [
                pair for task in ended for pair in zip(under_way.pop(task), task.result(), strict=True)
            ]
            for job, text in replies:
                if isinstance(text, ModelError):
                    done.reasons[job.node.id] = OVER_BUDGET if isinstance(text, BudgetError) else str(text)
                    refused = text if isinstance(text, ModelRefusedError) else refused
                else:
                    made.append(replace(job, text=text))
            await _put(db, made, below, summariser, embed, model, done)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    if refused is not None:
        raise refused
    return done


def _calls(jobs: Sequence[SummaryJob], summariser: Summariser) -> list[Sequence[SummaryJob]]:
    """Return the jobs that are done together: those that need no call; the others, one by one if a server is asked."""
    kept = [job for job in jobs if job.work.kept]
    asked = [job for job in jobs if not job.work.kept]
    groups: list[Sequence[SummaryJob]] = [kept]
    groups += [[job] for job in asked] if is_remote(summariser) else [asked]
    return [group for group in groups if group]


async def _texts(jobs: Sequence[SummaryJob], summariser: Summariser) -> list[str | ModelError]:
    try:
        return await summarised(jobs, summariser)
    except ModelError as exc:
        return [exc] * len(jobs)


def _read_due(
    db: Database, choose: Callable[[Tx], Sequence[NodeWork]], summariser: Summariser
) -> tuple[list[SummaryJob], list[SummaryJob], dict[int, int], dict[int, str]]:
    """Return the nodes that can be made, those of them that need no call, their children's versions, and why others cannot be."""
    with db.read() as tx:
        works = {work.node: work for work in choose(tx)}
        nodes = trees.nodes_with_ids(tx, list(works))
        dirty = [node for node in nodes.values() if node.dirty]
        below = trees.nodes_with_ids(tx, [child for node in dirty for child in node.children])
        waits = {node.id for node in dirty if any(below[child].dirty for child in node.children)}
        jobs = [SummaryJob(node, works[node.id]) for node in dirty if node.id not in waits]
        same = unchanged(tx, jobs, summariser, embeds=False)
    order = {node: place for place, node in enumerate(works)}
    jobs.sort(key=lambda job: order[job.node.id])
    versions = {child: node.version for child, node in below.items()}
    return jobs, same, versions, dict.fromkeys(waits, WAITS)


async def _put(
    db: Database,
    made: Sequence[SummaryJob],
    below: Mapping[int, int],
    summariser: Summariser,
    embed: Embed | None,
    model: str | None,
    done: Refreshed,
) -> None:
    """Write finished summaries with their vectors."""
    for first in range(0, len(made), WRITE_NODES):
        part = made[first : first + WRITE_NODES]
        with timed(done, "embed_ms"):
            vectors = await _vectors_of(part, embed, done.failures)

        def write(part: Sequence[SummaryJob] = part, vectors: Vectors = vectors) -> int:
            with db.write() as tx:
                still = {job.node.id for job in _unmoved(tx, part, below)}
                valid = [one for one in part if one.node.id in still]
                _put_with_vectors(tx, valid, vectors, summariser, model)
                trees.mark_clean(tx, [(one.node.id, one.node.version) for one in valid])
                if valid:
                    meta.bump(tx)
            return len(valid)

        with timed(done, "store_ms"):
            done.nodes += await to_thread(write)


def _keep(
    db: Database, jobs: Sequence[SummaryJob], below: Mapping[int, int], summariser: Summariser
) -> frozenset[int]:
    """Mark nodes clean that already have the summary asked for; make mean vectors anew."""
    with db.write() as tx:
        same = unchanged(tx, _unmoved(tx, jobs, below), summariser, embeds=False)
        ids = [job.node.id for job in same]
        trees.mark_clean(tx, [(job.node.id, job.node.version) for job in same])
        stored = derived.summary_makers(tx, ids)
        means = [node for node in ids if stored[node].vector == "mean"]
        derived.drop_vectors(tx, "node", means)
        put_means(tx, means)
        if ids:
            meta.bump(tx)
    return frozenset(ids)


def _unmoved(tx: Tx, jobs: Sequence[SummaryJob], below: Mapping[int, int]) -> list[SummaryJob]:
    """Return the jobs of dirty nodes that have not changed since they were read, nor have their children."""
    now = trees.nodes_with_ids(tx, [job.node.id for job in jobs])
    children = trees.nodes_with_ids(tx, [child for job in jobs for child in job.node.children])
    same = {child for child, node in children.items() if not node.dirty and node.version == below.get(child)}
    return [
        job
        for job in jobs
        if (node := now.get(job.node.id)) is not None
        and node.dirty
        and node.version == job.node.version
        and same.issuperset(job.node.children)
    ]


async def _vectors_of(made: Sequence[SummaryJob], embed: Embed | None, failures: list[str]) -> Vectors:
    """Return the vectors of texts by digest; none if the embedder fails: `failures` gets the reason, and `resume` makes them."""
    texts = [str(one.text) for one in made if one.vector == "own"]
    if embed is None or not texts:
        return {}
    try:
        return await embed(texts)
    except ModelError as exc:
        failures.append(f"the vectors of {len(texts)} summaries are left: {exc}")
        return {}


def _put_with_vectors(
    tx: Tx, made: Sequence[SummaryJob], vectors: Vectors, summariser: Summariser, model: str | None
) -> None:
    """Store summaries with their vectors; means are made of the children's vectors."""
    put(tx, made, summariser)
    if vectors and meta.get(tx, "embedder") == model:
        own = [one for one in made if one.vector == "own"]
        rows = [(one.node.id, key, vectors[key]) for one in own for key in [digest(one.text)]]
        derived.put_vectors(tx, "node", rows)
    if model is not None:
        put_means(tx, [one.node.id for one in made if one.vector == "mean"])
