"""Cards of recalled trees and their nodes, as planner and browser see them: scope, interval, leaves, and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memforest.interval import from_ms
from memforest.search.forests import forest_of
from memforest.search.snapshot import Snapshot
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Index
from memforest.types import TreeCard


@dataclass(frozen=True, slots=True)
class RecalledTree:
    """A tree to browse: the forest row of its root, how well it was recalled, and its card."""

    root: int
    score: float
    card: TreeCard

    @property
    def title(self) -> str:
        """Its kind and scope ("entity Ana"), as in `Evidence.path`."""
        return f"{self.card.kind} {self.card.label}"

    @property
    def summarised(self) -> bool:
        """Whether its root says what is below it; a root that is the only leaf has nothing below."""
        return self.card.leaves == 1 or bool(self.card.summary)


def recalled_trees(
    tx: Tx, snapshot: Snapshot, index: Index, trees: Sequence[tuple[int, float]]
) -> tuple[RecalledTree, ...]:
    """Return trees of the snapshot, given as (tree row, score), with their cards.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        index: whose trees they are.
        trees: as `TreeIndex.recall` returns them.
    """
    forest = forest_of(tx, snapshot, index.name)
    labels = index.labels(tx, [int(forest.tree_ids[tree]) for tree, _ in trees])
    scopes = {
        int(forest.ids[forest.tree_root[tree]]): (forest.tree_kind[tree], labels[int(forest.tree_ids[tree])])
        for tree, _ in trees
    }
    cards = node_cards(tx, scopes)
    roots = [(int(forest.tree_root[tree]), score) for tree, score in trees]
    return tuple(RecalledTree(root, score, cards[int(forest.ids[root])]) for root, score in roots)


def node_cards(tx: Tx, nodes: Mapping[int, tuple[str, str]]) -> dict[int, TreeCard]:
    """Return the cards of nodes by id; those that are gone have none.

    The text is the summary, of a leaf without one what its item says, and else "".

    Args:
        tx: a read transaction.
        nodes: node id -> (kind of its tree, name of the tree's scope).
    """
    found = tree_rows.nodes_with_ids(tx, nodes)
    texts = tree_rows.node_texts(tx, found.values())
    return {
        id_: TreeCard(
            *nodes[id_],
            start=from_ms(node.start_ms),
            end=from_ms(node.end_ms),
            leaves=node.count,
            summary=texts.get(id_, ""),
        )
        for id_, node in found.items()
    }
