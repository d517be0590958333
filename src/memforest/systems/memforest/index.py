"""The memforest index: recall and browse of the forest, score flow, and time order (paper §4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memforest.ranking import Scores, order, standardise
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.search.texts import question_tokens
from memforest.store.db import Tx
from memforest.systems.base import Hit, Search
from memforest.systems.filters import Allowed, allowed
from memforest.systems.memforest.rank import Base, LeafScores, base_scores, score_leaves
from memforest.systems.memforest.recall import Recalled, recall
from memforest.systems.memforest.when import answering_facts, side_of_anchor
from memforest.systems.speak import best_facts

__all__ = ["MemForestIndex"]

ANSWERS_LEAD = 100.0
"""Added to what time order says is the answer: it stands in front of everything that is only similar."""


@dataclass(frozen=True, slots=True)
class _Led:
    """The facts that time order puts in front, by turn row, and why."""

    facts: dict[int, int]
    bonus: Scores
    why: str


class MemForestIndex:
    """Ranks turns and facts as one candidate set, by the trees they stand in."""

    name = "memforest"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> list[Hit]:
        """Return every candidate turn, best first."""
        base = self._base(tx, snapshot, request)
        scores = score_leaves(snapshot, request, base)
        recalled = recall(snapshot, base, request.vector)
        leaf_of = self._browse(snapshot, request, recalled, scores)
        self._order_in_time(tx, snapshot, request, scores)
        keep = allowed(snapshot, request)
        led = self._answers(snapshot, request, keep, scores)
        speaks = best_facts(snapshot, keep, base.fact, base.fact_lexical)
        total = scores.total + led.bonus
        ranked = [int(i) for i in order(total, snapshot.turns.ids) if keep.turns[i]]
        return [
            Hit(
                turn=i,
                fact=led.facts.get(i, int(speaks[i])),
                score=float(total[i]),
                scores={name: float(part[i]) for name, part in scores.parts.items()},
                leaf=leaf_of.get(i, -1),
                why=led.why if i in led.facts else "",
            )
            for i in ranked
        ]

    @staticmethod
    def _base(tx: Tx, snapshot: Snapshot, request: Search) -> Base:
        turns, facts = snapshot.turns, snapshot.facts
        lexical = bm25(tx, "turn", request.tokens, snapshot.turn_row, turns.length)
        fact_lexical = bm25(tx, "fact", request.tokens, snapshot.fact_row, facts.length)
        return base_scores(snapshot, request, lexical, fact_lexical)

    @staticmethod
    def _browse(
        snapshot: Snapshot, request: Search, recalled: Recalled, scores: LeafScores
    ) -> dict[int, int]:
        """Score the turns that browse reached, and return the leaf by which each was reached best."""
        forest, pairs = snapshot.forest, snapshot.facts.pairs
        turns_of_fact: dict[int, list[int]] = {}
        for fact, turn in pairs.tolist():
            turns_of_fact.setdefault(fact, []).append(turn)
        reached = np.zeros(len(snapshot.turns.ids))
        leaf_of: dict[int, int] = {}
        for leaf, similarity in recalled.leaves.items():
            item = int(forest.item[leaf])
            turns = (
                turns_of_fact.get(item, [])
                if forest.kind[leaf] == 2
                else range(item, int(forest.item_end[leaf]))
            )
            for turn in turns:
                if similarity > reached[turn]:
                    reached[turn], leaf_of[turn] = similarity, leaf
        if request.ranking.browse and reached.any():
            scores.add("browse", request.ranking.browse * standardise(reached))
        return leaf_of

    @staticmethod
    def _order_in_time(tx: Tx, snapshot: Snapshot, request: Search, scores: LeafScores) -> None:
        """Move turns on the asked side of an anchor event up, when no state tells the answer."""
        plan = request.plan
        if plan.kind not in ("predecessor", "successor") or plan.anchor is None or not plan.entities:
            return
        if answering_facts(snapshot, request)[0]:
            return
        anchor = bm25(tx, "turn", question_tokens(plan.anchor), snapshot.turn_row, snapshot.turns.length)
        scores.add("time_order", request.ranking.time_order * side_of_anchor(snapshot, request, anchor))

    @staticmethod
    def _answers(snapshot: Snapshot, request: Search, keep: Allowed, scores: LeafScores) -> _Led:
        """Lead with the turns that support the answer which the timeline gives; the best of them first."""
        facts, why = answering_facts(snapshot, request)
        bonus = np.zeros(len(snapshot.turns.ids))
        chosen: dict[int, int] = {}
        pairs = snapshot.facts.pairs
        for rank, fact in enumerate(facts):
            for turn in pairs[pairs[:, 0] == fact, 1].tolist():
                if turn not in chosen and keep.turns[turn]:
                    chosen[turn] = fact
                    bonus[turn] = ANSWERS_LEAD - (rank if request.plan.kind in ("since", "first") else 0)
        return _Led(chosen, bonus, why)
