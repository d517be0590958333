"""What a deletion does with the file itself: the log behind it, and the file as a whole."""

from __future__ import annotations

import sys
from typing import NamedTuple

from memforest.store.connections import Connection, transaction
from memforest.store.db import CLOSE_TIMEOUT_MS, Database
from memforest.store.faults import mapped_errors
from memforest.store.files import remove_files
from memforest.store.gaps import read_log, scrub

ROUNDS = 3
"""Times that the log is emptied, if others go on writing meanwhile."""


class Purged(NamedTuple):
    """How a deletion ended: what the file says of "secure_delete", whether a reader holds the log, and whether the file was written anew."""

    secure_delete: bool
    wal_pending: bool
    vacuumed: bool


def purge(db: Database) -> Purged:
    """Fold the log into the file and empty it, so that what was deleted is in neither.

    A build that does not overwrite what it frees has the file written anew instead.
    Source: https://www.sqlite.org/pragma.html#pragma_secure_delete.

    Raises:
        StoreClosedError: if the database was closed.
        StoreWriteError: if there is no room for the copy.
    """
    with db.maintained() as conn:
        secure = conn.execute("PRAGMA secure_delete").fetchone()[0] == 1
        (waits,) = conn.execute("PRAGMA busy_timeout").fetchone()
        conn.execute(f"PRAGMA busy_timeout = {CLOSE_TIMEOUT_MS}")
        try:
            if not secure:
                conn.execute("VACUUM")
            db.unfinished = not any(_folded(db, conn) for _ in range(ROUNDS))
        finally:
            conn.execute(f"PRAGMA busy_timeout = {waits}")
        return Purged(secure, db.unfinished, not secure)


def _folded(db: Database, conn: Connection) -> bool:
    """Empty the log, and overwrite the gaps of the pages that were in it; return whether that was done.

    All pages are looked at where the log does not tell which have changed since the last time: it was begun anew
    meanwhile, or another connection has written just now.
    """
    version, log = _data_version(conn), read_log(db.path)
    known = log is not None and log.salt == db.next_salt
    db.next_salt = None
    if conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        return False
    conn.execute(
        "PRAGMA shrink_memory"
    )  # pages that are written back from memory would bring their gaps along
    with transaction(conn, writes=True):
        if read_log(db.path) is not None:
            return False  # somebody was quicker
        known = known and version == _data_version(conn)
        scrubbed = scrub(db.path, log.pages if known and log is not None else None)
        if scrubbed:  # so that every other connection reads the pages anew too
            conn.execute("UPDATE meta SET value = value WHERE key = 'generation'")
    version = _data_version(conn)
    if scrubbed and conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        return False
    if log is not None and version == _data_version(conn):
        db.next_salt = (log.salt + (2 if scrubbed else 1)) % (1 << 32)
    return True


def _data_version(conn: Connection) -> int:
    """Return a number that is another one when another connection has written."""
    return int(conn.execute("PRAGMA data_version").fetchone()[0])


def vacuum(db: Database) -> None:
    """Write the file anew without its unused pages.

    Source: https://www.sqlite.org/lang_vacuum.html; a crash leaves the file as it was.

    Raises:
        StoreLockedError: if another process is at work on it.
        StoreWriteError: if there is no room for the copy.
    """
    with db.maintained() as conn:
        conn.execute("VACUUM")


def remove(db: Database) -> int:
    """Delete a file with its log while nobody else writes to it, and close it; return how many files there were.

    Whoever else has it open gets a `StoreReplacedError` at the next call.

    Raises:
        StoreLockedError: if another process is writing for longer than the time-out.
        StoreWriteError: if a file cannot be deleted; on Windows, while another process has it open.
    """
    removed = 0
    with db.maintained() as conn, transaction(conn, writes=True):
        if sys.platform != "win32":  # there an open file cannot be deleted
            removed = remove_files(db.path)
    db.close()
    with mapped_errors(db.path):
        return removed or remove_files(db.path)
