"""What indexes compute on arrays, against walks over turns, facts and trees one by one, on random small memories."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, planted, searching
from tests_long.small_worlds import AXES, FEW, World, chains, worlds

from memforest.search.context_scores import Base
from memforest.search.filters import (
    Allowed,
    allowed,
    best_facts,
    fact_places,
    filter_notes,
    first_turns,
    told_by,
    turn_places,
)
from memforest.search.scores import Scores
from memforest.trees.index import allowed_nodes, leaf_of_turn, turns_beneath
from memforest.trees.memforest_grow import FAMILIES, MemForestSettings
from memforest.trees.memforest_recall import (
    browse,
    fact_blocks,
    flow,
    leaf_similarity,
    nearness_to,
    recall,
    recall_trees,
    session_blocks,
    session_levels,
)

days = st.one_of(st.none(), st.integers(-1, 11))
windows = st.one_of(
    st.none(), st.tuples(st.integers(-1, 11), st.integers(1, 4)).map(lambda w: (w[0], w[0] + w[1]))
)


@FEW
@given(worlds)
def test_places_are_the_order_in_which_things_were_said(it: World) -> None:
    """Turns by time and then by row; facts by time, by first turn, and then by what they say."""
    rows = range(len(it.turns))
    order = sorted(rows, key=lambda row: (it.turns[row].day, row))
    place = {row: at for at, row in enumerate(order)}
    assert turn_places(it.snapshot).tolist() == [place[row] for row in rows]
    first = [min(fact.turns, key=place.__getitem__) for fact in it.facts]
    assert first_turns(it.snapshot).tolist() == first
    said = [it.turns[fact.turns[0]].day for fact in it.facts]
    told = sorted(range(len(said)), key=lambda row: (said[row], place[first[row]], row))
    assert np.argsort(fact_places(it.snapshot)).tolist() == told


@FEW
@given(worlds, st.integers(0, 99))
def test_the_best_allowed_fact_speaks_for_each_turn(it: World, seed: int) -> None:
    """The one with the highest mixture of the two scores; of equal ones the earlier said; -1 where none is allowed."""
    rng = np.random.default_rng(seed)
    dense, lexical = (rng.integers(0, 3, len(it.facts)).astype(float) for _ in range(2))
    keep = Allowed(np.ones(len(it.turns), dtype=np.bool_), rng.integers(0, 4, len(it.facts)) > 0)
    z = [(one - one.mean()) / (one.std() or 1) for one in (lexical, dense)]
    score, places = np.round(0.35 * z[0] + 0.65 * z[1], 12), fact_places(it.snapshot)
    speaks = best_facts(it.snapshot, keep, dense, lexical)
    for turn in range(len(it.turns)):
        own = [fact for fact in it.supports(turn) if keep.facts[fact]]
        best = min(own, key=lambda fact: (-score[fact], places[fact]), default=-1)
        assert speaks[turn] == best or (own and score[speaks[turn]] == score[best])
    nothing = Allowed(keep.turns, np.zeros(len(it.facts), dtype=np.bool_))
    assert set(best_facts(it.snapshot, nothing, dense, lexical)) == {-1}
    equal = best_facts(it.snapshot, keep, np.zeros(len(dense)), np.zeros(len(dense)))
    for turn in range(len(it.turns)):
        own = [fact for fact in it.supports(turn) if keep.facts[fact]]
        assert equal[turn] == min(own, key=lambda fact: places[fact], default=-1)


@FEW
@given(worlds)
def test_a_turn_tells_as_well_as_its_best_fact(it: World) -> None:
    """And keeps what it was given where it supports none; what was given is not written to."""
    scores = np.random.default_rng(len(it.turns)).normal(size=len(it.facts))
    otherwise = np.full(len(it.turns), -7.0)
    wanted = [
        max((scores[fact] for fact in it.supports(turn)), default=-7.0) for turn in range(len(it.turns))
    ]
    assert told_by(it.snapshot).best(scores, otherwise).tolist() == wanted
    assert set(otherwise) == {-7.0}


def was_so(it: World, row: int, as_of: int | None, during: tuple[int, int] | None) -> bool:
    """Return whether a fact passes the filters, in days."""
    fact = it.facts[row]
    start = it.turns[fact.turns[0]].day if fact.start is None else fact.start
    replaced = it.states.get(row, 10**6)
    # an event lasts for the instant at which it was said, or as long as it says
    last = replaced if row in it.states else (start + 1e-9 if fact.end is None else fact.end)
    then = as_of is None or start <= as_of < replaced
    return then and (during is None or (start < during[1] and during[0] < last))


def turn_passes(it: World, turn: int, as_of: int | None, during: tuple[int, int] | None) -> bool:
    """Return whether a turn passes: one of its facts does, or it has none and was said then."""
    day, facts = it.turns[turn].day, it.supports(turn)
    said = (as_of is None or day <= as_of) and (during is None or during[0] <= day < during[1])
    return any(was_so(it, fact, as_of, during) for fact in facts) if facts else said


def asked(as_of: int | None, during: tuple[int, int] | None) -> Any:
    """Return a request with filters given in days."""
    window = None if during is None else (during[0] * DAY, during[1] * DAY)
    return replace(searching(), as_of_ms=None if as_of is None else as_of * DAY, during_ms=window)


@FEW
@given(worlds, days, windows)
def test_filters_keep_what_was_so(it: World, as_of: int | None, during: tuple[int, int] | None) -> None:
    """Fact by fact and turn by turn; the notes count what passed."""
    keep = allowed(it.snapshot, asked(as_of, during))
    assert keep.facts.tolist() == [
        (as_of is None and during is None) or was_so(it, row, as_of, during) for row in range(len(it.facts))
    ]
    assert keep.turns.tolist() == [
        (as_of is None and during is None) or turn_passes(it, row, as_of, during)
        for row in range(len(it.turns))
    ]
    assert filter_notes(keep) == {
        "turns": len(it.turns), "turns_kept": sum(keep.turns), "facts": len(it.facts), "facts_kept": sum(keep.facts)
    }  # fmt: skip


@FEW
@given(worlds, days, windows)
def test_a_node_is_kept_for_all_of_its_leaves_at_an_instant_and_for_one_in_a_window(
    it: World, as_of: int | None, during: tuple[int, int] | None
) -> None:
    """A leaf of turns was so if all its turns pass and all that they tell does; it is in a window if one turn is."""

    def every(leaf: int) -> bool:
        if it.is_fact(leaf):
            return was_so(it, int(it.forest.item[leaf]), as_of, None)
        turns = it.said_at(leaf)
        told = {fact for turn in turns for fact in it.supports(turn)}
        return all(turn_passes(it, t, as_of, None) for t in turns) and all(
            was_so(it, f, as_of, None) for f in told
        )

    def some(leaf: int) -> bool:
        if it.is_fact(leaf):
            return was_so(it, int(it.forest.item[leaf]), as_of, during)
        return any(turn_passes(it, turn, as_of, during) for turn in it.said_at(leaf))

    kept = allowed_nodes(it.snapshot, it.forest, asked(as_of, during))
    for node in range(len(it.forest.ids)):
        leaves = it.leaves(node)
        then = as_of is None or all(every(leaf) for leaf in leaves)
        assert kept[node] == (then and (during is None or any(some(leaf) for leaf in leaves)))


@FEW
@given(worlds)
def test_beneath_a_node_are_the_turns_of_its_leaves(it: World) -> None:
    """Each once, in the order of sessions and positions; of a leaf its own."""
    for node in range(len(it.forest.ids)):
        wanted = sorted({turn for leaf in it.leaves(node) for turn in it.said_at(leaf)})
        assert turns_beneath(it.snapshot, it.forest, node).tolist() == wanted


@FEW
@given(worlds)
def test_every_turn_and_fact_has_the_nodes_above_it_on_every_level(it: World) -> None:
    """Of turns in their session's tree, of facts in their speaker's; -1 where there is none."""
    chunks = it.of_kind("session")
    leaf_of = {turn: leaf for leaf in chunks for turn in it.said_at(leaf)}
    turns = list(range(len(it.turns)))
    assert leaf_of_turn(it.forest).tolist() == [leaf_of[turn] for turn in turns]
    assert session_blocks(it.forest).tolist() == chains(it, [leaf_of[turn] for turn in turns])
    own = {
        int(it.forest.item[leaf]): leaf
        for leaf in it.of_kind("entity")
        if it.forest.tree_scope[it.forest.tree[leaf]] == it.facts[int(it.forest.item[leaf])].speaker
    }
    above = chains(it, list(own.values()))
    wanted = [
        [dict(zip(own, level, strict=True)).get(fact, -1) for fact in range(len(it.facts))] for level in above
    ]
    assert fact_blocks(it.forest).tolist() == (wanted if own else [])


@FEW
@given(worlds, st.integers(0, 99))
def test_a_node_hands_down_the_best_of_its_leaves(it: World, seed: int) -> None:
    """Each level's worth is standardised over all leaves, and the share is split evenly over the levels."""
    values = np.random.default_rng(seed).normal(size=len(it.turns))
    wanted = np.zeros(len(values))
    levels = session_blocks(it.forest)
    for nodes in levels:
        worth = np.array([values[nodes == node].max() for node in nodes])
        spread = worth.std()
        wanted += (worth - worth.mean()) / spread if spread > 1e-9 else 0.0
    assert flow(values, session_levels(it.forest), 0.7) == pytest.approx(wanted * 0.7 / len(levels), abs=1e-9)
    assert not flow(values, session_levels(it.forest), 0.0).any()


