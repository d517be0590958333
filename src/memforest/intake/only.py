"""Which of several servers of one directory works on its ingest jobs: whoever holds a lock that ends with its process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

from memforest.errors import StoreLockedError, StoreWriteError
from memforest.memory.directory import make_directory

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class OnlyOne:
    """A lock on a file, which the system takes back when the process ends, however it ends. For any thread.

    Args:
        path: of the file; it is made when the lock is taken for the first time, and stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._held: int | None = None

    def take(self) -> bool:
        """Take the lock unless somebody has it, and return whether this one has it now.

        Raises:
            StoreWriteError: if the file cannot be made.
        """
        with self._lock:
            if self._held is not None:
                return True
            make_directory(self.path.parent)
            try:
                file = os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except OSError as exc:
                raise StoreWriteError(f"the lock of the ingest jobs cannot be made: {exc.strerror}") from exc
            try:
                _lock(file)
            except OSError:
                os.close(file)
                return False
            self._held = file
            return True

    async def require(self) -> None:
        """Take the lock, or refuse.

        Raises:
            StoreLockedError: if another server has it.
            StoreWriteError: as `take`.
        """
        if not await asyncio.to_thread(self.take):
            raise StoreLockedError("another server works on the ingest jobs of this directory; send it there")

    def give(self) -> None:
        """Let another process have the lock."""
        with self._lock:
            if self._held is not None:
                os.close(self._held)
                self._held = None


def _lock(file: int) -> None:
    """Lock an open file for this process alone.

    Raises:
        OSError: if another one has it.
    """
    if sys.platform == "win32":
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
