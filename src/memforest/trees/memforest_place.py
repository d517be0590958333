"""Structural edits of the forest inside one write transaction: where chunks and facts get their leaves.

Session trees hold a session's chunks; entity trees hold the facts that name an entity, and every participant has one.
An entity gets its tree when enough is known of it (`MemForestSettings.active_min_facts` facts from
`active_min_sessions` sessions) and is then back-filled with all that was said before. Every fact with a vector stands
in one scene, and may stand in a second (`memforest.trees.scenes`); every scene has one tree with its facts as leaves.
No model is called (paper §4.2). Until a memory holds `YOUNG` facts all of them are routed to scenes anew, in time
order, at each write, because the background is not known from a few.

A merge takes trees that nothing here has a part in over whole, with summaries and vectors (paper §4.4): a session's
tree, when the session is new here; an entity's, when nothing here named it; a large scene's, when all of its facts are
new. In all other trees the leaves are inserted one by one, and only the paths above them are dirty. Scenes of both
memories that are about one thing then become one, as after any write.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter

import numpy as np

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
from memforest.trees.index import Copied, IndexProblem, Placed, Placing
from memforest.trees.memforest_rows import MemForestSettings
from memforest.trees.node import delete, insert
from memforest.trees.scenes import MAX_SCENES, YOUNG, Clusters, Member, Vector, derive, scene_thresholds

OWNER = "memforest"
"""Name of the index, which owns its trees."""


ROUTED = "ix_memforest_routed"
"""Key of `meta`: the embedder by whose vectors all facts have been routed; absent before the first time."""
THRESHOLDS = "ix_memforest_thresholds"
"""Key of `meta`: the thresholds with which all facts were last routed anew, as JSON; absent in what older versions wrote."""


class ForestPlacing(Placing):
    """Edits the trees and scenes of one memory inside one write transaction.

    It is the `Places` of its `Clusters`, which are read when the first scene changes.
    """

    def __init__(self, tx: Tx, settings: MemForestSettings) -> None:
        self._tx = tx
        self._settings = settings
        self._arena = SqliteArena(tx, ("chunk",) if settings.chunks == "summarised" else ())
        self._heads: dict[tuple[str, int], TreeHead] = {}
        self._scopes: dict[int, tuple[str, int]] = {}
        self._touched: set[int] = set()
        self._lifted: dict[int, tuple[list[tuple[str, int]], str, Vector | None]] = {}
        """Facts whose leaves were removed: the scopes of their trees, their old text, and their old vector."""
        self._lost: set[int] = set()
        """Entities in whose trees a fact has lost its leaf."""
        self._clusters: Clusters | None = None

    def leave(self, items: Items) -> None:
        """Take the leaves of chunks and facts out of the forest while their keys are those of the leaves."""
        for chunk in items.get("chunk", ()):
            for tree, leaf in placements(self._tx, OWNER, "chunk", chunk):
                self._take_out(tree, leaf)
        for fact, row in facts_rows.facts_with_ids(self._tx, items.get("fact", ())).items():
            placed = placements(self._tx, OWNER, "fact", fact)
            scopes = [self._scope_of(tree) for tree, _ in placed]
            vector = derived.vectors_of_items(self._tx, "fact", (fact,)).get(fact)
            self._lifted.setdefault(fact, (scopes, row.text, vector))
            self._lost |= {scope for kind, scope in scopes if kind == "entity"}
            for tree, leaf in placed:
                self._take_out(tree, leaf)

    def place(self, items: Items) -> None:
        """Give chunks and facts their leaves, entities their trees, and facts their scenes."""
        chunks = items.get("chunk", ())
        placed = placements_of(self._tx, OWNER, "chunk", chunks)
        for chunk, session, key, span in memforest_rows.finished_chunks(self._tx, chunks):
            # A chunk with a leaf failed before, and stands where it stood.
            if not placed[chunk]:
                self._insert("session", session, key, span, "chunk", chunk)
        noted = items.get("fact", ())
        facts = self._place_facts(noted)
        if changed := self._lost | set(items.get("entity", ())):
            self._reconsider(changed)
            self._lost.clear()
        model = meta.get(self._tx, "embedder")
        # Also if all of them are gone: a young memory's scenes follow from what is left.
        if model is not None and noted:
            new = memforest_rows.fact_vectors(self._tx, unrouted=facts)
            routed = meta.get(self._tx, ROUTED) == model
            if not routed or int(self.loaded().sizes.sum()) + len(new) <= YOUNG:
                self.derive_scenes()
            elif new:
                self.loaded().route(self._in_time(new), scene_thresholds(model, self._settings))

    def close(self) -> Placed:
        """Write every changed node, head and centroid back; trees that lost their last leaf go."""
        for fact in list(self._lifted):
            self._leave_scenes(fact)
        if self._lost:  # nothing was placed: the index is behind
            self._reconsider(self._lost)
        if self._clusters is not None:
            for scene in sorted(self._clusters.changed & set(self._clusters.ids)):
                memforest_rows.put_scene(self._tx, scene, *self._clusters.mean(scene))
        for (kind, scope), head in list(self._heads.items()):
            if head.tree and head.root is None:
                self._drop_tree(kind, scope, head)
        for (kind, scope), head in self._heads.items():
            if head.tree in self._touched:
                trees_rows.put_head(self._tx, OWNER, kind, scope, head)
        self._arena.flush()
        return Placed(self._arena.written, frozenset(self._touched))

    def _place_facts(self, noted: Sequence[int]) -> list[int]:
        """Place facts in the order in which they were noted, and return those that are stored and not hidden."""
        stored = shown_facts(self._tx, noted)
        # Of what is hidden there are mentions too: who takes part does so whatever of it is shown.
        named: dict[int, set[int]] = {fact: set() for fact in noted}
        for fact_id, entity in mentions(self._tx, noted, hidden=True):
            named[fact_id].add(entity)
        placed = placements_of(self._tx, OWNER, "fact", stored)
        entities = set[int]().union(*named.values())
        participants, active = memforest_rows.known_entities(self._tx, entities)
        if new := participants - active:
            memforest_rows.set_active(self._tx, new)
            active |= new
        for fact_id in noted:
            fact = stored.get(fact_id)
            if fact is None:
                self._leave_scenes(fact_id)
            else:
                self._place_fact(fact, named[fact_id], active, placed[fact_id])
        for entity in sorted(new):
            self._fill(entity)
        for entity in sorted(entities - active):
            if self._known_enough(entity):
                memforest_rows.set_active(self._tx, (entity,))
                self._fill(entity)
        return [fact_id for fact_id in noted if fact_id in stored]

    def _place_fact(
        self, fact: FactRow, named: set[int], active: set[int], leaves: Sequence[tuple[int, int]]
    ) -> None:
        """Insert a fact in the trees that it was lifted from, and in that of every active entity it names; in no others.

        `leaves` are the trees and leaves that it has.
        """
        if fact.row in self._lifted:
            scopes, text, _ = self._lifted[fact.row]
            if text == fact.text:
                del self._lifted[fact.row]
            else:
                self._leave_scenes(fact.row)  # its vector is another one now
            for kind, scope in scopes:
                if text == fact.text or kind != "scene":
                    self._insert(kind, scope, fact.leaf_key, fact.leaf_span, "fact", fact.row)
            leaves = placements(self._tx, OWNER, "fact", fact.row)
        stands: set[int] = set()
        for tree, leaf in leaves:
            kind, scope = self._scope_of(tree)
            if kind == "entity" and scope in named:
                stands.add(scope)
            elif kind == "entity":
                self._take_out(tree, leaf)
                self._lost.add(scope)
        for entity in sorted((named & active) - stands):
            self._insert("entity", entity, fact.leaf_key, fact.leaf_span, "fact", fact.row)

    def _fill(self, entity: int) -> None:
        """Give every fact that names an active entity a leaf in its tree, where it has none yet."""
        found = shown_facts(self._tx, facts_rows.entity_facts(self._tx, entity))
        for fact in sorted(found.values(), key=lambda f: f.leaf_key):
            tree = self._head("entity", entity).tree
            if tree not in dict(placements(self._tx, OWNER, "fact", fact.row)):
                self._insert("entity", entity, fact.leaf_key, fact.leaf_span, "fact", fact.row)

    def _reconsider(self, entities: Collection[int]) -> None:
        """Take the tree away from entities that are gone or no longer known well enough; participants keep theirs."""
        participants, active = memforest_rows.known_entities(self._tx, entities)
        for entity in sorted(participants - active):
            memforest_rows.set_active(self._tx, (entity,))
            self._fill(entity)
        for entity in sorted(active - participants):
            if not self._known_enough(entity):
                self._drop_tree("entity", entity, self._head("entity", entity))
                self._tx.execute("DELETE FROM ix_memforest_active WHERE entity = ?", (entity,))

    def _known_enough(self, entity: int) -> bool:
        least = self._settings.active_min_facts, self._settings.active_min_sessions
        facts, sessions = meta.entity_support(self._tx, entity, max(least))
        return facts >= least[0] and sessions >= least[1]

    def derive_scenes(self) -> None:
        """Route every fact that has a vector anew, in time order, and change the stored scenes into the result.

        Only the facts that differ move: a wanted scene takes the number of the stored one with which it shares most.
        """
        model = meta.get(self._tx, "embedder")
        if model is None:
            return
        facts = self._in_time(memforest_rows.fact_vectors(self._tx))
        thresholds = scene_thresholds(model, self._settings)
        stored, wanted = memforest_rows.all_members(self._tx), derive(facts, thresholds)
        number = _numbers(stored, wanted)
        kept = {scene: wanted[at] for at, scene in number.items()}
        for scene, members in stored.items():
            for fact in members:
                if members[fact] != kept.get(scene, {}).get(fact):
                    self.take(scene, fact)
            if scene not in kept:
                self.end(scene)
        vectors = {one.fact: one.vector for one in facts}
        for at, members in enumerate(wanted):
            scene = number[at] if at in number else self.begin()
            for fact, main in members.items():
                if stored.get(scene, {}).get(fact) != main:
                    self.put(scene, fact, main=main)
            rows = np.stack([vectors[fact] for fact in members]).astype(np.float64)
            memforest_rows.put_scene(self._tx, scene, len(members), rows.mean(axis=0).astype(np.float32))
        if meta.get(self._tx, ROUTED) != model:
            memforest_rows.set_models(self._tx, model)
        meta.put(self._tx, ROUTED, model)
        meta.put(self._tx, THRESHOLDS, json.dumps(asdict(thresholds), sort_keys=True))
        self._clusters = None

    def loaded(self) -> Clusters:
        """Return the scenes as they stand; the first time they are read."""
        if self._clusters is None:
            self._clusters = Clusters(self, *memforest_rows.centroids(self._tx))
        return self._clusters

    def _leave_scenes(self, fact: int) -> None:
        """Take a lifted fact out of its scenes, using the vector that it was routed by.

        Raises:
            LookupError: if it is in a scene, and has no vector to be taken out of the centroid.
        """
        if fact not in self._lifted:
            return
        _, _, vector = self._lifted.pop(fact)
        for scene in memforest_rows.scenes_of(self._tx, fact):
            if vector is None:
                raise LookupError(f"fact {fact} is in a scene and has no vector")
            self.loaded().leave(scene, fact, vector)

    def begin(self) -> int:
        """Insert an empty scene and return its id, which no scene of this file has had."""
        scene = meta.take_ids(self._tx, "ix_memforest_scene")
        model = meta.get(self._tx, "embedder") or ""
        self._tx.execute("INSERT INTO ix_memforest_scene VALUES (?, ?, 0, x'')", (scene, model))
        return scene

    def end(self, scene: int) -> None:
        """Delete an empty scene."""
        self._tx.execute("DELETE FROM ix_memforest_scene WHERE id = ?", (scene,))

    def put(self, scene: int, fact: int, *, main: bool) -> None:
        """Put a fact into a scene, and give it a leaf in the scene's tree."""
        if memforest_rows.add_member(self._tx, scene, fact, main=main):
            row = facts_rows.facts_with_ids(self._tx, (fact,))[fact]
            self._insert("scene", scene, row.leaf_key, row.leaf_span, "fact", fact)

    def take(self, scene: int, fact: int) -> None:
        """Take a fact out of a scene, and its leaf out of the scene's tree."""
        sql = "DELETE FROM ix_memforest_scene_member WHERE fact = ? AND scene = ?"
        self._tx.execute(sql, (fact, scene))
        tree = self._head("scene", scene).tree
        leaf = dict(placements(self._tx, OWNER, "fact", fact)).get(tree)
        if leaf is not None:  # else it was lifted
            self._take_out(tree, leaf)

    def members(self, scene: int) -> list[Member]:
        """Return a scene's facts in time order."""
        return self._in_time(memforest_rows.fact_vectors(self._tx, scene=scene))

    def hull(self, scene: int) -> tuple[int, int]:
        """Return the interval of all leaves of a scene, in ms.

        Raises:
            KeyError: if the scene has no tree.
        """
        root = self._head("scene", scene).root
        if root is None:
            raise KeyError(scene)
        node = self._arena.get(root)
        return node.start_ms, node.end_ms

    def _in_time(self, vectors: Mapping[int, tuple[Vector, bool]]) -> list[Member]:
        """Return facts in time order: by their place among a tree's leaves."""
        facts = facts_rows.facts_with_ids(self._tx, vectors).values()
        return [
            Member(fact.row, vectors[fact.row][0], *fact.leaf_span, vectors[fact.row][1])
            for fact in sorted(facts, key=attrgetter("leaf_key", "fact_id"))
        ]

    def _drop_tree(self, kind: str, scope: int, head: TreeHead) -> None:
        self._arena.flush()
        if head.tree:
            trees_rows.drop_tree(self._tx, head)
            self._scopes.pop(head.tree, None)
            self._touched.discard(head.tree)
        self._heads.pop((kind, scope), None)

    def _head(self, kind: str, scope: int) -> TreeHead:
        if (kind, scope) not in self._heads:
            head = trees_rows.find_head(self._tx, OWNER, kind, scope)
            head = head or TreeHead(0, getattr(self._settings, f"{kind}_k"))
            self._heads[kind, scope] = head
            self._scopes[head.tree] = kind, scope
        return self._heads[kind, scope]

    def _insert(
        self, kind: str, scope: int, key: Key, span: tuple[int, int], item_kind: str, item: int
    ) -> None:
        """Give an item a leaf in the tree of a scope, which is made if it is the first."""
        head = self._head(kind, scope)
        if head.tree == 0:
            head = trees_rows.put_head(self._tx, OWNER, kind, scope, head)
            self._scopes[head.tree] = kind, scope
        head, _ = insert(
            self._arena, head, key=key, start_ms=span[0], end_ms=span[1], item_kind=item_kind, item=item
        )
        self._heads[kind, scope] = head
        self._touched.add(head.tree)

    def _take_out(self, tree: int, leaf: int) -> None:
        """Take a leaf out of a tree."""
        kind, scope = self._scope_of(tree)
        self._heads[kind, scope] = delete(self._arena, self._head(kind, scope), self._arena.get(leaf).key)
        self._touched.add(tree)

    def _scope_of(self, tree: int) -> tuple[str, int]:
        if tree not in self._scopes:
            kind, scope, head = trees_rows.head_of(self._tx, tree)
            self._heads[kind, scope] = head
            self._scopes[tree] = kind, scope
        return self._scopes[tree]


