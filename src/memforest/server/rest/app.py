"""The REST app: `create_app` puts its routes, middleware, ingest jobs, health and metrics together.

The middleware `Around` looks at each request before any route: ids in paths, sizes of bodies, pages of other origins, headers,
and unexpected errors. ``/livez`` and ``/readyz`` need no key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest import __version__
from memforest.config import Config
from memforest.errors import MemForestError
from memforest.integrations import mem0_routes, openai_routes
from memforest.memory.forest import AsyncMemForest
from memforest.memory.together import Readiness
from memforest.server.access import Shares
from memforest.server.auth import PRINCIPAL, Access, OpenAccess, Principal, from_elsewhere, place_of_origin
from memforest.server.jobs import Intake, IntakeBounds
from memforest.server.rest import memory_routes, metrics, openapi, problems, user_routes
from memforest.server.rest.metrics import Measured, Metrics
from memforest.server.rest.routing import strict_router
from memforest.settings import MAX_BODY_BYTES

ENCODED = "/v1/"
"""Below it, paths are matched as they came: an id in them may hold an encoded slash."""
MOST_HELD = 8 * MAX_BODY_BYTES
"""Bytes of the bodies of a tenant's requests that are under way."""
BODY_S = 120.0
"""How long a body may take from its first byte that is read to its last, however it comes."""
COSTS = ("/v1/", "/compat/", "/mcp")
"""What may ask models, also when it is only read."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

PLAIN = "mem0-user-id"
"""Who sends this header, mem0's client, reads a problem of ``application/json`` alone."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""Of every response that does not set them itself."""


class Around:
    """Middleware of the REST app, outside its routes and inside Starlette's own handling of errors.

    Args:
        app: what it stands around.
        origins: other origins whose pages may write; `CORSMiddleware` lets them read.
        max_body: most bytes of a body.
    """

    def __init__(
        self, app: ASGIApp, *, origins: Collection[str] = (), max_body: int = MAX_BODY_BYTES
    ) -> None:
        self.app = app
        self.origins = frozenset(origins)
        self.max_body = max_body
        self._held = Shares(MOST_HELD, "bytes of bodies")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sends = _Sends(send, only_head=scope["method"] == "HEAD", plain=PLAIN in headers)
        # Routes below ``/v1/`` are found by the path as it came, others by the path as the server has decoded it. So an id with
        # a slash, encoded as ``%2F``, stays within its part of the path, and ``%2e%2e`` is an id like any other. The scope is
        # `Measured`'s own, which looks in it for the route.
        path, root = str(scope["path"]), str(scope.get("root_path", ""))
        if path[len(root) :].startswith(ENCODED):
            raw = scope.get("raw_path")
            came = quote(path, safe="/%") if raw is None else bytes(raw).partition(b"?")[0].decode("latin-1")
            own = "/" + "/".join(came.split("/")[root.count("/") + 1 :])  # behind where the app is mounted
            if own.startswith(ENCODED):
                scope["path"] = root + own
        if scope["method"] == "HEAD":
            scope["method"] = "GET"
        receives = _Receives(scope, receive, self.max_body, self._held)
        try:
            if (problem := self._refused(scope, headers)) is not None:
                await problem(scope, receive, sends)
            else:
                await self.app(scope, receives, sends)
        except Exception as exc:  # noqa: BLE001 - whatever it is, Starlette would write its text into the log
            answer = problems.unexpected(exc)
            if not sends.started:
                await answer(scope, receive, sends)
            # A response that was begun stays unfinished, by which the client sees that it failed.
        finally:
            for tenant, size in receives.shares:
                self._held.give_back(tenant, size)

    def _refused(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        """Return the problem of a request to refuse before routing; None for any other."""
        origin = headers.get("origin")
        # A browser sends simple requests to a server on loopback from any page, without asking first.
        is_allowed = origin is not None and (origin in self.origins or "*" in self.origins)
        own = headers.get("host", "").lower()
        is_own = is_allowed or (origin is not None and place_of_origin(origin) == own)
        if origin is not None and scope["method"] not in SAFE and not is_own:
            return problems.http_problem(403, "pages of another origin may not do this")
        if scope["path"].startswith(COSTS) and from_elsewhere(headers) and not is_allowed:
            return problems.http_problem(
                403, "a page of another origin may not ask for this, since it may cost"
            )
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity" and scope["method"] not in SAFE:
            return problems.http_problem(
                415, "send the body as it is, without Content-Encoding", {"Accept-Encoding": "identity"}
            )
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return problems.http_problem(400, "Content-Length is no number")
        if len(length) > 18 or int(length) > self.max_body:
            return problems.http_problem(413, _too_large(self.max_body))
        return None


def _too_large(most: int) -> str:
    return f"the body has more than {most:,} bytes; send it in parts"


@dataclass
class _Receives:
    """The `receive` of a request, which bounds the body's size, its time, and the tenant's bodies under way."""

    scope: Scope
    receive: Receive
    most: int
    held: Shares
    shares: list[tuple[str | None, int]] = field(default_factory=list)
    """What the body takes of its tenant's share: to be given back when the request has ended."""
    _came: int = 0
    _until: float | None = None
    _whole: bool = False

    async def __call__(self) -> Message:
        if self._whole:
            message = await self.receive()
        else:
            loop = asyncio.get_running_loop()
            self._until = self._until or loop.time() + BODY_S
            try:
                message = await asyncio.wait_for(self.receive(), self._until - loop.time())
            except asyncio.TimeoutError:
                raise HTTPException(408, "the body did not arrive in time") from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._came += size
            if self._came > self.most:
                raise HTTPException(413, _too_large(self.most))
            who = self.scope.get(PRINCIPAL)
            if size and isinstance(who, Principal):
                self.held.take(who.tenant, size)
                self.shares.append((who.tenant, size))
        self._whole = not message.get("more_body", False)
        return message


@dataclass
class _Sends:
    """The `send` of a request, which adds the common headers, and drops the body of an answer to HEAD."""

    send: Send
    only_head: bool
    plain: bool
    started: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.plain and headers.get("content-type") == problems.MEDIA_TYPE:
                headers["content-type"] = "application/json"
        elif self.only_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self.send(message)


_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""How long a check may take."""
KEEP_S = 5.0
"""How long its outcome holds, however often it is asked for."""

health_routes = strict_router()


class Health:
    """The readiness check of a server, cached for some seconds and shared by concurrent requests.

    Args:
        access: whose memories.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._readiness = Readiness()
        self._looked: float | None = None
        self._problem: str | None = None
        self._one = asyncio.Lock()
        self.draining = False
        """The server is ending."""

    async def problem(self) -> str | None:
        """Return the reason why the server cannot serve, or None. It names no file and no user."""
        if self.draining:
            return "draining"
        async with self._one:
            if self._looked is None or time.monotonic() - self._looked > KEEP_S:
                self._problem = await self._check()
                self._looked = time.monotonic()
        return "draining" if self.draining else self._problem

    async def _check(self) -> str | None:
        async def check() -> None:
            async with self._access.forest(Principal()) as forest:
                await self._readiness.check(forest)

        try:
            await asyncio.wait_for(check(), CHECK_S)
        except MemForestError as exc:
            problem = type(exc).__name__
        except asyncio.TimeoutError:
            problem = "Timeout"
        else:
            return None
        _log.warning("not ready: %s", problem)
        return problem


@health_routes.get("/livez", tags=["health"], operation_id="livez")
async def livez() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@health_routes.get(
    "/readyz",
    tags=["health"],
    operation_id="readyz",
    response_model=dict[str, str],
    responses={503: {"description": "not ready, or about to end", "model": dict[str, str]}},
)
async def readyz(request: Request) -> JSONResponse:
    """Open a memory and embed one word; say whether both went well, and that the server is not about to end."""
    problem = await cast(Health, request.app.state.health).problem()
    if problem is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "reason": problem}, 503, {"Retry-After": "5"})


