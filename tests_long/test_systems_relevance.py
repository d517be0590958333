"""Relevance of the nodes of a forest, and what propagation makes of it, against walks over nodes one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import OFF, Said, Tree, hand_made, planted, searching
from tests_long.small_worlds import AXES, FEW, World, worlds

from memforest.config import Propagate, Ranking
from memforest.ranking import DIRECTIONS, Scores, along_links, standardise
from memforest.systems import relevance
from memforest.systems.legs import LeafScores, base_scores, fused
from memforest.systems.memforest.rank import score_leaves
from memforest.systems.relevance import (
    best_turns,
    cosine_relevance,
    forest_links,
    fused_relevance,
    leaf_spans,
    node_scores,
    turn_scores,
)
from memforest.types import QuestionPlan

seeds = st.integers(0, 99)


def rows(it: World) -> range:
    """Return the rows of all nodes."""
    return range(len(it.forest.ids))


def of_turns(it: World, seed: int) -> Scores:
    """Return a standardised score of every turn."""
    return standardise(np.random.default_rng(seed).normal(size=len(it.turns)))


def along(it: World, axis: int) -> Scores:
    """Return the paper's relevance to a question along an axis: the coordinate of each node's vector, none below 0 here."""
    turns, facts = it.snapshot.turns.vectors, it.snapshot.facts.vectors
    return cosine_relevance(
        planted(it.snapshot), AXES[axis], turns.cosines(AXES[axis]), facts.cosines(AXES[axis])
    )


# -- how relevant a node is by itself --------------------------------------------------------------


@FEW
@given(worlds)
def test_a_node_is_as_relevant_as_its_vector_is_near(it: World) -> None:
    """An inner node by its summary's, a fact by its own, a run of turns by the mean of theirs; without one, nothing."""
    found, vectors = planted(it.snapshot), it.snapshot.turns.vectors.rows
    for node, value in enumerate(along(it, 0)):
        if it.children(node):
            mean = found.vectors.rows[it.forest.embedded.tolist().index(node)]
        elif it.is_fact(node):
            mean = it.snapshot.facts.vectors.rows[it.forest.item[node]]
        else:
            mean = vectors[it.said_at(node)].mean(axis=0)
        length = float(np.linalg.norm(mean))
        assert value == pytest.approx(max(0.0, float(mean[0]) / length) if length else 0.0, abs=1e-6)


@FEW
@given(worlds)
def test_lengths_of_leaves_do_not_depend_on_the_blocks_they_are_summed_in(it: World) -> None:
    """To the last bit, whether turn by turn or all together."""
    whole = relevance._lengths(it.forest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relevance, "_BLOCK", 1)
        assert relevance._lengths.__wrapped__(it.forest).tolist() == whole.tolist()  # type: ignore[attr-defined]


@FEW
@given(worlds, seeds)
def test_fused_relevance_is_that_of_turns_and_their_means(it: World, seed: int) -> None:
    """A leaf has its best turn's, a node the mean of its leaves', and what is below the average counts as nothing."""
    turn = of_turns(it, seed)
    leaf = {
        node: max(0.0, max(turn[one] for one in it.said_at(node)))
        for node in rows(it)
        if not it.children(node)
    }
    wanted = [float(np.mean([leaf[below] for below in it.leaves(node)])) for node in rows(it)]
    assert fused_relevance(it.forest, turn).tolist() == pytest.approx(wanted)
    facts = [max(turn[one] for one in fact.turns) for fact in it.facts]
    assert best_turns(it.forest, turn).tolist() == facts


@FEW
@given(worlds, seeds)
def test_a_turn_gets_its_best_leaf(it: World, seed: int) -> None:
    """Of all that it stands in, and of the facts it supports; without a leaf, nothing."""
    nodes = np.random.default_rng(seed).uniform(size=len(it.forest.ids))
    own = {turn: [0.0] for turn in range(len(it.turns))}
    for node in rows(it):
        for turn in [] if it.children(node) else it.said_at(node):
            own[turn].append(nodes[node])
    assert turn_scores(it.snapshot, it.forest, nodes).tolist() == [max(one) for one in own.values()]


# -- scores of nodes -------------------------------------------------------------------------------


def test_every_policy_has_a_direction() -> None:
    """The names of the settings are those that the operator's directions are looked up by."""
    assert set(DIRECTIONS) == set(get_args(Propagate))


