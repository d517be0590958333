"""What guards a server that needs no key: pages of other sites must not reach it by way of the browser of whoever runs it.

Two roads lead there. A site whose name is made to point to this machine (DNS rebinding) asks with its own name in ``Host``,
and with any other header it likes, a key that is none among them. And any page can send a form to ``http://127.0.0.1``, with
its own address in ``Origin``. A key that is needed closes both, as no page knows it.
Source: https://fetch.spec.whatwg.org/#origin-header, https://www.rfc-editor.org/rfc/rfc9110#section-7.2.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from memforest.access import KeyedAccess, is_local_host
from memforest.errors import StoreError
from memforest.rest.problems import http_problem

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


class OpenGuard:
    """Middleware: while no key is needed, refuses what another site's page may have sent.

    Args:
        app: what it stands around.
        access: says whether a key is needed.
        origins: those of other sites that may ask, as configured for CORS.
        hosts: further names of this server, without a port.
    """

    def __init__(
        self, app: ASGIApp, *, access: KeyedAccess, origins: Collection[str] = (), hosts: Collection[str] = ()
    ) -> None:
        self._app = app
        self._access = access
        self._origins = frozenset(origins)
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in HEALTH and await self._is_open():
            host, origin = _only(scope, b"host"), _only(scope, b"origin", missing="")
            if host is None or not is_local_host(host, self._hosts):
                await http_problem(421, OTHER_NAME)(scope, receive, send)
                return
            if origin is None or not self._is_own(origin, host):
                await http_problem(403, OTHER_PAGE)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _is_open(self) -> bool:
        try:
            return await self._access.is_open()
        except StoreError:
            return False  # nobody is let in then, which the app says

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether a page of this server, or one that is allowed, has sent a request; or no page at all."""
        return not origin or origin in self._origins or _place_of(origin) == host.lower()


def _only(scope: Scope, name: bytes, *, missing: str | None = None) -> str | None:
    """Return the value of a header, `missing` without it, None of several: nobody chooses which of them counts."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return missing if not found else found[0] if len(found) == 1 else None


def _place_of(origin: str) -> str | None:
    """Return host and port of an origin, None if it has none, as that of a page that hides it (``null``)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
