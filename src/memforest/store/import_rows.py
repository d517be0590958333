"""Inserting the rows of an export into an empty memory.

Rows go in by the hundred, past the triggers that note single changes: a memory that was empty is noted as a whole. A
row that cannot be is found among its batch and named by its line.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from memforest.interval import EARLIEST, LATEST, to_ms
from memforest.store import changes, derived, meta, relations
from memforest.store.engine import errors
from memforest.store.feed import KINDS
from memforest.store.packing import pack_ids, pack_text
from memforest.store.parts import Column, Part
from memforest.store.tx import Tx

BATCH = 512
"""Rows that are inserted with one statement."""

COUNTED = ("session", "turn", "cell", "fact", "entity", "tree", "node")
"""Kinds of rows whose ids come from a counter (`memforest.store.meta.take_ids`)."""

MOST_NUMBER = 2**31
"""More than any number of rows of a kind."""


def _refused() -> tuple[type[Exception], ...]:
    """Return what a row raises that cannot be stored, whatever state the file is in."""
    named = ("IntegrityError", "ProgrammingError", "InterfaceError", "DataError")
    return (*errors(*named), OverflowError, ValueError)


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
        tx.execute(f"INSERT INTO feed (kind, item) SELECT {KINDS.index(kind)}, id FROM {kind} ORDER BY id")
    newest = changes.position(tx)
    tx.execute("DELETE FROM change")
    tx.execute(
        "INSERT INTO change (seq, kind, item) SELECT ?, 'turn', coalesce(max(id), 0) FROM turn", (newest + 2,)
    )
    derived.forget_word_changes(tx)
    relations.has_changed(tx)


def insert_words(tx: Tx, kind: str, rows: Sequence[tuple[int, str]]) -> None:
    """Insert the word rows of new items: (item, its tokens between spaces)."""
    tx.executemany(f"INSERT INTO derived_{kind}_words (rowid, words) VALUES (?, ?)", rows)


class RowWriter:
    """Inserts the rows of an export in the order in which they come, column by column for many rows at once.

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
        self._read: list[tuple[int, _Reading]] = []
        self._lines: list[int] = []
        self._rows: list[list[Any]] = []

    def count(self, kind: str) -> int:
        """Return how many rows of a kind have come, which is the number and the id of the last one."""
        return self._count.get(kind, 0)

    def add(self, line: int, part: Part, values: list[Any]) -> None:
        """Insert a row, soon.

        Args:
            line: where it stands.
            part: its table.
            values: of its columns, behind its number where rows of the part are numbered in blocks.

        Raises:
            Unfit: if an earlier row cannot be stored.
        """
        if part is not self._part:
            self._begin(part)
        self._lines.append(line)
        self._rows.append(values)
        if part.numbered and not part.block:
            self._count[part.numbered] = self.count(part.numbered) + 1
        if len(self._rows) >= BATCH:
            self._flush()

    def finish(self) -> None:
        """Insert what waits, and set the counters of ids behind the rows.

        Raises:
            Unfit: if a row cannot be stored, or refers to a node that did not come.
        """
        self._flush()
        if self._most_node > self.count("node"):
            raise Unfit(f"is the end, and node {self._most_node} was referred to and never came")
        for kind in COUNTED:
            if self.count(kind):
                meta.take_ids(self._tx, kind, self.count(kind))

    def _begin(self, part: Part) -> None:
        self._flush()
        self._part = part
        named = ["id"] if part.numbered else []
        names = ", ".join(f'"{name}"' for name in (*named, *(one.name for one in part.columns)))
        marks = ", ".join("?" * (len(part.columns) + len(named)))
        self._sql = f"INSERT INTO {part.table} ({names}) VALUES ({marks})"
        first = int(part.block and bool(part.numbered))
        columns = enumerate(part.columns, first)
        self._read = [(at, how) for at, one in columns if (how := self._how(one)) is not None]
        if first:
            self._read.insert(0, (0, self._numbers))

    def _flush(self) -> None:
        if not self._rows:
            return
        self._tx.execute("SAVEPOINT batch")
        try:
            self._tx.executemany(self._sql, self._ready(self._rows, 0))
        except _refused() as exc:
            self._tx.execute("ROLLBACK TO batch")
            raise self._wrong_row() or exc from exc
        self._tx.execute("RELEASE batch")
        self._rows.clear()
        self._lines.clear()

    def _wrong_row(self) -> Unfit | None:
        """Return the error of the row of the batch that cannot be stored."""
        for at, (line, row) in enumerate(zip(self._lines, self._rows, strict=True)):
            try:
                self._tx.executemany(self._sql, self._ready([row], at))
            except _refused() as exc:
                return Unfit(str(exc) if isinstance(exc, Unfit) else f"cannot be stored: {exc}", line)
        return None

    def _ready(self, rows: list[list[Any]], at: int) -> list[tuple[Any, ...]]:
        """Return rows as they are stored; the first of them is number `at` of the batch, from 0."""
        part = self._part
        assert part is not None
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for place, how in self._read:
            columns[place] = how(columns[place])
        if part.record == "tree":
            columns[2] = self._scope_ids(*columns[:3])
        if part.numbered and not part.block:
            first = self.count(part.numbered) - len(self._rows) + at + 1
            columns.insert(0, range(first, first + len(rows)))
        return list(zip(*columns, strict=True))

    # -- references ---------------------------------------------------------------------------

    def _how(self, column: Column) -> _Reading | None:
        if column.form == "ref":
            return self._nodes if column.of == "node" else self._known(column.of)
        if column.form == "children":
            return lambda values: [pack_ids(self._children(value)) for value in values]
        return _IN.get(column.form)

    def _known(self, kind: str) -> _Reading:
        """Return the function that checks references to rows of a kind, which stand before."""

        def known(values: Sequence[Any]) -> Sequence[Any]:
            if (wrong := _beyond(values, 1, self.count(kind))) is not None:
                raise Unfit(f"refers to {kind} {wrong[0]!r}, which does not stand before it")
            return values

        return known

    def _scope_ids(self, owners: Sequence[Any], kinds: Sequence[Any], scopes: Sequence[Any]) -> Sequence[Any]:
        """Check the scopes that are references; others are the index's own."""
        for owner, kind, scope in zip(owners, kinds, scopes, strict=True):
            if (of := self._scopes.get((owner, kind))) is not None:
                self._known(of)([scope])
        return scopes

    def _nodes(self, values: Sequence[Any]) -> Sequence[Any]:
        """Check references to nodes, which may come later."""
        if (wrong := _beyond(values, 1, MOST_NUMBER)) is not None:
            raise Unfit(f"refers to node {wrong[0]!r}, which cannot be")
        self._most_node = max(self._most_node, max((one for one in values if one is not None), default=0))
        return values

    def _numbers(self, values: Sequence[Any]) -> Sequence[Any]:
        """Check the numbers of nodes and leaves."""
        if None in values:
            raise Unfit("has no number")
        self._nodes(values)
        self._count["node"] = max(self.count("node"), max(values))
        return values

    def _children(self, value: Any) -> list[int]:
        if not isinstance(value, list) or None in value:
            raise Unfit("has children that are no list of nodes")
        self._nodes(value)
        return value


