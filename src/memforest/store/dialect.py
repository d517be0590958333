"""SQLite's SQL expressions that many statements need, each named once; another engine replaces this file.

Source: https://www.sqlite.org/json1.html#jeach, https://www.sqlite.org/printf.html.
"""

from __future__ import annotations

from memforest.store.tx import Tx


def listed(values: str) -> str:
    """Return the table, of the columns ``key`` and ``value``, of what is in a list or an object: a column's JSON, or "?" for one of `tx.ids`."""
    return f"json_each({values})"


AMONG = f"IN (SELECT value FROM {listed('?')})"
"""Is one of a list, which is bound as `tx.ids` returns it."""

AMONG_IDS = f"IN (SELECT value FROM {listed(':ids')})"
"""The same for a list that is bound by name, as ``ids``."""


def gathered(column: str) -> str:
    """Return the aggregate that has all values of a column in one JSON list."""
    return f"json_group_array({column})"


def is_object(column: str) -> str:
    """Return the condition that a column is a JSON object."""
    return f"(CASE WHEN json_valid({column}) THEN json_type({column}) = 'object' ELSE 0 END)"


def place_tie(session_id: str, ordinal: str) -> str:
    """Return the expression by which leaves of one time are in order: by session, then by position in it."""
    return f"{session_id} || char(31) || printf('%06d', {ordinal})"


def last_number(tx: Tx, table: str) -> int:
    """Return the last id that a table has given to a row, deleted rows included; 0 before the first."""
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return 0 if row is None else int(row[0])
