"""Work that may fail by itself: what it wrote is undone, and the transaction around it goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memforest.errors import ConfigError, StoreLockedError
from memforest.store.db import Database
from memforest.store.savepoint import REASON_CHARS, attempt, attempted, described
from memforest.store.tx import Tx


@pytest.fixture
def db(folder: Path) -> Iterator[Database]:
    """A file with one table."""
    made = Database(folder / "m.db")
    with made.write() as tx:
        tx.execute("CREATE TABLE one (x INTEGER PRIMARY KEY)")
    yield made
    made.close()


def numbers(tx: Tx) -> list[int]:
    """Return the rows of the table."""
    return [row[0] for row in tx.execute("SELECT x FROM one ORDER BY x")]


def writing(tx: Tx, number: int, error: Exception | None = None) -> Callable[[], None]:
    """Return work that writes a number, and then raises, if it is to."""

    def work() -> None:
        tx.execute("INSERT INTO one VALUES (?)", (number,))
        if error is not None:
            raise error

    return work


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), ConfigError("no"), RecursionError()])
def test_what_failing_work_wrote_is_undone(db: Database, error: Exception) -> None:
    """What was written before and behind it stays, and its error is returned."""
    with db.write() as tx:
        assert attempt(tx, writing(tx, 1)) is None
        assert attempt(tx, writing(tx, 2, error)) is error
        assert attempt(tx, writing(tx, 3)) is None
        assert numbers(tx) == [1, 3]
    with db.read() as tx:
        assert numbers(tx) == [1, 3]


def test_attempts_within_attempts_are_undone_by_themselves(db: Database) -> None:
    """The inner one's writes go, or with the outer one all."""
    with db.write() as tx:

        def work() -> None:
            tx.execute("INSERT INTO one VALUES (1)")
            assert attempt(tx, writing(tx, 2, ValueError("inner"))) is not None

        assert attempt(tx, work) is None
        assert attempt(tx, lambda: (work, writing(tx, 5, ValueError("outer"))())) is not None
        assert numbers(tx) == [1]


def test_a_query_that_was_not_read_to_its_end_keeps_nothing_open(db: Database) -> None:
    """Work that raises in the middle of reading leaves a transaction that can be committed."""
    with db.write() as tx:
        tx.executemany("INSERT INTO one VALUES (?)", [(i,) for i in range(100)])

    def work() -> None:
        for (x,) in tx.execute("SELECT x FROM one"):
            if x == 3:
                raise ValueError("enough")

    with db.write() as tx:
        assert isinstance(attempt(tx, work), ValueError)
        tx.execute("INSERT INTO one VALUES (1000)")
    with db.read() as tx:
        assert numbers(tx)[-1] == 1000


def test_a_mistake_in_a_statement_is_the_works_own(db: Database) -> None:
    """Code that is not ours makes mistakes in SQL; they say nothing against the file."""
    with db.write() as tx:
        for sql in ("SELECT * FROM nothing", "INSERT INTO one VALUES (1), (1)", "SELECT"):
            assert isinstance(attempt(tx, lambda sql=sql: tx.execute(sql)), sqlite3.Error)  # type: ignore[misc]
        assert numbers(tx) == []


@pytest.mark.parametrize("error", [StoreLockedError("busy"), sqlite3.OperationalError("database is locked")])
def test_errors_of_the_file_go_through(db: Database, error: Exception) -> None:
    """Nothing is to be blamed on the work, and nothing of the transaction is kept."""
    with pytest.raises(StoreLockedError), db.write() as tx:
        attempt(tx, writing(tx, 1, error))
    with db.read() as tx:
        assert numbers(tx) == []


def test_work_that_waits_is_attempted_too() -> None:
    """Its error is returned, unless it is the file's."""

    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    error = ValueError("no")
    assert asyncio.run(attempted(work(None))) is None
    assert asyncio.run(attempted(work(error))) is error
    with pytest.raises(StoreLockedError):
        asyncio.run(attempted(work(StoreLockedError("busy"))))


def test_a_reason_is_short() -> None:
    """What is kept with an index names the error and is no log."""
    assert described(ValueError("no")) == "failed: ValueError: no"
    assert len(described(ValueError("no" * 5000))) <= REASON_CHARS + len("failed: ") + 1
