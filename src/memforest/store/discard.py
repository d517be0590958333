"""Removing the file of a memory that was made and never written."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from memforest.keys import Key
from memforest.store import salts
from memforest.store.faults import mapped_errors
from memforest.store.files import DatabaseFile
from memforest.store.import_rows import holds_something


def discard_unwritten(path: Path, key: Key | None = None, *, salt: bool = False) -> bool:
    """Delete the file of a memory to which nothing was ever written, if there is one, and return whether there was.

    The lock that is held meanwhile is had only when nobody else has the file open.
    Source: https://www.sqlite.org/pragma.html#pragma_locking_mode.

    Args:
        path: the file.
        key: of an encrypted one.
        salt: whether its salt goes too, as it was made with the file; one that was there before may be a backup's.

    Raises:
        StoreLockedError: if another process has it open.
        StoreError: if it cannot be read.
    """
    if not path.exists():
        return False
    with mapped_errors(path):
        with closing(DatabaseFile(path, readonly=False, key=key).connect(0.0)) as conn:
            conn.execute("PRAGMA locking_mode = exclusive")
            if holds_something(conn):
                return False
            conn.execute("PRAGMA journal_mode = delete")
            if salt:  # first, as in `remove_files`: a file that is made later must not be encrypted with it
                salts.erase(path)
            if sys.platform != "win32":
                path.unlink()
        if sys.platform == "win32":  # which deletes no file that is open
            path.unlink()
    return True
