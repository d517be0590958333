"""The factory of the REST app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from memforest import __version__
from memforest.access import Access, OpenAccess
from memforest.config import Config
from memforest.forest.forest import AsyncMemForest
from memforest.rest import compat, problems
from memforest.rest.routes import ROUTERS

__all__ = ["create_app"]


def create_app(
    forest_or_dir: AsyncMemForest | str | Path | None = None,
    config: Config | None = None,
    *,
    access: Access | None = None,
) -> FastAPI:
    """Return an app that serves memories over REST; to be run by itself or mounted in a host's app.

    Args:
        forest_or_dir: the memories: a forest, which stays the caller's to close, or its directory.
        config: of the forest that is made for a directory.
        access: decides on requests in the place of both; without it everybody who reaches the app may do everything.
    """
    if access is None:
        if isinstance(forest_or_dir, AsyncMemForest):
            access = OpenAccess(forest_or_dir)
        else:
            access = OpenAccess(AsyncMemForest(forest_or_dir, config), owned=True)
    decides = access

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await decides.close()

    app = FastAPI(title="memforest", version=__version__, openapi_url="/openapi.json", lifespan=lifespan)
    app.state.access = access
    problems.install(app)
    for router in (*ROUTERS, *compat.ROUTERS):
        app.include_router(router)
    return app
