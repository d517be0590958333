"""The leaves that a timem recall starts from, their relevance and that of the memories above them, and the gate.

Source of ``"paper"``: TiMem (arXiv 2601.02845) §3.3.2, eq. 7. ``"fused"`` is this package's: turns as they were said
(`memforest.search.context_scores`), and what flows down to them from their segment and session.

The gate (§3.3.3, eq. 10) drops what of a recall a question does not need, by rules or by a model. The rules drop what a kept
piece says already, a state that has ended, and what is far below the best. They work on arrays, before a row is read; only
whether a memory's sentences stand elsewhere is told by texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.config import Recall
from memforest.errors import ModelRefusedError
from memforest.records import Complexity
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import Base, as_said, cosine_relevance, fused_relevance, read_base
from memforest.search.filters import (
    RefineCandidate,
    Refinement,
    Search,
    is_state,
    memory_zone,
    turn_places,
    unsaid,
    valid_end,
)
from memforest.search.forest import INNER, EmbeddedForest, Forest, once_per_forest
from memforest.search.lexical import bm25_of_runs
from memforest.search.scores import Levels, Scores, activation, leading, share_of_most, standardise
from memforest.search.snapshot import Snapshot, ranges
from memforest.search.vectors import turn_text
from memforest.store.connections import Tx
from memforest.text import cut, lexical_tokens
from memforest.times import from_ms
from memforest.trees.index import FALLS_BACK, Host, Index

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_VECTORS = (
    "this memory has no embedder: leaves were found by words alone; rebuild(embedder=True) gives it one"
)
CHANNEL = 40
"""Leaves of each channel that count with ``leaves="paper"`` (released configuration)."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units that a recall ranks: the leaves of the tree, in which every turn is."""

    leaves: Ints
    """Forest row of each."""
    turns: Ints
    """The turns, unit by unit."""
    starts: Ints
    """Where the turns of each unit begin in `turns`."""
    counts: Ints
    of_turn: Ints
    """The unit of every turn, shape (n,)."""

    def turns_of(self, units: Ints) -> Ints:
        """Return the turns of some units, one unit's behind the other's."""
        return self.turns[ranges(self.starts[units], self.starts[units] + self.counts[units])]


@once_per_forest
def units_of(forest: Forest) -> Units:
    """Return the leaves of a forest whose leaves are runs of turns."""
    leaves = np.flatnonzero(forest.kind != INNER)
    counts = forest.item_end[leaves] - forest.item[leaves]
    turns = ranges(forest.item[leaves], forest.item_end[leaves])
    of_turn = np.zeros(len(forest.turns.ids), dtype=np.int64)
    of_turn[turns] = np.repeat(np.arange(len(counts)), counts)
    return Units(leaves, turns, np.cumsum(counts) - counts, counts, of_turn)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """How relevant units and turns are to a question by themselves, on one scale."""

    base: Base
    units: Units
    unit: Scores
    """Of every unit; -inf where none of its turns passes the filters."""
    turn: Scores
    """Of every turn."""
    parts: Mapping[str, Scores]
    """Of every turn, which sum to its score."""
    lexical: Scores
    """What words alone say of every unit."""
    most: tuple[float, float]
    """What the cosine and the words of units are divided by, with ``leaves="paper"``; else 1."""
    warnings: tuple[str, ...] = ()

    @property
    def places(self) -> Ints:
        """The first turn of every unit, which puts equal ones in order."""
        return self.units.turns[self.units.starts]


def hear(tx: Tx, snapshot: Snapshot, index: Index, request: Search, recall: Recall, keep: Flags) -> Heard:
    """Return how relevant units and turns are.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, which is not empty.
        index: whose tree is searched.
        request: the question; with ``leaves="paper"`` its plan's keywords are what words are compared with.
        recall: `leaves`, `weight`, `k1` and `b` count.
        keep: the turns that pass the filters.
    """
    forest = forest_of(tx, snapshot, index)
    base, units = read_base(tx, snapshot, request), units_of(forest)
    passes = np.logical_or.reduceat(keep[units.turns], units.starts)
    if recall.leaves == "paper":
        return _as_in_the_paper(tx, snapshot, index, request, recall, base, passes)
    said = as_said(snapshot, request, base)
    weights = request.ranking  # less for a list, whose answers lie in many sessions
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    if share and not recall.flat:
        levels = _levels(forest)
        said.add("session_tree", levels.flow(said.total) * (share / len(levels.groups)))
    turn, lexical = said.total, standardise(base.lexical)
    best = np.maximum.reduceat(np.where(keep, turn, -np.inf)[units.turns], units.starts)
    words = np.maximum.reduceat(lexical[units.turns], units.starts)
    warnings = () if snapshot.dimension else (NO_VECTORS,)
    return Heard(base, units, best, turn, said.parts, words, (1.0, 1.0), warnings)


