"""A memory's file in the file system: made for its owner alone, or looked at without leaving a trace.

Everything here goes by names; only SQLite opens a database that is there, because closing it in any other way would
drop the locks of every connection that this process has to it
(https://www.sqlite.org/howtocorrupt.html section 2.2).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path
from urllib.parse import quote_from_bytes

from memforest.errors import (
    ForeignStoreError,
    StoreKeyError,
    StoreLockedError,
    StoreReplacedError,
    StoreWriteError,
)
from memforest.keys import AnyKey, FileKey, Key
from memforest.store import salts
from memforest.store.connections import Connection, connect
from memforest.store.engine import errors, not_a_database
from memforest.store.salts import OWN_FILE

UNFINISHED = ("-new", "-old")
"""Endings of the files that stand beside a memory's while it is encrypted, decrypted or given another key."""

BESIDE = ("-wal", "-shm", "-journal", "-salt", *UNFINISHED)
"""Endings of the files that may stand beside a memory's and are part of it: SQLite's logs, the salt of an encrypted one,
and what is there while that changes."""

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
        key: with it a new file is encrypted; None for an unencrypted one. The key of the file itself needs no salt beside it.

    Raises:
        ForeignStoreError: if it is a link, or too small for a database.
        StoreKeyError: if it is encrypted, and the key is missing or another one.
        OSError: if it cannot be made.
    """

    def __init__(self, path: Path, *, readonly: bool, key: AnyKey | None = None) -> None:
        self.path = path
        self._salt_made = False
        self.plain_with_key = False
        """Whether there is a key, and nothing says that the file is encrypted; it is only looked at then."""
        self._seen: State = (0, 0, 0, 0)
        self.private = True
        """Whether nobody else can use the file; False for somebody else's file that others can use."""
        refuse_link(path)
        refuse_link(salts.salt_file(path))
        self.readonly = readonly or _is_read_only(path)
        self.key = key if isinstance(key, FileKey) else self._unlocked(key)
        """The key of the file; None for an unencrypted one."""
        self.readonly = self.readonly or self.plain_with_key
        if not self.readonly:
            make_own(path)
            self.private = _tighten(path)
        size = path.stat().st_size
        self.existed = size > 0
        """Whether there was something in it."""
        if 0 < size < LEAST_BYTES:
            raise ForeignStoreError(f"{path.name!r} is not a memforest database; use another directory")
        self.identity = identity_of(path)

    def connect(self, timeout_s: float) -> Connection:
        """Return a connection of SQLite's; of a file that is only looked at, one that writes nothing.

        A file without a log is opened as one that nobody changes, because SQLite would make a log and its index for
        any other; `check_unchanged` says whether that was so. With a log, it is read by way of its index, which SQLite
        makes if it is not there.
        Source: https://www.sqlite.org/wal.html#read_only_databases, https://www.sqlite.org/uri.html.
        """
        place: Path | str = self.path
        if self.readonly:
            self._seen = state_of(self.path)
            place = uri_of(self.path, unchanging=not self._seen[3])
        conn = connect(place, timeout_s, self.key)
        try:
            # Reads of the header fail here already when the file is no database, or another key's.
            conn.execute("PRAGMA schema_version").fetchone()
        except errors() as exc:
            conn.close()
            raise self._unreadable(exc) from exc
        return conn

    def _unlocked(self, key: Key | None) -> FileKey | None:
        """Return the key that the file is read with, by what its salt says; None for an unencrypted one.

        Raises:
            StoreKeyError: if the key is missing, or another one.
        """
        salt = salts.read(self.path)
        if key is None:
            if salt is not None and not salt.plain:
                raise StoreKeyError(
                    f"{self.path.name!r} is encrypted, and no key is configured; set MEMFOREST_KEY, or Config(key=...)"
                )
            return None
        if salt is None:
            self.plain_with_key = _size_of(self.path) > 0
            if self.plain_with_key or self.readonly:
                return None
            salt, self._salt_made = salts.make(self.path, key)
        own = key.of_file(salt.salt)
        if own.check in salt.checks:
            return own
        if salt.plain:
            self.plain_with_key = True
            return None
        raise StoreKeyError(
            f"{self.path.name!r} is encrypted with another key than the one configured, or {self.path.name}-salt is the "
            "salt of another memory; configure its key, or put its own salt file back"
        )

    def _unreadable(self, error: Exception) -> Exception:
        """Return the error of a file that cannot be opened, with what to do."""
        name = self.path.name
        if self.readonly and self._seen[3] and "unable to open" in str(error):
            return StoreWriteError(
                f"{name!r} has a write-ahead log, and its index is not there and cannot be made ({error}): copy both files "
                "to a directory that can be written, or open them there once"
            )
        if not not_a_database(error):
            return error
        if self.key is not None:
            if self._salt_made:  # somebody else has just made the file, without a key
                salts.salt_file(self.path).unlink(missing_ok=True)
            return StoreKeyError(
                f"{name!r} cannot be read with the key that fits {name}-salt: that is the salt of another memory, or the "
                "file is damaged or unencrypted. Put its own salt file back, or restore the file from a backup; "
                "`memforest encrypt` or `memforest rekey` finishes one that was interrupted"
            )
        if self.plain_with_key:
            return StoreKeyError(
                f"{name!r} is encrypted, and its salt file {name}-salt is not there; put it back: without the salt no key "
                "opens the file. Else it is no memforest database: use another directory"
            )
        if salts.salt_file(self.path).exists():
            return StoreKeyError(
                f"{name!r} is encrypted, and no key is configured; set MEMFOREST_KEY, or Config(key=...)"
            )
        return error

    def require_same(self) -> None:
        """Raise if the file that was opened is no longer the one at its path.

        Raises:
            StoreReplacedError: if it was deleted or replaced.
        """
        if identity_of(self.path) != self.identity:
            raise StoreReplacedError(
                f"{self.path.name!r} was deleted or replaced while it was open; nothing was written to what is "
                "there now, and the next call opens that"
            )

    def require_key_in_use(self) -> None:
        """Raise `StoreKeyError` if there is a key, and the file is readable without it."""
        if self.plain_with_key:
            raise StoreKeyError(
                f"{self.path.name!r} is not encrypted, and a key is configured; `memforest encrypt` encrypts it, or leave "
                "the key out"
            )

    @property
    def unfinished(self) -> bool:
        """Whether it was being encrypted, decrypted or given another key, and that was interrupted."""
        return any(beside(self.path, ending).exists() for ending in UNFINISHED)

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