@FEW
@given(
    worlds,
    seeds,
    st.sampled_from(get_args(Propagate)),
    st.sampled_from([0.0, 0.1, 0.95]),
    st.integers(0, 3),
    st.sampled_from(["leak", "stay"]),
)
def test_scores_are_relevance_that_moved(
    it: World, seed: int, policy: Propagate, alpha: float, horizon: int, sink: Any
) -> None:
    """Eq. 3 and 4 by a matrix of all nodes, times the sum of the relevance; the parts sum to it, and none is below 0."""
    given_ = np.random.default_rng(seed).uniform(-1, 1, len(it.forest.ids))
    positive, matrix = np.maximum(given_, 0.0), np.zeros((len(given_), len(given_)))
    for node in rows(it):
        for child in it.children(node):
            if policy == "top-down":
                matrix[child, node] = 1 / len(it.children(node))
            elif policy == "bottom-up":
                matrix[node, child] = 1
    if sink == "stay":
        matrix += np.diag(matrix.sum(axis=0) == 0)
    ranking = Ranking(propagate=policy, alpha=alpha, horizon=horizon, sink=sink)
    found = node_scores(it.forest, given_, ranking, scorer="cosine")
    reach = range(horizon + 1 if policy != "none" else 1)
    steps = [alpha**k * np.linalg.matrix_power(matrix, k) @ positive for k in reach]
    wanted = sum(steps) / sum(alpha**k for k in reach)
    assert found.total == pytest.approx(wanted, abs=1e-9)
    assert sum(found.parts.values()) == pytest.approx(found.total)
    assert found.parts["relevance"] == pytest.approx(steps[0] / sum(alpha**k for k in reach))
    assert min(part.min() for part in found.parts.values()) > -1e-9
    assert found.trace == {
        "scorer": "cosine", "policy": policy, "alpha": alpha, "horizon": horizon, "sink": sink
    }  # fmt: skip


@FEW
@given(worlds, seeds, st.sampled_from([{"propagate": "none"}, {"alpha": 0.0}, {"horizon": 0}]))
def test_a_collapsed_tree_ranks_nodes_by_themselves(it: World, seed: int, how: dict[str, Any]) -> None:
    """Without a policy, a decay or an edge nothing is propagated, whichever of them is missing."""
    given_ = np.random.default_rng(seed).uniform(0, 1, len(it.forest.ids))
    found = node_scores(it.forest, given_, Ranking(**how), scorer="cosine", own="top-down")
    assert found.total == pytest.approx(given_)
    assert not found.parts["propagated"].any()


def test_the_index_decides_where_the_ranking_says_nothing() -> None:
    """And is overruled where it does; the trace has what was done."""
    snapshot = hand_made(
        [Said("Ana", 1), Said("Ana", 2)], trees=[Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2)))]
    )
    forest, near = planted(snapshot).forest, np.array([1.0, 0.0, 0.0])
    leaf = node_scores(forest, near, Ranking(), scorer="fused", own="bottom-up")
    assert leaf.total[2] > 0
    assert leaf.trace["policy"] == "bottom-up"
    asked = node_scores(forest, near, Ranking(propagate="top-down"), scorer="fused", own="bottom-up")
    assert asked.total[2] == 0
    assert asked.trace["policy"] == "top-down"
    with pytest.raises(ValueError, match="finite"):
        node_scores(forest, near + np.inf, Ranking(), scorer="fused")


@FEW
@given(worlds)
def test_spans_are_the_leaves_from_left_to_right(it: World) -> None:
    """Each node has those below it, in the order of its children."""
    first, end = leaf_spans(it.forest)
    ordered = [leaf for root in it.forest.tree_root for leaf in it.leaves(int(root))]
    for node in rows(it):
        assert ordered[first[node] : end[node]] == it.leaves(node)


@FEW
@given(worlds, seeds)
def test_links_join_nodes_that_no_edge_does(it: World, seed: int) -> None:
    """By the vectors that relevance compares; scores go along them once more, and the parts still sum to the score."""
    some = np.flatnonzero(np.random.default_rng(seed).random(len(it.forest.ids)) < 0.7)
    found, own = planted(it.snapshot), np.random.default_rng(seed).uniform(size=len(it.forest.ids))
    links = forest_links(found, some, threshold=0.5, most=3)
    near = {axis: along(it, axis) for axis in range(len(AXES))}
    for row, col, weight in zip(
        links.rows.tolist(), links.cols.tolist(), links.weights.tolist(), strict=True
    ):
        assert {row, col} <= set(some.tolist())
        assert not set(it.leaves(row)) & set(it.leaves(col))
        assert weight == pytest.approx(sum(one[row] * one[col] for one in near.values()), abs=1e-5)
    plain = node_scores(it.forest, own, Ranking(alpha=0.4), scorer="cosine", own="bottom-up")
    linked = node_scores(it.forest, own, Ranking(alpha=0.4), scorer="cosine", own="bottom-up", links=links)
    assert linked.total == pytest.approx(along_links(plain.total, links, 0.4))
    assert sum(linked.parts.values()) == pytest.approx(linked.total)
    assert linked.trace == {**plain.trace, "links": len(links.rows)}