def _numbers(
    stored: Mapping[int, Mapping[int, bool]], wanted: Sequence[Mapping[int, bool]]
) -> dict[int, int]:
    """Map positions of wanted scenes to the stored scenes with which they share most; each stored scene is used once."""
    was: dict[int, list[int]] = {}
    for scene, facts in stored.items():
        for fact in facts:
            was.setdefault(fact, []).append(scene)
    shared = Counter(
        (at, scene) for at, one in enumerate(wanted) for fact in one for scene in was.get(fact, ())
    )
    number: dict[int, int] = {}
    for _, at, scene in sorted((-count, at, scene) for (at, scene), count in shared.items()):
        if at not in number and scene not in number.values():
            number[at] = scene
    return number


MOST_LEAVES = 4_096
"""Leaves that are copied in one transaction: about a tenth of a second's work."""
LEAST_FACTS = 20
"""Facts of the smallest scene that is taken over. What facts are alike is measured from what all of a memory has in
common, which is another thing in the merged one: there the facts of one of the two are more alike, and would stand in
fewer scenes. So those of smaller scenes are routed anew, which leads to as many scenes as ingesting everything does
(within 5%, `benchmarks/merging.py`; with all scenes taken over there are 15 to 25% more trees)."""


def merge_forest(copied: Copied, settings: MemForestSettings) -> Iterator[Callable[[Tx], int]]:
    """Yield pieces of work that take over the trees of another memory that hold here unchanged; see `Index.merge`."""
    ready = list(_ready(copied))
    for part in _parts([one for one in ready if one.kind != "scene"]):
        yield partial(_take_over, copied=copied, grafts=part)
    scenes = [one for one in ready if one.kind == "scene" and one.head.count >= LEAST_FACTS]
    if meta.get(copied.source, ROUTED) is not None and scenes:
        scenes.sort(key=lambda one: -one.head.count)
        yield partial(_take_over_scenes, copied=copied, grafts=scenes, settings=settings)


