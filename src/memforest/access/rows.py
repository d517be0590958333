"""The file of keys: one row a key, and the only place of this room that speaks SQL.

A key itself is never stored, only its SHA-256. The file is for its owner alone (0600) in a directory that is too (0700).
Several processes may read and write it: the server, and `memforest keys` beside it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from memforest.errors import SchemaVersionError
from memforest.memory.directory import make_directory
from memforest.store.faults import mapped_errors
from memforest.store.files import Identity, identity_of, make_own, refuse_link

VERSION = 1
BUSY_S = 10.0
"""How long a statement waits for another process; all of them are short."""

AGAIN_S = 0.01

_SCHEMA = """
CREATE TABLE key (
  id TEXT PRIMARY KEY NOT NULL,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  name TEXT NOT NULL,
  tenant TEXT,
  user TEXT,
  scopes TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER,
  used_ms INTEGER,
  revoked_ms INTEGER
) STRICT
"""
_SCHEMA_PLAIN = _SCHEMA.replace(" STRICT", "")
"""For an SQLite before 3.37."""
_COLUMNS = "id, digest, name, tenant, user, scopes, created_ms, expires_ms, used_ms, revoked_ms"


class KeyRow(NamedTuple):
    """A key as it is stored; times are milliseconds since 1970."""

    id: str
    digest: bytes
    name: str
    tenant: str | None
    user: str | None
    scopes: str
    created_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None
    revoked_ms: int | None = None


class KeyFile:
    """The rows of keys of one server. Not for several threads at once.

    Args:
        path: the file; it is made by the first `add`.

    Raises:
        StoreError: by every method, if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._conn: sqlite3.Connection | None = None
        self._identity: Identity | None = None
        self._seen: tuple[object, ...] | None = None

    def there(self) -> bool:
        """Return whether there is a file, whatever is in it, or a link in its place."""
        with self._mapped():
            return os.path.lexists(self.path)

    def changed(self) -> bool:
        """Return whether the file has come, gone, or been changed by another connection since this was asked last."""
        with self._mapped():
            state: tuple[object, ...] = ()
            if (conn := self._opened(make=False)) is not None:
                # Counts what other connections have committed: https://www.sqlite.org/pragma.html#pragma_data_version
                state = (identity_of(self.path), *conn.execute("PRAGMA data_version").fetchone())
            before, self._seen = self._seen, state
            return state != before

    def rows(self) -> list[KeyRow]:
        """Return all keys that were ever made, oldest first; none without a file."""
        with self._mapped():
            if (conn := self._opened(make=False)) is None:
                return []
            return [
                KeyRow(*row)
                for row in conn.execute(f"SELECT {_COLUMNS} FROM key ORDER BY created_ms, rowid").fetchall()
            ]

    def add(self, row: KeyRow, now_ms: int) -> bool:
        """Store a key unless one that can still be used has its name; return whether it was stored."""
        with self._writing(make=True) as conn:
            [[taken]] = conn.execute(
                """SELECT count(*) FROM key WHERE name = ? AND revoked_ms IS NULL
                   AND (expires_ms IS NULL OR expires_ms > ?)""",
                (row.name, now_ms),
            ).fetchall()
            if taken:
                return False
            conn.execute(f"INSERT INTO key ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
            return True

    def revoke(self, key_id: str, at_ms: int) -> None:
        """Mark a key as revoked; the time of the first revocation stays."""
        with self._writing() as conn:
            conn.execute("UPDATE key SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL", (at_ms, key_id))

    def erase(self, key_id: str) -> None:
        """Take name, tenant and user out of a key's row, and out of the file; that there was a key stays."""
        with self._writing() as conn:
            conn.execute("UPDATE key SET name = '', tenant = NULL, user = NULL WHERE id = ?", (key_id,))
        with self._mapped():
            # The row was overwritten; the log has it still: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def note_use(self, used: Iterable[tuple[str, int]]) -> None:
        """Record when keys were last used, as (id, time); a later time stays."""
        with self._writing() as conn:
            conn.executemany(
                "UPDATE key SET used_ms = max(coalesce(used_ms, 0), ?) WHERE id = ?",
                [(at_ms, key_id) for key_id, at_ms in used],
            )

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        conn, self._conn = self._conn, None
        self._seen = None
        if conn is not None:
            conn.close()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        with mapped_errors(self.path):
            yield

    @contextmanager
    def _writing(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        """Give a connection with a write transaction, committed at the end unless the block raises."""
        with self._mapped():
            conn = self._opened(make=make)
            if conn is None:
                raise FileNotFoundError(2, "no key was ever made", self.path.name)
            conn.execute("BEGIN IMMEDIATE")
            try:
                yield conn
            except BaseException:
                if conn.in_transaction:  # SQLite ends it itself on a full disk
                    conn.execute("ROLLBACK")
                raise
            conn.execute("COMMIT")

    def _opened(self, *, make: bool) -> sqlite3.Connection | None:
        """Return a connection to the file that is there now; None when there is none and none is made."""
        there = identity_of(self.path)
        if self._conn is not None and there != self._identity:
            self._conn.close()
            self._conn = None
        if self._conn is None:
            if there is None and not make:
                return None
            self._conn = self._connect()
            self._identity = identity_of(self.path)
        return self._conn

    def _connect(self) -> sqlite3.Connection:
        make_directory(self.path.parent.parent)
        make_directory(self.path.parent)
        refuse_link(self.path)
        make_own(self.path)
        # Who may write into the directory could put another file in the place of this one.
        with suppress(PermissionError):  # somebody else's directory is theirs to guard
            _tighten(self.path.parent, 0o700)
        _tighten(self.path, 0o600)
        conn = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self._settle(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def _settle(self, conn: sqlite3.Connection) -> None:
        """Set a connection up; while others do so too, SQLite may say at once that the file is locked, without waiting."""
        until = time.monotonic() + BUSY_S
        while True:
            try:
                self._set_up(conn)
            except sqlite3.OperationalError as exc:
                if "locked" not in str(exc) or time.monotonic() >= until:
                    raise
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                time.sleep(AGAIN_S)
            else:
                return

    def _set_up(self, conn: sqlite3.Connection) -> None:
        conn.execute("PRAGMA journal_mode = wal")
        conn.execute("PRAGMA synchronous = full")
        conn.execute("PRAGMA secure_delete = on")
        conn.execute("PRAGMA trusted_schema = off")
        if self._version(conn) == 0:
            conn.execute("BEGIN IMMEDIATE")
            if self._version(conn) == 0:  # another process may have made it just now
                conn.execute(_SCHEMA if sqlite3.sqlite_version_info >= (3, 37) else _SCHEMA_PLAIN)
                conn.execute(f"PRAGMA user_version = {VERSION}")
            conn.execute("COMMIT")
        if self._version(conn) != VERSION:
            raise SchemaVersionError(
                f"{self.path.name!r} was written by another version of memforest; use that one, or make the keys anew"
            )

    def _version(self, conn: sqlite3.Connection) -> int:
        return int(conn.execute("PRAGMA user_version").fetchone()[0])


def _tighten(path: Path, mode: int) -> None:
    """Take everybody else's rights to a file or directory of ours away; no-op on Windows."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(mode)
