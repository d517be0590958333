"""Inserting the rows of an export into an empty memory.

Rows go in by the hundred, past the triggers that note single changes: a memory that was empty is noted as a whole. A
row that cannot be is found among its batch and named by its line.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from memforest.interval import EARLIEST, LATEST, to_ms
from memforest.store import changes, derived, meta
from memforest.store.migration_indexes import FEED_KINDS
from memforest.store.packing import pack_ids, pack_text
from memforest.store.parts import Column, Part
from memforest.store.tx import Tx

__all__ = ["RowWriter", "Unfit", "holds_something", "insert_words", "note_all", "without_triggers"]

BATCH = 512
"""Rows that are inserted with one statement."""

COUNTED = ("session", "turn", "cell", "fact", "entity", "tree", "node")
"""Kinds of rows whose ids come from a counter (`memforest.store.meta.take_ids`)."""

MOST_NUMBER = 2**31
"""More than any number of rows of a kind."""


_REFUSED = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
)
"""What a row raises that cannot be stored, whatever state the file is in."""


class Unfit(ValueError):
    """A row of an export that cannot be stored: why, and in which line it stands if that is not the last one read."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


def holds_something(tx: Tx) -> bool:
    """Return whether anything was ever stored in a memory, so that nothing can be imported into it."""
    found = tx.execute(
        "SELECT EXISTS (SELECT 1 FROM meta WHERE substr(key, 1, 5) = 'next:' AND value != '1')"
    )
    return bool(found.fetchone()[0])


@contextmanager
def without_triggers(tx: Tx) -> Iterator[None]:
    """Run inserts past all triggers of the schema, inside a write transaction; see `note_all`."""
    found = tx.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid").fetchall()
    for name, _ in found:
        tx.execute(f'DROP TRIGGER "{name}"')
    yield  # after an error the transaction is rolled back, and the triggers are there as before
    for _, sql in found:
        tx.execute(sql)


def note_all(tx: Tx) -> None:
    """Note everything that a memory holds in its feed, and break the logs of changes, so that whoever follows them reads all."""
    for kind in ("turn", "cell", "fact"):
        tx.execute(
            f"INSERT INTO feed (kind, item) SELECT {FEED_KINDS.index(kind)}, id FROM {kind} ORDER BY id"
        )
    newest = changes.position(tx)
    tx.execute("DELETE FROM change")
    tx.execute(
        "INSERT INTO change (seq, kind, item) SELECT ?, 'turn', coalesce(max(id), 0) FROM turn", (newest + 2,)
    )
    derived.forget_word_changes(tx)


def insert_words(tx: Tx, kind: str, rows: Sequence[tuple[int, str]]) -> None:
    """Insert the word rows of new items: (item, its tokens between spaces)."""
    tx.executemany(f"INSERT INTO derived_{kind}_words (rowid, words) VALUES (?, ?)", rows)


