"""Pages of a memory's trees and facts: the list of trees, one tree on a time axis, facts with sources and history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from itertools import groupby
from typing import Any

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.stored import FactView, Source, TreeView, TurnView
from memforest.server.ui.visit import PAGE, AxisSpan, PageOf, PageRequest, draw, plain
from memforest.settings import MAX_PAGE
from memforest.times import local_time

MOST_CHILDREN = 500
"""Most nodes below one that are shown at once, 50 a page."""
MOST_LEVELS = 100
_MOST_NODE = 2**53


async def forest(visit: PageRequest) -> Response:
    """Show the trees of a memory by kind, largest first where there are many, and its counts."""
    user, memory = visit.user, visit.memory
    index = visit.given("index")
    stats = await memory.stats()
    there = sum(
        count for name, kinds in stats.trees.items() if index in (None, name) for count in kinds.values()
    )
    trees = await memory.tree(index=index, depth=0, limit=2 * PAGE) if there else []
    kinds = [
        (kind, list(views)) for kind, views in groupby(trees, key=lambda view: view.title.partition(" ")[0])
    ]
    zone = visit.forest.config.zone
    pictures = {kind: draw([_piece(view, zone) for view in views], zone) for kind, views in kinds}
    counts: Counter[str] = Counter()
    for name, numbers in stats.trees.items():
        if index in (None, name):
            counts.update(numbers)
    return visit.page(
        "forest.html",
        user=user,
        here="forest",
        stats=stats,
        kinds=kinds,
        pictures=pictures,
        counts=counts,
        index=index,
        shown=len(trees),
        there=there,
    )


async def tree(visit: PageRequest) -> Response:
    """Show a node and its descendants on a time axis; `node` is its path from the root, as numbers with dots."""
    user, memory = visit.user, visit.memory
    way = _way(visit.given("node"))
    if not way:
        scope, index = visit.needed("scope"), visit.given("index")
        found = await memory.tree(scope, index=index, depth=0, limit=2 * PAGE)
        if len(found) > 1:
            return visit.page("trees.html", user=user, here="forest", scope=scope, found=found)
        way = [found[0].node_id or 0]
    above = await _ancestors(memory, way)
    [node] = await memory.tree(node=way[-1], depth=1, limit=MOST_CHILDREN)
    at = visit.number("from", 0, MOST_CHILDREN)
    shown = node.children[at : at + PAGE]
    more = str(at + PAGE) if at + PAGE < len(node.children) else None
    zone = visit.forest.config.zone
    picture = draw([_piece(one, zone) for one in (node, *shown)], zone)
    return visit.page(
        "tree.html",
        user=user,
        here="forest",
        above=above,
        node=node,
        way=".".join(map(str, way)),
        found=PageOf(shown, len(node.children), more, at == 0),
        drawn=picture,
        folded=bool(node.level) and not node.children,
    )


async def find(visit: PageRequest) -> Response:
    """Find a tree by its exact name, and entities by words of their names."""
    user, memory, wanted = visit.user, visit.memory, visit.needed("q")
    try:
        trees: Sequence[TreeView] = await memory.tree(wanted, depth=0, limit=PAGE)
    except NotFoundError:
        await memory.entities(query=wanted, limit=1)  # the user, too, may be what is not there
        trees = ()
    entities = await memory.entities(query=wanted, limit=PAGE)
    return visit.page("find.html", user=user, here="forest", q=wanted, trees=trees, entities=entities)


async def _ancestors(memory: AsyncUserMemory, way: Sequence[int]) -> list[tuple[str, TreeView]]:
    """Return the ancestors of the last node of a path, each with its own path.

    Raises:
        NotFoundError: if there is no such path.
    """
    above = []
    for depth, number in enumerate(way[:-1], 1):
        [view] = await memory.tree(node=number, depth=1, limit=MOST_CHILDREN)
        if view.children and way[depth] not in {one.node_id for one in view.children}:
            raise NotFoundError("there is no such way through this tree; it may have grown since")
        above.append((".".join(map(str, way[:depth])), view))
    return above


def _way(given: str | None) -> list[int]:
    """Return the numbers of a node's path.

    Raises:
        InputError: if it is none.
    """
    if given is None:
        return []
    parts = given.split(".")
    good = all(one.isascii() and one.isdigit() and len(one) < 17 for one in parts)
    if not good or len(parts) > MOST_LEVELS or not all(0 < int(one) < _MOST_NODE for one in parts):
        raise InputError("node: give numbers of nodes with dots between them")
    return [int(one) for one in parts]


def _piece(view: TreeView, zone: tzinfo) -> AxisSpan:
    name = (
        view.title
        or f"{f'level {view.level}' if view.level else 'leaf'}, {local_time(view.start, zone):%Y-%m-%d}"
    )
    kind = "dirty" if view.dirty else "leaf" if not view.level else "node"
    said = "out of date" if view.dirty else ""
    return AxisSpan(plain(name, 60), view.start, view.end, kind, plain(view.summary, 200), said=said)


MOST_SOURCES = 20
"""Most turns of sources that are quoted whole."""


async def facts(visit: PageRequest) -> Response:
    """Show facts in time order, optionally of an entity, of a session, or as of a time."""
    asked = {
        name: visit.given(name)
        for name in ("entity", "session_id", "as_of", "said_by", "known_at", "verdict")
    }
    cursor = visit.given("from")
    page = await visit.memory.list(limit=PAGE, cursor=cursor, **asked)  # type: ignore[arg-type]  # checked there
    found = PageOf(page.facts, page.total, page.next_cursor, cursor is None)
    return visit.page(
        "facts.html", user=visit.user, here="facts", found=found, asked=asked, warnings=page.warnings
    )


async def fact(visit: PageRequest) -> Response:
    """Show one fact."""
    memory, fact_id = visit.memory, visit.needed("id")
    view: FactView | None
    try:
        view = await memory.get(fact_id)
    except NotFoundError:
        view = None  # a correction that was taken back has a history and is no fact any more
    history = await memory.history(fact_id)
    undone = {entry.key for entry in history if entry.kind == "undone"}
    sources = await _quoted(memory, view.sources) if view is not None else []
    return visit.page(
        "fact.html",
        user=visit.user,
        here="facts",
        fact_id=fact_id,
        fact=view,
        history=history,
        undone=undone,
        sources_=sources,
        done=visit.given("done"),
    )


async def _quoted(memory: AsyncUserMemory, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the turns that support a fact; `turn` is None for a deleted one, and beyond the most that are quoted."""
    found: list[dict[str, Any]] = []
    for source in sources:
        turns: dict[str, TurnView] = {}
        if len(found) < MOST_SOURCES:
            turns = {one.id: one for one in await memory.turns(source.session_id, limit=MAX_PAGE)}
        for turn_id in source.turn_ids:
            turn = turns.get(turn_id) if len(found) < MOST_SOURCES else None
            found.append({"session_id": source.session_id, "turn_id": turn_id, "turn": turn})
    return found
