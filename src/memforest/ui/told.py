"""What is told of whom: entities, their timelines, and the sessions with their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from starlette.responses import Response

from memforest.forest.handle import AsyncUserMemory
from memforest.memory.inspect.paged import TurnPage
from memforest.memory.results import TimelineEntry
from memforest.types import EntityKind
from memforest.ui.axis import Piece, draw
from memforest.ui.paging import Found
from memforest.ui.showing import plain
from memforest.ui.visit import PAGE, Visit

__all__ = ["entities", "session", "sessions", "timeline"]

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
    """Show what is known of an entity in time order: values as bars, who said so, and what ended them."""
    entity, attribute = visit.needed("entity"), visit.given("attribute")
    said_by, known_at = visit.given("said_by"), visit.given("known_at")
    memory, cursor = visit.memory, visit.given("from")
    asked = {"attribute": attribute, "said_by": said_by, "known_at": known_at}
    page = await memory.timeline(entity, limit=PAGE, cursor=cursor, **asked)
    every = list(page.entries)
    if page.next_cursor is not None:  # what has ended a value may be on the next page
        every += (await memory.timeline(entity, limit=PAGE, cursor=page.next_cursor, **asked)).entries
    ended = _ended_by(every)
    shown = [(one, ended.get(at)) for at, one in enumerate(page.entries)]
    found = Found(shown, page.total, page.next_cursor, cursor is None)
    attributes = sorted(
        {one.attribute for one in every if one.attribute} | ({attribute} if attribute else set())
    )
    picture = draw([_piece(one) for one, _ in found.items], visit.forest.config.zone)
    return visit.page(
        "timeline.html",
        user=visit.user,
        here="entities",
        entity=entity,
        attribute=attribute,
        said_by=said_by,
        known_at=known_at,
        found=found,
        attributes=attributes,
        drawn=picture,
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


def _ended_by(entries: Sequence[TimelineEntry]) -> dict[int, TimelineEntry]:
    """Return what took the place of states: of each the next value of its attribute, if that begins where it ends."""
    ended = {}
    for at, one in enumerate(entries):
        if one.kind == "state" and one.end is not None:
            later = (
                other
                for other in entries
                if other.attribute == one.attribute and other is not one and other.start == one.end
            )
            if (found := next(later, None)) is not None:
                ended[at] = found
    return ended


def _piece(entry: TimelineEntry) -> Piece:
    name = entry.attribute or "event"
    said = plain(entry.value if entry.value is not None else entry.text, 200)
    if entry.kind == "event":
        end = entry.end if entry.end is not None else entry.start
        return Piece("events", entry.start, end, "event", said, row="event")
    return Piece(plain(name, 30), entry.start, entry.end, "state", said, row=f"state {name}")
