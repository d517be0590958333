"""Reading a small JSON document of an issuer: bounded in size and time, without redirections and cookies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from memforest.errors import IssuerUnavailableError

Fetch: TypeAlias = Callable[[str], Coroutine[Any, Any, Mapping[str, Any]]]
"""Returns the JSON object at an address, or raises `IssuerUnavailableError`."""

MOST_BYTES = 1 << 20


def fetcher(timeout_s: float) -> Fetch:
    """Return a function that reads documents, each within a time-out."""

    async def fetch(url: str) -> Mapping[str, Any]:
        # Imports a client that takes a second.
        client, unusable = await asyncio.to_thread(_client, timeout_s)
        try:
            async with client:
                reply = await client.get(url)
            found = json.loads(reply.content) if reply.status_code == 200 else None
        except (unusable, OSError, ValueError, RecursionError) as exc:
            raise IssuerUnavailableError(
                f"the issuer of tokens does not answer: {type(exc).__name__}"
            ) from exc
        if not isinstance(found, dict):
            raise IssuerUnavailableError(
                f"the issuer of tokens gives no document (HTTP {reply.status_code}); check --oidc-issuer"
            )
        return found

    return fetch


def _client(timeout_s: float) -> tuple[Any, type[Exception]]:
    from memforest.models.openai_http import BoundedClient, HttpError

    return BoundedClient(most_bytes=MOST_BYTES, timeout=timeout_s), HttpError
