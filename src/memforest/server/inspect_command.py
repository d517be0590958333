"""`memforest inspect`: the memories of a directory in a browser. Needs ``memforest[server]``."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.screen import Screen

if TYPE_CHECKING:
    import socket

    from memforest.forest.forest import AsyncMemForest
    from memforest.ui import Ticket

MISSING = "memforest inspect needs the extra [server]: pip install 'memforest[server]'"
HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="0 is any that is free."
)
@click.option(
    "--open/--no-open", "opens", default=True, show_default=True, help="Open the browser, if there is one."
)
@shared_options
@pass_call
def inspect(call: Call, port: int, opens: bool) -> None:
    """Look into the memories of --dir in a browser, until Ctrl-C.

    It listens on this machine alone. The address that it prints opens once, for whoever opens it first; with --user it shows
    that user alone.
    """
    try:
        import uvicorn  # noqa: F401

        from memforest.server.listening import listen
        from memforest.ui import Ticket
    except ModuleNotFoundError as exc:
        raise StopCommand(MISSING) from exc
    from memforest import AsyncMemForest

    forest = AsyncMemForest(call.folder, call.config())
    listening = listen(HOST, port, "--port 0 takes any that is free")
    ticket = Ticket()
    root = f"http://{HOST}:{listening.getsockname()[1]}/ui"
    url = f"{root}/enter?ticket={ticket.word}"

    def ready() -> None:
        if call.as_json:
            call.envelope("ok", {"url": url, "pid": os.getpid()}, line=True)
        else:
            screen = Screen()
            screen.line(f"The inspector is at {url}")
            screen.line("This address opens once. Ctrl-C ends it.", "dim")
        sys.stdout.flush()
        if opens and _has_screen():
            webbrowser.open(url)

    with closing(listening), suppress(KeyboardInterrupt):
        asyncio.run(_serve(forest, ticket, listening, call.user, ready))


async def _serve(
    forest: AsyncMemForest,
    ticket: Ticket,
    listening: socket.socket,
    user: str | None,
    ready: Callable[[], object],
) -> None:
    """Serve the inspector until a signal.

    Raises:
        NotFoundError: if the user who is named has no memory.
    """
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from memforest.errors import NotFoundError
    from memforest.ui import TicketAccess, ui_app

    try:
        if user is not None and not await forest.has_user(user):
            raise NotFoundError(f"user {user!r} has no memory here; `memforest users` lists who has one")
        access = TicketAccess(forest, ticket, user=user)
        app = Starlette(routes=[Mount("/ui", ui_app(access, ticket=ticket))])
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        ready()  # it listens already: whoever comes now waits for the moment until it answers
        await uvicorn.Server(config).serve([listening])
    finally:
        await forest.close()


def _has_screen() -> bool:
    """Return whether a browser that is opened is seen by whoever has started this."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
