"""Pages of users and ingest jobs, and the forms that correct, undo and delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from fastapi.responses import StreamingResponse
from starlette.responses import Response

from memforest.errors import InputError, MemForestError
from memforest.read.receipts import LAYERS
from memforest.server.jobs import JobView
from memforest.server.ui.visit import PAGE, PageRequest
from memforest.store.directory import file_name


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
    with suppress(OSError):
        both = (path, path.with_name(path.name + "-wal"))
        return sum(one.stat().st_size for one in both if one.exists()) or None
    return None


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
    times = {name: visit.given(name) for name in ("valid_from", "valid_to")}
    done = await visit.memory.update(visit.needed("id"), visit.given("text"), **times)
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
