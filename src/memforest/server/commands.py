"""`memforest serve`, `inspect`, `keys` and `mcp`: run a server, and say who may use it.

`serve` and `inspect` need ``memforest[server]``, and `mcp` needs ``memforest[mcp]``. `keys` needs no extra and no running server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, command, flag, group, options, takes
from memforest.cli.screen import Screen, clean
from memforest.errors import StoreWriteError

if TYPE_CHECKING:
    import socket

    from memforest.memory.forest import AsyncMemForest
    from memforest.server.auth import AccessSettings
    from memforest.server.keys import KeyStore, KeyView
    from memforest.server.ui.site import TicketAccess


HOST = "127.0.0.1"


def _port(default: int) -> Callable[[Any], Any]:
    ports = click.IntRange(0, 65535)
    return click.option(
        "--port", default=default, show_default=True, type=ports, help="Port; 0 takes any free one."
    )


@contextmanager
def _extra(command: str, name: str) -> Iterator[None]:
    """Import what an extra brings.

    Raises:
        StopCommand: if it is not installed; says what to do.
    """
    try:
        yield
    except ImportError as exc:
        if (exc.name or "").startswith(__name__.partition(".")[0]):
            raise
        what = f"memforest {command} needs the extra [{name}]: pip install 'memforest[{name}]'"
        raise StopCommand(what) from exc


@command()
@_port(0)
@click.option(
    "--open/--no-open", "opens", default=True, show_default=True, help="Open a browser, if there is one."
)
def inspect(call: Call, port: int, opens: bool) -> None:
    """Open the inspector in a browser, until Ctrl-C.

    It shows the memories of --dir, or with --user only one. It listens on this machine only. The address it prints
    works once, for whoever opens it first.
    """
    with _extra("inspect", "server"):
        from memforest.server.serving import listen, url_of
        from memforest.server.ui.site import TicketAccess
    from memforest.memory.forest import AsyncMemForest

    forest = AsyncMemForest(call.folder, call.config())
    listening = listen(HOST, port, "--port 0 takes any free one")
    access = TicketAccess(forest, user=call.user, owned=True)
    url = f"{url_of(HOST, listening)}/ui/enter?ticket={access.word}"

    def ready() -> None:
        at, once = f"The inspector is at {url}", "This address works once. Ctrl-C ends the inspector."
        _announce(call, {"url": url, "pid": os.getpid()}, at, once)
        if opens and _has_screen():
            webbrowser.open(url)

    with closing(listening):
        asyncio.run(_serve_inspector(forest, access, listening, call.user, ready))


def _announce(call: Call, data: Mapping[str, Any], title: str, *lines: str) -> None:
    """Print what is served, at once: who started the command may wait for it."""
    if call.as_json:
        call.envelope("ok", data, line=True)
    else:
        screen = Screen()
        screen.line(title)
        for line in lines:
            screen.line(line, "dim")
    sys.stdout.flush()


async def _serve_inspector(
    forest: AsyncMemForest,
    access: TicketAccess,
    listening: socket.socket,
    user: str | None,
    ready: Callable[[], object],
) -> None:
    """Serve the inspector until a signal.

    Raises:
        NotFoundError: if the user who is named has no memory.
    """
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from memforest.errors import NotFoundError
    from memforest.server.serving import serve_app
    from memforest.server.ui.app import ui_app

    try:
        if user is not None and not await forest.has_user(user):
            raise NotFoundError(f"user {user!r} has no memory here; `memforest users` lists who has one")
        ready()  # it listens already: whoever comes now waits for the moment until it answers
        await serve_app(Starlette(routes=[Mount("/ui", ui_app(access))]), listening)
    finally:
        await access.close()


def _has_screen() -> bool:
    """Return whether the user can see a browser that is opened here."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) or sys.platform in ("win32", "darwin")


@group()
def keys(call: Call) -> None:
    """Create, list and revoke the keys of a server.

    The keys are for the server of --dir. A running server sees a change within 5 seconds. As soon as you create the first key, every request needs a key.
    """


