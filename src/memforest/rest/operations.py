"""What an app has beside its routes: ingest jobs in the background, health, metrics and their log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI
from starlette.middleware import Middleware

from memforest.access import Access, Shares
from memforest.intake import Intake
from memforest.rest import health, metrics
from memforest.rest.health import Health
from memforest.rest.metrics import Measured, Metrics, Seen

WITHIN_S = 10.0
"""How long jobs that are under way may take to end with the app."""

DOWNLOADS = 4
"""Exports of a tenant at once: each has a thread, and keeps the memory from folding its log, for as long as it is read."""


def install(app: FastAPI, access: Access, intake: Intake) -> None:
    """Give an app its ingest jobs, health and metrics; called when all other middleware is there."""
    app.state.intake = intake
    app.state.downloads = Shares(DOWNLOADS, "downloads")
    app.state.health = Health(access)
    app.state.metrics = Metrics(access, intake)
    for router in (health.router, metrics.router):
        app.include_router(router)
    app.user_middleware.append(Middleware(Seen))
    app.add_middleware(Measured, metrics=app.state.metrics)


@asynccontextmanager
async def operating(app: FastAPI) -> AsyncIterator[None]:
    """Go on with the jobs that an earlier process left; on leaving, let those under way end, or park them."""
    intake = cast(Intake, app.state.intake)
    await intake.start()
    try:
        yield
    finally:
        drain(app)
        await intake.close(within_s=getattr(app.state, "drain_s", WITHIN_S))


def drain(app: FastAPI) -> None:
    """Say from now on that the app is not ready, and take no more ingest jobs in."""
    cast(Health, app.state.health).draining = True
    cast(Intake, app.state.intake).refuse()
