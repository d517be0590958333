"""Ingest jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.intake import Intake, JobEvent
from memforest.rest.deps import Who, needs

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["jobs"])

HEARTBEAT_S = 15
"""Seconds between two comments in a stream without events, so that nothing on the way takes it for dead."""
SEND_S = 30.0
"""A client that takes nothing for so long is cut off; it comes back with ``Last-Event-ID``."""
MOST_SESSIONS = 1000

JOB_EXAMPLE: dict[str, Any] = {
    "id": "5f2c9d3e8a7b4c1d9e0f1a2b3c4d5e6f",
    "state": "finished",
    "made_at": "2026-03-02T09:15:00+00:00",
    "changed_at": "2026-03-02T09:15:04+00:00",
    "ended_at": "2026-03-02T09:15:04+00:00",
    "users": 1,
    "sessions": 2,
    "received": 1,
    "done": 1,
    "turns": 2,
    "chunks": 1,
    "chunks_done": 1,
    "chunks_failed": 0,
    "refreshed": 3,
    "refused": [
        {
            "place": 1,
            "error": "SessionConflictError",
            "message": "The session is stored with other turns; replace=true overwrites them.",
        }
    ],
    "error": None,
    "message": None,
    "last_event": 4,
}


class SessionBody(BaseModel):
    """A session of a user, with the arguments of `ingest_session`."""

    model_config = ConfigDict(extra="forbid")

    user_id: str = Field(min_length=1, max_length=1024)
    session_id: str = Field(min_length=1, max_length=1024)
    turns: list[dict[str, Any]] = Field(
        description="mappings with role or speaker, content or text, timestamp, id"
    )
    timestamp: str | float | None = Field(None, description="the time of turns that have none of their own")
    infer: bool = True
    replace: bool = False
    metadata: dict[str, Any] | None = None
    idempotency_key: str | None = None


class BudgetBody(BaseModel):
    """What may be spent on models for each user."""

    model_config = ConfigDict(extra="forbid")

    max_calls: int | None = Field(None, ge=0, le=2**53)
    max_tokens: int | None = Field(None, ge=0, le=2**53)


class IngestBody(BaseModel):
    """Sessions of users, and what may be spent on them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "sessions": [
                        {
                            "user_id": "ana",
                            "session_id": "monday",
                            "turns": [
                                {
                                    "speaker": "Ana",
                                    "content": "I moved to Oslo.",
                                    "timestamp": "2026-03-02T09:00:00Z",
                                }
                            ],
                        }
                    ]
                }
            ]
        },
    )

    sessions: list[SessionBody] = Field(min_length=1, max_length=MOST_SESSIONS)
    budget: BudgetBody | None = None


class RefusedSessionAnswer(BaseModel):
    """A session that was not stored: its place in the request, counted from 0, the error's class, and why."""

    place: int
    error: str
    message: str


class JobAnswer(BaseModel):
    """An ingest job; see `memforest.intake.JobView`."""

    model_config = ConfigDict(json_schema_extra={"examples": [JOB_EXAMPLE]})

    id: str
    state: str = Field(
        json_schema_extra={
            "enum": [
                "receiving",
                "queued",
                "running",
                "parked",
                "finished",
                "failed",
                "cancelled",
            ]
        }
    )
    made_at: str
    changed_at: str
    ended_at: str | None
    users: int
    sessions: int
    received: int
    done: int
    turns: int
    chunks: int
    chunks_done: int
    chunks_failed: int
    refreshed: int
    refused: list[RefusedSessionAnswer]
    error: str | None
    message: str | None
    last_event: int


class JobPageAnswer(BaseModel):
    """Some jobs, the newest first; see `memforest.intake.JobPage`."""

    jobs: list[JobAnswer]
    next_cursor: str | None


def intake_of(request: Request) -> Intake:
    """Return the ingest jobs of this app."""
    return cast(Intake, request.app.state.intake)


async def may_look(who: Who) -> None:
    """Let those pass who may read, or write: whoever has sent sessions sees what became of them."""
    if "write" not in who.scopes:
        who.require("read")


