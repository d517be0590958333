"""Making anew what is derived: all of it, what is stale, one index, or every vector by another embedder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from memforest.errors import InputError
from memforest.memory.indexing import catch_up, keep_writers_embedder
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.inspect.repair import rebuild_words
from memforest.memory.progress import Report, no_report
from memforest.memory.reembed import reembed
from memforest.memory.timing import Timer
from memforest.refresh.requests import stale_nodes
from memforest.store import meta
from memforest.store import trees as tree_rows

__all__ = ["Rebuild", "rebuild"]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What is to be made anew; see `memforest.forest.AsyncUserMemory.rebuild`."""

    scopes: bool = False
    stale: bool = False
    index: str | None = None
    embedder: bool = False
    report: Report = no_report


async def rebuild(writer: SessionWriter, timer: Timer, what: Rebuild) -> None:
    """Make anew what is derived; with `embedder` the writer's is another one than the memory's, or the same.

    Raises:
        NotFoundError: if the memory does not have the index.
        IndexStateError: if an index cannot be made anew; everything else is.
    """
    if what.embedder:
        await _give_embedder(writer, what.report)
        return
    await asyncio.to_thread(_forget, writer, what)
    await writer.fill_vectors()
    try:
        await catch_up(writer, None if what.index is None else [what.index])
    finally:
        await writer.refresh(timer)


async def _give_embedder(writer: SessionWriter, report: Report) -> None:
    """Give the memory the writer's embedder, and finish what a killed run has left.

    Raises:
        InputError: if the writer has none.
    """
    if writer.vectors is None:
        raise InputError(
            "rebuild(embedder=True) makes all vectors anew with the configured embedder, and there is none: give "
            "Config(embedder=...), or install one (`memforest doctor` says how)"
        )
    await reembed(writer.db, writer.attached, writer.vectors, report)
    await writer.fill_vectors()
    await catch_up(writer, None)


def _forget(writer: SessionWriter, what: Rebuild) -> None:
    """Clear indexes, rebuild the word rows, or mark summaries as dirty, as is asked."""
    with writer.db.write() as tx:
        keep_writers_embedder(tx, writer)
        if what.index is not None:
            writer.attached.get(tx, what.index, listed=True)
            writer.attached.clear(tx, what.index)
        elif what.stale:
            tree_rows.mark_dirty(tx, stale_nodes(tx, writer.summaries.describe, writer.steps.summariser.name))
        else:
            rebuild_words(tx)
            tree_rows.mark_all_dirty(tx)
        for one in writer.attached.of(tx) if what.scopes else ():
            writer.attached.clear(tx, one.name)
        meta.bump(tx)
