"""Connections to a memory's SQLite file: how one is opened and set up, its transactions, and its errors as ours.

The library is Python's own SQLite, or SQLCipher for an encrypted file. SQLCipher's module has the same classes by the
same names (PEP 249), but they are other classes: whoever catches an error of one catches that of both with `errors`.

SQL expressions that only SQLite understands, and that many statements need, are named here once.

Sources: https://www.sqlite.org/pragma.html, https://www.sqlite.org/wal.html, https://www.sqlite.org/json1.html#jeach,
https://www.sqlite.org/printf.html.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from memforest.errors import (
    ConfigError,
    CorruptStoreError,
    ForeignStoreError,
    IndexStateError,
    MemForestError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
)
from memforest.protection import FileKey
from memforest.text import cut

MIN_SQLITE = (3, 37, 0)
"""STRICT tables came with 3.37: https://www.sqlite.org/stricttables.html."""

_MISSING = "a key is configured, and SQLCipher is not installed: `pip install 'memforest[encrypted]'`, or leave the key out"

_in_use: list[Any] = [sqlite3]


def library(*, encrypted: bool) -> Any:
    """Return the DB-API module (PEP 249) for files of a kind.

    Raises:
        ConfigError: if it is not installed, or its SQLite is too old.
    """
    found = _cipher() if encrypted else sqlite3
    if found.sqlite_version_info < MIN_SQLITE:
        raise ConfigError(f"SQLite {found.sqlite_version} is too old; 3.37 or newer is needed")
    return found


def check_cipher() -> None:
    """Raise unless SQLCipher is installed; nothing is loaded.

    Raises:
        ConfigError: if it is not.
    """
    if find_spec("sqlcipher3") is None:
        raise ConfigError(_MISSING)


@cache
def _cipher() -> Any:
    try:
        found: Any = importlib.import_module("sqlcipher3.dbapi2")
    except ImportError as exc:
        raise ConfigError(_MISSING) from exc
    conn = found.connect(":memory:")
    # For all of the process: else it writes lines to standard error about each page that a key does not fit.
    conn.execute("PRAGMA cipher_log_level = NONE").fetchall()
    conn.close()
    _in_use.append(found)
    return found


def errors(*names: str) -> tuple[type[Exception], ...]:
    """Return the classes of the errors of all libraries in use; all errors when none is named.

    Args:
        *names: as in PEP 249, "Exceptions".
    """
    return tuple(getattr(one, name) for one in _in_use for name in names or ("Error",))


def not_a_database(error: BaseException) -> bool:
    """Return whether an error says that a file cannot be read as it was opened: another kind of file, or another key."""
    return isinstance(error, errors()) and "not a database" in str(error)


Args = Sequence[Any] | Mapping[str, Any]
"""The values of a statement: for each ``?`` in order, or for each ``:name``."""


def begin_anew(tx: Tx) -> None:
    """Begin a read transaction anew before its first read, so that it sees the newest commit."""
    tx.execute("ROLLBACK")
    tx.execute("BEGIN")


PRAGMAS: tuple[tuple[str, str, object], ...] = (
    # name, value to set, value to read back
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),  # what ingest acknowledged survives a power cut
    ("foreign_keys", "on", 1),
    ("secure_delete", "on", 1),  # deleted text is overwritten, not only unlinked
    ("temp_store", "memory", 2),  # no transcript text in temporary files
)


T = TypeVar("T")

CACHED_STATEMENTS = 512
"""Prepared statements that a connection keeps. An ingest runs more different ones than the 100 that SQLCipher's module
keeps by default, and with those it would compile most of them anew each time: 1.4 times the processor time."""


