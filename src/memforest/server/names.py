"""Names by which a server on this machine alone is asked: those of this machine, and those that were allowed."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from memforest.rest.problems import http_problem
from memforest.ui.entering import is_local_host

__all__ = ["OwnNames"]

ELSEWHERE = ("/mcp", "/ui", "/livez", "/readyz")
"""MCP and the inspector look at the name themselves; who asks for health learns nothing."""
CREDENTIALS = ("x-api-key", "authorization")


class OwnNames:
    """Middleware of a server that may need no key: refuses requests without one that name another host than this machine.

    A page of another site can let a name of its own point here; to the browser it then is the same site, and it could read
    every memory. Such a page has no key, and cannot name this machine.

    Args:
        app: what it stands around.
        hosts: further names, without a port.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = tuple(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and not self._passes(scope):
            problem = http_problem(421, "this server is asked by another name; --allow-host allows one")
            await problem(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _passes(self, scope: Scope) -> bool:
        path, headers = scope["path"], Headers(scope=scope)
        return (
            any(path == one or path.startswith(f"{one}/") for one in ELSEWHERE)
            or any(name in headers for name in CREDENTIALS)
            or is_local_host(headers.get("host", ""), self.hosts)
        )