Jobs = Annotated[Intake, Depends(intake_of)]
JobId = Annotated[str, Path(description="the job's id", examples=["5f2c9d3e8a7b4c1d9e0f1a2b3c4d5e6f"])]
_LOOK = [Depends(may_look)]
_WRITE = [Depends(needs("write"))]


@router.post(
    "/ingest",
    operation_id="ingest",
    status_code=202,
    dependencies=_WRITE,
    response_model=JobAnswer,
    responses={
        202: {
            "headers": {
                "Location": {"description": "where the job is told of", "schema": {"type": "string"}}
            },
            "links": {
                "job": {"operationId": "get_job", "parameters": {"job_id": "$response.body#/id"}},
                "cancel": {"operationId": "cancel_job", "parameters": {"job_id": "$response.body#/id"}},
            },
        }
    },
)
async def ingest(
    body: IngestBody,
    who: Who,
    jobs: Jobs,
    request: Request,
    response: Response,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=1024)] = None,
) -> Any:
    """Receive many sessions of many users, durably, and make memory of them in the background.

    The answer comes when they are stored. A session that cannot be stored is refused alone: `refused` names its place in the
    request and the reason. The same request sent again changes nothing; with `Idempotency-Key` it is the same job.
    """
    sessions = [one.model_dump(exclude_unset=True) for one in body.sessions]
    budget = None if body.budget is None else Budget(body.budget.max_calls, body.budget.max_tokens)
    made = await jobs.submit(who, sessions, budget=budget, idempotency_key=idempotency_key)
    response.headers["Location"] = request.app.url_path_for("get_job", job_id=made.id).make_absolute_url(
        request.base_url
    )
    return made.to_dict()


@router.get("/jobs", operation_id="list_jobs", dependencies=_LOOK, response_model=JobPageAnswer)
async def list_jobs(
    who: Who,
    jobs: Jobs,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
) -> Any:
    """List ingest jobs, the newest first. They are kept for 7 days after their end."""
    return (await jobs.jobs(who, limit=limit, cursor=cursor)).to_dict()


@router.get("/jobs/{job_id}", operation_id="get_job", dependencies=_LOOK, response_model=JobAnswer)
async def get_job(job_id: JobId, who: Who, jobs: Jobs) -> Any:
    """Tell how far an ingest job has come."""
    return (await jobs.job(who, job_id)).to_dict()


@router.post(
    "/jobs/{job_id}/cancel", operation_id="cancel_job", dependencies=_WRITE, response_model=JobAnswer
)
async def cancel_job(job_id: JobId, who: Who, jobs: Jobs) -> Any:
    """End an ingest job where it stands.

    The sessions stay stored; `resume`, or a later job of the user, makes memory of them. A job that has ended stays as it is.
    """
    return (await jobs.cancel(who, job_id)).to_dict()


@router.get(
    "/jobs/{job_id}/events",
    operation_id="watch_job",
    dependencies=_LOOK,
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "received, extracted, refreshed and finished, each with the counts of the whole job as JSON",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def watch_job(
    job_id: JobId,
    who: Who,
    jobs: Jobs,
    last_event_id: Annotated[str | None, Header(description="go on behind this event")] = None,
) -> EventSourceResponse:
    """Follow an ingest job to its end, as server-sent events."""
    events = await jobs.watch(who, job_id, _after(last_event_id))
    return EventSourceResponse(_stream(events), ping=HEARTBEAT_S, send_timeout=SEND_S)


async def _stream(events: AsyncIterator[JobEvent]) -> AsyncIterator[ServerSentEvent]:
    async for one in events:
        data = {"at": one.at.isoformat(), **one.data}
        yield ServerSentEvent(json.dumps(data), id=str(one.id), event=one.kind)


def _after(last_event_id: str | None) -> int:
    """Return the event behind which a stream begins."""
    if last_event_id is None or last_event_id == "":
        return 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 16):
        raise InputError("Last-Event-ID must be the id of an event of this job: a whole number")
    return int(last_event_id)
