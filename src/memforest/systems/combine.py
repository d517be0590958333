"""Several indexes as one: their rankings are standardised over the same turns and summed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ConfigError
from memforest.ranking import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit, Index, MemoryIndex, NodeHit, Prepared, Scored, Search
from memforest.systems.host import Host
from memforest.systems.places import turn_places

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Leg:
    """The result of one index, and the numbers that make its scores weighted z-scores."""

    name: str
    has: NDArray[np.bool_]
    """Whether the index returned each turn, shape (n,)."""
    standard: Scores
    """The weighted z-score of every turn, shape (n,)."""
    make: Callable[[int], Hit]
    nodes: Sequence[NodeHit]
    mean: float
    scale: float
    """Weight over standard deviation; 0 for scores that do not differ."""

    def parts(self, hit: Hit | NodeHit) -> dict[str, float]:
        """Return the parts of the weighted z-score of a hit, by names that begin with the index's."""
        if not self.scale:
            return {}
        given = hit.scores or {"score": hit.score}
        parts = {f"{self.name}.{part}": value * self.scale for part, value in given.items()}
        mean = f"{self.name}.mean"
        parts[mean] = parts.get(mean, 0.0) - self.mean * self.scale
        return parts

    def score(self, node: NodeHit) -> float:
        """Return the weighted z-score of a node."""
        return (node.score - self.mean) * self.scale


def fuse(found: Mapping[str, Found], places: Ints, weights: Mapping[str, float] | None = None) -> Found:
    """Return the rankings of several indexes as one: the weighted sum of each one's z-scores over all turns that any found.

    A turn that an index did not return counts as its lowest there. Mean and deviation are those of the turns without a
    `Hit.why`: what a reason puts in front stays in front, and does not flatten the differences of all others.
    Of the indexes that found a turn, the one that ranks it highest says which fact speaks for it, its leaf and why;
    the next one, where that one says nothing. A node has the z-score of the indexes that found it. Parts of a
    score are prefixed by the name of their index, so that they still sum to it; ``.absent`` is what a turn has from
    an index that did not return it. The order of the indexes makes no difference.

    Args:
        found: by the names of the indexes.
        places: of every turn of the memory, by which equal scores are put in order; shape (n,).
        weights: of the indexes; 1 for each that is not there.
    """
    names = sorted(found)
    scored = {name: found[name].scored or Scored.of(found[name].hits) for name in names}
    keep = np.zeros(len(places), dtype=np.bool_)
    for one in scored.values():
        keep[one.turns] = True
    legs = [
        _leg(name, scored[name], tuple(found[name].nodes), keep, (weights or {}).get(name, 1.0))
        for name in names
    ]
    total: Scores = np.zeros(len(places))
    for leg in legs:
        total += leg.standard
    return Found(
        _fused_turns(legs, total, places, keep),
        trees=_each_once([found[name].trees for name in names]),
        notes=_notes(found, legs, weights or {}),
        nodes=_fused_nodes(legs),
        warnings=tuple(dict.fromkeys(warning for name in names for warning in found[name].warnings)),
    )


def _each_once(recalled: Iterable[Iterable[tuple[int, float]]]) -> tuple[tuple[int, float], ...]:
    """Return the trees of several indexes, one index's behind the other's, each with its first score."""
    trees: dict[int, float] = {}
    for found in recalled:
        for tree, score in found:
            trees.setdefault(tree, score)
    return tuple(trees.items())


def _leg(name: str, scored: Scored, nodes: Sequence[NodeHit], keep: NDArray[np.bool_], weight: float) -> _Leg:
    """Return the leg of an index; one that found nodes alone is standardised over these."""
    has, scores = np.zeros(len(keep), dtype=np.bool_), np.zeros(len(keep))
    has[scored.turns] = True
    if not len(scored.turns):
        mean, scale = _mean_and_scale(np.array([node.score for node in nodes]), weight)
        return _Leg(name, has, scores, scored.make, nodes, mean, scale)
    scores[keep] = scored.scores.min()
    scores[scored.turns] = scored.scores
    usual = keep.copy()
    usual[scored.turns[scored.leads]] = False
    mean, scale = _mean_and_scale(scores[usual], weight)
    if not scale:  # nothing but what leads stands apart
        mean, scale = _mean_and_scale(scores[keep], weight)
    return _Leg(name, has, np.where(keep, (scores - mean) * scale, 0.0), scored.make, nodes, mean, scale)


def _mean_and_scale(scores: Scores, weight: float) -> tuple[float, float]:
    """Return the mean of scores, and a weight over their standard deviation; 0 if they do not differ."""
    deviation = float(scores.std()) if len(scores) else 0.0
    return (float(scores.mean()), weight / deviation) if deviation > 1e-12 else (0.0, 0.0)


