"""Planned and model-guided browse (paper §4.3, §6.2): what to look for in each recalled tree, and where to go down.

Recall, then at most one call of a planner, which gives each tree sub-queries of its own, then a way down for every
tree and sub-query. A browser is asked level by level, about all trees at once. The order of calls does not depend on
how fast they are answered, so limits always fall on the same trees. What a model cannot
do is done by embedding, tree by tree, and noted in the trace; a query never fails for want of a model. A model, or the
similarity to a sub-query, orders the children of a level. A leaf counts by its place on each level of its path. This
makes leaves comparable that were browsed in different ways.

No transaction is open while a model is asked. The trees' shape is that of one snapshot, the texts are read from the
store when they are needed, and leaves are handed on by node id: what is gone by then is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import all_of
from memforest.errors import ModelError, ModelRefusedError
from memforest.records import QuestionPlan, TreeCard
from memforest.search.cache import embedded_forest
from memforest.search.filters import Prepared, Search
from memforest.search.forest import INNER, EmbeddedForest, Forest
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import without_names
from memforest.store.connections import Tx
from memforest.text import cut
from memforest.times import from_ms
from memforest.trees.index import FALLS_BACK, Host, Index, adopted, ready_rows, sub_queries
from memforest.trees.memforest_grow import DEFAULTS, MemForestSettings
from memforest.trees.memforest_recall import Near, nearness_to
from memforest.trees.texts import leaf_texts

MOST_CHILDREN = 24
"""Most children that are put before a model at once: longer lists are read with less care, and cost a call more."""
UNASKED = 0.5
"""Share of a level at which nobody was asked, because all children fitted into the beam: neither for nor against."""


class Descent:
    """A descent of one tree for one sub-query: its frontier, and the leaves reached.

    A leaf's score is the mean, over the levels of its path, of 1 - place / beam, the first place being 0; a level that
    nobody ordered counts `UNASKED`. It is in (0, 1].

    Args:
        forest: the trees.
        root: forest row of the tree's root.
        beam: most nodes kept of a level.
    """

    def __init__(self, forest: Forest, root: int, beam: int = DEFAULTS.beam_width) -> None:
        self._children = forest.children
        self._beam = beam
        self._paths = {root: 0.0}
        """Node of the frontier, in time order -> sum over the levels down to it."""
        self._parent: dict[int, int] = {}
        self.levels = 0
        """Levels that were gone down."""
        self.reached: dict[int, float] = {}
        """Forest row of a leaf -> its score."""
        self._take_out_leaves()

    @property
    def below(self) -> list[int]:
        """The children of the frontier in time order, as forest rows; empty when the way down has ended."""
        return list(self._parent)

    @property
    def fits(self) -> bool:
        """Whether all children of the frontier fit into the beam, so that no choice is needed."""
        return len(self._parent) <= self._beam

    def keep(self, rows: Sequence[int], *, ordered: bool) -> None:
        """Go one level down.

        Args:
            rows: the children to keep, best first; what is behind the beam is not kept.
            ordered: whether their order counts.
        """
        kept = {}
        for place, row in enumerate(rows[: self._beam]):
            share = 1 - place / self._beam if ordered else UNASKED
            kept[row] = self._paths[self._parent[row]] + share
        self.levels += 1
        self._paths = {row: kept[row] for row in self._parent if row in kept}
        self._take_out_leaves()

    def _take_out_leaves(self) -> None:
        """Move leaves from the frontier to `reached`, and read the children of the remaining nodes."""
        self._parent = {}
        for row, total in self._paths.items():
            children = self._children[row]
            if not children:
                self.reached[row] = total / self.levels if self.levels else UNASKED
            self._parent.update(dict.fromkeys(children, row))


def browse_by(descent: Descent, nearness: Near) -> None:
    """Finish a descent by nearness, which orders the children of every level; ties by node."""
    while rows := descent.below:
        near = dict(zip(rows, nearness(rows), strict=True))
        descent.keep(sorted(rows, key=lambda row: (-near[row], row)), ordered=True)


def split(rows: Sequence[int], most: int = MOST_CHILDREN) -> list[Sequence[int]]:
    """Split rows into as few runs as possible of at most `most`, all of about the same length.

    Example:
        >>> [len(part) for part in split(range(50))]
        [17, 17, 16]
    """
    parts = -(-len(rows) // most)
    length, longer = divmod(len(rows), parts) if parts else (0, 0)
    ends = [(i + 1) * length + min(i + 1, longer) for i in range(parts)]
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def merged(chosen: Iterable[Sequence[int]]) -> list[int]:
    """Merge the choices of several runs into one order: the first of each, then the second of each; ties by node.

    Example:
        >>> merged([[7, 3], [5]])
        [5, 7, 3]
    """
    placed = [(place, row) for part in chosen for place, row in enumerate(part)]
    return [row for _, row in sorted(placed)]


Row = NDArray[np.float32]
Recall = Callable[[Tx, Snapshot, Search], Sequence[tuple[int, float]]]


@dataclass(slots=True)
class _Tree:
    """A recalled tree: the row of its root, how well it was recalled, its card, and how it is browsed."""

    root: int
    score: float
    card: TreeCard
    queries: tuple[str, ...] = ()
    """The sub-queries."""
    ways: list[Descent] = field(default_factory=list)
    calls: int = 0
    fallback: str | None = None
    """Why it is browsed by embedding, from there on, although a model was to do it."""
    failure: ModelError | None = None

    @property
    def title(self) -> str:
        """Its kind and scope ("entity Ana"), as in `Evidence.path`."""
        return f"{self.card.kind} {self.card.label}"

    @property
    def summarised(self) -> bool:
        """Whether its root says what is below it; a root that is the only leaf has nothing below."""
        return self.card.leaves == 1 or bool(self.card.summary)


_Ask = tuple[_Tree, Descent, str, Sequence[Sequence[int]], Mapping[int, TreeCard]]
"""A descent that waits for the browser's choice: tree, way, sub-query, its children in runs of one call each, and their cards."""


