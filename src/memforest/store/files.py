"""A memory's file in the file system: made for its owner alone, or looked at without leaving a trace.

Everything here goes by names; only SQLite opens a database that is there, because closing it in any other way would
drop the locks of every connection that this process has to it
(https://www.sqlite.org/howtocorrupt.html section 2.2).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from urllib.parse import quote_from_bytes

from memforest.errors import ForeignStoreError, StoreLockedError, StoreWriteError
from memforest.store.connections import Connection, connect

__all__ = [
    "OWN_DIRECTORY",
    "DatabaseFile",
    "Identity",
    "State",
    "count_files",
    "identity_of",
    "remove_files",
    "state_of",
]

OWN_FILE = 0o600
"""Mode of the files that we make: for their owner alone, whatever the umask."""
OWN_DIRECTORY = 0o700

State = tuple[int, int, int, int]
"""Inode, size and time of change of a file, and the size of its write-ahead log."""

Identity = tuple[int, int]
"""Device and number of a file; one that has another file's path is another file."""

UNKNOWN: Identity = (0, 0)
"""Of a file on a system that numbers none."""

LEAST_BYTES = 512
"""The smallest page, so the smallest database (https://www.sqlite.org/fileformat.html section 1.3). SQLite takes a
file of one byte for an empty database."""

_making = threading.Lock()


class DatabaseFile:
    """A file that is to be opened, checked as far as that goes without reading it; made when it does not exist.

    Args:
        path: the file.
        readonly: only look: nothing is written, and no file made. So is a file that this process may not write.

    Raises:
        ForeignStoreError: if it is a link, or too small for a database.
        OSError: if it cannot be made.
    """

    def __init__(self, path: Path, *, readonly: bool) -> None:
        self.path = path
        self._seen: State = (0, 0, 0, 0)
        self.private = True
        """Whether nobody else can use the file; False for somebody else's file that others can use."""
        _refuse_link(path)
        self.readonly = readonly or _is_read_only(path)
        if not self.readonly:
            _make_own(path)
            self.private = _tighten(path)
        size = path.stat().st_size
        self.existed = size > 0
        """Whether there was something in it."""
        if 0 < size < LEAST_BYTES:
            raise ForeignStoreError(f"{path.name!r} is not a memforest database; use another directory")

    def connect(self, timeout_s: float) -> Connection:
        """Return a connection of SQLite's; of a file that is only looked at, one that writes nothing.

        A file without a log is opened as one that nobody changes, because SQLite would make a log and its index for
        any other; `check_unchanged` says whether that was so. With a log, it is read by way of its index, which SQLite
        makes if it is not there.
        Source: https://www.sqlite.org/wal.html#read_only_databases, https://www.sqlite.org/uri.html.
        """
        if not self.readonly:
            return connect(self.path, timeout_s)
        self._seen = state_of(self.path)
        has_log = self._seen[3] > 0
        place = quote_from_bytes(os.fsencode(self.path.absolute().as_posix()), safe="/:")
        # Not `Path.as_uri`: SQLite wants the server of a Windows share behind an empty authority.
        uri = f"file://{'' if place[0] == '/' else '/'}{place}?mode=ro{'' if has_log else '&immutable=1'}"
        conn = connect(uri, timeout_s)
        try:
            conn.execute("PRAGMA schema_version").fetchone()
        except sqlite3.Error as exc:
            conn.close()
            if not has_log or "unable to open" not in str(exc):
                raise
            raise StoreWriteError(
                f"{self.path.name!r} has a write-ahead log, and its index is not there and cannot be made ({exc}): copy "
                "both files to a directory that can be written, or open them there once"
            ) from exc
        return conn

    @property
    def outdated(self) -> bool:
        """Whether a file that is only looked at has been written since the last connection to it was opened."""
        return self.readonly and state_of(self.path) != self._seen

    def check_unchanged(self) -> None:
        """Refuse what was read from a file that was opened as one that nobody changes, and was changed.

        Raises:
            StoreLockedError: if that is so.
        """
        if self.readonly and not self._seen[3] and self.outdated:
            raise StoreLockedError(f"{self.path.name!r} was written while it was read; try again")

    def require_writable(self) -> None:
        """Raise `StoreWriteError` for a file that is only looked at."""
        if self.readonly:
            raise StoreWriteError(
                f"{self.path.name!r} cannot be written: the file or its directory is read-only"
            )


def _make_own(path: Path) -> None:
    """Make an empty file that only its owner can use, unless there is a file; SQLite gives its log the same mode.

    Raises:
        OSError: if the file cannot be made.
    """
    with _making:  # nobody has opened by way of SQLite what is closed here
        try:
            made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, OWN_FILE)
        except FileExistsError:
            pass
        else:
            try:
                if sys.platform != "win32":
                    os.fchmod(made, OWN_FILE)  # a umask may take away the owner's rights too
            finally:
                os.close(made)


def _refuse_link(path: Path) -> None:
    """Refuse a name that is a link's: what is read and written must be here and nowhere else.

    Raises:
        ForeignStoreError: if it is one.
    """
    if path.is_symlink():
        raise ForeignStoreError(
            f"{path.name!r} is a link; put the file itself here (the directory may be a link)"
        )


def _tighten(path: Path) -> bool:
    """Take everybody else's rights to a database and its log away, as far as they are ours; no-op on Windows.

    Returns:
        Whether nobody else can use them now.
    """
    if sys.platform == "win32":
        return True
    private = True
    for name in (path, _beside(path, "-wal"), _beside(path, "-shm")):
        try:
            found = name.lstat()
            if not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o077:
                continue
            if found.st_uid == os.geteuid():
                name.chmod(OWN_FILE)
            else:
                private = False
        except FileNotFoundError:
            continue  # another process has closed the database
        except PermissionError:
            private = False
    return private


def _is_read_only(path: Path) -> bool:
    """Return whether a file is there that this process may not write, or whose directory it may not write.

    Both are needed: SQLite keeps its log beside the file.
    """
    how = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    return path.exists() and not all(os.access(one, os.W_OK, **how) for one in (path, path.parent))


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file at a path, None when there is none.

    Raises:
        OSError: if the path cannot be looked at.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found.st_ino else UNKNOWN


def state_of(path: Path) -> State:
    """Return the state of a file (size and times) that changes with every write to it."""
    found = path.stat()
    try:
        log = _beside(path, "-wal").stat().st_size
    except FileNotFoundError:
        log = 0
    return found.st_ino, found.st_size, found.st_mtime_ns, log


def remove_files(path: Path) -> int:
    """Delete a database with its log and the log's index; return how many files there were. Its last holder closes it.

    The database goes behind the log, so that no log is left for one that is made later in its place, and what somebody
    opened in between goes last.

    Raises:
        OSError: if one of them cannot be deleted.
    """
    beside = _all_beside(path)
    return sum(_unlinked(one) for one in (*beside, path, *beside))


def count_files(path: Path) -> int:
    """Return how many files a database has."""
    return sum(one.exists() for one in (path, *_all_beside(path)))


def _all_beside(path: Path) -> list[Path]:
    return [_beside(path, suffix) for suffix in ("-salt", "-wal", "-shm", "-journal")]


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
