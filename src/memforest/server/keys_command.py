"""`memforest keys`: who may use a server of the directory. Needs no extra, and no server that runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns

if TYPE_CHECKING:
    from memforest.access.keys import KeyStore, KeyView


@click.group(no_args_is_help=False)
@shared_options
@click.pass_context
def keys(ctx: click.Context) -> None:
    """Make, list and revoke the keys of a server.

    Of the server of --dir. What is changed holds there within 5 seconds, without a restart. As soon as a key was ever made,
    nobody is let in without one.
    """
    call = ctx.find_object(Call)
    if call is not None:
        call.command = f"keys {ctx.invoked_subcommand}"


@keys.command()
@click.argument("name")
@click.option(
    "--tenant",
    metavar="TENANT",
    help="Whose memories it is for; those directly in the directory, which are nobody's tenant, by default.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPES",
    default="read,write",
    show_default=True,
    help="What it allows, with commas: read, write, delete, admin.",
)
@click.option(
    "--expires",
    metavar="DURATION",
    help="How long it can be used: hours, days or weeks, such as 12h, 90d, 4w. For ever by default.",
)
@shared_options
@pass_call
def create(call: Call, name: str, tenant: str | None, scopes: str, expires: str | None) -> None:
    """Make a key, and show it: this once, as only its hash is stored.

    With --user it sees that user alone (MEMFOREST_USER is not read here). NAME is what lists call it.
    """
    from memforest.access.keys import read_lifetime, read_scopes

    user = None if call.user_from_environment else call.user
    with _store(call) as store:
        made = store.create(
            name,
            tenant=tenant,
            user=user,
            scopes=read_scopes(scopes),
            lifetime=None if expires is None else read_lifetime(expires),
        )
    data = {"key": made.key, **made.view.to_dict()}

    def draw(screen: Screen) -> None:
        screen.line(made.key)
        call.remark(screen, f"{_whose(made.view)}. Keep it: it is not shown again.")

    call.settled_user = user
    call.show(data, draw)


@keys.command("list")
@shared_options
@pass_call
def list_(call: Call) -> None:
    """List all keys that were ever made: id, name, state, tenant, user, scopes, and when each was used last."""
    from memforest.clock import system_clock

    with _store(call) as store:
        found = store.all()
    now = system_clock()
    data = {"keys": [{**one.to_dict(), "state": one.state(now)} for one in found]}

    def draw(screen: Screen) -> None:
        if not found:
            screen.line("No key was ever made here; `memforest keys create NAME` makes one.")
            return
        _draw(screen, [(one, one.state(now)) for one in found])

    call.show(data, draw)


@keys.command()
@click.argument("which", metavar="KEY")
@click.option(
    "--erase", is_flag=True, help="Also erase its name, tenant and user, as when the user is deleted."
)
@shared_options
@pass_call
def revoke(call: Call, which: str, erase: bool) -> None:
    """Revoke a key, by its id or name, for good; who uses it is refused from then on."""
    with _store(call) as store:
        gone = store.revoke(which, erase=erase)
    call.show(gone, lambda screen: screen.line(f"Revoked {gone.id}{gone.name and ' '}{clean(gone.name)}."))


@contextmanager
def _store(call: Call) -> Iterator[KeyStore]:
    from memforest.access.keys import KeyStore

    store = KeyStore(call.folder)
    try:
        yield store
    finally:
        store.close()


def _whose(view: KeyView) -> str:
    tenant = "the directory's own memories" if view.tenant is None else f"tenant {clean(view.tenant, 60)}"
    user = "" if view.user is None else f", user {clean(view.user, 60)} alone"
    until = "" if view.expires is None else f", until {view.expires:%Y-%m-%d %H:%M} UTC"
    return f"For {tenant}{user}: {', '.join(view.scopes)}{until}"


def _draw(screen: Screen, found: Sequence[tuple[KeyView, str]]) -> None:
    table = columns("dim", "bold", "", "", "", "", "")
    for one, state in found:
        table.add_row(
            one.id,
            clean(one.name, 40),
            state,
            "" if one.tenant is None else clean(one.tenant, 40),
            "" if one.user is None else clean(one.user, 40),
            ",".join(one.scopes),
            "never used" if one.used is None else f"used {screen.minute(one.used)}",
        )
    screen.put(table)
