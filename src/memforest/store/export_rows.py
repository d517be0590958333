"""Reading the rows of a memory as an export writes them."""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from memforest.store.packing import unpack_ids, unpack_text
from memforest.store.parts import MEMORY, OF_CARRIED, STRUCTURE, Column, Part
from memforest.store.tx import Tx


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


def row_ids(tx: Tx, kind: str, owners: Sequence[str]) -> array[int]:
    """Return the ids of the rows of a kind that are exported, in order; leaves and nodes are of one kind."""
    found: array[int] = array("q")
    if kind == "node":
        only = OF_CARRIED.format(owners=_quoted(owners))
        sql = f"SELECT id FROM leaf WHERE {only} UNION SELECT id FROM node WHERE {only} ORDER BY 1"
    else:
        part = next(one for one in (*MEMORY, *STRUCTURE) if one.numbered == kind)
        sql = f"SELECT id FROM {part.table}{_where(part, owners)} ORDER BY id"
    found.extend(map(itemgetter(0), tx.execute(sql)))
    return found


def read_rows(
    tx: Tx, part: Part, numbers: Numbers, owners: Sequence[str], scopes: Mapping[tuple[str, str], str]
) -> Iterator[list[Any]]:
    """Yield the rows of a part as they are written, each as a list of its columns' values.

    Args:
        tx: a read transaction.
        part: the part.
        numbers: of all rows that are referred to.
        owners: the indexes whose trees are exported.
        scopes: (index, kind of tree) -> the kind of rows that its scopes are the ids of; others are kept as they are.
    """
    names = ", ".join(f'"{one.name}"' for one in part.columns)
    first = "id, " if part.block and part.numbered else ""
    write = [
        (at, _written(one, numbers))
        for at, one in enumerate(part.columns, bool(first))
        if one.form != "plain"
    ]
    changes = [(at, how) for at, how in write if how is not None]
    if first:
        changes.insert(0, (0, numbers.of(part.numbered)))
    scope = {key: numbers.of(kind) for key, kind in scopes.items()} if part.record == "tree" else {}
    for row in tx.execute(
        f"SELECT {first}{names} FROM {part.table}{_where(part, owners)} ORDER BY {part.order}"
    ):
        values = list(row)
        for at, how in changes:
            values[at] = how(values[at])
        if scope and (of := scope.get((values[0], values[1]))) is not None:
            values[2] = of(values[2])
        yield values


def _where(part: Part, owners: Sequence[str]) -> str:
    return f" WHERE {part.only.format(owners=_quoted(owners))}" if part.only else ""


def _quoted(names: Sequence[str]) -> str:
    """Return names of indexes, which are identifiers (`memforest.systems.registry`), as a list of SQL."""
    return ", ".join(f"'{name}'" for name in names)


def _written(column: Column, numbers: Numbers) -> Callable[[Any], Any] | None:
    if column.form == "ref":
        return numbers.of(column.of)
    if column.form == "children":
        node = numbers.of("node")
        return lambda packed: [node(child) for child in unpack_ids(packed)]
    return _OUT.get(column.form)


def _or_none(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else how(value)


_EMPTY: dict[str | None, Any] = {None: None, "{}": {}, "[]": []}
"""What most columns of JSON hold."""


def _json(value: str | None) -> Any:
    return _EMPTY[value] if value in _EMPTY else json.loads(value or "")


_OUT: dict[str, Callable[[Any], Any]] = {
    "json": _json,
    "flag": lambda value: bool(value) if value in (0, 1) else value,
    "hex": _or_none(bytes.hex),
    "base64": _or_none(lambda value: b64encode(value).decode() if isinstance(value, bytes) else value),
    "text": unpack_text,
}