@once_per_forest
def _levels(forest: Forest) -> Levels:
    """Return the turns by the segments and sessions that they are in."""
    units = units_of(forest)
    leaf = units.leaves[units.of_turn]
    return Levels.of(np.array([leaf, forest.parent[leaf]]))


def _as_in_the_paper(
    tx: Tx, snapshot: Snapshot, index: Index, request: Search, recall: Recall, base: Base, passes: Flags
) -> Heard:
    units = units_of(forest_of(tx, snapshot, index))
    warnings: tuple[str, ...] = ()
    keywords = [token for word in request.plan.keywords for token in lexical_tokens(word)]
    tokens = keywords or request.tokens
    lexical = bm25_of_runs(tx, snapshot, tokens, units.of_turn, len(units.counts), k1=recall.k1, b=recall.b)
    dense = np.zeros(len(units.counts))
    weight = recall.weight
    if request.vector is None or not snapshot.dimension:
        weight = 0.0
        warnings = (f"leaves='paper' needs vectors; {NO_VECTORS}",)
    else:
        dense = _cosines(embedded_forest(tx, snapshot, index), units, request.vector, base)
    dense, lexical = np.where(passes, dense, 0.0), np.where(passes, lexical, 0.0)
    ties = turn_places(snapshot)[units.turns[units.starts]]
    unit = activation(dense, _leading_alone(lexical, ties), ties, weight=weight, dense_top=CHANNEL)
    by_words = (1 - weight) * share_of_most(_leading_alone(lexical, ties))
    turn = unit[units.of_turn]
    parts = {"lexical": by_words[units.of_turn], "dense": (unit - by_words)[units.of_turn]}
    most = (float(dense.max(initial=0.0)), float(lexical.max(initial=0.0)))
    return Heard(base, units, np.where(passes, unit, -np.inf), turn, parts, lexical, most, warnings)


def _leading_alone(values: Scores, ties: Ints) -> Scores:
    """Return values with those behind the first `CHANNEL` set to 0."""
    out = np.zeros(len(values))
    first = leading(values, ties, CHANNEL)
    out[first] = values[first]
    return out


def _cosines(trees: EmbeddedForest, units: Units, vector: NDArray[np.float32], base: Base) -> Scores:
    """Return the cosine of every unit: of its own vector where it has one, else of the mean of its turns', at least 0."""
    forest = trees.forest
    nodes = cosine_relevance(trees, vector, base.turn, base.fact)
    if len(forest.summarised):
        own = trees.cosines_at(forest.summarised, vector)
        stored = own != 0  # a summary whose vector is not made has zeros
        nodes[forest.summarised[stored]] = np.maximum(own[stored], 0.0)
    return np.asarray(nodes[units.leaves], dtype=np.float64)


def best_units(heard: Heard, snapshot: Snapshot, count: int) -> Ints:
    """Return the best units that pass the filters, best first, at most so many."""
    ties = turn_places(snapshot)[heard.places]
    first = leading(heard.unit, ties, count)
    return first[np.isfinite(heard.unit[first])]


