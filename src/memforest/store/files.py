"""A memory's files: the database, made for its owner alone or looked at without a trace, its salt, and what is beside it.

Everything goes by names; only SQLite opens a database that is there, because closing it in any other way would drop the
locks of every connection that this process has to it (https://www.sqlite.org/howtocorrupt.html section 2.2).

The salt of an encrypted memory is in a file beside it, without which no key opens the memory or a backup of it. It is a
JSON object: ``salt`` (hexadecimal digits), ``keys`` (`memforest.protection.FileKey.check` of each key that the memory may
be encrypted with) and ``plain`` (whether it may be unencrypted). While a memory is encrypted, decrypted or given another
key, two of these hold, so that the file never tells less than is needed.

`scrub` overwrites the unused parts of pages, where SQLite leaves copies of rows that it has moved. "secure_delete"
overwrites a row where it stands when it is deleted. When pages are balanced, rows move from one to another, and what they
were stays in the gap between a page's pointers and its cells. `VACUUM` writes such a file anew as a whole; here only the
gaps are written, and only of pages that have changed since it was done last, as the log tells. It is done while the log is
empty and nobody can write, and changes nothing that SQLite reads: readers may go on, and a torn write leaves a sound page.
Sources: https://www.sqlite.org/fileformat.html sections 1.3, 1.5, 1.6, 4.1; `rebuildPage` and `freeSpace` in btree.c.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import stat
import struct
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_from_bytes

from memforest.errors import (
    ForeignStoreError,
    InputError,
    StoreClosedError,
    StoreKeyError,
    StoreLockedError,
    StoreReplacedError,
    StoreWriteError,
)
from memforest.protection import AnyKey, FileKey, Key
from memforest.store.connections import Connection, connect, errors, mapped_errors, not_a_database

OWN_FILE = 0o600
"""Mode of the files that we make: for their owner alone, whatever the umask."""
SALT_BYTES = 32
MOST_BYTES = 10_000
_BLOCK_BYTES = 1 << 20
_PART = ".part"
"""Ending of the name of a file that is not whole yet."""
_DIGITS = re.compile("(?:[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class Salt:
    """The salt of a memory, and what its file may be."""

    salt: bytes
    checks: tuple[str, ...] = ()
    """Of each key that the file may be encrypted with."""
    plain: bool = False
    """Whether the file may be unencrypted."""


def salt_file(path: Path) -> Path:
    """Return the file that holds the salt of a memory's file."""
    return path.with_name(path.name + "-salt")


def new_salt() -> bytes:
    """Return a random salt."""
    return secrets.token_bytes(SALT_BYTES)


