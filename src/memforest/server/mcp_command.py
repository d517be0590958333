"""`memforest mcp`: memory for a host of the Model Context Protocol, over standard input and output or HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.server.access_options import TOOLS

if TYPE_CHECKING:
    from memforest.access import Access

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
    from memforest.mcp import MemoryServer, serve_stdio

    async with AsyncMemForest(call.folder, call.config()) as forest:
        if call.user is not None:
            forest.user(call.user)  # what is no usable id is said now, and not at each call
        access = OpenAccess(forest)
        if place is None:
            await serve_stdio(MemoryServer(access, user=call.user, tools=tools))
        else:
            await _serve_http(access, call, tools, place)


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
