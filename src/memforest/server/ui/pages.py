"""Pages of what a memory holds: trees, entities and timelines, facts, sessions, and the story of a turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import Any, get_args

from starlette.responses import Response

from memforest.errors import InputError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.stored import FactView, TimelineEntry, TimelinePage, TreeView, TurnPage
from memforest.records import EntityKind
from memforest.server.ui.visit import PAGE, PageRequest, turns_of
from memforest.settings import MAX_PAGE

MOST_CHILDREN = 500
"""Most nodes below one that are shown at once, 50 a page."""
_NODE = re.compile(r"[1-9][0-9]{0,15}(\.[1-9][0-9]{0,15}){0,99}")


async def forest(visit: PageRequest) -> Response:
    """Show the trees of a memory by kind, largest first where there are many, and its counts."""
    memory, index = visit.memory, visit.given("index")
    stats = await memory.stats()
    counts: Counter[str] = Counter()
    for name, numbers in stats.trees.items():
        if index in (None, name):
            counts.update(numbers)
    trees = await memory.tree(index=index, depth=0, limit=2 * PAGE) if counts.total() else []
    return visit.page(
        "forest.html",
        stats=stats,
        kinds=[(kind, list(each)) for kind, each in groupby(trees, lambda one: one.title.partition(" ")[0])],
        axis=visit.axis((one.start, one.end) for one in trees),
        counts=counts,
        shown=len(trees),
        there=counts.total(),
    )


async def tree(visit: PageRequest) -> Response:
    """Show a node and those below it on a time axis; `node` is its path from the root, as numbers with dots."""
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
    return visit.page(
        "tree.html",
        above=above,
        node=node,
        way=".".join(map(str, way)),
        shown=shown,
        at=at,
        more=at + PAGE if at + PAGE < len(node.children) else None,
        axis=visit.axis((one.start, one.end) for one in (node, *shown)),
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
            raise NotFoundError("this path does not exist; the tree may have changed since")
        above.append((".".join(map(str, way[:depth])), view))
    return above


def _way(given: str | None) -> list[int]:
    """Return the numbers of a node's path.

    Raises:
        InputError: if it is none.
    """
    if given is None:
        return []
    if not _NODE.fullmatch(given):
        raise InputError("node: give numbers of nodes with dots between them")
    return [int(one) for one in given.split(".")]


async def entities(visit: PageRequest) -> Response:
    """Show the entities that facts name."""
    kind, cursor = visit.given("kind"), visit.given("from")
    found = await visit.memory.entities(kind, visit.given("q"), limit=PAGE, cursor=cursor)  # type: ignore[arg-type]  # checked there
    return visit.page("entities.html", found=found, kinds=get_args(EntityKind))


async def timeline(visit: PageRequest) -> Response:
    """Show the timeline of an entity: states as bars with speakers and ends, then events, a page of each."""
    entity, attribute, memory = visit.needed("entity"), visit.given("attribute"), visit.memory
    asked = {name: visit.given(name) for name in ("said_by", "known_at")}
    states = await memory.timeline(
        entity, attribute=attribute, kind="state", limit=PAGE, cursor=visit.given("state"), **asked
    )
    events: TimelinePage | None = None
    if attribute is None:
        events = await memory.timeline(entity, kind="event", limit=PAGE, cursor=visit.given("event"), **asked)
    return visit.page(
        "timeline.html",
        entity=entity,
        attribute=attribute,
        states=states,
        events=events,
        attributes=sorted({*states.attributes, *((attribute,) if attribute else ())}),
        axis=visit.axis((one.start, one.end) for one in states),
        axis_of_events=visit.axis((one.start, one.end or one.start) for one in events or ()),
    )


async def facts(visit: PageRequest) -> Response:
    """Show facts in time order, optionally of an entity, of a session, or as of a time."""
    names = ("entity", "session_id", "as_of", "said_by", "known_at", "verdict")
    asked: dict[str, Any] = {name: visit.given(name) for name in names}
    found = await visit.memory.list(limit=PAGE, cursor=visit.given("from"), **asked)
    return visit.page("facts.html", found=found, asked=asked)


async def fact(visit: PageRequest) -> Response:
    """Show one fact; a correction that was taken back has a history and is no fact any more."""
    memory, fact_id = visit.memory, visit.needed("id")
    view: FactView | None = None
    with suppress(NotFoundError):
        view = await memory.get(fact_id)
    history = await memory.history(fact_id)
    return visit.page("fact.html", fact=view, history=history)


MOST_PAGES = 40
"""Most pages of turns, or of facts, that are looked through for those of one turn."""
MOST_NAMES = 12
"""Most names of a turn's facts whose states and trees are shown."""
_SCOPED = ("entity ", "scene ", "session ")
"""How the titles of trees begin that are not of the whole conversation."""
MOST_OPENED = 60
"""Most nodes that are opened to find the leaves of a turn."""


async def sessions(visit: PageRequest) -> Response:
    """Show the sessions in time order."""
    found = await visit.memory.sessions(limit=PAGE, cursor=visit.given("from"))
    return visit.page("sessions.html", found=found, axis=visit.axis((one.start, one.end) for one in found))


