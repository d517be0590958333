"""REST routes for users, for a memory as a whole (merging, export, import), and for ingest jobs.

An export is written by a thread of its own and sent as it comes, without a place on disk in between.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from typing import Annotated, Any, BinaryIO, cast

from fastapi import Body, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from memforest.errors import InputError, MemForestError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.pool import no_memory
from memforest.read.receipts import DeleteReceipt, ForestMergeResult, MemoryImport, MergeResult
from memforest.server.access import Shares
from memforest.server.jobs import MOST_SESSIONS, Intake, JobPage, JobView
from memforest.server.rest import bodies
from memforest.server.rest.bodies import (
    BudgetBody,
    BudgetText,
    Cursor,
    DryRun,
    IdempotencyKey,
    Many,
    Memory,
    Message,
    PageSize,
    UserId,
    body_of,
    encoded,
    read_budget,
    shown_as,
)
from memforest.server.rest.problems import http_problem
from memforest.server.rest.routing import (
    Again,
    Forest,
    User,
    Users,
    Who,
    answer,
    located,
    operation,
    strict_router,
)
from memforest.settings import MAX_ID_CHARS

routes = strict_router("/v1")


async def may_list(who: Who) -> None:
    """Raise unless the key is for one user and may read, or has the scope `admin`."""
    who.require("admin" if who.user is None else "read")


@routes.get(
    "/users",
    **operation(
        "users",
        "list_users",
        Users,
        "admin",
        scopes="admin, of a key for one user read",
        dependencies=[Depends(may_list)],
    ),
)
async def list_users(forest: Forest, who: Who, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List the users who have a memory. A user's key sees only that user; other keys need the scope `admin`."""
    if who.user is not None:
        return answer(Users((who.user,) if await forest.has_user(who.user) else ()))
    page = await forest.users(limit=limit, cursor=cursor)
    return answer(Users(page.users, page.next_cursor))


@routes.put(
    "/users/{user_id}",
    **operation("users", "register_user", User, "write", 409, writes=True, created="The user had no memory."),
)
async def register_user(
    request: Request,
    user_id: UserId,
    forest: Forest,
    who: Who,
    body: Annotated[bodies.RegisterUserBody | None, Body()] = None,
) -> Response:
    """Make a user's memory, or open an existing one."""
    user = who.user_id(user_id)
    known = await forest.has_user(user)
    if known and body is not None and not body.load_existing:
        return http_problem(409, "the user has a memory already; leave load_existing out to open it")
    await forest.register_user(user, **bodies.given_options(body))
    return answer(User(user), 200 if known else 201, located(request, f"/v1/users/{encoded(user)}"))


@routes.get("/users/{user_id}", **operation("users", "has_user", User, "read"))
async def has_user(user_id: UserId, forest: Forest, who: Who) -> Response:
    """Return whether a user has a memory: 404 if not."""
    user = who.user_id(user_id)
    if not await forest.has_user(user):
        raise no_memory(user)
    return answer(User(user))


@routes.delete("/users/{user_id}", **operation("users", "delete_user", DeleteReceipt, "delete", writes=True))
async def delete_user(memory: Memory, dry_run: DryRun = False) -> Response:
    """Delete a user's memory with all its files, or count what would be deleted."""
    return answer(await memory.delete_all(dry_run=dry_run))


@routes.post("/users/{user_id}/merge", **operation("users", "merge", MergeResult, "admin", ingests=True))
async def merge(memory: Memory, who: Who, body: bodies.MergeBody) -> Response:
    """Merge another user's memory into this one. The other does not change."""
    given = body.options()
    return answer(await memory.merge(who.user_id(given.pop("from_user")), **given))


@routes.post(
    "/merge_user_forests",
    **operation("users", "merge_user_forests", ForestMergeResult, "admin", ingests=True),
)
async def merge_user_forests(forest: Forest, who: Who, body: bodies.MergeUserForestsBody) -> Response:
    """Merge the memories of several users into one, which may be new. The others do not change."""
    given = body.options()
    for user in (*given["source_user_ids"], given["target_user_id"]):
        who.user_id(user)
    return answer(await forest.merge_user_forests(**given))


CHUNK = 64 * 1024
WAITING = 8
"""Most chunks that wait for a slow reader; the writer waits with them."""
PATIENCE_S = 60.0
"""How long a reader may take for one chunk. Whoever stops reading does not keep the memory for longer."""
LEAST_BYTES_S = 10_000
"""Bytes a second that a reader takes over the whole, beyond the patience: whoever takes a byte now and then does not either."""


class Pipe:
    """A pipe of bytes, written from another thread and read as chunks.

    Args:
        work: writes everything into the pipe that it is given, and awaits that.
    """

    def __init__(self, work: Callable[[Pipe], Awaitable[object]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._held = bytearray()
        self._over = False
        self._left_s = PATIENCE_S
        self._work = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Callable[[Pipe], Awaitable[object]]) -> None:
        try:
            await work(self)
            if self._held:
                await self._chunks.put(bytes(self._held))
        finally:
            await self._chunks.put(b"")  # the end

    def write(self, data: bytes) -> int:
        """Take bytes, and wait while the reader is behind.

        Raises:
            BrokenPipeError: if nobody reads any more, or not fast enough.
        """
        self._held += data
        if len(self._held) >= CHUNK:
            chunk, self._held = bytes(self._held), bytearray()
            self._put(chunk)
        return len(data)

    def _put(self, chunk: bytes) -> None:
        if self._over:
            raise BrokenPipeError("nobody reads")
        waiting = asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop)
        begun = time.monotonic()
        try:
            waiting.result(self._left_s)
        except (LateError, CancelledError):
            waiting.cancel()
            raise BrokenPipeError("nobody reads") from None
        waited = time.monotonic() - begun
        self._left_s = min(PATIENCE_S, self._left_s - waited + len(chunk) / LEAST_BYTES_S)

    def flush(self) -> None:
        """Do nothing: what is held is sent at the end."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the written chunks as they come.

        Raises:
            MemForestError: what the work raises.
        """
        try:
            while chunk := await self._chunks.get():
                yield chunk
            await self._work
        finally:
            await self._end()

    async def _end(self) -> None:
        """End the writer, wherever it is."""
        self._over = True
        while not self._chunks.empty():
            self._chunks.get_nowait()
        self._work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._work


