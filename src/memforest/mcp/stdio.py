"""Standard input and output for the SDK's transport: a thread of their own for input, and none for output that is taken at once.

The SDK reads and writes each line in a thread of a pool, which cannot be interrupted, so that Ctrl-C would wait for the
next line. Here a thread hands lines to the event loop, where a signal ends them as a host does that closes its end.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

PART_BYTES = 65_536


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve over standard input and output until input ends, or a Ctrl-C or SIGTERM ends it.

    A call that is under way then is cancelled, as the SDK does where the host has gone; what it had stored stays. As long as
    this lasts, what else is written to standard output goes to standard error, and nobody else reads standard input. On Windows the SDK reads by itself, and Ctrl-C is a
    `KeyboardInterrupt`.
    """
    if sys.platform == "win32":
        await server.run_stdio_async()
        return
    with _claimed(0, os.devnull) as source, _claimed(1, None) as sink:
        lines, output = InputLines(source), OutputLines(sink)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lines.end)
        with _host_that_leaves():
            async with stdio_server(cast(Any, lines), cast(Any, output)) as (read, write):
                inner = server._lowlevel_server  # `run_stdio_async`, which asks it too, takes no streams
                await inner.run(read, write, inner.create_initialization_options())


@contextmanager
def _claimed(number: int, instead: str | None) -> Iterator[int]:
    """Give a copy of a standard descriptor, which itself leads elsewhere as long as the block lasts.

    Args:
        number: of the descriptor.
        instead: the file that it leads to; standard error without one.
    """
    own = os.dup(number)
    other = os.dup(2) if instead is None else os.open(instead, os.O_RDONLY)
    os.dup2(other, number)
    os.close(other)
    try:
        yield own
    finally:
        os.dup2(own, number)  # the copy stays open: a thread may be reading it


@contextmanager
def _host_that_leaves() -> Iterator[None]:
    """End without a word when the host has closed what it reads: there is nobody to answer any more."""
    try:
        yield
    except Exception as exc:
        if not _is_closed_pipe(exc):
            raise


def _is_closed_pipe(error: BaseException) -> bool:
    """Return whether an error is no other than that, alone or as the SDK's tasks raise it together."""
    parts: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return all(map(_is_closed_pipe, parts)) if parts else isinstance(error, BrokenPipeError)


_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair, one character
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",  # any other, of which the second half begins none
    re.DOTALL,
)


def readable(line: bytes) -> str:
    r"""Return a line of JSON as text with U+FFFD in the place of lone surrogates and of what is no UTF-8.

    Hosts written in JavaScript send them where they cut a text within an emoji. The SDK would drop the whole line, and
    the host would wait for an answer without end.

    >>> print(readable(rb'{"q": "cut \ud83d", "r": "\ud83d\ude00 \\ud83d"}'))
    {"q": "cut \ufffd", "r": "\ud83d\ude00 \\ud83d"}
    """
    if b"\\ud" in line or b"\\uD" in line:
        line = _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], line)
    return line.decode("utf-8", "replace")


class InputLines:
    """Lines of a descriptor, as an async iterator; made in the event loop that reads them.

    A thread reads one part after the other, the next when the lines of the last are taken.

    Args:
        source: the descriptor; of any kind.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._taken = threading.Semaphore(0)
        self._ended = False
        threading.Thread(target=self._read, name="memforest-mcp-input", daemon=True).start()

    def end(self) -> None:
        """End the lines here, whatever is still to come; those that were read are given first. Called in the event loop."""
        self._ended = True
        self._more.set()

    def __aiter__(self) -> InputLines:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._more.clear()
            self._taken.release()
            await self._more.wait()
        return readable(self._lines.popleft())

    def _read(self) -> None:
        begun: list[bytes] = []
        part = b"-"
        while part:
            try:
                part = os.read(self._source, PART_BYTES)
            except OSError:  # the other end is gone
                part = b""
            *whole, rest = part.split(b"\n")
            if whole:
                whole[0] = b"".join((*begun, whole[0]))
                begun.clear()
            begun.append(rest)
            if not part:
                whole = [last] if (last := b"".join(begun)) else []
            elif not whole:
                continue
            self._taken.acquire()
            try:
                self._loop.call_soon_threadsafe(self._give, whole, not part)
            except RuntimeError:  # the loop has ended before the input
                return

    def _give(self, lines: list[bytes], last: bool) -> None:
        self._lines.extend(lines)
        self._ended |= last
        self._more.set()


class OutputLines:
    """Writes texts to a descriptor, whole ones in their order.

    What its reader takes at once is written without a thread; a reader who lets the rest wait holds up nobody else.

    Args:
        sink: the descriptor.
    """

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._parts: list[str] = []

    async def write(self, text: str) -> None:
        """Take a text, to be written by `flush`."""
        self._parts.append(text)

    async def flush(self) -> None:
        """Write what was taken.

        Raises:
            OSError: if nobody reads any more.
        """
        data = memoryview("".join(self._parts).encode())
        self._parts.clear()
        # A pipe that is ready takes so many bytes without waiting: https://docs.python.org/3/library/select.html#select.PIPE_BUF
        while data and select.select((), (self._sink,), (), 0)[1]:
            data = data[os.write(self._sink, data[: select.PIPE_BUF]) :]
        if data:
            await asyncio.to_thread(self._write, data)

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._sink, data) :]
