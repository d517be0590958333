"""Copying a memory's file while it is in use, and checking the copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memforest.concurrency import in_thread
from memforest.memory.memory import Memory
from memforest.memory.transfer.results import BackupResult
from memforest.store.backup import copy_database
from memforest.store.publish import new_file


async def backup_memory(memory: Memory, target: Path, *, overwrite: bool) -> BackupResult:
    """Copy a memory's file; see `AsyncUserMemory.backup`."""

    def work(check: Callable[[], None]) -> BackupResult:
        with new_file(target, overwrite=overwrite) as path:
            copied = copy_database(memory.db, path, check)
            size = path.stat().st_size
        return BackupResult(
            memory.user_id, str(target), copied.sessions, copied.turns, copied.facts, size, copied.damaged
        )

    return await in_thread(work)