def uri_of(path: Path, *, unchanging: bool) -> str:
    """Return the URI that opens a file for reading alone.

    Args:
        path: the file.
        unchanging: take no locks, as nobody writes it.
    """
    place = quote_from_bytes(os.fsencode(path.absolute().as_posix()), safe="/:")
    # Not `Path.as_uri`: SQLite wants the server of a Windows share behind an empty authority.
    return f"file://{'' if place[0] == '/' else '/'}{place}?mode=ro{'&immutable=1' if unchanging else ''}"


def _size_of(path: Path) -> int:
    """Return the size of a file, 0 when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def make_own(path: Path) -> None:
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


def refuse_link(path: Path) -> None:
    """Refuse a name that is a link's: what is read and written must be here and nowhere else.

    Raises:
        ForeignStoreError: if it is one.
    """
    if path.is_symlink():
        raise ForeignStoreError(
            f"{path.name!r} is a link; put the file itself here (the directory may be a link)"
        )


def _tighten(path: Path) -> bool:
    """Take everybody else's rights to a database and what is beside it away, as far as they are ours; no-op on Windows.

    Returns:
        Whether nobody else can use them now.
    """
    if sys.platform == "win32":
        return True
    private = True
    for name in (path, *(beside(path, ending) for ending in BESIDE)):
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
        log = beside(path, "-wal").stat().st_size
    except FileNotFoundError:
        log = 0
    return found.st_ino, found.st_size, found.st_mtime_ns, log


def remove_files(path: Path) -> int:
    """Delete a database with what is beside it, the salt first; return how many files there were. Its last holder closes it.

    The database goes behind the log, so that no log is left for one that is made later in its place, and what somebody
    opened in between goes last.

    Raises:
        OSError: if one of them cannot be deleted.
    """
    salted = salts.salt_file(path).exists()
    salts.erase(path)  # first: without it the rest is noise, and so is every backup
    all_beside = _all_beside(path)
    return salted + sum(_unlinked(one) for one in (*all_beside, path, *all_beside))


def count_files(path: Path) -> int:
    """Return how many files a database has."""
    return sum(one.exists() for one in (path, *_all_beside(path)))


def _all_beside(path: Path) -> list[Path]:
    return [beside(path, ending) for ending in BESIDE]


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def beside(path: Path, suffix: str) -> Path:
    """Return the file beside a memory's whose name has that ending more."""
    return path.with_name(path.name + suffix)