_Reading = Callable[[Sequence[Any]], Sequence[Any]]
"""Reads the values of one column of some rows."""


def _beyond(values: Sequence[Any], least: int, most: int) -> list[Any] | None:
    """Return those values that are neither None nor whole numbers between two; None when all are."""
    kinds = set(map(type, values))
    if kinds <= {int}:
        fits = not values or (least <= min(values) and max(values) <= most)
        if fits:
            return None
    wrong = [one for one in values if one is not None and not (type(one) is int and least <= one <= most)]
    return wrong or None


_EARLIEST, _LATEST = to_ms(EARLIEST), to_ms(LATEST)


def _times(values: Sequence[Any]) -> Sequence[Any]:
    if (wrong := _beyond(values, _EARLIEST, _LATEST)) is not None:
        raise Unfit(f"{wrong[0]!r} is no time in milliseconds")
    return values


def _flags(values: Sequence[Any]) -> Sequence[Any]:
    if not set(map(type, values)) <= {bool}:
        raise Unfit("has something else where true or false is expected")
    return [int(value) for value in values]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit(f"{value!r} stands where a text is expected")
    return value


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _json(value: Any) -> str | None:
    if not value and value in ({}, []):
        return "[]" if isinstance(value, list) else "{}"
    return None if value is None else _encode(value)


def _each(how: Callable[[Any], Any]) -> _Reading:
    return lambda values: [None if value is None else how(value) for value in values]


_IN: dict[str, _Reading] = {
    "json": _each(_json),
    "flag": _flags,
    "time": _times,
    "hex": _each(lambda value: bytes.fromhex(_text(value))),
    "base64": _each(lambda value: b64decode(_text(value), validate=True)),
    "text": _each(lambda value: pack_text(_text(value))),
}