WITHIN_S = 10.0
"""How long jobs that are under way may take to end with the app."""

DOWNLOADS = 4
"""Exports of a tenant at once: each has a thread, and keeps the memory from folding its log, for as long as it is read."""


@asynccontextmanager
async def operating(app: FastAPI) -> AsyncIterator[None]:
    """Resume the jobs that an earlier process left; on leaving, let those under way end, or leave them, and close the memories."""
    intake = cast(Intake, app.state.intake)
    try:
        await intake.start()
        yield
    finally:
        drain(app)
        try:
            await intake.close(within_s=getattr(app.state, "drain_s", WITHIN_S))
        finally:
            await app.state.access.close()


def drain(app: FastAPI) -> None:
    """Mark the app as not ready from now on, and refuse new ingest jobs."""
    cast(Health, app.state.health).draining = True
    cast(Intake, app.state.intake).refuse()


ROUTERS = (user_routes.routes, memory_routes.routes)
"""The routes below ``/v1``, in the order of the document."""

COMPAT_ROUTERS: tuple[APIRouter, ...] = (mem0_routes.routes, openai_routes.routes)
"""Facades for clients of other memories, outside of the document (docs/compat.md)."""

CORS: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": ["Authorization", "Content-Type", "Idempotency-Key", "X-API-Key"],
    "expose_headers": ["Location", "Retry-After"],
}
"""What a page of an allowed origin may do. It sends its key itself: no cookies are read."""


def create_app(
    forest_or_dir: AsyncMemForest | str | Path | None = None,
    config: Config | None = None,
    *,
    access: Access | None = None,
    origins: Sequence[str] = (),
    jobs: IntakeBounds | None = None,
) -> FastAPI:
    """Return the REST app, to be run by itself or mounted in a host's app.

    Args:
        forest_or_dir: the memories: a forest, which stays the caller's to close, or its directory.
        config: of the forest that is made for a directory.
        access: decides on requests in the place of both; without it everybody who reaches the app may do everything.
        origins: origins of pages that may use it from a browser (CORS), such as ``"https://app.example"``; none when not given.
        jobs: what ingest jobs may take.
    """
    if access is None:
        if isinstance(forest_or_dir, AsyncMemForest):
            access = OpenAccess(forest_or_dir)
        else:
            access = OpenAccess(AsyncMemForest(forest_or_dir, config), owned=True)  # type: ignore[arg-type]  # it refuses None
    # FastAPI's own spans and logs hold paths, queries and messages of errors; those of the verbs do not. See memforest.spans.
    app = FastAPI(
        title="memforest",
        version=__version__,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=operating,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    intake = Intake(access, jobs)
    app.state.access, app.state.intake = access, intake
    app.state.downloads = Shares(DOWNLOADS, "downloads")
    app.state.health, app.state.metrics = Health(access), Metrics(access, intake)
    problems.install(app)
    openapi.install(app)
    app.add_middleware(Around, origins=origins)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), **CORS)
    for router in (*ROUTERS, *COMPAT_ROUTERS, health_routes, metrics.metric_routes, openapi.docs_routes):
        app.include_router(router)
    app.add_middleware(Measured, metrics=app.state.metrics)
    return app
