"""One memory's database: connections, transactions, forks, and the schema of the file.

One file per user. Writes are short ``BEGIN IMMEDIATE`` transactions on one connection behind a lock. Reads run on
other connections inside a read transaction. A reader sees one state of the whole database, and never waits for a
writer (WAL). No transaction may be held across a model call.

No SQLite connection crosses a fork, and no thread is inside SQLite while one happens. SQLite keeps, per process and
file, which locks it holds. A forked child inherits that knowledge but not the locks, also for connections that it opens
itself, so another process may delete the log that the child writes to
(https://www.sqlite.org/howtocorrupt.html section 2.6). Therefore a fork waits until no thread is in a transaction, closes
every connection, and both processes open theirs anew at the next use. If a transaction outlasts `WAIT_S`, or the fork is
made from inside one, the child can use every memory but those in use at that moment, which it refuses with an error.

`PRAGMA user_version` holds the number of the schema (https://www.sqlite.org/pragma.html#pragma_user_version). Nothing has
been released, so a file of another schema is refused and not upgraded.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from memforest.concurrency import first_in_child, members, to_thread
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    IndexStateError,
    SchemaVersionError,
    StoreClosedError,
    StoreError,
    StoreKeyError,
    StoreLockedError,
    StoreWriteError,
    TimestampError,
)
from memforest.protection import AnyKey
from memforest.store.connections import (
    RESTORE,
    Connection,
    Tx,
    errors,
    library,
    mapped_errors,
    set_up_reader,
    set_up_writer,
    sqlite_damage,
    transaction,
)
from memforest.store.files import UNKNOWN, DatabaseFile, descriptors, release

T = TypeVar("T")
P = ParamSpec("P")


WAIT_S = 10.0
"""How long a fork waits for the transactions of other threads."""


class ForkGate:
    """Counts the threads in what a fork must not interrupt, as SQLite; while one is under way no more get in."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset the gate in a forked child, where the parent's threads do not exist."""
        self._change = threading.Condition()
        self._inside = 0
        self._forks = 0
        self._own = threading.local()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold off forks inside the block; may be nested in one thread."""
        depth = getattr(self._own, "depth", 0)
        if not depth:
            with self._change:
                while self._forks:
                    self._change.wait()
                self._inside += 1
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            if not depth:
                with self._change:
                    self._inside -= 1
                    self._change.notify_all()

    def shut(self, timeout_s: float = WAIT_S) -> bool:
        """Close the gate and wait until all threads are out; return whether they are. To be followed by `open`."""
        self._change.acquire()
        self._forks += 1
        if getattr(self._own, "depth", 0):
            return False
        return self._change.wait_for(lambda: not self._inside, timeout_s)

    def open(self) -> None:
        """Open the gate again, in the process that forked."""
        self._forks -= 1
        self._change.notify_all()
        self._change.release()


GATE = ForkGate()
"""The gate of this process."""


VERSION = 1
"""Of the schema in `schema.sql`; a change of that file is another number."""

_END = re.compile(r";\n+(?!\s|END;)")
"""The end of a statement; those inside of a trigger are indented, or stand before its END."""


def version(tx: Tx) -> int:
    """Return the number of a file's schema; 0 when it has none yet."""
    return int(tx.value("PRAGMA user_version"))


def make_schema(tx: Tx) -> None:
    """Make all tables, indexes and triggers of an empty file, within the transaction."""
    text = files("memforest.store").joinpath("schema.sql").read_text(encoding="utf-8")
    for statement in _END.split(text):
        tx.execute(statement)
    tx.execute(f"PRAGMA user_version = {VERSION}")


def ensure_schema(db: Database) -> None:
    """Make the schema of a new file, and refuse a file of another one, now and in later transactions.

    Raises:
        SchemaVersionError: if the file has another schema.
        StoreWriteError: if the file is new and cannot be written.
    """
    with db.read() as tx:
        is_new = version(tx) == 0 and tx.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if is_new:
        with db.write() as tx:
            if version(tx) == 0:
                make_schema(tx)
    db.expect_schema()


