"""`memforest serve`. Needs ``memforest[server]``."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.screen import Screen, clean
from memforest.errors import StoreWriteError
from memforest.server.access_options import ACCESS_OPTIONS, TOOLS, access_options, read_access

if TYPE_CHECKING:
    from memforest.access import KeyedAccess
    from memforest.server.settings import ServerSettings

PORT = 8420


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; any other takes a key."
)
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 is any that is free."
)
@access_options
@click.option("--address", metavar="URL", help="The server's address as clients know it, behind a proxy.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="What requests may call this server, beside this machine's names, as memory.example:*.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Pages that may use REST from a browser, as https://app.example.",
)
@click.option(
    "--mcp/--no-mcp", default=True, show_default=True, help="Serve the Model Context Protocol at /mcp."
)
@click.option(
    "--tools", type=click.Choice(TOOLS), default="default", show_default=True, help="Which tools /mcp has."
)
@click.option("--ui/--no-ui", default=True, show_default=True, help="Serve the inspector at /ui.")
@click.option(
    "--log",
    type=click.Choice(("requests", "warnings")),
    default="warnings",
    show_default=True,
    help="What is logged on standard error; never a text, a user or a key.",
)
@shared_options
@pass_call
def serve(call: Call, /, host: str, port: int, log: str, **options: Any) -> None:
    """Serve the memories of --dir: REST, MCP and the inspector.

    Without a key it listens on this machine alone; `memforest keys create` makes one. It ends within 30 seconds of Ctrl-C or
    SIGTERM, and at once at the second one; ingest jobs that are not done then are finished by the next start.
    """
    try:
        from memforest.server.app import create_server, served
        from memforest.server.listening import listen
        from memforest.server.serving import run
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith(__name__.partition(".")[0]):
            raise
        raise StopCommand(
            "memforest serve needs the extra [server]: pip install 'memforest[server]'"
        ) from exc
    if call.user is not None and not call.user_from_environment:
        raise click.UsageError(
            "a server is for all users; `memforest keys create NAME --user USER` makes a key of one"
        )
    settings = _settings(host, options)
    _make_directory(call.folder)
    access = _access(call, settings)
    with_log(log)
    app = create_server(call.folder, settings=settings, access=access)
    listening = listen(host, port)
    where = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{where}"

    def ready() -> None:
        data = {"url": url, "host": host, "port": where, "pid": os.getpid(), "serves": served(settings)}
        if call.as_json:
            call.envelope("ok", data, line=True)
        else:
            screen = Screen()
            screen.line(f"memforest serves {clean(str(call.folder))} at {url}")
            for name, path in served(settings).items():
                screen.line(f"{name}: {url}{path}", "dim", indent=2)
            screen.line("Ctrl-C ends it.", "dim")
        sys.stdout.flush()

    if not run(app, settings, listening, ready):
        raise StopCommand("the server could not be started; its log says why")


def _settings(host: str, options: dict[str, Any]) -> ServerSettings:
    """Return the settings that the options make.

    Raises:
        ConfigError: if one is none.
        click.UsageError: if an issuer is named without an audience, or the other way round.
    """
    from memforest.server.settings import ServerSettings

    return ServerSettings(
        host=host,
        access=read_access(**{name: options[name] for name in ACCESS_OPTIONS}),
        origins=options["origins"],
        hosts=options["hosts"],
        address=options["address"],
        mcp=options["mcp"],
        tools=options["tools"],
        ui=options["ui"],
    )


def _access(call: Call, settings: ServerSettings) -> KeyedAccess:
    """Return what decides on requests.

    Raises:
        ConfigError: if there is no key, and others than this machine could reach the server.
    """
    from memforest.access import KeyedAccess, is_loopback, may_bind
    from memforest.access.keys import KeyStore

    config = call.config()
    may_bind(settings.host, settings.access.issuer is not None or KeyStore(call.folder, config.clock).ever())
    return KeyedAccess(call.folder, config, settings.access, loopback=is_loopback(settings.host))


def _make_directory(folder: Path) -> None:
    """Make the directory of the memories, and see that it can be written.

    Raises:
        StoreWriteError: if not.
    """
    from memforest.memory.directory import make_directory

    make_directory(folder)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreWriteError(f"the directory {str(folder)!r} cannot be written; --dir names another one")


class _Plain(logging.Formatter):
    """Writes of an error its class: its message may hold a text, and its stack has paths."""

    def formatException(self, ei: Any) -> str:
        return f"  {ei[0].__name__}" if ei and ei[0] else ""


def with_log(what: str) -> None:
    """Let the server's log go to standard error: warnings, or a line for each request as well."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours = logging.getLogger(__name__.partition(".")[0])
    ours.addHandler(handler)
    ours.setLevel(logging.INFO if what == "requests" else logging.WARNING)
    uvicorns = logging.getLogger("uvicorn")
    uvicorns.addHandler(handler)
    uvicorns.setLevel(logging.WARNING)
    for name in (
        "asyncio",
        "mcp",
        "sse_starlette",
    ):  # else Python itself writes what they say, with the stack
        theirs = logging.getLogger(name)
        theirs.addHandler(handler)
        theirs.propagate = False
