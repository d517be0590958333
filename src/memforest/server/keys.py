"""Keys of a server: made once, shown once, stored as their hash.

A key is ``mfk_`` with the key's id and 256 random bits as hexadecimal digits. The id is no secret: it names the key in
lists and finds its row, so that nothing secret is looked up. The whole is compared by its SHA-256, in constant time. Slow
hashes are for passwords; 256 random bits are not to be guessed.

The file has one row a key. It is for its owner alone (0600) in a directory that is too (0700). Several processes may read and
write it: the server, and `memforest keys` beside it. What a running server knows is never older than `LOOK_EVERY_S` when it is
used, so a key that was made or revoked elsewhere holds so within 5 s and without a restart. If the file cannot be read then,
nobody is let in. A key that is unknown costs a hash and no access to the file.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast, get_args

from memforest.concurrency import Turns
from memforest.errors import InputError, NotFoundError, SchemaVersionError, StoreError
from memforest.plain import Result
from memforest.server.auth import Principal, Scope
from memforest.store.connections import Connection, connect, mapped_errors, set_up_writer, transaction
from memforest.store.directory import make_directory
from memforest.store.files import Identity, identity_of, make_own, refuse_link
from memforest.text import cut
from memforest.times import Clock, from_ms, system_clock, to_ms
from memforest.write.turns import check_id

VERSION = 1
BUSY_S = 10.0
"""How long a statement waits for another process; all of them are short."""

AGAIN_S = 0.01

_SCHEMA = """
CREATE TABLE key (
  id TEXT PRIMARY KEY NOT NULL,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  name TEXT NOT NULL,
  tenant TEXT,
  user TEXT,
  scopes TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER,
  used_ms INTEGER,
  revoked_ms INTEGER
) STRICT
"""
_COLUMNS = "id, name, tenant, user, scopes, created_ms, expires_ms, used_ms, revoked_ms"


PREFIX = "mfk_"
"""What every key begins with, so that scanners of code and logs find one that has leaked."""
KEY_FILE = Path("server", "keys.sqlite")
"""Where the keys are, below a server's directory."""
DEFAULT_SCOPES: frozenset[Scope] = frozenset(("read", "write"))
"""What a key allows that is made without scopes: what an agent needs that remembers."""
MOST_NAME_CHARS = 100