class GuidedBrowse:
    """Browses the trees recalled for one question.

    Args:
        host: the memory.
        index: whose trees they are.
        recall: returns the trees to browse with their scores, best first, in a read transaction.
        request: the question, with a mode other than ``"emb"``.
    """

    def __init__(self, host: Host, index: Index, recall: Recall, request: Search) -> None:
        self._host = host
        self._index = index
        self._settings: MemForestSettings = index.settings
        self._recall = recall
        self._request = request
        self._reference = from_ms(request.reference_ms)
        self._calls = 0

    async def browse(self) -> Prepared:
        """Browse the recalled trees; as in mode ``"emb"`` where nothing can be guided."""
        if not self._host.embeds:
            return self._not_guided("without vectors of an embedder no trees can be recalled")
        with self._host.timed("recall"):
            snapshot, found, trees = await self._host.read(self._recalled)
        if not trees:
            return Prepared(self._request, trace={"mode": self._request.mode, "browse": []})
        if not any(tree.summarised for tree in trees):
            return self._not_guided("the trees have no summaries yet; resume() makes them")
        try:
            return await self._guided(snapshot, found, trees)
        except ModelRefusedError as exc:
            return self._not_guided(str(exc))

    def _not_guided(self, why: str) -> Prepared:
        return Prepared(
            self._request,
            warnings=(f"mode {self._request.mode!r} did what 'emb' does: {why}",),
            trace={"mode": "emb"},
        )

    def _recalled(self, tx: Tx, snapshot: Snapshot) -> tuple[Snapshot, EmbeddedForest, Sequence[_Tree]]:
        found = embedded_forest(tx, snapshot, self._index)
        forest, names = found.forest, self._index.names(snapshot, found.forest)
        trees = {
            int(forest.tree_root[tree]): (tree, score)
            for tree, score in self._recall(tx, snapshot, self._request)
        }
        scopes = {root: (forest.tree_kind[tree], names[tree]) for root, (tree, _) in trees.items()}
        cards = node_cards(tx, snapshot, self._index, forest, scopes)
        return snapshot, found, [_Tree(root, score, cards[root]) for root, (_, score) in trees.items()]

    async def _guided(self, snapshot: Snapshot, found: EmbeddedForest, trees: Sequence[_Tree]) -> Prepared:
        request = self._request
        trace: dict[str, Any] = {"mode": request.mode}
        warnings: list[str] = []
        plan = request.plan
        queries: list[tuple[str, ...]] = [(self._host.question,)] * len(trees)
        if "+planner" in request.mode:
            with self._host.timed("guide"):
                plan, queries, trace["guide"], said = await self._plan(trees)
            warnings += said
        with self._host.timed("browse"):
            for tree, own in zip(trees, queries, strict=True):
                tree.queries = own
                tree.ways = [Descent(found.forest, tree.root, self._settings.beam_width) for _ in own]
            if request.mode.startswith("llm"):
                await self._by_model(snapshot, found.forest, trees)
            warnings += await self._by_embedding(snapshot, found, trees)
        trace["browse"] = [
            {
                "title": tree.title,
                "queries": list(tree.queries),
                "mode": "llm" if request.mode.startswith("llm") and tree.fallback is None else "emb",
                "calls": tree.calls,
                "levels": max(way.levels for way in tree.ways),
                "leaves": len({row for way in tree.ways for row in way.reached}),
                "fallback": tree.fallback,
            }
            for tree in trees
        ]
        leaves: dict[int, float] = {}  # by node id, each with its best score over trees and sub-queries
        for way in (way for tree in trees for way in tree.ways):
            for row, score in way.reached.items():
                leaf = int(found.forest.ids[row])
                leaves[leaf] = max(score, leaves.get(leaf, 0.0))
        return Prepared(
            replace(request, plan=plan, leaves=leaves),
            trees=tuple((tree.title, round(tree.score, 4)) for tree in trees),
            trace=trace,
            warnings=(*warnings, *_fallbacks(trees)),
        )

    async def _plan(
        self, recalled: Sequence[_Tree]
    ) -> tuple[QuestionPlan, list[tuple[str, ...]], dict[str, Any], list[str]]:
        """Plan the question; return the plan, the sub-queries of each tree, the trace, and warnings."""
        guide, request = self._host.steps.guide, self._request
        assert guide is not None
        told: dict[str, Any] = {"name": guide.name, "kind": None, "anchor": None, "failure": None}
        try:
            made = await guide.plan_browse(
                self._host.question,
                plan=request.plan,
                reference=self._reference,
                trees=[tree.card for tree in recalled],
            )
            queries = sub_queries(made, self._host.question, len(recalled))
        except FALLS_BACK as exc:
            told["failure"] = cut(str(exc), 300)
            warning = f"{told['failure']}: the trees were browsed by the question itself"
            return request.plan, [(self._host.question,)] * len(recalled), told, [warning]
        plan = adopted(request.plan, made, self._host.question)
        if plan.kind != request.plan.kind:
            told["kind"] = plan.kind
        if plan.anchor != request.plan.anchor:
            told["anchor"] = plan.anchor
        return plan, queries, told, []

    async def _by_model(self, snapshot: Snapshot, forest: Forest, trees: Sequence[_Tree]) -> None:
        """Go down all trees together, a level at a time, asking the browser where there is a choice."""
        for tree in trees:
            if not tree.summarised:
                tree.fallback = "it has no summary yet; resume() makes it"
        while waiting := _waiting(trees):
            cards = await self._host.read(partial(self._cards, snapshot, forest, waiting))
            asks = self._asks(forest, waiting, cards)
            answers = iter(
                await all_of(
                    [self._choose(query, cards, run) for *_, query, runs, cards in asks for run in runs]
                )
            )
            for tree, way, _, runs, _ in asks:
                chosen = [next(answers) for _ in runs]
                failed = next((one for one in chosen if isinstance(one, ModelError)), None)
                if failed is not None:
                    tree.failure, tree.fallback = failed, cut(str(failed), 300)
                else:
                    way.keep(merged([one for one in chosen if not isinstance(one, ModelError)]), ordered=True)

    def _cards(
        self,
        snapshot: Snapshot,
        forest: Forest,
        waiting: Sequence[tuple[_Tree, Descent, str]],
        tx: Tx,
        now: Snapshot,
    ) -> dict[int, TreeCard]:
        """Return the cards of the nodes of this level; none if the memory has changed, and its nodes may be others."""
        if now.generation != snapshot.generation:
            return {}
        scopes = {row: (tree.card.kind, tree.card.label) for tree, way, _ in waiting for row in way.below}
        return node_cards(tx, snapshot, self._index, forest, scopes)

    def _asks(
        self, forest: Forest, waiting: Sequence[tuple[_Tree, Descent, str]], found: Mapping[int, TreeCard]
    ) -> list[_Ask]:
        """Return the choices to ask for on this level, within the calls left."""
        asks: list[_Ask] = []
        for tree, way, query in waiting:
            cards = {row: card for row in way.below if (card := found.get(row)) is not None}
            if not cards:
                tree.fallback = "the memory has changed meanwhile"
                continue
            runs = split(list(cards))
            if not all(card.summary for card in cards.values()):
                tree.fallback = "a node on the way has no summary yet; resume() makes it"
            elif self._calls + len(runs) > self._request.browse_calls:
                tree.fallback = f"the limit of {self._request.browse_calls} browse calls is reached"
            else:
                self._calls += len(runs)
                tree.calls += len(runs)
                asks.append((tree, way, query, runs, cards))
        return asks

    async def _choose(
        self, query: str, cards: Mapping[int, TreeCard], run: Sequence[int]
    ) -> list[int] | ModelError:
        """Ask the browser about one run of children; return its choice, best first, or the error."""
        browser = self._host.steps.browser
        assert browser is not None
        children = [cards[row] for row in run]
        try:
            chosen = await browser.choose(
                query, reference=self._reference, children=children, most=self._settings.beam_width
            )
        except FALLS_BACK as exc:
            return exc
        known = (place for place in dict.fromkeys(chosen) if 0 <= place < len(run))
        return [run[place] for place in known][: self._settings.beam_width]

    async def _by_embedding(
        self, snapshot: Snapshot, forest: EmbeddedForest, trees: Sequence[_Tree]
    ) -> list[str]:
        """Finish every descent by embedding, from the root where no model was asked; return warnings."""
        left = [
            (way, query)
            for tree in trees
            for way, query in zip(tree.ways, tree.queries, strict=True)
            if way.below
        ]
        warnings = []
        try:
            vectors = await self._vectors(snapshot, {query for _, query in left})
        except ModelError as exc:  # the question has its vector already
            warnings.append(f"{cut(str(exc), 300)}: trees were browsed by the question itself")
            left = [(way, self._host.question) for way, _ in left]
            vectors = await self._vectors(snapshot, ())

        def finish() -> None:
            near = {
                query: nearness_to(snapshot, forest, *both, self._settings) for query, both in vectors.items()
            }
            for way, query in left:
                browse_by(way, near[query])

        await asyncio.to_thread(finish)
        return warnings

    async def _vectors(self, snapshot: Snapshot, queries: Iterable[str]) -> Mapping[str, tuple[Row, Row]]:
        """Return the vectors of sub-queries, with and without participants' names, from one call of the embedder."""
        request = self._request
        assert request.vector is not None
        own = (request.vector, request.vector if request.bare_vector is None else request.bare_vector)
        new = sorted(set(queries) - {self._host.question})
        if not new:
            return {self._host.question: own}
        bare = {query: without_names(query, snapshot.speakers) for query in new}
        texts = sorted({*new, *bare.values()})
        rows = dict(zip(texts, await self._host.embed_questions(texts), strict=True))
        return {self._host.question: own, **{query: (rows[query], rows[bare[query]]) for query in new}}


