"""A file that a thread of its own writes and a response sends, without a place on disk in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

CHUNK = 64 * 1024
WAITING = 8
"""Most chunks that wait for a slow reader; the writer waits with them."""
PATIENCE_S = 60.0
"""How long a reader may take for one chunk. Whoever stops reading does not keep the memory for longer."""
LEAST_BYTES_S = 10_000
"""Bytes a second that a reader takes over the whole, beyond the patience: whoever takes a byte now and then does not either."""


class Pipe:
    """A stream of bytes to write into from another thread, and to read from as chunks.

    Args:
        work: writes everything into the pipe that it is given, and awaits that.
    """

    def __init__(self, work: Callable[[Pipe], Awaitable[object]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._held = bytearray()
        self._over = False
        self._left_s = PATIENCE_S
        self._work = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Callable[[Pipe], Awaitable[object]]) -> None:
        await work(self)
        if self._held and not self._over:
            await self._chunks.put(bytes(self._held))

    def write(self, data: bytes) -> int:
        """Take bytes, and wait while the reader is behind.

        Raises:
            BrokenPipeError: if nobody reads any more, or not fast enough.
        """
        self._held += data
        if len(self._held) >= CHUNK:
            chunk, self._held = bytes(self._held), bytearray()
            self._put(chunk)
        return len(data)

    def _put(self, chunk: bytes) -> None:
        if self._over:
            raise BrokenPipeError("nobody reads")
        waiting = asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop)
        begun = time.monotonic()
        try:
            waiting.result(self._left_s)
        except (LateError, CancelledError):
            waiting.cancel()
            raise BrokenPipeError("nobody reads") from None
        waited = time.monotonic() - begun
        self._left_s = min(PATIENCE_S, self._left_s - waited + len(chunk) / LEAST_BYTES_S)

    def flush(self) -> None:
        """Do nothing: what is held is sent at the end."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Give what is written, as it comes.

        Raises:
            MemForestError: what the work raises.
        """
        try:
            while True:
                getting = asyncio.ensure_future(self._chunks.get())
                try:
                    await asyncio.wait({getting, self._work}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:  # the client has gone
                    getting.cancel()
                    raise
                if getting.done():
                    yield getting.result()
                    continue
                getting.cancel()
                await self._work
                while not self._chunks.empty():
                    yield self._chunks.get_nowait()
                return
        finally:
            await self._end()

    async def _end(self) -> None:
        """Let the writer end, wherever it is."""
        self._over = True
        while not self._chunks.empty():
            self._chunks.get_nowait()
        self._work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._work


class PipeResponse(StreamingResponse):
    """A response of what is written into a pipe; however it ends, the writer ends with it."""

    @classmethod
    async def of(cls, pipe: Pipe, media_type: str) -> PipeResponse:
        """Return the response once its first chunk is there, so that what fails at once fails before it is begun."""
        chunks = pipe.chunks()
        first = await anext(chunks, b"")

        async def every() -> AsyncIterator[bytes]:
            yield first
            async for chunk in chunks:
                yield chunk

        made = cls(every(), media_type=media_type)
        made.chunks = chunks
        return made

    chunks: AsyncGenerator[bytes, None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.chunks.aclose()
