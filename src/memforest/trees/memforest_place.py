"""Structural edits of the forest inside one write transaction: where chunks and facts get their leaves.

Session trees hold a session's dialogue chunks; entity trees hold the facts that name an entity, and every
participant has one. An entity gets its tree when enough is known of it (`MemForestSettings.active_min_facts` facts
from `active_min_sessions` sessions) and is then back-filled with all that was said before. Scene trees hold the facts
of a scene, which `memforest.trees.scenes` decides. Routing makes no model call (paper §4.2).


Merging forests: trees that nothing here has a part in are taken over whole, with summaries and vectors (paper §4.4).

A session's tree, when the session is new here; an entity's, when nothing here named it; a large scene's, when all of
its facts are new. In all other trees the leaves are inserted one by one by `ForestPlacing`, and only the paths above them
are dirty. Scenes of both memories that are about one thing then become one, as after any write.


Checks of the forest beside the shape of its trees: fan-outs, placements and scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memforest.nodes import Key, TreeHead
from memforest.store import derived, meta
from memforest.store import facts as facts_rows
from memforest.store import trees as trees_rows
from memforest.store.connections import Tx
from memforest.store.corrections import shown_facts
from memforest.store.facts import FactRow
from memforest.store.indexes import Items
from memforest.store.snapshot import mentions
from memforest.store.trees import Graft, LeafRow, SqliteArena, graft, leaf_rows, placements, placements_of
from memforest.trees import memforest_rows
from memforest.trees.index import Copied, IndexProblem, Placed
from memforest.trees.memforest_rows import MemForestSettings
from memforest.trees.node import delete, insert
from memforest.trees.scenes import MAX_SCENES, Scenes, keep_routed, routed_by

OWNER = "memforest"
"""Name of the index, which owns its trees."""


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A fact whose leaves were removed: the scopes of its trees, its old text, and its old vector."""

    scopes: tuple[tuple[str, int], ...]
    text: str
    vector: NDArray[np.float32] | None


