"""Keys of a server: made once, shown once, stored as their hash.

A key is ``mfk_`` with the key's id and 256 random bits as hexadecimal digits. The id is no secret: it names the key in
lists and finds its row, so that nothing secret is looked up. The whole is compared by its SHA-256, in constant time. Slow
hashes are for passwords; 256 random bits are not to be guessed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast, get_args

from memforest.access.principal import Principal, Scope
from memforest.access.rows import KeyFile, KeyRow
from memforest.clock import Clock, system_clock
from memforest.errors import InputError, NotFoundError
from memforest.interval import from_ms, to_ms
from memforest.memory.ingest.turns import check_id
from memforest.memory.plain import Result
from memforest.text import cut

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
    """A key as it may be shown; `used` is coarse: to about a minute."""

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
    """A new key, with what may be shown of it; `key` is not to be had again."""

    view: KeyView
    key: str = field(repr=False)


def id_of(credential: str) -> str | None:
    """Return the id in a key, None of anything that has not the form of one.

    Example:
        >>> id_of("mfk_0123456789ab_" + 64 * "0"), id_of("mfk_x"), id_of("0123456789ab")
        ('0123456789ab', None, None)
    """
    found = _KEY.fullmatch(credential)
    return None if found is None else found[1]


def digest_of(key: str) -> bytes:
    """Return what is stored of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_scopes(given: str | Collection[str]) -> frozenset[Scope]:
    """Return scopes that are given as a list, or as a text with commas or spaces.

    Example:
        >>> sorted(read_scopes("read,write"))
        ['read', 'write']

    Raises:
        InputError: if one is unknown, or there is none.
    """
    names = re.split(r"[\s,]+", given.strip()) if isinstance(given, str) else list(given)
    known = get_args(Scope)
    if wrong := sorted(set(names) - set(known)):
        raise InputError(f"there is no scope {cut(repr(wrong[0]), 40)}; there are: {', '.join(known)}")
    if not names:
        raise InputError(f"a key needs at least one scope of {', '.join(known)}")
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
        raise InputError(f"{cut(repr(given), 40)} is no duration; give hours, days or weeks: 12h, 90d, 4w")
    return int(found[1]) * _UNITS[found[2]]


def principal_of(row: KeyRow) -> Principal:
    """Return who uses a key, as it was made."""
    return Principal(row.tenant, row.user, _scopes(row), f"key:{row.id}")


class KeyStore:
    """Makes, lists and revokes the keys of a server.

    Args:
        directory: the server's; the keys are in ``server/keys.sqlite`` below it.
        clock: says what time it is.
    """

    def __init__(self, directory: Path, clock: Clock = system_clock) -> None:
        self.file = KeyFile(directory / KEY_FILE)
        self._clock = clock
        self._lock = threading.Lock()

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
            StoreError: if it cannot be stored.
        """
        check_id(name, "the name of a key")
        if len(name) > MOST_NAME_CHARS or not name.isprintable():
            raise InputError(f"the name of a key has at most {MOST_NAME_CHARS} printable characters")
        if name.startswith(PREFIX) or _ID.fullmatch(name):
            # It is shown in lists, and `revoke` takes names, ids and keys alike.
            raise InputError("the name of a key is none that could be a key or the id of one; give another")
        for what, one in (("tenant", tenant), ("user", user)):
            if one is not None:
                check_id(one, what)
        allowed = read_scopes(scopes)
        now = to_ms(self._clock())
        until = None if lifetime is None else now + lifetime // timedelta(milliseconds=1)
        key_id = secrets.token_hex(6)
        key = f"{PREFIX}{key_id}_{secrets.token_hex(32)}"
        row = KeyRow(
            key_id, digest_of(key), name, tenant, user, ",".join(sorted(allowed)), now, expires_ms=until
        )
        with self._lock:
            stored = self.file.add(row, now)
        if not stored:
            raise InputError(
                f"there is an active key {name!r}; give another name, or revoke that one first: "
                "memforest keys revoke NAME"
            )
        return MadeKey(_view(row), key)

    def all(self) -> list[KeyView]:
        """Return every key that was ever made, oldest first.

        Raises:
            StoreError: if they cannot be read.
        """
        with self._lock:
            return [_view(row) for row in self.file.rows()]

    def ever(self) -> bool:
        """Return whether a key was ever made, also if none can be used now.

        The file tells, not what is in it: one that has lost its rows, as in a crash of the system, opens no door.

        Raises:
            StoreError: if that cannot be read.
        """
        return bool(self.all()) or self.file.there()

    def revoke(self, which: str, *, erase: bool = False) -> KeyView:
        """Revoke a key; the time of the first revocation stays.

        Args:
            which: its id, or its name, or the key itself.
            erase: also take its name, tenant and user out of the file, as when the user is deleted.

        Raises:
            NotFoundError: if there is none.
            StoreError: if that cannot be stored.
        """
        wanted = id_of(which) or which
        with self._lock:
            rows = self.file.rows()
            by_id = [row for row in rows if row.id == wanted]
            # Only one key of a name can be used; a later one has it after an earlier one cannot.
            # What was erased has no name.
            by_name = sorted((row for row in rows if wanted and row.name == wanted), key=_by_revocation)
            found = next(iter(by_id or by_name[-1:]), None)
            if found is None:
                raise NotFoundError("there is no such key; `memforest keys list` shows all of them")
            self.file.revoke(found.id, to_ms(self._clock()))
            if erase:
                self.file.erase(found.id)
            return next(_view(row) for row in self.file.rows() if row.id == found.id)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            self.file.close()


def _by_revocation(row: KeyRow) -> tuple[bool, int]:
    return row.revoked_ms is None, row.created_ms


def _scopes(row: KeyRow) -> frozenset[Scope]:
    return frozenset(scope for scope in get_args(Scope) if scope in row.scopes.split(","))


def _view(row: KeyRow) -> KeyView:
    def when(at_ms: int | None) -> datetime | None:
        return None if at_ms is None else from_ms(at_ms)

    return KeyView(
        row.id,
        row.name,
        row.tenant,
        row.user,
        tuple(scope for scope in get_args(Scope) if scope in _scopes(row)),
        from_ms(row.created_ms),
        when(row.expires_ms),
        when(row.used_ms),
        when(row.revoked_ms),
    )
