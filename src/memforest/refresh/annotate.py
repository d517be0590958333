"""Summaries of some nodes in one wave, whatever is out of date beneath them, for an index that reads them while it grows.

A refresh goes from the leaves up, and waits for each level. Who places the next leaf can often do with less: the summary of
one node, of its children's texts as they stand, or those of a whole path at once, each of its own earlier text and the new
leaf. So all requests are made together, and written by compare-and-set in one transaction: each to a node that is
still dirty, and of the version that was read.

A node stays dirty while one of its children is, so that what is above a dirty node is always dirty. One whose request was
made of its children's texts stays so too when a child gets its text in the same wave, as it was read before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memforest.concurrency import to_thread
from memforest.errors import ModelError
from memforest.ports import Summariser
from memforest.refresh.made import Job, Made, Refreshed, made_of, put, summarised
from memforest.refresh.requests import NodeWork
from memforest.refresh.timing import timed
from memforest.refresh.vectors import Embed, Vectors, put_means
from memforest.search.texts import digest
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.tx import Tx


async def annotate(
    db: Database,
    choose: Callable[[Tx], Sequence[NodeWork]],
    summariser: Summariser,
    embed: Embed | None,
    model: str | None,
) -> Refreshed:
    """Make the summaries and vectors of nodes in one wave.

    Args:
        db: the memory.
        choose: names dirty nodes and how each is summarised, in a read transaction; those that are clean are passed over.
        summariser: gets all requests in one call; one behind an endpoint gets each by itself, side by side.
        embed: makes vectors, or None in a memory without an embedder.
        model: id of the embedder.

    Returns:
        How many nodes are clean now, and why others got no summary or no vector.

    Raises:
        StoreError: if the database cannot be read or written.
    """
    done = Refreshed()
    with timed(done, "store_ms"):
        jobs = await to_thread(_read, db, choose)
    if not jobs:
        return done
    try:
        with timed(done, "summarise_ms"):
            made = made_of(jobs, await summarised(jobs, summariser), done)
    except ModelError as exc:
        done.failures.append(f"summaries are left: {exc}")
        return done
    with timed(done, "embed_ms"):
        vectors = await vectors_of(made, embed, done.failures)
    with timed(done, "store_ms"):
        done.nodes = await to_thread(_write, db, made, vectors, summariser, model)
    return done


def _read(db: Database, choose: Callable[[Tx], Sequence[NodeWork]]) -> list[Job]:
    with db.read() as tx:
        works = choose(tx)
        nodes = tree_rows.nodes_with_ids(tx, [work.node for work in works])
        found = [(nodes.get(work.node), work) for work in works]
    return [Job(node, work) for node, work in found if node is not None and node.dirty]


async def vectors_of(made: Sequence[Made], embed: Embed | None, failures: list[str]) -> Vectors:
    """Return the vectors of texts by their digests; none if they cannot be made: `failures` says why, and `resume` makes them."""
    texts = [str(one.text) for one in made if one.vector == "own"]
    if embed is None or not texts:
        return {}
    try:
        return await embed(texts)
    except ModelError as exc:
        failures.append(f"the vectors of {len(texts)} summaries are left: {exc}")
        return {}


def _write(
    db: Database, made: Sequence[Made], vectors: Vectors, summariser: Summariser, model: str | None
) -> int:
    """Write texts and vectors to the nodes that are as they were read; return how many of these are clean now."""
    with db.write() as tx:
        now = tree_rows.nodes_with_ids(tx, [one.node.id for one in made])
        valid = [
            one
            for one in made
            if (node := now.get(one.node.id)) and node.dirty and node.version == one.node.version
        ]
        if not valid:
            return 0
        put_with_vectors(tx, valid, vectors, summariser, model)
        clean = _mark_clean(tx, valid)
        meta.bump(tx)
    return clean


def put_with_vectors(
    tx: Tx, made: Sequence[Made], vectors: Vectors, summariser: Summariser, model: str | None
) -> None:
    """Store summaries with the vectors that there are of them; a mean is made of those of the children."""
    put(tx, made, summariser)
    if vectors and meta.get(tx, "embedder") == model:
        own = [one for one in made if one.vector == "own"]
        rows = [(one.node.id, key, vectors[key]) for one in own for key in [digest(one.text)]]
        derived.put_vectors(tx, "node", rows)
    if model is not None:
        put_means(tx, [one.node.id for one in made if one.vector == "mean"])


def _mark_clean(tx: Tx, made: Sequence[Made]) -> int:
    """Mark nodes clean, from the leaves up, whose children are, or were when their texts were read; return how many."""
    below = tree_rows.nodes_with_ids(tx, [child for one in made for child in one.node.children])
    before = {child for child, node in below.items() if node.dirty}
    dirty = set(before)
    count = 0
    for one in sorted(made, key=lambda one: (one.node.level, one.node.id)):
        if (dirty if one.job.work.whole else before).isdisjoint(one.node.children):
            tree_rows.mark_clean(tx, [(one.node.id, one.node.version)])
            dirty.discard(one.node.id)
            count += 1
    return count