class ForestPlacing:
    """Edits the trees of one memory inside one write transaction; see `memforest.trees.index.Placing`."""

    def __init__(self, tx: Tx, settings: MemForestSettings) -> None:
        self._tx = tx
        self._settings = settings
        self._arena = SqliteArena(tx, ("chunk",) if settings.chunks == "summarised" else ())
        self._heads: dict[tuple[str, int], TreeHead] = {}
        self._scopes: dict[int, tuple[str, int]] = {}
        self._touched: set[int] = set()
        self._lifted: dict[int, _Lifted] = {}
        self._lost: set[int] = set()
        """Entities in whose trees a fact has lost its leaf."""
        self._scenes = Scenes(tx, self, settings)

    # -- the seam -----------------------------------------------------------------------------

    def leave(self, items: Items) -> None:
        """Take the leaves of chunks and facts out of the forest while their keys are those of the leaves."""
        for chunk in items.get("chunk", ()):
            self._remove("chunk", chunk)
        for fact, row in facts_rows.facts_with_ids(self._tx, items.get("fact", ())).items():
            placed = placements(self._tx, OWNER, "fact", fact)
            scopes = tuple(self._scope_of(tree) for tree, _ in placed)
            vector = derived.vectors_of_items(self._tx, "fact", (fact,)).get(fact)
            self._lifted.setdefault(fact, _Lifted(scopes, row.text, vector))
            self._lost |= {scope for kind, scope in scopes if kind == "entity"}
            self._remove("fact", fact)

    def place(self, items: Items) -> None:
        """Give chunks and facts their leaves, entities their trees, and facts their scenes."""
        for chunk in memforest_rows.finished_chunks(self._tx, items.get("chunk", ())):
            if not placements(
                self._tx, OWNER, "chunk", chunk.row
            ):  # else it failed before, and stands where it stood
                start_ms, end_ms = chunk.start_ms, max(chunk.end_ms, chunk.start_ms + 1)
                self._insert(
                    "session", chunk.session, (start_ms, chunk.tie), start_ms, end_ms, "chunk", chunk.row
                )
        noted = items.get("fact", ())
        facts = self._place_facts(noted)
        self._reconsider(self._lost | set(items.get("entity", ())))
        self._lost.clear()
        model = meta.get(self._tx, "embedder")
        # Also if all of them are gone: a young memory's scenes follow from what is left.
        if model is not None and noted:
            self._scenes.route(facts, model)

    def close(self) -> Placed:
        """Write every changed node, head and centroid back; trees that lost their last leaf go."""
        for fact in list(self._lifted):
            self._leave_scenes(fact)
        self._reconsider(self._lost)  # nothing was placed: the index is behind
        self._scenes.save()
        for (kind, scope), head in list(self._heads.items()):
            if head.tree and head.root is None:
                self._drop_tree(kind, scope, head)
        for (kind, scope), head in self._heads.items():
            if head.tree in self._touched:
                trees_rows.put_head(self._tx, OWNER, kind, scope, head)
        self._arena.flush()
        return Placed(self._arena.written, frozenset(self._touched))

    # -- facts --------------------------------------------------------------------------------

    def _place_facts(self, noted: Sequence[int]) -> list[int]:
        """Place facts in the order in which they were noted, and return those that are stored and not hidden."""
        stored = shown_facts(self._tx, noted)
        # Of what is hidden there are mentions too: who takes part does so whatever of it is shown.
        named: dict[int, set[int]] = {fact: set() for fact in noted}
        for fact, entity in mentions(self._tx, noted, hidden=True):
            named[fact].add(entity)
        placed = placements_of(self._tx, OWNER, "fact", stored)
        entities = set[int]().union(*named.values())
        active = memforest_rows.active(self._tx, entities)
        new = memforest_rows.participants(self._tx, entities) - active
        memforest_rows.set_active(self._tx, new)
        active |= new
        for fact in noted:
            if fact not in stored:
                self._leave_scenes(fact)
            else:
                self._place_fact(stored[fact], named[fact], active, placed[fact])
        for entity in sorted(new):
            self._fill(entity)
        for entity in sorted(entities - active):
            self._activate(entity)
        return [fact for fact in noted if fact in stored]

    def _place_fact(
        self, fact: FactRow, named: set[int], active: set[int], placed: Sequence[tuple[int, int]]
    ) -> None:
        """Insert a fact's leaves: in the trees it was lifted from, and in that of every active entity it names; remove others.

        `placed` are the trees and leaves that it has.
        """
        lifted = self._lifted.get(fact.row)
        if lifted is not None and lifted.text != fact.text:
            self._leave_scenes(fact.row)  # its vector is another one now
        elif lifted is not None:
            del self._lifted[fact.row]
        if lifted is not None:
            same = lifted.text == fact.text
            for kind, scope in lifted.scopes:
                if same or kind != "scene":
                    self._insert_fact(kind, scope, fact)
            placed = placements(self._tx, OWNER, "fact", fact.row)
        stands = {scope for tree, _ in placed for kind, scope in (self._scope_of(tree),) if kind == "entity"}
        self._withdraw(placed, stands - named)
        for entity in sorted((named & active) - stands):
            self._insert_fact("entity", entity, fact)

    def _withdraw(self, placed: Sequence[tuple[int, int]], entities: set[int]) -> None:
        """Take a fact out of the trees of entities that it does not name any more."""
        for tree, leaf in placed:
            kind, scope = self._scope_of(tree)
            if kind == "entity" and scope in entities:
                self._take_out(tree, leaf)
                self._lost.add(scope)

    def _leave_scenes(self, fact: int) -> None:
        """Take a fact that was lifted out of its scenes."""
        lifted = self._lifted.pop(fact, None)
        if lifted is not None:
            self._scenes.leave(fact, lifted.vector)

    # -- entities -----------------------------------------------------------------------------

    def _activate(self, entity: int) -> None:
        """Give an entity that has become known well enough its tree."""
        if self._known_enough(entity):
            memforest_rows.set_active(self._tx, (entity,))
            self._fill(entity)

    def _fill(self, entity: int) -> None:
        """Give every fact that names an active entity a leaf in its tree, where it has none yet."""
        found = shown_facts(self._tx, facts_rows.entity_facts(self._tx, entity))
        for fact in sorted(found.values(), key=lambda f: f.leaf_key):
            tree = self._head("entity", entity).tree
            if tree not in dict(placements(self._tx, OWNER, "fact", fact.row)):
                self._insert_fact("entity", entity, fact)

    def _reconsider(self, entities: Iterable[int]) -> None:
        """Take the tree away from entities that are gone or no longer known well enough; participants keep theirs."""
        wanted = set(entities)
        participants, active = (
            memforest_rows.participants(self._tx, wanted),
            memforest_rows.active(self._tx, wanted),
        )
        for entity in sorted(wanted & participants - active):
            memforest_rows.set_active(self._tx, (entity,))
            self._fill(entity)
        for entity in sorted(active - participants):
            if not self._known_enough(entity):
                self._drop_tree("entity", entity, self._head("entity", entity))
                memforest_rows.set_inactive(self._tx, entity)

    def _known_enough(self, entity: int) -> bool:
        least = self._settings.active_min_facts, self._settings.active_min_sessions
        facts, sessions = meta.entity_support(self._tx, entity, max(least))
        return facts >= least[0] and sessions >= least[1]

    # -- scenes -------------------------------------------------------------------------------

    def place_in_scene(self, scene: int, fact: FactRow) -> None:
        """Give a fact a leaf in the tree of a scene."""
        self._insert_fact("scene", scene, fact)

    def take_from_scene(self, scene: int, fact: int) -> None:
        """Take a fact's leaf out of the tree of a scene."""
        tree = self._head("scene", scene).tree
        leaf = dict(placements(self._tx, OWNER, "fact", fact)).get(tree)
        if leaf is None:
            return  # it was lifted
        self._take_out(tree, leaf)

    def derive_scenes(self) -> None:
        """Derive all scenes anew, by the vectors that the facts have now."""
        model = meta.get(self._tx, "embedder")
        if model is not None:
            self._scenes.derive(model)

    def scene_hull(self, scene: int) -> tuple[int, int]:
        """Return the interval of all leaves of a scene, in ms.

        Raises:
            KeyError: if the scene has no tree.
        """
        root = self._head("scene", scene).root
        if root is None:
            raise KeyError(scene)
        node = self._arena.get(root)
        return node.start_ms, node.end_ms

    def settle_scenes(self, scenes: Collection[int], model: str) -> None:
        """Let scenes, some of them new, become one with those that they are alike."""
        self._scenes.settle(scenes, model)

    # -- trees --------------------------------------------------------------------------------

    def _drop_tree(self, kind: str, scope: int, head: TreeHead) -> None:
        self._arena.flush()
        if head.tree:
            trees_rows.drop_tree(self._tx, head)
            self._scopes.pop(head.tree, None)
            self._touched.discard(head.tree)
        self._heads.pop((kind, scope), None)

    def _head(self, kind: str, scope: int) -> TreeHead:
        head = self._heads.get((kind, scope))
        if head is None:
            head = trees_rows.find_head(self._tx, OWNER, kind, scope) or TreeHead(0, self._fan_out(kind))
            self._keep(kind, scope, head)
        return head

    def _fan_out(self, kind: str) -> int:
        fan_out: int = getattr(self._settings, f"{kind}_k")
        return fan_out

    def _keep(self, kind: str, scope: int, head: TreeHead) -> None:
        self._heads[kind, scope] = head
        if head.tree:
            self._scopes[head.tree] = (kind, scope)

    def _insert(
        self, kind: str, scope: int, key: Key, start_ms: int, end_ms: int, item_kind: str, item: int
    ) -> None:
        head = self._head(kind, scope)
        if head.tree == 0:
            head = trees_rows.put_head(self._tx, OWNER, kind, scope, head)
        head, _ = insert(
            self._arena, head, key=key, start_ms=start_ms, end_ms=end_ms, item_kind=item_kind, item=item
        )
        self._keep(kind, scope, head)
        self._touched.add(head.tree)

    def _insert_fact(self, kind: str, scope: int, fact: FactRow) -> None:
        start_ms, end_ms = fact.leaf_span
        self._insert(kind, scope, fact.leaf_key, start_ms, end_ms, "fact", fact.row)

    def _remove(self, item_kind: str, item: int) -> None:
        for tree, leaf in placements(self._tx, OWNER, item_kind, item):
            self._take_out(tree, leaf)

    def _take_out(self, tree: int, leaf: int) -> None:
        kind, scope = self._scope_of(tree)
        head = delete(self._arena, self._head(kind, scope), self._arena.get(leaf).key)
        self._keep(kind, scope, head)
        self._touched.add(tree)

    def _scope_of(self, tree: int) -> tuple[str, int]:
        if tree not in self._scopes:
            kind, scope, head = trees_rows.head_of(self._tx, tree)
            self._keep(kind, scope, head)
        return self._scopes[tree]


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
    for kind, scope, head in trees_rows.heads(copied.source, OWNER):
        here = scope if kind == "scene" else scopes[kind].get(scope)
        moved = _moved(leaves.get(head.tree, ()), copied)
        if here is not None and moved is not None and len(moved) == head.count:
            yield Graft(head, kind, here, moved)


