"""The gate: what of a recall a question does not need (TiMem §3.3.3, eq. 10), by rules or by a model.

The rules drop what a kept piece says already, a state that has ended, and what is far below the best. They work on arrays, before
a row is read; only whether a memory's sentences stand elsewhere is told by texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelRefusedError
from memforest.interval import from_ms
from memforest.ranking import Scores, sums_below
from memforest.recall import Recall
from memforest.search.forest import INNER, Forest, once_per_forest
from memforest.search.snapshot import Snapshot
from memforest.search.texts import turn_text
from memforest.systems.base import Candidate, Refined, Search
from memforest.systems.filters import is_state, valid_end
from memforest.systems.host import Host
from memforest.systems.modes import FALLS_BACK
from memforest.systems.unsaid import unsaid
from memforest.systems.zone import memory_zone
from memforest.text import cut
from memforest.types import Complexity

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

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


# -- by rules ---------------------------------------------------------------------------------------


def needed(snapshot: Snapshot, forest: Forest, request: Search, chosen: Chosen, speaks: Ints) -> Chosen:
    """Return what a question needs of a recall, as far as that is told without texts; something, if there is anything.

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
    """Return which turns do not tell a state that has ended, where the question asks for what is so now; all if none does."""
    turns, kept = chosen.turns, np.ones(len(chosen.turns), dtype=np.bool_)
    if not _asks_for_now(request):
        return kept
    told = speaks[turns]
    has = np.flatnonzero(told >= 0)
    facts = told[has]
    kept[has] = ~(is_state(snapshot)[facts] & (valid_end(snapshot)[facts] <= request.reference_ms))
    return kept if kept.any() else ~kept


def _asks_for_now(request: Search) -> bool:
    """Return whether a question is about one thing as it is now, as far as it says."""
    plan = request.plan
    timed = (plan.start, plan.end, plan.as_of, request.as_of_ms, request.during_ms)
    operator = plan.operator or plan.kind_operator
    still = operator is None or operator.kind == "current"
    return (
        plan.complexity == "simple" and plan.kind in ("simple", "current") and still and timed == (None,) * 5
    )


def _near(request: Search, scores: Scores, dated: Flags) -> Flags:
    """Return which leaves are not far below the best: the first few are kept, and of a hybrid question all that tell a time."""
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
    nodes, counts = chosen.nodes, _leaf_counts(forest)
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


@once_per_forest
def _leaf_counts(forest: Forest) -> Ints:
    """Return the number of leaves at or below every node."""
    leaf = (forest.kind != INNER).astype(np.float64)
    return sums_below(leaf, forest.parent, forest.level).astype(np.int64)


# -- by texts and by a model ------------------------------------------------------------------------


async def refine(host: Host, request: Search, found: Sequence[Candidate], recall: Recall) -> Refined | None:
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
    return None if len(kept) == len(found) else Refined(kept=kept, trace=_trace("rules", found, kept))


def _trace(who: str, found: Sequence[Candidate], kept: Sequence[int]) -> dict[str, Any]:
    return {"gate": {"by": who, "candidates": len(found), "kept": len(kept)}}


GRADES: Mapping[Complexity, Literal[0, 1, 2]] = {"simple": 0, "hybrid": 1, "complex": 2}


async def _by_model(host: Host, request: Search, found: Sequence[Candidate]) -> Refined:
    """Return what the chat model keeps; its numbers that do not exist count for nothing."""
    from memforest.steps.llm.recall import Recalled, gate

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
        return Refined(trace=_trace("nobody", found, everything), warnings=(why,))
    chosen = {places[at] for at in told if 0 <= at < len(places)}
    if not chosen:
        chosen = set(range(FEW if len(found) >= MANY else len(found)))
    kept = tuple(place for place in range(len(found)) if place in chosen)
    return Refined(kept=kept, trace=_trace("model", found, kept))


def _read(one: Candidate) -> str:
    """Return what a model reads of a piece: who said it, and what; of a memory its text."""
    return one.text if one.level is not None else turn_text(one.speaker, one.quote)
