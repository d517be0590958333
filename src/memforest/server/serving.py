"""Running an app with uvicorn: the socket, signals, and an end within half a minute."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from memforest.errors import ConfigError
from memforest.rest.operations import drain
from memforest.server.patience import PatientProtocol
from memforest.server.settings import END_S, ServerSettings

__all__ = ["Serving", "listen", "run"]

_log = logging.getLogger(__name__)

BACKLOG = 2048
KEEP_ALIVE_S = 30
MOST_HEADER_BYTES = 64 * 1024
LATE_S = 2.0
"""How long before the end of all patience the process is ended by force."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 is any that is free.

    Raises:
        ConfigError: if there is no such address, or the port is in use or not allowed. It says what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
        raise ConfigError(
            f"cannot listen on {host} port {port}: {why}; --port takes another one (0 for any that is free), --host another "
            "address"
        ) from exc
    made.set_inheritable(True)
    return made


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
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                http=PatientProtocol,
                ws="none",
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_S,
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
