"""The index hmem: events joined by likeness within windows of the calendar, consolidated from week to year (H-Mem)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from memforest.search.snapshot import Snapshot
from memforest.store import meta
from memforest.store.tx import Tx
from memforest.systems.base import (
    Candidate,
    Found,
    Index,
    IndexProblem,
    NodeWork,
    Prepared,
    Refined,
    Search,
)
from memforest.systems.hmem import rows
from memforest.systems.hmem.advance import advance
from memforest.systems.hmem.check import problems
from memforest.systems.hmem.event_rows import KINDS
from memforest.systems.hmem.explore import prepare, refine
from memforest.systems.hmem.find import find
from memforest.systems.hmem.grow import KIND, OWNER
from memforest.systems.hmem.levels import EVENT, LEVELS, ROOT
from memforest.systems.hmem.made import made_by, now
from memforest.systems.hmem.placing import HMemPlacing
from memforest.systems.hmem.receive import empty
from memforest.systems.hmem.requests import requests_of
from memforest.systems.hmem.settings import HMemSettings
from memforest.systems.host import Host
from memforest.tree import Contract, Node


class HMemIndex(Index):
    """A tree a year of events and what has become of them, with the graph of who and what they name."""

    name = OWNER
    deferred = True
    make_tables = staticmethod(rows.make_tables)
    Settings = HMemSettings
    numbered = frozenset({KIND})
    contracts = MappingProxyType({KIND: Contract("contained")})
    carried: Mapping[str, str] | None = MappingProxyType(
        {"ix_hmem_node.node": "node", "ix_hmem_node.founder": "fact", "ix_hmem_node.parent": "node"}
    )

    def __init__(self, settings: HMemSettings | None = None) -> None:
        super().__init__(settings)
        if self.settings.events == "turns":
            self.carried = None  # which kind of rows a column refers to is one for all memories
        self.follows = frozenset({KINDS[self.settings.events]})

    def placing(self, tx: Tx) -> HMemPlacing:
        """Begin to take events out inside a write transaction."""
        return HMemPlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted; see `memforest.systems.hmem.advance`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return how the memories of nodes are consolidated."""
        return requests_of(nodes, inputs, self.settings)

    def node_names(self, tx: Tx, nodes: Collection[int]) -> Mapping[int, str]:
        """Return the level of each memory with its window and how often it was consolidated, such as ``"week 2024-05/2024-W18, 3 times"``."""
        return {
            node: f"{LEVELS[level]} {window or ''}" + (f", {n} times" if n > 1 else ", once" if n else "")
            for node, level, n, window in rows.names(tx, nodes)
            if level < ROOT
        }

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the trees, their windows and states."""
        found = super().check(tx)
        return found or problems(tx, self.settings)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Take a question apart; see `memforest.systems.hmem.explore`."""
        return await prepare(host, request, self.settings)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return what the parts of a question bring; see `memforest.systems.hmem.find`."""
        return find(tx, snapshot, request, self.settings)

    async def refine(self, host: Host, request: Search, found: Sequence[Candidate]) -> Refined | None:
        """Drop memories that say nothing else than what stands beside them."""
        return refine(found)

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return the columns of the paper's Table 7: turns, nodes of each level, entities and relations; see `rows.around`."""
        sizes, others = rows.level_sizes(tx), rows.around(tx)
        levels = {f"L{level + 1}": sizes.get(level, 0) for level in range(EVENT, ROOT)}
        return {"fragments": others.pop("fragments"), **levels, **others}

    def outdated(self, tx: Tx) -> str | None:
        """Return that events were joined with other likenesses than are set or measured now, if they were."""
        made, today = made_by(tx), now(tx, self.settings)
        if made is None or today is None or list(made.alphas) == list(today.alphas):
            return None
        before, after = (" ".join(f"{one:g}" for one in each.alphas) for each in (made, today))
        return f"its events were joined from the likenesses {before} on, which are {after} now"

    def notes(self, tx: Tx) -> list[str]:
        """Return that there is no tree where there is no embedder."""
        if meta.get(tx, "embedder") is not None:
            return []
        return [
            "'hmem' has no trees: events are joined by vectors, and this memory has no embedder; it is searched by words and "
            "entities"
        ]

    def clear(self, tx: Tx) -> None:
        """Delete the trees, the rows of the table, and what they were made by."""
        empty(tx)
