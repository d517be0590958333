"""Structural edits of the forest inside one write transaction: where cells and facts get their leaves.

Session trees hold a session's dialogue cells; entity trees hold the facts that name an entity, and every
participant has one. An entity gets its tree when enough is known of it (`MemForestSettings.active_min_facts` facts
from `active_min_sessions` sessions) and is then back-filled with all that was said before. Scene trees hold the facts of
a scene, which `memforest.systems.memforest.scenes` decides. Routing makes no model call (paper §4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from memforest.config import Config
from memforest.store import facts as fact_rows
from memforest.store import trees as tree_rows
from memforest.store.db import Tx
from memforest.store.facts import FactRow
from memforest.store.leaves import placements
from memforest.store.trees import SqliteArena
from memforest.systems.memforest.scenes import Scenes
from memforest.systems.memforest.settings import settings_of
from memforest.tree import Key, TreeHead, delete, insert

__all__ = ["ForestWriter", "TreeKind"]

TreeKind = Literal["session", "entity", "scene"]


class ForestWriter:
    """Edits the trees of one memory; call `close` before the transaction ends.

    `written` counts the node rows written and `touched` the trees that changed. `scenes` are the memory's.
    """

    def __init__(self, tx: Tx, config: Config) -> None:
        self._tx = tx
        self._settings = settings_of(config)
        self._arena = SqliteArena(tx)
        self._heads: dict[tuple[str, int], TreeHead] = {}
        self._scopes: dict[int, tuple[str, int]] = {}
        self.touched: set[int] = set()
        self.scenes = Scenes(tx, self)

    @property
    def written(self) -> int:
        """Node rows written so far, after `close`."""
        return self._arena.written

    # -- cells --------------------------------------------------------------------------------

    def place_cell(self, session: int, cell: int, key: Key, start_ms: int, end_ms: int) -> None:
        """Give a cell its leaf in the tree of its session."""
        self._insert("session", session, key, start_ms, max(end_ms, start_ms + 1), "cell", cell)

    def remove_cell(self, cell: int) -> None:
        """Take a cell's leaves out of the forest."""
        self._remove("cell", cell)

    # -- facts --------------------------------------------------------------------------------

    def place_fact(self, fact: FactRow, entities: Iterable[int]) -> None:
        """Give a fact a leaf in the tree of each of the entities, where it has none yet."""
        start_ms, end_ms = fact.leaf_span
        placed = {tree for tree, _ in placements(self._tx, "fact", fact.row)}
        for entity in sorted(set(entities)):
            if self._head("entity", entity).tree not in placed:
                self._insert("entity", entity, fact.leaf_key, start_ms, end_ms, "fact", fact.row)

    def remove_fact(self, fact: int) -> None:
        """Take a fact out of its scenes and its leaves out of the forest; its vector is still stored."""
        self.scenes.leave(fact)
        self._remove("fact", fact)

    def withdraw_fact(self, fact: int, named: Collection[int]) -> None:
        """Take a fact's leaves out of the trees of all but the entities that it names; scenes keep theirs."""
        for tree, leaf in placements(self._tx, "fact", fact):
            kind, scope = self._scope_of(tree)
            if kind == "entity" and scope not in named:
                self._take_out(tree, leaf)

    def lift_fact(self, fact: int) -> list[tuple[str, int]]:
        """Take a fact's leaves out of their trees before its time, text or place changes; return kinds and scopes."""
        scopes = [self._scope_of(tree) for tree, _ in placements(self._tx, "fact", fact)]
        self._remove("fact", fact)
        return scopes

    def put_back(self, fact: FactRow, scopes: Iterable[tuple[str, int]]) -> None:
        """Give a fact that was lifted its leaves again, where it stands in time now."""
        start_ms, end_ms = fact.leaf_span
        for kind, scope in scopes:
            self._insert(kind, scope, fact.leaf_key, start_ms, end_ms, "fact", fact.row)

    def activate(self, candidates: Iterable[int]) -> list[int]:
        """Give every entity of `candidates` that has become known well enough its tree; return those."""
        new = []
        for entity in sorted(set(candidates)):
            if not self._known_enough(entity):
                continue
            fact_rows.set_active(self._tx, entity, True)
            self.fill(entity)
            new.append(entity)
        return new

    def fill(self, entity: int) -> None:
        """Give every fact that names an active entity a leaf in its tree, where it has none yet."""
        found = fact_rows.facts_with_ids(self._tx, fact_rows.entity_facts(self._tx, entity))
        for fact in sorted(found.values(), key=lambda f: f.leaf_key):
            self.place_fact(fact, (entity,))

    def reconsider(self, entities: Iterable[int]) -> None:
        """Take the tree away from entities that are no longer known well enough; participants keep theirs."""
        for entity in sorted(set(entities)):
            row = fact_rows.entity_with_row(self._tx, entity)
            if row.active and row.kind != "participant" and not self._known_enough(entity):
                self._drop_tree("entity", entity, self._head("entity", entity))
                fact_rows.set_active(self._tx, entity, False)

    def demote(self, entity: int) -> None:
        """Treat a participant who no longer speaks like any entity: a tree only when known well enough."""
        fact_rows.demote(self._tx, entity)
        if not self.activate((entity,)):
            self._drop_tree("entity", entity, self._head("entity", entity))

    def _known_enough(self, entity: int) -> bool:
        facts, sessions = fact_rows.entity_support(self._tx, entity)
        return facts >= self._settings.active_min_facts and sessions >= self._settings.active_min_sessions

    # -- scenes -------------------------------------------------------------------------------

    def place_in_scene(self, scene: int, fact: FactRow) -> None:
        """Give a fact a leaf in the tree of a scene."""
        start_ms, end_ms = fact.leaf_span
        self._insert("scene", scene, fact.leaf_key, start_ms, end_ms, "fact", fact.row)

    def take_from_scene(self, scene: int, fact: int) -> None:
        """Take a fact's leaf out of the tree of a scene."""
        tree = self._head("scene", scene).tree
        leaf = dict(placements(self._tx, "fact", fact))[tree]
        self._take_out(tree, leaf)

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

    # -- trees --------------------------------------------------------------------------------

    def close(self) -> None:
        """Write every changed node, head and centroid back; trees that lost their last leaf go."""
        self.scenes.save()
        for (kind, scope), head in list(self._heads.items()):
            if head.tree and head.root is None:
                self._drop_tree(kind, scope, head)
        for (kind, scope), head in self._heads.items():
            if head.tree in self.touched:
                tree_rows.put_head(self._tx, kind, scope, head)
        self._arena.flush()

    def _drop_tree(self, kind: str, scope: int, head: TreeHead) -> None:
        self._arena.flush()
        if head.tree:
            tree_rows.drop_tree(self._tx, head)
            self._scopes.pop(head.tree, None)
            self.touched.discard(head.tree)
        self._heads.pop((kind, scope), None)

    def _head(self, kind: str, scope: int) -> TreeHead:
        head = self._heads.get((kind, scope))
        if head is None:
            head = tree_rows.find_head(self._tx, kind, scope) or TreeHead(0, self._fan_out(kind))
            self._keep(kind, scope, head)
        return head

    def _fan_out(self, kind: str) -> int:
        own = self._settings
        return {"session": own.session_k, "entity": own.entity_k, "scene": own.scene_k}[kind]

    def _keep(self, kind: str, scope: int, head: TreeHead) -> None:
        self._heads[kind, scope] = head
        if head.tree:
            self._scopes[head.tree] = (kind, scope)

    def _insert(
        self, kind: str, scope: int, key: Key, start_ms: int, end_ms: int, item_kind: str, item: int
    ) -> None:
        head = self._head(kind, scope)
        if head.tree == 0:
            head = tree_rows.put_head(self._tx, kind, scope, head)
        head, _ = insert(
            self._arena, head, key=key, start_ms=start_ms, end_ms=end_ms, item_kind=item_kind, item=item
        )
        self._keep(kind, scope, head)
        self.touched.add(head.tree)

    def _remove(self, item_kind: str, item: int) -> None:
        for tree, leaf in placements(self._tx, item_kind, item):
            self._take_out(tree, leaf)

    def _take_out(self, tree: int, leaf: int) -> None:
        kind, scope = self._scope_of(tree)
        head = delete(self._arena, self._head(kind, scope), self._arena.get(leaf).key)
        self._keep(kind, scope, head)
        self.touched.add(tree)

    def _scope_of(self, tree: int) -> tuple[str, int]:
        if tree not in self._scopes:
            kind, scope, head = tree_rows.head_of(self._tx, tree)
            self._keep(kind, scope, head)
        return self._scopes[tree]
