"""The blocking twin of `AsyncMemForest`, made method by method: one set of verbs, and one docstring for each."""

from __future__ import annotations

from pathlib import Path

from memforest import portal
from memforest.config import Config
from memforest.forest.forest import AsyncMemForest
from memforest.forest.handle import UserMemory


class MemForest:
    """The blocking twin of `AsyncMemForest`: same arguments, same verbs; also usable inside a running loop.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, MemForest(folder) as forest:
        ...     forest.list_users()
        []
    """

    def __init__(
        self,
        directory: str | Path,
        config: Config | None = None,
        *,
        max_workers: int = 8,
    ) -> None:
        self._async = AsyncMemForest(directory, config, max_workers=max_workers)

    register_user = portal.blocking(AsyncMemForest.register_user)
    list_users = portal.blocking(AsyncMemForest.list_users)
    users = portal.blocking(AsyncMemForest.users)
    survey = portal.blocking(AsyncMemForest.survey)
    has_user = portal.blocking(AsyncMemForest.has_user)
    ingest_session = portal.blocking(AsyncMemForest.ingest_session)
    ingest_parallel = portal.blocking(AsyncMemForest.ingest_parallel)
    import_file = portal.blocking(AsyncMemForest.import_file)
    flush = portal.blocking(AsyncMemForest.flush)
    resume = portal.blocking(AsyncMemForest.resume)
    rebuild = portal.blocking(AsyncMemForest.rebuild)
    backup = portal.blocking(AsyncMemForest.backup)
    restore = portal.blocking(AsyncMemForest.restore)
    save = portal.blocking(AsyncMemForest.save)
    load = portal.blocking(AsyncMemForest.load)
    query = portal.blocking(AsyncMemForest.query)
    query_parallel = portal.blocking(AsyncMemForest.query_parallel)
    encrypt = portal.blocking(AsyncMemForest.encrypt)
    decrypt = portal.blocking(AsyncMemForest.decrypt)
    rekey = portal.blocking(AsyncMemForest.rekey)
    ask = portal.blocking(AsyncMemForest.ask)
    delete_turn = portal.blocking(AsyncMemForest.delete_turn)
    delete_session = portal.blocking(AsyncMemForest.delete_session)
    delete_user = portal.blocking(AsyncMemForest.delete_user)
    merge_user_forests = portal.blocking(AsyncMemForest.merge_user_forests)
    close = portal.blocking(AsyncMemForest.close)

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._async.config

    def user(self, user_id: str) -> UserMemory:
        """Return a handle on one user's memory, with the verbs for daily use."""
        return UserMemory(self._async.user(user_id))

    def __enter__(self) -> MemForest:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
