"""Forest recall, browse and score flow: from trees to leaves (paper §4.3).

Recall ranks trees by two signals (Eq. 7): how near the root is to the question, and the best match among
the leaves that the tree holds. Browse descends the recalled trees level by level, keeping the best nodes of
each tree, and ends at leaves, which are scored like any other candidate.

The score of a turn is the base relevance of every index (`memforest.search.context_scores`), and a flow down the
trees. An inner node is as relevant as the best leaf below it. It hands that down, level by level, in session trees and
in participants' trees. What each part adds: docs/research/ranking.md and `memforest eval`.

`of_leaves` and `of_roots` give evidence in the paper's own form (Tables 6 and 7): only what browse reached, or the
recalled trees' roots. Nothing else counts there: no words, no leaf order, no time order, no flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.search.context_scores import Base, LeafScores, as_said, nearness, said_within
from memforest.search.filters import (
    Allowed,
    IndexResult,
    NodeHit,
    Search,
    TurnHit,
    TurnSupports,
    allowed,
    fact_places,
    filter_notes,
    first_turns,
    told_by,
    turn_places,
)
from memforest.search.forest import CHUNK, FACT, INNER, EmbeddedForest, Forest, once_per_forest
from memforest.search.scores import (
    Levels,
    Scores,
    group_place,
    leading,
    order,
    standardise,
)
from memforest.search.snapshot import Snapshot, ranges
from memforest.trees.memforest_grow import DEFAULTS, Leaves, MemForestSettings

Ints = NDArray[np.int64]


def session_blocks(forest: Forest) -> Ints:
    """Shape (levels, n): for each turn the nodes above it in its session's tree, from level 1 up, or -1.

    A tree that has reached its root repeats it, so that every turn has a node on every level.
    """
    leaves = np.flatnonzero(forest.kind == CHUNK)
    chains = _levels(forest, leaves)
    first, end = forest.item[leaves], forest.item_end[leaves]
    blocks = np.full((len(chains), len(forest.turns.ids)), -1, dtype=np.int64)
    turns = ranges(first, end)
    for level, nodes in enumerate(chains):
        blocks[level, turns] = np.repeat(nodes, end - first)
    return blocks


def fact_blocks(forest: Forest) -> Ints:
    """Shape (levels, m): for each fact the nodes above it in the tree of whoever said it, or -1."""
    leaves = np.flatnonzero(forest.kind == FACT)
    tree = forest.tree[leaves]
    said_by = forest.facts.speaker[forest.item[leaves]]
    own = leaves[forest.of_kind("entity")[tree] & (forest.tree_scope[tree] == said_by)]
    chains = _levels(forest, own)
    blocks = np.full((len(chains), len(forest.facts.ids)), -1, dtype=np.int64)
    for level, nodes in enumerate(chains):
        blocks[level, forest.item[own]] = nodes
    return blocks


def _levels(forest: Forest, leaves: Ints) -> list[Ints]:
    """Return the nodes above leaves, level by level, until every tree has reached its root."""
    chains, nodes = [], leaves
    while len(nodes):
        above = forest.parent[nodes]
        if (above < 0).all():
            break
        nodes = np.where(above < 0, nodes, above)
        chains.append(nodes)
    return chains or ([leaves] if len(leaves) else [])


@once_per_forest
def session_levels(forest: Forest) -> Levels:
    """Return the turns, grouped by the nodes above them in their sessions' trees."""
    return Levels.of(session_blocks(forest))


@once_per_forest
def speaker_levels(forest: Forest, told: TurnSupports) -> Levels:
    """Return the (fact, turn) supports, grouped by the nodes above the fact in its speaker's tree."""
    return Levels.of(fact_blocks(forest)[:, told.facts])


@dataclass(frozen=True, slots=True)
class Recalled:
    """The recalled trees with their scores, and the leaves that browse reached with theirs."""

    trees: tuple[tuple[int, float], ...]
    """(tree index, score), best first."""
    leaves: dict[int, float]
    """Forest row of a leaf -> mean similarity of the nodes on its path."""


def leaf_similarity(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32],
    leaves: Leaves = DEFAULTS.leaves,
) -> Scores:
    """Return the similarity of every node to the question: leaves by their item, inner nodes 0; shape (N,).

    `leaves` says how chunks are compared with facts; see `MemForestSettings.leaves`. If not by facts, a chunk that has a
    summary is compared by that.
    """
    forest = found.forest
    out = np.zeros(len(forest))
    facts, chunks = np.flatnonzero(forest.kind == FACT), np.flatnonzero(forest.kind == CHUNK)
    out[facts] = base.fact[forest.item[facts]]
    if not len(chunks):
        return out
    of_turns = base.turn
    if leaves == "facts":
        of_turns = told_by(snapshot).best(base.fact, np.full(len(base.turn), -1.0))
    first, end = forest.item[chunks], forest.item_end[chunks]
    own = np.maximum.reduceat(of_turns[ranges(first, end)], np.cumsum(end - first) - (end - first))
    if leaves != "facts" and len(forest.summarised):
        told = np.isin(chunks, forest.summarised)
        own[told] = found.cosines_at(chunks[told], vector)
    if leaves == "aligned" and len(base.fact) and (deviation := base.fact.std()):
        own = standardise(own) * deviation + base.fact.mean()
    out[chunks] = own
    return out


