"""The forest: which trees there are; one tree along the time, unfolded level by level; and the search for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from itertools import groupby

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.forest.handle import AsyncUserMemory
from memforest.interval import local_time
from memforest.memory.results import TreeView
from memforest.ui.axis import Piece, draw
from memforest.ui.paging import Found
from memforest.ui.showing import plain
from memforest.ui.visit import PAGE, Visit

MOST_CHILDREN = 500
"""Most nodes below one that are shown at once, 50 a page."""
MOST_LEVELS = 100
_MOST_NODE = 2**53


async def forest(visit: Visit) -> Response:
    """Show the trees of a memory by kind, the largest first where there are many, and what it holds in numbers."""
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


async def tree(visit: Visit) -> Response:
    """Show a node and those below it on a time axis; `node` is the way to it from the root, as numbers with dots."""
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
        found=Found(shown, len(node.children), more, at == 0),
        drawn=picture,
        folded=bool(node.level) and not node.children,
    )


async def find(visit: Visit) -> Response:
    """Look for a tree by its exact name, and for entities by words of theirs."""
    user, memory, wanted = visit.user, visit.memory, visit.needed("q")
    try:
        trees: Sequence[TreeView] = await memory.tree(wanted, depth=0, limit=PAGE)
    except NotFoundError:
        await memory.entities(query=wanted, limit=1)  # the user, too, may be what is not there
        trees = ()
    entities = await memory.entities(query=wanted, limit=PAGE)
    return visit.page("find.html", user=user, here="forest", q=wanted, trees=trees, entities=entities)


async def _ancestors(memory: AsyncUserMemory, way: Sequence[int]) -> list[tuple[str, TreeView]]:
    """Return the nodes above the last one of a way, each with the way to it.

    Raises:
        NotFoundError: if there is no such way.
    """
    above = []
    for depth, number in enumerate(way[:-1], 1):
        [view] = await memory.tree(node=number, depth=1, limit=MOST_CHILDREN)
        if view.children and way[depth] not in {one.node_id for one in view.children}:
            raise NotFoundError("there is no such way through this tree; it may have grown since")
        above.append((".".join(map(str, way[:depth])), view))
    return above


def _way(given: str | None) -> list[int]:
    """Return the numbers of a way.

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


def _piece(view: TreeView, zone: tzinfo) -> Piece:
    name = (
        view.title
        or f"{f'level {view.level}' if view.level else 'leaf'}, {local_time(view.start, zone):%Y-%m-%d}"
    )
    kind = "dirty" if view.dirty else "leaf" if not view.level else "node"
    said = "out of date" if view.dirty else ""
    return Piece(plain(name, 60), view.start, view.end, kind, plain(view.summary, 200), said=said)
