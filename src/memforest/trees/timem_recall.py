"""Recall of the timem index by how much a question needs: a plan, the best leaves, the memories above them, and a gate.

`prepare` decides how much the question needs, `find` collects what is near it, and `memforest.trees.timem_leaves` drops what it
does not need. No memory without a text is recalled, and none that tells what came after the moment that is asked about.
Source: TiMem §3.3, App. B.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.config import COMPLEXITIES, Recall
from memforest.errors import ModelRefusedError
from memforest.records import Complexity, QuestionPlan
from memforest.search.cache import forest_of, missing_of
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
from memforest.search.snapshot import Snapshot, ranges
from memforest.store.connections import Tx
from memforest.text import cut
from memforest.times import from_ms, to_ms
from memforest.trees.index import (
    FALLS_BACK,
    Host,
    Index,
    allowed_nodes,
    doer_of,
    leaf_of_turn,
    not_browsed,
    ready_rows,
)
from memforest.trees.timem_leaves import Chosen, Heard, best_leaves, hear, needed, own_scores

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
    search = _recalling(tx, snapshot, request, index)
    chosen = search.chosen()
    if search.recall.gate in ("rules", "auto"):
        chosen = needed(snapshot, search.forest, request, chosen, search.speaks)
    return search.found(chosen)


def wanted(tx: Tx, snapshot: Snapshot, request: Search, index: Index, now_ms: int) -> Ints:
    """Return the nodes whose texts `find` reads, where some that may be written by now are not.

    What a question does not reach stays unwritten, so that it costs no question what others were told of.
    """
    forest = forest_of(tx, snapshot, index)
    waits = index.due(forest, now_ms)
    if waits is None or not waits[missing := missing_of(tx, snapshot, index)].any():
        return forest.told[:0]
    search = _recalling(tx, snapshot, request, index)
    if search.reads_texts:
        return missing
    # What is above something that goes on cannot be written either.
    due = np.zeros(len(forest), dtype=np.bool_)
    due[forest.told] = forest.ascent.sums((~waits).astype(np.float64))[forest.told] == 0
    return replace(search, due=due).chosen().nodes


_heard: WeakKeyDictionary[Forest, tuple[Search, Heard]] = WeakKeyDictionary()
"""The question that each tree was asked last: `wanted` and `find` are asked the same."""


def _recalling(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> _Recalling:
    recall = recall_of(request, index.settings.recall)
    keep, forest = allowed(snapshot, request), forest_of(tx, snapshot, index)
    last, heard = _heard.get(forest, (None, None))
    if heard is None or last is not request:
        heard = hear(tx, snapshot, index, request, recall, keep.turns)
        _heard[forest] = request, heard
    return _Recalling(tx, snapshot, request, index, recall, forest, keep, heard)


@dataclass(frozen=True)
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
    due: Flags | None = None
    """The nodes that count as written, as they will be when they are read."""

    @cached_property
    def speaks(self) -> Ints:
        """The fact that speaks for each turn, -1 for none."""
        base = self.heard.base
        return best_facts(self.snapshot, self.keep, base.fact, base.fact_lexical)

    @property
    def reads_texts(self) -> bool:
        """Whether what memories say decides which are found."""
        return self.recall.flat or self.recall.prune == "own" or self.recall.leaves == "paper"

    @cached_property
    def own(self) -> tuple[Scores, dict[str, Scores]]:
        """The score of every node by itself, and its parts."""
        recall, heard = self.recall, self.heard
        return own_scores(
            self.tx, self.snapshot, self.index, self.request, recall, heard, texts=self.reads_texts
        )

    def chosen(self) -> Chosen:
        """Return the turns and nodes within their budgets."""
        complexity = self.request.plan.complexity or UNPLANNED
        budgets, forest = self.recall.budgets_of(complexity), self.forest
        if self.recall.flat:
            leaves, nodes = self._pool(budgets)
        else:
            leaves = self._best_leaves(self.recall.leaves_of(complexity))
            nodes = self._above(leaves, budgets)
            leaves = leaves[: budgets.get(1, 0)]
        texts = leaves[:0]
        if self.recall.show == "texts":
            texts = self._passing(leaves[np.isin(leaves, forest.summarised)])
            texts = self._with_text(texts, len(texts))
        said = leaves[~np.isin(leaves, texts)]
        turns = ranges(forest.item[said], forest.item_end[said])
        own = self.own[0][nodes] if len(nodes) else np.zeros(0)
        return Chosen(
            turns=turns[self.keep.turns[turns]],
            scores=self.heard.turn,
            nodes=np.concatenate([texts, nodes]),
            node_scores=np.concatenate([self.heard.leaf[texts], own]),
            leaves=leaves,
        )

    def _best_leaves(self, count: int) -> Ints:
        return best_leaves(self.heard, self.snapshot, self.forest, count)

    def _above(self, leaves: Ints, budgets: Mapping[int, int]) -> Ints:
        """Return the memories above leaves, at most so many a level (eq. 8 and 9)."""
        wanted = {level - 1: most for level, most in sorted(budgets.items()) if level > 1}
        everything = dict.fromkeys(wanted, len(self.forest))
        found, _ = ancestors(leaves, self.forest.parent, self.forest.level, everything)
        found = self._passing(found)
        kept = [found[:0]]
        for level, most in wanted.items():
            here: Ints = found[self.forest.level[found] == level]
            if self.recall.prune == "own" and len(here):
                here = self._by_own(here)
            kept.append(self._with_text(here, most))
        return np.concatenate(kept)

    def _by_own(self, nodes: Ints) -> Ints:
        """Return nodes by their own scores, best first."""
        ordered: Ints = nodes[np.lexsort((nodes, -np.round(self.own[0][nodes], 9)))]
        return ordered

    def _pool(self, budgets: Mapping[int, int]) -> tuple[Ints, Ints]:
        """Return the best leaves and memories of all levels as one pool, as many as the budgets are together."""
        total, inner = sum(budgets.values()), self.forest.inner
        leaves = self._best_leaves(total if 1 in budgets else 0)
        wanted = [level - 1 for level in budgets if level > 1]
        inner = self._passing(inner[np.isin(self.forest.level[inner], wanted)])
        nodes = self._with_text(self._by_own(inner), total) if len(inner) else inner
        scores = np.concatenate([self.heard.leaf[leaves], self.own[0][nodes] if len(nodes) else np.zeros(0)])
        taken = np.zeros(len(scores), dtype=np.bool_)
        taken[np.argsort(-np.round(scores, 9), kind="stable")[:total]] = True
        return leaves[taken[: len(leaves)]], nodes[taken[len(leaves) :]]

    def _passing(self, nodes: Ints) -> Ints:
        """Return the nodes that pass the time filters and whose window overlaps the time asked about."""
        nodes = nodes[allowed_nodes(self.snapshot, self.forest, self.request)[nodes]]
        start, end = _asked_about(self.request)
        if (start, end) == (-np.inf, np.inf):
            return nodes
        # Leaves and sessions stand for no window.
        windowed = self.forest.window[nodes] >= 0
        starts, ends = self.forest.start_ms[nodes], self.forest.end_ms[nodes]
        kept = ~windowed | ((starts < end) & (ends > start))
        return nodes[kept]

    def _with_text(self, nodes: Ints, most: int) -> Ints:
        """Return the first `most` nodes with an up-to-date text; few others are looked at."""
        found: list[int] = []
        for at in range(0, len(nodes), max(most, 1)):
            rows = nodes[at : at + most].tolist()
            ready = ready_rows(self.tx, self.snapshot, self.index, rows)
            found += [row for row in rows if row in ready or (self.due is not None and self.due[row])]
            if len(found) >= most:
                break
        return np.array(found[:most], dtype=np.int64)

    def found(self, chosen: Chosen) -> IndexResult:
        """Return what was chosen as hits."""
        heard, speaks, leaf_of = self.heard, self.speaks, leaf_of_turn(self.forest)

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
