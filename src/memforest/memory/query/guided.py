"""Planned and model-guided browse (paper §4.3, §6.2): what to look for in each recalled tree, and where to go down.

Recall, then at most one call of a planner, which gives each tree sub-queries of its own, then a way down for every
tree and sub-query. A browser is asked level by level, about all trees at once: which level a call is made for does
not depend on how fast others are answered, so that limits fall on the same trees every time. What a model cannot
do is done by embedding, tree by tree, and said in the trace; a query never fails for want of a model.

No transaction is open while a model is asked. The trees' shape is that of one snapshot, the texts are read from the
store when they are needed, and leaves are handed on by node id: what is gone by then is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of
from memforest.errors import ModelError, ModelRefusedError
from memforest.memory.query.evidence import without_names
from memforest.memory.query.modes import FALLS_BACK, adopted, sub_queries
from memforest.memory.query.node_summaries import RecalledTree, node_cards, recalled_trees
from memforest.memory.timing import Timer
from memforest.models import Embedder
from memforest.search.cache import SnapshotCache
from memforest.search.forest import EmbeddedForest, Forest
from memforest.search.forests import embedded_forest
from memforest.search.snapshot import Snapshot
from memforest.steps.choose import Steps
from memforest.store.db import Database
from memforest.systems.base import Search, TreeIndex
from memforest.systems.memforest.browse import Descent, browse_by, merged, nearness_to, split
from memforest.systems.memforest.recall import BEAM_WIDTH
from memforest.text import cut
from memforest.types import QuestionPlan, TreeCard

__all__ = ["Browsed", "GuidedBrowse"]

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Browsed:
    """What browsing brings into the search.

    `leaves` is for `Search.leaves`: None means that the index browses itself, as in mode ``"emb"``. `trees` are the
    recalled ones as (title, score), and `trace` goes into the trace of the query.
    """

    plan: QuestionPlan
    leaves: Mapping[int, float] | None = None
    trees: tuple[tuple[str, float], ...] = ()
    trace: Mapping[str, Any] = field(default_factory=lambda: {"mode": "emb"})
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tree:
    """A tree under way: its sub-queries, a way down for each, and what that took."""

    of: RecalledTree
    queries: tuple[str, ...]
    ways: list[Descent] = field(default_factory=list)
    calls: int = 0
    fallback: str | None = None
    """Why it is browsed by embedding, from there on, although a model was to do it."""
    failure: ModelError | None = None

    def fall_back(self, error: ModelError) -> None:
        self.failure = error
        self.fallback = cut(str(error), 300)


@dataclass(frozen=True, slots=True)
class _Ask:
    """One way down that waits for a choice: its children, in runs of which each is one call."""

    tree: _Tree
    way: Descent
    query: str
    runs: Sequence[Sequence[int]]
    cards: Mapping[int, TreeCard]
    """By forest row."""


class GuidedBrowse:
    """Browses the trees recalled for one question.

    Args:
        db: the memory's database.
        cache: keeps its snapshot.
        steps: with what the mode needs.
        embedder: None in a memory that works by words alone.
        mode: one of `MODES`, other than ``"emb"``.
        most_calls: most calls of the browser.
    """

    def __init__(
        self,
        db: Database,
        cache: SnapshotCache,
        steps: Steps,
        embedder: Embedder | None,
        *,
        mode: str,
        most_calls: int,
    ) -> None:
        self._db = db
        self._cache = cache
        self._steps = steps
        self._embedder = embedder
        self._mode = mode
        self._most_calls = most_calls
        self._calls = 0

    async def browse(self, index: object, request: Search, reference: datetime, timer: Timer) -> Browsed:
        """Return what browsing the recalled trees reaches; as in mode ``"emb"`` where nothing can be guided."""
        if not isinstance(index, TreeIndex):
            return self._not_guided(request, "this index has no trees to browse")
        if self._embedder is None:
            return self._not_guided(request, "without vectors of an embedder no trees can be recalled")
        started = time.perf_counter()
        snapshot, found, recalled = await asyncio.to_thread(self._recall, index, request)
        timer.add("recall", started)
        if not recalled:
            return Browsed(request.plan, trace={"mode": self._mode, "browse": []})
        if all(tree.card.leaves > 1 and not tree.card.summary for tree in recalled):
            return self._not_guided(request, "the trees have no summaries yet; resume() makes them")
        try:
            return await self._guided(snapshot, found, recalled, request, reference, timer)
        except ModelRefusedError as exc:
            return self._not_guided(request, str(exc))

    def _not_guided(self, request: Search, why: str) -> Browsed:
        return Browsed(
            request.plan, warnings=(f"mode {self._mode!r} did what 'emb' does: {why}",), trace={"mode": "emb"}
        )

    def _recall(
        self, index: TreeIndex, request: Search
    ) -> tuple[Snapshot, EmbeddedForest, tuple[RecalledTree, ...]]:
        with self._db.read() as tx:
            snapshot = self._cache.get(tx)
            recalled = recalled_trees(tx, snapshot, index, index.recall(tx, snapshot, request))
            return snapshot, embedded_forest(tx, snapshot, index.name), recalled

    async def _guided(
        self,
        snapshot: Snapshot,
        found: EmbeddedForest,
        recalled: Sequence[RecalledTree],
        request: Search,
        reference: datetime,
        timer: Timer,
    ) -> Browsed:
        trace: dict[str, Any] = {"mode": self._mode}
        warnings: list[str] = []
        plan = request.plan
        queries: list[tuple[str, ...]] = [(request.question,)] * len(recalled)
        if "+planner" in self._mode:
            started = time.perf_counter()
            plan, queries, trace["guide"], said = await self._plan(recalled, request, reference)
            timer.add("guide", started)
            warnings += said
        started = time.perf_counter()
        trees = [
            _Tree(tree, own, [Descent(found.forest, tree.root) for _ in own])
            for tree, own in zip(recalled, queries, strict=True)
        ]
        if self._mode.startswith("llm"):
            await self._by_model(found.forest, trees, reference)
        warnings += await self._by_embedding(snapshot, found, trees, request)
        timer.add("browse", started)
        trace["browse"] = [self._told(tree) for tree in trees]
        return Browsed(
            plan=plan,
            leaves=_best_of(found.forest, trees),
            trees=tuple((tree.title, round(tree.score, 4)) for tree in recalled),
            trace=trace,
            warnings=(*warnings, *_fallbacks(trees)),
        )

    def _told(self, tree: _Tree) -> dict[str, Any]:
        """Return how a tree was browsed, for the trace."""
        return {
            "title": tree.of.title,
            "queries": list(tree.queries),
            "mode": "llm" if self._mode.startswith("llm") and tree.fallback is None else "emb",
            "calls": tree.calls,
            "levels": max(way.levels for way in tree.ways),
            "leaves": len({row for way in tree.ways for row in way.reached}),
            "fallback": tree.fallback,
        }

    # -- what to look for -------------------------------------------------------------------------

    async def _plan(
        self, recalled: Sequence[RecalledTree], request: Search, reference: datetime
    ) -> tuple[QuestionPlan, list[tuple[str, ...]], dict[str, Any], list[str]]:
        """Return the plan of the question, the sub-queries of each tree, and what became of planning."""
        guide = self._steps.guide
        assert guide is not None
        told: dict[str, Any] = {"name": guide.name, "kind": None, "anchor": None, "failure": None}
        try:
            made = await guide.plan_browse(
                request.question,
                plan=request.plan,
                reference=reference,
                trees=[tree.card for tree in recalled],
            )
            queries = sub_queries(made, request.question, len(recalled))
        except FALLS_BACK as exc:
            told["failure"] = cut(str(exc), 300)
            warning = f"{told['failure']}: the trees were browsed by the question itself"
            return request.plan, [(request.question,)] * len(recalled), told, [warning]
        plan = adopted(request.plan, made, request.question)
        if plan.kind != request.plan.kind:
            told["kind"] = plan.kind
        if plan.anchor != request.plan.anchor:
            told["anchor"] = plan.anchor
        return plan, queries, told, []

    # -- by a model -------------------------------------------------------------------------------

    async def _by_model(self, forest: Forest, trees: Sequence[_Tree], reference: datetime) -> None:
        """Go down all trees together, a level at a time, asking the browser where there is a choice."""
        for tree in trees:
            if not tree.of.summarised:
                tree.fallback = "it has no summary yet; resume() makes it"
        while waiting := _waiting(trees):
            asks = await asyncio.to_thread(self._asks, forest, waiting)
            jobs = [self._choose(ask, run, reference) for ask in asks for run in ask.runs]
            answers = iter(await all_of(jobs))
            for ask in asks:
                self._follow(ask, [next(answers) for _ in ask.runs])

    def _asks(self, forest: Forest, waiting: Sequence[tuple[_Tree, Descent, str]]) -> list[_Ask]:
        """Return what is to be asked of this level, as far as calls are left."""
        ids = forest.ids
        scopes = {
            int(ids[row]): (tree.of.card.kind, tree.of.card.label)
            for tree, way, _ in waiting
            for row in way.below
        }
        with self._db.read() as tx:
            found = node_cards(tx, scopes)
        asks = []
        for tree, way, query in waiting:
            cards = {row: card for row in way.below if (card := found.get(int(ids[row]))) is not None}
            runs = split(list(cards))
            if len(cards) <= BEAM_WIDTH:
                way.keep(list(cards), ordered=False)
            elif not all(card.summary for card in cards.values()):
                tree.fallback = "a node on the way has no summary yet; resume() makes it"
            elif self._calls + len(runs) > self._most_calls:
                tree.fallback = f"the limit of {self._most_calls} browse calls is reached"
            else:
                self._calls += len(runs)
                tree.calls += len(runs)
                asks.append(_Ask(tree, way, query, runs, cards))
        return asks

    async def _choose(self, ask: _Ask, run: Sequence[int], reference: datetime) -> list[int] | ModelError:
        """Return the chosen of one run of children, best first, or why there is no choice."""
        browser = self._steps.browser
        assert browser is not None
        children = [ask.cards[row] for row in run]
        try:
            chosen = await browser.choose(ask.query, reference=reference, children=children, most=BEAM_WIDTH)
        except FALLS_BACK as exc:
            return exc
        known = (place for place in dict.fromkeys(chosen) if 0 <= place < len(run))
        return [run[place] for place in known][:BEAM_WIDTH]

    @staticmethod
    def _follow(ask: _Ask, answers: Sequence[list[int] | ModelError]) -> None:
        """Go down to what was chosen; to nothing, if nothing was."""
        chosen = []
        for answer in answers:
            if isinstance(answer, ModelError):
                ask.tree.fall_back(answer)
                return
            chosen.append(answer)
        ask.way.keep(merged(chosen), ordered=True)

    # -- by embedding -----------------------------------------------------------------------------

    async def _by_embedding(
        self, snapshot: Snapshot, forest: EmbeddedForest, trees: Sequence[_Tree], request: Search
    ) -> list[str]:
        """Go the rest of every way down by embedding, which is all of it where no model was asked; return warnings."""
        left = [
            (way, query)
            for tree in trees
            for way, query in zip(tree.ways, tree.queries, strict=True)
            if way.below
        ]
        warnings = []
        try:
            vectors = await self._vectors(snapshot, {query for _, query in left}, request)
        except ModelError as exc:  # the question has its vector already
            warnings.append(f"{cut(str(exc), 300)}: trees were browsed by the question itself")
            left = [(way, request.question) for way, _ in left]
            vectors = await self._vectors(snapshot, (), request)
        await asyncio.to_thread(_by_vectors, forest, left, vectors)
        return warnings

    async def _vectors(
        self, snapshot: Snapshot, queries: Iterable[str], request: Search
    ) -> Mapping[str, tuple[Row, Row]]:
        """Return the vectors of sub-queries, with and without participants' names, from one call of the embedder."""
        assert self._embedder is not None
        assert request.vector is not None
        own = (request.vector, request.vector if request.bare_vector is None else request.bare_vector)
        new = sorted(set(queries) - {request.question})
        if not new:
            return {request.question: own}
        bare = {query: without_names(query, snapshot.speakers) for query in new}
        texts = sorted({*new, *bare.values()})
        embed = getattr(self._embedder, "embed_questions", self._embedder.embed)
        rows = dict(zip(texts, await embed(texts), strict=True))
        return {request.question: own, **{query: (rows[query], rows[bare[query]]) for query in new}}


