"""One ASGI app of everything that is served: REST with its facades, MCP at ``/mcp``, the inspector at ``/ui``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from memforest.access import KeyedAccess, is_loopback
from memforest.config import Config
from memforest.mcp.http import LOOPBACK, http_app
from memforest.rest import create_app
from memforest.server.guard import OpenGuard
from memforest.server.settings import ServerSettings
from memforest.ui.app import ui_app


def create_server(
    directory: str | Path,
    config: Config | None = None,
    settings: ServerSettings | None = None,
    *,
    access: KeyedAccess | None = None,
) -> FastAPI:
    """Return the app that `memforest serve` runs.

    Args:
        directory: where the memories, keys and tenants are.
        config: of all memories; None is `load_default_config()`.
        settings: see `ServerSettings`.
        access: decides on requests in the place of what `directory`, `config` and `settings` say of that.

    Raises:
        ConfigError: if a setting needs what is not installed, or `config` names no model that there is.
    """
    settings = settings or ServerSettings()
    access = access or KeyedAccess(directory, config, settings.access, loopback=is_loopback(settings.host))
    app = create_app(access=access, origins=settings.origins, jobs=settings.jobs)
    app.state.drain_s = settings.jobs_s
    if settings.mcp:
        _add_mcp(app, access, settings)
    if settings.ui:
        app.router.routes.extend(Route(path, _to_inspector) for path in ("/", "/ui"))
        https = (settings.address or "").lower().startswith("https:")
        app.mount("/ui", ui_app(access, hosts=settings.hosts, intake=app.state.intake, https=https))
    guard = Middleware(OpenGuard, access=access, origins=settings.origins, hosts=settings.hosts)
    app.user_middleware.insert(1, guard)  # behind the outermost one, which counts
    return app


def _add_mcp(app: FastAPI, access: KeyedAccess, settings: ServerSettings) -> None:
    """Add the address of MCP; its sessions live as long as the app does."""
    issuer = settings.access.issuer
    endpoint = http_app(
        access,
        allowed_hosts=(*LOOPBACK, *settings.names),
        resource_url=None if settings.address is None else f"{settings.address.rstrip('/')}/mcp",
        issuer=None if issuer is None else issuer.issuer,
        scope_prefix="" if issuer is None else issuer.scope_prefix,
        tools=settings.tools,
    )
    app.router.routes.extend(endpoint.routes("/mcp"))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(whole: Any) -> AsyncIterator[Any]:
        async with inner(whole) as state, endpoint.lifespan(whole):
            yield state

    app.router.lifespan_context = lifespan


async def _to_inspector(request: Request) -> Response:
    """Lead to the inspector whoever leaves out its last slash, or opens the bare address of the server."""
    return RedirectResponse(f"{quote(str(request.scope.get('root_path', '')))}/ui/", 307)


def served(settings: ServerSettings) -> dict[str, str]:
    """Return what is served, and where below the server's address."""
    found = {"rest": "/v1", "openapi": "/openapi.json", "metrics": "/metrics", "ready": "/readyz"}
    if settings.mcp:
        found["mcp"] = "/mcp"
    if settings.ui:
        found["inspector"] = "/ui"
    return found