class _Statements:
    """What a connection of ours has beyond the DB-API."""

    def insert(self, sql: str, args: Args = (), /) -> int:
        """Insert one row and return the number that it was given.

        Args:
            sql: an INSERT that ends in ``RETURNING`` and the column of the number.
            args: its values.

        Raises:
            LookupError: if nothing was inserted.
        """
        # To its end: a statement with rows left stays in the way of what comes next.
        rows = cast("Tx", self).execute(sql, args).fetchall()
        if not rows:
            raise LookupError(f"nothing was inserted by {sql!r}")
        return int(rows[0][0])

    def rows(self, kind: Callable[..., T], sql: str, args: Args = (), /) -> list[T]:
        """Return the rows that a statement finds, each made by `kind` of its columns."""
        return [kind(*row) for row in cast("Tx", self).execute(sql, args)]

    def row(self, kind: Callable[..., T], sql: str, args: Args = (), /) -> T | None:
        """Return the first row that a statement finds, made by `kind` of its columns; None if it finds none."""
        row = cast("Tx", self).execute(sql, args).fetchone()
        return None if row is None else kind(*row)

    def column(self, sql: str, args: Args = (), /) -> list[Any]:
        """Return the first column of what a statement finds."""
        return [row[0] for row in cast("Tx", self).execute(sql, args)]

    def pairs(self, sql: str, args: Args = (), /) -> dict[Any, Any]:
        """Return the second column of what a statement finds, by the first one."""
        return {row[0]: row[1] for row in cast("Tx", self).execute(sql, args)}

    def value(self, sql: str, args: Args = (), /) -> Any:
        """Return the one value of a statement that finds one row."""
        return cast("Tx", self).execute(sql, args).fetchone()[0]

    def groups(self, kind: Callable[..., T], sql: str, args: Args = (), /) -> dict[Any, list[T]]:
        """Return the rows that a statement finds by their first column, each made by `kind` of the others."""
        found: dict[Any, list[T]] = {}
        for first, *row in cast("Tx", self).execute(sql, args):
            found.setdefault(first, []).append(kind(*row))
        return found

    def ids(self, wanted: Iterable[int] | Iterable[str], /) -> str:
        """Return row ids, or keys, as the one value of `AMONG`; there may be any number.

        Keys hold no NUL character, which no text of a memory does.
        """
        return json.dumps(list(wanted))


class Connection(_Statements, sqlite3.Connection):
    """A connection to the file; while it is in a transaction it is a `Tx`."""


Tx = Connection
"""An open transaction: the argument of every function of the store."""


def connect(place: Path | str, timeout_s: float, key: FileKey | None = None) -> Connection:
    """Open a connection that begins no transaction by itself.

    Args:
        place: the file, made at the first statement when it does not exist; or its URI, which says how to open it
            (https://www.sqlite.org/uri.html).
        timeout_s: how long a statement waits for another process.
        key: that of an encrypted file; the first statement that reads fails if it is another one's.

    Raises:
        ConfigError: if there is a key and SQLCipher is not installed.
    """
    module = library(encrypted=key is not None)
    # SQLCipher's connections are of another class of the same shape.
    factory = Connection if key is None else type("Connection", (_Statements, module.Connection), {})
    conn: Connection = module.connect(
        place,
        uri=isinstance(place, str),
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
        factory=factory,
    )
    if key is not None:
        conn.execute(f"PRAGMA key = {pragma_key(key)}").fetchall()
    # A flipped bit may leave a text that is no UTF-8: it must not hide the others. `verify` names it.
    conn.text_factory = partial(str, encoding="utf-8", errors="replace")
    return conn


def pragma_key(key: FileKey) -> str:
    """Return a key as SQLCipher takes one that is derived already, quoted: hexadecimal digits of ours, nothing from outside.

    Source: https://www.zetetic.net/sqlcipher/sqlcipher-api/#key, "Raw Key Data".
    """
    return f"\"x'{key.raw.hex()}'\""


def set_up_writer(conn: Tx) -> None:
    """Set the pragmas of the writing connection.

    Raises:
        StoreError: if SQLite does not take one of them.
    """
    for name, value, expected in PRAGMAS:
        _set_pragma(conn, name, value, expected)


def set_up_reader(conn: Tx) -> None:
    """Set the pragmas of a reading connection, which then can write nothing."""
    _set_pragma(conn, "query_only", "on", 1)
    _set_pragma(conn, "temp_store", "memory", 2)


def _set_pragma(conn: Tx, name: str, value: str, expected: object) -> None:
    """Set a pragma and read it back, because SQLite ignores what it cannot do in silence."""
    conn.execute(f"PRAGMA {name} = {value}")
    got = conn.execute(f"PRAGMA {name}").fetchone()[0]
    if got != expected:
        raise StoreError(
            f"SQLite kept PRAGMA {name} at {got!r} instead of {expected!r}; is the disk a network share?"
        )


