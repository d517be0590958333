"""Deleting from an open memory: the transaction, the vectors of what is worded otherwise, and the log behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from memforest.concurrency import to_thread
from memforest.errors import ConfigError, ModelError
from memforest.interval import EARLIEST, to_ms
from memforest.memory.erase.receipt import DeleteReceipt
from memforest.memory.erase.targets import Target
from memforest.memory.erase.verb import count_target, delete_target
from memforest.memory.ingest.writer import SessionWriter
from memforest.store import meta
from memforest.store.disposal import purge

LAST_EXPIRY = "expired_ms"
"""The setting of a memory that says when turns that are kept no longer were looked for last."""
DAY_MS = 86_400_000


async def expire(writer: SessionWriter, *, dry_run: bool = False) -> DeleteReceipt:
    """Delete the turns that were said longer ago than `Config.retention`, by the clock.

    Raises:
        ConfigError: if nothing is set there.
        StoreError: if the file cannot be written.
    """
    kept = writer.config.retention
    if not isinstance(kept, timedelta):
        raise ConfigError("nothing expires: Config.retention is not set; give a duration such as '365 days'")
    now = writer.config.clock()
    try:
        end = max(now - kept, EARLIEST)
    except OverflowError:
        end = EARLIEST
    receipt = await delete(writer, Target(during=(None, end)), dry_run=dry_run)
    if not dry_run:
        await to_thread(_note_expiry, writer, to_ms(now))
    return replace(receipt, target="expired")


async def expire_if_due(writer: SessionWriter) -> str | None:
    """Delete what has expired, if that was not done within the last day; return what is to be said of it."""
    if writer.config.retention is None or not await to_thread(_is_due, writer):
        return None
    receipt = await expire(writer)
    return (
        f"retention: {receipt.gone['turns']} turn(s) were deleted, as they were said too long ago"
        if receipt
        else None
    )


def _is_due(writer: SessionWriter) -> bool:
    with writer.db.read() as tx:
        last = meta.get(tx, LAST_EXPIRY)
    now_ms = to_ms(writer.config.clock())
    # A clock that was set back must not put it off for long.
    return last is None or not last.isdecimal() or not 0 <= now_ms - int(last) < DAY_MS


def _note_expiry(writer: SessionWriter, now_ms: int) -> None:
    with writer.db.write() as tx:
        meta.put(tx, LAST_EXPIRY, str(now_ms))


async def delete(writer: SessionWriter, target: Target, *, dry_run: bool) -> DeleteReceipt:
    """Delete something from a memory, or count what would go.

    Raises:
        NotFoundError: if there is nothing of that kind and name.
        StoreError: if the file cannot be written.
    """
    now_ms = to_ms(writer.config.clock())
    if dry_run:
        return await to_thread(count_target, writer.db, writer.attached, target, now_ms)
    done = await to_thread(delete_target, writer.db, writer.attached, target, now_ms)
    problems: list[str] = []
    if not done.receipt:
        return done.receipt
    if done.reworded:
        try:
            await writer.fill_vectors()
        except ModelError as exc:
            problems.append(f"vectors are left: {exc}; resume() makes them")
    problems += await writer.catch_up(failed=False, occasion="write")
    purged = await to_thread(purge, writer.db)
    return replace(
        done.receipt,
        secure_delete=purged.secure_delete,
        wal_pending=purged.wal_pending,
        vacuumed=purged.vacuumed,
        warnings=(*done.receipt.warnings, *problems),
    )
