"""The rows of a memory that an export carries: how each is written in it, reading them, and inserting them elsewhere.

A part is one table; the same table of parts serves the import. Its rows stand in the order of their ids and are numbered
from 1; a reference to a row is its number. Row ids are of one file alone, and have gaps where something was deleted; numbers
are of the export.

Rows go into an empty memory by the hundred, past the triggers that note single changes: the memory is noted as a whole. A
row that cannot be is found among its batch and named by its line.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memforest.store import derived, entities, meta
from memforest.store.connections import Tx, errors
from memforest.store.derived import pack_text, unpack_text
from memforest.times import EARLIEST, LATEST, to_ms


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a part.

    `form` is how its values are written: "plain" as they are, "time" as UTC milliseconds, "json" as the JSON that they hold, "flag" as true or
    false, "hex" or "base64" of bytes, "text" of a compressed text, and "ref" as a reference to a row of `of`.
    """

    name: str
    form: str = "plain"
    of: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A table, its columns, and how its rows are written.

    `record` is its name in the file. With `numbered` its rows have ids of the kind `numbered`; they are written one a
    line, or in blocks if `block`. `only` limits what is exported. `order` is how rows stand.
    """

    record: str
    table: str
    columns: tuple[Column, ...]
    numbered: str = ""
    block: bool = False
    only: str = ""
    order: str = "id"


def _columns(spec: str) -> tuple[Column, ...]:
    """Return columns from their names; with ":form" or ":ref=kind" where a form is not plain."""
    found = []
    for one in spec.split():
        name, _, form = one.partition(":")
        form, _, of = form.partition("=")
        found.append(Column(name, form or "plain", of))
    return tuple(found)


MEMORY = (
    Part("origin", "origin", _columns("memory user_id merged_ms:time label names:json"), "origin"),
    Part(
        "session",
        "session",
        _columns("session_id status infer:flag stored_ms:time metadata:json erased"),
        "session",
    ),
    Part(
        "turn",
        "turn",
        _columns(
            """session:ref=session ordinal turn_id speaker role text said_ms:time time_source stored_ms:time metadata:json
            digest:hex origin:ref=origin"""
        ),
        "turn",
    ),
    Part(
        "chunk",
        "chunk",
        _columns("session:ref=session ordinal first last status reason maker skipped:json"),
        "chunk",
    ),
    Part("entity", "entity", _columns("key label kind"), "entity"),
    Part(
        "correction",
        "correction",
        _columns(
            """key kind fact_id made text start_ms:time end_ms:time precision made_ms:time undone_ms:time said
            stored_ms:time"""
        ),
        "correction",
    ),
    Part(
        "correction_place",
        "correction_place",
        _columns("correction:ref=correction session_id turn_id quote:hex"),
        order="correction, session_id, turn_id, quote",
    ),
    Part(
        "fact",
        "fact",
        _columns(
            """fact_id text speaker start_ms:time end_ms:time precision negated:flag said_ms:time tie topics:json stored_ms:time dates:json
            verdict"""
        ),
        "fact",
    ),
    Part(
        "occurrence",
        "occurrence",
        _columns(
            """fact:ref=fact chunk:ref=chunk speaker said_ms:time topics:json cosine text quote tie dates:json
            correction:ref=correction stored_ms:time"""
        ),
        "occurrence",
    ),
    Part(
        "occurrence_turns",
        "occurrence_turn",
        _columns("occurrence:ref=occurrence turn:ref=turn"),
        block=True,
        order="occurrence, turn",
    ),
    Part(
        "mentions",
        "mention",
        _columns("fact:ref=fact entity:ref=entity occurrence:ref=occurrence roles"),
        block=True,
        order="fact, entity, occurrence",
    ),
    Part(
        "alias_uses",
        "alias_use",
        _columns("key entity:ref=entity occurrence:ref=occurrence"),
        block=True,
        order="key, entity, occurrence",
    ),
    Part("aliases", "alias", _columns("key entity:ref=entity"), block=True, order="key"),
    Part(
        "state",
        "state",
        _columns(
            "fact:ref=fact occurrence:ref=occurrence entity:ref=entity attribute value previous change at_ms:time"
        ),
        "state",
    ),
    Part(
        "relations",
        "relation",
        _columns("fact:ref=fact occurrence:ref=occurrence source:ref=entity label target:ref=entity"),
        block=True,
    ),
    Part(
        "name_uses",
        "name_use",
        _columns("occurrence:ref=occurrence entity:ref=entity name"),
        block=True,
        order="occurrence, entity, name",
    ),
    Part(
        "choices", "choice", _columns("verdict entity:ref=entity other:ref=entity made_ms:time"), block=True
    ),
    Part("tombstone", "tombstone", _columns("kind count stored_ms:time deleted_ms:time"), "tombstone"),
    Part("deleted", "deleted", _columns("digest:hex"), block=True, order="digest"),
    Part(
        "write_key",
        "write_key",
        _columns("key:hex request:hex session:ref=session result:json stored_ms:time"),
        order="key",
    ),
    Part(
        "spent",
        "spent",
        _columns(
            "operation step calls failures retries prompt_tokens completion_tokens cached_tokens prefix_tokens seconds"
        ),
        order="operation, step",
    ),
    Part(
        "wordings",
        "derived_wording",
        _columns("fact:ref=fact wording:hex"),
        block=True,
        only="fact != 0",
        order="fact",
    ),
)
"""What a memory holds besides its indexes. Wordings are derived, and carried because they are dear to make."""

SUMMARIES = Part(
    "artifacts",
    "artifact",
    _columns("digest:hex step maker text:text vector_of"),
    block=True,
    order="digest",
)
"""What models made; their vectors are not carried, as they are made again from the texts."""

VECTORS = tuple(
    Part(
        f"{kind}_vectors",
        f"derived_{kind}_vector",
        _columns(f"item:ref={kind} digest:hex vector:base64"),
        block=True,
        order="item",
    )
    for kind in ("turn", "fact")
)


class Numbers:
    """The numbers of rows in an export, by kind: 8 bytes a row."""

    def __init__(self) -> None:
        self._ids: dict[str, array[int]] = {}

    def keep(self, kind: str, ids: array[int]) -> None:
        """Number the rows of a kind in the order of their ids."""
        self._ids[kind] = ids

    def of(self, kind: str) -> Callable[[int | None], int | None]:
        """Return the function from a row's id to its number, None for None; LookupError for a row that is not there."""
        ids = self._ids[kind]
        rows = len(ids)
        dense = not rows or ids[-1] == rows  # none was ever deleted

        def number(row: int | None) -> int | None:
            if row is None:
                return None
            at = row if dense else bisect_left(ids, row) + 1
            if not 0 < at <= rows or ids[at - 1] != row:
                raise LookupError(f"there is no {kind} {row}")
            return at

        return number


