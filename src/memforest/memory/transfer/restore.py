"""Copying a backup back into a directory of memories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memforest.concurrency import in_thread
from memforest.errors import ForeignStoreError, InputError
from memforest.keys import AnyKey, Key
from memforest.memory.directory import file_name, make_directory, owner_of
from memforest.store import salts
from memforest.store.backup import copy_database
from memforest.store.db import Database
from memforest.store.faults import mapped_errors
from memforest.store.publish import new_file
from memforest.store.salts import Salt, salt_file
from memforest.text import cut


async def restore_memory(source: Path, directory: Path, key: Key | None) -> str:
    """Copy a backup into a directory under the name of its user; see `AsyncMemForest.restore`."""

    def work(check: Callable[[], None]) -> str:
        if not source.is_file():
            raise InputError(f"there is no file {str(source)!r}")
        own: AnyKey | None = None if key is None else key.now()
        salt = None
        if isinstance(own, Key) and (beside := _salt_of(source, directory)) is not None:
            of_file = own.of_file(beside.salt)
            salt = Salt(beside.salt, (of_file.check,))
            own = own if salts.read(source) is not None else of_file
        user = owner_of(source, own)
        if user is None:
            raise ForeignStoreError(f"{source.name!r} is of nobody: no memory was ever begun in it")
        target = directory / file_name(user)
        _refuse_what_is_there(target, user, salt)
        make_directory(directory)
        backup = Database(source, readonly=True, key=own)
        try:
            backup.file.require_key_in_use()
            with new_file(target, overwrite=False) as path:
                copy_database(backup, path, check)
                if salt is not None:
                    with mapped_errors(target):
                        salts.write(target, salt)
        finally:
            backup.close()
        return user

    return await in_thread(work)


def _salt_of(source: Path, directory: Path) -> Salt | None:
    """Return the salt of an encrypted backup: that beside it, else that of the memory of the same name in the directory."""
    return salts.read(source) or salts.read(directory / source.name)


def _refuse_what_is_there(target: Path, user: str, salt: Salt | None) -> None:
    """Raise if a memory, or the salt of another one, is in the place of what is to be restored.

    Raises:
        InputError: if that is so.
    """
    for there in (target, target.with_name(target.name + "-wal")):
        if there.exists():
            raise InputError(
                f"user {cut(repr(user), 60)} has a memory in {str(target.parent)!r} ({there.name!r}); move it and the files "
                "beside it away, or restore into another directory"
            )
    found = None if salt is None else salts.read(target)
    if found is not None and salt is not None and found.salt != salt.salt:
        raise InputError(
            f"{salt_file(target).name!r} in {str(target.parent)!r} is another salt than the backup's; move it away, or restore "
            "into another directory"
        )
