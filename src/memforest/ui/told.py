"""What is told of whom: entities, their timelines, and the sessions with their turns."""

from __future__ import annotations

from typing import get_args

from starlette.responses import Response

from memforest.forest.handle import AsyncUserMemory
from memforest.memory.inspect.paged import TimelinePage, TurnPage
from memforest.memory.results import TimelineEntry
from memforest.types import EntityKind
from memforest.ui.axis import Piece, draw
from memforest.ui.paging import Found
from memforest.ui.showing import plain
from memforest.ui.visit import PAGE, Visit

MOST_PAGES = 40
"""Most pages of turns that are looked through for one."""


async def entities(visit: Visit) -> Response:
    """Show whom and what statements name."""
    kind, wanted, cursor = visit.given("kind"), visit.given("q"), visit.given("from")
    page = await visit.memory.entities(kind, wanted, limit=PAGE, cursor=cursor)  # type: ignore[arg-type]  # checked there
    found = Found(page.entities, page.total, page.next_cursor, cursor is None)
    return visit.page(
        "entities.html",
        user=visit.user,
        here="entities",
        found=found,
        kind=kind,
        q=wanted,
        kinds=get_args(EntityKind),
    )


async def timeline(visit: Visit) -> Response:
    """Show what is known of an entity: values as bars, who said so and what ended them; then events, a page of each."""
    entity, attribute, memory = visit.needed("entity"), visit.given("attribute"), visit.memory
    asked = {name: visit.given(name) for name in ("said_by", "known_at")}
    at = {kind: visit.given(kind) for kind in ("state", "event")}
    states = await memory.timeline(
        entity, attribute=attribute, kind="state", limit=PAGE, cursor=at["state"], **asked
    )
    events: TimelinePage | None = None
    if attribute is None:
        events = await memory.timeline(entity, kind="event", limit=PAGE, cursor=at["event"], **asked)
    zone = visit.forest.config.zone
    return visit.page(
        "timeline.html",
        user=visit.user,
        here="entities",
        entity=entity,
        attribute=attribute,
        asked=asked,
        at=at,
        states=Found(states.entries, states.total, states.next_cursor, at["state"] is None),
        events=None
        if events is None
        else Found(events, events.total, events.next_cursor, at["event"] is None),
        attributes=sorted({*states.attributes, *((attribute,) if attribute else ())}),
        drawn=draw([_value(one) for one in states], zone),
        drawn_events=draw([_event(one) for one in events or ()], zone),
    )


async def sessions(visit: Visit) -> Response:
    """Show the sessions in time order."""
    cursor = visit.given("from")
    page = await visit.memory.sessions(limit=PAGE, cursor=cursor)
    found = Found(page.sessions, page.total, page.next_cursor, cursor is None)
    return visit.page("sessions.html", user=visit.user, here="sessions", found=found)


async def session(visit: Visit) -> Response:
    """Show the turns of a session as they were said; with `turn`, the page that this one is on."""
    name, wanted, cursor = visit.needed("id"), visit.given("turn"), visit.given("from")
    memory = visit.memory
    page = await memory.turns(name, limit=PAGE, cursor=cursor)
    if wanted is not None and cursor is None:
        page, cursor = await _page_with(memory, name, wanted, page)
    found = Found(page.turns, page.total, page.next_cursor, cursor is None)
    speakers = tuple(dict.fromkeys(one.speaker for one in page.turns))
    return visit.page(
        "session.html",
        user=visit.user,
        here="sessions",
        session_id=name,
        speakers=speakers,
        found=found,
        wanted=wanted,
    )


async def _page_with(
    memory: AsyncUserMemory, session_id: str, turn_id: str, first: TurnPage
) -> tuple[TurnPage, str | None]:
    """Return the page that a turn is on, and its cursor; the first one if it is on none that is looked at."""
    page, cursor = first, None
    for _ in range(MOST_PAGES):
        if any(one.id == turn_id for one in page.turns):
            return page, cursor
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        page = await memory.turns(session_id, limit=PAGE, cursor=cursor)
    return first, None


def _value(entry: TimelineEntry) -> Piece:
    name, said = entry.attribute or "", plain(entry.value or entry.text, 200)
    return Piece(plain(name, 60), entry.start, entry.end, "state", said, row=name, said=said)


def _event(entry: TimelineEntry) -> Piece:
    end = entry.end if entry.end is not None else entry.start
    return Piece("events", entry.start, end, "event", plain(entry.text, 200), row="events")
