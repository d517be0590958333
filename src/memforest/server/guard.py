"""What guards a server that needs no key: pages of other sites must not reach it by way of the browser of whoever runs it.

Two roads lead there. A site whose name resolves to this machine (DNS rebinding) asks with its own name in ``Host``; and any
page can send a form to ``http://127.0.0.1``, with its own address in ``Origin``. A key closes both, as no page knows it.
Source: https://fetch.spec.whatwg.org/#origin-header, https://www.rfc-editor.org/rfc/rfc9110#section-7.2.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from memforest.access import KeyedAccess, is_loopback
from memforest.errors import StoreError

__all__ = ["OpenGuard"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = json.dumps(
    {
        "type": "urn:memforest:error:ForbiddenError",
        "title": "ForbiddenError",
        "status": 403,
        "detail": "without a key this server answers this machine alone: ask for it as localhost or 127.0.0.1, and not from "
        "another site's page; or make a key (memforest keys create NAME) and send it",
    }
).encode()


class OpenGuard:
    """Middleware: while no key is needed, refuses what another site's page may have sent.

    Args:
        app: what it stands around.
        access: says whether a key is needed.
        origins: those of other sites that may ask, as configured for CORS.
    """

    def __init__(self, app: App, access: KeyedAccess, origins: Collection[str] = ()) -> None:
        self._app = app
        self._access = access
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and not self._is_own(scope) and await self._is_open():
            headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(BODY))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": BODY})
            return
        await self._app(scope, receive, send)

    async def _is_open(self) -> bool:
        try:
            return await self._access.is_open()
        except StoreError:
            return False  # nobody is let in then, which the app says

    def _is_own(self, scope: Scope) -> bool:
        """Return whether a request was not sent by another site's page, as far as its headers say."""
        host, origin = _only(scope, b"host"), _only(scope, b"origin")
        if host is None or origin is None:
            return False  # several, which no browser and no client sends
        if host and not is_loopback(_name_of(f"//{host}") or "-"):
            return False
        return not origin or origin in self._origins or _place_of(origin) == host.lower()


def _only(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header, "" without it, None of several."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return None if len(found) > 1 else "".join(found)


def _name_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _place_of(origin: str) -> str | None:
    """Return host and port of an origin, None if it has none, as that of a page that hides it (``null``)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
