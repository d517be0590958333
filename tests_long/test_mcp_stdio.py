"""Standard input as lines that can be ended, and who else reads and prints."""

from __future__ import annotations

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

from memforest.server.mcp.http import PART_BYTES, InputLines

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

    writer = threading.Thread(target=feed)
    writer.start()
    found = list(iter(InputLines(pipe.source.fileno(), 2).readline, ""))
    writer.join(WAIT_S)
    return [line.removesuffix("\n") for line in found]


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
    lines = InputLines(pipe.source.fileno(), 2)
    os.write(pipe.sink.fileno(), b"a\nb\nhalf a line")
    assert lines.readline() == "a\n"
    threading.Timer(0.05, lines.end).start()
    assert [lines.readline(), lines.readline()] == ["b\n", ""]


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
