"""Standard input by a thread of its own, and output that holds nobody up."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO

import pytest

from memforest.server.mcp.http import PART_BYTES, InputLines, OutputLines

WAIT_S = 20.0


@dataclass
class Pipe:
    """Where a pipe is read, and where it is written; both ends are closed once."""

    source: FileIO
    sink: FileIO


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe."""
    source, sink = os.pipe()
    with FileIO(source, "rb") as one, FileIO(sink, "wb") as other:
        yield Pipe(one, other)


def fed(pipe: Pipe, *parts: bytes) -> list[str]:
    """Return the lines that parts make, which are written one by one while they are read; then input ends."""

    def feed() -> None:
        for part in parts:
            left = memoryview(part)
            while left:
                left = left[pipe.sink.write(left) :]
            time.sleep(0.01)
        pipe.sink.close()

    async def read() -> list[str]:
        return [line async for line in InputLines(pipe.source.fileno())]

    writer = threading.Thread(target=feed)
    writer.start()
    found = asyncio.run(asyncio.wait_for(read(), WAIT_S))
    writer.join(WAIT_S)
    return found


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ((), []),
        ((b"a\nb\n",), ["a", "b"]),
        ((b"a", b"b\nc", b"\n"), ["ab", "c"]),
        ((b"a\n\nb",), ["a", "", "b"]),
        (("ä".encode()[:1], "ä".encode()[1:] + b"\n"), ["ä"]),
        ((b"\xff\n",), ["\ufffd"]),
    ],
    ids=[
        "nothing",
        "two at once",
        "in pieces",
        "an empty one, and one without an end",
        "within a letter",
        "no text",
    ],
)
def test_lines_come_as_they_were_written(pipe: Pipe, parts: tuple[bytes, ...], lines: list[str]) -> None:
    """However the bytes come; what is no UTF-8 is marked, and the end of input ends the lines."""
    assert fed(pipe, *parts) == lines


def test_a_line_may_be_longer_than_what_is_read_at_once(pipe: Pipe) -> None:
    """It comes whole, and the one behind it too."""
    long = "x" * (5 * PART_BYTES + 7)
    assert fed(pipe, f"{long}\nb\n".encode()) == [long, "b"]


def test_input_can_be_ended_while_nothing_comes(pipe: Pipe) -> None:
    """As a signal ends it: who waits for a line is told that there is none; what was read is given first."""

    async def read() -> list[str]:
        lines = InputLines(pipe.source.fileno())
        os.write(pipe.sink.fileno(), b"a\nb\n")
        first = await anext_of(lines)
        asyncio.get_running_loop().call_later(0.05, lines.end)
        return [first, *[line async for line in lines]]

    async def anext_of(lines: InputLines) -> str:
        return await asyncio.wait_for(lines.__anext__(), WAIT_S)

    assert asyncio.run(asyncio.wait_for(read(), WAIT_S)) == ["a", "b"]


def test_input_is_not_read_far_ahead(pipe: Pipe) -> None:
    """Who writes faster than is read waits, as at any pipe: memory holds what one read gave, however much is sent."""

    async def read() -> int:
        lines = InputLines(pipe.source.fileno())
        sent = 0
        os.set_blocking(pipe.sink.fileno(), False)
        await asyncio.wait_for(lines.__anext__(), WAIT_S) if os.write(pipe.sink.fileno(), b"0\n") else None
        for _ in range(400):
            try:
                sent += os.write(pipe.sink.fileno(), b"1234567\n" * 512)
            except BlockingIOError:
                await asyncio.sleep(0.005)
        return sent

    # The pipe's own buffer (64 KiB here; other systems have others), a part that waits to be taken, and one being read.
    assert asyncio.run(asyncio.wait_for(read(), WAIT_S)) <= 4 * max(PART_BYTES, 65_536)


def test_texts_are_written_in_their_order(pipe: Pipe) -> None:
    """Nothing before `flush`, and then all of it, in UTF-8."""

    async def write() -> bytes:
        output = OutputLines(pipe.sink.fileno())
        await output.write("ä")
        await output.write("b\n")
        os.set_blocking(pipe.source.fileno(), False)
        with pytest.raises(BlockingIOError):
            os.read(pipe.source.fileno(), 100)
        await output.flush()
        await output.flush()
        return os.read(pipe.source.fileno(), 100)

    assert asyncio.run(write()) == "äb\n".encode()


def test_a_reader_who_waits_holds_up_nobody_else(pipe: Pipe) -> None:
    """What a pipe does not take at once is written behind the event loop, which goes on; all of it comes, once."""
    text = "".join(f"{n} " for n in range(200_000)) + "\n"

    async def write() -> tuple[int, bytes]:
        output = OutputLines(pipe.sink.fileno())
        await output.write(text)
        writing = asyncio.ensure_future(output.flush())
        turns = 0
        for _ in range(20):
            await asyncio.sleep(0.002)
            turns += 1
        assert not writing.done()
        found = b""
        while len(found) < len(text):
            found += await asyncio.to_thread(os.read, pipe.source.fileno(), 1 << 20)
        await writing
        return turns, found

    turns, found = asyncio.run(asyncio.wait_for(write(), WAIT_S))
    assert turns == 20
    assert found.decode() == text


def test_output_that_nobody_reads_is_an_error(pipe: Pipe) -> None:
    """The host is gone: writing says so, and does not wait."""
    pipe.source.close()

    async def write() -> None:
        output = OutputLines(pipe.sink.fileno())
        await output.write("x")
        await output.flush()

    with pytest.raises(BrokenPipeError):
        asyncio.run(write())


HOST = """
import asyncio, os, sys
from memforest.server.mcp.http import serve_stdio
from mcp.server.mcpserver import MCPServer

server = MCPServer("s")

@server.tool()
def loud() -> str:
    print("to the host?", flush=True)
    return repr(os.read(0, 10))

asyncio.run(serve_stdio(server))
print("after", flush=True)
"""
CALLS = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"t","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"loud","arguments":{}}}\n'
)


@pytest.mark.skipif(sys.platform == "win32", reason="the SDK reads and writes by itself there")
def test_what_a_tool_prints_or_reads_is_not_the_protocols() -> None:
    """Its prints go to standard error and its input is empty, as long as the server lasts; then both are as before."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(CALLS)
        process.stdin.flush()
        answers = [process.stdout.readline(), process.stdout.readline()]
        said, complained = process.communicate(timeout=WAIT_S)  # closes its input
    assert [json.loads(line)["id"] for line in answers] == [1, 2]
    assert "b''" in answers[-1]
    assert (process.returncode, said) == (0, "after\n")
    assert "to the host?" in complained
