"""Ingest jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

from fastapi import Depends, Header, Path, Request, Response
from pydantic import Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from memforest.errors import InputError, MemForestError
from memforest.memory.forest import AsyncMemForest
from memforest.server.jobs import MOST_SESSIONS, Intake, JobPage, JobView
from memforest.server.rest.bodies import (
    Body,
    BudgetBody,
    Cursor,
    IdempotencyKey,
    Many,
    Message,
    PageSize,
    body_of,
    shown_as,
)
from memforest.server.rest.routing import Again, Who, answer, located, operation, strict_router
from memforest.settings import MAX_ID_CHARS

job_routes = strict_router("/v1")

HEARTBEAT_S = 15
"""Seconds between two comments in a stream without events, so that nothing on the way takes it for dead."""
SEND_S = 30.0
"""A client that takes nothing for so long is cut off; it comes back with ``Last-Event-ID``."""
EXAMPLE = "5f2c9d3e8a7b4c1d9e0f1a2b3c4d5e6f"
EVENTS = (
    "Events `progress`, and `ended` for the last one; the data of each are the job as it is then, as JSON."
)


IngestRequest: Any = body_of(
    AsyncMemForest.ingest_session,
    ("refresh", "budget", "defer"),
    name="IngestRequest",
    turns=(Many[Message], ...),  # a session without any is refused alone
    idempotency_key=(
        str | None,
        Field(None, min_length=1, max_length=MAX_ID_CHARS, description="a name of this session's write"),
    ),
)
"""A session of a user, with the arguments of `ingest_session`."""


class IngestBody(Body):
    """Sessions of users, and what may be spent on models for each user."""

    model_config = shown_as(
        {
            "sessions": [
                {
                    "user_id": "ana",
                    "session_id": "monday",
                    "turns": [
                        {"role": "user", "content": "I moved to Oslo.", "timestamp": "2026-03-02T09:00:00Z"}
                    ],
                }
            ]
        }
    )

    sessions: Many[IngestRequest] = Field(min_length=1, max_length=MOST_SESSIONS)
    budget: BudgetBody | None = None


def intake_of(request: Request) -> Intake:
    """Return the ingest jobs of this app."""
    return cast(Intake, request.app.state.intake)


async def may_look(who: Who) -> None:
    """Raise unless the caller may read or write: a sender of sessions may see their outcome."""
    if "write" not in who.scopes:
        who.require("read")


Jobs = Annotated[Intake, Depends(intake_of)]
JobId = Annotated[
    str,
    Path(
        description="id of the job",
        min_length=1,
        max_length=64,
        openapi_examples={"example": {"value": EXAMPLE}},
    ),
]
LOOK: dict[str, Any] = {"scopes": "read or write", "dependencies": [Depends(may_look)]}


@job_routes.post(
    "/ingest",
    **operation(
        "jobs",
        "ingest",
        JobView,
        "write",
        409,
        status=202,
        writes=True,
        responses={
            202: {
                "description": "All that can be stored is.",
                "headers": {
                    "Location": {"description": "where the job is told of", "schema": {"type": "string"}}
                },
            }
        },
    ),
)
async def ingest(
    request: Request, body: IngestBody, who: Who, jobs: Jobs, idempotency_key: IdempotencyKey = None
) -> Response:
    """Receive many sessions of many users durably, and make memory of them in the background.

    The answer comes when they are stored. A session that cannot be stored is refused alone: `refused` names its place in
    the request, and the reason. The same sessions sent again change nothing; with `Idempotency-Key` they are the same job.
    """
    given = body.options()
    made = await jobs.submit(
        who, given["sessions"], budget=given.get("budget"), idempotency_key=idempotency_key
    )
    return answer(made, 202, located(request, f"/v1/jobs/{made.id}"))


@job_routes.get("/jobs", **operation("jobs", "list_jobs", JobPage, "read", **LOOK))
async def list_jobs(who: Who, jobs: Jobs, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List ingest jobs, the newest first. They are known for 7 days after their end."""
    return answer(await jobs.jobs(who, limit=limit, cursor=cursor))


@job_routes.get("/jobs/{job_id}", **operation("jobs", "get_job", JobView, "read", **LOOK))
async def get_job(job_id: JobId, who: Who, jobs: Jobs) -> Response:
    """Tell how far an ingest job has come."""
    return answer(await jobs.job(who, job_id))


@job_routes.post("/jobs/{job_id}/cancel", **operation("jobs", "cancel_job", JobView, "write", writes=True))
async def cancel_job(job_id: JobId, who: Who, jobs: Jobs) -> Response:
    """End an ingest job where it stands; one that has ended stays as it is.

    Its sessions stay stored. `resume`, or a later job of the same user, makes memory of them.
    """
    return answer(await jobs.cancel(who, job_id))


@job_routes.get(
    "/jobs/{job_id}/events",
    **operation(
        "jobs",
        "watch_job",
        None,
        "read",
        **LOOK,
        response_class=EventSourceResponse,
        responses={
            200: {"description": EVENTS, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
        },
    ),
)
async def watch_job(
    job_id: JobId,
    who: Who,
    jobs: Jobs,
    again: Again,
    last_event_id: Annotated[
        str | None, Header(description="go on behind this event", pattern="^[0-9]{0,15}$")
    ] = None,
) -> Any:
    """Follow an ingest job to its end, by server-sent events."""
    after = last_event_id or "0"
    if not (after.isascii() and after.isdigit()):
        raise InputError("Last-Event-ID must be the id of an event of this job: a whole number")
    changes = await jobs.watch(who, job_id, int(after))
    return EventSourceResponse(_stream(changes, again), ping=HEARTBEAT_S, send_timeout=SEND_S)


async def _stream(changes: AsyncIterator[JobView], again: Again) -> AsyncIterator[ServerSentEvent]:
    """Yield an event for each change of a job while the caller's key is valid."""
    async for job in changes:
        try:
            await may_look(await again())
        except MemForestError:
            return
        kind = "ended" if job.ended else "progress"
        yield ServerSentEvent(json.dumps(job.to_dict()), id=str(job.last_event), event=kind)
