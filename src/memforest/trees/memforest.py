"""The memforest index: ranks turns and facts by recall and browse of the forest, flow, and time order (paper §4.3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memforest.records import SummaryRequest
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.change import Answer, answering_facts
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
from memforest.search.forest import FACT, NONE, Forest, once_per_forest
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store import facts as facts_rows
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.times import from_ms
from memforest.trees.browse import GuidedBrowse
from memforest.trees.index import Host, Index, leaf_of_turn
from memforest.trees.memforest_grow import OWNER, MemForestSettings, grown
from memforest.trees.memforest_recall import (
    Recalled,
    asked_for,
    of_leaves,
    of_roots,
    recall,
    recall_trees,
    score_leaves,
)
from memforest.trees.refresh import IndexPlan, NodeWork

ANSWERS_IN_ORDER = 16
"""How many answers lead in their own order, where it tells which is better; those behind go by their score."""


@dataclass(frozen=True, slots=True)
class Leads:
    """What time order puts in front of everything that is only similar."""

    facts: Mapping[int, int]
    """The facts that lead, by the row of the turn that says them."""
    level: Scores
    """Of every turn how far in front it stands, in whole numbers, shape (n,); 0 for what does not lead."""
    why: str = ""
    ordered: bool = True
    """See `TurnHit.ordered`."""
    perhaps: bool = False


class MemForestIndex(Index):
    """Ranks turns and facts as one candidate set, by the trees they stand in."""

    name = OWNER
    Settings = MemForestSettings

    def __init__(self, settings: Any = None, *, scenes: bool = True) -> None:
        super().__init__(settings)
        self._frame = MemForestIndex(self.settings, scenes=False) if scenes else self
        """Has the trees of sessions and entities alone, for a ranking that browses nothing: scenes cost more to find."""

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the trees of sessions, entities and scenes."""
        return grown(tx, snapshot, self.settings, scenes=self._frame is not self, old=old)

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return a session's id, an entity's display name, a scene's number: that of the fact that it is around."""
        sessions = {span.id: span.session_id for span in snapshot.sessions}
        entities = snapshot.entities

        def named(kind: str, scope: int) -> str:
            if kind == "session":
                return sessions[scope]
            return entities[scope].label if kind == "entity" else str(scope)

        return [
            named(kind, scope)
            for kind, scope in zip(forest.tree_kind, forest.tree_scope.tolist(), strict=True)
        ]

    def labels(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return the names; none of a scene, whose number is of one file alone."""
        named = self.names(snapshot, forest)
        return ["" if kind == "scene" else name for kind, name in zip(forest.tree_kind, named, strict=True)]

    def titles(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return kind and name of trees, and of scenes also the topics that set them apart."""
        about = _topics(forest, tx)
        return [
            title + (f": {', '.join(about[tree])}" if about.get(tree) else "")
            for tree, title in enumerate(super().titles(tx, snapshot, forest))
        ]

    def asked(self) -> tuple[object, ...]:
        """Return whether every node's text is made anew, and whether a chunk says what was said or a summary of it."""
        return self.settings.summarise, self.settings.chunks

    def requests(self, tx: Tx, plan: IndexPlan, rows: Sequence[int], *, remote: bool) -> list[NodeWork]:
        """Return the summary requests of nodes; those of scenes need no vector if `scene_vectors` says so.

        How near a scene's nodes are to a question is then how near the facts below them are on average
        (`memforest.trees.memforest_recall`). A chunk's summary is always made: what was said is there anyway.
        """
        compared = {"session", "entity"} | ({"scene"} if self.settings.scene_vectors == "summary" else set())
        forest, made = plan.forest, []
        names = self.labels(plan.snapshot, forest)
        for row in rows:
            tree, level = int(forest.tree[row]), int(forest.level[row])
            request = SummaryRequest(
                kind=forest.tree_kind[tree],
                label=names[tree],
                start=from_ms(int(forest.start_ms[row])),
                end=from_ms(int(forest.end_ms[row])),
                inputs=plan.inputs(row),
                level=level,
                root=forest.parent[row] == NONE,
                summarise=self.settings.summarise if level else "every",
            )
            made.append(NodeWork(row, request, vector=forest.tree_kind[tree] in compared))
        return made

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return how many entities have a tree, and the numbers of scenes and of facts in them."""
        forest = forest_of(tx, snapshot, self)
        leaves = forest.item[(forest.kind == FACT) & forest.of_kind("scene")[forest.tree]]
        times = np.bincount(leaves, minlength=len(snapshot.facts.ids)) if len(leaves) else np.zeros(0)
        kinds = Counter(forest.tree_kind)
        sizes = forest.counts[forest.tree_root[forest.of_kind("scene")]]
        return {
            "active_entities": kinds["entity"],
            "scenes": kinds["scene"],
            "facts_in_scenes": int(np.count_nonzero(times)),
            "facts_in_two_scenes": int(np.count_nonzero(times > 1)),
            "facts_in_no_scene": len(snapshot.facts.ids) - int(np.count_nonzero(times)),
            "largest_scene": int(sizes.max(initial=0)),
        }

    def notes(self, tx: Tx) -> list[str]:
        """Return why there are no scene trees, if there are none."""
        if meta.get(tx, "embedder") is None:
            return ["no scene trees: scenes are made of vectors, and this memory has no embedder"]
        return []

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn, best first."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
        base = read_base(tx, snapshot, request)
        if self.settings.evidence != "all":
            return self._paper_form(tx, snapshot, request, base)
        browses = request.leaves is not None or (request.explain and request.vector is not None)
        forest = forest_of(tx, snapshot, self if browses else self._frame)
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
        answer = Answer()
        if len(asked):
            # The sessions or days that a question asks for as a whole lead, in their order.
            level = np.zeros(len(snapshot.turns.ids))
            level[asked] = len(asked) - np.arange(len(asked))
            lead = Leads({int(turn): int(speaks[turn]) for turn in asked}, level, why)
        else:
            if request.ranking.time_order:
                answer = answering_facts(tx, snapshot, request, base.fact)
            lead = self._promote(snapshot, keep, answer, scores.total)
        # A level counts for more than all that scores can differ by.
        front = scores.total + lead.level * (1.0 + np.ptp(scores.total))
        hits = (
            TurnHit(
                turn=turn,
                fact=lead.facts.get(turn, int(speaks[turn])),
                score=float(scores.total[turn]),
                scores={name: float(part[turn]) for name, part in scores.parts.items()},
                leaf=leaf_of.get(turn, int(chunks[turn])),
                why=lead.why if turn in lead.facts else "",
                lead=int(lead.level[turn]),
                ordered=lead.ordered and turn in lead.facts,
                perhaps=lead.perhaps and turn in lead.facts,
                browsed=recalled.leaves.get(reached_by.get(turn, int(chunks[turn]))),
            )
            for turn in best_first(front, turn_places(snapshot), keep.turns)
        )
        notes = {
            "filters": filter_notes(keep),
            "time_order": {"why": lead.why, "turns": len(lead.facts)} if lead.facts else None,
        }
        return IndexResult(
            hits, recalled.trees, notes, forest=forest, ended=answer.ended if lead.facts else {}
        )

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Browse the recalled trees as the mode says; in mode ``"emb"`` the ranking browses itself.

        Either way the summaries are made before, of all trees: recall compares their roots. A ranking that is not to be
        explained reads none.
        """
        roots = self.settings.evidence == "roots"
        guided, late = request.mode != "emb" and not roots, []
        if request.vector is not None and (guided or request.explain or self.settings.evidence != "all"):
            late = await host.ensure_fresh(self)
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
        found = embedded_forest(tx, snapshot, self)
        base = base_scores(snapshot, request, *words)
        return recall_trees(snapshot, found, base, request.vector, self.settings)[0]

    def _paper_form(self, tx: Tx, snapshot: Snapshot, request: Search, base: Base) -> IndexResult:
        """Return what browse reached, or the roots of the recalled trees; a warning if there is nothing of that."""
        found = embedded_forest(tx, snapshot, self)
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
            found = embedded_forest(tx, snapshot, self)
            return recall(snapshot, found, base, request.vector, self.settings)
        forest, wanted = forest_of(tx, snapshot, self), sorted(request.leaves)
        rows = forest.rows_with(np.array(wanted, dtype=np.int64)).tolist()
        return Recalled(
            (), {row: request.leaves[leaf] for leaf, row in zip(wanted, rows, strict=True) if row >= 0}
        )

    @staticmethod
    def _promote(snapshot: Snapshot, keep: Allowed, answer: Answer, scores: Scores) -> Leads:
        """Return the turns that support the timeline's answer, as far as it passes the filters.

        None leads if the best placed of them is too far down the ranking.
        """
        level = np.zeros(len(snapshot.turns.ids))
        chosen: dict[int, int] = {}
        pairs = snapshot.facts.pairs  # by fact
        for rank, fact in enumerate(answer.facts):
            first, end = np.searchsorted(pairs[:, 0], (fact, fact + 1))
            for turn in answer.turns_within(snapshot, pairs[first:end, 1]):
                if turn not in chosen and keep.facts[fact]:  # and so its turns pass
                    chosen[turn] = fact
                    level[turn] = max(1, ANSWERS_IN_ORDER - rank) if answer.in_order else 1
        if chosen and _outdone(snapshot, keep, answer, scores, list(chosen)):
            return Leads({}, np.zeros(len(level)))
        return Leads(
            chosen, level, answer.why, answer.of_values, perhaps=answer.of_values and not answer.sure
        )


def _outdone(snapshot: Snapshot, keep: Allowed, answer: Answer, scores: Scores, turns: Sequence[int]) -> bool:
    """Return whether turns rank too low to lead, or a turn of the very day asked for ranks first."""
    kept = np.flatnonzero(keep.turns)
    if answer.day is not None:
        said = int(snapshot.turns.said_ms[kept[scores[kept].argmax()]])
        if answer.day[0] <= said < answer.day[1]:
            return True
    above = int(np.count_nonzero(scores[kept] > scores[list(turns)].max()))
    return answer.within is not None and above >= answer.within


TOPICS = 3
"""Topics in the title of a scene."""


@once_per_forest
def _topics(forest: Forest, tx: Tx) -> Mapping[int, Sequence[str]]:
    """Return the topics that tell each scene from the others, by tree: common among its facts, and rare elsewhere."""
    leaves = np.flatnonzero((forest.kind == FACT) & forest.of_kind("scene")[forest.tree])
    stored = facts_rows.facts_with_ids(tx, set(forest.facts.ids[forest.item[leaves]].tolist()))
    counts: dict[int, Counter[str]] = {}
    for tree, fact in zip(
        forest.tree[leaves].tolist(), forest.facts.ids[forest.item[leaves]].tolist(), strict=True
    ):
        if fact in stored:
            counts.setdefault(tree, Counter()).update(stored[fact].topics)
    spread = Counter(topic for found in counts.values() for topic in found)
    return {
        tree: [
            topic
            for _, topic in sorted(
                (-n * math.log1p(len(counts) / spread[topic]), topic) for topic, n in found.items()
            )
        ][:TOPICS]
        for tree, found in counts.items()
    }
