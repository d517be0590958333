"""The memforest index: ranks turns and facts by recall and browse of the forest, flow, and time order (paper §4.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from memforest.nodes import Node
from memforest.records import SummaryRequest
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.change import Answer, answering_facts, side_of_anchor
from memforest.search.context_scores import Base, base_scores, read_base
from memforest.search.filters import (
    Allowed,
    IndexResult,
    Prepared,
    Search,
    TurnHit,
    allowed,
    best_facts,
    filter_notes,
    turn_places,
)
from memforest.search.forest import FACT
from memforest.search.lexical import bm25
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import question_tokens
from memforest.store import meta
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Kind
from memforest.times import from_ms
from memforest.trees import memforest_rows
from memforest.trees.browse import GuidedBrowse
from memforest.trees.index import Copied, Host, Index, IndexProblem, leaf_of_turn
from memforest.trees.memforest_place import (
    OWNER,
    ROUTED,
    THRESHOLDS,
    ForestPlacing,
    check_forest,
    merge_forest,
)
from memforest.trees.memforest_recall import (
    Recalled,
    asked_for,
    of_leaves,
    of_roots,
    recall,
    recall_trees,
    score_leaves,
)
from memforest.trees.memforest_rows import MemForestSettings
from memforest.trees.refresh import NodeWork
from memforest.trees.scenes import scene_thresholds

ANSWERS_LEAD = 1_000.0
"""Added to what time order says is the answer: it stands in front of everything that is only similar."""
ORDER_STEP = 50.0
"""Taken off for each place behind the first, where the order of the answers tells which is better."""


_Promoted = tuple[dict[int, int], Scores, str]
"""The facts that lead, by the row of the turn that says them, the bonus of every turn, and why they lead."""


class MemForestIndex(Index):
    """Ranks turns and facts as one candidate set, by the trees they stand in."""

    _topics: tuple[int, Mapping[int, Sequence[str]]] | None = None
    name = OWNER
    follows = frozenset[Kind]({"chunk", "fact", "entity"})
    make_tables = staticmethod(memforest_rows.make_tables)
    labels = staticmethod(memforest_rows.labels)
    Settings = MemForestSettings
    numbered = frozenset({"scene"})
    settled = frozenset({"session"})
    carried: Mapping[str, str] | None = MappingProxyType(
        {
            "session": "session",
            "entity": "entity",
            "ix_memforest_active.entity": "entity",
            "ix_memforest_scene_member.fact": "fact",
        }
    )

    def placing(self, tx: Tx) -> ForestPlacing:
        """Begin to edit the forest inside a write transaction."""
        return ForestPlacing(tx, self.settings)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return the summary requests of nodes; those of scenes need no vector if `scene_vectors` says so.

        How near a scene's nodes are to a question is then how near the facts below them are on average
        (`memforest.trees.memforest_recall`). A chunk's summary is always made: what was said is there anyway.
        """
        compared = {"session", "entity"} | ({"scene"} if self.settings.scene_vectors == "summary" else set())
        trees = {node.tree for node in nodes}
        scopes, labels, roots = (
            trees_rows.scopes(tx, trees),
            self.labels(tx, trees),
            trees_rows.roots(tx, trees),
        )
        return [
            NodeWork(
                node.id,
                SummaryRequest(
                    kind=scopes[node.tree][0],
                    label=labels[node.tree],
                    start=from_ms(node.start_ms),
                    end=from_ms(node.end_ms),
                    inputs=inputs[node.id],
                    level=node.level,
                    root=node.id in roots,
                    summarise=self.settings.summarise if node.level else "every",
                ),
                vector=scopes[node.tree][0] in compared,
            )
            for node in nodes
        ]

    def merge(self, copied: Copied) -> Iterator[Callable[[Tx], int]]:
        """Yield pieces of work that take over whole trees of another memory; see `memforest.trees.memforest_place`."""
        return merge_forest(copied, self.settings)

    def titles(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return kind and name of trees, and of scenes also the topics that set them apart."""
        labels, scopes = self.labels(tx, trees), trees_rows.scopes(tx, trees)
        about: Mapping[int, Sequence[str]] = {}
        if any(kind == "scene" for kind, _ in scopes.values()):
            # The topics are read of all facts, and kept as long as nothing was written.
            generation = meta.generation(tx)
            if self._topics is None or self._topics[0] != generation:
                self._topics = (generation, memforest_rows.topics(tx))
            about = self._topics[1]
        titles = {}
        for tree, (kind, scope) in scopes.items():
            topics = f": {', '.join(about[scope])}" if kind == "scene" and scope in about else ""
            titles[tree] = f"{kind} {labels[tree]}{topics}"
        return titles

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return everything that is wrong with the forest."""
        return [*super().check(tx), *check_forest(tx, self.settings)]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return how many entities have a tree, and the numbers of scenes and of facts in them."""
        return memforest_rows.counts(tx)

    def notes(self, tx: Tx) -> list[str]:
        """Return why there are no scene trees, if there are none."""
        if meta.get(tx, ROUTED) is not None:
            return []
        if meta.get(tx, "embedder") is None:
            return ["no scene trees: scenes are made of vectors, and this memory has no embedder"]
        return ["no scene trees yet: the next ingest, resume() or rebuild(scopes=True) makes them"]

    def reembed(self, tx: Tx) -> bool:
        """Derive the scenes anew; the other trees do not depend on vectors."""
        placing = self.placing(tx)
        placing.derive_scenes()
        placing.close()
        return True

    def outdated(self, tx: Tx) -> str | None:
        """Return a warning if the scenes were made with other thresholds than are set now."""
        stored, model = meta.get(tx, THRESHOLDS), meta.get(tx, ROUTED)
        if stored is None or model is None:
            return None
        now = json.dumps(asdict(scene_thresholds(model, self.settings)), sort_keys=True)
        if stored == now:
            return None
        return f"its scenes were made with the thresholds {stored}, and {now} are set"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn, best first."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
        base = read_base(tx, snapshot, request)
        if self.settings.evidence != "all":
            return self._paper_form(tx, snapshot, request, base)
        forest = forest_of(tx, snapshot, self.name)
        scores = score_leaves(snapshot, forest, request, base)
        recalled = self._recalled(tx, snapshot, request, base)
        # Each turn that browse reached is scored by the leaf through which it was reached best.
        reached, reached_by = np.zeros(len(snapshot.turns.ids)), dict[int, int]()
        for leaf, similarity in recalled.leaves.items():
            item = int(forest.item[leaf])
            of_fact = forest.kind[leaf] == FACT
            for turn in snapshot.turns_of_fact[item] if of_fact else range(item, int(forest.item_end[leaf])):
                if similarity > reached[turn]:
                    reached[turn], reached_by[turn] = similarity, leaf
        weight = 0.0 if request.leaves is None else request.ranking.guided
        if weight and reached.any():
            scores.add("browse", weight * reached)
        leaf_of = reached_by if weight else {}
        chunks = leaf_of_turn(forest)
        keep = allowed(snapshot, request)
        speaks = best_facts(snapshot, keep, base.fact, base.fact_lexical)
        asked, why = asked_for(snapshot, request, keep)
        if len(asked):
            # The sessions or days that a question asks for as a whole lead, in their order.
            lead = {int(turn): int(speaks[turn]) for turn in asked}
            bonus = np.zeros(len(snapshot.turns.ids))
            bonus[asked] = ANSWERS_LEAD * (2.0 - np.arange(len(asked)) / len(asked))
        else:
            answer = (
                answering_facts(tx, snapshot, request, base.fact) if request.ranking.time_order else Answer()
            )
            lead, bonus, why = self._promote(snapshot, keep, answer, scores.total)
            plan = request.plan
            ordered = plan.kind in ("predecessor", "successor") and plan.anchor is not None and plan.entities
            if not lead and ordered:
                # No state tells the answer: turns on the asked side of the anchor event move up.
                anchor = bm25(tx, snapshot, "turn", question_tokens(plan.anchor or ""))
                side = side_of_anchor(snapshot, request, anchor)
                scores.add("time_order", request.ranking.time_order * side)
        scores.add("lead", bonus)
        hits = (
            TurnHit(
                turn=turn,
                fact=lead.get(turn, int(speaks[turn])),
                score=float(scores.total[turn]),
                scores={name: float(part[turn]) for name, part in scores.parts.items()},
                leaf=leaf_of.get(turn, int(chunks[turn])),
                why=why if turn in lead else "",
                browsed=recalled.leaves.get(reached_by.get(turn, int(chunks[turn]))),
            )
            for turn in best_first(scores.total, turn_places(snapshot), keep.turns)
        )
        notes = {
            "filters": filter_notes(keep),
            "time_order": {"why": why, "turns": len(lead)} if lead else None,
        }
        trees = tuple((int(forest.tree_ids[tree]), score) for tree, score in recalled.trees)
        return IndexResult(hits, trees, notes)

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Browse the recalled trees as the mode says; in mode ``"emb"`` the ranking browses itself.

        Either way the summaries are made before, of all trees: recall compares their roots. A ranking that is not to be
        explained reads none.
        """
        roots = self.settings.evidence == "roots"
        guided, late = request.mode != "emb" and not roots, []
        if request.vector is not None and (guided or request.explain or self.settings.evidence != "all"):
            late = await host.ensure_fresh(partial(trees_rows.dirty_children, owner=OWNER))
        prepared = Prepared(request)
        if guided:
            browse = GuidedBrowse(host, self, self.recall, request)
            prepared = await browse.browse()
        elif roots and request.mode != "emb":
            why = f"mode {request.mode!r} did what 'emb' does: evidence='roots' browses no trees"
            prepared = Prepared(request, warnings=(why,))
        return replace(prepared, warnings=(*late, *prepared.warnings))

    def recall(self, tx: Tx, snapshot: Snapshot, request: Search) -> tuple[tuple[int, float], ...]:
        """Return the trees to browse, best first; none without an embedder."""
        words = np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
        found = embedded_forest(tx, snapshot, self.name)
        base = base_scores(snapshot, request, *words)
        return recall_trees(snapshot, found, base, request.vector, self.settings)[0]

    def _paper_form(self, tx: Tx, snapshot: Snapshot, request: Search, base: Base) -> IndexResult:
        """Return what browse reached, or the roots of the recalled trees; a warning if there is nothing of that."""
        found = embedded_forest(tx, snapshot, self.name)
        if self.settings.evidence == "roots":
            if trees := recall_trees(snapshot, found, base, request.vector, self.settings)[0]:
                return of_roots(snapshot, found.forest, request, base, trees)
        elif (recalled := self._recalled(tx, snapshot, request, base)).leaves:
            return of_leaves(snapshot, found, request, base, recalled, self.settings)
        why = f"the memory has no tree of the kinds {', '.join(self.settings.families)} to recall"
        if request.vector is None:
            why = "without vectors no trees are recalled"
        elif request.leaves is not None:
            why = "the browser chose no leaf"
        given = f"the index {self.name!r} has the setting evidence={self.settings.evidence!r}"
        warning = f"nothing was found: {why}, and {given}; 'all' ranks everything said"
        return IndexResult((), warnings=(warning,))

    def _recalled(self, tx: Tx, snapshot: Snapshot, request: Search, base: Base) -> Recalled:
        """Return the recalled trees and reached leaves: those of `prepare`, else recalled now; empty if they do not count."""
        if request.leaves is None:
            counts = request.explain or self.settings.evidence == "reached"
            if request.vector is None or not counts:
                return Recalled((), {})
            found = embedded_forest(tx, snapshot, self.name)
            return recall(snapshot, found, base, request.vector, self.settings)
        stored = forest_of(tx, snapshot, self.name).ids
        known = np.flatnonzero(np.isin(stored, sorted(request.leaves)))
        return Recalled((), {int(row): request.leaves[int(stored[row])] for row in known})

    @staticmethod
    def _promote(snapshot: Snapshot, keep: Allowed, answer: Answer, scores: Scores) -> _Promoted:
        """Return a bonus for the turns that support the timeline's answer, as far as it passes the filters.

        The largest is for the best of them. None gets one if the best placed of them is too far down the ranking.
        """
        bonus = np.zeros(len(snapshot.turns.ids))
        chosen: dict[int, int] = {}
        pairs = snapshot.facts.pairs  # by fact
        for rank, fact in enumerate(answer.facts):
            first, end = np.searchsorted(pairs[:, 0], (fact, fact + 1))
            for turn in answer.turns_within(snapshot, pairs[first:end, 1]):
                if turn not in chosen and keep.facts[fact]:  # and so its turns pass
                    chosen[turn] = fact
                    bonus[turn] = ANSWERS_LEAD - (ORDER_STEP * min(rank, 15) if answer.in_order else 0)
        if chosen and _outdone(snapshot, keep, answer, scores, list(chosen)):
            return {}, np.zeros(len(bonus)), ""
        return chosen, bonus, answer.why


def _outdone(snapshot: Snapshot, keep: Allowed, answer: Answer, scores: Scores, turns: Sequence[int]) -> bool:
    """Return whether turns rank too low to lead, or a turn of the very day asked for ranks first."""
    kept = np.flatnonzero(keep.turns)
    if answer.day is not None:
        said = int(snapshot.turns.said_ms[kept[scores[kept].argmax()]])
        if answer.day[0] <= said < answer.day[1]:
            return True
    above = int(np.count_nonzero(scores[kept] > scores[list(turns)].max()))
    return answer.within is not None and above >= answer.within