Near = Callable[[Sequence[int]], list[float]]
"""Returns how near some nodes are to a question."""


def nearness_by(
    found: EmbeddedForest, similarity: Scores, vector: NDArray[np.float32], settings: MemForestSettings
) -> Near:
    """Return what compares a question with those summaries that browse comes to, and with no others.

    Args:
        found: the trees with their vectors.
        similarity: of every leaf to the question, which nodes without a summary of their own have; it is filled in.
        vector: of the question.
        settings: `scene_vectors` counts: the inner nodes of scenes are as near as the facts below them on average, or as
            their summary.
    """
    forest = found.forest
    by_vector = np.isin(np.arange(len(forest)), forest.told)
    if settings.scene_vectors == "facts":
        scenes = forest.of_kind("scene")[forest.tree]
        by_vector &= ~scenes
        similarity[scenes] = forest.ascent.means(similarity)[scenes]

    def near(nodes: Sequence[int]) -> list[float]:
        rows = np.array(nodes, dtype=np.int64)
        compared = rows[by_vector[rows]]
        similarity[compared] = found.cosines_at(compared, vector)
        return [float(value) for value in similarity[rows]]

    return near


def nearness_to(
    snapshot: Snapshot,
    found: EmbeddedForest,
    vector: NDArray[np.float32],
    bare: NDArray[np.float32],
    settings: MemForestSettings = DEFAULTS,
) -> Near:
    """Return what measures how near nodes, by forest row, are to a sub-query, as `recall` does to a question.

    Args:
        snapshot: of the memory.
        found: the trees with their vectors.
        vector: of the sub-query, unit length.
        bare: of the sub-query without participants' names.
        settings: `scene_vectors` and `leaves` count; of these "aligned" changes nothing inside of a tree.
    """
    turn, fact = snapshot.turns.vectors.cosines(vector), snapshot.facts.vectors.cosines(bare)
    base = Base(lexical=turn, turn=turn, turn_bare=turn, fact=fact, fact_lexical=fact)
    leaves: Leaves = "facts" if settings.leaves == "facts" else "mixed"
    similarity = leaf_similarity(snapshot, found, base, vector, leaves)
    return nearness_by(found, similarity, vector, settings)


def recall(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32] | None,
    settings: MemForestSettings = DEFAULTS,
) -> Recalled:
    """Return the best trees for a question and the leaves that browsing them reaches.

    Without an embedder there is nothing to recall by, and the result is empty.
    """
    chosen, near = recall_trees(snapshot, found, base, vector, settings)
    leaves: dict[int, float] = {}
    for tree, _ in chosen:
        leaves.update(browse(found.forest, near, int(found.forest.tree_root[tree]), settings.beam_width))
    return Recalled(chosen, leaves)


def recall_trees(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32] | None,
    settings: MemForestSettings = DEFAULTS,
) -> tuple[tuple[tuple[int, float], ...], Near]:
    """Return the best trees with their scores, and what compares nodes with the question.

    Source: paper §4.3, Eq. 7; `score(q, T)` is the sum of both similarities.
    """
    forest, roots = found.forest, found.forest.tree_root
    if vector is None or not len(roots):
        return (), lambda nodes: [0.0] * len(nodes)
    similarity = leaf_similarity(snapshot, found, base, vector, settings.leaves)
    rows = np.flatnonzero(forest.kind != INNER)
    of_leaves, tree_of = similarity[rows], forest.tree[rows]
    best_leaf = np.full(len(roots), -1.0)
    np.maximum.at(best_leaf, tree_of, of_leaves)
    near = nearness_by(found, similarity, vector, settings)
    root_sim = np.array(near(roots.tolist()))
    wanted = np.array([kind in settings.families for kind in forest.tree_kind], dtype=np.bool_)
    top = settings.recall_trees
    by_root = leading(np.where(wanted, root_sim, -np.inf), np.arange(len(roots)), top)
    near_leaves = leading(np.where(wanted[tree_of], of_leaves, -np.inf), rows, settings.facts_to_trees)
    pool = np.unique(np.r_[by_root, tree_of[near_leaves]])
    # A scene of a single fact has nothing to descend, and says what the fact says.
    lone = forest.of_kind("scene") & (forest.kind[roots] != INNER)
    pool = pool[wanted[pool] & ~lone[pool]]
    scores = root_sim[pool] + best_leaf[pool]
    return tuple((int(pool[i]), float(scores[i])) for i in order(scores, pool)[:top]), near