class RowWriter:
    """Inserts the rows of an export in the order in which they come.

    Args:
        tx: a write transaction on a memory that holds nothing.
        scopes: (index, kind of tree) -> the kind of rows that its scopes refer to.
    """

    def __init__(self, tx: Tx, scopes: Mapping[tuple[str, str], str]) -> None:
        self._tx = tx
        self._scopes = scopes
        self._count: dict[str, int] = {}
        self._most_node = 0
        self._part: Part | None = None
        self._sql = ""
        self._read: list[tuple[int, Callable[[Any], Any]]] = []
        self._batch: list[tuple[int, list[Any]]] = []

    def count(self, kind: str) -> int:
        """Return how many rows of a kind there are, which is the number and the id of the last one."""
        return self._count.get(kind, 0)

    def add(self, line: int, part: Part, values: list[Any]) -> None:
        """Insert a row, soon.

        Args:
            line: where it stands.
            part: its table.
            values: of its columns, behind its number where rows of the part are numbered in blocks; changed.

        Raises:
            Unfit: if a value cannot be, or an earlier row of its batch cannot be stored.
        """
        if part is not self._part:
            self._begin(part)
        try:
            for at, how in self._read:
                values[at] = how(values[at])
        except ValueError as exc:
            raise Unfit(str(exc)) from exc
        if part.record == "tree" and (kind := self._scopes.get((values[0], values[1]))) is not None:
            values[2] = self._known(kind)(values[2])
        if part.numbered and not part.block:
            number = self._count[part.numbered] = self.count(part.numbered) + 1
            values.insert(0, number)
        self._batch.append((line, values))
        if len(self._batch) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Insert the rows that wait.

        Raises:
            Unfit: if one of them cannot be stored.
        """
        if not self._batch:
            return
        self._tx.execute("SAVEPOINT batch")
        try:
            self._tx.executemany(self._sql, [values for _, values in self._batch])
        except _REFUSED as exc:
            self._tx.execute("ROLLBACK TO batch")
            raise self._wrong_row() or exc from exc
        self._tx.execute("RELEASE batch")
        self._batch.clear()

    def _wrong_row(self) -> Unfit | None:
        """Return the error of the row of the batch that cannot be stored."""
        for line, values in self._batch:
            try:
                self._tx.execute(self._sql, values)
            except _REFUSED as exc:
                return Unfit(f"cannot be stored: {exc}", line)
        return None

    def finish(self) -> None:
        """Insert what waits, and set the counters of ids behind the rows.

        Raises:
            Unfit: if a row cannot be stored, or refers to a node that did not come.
        """
        self.flush()
        nodes = self.count("node")
        if self._most_node > nodes:
            raise Unfit(f"is the end, and node {self._most_node} was referred to and never came")
        for kind in COUNTED:
            if self.count(kind):
                meta.take_ids(self._tx, kind, self.count(kind))

    def _begin(self, part: Part) -> None:
        self.flush()
        self._part = part
        named = ["id"] if part.numbered else []
        names = ", ".join(f'"{name}"' for name in (*named, *(one.name for one in part.columns)))
        marks = ", ".join("?" * (len(part.columns) + len(named)))
        self._sql = f"INSERT INTO {part.table} ({names}) VALUES ({marks})"
        first = int(part.block and bool(part.numbered))
        columns = enumerate(part.columns, first)
        self._read = [(at, how) for at, one in columns if (how := self._how(one)) is not None]
        if first:
            self._read.insert(0, (0, self._next_node))

    def _how(self, column: Column) -> Callable[[Any], Any] | None:
        if column.form == "ref":
            return self._node if column.of == "node" else self._known(column.of)
        if column.form == "children":
            return self._children
        return _IN.get(column.form)

    def _known(self, kind: str) -> Callable[[Any], int | None]:
        """Return the function that checks references to rows of a kind, which stand before."""
        count = self._count

        def known(value: Any) -> int | None:
            if value is None or (type(value) is int and 0 < value <= count.get(kind, 0)):
                return value
            raise Unfit(f"there is no {kind} {value!r} before it")

        return known

    def _node(self, value: Any) -> int | None:
        if value is None:
            return None
        if type(value) is not int or not 0 < value < MOST_NUMBER:
            raise Unfit(f"{value!r} is no node")
        self._most_node = max(self._most_node, value)
        return value

    def _next_node(self, value: Any) -> int:
        number = self._node(value)
        if number is None:
            raise Unfit("a node has no number")
        self._count["node"] = max(self.count("node"), number)
        return number

    def _children(self, value: Any) -> bytes:
        if not isinstance(value, list):
            raise Unfit("the children of a node are no list")
        found = [self._node(child) for child in value]
        if None in found:
            raise Unfit("a child of a node has no number")
        return pack_ids([child for child in found if child is not None])


_EARLIEST, _LATEST = to_ms(EARLIEST), to_ms(LATEST)


def _time(value: Any) -> int | None:
    if value is None or (type(value) is int and _EARLIEST <= value <= _LATEST):
        return value
    raise Unfit(f"{value!r} is no time in milliseconds")


def _flag(value: Any) -> int:
    if not isinstance(value, bool):
        raise Unfit(f"{value!r} stands where true or false is expected")
    return int(value)


def _hex(value: Any) -> bytes | None:
    return None if value is None else bytes.fromhex(_text(value))


def _base64(value: Any) -> bytes | None:
    return None if value is None else b64decode(_text(value), validate=True)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit(f"{value!r} stands where a text is expected")
    return value


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _json(value: Any) -> str | None:
    if not value and value in ({}, []):
        return "[]" if isinstance(value, list) else "{}"
    return None if value is None else _encode(value)


_IN: dict[str, Callable[[Any], Any]] = {
    "json": _json,
    "flag": _flag,
    "time": _time,
    "hex": _hex,
    "base64": _base64,
    "text": lambda value: pack_text(_text(value)),
}