def _waiting(trees: Sequence[_Tree]) -> list[tuple[_Tree, Descent, str]]:
    """Go down where there is no choice, and return the ways that wait for one, with their sub-queries."""
    found = []
    for tree in trees:
        if tree.fallback is not None:
            continue
        for way, query in zip(tree.ways, tree.queries, strict=True):
            while way.below and way.fits:
                way.keep(way.below, ordered=False)
            if way.below:
                found.append((tree, way, query))
    return found


def _by_vectors(
    forest: EmbeddedForest, ways: Sequence[tuple[Descent, str]], vectors: Mapping[str, tuple[Row, Row]]
) -> None:
    nearness = {query: nearness_to(forest, *both) for query, both in vectors.items()}
    for way, query in ways:
        browse_by(way, nearness[query])


def _best_of(forest: Forest, trees: Sequence[_Tree]) -> dict[int, float]:
    """Return the leaves that were reached by node id, each with its best score over trees and sub-queries."""
    found: dict[int, float] = {}
    for tree in trees:
        for way in tree.ways:
            for row, score in way.reached.items():
                leaf = int(forest.ids[row])
                found[leaf] = max(score, found.get(leaf, 0.0))
    return found


def _fallbacks(trees: Sequence[_Tree]) -> list[str]:
    """Say for how many trees a model failed, a line for each kind of failure."""
    failed: dict[type[ModelError], list[str]] = {}
    for tree in trees:
        if tree.failure is not None:
            failed.setdefault(type(tree.failure), []).append(cut(str(tree.failure), 300))
    return [
        f"{reasons[0]}: {len(reasons)} of {len(trees)} trees were browsed by embedding"
        for reasons in failed.values()
    ]
