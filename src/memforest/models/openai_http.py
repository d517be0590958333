"""The HTTP client below the `openai` client: every try has a deadline, and the body of every reply a bound.

The client's own time-outs are between two bytes, so that a server that sends a byte now and then would hold a call for
ever; and it keeps whatever body comes. Imports `openai`, so it is imported where a client is made.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import openai

CUT = "memforest.cut"
"""The extension of a response whose body was longer than the bound, and is left out."""
MOST_ERROR_BYTES = 64 << 10
"""Of the body of a refusal: of the server's words a message holds a few hundred characters."""

_ENCODINGS = "gzip, deflate"
"""What replies may be packed with: these grow a thousandfold at most, so that one piece of what arrives unpacks to 64
MB at worst before it is counted."""
_http: Any = sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]]
"""The HTTP package that this version of the client stands on: `httpx`, from version 3 on `httpx2`."""
HttpError: type[Exception] = _http.HTTPError
"""What that package raises when there is no usable reply."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Sends requests, none for longer than its read time-out in all, and reads each reply up to a bound.

    A redirection is not followed and no cookie is kept.

    Args:
        most_bytes: of the body of a reply, unpacked. A longer one is left out, and the response has the extension `CUT`.
        **settings: of the client.
    """

    def __init__(self, *, most_bytes: int, **settings: Any) -> None:
        super().__init__(follow_redirects=False, headers={"accept-encoding": _ENCODINGS}, **settings)
        self._most_bytes = most_bytes

    async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
        """Return the reply to one try, read whole.

        Raises:
            ReadTimeout: if it is not there within the request's read time-out; of the HTTP package.
            DecodingError: if it is packed in a way that was not asked for.
        """
        seconds = request.extensions.get("timeout", {}).get("read")
        job = asyncio.ensure_future(self._try(request, how))
        try:
            # Not wait_for: before Python 3.12 it may swallow the caller's own cancellation.
            await asyncio.wait([job], timeout=seconds)
            if job.done():
                return job.result()
        finally:
            # Nothing goes on behind the caller's back; what is cancelled closes its connection.
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
        raise _http.ReadTimeout(f"no whole reply within {seconds:g} s", request=request)

    async def _try(self, request: Any, how: Any) -> Any:
        return await self._read(await super().send(request, stream=True, **how))

    async def _read(self, response: Any) -> Any:
        """Return a response with its body, which the network has not given yet."""
        self.cookies.clear()
        try:
            body = await self._body(response)
        finally:
            # What was not read to its end is not waited for: the connection is closed.
            await response.aclose()
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY
        ]
        return _http.Response(
            response.status_code,
            headers=headers,
            content=body or b"",
            request=response.request,
            extensions={**response.extensions, **({CUT: True} if body is None else {})},
        )

    async def _body(self, response: Any) -> bytes | None:
        """Return the unpacked body: the beginning of a long refusal, None for any other that is longer than the bound."""
        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "", *_ENCODINGS.split(", ")):
            raise _http.DecodingError(
                "the reply is packed in a way that was not asked for", request=response.request
            )
        most = self._most_bytes if response.is_success else MOST_ERROR_BYTES
        body = bytearray()
        async with aclosing(cast(AsyncGenerator[bytes, None], response.aiter_bytes())) as parts:
            async for part in parts:
                if len(body) + len(part) > most:
                    return None if response.is_success else bytes(body + part)[:most]
                body += part
        return bytes(body)


_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that say how the body came; what is handed on is unpacked."""


def _without_extra_fields(record: logging.LogRecord) -> bool:
    """Take the values of `ChatEndpoint.extra_body` out of a line of the client's log, which older versions write there."""
    if isinstance(record.args, dict) and isinstance(record.args.get("extra_json"), dict):
        record.args = {**record.args, "extra_json": sorted(record.args["extra_json"])}
    return True


logging.getLogger("openai._base_client").addFilter(_without_extra_fields)
