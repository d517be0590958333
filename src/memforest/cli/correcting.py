"""`memforest update`, `history`, `undo`, `pin` and `forget`: what a person decides of what was learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, sources

if TYPE_CHECKING:
    from memforest.forest import UserMemory
    from memforest.memory.corrected import CorrectionView, HistoryEntry


@click.command()
@click.argument("fact_id", metavar="FACT")
@click.argument("text", required=False)
@click.option("--from", "valid_from", metavar="TIME", help="From when on it is so.")
@click.option("--to", "valid_to", metavar="TIME", help="Until when it was so, exclusive.")
@shared_options
@pass_call
def update(call: Call, fact_id: str, text: str | None, valid_from: str | None, valid_to: str | None) -> None:
    """Correct a fact: TEXT, or another time, holds instead. What was said stays as it was said.

    `memforest facts --ids` shows the ids of facts. The line that is printed names the key that takes it back.
    """
    _decide(
        call,
        "Corrected",
        lambda memory: memory.update(fact_id, text, valid_from=valid_from, valid_to=valid_to),
    )


@click.command()
@click.argument("fact_id", metavar="FACT")
@shared_options
@pass_call
def pin(call: Call, fact_id: str) -> None:
    """Pin a fact: it is among the evidence of every question."""
    _decide(call, "Pinned", lambda memory: memory.pin(fact_id))


@click.command()
@click.argument("fact_id", metavar="FACT")
@shared_options
@pass_call
def forget(call: Call, fact_id: str) -> None:
    """Forget a fact: it is not shown any more. What was said stays in the file."""
    _decide(call, "Forgotten", lambda memory: memory.forget(fact_id))


@click.command()
@click.argument("key")
@shared_options
@pass_call
def undo(call: Call, key: str) -> None:
    """Take a correction back, by its KEY: an update, a pin, or a forgetting."""
    _decide(call, "Undone", lambda memory: memory.undo(key))


@click.command()
@click.argument("fact_id", metavar="FACT")
@shared_options
@pass_call
def history(call: Call, fact_id: str) -> None:
    """Show what happened to a fact: when it was said, corrected, undone, and what took its place."""
    with call.forest() as forest:
        found = call.memory(forest).history(fact_id)
        call.show({"history": found}, lambda screen: _draw_history(screen, found), forest=forest)


def _decide(call: Call, what: str, decide: Callable[[UserMemory], CorrectionView]) -> None:
    """Decide something of the user's memory, and show what was done."""
    with call.forest() as forest:
        done = decide(call.memory(forest))
        call.show(done, lambda screen: _draw(screen, what, done), forest=forest)


def _draw(screen: Screen, what: str, done: CorrectionView) -> None:
    now = "" if done.text is None else f" -> {clean(done.text, 200)}"
    screen.line(f"{what}: {clean(done.said, 200)}{now}")
    if done.undone is None:
        new = f"fact {done.new_fact_id}; " if done.new_fact_id else ""
        screen.line(f"{new}`memforest undo {done.key}` takes it back", "dim")


def _draw_history(screen: Screen, found: Sequence[HistoryEntry]) -> None:
    table = columns("green", "bold", "", "dim", "dim")
    for one in found:
        table.add_row(
            screen.day(one.at),
            one.kind,
            clean(one.quote or one.text, 200),
            sources(one.sources) if one.sources else "",
            one.key or "",
        )
    screen.put(table)