def row_ids(tx: Tx, kind: str) -> array[int]:
    """Return the ids of the rows of a kind that are exported, in order."""
    part = next(one for one in MEMORY if one.numbered == kind)
    return array("q", tx.column(f"SELECT id FROM {part.table}{_where(part)} ORDER BY id"))


def read_rows(tx: Tx, part: Part, numbers: Numbers) -> Iterator[list[Any]]:
    """Yield the rows of a part as they are written, each as a list of its columns' values.

    Args:
        tx: a read transaction.
        part: the part.
        numbers: of all rows that are referred to.
    """
    names = ", ".join(f'"{one.name}"' for one in part.columns)
    write = [(at, _written(one, numbers)) for at, one in enumerate(part.columns) if one.form != "plain"]
    changes = [(at, how) for at, how in write if how is not None]
    for row in tx.execute(f"SELECT {names} FROM {part.table}{_where(part)} ORDER BY {part.order}"):
        values = list(row)
        for at, how in changes:
            values[at] = how(values[at])
        yield values


def _where(part: Part) -> str:
    return f" WHERE {part.only}" if part.only else ""


def _written(column: Column, numbers: Numbers) -> Callable[[Any], Any] | None:
    if column.form == "ref":
        return numbers.of(column.of)
    return _OUT.get(column.form)


