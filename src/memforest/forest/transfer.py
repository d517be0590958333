"""The verbs that take one user's memory out of its directory, and bring it in: export, import, backup."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from memforest import __version__
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.forest.everybody import for_all
from memforest.forest.options import check_flags, check_path, read_budget
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.memory.directory import make_directory
from memforest.memory.memory import Memory
from memforest.memory.open import embedder_for
from memforest.memory.transfer.backup import backup_memory
from memforest.memory.transfer.restore import restore_memory
from memforest.memory.transfer.results import BackupResult, ExportResult, MemoryImport
from memforest.memory.transfer.verbs import Source, Target, export_memory, import_memory


class Backups:
    """The part of `AsyncMemForest` that copies memories into another directory, and one back."""

    _pool: MemoryPool

    @spanned()
    async def backup(
        self, directory: str | Path, user_id: str | None = None, *, overwrite: bool = False
    ) -> list[BackupResult]:
        """Copy one user's memory, or those of all, into another directory, which then is one of memories too.

        Each is copied as `AsyncUserMemory.backup` does it, at a moment of its own.

        Args:
            directory: made when it does not exist, for its owner alone.
            user_id: whose; None for all users.
            overwrite: replace copies that are there.

        Raises:
            InputError: if the directory is that of the memories, or a copy is there already.
            NotFoundError: if the user has no memory.
            SomeUsersFailedError: if it failed for some of all users; the others are copied.
            StoreError: if the directory cannot be made.
        """
        check_path("backup", "directory", directory)
        check_flags("backup", overwrite=overwrite)
        folder = Path(directory)
        if await asyncio.to_thread(_is_same, folder, self._pool.directory):
            raise InputError(f"{str(folder)!r} is where the memories are; name another directory for backups")
        done: list[BackupResult] = []

        async def one(memory: Memory) -> None:
            await asyncio.to_thread(make_directory, folder)
            done.append(await backup_memory(memory, folder / memory.db.path.name, overwrite=overwrite))

        await for_all("backup", user_id, self._pool, one, results=done)
        return done

    @spanned()
    async def restore(self, source: str | Path) -> str:
        """Copy a backup into the directory as the memory of the user that it is of, and return the user's id.

        The backup is checked, and stays as it is. An encrypted one takes its key, and the salt of the memory: beside the
        backup, or in the directory under the backup's own name; it is put beside the memory.

        Args:
            source: a file that `backup` made.

        Raises:
            InputError: if there is no such file, or the user has a memory here: move it away first, or restore into another
                directory.
            StoreKeyError: if it is encrypted and the key or the salt is missing or another one; or there is a key and it is not.
            StoreError: if the file is no memory, is damaged, or cannot be copied.
        """
        check_path("restore", "source", source)
        return await restore_memory(Path(source), self._pool.directory, self._pool.key)


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


class Transfer:
    """The part of `AsyncUserMemory` that writes and reads files outside of the directory of memories."""

    _pool: MemoryPool
    user_id: str

    @spanned()
    async def export(
        self, target: Target, *, vectors: bool = False, summaries: bool = True, overwrite: bool = False
    ) -> ExportResult:
        """Write everything that the memory holds into a file of JSON Lines, from which `import_` makes an equal one.

        It is of one moment, whoever writes meanwhile; the file is private, and there whole or not at all. A memory that
        cannot be written can be exported. docs/export.md has the schema.

        Args:
            target: path of a new file, or a stream of bytes.
            vectors: write vectors too, so that the import need not make them.
            summaries: write the summaries of trees too: a model may have been paid for them.
            overwrite: replace a file that is there.

        Raises:
            NotFoundError: if the user has no memory.
            InputError: if the file is there already, or its directory is not.
            StoreError: if the file cannot be written, or the memory cannot be read.
        """
        check_flags("export", vectors=vectors, summaries=summaries, overwrite=overwrite)
        check_path("export", "target", target, "write")
        return await self._pool.use_existing(
            self.user_id,
            lambda memory: export_memory(
                memory,
                target,
                version=__version__,
                vectors=vectors,
                summaries=summaries,
                overwrite=overwrite,
            ),
        )

    @spanned("upsert_memory")
    async def import_(self, source: Source, *, budget: Budget | None = None) -> MemoryImport:
        """Make this user's memory from a file that `export` wrote; no chat model is asked.

        All of it is stored or nothing. A user without a memory is registered. Vectors that the file lacks are made by
        the embedder; if that fails, everything else is stored, and `resume` makes them.

        Args:
            source: path of the file, or a stream of bytes.
            budget: what the embedder may spend behind an endpoint; `Config.ingest_budget` when not given.

        Raises:
            InputError: if the file is no export, of a newer memforest, not whole, or has a wrong line, which is named by
                its number; or the user's memory holds something already. Nothing was stored.
            ModelError: if vectors cannot be made.
            StoreError: if the memory cannot be written.
        """
        check_path("import_", "source", source, "read")
        read_budget("import_", budget)
        made_with = partial(embedder_for, self._pool.config)
        done, vectors = await self._pool.use_new(
            self.user_id, lambda memory: import_memory(memory, source, made_with)
        )
        made, behind = await self._pool.use_existing(
            self.user_id, lambda memory: memory.settle(vectors=vectors, budget=budget)
        )
        return replace(done, embedded=made, warnings=(*done.warnings, *behind))

    @spanned()
    async def backup(self, target: str | Path, *, overwrite: bool = False) -> BackupResult:
        """Copy the memory's file as it is at this moment, and check the copy; others may write meanwhile.

        The copy is private, there whole or not at all, and takes no more memory however large it is. docs/backup.md says
        how to restore one.

        Args:
            target: path of a new file.
            overwrite: replace a file that is there.

        Raises:
            NotFoundError: if the user has no memory.
            InputError: if the file is there already, or its directory is not.
            CorruptStoreError: if the memory's file is damaged.
            StoreError: if the copy cannot be written.
        """
        check_flags("backup", overwrite=overwrite)
        check_path("backup", "target", target)
        return await self._pool.use_existing(
            self.user_id, lambda memory: backup_memory(memory, Path(target), overwrite=overwrite)
        )
