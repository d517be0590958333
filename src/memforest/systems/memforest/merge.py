"""Merging forests: trees that nothing here has a part in are taken over whole, with summaries and vectors (paper §4.4).

A session's tree, when the session is new here; an entity's, when nothing here named it; a large scene's, when all of
its facts are new. In all other trees the leaves are inserted one by one by `ForestPlacing`, and only the paths above them
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

MOST_LEAVES = 4_096
"""Leaves that are copied in one transaction: about a tenth of a second's work."""
LEAST_FACTS = 20
"""Facts of the smallest scene that is taken over. What facts are alike is measured from what all of a memory has in
common, which is another thing in the merged one: there the facts of one of the two are more alike, and would stand in
fewer scenes. So those of smaller scenes are routed anew, which leads to as many scenes as ingesting everything does
(within 5%, `benchmarks/merging.py`; with all scenes taken over there are 15 to 25% more trees)."""


def merge_forest(copied: Copied, settings: MemForestSettings) -> Iterator[Callable[[Tx], int]]:
    """Yield what takes over the trees of another memory that hold here as they are; see `Index.merge`."""
    ready = list(_ready(copied))
    for part in _parts([one for one in ready if one.kind != "scene"]):
        yield partial(_take_over, copied=copied, grafts=part)
    scenes = [one for one in ready if one.kind == "scene" and one.head.count >= LEAST_FACTS]
    if routed_by(copied.source) is not None and scenes:
        scenes.sort(key=lambda one: -one.head.count)
        yield partial(_take_over_scenes, copied=copied, grafts=scenes, settings=settings)


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


def _take_over_scenes(tx: Tx, copied: Copied, grafts: Sequence[Graft], settings: MemForestSettings) -> int:
    """Copy scenes with their trees, as far as there is room for more, and let those become one that are alike.

    There are `MAX_SCENES` at most, of as many facts each, so this is one transaction.
    """
    model = meta.get(tx, "embedder")
    if model is None or not _same_vectors(tx, copied):
        return 0
    grafts = grafts[: max(0, MAX_SCENES - rows.scene_counts(tx)["scenes"])]
    if not grafts:
        return 0
    stored = {scene: (size, mean) for scene, _, size, mean in rows.all_scenes(copied.source)}
    members = rows.all_members(copied.source)
    at_home = {fact for one in grafts for fact, main in members[one.scope].items() if main}
    numbers = [rows.new_scene(tx, model) for _ in grafts]
    for one, scene in zip(grafts, numbers, strict=True):
        rows.put_scene(tx, scene, *stored[one.scope])
        for fact, main in members[one.scope].items():
            # A fact whose main scene is not taken over has its second one here.
            rows.add_member(tx, scene, copied.facts[fact], main=main or fact not in at_home)
    moved = [one._replace(scope=scene) for one, scene in zip(grafts, numbers, strict=True)]
    graft(tx, copied.source, OWNER, moved, copied.session_ids, vectors=True)
    keep_routed(tx, model, set(copied.facts.values()))
    placing = ForestPlacing(tx, settings)
    placing.settle_scenes(numbers, model)
    placing.close()
    return len(moved)


def _same_vectors(tx: Tx, copied: Copied) -> bool:
    return meta.get(tx, "embedder") == meta.get(copied.source, "embedder")
