"""The base class of indexes, `Index`.

The values that pass between a memory and its indexes are in `memforest.systems.placing` (writing) and `memforest.systems.searching`.

An index is a view of what was said. It lives in one folder, `systems/NAME/`, and is listed in
`memforest.systems.registry`; nothing else outside of its folder names it. What it has in the file are the trees that it
owns, and tables of its own called ``ix_NAME_…``: they can be dropped and made anew from what was said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memforest.refresh.requests import NodeWork
from memforest.search.snapshot import Snapshot
from memforest.settings import NoSettings
from memforest.store import feed, indexes
from memforest.store import trees as tree_rows
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.host import Host
from memforest.systems.placing import Copied, IndexProblem, Items, Kind, Placed, Placing
from memforest.systems.profiling import FoundProfile, ProfileRequest
from memforest.systems.searching import Candidate, Found, Hit, NodeHit, Prepared, Refined, Search
from memforest.tree import ORDERED, Contract, Node, check

__all__ = [
    "MOST_ROUNDS",
    "STEP",
    "Candidate",
    "Copied",
    "Found",
    "Hit",
    "Index",
    "IndexProblem",
    "Items",
    "Kind",
    "NodeHit",
    "NodeWork",
    "Placed",
    "Placing",
    "Prepared",
    "Refined",
    "Search",
    "following",
    "place_next",
]

STEP = 512
"""Notes of the feed that are placed in one transaction when an index catches up: a tenth of a second's work."""

MOST_ROUNDS = 4
"""Times that an index may rank anew for one question."""


def following(index: Index, items: Items) -> Items:
    """Return those of the items that an index follows."""
    return {kind: found for kind, found in items.items() if kind in index.follows}


def place_next(tx: Tx, index: Index, until: int) -> bool:
    """Let an index place the next notes of the feed inside a write transaction; return whether more are left.

    If it is not behind any more, or was dropped, another process was quicker, and nothing is done.
    """
    row = indexes.find(tx, index.name)
    if row is None or row.cursor >= until:
        return False
    items, upto = feed.read(tx, row.cursor, STEP, until)
    placing = index.placing(tx)
    if followed := following(index, items):
        placing.place(followed)
    placing.close()
    indexes.move(tx, index.name, upto)
    return upto < until


class _NoPlacing:
    """The placing of an index that reads the memory as it is."""

    def leave(self, items: Items) -> None:
        """Do nothing."""

    def place(self, items: Items) -> None:
        """Do nothing."""

    def close(self) -> Placed:
        """Return that nothing was written."""
        return Placed()