def _ready(copied: Copied) -> Iterator[Graft]:
    """Yield the trees that are the same here as in the other memory; a scene's scope is still the other memory's."""
    leaves = leaf_rows(copied.source, OWNER)
    scopes: dict[str, Mapping[int, int]] = {"session": copied.sessions, "entity": copied.entities}
    for kind, scope, head in trees_rows.heads(copied.source, OWNER):
        here = scope if kind == "scene" else scopes[kind].get(scope)
        moved = _moved(leaves.get(head.tree, ()), copied)
        if here is not None and moved is not None and len(moved) == head.count:
            yield Graft(head, kind, here, moved)


def _moved(leaves: Sequence[LeafRow], copied: Copied) -> tuple[LeafRow, ...] | None:
    """Translate the items of leaves to this memory; None if one of them is missing here."""
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
    """Copy scenes with their trees, as far as there is room, and merge scenes that are alike.

    There are `MAX_SCENES` at most, of as many facts each, so this is one transaction.
    """
    model = meta.get(tx, "embedder")
    if model is None or not _same_vectors(tx, copied):
        return 0
    grafts = grafts[: max(0, MAX_SCENES - memforest_rows.counts(tx)["scenes"])]
    if not grafts:
        return 0
    stored = {scene: (size, mean) for scene, _, size, mean in memforest_rows.all_scenes(copied.source)}
    members = memforest_rows.all_members(copied.source)
    at_home = {fact for one in grafts for fact, main in members[one.scope].items() if main}
    placing = ForestPlacing(tx, settings)
    numbers = [placing.begin() for _ in grafts]
    for one, scene in zip(grafts, numbers, strict=True):
        memforest_rows.put_scene(tx, scene, *stored[one.scope])
        for fact, main in members[one.scope].items():
            # A fact whose main scene is not taken over has its second one here.
            memforest_rows.add_member(tx, scene, copied.facts[fact], main=main or fact not in at_home)
    moved = [one._replace(scope=scene) for one, scene in zip(grafts, numbers, strict=True)]
    graft(tx, copied.source, OWNER, moved, copied.session_ids, vectors=True)
    # Facts that came and stand in no scene are routed by the next placing; no others may be left.
    if meta.get(tx, ROUTED) is None and set(memforest_rows.outside(tx)) <= set(copied.facts.values()):
        meta.put(tx, ROUTED, model)
    placing.loaded().route((), scene_thresholds(model, settings), numbers)  # alike scenes become one
    placing.close()
    return len(moved)


