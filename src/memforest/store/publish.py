"""Files that a memory is written into, for people to keep: for their owner alone, and there whole or not at all."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memforest.errors import InputError
from memforest.store.faults import mapped_errors
from memforest.store.salts import OWN_FILE


@contextmanager
def new_file(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of an empty file beside `target` that becomes `target` at the end; on any error it is deleted.

    It has mode 0600, is flushed to the disk before it gets its name, and replaces a link and not what that leads to.

    Raises:
        InputError: if there is something of that name and `overwrite` is False, or a directory.
        StoreWriteError: if the file cannot be made, or the disk is full.
    """
    _refuse(target, overwrite)
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with mapped_errors(target):
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, OWN_FILE))
        try:
            made.chmod(OWN_FILE)  # a umask may take away the owner's rights too
            yield made
            _sync(made)
            _refuse(target, overwrite)  # it may have come meanwhile
            made.replace(target)
            _sync(target.parent)
        finally:
            for left in (made, *(made.with_name(made.name + end) for end in ("-wal", "-shm", "-journal"))):
                left.unlink(missing_ok=True)


def _refuse(target: Path, overwrite: bool) -> None:
    """Raise if a file cannot get this name.

    Raises:
        InputError: if that is so.
    """
    if target.is_dir() and not target.is_symlink():
        raise InputError(f"{str(target)!r} is a directory; name a file in it")
    if not overwrite and (target.exists() or target.is_symlink()):
        raise InputError(
            f"{str(target)!r} is there already; name another file, or overwrite it (overwrite=True)"
        )
    if not target.parent.is_dir():
        raise InputError(f"there is no directory {str(target.parent)!r}; make it, or name another")


def _sync(path: Path) -> None:
    """Write a file, or the names in a directory, through to the disk; Windows has no way to do the latter."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
