"""A small HTTP/1.1 server on this machine's loopback address: asyncio carries the bytes, h11 reads and writes them.

It knows nothing of models; `tests.doubles.server` puts the endpoint on top. Connections are kept alive, hundreds
may be open at once, and a reply can be cut on purpose. Not here: TLS, streaming, addresses other than the loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import h11

from memforest.errors import ConfigError

HOST = "127.0.0.1"
BACKLOG = 2048
"""Connections that may wait to be accepted; a burst of more than the system's usual 128 is what we are for."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that has arrived whole; names of headers are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What is sent back.

    `sent_share` is how much of the body is sent before the connection is closed, from 0 to 1; None is all of it,
    and -1 sends nothing at all, not even a status line.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    sent_share: float | None = None


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


class Listener:
    """Accepts connections and hands every request to a handler, each in a task of its own.

    Belongs to the loop in which `open` is called. A task is cancelled when its client goes away.

    Args:
        handler: answers a request.
        on_error: gets what the handler raised, and answers instead of it.
    """

    def __init__(self, handler: Handler, on_error: Callable[[BaseException], HttpReply]) -> None:
        self.handler = handler
        self.on_error = on_error
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None

    async def open(self, port: int = 0) -> int:
        """Start to accept connections and return the port; 0 takes a free one.

        Raises:
            ConfigError: if the port cannot be had.
        """
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Connection(self), HOST, port, family=socket.AF_INET, backlog=BACKLOG
            )
        except OSError as exc:
            raise ConfigError(
                f"port {port} cannot be listened at: {exc.strerror}; give another, or 0 for a free one"
            ) from exc
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Stop to accept connections and break those that are open, whatever is under way.

        Call it on the loop; the port is free once round the loop later.
        """
        if self._server is not None:
            _stop_accepting(self._server)
            self._server = None
        for connection in list(self.connections):
            connection.abort()


def _stop_accepting(server: asyncio.Server) -> None:
    """Close a server's socket when what it has accepted already has become a connection.

    Without the wait asyncio would leave such a socket open until it is collected.
    """
    loop = asyncio.get_running_loop()
    for one in server.sockets:
        with contextlib.suppress(NotImplementedError):  # by the proactor of Windows
            loop.remove_reader(one.fileno())
    loop.call_soon(server.close)


class _Connection(asyncio.Protocol):
    """One client's connection; its requests are answered one after the other, as HTTP/1.1 wants it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._http = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._task: asyncio.Future[HttpReply] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._listener.connections.add(self)
        if not self._listener.is_open:
            self.abort()  # it was accepted just before the end

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Break the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> None:
        self._http.receive_data(b"")
        self._advance()

    def _advance(self) -> None:
        """Take what has arrived, up to the end of one request."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as exc:
                self._refuse(exc)
                return
            if isinstance(event, h11.Request):
                self._request, self._body = event, []
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._begin()
            else:
                if isinstance(event, h11.ConnectionClosed):
                    self._transport.close()
                return

    def _begin(self) -> None:
        assert self._request is not None
        request = HttpRequest(
            self._request.method.decode("ascii"),
            self._request.target.decode("latin-1"),
            {name.decode("ascii"): value.decode("latin-1") for name, value in self._request.headers},
            b"".join(self._body),
        )
        self._task = asyncio.ensure_future(self._listener.handler(request))
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Future[HttpReply]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        self._write(task.result() if error is None else self._listener.on_error(error))

    def _write(self, reply: HttpReply) -> None:
        if self._transport.is_closing():
            return
        if reply.sent_share is not None and reply.sent_share < 0:
            self._transport.close()
            return
        head = h11.Response(
            status_code=reply.status,
            headers=[("content-length", str(len(reply.body))), *reply.headers.items()],
        )
        if reply.sent_share is not None:
            share = round(len(reply.body) * min(reply.sent_share, 1.0))
            # Never the whole of it: the client must see that something is missing.
            part = reply.body[: max(0, min(share, len(reply.body) - 1))]
            self._send(head, *_data(part))
            self._transport.close()
            return
        self._send(head, *_data(reply.body), h11.EndOfMessage())
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._advance()
        else:
            self._transport.close()

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer bytes that are no HTTP, if that is still possible, and close."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = str(error).encode()
            head = h11.Response(
                status_code=error.error_status_hint or 400,
                headers=[("content-length", str(len(body))), ("connection", "close")],
            )
            self._send(head, *_data(body), h11.EndOfMessage())
        self._transport.close()

    def _send(self, *events: h11.Event) -> None:
        self._transport.write(b"".join(self._http.send(event) or b"" for event in events))


def _data(body: bytes) -> Sequence[h11.Event]:
    return (h11.Data(data=body),) if body else ()
