"""The places of turns and facts in the forest: the nodes above each, by family of trees.

Each is computed once for a forest, at the first search that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Groups, Levels, stable_order
from memforest.search.forest import CELL, FACT, INNER, Forest, once_per_forest
from memforest.search.snapshot import ranges
from memforest.systems.speak import Told

Ints = NDArray[np.int64]


# -- the nodes above each -------------------------------------------------------------------------


@once_per_forest
def cell_of_turn(forest: Forest) -> Ints:
    """Shape (n,): the row of the session tree's leaf that holds each turn, or -1."""
    cells = np.flatnonzero(forest.kind == CELL)
    out = np.full(len(forest.turns.ids), -1, dtype=np.int64)
    first, end = forest.item[cells], forest.item_end[cells]
    out[ranges(first, end)] = np.repeat(cells, end - first)
    return out


def session_blocks(forest: Forest) -> Ints:
    """Shape (levels, n): for each turn the nodes above it in its session's tree, from level 1 up, or -1.

    A tree that has reached its root repeats it, so that every turn has a node on every level.
    """
    leaves = np.flatnonzero(forest.kind == CELL)
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


def scene_blocks(forest: Forest) -> tuple[Ints, Ints]:
    """The leaves of all scene trees: the fact row of each, shape (m,), and the nodes above it, (levels, m)."""
    leaves = np.flatnonzero((forest.kind == FACT) & forest.of_kind("scene")[forest.tree])
    chains = _levels(forest, leaves)
    return forest.item[leaves], np.array(chains, dtype=np.int64).reshape(len(chains), len(leaves))


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


# -- laid out for flow ----------------------------------------------------------------------------


@once_per_forest
def session_levels(forest: Forest) -> Levels:
    """Return the turns by the nodes above them in their sessions' trees."""
    return Levels.of(session_blocks(forest))


@once_per_forest
def speaker_levels(forest: Forest, told: Told) -> Levels:
    """Return the supports of facts by the nodes above the fact in its speaker's tree."""
    return Levels.of(fact_blocks(forest)[:, told.facts])


@dataclass(frozen=True, slots=True, eq=False)
class SceneLeaves:
    """The leaves of all scene trees."""

    facts: Ints
    """The fact that each leaf stands for; a fact may have several."""
    levels: Levels
    """The leaves by the nodes above them."""


@once_per_forest
def scene_leaves(forest: Forest) -> SceneLeaves:
    """Return the leaves of scene trees, laid out for flow up."""
    facts, nodes = scene_blocks(forest)
    return SceneLeaves(facts, Levels.of(nodes))


# -- laid out for recall --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees laid out for recall, the same for every question: leaves with their items, and roots."""

    fact_rows: Ints
    fact_items: Ints
    """The leaves that stand for facts, and which facts."""
    cell_rows: Ints
    cells: Groups
    """The leaves that hold turns, and the turns by leaf."""
    leaf_rows: Ints
    leaf_ids: Ints
    leaves: Groups
    """The leaves, as positions in `leaf_rows`, by tree."""
    with_leaves: Ints
    """The tree of each of these groups."""
    roots: Ints
    embedded: NDArray[np.bool_]
    """The nodes that have summaries, shape (N,)."""
    in_scenes: NDArray[np.bool_]
    """The nodes of scene trees, shape (N,)."""
    lone: NDArray[np.bool_]
    """Trees that are scenes of a single fact: they have nothing to descend, and say what the fact says."""


@once_per_forest
def trees_of(forest: Forest) -> Trees:
    """Return the trees laid out for recall."""
    rows = np.flatnonzero(forest.kind != INNER)
    rows = rows[stable_order(forest.tree[rows])]
    leaves = Groups.of(forest.tree[rows])
    scene, roots = forest.of_kind("scene"), forest.roots
    lone = np.zeros(len(scene), dtype=np.bool_)
    lone[forest.tree[roots[forest.kind[roots] != INNER]]] = True
    facts, cell_of = np.flatnonzero(forest.kind == FACT), cell_of_turn(forest)
    cells = Groups.of(cell_of)
    return Trees(
        fact_rows=facts,
        fact_items=forest.item[facts],
        cell_rows=cell_of[cells.first],
        cells=cells,
        leaf_rows=rows,
        leaf_ids=forest.ids[rows],
        leaves=leaves,
        with_leaves=forest.tree[rows[leaves.starts]],
        roots=roots,
        embedded=np.isin(np.arange(len(forest.ids)), forest.embedded),
        in_scenes=scene[forest.tree],
        lone=lone & scene,
    )