_KEY = re.compile(rf"{PREFIX}([0-9a-f]{{12}})_[0-9a-f]{{64}}")
_ID = re.compile(r"[0-9a-f]{12}")
_LIFETIME = re.compile(r"(\d{1,4})\s*([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@dataclass(frozen=True, slots=True, repr=False)
class KeyView(Result):
    """A key without its secret; `used` is accurate to about a minute."""

    id: str
    name: str
    tenant: str | None
    user: str | None
    scopes: tuple[Scope, ...]
    created: datetime
    expires: datetime | None
    used: datetime | None
    revoked: datetime | None

    def state(self, now: datetime) -> str:
        """Return ``"active"``, ``"expired"`` or ``"revoked"``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key and its view; `key` cannot be shown again."""

    view: KeyView
    key: str = field(repr=False)


def id_of(credential: str) -> str | None:
    """Return the id in a key; None for text that does not have the form of a key.

    Example:
        >>> id_of("mfk_0123456789ab_" + 64 * "0"), id_of("mfk_x"), id_of("0123456789ab")
        ('0123456789ab', None, None)
    """
    found = _KEY.fullmatch(credential)
    return None if found is None else found[1]


def digest_of(key: str) -> bytes:
    """Return the stored digest of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_scopes(given: str | Collection[str]) -> frozenset[Scope]:
    """Return the scopes in a list, or in a text with commas or spaces.

    Example:
        >>> sorted(read_scopes("read,write"))
        ['read', 'write']

    Raises:
        InputError: if one is unknown, or there is none.
    """
    names = re.split(r"[\s,]+", given.strip()) if isinstance(given, str) else list(given)
    known = get_args(Scope)
    if wrong := sorted(set(names) - set(known)):
        raise InputError(f"unknown scope {cut(repr(wrong[0]), 40)}; known: {', '.join(known)}")
    if not names:
        raise InputError(f"a key needs at least one of the scopes {', '.join(known)}")
    return frozenset(cast("list[Scope]", names))


def read_lifetime(given: str) -> timedelta:
    """Return a duration such as ``90d``, ``12h`` or ``4w``.

    Example:
        >>> read_lifetime("90d").days
        90

    Raises:
        InputError: if it is none, or nothing.
    """
    found = _LIFETIME.fullmatch(given.strip().lower())
    if found is None or not int(found[1]):
        raise InputError(f"{cut(repr(given), 40)} is not a duration; give hours, days or weeks: 12h, 90d, 4w")
    return int(found[1]) * _UNITS[found[2]]


class KeyStore:
    """The keys of a server and their file. Not thread-safe.

    Args:
        directory: the server's; the keys are in ``server/keys.sqlite`` below it, which the first `create` makes.
        clock: says what time it is.

    Raises:
        StoreError: by every method, if the file cannot be read or written.
    """

    def __init__(self, directory: Path, clock: Clock = system_clock) -> None:
        self.path = directory / KEY_FILE
        self._clock = clock
        self._conn: Connection | None = None
        self._identity: Identity | None = None
        self._seen: tuple[object, ...] | None = None

    def create(
        self,
        name: str,
        *,
        tenant: str | None = None,
        user: str | None = None,
        scopes: Collection[str] = DEFAULT_SCOPES,
        lifetime: timedelta | None = None,
    ) -> MadeKey:
        """Make a key.

        Args:
            name: what people call it; no other active key has it.
            tenant: whose memories it is for; None for those of the server's own directory.
            user: the only user that it sees; None for all of the tenant.
            scopes: what it allows.
            lifetime: how long it can be used; None for ever.

        Raises:
            InputError: if a value is unusable, or an active key has the name.
        """
        check_id(name, "the name of a key")
        if len(name) > MOST_NAME_CHARS or not name.isprintable():
            raise InputError(f"the name of a key has at most {MOST_NAME_CHARS} printable characters")
        if name.startswith(PREFIX) or _ID.fullmatch(name):
            # It is shown in lists, and `revoke` takes names, ids and keys alike.
            raise InputError("the name looks like a key or a key's id; give another")
        for what, one in (("tenant", tenant), ("user", user)):
            if one is not None:
                check_id(one, what)
        allowed = ",".join(sorted(read_scopes(scopes)))
        now = to_ms(self._clock())
        until = None if lifetime is None else now + lifetime // timedelta(milliseconds=1)
        key_id = secrets.token_hex(6)
        key = f"{PREFIX}{key_id}_{secrets.token_hex(32)}"
        row = (key_id, name, tenant, user, allowed, now, until, None, None)
        with self._writing(make=True) as conn:
            taken = conn.column(
                """SELECT id FROM key WHERE name = ? AND revoked_ms IS NULL
                   AND (expires_ms IS NULL OR expires_ms > ?)""",
                (name, now),
            )
            if not taken:
                conn.execute(
                    f"INSERT INTO key ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, digest_of(key)),
                )
        if taken:
            raise InputError(
                f"there is an active key {name!r}; give another name, or revoke that one first: "
                "memforest keys revoke NAME"
            )
        return MadeKey(_view(*row), key)

    def all(self) -> list[KeyView]:
        """Return every key ever made, oldest first; none without a file."""
        with mapped_errors(self.path):
            conn = self._opened()
            return (
                []
                if conn is None
                else conn.rows(_view, f"SELECT {_COLUMNS} FROM key ORDER BY created_ms, rowid")
            )

    def digests(self) -> Mapping[str, bytes]:
        """Return the digests of all keys by their ids."""
        with mapped_errors(self.path):
            conn = self._opened()
            return {} if conn is None else conn.pairs("SELECT id, digest FROM key")

    def there(self) -> bool:
        """Return whether a file or link exists at the path, whatever it holds."""
        with mapped_errors(self.path):
            return os.path.lexists(self.path)

    def ever(self) -> bool:
        """Return whether a key was ever made, even if none is usable now.

        The file counts, not its rows: one that has lost them, as in a crash of the system, opens no door.
        """
        return bool(self.all()) or self.there()

    def changed(self) -> bool:
        """Return whether the file was made, removed, or changed by another connection since the last call."""
        with mapped_errors(self.path):
            state: tuple[object, ...] = ()
            if (conn := self._opened()) is not None:
                # Counts what other connections have committed: https://www.sqlite.org/pragma.html#pragma_data_version
                state = (identity_of(self.path), *conn.execute("PRAGMA data_version").fetchone())
            before, self._seen = self._seen, state
            return state != before

    def revoke(self, which: str, *, erase: bool = False) -> KeyView:
        """Revoke a key; the time of the first revocation stays.

        Args:
            which: its id, or its name, or the key itself.
            erase: also take its name, tenant and user out of the file, as when the user is deleted.

        Raises:
            NotFoundError: if there is none.
        """
        wanted = id_of(which) or which
        keys = self.all()
        by_id = [key for key in keys if key.id == wanted]
        # Only one key of a name can be used; a later one has it after an earlier one cannot. What was erased has no name.
        by_name = sorted(
            (key for key in keys if wanted and key.name == wanted),
            key=lambda key: (key.revoked is None, key.created),
        )
        found = next(iter(by_id or by_name[-1:]), None)
        if found is None:
            raise NotFoundError("there is no such key; `memforest keys list` shows all of them")
        with self._writing() as conn:
            conn.execute(
                "UPDATE key SET revoked_ms = coalesce(revoked_ms, ?) WHERE id = ?",
                (to_ms(self._clock()), found.id),
            )
            if erase:
                conn.execute("UPDATE key SET name = '', tenant = NULL, user = NULL WHERE id = ?", (found.id,))
        if erase:
            with mapped_errors(self.path):
                # The row was overwritten; the log has it still: https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
                conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return next(key for key in self.all() if key.id == found.id)

    def note_use(self, used: Iterable[tuple[str, datetime]]) -> None:
        """Store when keys were last used, as (id, time); a later stored time stays."""
        with self._writing() as conn:
            conn.executemany(
                "UPDATE key SET used_ms = max(coalesce(used_ms, 0), ?) WHERE id = ?",
                [(to_ms(at), key_id) for key_id, at in used],
            )

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        conn, self._conn, self._seen = self._conn, None, None
        if conn is not None:
            conn.close()

    @contextmanager
    def _writing(self, *, make: bool = False) -> Iterator[Connection]:
        """Yield a connection in a write transaction."""
        with mapped_errors(self.path):
            conn = self._opened(make=make)
            if conn is None:
                raise FileNotFoundError(2, "no key was ever made", self.path.name)
            with transaction(conn, writes=True):
                yield conn

    def _opened(self, *, make: bool = False) -> Connection | None:
        """Return a connection to the present file; None if there is none and none is to be made."""
        there = identity_of(self.path)
        if self._conn is not None and there != self._identity:
            self._conn.close()
            self._conn = None
        if self._conn is None and (make or there is not None):
            self._conn = self._connect()
            self._identity = identity_of(self.path)
        return self._conn

    def _connect(self) -> Connection:
        make_file(self.path)
        # Who may write into the directory could put another file in the place of this one.
        with suppress(PermissionError):  # somebody else's directory is theirs to guard
            _tighten(self.path.parent, 0o700)
        _tighten(self.path, 0o600)
        conn = connect(self.path, BUSY_S)
        until = time.monotonic() + BUSY_S
        try:
            while True:
                try:
                    self._set_up(conn)
                    return conn
                except sqlite3.OperationalError as exc:
                    # Others set it up too, and SQLite may say at once that the file is locked, without waiting.
                    if "locked" not in str(exc) or time.monotonic() >= until:
                        raise
                    time.sleep(AGAIN_S)
        except BaseException:
            conn.close()
            raise

    def _set_up(self, conn: Connection) -> None:
        set_up_writer(conn)
        conn.execute("PRAGMA trusted_schema = off")
        if conn.column("PRAGMA user_version") == [0]:
            with transaction(conn, writes=True):
                if conn.column("PRAGMA user_version") == [0]:  # another process may have made it just now
                    conn.execute(_SCHEMA)
                    conn.execute(f"PRAGMA user_version = {VERSION}")
        if conn.column("PRAGMA user_version") != [VERSION]:
            raise SchemaVersionError(
                f"{self.path.name!r} was written by another version of memforest; use that one, or make new keys"
            )


def _view(
    key_id: str,
    name: str,
    tenant: str | None,
    user: str | None,
    scopes: str,
    created_ms: int,
    *later: int | None,
) -> KeyView:
    allowed = tuple(scope for scope in get_args(Scope) if scope in scopes.split(","))
    times = [None if ms is None else from_ms(ms) for ms in later]
    return KeyView(key_id, name, tenant, user, allowed, from_ms(created_ms), *times)


def make_file(path: Path) -> None:
    """Make a file of a server's directory, for its owner alone, where there is none.

    Raises:
        StoreError: if it is a link, or cannot be made.
    """
    for directory in (path.parent.parent, path.parent):
        make_directory(directory)
    refuse_link(path)
    make_own(path)


def _tighten(path: Path, mode: int) -> None:
    """Restrict a file or directory to its owner; does nothing on Windows."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(mode)


_log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""How old what is known of the keys may be. A change holds within this and the time of one look."""
NOTE_EVERY_S = 60.0
"""How often the times of last use are written."""
_NOBODY = bytes(32)
"""Compared with where there is no such key; no text is known that hashes to it."""


class KnownKeys:
    """The lookup of callers by key.

    Args:
        store: the keys.
        clock: says whether a key has expired.
        monotonic: says how old things are, in seconds.
    """

    def __init__(
        self, store: KeyStore, clock: Clock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._keys: Mapping[str, tuple[KeyView, bytes]] = {}
        self._ever = False
        self._looked: float | None = None
        self._one = Turns()
        self._used: dict[str, datetime] = {}
        self._noted = monotonic()

    async def ever(self) -> bool:
        """Return whether a key was ever made, even if the file has been removed or emptied since.

        Raises:
            StoreError: if the keys cannot be read.
        """
        await self._look()
        return self._ever

    async def find(self, credential: str) -> Principal | None:
        """Return the caller with a key; None if it is unknown, expired or revoked.

        Raises:
            StoreError: if the keys cannot be read.
        """
        await self._look()
        key, digest = self._keys.get(id_of(credential) or "", (None, _NOBODY))
        same = hmac.compare_digest(digest_of(credential), digest)
        now = self._clock()
        if key is None or not same or key.state(now) != "active":
            return None
        self._used[key.id] = now
        return Principal(key.tenant, key.user, frozenset(key.scopes), f"key:{key.id}")

    async def close(self) -> None:
        """Store the times of last use, and close the file."""
        async with self._one.turn():
            await asyncio.to_thread(self._note, self._taken())
            await asyncio.to_thread(self._store.close)

    async def _look(self) -> None:
        """Read the keys if they may have changed since."""
        if not self._old():
            return
        async with self._one.turn():
            if self._old():  # not read by another request meanwhile
                begun = self._monotonic()
                used = self._taken() if begun - self._noted >= NOTE_EVERY_S else {}
                await asyncio.to_thread(self._read, used)
                self._looked = begun

    def _old(self) -> bool:
        return self._looked is None or self._monotonic() - self._looked >= LOOK_EVERY_S

    def _taken(self) -> Mapping[str, datetime]:
        """Return when keys were used, to be stored now."""
        used, self._used, self._noted = self._used, {}, self._monotonic()
        return used

    def _read(self, used: Mapping[str, datetime]) -> None:
        """Read the keys if they have changed."""
        self._note(used)
        changed = self._store.changed()
        self._ever = self._ever or self._store.there()
        if not changed and self._looked is not None:
            return
        self._looked = None  # until what has changed is read, the next look reads it whatever happens
        digests = self._store.digests()
        self._keys = {key.id: (key, digests[key.id]) for key in self._store.all() if key.id in digests}
        self._ever = self._ever or bool(digests)

    def _note(self, used: Mapping[str, datetime]) -> None:
        """Store when keys were last used; a failure changes nobody's access."""
        if used:
            try:
                self._store.note_use(used.items())
            except StoreError as exc:
                _log.warning("the times of last use of keys were not written: %s", type(exc).__name__)
