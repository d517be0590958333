"""SQLite's errors and the file system's as ours, each naming the file and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    IndexStateError,
    MemForestError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
)
from memforest.store.engine import errors
from memforest.store.tx import Tx

_MISTAKES = ("IntegrityError", "ProgrammingError", "InterfaceError", "DataError")
"""What a statement raises that cannot be run as it is. Source: PEP 249, "Exceptions"."""

_DAMAGE = ("malformed", "constructor failed", "corrupt")

RESTORE = "restore it from a backup"
"""What to do about damage to what cannot be made again."""

UNEXPECTED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""What reading a row that cannot be may raise: a missing one, a number without sense, another kind of JSON."""


@contextmanager
def mapped_errors(
    path: Path, diagnosis: Callable[[], str | None] | None = None, *suspect: type[MemForestError]
) -> Iterator[None]:
    """Raise SQLite's and the file system's errors as ours, naming the file.

    An error that no row of a sound memory can cause (a missing row, a number without sense) becomes one of ours
    too when the diagnosis finds the memory damaged; else it is a mistake in the code and goes through as it is.

    Args:
        path: the file.
        diagnosis: says what is wrong with the memory and what to do about it; None when nothing is.
        suspect: errors of ours that only damage causes here.

    Raises:
        StoreError: or one of its kinds, from the original error.
    """
    try:
        yield
    except errors() as exc:
        error = _mapped(exc, path)
        # A constraint that fails is of no kind: rows in the way of new ones are damage too.
        doubtful = isinstance(error, CorruptStoreError) or type(error) is StoreError
        if doubtful and diagnosis is not None and (found := diagnosis()):
            raise CorruptStoreError(f"{path.name!r} is damaged: {found}") from exc
        raise error from exc
    except OSError as exc:
        raise StoreWriteError(
            f"cannot use {path.name!r}: {exc.strerror or exc}; check the directory"
        ) from exc
    except (MemForestError, *UNEXPECTED) as exc:
        if isinstance(exc, MemForestError) and not isinstance(exc, suspect):
            raise
        if diagnosis is None or (found := diagnosis()) is None:
            raise
        raise CorruptStoreError(f"{path.name!r} is damaged: {found}") from exc


def is_of_file(error: Exception) -> bool:
    """Return whether an error is the file's (locked, full, damaged, closed), and not that of the code which met it.

    Code that is not ours makes mistakes in SQL too: a statement that is refused says nothing against the file.
    """
    if isinstance(error, StoreError):
        return type(error) not in (StoreError, IndexStateError)
    return (
        isinstance(error, errors())
        and not isinstance(error, errors(*_MISTAKES))
        and type(_mapped(error, Path())) is not StoreError
    )


def sqlite_damage(tx: Tx) -> str | None:
    """Return what SQLite's own check of the file finds, with what to do about it; None when that is nothing."""
    try:
        found = str(tx.execute("PRAGMA quick_check(1)").fetchone()[0])
    except errors() as exc:
        found = str(exc)
    except UnicodeDecodeError:  # of the message, which names a table by the bytes that stand there now
        found = "the name of a table cannot be read"
    return None if found == "ok" else f"{found}; {RESTORE}"


def _mapped(exc: Exception, path: Path) -> StoreError:
    """Return our error for one of SQLite's; told by message, as 3.10 has no error codes.

    By whole phrases: a table or column that a wrong statement names may be called "busy" or "full".
    Source of the phrases: https://www.sqlite.org/src/file/src/main.c, `sqlite3ErrStr`.
    """
    text = str(exc).lower()
    name = path.name
    if "is locked" in text:
        return StoreLockedError(f"{name!r} is being written by another process; try again when it is done")
    if "not a database" in text:
        return ForeignStoreError(f"{name!r} is not a memforest database; use another directory")
    if any(sign in text for sign in _DAMAGE):
        return CorruptStoreError(f"{name!r} is damaged: {exc}; {RESTORE}")
    if "readonly database" in text:
        return StoreWriteError(f"{name!r} cannot be written: the file or its directory is read-only")
    if "disk is full" in text:
        return StoreWriteError(f"the disk that holds {name!r} is full; free some space and run resume()")
    if "unable to open" in text or "disk i/o error" in text:
        return StoreWriteError(
            f"cannot open, read or write {name!r} ({exc}); check the directory, its permissions and the disk"
        )
    if "closed database" in text:
        return StoreClosedError(f"{name!r} was closed")
    return StoreError(f"{name!r}: {exc}")