APPLICATION_ID = 0x4D46_7374
"""``PRAGMA application_id`` of our files ("MFst"), by which a foreign database is told apart."""

_RETRY_S = 0.01

MAX_IDLE_READERS = 2

CLOSE_TIMEOUT_MS = 500
"""How long closing waits for other processes before it leaves the write-ahead log as it is."""


class Database:
    """The connections to one file.

    Args:
        path: the file; made when it does not exist, for its owner alone.
        busy_timeout_s: how long a write waits for another process's write.
        readonly: only look: nothing is written, and no file made. So is a file that this process may not write.
        key: that of an encrypted file; a new one is encrypted with it.

    Raises:
        StoreError: if the file cannot be opened as ours; StoreKeyError if that is for want of the right key.
        ConfigError: if there is a key and SQLCipher is not installed.
    """

    def __init__(
        self, path: Path, *, busy_timeout_s: float = 30.0, readonly: bool = False, key: AnyKey | None = None
    ) -> None:
        library(encrypted=key is not None)  # before a file is made
        self.path = path = path.absolute()  # what SQLite has opened, wherever the process goes
        self._timeout_s = busy_timeout_s
        self._write_lock = threading.RLock()
        self._readers_lock = threading.Lock()
        self._idle: list[Connection] = []
        self._opened: set[Connection] = set()
        self._most_opened = 0
        self._has_schema = False
        # Of deletions: whether one has left text in the log, and the salt of the log behind the last.
        self.unfinished = False
        self.next_salt: int | None = None
        # Closes what is left open when the object goes, or the interpreter.
        self._finalise = weakref.finalize(self, _close_all, self._opened)
        self._writer: Connection | None = None
        self._examine: Callable[[Tx], str | None] = sqlite_damage
        if path.resolve() in _forbidden:
            raise StoreError(
                f"{path.name!r} was in use by another thread when this process was forked; start it with 'spawn'"
            )
        with GATE.inside():
            with mapped_errors(path):
                self.file = DatabaseFile(path, readonly=readonly, key=key)
            try:
                if self.file.readonly:
                    self._look()
                else:
                    self._open_writer(existed=self.file.existed)
            except BaseException:
                self._finalise()
                raise
        _alive.add(self)

    def _open_writer(self, *, existed: bool = True) -> Connection:
        """Open the writing connection, and return it."""
        if self.file.readonly:
            raise StoreWriteError(
                f"{self.path.name!r} cannot be written: the file or its directory is read-only"
            )
        conn = None
        try:
            with mapped_errors(self.path):
                conn = self._connect()
            self._set_up(conn, existed)
        except BaseException as exc:
            if conn is not None:
                self._drop(conn)
            if isinstance(exc, ForeignStoreError | StoreKeyError | CorruptStoreError):
                # Another file may have taken its place; one that was encrypted meanwhile is overwritten.
                self.file.require_open()
            raise
        self._writer = conn
        return conn

    def _set_up(self, conn: Connection, existed: bool) -> None:
        """Claim a new file, or check an old one, and set the pragmas.

        SQLite does not wait where waiting could be a deadlock, as when two processes switch a new file to WAL
        at the same time; so the waiting is done here.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                with mapped_errors(self.path, lambda: sqlite_damage(conn)):
                    found = conn.execute("PRAGMA application_id").fetchone()[0]
                    tables = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                    if found != APPLICATION_ID:
                        if existed and (found != 0 or tables):
                            raise self._foreign()
                        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self.file.require_open()  # a log would be made for the file that has its name now
                    set_up_writer(conn)
                return
            except StoreLockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)

    def _look(self) -> None:
        """Check that a file is ours, without writing to it; an empty one passes."""
        with mapped_errors(self.path):
            conn = self._connect()
            set_up_reader(conn)
            found = conn.execute("PRAGMA application_id").fetchone()[0]
            self._idle.append(conn)
        if self.file.existed and found != APPLICATION_ID:
            raise self._foreign()
        self.file.require_key_in_use()

    def _connect(self) -> Connection:
        conn = self.file.connect(self._timeout_s)
        self._opened.add(conn)
        self._most_opened = max(self._most_opened, len(self._opened))
        return conn

    def _drop(self, conn: Connection) -> None:
        self._opened.discard(conn)
        conn.close()

    def _foreign(self) -> ForeignStoreError:
        return ForeignStoreError(f"{self.path.name!r} is another program's database; use another directory")

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Run a write transaction; it is rolled back on any exception.

        Raises:
            StoreLockedError: if another process holds the write lock for longer than the time-out.
            StoreWriteError: if the disk is full or read-only.
            StoreClosedError: if the database was closed.
            StoreReplacedError: if the file was deleted or replaced since it was opened.
            SchemaVersionError: if the file has another schema.
            CorruptStoreError: if it fails on rows that contradict each other.
        """
        with GATE.inside(), self._write_lock, mapped_errors(self.path, self._diagnosis, IndexStateError):
            self.file.require_open()
            conn = self._writer or self._open_writer()
            with transaction(conn, writes=True):
                if self._has_schema and conn.value("PRAGMA user_version") != VERSION:
                    raise self._other_schema(conn)
                yield conn
            # Else it was committed into a file that has no name any more.
            self.file.require_open()

    async def writing(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **how: P.kwargs) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises. Errors are those of `write`."""

        def run() -> T:
            with self.write() as tx:
                return work(tx, *args, **how)

        return await to_thread(run)

    async def reading(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **how: P.kwargs) -> T:
        """Run work in a read transaction, in another thread. Errors are those of `read`."""

        def run() -> T:
            with self.read() as tx:
                return work(tx, *args, **how)

        return await to_thread(run)

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """Run a read transaction: every statement inside sees the same state.

        Raises:
            StoreClosedError: if the database was closed.
            StoreReplacedError: if the file was deleted or replaced since it was opened.
            CorruptStoreError: if it fails on rows that contradict each other.
        """
        with GATE.inside(), mapped_errors(self.path, self._diagnosis, TimestampError, IndexStateError):
            with self._readers_lock:
                self.file.require_open()
                while self._idle and self.file.readonly and self.file.outdated:
                    self._drop(self._idle.pop())
                idle = self._idle.pop() if self._idle else None
            conn = idle or self._connect()
            if idle is None:
                set_up_reader(conn)
            try:
                with transaction(conn):
                    if self._has_schema and conn.value("PRAGMA user_version") != VERSION:
                        raise self._other_schema(conn)
                    yield conn
                    if self.file.readonly:
                        self.file.check_unchanged()
            finally:
                with self._readers_lock:
                    kept = not self.file.closed and len(self._idle) < MAX_IDLE_READERS
                    if kept:
                        self._idle.append(conn)
                if not kept:
                    self._drop(conn)

    @contextmanager
    def fresh(self) -> Iterator[Tx]:
        """Run a read transaction on a connection of its own, for checks of the file.

        A connection remembers the structure of the lexical index. From SQLite 3.46 on the checks of one that
        others have written behind since report a "malformed inverted index" that is not there.

        Raises:
            StoreClosedError: if the database was closed.
            StoreReplacedError: if the file was deleted or replaced since it was opened.
        """
        with GATE.inside(), mapped_errors(self.path):
            self.file.require_open()
            conn = self._connect()
            try:
                set_up_reader(conn)
                with transaction(conn):
                    yield conn
            finally:
                self._drop(conn)

    def examine_with(self, examine: Callable[[Tx], str | None]) -> None:
        """Set the check that explains an unexpected error; it looks further than SQLite's own.

        Args:
            examine: says what is wrong with the memory and what to do about it; None when nothing is.
        """
        self._examine = examine

    def explain(self, error: Exception) -> None:
        """Raise an error of a read, as one that names the damage where only damage can have caused it.

        Raises:
            CorruptStoreError: if that is so; else the error as it is.
        """
        with mapped_errors(self.path, self._diagnosis, TimestampError):
            raise error

    def _diagnosis(self) -> str | None:
        """Return what is wrong with the file and what to do about it; None when nothing is found."""
        try:
            with self.fresh() as tx:
                return self._examine(tx)
        except CorruptStoreError as exc:
            return f"{exc.__cause__ or exc}; {RESTORE}"
        except StoreError:
            return None  # it cannot be looked at now: closed, or in use

    def expect_schema(self) -> None:
        """Refuse a file of another schema, now and at the beginning of each later transaction.

        Raises:
            SchemaVersionError: if it is one.
        """
        self._has_schema = True
        with self.read():
            pass

    def _other_schema(self, tx: Tx) -> SchemaVersionError:
        """Return the error of a file of another schema, also one that was put in the place of ours while it was open."""
        return SchemaVersionError(
            f"{self.path.name!r} has schema {version(tx)} and this memforest reads schema {VERSION} alone; "
            "export it with the version that wrote it, and import that here"
        )

    @property
    def open_files(self) -> int:
        """Files that the connections hold: each the database and its log, all together the log's index.

        A closed connection's descriptor of the database stays until the last one closes, and is used again by
        the next: SQLite must not close it, as that would drop the process's POSIX locks on the file.
        Source: https://www.sqlite.org/howtocorrupt.html section 2.2; `os_unix.c`, "POSIX Advisory Locks".
        """
        more = 1 + len(descriptors.get(self.file.identity or UNKNOWN, ()))
        return len(self._opened) + self._most_opened + more if self._opened else 0

    @contextmanager
    def maintained(self) -> Iterator[Connection]:
        """Yield the writing connection in no transaction, for work on the whole file; nobody here writes meanwhile.

        Raises:
            StoreClosedError: if the database was closed.
            StoreLockedError: if another process is at work on it.
            StoreWriteError: if the disk is full or read-only.
        """
        with GATE.inside(), self._write_lock, mapped_errors(self.path, self._diagnosis):
            self.file.require_open()
            yield self._writer or self._open_writer()

    @contextmanager
    def unfolded(self) -> Iterator[None]:
        """Leave in the log what is written meanwhile, however much: `purge` finds in it which pages have changed.

        Errors are those of `maintained`.
        """
        with self.maintained() as conn:
            (pages,) = conn.execute("PRAGMA wal_autocheckpoint").fetchone()
            conn.execute("PRAGMA wal_autocheckpoint = 0")
        try:
            yield
        finally:
            with suppress(StoreClosedError), self.maintained() as conn:
                conn.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file, as far as readers allow; errors are those of `maintained`."""
        with self.maintained() as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Fold the write-ahead log into the file and close every connection; a second call does nothing."""
        with GATE.inside(), self._write_lock, self._readers_lock:
            if self.file.closed:
                return
            self.file.closed = True
            # A reader in use elsewhere is closed when it is given back.
            while self._idle:
                self._drop(self._idle.pop())
            if self._writer is None:  # since a fork
                return
            try:
                # Another process may be at work: then the log stays beside the file and loses nothing.
                self._writer.execute(f"PRAGMA busy_timeout = {CLOSE_TIMEOUT_MS}")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except errors():
                pass
            finally:
                self._drop(self._writer)
                others = [one for one in members(_alive) if one._opened]
                if all(one.file.identity != self.file.identity for one in others):
                    release(self.file.identity)


def _close_all(connections: set[Connection]) -> None:
    """Close connections that nobody uses any more."""
    while connections:
        connections.pop().close()


_alive: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[set[Connection]] = []
_forbidden: set[Path] = set()


def _before_fork() -> None:
    if GATE.shut():
        for db in members(_alive):
            db._idle.clear()
            db._writer = None
            _close_all(db._opened)


def _after_fork_in_child() -> None:
    GATE.reset()
    for db in members(_alive):
        if db._opened:
            # Still in use in the parent: neither used nor closed here, and kept, untouched, for ever.
            db._finalise.detach()
            _inherited.append(db._opened)
            _forbidden.add(db.path.resolve())


if sys.platform != "win32":
    os.register_at_fork(before=_before_fork, after_in_parent=GATE.open)
    first_in_child(_after_fork_in_child)
