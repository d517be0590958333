"""The leaves that a timem recall starts from, their relevance and that of the memories above them, and the gate.

Source of ``"paper"``: TiMem (arXiv 2601.02845) §3.3.2, eq. 7. ``"fused"`` is this package's: turns as they were said
(`memforest.search.context_scores`), and what flows down to them from their segment and session.

The gate (§3.3.3, eq. 10) drops what of a recall a question does not need, by rules or by a model. The rules drop what a kept
piece says already, a state that has ended, and what is far below the best. They work on arrays, before a row is read; only
whether a memory's sentences stand elsewhere is told by texts.
"""

from __future__ import annotations

from collections import Counter
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
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import turn_text
from memforest.store.connections import Tx
from memforest.text import cut, lexical_tokens
from memforest.times import from_ms
from memforest.trees.index import FALLS_BACK, Host, Index, leaf_of_turn

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_VECTORS = (
    "this memory has no embedder: leaves were found by words alone; rebuild(embedder=True) gives it one"
)
CHANNEL = 40
"""Leaves of each channel that count with ``leaves="paper"`` (released configuration)."""


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """How relevant leaves and turns are to a question by themselves, on one scale."""

    base: Base
    leaf: Scores
    """Of every leaf; -inf where none of its turns passes the filters."""
    turn: Scores
    """Of every turn."""
    parts: Mapping[str, Scores]
    """Of every turn, which sum to its score."""
    lexical: Scores
    """What words alone say of every leaf."""
    most: tuple[float, float] = (1.0, 1.0)
    """What the cosine and the words of leaves are divided by, with ``leaves="paper"``."""
    warnings: tuple[str, ...] = ()


def hear(tx: Tx, snapshot: Snapshot, index: Index, request: Search, recall: Recall, keep: Flags) -> Heard:
    """Return how relevant leaves and turns are.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, which is not empty.
        index: whose tree is searched.
        request: the question; with ``leaves="paper"`` its plan's keywords are what words are compared with.
        recall: `leaves`, `weight`, `k1` and `b` count.
        keep: the turns that pass the filters.
    """
    forest, base = forest_of(tx, snapshot, index), read_base(tx, snapshot, request)
    starts = np.flatnonzero(np.diff(leaf_of_turn(forest), prepend=-1))
    if recall.leaves == "paper":
        passes = np.logical_or.reduceat(keep, starts)
        return _as_in_the_paper(tx, snapshot, index, request, recall, base, passes)
    said = as_said(snapshot, request, base)
    weights = request.ranking  # less for a list, whose answers lie in many sessions
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    if share and not recall.flat:
        levels = _levels(forest)
        said.add("session_tree", levels.flow(said.total) * (share / len(levels.groups)))
    best = np.maximum.reduceat(np.where(keep, said.total, -np.inf), starts)
    words = np.maximum.reduceat(standardise(base.lexical), starts)
    warnings = () if snapshot.dimension else (NO_VECTORS,)
    return Heard(base, best, said.total, said.parts, words, warnings=warnings)


@once_per_forest
def _levels(forest: Forest) -> Levels:
    """Return the turns by the segments and sessions that they are in."""
    leaf = leaf_of_turn(forest)
    return Levels.of(np.array([leaf, forest.parent[leaf]]))


def _as_in_the_paper(
    tx: Tx, snapshot: Snapshot, index: Index, request: Search, recall: Recall, base: Base, passes: Flags
) -> Heard:
    forest = forest_of(tx, snapshot, index)
    count, leaf = len(passes), leaf_of_turn(forest)
    warnings: tuple[str, ...] = ()
    keywords = [token for word in request.plan.keywords for token in lexical_tokens(word)]
    tokens = keywords or request.tokens
    lexical = np.where(passes, bm25_of_runs(tx, snapshot, tokens, leaf, count, k1=recall.k1, b=recall.b), 0.0)
    dense, weight = np.zeros(count), recall.weight
    if request.vector is None or not snapshot.dimension:
        weight = 0.0
        warnings = (f"leaves='paper' needs vectors; {NO_VECTORS}",)
    else:
        nodes = _cosines(embedded_forest(tx, snapshot, index), request.vector, base)
        dense = np.where(passes, nodes[:count], 0.0)
    ties = turn_places(snapshot)[forest.item[:count]]
    leading_words = _leading_alone(lexical, ties)
    own = activation(dense, leading_words, ties, weight=weight, dense_top=CHANNEL)
    by_words = (1 - weight) * share_of_most(leading_words)
    parts = {"lexical": by_words[leaf], "dense": (own - by_words)[leaf]}
    most = (float(dense.max(initial=0.0)), float(lexical.max(initial=0.0)))
    return Heard(base, np.where(passes, own, -np.inf), own[leaf], parts, lexical, most, warnings)