@contextmanager
def transaction(conn: Connection, *, writes: bool = False) -> Iterator[None]:
    """Run a transaction, which is rolled back on any exception; one that only reads always is."""
    conn.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        if writes:
            conn.execute("COMMIT")
    except Exception as exc:
        # A statement that was not read to its end outlives ROLLBACK and keeps its old state of the file: in the
        # next transaction of this connection, and in the way of checkpoints. The frames hold it.
        traceback.clear_frames(exc.__traceback__)
        raise
    finally:
        # A full disk may have ended it already; a second error would mask the first.
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def listed(values: str) -> str:
    """Return the SQL table (``key``, ``value``) of a JSON list or object: a column, or "?" for one bound by `tx.ids`."""
    return f"json_each({values})"


AMONG = f"IN (SELECT value FROM {listed('?')})"
"""Is one of a list, which is bound as `tx.ids` returns it."""

MOST_VALUES = 500
"""Values bound in one statement; SQLite before 3.32 allows 999."""


def parts(values: Iterable[T]) -> Iterator[tuple[list[T], str]]:
    """Yield values in parts that one statement may bind, each with its placeholders; for BLOBs, which `AMONG` cannot list."""
    source = iter(values)
    while part := list(islice(source, MOST_VALUES)):
        yield part, ", ".join("?" * len(part))


AMONG_IDS = f"IN (SELECT value FROM {listed(':ids')})"
"""The same for a list that is bound by name, as ``ids``."""


def gathered(column: str) -> str:
    """Return the aggregate that has all values of a column in one JSON list."""
    return f"json_group_array({column})"


@cache
def place_tie(session_id: str, ordinal: str) -> str:
    """Return the expression by which leaves of one time are in order: by session, then by position in it."""
    return f"{session_id} || char(31) || printf('%06d', {ordinal})"


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
    """Return our error for one of SQLite's, chosen by its message, as Python 3.10 has no error codes.

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


REASON_CHARS = 300
"""Most of an error that is kept with an index."""


def described(error: Exception) -> str:
    """Return an error of such code in words."""
    return f"failed: {cut(f'{type(error).__name__}: {error}', REASON_CHARS)}"


def named(error: BaseException) -> str:
    """Return an error of such code as a log may have it: its type and where it was raised, without what it says."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    if found is None:
        return type(error).__name__
    return (
        f"{type(error).__name__} in {found.tb_frame.f_globals.get('__name__', '?')}, line {found.tb_lineno}"
    )


@contextmanager
def undone(tx: Tx) -> Iterator[None]:
    """Undo at the end of the block what was written in it; an error undoes the transaction as always."""
    tx.execute("SAVEPOINT undone")
    yield
    tx.execute("ROLLBACK TO undone")
    tx.execute("RELEASE undone")


async def attempted(work: Awaitable[object]) -> Exception | None:
    """Await an index's work, which makes its own transactions; return the error that it raises.

    Raises:
        StoreError: if the file cannot be used.
    """
    try:
        await work
    except Exception as exc:
        if is_of_file(exc):
            raise
        return exc
    return None


def sqlite_abilities() -> tuple[str, list[str]]:
    """Try out, in memory, what the store needs of SQLite; return its version and, in words, what it lacks."""
    lacks = (
        []
        if sqlite3.sqlite_version_info >= MIN_SQLITE
        else [f"version {'.'.join(map(str, MIN_SQLITE))} or newer"]
    )
    with closing(sqlite3.connect(":memory:")) as conn:
        for name, statement in (
            ("the FTS5 full-text index", "CREATE VIRTUAL TABLE words USING fts5 (text)"),
            ("STRICT tables", "CREATE TABLE strict_one (id INTEGER) STRICT"),
        ):
            try:
                conn.execute(statement)
            except sqlite3.Error:
                lacks.append(name)
    return sqlite3.sqlite_version, lacks


def cipher_version() -> str | None:
    """Return the version of SQLCipher, None when it is not installed.

    Raises:
        ConfigError: if its SQLite is too old.
    """
    try:
        check_cipher()
    except ConfigError:
        return None
    module = library(encrypted=True)
    with closing(module.connect(":memory:")) as conn:
        [[version]] = conn.execute("PRAGMA cipher_version").fetchall()
    return f"{version.split()[0]} (SQLite {module.sqlite_version})"
