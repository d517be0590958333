"""Checks of the forest beside the shape of its trees: fan-outs, placements and scenes."""

from __future__ import annotations

import numpy as np

from memforest.store import meta
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import IndexProblem
from memforest.systems.memforest import rows
from memforest.systems.memforest.place import OWNER
from memforest.systems.memforest.scenes import routed_by
from memforest.systems.memforest.settings import MemForestSettings

CENTROID_ERROR = 2.0**-11
"""By how much a coordinate of a centroid may be off: it is updated in float32, once per fact that comes or goes, and
older versions made it of wider vectors, of which half precision moves a coordinate by 2^-11 at most."""


def check_forest(tx: Tx, settings: MemForestSettings) -> list[IndexProblem]:
    """Return everything that is wrong with fan-outs, placements and scenes; the shape of trees is every index's."""
    return [
        *(IndexProblem("tree", message) for message in _fan_outs(tx, settings)),
        *(IndexProblem("placement", message) for message in rows.placement_problems(tx)),
        *(IndexProblem("placement", message) for message in _cells(tx, settings)),
        *(IndexProblem("scene", message) for message in _scenes(tx)),
    ]


def _fan_outs(tx: Tx, settings: MemForestSettings) -> list[str]:
    return [
        f"{kind} tree {scope} has a fan-out of {head.k}, which is not the memory's"
        for kind, scope, head in tree_rows.heads(tx, OWNER)
        if head.k != getattr(settings, f"{kind}_k", head.k)
    ]


def _cells(tx: Tx, settings: MemForestSettings) -> list[str]:
    """Check that the cells, and they alone among leaves, have summaries where they are to have some, and else none."""
    wanted = settings.cells == "summarised"
    lack, much = rows.unmarked_cells(tx) if wanted else [], rows.marked_leaves(tx, cells=not wanted)
    return [f"chunk {cell} has a leaf that is not marked for its summary" for cell in lack] + [
        f"leaf {leaf} is marked for a summary, which it is not to have" for leaf in much
    ]


def _scenes(tx: Tx) -> list[str]:
    """Check that scenes and their trees are one to one, and that centroids and memberships are those of the facts."""
    members = rows.all_members(tx)
    trees = {scope: head.count for kind, scope, head in tree_rows.heads(tx, OWNER) if kind == "scene"}
    messages = [f"scene {scene} has no tree" for scene in sorted(members.keys() - trees.keys())]
    messages += [
        f"there is a tree of scene {scene}, which is none" for scene in sorted(trees.keys() - members.keys())
    ]
    model = meta.get(tx, "embedder")
    for scene, made_by, size, centroid in rows.all_scenes(tx):
        if made_by != model:
            messages.append(f"scene {scene} is of vectors by {made_by!r}, not {model!r}")
        if not size == len(members[scene]) == trees.get(scene, size):
            messages.append(
                f"scene {scene}: size {size}, {len(members[scene])} members, {trees.get(scene)} leaves"
            )
        vectors = [one.vector for one in rows.member_vectors(tx, scene)]
        if len(vectors) < size:
            continue  # a missing vector is made anew by the next write; nothing can be compared till then
        mean = np.mean(vectors, axis=0)
        if mean.shape != centroid.shape or not np.allclose(mean, centroid, atol=CENTROID_ERROR):
            messages.append(f"scene {scene}: the centroid is not the mean of its facts' vectors")
    return messages + rows.membership_problems(tx, routed=routed_by(tx) is not None)
