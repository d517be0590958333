"""MCP over streamable HTTP, as an ASGI app to mount, and over standard input and output.

Over standard input the SDK's own transport serves, with lines that a signal ends: it would wait for the next one.

Sources: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports,
https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from memforest.errors import AccessError, ForbiddenError, RateLimitError, StoreError, UnauthenticatedError
from memforest.server.auth import ALL_SCOPES, PRINCIPAL, Access, credential_of
from memforest.server.mcp.server import MemoryServer, Profile
from memforest.server.mcp.shapes import of_error
from memforest.settings import MAX_BODY_BYTES, MAX_BODY_ITEMS, has_too_many_items

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")
"""Hosts that requests may name unless others are given: a page of another site cannot reach the server by a name of its own."""
SESSION_IDLE_S = 1800.0
_EXACT = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Leaves an address without a path as it is: clients compare the issuer's with what tokens and the issuer itself say."""
RETRY_S = 5
_REFUSALS: dict[type[Exception], tuple[int, str]] = {
    RateLimitError: (429, "rate_limited"),
    UnauthenticatedError: (401, "invalid_token"),
    ForbiddenError: (403, "insufficient_scope"),
}
"""Class of an error -> status and name of OAuth's error, by RFC 6750."""


class HttpApp:
    """The ASGI app that `http_app` returns, for one address, wherever it is mounted.

    It runs within `lifespan`: by itself, where a server sends the events of ASGI's lifespan to it, or in that of the app which it
    is mounted in, as mounted apps get none. `routes` gives both the address and that of its metadata for such an app.
    """

    def __init__(
        self,
        access: Access,
        servers: tuple[MemoryServer, MemoryServer],
        security: TransportSecuritySettings,
        metadata: Sequence[Route],
        metadata_url: str | None,
    ) -> None:
        self._access = access
        self._metadata = tuple(metadata)
        self._metadata_url = metadata_url
        self._servers = servers
        for server in set(servers):
            server.streamable_http_app(transport_security=security, max_request_body_size=MAX_BODY_BYTES)
            server.session_manager.session_idle_timeout = SESSION_IDLE_S

    def routes(self, path: str = "/mcp") -> list[Route]:
        """Return the routes to mount in another app, whose lifespan has to enter `lifespan`.

        Args:
            path: the address of the endpoint.
        """
        return [Route(path, endpoint=self), *self._metadata]

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Run the clients' sessions, once; leaving the context ends all that are open."""
        async with AsyncExitStack() as stack:
            for server in dict.fromkeys(self._servers):
                await stack.enter_async_context(server.session_manager.run())
            yield

    def alone(self, path: str = "/mcp") -> ASGIApp:
        """Return a standalone app that serves this at `path` and runs its lifespan."""
        return Router(routes=self.routes(path), lifespan=self.lifespan, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, counted against the limits of its key; unexpected errors are answered, not raised."""
        if scope["type"] != "http":
            return
        started = False

        async def sends(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._serve(scope, receive, sends)
        except (HTTPException, AccessError):
            raise  # of the app that this is a part of, which answers it: a body that is too large, or too late
        except Exception as exc:  # noqa: BLE001 - whatever it is, a server would write its trace into the log
            said = of_error(exc, "the request")  # which logs its kind and place
            if not started:
                await _problem(500, "server_error", said)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            who = await self._access.identify(credential_of(Headers(scope=scope)))
            await self._access.count(who)
        except (AccessError, StoreError) as exc:
            await self._refusal(exc)(scope, receive, send)
            return
        scope[PRINCIPAL] = who
        body, receive = await _whole(receive)
        if len(body) <= MAX_BODY_BYTES and await asyncio.to_thread(has_too_many_items, body):
            said = f"the body has more than {MAX_BODY_ITEMS:,} values; send it in parts"
            await _problem(413, "invalid_request", said)(scope, receive, send)
            return
        # The SDK tells by this whose the sessions are. The token itself is not kept, on purpose.
        client = json.dumps((who.tenant, who.user, who.key))
        token = AccessToken(token="", client_id=client, scopes=sorted(who.scopes))
        scope["user"] = AuthenticatedUser(token)
        free, bound = self._servers
        manager = (free if who.user is None else bound).session_manager
        await AuthContextMiddleware(manager.handle_request)(scope, receive, send)

    def _refusal(self, error: AccessError | StoreError) -> JSONResponse:
        """Return the HTTP response to a refused request.

        Source: https://www.rfc-editor.org/rfc/rfc6750#section-3
        """
        status, name = next(
            (known for kind, known in _REFUSALS.items() if isinstance(error, kind)),
            (503, "temporarily_unavailable"),  # nobody can be told from anybody just now
        )
        headers = {"retry-after": str(RETRY_S)} if status == 503 else {}
        if isinstance(error, RateLimitError):
            headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
        elif status == 401:
            where = f', resource_metadata="{self._metadata_url}"' if self._metadata_url else ""
            headers["www-authenticate"] = f'Bearer error="{name}"{where}'
        return _problem(status, name, of_error(error, "access"), headers)


def _problem(status: int, name: str, said: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": name, "error_description": said}, status, headers)


async def _whole(receive: Receive) -> tuple[bytes, Receive]:
    """Return the body of a request up to the bound, and a `receive` that replays it before later messages."""
    came: list[Message] = []
    size, more = 0, True
    while more and size <= MAX_BODY_BYTES:
        came.append(await receive())
        size += len(came[-1].get("body", b""))
        more = came[-1].get("more_body", False)
    left = iter(came)

    async def again() -> Message:
        found = next(left, None)
        return await receive() if found is None else found

    return b"".join(one.get("body", b"") for one in came), again


def http_app(
    access: Access,
    *,
    user: str | None = None,
    tools: Profile = "default",
    allowed_hosts: Iterable[str] | None = None,
    allowed_origins: Iterable[str] | None = None,
    resource_url: str | None = None,
    issuer: str | None = None,
    scope_prefix: str = "",
) -> HttpApp:
    """Return an ASGI app that serves memories over streamable HTTP, in both eras of the protocol.

    A caller whose key is bound to a user gets tools without the argument `user`; for others it is one. Each tool needs the
    scope of what it does.

    Args:
        access: decides on requests; it stays the caller's to close.
        user: the only user that is served to anybody.
        tools: which tools: "read", "default", "full" or "openai".
        allowed_hosts: what the header ``Host`` may be, ``"name:*"`` for any port and none; those of loopback when not given, ``"*"`` for
            any.
        allowed_origins: what the header ``Origin`` may be if there is one; those of the hosts when not given.
        resource_url: the address of this app as clients know it; with `issuer` it has metadata by RFC 9728.
        issuer: address of the OAuth server whose tokens `access` takes.
        scope_prefix: what scopes begin with in these tokens.

    Raises:
        ConfigError: if there is no such profile of tools.
    """
    named = LOOPBACK if allowed_hosts is None else tuple(allowed_hosts)
    hosts = [
        *named,
        *(one.removesuffix(":*") for one in named if one.endswith(":*")),
    ]  # no port is a port too
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection="*" not in hosts,
        allowed_hosts=hosts,
        allowed_origins=origins if allowed_origins is None else list(allowed_origins),
    )
    metadata: list[Route] = []
    metadata_url = None
    if issuer is not None and resource_url is not None:
        address = AnyHttpUrl(resource_url)
        metadata_url = str(build_resource_metadata_url(address))
        asked = [f"{scope_prefix}{scope}" for scope in sorted(ALL_SCOPES)]
        metadata = create_protected_resource_routes(
            address, [_EXACT.validate_python(issuer)], asked, "memforest"
        )
    bound = MemoryServer(access, user=user, fixed=True, tools=tools)
    free = bound if user is not None else MemoryServer(access, tools=tools)
    return HttpApp(access, (free, bound), security, metadata, metadata_url)


PART_BYTES = 65_536


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve over standard input and output until input ends, or Ctrl-C or SIGTERM.

    A call that is under way then is cancelled, as the SDK does where the host has gone; what it had stored stays. On Windows
    Ctrl-C is a `KeyboardInterrupt`, and ends it with the next line.
    """
    if sys.platform == "win32":
        await server.run_stdio_async()
        return
    with _claimed_input() as source:
        lines = InputLines(source, os.dup(1))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lines.end)
        try:
            async with stdio_server(anyio.wrap_file(cast(Any, lines))) as (read, write):
                inner = server._lowlevel_server  # `run_stdio_async`, which asks it too, takes no streams
                await inner.run(read, write, inner.create_initialization_options())
        except Exception as exc:
            # The host has closed what it reads: there is nobody to answer any more.
            if not _is_closed_pipe(exc):
                raise