def _waiting(trees: Sequence[_Tree]) -> list[tuple[_Tree, Descent, str]]:
    """Descend where all children fit, and return the descents that wait for a choice, with their sub-queries."""
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


def _fallbacks(trees: Sequence[_Tree]) -> list[str]:
    """Return a warning for each kind of failure, with the number of trees that a model failed on."""
    failed: dict[type[ModelError], list[str]] = {}
    for tree in trees:
        if tree.failure is not None:
            failed.setdefault(type(tree.failure), []).append(cut(str(tree.failure), 300))
    return [
        f"{reasons[0]}: {len(reasons)} of {len(trees)} trees were browsed by embedding"
        for reasons in failed.values()
    ]


def node_cards(
    tx: Tx, snapshot: Snapshot, index: Index, forest: Forest, nodes: Mapping[int, tuple[str, str]]
) -> dict[int, TreeCard]:
    """Return the cards of nodes by row.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        index: whose trees they are of.
        forest: those.
        nodes: row -> kind and name of its tree.
    """
    texts = ready_rows(tx, snapshot, index, list(nodes))
    texts |= leaf_texts(tx, forest, [row for row in nodes if row not in texts and forest.kind[row] != INNER])
    return {
        row: TreeCard(
            *nodes[row],
            start=from_ms(int(forest.start_ms[row])),
            end=from_ms(int(forest.end_ms[row])),
            leaves=int(forest.counts[row]),
            summary=texts.get(row, ""),
        )
        for row in nodes
    }
