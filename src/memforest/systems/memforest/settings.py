"""The settings of the memforest index: the shape of its trees, and what recall and browse look at.

Sources of the constants: MemForest paper §6.1 (moderate fan-out) and the reference configuration (session 3, entity 8,
scene 10; three facts in two sessions; recall.top_k 10, beam_width 10, bu_top_m 30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from memforest.errors import ConfigError
from memforest.settings import Bound, Count, Settings

Family: TypeAlias = Literal["session", "entity", "scene"]
FAMILIES: tuple[Family, ...] = get_args(Family)
"""The kinds of trees."""
Leaves: TypeAlias = Literal["mixed", "facts", "aligned"]
FanOut: TypeAlias = Annotated[int, Bound(ge=3)]
Likeness: TypeAlias = Annotated[float, Bound(ge=-1)] | None


@dataclass(frozen=True, slots=True)
class MemForestSettings(Settings):
    """How the memforest index grows its trees and reads them."""

    KEPT: ClassVar[tuple[str, ...]] = ("session_k", "entity_k", "scene_k", "cells", "scene_vectors")

    session_k: FanOut = 3
    """Most children of a node in a session's tree. At least 3."""
    entity_k: FanOut = 8
    """Most children of a node in an entity's tree. At least 3."""
    scene_k: FanOut = 10
    """Most children of a node in a scene's tree. At least 3."""
    active_min_facts: Count = 3
    """An entity gets a tree of its own with this many distinct facts, if they come from enough sessions."""
    active_min_sessions: Count = 2
    """Sessions that those facts must come from. Participants always have a tree."""
    scene_join: Likeness = None
    """How like a scene a fact must be to join it, at least -1; above 1 none ever does. None is what was measured for the
    embedder (`scripts/calibrate_scenes.py`), here and in the next three."""
    scene_second: Likeness = None
    """How like a further scene it must be to stand there too."""
    scene_merge: Likeness = None
    """How alike two scenes must be to become one."""
    scene_time: Likeness = None
    """What nearness in time adds to the likeness of a fact and a scene, at most."""
    recall_trees: Count = 10
    """Trees that are browsed for a question (recall.top_k)."""
    beam_width: Count = 10
    """Nodes that browse keeps of each level of a tree."""
    facts_to_trees: Count = 30
    """Best leaves whose trees are candidates of recall beside those with the best roots (bu_top_m)."""
    families: Sequence[Family] = FAMILIES
    """Kinds of trees that are recalled: some of ``"session"``, ``"entity"`` and ``"scene"`` (paper Table 6)."""
    leaves: Leaves = "mixed"
    """How near leaves are to a question in recall (Eq. 7) and browse. ``"mixed"``: a fact by its own cosine, a session
    tree's leaf by its best turn's, which are two scales. ``"facts"``: all by facts, a session tree's leaf by the best
    fact that its turns support, as in the paper. ``"aligned"``: as mixed, with the leaves of session trees brought to
    the mean and deviation of the facts."""
    evidence: Literal["all", "reached", "roots"] = "all"
    """What can be evidence. ``"all"``: everything that was said, by the weights of `Ranking`. ``"reached"``: only what
    browse reached, by `reached_by` alone, as in the paper. ``"roots"``: only the summaries of the recalled trees (paper
    Table 7, root-only)."""
    reached_by: Literal["leaf", "path"] = "leaf"
    """What ranks the leaves that browse reached: how near each is to the question, or its whole path on average (in a
    guided mode, its places on the way)."""
    cells: Literal["said", "summarised"] = "said"
    """What a session tree's leaf says to the nodes above it and to browse: what was said, or a summary of it that has a
    vector of its own, as in the paper's Algorithm 1 (line 23). With a model that is a call for each cell. Evidence is
    what was said all the same."""
    scene_vectors: Literal["facts", "summary"] = "facts"
    """What the nodes of scene trees are compared by: the facts beneath them, on average, or the vector of their
    summary, as in the paper (Alg. 1, line 33), which costs an embedding for each node."""
    summarise: Literal["kept", "every"] = "kept"
    """Which nodes' summaries are made: where the children's texts are short enough they are kept as they are, or every
    node's is made, as in the paper's Algorithm 1."""

    def _check(self) -> None:
        """Refuse no family at all, and one twice."""
        if not self.families or len(set(self.families)) < len(self.families):
            raise ConfigError("families should be at least one kind of tree, and none twice")
        object.__setattr__(self, "families", tuple(self.families))


DEFAULTS = MemForestSettings()
