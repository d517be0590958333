"""`memforest index`: the indexes of a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, pass_call, read_pairs, shared_options
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, columns, counted

if TYPE_CHECKING:
    from memforest.memory.results import IndexView


@click.group(no_args_is_help=False)
@shared_options
@click.pass_context
def index(ctx: click.Context) -> None:
    """List the indexes of a memory, add one, or drop one.

    An index is one way to search what was said. A memory may have several; what was said is stored once.
    """
    call = ctx.find_object(Call)
    if call is not None:
        call.command = f"index {ctx.invoked_subcommand}"


@index.command("list")
@shared_options
@pass_call
def list_(call: Call) -> None:
    """List the indexes: name, trees, leaves, and whether it is behind, with the reason."""
    with call.forest() as forest:
        found = call.memory(forest).indexes()
        call.show({"indexes": found}, lambda screen: _draw(screen, found), forest=forest)


@index.command()
@click.argument("name")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=read_pairs,
    help="A setting of the index, kept with the memory; may be repeated.",
)
@budget_options
@shared_options
@pass_call
def add(
    call: Call, name: str, settings: dict[str, Any], max_calls: int | None, max_tokens: int | None
) -> None:
    """Add an index, and let it place everything that the memory holds.

    Others can read and write meanwhile. When it is interrupted, `memforest resume` goes on.
    """
    with call.forest() as forest:
        budget = forest.config.ingest_budget.narrowed(max_calls, max_tokens)
        made = call.memory(forest).add_index(name, settings or None, budget=budget)
        call.show(made, lambda screen: screen.line(f"Added {_described(made)}."), forest=forest)


@index.command()
@click.argument("name")
@shared_options
@pass_call
def drop(call: Call, name: str) -> None:
    """Take an index away with its trees and tables; what was said stays as it is."""
    with call.forest() as forest:
        call.memory(forest).drop_index(name)
        call.show({"dropped": name}, lambda screen: screen.line(f"Dropped {clean(name)}."), forest=forest)


def behind(lag: int, reason: str | None) -> str:
    """Say how far an index is behind and why; an empty text when nothing is to be said."""
    why = f" ({clean(reason, 200)})" if reason else ""
    if lag:
        return f"{counted(lag, 'note')} of the feed behind{why}; `memforest resume` goes on"
    return clean(reason, 200) if reason else ""


def _described(one: IndexView) -> str:
    return f"{clean(one.name)}: {counted(one.trees, 'tree')} with {one.leaves} leaves"


def _draw(screen: Screen, found: Sequence[IndexView]) -> None:
    table = columns("bold", "", "", "yellow")
    for one in found:
        table.add_row(
            clean(one.name),
            counted(one.trees, "tree"),
            f"{one.leaves} leaves",
            behind(one.lag, one.reason),
        )
    screen.put(table)
