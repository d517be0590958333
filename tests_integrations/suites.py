"""A pytest plugin that runs the frameworks' own tests on memforest: their store and session are replaced by ours.

Nothing of theirs is copied: `conformance.py` takes the tests from the source distributions when it runs. What does not apply is
listed here with its reason.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from memforest import AsyncMemForest, Config
from memforest.testing import HashEmbedder

PRIVATE = "looks into tables, connections or locks of the replaced class"
EMBEDDINGS = (
    "counts on the scores of the embeddings that the test hands in; memforest has an embedder of its own"
)
NOT_APPLICABLE = {
    "test_embed_with_path": EMBEDDINGS,
    "test_embed_with_path_operation_config": EMBEDDINGS,
    "test_scores": EMBEDDINGS,
    "test_vector_store_initialization": EMBEDDINGS,
    "test_nonnull_migrations": PRIVATE,
    "test_sql_injection_vulnerability": "wants an error for keys of filters that would be SQL; ours never become SQL, and find nothing",
    "test_no_running_loop": "wants blocking calls refused in a running loop; ours wait in a thread of their own",
    "test_sqlite_session_close_closes_worker_thread_connections": PRIVATE,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": PRIVATE,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": PRIVATE,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": PRIVATE,
    "test_sqlite_session_closed_rejects_empty_add_items": "closes the session; ours has nothing to close, and its forest is the program's",
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": PRIVATE,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": PRIVATE,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": PRIVATE,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": PRIVATE,
    "test_sqlite_session_file_lock_is_shared_across_instances": PRIVATE,
    "test_sqlite_session_failed_add_items_releases_write_lock": PRIVATE,
    "test_sqlite_session_failed_clear_session_rolls_back": PRIVATE,
    "test_sqlite_session_failed_pop_item_releases_write_lock": PRIVATE,
    "test_sqlite_session_rollback_failure_evicts_connection": PRIVATE,
    "test_sqlite_session_close_retries_quarantined_connection": PRIVATE,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": PRIVATE,
}
"""Name of a test, without parameters -> why it does not apply."""

_folders: list[str] = []
_forests: dict[str, AsyncMemForest] = {}


def new_forest(name: str = "") -> AsyncMemForest:
    """Return an empty forest; with a name the one that was made with it."""
    if name in _forests:
        return _forests[name]
    folder = tempfile.mkdtemp(prefix="memforest-suite-")
    _folders.append(folder)
    forest = AsyncMemForest(folder, Config(embedder=HashEmbedder()))
    if name:
        _forests[name] = forest
    return forest


def _store_class() -> Any:
    from memforest.integrations.langgraph_store import MemForestStore

    class Store(MemForestStore):
        """Ours, made as theirs are."""

        def __init__(self, *, index: Any = None) -> None:
            super().__init__(new_forest(), fields=(index or {}).get("fields"))

        @classmethod
        @contextmanager
        def from_conn_string(cls, _place: str, *, index: Any = None, **_more: Any) -> Iterator[Any]:
            """Yield a store."""
            yield cls(index=index)

        def setup(self) -> None:
            """Make nothing: the files are made at the first write."""

    class AsyncStore(Store):
        """Likewise, for tests that wait."""

        @classmethod
        @asynccontextmanager
        async def from_conn_string(
            cls, _place: str, *, index: Any = None, **_more: Any
        ) -> AsyncIterator[Any]:  # type: ignore[override]
            """Yield a store."""
            yield cls(index=index)

        async def setup(self) -> None:  # type: ignore[override]
            """Make nothing."""

    return Store, AsyncStore


def _session_class() -> Any:
    from memforest.integrations.openai_agents import MemForestSession

    class Session(MemForestSession):
        """Ours, made as theirs is."""

        def __init__(self, session_id: str, db_path: Any = ":memory:", **more: Any) -> None:
            name = "" if str(db_path) == ":memory:" else str(db_path)
            super().__init__(new_forest(name), "ana", session_id, **more)

        def close(self) -> None:
            """Leave the forest open: it is all sessions' own."""

    return Session


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put ours in the place of theirs, and skip what does not apply."""
    replaced: dict[str, Any] = {}
    names = {name for item in items for name in vars(getattr(item, "module", None) or object)}
    if names & {"InMemoryStore", "SqliteStore", "AsyncSqliteStore"}:
        store, async_store = _store_class()
        replaced |= {"InMemoryStore": store, "SqliteStore": store, "AsyncSqliteStore": async_store}
    if "SQLiteSession" in names:
        replaced["SQLiteSession"] = _session_class()
    for item in items:
        module: Any = getattr(item, "module", None)
        for name in replaced.keys() & vars(module).keys():
            setattr(module, name, replaced[name])
        own = getattr(item, "originalname", None) or item.name
        if why := NOT_APPLICABLE.get(own):
            item.add_marker(pytest.mark.skip(reason=f"not applicable: {why}"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take the folders away."""
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)
