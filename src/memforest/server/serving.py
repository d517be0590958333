"""The ASGI app of the whole server, and running it with uvicorn: socket, signals, and an end within half a minute.

`open_guard` guards a server that needs no key: pages of other sites must not reach it by way of the browser of whoever runs it.
Two roads lead there. A site whose name is made to point to this machine (DNS rebinding) asks with its own name in ``Host``,
and with any other header it likes, a key that is none among them. And any page can send a form to ``http://127.0.0.1``, with
its own address in ``Origin``. A key that is needed closes both, as no page knows it.
Source: https://fetch.spec.whatwg.org/#origin-header, https://www.rfc-editor.org/rfc/rfc9110#section-7.2.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest.config import Config
from memforest.errors import ConfigError, StoreError
from memforest.server.access import KeyedAccess
from memforest.server.auth import AccessSettings, is_local_host, is_loopback, place_of, place_of_origin
from memforest.server.jobs import IntakeBounds
from memforest.server.mcp.http import LOOPBACK, http_app
from memforest.server.rest.app import create_app, drain
from memforest.server.rest.problems import http_problem
from memforest.server.ui.app import ui_app
from memforest.settings import Bound, Settings, brief

HEALTH = ("/livez", "/readyz")
"""Who asks for these learns nothing."""
OTHER_NAME = (
    "without keys this server is asked by the names of this machine: as localhost or 127.0.0.1, or by one that --allow-host "
    "allows; or make a key (memforest keys create NAME) and send it"
)
OTHER_PAGE = (
    "without keys this server is not asked by another site's page; --allow-origin allows one, or make a key (memforest keys "
    "create NAME) and send it"
)


def open_guard(
    app: ASGIApp, *, access: KeyedAccess, origins: Collection[str] = (), hosts: Collection[str] = ()
) -> ASGIApp:
    """Middleware: while no key is needed, refuse requests that another site's page may have sent.

    Args:
        app: what it stands around.
        access: says whether a key is needed.
        origins: those of other sites that may ask, as configured for CORS.
        hosts: further names of this server, without a port.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            is_open = scope["type"] == "http" and scope["path"] not in HEALTH and await access.is_open()
        except StoreError:
            is_open = False  # nobody is let in then, which the app says
        if is_open:
            host, origin = _only(scope, b"host"), _only(scope, b"origin", missing="")
            if host is None or not is_local_host(host, hosts):
                await http_problem(421, OTHER_NAME)(scope, receive, send)
                return
            if origin is None or not (
                not origin or origin in origins or place_of_origin(origin) == host.lower()
            ):
                await http_problem(403, OTHER_PAGE)(scope, receive, send)
                return
        await app(scope, receive, send)

    return guard


def _only(scope: Scope, name: bytes, *, missing: str | None = None) -> str | None:
    """Return the value of a header: `missing` if it is absent, None if it is there more than once."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return missing if not found else found[0] if len(found) == 1 else None


BACKLOG = 2048
OTHERS = "--port takes another port (0 for any free one), --host another address"


def listen(host: str, port: int, fix: str = OTHERS) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes any free one.

    A name of this machine alone is never bound to another address, whatever it resolves to.

    Args:
        host: the address, or a name of it.
        port: of it.
        fix: what to do where that cannot be.

    Raises:
        ConfigError: if there is no such address, or the port is in use or not allowed. It says what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        if is_loopback(host):
            found = [one for one in found if is_loopback(str(one[4][0]))]
            if not found:
                raise ConfigError(
                    f"the hosts file does not name {host} as this machine; use --host 127.0.0.1"
                )
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except (OSError, UnicodeError) as exc:
        why = getattr(exc, "strerror", None) or exc
        raise ConfigError(f"cannot listen on {host} port {port}: {why}; {fix}") from exc
    made.set_inheritable(True)
    return made


def url_of(host: str, listening: socket.socket) -> str:
    """Return the address of what listens on a socket, as a browser takes it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


