"""The verbs that delete: from one user's memory, and a user with all of it.

The verbs that merge memories: of one user into another's, and of several.

Export and import of one memory: the file outside, the transaction inside, in a worker thread.

Copying a memory's file while it is in use, and checking the copy.

Copying a backup back into a directory of memories.

The verbs that take one user's memory out of its directory, and bring it in: export, import, backup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from memforest import __version__
from memforest.concurrency import in_thread
from memforest.endpoint import Budget
from memforest.errors import (
    EmbedderMismatchError,
    ForeignStoreError,
    InputError,
    NotFoundError,
    StoreKeyError,
)
from memforest.memory.memory import Memory
from memforest.memory.open import embedder_for
from memforest.memory.options import (
    TimeLike,
    check_flags,
    check_mapping,
    check_path,
    check_refresh,
    check_text,
    check_texts,
    read_budget,
    read_time,
)
from memforest.memory.pool import MemoryPool
from memforest.memory.spanned import spanned
from memforest.memory.writing import for_all
from memforest.protection import AnyKey, Key
from memforest.read.receipts import (
    BackupResult,
    DeleteReceipt,
    ExportResult,
    ForestMergeResult,
    MemoryImport,
    MergeResult,
)
from memforest.store import files
from memforest.store.connections import mapped_errors
from memforest.store.database import Database
from memforest.store.directory import file_name, make_directory, owner_of
from memforest.store.files import Salt, new_file, salt_file
from memforest.store.upkeep import copy_database
from memforest.text import cut
from memforest.times import shown
from memforest.write.delete import DeleteTarget
from memforest.write.merge import MergeOptions
from memforest.write.merge_plan import MergeNames
from memforest.write.transfer import LineReader, TakeIn, write_export
from memforest.write.turns import check_id

TARGETS = ("fact_id", "turn", "session_id", "entity", "during")


class DeletesFromMemory:
    """The verbs of a handle on one user's memory that delete."""

    _pool: MemoryPool
    user_id: str

    @spanned("delete_memory")
    async def delete(
        self,
        fact_id: str | None = None,
        *,
        turn: tuple[str, str] | None = None,
        session_id: str | None = None,
        entity: str | None = None,
        during: tuple[TimeLike | None, TimeLike] | None = None,
        dry_run: bool = False,
    ) -> DeleteReceipt:
        """Delete one thing with everything that was made of it, so that no byte of its text is left in the memory's files.

        A statement that was said elsewhere too loses only what was said here. Deleting a fact or an entity deletes the
        sentences as well that it was made from, and of an entity those that name it, and all that it said. What is kept
        outside of the memory (backups, traces, what a model's endpoint logs) is not reached: see docs/deleting.md.

        Args:
            fact_id: a fact.
            turn: session id and turn id.
            session_id: a whole session.
            entity: a name: of who spoke, or of who or what was spoken of.
            during: [start, end), of when it was said; a start of None is the beginning.
            dry_run: only count what would go.

        Raises:
            InputError: if not exactly one thing is given, or the window ends before it begins.
            NotFoundError: if there is no such fact, turn, session or entity.
            StoreError: if the file cannot be written.
        """
        check_flags("delete", dry_run=dry_run)
        given = (fact_id, turn, session_id, entity, during)
        if sum(one is not None for one in given) != 1:
            raise InputError(
                f"delete() takes exactly one of {', '.join(TARGETS)}; delete_all() deletes everything"
            )
        for name, value in (("fact_id", fact_id), ("session_id", session_id), ("entity", entity)):
            check_text("delete", name, value)
        target = DeleteTarget(_turn(turn), session_id, fact_id, entity, self._window(during))
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.delete(target, dry_run=dry_run)
        )

    @spanned("delete_memory")
    async def delete_all(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the whole memory, as `AsyncMemForest.delete_user` does, or count what is in it; the next `add` begins a new one.

        Raises:
            NotFoundError: if there is no file for the user.
            StoreError: if a file cannot be deleted.
        """
        check_flags("delete_all", dry_run=dry_run)
        return await self._pool.remove(self.user_id, dry_run=dry_run)

    @spanned("delete_memory")
    async def expire(self, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the turns that were said longer ago than `Config.retention`, with everything that was made of them.

        Every ingest and `add` does the same, at most once a day by the clock of the configuration, and says so in its
        warnings.

        Raises:
            ConfigError: if `Config.retention` is not set.
            NotFoundError: if the user has no memory.
            StoreError: if the file cannot be written.
        """
        check_flags("expire", dry_run=dry_run)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.expire(dry_run=dry_run))

    def _window(self, during: object) -> tuple[datetime | None, datetime] | None:
        if during is None:
            return None
        if not isinstance(during, (tuple, list)) or len(during) != 2:
            raise InputError("delete(during=...) takes a pair of times, [start, end)")
        start, end = (read_time(one, self._pool.config, "during") for one in during)
        if end is None:
            raise InputError("delete(during=...) needs an end; delete_all() deletes everything")
        if start is not None and start >= end:
            raise InputError(f"delete(during=...): {start} is not before {end}; give the earlier time first")
        return start, end