def _or_none(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else how(value)


_EMPTY: dict[str | None, Any] = {None: None, "{}": {}, "[]": []}
"""What most columns of JSON hold."""


def _exported_json(value: str | None) -> Any:
    return _EMPTY[value] if value in _EMPTY else json.loads(value or "")


_OUT: dict[str, Callable[[Any], Any]] = {
    "json": _exported_json,
    "flag": lambda value: bool(value) if value in (0, 1) else value,
    "hex": _or_none(bytes.hex),
    "base64": _or_none(lambda value: b64encode(value).decode() if isinstance(value, bytes) else value),
    "text": unpack_text,
}


BATCH = 512
"""Rows that are inserted with one statement."""

COUNTED = ("session", "turn", "chunk", "fact", "entity")
"""Kinds of rows whose ids come from a counter (`memforest.store.meta.take_ids`)."""


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
    """Break the logs of changes, so that whoever follows them reads all."""
    newest = meta.change_position(tx)
    tx.execute("DELETE FROM change")
    tx.execute(
        "INSERT INTO change (seq, kind, item) SELECT ?, 'turn', coalesce(max(id), 0) FROM turn", (newest + 2,)
    )
    derived.forget_word_changes(tx)
    entities.has_changed(tx)


def insert_words(tx: Tx, kind: str, rows: Sequence[tuple[int, str]]) -> None:
    """Insert the word rows of new items: (item, its tokens between spaces)."""
    tx.executemany(f"INSERT INTO derived_{kind}_words (rowid, words) VALUES (?, ?)", rows)


class RowWriter:
    """Inserts the rows of an export in the order in which they come, column by column for many rows at once.

    Args:
        tx: a write transaction on a memory that holds nothing.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._count: dict[str, int] = {}
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
            values: of its columns.

        Raises:
            Unfit: if an earlier row cannot be stored.
        """
        if part is not self._part:
            self._begin(part)
        self._lines.append(line)
        self._rows.append(values)
        if part.numbered:
            self._count[part.numbered] = self.count(part.numbered) + 1
        if len(self._rows) >= BATCH:
            self._flush()

    def finish(self) -> None:
        """Insert what waits, and set the counters of ids behind the rows.

        Raises:
            Unfit: if a row cannot be stored.
        """
        self._flush()
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
        self._read = [(at, how) for at, one in enumerate(part.columns) if (how := self._how(one)) is not None]

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
        if part.numbered:
            first = self.count(part.numbered) - len(self._rows) + at + 1
            columns.insert(0, range(first, first + len(rows)))
        return list(zip(*columns, strict=True))

    def _how(self, column: Column) -> _Reading | None:
        if column.form == "ref":
            return self._known(column.of)
        return _IN.get(column.form)

    def _known(self, kind: str) -> _Reading:
        """Return the function that checks references to rows of a kind, which stand before."""

        def known(values: Sequence[Any]) -> Sequence[Any]:
            if (wrong := _beyond(values, 1, self.count(kind))) is not None:
                raise Unfit(f"refers to {kind} {wrong[0]!r}, which does not stand before it")
            return values

        return known


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


def _imported_json(value: Any) -> str | None:
    if not value and value in ({}, []):
        return "[]" if isinstance(value, list) else "{}"
    return None if value is None else _encode(value)


def _each(how: Callable[[Any], Any]) -> _Reading:
    return lambda values: [None if value is None else how(value) for value in values]


_IN: dict[str, _Reading] = {
    "json": _each(_imported_json),
    "flag": _flags,
    "time": _times,
    "hex": _each(lambda value: bytes.fromhex(_text(value))),
    "base64": _each(lambda value: b64decode(_text(value), validate=True)),
    "text": _each(lambda value: pack_text(_text(value))),
}