END_S = 30.0
"""A server that was told to end has ended by then: after its grace, at most 10 seconds, what follows, and closing the memories."""
REQUESTS_S = 5.0
"""How long requests under way may then take."""
JOBS_S = 8.0
"""How long ingest jobs under way may then take; the next start goes on with the others."""


@dataclass(frozen=True, slots=True)
class ServerSettings(Settings):
    """Settings of a server beside those of its memories.

    The memories and models are `Config`'s.
    """

    host: str = "127.0.0.1"
    """The address that it listens on; another than this machine's own takes a key, see `memforest keys`."""
    access: AccessSettings = field(default_factory=AccessSettings)
    """Limits, and whose tokens are taken."""
    jobs: IntakeBounds = field(default_factory=IntakeBounds)
    """What ingest jobs may take."""
    origins: Sequence[str] = ()
    """Origins of pages that may use REST from a browser (CORS)."""
    hosts: Sequence[str] = ()
    """What the header ``Host`` may be where a request without a key may be served, and at ``/mcp``, beside the names of this
    machine: ``"memory.example:*"`` for any port."""
    address: str | None = None
    """The server's address as clients know it, such as ``"https://memory.example"``; for MCP's metadata of tokens. Its host is
    one that requests to ``/mcp`` may name, where keys or tokens are needed."""
    mcp: bool = True
    """Serve the Model Context Protocol at ``/mcp``."""
    tools: Literal["read", "default", "full", "openai"] = "default"
    """Which tools MCP has; see ``docs/mcp.md``."""
    ui: bool = True
    """Serve the inspector at ``/ui``."""
    grace_s: Annotated[float, Bound(ge=0, le=10)] = 1.0
    """How long it still accepts connections when it was told to end, so that who asks ``/readyz`` learns of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Hosts that requests to ``/mcp`` may name beside loopback: `hosts`, and the host of `address`.

        Not where no key is needed: a proxy on this machine would open to everybody what was for this machine alone.
        """
        if self.address is None:
            return tuple(self.hosts)
        name = str(urlsplit(self.address).hostname)
        return (*self.hosts, f"[{name}]:*" if ":" in name else f"{name}:*")

    def _check(self) -> None:
        """Raise for a wrong address; make lists immutable."""
        if self.address is not None and not _is_web_address(self.address):
            raise ConfigError(
                f"ServerSettings(address={brief(self.address)}) is not an address; write one such as 'https://memory.example'"
            )
        for name in ("origins", "hosts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


def _is_web_address(given: str) -> bool:
    """Return whether a text is an http or https address without query and fragment."""
    try:
        parts = urlsplit(given)
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and not (parts.query or parts.fragment)


_log = logging.getLogger(__name__)

KEEP_ALIVE_S = 30
MOST_HEADER_BYTES = 64 * 1024
MOST_CONNECTIONS = 500
"""More get 503; half of the files that a process may have open by default stay for memories."""
ENDING = "the server is stopping and cut this request off; what was stored stays. Send it again when the server is back"
LATE_S = 2.0
"""How long before the end of all patience the process is ended by force."""


class Serving(uvicorn.Server):
    """A uvicorn server that ends in good order at the first signal, and at once at the second.

    First it says that it is not ready, and takes no ingest jobs; then it stops accepting; requests and jobs under way get
    their time; then memories are closed. After `END_S` seconds it ends whatever hangs: every write that was
    acknowledged is on disk.

    Args:
        app: of `create_server`.
        settings: how long each step may take.
        ready: called when connections are accepted.
    """

    def __init__(self, app: FastAPI, settings: ServerSettings, ready: Callable[[], object]) -> None:
        super().__init__(
            uvicorn.Config(
                _ending(app, lambda: self._told),
                log_config=None,
                access_log=False,
                server_header=False,
                http="h11",  # bounds the head of a request, which httptools does not
                ws="none",
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_S,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=int(REQUESTS_S),
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            )
        )
        self._app = app
        self._settings = settings
        self._ready = ready
        self._told = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_of_loop)
        await super().startup(sockets)
        if self.started and not self._told:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order at the first signal, at once at the second."""
        if self._told:
            _log.warning("ending at once; nothing that was acknowledged is lost")
            os._exit(128 + sig)
        self._told = True
        _end_by_force(END_S - LATE_S)
        if self.started:
            self._loop.call_soon_threadsafe(drain, self._app)
            self._loop.call_soon_threadsafe(self._loop.call_later, self._settings.grace_s, self._stop)
        else:
            self.should_exit = True

    def _stop(self) -> None:
        self.should_exit = True


def _ending(app: ASGIApp, is_ending: Callable[[], bool]) -> ASGIApp:
    """Middleware: answer requests that the server's end cuts off, and end event streams properly.

    Args:
        app: of `create_server`.
        is_ending: whether a signal has come.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        last: Message = {}
        events = False

        async def sends(message: Message) -> None:
            nonlocal last, events
            last = message
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                events = kind.startswith("text/event-stream")
            await send(message)

        try:
            await app(scope, receive, sends)
        except asyncio.CancelledError:
            if last or scope["type"] != "http" or not is_ending():
                raise
            _log.warning("a request was cut off by the end of the server")
            await http_problem(503, ENDING, {"Retry-After": "5"})(scope, receive, send)
        else:
            if events and last.get("more_body") and is_ending():
                await send({"type": "http.response.body", "body": b""})

    return serve


