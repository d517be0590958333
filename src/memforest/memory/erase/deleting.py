"""Deleting from an open memory: the transaction, the vectors of what is worded otherwise, and the log behind it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from memforest.errors import ModelError
from memforest.interval import to_ms
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.erase.targets import Target
from memforest.memory.erase.verb import count_target, delete_target
from memforest.memory.ingest.writer import SessionWriter
from memforest.store.disposal import purge

__all__ = ["delete"]


async def delete(writer: SessionWriter, target: Target, *, dry_run: bool) -> DeleteReceipt:
    """Delete something from a memory, or count what would go.

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    now_ms = to_ms(writer.config.clock())
    if dry_run:
        return await asyncio.to_thread(count_target, writer.db, writer.attached, target, now_ms)
    done = await asyncio.to_thread(delete_target, writer.db, writer.attached, target, now_ms)
    problems = []
    if done.reworded:
        try:
            await writer.fill_vectors()
        except ModelError as exc:
            problems.append(f"vectors are left: {exc}; resume() makes them")
    problems += await writer.catch_up(failed=False)
    purged = await asyncio.to_thread(purge, writer.db)
    return replace(
        done.receipt,
        secure_delete=purged.secure_delete,
        wal_pending=purged.wal_pending,
        vacuumed=purged.vacuumed,
        warnings=(*done.receipt.warnings, *problems),
    )