def own_scores(
    tx: Tx, snapshot: Snapshot, index: Index, request: Search, recall: Recall, heard: Heard, *, texts: bool
) -> tuple[Scores, dict[str, Scores]]:
    """Return the score of every node by itself, shape (N,), and its parts, which sum to it; on the scale of turns.

    Words are those of what was said below it: no text of a memory is read.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        index: whose tree is searched.
        request: the question.
        recall: `leaves` and `weight` count.
        heard: of the question.
        texts: compare the vectors of what memories say with the question. Otherwise a memory is as relevant as the leaves
            below it on average.
    """
    forest = forest_of(tx, snapshot, index)
    if not texts or request.vector is None or not snapshot.dimension:
        if recall.leaves == "fused":
            own = fused_relevance(
                forest, np.where(np.isfinite(heard.unit[heard.units.of_turn]), heard.turn, -np.inf)
            )
        else:
            own = forest.ascent.means(_on_leaves(forest, heard.units, heard.unit))
        return own, {"below": own}
    said = forest.ascent.means(_on_leaves(forest, heard.units, heard.lexical))
    trees = embedded_forest(tx, snapshot, index)
    nodes = np.zeros(len(forest))
    if len(trees.vectors):
        nodes[forest.told] = trees.vectors.cosines(request.vector)
    if recall.leaves == "paper":
        dense, words = heard.most
        near = recall.weight * np.maximum(nodes, 0.0) / (dense or 1.0)
        told = (1 - recall.weight) * said / (words or 1.0)
    else:
        turn, weights = heard.base.turn, request.ranking
        near = (weights.turn + weights.fact) * (nodes - turn.mean()) / (float(turn.std()) or 1.0)
        told = weights.lexical * said
    return near + told, {"dense": near, "lexical": told}


def _on_leaves(forest: Forest, units: Units, values: Scores) -> Scores:
    """Return, for every node, the value of the unit that it is, at least 0; 0 for inner nodes."""
    out: Scores = np.zeros(len(forest))
    out[units.leaves] = np.maximum(values, 0.0)
    return out


FEW, MANY = 5, 3
"""The first 5 pieces stay if the model keeps none of 3 or more, else all do (released code)."""
SHARE: Mapping[Complexity, float] = MappingProxyType({"simple": 0.5, "hybrid": 0.35, "complex": 0.2})
"""Share of the best score below which a turn is far from it, by how much a question needs."""
LEAST: Mapping[Complexity, int] = MappingProxyType({"simple": 8, "hybrid": 12, "complex": 15})
"""Turns that are kept, if there are as many, however far from the best they are. The paper's targets are 3 to 8, 8 to 18 and 15
to 30 pieces; with 3 and 8 turns a point of the evidence within 512 tokens was lost on LoCoMo's development half, with these a
tenth, and of all that is recalled 44 % of the tokens are saved."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What a recall has chosen."""

    turns: Ints
    """Rows of the turns."""
    scores: Scores
    """Of every turn of the memory."""
    nodes: Ints
    """Forest rows of what is shown by its text: leaves, then memories."""
    node_scores: Scores
    """Of `nodes`."""
    leaves: Ints
    """Forest rows of the leaves whose turns or texts are shown, -1 for a turn without one."""


def needed(snapshot: Snapshot, forest: Forest, request: Search, chosen: Chosen, speaks: Ints) -> Chosen:
    """Keep what a question needs of a recall, as far as that shows without texts; never nothing, if there is anything.

    Args:
        snapshot: of the memory.
        forest: the index's.
        request: the question, with its complexity.
        chosen: the recall.
        speaks: the fact that speaks for each turn of the memory, -1 for none.
    """
    turns = chosen.turns[_current(snapshot, request, chosen, speaks)]
    texts = forest.kind[chosen.nodes] != INNER
    scores = np.concatenate([chosen.scores[turns], chosen.node_scores[texts]])
    dated = np.zeros(len(scores), dtype=np.bool_)
    dated[: len(turns)] = snapshot.turns.dated[turns]
    near = _near(request, scores, dated)
    kept = np.ones(len(chosen.nodes), dtype=np.bool_)
    kept[texts] = near[len(turns) :]
    turns = turns[near[: len(turns)]]
    kept &= _says_more(forest, chosen, covered=bool(near.all()) and len(turns) == len(chosen.turns))
    return replace(chosen, turns=turns, nodes=chosen.nodes[kept], node_scores=chosen.node_scores[kept])


def _current(snapshot: Snapshot, request: Search, chosen: Chosen, speaks: Ints) -> Flags:
    """Drop turns that tell an ended state if the question asks for the present; all stay if none would."""
    turns, kept = chosen.turns, np.ones(len(chosen.turns), dtype=np.bool_)
    if not _asks_for_now(request):
        return kept
    told = speaks[turns]
    has = np.flatnonzero(told >= 0)
    facts = told[has]
    kept[has] = ~(is_state(snapshot)[facts] & (valid_end(snapshot)[facts] <= request.reference_ms))
    return kept if kept.any() else ~kept


