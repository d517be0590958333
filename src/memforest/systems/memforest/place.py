"""Structural edits of the forest inside one write transaction: where cells and facts get their leaves.

Session trees hold a session's dialogue cells; entity trees hold the facts that name an entity, and every
participant has one. An entity gets its tree when enough is known of it (`MemForestSettings.active_min_facts` facts
from `active_min_sessions` sessions) and is then back-filled with all that was said before. Scene trees hold the facts
of a scene, which `memforest.systems.memforest.scenes` decides. Routing makes no model call (paper §4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.store import counts, derived, meta
from memforest.store import facts as fact_rows
from memforest.store import trees as tree_rows
from memforest.store.corrections import shown_facts
from memforest.store.facts import FactRow
from memforest.store.leaves import placements, placements_of
from memforest.store.snapshot import mentions
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.base import Items, Placed
from memforest.systems.memforest import rows
from memforest.systems.memforest.scenes import Scenes
from memforest.systems.memforest.settings import MemForestSettings
from memforest.tree import Key, TreeHead, delete, insert

OWNER = "memforest"
"""Name of the index, which owns its trees."""


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A fact whose leaves were removed: the scopes of its trees, its old text, and its old vector."""

    scopes: tuple[tuple[str, int], ...]
    text: str
    vector: NDArray[np.float32] | None


class ForestPlacing:
    """Edits the trees of one memory inside one write transaction; see `memforest.systems.base.Placing`."""

    def __init__(self, tx: Tx, settings: MemForestSettings) -> None:
        self._tx = tx
        self._settings = settings
        self._arena = SqliteArena(tx, ("cell",) if settings.cells == "summarised" else ())
        self._heads: dict[tuple[str, int], TreeHead] = {}
        self._scopes: dict[int, tuple[str, int]] = {}
        self._touched: set[int] = set()
        self._lifted: dict[int, _Lifted] = {}
        self._lost: set[int] = set()
        """Entities in whose trees a fact has lost its leaf."""
        self._scenes = Scenes(tx, self, settings)

    # -- the seam -----------------------------------------------------------------------------

    def leave(self, items: Items) -> None:
        """Take the leaves of cells and facts out of the forest while their keys are those of the leaves."""
        for cell in items.get("cell", ()):
            self._remove("cell", cell)
        for fact, row in fact_rows.facts_with_ids(self._tx, items.get("fact", ())).items():
            placed = placements(self._tx, OWNER, "fact", fact)
            scopes = tuple(self._scope_of(tree) for tree, _ in placed)
            vector = derived.vectors_of_items(self._tx, "fact", (fact,)).get(fact)
            self._lifted.setdefault(fact, _Lifted(scopes, row.text, vector))
            self._lost |= {scope for kind, scope in scopes if kind == "entity"}
            self._remove("fact", fact)

    def place(self, items: Items) -> None:
        """Give cells and facts their leaves, entities their trees, and facts their scenes."""
        for cell in rows.finished_cells(self._tx, items.get("cell", ())):
            if not placements(
                self._tx, OWNER, "cell", cell.row
            ):  # else it failed before, and stands where it stood
                start_ms, end_ms = cell.start_ms, max(cell.end_ms, cell.start_ms + 1)
                self._insert(
                    "session", cell.session, (start_ms, cell.tie), start_ms, end_ms, "cell", cell.row
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
                tree_rows.put_head(self._tx, OWNER, kind, scope, head)
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
        active = rows.active(self._tx, entities)
        new = rows.participants(self._tx, entities) - active
        rows.set_active(self._tx, new)
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
            rows.set_active(self._tx, (entity,))
            self._fill(entity)

    def _fill(self, entity: int) -> None:
        """Give every fact that names an active entity a leaf in its tree, where it has none yet."""
        found = shown_facts(self._tx, fact_rows.entity_facts(self._tx, entity))
        for fact in sorted(found.values(), key=lambda f: f.leaf_key):
            tree = self._head("entity", entity).tree
            if tree not in dict(placements(self._tx, OWNER, "fact", fact.row)):
                self._insert_fact("entity", entity, fact)

    def _reconsider(self, entities: Iterable[int]) -> None:
        """Take the tree away from entities that are gone or no longer known well enough; participants keep theirs."""
        wanted = set(entities)
        participants, active = rows.participants(self._tx, wanted), rows.active(self._tx, wanted)
        for entity in sorted(wanted & participants - active):
            rows.set_active(self._tx, (entity,))
            self._fill(entity)
        for entity in sorted(active - participants):
            if not self._known_enough(entity):
                self._drop_tree("entity", entity, self._head("entity", entity))
                rows.set_inactive(self._tx, entity)

    def _known_enough(self, entity: int) -> bool:
        least = self._settings.active_min_facts, self._settings.active_min_sessions
        facts, sessions = counts.entity_support(self._tx, entity, max(least))
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
            tree_rows.drop_tree(self._tx, head)
            self._scopes.pop(head.tree, None)
            self._touched.discard(head.tree)
        self._heads.pop((kind, scope), None)

    def _head(self, kind: str, scope: int) -> TreeHead:
        head = self._heads.get((kind, scope))
        if head is None:
            head = tree_rows.find_head(self._tx, OWNER, kind, scope) or TreeHead(0, self._fan_out(kind))
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
            head = tree_rows.put_head(self._tx, OWNER, kind, scope, head)
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
            kind, scope, head = tree_rows.head_of(self._tx, tree)
            self._keep(kind, scope, head)
        return self._scopes[tree]