def _same_vectors(tx: Tx, copied: Copied) -> bool:
    return meta.get(tx, "embedder") == meta.get(copied.source, "embedder")


CENTROID_ERROR = 2.0**-11
"""By how much a coordinate of a centroid may be off: it is updated in float32, once per fact that comes or goes, and
older versions made it of wider vectors, of which half precision moves a coordinate by 2^-11 at most."""


def check_forest(tx: Tx, settings: MemForestSettings) -> list[IndexProblem]:
    """Return everything that is wrong with fan-outs, placements and scenes; the shape of trees is every index's."""
    fan_outs = [
        f"{kind} tree {scope} has a fan-out of {head.k}, which is not the memory's"
        for kind, scope, head in trees_rows.heads(tx, OWNER)
        if head.k != getattr(settings, f"{kind}_k", head.k)
    ]
    placed = memforest_rows.placement_problems(tx)
    # The chunks, and they alone among leaves, have summaries where they are to have some.
    wanted = settings.chunks == "summarised"
    for chunk in memforest_rows.unmarked_chunks(tx) if wanted else ():
        placed.append(f"chunk {chunk} has a leaf that is not marked for its summary")
    for leaf in memforest_rows.marked_leaves(tx, chunks=not wanted):
        placed.append(f"leaf {leaf} is marked for a summary, which it is not to have")
    parts = {"tree": fan_outs, "placement": placed, "scene": _scenes(tx)}
    return [IndexProblem(part, message) for part, messages in parts.items() for message in messages]


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
        vectors = [vector for vector, _ in memforest_rows.fact_vectors(tx, scene=scene).values()]
        if len(vectors) < size:
            continue  # a missing vector is made anew by the next write; nothing can be compared till then
        mean = np.mean(vectors, axis=0)
        if mean.shape != centroid.shape or not np.allclose(mean, centroid, atol=CENTROID_ERROR):
            messages.append(f"scene {scene}: the centroid is not the mean of its facts' vectors")
    return messages + memforest_rows.membership_problems(tx, routed=meta.get(tx, ROUTED) is not None)
