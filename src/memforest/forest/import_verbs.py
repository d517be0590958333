"""The verb that brings in what other programs have exported, of a forest and of the handle on one memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from memforest.config import Config
from memforest.display import shown
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.forest import requests as calls
from memforest.forest.imported import ImportResult
from memforest.forest.importing import FileLike, ImportRequest, OnSession, import_files
from memforest.forest.options import TimeLike, check_flags, check_function, read_budget, read_time
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.memory.ingest.turns import check_id
from memforest.memory.progress import OnProgress, as_raised

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ImportOptions(TypedDict, total=False):
    """Optional arguments of an import; see `AsyncMemForest.import_file`. Their defaults are those of `ImportRequest`."""

    format: str | None
    session_id: str | None
    timestamp: TimeLike | None
    display_name: str | None
    day_first: bool | None
    infer: bool
    replace: bool
    dry_run: bool
    budget: Budget | None
    on_session: OnSession | None
    on_progress: OnProgress | None


class HasPool(Protocol):
    """A forest."""

    _pool: MemoryPool


class HasMemory(HasPool, Protocol):
    """A handle on one user's memory."""

    user_id: str


@spanned("upsert_memory")
async def import_file(  # noqa: D417 - a method, whose self is not described
    self: HasPool,
    user_id: str | None,
    file: FileLike | Sequence[FileLike],
    *,
    default_user: str | None = None,
    **options: Unpack[ImportOptions],
) -> ImportResult:
    """Read chat files of other programs into memories; every session is durable when it is counted.

    The formats are those of docs/importing.md, told by what is in a file. Files are read as streams, twice at least: first
    what they hold and whether it fits together, then session by session. A part that cannot be read is named in
    `ImportResult.problems` with its file and place, and everything else is stored. The same file again changes nothing; a
    longer one adds what is new.

    Args:
        user_id: whose memory; None for the users that the files name.
        file: a path, a file open for reading bytes (which is read into memory), or several of them.
        format: the name of the files' format, if it is not to be told by their content.
        session_id: names the files' only session, or a chat that is cut into days (``NAME/2024-05-01``).
        timestamp: the time of messages that have none, neither of their own nor of their session.
        display_name: who the user is: names what says only ``role: user``, and marks the turns of that participant as the user's.
        day_first: whether ``03/04/2024`` is 3 April; None is as `Config.day_first` says, else as the file proves.
        default_user: whose memory where the files do not say.
        infer: extract statements; False stores the turns as they are.
        replace: overwrite stored sessions that differ.
        dry_run: store nothing, and return what would be.
        budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
        on_session: called after each session that was stored, or could not be; must not raise.
        on_progress: called with an `IngestProgress`: first, for each memory, with the turns that the files hold for it, then as
            by `ingest_session`.

    Raises:
        InputError: if a file cannot be read at all or its format or date order is not known, two files have one session, or
            nothing says whose memory it is. Nothing was stored.
        StoreError: if a file of a memory cannot be written; what was counted is stored.
    """
    request = _request(self._pool.config, user_id, file, default_user, options)
    return await as_raised(import_files(self._pool, request))


@spanned("upsert_memory", verb="import_file")
async def import_into_memory(
    self: HasMemory, file: FileLike | Sequence[FileLike], **options: Unpack[ImportOptions]
) -> ImportResult:
    """Read chat files of other programs into this memory; the arguments are those of `AsyncMemForest.import_file`.

    Raises:
        InputError: as there, and if the files hold the memories of several users.
        StoreError: if the file of the memory cannot be written; what was counted is stored.
    """
    request = _request(self._pool.config, self.user_id, file, None, options)
    return await as_raised(import_files(self._pool, request))


def _request(
    config: Config, user_id: str | None, file: object, default_user: str | None, options: ImportOptions
) -> ImportRequest:
    """Return what is to be imported.

    Raises:
        InputError: if an argument is of the wrong type.
    """
    request = ImportRequest(_files(file), user_id, default_user, **options)  # type: ignore[arg-type]  # read below
    check_flags("import_file", infer=request.infer, replace=request.replace, dry_run=request.dry_run)
    for name in ("format", "session_id", "display_name", "default_user", "user_id"):
        if (value := getattr(request, name)) is not None:
            check_id(value, name)
    check_function("import_file", "on_session", request.on_session)
    calls.check_hook("import_file", request.on_progress)
    if request.day_first is not None:
        check_flags("import_file", day_first=request.day_first)
    return replace(
        request,
        timestamp=read_time(options.get("timestamp"), config, "timestamp"),
        budget=read_budget("import_file", options.get("budget")) or config.ingest_budget,
    )


def _files(given: Any) -> tuple[FileLike, ...]:
    """Return the files of a call, at least one."""
    if isinstance(given, (str, os.PathLike)) or callable(getattr(given, "read", None)):
        return (given,)
    if not isinstance(given, Sequence) or isinstance(given, (bytes, Mapping)) or not given:
        raise InputError(
            f"import_file(file) takes a path, a file open for reading bytes, or a list of them, not {shown(given)}"
        )
    return tuple(given)
