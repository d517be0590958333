"""Ingest jobs: which there are, and one as it goes on, live where the browser has scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from memforest.errors import MemForestError, NotFoundError
from memforest.intake import Intake, JobEvent
from memforest.ui.paging import Found
from memforest.ui.visit import PAGE, Visit

ENDED = "event: ended\ndata: ended\n\n"
"""What tells the page that nothing more comes."""


async def jobs(visit: Visit) -> Response:
    """Show ingest jobs, the newest first."""
    cursor = visit.given("from")
    page = await _intake(visit).jobs(visit.who, limit=PAGE, cursor=cursor)
    found = Found(page.jobs, None, page.next_cursor, cursor is None)
    return visit.page("jobs.html", here="jobs", found=found)


async def job(visit: Visit) -> Response:
    """Show how far a job has come."""
    view = await _intake(visit).job(visit.who, visit.needed("id"))
    return visit.page("job.html", here="jobs", job=view, live=False)


async def events(visit: Visit) -> Response:
    """Send how far a job has come, each time that this changes, to its end."""
    after = visit.number("after", 0, 2**53)
    told = visit.request.headers.get("last-event-id", "")
    if told.isascii() and told.isdigit() and len(told) < 16:
        after = int(told)
    found = await _intake(visit).watch(visit.who, visit.needed("id"), after)
    return StreamingResponse(_messages(visit, found), media_type="text/event-stream")


async def cancel(visit: Visit) -> Response:
    """End a job where it stands."""
    done = await _intake(visit).cancel(visit.who, visit.needed("id"))
    return visit.go("job", id=done.id)


async def _messages(visit: Visit, found: AsyncIterator[JobEvent]) -> AsyncIterator[str]:
    """Yield a message for each event: the numbers of the job as they are then, for a page to put in their place."""
    job_id = visit.needed("id")
    try:
        async for event in found:
            await visit.again()
            view = await _intake(visit).job(visit.who, job_id)
            lines = visit.part("job_state.html", job=view, live=True).splitlines()
            yield f"id: {event.id}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
    except (
        MemForestError
    ):  # the key holds no more, or the job was deleted: the page says so when it is read again
        pass
    yield ENDED


def _intake(visit: Visit) -> Intake:
    """Return the jobs of this server.

    Raises:
        NotFoundError: if it takes none.
    """
    if visit.intake is None:
        raise NotFoundError("this server takes no ingest jobs")
    return visit.intake
