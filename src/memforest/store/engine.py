"""The library that reads a file: Python's own SQLite, or SQLCipher for an encrypted one.

SQLCipher's Python module has the same classes by the same names (PEP 249), but they are other classes; whoever catches
an error of one catches that of both with `errors`.
"""

from __future__ import annotations

import importlib
import sqlite3
from functools import cache
from importlib.util import find_spec
from typing import Any

from memforest.errors import ConfigError

MIN_SQLITE = (3, 37, 0)
"""STRICT tables came with 3.37: https://www.sqlite.org/stricttables.html."""

_MISSING = "a key is configured, and SQLCipher is not installed: `pip install 'memforest[encrypted]'`, or leave the key out"

_in_use: list[Any] = [sqlite3]


def library(*, encrypted: bool) -> Any:
    """Return the DB-API module (PEP 249) for files of a kind.

    Raises:
        ConfigError: if it is not installed, or its SQLite is too old.
    """
    found = _cipher() if encrypted else sqlite3
    if found.sqlite_version_info < MIN_SQLITE:
        raise ConfigError(f"SQLite {found.sqlite_version} is too old; 3.37 or newer is needed")
    return found


def check_cipher() -> None:
    """Raise unless SQLCipher is installed; nothing is loaded.

    Raises:
        ConfigError: if it is not.
    """
    if find_spec("sqlcipher3") is None:
        raise ConfigError(_MISSING)


@cache
def _cipher() -> Any:
    try:
        found: Any = importlib.import_module("sqlcipher3.dbapi2")
    except ImportError as exc:
        raise ConfigError(_MISSING) from exc
    conn = found.connect(":memory:")
    # For all of the process: else it writes lines to standard error about each page that a key does not fit.
    conn.execute("PRAGMA cipher_log_level = NONE").fetchall()
    conn.close()
    _in_use.append(found)
    return found


def errors(*names: str) -> tuple[type[Exception], ...]:
    """Return the classes of the errors of all libraries in use; all errors when none is named.

    Args:
        *names: as in PEP 249, "Exceptions".
    """
    return tuple(getattr(one, name) for one in _in_use for name in names or ("Error",))


def not_a_database(error: BaseException) -> bool:
    """Return whether an error says that a file cannot be read as it was opened: another kind of file, or another key."""
    return isinstance(error, errors()) and "not a database" in str(error)
