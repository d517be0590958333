"""The settings of the segtree index: its leaves, how they are placed, what nodes say, and how it is searched.

Sources of the constants: SegTreeMem (arXiv 2606.04555) §4 and §5.3; where the paper says nothing, the setting's text
says where its default comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from memforest.errors import ConfigError
from memforest.settings import Bound, Settings, Whole

Share: TypeAlias = Annotated[float, Bound(gt=0, le=1)]


@dataclass(frozen=True, slots=True)
class SegTreeSettings(Settings):
    """How the segtree index grows its tree and reads it."""

    KEPT: ClassVar[tuple[str, ...]] = (
        "leaves",
        "opener",
        "leaf_vector",
        "placer",
        "tau",
        "fall",
        "backing",
        "height_max",
        "fan_out_max",
    )

    leaves: Literal["adjacent", "pairs", "turns"] = "adjacent"
    """What a leaf is. ``"adjacent"``: a turn of whoever spoke first in the memory (or of `opener`) and that of somebody
    else right behind it, which has the leaf counts of the paper; ``"pairs"``: every two turns; ``"turns"``: each by itself. Turns that
    belong to no pair join the leaf before them in their session, so that none is left out."""
    opener: str = ""
    """With whose turns ``"adjacent"`` begins a leaf; when empty, who speaks first in the memory."""
    leaf_vector: Literal["mean", "text"] = "mean"
    """What a leaf is compared by: the mean of its turns' vectors, or the vector of its text, as in the paper, which
    embeds everything that is said once more."""
    placer: Literal["centroid", "cosine"] = "centroid"
    """What decides where a leaf goes. ``"centroid"``: its likeness with the mean of the leaves below a node;
    ``"cosine"``: with the vector of what the node says, as in the paper, which has it made before."""
    tau: Annotated[float, Bound(ge=-1, le=1)] | None = None
    """How like a node a leaf must be to join it, -1 to 1; None is what was measured for the embedder
    (`scripts/calibrate_segments.py`). The paper does not give one."""
    fall: Share = 0.8
    """What is left of `tau` with each level that the tree is higher than one, above 0 and at most 1. 1 is the paper's
    constant threshold. On generated talk with known turns of topic .7 to .9 are alike; trees of LoCoMo's development half
    are higher than they need be at .9."""
    backing: Annotated[float, Bound(ge=0)] = 4.0
    """Leaves like the whole conversation that ``"centroid"`` adds to what each node is compared by, so that a large node
    does not win by its size; 0 for the plain mean. On generated talk turns of topic are found best with 4 to 8."""
    height_max: Whole = 12
    """Height from which on a leaf that is like no node joins the node of this level, in the place of a new root; 0 for no
    bound. Full nodes are cut at any level, so that a tree gets higher by a few more, as the logarithm of its leaves."""
    fan_out_max: Whole = 64
    """Children of a node above which it is cut where its neighbouring children are least alike; 0 for no bound, else at
    least 8."""
    scorer: Literal["fused", "cosine"] = "fused"
    """How relevant a node is to a question. ``"fused"``: by words, turns and facts, an inner node by the mean of the
    leaves below it; ``"cosine"``: by the vector of what it says, as in the paper, which found far less of the evidence."""
    propagate: Literal["top-down", "bottom-up", "none"] = "top-down"
    """Where relevance goes along the edges of the tree: from nodes to their children, to their parents, or nowhere."""
    admissible: Literal["bounded", "all", "leaves"] = "bounded"
    """Which nodes can be evidence. ``"bounded"``: none with more than `share_max` of all leaves."""
    share_max: Share = 0.05
    """Share of all leaves that a node may have, above 0 and at most 1."""
    expand: bool = True
    """Hand back the turns below a node in its place, those of its best leaf first. Otherwise what a node says is the
    evidence, which has a part of their words: at equal context less of the answers was said so
    (`benchmarks/segtree_sweep.py`), and its summary has to be made before a question is answered."""

    def _check(self) -> None:
        """Refuse a fan-out in which no node could be cut."""
        if 0 < self.fan_out_max < 8:
            raise ConfigError(
                f"fan_out_max={self.fan_out_max} should be at least 8, or 0 for no bound: both parts of a node that is "
                "cut keep at least a quarter of its children"
            )

    @property
    def reads_texts(self) -> bool:
        """Whether placing reads what nodes say."""
        return self.placer != "centroid"