@command(group=keys)
@click.argument("name")
@takes(
    "--tenant", of="TENANT", help="The tenant whose memories it opens. Default: the directory's own memories."
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPES",
    default="read,write",
    show_default=True,
    help="What it allows, separated by commas: read, write, delete, admin.",
)
@takes(
    "--expires",
    of="DURATION",
    help="How long it works, in hours, days or weeks: 12h, 90d, 4w. Default: no end.",
)
def create(call: Call, name: str, tenant: str | None, scopes: str, expires: str | None) -> None:
    """Create a key, and show it. You see it only once, since only its hash is stored.

    With --user it opens the memory of that user only; MEMFOREST_USER is not read here. `keys list` shows its NAME.
    """
    from memforest.server.keys import read_lifetime, read_scopes

    user = None if call.user_from_environment else call.user
    with _store(call) as store:
        made = store.create(
            name,
            tenant=tenant,
            user=user,
            scopes=read_scopes(scopes),
            lifetime=None if expires is None else read_lifetime(expires),
        )
    view = made.view
    data = {"key": made.key, **view.to_dict()}

    def draw(screen: Screen) -> None:
        screen.line(made.key)
        tenant = "the directory's own memories" if view.tenant is None else f"tenant {clean(view.tenant, 60)}"
        only = "" if view.user is None else f", user {clean(view.user, 60)} alone"
        until = "" if view.expires is None else f", until {view.expires:%Y-%m-%d %H:%M} UTC"
        what = f"For {tenant}{only}: {', '.join(view.scopes)}{until}"
        call.remark(screen, f"{what}. Copy it now: it is not shown again.")

    call.settled_user = user
    call.show(data, draw)


@command("list", group=keys)
def list_(call: Call) -> None:
    """List all keys, with their state, tenant, user, scopes and last use."""
    from memforest.times import system_clock

    with _store(call) as store:
        found = store.all()
    now = system_clock()
    data = {"keys": [{**one.to_dict(), "state": one.state(now)} for one in found]}

    def draw(screen: Screen) -> None:
        if not found:
            screen.line("There are no keys yet. `memforest keys create NAME` makes one.")
            return
        _draw(screen, [(one, one.state(now)) for one in found])

    call.show(data, draw)


@command(group=keys)
@click.argument("which", metavar="KEY")
@flag("--erase", help="Erase its name, tenant and user too.")
def revoke(call: Call, which: str, erase: bool) -> None:
    """Revoke a key for good, by its id or name."""
    with _store(call) as store:
        gone = store.revoke(which, erase=erase)
    call.show(gone, lambda screen: screen.line(f"Revoked {gone.id}{gone.name and ' '}{clean(gone.name)}."))


def _store(call: Call) -> closing[KeyStore]:
    from memforest.server.keys import KeyStore

    return closing(KeyStore(call.folder))


def _draw(screen: Screen, found: Sequence[tuple[KeyView, str]]) -> None:
    rows = (
        (
            one.id,
            clean(one.name, 40),
            state,
            clean(one.tenant or "", 40),
            clean(one.user or "", 40),
            ",".join(one.scopes),
            "never used" if one.used is None else f"used {screen.minute(one.used)}",
        )
        for one, state in found
    )
    screen.table(("dim", "bold", "", "", "", "", ""), rows)


NONE = "none"
"""The value for a claim that is not read, or for no limit."""

TOOLS = ("read", "default", "full", "openai")
"""Profiles of MCP tools, as `memforest.server.mcp` has them. They stand here so that ``--help`` needs no extra."""

_ISSUER = "Accept tokens of this OpenID Connect issuer too. [MEMFOREST_OIDC_ISSUER]"
_AUDIENCE = "The audience that such tokens must name. [MEMFOREST_OIDC_AUDIENCE]"
_TENANT = 'The claim with the tenant; "none": tokens open the directory\'s own memories.'
_USER = 'The claim with the user whose memory a token opens; "none": all of its tenant.'
_SCOPE = "The claim with scopes such as memforest:read; without one, a token may only read."
_RATE = 'Most requests of one {}; "none" for no limit.'
_INGESTS = "Most ingests of one tenant at once."