def _moved(leaves: Sequence[LeafRow], copied: Copied) -> tuple[LeafRow, ...] | None:
    """Return leaves with their items here; None when one of those is not here as it is there."""
    found = []
    for leaf in leaves:
        item = copied.chunks.get(leaf.chunk) if leaf.chunk is not None else copied.facts.get(leaf.fact or 0)
        if item is None:
            return None
        found.append(leaf._replace(chunk=item) if leaf.chunk is not None else leaf._replace(fact=item))
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
    memforest_rows.set_active(tx, [one.scope for one in grafts if one.kind == "entity"])
    return len(grafts)


def _take_over_scenes(tx: Tx, copied: Copied, grafts: Sequence[Graft], settings: MemForestSettings) -> int:
    """Copy scenes with their trees, as far as there is room for more, and let those become one that are alike.

    There are `MAX_SCENES` at most, of as many facts each, so this is one transaction.
    """
    model = meta.get(tx, "embedder")
    if model is None or not _same_vectors(tx, copied):
        return 0
    grafts = grafts[: max(0, MAX_SCENES - memforest_rows.scene_counts(tx)["scenes"])]
    if not grafts:
        return 0
    stored = {scene: (size, mean) for scene, _, size, mean in memforest_rows.all_scenes(copied.source)}
    members = memforest_rows.all_members(copied.source)
    at_home = {fact for one in grafts for fact, main in members[one.scope].items() if main}
    numbers = [memforest_rows.new_scene(tx, model) for _ in grafts]
    for one, scene in zip(grafts, numbers, strict=True):
        memforest_rows.put_scene(tx, scene, *stored[one.scope])
        for fact, main in members[one.scope].items():
            # A fact whose main scene is not taken over has its second one here.
            memforest_rows.add_member(tx, scene, copied.facts[fact], main=main or fact not in at_home)
    moved = [one._replace(scope=scene) for one, scene in zip(grafts, numbers, strict=True)]
    graft(tx, copied.source, OWNER, moved, copied.session_ids, vectors=True)
    keep_routed(tx, model, set(copied.facts.values()))
    placing = ForestPlacing(tx, settings)
    placing.settle_scenes(numbers, model)
    placing.close()
    return len(moved)


