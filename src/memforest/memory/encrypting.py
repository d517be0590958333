"""Encrypting the memories of a directory, decrypting them, or giving them another key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from memforest.errors import NotFoundError, SomeUsersFailedError, StoreError
from memforest.keys import Key
from memforest.memory.directory import file_name, is_own_name, memory_files
from memforest.memory.plain import Result
from memforest.store.recrypt import recrypt
from memforest.text import cut

Progress: TypeAlias = Callable[[int, int, str], object]
"""Called behind each file with how many are done, how many there are, and its name."""


@dataclass(frozen=True, slots=True, repr=False)
class Recrypted(Result):
    """What `encrypt`, `decrypt` or `rekey` did: the names of the files that it changed, and of those that were so already."""

    done: tuple[str, ...]
    already: tuple[str, ...] = ()


def recrypt_all(
    operation: str,
    directory: Path,
    have: Key | None,
    want: Key | None,
    *,
    user_id: str | None,
    timeout_s: float,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Recrypted:
    """Give the memories of a directory another key, or their first, or none, one after the other; see `recrypt`.

    Args:
        operation: its name, for messages.
        directory: where they are.
        have: the key of their files; None for unencrypted ones.
        want: their key from now on; None for unencrypted files.
        user_id: whose; None for all users.
        timeout_s: how long to wait for others who have a file open.
        progress: called behind each file.
        stop: set by another thread to end behind the file that is under way.

    Raises:
        NotFoundError: if that user has no memory.
        StoreError: if that user's file cannot be changed; it is as it was.
        SomeUsersFailedError: if some of all files cannot; all others are done, and these are as they were.
    """
    if user_id is None:
        files = [path for path in memory_files(directory) if is_own_name(path.name)]
    else:
        files = [directory / file_name(user_id)]
        if not files[0].exists():
            raise NotFoundError(f"user {cut(repr(user_id), 60)} has no memory in {directory.name!r}")
    old, new = have and have.now(), want and want.now()
    done, already, failed = list[str](), list[str](), dict[str, StoreError]()
    for number, path in enumerate(files, 1):
        if stop is not None and stop.is_set():
            break
        try:
            (done if _is_begun(path) and recrypt(path, old, new, timeout_s=timeout_s) else already).append(
                path.name
            )
        except StoreError as exc:
            if user_id is not None:
                raise
            failed[path.name] = exc
        if progress is not None:
            progress(number, len(files), path.name)
    result = Recrypted(tuple(done), tuple(already))
    if failed:
        raise SomeUsersFailedError(operation, {}, failed, [result])
    return result


def _is_begun(path: Path) -> bool:
    """Return whether there is something in a file; an empty one was left by a write that failed."""
    return path.stat().st_size > 0