async def session(visit: PageRequest) -> Response:
    """Show the turns of a session; with `turn`, the page that has that turn."""
    name, wanted, cursor = visit.needed("id"), visit.given("turn"), visit.given("from")
    if wanted is not None and cursor is None:
        found, cursor = await _page_with(visit.memory, name, wanted)
    else:
        found = await visit.memory.turns(name, limit=PAGE, cursor=cursor)
    speakers = tuple(dict.fromkeys(one.speaker for one in found))
    return visit.page("session.html", speakers=speakers, found=found, at=cursor)


async def _page_with(memory: AsyncUserMemory, session_id: str, turn_id: str) -> tuple[TurnPage, str | None]:
    """Return the page that has a turn, and its cursor; the first page if the turn is not found."""
    first = page = await memory.turns(session_id, limit=PAGE)
    cursor = None
    for _ in range(MOST_PAGES):
        if any(one.id == turn_id for one in page.turns):
            return page, cursor
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        page = await memory.turns(session_id, limit=PAGE, cursor=cursor)
    return first, None


async def turn(visit: PageRequest) -> Response:
    """Show what was made of a turn: its facts and states, what these ended and were ended by, its leaves and corrections.

    Raises:
        NotFoundError: if the session has no such turn.
    """
    memory, session_id, turn_id = visit.memory, visit.needed("session"), visit.needed("id")
    page = (await _page_with(memory, session_id, turn_id))[0]
    said = next((one for one in page if one.id == turn_id), None)
    if said is None:
        raise NotFoundError(f"the session has no turn {turn_id!r}")
    facts = await _facts_of(memory, session_id, turn_id)
    ids = {one.fact_id for one in facts}
    names = list(dict.fromkeys(name for one in facts for name in (one.speaker, *one.entities)))[:MOST_NAMES]
    states = await _states_of(memory, names)
    history = [one for each in facts for one in await memory.history(each.fact_id)]
    moments = [said.said, *(one.start for one in facts)]
    return visit.page(
        "turn.html",
        turn=said,
        facts=facts,
        names=names,
        told=[one for one in states if ids & set(one[1].fact_ids)],
        ended=[one for one in states if one[1].ended_by is not None and one[1].ended_by.fact_id in ids],
        corrections=[one for one in history if one.kind not in ("said", "superseded")],
        leaves=await _leaves_of(memory, (session_id, *names), (session_id, turn_id), moments),
    )


async def _facts_of(memory: AsyncUserMemory, session_id: str, turn_id: str) -> list[FactView]:
    """Return the facts that stand on a turn, with those that were corrected or forgotten."""
    found: dict[str, FactView] = {}
    for verdict in (None, "corrected", "forgotten"):
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            asked: dict[str, Any] = {"session_id": session_id, "verdict": verdict, "cursor": cursor}
            page = await memory.list(limit=MAX_PAGE, **asked)
            found |= {one.fact_id: one for one in page if (session_id, turn_id) in turns_of(one.sources)}
            cursor = page.next_cursor
            if cursor is None:
                break
    return list(found.values())


async def _states_of(memory: AsyncUserMemory, names: Sequence[str]) -> list[tuple[str, TimelineEntry]]:
    """Return the states of entities, each with its entity; one that several names lead to is there once."""
    found: dict[tuple[object, ...], tuple[str, TimelineEntry]] = {}
    for name in names:
        with suppress(NotFoundError):
            for one in await memory.timeline(name, kind="state", limit=MAX_PAGE):
                found.setdefault((one.attribute, one.value, one.start, one.fact_ids), (name, one))
    return list(found.values())


async def _leaves_of(
    memory: AsyncUserMemory, scopes: Iterable[str], place: tuple[str, str], moments: Sequence[datetime]
) -> list[tuple[TreeView, ...]]:
    """Return the ways from the roots of trees to the leaves that a turn stands in, found by the times of the nodes.

    Args:
        memory: whose trees.
        scopes: names of the trees that are looked through.
        place: session id and turn id.
        moments: when it was said, by which leaves that are exchanges are told, and the times of its facts.
    """
    roots = [one for one in await memory.tree(depth=0, limit=2 * PAGE) if not one.title.startswith(_SCOPED)]
    left: dict[int | None, tuple[TreeView, ...]] = {one.node_id: (one,) for one in roots}
    for scope in scopes:
        with suppress(NotFoundError):
            left |= {one.node_id: (one,) for one in await memory.tree(scope, depth=0, limit=PAGE)}
    found, opened = [], 0
    while left:
        way = left.pop(next(iter(left)))
        at = way[-1]
        is_exchange = not at.level and not at.sources and at.start <= moments[0] < at.end
        if is_exchange or place in turns_of(at.sources):
            found.append(way)
        elif at.level and opened < MOST_OPENED:
            opened += 1
            [node] = await memory.tree(node=at.node_id, depth=1, limit=MOST_CHILDREN)
            below = [one for one in node.children if any(one.start <= when <= one.end for when in moments)]
            left |= {one.node_id: (*way, one) for one in below}
    return found