def test_a_memory_without_trees_has_no_nodes() -> None:
    """No node, no vector of a summary, and no leaf: nothing is scored, and nothing fails."""
    snapshot = hand_made([Said("Ana", 1)])
    found = planted(snapshot)
    assert cosine_relevance(found, AXES[0], np.ones(1), np.zeros(0)).shape == (0,)
    nodes = node_scores(found.forest, fused_relevance(found.forest, np.ones(1)), Ranking(), scorer="fused")
    assert nodes.total.shape == (0,)
    assert len(forest_links(found, np.zeros(0, dtype=np.int64)).rows) == 0
    assert turn_scores(snapshot, found.forest, nodes.total).tolist() == [0.0]


# -- the same on MemForest's trees -----------------------------------------------------------------


def scored(it: World, seed: int, plan: QuestionPlan | None = None, **weights: Any) -> LeafScores:
    """Score the turns by words, and by what else has a weight."""
    request = searching(plan, ranking=Ranking(**{**OFF, "lexical": 1.0, **weights}))
    base = base_scores(it.snapshot, request, of_turns(it, seed), np.zeros(len(it.facts)))
    return score_leaves(it.snapshot, it.forest, request, base)


@FEW
@given(worlds, seeds, st.sampled_from(["top-down", "bottom-up"]))
def test_turns_gain_by_their_best_leaf(it: World, seed: int, policy: Propagate) -> None:
    """Instead of the flow down session and participants' trees, and with the weight of both."""
    turn = scored(it, seed).total
    ranking = Ranking(propagate=policy)
    nodes = node_scores(it.forest, fused_relevance(it.forest, turn), ranking, scorer="fused")
    gained = standardise(turn_scores(it.snapshot, it.forest, nodes.total))
    found = scored(it, seed, propagate=policy, session_tree=0.4, participant_tree=0.2)
    assert found.total == pytest.approx(turn + 0.6 * gained)
    assert not {"session_tree", "participant_tree"} & set(found.parts)
    of_list = {"session_tree": 0.4, "session_tree_of_lists": 0.1, "participant_tree": 0.2}
    found = scored(it, seed, QuestionPlan(kind="list"), propagate=policy, **of_list)
    assert found.total == pytest.approx(turn + 0.3 * gained)


@FEW
@given(worlds, seeds)
def test_no_policy_leaves_the_flow_as_it_is(it: World, seed: int) -> None:
    """That is the index's own default, by whichever of its names, to the last bit."""
    weights: dict[str, Any] = {"session_tree": 0.4, "participant_tree": 0.2, "scene_tree": 0.1}
    plain = scored(it, seed, **weights)
    named = scored(it, seed, propagate="none", alpha=0.9, horizon=3, sink="stay", **weights)
    assert named.total.tolist() == plain.total.tolist()
    assert set(named.parts) == set(plain.parts)


@FEW
@given(worlds, seeds)
def test_legs_are_the_weighted_standardised_signals(it: World, seed: int) -> None:
    """Words, the turn itself and the best of it and its facts; what the embedder does not know goes to the words."""
    turns = replace(it.snapshot.turns, known=np.full(len(it.turns), 0.5, dtype=np.float32))
    snapshot = replace(it.snapshot, turns=turns)
    request = searching(ranking=Ranking(lexical=0.2, turn=0.3, fact=0.5))
    words = of_turns(it, seed)
    base = base_scores(snapshot, request, words, np.zeros(len(it.facts)))
    near = turns.vectors.cosines(AXES[0])
    told = snapshot.facts.vectors.cosines(AXES[0])
    best = [max([near[row], *(told[fact] for fact in it.supports(row))]) for row in range(len(near))]
    half = 1.0 - request.known * 0.5
    found = fused(snapshot, request, base)
    wanted = (0.2 + 0.8 * half) * standardise(words)
    wanted = wanted + (1 - half) * (0.3 * standardise(near) + 0.5 * standardise(np.array(best)))
    assert found.total == pytest.approx(wanted)
    assert sum(found.parts.values()) == pytest.approx(found.total)
