"""Segment trees in the file: as in memory, also where a leaf is gone before its tree knows."""

from __future__ import annotations

from contextlib import closing
from random import Random

from tests.table import each
from tests_long.segments import leaf_at, shape
from tests_long.stored import empty_memory, put_fact

from memforest.nodes import Arena, DictArena, TreeHead
from memforest.store import facts, trees
from memforest.store.trees import SqliteArena
from memforest.trees import segment
from memforest.trees.node import Contract, check
from memforest.trees.segment import NewLeaf


def step(random: Random, arena: Arena, head: TreeHead, leaf: NewLeaf) -> TreeHead:
    """Change a tree at random."""
    which, at = random.random(), random.randint(1, head.count or 1)
    if head.count < 2 or which < 0.6:
        level = random.randint(0, head.height) or None
        return segment.insert(arena, head, leaf, level).head
    if which < 0.7:
        return segment.beside(arena, head, at, leaf).head
    if which < 0.8:
        node = random.choice(segment.frontier(arena, head)[1:])
        return head if len(node.children) < 4 else segment.cut(arena, head, node.id, 2)
    return segment.remove(arena, head, at) if which < 0.9 else segment.truncate(arena, head, at)


@each("seed", range(12))
def test_a_segment_tree_in_the_file_lives_as_one_in_memory(seed: int) -> None:
    """Whatever comes and goes, and however often all is written and read anew in between."""
    with closing(empty_memory()) as tx:
        rows = facts.facts_with_ids(tx, [put_fact(tx, f"f{at}", said_ms=10 * at) for at in range(40)])
        stored = trees.put_head(tx, "ix", "conversation", 0, TreeHead(0, 0))
        arena, plain, head = SqliteArena(tx), DictArena(), stored
        for at, fact in enumerate(rows.values()):
            leaf = NewLeaf(fact.leaf_key, *fact.leaf_span, "fact", fact.row)
            stored = step(Random(100 * seed + at), arena, stored, leaf)
            head = step(Random(100 * seed + at), plain, head, leaf)
            if at % 3 == 0:
                arena.flush()
                arena = SqliteArena(tx)
            assert shape(arena, stored) == shape(plain, head)
        arena.flush()
        assert check(SqliteArena(tx), stored, Contract("partition", unary=False)) == []
        trees.put_head(tx, "ix", "conversation", 0, stored)
        assert trees.sizes(tx)["ix"][1:] == (len(plain.nodes) - stored.count, stored.count)


@each("back", [False, True])
def test_leaves_that_are_gone_leave_the_tree_by_their_ordinals(back: bool) -> None:
    """Any number of them, in any order, one gone beside another; nothing of them is asked but where they were."""
    for seed in range(80):
        random = Random(seed)
        arena, head = DictArena(), TreeHead(1, 0)
        for at in range(1, random.randint(2, 25)):
            level = random.randint(0, head.height) or None
            leaf = NewLeaf((at, ""), at, at + 1, "turn", at)
            head = segment.insert(arena, head, leaf, level).head
        of = head.count
        gone = random.sample(range(1, head.count + 1), random.randint(1, head.count))
        for at in gone:
            arena.drop(leaf_at(arena, head, at).id)
        if back:
            head = segment.truncate(arena, head, min(gone) - 1)
        else:
            for at in sorted(gone, reverse=seed % 2 == 0):
                before = sum(one < at for one in gone) if seed % 2 else 0
                head = segment.remove(arena, head, at - before)
        assert check(arena, head, Contract("partition", unary=False)) == []
        assert head.count == (min(gone) - 1 if back else of - len(gone))
        assert len([node for node in arena.nodes.values() if not node.level]) == head.count
