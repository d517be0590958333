"""A tree by the calendar with texts that are given, so that recall is tested apart from what writes memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timezone
from types import MappingProxyType
from typing import Any, ClassVar

from tests_long.worlds import fast_config

from memforest import Config
from memforest.config import Recall
from memforest.nodes import Node, TreeHead
from memforest.reading.periods import window_of
from memforest.search.filters import IndexResult, Prepared, RefineCandidate, Refinement, Search
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import digest
from memforest.settings import Settings
from memforest.store import derived, indexes
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Kind
from memforest.store.trees import SqliteArena
from memforest.times import from_ms
from memforest.trees import timem_leaves, timem_recall
from memforest.trees.index import Host, Index
from memforest.trees.node import Contract

__all__ = ["CalendarTree", "TreeSettings", "Written", "configured"]

UNITS: Mapping[int, Any] = {2: "day", 3: "week_of_month", 4: "month", 5: "year"}


@dataclass(frozen=True)
class Written:
    """A node of the tree: its level, the key of its window or the id of its session, and the turns below it."""

    level: int
    key: str
    turns: Sequence[str]


def every(node: Written) -> str | None:
    """Return a text of each memory from the session to the month."""
    return f"Level {node.level} of {node.key}: {node.turns[0]}" if 1 <= node.level <= 4 else None


@dataclass(frozen=True, slots=True)
class TreeSettings(Settings):
    """How the tree is recalled, and what its memories say."""

    recall: Recall = field(default_factory=Recall)


class CalendarTree(Index):
    """Segments of two turns below sessions, days, weeks, months and years; made anew with every write."""

    name = "timem"
    follows = frozenset[Kind]({"turn"})
    deferred = True
    Settings = TreeSettings
    contracts = MappingProxyType({"calendar": Contract("contained")})
    texts: ClassVar[Callable[[Written], str | None]] = staticmethod(every)
    """What each node says; None for nothing."""
    size: ClassVar[int] = 2
    skip: ClassVar[frozenset[str]] = frozenset()
    """Sessions that are not placed."""
    shapes: ClassVar[Callable[[Written], bool]] = staticmethod(lambda node: False)
    """Which nodes are out of date."""

    async def advance(self, host: Host, until: int) -> None:
        """Make the whole tree."""
        made: list[tuple[int, str]] = []

        def work(tx: Tx) -> None:
            made[:] = _planted(tx, type(self))
            indexes.move(tx, self.name, until)

        await host.write(work)
        if host.embeds and made:
            vectors = await host.embed_texts([text for _, text in made])
            rows = [(node, digest(text), one) for (node, text), one in zip(made, vectors, strict=True)]
            await host.write(lambda tx: derived.put_vectors(tx, "node", rows))

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Plan the recall."""
        return await timem_recall.prepare(host, request, self.settings.recall)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Recall."""
        return timem_recall.find(tx, snapshot, request, self.settings.recall)

    async def refine(
        self, host: Host, request: Search, found: Sequence[RefineCandidate]
    ) -> Refinement | None:
        """Gate."""
        return await timem_leaves.refine(host, request, found, self.settings.recall)


def configured(own: Recall | None = None, **more: Any) -> Config:
    """Return the configuration of a memory with this index."""
    settings = {"timem": TreeSettings(recall=own or Recall())}
    return fast_config(**{"indexes": ("timem",), "index_settings": settings, **more})


def _planted(tx: Tx, kind: type[CalendarTree]) -> list[tuple[int, str]]:
    """Write the tree, and return what its nodes say."""
    tree_rows.drop_trees(tx, "timem")
    head = tree_rows.put_head(tx, "timem", "calendar", 0, TreeHead(0, 0))
    arena = SqliteArena(tx, summarised={"turn"})
    nodes: dict[tuple[int, str], tuple[Node, list[str]]] = {}
    for session, turns in _sessions(tx):
        if session in kind.skip:
            continue
        for at in range(0, len(turns), kind.size):
            part = turns[at : at + kind.size]
            texts = [text for _, _, text in part]
            leaf = _node(arena, head, 0, part, ())
            leaf.item_kind, leaf.item = "turn", part[0][0]
            leaf.item_last = part[-1][0] if len(part) > 1 else None
            nodes[0, f"{session} {at}"] = leaf, texts
            begun = from_ms(turns[0][1])
            below = leaf
            for level in range(1, 7):
                key = session if level == 1 else "all"
                if level in UNITS:
                    key = window_of(begun, UNITS[level], timezone.utc).key
                _put_above(arena, head, nodes, (level, key), below, texts)
                below = nodes[level, key][0]
    for node, _ in nodes.values():
        arena.put(node)
    arena.flush()
    root = next(node for (level, _), (node, _) in nodes.items() if level == 6) if nodes else None
    if root is not None:
        tree_rows.put_head(
            tx, "timem", "calendar", 0, TreeHead(head.tree, 0, root.id, root.level, root.count)
        )
    return _told(tx, kind, nodes)


def _told(
    tx: Tx, kind: type[CalendarTree], nodes: Mapping[tuple[int, str], tuple[Node, list[str]]]
) -> list[tuple[int, str]]:
    found = []
    for (level, key), (node, texts) in nodes.items():
        written = Written(level, key, texts)
        if (text := kind.texts(written)) is not None:
            derived.put_summary(tx, node.id, text, "by hand", "own", None)
            found.append((node.id, text))
        if kind.shapes(written):
            tree_rows.mark_dirty(tx, [node.id])
    return found


def _sessions(tx: Tx) -> Iterable[tuple[str, list[tuple[int, int, str]]]]:
    rows = tx.execute(
        """SELECT s.session_id, t.id, t.said_ms, t.text FROM turn t JOIN session s ON s.id = t.session
           ORDER BY s.id, t.ordinal"""
    ).fetchall()
    sessions: dict[str, list[tuple[int, int, str]]] = {}
    for session, row, said_ms, text in rows:
        sessions.setdefault(session, []).append((row, said_ms, text))
    return sorted(sessions.items(), key=lambda one: (one[1][0][1], one[0]))


def _node(
    arena: SqliteArena,
    head: TreeHead,
    level: int,
    turns: Sequence[tuple[int, int, str]],
    children: tuple[int, ...],
) -> Node:
    start, end = turns[0][1], turns[-1][1] + 1
    key = (start, f"{turns[0][0]:09}")
    return Node(arena.new_id(), head.tree, level, key, start, end, 1, children, None, None, 1, False)


def _put_above(
    arena: SqliteArena,
    head: TreeHead,
    nodes: dict[tuple[int, str], tuple[Node, list[str]]],
    place: tuple[int, str],
    below: Node,
    texts: Sequence[str],
) -> None:
    if place not in nodes:
        node = Node(
            arena.new_id(),
            head.tree,
            place[0],
            below.key,
            below.start_ms,
            below.end_ms,
            0,
            (),
            None,
            None,
            1,
            False,
        )
        node.window = place[1] if place[0] in UNITS else None
        nodes[place] = node, []
    node, said = nodes[place]
    node.start_ms, node.end_ms = min(node.start_ms, below.start_ms), max(node.end_ms, below.end_ms)
    node.count += 1
    if below.id not in node.children:
        node.children = (*node.children, below.id)
    said += texts
