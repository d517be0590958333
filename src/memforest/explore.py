"""How a question that needs several hops and several times is explored: entities, the levels of a tree, and what ranks them.

Source of the constants: H-Mem (arXiv 2605.15701) §3.3, App. A.2 and A.4, where it names them. Read by the index `hmem`;
`Ranking(explore=...)` says so for one question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from memforest.errors import ConfigError
from memforest.settings import Bound, Count, Settings, Whole

Scope: TypeAlias = Literal["auto", "short", "long", "mixed"]
Who: TypeAlias = Literal["auto", "model", "rules", "off"]
Weight: TypeAlias = Annotated[float, Bound(ge=0)]


@dataclass(frozen=True, slots=True)
class Explore(Settings):
    """How the index `hmem` looks for evidence; see docs/hmem.md for what the paper has otherwise."""

    planner: Who = "auto"
    """Who takes a question apart. ``"model"``: the chat model, one call; ``"rules"``: the plan of the question; ``"auto"``: the model
    if there is one; ``"off"``: nobody, and the question is its only sub-query."""
    scope: Scope = "auto"
    """What is searched whatever the planner says: ``"short"``, turns and events; ``"long"``, events and memories; ``"mixed"``,
    all. ``"auto"`` is what the planner says."""
    follow_up: Who = "auto"
    """Who asks once more for what is missing: as `planner`."""
    similarity: Weight = 0.70
    """Weight of the cosine (paper: theta 1)."""
    time: Weight = 0.15
    """Weight of how well the time fits (paper: theta 2)."""
    robustness: Weight = 0.15
    """Weight of how well a memory has held (paper: theta 3); 0 leaves it out."""
    entity: Weight = 0.3
    """Weight of how near the entities are to the question that lead to a piece, as z-scores; with 0 they only lead to it, as in
    the paper."""
    known: Weight = 0.3
    """Weight of telling a state or a relation of an entity that the question names; 0 leaves it out."""
    similarity_of: Literal["fused", "cosine"] = "fused"
    """What S is. ``"cosine"``: the cosine, as in the paper. ``"fused"``: how relevant a piece is by words, vectors, what was said
    beside it, and by whom, as z-scores of all that was said; with MiniLM it finds 25 to 30 points more of what
    answers a question of several hops."""
    reach: Literal["all", "graph"] = "all"
    """What can be evidence where a question names or is near to entities: ``"graph"``, what entities lead to and nothing else, as in
    the paper; ``"all"``, everything, and what they lead to comes first as far as `entity` says."""
    overlap: Annotated[float, Bound(ge=0, le=1)] = 0.5
    """Weight of what two intervals share beside how near they are (lambda; the paper names none)."""
    decay_days: Annotated[float, Bound(gt=0)] = 365.0
    """Age at which a memory that was never consolidated is down to 1/e (tau)."""
    reinforcement: Annotated[float, Bound(ge=0)] = 0.5
    """How much longer it takes for every consolidation (eta)."""
    hops: Whole = 2
    """Most edges from an entity that a question names to another one; 0 for none but those."""
    neighbours: Count = 8
    """Most edges that are followed from one entity: those of the largest weight, of equal ones the latest."""
    entities: Count = 64
    """Most entities of one sub-query."""
    sub_queries: Annotated[int, Bound(ge=1, le=5)] = 5
    """Most sub-queries; a plan with more is left, and the question is asked as it is."""

    def _check(self) -> None:
        """Refuse weights of which none counts."""
        if not self.similarity + self.time + self.robustness + self.entity:
            raise ConfigError(
                "Explore() ranks by nothing: similarity, time, robustness and entity are all 0; give one of them a weight"
            )