class PipeResponse(StreamingResponse):
    """A response that streams a pipe; when it ends, the writer ends too."""

    @classmethod
    async def of(cls, pipe: Pipe, media_type: str) -> PipeResponse:
        """Return the response after its first chunk, so that an early failure comes before the response begins."""
        chunks = pipe.chunks()
        first = await anext(chunks, b"")

        async def every() -> AsyncIterator[bytes]:
            yield first
            async for chunk in chunks:
                yield chunk

        made = cls(every(), media_type=media_type)
        made.chunks = chunks
        return made

    chunks: AsyncGenerator[bytes, None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and end the writer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.chunks.aclose()


FILE = "application/octet-stream"
LINES = ("application/jsonl", "application/x-ndjson")
"""Other names of the same."""

_FILE: dict[str, Any] = {"content": {FILE: {"schema": {"type": "string", "format": "binary"}}}}


@routes.get(
    "/users/{user_id}/export",
    **operation(
        "transfer",
        "export",
        None,
        "read",
        responses={200: {"description": "JSON Lines; docs/export.md has the schema.", **_FILE}},
        response_class=StreamingResponse,
    ),
)
async def export(
    user_id: UserId,
    request: Request,
    who: Who,
    vectors: Annotated[bool, Query(description="include the vectors: the import is faster")] = False,
    summaries: Annotated[bool, Query(description="include the summaries of trees")] = True,
) -> Response:
    """Return the whole memory at one moment. `import_` makes the same memory from it.

    The connection is cut where it fails on the way: the file is whole if it ends with its last record.
    """
    user = who.user_id(user_id)
    downloads = cast(Shares, request.app.state.downloads)

    async def work(pipe: Pipe) -> None:
        with downloads.one(who.tenant):
            async with request.app.state.access.forest(who) as forest:
                await forest.user(user).export(cast(BinaryIO, pipe), vectors=vectors, summaries=summaries)

    return await PipeResponse.of(Pipe(work), FILE)


@routes.post(
    "/users/{user_id}/import",
    **operation(
        "transfer",
        "import_",
        MemoryImport,
        "write",
        ingests=True,
        openapi_extra={"requestBody": {"required": True, **_FILE}},
    ),
)
async def import_(memory: Memory, request: Request, budget: BudgetText = None) -> Response:
    """Make this user's memory from an export. The user must have none. Import larger files on the server itself."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in (FILE, *LINES):
        raise HTTPException(415, f"the body must be an export, with Content-Type: {FILE}")
    spends = None if budget is None else read_budget(budget)
    return answer(await memory.import_(io.BytesIO(await request.body()), budget=spends))


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


class IngestBody(bodies.Body):
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


@routes.post(
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
                "description": "Everything that can be stored is stored.",
                "headers": {"Location": {"description": "address of the job", "schema": {"type": "string"}}},
            }
        },
    ),
)
async def ingest(
    request: Request, body: IngestBody, who: Who, jobs: Jobs, idempotency_key: IdempotencyKey = None
) -> Response:
    """Store many sessions of many users, and extract their facts in the background.

    The answer comes when they are stored. A session that cannot be stored is refused alone: `refused` names its place in
    the request, and the reason. The same sessions sent again change nothing; with `Idempotency-Key` they are the same job.
    """
    given = body.options()
    made = await jobs.submit(
        who, given["sessions"], budget=given.get("budget"), idempotency_key=idempotency_key
    )
    return answer(made, 202, located(request, f"/v1/jobs/{made.id}"))


@routes.get("/jobs", **operation("jobs", "list_jobs", JobPage, "read", **LOOK))
async def list_jobs(who: Who, jobs: Jobs, limit: PageSize = 50, cursor: Cursor = None) -> Response:
    """List ingest jobs, the newest first. They are known for 7 days after their end."""
    return answer(await jobs.jobs(who, limit=limit, cursor=cursor))


@routes.get("/jobs/{job_id}", **operation("jobs", "get_job", JobView, "read", **LOOK))
async def get_job(job_id: JobId, who: Who, jobs: Jobs) -> Response:
    """Return the state of an ingest job."""
    return answer(await jobs.job(who, job_id))


@routes.post("/jobs/{job_id}/cancel", **operation("jobs", "cancel_job", JobView, "write", writes=True))
async def cancel_job(job_id: JobId, who: Who, jobs: Jobs) -> Response:
    """Cancel an ingest job. A job that has ended does not change.

    Its sessions stay stored. `resume`, or a later job of the same user, makes memory of them.
    """
    return answer(await jobs.cancel(who, job_id))


@routes.get(
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
        str | None, Header(description="continue after this event", pattern="^[0-9]{0,15}$")
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
