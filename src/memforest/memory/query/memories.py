"""Evidence that is a node of a tree: a summary, with the turns beneath it as its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.interval import from_ms
from memforest.memory.inspect.stored import turn_sources
from memforest.memory.query.evidence import path_names
from memforest.memory.results import Evidence
from memforest.search.forest import Forest
from memforest.search.forests import forest_of
from memforest.search.snapshot import Snapshot
from memforest.store import derived
from memforest.store import evidence as rows
from memforest.store import trees as tree_rows
from memforest.store.digests import damaged_turns
from memforest.store.tx import Tx
from memforest.systems.base import Hit, Index, NodeHit, Search
from memforest.systems.nodes import allowed_nodes, turns_beneath

SOURCE_TURNS = 50
"""Most turns among the sources of a summary, the first ones; `Evidence.turns` counts them all."""


def by_score(hits: Iterable[Hit], nodes: Iterable[NodeHit]) -> Iterator[Hit | NodeHit]:
    """Yield two rankings as one, best first; a turn before a node of the same score."""
    return merge(hits, nodes, key=lambda hit: -round(hit.score, 9))


class _Beneath(NamedTuple):
    """The turns beneath a node: how many, when the last was said (ms), and (session id, turn id) of the first ones."""

    turns: int
    last_ms: int
    pairs: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Memories:
    """Reads the ranked nodes of one query, and notes those that cannot be shown.

    `damage` has the names of damaged turns, in order. `unmade` has the nodes whose summary is missing or out of date:
    an old one may tell what has been deleted since.
    """

    tx: Tx
    snapshot: Snapshot
    index: Index
    request: Search
    damage: dict[str, None]
    unmade: set[int] = field(default_factory=set)
    _places: dict[int, tuple[Forest, int]] = field(default_factory=dict)
    _passing: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)
    _beneath: dict[int, _Beneath] = field(default_factory=dict)
    _names: dict[int, tuple[str, str] | None] = field(default_factory=dict)
    """(Session id, turn id) by row of a turn; None of one that cannot be shown."""

    def shows(self, hit: NodeHit) -> bool:
        """Return whether a node passes the time filters, has a current summary, and has a source that is not damaged.

        Of the turns beneath it, those that are listed are checked for damage. A node is shown once.

        Raises:
            ValueError: if it is no node of the memory, or a leaf without a summary of its own.
        """
        forest, row = self._place(hit)
        if forest.owner not in self._passing:
            self._passing[forest.owner] = allowed_nodes(self.snapshot, forest, self.request)
        if not self._passing[forest.owner][row] or hit.node in self._beneath:
            return False
        node = tree_rows.nodes_with_ids(self.tx, [hit.node])[hit.node]
        text = derived.summaries(self.tx, [hit.node]).get(hit.node)
        if node.dirty or not text:
            self.unmade.add(hit.node)
            return False
        self._texts[hit.node] = text
        return self._has_source(hit)

    def _place(self, hit: NodeHit) -> tuple[Forest, int]:
        """Return the forest that a node is of, and its row there."""
        if hit.node not in self._places:
            owner = tree_rows.owner_of_node(self.tx, hit.node)
            if owner is None:
                raise ValueError(
                    f"an index found node {hit.node}, which has no summary of its own in the memory"
                )
            forest = forest_of(self.tx, self.snapshot, owner)
            self._places[hit.node] = forest, int(np.searchsorted(forest.ids, hit.node))
        return self._places[hit.node]

    def _has_source(self, hit: NodeHit) -> bool:
        """Return whether a turn beneath a node can be shown as its source; note the damaged ones."""
        turns = self.snapshot.turns
        beneath = turns_beneath(self.snapshot, *self._place(hit))
        pairs = self._shown(turns.ids[beneath[:SOURCE_TURNS]].tolist())
        if pairs:
            self._beneath[hit.node] = _Beneath(len(beneath), int(turns.said_ms[beneath].max()), pairs)
        return bool(pairs)

    def _shown(self, listed: Sequence[int]) -> list[tuple[str, str]]:
        """Return (session id, turn id) of the turns that can be shown; each is read once, though it is beneath several nodes."""
        new = [turn for turn in listed if turn not in self._names]
        if new:
            damaged = damaged_turns(self.tx, new)
            self.damage.update(dict.fromkeys(one.name for one in damaged.values()))
            names = rows.turn_names(self.tx, [turn for turn in new if turn not in damaged])
            self._names |= {turn: names.get(turn) for turn in new}
        return [name for turn in listed if (name := self._names[turn]) is not None]

    def evidence(self, hits: Sequence[NodeHit]) -> list[Evidence]:
        """Return the evidence of hits that `shows` let pass."""
        nodes = tree_rows.nodes_with_ids(self.tx, [hit.node for hit in hits])
        paths = {hit.node: self._path(hit) for hit in hits}
        return [
            Evidence(
                text=self._texts[hit.node],
                quote="",
                speaker="",
                kind="memory",
                score=hit.score,
                scores=hit.scores,
                said=from_ms(beneath.last_ms),
                start=from_ms(nodes[hit.node].start_ms),
                end=from_ms(nodes[hit.node].end_ms),
                sources=turn_sources(beneath.pairs),
                path=paths[hit.node],
                why=hit.why,
                level=nodes[hit.node].level,
                window=hit.window,
                turns=beneath.turns,
                node_id=hit.node,
                span=nodes[hit.node].span,
            )
            for hit in hits
            for beneath in [self._beneath[hit.node]]
        ]

    def _path(self, hit: NodeHit) -> tuple[str, ...]:
        forest, row = self._place(hit)
        return path_names(self.tx, self.index, forest, [row])[row]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the nodes that were left out."""
        if not self.unmade:
            return ()
        which = "1 summary is" if len(self.unmade) == 1 else f"{len(self.unmade)} summaries are"
        return (f"{which} not made yet or out of date, and left out of the evidence; resume() makes them",)