def _shown(*names: str, of: str, default: Any, help: str, **more: Any) -> Callable[[Any], Any]:
    return takes(*names, of=of, default=default, show_default=True, help=help, **more)


access_options = options(
    takes("--oidc-issuer", of="URL", envvar="MEMFOREST_OIDC_ISSUER", help=_ISSUER),
    takes("--oidc-audience", of="NAME", envvar="MEMFOREST_OIDC_AUDIENCE", help=_AUDIENCE),
    _shown("--oidc-tenant-claim", of="CLAIM", default="tenant", help=_TENANT),
    _shown("--oidc-user-claim", of="CLAIM", default="sub", help=_USER),
    _shown("--oidc-scope-claim", of="CLAIM", default="scope", help=_SCOPE),
    _shown("--rate", "key_rate", of="RATE", default="600/minute", help=_RATE.format("key or token")),
    _shown("--tenant-rate", of="RATE", default="6000/minute", help=_RATE.format("tenant")),
    _shown("--tenant-ingests", of="COUNT", default=16, help=_INGESTS, type=int),
)
"""Gives a command the options that `read_access` reads."""


def read_access(options: Mapping[str, Any]) -> AccessSettings:
    """Return the settings of the options that `access_options` adds.

    Raises:
        click.UsageError: if an issuer is named without an audience, or an audience without an issuer.
        ConfigError: if a value is out of range, or the issuer's address is none.
    """
    from memforest.server.auth import AccessSettings, IssuerSettings

    issuer, audience = options["oidc_issuer"], options["oidc_audience"]
    if bool(issuer) != bool(audience):
        raise click.UsageError(
            "give both --oidc-issuer and --oidc-audience: a token for another service must not work here"
        )
    own = None
    if issuer and audience:
        tenant, user = (_or_none(options[f"oidc_{one}_claim"]) for one in ("tenant", "user"))
        scope = options["oidc_scope_claim"]
        own = IssuerSettings(issuer, audience, tenant_claim=tenant, user_claim=user, scope_claim=scope)
    key_rate, tenant_rate = _or_none(options["key_rate"]), _or_none(options["tenant_rate"])
    return AccessSettings(key_rate, tenant_rate, options["tenant_ingests"], own)


def _or_none(given: str) -> str | None:
    return None if given.strip().lower() == NONE else given