def _fused_turns(legs: Sequence[_Leg], total: Scores, places: Ints, keep: NDArray[np.bool_]) -> Iterator[Hit]:
    """Yield the turns best first, each made of the hits of the indexes that found it."""
    for turn in best_first(total, places, keep):
        made = {leg.name: _of(leg.name, leg.make(turn)) for leg in legs if leg.has[turn]}
        by_rank = sorted((-leg.standard[turn], leg.name) for leg in legs if leg.has[turn])
        hits = [made[name] for _, name in by_rank]
        scores: dict[str, float] = {}
        for leg in legs:
            if leg.has[turn]:
                scores.update(leg.parts(made[leg.name]))
            elif leg.standard[turn]:
                scores[f"{leg.name}.absent"] = float(leg.standard[turn])
        at = next((hit for hit in hits if hit.leaf >= 0), hits[0])
        yield Hit(
            turn=turn,
            fact=next((hit.fact for hit in hits if hit.fact >= 0), -1),
            score=float(total[turn]),
            scores=scores,
            leaf=at.leaf,
            why=next((hit.why for hit in hits if hit.why), ""),
            browsed=at.browsed,
            index=at.index,
        )


def _of(name: str, hit: Hit) -> Hit:
    """Return a hit that says which index's trees its leaf is in."""
    return hit if hit.index else replace(hit, index=name)


def _fused_nodes(legs: Sequence[_Leg]) -> tuple[NodeHit, ...]:
    """Return the nodes that any index found, best first, then by id."""
    found: dict[int, NodeHit] = {}
    for leg in legs:
        for node in leg.nodes:
            parts, score = leg.parts(node), leg.score(node)
            have = found.get(node.node)
            found[node.node] = (
                replace(node, score=score, scores=parts)
                if have is None
                else replace(
                    have,
                    score=have.score + score,
                    scores={**have.scores, **parts},
                    window=have.window or node.window,
                    why=have.why or node.why,
                )
            )
    return tuple(sorted(found.values(), key=lambda node: (-round(node.score, 9), node.node)))


def _notes(found: Mapping[str, Found], legs: Sequence[_Leg], weights: Mapping[str, float]) -> dict[str, Any]:
    """Return each note of the first index that has it, and how the indexes were fused."""
    notes: dict[str, Any] = {}
    for leg in legs:
        notes.update({key: value for key, value in found[leg.name].notes.items() if notes.get(key) is None})
    notes["fusion"] = {
        leg.name: {"weight": weights.get(leg.name, 1.0), "turns": int(leg.has.sum()), "nodes": len(leg.nodes)}
        for leg in legs
    }
    return notes


class CombinedIndex(Index):
    """Searches several indexes and fuses what they find; see `fuse`.

    Args:
        indexes: at least one, each with another name.
        weights: of the indexes by name; 1 for each that is not there.

    Raises:
        ConfigError: if there is no index, one twice, or a weight that is negative, not finite or of another index.
    """

    def __init__(self, indexes: Iterable[MemoryIndex], weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.indexes = tuple(indexes)
        self.weights = dict(weights or {})
        names = [index.name for index in self.indexes]
        self.name = ",".join(names)
        if not names:
            raise ConfigError("there is no index to search; name at least one")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"the index {twice[0]!r} is named twice; name each index once")
        for name, weight in self.weights.items():
            if name not in names or not math.isfinite(weight) or weight < 0:
                raise ConfigError(
                    f"weight {weight!r} of index {name!r}: give numbers from 0 up for {self.name}"
                )

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Let each index prepare the question for itself; traces are by the name of the index where there are several.

        What an index does after its ranking (`MemoryIndex.refine`) is left out: it would act on what others found.
        """
        made = {index.name: await index.prepare(host, request) for index in self.indexes}
        traced = {name: one.trace for name, one in made.items() if one.trace.get("mode") != "emb"}
        return Prepared(
            replace(request, own={name: one.request for name, one in made.items()}),
            trees=tuple(tree for one in made.values() for tree in one.trees),
            trace=next(iter(traced.values())) if len(traced) == 1 else {"mode": request.mode, **traced},
            warnings=tuple(dict.fromkeys(warning for one in made.values() for warning in one.warnings)),
        )

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every turn and node that one of the indexes found, best first."""
        found = {
            index.name: index.search(tx, snapshot, request.own.get(index.name, request))
            for index in self.indexes
        }
        return fuse(found, turn_places(snapshot), self.weights)

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the names of the scopes of the indexes' trees."""
        owners = tree_rows.owners(tx, trees)
        return {
            tree: label
            for index in self.indexes
            for tree, label in index.labels(tx, [one for one in owners if owners[one] == index.name]).items()
        }