@contextmanager
def _claimed_input() -> Iterator[int]:
    """Yield a copy of standard input, which is empty for everybody else while the block lasts."""
    own, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)  # the copy stays open: a thread may be reading it


def _is_closed_pipe(error: BaseException) -> bool:
    """Return whether an error, or each of a group, says that the reader has closed the pipe."""
    parts: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return all(map(_is_closed_pipe, parts)) if parts else isinstance(error, BrokenPipeError)


_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair, one character
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",  # any other, of which the second half begins none
    re.DOTALL,
)


def readable(line: bytes) -> str:
    r"""Return a line of JSON as text, with U+FFFD for lone surrogates and invalid UTF-8.

    Hosts written in JavaScript send them where they cut a text within an emoji. The SDK would drop the whole line, and
    the host would wait for an answer without end.

    >>> print(readable(rb'{"q": "cut \ud83d", "r": "\ud83d\ude00 \\ud83d"}'))
    {"q": "cut \ufffd", "r": "\ud83d\ude00 \\ud83d"}
    """
    if b"\\ud" in line or b"\\uD" in line:
        line = _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], line)
    return line.decode("utf-8", "replace")


class InputLines:
    """The lines of a descriptor, for the SDK to read in a thread; the wait for a line can be ended, as that of a file can not.

    Args:
        source: the descriptor.
        sink: that of the output: who reads nothing any more sends nothing either.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._woken, self._wake = os.pipe()
        self._came = b""
        self._events = select.poll()
        for one in (source, self._woken):
            self._events.register(one, select.POLLIN)
        self._events.register(sink, 0)  # errors alone

    def end(self) -> None:
        """End the input: whoever waits for a line gets none."""
        os.write(self._wake, b".")

    def readline(self) -> str:
        """Return the next line; empty at the end."""
        parts = [self._came]
        while b"\n" not in parts[-1]:
            if any(one != self._source for one, _ in self._events.poll()):
                return ""
            parts.append(os.read(self._source, PART_BYTES))
            if not parts[-1]:
                break
        line, _, self._came = b"".join(parts).partition(b"\n")
        return readable(line) + "\n" if parts[-1] or line else ""
