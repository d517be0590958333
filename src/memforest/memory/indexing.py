"""Adding, dropping and advancing a memory's indexes, and rebuilding what is derived."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from memforest.errors import IndexStateError, NotFoundError
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.inspect.indexes import index_views
from memforest.memory.inspect.repair import rebuild_words
from memforest.memory.results import IndexView
from memforest.memory.timing import Timer
from memforest.memory.vectors import keep_embedder
from memforest.refresh.requests import stale_nodes
from memforest.store import meta
from memforest.store import trees as tree_rows
from memforest.store.db import Database
from memforest.store.disposal import purge
from memforest.store.tx import Tx
from memforest.systems.attached import Attached

__all__ = ["add_index", "advance", "drop_index", "rebuild"]


async def add_index(writer: SessionWriter, name: str, settings: Any) -> IndexView:
    """Add an index, let it place the memory, and return what is there then; summaries are made when they are read.

    Raises:
        ConfigError: if there is no such index, the memory has it already, or a setting cannot be.
        IndexStateError: if it raises; then it lags.
        NotFoundError: if another process has dropped it meanwhile.
    """

    def add() -> None:
        with writer.db.write() as tx:
            _keep_embedder(tx, writer)
            writer.attached.add(tx, name, settings)
            meta.bump(tx)

    await asyncio.to_thread(add)
    await _catch_up(writer, [name])
    found = [view for view in await _views(writer) if view.name == name]
    if not found:
        raise NotFoundError(f"the index {name!r} was dropped by another process while it was added")
    return found[0]


def drop_index(db: Database, attached: Attached, name: str) -> None:
    """Delete an index, with its trees, jobs and tables.

    Raises:
        NotFoundError: if the memory does not have it.
        ConfigError: if it is the last one.
    """
    with db.write() as tx:
        attached.drop(tx, name)
        meta.bump(tx)
    purge(db)  # the log still holds what was overwritten in the file


async def advance(writer: SessionWriter, now: datetime | None) -> list[IndexView]:
    """Advance the deferred and the lagging indexes, and return a view of every index."""
    await writer.catch_up(now=now)
    return await _views(writer)


async def rebuild(
    writer: SessionWriter, timer: Timer, *, scopes: bool, stale: bool, index: str | None
) -> None:
    """Rebuild what is derived; see `AsyncUserMemory.rebuild`.

    Raises:
        NotFoundError: if the memory does not have the index.
        IndexStateError: if an index cannot be made anew; everything else is.
    """
    await asyncio.to_thread(_forget, writer, scopes=scopes, stale=stale, index=index)
    await writer.fill_vectors()
    try:
        await _catch_up(writer, None if index is None else [index])
    finally:
        await writer.refresh(timer)


def _forget(writer: SessionWriter, *, scopes: bool, stale: bool, index: str | None) -> None:
    """Clear indexes, rebuild the word rows, or mark summaries as dirty, as the arguments say."""
    with writer.db.write() as tx:
        _keep_embedder(tx, writer)
        if index is not None:
            writer.attached.get(tx, index, listed=True)
            writer.attached.clear(tx, index)
        elif stale:
            tree_rows.mark_dirty(tx, stale_nodes(tx, writer.summaries.describe, writer.steps.summariser.name))
        else:
            rebuild_words(tx)
            tree_rows.mark_all_dirty(tx)
        for one in writer.attached.of(tx) if scopes else ():
            writer.attached.clear(tx, one.name)
        meta.bump(tx)


async def _catch_up(writer: SessionWriter, names: list[str] | None) -> None:
    if problems := await writer.catch_up(names):
        raise IndexStateError("; ".join(problems))


async def _views(writer: SessionWriter) -> list[IndexView]:
    def look() -> list[IndexView]:
        with writer.db.read() as tx:
            return index_views(tx, writer.attached)

    return await asyncio.to_thread(look)


def _keep_embedder(tx: Tx, writer: SessionWriter) -> None:
    keep_embedder(tx, writer.db.path, None if writer.vectors is None else writer.vectors.embedder)
