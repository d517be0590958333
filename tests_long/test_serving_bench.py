"""The benchmark of serving: a small run of each part, one of them against a server process as it runs else."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp")
if sys.platform != "linux":
    pytest.skip("the resident set is read from /proc", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from mcp import Client

import serving
from memforest import AsyncMemForest, Config
from memforest.server.auth import AccessSettings, OpenAccess
from memforest.server.mcp.server import MemoryServer
from memforest.server.serving import ServerSettings, Serving, create_server, listen
from served import latency, load, tenants
from served.latency import paired, percentile
from served.load import Soaked
from served.processes import Server

HASH = "hash-words-1@64"


@contextmanager
def near(directory: Path, options: Sequence[str] = (), **environment: str) -> Iterator[Server]:
    """Run a server in a thread of this process, which imports nothing anew."""
    settings = ServerSettings(access=AccessSettings(key_rate=None, tenant_rate=None), ui=False)
    app = create_server(directory, Config(embedder=environment["MEMFOREST_EMBEDDER"]), settings)
    ready = threading.Event()
    listening = listen("127.0.0.1", 0)
    server = Serving(app, settings, ready.set)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        assert ready.wait(30)
        yield Server(os.getpid(), *listening.getsockname())
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
    assert not thread.is_alive()


async def near_tools(stack: AsyncExitStack, directory: Path, user: str, config: Config) -> Any:
    """Return a client of a server of MCP in this process."""
    forest = await stack.enter_async_context(AsyncMemForest(directory, config))
    return await stack.enter_async_context(Client(MemoryServer(OpenAccess(forest), user=user)))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the servers in this process."""
    for part in (latency, load, tenants):
        monkeypatch.setattr(part, "serving", near)
    monkeypatch.setattr(latency, "_tools", near_tools)


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str) -> list[list[str]]:
    """Run the benchmark with arguments and return the rows of its table, without the head."""
    monkeypatch.setattr(sys, "argv", ["serving", "--embedder", HASH, *args])
    serving.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    return [[chunk.strip() for chunk in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.usefixtures("in_this_process")
def _number(shown: str) -> float:
    """Return a figure of a table."""
    return float(shown.replace(",", ""))


def test_each_question_is_asked_each_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those after the warm-up are timed, in process, over REST and over MCP."""
    rows = run(monkeypatch, capsys, "--part", "latency", "--sessions", "1", "--questions", "23")
    assert [(way, n) for way, n, *_ in rows] == [("in process", "3"), ("REST", "3"), ("MCP stdio", "3")]
    assert all(_number(middle) > 0 for _, _, middle, *_ in rows)
    assert rows[0][-1] == "+0.00 [+0.00, +0.00]"


@pytest.mark.usefixtures("in_this_process")
def test_many_at_once_are_compared_with_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each round has a rate of each way and their ratio."""
    few = ("--sessions", "1", "--questions", "4", "--rounds", "2", "--width", "2")
    rows = run(monkeypatch, capsys, "--part", "throughput", *few)
    assert len(rows) == 2
    for _, one, other, ratio in rows:
        assert _number(ratio) == pytest.approx(_number(other) / _number(one), rel=0.2)


def test_a_long_run_is_looked_at_on_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eleven looks at a server that answered every request; and the end is compared with the first one."""
    monkeypatch.setattr(serving, "SOAK_USERS", 2)
    rows = run(monkeypatch, capsys, "--part", "soak", "--requests", "33", "--minutes", "1")
    assert len(rows) == 11
    assert all(_number(mb) > 1 and int(files) > 0 for _, mb, files in rows)


@pytest.mark.usefixtures("in_this_process")
def test_tenants_use_memories_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each user of each tenant has one, and files and resident set are told."""
    rows = run(monkeypatch, capsys, "--part", "tenants", "--tenants", "3", "--users", "2")
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert all(int(files) > 0 and _number(mb) > 1 for _, files, mb, _ in rows)


def test_the_interval_is_of_the_same_questions() -> None:
    """A constant cost on top of times that differ much is found, and its interval is narrow."""
    base = [float(n % 50) for n in range(200)]
    middle, low, high = paired([one + 3.0 for one in base], base)
    assert (middle, low, high) == (3.0, 3.0, 3.0)
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.95) == 4.0
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0


def test_growth_is_counted_from_the_first_look() -> None:
    """Imports and the first reading are no growth."""
    assert Soaked(resident_mb=[100.0, 104.0, 103.0]).growth == pytest.approx(0.03)
