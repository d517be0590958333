"""`memforest mcp` as hosts start it: a process that speaks the protocol on standard output, and nothing else."""

from __future__ import annotations

import asyncio
import builtins
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from mcp import Client, StdioServerParameters
from tests_long.mcp_worlds import call

from memforest.cli import main

SOURCES = str(Path(__file__).parent.parent / "src")
CONFIG = 'embedder = "none"\n'


def command(directory: Path, *options: str) -> list[str]:
    """Return the command line of a server over a directory."""
    config = directory / "config.toml"
    config.write_text(CONFIG)
    start = [sys.executable, "-m", "memforest", "mcp", "--dir", str(directory / "memories")]
    return [*start, "--config", str(config), *options]


def environment() -> dict[str, str]:
    """Return the environment of a server: this checkout, and nothing of the tests."""
    path = os.pathsep.join(filter(None, (SOURCES, os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def test_a_client_starts_it(tmp_path: Path) -> None:
    """And what it adds is there for the next one; the client fails on any line that is not of the protocol."""
    first, *rest = command(tmp_path, "--user", "ana", "--tools", "full")

    async def work() -> list[Any]:
        parameters = StdioServerParameters(command=first, args=rest, env=environment())
        async with Client(parameters) as client:
            await call(client, "add_memory", content="I live in Davis.", session_id="s")
        async with Client(parameters, mode="legacy") as client:
            return [client.protocol_version, await call(client, "memory_stats")]

    version, stats = asyncio.run(work())
    assert (version, stats["turns"]) == ("2025-11-25", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it(tmp_path: Path, number: signal.Signals) -> None:
    """At once, without an error and without a word, though its standard input stays open."""
    initialize = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    with subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(initialize)
        process.stdin.flush()
        assert b'"serverInfo"' in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_over_http(tmp_path: Path, number: signal.Signals) -> None:
    """In good order: memories are closed, so that no write-ahead log is left."""
    with subprocess.Popen(
        command(tmp_path, "--user", "ana", "--http", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[1]

        async def add() -> None:
            async with Client(address) as client:
                await call(client, "add_memory", content="I live in Davis.", session_id="s")

        asyncio.run(add())
        process.send_signal(number)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
    assert list((tmp_path / "memories").glob("*.db"))
    assert not list((tmp_path / "memories").glob("*-wal"))


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """It names the option that takes another, and nothing was said of serving."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        told = CliRunner().invoke(
            main, ["mcp", "--dir", str(tmp_path), "--http", f"127.0.0.1:{taken.getsockname()[1]}"]
        )
    assert told.exit_code == 1
    assert told.stderr.count("\n") == 1
    assert "--http takes another port" in told.stderr


def test_the_end_of_its_input_ends_it(tmp_path: Path) -> None:
    """And garbage on it is no reason to die."""
    done = subprocess.run(
        command(tmp_path),
        input=b"garbage\n{}\n",
        capture_output=True,
        env=environment(),
        timeout=50,
        check=False,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"t","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def test_a_text_that_is_cut_within_an_emoji_is_answered(tmp_path: Path) -> None:
    """As hosts in JavaScript send it; a host that got no answer would wait without end."""
    asked = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_memory",'
        b'"arguments":{"query":"cut \\ud83d"}}}\n'
    )
    with subprocess.Popen(
        command(tmp_path, "--user", "ana"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE + asked)
        process.stdin.flush()
        assert b'"id":0' in process.stdout.readline()
        assert b'"id":1' in process.stdout.readline()
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_host_that_closes_what_it_reads_ends_it(tmp_path: Path) -> None:
    """Without an error and without a word: there is nobody to answer."""
    with subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert (process.wait(50), process.stderr.read()) == (0, b"")


def test_a_user_that_nobody_can_be_is_said_at_once(tmp_path: Path) -> None:
    """And not at each call of a tool."""
    for user, says in (("", "non-empty"), ("a" * 2000, "1024")):
        result = CliRunner().invoke(main, [*command(tmp_path)[3:], "--user", user])
        assert (result.exit_code, says in result.output) == (1, True)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("0.0.0.0:8421", "memforest serve"),
        ("example.org:8421", "memforest serve"),
        ("8421", "HOST:PORT"),
        ("127.0.0.1:x", "HOST:PORT"),
        ("127.0.0.1:99999", "HOST:PORT"),
    ],
)
def test_http_is_for_this_machine_alone(tmp_path: Path, address: str, says: str) -> None:
    """As nobody is asked for a key."""
    result = CliRunner().invoke(main, ["mcp", "--dir", str(tmp_path), "--http", address])
    assert result.exit_code == 2
    assert says in result.output


def test_without_the_extra_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which says what to install."""
    import_module = builtins.__import__

    def without_sdk(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "mcp" or name.startswith("mcp."):
            raise ImportError(name)
        return import_module(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_sdk)
    result = CliRunner().invoke(main, ["mcp", "--dir", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output == "Error: memforest mcp needs the extra [mcp]: pip install 'memforest[mcp]'\n"
