"""What of a ranking says the same twice, on random trees against one node after the other."""

from __future__ import annotations

from random import Random

import numpy as np
from tests.table import each
from tests_long.hand_made import Fact, Said, Tree, hand_made, planted

from memforest.search.forest import INNER, Forest
from memforest.trees.hmem_find import FIRST, leaf_of_fact, say_more, without_told
from memforest.trees.index import leaf_of_turn


def grown(seed: int, *, turns: bool = False) -> Forest:
    """Return two trees with leaves at equal depth, chains of one child among them."""
    random = Random(seed)
    items = [("turns", at, at + 1) if turns else ("fact", at) for at in range(14)]
    trees: list[Tree] = []
    for part in (items[:9], items[9:]):
        level: list[tuple[object, ...]] = list(part)
        for _ in range(3):
            above: list[tuple[object, ...]] = []
            at = 0
            while at < len(level):
                size = random.choice((1, 1, 2, 3))
                above.append(tuple(level[at : at + size]))
                at += size
            level = above
        trees.append(Tree("year", 2023 + len(trees), tuple(level)))
    said = [Said("Ana", day=at) for at in range(14)]
    return planted(hand_made(said, [] if turns else [Fact((at,)) for at in range(14)], trees)).forest


def below(forest: Forest, row: int) -> frozenset[int]:
    """Return the leaves below a node; of a leaf itself."""
    if forest.kind[row] != INNER:
        return frozenset([row])
    return frozenset().union(*(below(forest, child) for child in forest.children[row]))


@each("seed", range(12))
def test_a_node_says_more_with_events_that_no_node_below_it_has(seed: int) -> None:
    """One event, or the same events as the node below, is nothing of its own."""
    forest = grown(seed)
    wanted = [
        row
        for row in forest.inner.tolist()
        if len(below(forest, row)) > 1
        and all(below(forest, child) != below(forest, row) for child in forest.children[row])
    ]
    assert np.flatnonzero(say_more(forest)).tolist() == wanted
    # Every set of two events or more that a node has is still told by exactly one.
    sets = [below(forest, row) for row in wanted]
    assert len(sets) == len(set(sets))
    assert set(sets) == {below(forest, row) for row in forest.inner.tolist() if len(below(forest, row)) > 1}


@each("seed", range(12))
def test_a_memory_whose_events_are_all_there_is_dropped(seed: int) -> None:
    """Its events stand before it, or among the first pieces, whatever stands between; every other one is kept, in order."""
    forest, random = grown(seed), Random(seed)
    pieces = [(forest.kind[row] == INNER, row) for row in range(len(forest.ids))]
    random.shuffle(pieces)
    pieces.insert(random.randrange(len(pieces)), (False, -1))
    pieces = pieces[: random.randint(3, len(pieces))]
    told = {row for is_node, row in pieces[:FIRST] if not is_node}
    wanted = []
    for is_node, row in pieces:
        if not is_node:
            told.add(row)
        elif not below(forest, row) <= told:
            wanted.append(row)
    assert list(without_told(forest, pieces)) == wanted


def test_events_have_their_leaves() -> None:
    """By fact and by turn; what is in no leaf has none."""
    facts, turns = grown(0), grown(0, turns=True)
    assert (facts.item[leaf_of_fact(facts)] == np.arange(14)).all()
    assert (leaf_of_turn(facts) == -1).all()
    assert (turns.item[leaf_of_turn(turns)] == np.arange(14)).all()
    assert len(leaf_of_fact(turns)) == 0
