"""Adding, dropping and advancing a memory's indexes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memforest.concurrency import to_thread
from memforest.errors import IndexStateError, NotFoundError
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.inspect.indexes import index_views
from memforest.memory.results import IndexView
from memforest.memory.vectors import keep_embedder
from memforest.store import meta
from memforest.store.db import Database
from memforest.store.disposal import purge
from memforest.store.tx import Tx
from memforest.systems.attached import Attached


async def add_index(writer: SessionWriter, name: str, settings: Any) -> IndexView:
    """Add an index, let it place the memory, and return what is there then; summaries are made when they are read.

    Raises:
        ConfigError: if there is no such index, the memory has it already, or a setting cannot be.
        IndexStateError: if it raises; then it lags.
        NotFoundError: if another process has dropped it meanwhile.
    """

    def add() -> None:
        with writer.db.write() as tx:
            keep_writers_embedder(tx, writer)
            writer.attached.add(tx, name, settings)
            meta.bump(tx)

    await to_thread(add)
    await catch_up(writer, [name])
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


async def advance(writer: SessionWriter, as_of: datetime | None, *, force: bool = False) -> list[IndexView]:
    """Advance the deferred and the lagging indexes, and return a view of every index."""
    await writer.catch_up(now=as_of, occasion="force" if force else "advance")
    return await _views(writer)


async def catch_up(writer: SessionWriter, names: list[str] | None) -> None:
    """Bring indexes to the end of the feed: those named, or all.

    Raises:
        IndexStateError: if one could not be.
    """
    if problems := await writer.catch_up(names):
        raise IndexStateError("; ".join(problems))


async def _views(writer: SessionWriter) -> list[IndexView]:
    def look() -> list[IndexView]:
        with writer.db.read() as tx:
            return index_views(tx, writer.attached)

    return await to_thread(look)


def keep_writers_embedder(tx: Tx, writer: SessionWriter) -> None:
    """Note the writer's embedder at the first write of a memory.

    Raises:
        EmbedderMismatchError: if another process has written with another one since the opening.
    """
    keep_embedder(tx, writer.db.path, None if writer.vectors is None else writer.vectors.embedder)
