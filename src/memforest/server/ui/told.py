"""Pages of entities, timelines, sessions, users and ingest jobs, and the forms that correct, undo and delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

from fastapi.responses import StreamingResponse
from starlette.responses import Response

from memforest.errors import InputError, MemForestError, NotFoundError
from memforest.memory.user import AsyncUserMemory
from memforest.read.receipts import LAYERS
from memforest.read.stored import TimelineEntry, TimelinePage, TurnPage
from memforest.records import EntityKind
from memforest.server.job_rows import JobEvent
from memforest.server.jobs import Intake
from memforest.server.ui.visit import PAGE, AxisSpan, PageOf, PageRequest, draw, plain
from memforest.store.directory import file_name

MOST_PAGES = 40
"""Most pages of turns that are looked through for one."""


async def entities(visit: PageRequest) -> Response:
    """Show the entities that facts name."""
    kind, wanted, cursor = visit.given("kind"), visit.given("q"), visit.given("from")
    page = await visit.memory.entities(kind, wanted, limit=PAGE, cursor=cursor)  # type: ignore[arg-type]  # checked there
    found = PageOf(page.entities, page.total, page.next_cursor, cursor is None)
    return visit.page(
        "entities.html",
        user=visit.user,
        here="entities",
        found=found,
        kind=kind,
        q=wanted,
        kinds=get_args(EntityKind),
    )


async def timeline(visit: PageRequest) -> Response:
    """Show the timeline of an entity: states as bars with speakers and ends, then events, a page of each."""
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
        states=PageOf(states.entries, states.total, states.next_cursor, at["state"] is None),
        events=None
        if events is None
        else PageOf(events, events.total, events.next_cursor, at["event"] is None),
        attributes=sorted({*states.attributes, *((attribute,) if attribute else ())}),
        drawn=draw([_span(one) for one in states], zone),
        drawn_events=draw([_span(one) for one in events or ()], zone),
    )


async def sessions(visit: PageRequest) -> Response:
    """Show the sessions in time order."""
    cursor = visit.given("from")
    page = await visit.memory.sessions(limit=PAGE, cursor=cursor)
    found = PageOf(page.sessions, page.total, page.next_cursor, cursor is None)
    return visit.page("sessions.html", user=visit.user, here="sessions", found=found)


async def session(visit: PageRequest) -> Response:
    """Show the turns of a session; with `turn`, the page that has that turn."""
    name, wanted, cursor = visit.needed("id"), visit.given("turn"), visit.given("from")
    memory = visit.memory
    page = await memory.turns(name, limit=PAGE, cursor=cursor)
    if wanted is not None and cursor is None:
        page, cursor = await _page_with(memory, name, wanted, page)
    found = PageOf(page.turns, page.total, page.next_cursor, cursor is None)
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
    name, said = entry.attribute or "", plain(entry.value or entry.text, 200)
    return AxisSpan(plain(name, 60), entry.start, entry.end, "state", said, row=name, said=said)


async def users(visit: PageRequest) -> Response:
    """Show the users that the caller may see."""
    only = visit.who.user
    if only is not None:
        return visit.go("forest", user=only)
    if not visit.may("admin"):
        return visit.page("users.html", found=PageOf((), None, None, True), unreadable=0, here="users")
    cursor = visit.given("from")
    page = await visit.forest.users(limit=PAGE, cursor=cursor)
    paths = [visit.forest.directory / file_name(user) for user in page.users]
    sizes = await asyncio.to_thread(lambda: [_size(path) for path in paths])
    owners = [{"user": user, "bytes": size} for user, size in zip(page.users, sizes, strict=True)]
    found = PageOf(owners, None, page.next_cursor, cursor is None)
    return visit.page("users.html", found=found, unreadable=len(page.unreadable), here="users")


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
    cursor = visit.given("from")
    page = await _intake(visit).jobs(visit.who, limit=PAGE, cursor=cursor)
    found = PageOf(page.jobs, None, page.next_cursor, cursor is None)
    return visit.page("jobs.html", here="jobs", found=found)


async def job(visit: PageRequest) -> Response:
    """Show the progress of a job."""
    view = await _intake(visit).job(visit.who, visit.needed("id"))
    return visit.page("job.html", here="jobs", job=view, live=False)


async def events(visit: PageRequest) -> Response:
    """Stream the progress of a job until it ends."""
    after = visit.number("after", 0, 2**53)
    last_id = visit.request.headers.get("last-event-id", "")
    if last_id.isascii() and last_id.isdigit() and len(last_id) < 16:
        after = int(last_id)
    job_events = await _intake(visit).watch(visit.who, visit.needed("id"), after)
    return StreamingResponse(_messages(visit, job_events), media_type="text/event-stream")


async def cancel(visit: PageRequest) -> Response:
    """Cancel a job."""
    done = await _intake(visit).cancel(visit.who, visit.needed("id"))
    return visit.go("job", id=done.id)


async def _messages(visit: PageRequest, job_events: AsyncIterator[JobEvent]) -> AsyncIterator[str]:
    """Yield a message for each event, with the job's part of the page as it is then."""
    job_id = visit.needed("id")
    try:
        async for event in job_events:
            await visit.again()
            view = await _intake(visit).job(visit.who, job_id)
            lines = visit.part("job_state.html", job=view, live=True).splitlines()
            yield f"id: {event.id}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
    except (
        MemForestError
    ):  # the key holds no more, or the job was deleted: the page says so when it is read again
        pass
    yield ENDED


def _intake(visit: PageRequest) -> Intake:
    """Return the jobs of this server.

    Raises:
        NotFoundError: if it takes none.
    """
    if visit.intake is None:
        raise NotFoundError("this server takes no ingest jobs")
    return visit.intake


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
    memory = visit.memory
    if turn_id is not None and session_id is not None:
        receipt = await memory.delete(turn=(session_id, turn_id), dry_run=not sure)
    else:
        receipt = await memory.delete(fact_id, session_id=session_id, dry_run=not sure)
    return visit.page(
        "delete.html",
        user=visit.user,
        here="",
        receipt=receipt,
        layers=LAYERS,
        sure=sure,
        fact_id=fact_id,
        session_id=session_id,
        turn_id=turn_id,
    )