def base_of(it: World, seed: int) -> Base:
    """Return random cosines of turns and facts."""
    rng = np.random.default_rng(seed)
    turn, fact = rng.uniform(-1, 1, len(it.turns)), rng.uniform(-1, 1, len(it.facts))
    return Base(np.zeros(len(turn)), turn, turn, fact, np.zeros(len(fact)))


def near_summary(it: World, node: int, axis: int = 0) -> float:
    """Return how near the vector of a node's summary is to an axis."""
    return float(planted(it.snapshot).vectors.cosines(AXES[axis])[it.forest.told.tolist().index(node)])


def near_leaf(it: World, base: Base, leaf: int, *, by_facts: bool) -> float:
    """Return how near a leaf is: by its fact; by its summary, its best turn, or the best fact that its turns support."""
    if it.is_fact(leaf):
        return float(base.fact[it.forest.item[leaf]])
    if not by_facts and leaf in it.forest.summarised:
        return near_summary(it, leaf)
    if not by_facts:
        return float(max(base.turn[turn] for turn in it.said_at(leaf)))
    return float(max((base.fact[f] for turn in it.said_at(leaf) for f in it.supports(turn)), default=-1.0))


def near_root(it: World, base: Base, root: int) -> float:
    """Return how near a root is to the first axis: by its vector, in a scene by its facts, a lone leaf by itself."""
    if not it.children(root):
        return near_leaf(it, base, root, by_facts=False)
    if it.kind(root) == "scene":
        return float(np.mean([base.fact[it.forest.item[leaf]] for leaf in it.leaves(root)]))
    return near_summary(it, root)


