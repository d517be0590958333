"""Connections to one memory's SQLite file: pragmas, transactions, and the mapping of SQLite's errors.

One file per user. Writes are short ``BEGIN IMMEDIATE`` transactions on one connection behind a lock;
reads run on other connections inside a read transaction, so a reader sees one state of the whole
database and never waits for a writer (WAL). No transaction may be held across a model call.

Source of the pragmas: https://www.sqlite.org/pragma.html, https://www.sqlite.org/wal.html.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memforest.errors import (
    ConfigError,
    CorruptStoreError,
    ForeignStoreError,
    MemForestError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
)

__all__ = ["APPLICATION_ID", "Database", "Tx", "mapped_errors"]

Tx = sqlite3.Connection
"""An open transaction: the argument of every function of the store."""

APPLICATION_ID = 0x4D46_7374
"""``PRAGMA application_id`` of our files ("MFst"), by which a foreign database is told apart."""

MIN_SQLITE = (3, 37, 0)
"""STRICT tables came with 3.37: https://www.sqlite.org/stricttables.html."""

_LEAST_BYTES = 512
"""The smallest page, so the smallest database (https://www.sqlite.org/fileformat.html section 1.3). SQLite takes a
file of one byte for an empty database. We must not look into the file ourselves: closing it would drop the locks
of every connection that this process has to it (https://www.sqlite.org/howtocorrupt.html section 2.2)."""

_RETRY_S = 0.01

_DAMAGE = ("malformed", "could not decode", "constructor failed", "corrupt")

MAX_IDLE_READERS = 2

CLOSE_TIMEOUT_MS = 500
"""How long closing waits for other processes before it leaves the write-ahead log as it is."""

_PRAGMAS: tuple[tuple[str, str, object], ...] = (
    # name, value to set, value to read back
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),  # what ingest acknowledged survives a power cut
    ("foreign_keys", "on", 1),
    ("secure_delete", "on", 1),  # deleted text is overwritten, not only unlinked
    ("temp_store", "memory", 2),  # no transcript text in temporary files
)


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


class Database:
    """The connections to one file.

    Args:
        path: the file; made when it does not exist.
        busy_timeout_s: how long a write waits for another process's write.

    Raises:
        StoreError: if the file cannot be opened as ours.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 30.0) -> None:
        if sqlite3.sqlite_version_info < MIN_SQLITE:
            raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
        self.path = path
        self._timeout_s = busy_timeout_s
        self._write_lock = threading.RLock()
        self._readers_lock = threading.Lock()
        self._idle: list[Tx] = []
        self._closed = False
        self._opened: set[Tx] = set()
        # Closes what is left open when the object goes, or the interpreter.
        self._finalise = weakref.finalize(self, _close_all, self._opened)
        with mapped_errors(path):
            size = path.stat().st_size if path.exists() else 0
            existed = size > 0
            if existed and size < _LEAST_BYTES:
                raise ForeignStoreError(f"{path.name!r} is not a memforest database; use another directory")
            try:
                self._writer = self._connect()
            except sqlite3.Error:
                self._finalise()
                raise
        try:
            self._set_up(existed)
        except StoreError:
            self._finalise()
            raise
        _alive.add(self)

    def _set_up(self, existed: bool) -> None:
        """Claim a new file, or check an old one, and set the pragmas.

        SQLite does not wait where waiting could be a deadlock, as when two processes switch a new file to WAL
        at the same time; so the waiting is done here.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                with mapped_errors(self.path, self._writer):
                    self._check_ours(existed)
                    for name, value, expected in _PRAGMAS:
                        _set_pragma(self._writer, name, value, expected)
                return
            except StoreLockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)

    def _connect(self) -> Tx:
        conn = sqlite3.connect(
            self.path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
        )
        self._opened.add(conn)
        # Reads of the header fail here already when the file is no database.
        conn.execute("PRAGMA schema_version").fetchone()
        return conn

    def _drop(self, conn: Tx) -> None:
        self._opened.discard(conn)
        conn.close()

    def _check_ours(self, existed: bool) -> None:
        found = self._writer.execute("PRAGMA application_id").fetchone()[0]
        tables = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == APPLICATION_ID:
            return
        if existed and (found != 0 or tables):
            raise ForeignStoreError(
                f"{self.path.name!r} is another program's database; use another directory"
            )
        self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Run a write transaction; it is rolled back on any exception.

        Raises:
            StoreLockedError: if another process holds the write lock for longer than the time-out.
            StoreWriteError: if the disk is full or read-only.
            StoreClosedError: if the database was closed.
        """
        with self._write_lock, mapped_errors(self.path, self._writer):
            self._require_open()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already; a second error would mask the first.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """Run a read transaction: every statement inside sees the same state.

        Raises:
            StoreClosedError: if the database was closed.
        """
        with mapped_errors(self.path):
            conn = self._take_reader()
            try:
                conn.execute("BEGIN")
                try:
                    with mapped_errors(self.path, conn):
                        yield conn
                finally:
                    # An I/O error may have ended the transaction already.
                    if conn.in_transaction:
                        conn.execute("ROLLBACK")
            finally:
                self._return_reader(conn)

    def _take_reader(self) -> Tx:
        with self._readers_lock:
            self._require_open()
            if self._idle:
                return self._idle.pop()
        conn = self._connect()
        _set_pragma(conn, "query_only", "on", 1)
        _set_pragma(conn, "temp_store", "memory", 2)
        return conn

    def _return_reader(self, conn: Tx) -> None:
        with self._readers_lock:
            if not self._closed and len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(conn)
                return
        self._drop(conn)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.path.name!r} was closed; open the memory again")

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file, as far as readers allow.

        Raises:
            StoreClosedError: if the database was closed.
        """
        with self._write_lock, mapped_errors(self.path):
            self._require_open()
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Fold the write-ahead log into the file and close every connection; a second call does nothing."""
        with self._write_lock, self._readers_lock:
            if self._closed:
                return
            self._closed = True
            # A reader in use elsewhere is closed when it is given back.
            while self._idle:
                self._drop(self._idle.pop())
            try:
                # Another process may be at work: then the log stays beside the file and loses nothing.
                self._writer.execute(f"PRAGMA busy_timeout = {CLOSE_TIMEOUT_MS}")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error:
                pass
            finally:
                self._drop(self._writer)


def _close_all(connections: set[Tx]) -> None:
    """Close connections that nobody uses any more."""
    while connections:
        connections.pop().close()


def _set_pragma(conn: Tx, name: str, value: str, expected: object) -> None:
    """Set a pragma and read it back, because SQLite ignores what it cannot do in silence."""
    conn.execute(f"PRAGMA {name} = {value}")
    got = conn.execute(f"PRAGMA {name}").fetchone()[0]
    if got != expected:
        raise StoreError(
            f"SQLite kept PRAGMA {name} at {got!r} instead of {expected!r}; is the disk a network share?"
        )


_alive: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[set[Tx]] = []


def _after_fork_in_child() -> None:
    # SQLite connections must neither be used nor closed in a child of the process that opened them
    # (https://www.sqlite.org/howtocorrupt.html, section 2.6). So they are kept, untouched, for ever.
    for db in list(_alive):
        db._finalise.detach()
        _inherited.append(db._opened)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
