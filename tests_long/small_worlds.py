"""Random small memories put together by hand, which tests walk over one thing after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted, state

from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot

__all__ = ["AXES", "FEW", "World", "chains", "worlds"]

FEW = settings(max_examples=40)
AXES = np.eye(DIMENSION, dtype=np.float32)
PEOPLE = ("Ana", "Bob", "Cy")


@dataclass(frozen=True)
class World:
    """A memory, and what it was made of."""

    turns: list[Said]
    facts: list[Fact]
    states: dict[int, int]
    """Fact -> the day on which another value took its place."""
    snapshot: Snapshot
    forest: Forest

    def supports(self, turn: int) -> list[int]:
        """Return the facts that a turn supports."""
        return [row for row, fact in enumerate(self.facts) if turn in fact.turns]

    def children(self, node: int) -> list[int]:
        """Return the rows of a node's children."""
        return np.flatnonzero(self.forest.parent == node).tolist()

    def leaves(self, node: int) -> list[int]:
        """Return the rows of the leaves beneath a node."""
        below = self.children(node)
        return [leaf for child in below for leaf in self.leaves(child)] if below else [node]

    def said_at(self, leaf: int) -> list[int]:
        """Return the turns that a leaf stands for."""
        item = int(self.forest.item[leaf])
        return list(self.facts[item].turns if self.is_fact(leaf) else range(item, self.forest.item_end[leaf]))

    def is_fact(self, leaf: int) -> bool:
        """Return whether a leaf stands for a fact."""
        return bool(self.forest.kind[leaf] == 2)

    def above(self, leaf: int) -> list[int]:
        """Return the nodes above a leaf, the nearest first."""
        parent = int(self.forest.parent[leaf])
        return [] if parent < 0 else [parent, *self.above(parent)]

    def kind(self, node: int) -> str:
        """Return the kind of a node's tree."""
        return self.forest.tree_kind[int(self.forest.tree[node])]

    def of_kind(self, kind: str) -> list[int]:
        """Return the leaves of all trees of a kind, by row."""
        return [
            row for row in range(len(self.forest.ids)) if self.kind(row) == kind and not self.children(row)
        ]


def shaped(random: Random, leaves: Sequence[Any]) -> Any:
    """Return leaves as a random tree of nested tuples, all equally deep."""
    nodes = list(leaves)
    while len(nodes) > 1:
        width = random.randint(2, 4)
        nodes = [tuple(nodes[at : at + width]) for at in range(0, len(nodes), width)]
    return nodes[0]


@cache
def world(seed: int) -> World:
    """Return a random memory: equal times, short trees and long ones, turns without facts, facts of several turns."""
    random = Random(seed)
    turns: list[Said] = []
    trees: list[Tree] = []
    for session in range(1, random.randint(2, 4)):
        first, day = len(turns), random.randint(0, 4)
        for _ in range(random.randint(1, 6)):
            day += random.randint(0, 1)
            asks = random.random() < 0.3
            axis, words = random.randint(-1, 2), random.randint(1, 9)
            turns.append(
                Said(random.choice(PEOPLE), day, session, asks, asks and random.random() < 0.5, words, axis)
            )
        cuts = sorted({first, len(turns), *random.choices(range(first, len(turns)), k=2)})
        chunks = [("turns", a, b) for a, b in pairwise(cuts)]
        trees.append(Tree("session", session, shaped(random, chunks)))
    facts = [made(random, turns) for _ in range(random.randint(1, 8))]
    for entity in (1, 2, 3):
        own = [row for row, fact in enumerate(facts) if fact.speaker == entity or random.random() < 0.3]
        if own:
            trees.append(Tree("entity", entity, shaped(random, [("fact", row) for row in own])))
    for scene in (1, 2):
        own = [row for row in range(len(facts)) if row % 2 == scene % 2 or random.random() < 0.2]
        if own:
            trees.append(Tree("scene", scene, shaped(random, [("fact", row) for row in own])))
    trees = [replace(tree, axes={row: random.randint(-1, 3) for row in range(99)}) for tree in trees]
    told: dict[float, int] = {}
    for row, fact in enumerate(facts):
        if fact.start is None and random.random() < 0.6:
            told.setdefault(turns[fact.turns[0]].day, row)
    days = sorted(told)
    states = [state(told[day], f"place {day}", day) for day in days]
    ends = {told[day]: int(after) for day, after in zip(days, (*days[1:], 10**6), strict=False)}
    snapshot = hand_made(turns, facts, trees, states)
    return World(turns, facts, ends, snapshot, planted(snapshot).forest)


def made(random: Random, turns: Sequence[Said]) -> Fact:
    """Return a random fact of some turns."""
    rows = tuple(sorted(random.sample(range(len(turns)), random.randint(1, min(3, len(turns))))))
    start = random.choice([None, None, random.randint(0, 9)])
    end = None if start is None else start + random.randint(1, 3)
    return Fact(rows, start, end, axis=random.randint(-1, 2), speaker=random.randint(1, 3))


def chains(it: World, leaves: list[int]) -> list[list[int]]:
    """Return for each level the node above each leaf; a tree that has ended repeats its root."""
    ways = {leaf: it.above(leaf) for leaf in leaves}
    height = max([1, *map(len, ways.values())])
    return [[(ways[leaf][: level + 1] or [leaf])[-1] for leaf in leaves] for level in range(height)]


worlds = st.integers(0, 79).map(world)
"""Some of the memories; each is made once."""