@FEW
@given(worlds, st.integers(0, 99))
def test_a_leaf_is_as_near_as_what_it_stands_for(it: World, seed: int) -> None:
    """A fact by its cosine; turns by the best of them or of their facts; aligned, on the facts' scale; inner nodes 0."""
    base = base_of(it, seed)
    leaves = [row for row in range(len(it.forest.ids)) if not it.children(row)]
    chunks = [leaf for leaf in leaves if not it.is_fact(leaf)]
    for mode in ("mixed", "facts"):
        wanted: Scores = np.zeros(len(it.forest.ids))
        wanted[leaves] = [near_leaf(it, base, leaf, by_facts=mode == "facts") for leaf in leaves]
        assert leaf_similarity(
            it.snapshot, planted(it.snapshot), base, AXES[0], mode
        ).tolist() == pytest.approx(wanted)
    aligned = leaf_similarity(it.snapshot, planted(it.snapshot), base, AXES[0], "aligned")[chunks]
    plain = np.array([near_leaf(it, base, leaf, by_facts=False) for leaf in chunks])
    if base.fact.std() == 0:  # facts that are all as near have no scale, and turns keep theirs
        assert aligned.tolist() == pytest.approx(plain.tolist())
        return
    assert aligned.mean() == pytest.approx(base.fact.mean())
    if plain.std() > 1e-9 and base.fact.std() > 1e-9:
        assert aligned.std() == pytest.approx(base.fact.std())
        assert np.argsort(aligned).tolist() == np.argsort(plain).tolist()