def _asks_for_now(request: Search) -> bool:
    """Return whether a question is about one thing as it is now."""
    plan = request.plan
    timed = (plan.start, plan.end, plan.as_of, request.as_of_ms, request.during_ms)
    operator = plan.operator or plan.kind_operator
    still = operator is None or operator.kind == "current"
    return (
        plan.complexity == "simple" and plan.kind in ("simple", "current") and still and timed == (None,) * 5
    )


def _near(request: Search, scores: Scores, dated: Flags) -> Flags:
    """Return which leaves score not far below the best; the first few always do, and dated ones for a hybrid question."""
    complexity = request.plan.complexity or "hybrid"
    near: Flags = scores >= SHARE[complexity] * scores.max(initial=0.0)
    near[np.argsort(-scores, kind="stable")[: LEAST[complexity]]] = True
    return near | dated if complexity == "hybrid" else near


def _says_more(forest: Forest, chosen: Chosen, *, covered: bool) -> Flags:
    """Return which nodes say more than the leaves that are shown, and than a node below them with the same leaves.

    Args:
        forest: the index's.
        chosen: the recall.
        covered: whether all turns of the chosen leaves are kept.
    """
    nodes, counts = chosen.nodes, forest.counts
    here = set(nodes.tolist())
    below: dict[int, int] = {}
    drop: set[int] = set()
    for leaf in chosen.leaves[chosen.leaves >= 0].tolist():
        row = leaf
        while (row := int(forest.parent[row])) >= 0:
            below[row] = below.get(row, 0) + 1
    for node in nodes.tolist():
        row = node
        while (row := int(forest.parent[row])) >= 0 and counts[row] == counts[node]:
            drop.add(row)
    if covered:
        drop |= {node for node in here if below.get(node, 0) == counts[node]}
    return np.array(
        [node not in drop or forest.kind[node] != INNER for node in nodes.tolist()], dtype=np.bool_
    )


async def refine(
    host: Host, request: Search, found: Sequence[RefineCandidate], recall: Recall
) -> Refinement | None:
    """Return which of the first candidates a question needs; None for all of them.

    A model that fails keeps all, with a warning; one that keeps nothing the first `FEW` of `MANY` or more, and all of fewer.

    Args:
        host: the memory.
        request: the question, as `prepare` has it.
        found: the candidates, best first.
        recall: the index's settings, where the ranking has none.
    """
    recall = request.ranking.recall or recall
    if recall.gate == "off" or not found:
        return None
    if recall.gate == "model":
        return await _by_model(host, request, found)
    kept = unsaid(found)
    return None if len(kept) == len(found) else Refinement(kept=kept, trace=_trace("rules", found, kept))


def _trace(who: str, found: Sequence[RefineCandidate], kept: Sequence[int]) -> dict[str, Any]:
    return {"gate": {"by": who, "candidates": len(found), "kept": len(kept)}}


GRADES: Mapping[Complexity, Literal[0, 1, 2]] = {"simple": 0, "hybrid": 1, "complex": 2}


async def _by_model(host: Host, request: Search, found: Sequence[RefineCandidate]) -> Refinement:
    """Return what the chat model keeps; its numbers that do not exist count for nothing."""
    from memforest.reading.steps_llm import Recalled, gate

    complexity: Literal[0, 1, 2] = GRADES[request.plan.complexity or "hybrid"]
    places = sorted(range(len(found)), key=lambda at: (found[at].level or 0, found[at].start_ms, at))
    shown = [
        Recalled((one.level or 0) + 1, _read(one), from_ms(one.start_ms), from_ms(one.end_ms))
        for one in (found[at] for at in places)
    ]
    try:
        zone = await host.look(memory_zone)
        with host.timed("gate"):
            told = await gate(host.steps, host.question, complexity, shown, zone=zone)
    except (*FALLS_BACK, ModelRefusedError) as exc:
        everything = range(len(found))
        why = f"{cut(str(exc), 300)}: all that was recalled is kept"
        return Refinement(trace=_trace("nobody", found, everything), warnings=(why,))
    chosen = {places[at] for at in told if 0 <= at < len(places)}
    if not chosen:
        chosen = set(range(FEW if len(found) >= MANY else len(found)))
    kept = tuple(place for place in range(len(found)) if place in chosen)
    return Refinement(kept=kept, trace=_trace("model", found, kept))


def _read(one: RefineCandidate) -> str:
    """Return a candidate as a model reads it: speaker and quote, or the text of a memory."""
    return one.text if one.level is not None else turn_text(one.speaker, one.quote)
