"""A file that a worker thread writes and a response sends, without a place on disk in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress

__all__ = ["Pipe", "first_of"]

CHUNK = 64 * 1024
WAITING = 8
"""Most chunks that wait for a slow reader; the writer waits with them."""
PATIENCE_S = 60.0
"""How long a reader may take for one chunk. Whoever stops reading does not keep the memory for longer."""


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
        try:
            waiting.result(PATIENCE_S)
        except (LateError, CancelledError):
            waiting.cancel()
            raise BrokenPipeError("nobody reads") from None

    def flush(self) -> None:
        """Do nothing: what is held is sent at the end."""

    async def chunks(self) -> AsyncIterator[bytes]:
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


async def first_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return an iterator over the same chunks once the first is there, so that what fails at once fails before it is begun."""
    try:
        first = await chunks.__anext__()
    except StopAsyncIteration:
        first = b""

    async def all_of() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return all_of()
