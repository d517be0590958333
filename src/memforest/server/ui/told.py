"""Pages of entities, timelines, sessions, users and ingest jobs, and the forms that correct, undo and delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

from fastapi.responses import StreamingResponse
from starlette.responses import Response

from memforest.errors import InputError, MemForestError
from memforest.memory.user import AsyncUserMemory
from memforest.read.receipts import LAYERS
from memforest.read.stored import TimelineEntry, TimelinePage, TurnPage
from memforest.reading.states import attribute_name
from memforest.records import EntityKind
from memforest.server.jobs import JobView
from memforest.server.ui.visit import PAGE, AxisSpan, PageRequest, plain
from memforest.store.directory import file_name

MOST_PAGES = 40
"""Most pages of turns that are looked through for one."""


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
        drawn=visit.draw(map(_span, states)),
        drawn_events=visit.draw(map(_span, events or ())),
    )


async def sessions(visit: PageRequest) -> Response:
    """Show the sessions in time order."""
    found = await visit.memory.sessions(limit=PAGE, cursor=visit.given("from"))
    return visit.page("sessions.html", found=found)


async def session(visit: PageRequest) -> Response:
    """Show the turns of a session; with `turn`, the page that has that turn."""
    name, wanted, cursor = visit.needed("id"), visit.given("turn"), visit.given("from")
    found = await visit.memory.turns(name, limit=PAGE, cursor=cursor)
    if wanted is not None and cursor is None:
        found, cursor = await _page_with(visit.memory, name, wanted, found)
    speakers = tuple(dict.fromkeys(one.speaker for one in found))
    return visit.page("session.html", speakers=speakers, found=found, at=cursor)


async def _page_with(
    memory: AsyncUserMemory, session_id: str, turn_id: str, first: TurnPage
) -> tuple[TurnPage, str | None]:
    """Return the page that has a turn, and its cursor; the first page if the turn is not found."""
    page, cursor = first, None
    for _ in range(MOST_PAGES):
        if any(one.id == turn_id for one in page.turns):
            return page, cursor
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        page = await memory.turns(session_id, limit=PAGE, cursor=cursor)
    return first, None


def _span(entry: TimelineEntry) -> AxisSpan:
    if entry.kind == "event":
        end = entry.end if entry.end is not None else entry.start
        return AxisSpan("events", entry.start, end, "event", plain(entry.text, 200), row="events")
    name, said = attribute_name(entry.attribute), plain(entry.value or entry.text, 200)
    return AxisSpan(plain(name, 60), entry.start, entry.end, "state", said, row=name, said=said)


async def users(visit: PageRequest) -> Response:
    """Show the users that the caller may see."""
    if visit.who.user is not None:
        return visit.go("forest", user=visit.who.user)
    if not visit.may("admin"):
        return visit.page("users.html", owners=(), next=None, unreadable=0)
    page = await visit.forest.users(limit=PAGE, cursor=visit.given("from"))
    paths = [visit.forest.directory / file_name(user) for user in page]
    sizes = await asyncio.to_thread(lambda: [_size(path) for path in paths])
    owners = [{"user": user, "bytes": size} for user, size in zip(page, sizes, strict=True)]
    return visit.page("users.html", owners=owners, next=page.next_cursor, unreadable=len(page.unreadable))


def _size(path: Path) -> int | None:
    """Return the bytes of a memory's file and its log, without opening it; None if they cannot be read."""
    total = 0
    try:
        total = path.stat().st_size
        total += path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return total or None
    except OSError:
        return None
    return total


ENDED = "event: ended\ndata: ended\n\n"
"""What tells the page that nothing more comes."""


async def jobs(visit: PageRequest) -> Response:
    """Show ingest jobs, the newest first."""
    found = await visit.jobs.jobs(visit.who, limit=PAGE, cursor=visit.given("from"))
    return visit.page("jobs.html", found=found)


async def job(visit: PageRequest) -> Response:
    """Show the progress of a job."""
    return visit.page("job.html", job=await visit.jobs.job(visit.who, visit.needed("id")), live=False)


async def events(visit: PageRequest) -> Response:
    """Stream the progress of a job until it ends."""
    after = visit.number("after", 0, 2**53)
    last_id = visit.request.headers.get("last-event-id", "")
    if last_id.isascii() and last_id.isdigit() and len(last_id) < 16:
        after = int(last_id)
    changes = await visit.jobs.watch(visit.who, visit.needed("id"), after)
    return StreamingResponse(_messages(visit, changes), media_type="text/event-stream")


async def cancel(visit: PageRequest) -> Response:
    """Cancel a job."""
    done = await visit.jobs.cancel(visit.who, visit.needed("id"))
    return visit.go("job", id=done.id)


async def _messages(visit: PageRequest, changes: AsyncIterator[JobView]) -> AsyncIterator[str]:
    """Yield a message for each change of a job, with its part of the page."""
    try:
        async for job in changes:
            await visit.again()
            lines = visit.part("job_state.html", job=job, live=True).splitlines()
            yield f"id: {job.last_event}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
    except MemForestError:  # the key holds no more, or the job was deleted; the page says so when read again
        pass
    yield ENDED


async def pin(visit: PageRequest) -> Response:
    """Pin a fact."""
    done = await visit.memory.pin(visit.needed("id"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="pinned")


async def forget(visit: PageRequest) -> Response:
    """Forget a fact."""
    done = await visit.memory.forget(visit.needed("id"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="forgotten")


async def update(visit: PageRequest) -> Response:
    """Correct a fact: its text, its time, or both."""
    done = await visit.memory.update(
        visit.needed("id"),
        visit.given("text"),
        valid_from=visit.given("valid_from"),
        valid_to=visit.given("valid_to"),
    )
    return visit.go("fact", user=visit.user, id=done.new_fact_id or done.fact_id, done="corrected")


async def undo(visit: PageRequest) -> Response:
    """Take a correction back."""
    done = await visit.memory.undo(visit.needed("key"))
    return visit.go("fact", user=visit.user, id=done.fact_id, done="undone")


async def delete(visit: PageRequest) -> Response:
    """Delete a fact, a turn or a session; first say what would go, and ask."""
    fact_id, session_id, turn_id = (visit.given(name) for name in ("id", "session", "turn"))
    if (fact_id is None) == (session_id is None):
        raise InputError("name a fact or a session to delete")
    sure = visit.given("sure") == "yes"
    if turn_id is not None and session_id is not None:
        receipt = await visit.memory.delete(turn=(session_id, turn_id), dry_run=not sure)
    else:
        receipt = await visit.memory.delete(fact_id, session_id=session_id, dry_run=not sure)
    return visit.page("delete.html", receipt=receipt, layers=LAYERS, sure=sure)