@FEW
@given(
    worlds,
    st.integers(0, 99),
    st.integers(1, 5),
    st.integers(1, 5),
    st.permutations(FAMILIES),
    st.integers(1, 3),
)
def test_the_best_trees_are_recalled(
    it: World, seed: int, top: int, leaves: int, families: list[str], kinds: int
) -> None:
    """Root and best leaf together (paper Eq. 7), of the trees with the best roots or best leaves, of the kinds wanted.

    A scene of one fact is none of them.
    """
    base, wanted = base_of(it, seed), set(families[:kinds])
    roots = {
        tree: int(root)
        for tree, root in enumerate(it.forest.tree_root)
        if it.forest.tree_kind[tree] in wanted
    }
    near = {tree: near_root(it, base, root) for tree, root in roots.items()}
    best = {
        leaf: near_leaf(it, base, leaf, by_facts=False) for root in roots.values() for leaf in it.leaves(root)
    }
    pool = set(sorted(near, key=lambda tree: (-round(near[tree], 9), tree))[:top])
    by_leaf = sorted(best, key=lambda leaf: (-round(best[leaf], 9), leaf))[:leaves]
    pool |= {int(it.forest.tree[leaf]) for leaf in by_leaf}
    pool -= {tree for tree in pool if it.forest.tree_kind[tree] == "scene" and not it.children(roots[tree])}
    scores = {tree: near[tree] + max(best[leaf] for leaf in it.leaves(roots[tree])) for tree in pool}
    order = sorted(scores, key=lambda tree: (-round(scores[tree], 9), tree))[:top]
    among: Any = tuple(wanted)
    chosen = MemForestSettings(recall_trees=top, facts_to_trees=leaves, families=among, leaves="mixed")
    found, _ = recall_trees(it.snapshot, planted(it.snapshot), base, AXES[0], chosen)
    assert [tree for tree, _ in found] == order
    assert [score for _, score in found] == pytest.approx([scores[tree] for tree in order])
    reached = recall(it.snapshot, planted(it.snapshot), base, AXES[0], replace(chosen, beam_width=99))
    assert reached.trees == found
    assert set(reached.leaves) == {leaf for tree in order for leaf in it.leaves(roots[tree])}


@FEW
@given(worlds, st.integers(0, 99), st.integers(1, 4))
def test_browse_keeps_the_nearest_of_each_level(it: World, seed: int, beam: int) -> None:
    """As many as the beam has places, by themselves and not by the way to them; a leaf is worth the mean of its path."""
    near = np.random.default_rng(seed).integers(0, 4, len(it.forest.ids)).astype(float)

    def levels(root: int) -> Iterator[list[int]]:
        nodes = [root]
        while nodes:
            yield nodes
            below = sorted(child for node in nodes for child in it.children(node))
            nodes = sorted(below, key=lambda node: (-near[node], node))[:beam]

    for root in it.forest.tree_root.tolist():
        wanted = {
            leaf: float(np.mean([near[node] for node in (leaf, *it.above(leaf))]))
            for nodes in levels(root)
            for leaf in nodes
            if not it.children(leaf)
        }
        assert browse(it.forest, lambda nodes: near[list(nodes)].tolist(), root, beam) == pytest.approx(
            wanted
        )


@FEW
@given(worlds, st.sampled_from(["mixed", "facts"]), st.integers(0, 2), st.integers(0, 2))
def test_a_model_s_browse_compares_nodes_as_recall_does(it: World, leaves: Any, axis: int, bare: int) -> None:
    """Turns and summaries with the sub-query, facts and scenes with that without names."""
    turn, fact = (
        np.array([float(one.axis == at) for one in said]) for said, at in ((it.turns, axis), (it.facts, bare))
    )
    base = Base(turn * 0, turn, turn, fact, fact * 0)
    chosen = MemForestSettings(leaves=leaves)
    near = nearness_to(it.snapshot, planted(it.snapshot), AXES[axis], AXES[bare], chosen)
    nodes = list(range(len(it.forest.ids)))
    for node, value in zip(nodes, near(nodes), strict=True):
        if node in it.forest.summarised:
            assert value == pytest.approx(near_summary(it, node, axis))
        elif not it.children(node):
            assert value == pytest.approx(near_leaf(it, base, node, by_facts=leaves == "facts"))
        elif it.kind(node) == "scene":
            assert value == pytest.approx(
                np.mean([base.fact[it.forest.item[leaf]] for leaf in it.leaves(node)])
            )
        else:
            assert value == pytest.approx(near_summary(it, node, axis))
