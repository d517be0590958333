"""The segtree index: a segment tree over all exchanges of a memory, and relevance that flows along it (SegTreeMem)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from memforest.search.snapshot import Snapshot
from memforest.store import meta
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Found, Index, IndexProblem, Kind, NodeWork, Prepared, Search
from memforest.systems.host import Host
from memforest.systems.segtree import rows
from memforest.systems.segtree.advance import TAU, advance
from memforest.systems.segtree.check import problems
from memforest.systems.segtree.grow import KIND, OWNER
from memforest.systems.segtree.placing import SegTreePlacing
from memforest.systems.segtree.rank import find, share_of
from memforest.systems.segtree.requests import LABEL, compared, request_of
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.shape import shape_of
from memforest.systems.segtree.thresholds import least_likeness
from memforest.tree import Contract, Node


class SegTreeIndex(Index):
    """One segment tree of everything that was said, by exchanges in their order."""

    name = OWNER
    follows = frozenset[Kind]({"turn"})
    deferred = True
    make_tables = staticmethod(rows.make_tables)
    Settings = SegTreeSettings
    contracts: Mapping[str, Contract] = MappingProxyType({KIND: Contract("partition", unary=False)})
    carried: Mapping[str, str] | None = MappingProxyType(
        {
            "ix_segtree_exchange.session": "session",
            "ix_segtree_exchange.turn": "turn",
            "ix_segtree_exchange.turn_last": "turn",
        }
    )

    def placing(self, tx: Tx) -> SegTreePlacing:
        """Begin to take exchanges out inside a write transaction."""
        return SegTreePlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted; see `memforest.systems.segtree.advance`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return the summary requests of nodes."""
        vector = compared(self.settings)
        return [request_of(node, inputs[node.id], vector=vector) for node in nodes]

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what the tree is of."""
        return dict.fromkeys(trees, LABEL)

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the tree, the exchanges, and the sums that leaves are compared with."""
        found = super().check(tx)
        return [*found, *problems(tx, self.settings, sound=not found)]

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every candidate turn and node, best first; see `memforest.systems.segtree.rank`."""
        return find(tx, snapshot, request, self.settings)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Have the summaries made that the ranking reads or shows."""
        prepared = await super().prepare(host, request)
        if self._shows_summaries:
            late = await host.ensure_fresh(self._shown)
            prepared = replace(prepared, warnings=(*late, *prepared.warnings))
        return prepared

    @property
    def _shows_summaries(self) -> bool:
        shown = self.settings.admissible != "leaves" and not self.settings.expand
        return shown or self.settings.scorer == "cosine"

    def _shown(self, tx: Tx) -> Collection[int]:
        """Return the nodes that are out of date and whose summaries the ranking reads, or may show."""
        dirty = tree_rows.dirty_children(tx, owner=OWNER)
        if self.settings.scorer == "cosine":
            return dirty
        found = tree_rows.nodes_with_ids(tx, dirty)
        head = tree_rows.find_head(tx, OWNER, KIND, 0)
        leaves = 0 if head is None else head.count
        most = share_of(self.settings, leaves) * leaves
        return [node.id for node in found.values() if node.count <= most]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return the shape of the tree as the paper's Table 5 has it, exchanges that wait, and who has placed the others."""
        return {**shape_of(tx), "waiting": rows.count(tx, rows.WAITING), "placed_by": rows.makers(tx)}

    def outdated(self, tx: Tx) -> str | None:
        """Return that leaves were placed with another threshold than is measured for the embedder now, if they were."""
        begun, model = meta.get(tx, TAU), meta.get(tx, "embedder")
        if begun is None or model is None or self.settings.tau is not None or self.settings.reads_texts:
            return None
        now = least_likeness(model, "centroid", self.settings.leaf_vector)
        return None if float(begun) == now else f"its leaves were placed with tau {begun}, which is {now} now"

    def notes(self, tx: Tx) -> list[str]:
        """Return why exchanges wait."""
        found = []
        if waits := rows.count(tx, rows.WAITING):
            found.append(
                f"{waits} exchange(s) wait for their place in the tree of 'segtree'; resume() places them"
            )
        if rows.makers(tx).get("runs"):
            found.append(
                "the tree of 'segtree' is of fixed runs, as this memory has no embedder; rebuild(embedder=True) makes "
                "one by likeness"
            )
        return found
