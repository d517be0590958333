"""A plugin of pytest that puts a key into every configuration that names none: `pytest -p tests.encrypted_plugin`.

With it the tests of whole memories run on encrypted ones; see tests_long/test_encrypted_memory.py. What a test looks for in the
file itself it finds by the same key. The run fails if a file of tests made no encrypted memory.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memforest import Config
from memforest.protection import Key
from memforest.store import connections, files
from memforest.store.connections import pragma_key

KEY = Key(bytes(range(32)))

_plain = sqlite3.connect
_run: list[Path] = []
"""The files of the tests that were run, the last of which is running."""
_made: set[Path] = set()
"""Those whose tests made a salt."""
_make = files.make


def _noted(path: Path, key: Key) -> Any:
    _made.update(_run[-1:])
    return _make(path, key)


def _connect(place: Any, *args: Any, **settings: Any) -> Any:
    """Open a file as `sqlite3.connect` does, an encrypted one with the key."""
    path = None if place == ":memory:" or settings.get("uri") else Path(place)
    salt = None if path is None else files.read(path)
    if salt is None:
        return _plain(place, *args, **settings)
    made = connections.library(encrypted=True).connect(place, *args, **settings)
    made.execute(f"PRAGMA key = {pragma_key(KEY.of_file(salt.salt))}").fetchall()
    return made


@pytest.hookimpl
def pytest_configure() -> None:
    """Change the default of the last setting, which is the key."""
    *others, none = Config.__init__.__defaults__ or ()
    assert none is None
    Config.__init__.__defaults__ = (*others, KEY)
    assert Config().key == KEY
    sqlite3.connect = _connect  # type: ignore[assignment]
    files.make = _noted


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the file whose test begins."""
    _run.append(item.path)


@pytest.hookimpl
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if no memory was encrypted in a file of tests: these would have proved nothing."""
    if not _run or _made != set(_run):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
