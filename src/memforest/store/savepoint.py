"""Work inside a transaction that may fail by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from memforest.errors import StoreError
from memforest.store.db import Tx

__all__ = ["attempt"]


def attempt(tx: Tx, work: Callable[[], object]) -> Exception | None:
    """Run work in a savepoint; if it raises, undo what it wrote and return the error.

    It is for code that is not ours: errors of the file go through.

    Raises:
        sqlite3.Error: if the file cannot be read or written.
        StoreError: if the file cannot be used.
    """
    tx.execute("SAVEPOINT work")
    try:
        work()
    except (StoreError, sqlite3.Error, OSError):
        raise
    except Exception as exc:  # noqa: BLE001 - whatever somebody's code raises, it is returned
        tx.execute("ROLLBACK TO work")
        tx.execute("RELEASE work")
        return exc
    tx.execute("RELEASE work")
    return None
