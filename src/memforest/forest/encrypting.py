"""The verbs that encrypt the memories of a forest, decrypt them, or give them another key."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from memforest.config import Config
from memforest.errors import ConfigError, MemForestError
from memforest.forest.options import check_function
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.keys import Key, KeySetting
from memforest.memory.encrypting import Progress, Recrypted, recrypt_all
from memforest.memory.ingest.turns import check_id


class Encrypting:
    """A forest's verbs of this kind.

    A file is changed when nobody else has it open, whole or not at all; after an interruption the same call goes on. They
    need the extra ``[encrypted]``.
    """

    directory: Path
    config: Config
    _pool: MemoryPool

    @spanned()
    async def encrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Encrypt the memories that are not, with the key of the configuration.

        Args:
            user_id: whose; None for all users.
            progress: called with how many files are done, how many there are and the last one's name, in another thread.

        Raises:
            ConfigError: if no key is configured, or SQLCipher is not installed.
            StoreLockedError: if another forest or process has the user's memory open.
            StoreError: if the file cannot be changed; it is as it was.
            SomeUsersFailedError: if some of all files cannot be changed; the others are done.
            NotFoundError: if the user has no memory.
            InputError: if `progress` is no function.
        """
        check_function("encrypt", "progress", progress)
        return await self._recrypt("encrypt", None, self._own_key(), user_id, progress)

    @spanned()
    async def decrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Decrypt the memories that are encrypted with the key of the configuration; then use one without it.

        Args:
            user_id: whose; None for all users.
            progress: as for `encrypt`.

        Raises:
            ConfigError: as `encrypt`. Likewise the other errors.
        """
        check_function("decrypt", "progress", progress)
        return await self._recrypt("decrypt", self._own_key(), None, user_id, progress)

    @spanned()
    async def rekey(
        self, key: KeySetting, user_id: str | None = None, *, progress: Progress | None = None
    ) -> Recrypted:
        """Encrypt the memories with another key than that of the configuration; then use one with the new key.

        The salts stay, so a backup from before opens with the old key.

        Args:
            key: the new key; see `Config.key`.
            user_id: whose; None for all users.
            progress: as for `encrypt`.

        Raises:
            ConfigError: as `encrypt`, or if the new key is none. Likewise the other errors.
        """
        check_function("rekey", "progress", progress)
        new = Key.of(key)
        if new is None:
            raise ConfigError("rekey(key) takes a key, not None; `decrypt` takes the encryption away")
        return await self._recrypt("rekey", self._own_key(), new, user_id, progress)

    def _own_key(self) -> Key:
        key = Key.of(self.config.key)
        if key is None:
            raise ConfigError("no key is configured; set MEMFOREST_KEY, or Config(key=...)")
        return key

    async def _recrypt(
        self,
        operation: str,
        have: Key | None,
        want: Key | None,
        user_id: str | None,
        progress: Progress | None,
    ) -> Recrypted:
        """Do it in a worker thread; a call that is cancelled meanwhile waits for the file that is under way."""
        if user_id is not None:
            check_id(user_id, "user_id")
        await self._pool.close()
        stop = threading.Event()
        job = asyncio.ensure_future(
            asyncio.to_thread(
                recrypt_all,
                operation,
                self.directory,
                have,
                want,
                user_id=user_id,
                timeout_s=self.config.busy_timeout_s,
                progress=progress,
                stop=stop,
            )
        )
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            stop.set()
            with suppress(MemForestError):
                await job
            raise
