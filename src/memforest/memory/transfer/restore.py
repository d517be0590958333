"""Copying a backup back into a directory of memories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memforest.concurrency import in_thread
from memforest.errors import ForeignStoreError, InputError
from memforest.memory.open import file_name, make_directory, owner_of
from memforest.store.backup import copy_database
from memforest.store.db import Database
from memforest.store.publish import new_file
from memforest.text import cut

__all__ = ["restore_memory"]


async def restore_memory(source: Path, directory: Path) -> str:
    """Copy a backup into a directory under the name of its user; see `AsyncMemForest.restore`."""

    def work(check: Callable[[], None]) -> str:
        if not source.is_file():
            raise InputError(f"there is no file {str(source)!r}")
        user = owner_of(source)
        if user is None:
            raise ForeignStoreError(f"{source.name!r} is of nobody: no memory was ever begun in it")
        target = directory / file_name(user)
        for there in (target, target.with_name(target.name + "-wal")):
            if there.exists():
                raise InputError(
                    f"user {cut(repr(user), 60)} has a memory in {str(directory)!r} ({there.name!r}); move it and the files "
                    "beside it away, or restore into another directory"
                )
        make_directory(directory)
        backup = Database(source, readonly=True)
        try:
            with new_file(target, overwrite=False) as path:
                copy_database(backup, path, check)
        finally:
            backup.close()
        return user

    return await in_thread(work)
