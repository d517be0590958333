"""Evidence that is an inner node of a tree: a summary, with the turns beneath it as its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.interval import from_ms
from memforest.memory.inspect.stored import turn_sources
from memforest.memory.query.evidence import path_names
from memforest.memory.results import Evidence
from memforest.search.snapshot import Snapshot
from memforest.store import derived
from memforest.store import evidence as rows
from memforest.store import trees as tree_rows
from memforest.store.db import Tx
from memforest.store.digests import damaged_turns
from memforest.systems.base import Hit, NodeHit, Search
from memforest.systems.nodes import allowed_nodes, turns_beneath

__all__ = ["SOURCE_TURNS", "Memories", "by_score"]

SOURCE_TURNS = 50
"""Most turns among the sources of a summary, the first ones; `Evidence.turns` counts them all."""
_BLOCK = 32


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

    `damage` has the names of damaged turns, in order. `unmade` counts the nodes whose summary is missing or out of date:
    an old one may tell what has been deleted since.
    """

    tx: Tx
    snapshot: Snapshot
    request: Search
    damage: dict[str, None]
    unmade: int = 0
    _beneath: dict[int, _Beneath] = field(default_factory=dict)

    def sound(self, hits: Iterable[NodeHit]) -> Iterator[NodeHit]:
        """Yield the hits that pass the time filters, have a current summary, and have a source that is not damaged.

        Only what is looked at is checked, a few at a time; of the turns beneath, those that are listed.

        Raises:
            ValueError: if a hit is no inner node of the memory.
        """
        source = iter(hits)
        passing: NDArray[np.bool_] | None = None
        while block := list(islice(source, _BLOCK)):
            if passing is None:
                passing = allowed_nodes(self.snapshot, self.snapshot.forest, self.request)
            kept = [hit for hit in block if passing[self._row(hit)]]
            ids = [hit.node for hit in kept]
            nodes, texts = tree_rows.nodes_with_ids(self.tx, ids), derived.summaries(self.tx, ids)
            for hit in kept:
                if nodes[hit.node].dirty or not texts.get(hit.node):
                    self.unmade += 1
                elif self._has_source(hit):
                    yield hit

    def _row(self, hit: NodeHit) -> int:
        """Return the forest row of a node."""
        forest = self.snapshot.forest
        row = int(np.searchsorted(forest.ids, hit.node))
        if row == len(forest.ids) or forest.ids[row] != hit.node or forest.kind[row]:
            raise ValueError(f"an index found node {hit.node}, which is no inner node of the memory")
        return row

    def _has_source(self, hit: NodeHit) -> bool:
        """Return whether a turn beneath a node can be shown as its source; note the damaged ones."""
        turns = self.snapshot.turns
        beneath = turns_beneath(self.snapshot, self.snapshot.forest, self._row(hit))
        listed = turns.ids[beneath[:SOURCE_TURNS]].tolist()
        damaged = damaged_turns(self.tx, listed)
        self.damage.update(dict.fromkeys(one.name for one in damaged.values()))
        texts = rows.turn_texts(self.tx, [turn for turn in listed if turn not in damaged])
        pairs = [(texts[turn].session_id, texts[turn].turn_id) for turn in listed if turn in texts]
        if pairs:
            self._beneath[hit.node] = _Beneath(len(beneath), int(turns.said_ms[beneath].max()), pairs)
        return bool(pairs)

    def evidence(self, hits: Sequence[NodeHit]) -> list[Evidence]:
        """Return the evidence of hits that `sound` has yielded."""
        ids = [hit.node for hit in hits]
        nodes, texts = tree_rows.nodes_with_ids(self.tx, ids), derived.summaries(self.tx, ids)
        paths = path_names(self.tx, self.snapshot, [self._row(hit) for hit in hits])
        return [
            Evidence(
                text=texts[hit.node],
                quote="",
                speaker="",
                kind="memory",
                score=hit.score,
                scores=hit.scores,
                said=from_ms(beneath.last_ms),
                start=from_ms(nodes[hit.node].start_ms),
                end=from_ms(nodes[hit.node].end_ms),
                sources=turn_sources(beneath.pairs),
                path=paths[self._row(hit)],
                why=hit.why,
                level=nodes[hit.node].level,
                window=hit.window,
                turns=beneath.turns,
                node_id=hit.node,
            )
            for hit in hits
            for beneath in [self._beneath[hit.node]]
        ]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of nodes that were left out."""
        if not self.unmade:
            return ()
        which = "1 summary is" if self.unmade == 1 else f"{self.unmade} summaries are"
        return (f"{which} not made yet or out of date, and left out of the evidence; resume() makes them",)
