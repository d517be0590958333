"""Dirty-path refresh: summaries and vectors of exactly the nodes that a write touched (paper Alg. 1).

Level by level over all trees: what is dirty at a level is read, summarised in one batch, embedded, and
committed with a compare on each node's version. A node is clean only if nothing below it was written
since its inputs were read; one whose child could not be refreshed stays dirty, and so does everything
above it. A crash leaves dirty marks, and the next refresh goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError, StepError
from memforest.interval import from_ms
from memforest.search.texts import digest
from memforest.steps.base import Summariser
from memforest.store import derived, meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database, Tx
from memforest.text import cut
from memforest.tree import Node
from memforest.types import SummaryRequest

__all__ = ["Embed", "Refreshed", "refresh"]

Embed = Callable[[Sequence[str]], Awaitable[Mapping[bytes, NDArray[np.float32]]]]
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


@dataclass(frozen=True, slots=True)
class _Level:
    nodes: list[Node]
    requests: list[SummaryRequest]


async def refresh(
    db: Database, *, summariser: Summariser, embed: Embed | None, model: str | None, max_words: int
) -> Refreshed:
    """Bring every dirty node up to date, as far as the steps succeed.

    Args:
        db: the memory.
        summariser: makes a node's text from its children's.
        embed: makes vectors, or None in a memory without an embedder.
        model: the embedder's id, stored beside the vectors.
        max_words: bound of a summary.

    Raises:
        StoreError: if the database cannot be read or written.
    """
    done = Refreshed()
    level = 0
    while True:
        started = time.perf_counter()
        level, batch = await asyncio.to_thread(_read_level, db, level, max_words)
        done.store_ms += _since(started)
        if batch is None:
            break
        if not batch.nodes:
            continue
        started = time.perf_counter()
        made = await _summarise(summariser, batch, done)
        done.summarise_ms += _since(started)
        started = time.perf_counter()
        try:
            vectors = {} if embed is None else await embed([text for _, text in made])
        except ModelError as exc:
            done.failures.append(f"level {level}: {exc}")
            continue
        done.embed_ms += _since(started)
        started = time.perf_counter()
        done.nodes += await asyncio.to_thread(_write_level, db, made, vectors, model, summariser.name)
        done.store_ms += _since(started)
    done.left = await asyncio.to_thread(_dirty, db)
    return done


async def _summarise(summariser: Summariser, batch: _Level, done: Refreshed) -> list[tuple[Node, str]]:
    """Return the nodes of a level with their texts, without those that the step fails on."""
    try:
        return list(zip(batch.nodes, await summariser.summarise(batch.requests), strict=True))
    except StepError as exc:
        if len(batch.nodes) == 1:
            done.failures.append(f"{batch.requests[0].kind} {cut(batch.requests[0].label, 40)}: {exc}")
            return []
    # One input has failed the batch: one by one, so that the others do not wait for it.
    made = []
    for node, request in zip(batch.nodes, batch.requests, strict=True):
        made += await _summarise(summariser, _Level([node], [request]), done)
    return made


def _dirty(db: Database) -> int:
    with db.read() as tx:
        return tree_rows.dirty_count(tx)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _read_level(db: Database, above: int, max_words: int) -> tuple[int, _Level | None]:
    """Return the next dirty level above `above` with what its nodes are made from; None at the top."""
    with db.read() as tx:
        level = tree_rows.next_dirty_level(tx, above)
        if level is None:
            return above, None
        nodes = tree_rows.dirty_nodes(tx, level)
        children = tree_rows.nodes_with_ids(tx, [child for node in nodes for child in node.children])
        ready = [n for n in nodes if not any(children[c].dirty and children[c].level > 0 for c in n.children)]
        texts = _texts(tx, [children[c] for node in ready for c in node.children])
        labels = tree_rows.labels(tx, {node.tree for node in ready})
    requests = [
        SummaryRequest(
            kind=labels[node.tree][0],
            label=labels[node.tree][1],
            start=from_ms(node.start_ms),
            end=from_ms(node.end_ms),
            inputs=tuple(texts[child] for child in node.children if child in texts),
            max_words=max_words,
        )
        for node in ready
    ]
    return level, _Level(ready, requests)


def _texts(tx: Tx, nodes: Sequence[Node]) -> dict[int, str]:
    """Return each node's own text: an inner node's summary, a leaf's item."""
    found = derived.summaries(tx, [node.id for node in nodes if node.level > 0])
    for kind in ("fact", "cell"):
        leaves = [(node.id, node.item) for node in nodes if node.item_kind == kind and node.item is not None]
        items = tree_rows.item_texts(tx, kind, [item for _, item in leaves])
        found.update({node_id: items[item] for node_id, item in leaves})
    return found


def _write_level(
    db: Database,
    made: Sequence[tuple[Node, str]],
    vectors: Mapping[bytes, NDArray[np.float32]],
    model: str | None,
    maker: str,
) -> int:
    with db.write() as tx:
        clean = tree_rows.mark_clean(tx, [(node.id, node.version) for node, _ in made])
        rows = []
        for node, text in made:
            if node.id not in clean:
                continue
            derived.put_summary(tx, node.id, text, maker)
            key = digest(text)
            if key in vectors:
                rows.append((node.id, key, vectors[key]))
        # A memory opened without its embedder must not keep vectors of summaries that it has replaced.
        derived.drop_vectors(tx, "node", clean)
        if model is not None:
            derived.put_vectors(tx, "node", model, rows)
        if clean:
            meta.bump(tx)
    return len(clean)
