"""The composed server in this process, asked with requests that no well-meaning client would send."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests_long.worlds import fast_config

from memforest.server.access import KeyedAccess
from memforest.server.auth import AccessSettings
from memforest.server.serving import ServerSettings, create_server

__all__ = ["DEEP", "JSON", "PROBLEM", "Answer", "Wire", "attacked", "left_in", "operations"]

JSON = {"content-type": "application/json"}
PROBLEM = "application/problem+json"
HOST = "127.0.0.1:8420"
DEEP = 100_000


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """Its media type."""
        return self.headers.get("content-type", "").partition(";")[0]

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Wire:
    """Hands requests to an app as a server does, byte for byte.

    Args:
        app: the one that is asked.
        access: what decides in it.
    """

    def __init__(self, app: Any, access: KeyedAccess) -> None:
        self.app = app
        self.access = access

    async def __call__(
        self,
        method: str,
        target: str | bytes,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]] = (),
        *,
        cut: bool = False,
        patience_s: float = 30.0,
    ) -> Answer:
        """Return the answer to a request.

        Args:
            method: of HTTP.
            target: path and query as they stand in the first line.
            body: whole, or in parts.
            headers: beside ``Host`` and the length.
            cut: the client goes away behind the body's last part, which is not its end.
            patience_s: how long the answer is waited for; a stream is left then.
        """
        scope = _scope(method, target, headers, len(body) if isinstance(body, bytes) else None)
        waiting = [body] if isinstance(body, bytes) else list(body or [b""])
        gone = asyncio.Event()
        start: dict[str, Any] = {}
        came: list[bytes] = []

        async def receive() -> dict[str, Any]:
            if waiting:
                part = waiting.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(waiting) or cut}
            if not cut:
                await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                came.append(message.get("body", b""))

        work = asyncio.ensure_future(self.app(scope, receive, send))
        done, _ = await asyncio.wait({work}, timeout=patience_s)
        gone.set()
        if not done:
            await asyncio.wait({work}, timeout=10)
            assert work.done(), f"{method} {target!r} does not end when its client has gone"
        await work  # an error that the app lets pass is one
        found = {name.decode().lower(): value.decode("latin-1") for name, value in start.get("headers", ())}
        return Answer(start.get("status", 0), found, b"".join(came))


def _scope(method: str, target: str | bytes, headers: Any, length: int | None) -> dict[str, Any]:
    """Return a request as a server hands it to an app."""
    raw = target if isinstance(target, bytes) else target.encode("utf-8", "surrogatepass")
    path, _, query = raw.partition(b"?")
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    sent = [(name.lower(), value) for name, value in pairs]
    if "host" not in dict(sent):
        sent.append(("host", HOST))
    if length is not None and "content-length" not in dict(sent):
        sent.append(("content-length", str(length)))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(n.encode(), v if isinstance(v, bytes) else v.encode("latin-1")) for n, v in sent],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8420),
        "state": {},
    }


@asynccontextmanager
async def attacked(
    folder: Path, access: KeyedAccess | None = None, settings: ServerSettings | None = None, **config: Any
) -> AsyncIterator[Wire]:
    """Give the wire to a server over a directory; without keys, as it is on loopback, unless `access` says otherwise."""
    access = access or KeyedAccess(
        folder, fast_config(**config), AccessSettings(key_rate=None, tenant_rate=None), loopback=True
    )
    app = create_server(folder, access=access, settings=settings)
    async with app.router.lifespan_context(app):
        yield Wire(app, access)


def operations(document: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return method, path and description of every operation of an OpenAPI document."""
    return [
        (method.upper(), path, about)
        for path, methods in document["paths"].items()
        for method, about in methods.items()
        if isinstance(about, Mapping) and "operationId" in about
    ]


def left_in(folder: Path) -> set[str]:
    """Return what lies in a directory and its folders, by names from there; links are not followed."""
    found = set()
    for at, folders, files in os.walk(folder):
        found |= {(Path(at) / one).relative_to(folder).as_posix() for one in (*folders, *files)}
    return found
