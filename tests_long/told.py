"""An index that writes down what it is told, for tests of what a memory tells its indexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests_long.worlds import CLOCK, fast_config

from memforest.records import SummaryRequest
from memforest.search.filters import IndexResult, Search
from memforest.search.snapshot import Snapshot
from memforest.settings import Settings
from memforest.store import indexes
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.indexes import Items, Kind
from memforest.trees import attached
from memforest.trees.attached import Attached
from memforest.trees.index import Index, Placed, Placing
from memforest.trees.refresh import NodeWork

__all__ = ["ATTACHED", "Depth", "Told", "added", "opened", "row_of", "turn", "verbs"]


@dataclass(frozen=True, slots=True)
class Depth(Settings):
    """Settings of which one is kept in the file."""

    KEPT: ClassVar[tuple[str, ...]] = ("depth",)
    depth: int = 2
    reads: int = 5


class Told(Index):
    """An index that writes down what it is told, and raises where it is asked to."""

    name = "told"
    follows = frozenset[Kind]({"turn", "fact"})
    Settings = Depth
    log: ClassVar[list[tuple[str, Any]]] = []
    fails: ClassVar[set[str]] = set()

    @staticmethod
    def make_tables(tx: Tx) -> None:
        """Make a table of what was told."""
        tx.execute("CREATE TABLE ix_told_seen (kind, item)")

    def placing(self, tx: Tx) -> _Writing:
        """Begin to write down."""
        self.log.append(("begin", self.settings.depth))
        return _Writing(tx, self)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Find nothing."""
        return IndexResult(())

    def work(self, tx: Tx, nodes: Any, inputs: Any) -> list[NodeWork]:
        """Ask for a summary of each node, of its number of inputs."""
        self.log.append(("work", [node.id for node in nodes]))
        return [NodeWork(n.id, _request(inputs[n.id])) for n in nodes]

    def clear(self, tx: Tx) -> None:
        """Say that it is emptied."""
        self.say("clear", None)
        super().clear(tx)

    def notes(self, tx: Tx) -> list[str]:
        """Say something."""
        self.say("notes", None)
        return ["told says so"]

    def say(self, verb: str, what: Any) -> None:
        """Note a call, and raise if that is asked for."""
        self.log.append((verb, what))
        if verb in self.fails:
            raise RuntimeError(f"{verb} fails")


def _request(inputs: tuple[str, ...]) -> SummaryRequest:
    return SummaryRequest("all", "all", CLOCK, CLOCK, inputs, 1)


class _Writing(Placing):
    def __init__(self, tx: Tx, index: Told) -> None:
        self.tx, self.index = tx, index

    def leave(self, items: Items) -> None:
        """Note which of the items are stored still."""
        stored = {row[0] for row in self.tx.execute("SELECT id FROM turn")}
        self.index.say(
            "leave", {kind: (ids, set(ids) <= stored or kind != "turn") for kind, ids in items.items()}
        )

    def place(self, items: Items) -> None:
        """Note the items, and write a row of each."""
        rows = [(kind, item) for kind, ids in items.items() for item in ids]
        self.tx.executemany("INSERT INTO ix_told_seen VALUES (?, ?)", rows)
        self.index.say("place", {kind: tuple(ids) for kind, ids in items.items()})

    def close(self) -> Placed:
        """Note the end."""
        self.index.say("close", None)
        return Placed(7, frozenset({3}))


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Open a file for the time of a test, in which the index `told` is known."""
    Told.log, Told.fails = [], set()
    attached.INDEXES[Told.name] = Told
    db = Database(path)
    yield db
    db.close()
    attached.INDEXES.pop("told", None)


ATTACHED = Attached(fast_config())


def verbs() -> list[str]:
    """Return what the index was told, and forget it."""
    found = [verb for verb, _ in Told.log]
    Told.log.clear()
    return found


def added(tx: Tx, name: str = "told", given: Any = None, *, current: bool = True) -> None:
    """Give the memory the index, as one that has placed everything, or nothing yet."""
    ATTACHED.add(tx, name, given)
    if current:
        indexes.move(tx, name, indexes.feed_position(tx))


def turn(tx: Tx, text: str = "Hello.") -> int:
    """Store a turn, without anything else, and return its row."""
    (row,) = tx.execute("SELECT max(id) + 1 FROM turn").fetchone()
    sql = """INSERT INTO turn SELECT ?, session, ?, ?, speaker, role, ?, said_ms, time_source, stored_ms, metadata, digest, origin
             FROM turn WHERE id = 1"""
    tx.execute(sql, (row, row, f"x{row}", text))
    return int(row)


def row_of(tx: Tx, name: str = "told") -> indexes.IndexRow:
    """Return the row of an index."""
    found = indexes.find(tx, name)
    assert found is not None
    return found