def read(path: Path) -> Salt | None:
    """Return the salt of a memory's file, None when it has none.

    Raises:
        StoreKeyError: if the file of the salt is damaged.
        OSError: if it cannot be read.
    """
    place = salt_file(path)
    try:
        with place.open("rb") as file:
            found = file.read(MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        stored = json.loads(found)
        salt, keys, plain = stored["salt"], stored["keys"], stored["plain"]
        if not isinstance(keys, list) or not isinstance(plain, bool):
            raise TypeError
        if not all(isinstance(digits, str) and _DIGITS.fullmatch(digits) for digits in (salt, *keys)):
            raise ValueError
        return Salt(bytes.fromhex(salt), tuple(keys), plain)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreKeyError(
            f"the salt file {place.name!r} is damaged; put a copy of it back: without the salt no key opens {path.name!r}"
        ) from None


def write(path: Path, salt: Salt) -> None:
    """Put the salt of a memory's file in the place of the one that is there, whole or not at all; durable on return.

    Raises:
        StoreWriteError: if it cannot be written.
    """
    with new_file(salt_file(path), overwrite=True) as made:
        made.write_text(_written(salt))


def make(path: Path, key: Key) -> tuple[Salt, bool]:
    """Return the salt of a new memory, and whether it was made here; another process may have made it just now.

    Raises:
        StoreKeyError: if the one that is there is damaged.
        StoreWriteError: if it cannot be written.
    """
    random = new_salt()
    salt = Salt(random, (key.of_file(random).check,))
    try:
        with new_file(salt_file(path), overwrite=False) as made:
            made.write_text(_written(salt))
    except InputError:  # there is one
        return read(path) or salt, False
    return salt, True


def _written(salt: Salt) -> str:
    """Return what stands in the file of a salt."""
    return json.dumps({"salt": salt.salt.hex(), "keys": list(salt.checks), "plain": salt.plain}) + "\n"


def remove_unfinished(path: Path) -> None:
    """Delete the temporary salt files of interrupted writers; none may be at work."""
    for one in path.parent.glob(f".{glob.escape(salt_file(path).name)}.*{_PART}"):
        one.unlink(missing_ok=True)


def erase(path: Path) -> None:
    """Erase the salt of a memory's file: from then on no key opens the file or any backup of it.

    The bytes are overwritten first; what the file system keeps of them elsewhere is out of reach.

    Raises:
        OSError: if it cannot be written.
    """
    remove_unfinished(path)
    overwrite(salt_file(path))
    sync(path.parent)


def overwrite(path: Path) -> None:
    """Overwrite a file with zeros and remove it; one that is not there is passed over.

    Raises:
        OSError: if it cannot be written.
    """
    with suppress(FileNotFoundError):
        with path.open("r+b") as file:
            left = path.stat().st_size
            while left > 0:
                left -= file.write(bytes(min(left, _BLOCK_BYTES)))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


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
        self.closed = False
        """Whether nothing is to be done with it any more."""
        self.private = True
        """Whether nobody else can use the file; False for somebody else's file that others can use."""
        refuse_link(path)
        refuse_link(salt_file(path))
        # SQLite keeps its log beside the file: both must be writable.
        how = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        self.readonly = readonly or (
            path.exists() and not all(os.access(place, os.W_OK, **how) for place in (path, path.parent))
        )
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
        salt = read(self.path)
        if key is None:
            if salt is not None and not salt.plain:
                raise StoreKeyError(
                    f"{self.path.name!r} is encrypted, and no key is configured; set MEMFOREST_KEY, or Config(key=...)"
                )
            return None
        if salt is None:
            self.plain_with_key = self.path.exists() and self.path.stat().st_size > 0
            if self.plain_with_key or self.readonly:
                return None
            salt, self._salt_made = make(self.path, key)
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
                salt_file(self.path).unlink(missing_ok=True)
            return StoreKeyError(
                f"{name!r} cannot be read with the key that fits {name}-salt: that is the salt of another memory, or the "
                "file is damaged or unencrypted. Put its own salt file back, or restore the file from a backup; "
                "`memforest key set` or `memforest key change` finishes one that was interrupted"
            )
        if self.plain_with_key:
            return StoreKeyError(
                f"{name!r} is encrypted, and its salt file {name}-salt is not there; put it back: without the salt no key "
                "opens the file. Else it is no memforest database: use another directory"
            )
        if salt_file(self.path).exists():
            return StoreKeyError(
                f"{name!r} is encrypted, and no key is configured; set MEMFOREST_KEY, or Config(key=...)"
            )
        return error

    def require_open(self) -> None:
        """Raise if the file was closed, or is no longer the one at its path.

        Raises:
            StoreClosedError: if it was closed.
            StoreReplacedError: if it was deleted or replaced.
        """
        if self.closed:
            raise StoreClosedError(f"{self.path.name!r} was closed; open the memory again")
        if identity_of(self.path) != self.identity:
            raise StoreReplacedError(
                f"{self.path.name!r} was deleted or replaced while it was open; nothing was written to the new "
                "file, and the next call opens it"
            )

    def require_key_in_use(self) -> None:
        """Raise `StoreKeyError` if there is a key, and the file is readable without it."""
        if self.plain_with_key:
            raise StoreKeyError(
                f"{self.path.name!r} is not encrypted, and a key is configured; `memforest key set` encrypts it, or leave "
                "the key out"
            )

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


def uri_of(path: Path, *, unchanging: bool) -> str:
    """Return the URI that opens a file for reading alone.

    Args:
        path: the file.
        unchanging: take no locks, as nobody writes it.
    """
    place = quote_from_bytes(os.fsencode(path.absolute().as_posix()), safe="/:")
    # Not `Path.as_uri`: SQLite wants the server of a Windows share behind an empty authority.
    return f"file://{'' if place[0] == '/' else '/'}{place}?mode=ro{'&immutable=1' if unchanging else ''}"


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
    """Delete a database and the files beside it, the salt first, and return how many there were; its last holder closes it.

    The database goes behind the log, so that no log is left for one that is made later in its place, and what somebody
    opened in between goes last.

    Raises:
        OSError: if one of them cannot be deleted.
    """
    salted = salt_file(path).exists()
    erase(path)  # first: without it the rest is noise, and so is every backup
    all_beside = [beside(path, ending) for ending in BESIDE]
    removed = int(salted)
    for place in (*all_beside, path, *all_beside):
        with suppress(FileNotFoundError):
            place.unlink()
            removed += 1
    return removed


def count_files(path: Path) -> int:
    """Return how many files a database has."""
    return sum(one.exists() for one in (path, *(beside(path, ending) for ending in BESIDE)))


def unfinished(path: Path) -> bool:
    """Return whether a file was being encrypted, decrypted or given another key, and that was interrupted."""
    return any(beside(path, ending).exists() for ending in UNFINISHED)


def beside(path: Path, suffix: str) -> Path:
    """Return the file beside a memory's whose name is that of the memory with an ending."""
    return path.with_name(path.name + suffix)


MAGIC = b"SQLite format 3\x00"
LEAVES, INNER = (10, 13), (2, 5)
"""Types of b-tree pages: the first byte of each."""
MOST_PAGES = 1 << 25
"""From so many pages on the first byte of an overflow page, whose number it begins with, may look like such a type."""
LOG_HEADER, FRAME_HEADER = 32, 24

descriptors: dict[Identity, dict[str, int]] = {}
"""Descriptors of databases, by what their names end with: of the file itself, and of the log's index."""
_lock = threading.Lock()


def read_log(path: Path) -> tuple[int, frozenset[int]] | None:
    """Return what the write-ahead log of a database holds; None when there is none, or an empty one.

    Returns:
        Its first salt, which grows by one whenever the log begins anew, and the numbers of the pages that are in it.
    """
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as log:
            head = log.read(LOG_HEADER)
            if len(head) < LOG_HEADER:
                return None
            size, salts = struct.unpack(">I", head[8:12])[0], head[16:24]
            pages = set()
            frame = log.read(FRAME_HEADER)
            # Frames of the log's present round; those of earlier ones may follow.
            while len(frame) == FRAME_HEADER and frame[8:16] == salts:
                pages.add(struct.unpack(">I", frame[:4])[0])
                log.seek(size, os.SEEK_CUR)
                frame = log.read(FRAME_HEADER)
            return struct.unpack(">I", head[16:20])[0], frozenset(pages)
    except FileNotFoundError:
        return None


def scrub(path: Path, pages: Collection[int] | None = None) -> int:
    """Overwrite the gaps of some pages, or of all, with zeros; return how many had something in them.

    To be called while nobody can write and the log is empty. A file that does not begin as SQLite's (an encrypted one)
    is left as it is.

    Raises:
        OSError: if the file cannot be read or written.
    """
    raw = _descriptor(path)
    with _lock:
        os.lseek(raw, 0, os.SEEK_SET)
        head = os.read(raw, 100)
        size = struct.unpack(">H", head[16:18])[0] if len(head) == 100 else 0
        size = 65536 if size == 1 else size
        count = os.lseek(raw, 0, os.SEEK_END) // size if size else 0
        largest_root = struct.unpack(">I", head[52:56])[0] if size else 0
        if head[:16] != MAGIC or largest_root or count >= MOST_PAGES:
            return 0
        wanted = range(1, count + 1) if pages is None else sorted(page for page in pages if page <= count)
        changed = 0
        for number in wanted:
            os.lseek(raw, (number - 1) * size, os.SEEK_SET)
            page = os.read(raw, size)
            start = 100 if number == 1 else 0
            if len(page) < start + 12 or page[start] not in (*LEAVES, *INNER):
                continue  # no page of a b-tree
            cells, content = struct.unpack(">HH", page[start + 3 : start + 7])
            begin, end = start + (8 if page[start] in LEAVES else 12) + 2 * cells, content or 65536
            gap = slice(begin, end)  # between pointers and cells
            if begin < end <= len(page) and any(page[gap]):
                os.lseek(raw, (number - 1) * size + gap.start, os.SEEK_SET)
                os.write(raw, bytes(gap.stop - gap.start))
                changed += 1
        if changed:
            os.fsync(raw)
        return changed


def _descriptor(path: Path, suffix: str = "") -> int:
    """Return a descriptor of a database or of its log's index, kept as long as this process has the database open.

    To close it earlier would drop the locks of all connections of this process to the file
    (https://www.sqlite.org/howtocorrupt.html section 2.2).

    Raises:
        OSError: if the file cannot be opened.
    """
    with _lock:
        identity = identity_of(path)
        if identity is None:
            raise FileNotFoundError(path)
        kept = descriptors.setdefault(identity, {})
        if suffix not in kept:
            mode = os.O_RDONLY if suffix else os.O_RDWR
            kept[suffix] = os.open(path.with_name(path.name + suffix), mode | getattr(os, "O_BINARY", 0))
        return kept[suffix]


def release(identity: Identity | None) -> None:
    """Close the descriptors of a database that this process has no connection to any more."""
    with _lock:
        for raw in descriptors.pop(identity, {}).values() if identity is not None else ():
            os.close(raw)


def raw_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a database with all that is in them: itself, its log and the log's index, and others beside it.

    Raises:
        OSError: if one of them cannot be read.
    """
    for one in sorted(path.parent.glob(f"{glob.escape(path.name)}*")):
        suffix = one.name[len(path.name) :]
        if suffix not in ("", "-shm"):
            yield one.name, one.read_bytes()
            continue
        raw = _descriptor(path, suffix)
        with _lock:
            size = os.lseek(raw, 0, os.SEEK_END)
            os.lseek(raw, 0, os.SEEK_SET)
            parts = []
            while part := os.read(raw, min(1 << 26, size + 1)):
                parts.append(part)
        yield one.name, b"".join(parts)


@contextmanager
def new_file(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of an empty file beside `target` that becomes `target` at the end; on any error it is deleted.

    It has mode 0600, is flushed to the disk before it gets its name, and replaces a link and not what that leads to.

    Raises:
        InputError: if there is something of that name and `overwrite` is False, or a directory.
        StoreWriteError: if the file cannot be made, or the disk is full.
    """
    _refuse(target, overwrite)
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_PART}")
    with mapped_errors(target):
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, OWN_FILE))
        try:
            made.chmod(OWN_FILE)  # a umask may take away the owner's rights too
            yield made
            sync(made)
            if overwrite or not _linked(made, target):
                made.replace(target)
            sync(target.parent)
        finally:
            for left in (made, *(made.with_name(made.name + end) for end in ("-wal", "-shm", "-journal"))):
                left.unlink(missing_ok=True)


def _linked(made: Path, target: Path) -> bool:
    """Give a file a name that nothing has; return False, and do nothing, on a file system without links.

    Raises:
        InputError: if there is something of that name, which may have come meanwhile.
    """
    try:
        os.link(made, target)  # unlike a renaming it puts nothing in the place of what is there
    except OSError:
        _refuse(target, overwrite=False)
        return False
    return True


def _refuse(target: Path, overwrite: bool) -> None:
    """Raise if a file cannot get this name.

    Raises:
        InputError: if that is so.
    """
    if target.is_dir() and not target.is_symlink():
        raise InputError(f"{str(target)!r} is a directory; name a file in it")
    if not overwrite and (target.exists() or target.is_symlink()):
        raise InputError(
            f"{str(target)!r} exists already; name another file, or overwrite it (overwrite=True)"
        )
    if not target.parent.is_dir():
        raise InputError(f"there is no directory {str(target.parent)!r}; make it, or name another")


def sync(path: Path) -> None:
    """Write a file, or the names in a directory, through to the disk; Windows has no way to do the latter."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
