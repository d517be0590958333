"""What passes between a memory and its indexes when it is written: items, what becomes of them, and what is found wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from memforest.store.feed import Items, Kind
from memforest.store.tx import Tx

__all__ = ["Copied", "IndexProblem", "Items", "Kind", "Placed", "Placing"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The counts of a placing: node rows written, and the trees that changed."""

    nodes: int = 0
    trees: frozenset[int] = frozenset()

    def plus(self, other: Placed) -> Placed:
        """Return both together."""
        return Placed(self.nodes + other.nodes, self.trees | other.trees)


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """A problem that an index finds in its own trees or tables: the part, and what is wrong."""

    part: str
    message: str


@dataclass(frozen=True, slots=True)
class Copied:
    """What a merge has copied from another memory, row id there -> row id here.

    Only what is here just as it is there: new sessions with their chunks and turns; facts that were not here, with all
    of their occurrences, and so with the same place in time order; entities that nothing here named. `session_ids`
    are the ids of sessions that are called otherwise here. `source` is a read transaction of the other memory.
    """

    source: Tx
    sessions: Mapping[int, int]
    turns: Mapping[int, int]
    cells: Mapping[int, int]
    facts: Mapping[int, int]
    entities: Mapping[int, int]
    session_ids: Mapping[str, str]


class Placing(Protocol):
    """One index inside one write transaction. No model is asked, and nothing waits."""

    def leave(self, items: Items) -> None:
        """Take items out of their places before they change or go, while they are stored with their vectors.

        Chunks and turns come here too when something that they say is hidden or shown again; they are placed again then, so
        that summaries above them are made anew. Of entities only those that go, or take part no longer.
        """
        ...

    def place(self, items: Items) -> None:
        """Place items that are new or have changed; those that are not stored any more are gone, as are facts that are hidden.

        Placing an item again changes nothing. See `memforest.store.corrections.shown_facts`.
        """
        ...

    def close(self) -> Placed:
        """Write everything back; the last call of the transaction."""
        ...