def _turn(turn: object) -> tuple[str, str] | None:
    if turn is None:
        return None
    if not isinstance(turn, (tuple, list)) or len(turn) != 2 or not all(isinstance(one, str) for one in turn):
        raise InputError("delete(turn=...) takes a pair of texts: (session id, turn id)")
    for one in turn:
        check_text("delete", "turn", one)
    return turn[0], turn[1]


class DeletesUsers:
    """The verbs of a forest that delete."""

    _pool: MemoryPool

    @spanned("delete_memory")
    async def delete_turn(self, user_id: str, session_id: str, turn_id: str) -> DeleteReceipt:
        """Delete one turn with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user, session or turn.
            StoreError: if the file cannot be written.
        """
        for name, value in (("session_id", session_id), ("turn_id", turn_id)):
            check_text("delete_turn", name, value, optional=False)
        return await self._handle(user_id).delete(turn=(session_id, turn_id))

    @spanned("delete_memory")
    async def delete_session(self, user_id: str, session_id: str) -> DeleteReceipt:
        """Delete a session with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user or session.
            StoreError: if the file cannot be written.
        """
        check_text("delete_session", "session_id", session_id, optional=False)
        return await self._handle(user_id).delete(session_id=session_id)

    @spanned("delete_memory_store")
    async def delete_user(self, user_id: str) -> DeleteReceipt:
        """Delete a user's memory: its files, whatever state they are in.

        Calls on it that are under way in this process end with a `StoreClosedError`; other processes that have it open
        get a `StoreReplacedError` at their next call. The user may be ingested anew at once.

        Raises:
            NotFoundError: if there is no file for the user.
            ForeignStoreError: if the file is another program's, or another user's.
            StoreError: if a file cannot be deleted.
        """
        return await self._pool.remove(user_id)

    def _handle(self, user_id: str) -> DeletesFromMemory:
        return UserDeletions(self._pool, check_id(user_id, "user_id"))