def _of_loop(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error of the event loop by type and place alone; asyncio would log its text and stack."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        _log.error("unexpected %s at %s", type(error).__name__, place_of(error))
    else:
        _log.error("the event loop met an error without an exception")


def _end_by_force(after_s: float) -> None:
    """End the process after some seconds if it is still running."""

    def end() -> None:
        _log.error("ending by force after %.0f seconds; nothing that was acknowledged is lost", after_s)
        os._exit(1)

    timer = threading.Timer(after_s, end)
    timer.daemon = True
    timer.start()


def run(
    app: FastAPI, settings: ServerSettings, listening: socket.socket, ready: Callable[[], object]
) -> bool:
    """Serve until a signal; return whether the app could be started.

    Args:
        app: of `create_server`.
        settings: see `ServerSettings`.
        listening: of `listen`.
        ready: called when connections are accepted.
    """
    serving = Serving(app, settings, ready)
    try:
        serving.run([listening])
    except SystemExit:  # uvicorn's, when the app's start has failed
        return False
    finally:
        listening.close()
    return True


class _Quiet(uvicorn.Server):
    """A uvicorn server that does not raise a signal again at its end: memories are still to be closed."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit, self.should_exit = self.should_exit, True


async def serve_app(app: ASGIApp, listening: socket.socket) -> None:
    """Serve an app for one person on this machine until a signal; requests under way then have two seconds.

    Args:
        app: with its lifespan.
        listening: of `listen`.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    await _Quiet(config).serve([listening])


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
    app.state.drain_s = JOBS_S
    if settings.mcp:
        _add_mcp(app, access, settings)
    if settings.ui:
        app.router.routes.extend(Route(path, _to_inspector) for path in ("/", "/ui"))
        https = (settings.address or "").lower().startswith("https:")
        app.mount("/ui", ui_app(access, hosts=settings.hosts, intake=app.state.intake, https=https))
    guard = Middleware(open_guard, access=access, origins=settings.origins, hosts=settings.hosts)
    app.user_middleware.insert(1, guard)  # behind the outermost one, which counts
    return app


def _add_mcp(app: FastAPI, access: KeyedAccess, settings: ServerSettings) -> None:
    """Add the MCP endpoint to an app; its sessions live as long as the app."""
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
    """Redirect the bare address of the server, and the inspector's without its slash, to the inspector."""
    return RedirectResponse(f"{quote(str(request.scope.get('root_path', '')))}/ui/", 307)


def served(settings: ServerSettings) -> dict[str, str]:
    """Return the path of each served part, by its name."""
    found = {
        "rest": "/v1",
        "docs": "/docs",
        "openapi": "/openapi.json",
        "metrics": "/metrics",
        "ready": "/readyz",
    }
    if settings.mcp:
        found["mcp"] = "/mcp"
    if settings.ui:
        found["inspector"] = "/ui"
    return found
