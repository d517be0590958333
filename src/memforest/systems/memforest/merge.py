"""Merging forests: trees that nothing here has a part in are taken over whole, with summaries and vectors (paper §4.4).

A session's tree, when the session is new here; an entity's, when nothing here named it; a scene's, when all of its
facts are new. In all other trees the leaves are inserted one by one by `ForestPlacing`, and only the paths above them
are dirty. Scenes of both memories that are about one thing then become one, as after any write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from memforest.store import meta
from memforest.store import trees as tree_rows
from memforest.store.grafts import Graft, LeafRow, graft, leaf_rows
from memforest.store.tx import Tx
from memforest.systems.base import Copied
from memforest.systems.memforest import rows
from memforest.systems.memforest.clusters import MAX_SCENES
from memforest.systems.memforest.place import OWNER, ForestPlacing
from memforest.systems.memforest.scenes import keep_routed, routed_by
from memforest.systems.memforest.settings import MemForestSettings

__all__ = ["merge_forest"]

MOST_LEAVES = 4_096
"""Leaves that are copied in one transaction: about a tenth of a second's work."""


def merge_forest(copied: Copied, settings: MemForestSettings) -> Iterator[Callable[[Tx], int]]:
    """Yield what takes over the trees of another memory that hold here as they are; see `MemoryIndex.merge`."""
    ready = list(_ready(copied))
    own = [one for one in ready if one.kind != "scene"]
    for part in _parts(own):
        yield partial(_take_over, copied=copied, grafts=part)
    scenes = sorted((one for one in ready if one.kind == "scene"), key=lambda one: -one.head.count)
    if routed_by(copied.source) is not None and scenes:
        for part in _parts(scenes):
            yield partial(_take_over_scenes, copied=copied, grafts=part)
        yield partial(_settle, copied=copied, settings=settings)


def _ready(copied: Copied) -> Iterator[Graft]:
    """Yield the trees of which nothing is other here than there; the scope of a scene is still the one there."""
    leaves = leaf_rows(copied.source, OWNER)
    scopes: dict[str, Mapping[int, int]] = {"session": copied.sessions, "entity": copied.entities}
    for kind, scope, head in tree_rows.heads(copied.source, OWNER):
        here = scope if kind == "scene" else scopes[kind].get(scope)
        moved = _moved(leaves.get(head.tree, ()), copied)
        if here is not None and moved is not None and len(moved) == head.count:
            yield Graft(head, kind, here, moved)


def _moved(leaves: Sequence[LeafRow], copied: Copied) -> tuple[LeafRow, ...] | None:
    """Return leaves with their items here; None when one of those is not here as it is there."""
    found = []
    for leaf in leaves:
        item = copied.cells.get(leaf.cell) if leaf.cell is not None else copied.facts.get(leaf.fact or 0)
        if item is None:
            return None
        found.append(leaf._replace(cell=item) if leaf.cell is not None else leaf._replace(fact=item))
    return tuple(found)


def _parts(grafts: Sequence[Graft]) -> Iterator[list[Graft]]:
    """Yield trees in groups of bounded size; a larger tree is a group by itself."""
    part: list[Graft] = []
    size = 0
    for one in grafts:
        if part and size + len(one.leaves) > MOST_LEAVES:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one.leaves)
    if part:
        yield part


def _take_over(tx: Tx, copied: Copied, grafts: Sequence[Graft]) -> int:
    graft(tx, copied.source, OWNER, grafts, copied.session_ids, vectors=_same_vectors(tx, copied))
    rows.set_active(tx, [one.scope for one in grafts if one.kind == "entity"])
    return len(grafts)


def _take_over_scenes(tx: Tx, copied: Copied, grafts: Sequence[Graft]) -> int:
    """Copy scenes with their trees, as far as there is room for more; the facts of the others are routed."""
    model = meta.get(tx, "embedder")
    if model is None or not _same_vectors(tx, copied):
        return 0
    grafts = grafts[: max(0, MAX_SCENES - rows.scene_counts(tx)["scenes"])]
    means = {scene: (size, mean) for scene, _, size, mean in rows.all_scenes(copied.source)}
    members = rows.all_members(copied.source)
    numbers = [rows.new_scene(tx, model) for _ in grafts]
    for one, scene in zip(grafts, numbers, strict=True):
        rows.put_scene(tx, scene, *means[one.scope])
        for fact, main in members[one.scope].items():
            rows.add_member(tx, scene, copied.facts[fact], main=main)
    moved = [one._replace(scope=scene) for one, scene in zip(grafts, numbers, strict=True)]
    graft(tx, copied.source, OWNER, moved, copied.session_ids, vectors=True)
    return len(moved)


def _settle(tx: Tx, copied: Copied, settings: MemForestSettings) -> int:
    """Let scenes that are alike become one; until now each of the new ones stood by itself."""
    model = meta.get(tx, "embedder")
    new = rows.scenes_with(tx, list(copied.facts.values()))
    if model is not None and new:
        keep_routed(tx, model, set(copied.facts.values()))
        placing = ForestPlacing(tx, settings)
        placing.settle_scenes(new, model)
        placing.close()
    return 0


def _same_vectors(tx: Tx, copied: Copied) -> bool:
    return meta.get(tx, "embedder") == meta.get(copied.source, "embedder")
