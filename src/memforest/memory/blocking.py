"""The blocking twin of `AsyncMemForest`, made method by method: one set of verbs, and one docstring for each."""

from __future__ import annotations

from pathlib import Path

from memforest import _sync
from memforest.config import Config
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory


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

    register_user = _sync.blocking(AsyncMemForest.register_user)
    list_users = _sync.blocking(AsyncMemForest.list_users)
    users = _sync.blocking(AsyncMemForest.users)
    survey = _sync.blocking(AsyncMemForest.survey)
    has_user = _sync.blocking(AsyncMemForest.has_user)
    ingest_session = _sync.blocking(AsyncMemForest.ingest_session)
    ingest_parallel = _sync.blocking(AsyncMemForest.ingest_parallel)
    import_file = _sync.blocking(AsyncMemForest.import_file)
    flush = _sync.blocking(AsyncMemForest.flush)
    resume = _sync.blocking(AsyncMemForest.resume)
    rebuild = _sync.blocking(AsyncMemForest.rebuild)
    backup = _sync.blocking(AsyncMemForest.backup)
    restore = _sync.blocking(AsyncMemForest.restore)
    save = _sync.blocking(AsyncMemForest.save)
    load = _sync.blocking(AsyncMemForest.load)
    query = _sync.blocking(AsyncMemForest.query)
    query_parallel = _sync.blocking(AsyncMemForest.query_parallel)
    encrypt = _sync.blocking(AsyncMemForest.encrypt)
    decrypt = _sync.blocking(AsyncMemForest.decrypt)
    rekey = _sync.blocking(AsyncMemForest.rekey)
    ask = _sync.blocking(AsyncMemForest.ask)
    delete_turn = _sync.blocking(AsyncMemForest.delete_turn)
    delete_session = _sync.blocking(AsyncMemForest.delete_session)
    delete_user = _sync.blocking(AsyncMemForest.delete_user)
    merge_user_forests = _sync.blocking(AsyncMemForest.merge_user_forests)
    close = _sync.blocking(AsyncMemForest.close)

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


class UserMemory:
    """The blocking twin of `AsyncUserMemory`; made by `MemForest.user`."""

    def __init__(self, handle: AsyncUserMemory) -> None:
        self._async = handle
        self.user_id = handle.user_id

    add = _sync.blocking(AsyncUserMemory.add)
    import_file = _sync.blocking(AsyncUserMemory.import_file)
    search = _sync.blocking(AsyncUserMemory.search)
    ask = _sync.blocking(AsyncUserMemory.ask)
    sessions = _sync.blocking(AsyncUserMemory.sessions)
    turns = _sync.blocking(AsyncUserMemory.turns)
    get = _sync.blocking(AsyncUserMemory.get)
    list = _sync.blocking(AsyncUserMemory.list)
    remember = _sync.blocking(AsyncUserMemory.remember)
    update = _sync.blocking(AsyncUserMemory.update)
    history = _sync.blocking(AsyncUserMemory.history)
    undo = _sync.blocking(AsyncUserMemory.undo)
    pin = _sync.blocking(AsyncUserMemory.pin)
    forget = _sync.blocking(AsyncUserMemory.forget)
    timeline = _sync.blocking(AsyncUserMemory.timeline)
    profile = _sync.blocking(AsyncUserMemory.profile)
    entities = _sync.blocking(AsyncUserMemory.entities)
    relations = _sync.blocking(AsyncUserMemory.relations)
    path = _sync.blocking(AsyncUserMemory.path)
    graph = _sync.blocking(AsyncUserMemory.graph)
    merge_entities = _sync.blocking(AsyncUserMemory.merge_entities)
    split_entity = _sync.blocking(AsyncUserMemory.split_entity)
    entity_choices = _sync.blocking(AsyncUserMemory.entity_choices)
    changes = _sync.blocking(AsyncUserMemory.changes)
    diff = _sync.blocking(AsyncUserMemory.diff)
    tree = _sync.blocking(AsyncUserMemory.tree)
    stats = _sync.blocking(AsyncUserMemory.stats)
    indexes = _sync.blocking(AsyncUserMemory.indexes)
    add_index = _sync.blocking(AsyncUserMemory.add_index)
    drop_index = _sync.blocking(AsyncUserMemory.drop_index)
    advance = _sync.blocking(AsyncUserMemory.advance)
    verify = _sync.blocking(AsyncUserMemory.verify)
    flush = _sync.blocking(AsyncUserMemory.flush)
    export = _sync.blocking(AsyncUserMemory.export)
    import_ = _sync.blocking(AsyncUserMemory.import_)
    backup = _sync.blocking(AsyncUserMemory.backup)
    rebuild = _sync.blocking(AsyncUserMemory.rebuild)
    stale = _sync.blocking(AsyncUserMemory.stale)
    repair = _sync.blocking(AsyncUserMemory.repair)
    delete = _sync.blocking(AsyncUserMemory.delete)
    delete_all = _sync.blocking(AsyncUserMemory.delete_all)
    expire = _sync.blocking(AsyncUserMemory.expire)
    merge = _sync.blocking(AsyncUserMemory.merge)
