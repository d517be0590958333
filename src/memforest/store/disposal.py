"""What a deletion does with the file itself: the log behind it, and the file as a whole."""

from __future__ import annotations

import sys
from typing import NamedTuple

from memforest.store.connections import transaction
from memforest.store.db import CLOSE_TIMEOUT_MS, Database
from memforest.store.faults import mapped_errors
from memforest.store.files import remove_files

__all__ = ["Purged", "purge", "remove"]


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
            busy = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            conn.execute(f"PRAGMA busy_timeout = {waits}")
        return Purged(secure, bool(busy), not secure)


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
