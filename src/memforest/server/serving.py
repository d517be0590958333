"""Running an app with uvicorn: the socket, signals, and an end within half a minute."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest.access.faults import place_of
from memforest.rest.operations import drain
from memforest.rest.problems import http_problem
from memforest.server.settings import END_S, ServerSettings

_log = logging.getLogger(__name__)

KEEP_ALIVE_S = 30
MOST_HEADER_BYTES = 64 * 1024
MOST_CONNECTIONS = 500
"""More get 503; half of the files that a process may have open by default stay for memories."""
ENDING = (
    "the server is ending, and this was cut off; what was stored stays, send it again when the server is back"
)
LATE_S = 2.0
"""How long before the end of all patience the process is ended by force."""


class Serving(uvicorn.Server):
    """A server that ends in good order at the first signal, and at once at the second.

    First it says that it is not ready, and takes no ingest jobs; then it stops accepting; requests and jobs under way get
    their time; then jobs are parked and memories closed. After `END_S` seconds it ends whatever hangs: every write that was
    acknowledged is on disk.

    Args:
        app: of `create_server`.
        settings: how long each step may take.
        ready: called when connections are accepted.
    """

    def __init__(self, app: FastAPI, settings: ServerSettings, ready: Callable[[], object]) -> None:
        super().__init__(
            uvicorn.Config(
                _Ending(app, lambda: self._told),
                log_config=None,
                access_log=False,
                server_header=False,
                http="h11",  # bounds the head of a request, which httptools does not
                ws="none",
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_S,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=max(int(settings.requests_s), 1),
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            )
        )
        self._app = app
        self._settings = settings
        self._ready = ready
        self._told = False
        self._grace: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_of_loop)
        await super().startup(sockets)
        if self.started and not self._told:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End: in good order at the first signal, at once at the second."""
        if self._told:
            _log.warning("ending at once; nothing that was acknowledged is lost")
            os._exit(128 + sig)
        self._told = True
        _end_by_force(END_S - LATE_S)
        if self.started:
            self._loop.call_soon_threadsafe(self._begin_end)
        else:
            self.should_exit = True

    def _begin_end(self) -> None:
        drain(self._app)
        self._grace = self._loop.call_later(self._settings.grace_s, self._stop_accepting)

    def _stop_accepting(self) -> None:
        self.should_exit = True


class _Ending:
    """Stands around the app: what the end of the server cuts off is answered so, and streams of events end as they should.

    Args:
        app: of `create_server`.
        is_ending: whether a signal has come.
    """

    def __init__(self, app: ASGIApp, is_ending: Callable[[], bool]) -> None:
        self._app = app
        self._is_ending = is_ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        last: Message = {}
        events = False

        async def sends(message: Message) -> None:
            nonlocal last, events
            last = message
            if message["type"] == "http.response.start":
                events = (
                    Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
                )
            await send(message)

        try:
            await self._app(scope, receive, sends)
        except asyncio.CancelledError:
            if last or scope["type"] != "http" or not self._is_ending():
                raise
            _log.warning("a request was cut off by the end of the server")
            await http_problem(503, ENDING, {"Retry-After": "5"})(scope, receive, send)
        else:
            if events and last.get("more_body") and self._is_ending():
                await send({"type": "http.response.body", "body": b""})


def _of_loop(_loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
    """Log an error that nobody waited for, by its type and place alone; asyncio would write its text and its stack."""
    error = told.get("exception")
    if isinstance(error, BaseException):
        _log.error("unexpected %s at %s", type(error).__name__, place_of(error))
    else:
        _log.error("the event loop met an error without an exception")


def _end_by_force(after_s: float) -> None:
    """End the process after a time, if it has not ended by itself."""

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
