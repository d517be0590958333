"""The factory of the REST app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from memforest import __version__
from memforest.access import Access, OpenAccess
from memforest.config import Config
from memforest.forest.forest import AsyncMemForest
from memforest.intake import Intake, IntakeBounds
from memforest.rest import compat, openapi, operations, problems
from memforest.rest.asgi import Around
from memforest.rest.routes import ROUTERS

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
    """Return an app that serves memories over REST; to be run by itself or mounted in a host's app.

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
    decides = access

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            async with operations.operating(_app):
                yield
        finally:
            await decides.close()

    # FastAPI's own spans and logs hold paths, queries and messages of errors; those of the verbs do not. See memforest.spans.
    app = FastAPI(
        title="memforest",
        version=__version__,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.access = access
    problems.install(app)
    openapi.install(app)
    app.add_middleware(Around, origins=origins)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), **CORS)
    for router in (*ROUTERS, *compat.ROUTERS):
        app.include_router(router)
    operations.install(app, access, Intake(access, jobs))
    return app
