"""The rows of a memory that an export carries: how each is written in it, reading them, and inserting them elsewhere.

A part is one table; the same table of parts serves the import. Its rows stand in the order of their ids and are numbered
from 1; a reference to a row is its number. Row ids are of one file alone, and have gaps where something was deleted; numbers
are of the export.

Rows go into an empty memory past the triggers that note single changes: the memory is noted as a whole. Each is inserted
before the next one is read, so one that cannot be stored is the one that was read last.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memforest.errors import MemForestError
from memforest.store import derived, meta
from memforest.store.connections import Tx, errors
from memforest.store.derived import pack_text, unpack_text
from memforest.times import EARLIEST, LATEST, to_ms

KINDS = ("origin", "session", "turn", "chunk", "entity", "correction", "fact", "occurrence")
"""Tables whose rows are referred to; a column of that name is a reference."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a part.

    `form` is how its values are written: "plain" as they are, "time" as UTC milliseconds, "json" as the JSON that they hold, "flag" as true or
    false, "hex" or "base64" of bytes, "text" of a compressed text, and "ref" as a reference to a row of `of`.
    """

    name: str
    form: str = "plain"
    of: str = ""

    @classmethod
    def read(cls, spec: str) -> Column:
        """Return a column from its name, with ":form" or ":kind" that it refers to where the name does not say it."""
        name, _, form = spec.partition(":")
        form = form or (name if name in KINDS else "time" if name.endswith("_ms") else "plain")
        return cls(name, "ref", form) if form in KINDS else cls(name, form)


@dataclass(frozen=True)
class Part:
    """A table, its columns, and how its rows are written.

    `record` is its name in the file, and of its table where its rows stand one a line; in blocks stand `rows_of` a table.
    `only` limits what is exported. `order` is how rows stand; those in the order of their ids are numbered.
    """

    record: str
    spec: str
    rows_of: str = ""
    order: str = "id"
    only: str = "true"

    @property
    def table(self) -> str:
        """The table."""
        return self.rows_of or self.record

    @property
    def block(self) -> bool:
        """Whether many rows stand in a line."""
        return bool(self.rows_of)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, in the order in which they are written."""
        return tuple(map(Column.read, self.spec.split()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(one.name for one in self.columns)


MEMORY = (
    Part("origin", "memory user_id merged_ms label names:json"),
    Part("session", "session_id status infer:flag stored_ms metadata:json erased"),
    Part(
        "turn",
        "session ordinal turn_id speaker role text said_ms time_source stored_ms metadata:json digest:hex origin",
    ),
    Part("chunk", "session ordinal first last status reason maker skipped:json"),
    Part("entity", "key label kind"),
    Part(
        "correction",
        "key kind fact_id made text start_ms end_ms precision made_ms undone_ms said stored_ms state:json",
    ),
    Part(
        "correction_place",
        "correction session_id turn_id quote:hex",
        order="correction, session_id, turn_id, quote",
    ),
    Part(
        "fact",
        """fact_id text speaker start_ms end_ms precision negated:flag said_ms tie topics:json stored_ms dates:json
        verdict""",
    ),
    Part(
        "occurrence",
        "fact chunk speaker said_ms topics:json cosine text quote tie dates:json correction stored_ms",
    ),
    Part("occurrence_turns", "occurrence turn", "occurrence_turn", "occurrence, turn"),
    Part("mentions", "fact entity occurrence roles", "mention", "fact, entity, occurrence"),
    Part("alias_uses", "key entity occurrence", "alias_use", "key, entity, occurrence"),
    Part("aliases", "key entity", "alias", "key"),
    Part("state", "fact occurrence entity attribute value previous change at_ms"),
    Part("relations", "fact occurrence source:entity label target:entity", "relation"),
    Part("name_uses", "occurrence entity name", "name_use", "occurrence, entity, name"),
    Part("choices", "verdict entity other:entity made_ms", "choice"),
    Part("tombstone", "kind count stored_ms deleted_ms"),
    Part("deleted", "digest:hex", "deleted", "digest"),
    Part("write_key", "key:hex request:hex session result:json stored_ms", order="key"),
    Part(
        "spent",
        "operation step calls failures retries prompt_tokens completion_tokens cached_tokens prefix_tokens seconds",
        order="operation, step",
    ),
    Part("wordings", "fact wording:hex", "derived_wording", "fact", "fact != 0"),
)
"""What a memory holds besides its indexes. Wordings are derived, and carried because they are dear to make."""

SUMMARIES = Part("artifacts", "digest:hex step maker text:text vector_of", "artifact", "digest")
"""What models made; their vectors are not carried, as they are made again from the texts."""

VECTORS = (
    Part("turn_vectors", "item:turn digest:hex vector:base64", "derived_turn_vector", "item"),
    Part("fact_vectors", "item:fact digest:hex vector:base64", "derived_fact_vector", "item"),
)


def numbers(tx: Tx, kind: str) -> Callable[[int], int]:
    """Return the function from the id of a row of a kind to its number, LookupError for a row that is not there."""
    ids = array("q", (row for (row,) in tx.execute(f"SELECT id FROM {kind} ORDER BY id")))

    def number(row: int) -> int:
        at = bisect_left(ids, row)
        if at == len(ids) or ids[at] != row:
            raise LookupError(f"there is no {kind} {row}")
        return at + 1

    return number


def read_rows(tx: Tx, part: Part, number_of: dict[str, Callable[[int], int]]) -> Iterator[list[Any]]:
    """Yield the rows of a part as they are written, each as a list of its columns' values.

    Args:
        tx: a read transaction.
        part: the part.
        number_of: kind -> `numbers` of its rows.
    """
    names = ", ".join(f'"{name}"' for name in part.names)
    forms = [number_of[one.of] if one.form == "ref" else _OUT.get(one.form) for one in part.columns]
    changes = [(at, how) for at, how in enumerate(forms) if how is not None]
    for row in tx.execute(f"SELECT {names} FROM {part.table} WHERE {part.only} ORDER BY {part.order}"):
        values = list(row)
        for at, how in changes:
            if values[at] is not None:
                values[at] = how(values[at])
        yield values


_OUT: dict[str, Callable[[Any], Any]] = {
    "json": json.loads,
    "flag": lambda value: bool(value) if value in (0, 1) else value,
    "hex": bytes.hex,
    "base64": lambda value: b64encode(value).decode(),
    "text": unpack_text,
}


COUNTED = ("session", "turn", "chunk", "fact", "entity")
"""Kinds of rows whose ids come from a counter (`memforest.store.meta.take_ids`)."""


class Unfit(ValueError):
    """A row of an export that cannot be stored, and why."""


def _refused() -> tuple[type[Exception], ...]:
    """Return what a row raises that cannot be stored, whatever state the file is in."""
    named = ("IntegrityError", "ProgrammingError", "InterfaceError", "DataError")
    return (*errors(*named), OverflowError, ValueError, TypeError, AttributeError)


def holds_something(tx: Tx) -> bool:
    """Return whether anything was ever stored in a memory, so that nothing can be imported into it."""
    found = tx.execute(
        "SELECT EXISTS (SELECT 1 FROM meta WHERE substr(key, 1, 5) = 'next:' AND value != '1')"
    )
    return bool(found.fetchone()[0])


@contextmanager
def filling(tx: Tx) -> Iterator[None]:
    """Insert rows past all triggers of the schema; then set the counters of ids behind them, and break the logs of changes."""
    found = tx.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid").fetchall()
    for name, _ in found:
        tx.execute(f'DROP TRIGGER "{name}"')
    yield  # after an error the transaction is rolled back, and the triggers are there as before
    for _, sql in found:
        tx.execute(sql)
    for kind in COUNTED:
        last = tx.value(f"SELECT coalesce(max(id), 0) FROM {kind}")
        meta.take_ids(tx, kind, last)
    newest = meta.change_position(tx)
    tx.execute("DELETE FROM change")
    tx.execute(
        "INSERT INTO change (seq, kind, item) SELECT ?, 'turn', coalesce(max(id), 0) FROM turn", (newest + 2,)
    )
    derived.forget_word_changes(tx)


def insert_rows(tx: Tx, part: Part, rows: Iterable[list[Any]], count: Counter[str]) -> None:
    """Insert rows of a part as they are written in an export; each is inserted before the next one is asked for.

    Args:
        tx: a write transaction on a memory that holds nothing, inside `filling`.
        part: the part.
        rows: the rows.
        count: table -> how many rows were inserted, which is the number and the id of the last one; it is counted on.

    Raises:
        Unfit: if the last row that was asked for cannot be stored.
    """
    numbered = ("id",) if part.order == "id" else ()
    names = ", ".join(f'"{name}"' for name in (*numbered, *part.names))
    marks = ", ".join("?" * (len(part.names) + len(numbered)))
    forms = [_known(one.of, count) if one.form == "ref" else _IN.get(one.form) for one in part.columns]
    changes = [(at, how) for at, how in enumerate(forms) if how is not None]

    def ready() -> Iterator[list[Any]]:
        for values in rows:
            for at, how in changes:
                if values[at] is not None:
                    values[at] = how(values[at])
            count[part.table] += 1
            yield [count[part.table], *values] if numbered else values

    try:
        tx.executemany(f"INSERT INTO {part.table} ({names}) VALUES ({marks})", ready())
    except (MemForestError, Unfit):
        raise
    except _refused() as exc:
        raise Unfit(f"cannot be stored: {exc}") from exc


def _known(kind: str, count: Counter[str]) -> Callable[[Any], Any]:
    """Return the function that checks references to rows of a kind, which stand before."""

    def known(value: Any) -> Any:
        if type(value) is not int or not 1 <= value <= count[kind]:
            raise Unfit(f"refers to {kind} {value!r}, which does not stand before it")
        return value

    return known


_EARLIEST, _LATEST = to_ms(EARLIEST), to_ms(LATEST)


def _time(value: Any) -> Any:
    if type(value) is not int or not _EARLIEST <= value <= _LATEST:
        raise Unfit(f"{value!r} is no time in milliseconds")
    return value


def _flag(value: Any) -> int:
    if type(value) is not bool:
        raise Unfit("has something else where true or false is expected")
    return int(value)


_IN: dict[str, Callable[[Any], Any]] = {
    "json": json.JSONEncoder(ensure_ascii=False).encode,
    "flag": _flag,
    "time": _time,
    "hex": bytes.fromhex,
    "base64": lambda value: b64decode(value, validate=True),
    "text": pack_text,
}
