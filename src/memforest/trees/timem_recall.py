"""Recall of the timem index by how much a question needs: a plan, the best leaves, the memories above them, and a gate.

`prepare` decides how much the question needs, `find` collects what is near it, and `memforest.trees.timem_leaves` drops what it
does not need. No memory without a text is recalled, and none that tells what came after the moment that is asked about.
Source: TiMem §3.3, App. B.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memforest.config import COMPLEXITIES, Recall
from memforest.errors import ModelRefusedError
from memforest.records import Complexity, QuestionPlan
from memforest.search.cache import forest_of
from memforest.search.filters import (
    Allowed,
    IndexResult,
    NodeHit,
    Prepared,
    Search,
    TurnHit,
    allowed,
    best_facts,
    filter_notes,
    memory_zone,
    turn_places,
)
from memforest.search.flow import ancestors
from memforest.search.forest import INNER, Forest
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees.index import FALLS_BACK, Host, Index, allowed_nodes, doer_of, not_browsed, ready_rows
from memforest.trees.timem_leaves import Chosen, Heard, best_units, hear, needed, own_scores

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

OWNER = "timem"
UNTOLD: Complexity = "simple"
"""How much a question needs of which a planner without a model cannot tell: one recorded fact."""
UNPLANNED: Complexity = "hybrid"
"""How much every question gets where nobody plans."""


def recall_of(request: Search, recall: Recall) -> Recall:
    """Return the recall settings of a question: those of its ranking, else those of the index."""
    return request.ranking.recall or recall


async def prepare(host: Host, request: Search, recall: Recall) -> Prepared:
    """Plan a recall: how much the question needs, its keywords, and who gates the result.

    What fails of a model costs its plan, with a warning, and not the answer.

    Args:
        host: the memory.
        request: the question.
        recall: the index's settings, where the ranking has none.

    Raises:
        ConfigError: if a model is to plan or to gate, and there is none for it.
    """
    recall = recall_of(request, recall)
    planner = doer_of(
        "Recall.planner", recall.planner, host.steps, "plan", forced=recall.complexity is not None
    )
    gate = doer_of("Recall.gate", recall.gate, host.steps, "sift")
    plan, warnings = request.plan, list(not_browsed(request, OWNER))
    if planner == "model":
        try:
            with host.timed("plan"):
                plan = await _planned(host, request)
        except (*FALLS_BACK, ModelRefusedError) as exc:
            planner = "rules"
            warnings.append(f"{cut(str(exc), 300)}: how much the question needs was told by rules")
    found = plan.complexity or UNTOLD
    if recall.complexity is not None:
        found = COMPLEXITIES[recall.complexity]
    elif planner == "off":
        found = UNPLANNED
    plan = replace(plan, complexity=found)
    recall = replace(recall, planner=cast("Any", planner), gate=cast("Any", gate))
    if not recall.budgets_of(found):
        warnings.append(
            f"no level that is recalled has a budget for a question that is {found}; give Recall(budgets=...) or levels one"
        )
    trace = {
        "planner": planner,
        "complexity": found,
        "keywords": list(plan.keywords),
        "budgets": {f"L{level}": most for level, most in recall.budgets_of(found).items()},
        "one_pool": recall.flat,
    }
    return Prepared(
        replace(request, plan=plan, ranking=replace(request.ranking, recall=recall)),
        trace={"mode": "emb", "recall": trace},
        warnings=tuple(warnings),
    )


async def _planned(host: Host, request: Search) -> QuestionPlan:
    """Return the plan with the complexity and the keywords that a model gives; its own keywords where it gives none."""
    from memforest.reading.steps_llm import plan_recall

    participants, zone = await host.read(lambda tx, snapshot: (tuple(snapshot.speakers), memory_zone(tx)))
    reference = from_ms(request.reference_ms)
    made = await plan_recall(host.steps, host.question, participants, reference, zone=zone)
    return replace(
        request.plan,
        complexity=COMPLEXITIES[made.complexity],
        keywords=tuple(made.keywords) or request.plan.keywords,
    )


def find(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> IndexResult:
    """Return the leaves and memories that a question brings, best first, each within the budget of its level.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        request: the question, as `prepare` has it; of another one the plan's complexity counts.
        index: whose tree is searched.
    """
    if not len(snapshot.turns.ids):
        return IndexResult(())
    recall = recall_of(request, index.settings.recall)
    keep, forest = allowed(snapshot, request), forest_of(tx, snapshot, index)
    heard = hear(tx, snapshot, index, request, recall, keep.turns)
    search = _Recalling(tx, snapshot, request, index, recall, forest, keep, heard)
    chosen = search.chosen()
    if recall.gate in ("rules", "auto"):
        chosen = needed(snapshot, forest, request, chosen, search.speaks)
    return search.found(chosen)


@dataclass(slots=True)
class _Recalling:
    """The recall of one question."""

    tx: Tx
    snapshot: Snapshot
    request: Search
    index: Index
    recall: Recall
    forest: Forest
    keep: Allowed
    heard: Heard
    _passes: Flags | None = None
    _speaks: Ints | None = None
    _own: tuple[Scores, dict[str, Scores]] | None = None

    @property
    def complexity(self) -> Complexity:
        return self.request.plan.complexity or UNPLANNED

    @property
    def speaks(self) -> Ints:
        """The fact that speaks for each turn, -1 for none."""
        if self._speaks is None:
            base = self.heard.base
            self._speaks = best_facts(self.snapshot, self.keep, base.fact, base.fact_lexical)
        return self._speaks

    def chosen(self) -> Chosen:
        """Return the turns and nodes within their budgets."""
        budgets = self.recall.budgets_of(self.complexity)
        if self.recall.flat:
            units, nodes = self._pool(budgets)
        else:
            units = best_units(self.heard, self.snapshot, self.recall.leaves_of(self.complexity))
            nodes = self._above(units, budgets)
            units = units[: budgets.get(1, 0)]
        texts = self._texts(units) if self.recall.show == "texts" else np.zeros(0, dtype=np.int64)
        said = units[~np.isin(self.heard.units.leaves[units], texts)] if len(texts) else units
        turns = self.heard.units.turns_of(said)
        of_leaf = dict(
            zip(self.heard.units.leaves[units].tolist(), self.heard.unit[units].tolist(), strict=True)
        )
        own = self.own[0][nodes] if len(nodes) else np.zeros(0)
        return Chosen(
            turns=turns[self.keep.turns[turns]],
            scores=self.heard.turn,
            nodes=np.concatenate([texts, nodes]),
            node_scores=np.concatenate([[of_leaf[leaf] for leaf in texts.tolist()], own]),
            leaves=self.heard.units.leaves[units],
        )

    @property
    def own(self) -> tuple[Scores, dict[str, Scores]]:
        """The score of every node by itself, and its parts."""
        if self._own is None:
            texts = self.recall.flat or self.recall.prune == "own" or self.recall.leaves == "paper"
            self._own = own_scores(
                self.tx, self.snapshot, self.index, self.request, self.recall, self.heard, texts=texts
            )
        return self._own

    def _above(self, units: Ints, budgets: Mapping[int, int]) -> Ints:
        """Return the memories above leaves, at most so many a level (eq. 8 and 9)."""
        leaves = self.heard.units.leaves[units]
        leaves = leaves[leaves >= 0]
        most = {level - 1: len(self.forest) for level in budgets if level > 1}
        found, _ = ancestors(leaves, self.forest.parent, self.forest.level, most)
        found = self._passing(found)
        kept = [found[:0]]
        for level in sorted(level for level in budgets if level > 1):
            here: Ints = found[self.forest.level[found] == level - 1]
            if self.recall.prune == "own" and len(here):
                here = self._by_own(here)
            kept.append(self._with_text(here, budgets[level]))
        return np.concatenate(kept)

    def _by_own(self, nodes: Ints) -> Ints:
        """Return nodes by their own scores, best first."""
        ordered: Ints = nodes[np.lexsort((nodes, -np.round(self.own[0][nodes], 9)))]
        return ordered

    def _pool(self, budgets: Mapping[int, int]) -> tuple[Ints, Ints]:
        """Return the best units and memories of all levels as one pool, as many as the budgets are together."""
        total = sum(budgets.values())
        units = best_units(self.heard, self.snapshot, total if 1 in budgets else 0)
        inner = self.forest.inner
        wanted = np.array([level - 1 for level in budgets if level > 1], dtype=np.int64)
        inner = self._passing(inner[np.isin(self.forest.level[inner], wanted)])
        nodes = self._with_text(self._by_own(inner) if len(inner) else inner, total)
        scores = np.concatenate([self.heard.unit[units], self.own[0][nodes] if len(nodes) else np.zeros(0)])
        first = np.argsort(-np.round(scores, 9), kind="stable")[:total]
        taken = np.sort(first)
        return units[taken[taken < len(units)]], nodes[taken[taken >= len(units)] - len(units)]

    def _passing(self, nodes: Ints) -> Ints:
        """Return the nodes that pass the time filters and whose window overlaps the time asked about."""
        if self._passes is None:
            self._passes = allowed_nodes(self.snapshot, self.forest, self.request)
        nodes = nodes[self._passes[nodes]]
        start, end = _asked_about(self.request)
        if (start, end) == (-np.inf, np.inf):
            return nodes
        # Leaves and sessions stand for no window.
        windowed = self.forest.window[nodes] >= 0
        starts, ends = self.forest.start_ms[nodes], self.forest.end_ms[nodes]
        kept = ~windowed | ((starts < end) & (ends > start))
        return nodes[kept]

    def _texts(self, units: Ints) -> Ints:
        """Return the leaves of units that are shown by their texts."""
        leaves = self.heard.units.leaves[units]
        leaves = self._passing(leaves[np.isin(leaves, self.forest.summarised)])
        return self._with_text(leaves, len(leaves))

    def _with_text(self, nodes: Ints, most: int) -> Ints:
        """Return the first `most` nodes with an up-to-date text; few others are looked at."""
        found: list[int] = []
        for at in range(0, len(nodes), max(most, 1)):
            rows = nodes[at : at + most].tolist()
            ready = ready_rows(self.tx, self.snapshot, self.index, rows)
            found += [row for row in rows if row in ready]
            if len(found) >= most:
                break
        return np.array(found[:most], dtype=np.int64)

    def found(self, chosen: Chosen) -> IndexResult:
        """Return what was chosen as hits."""
        heard, speaks = self.heard, self.speaks
        leaf_of = heard.units.leaves[heard.units.of_turn]

        def hit(turn: int) -> TurnHit:
            parts = {name: float(part[turn]) for name, part in heard.parts.items()}
            return TurnHit(turn, int(speaks[turn]), float(heard.turn[turn]), parts, int(leaf_of[turn]))

        keep = np.zeros(len(heard.turn), dtype=np.bool_)
        keep[chosen.turns] = True
        nodes = tuple(self._node_hits(chosen))
        gated = self.recall.gate == "model"
        return IndexResult(
            map(hit, best_first(heard.turn, turn_places(self.snapshot), keep)),
            notes={"filters": filter_notes(self.keep)},
            nodes=nodes,
            warnings=heard.warnings,
            spare=0 if self.recall.gate == "off" else len(nodes) + (len(chosen.turns) if gated else 0),
            order=self.recall.order,
            forest=self.forest,
        )

    def _node_hits(self, chosen: Chosen) -> Iterator[NodeHit]:
        """Yield the nodes best first; of equal ones the lower, then the one that is first in the tree's file."""
        forest, nodes, scores = self.forest, chosen.nodes, chosen.node_scores
        for at in np.lexsort((nodes, forest.level[nodes], -np.round(scores, 9))).tolist():
            row, score = int(nodes[at]), float(scores[at])
            inner = forest.kind[row] == INNER
            parts = (
                {name: float(part[row]) for name, part in self.own[1].items()} if inner else {"leaf": score}
            )
            yield NodeHit(row, score, parts, forest.window_of(row))


def _asked_about(request: Search) -> tuple[float, float]:
    """Return the time that a question is about, [start, end) in ms: what a filter says, else what the question itself does."""
    plan = request.plan
    start, end = -np.inf, np.inf
    if request.during_ms is not None:
        start, end = request.during_ms
    elif plan.start is not None or plan.end is not None:
        start = -np.inf if plan.start is None else to_ms(plan.start)
        end = np.inf if plan.end is None else to_ms(plan.end)
    elif plan.as_of is not None:
        end = to_ms(plan.as_of) + 1
    return start, end
