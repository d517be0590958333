"""Encrypting a memory's file, decrypting it, or giving it another key: one file at a time, each in one step.

The file is copied to a new one beside it, the copy is compared with it row by row and takes its place by a renaming; so
at any moment there is a whole file under its name, and its salt says what that may be (`memforest.store.salts`). Meanwhile
nobody else has the file open: SQLite's exclusive lock is held, which no other connection in any process lets be taken.
In the end the bytes of the old file are overwritten. After a crash the same call finishes what is left.

Whoever waits for the lock has the old file open, and finds it overwritten; see `Database._told_of_replacement`.

Sources: https://www.zetetic.net/sqlcipher/sqlcipher-api/#sqlcipher_export, https://www.sqlite.org/howtocorrupt.html
section 4.1 (why no log may be left beside a file that is renamed).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from memforest.errors import CorruptStoreError, ForeignStoreError, StoreKeyError, StoreLockedError
from memforest.keys import FileKey, Key
from memforest.store import salts
from memforest.store.connections import Connection, connect, pragma_key
from memforest.store.db import APPLICATION_ID
from memforest.store.engine import errors, library, not_a_database
from memforest.store.faults import mapped_errors
from memforest.store.files import UNFINISHED, beside, identity_of, make_own, refuse_link, uri_of
from memforest.store.forks import GATE
from memforest.store.salts import Salt, sync_directory

RETRY_S = 0.01
CHUNK_BYTES = 1 << 20


class _Way(NamedTuple):
    """What a file may be: encrypted with a key, or with none."""

    key: FileKey | None


def recrypt(path: Path, have: Key | None, want: Key | None, *, timeout_s: float) -> bool:
    """Give a memory's file another key, or its first, or none; return whether anything was to do.

    Args:
        path: the file.
        have: its key; None for an unencrypted file.
        want: its key from now on; None for an unencrypted file.
        timeout_s: how long to wait for others who have it open.

    Raises:
        StoreKeyError: if the file is encrypted with neither key.
        StoreLockedError: if somebody else has it open.
        StoreError: if it cannot be read or written, is damaged or not ours. It is as it was then.
        ConfigError: if SQLCipher is not installed.
    """
    library(encrypted=True)
    deadline = time.monotonic() + timeout_s
    with GATE.inside(), mapped_errors(path):
        for one in (path, salts.salt_file(path)):
            refuse_link(one)
        while True:
            seen = salts.read(path), identity_of(path)
            try:
                return _recrypt(path, seen[0], have, want, deadline)
            except (StoreKeyError, ForeignStoreError):
                # Another process may have done the same meanwhile.
                if (salts.read(path), identity_of(path)) == seen:
                    raise


def _recrypt(path: Path, found: Salt | None, have: Key | None, want: Key | None, deadline: float) -> bool:
    salt = found or Salt(salts.new_salt(), plain=True)
    old, new = (_Way(None if one is None else one.of_file(salt.salt)) for one in (have, want))
    ways = _ways(path, salt, old, new)
    after = Salt(salt.salt, () if new.key is None else (new.key.check,), plain=new.key is None)
    if _is_one(path, new, ways) and salt == after and not _left(path):
        return False
    with _alone(path, ways, found, deadline) as (conn, way), ExitStack() as copies:
        if way == new and salt == after and not _left(path):  # another process has just come to its end
            return False
        if way != new:
            both = Salt(salt.salt, _checks(old, new), plain=None in (old.key, new.key))
            salts.write(path, both)
            _copy(path, conn, way, new, copies)
            _switch(path, new, conn, copies)
        if found is not None or new.key is not None:
            salts.write(path, after)
        _wipe(path)
    return True


def _checks(*ways: _Way) -> tuple[str, ...]:
    return tuple(way.key.check for way in ways if way.key is not None)


def _ways(path: Path, salt: Salt, old: _Way, new: _Way) -> list[_Way]:
    """Return what a file may be by its salt and the keys that were given, what is likelier first.

    Raises:
        StoreKeyError: if it is encrypted with neither key.
    """
    ways = [way for way in (new, old) if way.key is not None and way.key.check in salt.checks]
    if None in (old.key, new.key) and (salt.plain or ways):
        # A plain file may have been put beside the salt of an encrypted one.
        ways.insert(0 if salt.plain else len(ways), _Way(None))
    if not ways:
        raise StoreKeyError(
            f"{path.name!r} is not encrypted; `memforest encrypt` encrypts it"
            if salt.plain
            else f"{path.name!r} is encrypted with another key than the one given, or {path.name}-salt is the salt of "
            "another memory; give its key, or put its own salt file back"
        )
    return ways


def _is_one(path: Path, wanted: _Way, ways: list[_Way]) -> bool:
    """Return whether a file is what is wanted, as the first of these ways opens it; nothing is written."""
    if ways[0] != wanted or not path.exists():
        return False
    try:
        with closing(connect(path, 0, wanted.key)) as conn:
            return bool(conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    except errors():
        return False


# -- alone with the file --------------------------------------------------------------------------


@contextmanager
def _alone(
    path: Path, ways: list[_Way], salt: Salt | None, deadline: float
) -> Iterator[tuple[Connection, _Way]]:
    """Hold the file's exclusive lock, with an empty log: nobody else can read or write it.

    Args:
        path: the file.
        ways: what it may be by its salt.
        salt: its salt, which must be the same under the lock.
        deadline: when to give up, of the monotonic clock.

    Yields:
        The connection that holds it, and what the file is.

    Raises:
        StoreLockedError: if somebody else has it open for longer than the time-out.
    """
    while True:
        before = identity_of(path)
        conn, way = _opened(path, ways)
        with closing(conn):
            if _locked(conn):
                # Who was waited for may have put another file here.
                if (identity_of(path), salts.read(path)) != (before, salt):
                    raise StoreKeyError(f"{path.name!r} was given another key meanwhile; run this again")
                yield conn, way
                return
        if time.monotonic() >= deadline:
            raise StoreLockedError(
                f"{path.name!r} is in use by another forest or process; close it there and run this again"
            )
        time.sleep(RETRY_S)


def _opened(path: Path, ways: list[_Way]) -> tuple[Connection, _Way]:
    """Return a connection to a file, and which of the ways opens it.

    Raises:
        StoreKeyError: if none does.
        ForeignStoreError: if it is another program's.
    """
    if not path.exists():
        raise ForeignStoreError(f"there is no file {path.name!r}")
    for way in ways:
        conn = connect(path, 0, way.key)
        try:
            conn.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            if conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return conn, way
        except errors() as exc:
            if "is locked" in str(exc):
                return conn, way  # which one it is shows when it is not locked any more
            conn.close()
            if not not_a_database(exc):
                raise
            continue
        conn.close()
        raise ForeignStoreError(f"{path.name!r} is another program's database; use another directory")
    raise StoreKeyError(
        f"{path.name!r} cannot be read with the key that fits {path.name}-salt: that is the salt of another memory, or the "
        "file is damaged; put its own salt file back, or restore the file from a backup. If giving it another key was "
        "interrupted, run that again"
    )


def _locked(conn: Connection) -> bool:
    """Fold the log into the file and take its exclusive lock; return whether that was possible."""
    try:
        conn.execute("PRAGMA application_id").fetchone()
        [[mode]] = conn.execute("PRAGMA journal_mode = DELETE").fetchall()
        conn.execute("BEGIN EXCLUSIVE")
    except errors() as exc:
        if "is locked" not in str(exc):
            raise
        return False
    return bool(mode == "delete")


# -- the copy -------------------------------------------------------------------------------------


def _copy(path: Path, conn: Connection, old: _Way, new: _Way, kept: ExitStack) -> None:
    """Write a copy of a file beside it, as it is to be, and compare it.

    Args:
        path: the file.
        conn: the connection that holds its lock.
        old: what it is.
        new: what the copy is to be.
        kept: closes connections that must stay open as long as the lock is needed. Where another library holds that, as for
            an unencrypted file, closing ours would drop it (https://www.sqlite.org/howtocorrupt.html section 2.2).

    Raises:
        CorruptStoreError: if they are not the same.
    """
    copy = beside(path, "-new")
    _overwrite(copy)
    make_own(copy)
    try:
        with ExitStack() as own:
            both = _attached(copy, new, path, old, kept if old.key is None else own)
            both.execute("PRAGMA journal_mode = OFF").fetchall()
            both.execute("PRAGMA synchronous = OFF")
            both.execute("SELECT sqlcipher_export('main', 'old')").fetchall()
            for name in ("application_id", "user_version"):
                both.execute(f"PRAGMA {name} = {conn.execute(f'PRAGMA {name}').fetchone()[0]:d}")
            again = _attached(copy, new, path, old, kept if old.key is None else own)
            if (different := _difference(again)) is not None:  # read from the disk, not what was just written
                raise CorruptStoreError(
                    f"{path.name!r}: its copy differs in {different}; run `memforest verify`, or restore it from a backup"
                )
        with copy.open("r+b") as file:
            os.fsync(file.fileno())
    except BaseException:
        kept.close()
        with suppress(OSError):  # the next call does it; this error must not mask the first
            _overwrite(copy)
        raise


def _attached(copy: Path, new: _Way, path: Path, old: _Way, closes: ExitStack) -> Connection:
    """Open a copy with the file that it is of beside it, as the schema ``old``.

    Both are opened by SQLCipher, which reads unencrypted files too. It takes no locks on the old one: ours is held.
    """
    module = library(encrypted=True)
    both: Connection = module.connect(copy, uri=True, isolation_level=None)
    closes.callback(both.close)
    if new.key is not None:
        both.execute(f"PRAGMA key = {pragma_key(new.key)}").fetchall()
    key = "" if old.key is None else pragma_key(old.key).strip('"')
    both.execute("ATTACH ? AS old KEY ?", (uri_of(path, unchanging=True), key))
    return both


def _difference(both: Connection) -> str | None:
    """Return where a copy differs from what it is of; None when it is the same."""
    listed = "SELECT type, name, tbl_name, sql FROM {}.sqlite_schema ORDER BY type, name"
    schema = both.execute(listed.format("old")).fetchall()
    if both.execute(listed.format("main")).fetchall() != schema:
        return "its schema"
    both.text_factory = bytes  # also what is no UTF-8
    for kind, name, _, sql in schema:
        if kind != "table" or sql.startswith("CREATE VIRTUAL"):
            continue
        table = '"{}"'.format(name.replace('"', '""'))
        rows = (both.execute(f"SELECT * FROM {where}.{table}") for where in ("old", "main"))
        if any(one != other for one, other in zip_longest(*rows)):
            return f"the table {name}"
    return None


# -- the switch -----------------------------------------------------------------------------------


def _switch(path: Path, new: _Way, conn: Connection, kept: ExitStack) -> None:
    """Put the copy in the place of the file, which stays beside it under another name until it is wiped.

    The new file is locked as the old one is, so that nobody else finishes what is under way here.
    """
    copy, old = beside(path, "-new"), beside(path, "-old")
    old.unlink(missing_ok=True)
    with suppress(OSError):  # a file system without links; then the old bytes are not overwritten
        os.link(path, old)
    if sys.platform == "win32":  # no file that is open can be renamed there
        kept.close()
        conn.close()
    else:
        held = kept.enter_context(closing(connect(copy, 0, new.key)))
        held.execute("BEGIN EXCLUSIVE")
    copy.replace(path)
    sync_directory(path.parent)


def _left(path: Path) -> bool:
    """Return whether there is something beside a file that a call which was interrupted has left."""
    return any(beside(path, ending).exists() for ending in UNFINISHED)


def _wipe(path: Path) -> None:
    """Overwrite the old file and remove it, and whatever a call that was interrupted has left."""
    salts.remove_unfinished(path)
    _overwrite(beside(path, "-new"))
    old = beside(path, "-old")
    if old.exists() and old.samefile(path):  # interrupted before the switch: another name of the file itself
        old.unlink()
    _overwrite(old)
    sync_directory(path.parent)


def _overwrite(path: Path) -> None:
    """Overwrite a file with zeros and remove it; one that is not there is passed over."""
    try:
        with path.open("r+b") as file:
            left = path.stat().st_size
            while left > 0:
                left -= file.write(bytes(min(left, CHUNK_BYTES)))
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    path.unlink()