def browse(
    forest: Forest,
    nearness: Near,
    root: int,
    beam: int = DEFAULTS.beam_width,
) -> dict[int, float]:
    """Descend one tree and return the leaves reached with the mean similarity along their paths.

    Args:
        forest: the trees.
        nearness: returns the similarity of nodes to the question; asked level by level.
        root: where to begin.
        beam: nodes kept per level.
    """
    children = forest.children
    frontier = [(root, nearness([root])[0], 1)]
    reached: dict[int, float] = {}
    while frontier:
        for node, total, length in frontier:
            if not children[node]:
                reached[node] = total / length
        below = [(child, total, length) for node, total, length in frontier for child in children[node]]
        near = nearness([child for child, _, _ in below]) if below else []
        # of equally near ones the earlier
        ranked = sorted(zip(below, near, strict=True), key=lambda step: (-step[1], step[0][0]))
        frontier = [(child, total + own, length + 1) for (child, total, length), own in ranked[:beam]]
    return reached


def flow(values: Scores, levels: Levels, share: float) -> Scores:
    """Return the relevance that leaves receive from their ancestors: a node is as relevant as its best leaf.

    Args:
        values: relevance of the leaves, shape (n,).
        levels: the nodes above the leaves.
        share: weight of the whole family of trees, split evenly over the levels.
    """
    if share == 0 or not len(values):
        return np.zeros(len(values))
    return levels.flow(values) * (share / max(len(levels.groups), 1))