def _leading_alone(values: Scores, ties: Ints) -> Scores:
    """Return values with those behind the first `CHANNEL` set to 0."""
    out = np.zeros(len(values))
    first = leading(values, ties, CHANNEL)
    out[first] = values[first]
    return out


def _cosines(trees: EmbeddedForest, vector: NDArray[np.float32], base: Base) -> Scores:
    """Return the cosine of every node: of its own vector where it has one, else of the mean of its turns', at least 0."""
    forest = trees.forest
    nodes = cosine_relevance(trees, vector, base.turn, base.fact)
    if len(forest.summarised):
        own = trees.cosines_at(forest.summarised, vector)
        stored = own != 0  # a summary whose vector is not made has zeros
        nodes[forest.summarised[stored]] = np.maximum(own[stored], 0.0)
    return np.asarray(nodes, dtype=np.float64)


def best_leaves(heard: Heard, snapshot: Snapshot, forest: Forest, count: int) -> Ints:
    """Return the best leaves that pass the filters, best first, at most so many."""
    ties = turn_places(snapshot)[forest.item[: len(heard.leaf)]]
    first = leading(heard.leaf, ties, count)
    return first[np.isfinite(heard.leaf[first])]


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
            passes = np.isfinite(heard.leaf[leaf_of_turn(forest)])
            own = fused_relevance(forest, np.where(passes, heard.turn, -np.inf))
        else:
            own = forest.ascent.means(_on_leaves(forest, heard.leaf))
        return own, {"below": own}
    said = forest.ascent.means(_on_leaves(forest, heard.lexical))
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


def _on_leaves(forest: Forest, values: Scores) -> Scores:
    """Return, for every node, the value of the leaf that it is, at least 0; 0 for inner nodes."""
    out: Scores = np.zeros(len(forest))
    out[: len(values)] = np.maximum(values, 0.0)
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
    """Forest rows of the leaves whose turns or texts are shown."""


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
    counts, nodes = forest.counts, chosen.nodes.tolist()
    below = Counter(row for leaf in chosen.leaves.tolist() for row in forest.path(leaf)[:-1])
    drop = {row for node in nodes for row in forest.path(node)[:-1] if counts[row] == counts[node]}
    if covered:
        drop.update(node for node in nodes if below[node] == counts[node])
    return np.array([node not in drop or forest.kind[node] != INNER for node in nodes], dtype=np.bool_)


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
    shown = []
    for one in (found[at] for at in places):
        text = one.text if one.level is not None else turn_text(one.speaker, one.quote)
        shown.append(Recalled((one.level or 0) + 1, text, from_ms(one.start_ms), from_ms(one.end_ms)))
    try:
        zone = await host.look(memory_zone)
        with host.timed("gate"):
            told = await gate(host.steps, host.question, complexity, shown, zone=zone)
    except (*FALLS_BACK, ModelRefusedError) as exc:
        why = f"{cut(str(exc), 300)}: all that was recalled is kept"
        return Refinement(trace=_trace("nobody", found, range(len(found))), warnings=(why,))
    chosen = {places[at] for at in told if 0 <= at < len(places)}
    if not chosen:
        chosen = set(range(FEW if len(found) >= MANY else len(found)))
    kept = tuple(place for place in range(len(found)) if place in chosen)
    return Refinement(kept=kept, trace=_trace("model", found, kept))
