"""MemTree: a balanced tree over time-ordered leaves. Pure: no I/O, no model, no clock.

Read it in this order: `node` (what a tree is made of), `walk` (finding), `memtree` (changing), `check`
(what must hold, of a MemTree and of trees of other shapes). Where nodes live is not its business: every function
takes an `Arena`.
"""

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
from memforest.tree.walk import leaves, outline, path, walk

__all__ = [
    "ORDERED",
    "Arena",
    "Contract",
    "DictArena",
    "Key",
    "Leaf",
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
    "walk",
]
