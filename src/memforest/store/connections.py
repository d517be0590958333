"""One connection: how it is opened and set up, and its read transactions.

Source of the pragmas: https://www.sqlite.org/pragma.html, https://www.sqlite.org/wal.html.
"""

from __future__ import annotations

import json
import sqlite3
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from memforest.errors import StoreError
from memforest.keys import FileKey
from memforest.store.engine import library
from memforest.store.tx import Args, Tx

PRAGMAS: tuple[tuple[str, str, object], ...] = (
    # name, value to set, value to read back
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),  # what ingest acknowledged survives a power cut
    ("foreign_keys", "on", 1),
    ("secure_delete", "on", 1),  # deleted text is overwritten, not only unlinked
    ("temp_store", "memory", 2),  # no transcript text in temporary files
)


CACHED_STATEMENTS = 512
"""Prepared statements that a connection keeps. An ingest runs more different ones than the 100 that SQLCipher's module
keeps by default, and with those it would compile most of them anew each time: 1.4 times the processor time."""


class _Statements:
    """What a connection has beyond the DB-API."""

    def insert(self, sql: str, args: Args = (), /) -> int:
        """Insert one row and return the number that it was given; see `Tx.insert`."""
        # To its end: a statement with rows left stays in the way of what comes next.
        rows = cast("Tx", self).execute(sql, args).fetchall()
        if not rows:
            raise LookupError(f"nothing was inserted by {sql!r}")
        return int(rows[0][0])

    def ids(self, wanted: Iterable[int] | Iterable[str], /) -> str:
        """Return row ids or keys as one value; see `Tx.ids`."""
        return json.dumps(list(wanted))


class Connection(_Statements, sqlite3.Connection):
    """A connection to the file; in a transaction it is the `memforest.store.tx.Tx` of that."""


@cache
def _kind_of(module: Any) -> type[Connection]:
    """Return the class of connections of a library; SQLCipher's is another one of the same shape."""
    if module is sqlite3:
        return Connection
    return cast("type[Connection]", type("Connection", (_Statements, module.Connection), {}))


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
    conn: Connection = module.connect(
        place,
        uri=isinstance(place, str),
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
        factory=_kind_of(module),
    )
    if key is not None:
        conn.execute(f"PRAGMA key = {pragma_key(key)}").fetchall()
    # A flipped bit may leave a text that is no UTF-8: it must not hide the others. `verify` names it.
    conn.text_factory = _decoded
    return conn


def pragma_key(key: FileKey) -> str:
    """Return a key as SQLCipher takes one that is derived already, quoted: hexadecimal digits of ours, nothing from outside.

    Source: https://www.zetetic.net/sqlcipher/sqlcipher-api/#key, "Raw Key Data".
    """
    return f"\"x'{key.raw.hex()}'\""


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


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
