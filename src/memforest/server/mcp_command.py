"""`memforest mcp`: memory for a host of the Model Context Protocol, over standard input and output or HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.server.access_options import TOOLS

if TYPE_CHECKING:
    from memforest.access import Access

__all__ = ["mcp"]

PART_BYTES = 65_536
MISSING = "memforest mcp needs the extra [mcp]: pip install 'memforest[mcp]'"


@click.command()
@shared_options
@click.option("--tools", type=click.Choice(TOOLS), default="default", show_default=True, help="Which tools.")
@click.option(
    "--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp, on loopback only."
)
@pass_call
def mcp(call: Call, tools: Any, address: str | None) -> None:
    """Give an agent this memory, by the Model Context Protocol.

    Without --http it speaks over standard input and output, as hosts start it; see docs/mcp.md. With
    --user it serves that user alone, and tools have no argument for it.
    """
    _check_extra()
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    place = None if address is None else _place(address)
    try:
        asyncio.run(_serve(call, tools, place))
    except KeyboardInterrupt:
        raise click.Abort from None


def _check_extra() -> None:
    """Raise unless the SDK is installed.

    Raises:
        StopCommand: if it is not.
    """
    try:
        from mcp.server import mcpserver  # noqa: F401
    except ImportError:
        raise StopCommand(MISSING) from None


def _place(address: str) -> tuple[str, int]:
    """Return host and port.

    Raises:
        click.BadParameter: if it is no address, or not one of this machine alone.
    """
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise click.BadParameter("give HOST:PORT, as 127.0.0.1:8421", param_hint="--http")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise click.BadParameter(
            f"{host} is not this machine alone, and `memforest mcp` asks for no key; `memforest serve` has keys",
            param_hint="--http",
        )
    return host, int(port)


async def _serve(call: Call, tools: Any, place: tuple[str, int] | None) -> None:
    from memforest.access import OpenAccess
    from memforest.forest.forest import AsyncMemForest
    from memforest.mcp import MemoryServer

    async with AsyncMemForest(call.folder, call.config()) as forest:
        access = OpenAccess(forest)
        if place is None:
            with _input_that_signals_end():
                await MemoryServer(access, user=call.user, tools=tools).run_stdio_async()
        else:
            await _serve_http(access, call, tools, place)


@contextmanager
def _input_that_signals_end() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end standard input, as a host does that closes it: calls under way are answered, files closed.

    What reads standard input cannot be interrupted, so it reads a pipe that a thread of our own fills. On Windows nothing
    is done: Ctrl-C is a `KeyboardInterrupt` there.
    """
    if sys.platform == "win32":
        yield
        return
    (end, feed), (woken, waker), source = os.pipe(), os.pipe(), os.dup(0)

    def fill() -> None:
        with suppress(OSError):  # the other end is closed
            while woken not in (ready := select.select([source, woken], [], [])[0]):
                part = os.read(source, PART_BYTES) if ready else b""
                if not part:
                    break
                left = memoryview(part)
                while left:
                    left = left[os.write(feed, left) :]
        os.close(feed)

    os.dup2(end, 0)
    os.close(end)
    threading.Thread(target=fill, name="memforest-mcp-input", daemon=True).start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, os.write, waker, b".")
    yield


async def _serve_http(access: Access, call: Call, tools: Any, place: tuple[str, int]) -> None:
    import uvicorn

    from memforest.mcp import http_app
    from memforest.server.listening import listen

    class Server(uvicorn.Server):
        """Ends at a signal, and does not raise it again: memories are still to be closed."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            self.force_exit, self.should_exit = self.should_exit, True

    host, port = place
    app = http_app(access, user=call.user, tools=tools).alone("/mcp")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=2
    )
    with closing(listen(host, port, "--http takes another port, 0 for any that is free")) as listening:
        shown, port = f"[{host}]" if ":" in host else host, listening.getsockname()[1]
        call.complain(f"serving http://{shown}:{port}/mcp (Ctrl-C ends it)")
        await Server(config).serve([listening])
