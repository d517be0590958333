"""Making anew what is derived: all of it, what is stale, one index, or every vector by another embedder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memforest.concurrency import to_thread
from memforest.errors import InputError, ModelError
from memforest.memory.indexing import catch_up, keep_writers_embedder
from memforest.memory.ingest.reextract import reextract
from memforest.memory.ingest.writer import SessionWriter
from memforest.memory.inspect.repair import rebuild_words
from memforest.memory.progress import Report, no_report
from memforest.memory.reembed import reembed
from memforest.memory.timing import Timer
from memforest.refresh.requests import stale_nodes
from memforest.store import feed, meta
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems import base
from memforest.systems.changed import adopt_settings, outdated

STEPS_AT_ONCE = 16
"""Steps of the feed (`memforest.systems.base.STEP` notes each) up to which an index is made anew in one transaction: some
seconds, for which other writers wait."""


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
        ModelError: if sessions could not be read again; everything else is made anew.
    """
    if what.embedder:
        await _give_embedder(writer, what.report)
        return
    left: ModelError | None = None
    if what.stale:
        with timer.timed("extract"):
            try:
                await reextract(writer, what.report)
            except ModelError as exc:
                left = exc
    await to_thread(_forget, writer, what)
    filled = await writer.fill_vectors()
    try:
        await catch_up(writer, None if what.index is None else [what.index])
        if filled and what.index is not None:  # others place facts by their vectors too
            await writer.catch_up(failed=False)
    finally:
        await writer.refresh(timer)
    if left is not None:
        raise left


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
            _renew(tx, writer, [what.index])
        elif what.stale:
            _renew(tx, writer, outdated(tx, writer.config, writer.attached))
            stale = stale_nodes(tx, writer.summaries.describe, writer.steps.summariser)
            writer.attached.reopen(tx, tree_rows.mark_dirty(tx, stale))
        else:
            rebuild_words(tx)
            tree_rows.mark_all_dirty(tx)
            writer.attached.reopen(tx)
        if what.scopes:
            _renew(tx, writer, [one.name for one in writer.attached.of(tx)])
        meta.bump(tx)


def _renew(tx: Tx, writer: SessionWriter, names: Iterable[str]) -> None:
    """Make indexes anew with their configured settings.

    In a memory that is not large all is placed here, in one transaction, so that readers have the old index until then.
    In others, and what an index places only when it is advanced, is left for `catch_up`.
    """
    for name in names:
        adopt_settings(tx, writer.config, writer.attached, name)
        writer.attached.clear(tx, name)
        index, until = writer.attached.get(tx, name), feed.position(tx)
        if not index.deferred and feed.waiting(tx, 0) <= base.STEP * STEPS_AT_ONCE:
            while base.place_next(tx, index, until):
                pass
