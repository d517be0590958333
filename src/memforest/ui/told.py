"""What is told of whom: entities, their timelines, and the sessions with their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from starlette.responses import Response

from memforest.errors import NotFoundError
from memforest.memory.results import TimelineEntry
from memforest.types import EntityKind
from memforest.ui.axis import Piece, draw
from memforest.ui.paging import Found, cut_page
from memforest.ui.showing import plain
from memforest.ui.visit import PAGE, Visit

__all__ = ["entities", "session", "sessions", "timeline"]


async def entities(visit: Visit) -> Response:
    """Show whom and what statements name."""
    kind, wanted = visit.given("kind"), visit.given("q")
    at = visit.number("from", 0, 10_000_000)
    page = await visit.memory.entities(kind, wanted, limit=at + PAGE)  # type: ignore[arg-type]  # checked there
    shown = tuple(page)[at:]
    more = str(at + PAGE) if at + PAGE < page.total else None
    found = Found(shown, page.total, more, at == 0)
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
    every = await visit.memory.timeline(entity, attribute=attribute, said_by=said_by, known_at=known_at)
    ended = _ended_by(every)
    found = cut_page(visit, [(one, ended.get(at)) for at, one in enumerate(every)])
    attributes = sorted({one.attribute for one in every if one.attribute})
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
    found = cut_page(visit, await visit.memory.sessions())
    return visit.page("sessions.html", user=visit.user, here="sessions", found=found)


async def session(visit: Visit) -> Response:
    """Show the turns of a session as they were said."""
    name = visit.needed("id")
    about = next((one for one in await visit.memory.sessions() if one.session_id == name), None)
    if about is None:
        raise NotFoundError("there is no such session")
    turns = await visit.memory.turns(name)
    wanted = visit.given("turn")
    if wanted is not None and visit.given("from") is None:
        at = next((at for at, one in enumerate(turns) if one.id == wanted), 0) // PAGE * PAGE
        found = Found(
            turns[at : at + PAGE], len(turns), str(at + PAGE) if at + PAGE < len(turns) else None, at == 0
        )
    else:
        found = cut_page(visit, turns)
    return visit.page(
        "session.html", user=visit.user, here="sessions", about=about, found=found, wanted=wanted
    )


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