class Index(ABC):
    """One way to organise a memory and to find evidence in it. All indexes read the same persistent state.

    A subclass sets `name` and overrides what differs from an index that places nothing and finds by itself.
    """

    name: str
    follows: frozenset[Kind] = frozenset()
    """The kinds of items that it places; none when it reads the memory as it is."""
    deferred = False
    """Whether it is placed by `advance` alone, because placing reads summaries or asks a model. Others are placed
    in the transaction that writes what they follow."""
    paced = False
    """Whether its summaries are made by `advance` alone, through `Host.consolidate`, at times of its own: no refresh makes or
    counts them, and they are shown as they stand. It is advanced whenever a deferred index is."""
    profiles = False
    """Whether it keeps profiles of those who take part; see `profile`."""
    Settings: type[Any] = NoSettings
    """A frozen dataclass, of which the fields named in its ``KEPT`` are kept in the file from the first write on."""
    numbered: frozenset[str] = frozenset()
    """The kinds of its trees whose scopes have numbers for names."""
    settled: frozenset[str] = frozenset()
    """The kinds of its trees that one session alone is in: their summaries need not wait for other writes to end."""
    contracts: Mapping[str, Contract] = MappingProxyType({})
    """What must hold of its trees, by their kind; those of a kind that is not in it are MemTrees."""
    carried: Mapping[str, str] | None = None
    """What its numbers refer to, so that an export can carry its trees and tables: kind of tree, whose scopes they are, or
    ``"table.column"`` -> ``"session"``, ``"turn"``, ``"cell"``, ``"fact"``, ``"entity"``, or ``"node"`` of nodes and leaves.
    Numbers that are not in it are its own. None: an import places everything anew."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.Settings() if settings is None else settings

    @staticmethod  # noqa: B027
    def make_tables(tx: Tx) -> None:
        """Make its own tables, called ``ix_NAME_…``; none by default."""

    @abstractmethod
    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every candidate turn, best first; deterministic for equal inputs."""

    def placing(self, tx: Tx) -> Placing:
        """Begin to edit its trees inside a write transaction; by default it places nothing."""
        return _NoPlacing()

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the summaries of nodes are to be made; of a node that needs none, nothing.

        Args:
            tx: a read transaction.
            nodes: inner nodes of its trees whose children are up to date.
            inputs: the texts of each node's children, in order.
        """
        return []

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Do what has to be done before the ranking and may wait: ask models, browse, bring nodes up to date.

        It runs inside the query's budget, ledger and trace. No transaction is open. By default the question is left as it is.
        """
        if request.asked_mode in (None, "emb"):
            return Prepared(request)
        why = (
            f"mode {request.asked_mode!r} did what 'emb' does: the index {self.name!r} does not browse trees"
        )
        return Prepared(request, warnings=(why,))

    async def refine(self, host: Host, request: Search, found: Sequence[Candidate]) -> Refined | None:
        """Look at the first candidates, and rank again, or drop some; None leaves them as they are.

        It is asked again about what it ranked again, `MOST_ROUNDS` times at most.
        """
        return None

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted up to a number, and close the windows that have ended by `host.now`.

        It is asked after every write if the index is deferred, and else when it has fallen behind: because it was
        added or emptied. It is to come to its end, or to raise; other processes may do the same at once. So the
        cursor is moved in the transaction that places the notes, from where it is found there; who has read notes
        before, and asked a model, moves it by `memforest.store.indexes.move_from`, which tells who was first.

        Args:
            host: of the memory.
            until: a number of the feed; the cursor stands there in the end, or behind it.
        """
        while await host.write(lambda tx: place_next(tx, self, until)):
            pass

    async def ready(self, host: Host) -> Sequence[str]:
        """Make what is due and costs no call, before its trees or profiles are shown; return why some of it could not be made."""
        return ()

    def profile(self, tx: Tx, request: ProfileRequest) -> FoundProfile:
        """Return the profile that is in force by the instants of a request; of an index with `profiles` alone.

        Raises:
            NotFoundError: if nobody of that name ever spoke.
        """
        return FoundProfile()

    def reopen(self, tx: Tx, nodes: Collection[int]) -> None:  # noqa: B027  # of paced indexes alone
        """Schedule nothing: a refresh makes what is out of date."""

    def merge(self, copied: Copied) -> Iterator[Callable[[Tx], int]]:
        """Yield what takes over trees, with what is derived, from the same index of another memory.

        It has the same settings there, as far as they are kept, and has placed everything. Each piece of work runs in a
        write transaction of its own, and returns how many trees it took over; after each, the index must be as if it had
        placed some of its notes, as it may be the last one. What is not taken over is placed from the feed then.
        """
        return iter(())

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the names of the scopes of its trees; by default their numbers."""
        return {tree: str(scope) for tree, (_, scope) in tree_rows.scopes(tx, trees).items()}

    def titles(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what its trees are called where they are listed: kind, scope, and what sets it apart."""
        labels = self.labels(tx, trees)
        return {tree: f"{kind} {labels[tree]}" for tree, (kind, _) in tree_rows.scopes(tx, trees).items()}

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return what inner nodes of its trees are called where they are drawn; of one that has no name, nothing."""
        return {}

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return everything that is wrong with its trees and tables."""
        arena = SqliteArena(tx)
        return [
            IndexProblem("tree", f"{kind} tree {scope}: {message}")
            for kind, scope, head in tree_rows.heads(tx, self.name)
            for message in check(arena, head, self.contracts.get(kind, ORDERED))
        ]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return counts of what it holds, besides what every index has."""
        return {}

    def notes(self, tx: Tx) -> list[str]:
        """Return what it does not have, and why."""
        return []

    def clear(self, tx: Tx) -> None:
        """Delete its trees and the rows of its tables; then everything is to be placed from the start."""
        tree_rows.drop_trees(tx, self.name)
        indexes.empty_tables(tx, self.name)

    def reembed(self, tx: Tx) -> bool:
        """Make anew what was made of vectors, as all of them are of another embedder now; part of the transaction.

        Returns:
            False if it is to be cleared instead, and to place everything from the start.
        """
        return not self.follows

    def outdated(self, tx: Tx) -> str | None:
        """Return why what it has would be made otherwise now, with its settings as they are; None when it would not."""
        return None
