"""What merging returns: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memforest.memory.plain import Result, plain
from memforest.memory.results import Usage


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(Result):
    """The result of `merge`: what came from another memory, or with `dry_run` what would come.

    `sessions_added` are new here, `sessions_grown` were here in part, `sessions_same` were here already. `renamed` are
    sessions whose id was taken here: id there to id here. `people` are those who are called otherwise here: key there to
    name here. `participants_joined` and `entities_joined` name who and what of both memories has one name, and is one
    now. A fact of the other memory is inserted, or merged with one that was here. `trees_copied` were taken over with
    their summaries; `trees_merged` were here and have got leaves.
    """

    user_id: str
    """Whose memory was merged."""
    dry_run: bool = False
    sessions_added: int = 0
    sessions_grown: int = 0
    sessions_same: int = 0
    turns_added: int = 0
    facts_inserted: int = 0
    facts_merged: int = 0
    entities_added: int = 0
    corrections_added: int = 0
    trees_copied: int = 0
    trees_merged: int = 0
    total_trees: int = 0
    nodes_refreshed: int = 0
    nodes_dirty: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    participants_joined: tuple[str, ...] = ()
    entities_joined: tuple[str, ...] = ()
    flushed_tree_ids: tuple[str, ...] = ()
    """Trees whose summaries were made before the call returned."""
    elapsed_sec: float = 0.0
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ForestMergeResult(Result):
    """The result of merging several memories into one: the sums, and what each brought.

    The counts are those of `MergeResult`; `total_trees` is how many the memory has in the end.
    """

    target_user_id: str
    merged: tuple[MergeResult, ...] = ()

    @property
    def source_user_ids(self) -> tuple[str, ...]:
        """Whose memories were merged, in order."""
        return tuple(one.user_id for one in self.merged)

    @property
    def sessions_added(self) -> int:
        """Sessions that are new."""
        return sum(one.sessions_added for one in self.merged)

    @property
    def facts_inserted(self) -> int:
        """Facts that are new."""
        return sum(one.facts_inserted for one in self.merged)

    @property
    def facts_merged(self) -> int:
        """Facts that were there already."""
        return sum(one.facts_merged for one in self.merged)

    @property
    def trees_copied(self) -> int:
        """Trees that were taken over with their summaries."""
        return sum(one.trees_copied for one in self.merged)

    @property
    def trees_merged(self) -> int:
        """Trees that have got leaves, counted for each memory that gave them some."""
        return sum(one.trees_merged for one in self.merged)

    @property
    def flushed_tree_ids(self) -> tuple[str, ...]:
        """Trees whose summaries were made before the call returned."""
        return tuple(dict.fromkeys(tree for one in self.merged for tree in one.flushed_tree_ids))

    @property
    def total_trees(self) -> int:
        """Trees that the memory has now."""
        return self.merged[-1].total_trees if self.merged else 0

    @property
    def elapsed_sec(self) -> float:
        """Wall time of all merges, in seconds."""
        return sum(one.elapsed_sec for one in self.merged)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums, and what each memory brought, as plain values."""
        sums = (
            "source_user_ids",
            "sessions_added",
            "facts_inserted",
            "facts_merged",
            "trees_copied",
            "trees_merged",
            "flushed_tree_ids",
            "total_trees",
            "elapsed_sec",
        )
        return {**Result.to_dict(self), **{name: plain(getattr(self, name)) for name in sums}}

    def _line(self) -> str:
        counts = ("facts_inserted", "facts_merged", "trees_copied", "trees_merged", "total_trees")
        return ", ".join(f"{name}={getattr(self, name)}" for name in counts)
