"""What nobody expected: answered with a page, and logged by its kind and place alone."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memforest.access.faults import place_of

_log = logging.getLogger(__name__)


class Answered:
    """Middleware: nothing is raised out of it, so that no server writes the text or the trace of an error into its log.

    Args:
        app: what it stands around.
        page: makes the page that says that something went wrong.
    """

    def __init__(self, app: ASGIApp, page: Callable[[Request], Response]) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = False

        async def sends(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sends)
        except Exception as exc:  # noqa: BLE001 - whatever it is, Starlette would let the server log its trace
            _log.error("unexpected %s at %s", type(exc).__name__, place_of(exc))
            if not started:
                await self._page(Request(scope))(scope, receive, send)
            # A page that was begun stays unfinished, by which the browser sees that it failed.