def _same_vectors(tx: Tx, copied: Copied) -> bool:
    return meta.get(tx, "embedder") == meta.get(copied.source, "embedder")


CENTROID_ERROR = 2.0**-11
"""By how much a coordinate of a centroid may be off: it is updated in float32, once per fact that comes or goes, and
older versions made it of wider vectors, of which half precision moves a coordinate by 2^-11 at most."""


def check_forest(tx: Tx, settings: MemForestSettings) -> list[IndexProblem]:
    """Return everything that is wrong with fan-outs, placements and scenes; the shape of trees is every index's."""
    return [
        *(IndexProblem("tree", message) for message in _fan_outs(tx, settings)),
        *(IndexProblem("placement", message) for message in memforest_rows.placement_problems(tx)),
        *(IndexProblem("placement", message) for message in _chunks(tx, settings)),
        *(IndexProblem("scene", message) for message in _scenes(tx)),
    ]


def _fan_outs(tx: Tx, settings: MemForestSettings) -> list[str]:
    return [
        f"{kind} tree {scope} has a fan-out of {head.k}, which is not the memory's"
        for kind, scope, head in trees_rows.heads(tx, OWNER)
        if head.k != getattr(settings, f"{kind}_k", head.k)
    ]


def _chunks(tx: Tx, settings: MemForestSettings) -> list[str]:
    """Check that the chunks, and they alone among leaves, have summaries where they are to have some, and else none."""
    wanted = settings.chunks == "summarised"
    lack, much = (
        memforest_rows.unmarked_chunks(tx) if wanted else [],
        memforest_rows.marked_leaves(tx, chunks=not wanted),
    )
    return [f"chunk {chunk} has a leaf that is not marked for its summary" for chunk in lack] + [
        f"leaf {leaf} is marked for a summary, which it is not to have" for leaf in much
    ]


def _scenes(tx: Tx) -> list[str]:
    """Check that scenes and their trees are one to one, and that centroids and memberships are those of the facts."""
    members = memforest_rows.all_members(tx)
    trees = {scope: head.count for kind, scope, head in trees_rows.heads(tx, OWNER) if kind == "scene"}
    messages = [f"scene {scene} has no tree" for scene in sorted(members.keys() - trees.keys())]
    messages += [
        f"there is a tree of scene {scene}, which is none" for scene in sorted(trees.keys() - members.keys())
    ]
    model = meta.get(tx, "embedder")
    for scene, made_by, size, centroid in memforest_rows.all_scenes(tx):
        if made_by != model:
            messages.append(f"scene {scene} is of vectors by {made_by!r}, not {model!r}")
        if not size == len(members[scene]) == trees.get(scene, size):
            messages.append(
                f"scene {scene}: size {size}, {len(members[scene])} members, {trees.get(scene)} leaves"
            )
        vectors = [one.vector for one in memforest_rows.member_vectors(tx, scene)]
        if len(vectors) < size:
            continue  # a missing vector is made anew by the next write; nothing can be compared till then
        mean = np.mean(vectors, axis=0)
        if mean.shape != centroid.shape or not np.allclose(mean, centroid, atol=CENTROID_ERROR):
            messages.append(f"scene {scene}: the centroid is not the mean of its facts' vectors")
    return messages + memforest_rows.membership_problems(tx, routed=routed_by(tx) is not None)
