"""MemTree: a balanced tree over time-ordered leaves; segment tree: one that grows where talk turns. Pure: no I/O, no model, no clock.

Read it in this order: `node` (what a tree is made of), `walk` (finding), `memtree` (changing), `check`
(what must hold, of a MemTree and of trees of other shapes), `segment` (the other tree, used by the module's name:
``segment.insert``). Where nodes live is not its business: every function
takes an `Arena`.
"""

from memforest.tree import segment
from memforest.tree.check import (
    ORDERED,
    Contract,
    check,
    check_contained,
    check_ordered,
    check_partition,
)
from memforest.tree.memtree import bulk_build, delete, insert
from memforest.tree.node import Arena, DictArena, Key, Leaf, Node, TreeHead
from memforest.tree.segment import Choice, Grown, NewLeaf
from memforest.tree.walk import leaves, outline, path, walk

__all__ = [
    "ORDERED",
    "Arena",
    "Choice",
    "Contract",
    "DictArena",
    "Grown",
    "Key",
    "Leaf",
    "NewLeaf",
    "Node",
    "TreeHead",
    "bulk_build",
    "check",
    "check_contained",
    "check_ordered",
    "check_partition",
    "delete",
    "insert",
    "leaves",
    "outline",
    "path",
    "segment",
    "walk",
]
