"""The inspector as an ASGI app: routes, and the headers that every answer has."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from memforest.server.auth import Access, Scope, place_of
from memforest.server.jobs import Intake
from memforest.server.ui import acting, asking, pages
from memforest.server.ui.site import Handler, Site

_log = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but this server's own files: no inline script or style, no other host, no frame around it."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

ASSETS = {
    "style.css": "text/css; charset=utf-8",
    "mark.svg": "image/svg+xml",
    "vendor/htmx.min.js": "text/javascript; charset=utf-8",
    "vendor/hx-sse.min.js": "text/javascript; charset=utf-8",
    "vendor/LICENSE.htmx": "text/plain; charset=utf-8",
}
"""The files that are served, and what they are; there is no way to any other."""

PAGES: tuple[Handler, ...] = (
    *(pages.forest, pages.tree, pages.find, pages.entities, pages.timeline, pages.facts, pages.fact),
    *(pages.sessions, pages.session, pages.turn, asking.ask, asking.diff, acting.jobs, acting.job),
)
FORMS: Mapping[Scope, Sequence[Handler]] = {
    "write": (acting.cancel, acting.pin, acting.update, acting.undo),
    "delete": (acting.forget, acting.delete),
}
"""What stands at an address of its own name; a form needs the scope."""


def ui_app(
    access: Access, *, hosts: Collection[str] = (), intake: Intake | None = None, https: bool = False
) -> ASGIApp:
    """Return the inspector, to be mounted in another app, as at ``/ui``, or run by itself.

    Args:
        access: decides who may look into what. Where it asks for no key there is no login; then the request must name this
            machine itself, or one of `hosts`.
        hosts: further names of this server, for requests without a key.
        intake: the ingest jobs of the server, which have a page where they are given.
        https: browsers come by https, even if a proxy does not say so: the cookie is then for https alone.
    """
    site = Site(access, hosts, intake, https)
    routes = [
        Route("/", site.page(acting.users)),
        Route("/login", site.login, methods=["GET", "POST"]),
        Route("/logout", site.logout, methods=["POST"]),
        Route("/enter", site.enter),
        Route("/job/events", site.page(acting.events)),
        Route("/static/{name:path}", _static),
        *(Route(f"/{page.__name__}", site.page(page)) for page in PAGES),
    ]
    for scope, handlers in FORMS.items():
        routes += [Route(f"/{one.__name__}", site.form(one, scope), methods=["POST"]) for one in handlers]
    failed = dict.fromkeys((404, 405, Exception), site.failed)
    return guarded(Starlette(routes=routes, exception_handlers=failed))


def guarded(app: ASGIApp) -> ASGIApp:
    """Middleware: add the security headers to every answer, errors and files included, and log unexpected errors.

    These are logged by their kind and place alone, and not raised, so that no server logs their text or trace.

    Args:
        app: the pages; it has answered an error before it raises it.
    """

    async def serve(scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def sends(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            await app(scope, receive, sends)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the server would log its trace
            _log.error("unexpected %s at %s", type(exc).__name__, place_of(exc))
            # A page that was begun stays unfinished, by which the browser sees that it failed.

    return serve


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("There is no such file.", 404, media_type="text/plain")
    content = (files("memforest.server.ui") / "static" / name).read_bytes()
    return Response(content, media_type=ASSETS[name], headers={"cache-control": "max-age=3600"})