def score_leaves(snapshot: Snapshot, forest: Forest, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn: what was said, and the flow down session trees and participants' trees.

    Facts stand between turns and the speakers' trees.
    """
    scores = as_said(snapshot, request, base)
    weights, h = request.ranking, scores.total
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    if share:
        scores.add("session_tree", flow(h, session_levels(forest), share))
    told = told_by(snapshot)
    if weights.participant_tree and len(told.turns) and (levels := speaker_levels(forest, told)).groups:
        out = np.zeros(len(h))
        out[told.turns] = told.groups.best(flow(h[told.turn_of], levels, weights.participant_tree))
        scores.add("participant_tree", out)
    return scores


def of_leaves(
    snapshot: Snapshot,
    trees: EmbeddedForest,
    request: Search,
    base: Base,
    recalled: Recalled,
    settings: MemForestSettings,
) -> IndexResult:
    """Return the turns and facts of the leaves that browse reached, best first.

    A leaf of a session tree stands for its turns; where all leaves are compared by facts, for the facts that its turns
    support, or for the turns if there are none.

    Args:
        snapshot: of the memory.
        trees: the index's.
        request: the question, with a vector; of its filters all count, of its weights none.
        base: the raw relevance of turns and facts.
        recalled: the leaves, by forest row.
        settings: `leaves` and `reached_by` count.
    """
    assert request.vector is not None  # else nothing was reached
    forest, keep = trees.forest, allowed(snapshot, request)
    near = leaf_similarity(snapshot, trees, base, request.vector, settings.leaves)
    found: dict[tuple[int, int], TurnHit] = {}
    for leaf, path in recalled.leaves.items():
        for turn, fact in _stands_for(snapshot, forest, keep, leaf, resolve=settings.leaves == "facts"):
            score = float(base.fact[fact] if fact >= 0 else near[leaf])
            if settings.reached_by == "path":
                score = path
            have = found.get((turn, fact))
            if have is None or score > have.score:
                scores: dict[str, float] = {settings.reached_by: score}
                found[turn, fact] = TurnHit(turn, fact, score, scores, leaf, browsed=path)
    notes = {"filters": filter_notes(keep), "reached": len(recalled.leaves)}
    return IndexResult(_best_first(snapshot, base, found), recalled.trees, notes, forest=forest)


def of_roots(
    snapshot: Snapshot, forest: Forest, request: Search, base: Base, trees: tuple[tuple[int, float], ...]
) -> IndexResult:
    """Return the roots of recalled trees as evidence, by the score of their recall.

    A root that is a leaf has no summary; it is what it stands for.

    Args:
        snapshot: of the memory.
        forest: the index's.
        request: the question.
        base: the raw relevance of turns and facts.
        trees: as (tree row, score), best first.
    """
    keep = allowed(snapshot, request)
    nodes: list[NodeHit] = []
    found: dict[tuple[int, int], TurnHit] = {}
    for tree, score in trees:
        root, scores = int(forest.tree_root[tree]), {"recall": score}
        if forest.kind[root] == INNER:
            nodes.append(NodeHit(root, score, scores))
            continue
        for turn, fact in _stands_for(snapshot, forest, keep, root, resolve=False):
            found.setdefault((turn, fact), TurnHit(turn, fact, score, scores, root))
    notes = {"filters": filter_notes(keep)}
    return IndexResult(_best_first(snapshot, base, found), trees, notes, nodes, forest=forest)


def _stands_for(
    snapshot: Snapshot, forest: Forest, keep: Allowed, leaf: int, *, resolve: bool
) -> Iterator[tuple[int, int]]:
    """Yield the turns and facts that a leaf stands for and that pass the filters, as (turn, fact or -1).

    A fact comes with the turn that said it first. `resolve` puts facts in the place of the turns that support them.
    """
    first = first_turns(snapshot)
    item = int(forest.item[leaf])
    if forest.kind[leaf] == FACT:
        facts, turns = [item], range(0)
    else:
        turns = range(item, int(forest.item_end[leaf]))
        pairs = snapshot.facts.pairs
        within = (pairs[:, 1] >= turns.start) & (pairs[:, 1] < turns.stop)
        facts = sorted(set(pairs[within, 0].tolist())) if resolve else []
    yield from ((int(first[fact]), fact) for fact in facts if keep.facts[fact])
    if not facts:
        yield from ((turn, -1) for turn in turns if keep.turns[turn])


def _best_first(snapshot: Snapshot, base: Base, found: dict[tuple[int, int], TurnHit]) -> list[TurnHit]:
    """Return hits by score; those of one leaf by how near they are themselves, equal ones by when they were said."""
    turns, facts = turn_places(snapshot), fact_places(snapshot)

    def key(hit: TurnHit) -> tuple[float, float, int, int]:
        own = base.turn[hit.turn] if hit.fact < 0 else base.fact[hit.fact]
        place = -1 if hit.fact < 0 else int(facts[hit.fact])
        return -round(hit.score, 9), -round(float(own), 9), int(turns[hit.turn]), place

    return sorted(found.values(), key=key)


def asked_for(snapshot: Snapshot, request: Search, keep: Allowed) -> tuple[Ints, str]:
    """Return the turns of the time that a question of the kind ``sessions`` or ``events`` asks for, and why; else none.

    Such a question ("What did we talk about last week?") shares no words with its answer, so similarity has no say.
    Sessions take turns: of each its most telling turn comes first, then of each its second, in time order.
    """
    plan = request.plan
    dated = plan.start is not None or plan.end is not None
    if plan.kind == "events" and dated:
        rows, why = np.flatnonzero(keep.turns & (nearness(snapshot, plan) == 1.0)), "of the time asked about"
    elif plan.kind == "sessions" and (dated or plan.operator is not None):
        rows, why = _of_sessions(snapshot, request, keep)
    else:
        return np.zeros(0, dtype=np.int64), ""
    return (_most_telling(snapshot, request, rows) if len(rows) else rows), why


def _of_sessions(snapshot: Snapshot, request: Search, keep: Allowed) -> tuple[Ints, str]:
    """Return the turns said in the window; only those of its first or last session if the question asks for that one."""
    plan, turns = request.plan, snapshot.turns
    inside = keep.turns & said_within(snapshot, plan) & (turns.said_ms <= request.reference_ms)
    named = inside.copy()
    for number, name in enumerate(snapshot.speakers):
        if name in plan.entities:  # everybody who is named speaks in the session, if there is such a one
            named &= np.isin(turns.session, turns.session[inside & (turns.speaker == number)])
    rows = np.flatnonzero(named if named.any() else inside)
    if plan.operator is None or not len(rows):
        return rows, "said in the time asked about"
    first = plan.operator.kind == "first"
    said = turns.said_ms[rows]
    end = rows[np.argmin(said) if first else len(said) - 1 - np.argmax(said[::-1])]
    return rows[turns.session[rows] == turns.session[end]], f"said in the {plan.operator.kind} session"


def _most_telling(snapshot: Snapshot, request: Search, rows: Ints) -> Ints:
    """Return turns by their place in their session, the most telling first, and then in time order.

    Telling are long turns, those that support a fact, those of the participant who is named, and no questions.
    """
    turns = snapshot.turns
    facts = np.zeros(len(turns.ids), dtype=np.bool_)
    facts[told_by(snapshot).turns] = True
    named = [i for i, name in enumerate(snapshot.speakers) if name in request.plan.entities]
    telling = (
        standardise(np.log1p(turns.length[rows].astype(np.float64))) + facts[rows] - turns.asks_last[rows]
    )
    if len(named) == 1:
        telling = telling + 2.0 * (turns.speaker[rows] == named[0])
    ranked = rows[np.argsort(-telling, kind="stable")]
    place = group_place(ranked, turns.session)
    return ranked[np.lexsort((ranked, turns.said_ms[ranked], place))]
