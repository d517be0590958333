"""The keys as a running server knows them: read again when another process has changed them.

What is known is never older than `LOOK_EVERY_S` when it is used, so a key that was made or revoked elsewhere holds so
within 5 s and without a restart. If the file cannot be read then, nobody is let in. A key that is unknown costs a hash and
no access to the file.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping

from memforest.access.keys import KeyStore, digest_of, id_of, principal_of
from memforest.access.principal import Principal
from memforest.access.rows import KeyRow
from memforest.clock import Clock
from memforest.concurrency import Turns
from memforest.errors import StoreError
from memforest.interval import to_ms

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""How old what is known of the keys may be. A change holds within this and the time of one look."""
NOTE_EVERY_S = 60.0
"""How often the times of last use are written."""
_NOBODY = bytes(32)
"""Compared with where there is no such key; no text is known that hashes to it."""


class KnownKeys:
    """Finds who uses a key.

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
        self._rows: Mapping[str, KeyRow] = {}
        self._ever = False
        self._looked: float | None = None
        self._one = Turns()
        self._used: dict[str, int] = {}
        self._noted = monotonic()

    async def ever(self) -> bool:
        """Return whether a key was ever made, also if its file has gone since, or has lost what was in it.

        Raises:
            StoreError: if the keys cannot be read.
        """
        await self._look()
        return self._ever

    async def find(self, credential: str) -> Principal | None:
        """Return who uses a key; None if it is unknown, expired or revoked.

        Raises:
            StoreError: if the keys cannot be read.
        """
        await self._look()
        row = self._rows.get(id_of(credential) or "")
        same = hmac.compare_digest(digest_of(credential), _NOBODY if row is None else row.digest)
        now = to_ms(self._clock())
        if row is None or not same or row.revoked_ms is not None:
            return None
        if row.expires_ms is not None and row.expires_ms <= now:
            return None
        self._used[row.id] = now
        return principal_of(row)

    async def close(self) -> None:
        """Write the times of last use, and close the file."""
        async with self._one.turn():
            await asyncio.to_thread(self._note, self._to_note(self._monotonic()))
            await asyncio.to_thread(self._store.close)

    async def _look(self) -> None:
        """Read the keys if they may have changed since."""
        if not self._old():
            return
        async with self._one.turn():
            if self._old():  # not read by another request meanwhile
                begun = self._monotonic()
                rows = await asyncio.to_thread(self._read, self._to_note(begun - NOTE_EVERY_S))
                if rows is not None:
                    self._rows = {row.id: row for row in rows}
                    self._ever = self._ever or bool(rows)
                self._looked = begun

    def _old(self) -> bool:
        return self._looked is None or self._monotonic() - self._looked >= LOOK_EVERY_S

    def _to_note(self, before: float) -> dict[str, int]:
        """Return which keys were used and when, if that was written before; none otherwise."""
        if self._noted > before:
            return {}
        used, self._used, self._noted = self._used, {}, self._monotonic()
        return used

    def _read(self, used: Mapping[str, int]) -> list[KeyRow] | None:
        """Return the keys if they have changed."""
        self._note(used)
        file = self._store.file
        changed = file.changed()
        self._ever = self._ever or file.there()
        if not changed and self._looked is not None:
            return None
        try:
            return file.rows()
        except StoreError:
            self._looked = None  # what has changed was not read: the next look reads it whatever happens
            raise

    def _note(self, used: Mapping[str, int]) -> None:
        """Write when keys were last used; that this fails lets nobody in and keeps nobody out."""
        if used:
            try:
                self._store.file.note_use(used.items())
            except StoreError as exc:
                _log.warning("the times of last use of keys were not written: %s", type(exc).__name__)
