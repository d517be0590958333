"""Memories across files: merging one into another, exporting, importing, backing up and restoring.

Each opens the files outside of the directory, and does its work in one transaction in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memforest.concurrency import in_thread, to_thread
from memforest.endpoint import Budget
from memforest.errors import (
    EmbedderMismatchError,
    ForeignStoreError,
    InputError,
    NotFoundError,
    StoreKeyError,
)
from memforest.memory.memory import Memory
from memforest.memory.options import ExportTarget, ImportSource, check_path
from memforest.memory.pool import MemoryPool
from memforest.protection import AnyKey, Key
from memforest.read.receipts import BackupResult, ExportResult, MemoryImport, MergeResult
from memforest.store import files
from memforest.store.connections import mapped_errors
from memforest.store.database import Database
from memforest.store.directory import file_name, make_directory, owner_of
from memforest.store.files import Salt, new_file, salt_file
from memforest.store.upkeep import copy_database
from memforest.text import cut
from memforest.times import shown
from memforest.write.merge_plan import MergeOptions
from memforest.write.transfer import LineReader, read_export, write_export
from memforest.write.turns import check_id


async def merge_memories(
    target: MemoryPool,
    target_user: str,
    source: MemoryPool,
    source_user: str,
    options: MergeOptions,
    budget: Budget | None,
) -> MergeResult:
    """Merge the memory of one user into that of another, which is made if there is none; not by a dry run."""
    if source is target and check_id(source_user, "from_user") == check_id(target_user, "user_id"):
        raise InputError(
            f"the memory of {shown(target_user)} cannot be merged into itself; name another user"
        )
    try:
        async with source.open(source_user, "refused"):  # who is not there leaves no memory behind
            pass
    except EmbedderMismatchError as exc:
        raise EmbedderMismatchError(
            f"{exc}; to merge memories of two embedders, re-embed one of them first with that of the other"
        ) from exc
    except StoreKeyError as exc:
        raise StoreKeyError(
            f"{exc}; memories are merged under one key: encrypt, rekey or decrypt the other one first"
        ) from exc
    opening = target.open(target_user, "refused" if options.dry_run else "made")
    async with opening as memory, source.open(source_user, "refused") as other:
        return await memory.merge(other, options, budget=budget)


async def merge_from_directory(
    target: MemoryPool,
    target_user: str,
    directory: str | Path | None,
    source_user: str,
    options: MergeOptions,
    budget: Budget | None,
) -> MergeResult:
    """Merge the memory of a user of another directory, None for the same one, into a memory.

    Raises:
        NotFoundError: if there is no such directory, besides what `AsyncUserMemory.merge` raises.
    """
    if directory is None:
        return await merge_memories(target, target_user, target, source_user, options, budget)
    check_path("merge", "directory", directory)
    if not await to_thread(Path(directory).is_dir):
        raise NotFoundError(
            f"there is no directory {shown(str(directory))}; name the one that holds the memories"
        )
    other = MemoryPool(Path(directory), target.config)
    try:
        return await merge_memories(target, target_user, other, source_user, options, budget)
    finally:
        await other.close()


def exported_user(path: Path) -> str:
    """Return the id of the user whose memory an export is of.

    Raises:
        InputError: if it is no export.
    """
    with _opened_for_reading(path) as (file, name):
        user = LineReader(file, name).header.get("user_id")
    if not isinstance(user, str) or not user:
        raise InputError(f"{name} does not say whose memory it is; name a user")
    return user


async def export_memory(
    memory: Memory, target: ExportTarget, *, version: str, vectors: bool, summaries: bool, overwrite: bool
) -> ExportResult:
    """Write a memory into a file; see `AsyncUserMemory.export`."""

    def work(check: Callable[[], None]) -> ExportResult:
        with _opened_for_writing(target, overwrite) as out, memory.db.read() as tx:
            written = write_export(
                tx,
                out,
                version=version,
                now=memory.config.clock(),
                vectors=vectors,
                summaries=summaries,
                check=check,
            )
        path = str(target) if isinstance(target, (str, Path)) else None
        rows = written.rows
        counts = rows["session"], rows["turn"], rows["fact"]
        return ExportResult(memory.user_id, path, *counts, written.bytes, dict(rows))

    return await in_thread(work)


@contextmanager
def _opened_for_writing(target: ExportTarget, overwrite: bool) -> Iterator[BinaryIO]:
    if not isinstance(target, (str, Path)):
        with mapped_errors(Path(_name_of(target))):
            yield target
            target.flush()
        return
    with new_file(Path(target), overwrite=overwrite) as path, path.open("wb") as out:
        yield out


async def import_memory(
    memory: Memory, source: ImportSource, embedder: Callable[[str], str | None]
) -> tuple[MemoryImport, bool]:
    """Read an export into a memory that was never written; see `AsyncUserMemory.import_`.

    Args:
        memory: a new one.
        source: the export.
        embedder: returns the id of the embedder with which a memory made with a given one is opened.

    Returns:
        What was stored, and whether the memory had vectors where it was exported.
    """

    def work(check: Callable[[], None]) -> tuple[MemoryImport, bool]:
        with _opened_for_reading(source) as (file, name):
            lines = LineReader(file, name)
            made_with = (lines.header.get("settings") or {}).get("embedder")
            here = embedder(made_with) if isinstance(made_with, str) else None
            with memory.db.write() as tx:
                done = read_export(tx, memory.attached, lines, here, check)
        return done, made_with is not None

    return await in_thread(work)


def _name_of(stream: BinaryIO) -> str:
    return str(getattr(stream, "name", "the stream"))


@contextmanager
def _opened_for_reading(source: ImportSource) -> Iterator[tuple[BinaryIO, str]]:
    """Open an export; give the file, and what it is called in messages.

    Raises:
        InputError: if there is none.
        StoreWriteError: if it cannot be read.
    """
    if not isinstance(source, (str, Path)):
        with mapped_errors(Path(_name_of(source))):
            yield source, _name_of(source)
        return
    path = Path(source)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    with mapped_errors(path), path.open("rb") as file:
        yield file, repr(path.name)


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
            own = own if files.read(source) is not None else of_file
        user = owner_of(source, own)
        if user is None:
            raise ForeignStoreError(f"{source.name!r} has no user: no memory was ever begun in it")
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
                        files.write(target, salt)
        finally:
            backup.close()
        return user

    return await in_thread(work)


def _salt_of(source: Path, directory: Path) -> Salt | None:
    """Return the salt of an encrypted backup: that beside it, else that of the memory of the same name in the directory."""
    return files.read(source) or files.read(directory / source.name)


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
    found = None if salt is None else files.read(target)
    if found is not None and salt is not None and found.salt != salt.salt:
        raise InputError(
            f"{salt_file(target).name!r} in {str(target.parent)!r} is another salt than the backup's; move it away, or restore "
            "into another directory"
        )
