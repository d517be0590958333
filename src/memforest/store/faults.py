"""SQLite's errors and the file system's as ours, each naming the file and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    MemForestError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
)

__all__ = ["Tx", "mapped_errors"]

Tx = sqlite3.Connection
"""An open transaction: the argument of every function of the store."""

_DAMAGE = ("malformed", "could not decode", "constructor failed", "corrupt")


@contextmanager
def mapped_errors(path: Path, conn: Tx | None = None) -> Iterator[None]:
    """Raise SQLite's and the file system's errors as ours, naming the file.

    Given a connection, a value that cannot be (a missing row, text that is no UTF-8) is an error of ours too
    when SQLite finds the file damaged; else it is a mistake in the code and goes through as it is.

    Raises:
        StoreError: or one of its kinds, from the original error.
    """
    try:
        yield
    except sqlite3.Error as exc:
        raise _mapped(exc, path) from exc
    except OSError as exc:
        raise StoreWriteError(
            f"cannot use {path.name!r}: {exc.strerror or exc}; check the directory"
        ) from exc
    except MemForestError:
        raise
    except (LookupError, TypeError, ValueError) as exc:
        if conn is None or not _is_damaged(conn):
            raise
        raise CorruptStoreError(f"{path.name!r} is damaged ({exc!r}); restore it from a backup") from exc


def _is_damaged(conn: Tx) -> bool:
    try:
        return bool(conn.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok")
    except (sqlite3.Error, ValueError):
        return True


def _mapped(exc: sqlite3.Error, path: Path) -> StoreError:
    """Return our error for one of SQLite's; told by message, as 3.10 has no error codes."""
    text = str(exc).lower()
    name = path.name
    if "locked" in text or "busy" in text:
        return StoreLockedError(f"{name!r} is being written by another process; try again when it is done")
    if "not a database" in text:
        return ForeignStoreError(f"{name!r} is not a memforest database; use another directory")
    if any(sign in text for sign in _DAMAGE):
        return CorruptStoreError(f"{name!r} is damaged ({exc}); restore it from a backup")
    if "readonly" in text or "read-only" in text:
        return StoreWriteError(f"{name!r} cannot be written: the file or its directory is read-only")
    if "full" in text:
        return StoreWriteError(f"the disk that holds {name!r} is full; free some space and run resume()")
    if "unable to open" in text or "i/o" in text:
        return StoreWriteError(
            f"cannot open or write {name!r} ({exc}); check the directory and its permissions"
        )
    if "closed database" in text:
        return StoreClosedError(f"{name!r} was closed")
    return StoreError(f"{name!r}: {exc}")
