"""The inspector as an ASGI app: routes, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Collection
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest.server.auth import Access
from memforest.server.jobs import Intake
from memforest.server.ui import asking, forests, told
from memforest.server.ui.site import Site, answer_errors

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


def ui_app(
    access: Access,
    *,
    prefix: str | None = None,
    hosts: Collection[str] = (),
    intake: Intake | None = None,
    https: bool = False,
) -> ASGIApp:
    """Return the inspector, to be mounted in another app, as at ``/ui``, or run by itself.

    Args:
        access: decides who may look into what. Where it asks for no key there is no login; then the request must name this
            machine itself, or one of `hosts`.
        prefix: where it is mounted, if that is not what the mounting app tells.
        hosts: further names of this server, for requests without a key.
        intake: the ingest jobs of the server, which have a page where they are given.
        https: browsers come by https, even if a proxy does not say so: the cookie is then for https alone.
    """
    site = Site(access, hosts=hosts, intake=intake, https=https)
    routes = [
        Route("/", site.page(told.users)),
        Route("/login", site.login, methods=["GET", "POST"]),
        Route("/logout", site.logout, methods=["POST"]),
        Route("/enter", site.enter),
        Route("/forest", site.page(forests.forest)),
        Route("/tree", site.page(forests.tree)),
        Route("/find", site.page(forests.find)),
        Route("/entities", site.page(told.entities)),
        Route("/timeline", site.page(told.timeline)),
        Route("/facts", site.page(forests.facts)),
        Route("/fact", site.page(forests.fact)),
        Route("/sessions", site.page(told.sessions)),
        Route("/session", site.page(told.session)),
        Route("/ask", site.page(asking.ask)),
        Route("/diff", site.page(asking.diff)),
        Route("/jobs", site.page(told.jobs)),
        Route("/job", site.page(told.job)),
        Route("/job/events", site.page(told.events)),
        Route("/cancel", site.form(told.cancel, "write"), methods=["POST"]),
        Route("/pin", site.form(told.pin, "write"), methods=["POST"]),
        Route("/update", site.form(told.update, "write"), methods=["POST"]),
        Route("/undo", site.form(told.undo, "write"), methods=["POST"]),
        Route("/forget", site.form(told.forget, "delete"), methods=["POST"]),
        Route("/delete", site.form(told.delete, "delete"), methods=["POST"]),
        Route("/static/{name:path}", _static),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={404: site.no_page, 405: site.no_page},
        middleware=[Middleware(answer_errors, page=site.failed)],
    )
    return _guarded(app, prefix)


def _guarded(app: ASGIApp, prefix: str | None) -> ASGIApp:
    """Middleware: add the security headers to every answer, errors and files included."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if prefix is not None and not str(scope.get("root_path", "")).endswith(prefix):
            scope = {**scope, "root_path": str(scope.get("root_path", "")) + prefix}

        async def sends(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await app(scope, receive, sends)

    return serve


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("There is no such file.", 404, media_type="text/plain")
    content = (files("memforest.server.ui") / "static" / name).read_bytes()
    return Response(content, media_type=ASSETS[name], headers={"cache-control": "max-age=3600"})