class UserDeletions(DeletesFromMemory):
    """A handle that only deletes."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self.user_id = user_id


def merge_options(
    verb: str,
    *,
    same_person: bool | None,
    same: Mapping[str, str] | None,
    apart: Collection[str],
    dry_run: bool = False,
    overwrite: bool = False,
    refresh: bool | None = None,
) -> MergeOptions:
    """Return the options of a merge.

    Raises:
        InputError: if one is of the wrong type.
    """
    check_flags(verb, dry_run=dry_run, overwrite=overwrite)
    check_refresh(verb, refresh)
    if same_person is not None:
        check_flags(verb, same_person=same_person)
    check_mapping(verb, "same", same)
    check_texts(verb, "apart", apart)
    return MergeOptions(MergeNames(same_person, same or {}, tuple(apart)), dry_run, overwrite, refresh)


async def merge_from(
    target: MemoryPool,
    target_user: str,
    source: MemoryPool,
    source_user: str,
    options: MergeOptions,
    budget: Budget | None,
) -> MergeResult:
    """Merge the memory of one user into that of another, which is made if there is none; not by a dry run."""

    async def into(memory: Memory) -> MergeResult:
        return await source.use_existing(
            source_user, lambda other: memory.merge(other, options, budget=budget)
        )

    if source is target and check_id(source_user, "from_user") == check_id(target_user, "user_id"):
        raise InputError(
            f"the memory of {shown(target_user)} cannot be merged into itself; name another user"
        )
    try:
        await source.use_existing(source_user, _nothing)  # who is not there leaves no memory behind
    except EmbedderMismatchError as exc:
        raise EmbedderMismatchError(
            f"{exc}; to merge memories of two embedders, re-embed one of them first with that of the other"
        ) from exc
    except StoreKeyError as exc:
        raise StoreKeyError(
            f"{exc}; memories are merged under one key: encrypt, rekey or decrypt the other one first"
        ) from exc
    if options.dry_run:
        return await target.use_existing(target_user, into)
    return await target.use(target_user, into)


async def _nothing(memory: Memory) -> None:
    """Do nothing with an open memory."""


class MergingVerbs:
    """The part of `AsyncUserMemory` that merges."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self.user_id = user_id

    @spanned("upsert_memory")
    async def merge(
        self,
        from_user: str,
        *,
        dry_run: bool = False,
        same_person: bool | None = None,
        same: Mapping[str, str] | None = None,
        apart: Sequence[str] = (),
        directory: str | Path | None = None,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> MergeResult:
        """Merge another user's memory into this one; the other stays as it is.

        Sessions, statements, corrections and trees are copied, and nothing is extracted again. A session that is here
        already is left, one that has grown there grows here; one whose id is taken by another gets another id, and
        `renamed` says so. Merging again brings what is new since. Every turn keeps whose memory it came from.

        People and things of one name become one, and `participants_joined` and `entities_joined` name them. The two
        users are two people, unless `same_person` says otherwise; if they have one display name it must say so.

        Args:
            from_user: whose memory.
            dry_run: write nothing, and return what would be done.
            same_person: True if both users are one person: what the other said is then this user's. False if they have
                one name and are two: the other one is then called "NAME (USER)".
            same: names there -> names here, of who or what is called otherwise here.
            apart: names there of who or what has the name of somebody else here; they become "NAME (USER)".
            directory: the other memory's forest, if it is not this one.
            refresh: as in `AsyncMemForest.ingest_session`.
            budget: what may be spent on models, which judge near statements and make summaries; `Config.ingest_budget`
                when not given.

        Raises:
            InputError: if both are one memory, or the caller has to say who is who.
            NotFoundError: if the other user has no memory, or this one in a dry run.
            EmbedderMismatchError: if the vectors of the two are of different embedders.
            CorruptStoreError: if the other memory is damaged; sessions that were merged before are whole.
            StoreKeyError: if it is encrypted with another key than this one, or only one of both is.
            SchemaVersionError: if another version has written it.
            StoreError: if a file cannot be read, or this one not be written.
        """
        options = merge_options(
            "merge", same_person=same_person, same=same, apart=apart, dry_run=dry_run, refresh=refresh
        )
        read_budget("merge", budget)
        if directory is None:
            return await merge_from(self._pool, self.user_id, self._pool, from_user, options, budget)
        check_path("merge", "directory", directory)
        other = MemoryPool(_existing(directory), self._pool.config)
        try:
            return await merge_from(self._pool, self.user_id, other, from_user, options, budget)
        finally:
            await other.close()


class MergingForest:
    """The part of `AsyncMemForest` that merges."""

    _pool: MemoryPool

    @spanned("upsert_memory")
    async def merge_user_forests(
        self,
        source_user_ids: Sequence[str],
        target_user_id: str,
        *,
        overwrite: bool = False,
        same_person: bool | None = None,
        dry_run: bool = False,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> ForestMergeResult:
        """Merge several users' memories into one, which is made if there is none; the others stay as they are.

        Args:
            source_user_ids: whose, merged in this order.
            target_user_id: into whose.
            overwrite: a session of the target that has the id of another one, with other turns, is replaced by it. In the
                paper's artifact the whole target is; here nothing goes that is not replaced.
            same_person: see `AsyncUserMemory.merge`, also for the others.
            dry_run: write nothing, and return what would be done.
            refresh: as in `ingest_session`.
            budget: what may be spent on models for each memory.

        Raises:
            InputError: if a user is named twice, or is the target, or it has to be said who is who.
            NotFoundError: if one of them has no memory; nothing was merged then.
        """
        if isinstance(source_user_ids, (str, bytes)) or not isinstance(source_user_ids, Sequence):
            raise InputError(f"source_user_ids must be a list of user ids, not {shown(source_user_ids)}")
        wanted = [check_id(one, "source_user_ids") for one in source_user_ids]
        check_id(target_user_id, "target_user_id")
        if len(set(wanted)) < len(wanted) or not wanted:
            raise InputError("source_user_ids must name each user once, and at least one")
        options = merge_options(
            "merge_user_forests",
            same_person=same_person,
            same=None,
            apart=(),
            dry_run=dry_run,
            overwrite=overwrite,
            refresh=refresh,
        )
        read_budget("merge_user_forests", budget)
        for one in wanted:
            await self._pool.use_existing(one, _nothing)
        found = [
            await merge_from(self._pool, target_user_id, self._pool, one, options, budget) for one in wanted
        ]
        return ForestMergeResult(target_user_id, tuple(found))


def _existing(directory: str | Path) -> Path:
    """Return a directory that is there.

    Raises:
        NotFoundError: if there is none.
    """
    path = Path(directory)
    if not path.is_dir():
        raise NotFoundError(
            f"there is no directory {shown(str(directory))}; name the one that holds the memories"
        )
    return path


ExportTarget = str | Path | BinaryIO
Source = str | Path | BinaryIO


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
                memory.attached,
                version=version,
                now=memory.config.clock(),
                vectors=vectors,
                summaries=summaries,
                check=check,
            )
        path = str(target) if isinstance(target, (str, Path)) else None
        sessions, turns, facts = _counts(written.rows)
        return ExportResult(memory.user_id, path, sessions, turns, facts, written.bytes, written.rows)

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
    memory: Memory, source: Source, embedder: Callable[[str], str | None]
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
                job = TakeIn(tx, memory.attached, lines, here, check)
                rows = job.run()
        damaged, warnings = tuple(job.damaged), tuple(job.warnings)
        result = MemoryImport(memory.user_id, *_counts(rows), damaged=damaged, warnings=warnings, rows=rows)
        return result, made_with is not None

    return await in_thread(work)


def _name_of(stream: BinaryIO) -> str:
    return str(getattr(stream, "name", "the stream"))


def _counts(rows: Mapping[str, int]) -> tuple[int, int, int]:
    """Return how many sessions, turns and facts there are."""
    return rows.get("session", 0), rows.get("turn", 0), rows.get("fact", 0)


@contextmanager
def _opened_for_reading(source: Source) -> Iterator[tuple[BinaryIO, str]]:
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
        self, target: ExportTarget, *, vectors: bool = False, summaries: bool = True, overwrite: bool = False
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