@command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Any but this machine's needs a key.",
)
@_port(8420)
@access_options
@click.option("--address", metavar="URL", help="The server's public address, if it is behind a proxy.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A host name that requests may use for this server, e.g. memory.example:*.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web origin that may call REST from a browser, e.g. https://app.example.",
)
@click.option(
    "--mcp/--no-mcp", default=True, show_default=True, help="Serve the Model Context Protocol at /mcp."
)
@click.option(
    "--tools", type=click.Choice(TOOLS), default="default", show_default=True, help="The tools of /mcp."
)
@click.option("--ui/--no-ui", default=True, show_default=True, help="Serve the inspector at /ui.")
@click.option(
    "--log",
    type=click.Choice(("requests", "warnings")),
    default="warnings",
    show_default=True,
    help="What to log on standard error. No log has texts, users or keys.",
)
def serve(call: Call, /, host: str, port: int, log: str, **options: Any) -> None:
    """Serve the memories of --dir over REST and MCP, with the inspector.

    Without a key it listens on this machine only. `memforest keys create` makes a key. After Ctrl-C or SIGTERM the
    server stops within 30 seconds, and after the second one at once. The next start finishes unfinished ingest jobs.
    """
    with _extra("serve", "server"):
        from memforest.server.access import KeyedAccess
        from memforest.server.auth import is_loopback, may_bind
        from memforest.server.keys import KeyStore
        from memforest.server.serving import ServerSettings, create_server, listen, run, served, url_of
        from memforest.store.directory import make_directory
    if call.user is not None and not call.user_from_environment:
        raise click.UsageError(
            "a server is for all users; `memforest keys create NAME --user USER` makes a key for one"
        )
    own = {name: options[name] for name in ("origins", "hosts", "address", "mcp", "tools", "ui")}
    settings = ServerSettings(host=host, access=read_access(options), **own)
    make_directory(call.folder)
    if not os.access(call.folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreWriteError(
            f"the directory {str(call.folder)!r} cannot be written; --dir names another one"
        )
    config = call.config()
    may_bind(host, settings.access.issuer is not None or KeyStore(call.folder, config.clock).ever())
    access = KeyedAccess(call.folder, config, settings.access, loopback=is_loopback(host))
    with_log(log)
    app = create_server(call.folder, settings=settings, access=access)
    listening = listen(host, port)
    url, where = url_of(host, listening), listening.getsockname()[1]

    def ready() -> None:
        parts = served(settings)
        _announce(
            call,
            {"url": url, "host": host, "port": where, "pid": os.getpid(), "serves": parts},
            f"memforest serves {clean(str(call.folder))} at {url}",
            *(f"{name}: {url}{path}" for name, path in parts.items()),
            "Ctrl-C stops it.",
        )

    if not run(app, settings, listening, ready):
        raise StopCommand("the server could not start; its log says why")


def with_log(what: str) -> None:
    """Send the server's log to standard error: warnings, and with `requests` a line for each request."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Only the class of an error: its message may quote texts, and its stack has paths.
    plain.formatException = lambda ei: f"  {ei[0].__name__}" if ei and ei[0] else ""  # type: ignore[method-assign]
    handler.setFormatter(plain)
    ours = logging.getLogger(__name__.partition(".")[0])
    ours.addHandler(handler)
    ours.setLevel(logging.INFO if what == "requests" else logging.WARNING)
    uvicorns = logging.getLogger("uvicorn")
    uvicorns.addHandler(handler)
    uvicorns.setLevel(logging.WARNING)
    for name in ("asyncio", "mcp", "sse_starlette"):
        # Else Python itself writes what they say, with the stack.
        theirs = logging.getLogger(name)
        theirs.addHandler(handler)
        theirs.propagate = False


@command()
@click.option(
    "--tools", type=click.Choice(TOOLS), default="default", show_default=True, help="The tools to offer."
)
@click.option(
    "--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp, on this machine only."
)
def mcp(call: Call, tools: Any, address: str | None) -> None:
    """Give an agent this memory over the Model Context Protocol.

    Without --http it uses standard input and output, as most hosts expect; see docs/mcp.md. With --user it serves
    only that user, and the tools have no argument for the user.
    """
    with _extra("mcp", "mcp"):
        from mcp.server import mcpserver  # noqa: F401
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    place = None if address is None else _place(address)
    try:
        asyncio.run(_serve_mcp(call, tools, place))
    except KeyboardInterrupt:
        raise click.Abort from None


def _place(address: str) -> tuple[str, int]:
    """Return the host and port of an address.

    Raises:
        click.BadParameter: if it is no address, or not one of this machine alone.
    """
    from memforest.server.auth import is_loopback

    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise click.BadParameter("give HOST:PORT, e.g. 127.0.0.1:8421", param_hint="--http")
    if not is_loopback(host):
        raise click.BadParameter(
            f"{host} is open to other machines, and `memforest mcp` has no keys; use `memforest serve`",
            param_hint="--http",
        )
    return host, int(port)


async def _serve_mcp(call: Call, tools: Any, place: tuple[str, int] | None) -> None:
    from memforest.memory.forest import AsyncMemForest
    from memforest.server.auth import OpenAccess
    from memforest.server.mcp.http import http_app, serve_stdio
    from memforest.server.mcp.server import MemoryServer

    async with AsyncMemForest(call.folder, call.config()) as forest:
        if call.user is not None:
            forest.user(call.user)  # what is no usable id is said now, and not at each call
        access = OpenAccess(forest)
        if place is None:
            await serve_stdio(MemoryServer(access, user=call.user, tools=tools))
            return
        from memforest.server.serving import listen, serve_app, url_of

        with closing(listen(*place, "--http takes another port, or 0 for any free one")) as listening:
            call.complain(f"serving {url_of(place[0], listening)}/mcp (Ctrl-C ends it)")
            await serve_app(http_app(access, user=call.user, tools=tools).alone("/mcp"), listening)
