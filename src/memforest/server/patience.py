"""What is no request, and how long a client may take: a connection that sends its request too slowly is closed.

uvicorn bounds only the pause between two requests. A client that opens a connection and sends nothing, or a byte now and
then, would hold it, and a file descriptor with it, for as long as it likes. And it answers bytes that are no HTTP with plain
text, or fails on them when they follow an answer, with a stack trace in the log.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from memforest.rest.asgi import HEADERS
from memforest.rest.problems import http_problem

NO_REQUEST = "these bytes are no request of HTTP/1.1, or its head is too large"


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that waits for a request so long and no longer, however the bytes come.

    The time of a response is not bounded here: a search may take long, and a stream of events longer.
    """

    head_s: ClassVar[float] = 40.0
    """Until the head of a request is there, from the connection or the last response; more than the pause between requests."""
    body_s: ClassVar[float] = 120.0
    """From there until the body is."""
    close_s: ClassVar[float] = 30.0
    """Until a client has taken the rest of what was sent to a connection that is being closed."""
    look_s: ClassVar[float] = 5.0

    _looking: asyncio.TimerHandle | None = None
    _seen: tuple[object, ...] = ()
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at the clock."""
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem; where an answer has begun already, only close."""
        del msg  # uvicorn's own words
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            said = http_problem(400, NO_REQUEST, {**HEADERS, "Connection": "close"})
            for event in (
                h11.Response(status_code=400, headers=said.raw_headers, reason=b"Bad Request"),
                h11.Data(data=bytes(said.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _look(self) -> None:
        now, waits_s = self.loop.time(), self._waits_s()
        seen = (self.cycle, self.conn.their_state, waits_s)
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif waits_s is not None and now - self._since >= waits_s:
            self.transport.abort()
            return
        self._looking = self.loop.call_later(self.look_s, self._look)

    def _waits_s(self) -> float | None:
        """Return how long what the client owes may take; None while it owes nothing."""
        if self.transport.is_closing():
            return self.close_s
        return {h11.IDLE: self.head_s, h11.SEND_BODY: self.body_s}.get(self.conn.their_state)
