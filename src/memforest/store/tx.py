"""The `Tx` protocol: an open transaction of whichever engine keeps the memory.

`memforest.store.connections.Connection` is SQLite's; what differs between engines in the text of a statement is
named in `memforest.store.dialect`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Args = Sequence[Any] | Mapping[str, Any]
"""The values of a statement: for each ``?`` in order, or for each ``:name``."""


class Found(Protocol):
    """The result of a statement, read row by row; each row is a tuple."""

    @property
    def rowcount(self) -> int:
        """How many rows an INSERT, UPDATE or DELETE has written."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that were not read yet."""

    def fetchone(self) -> Any:
        """Return the next row, None when there is none."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return the next rows, at most `size`."""

    def fetchall(self) -> list[Any]:
        """Return all rows that were not read yet."""


class Tx(Protocol):
    """An open transaction: the argument of every function of the store."""

    def execute(self, sql: str, args: Args = (), /) -> Found:
        """Run one statement."""

    def executemany(self, sql: str, rows: Iterable[Args], /) -> Found:
        """Run one statement that writes, once with each of some rows of values."""

    def insert(self, sql: str, args: Args = (), /) -> int:
        """Insert one row and return the number that it was given.

        Args:
            sql: an INSERT that ends in ``RETURNING`` and the column of the number.
            args: its values.

        Raises:
            LookupError: if nothing was inserted.
        """

    def ids(self, wanted: Iterable[int] | Iterable[str], /) -> object:
        """Return row ids, or keys, as the one value of `memforest.store.dialect.AMONG`; there may be any number.

        Keys hold no NUL character, which no text of a memory does.
        """


def begin_anew(tx: Tx) -> None:
    """Begin a read transaction anew before its first read, so that it sees the newest commit."""
    tx.execute("ROLLBACK")
    tx.execute("BEGIN")
