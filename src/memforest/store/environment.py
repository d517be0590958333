"""What the SQLite of this Python can do, for `memforest doctor`."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from memforest.errors import ConfigError
from memforest.store.engine import MIN_SQLITE, check_cipher, library


@dataclass(frozen=True, slots=True)
class SqliteAbilities:
    """The version of SQLite, and the two abilities without which there is no store."""

    version: str
    new_enough: bool
    fts5: bool
    strict: bool

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing, in words; empty when the store can work."""
        needed = {
            f"version {'.'.join(map(str, MIN_SQLITE))} or newer": self.new_enough,
            "the FTS5 full-text index": self.fts5,
            "STRICT tables": self.strict,
        }
        return tuple(name for name, there in needed.items() if not there)


def sqlite_abilities() -> SqliteAbilities:
    """Try out, in memory, what the store needs of SQLite."""
    conn = sqlite3.connect(":memory:")
    try:
        return SqliteAbilities(
            version=sqlite3.sqlite_version,
            new_enough=sqlite3.sqlite_version_info >= MIN_SQLITE,
            fts5=_runs(conn, "CREATE VIRTUAL TABLE words USING fts5 (text)"),
            strict=_runs(conn, "CREATE TABLE strict_one (id INTEGER) STRICT"),
        )
    finally:
        conn.close()


def cipher_version() -> str | None:
    """Return the version of SQLCipher, None when it is not installed.

    Raises:
        ConfigError: if its SQLite is too old.
    """
    try:
        check_cipher()
    except ConfigError:
        return None
    module = library(encrypted=True)
    conn = module.connect(":memory:")
    try:
        [[version]] = conn.execute("PRAGMA cipher_version").fetchall()
    finally:
        conn.close()
    return f"{version.split()[0]} (SQLite {module.sqlite_version})"


def _runs(conn: sqlite3.Connection, statement: str) -> bool:
    try:
        conn.execute(statement)
    except sqlite3.Error:
        return False
    return True
