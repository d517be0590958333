"""Pages of a memory's trees and facts: the list of trees, one tree on a time axis, facts with sources and history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import tzinfo
from itertools import groupby
from typing import Any

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.stored import FactView, Source, TreeView, TurnView
from memforest.server.ui.visit import PAGE, AxisSpan, PageRequest, plain
from memforest.settings import MAX_PAGE
from memforest.times import local_time

MOST_CHILDREN = 500
"""Most nodes below one that are shown at once, 50 a page."""
MOST_LEVELS = 100
_MOST_NODE = 2**53


async def forest(visit: PageRequest) -> Response:
    """Show the trees of a memory by kind, largest first where there are many, and its counts."""
    memory, index = visit.memory, visit.given("index")
    stats = await memory.stats()
    counts: Counter[str] = Counter()
    for name, numbers in stats.trees.items():
        if index in (None, name):
            counts.update(numbers)
    trees = await memory.tree(index=index, depth=0, limit=2 * PAGE) if counts.total() else []
    zone = visit.forest.config.zone
    kinds = []
    for kind, group in groupby(trees, key=lambda view: view.title.partition(" ")[0]):
        views = list(group)
        kinds.append((kind, views, visit.draw(_piece(view, zone) for view in views)))
    return visit.page(
        "forest.html", stats=stats, kinds=kinds, counts=counts, shown=len(trees), there=counts.total()
    )


async def tree(visit: PageRequest) -> Response:
    """Show a node and its descendants on a time axis; `node` is its path from the root, as numbers with dots."""
    memory, way = visit.memory, _way(visit.given("node"))
    if not way:
        scope, index = visit.needed("scope"), visit.given("index")
        found = await memory.tree(scope, index=index, depth=0, limit=2 * PAGE)
        if len(found) > 1:
            return visit.page("trees.html", found=found)
        way = [found[0].node_id or 0]
    above = await _ancestors(memory, way)
    [node] = await memory.tree(node=way[-1], depth=1, limit=MOST_CHILDREN)
    at = visit.number("from", 0, MOST_CHILDREN)
    shown = node.children[at : at + PAGE]
    zone = visit.forest.config.zone
    return visit.page(
        "tree.html",
        above=above,
        node=node,
        way=".".join(map(str, way)),
        shown=shown,
        at=at,
        more=at + PAGE if at + PAGE < len(node.children) else None,
        drawn=visit.draw(_piece(one, zone) for one in (node, *shown)),
    )


async def find(visit: PageRequest) -> Response:
    """Find a tree by its exact name, and entities by words of their names."""
    memory, wanted = visit.memory, visit.needed("q")
    entities = await memory.entities(query=wanted, limit=PAGE)  # the user, too, may be what is not there
    trees: Sequence[TreeView] = ()
    with suppress(NotFoundError):
        trees = await memory.tree(wanted, depth=0, limit=PAGE)
    return visit.page("find.html", trees=trees, entities=entities)


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
"""As soon as so many turns of sources are quoted whole, no further source is."""


async def facts(visit: PageRequest) -> Response:
    """Show facts in time order, optionally of an entity, of a session, or as of a time."""
    names = ("entity", "session_id", "as_of", "said_by", "known_at", "verdict")
    asked: dict[str, Any] = {name: visit.given(name) for name in names}
    found = await visit.memory.list(limit=PAGE, cursor=visit.given("from"), **asked)
    return visit.page("facts.html", found=found)


async def fact(visit: PageRequest) -> Response:
    """Show one fact; a correction that was taken back has a history and is no fact any more."""
    memory, fact_id = visit.memory, visit.needed("id")
    view: FactView | None = None
    with suppress(NotFoundError):
        view = await memory.get(fact_id)
    history = await memory.history(fact_id)
    quoted = await _quoted(memory, view.sources) if view is not None else []
    return visit.page("fact.html", fact=view, history=history, quoted=quoted)


async def _quoted(
    memory: AsyncUserMemory, sources: Sequence[Source]
) -> list[tuple[str, str, TurnView | None]]:
    """Return the turns that support a fact, with the ids of each; None for one that was deleted or is not quoted."""
    found: list[tuple[str, str, TurnView | None]] = []
    for source in sources:
        is_quoted = len(found) < MOST_SOURCES
        turns = await memory.turns(source.session_id, limit=MAX_PAGE) if is_quoted else ()
        by_id = {one.id: one for one in turns}
        found += [(source.session_id, turn_id, by_id.get(turn_id)) for turn_id in source.turn_ids]
    return found
