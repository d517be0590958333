"""`memforest update`, `history`, `undo`, `pin`, `forget` and `delete`: decisions of a person on what was learnt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, command
from memforest.cli.screen import Screen, clean, columns, sources

if TYPE_CHECKING:
    from memforest.memory.blocking import UserMemory
    from memforest.read.receipts import DeleteReceipt
    from memforest.read.stored import CorrectionView


@command()
@click.argument("fact_id", metavar="FACT")
@click.argument("text", required=False)
@click.option("--from", "valid_from", metavar="TIME", help="From when on it is so.")
@click.option("--to", "valid_to", metavar="TIME", help="Until when it was so, exclusive.")
def update(call: Call, fact_id: str, text: str | None, valid_from: str | None, valid_to: str | None) -> None:
    """Correct a fact: TEXT, or another time, holds instead. What was said stays as it was said.

    `memforest facts --ids` shows the ids of facts. The line that is printed names the key that takes it back.
    """
    times = {"valid_from": valid_from, "valid_to": valid_to}
    _decide(call, "Corrected", lambda memory: memory.update(fact_id, text, **times))


@command()
@click.argument("fact_id", metavar="FACT")
def pin(call: Call, fact_id: str) -> None:
    """Pin a fact: it is among the evidence of every question."""
    _decide(call, "Pinned", lambda memory: memory.pin(fact_id))


@command()
@click.argument("fact_id", metavar="FACT")
def forget(call: Call, fact_id: str) -> None:
    """Forget a fact: it is not shown any more. What was said stays in the file."""
    _decide(call, "Forgotten", lambda memory: memory.forget(fact_id))


@command()
@click.argument("key")
def undo(call: Call, key: str) -> None:
    """Take a correction back, by its KEY: an update, a pin, or a forgetting."""
    _decide(call, "Undone", lambda memory: memory.undo(key))


@command()
@click.argument("fact_id", metavar="FACT")
def history(call: Call, fact_id: str) -> None:
    """Show what happened to a fact: when it was said, corrected, undone, and what took its place."""
    with call.forest() as forest:
        found = call.memory(forest).history(fact_id)

        def draw(screen: Screen) -> None:
            table = columns("green", "bold", "", "dim", "dim")
            for one in found:
                text, places = clean(one.quote or one.text, 200), sources(one.sources) if one.sources else ""
                table.add_row(screen.day(one.at), one.kind, text, places, one.key or "")
            screen.put(table)

        call.show({"history": found}, draw)


def _decide(call: Call, what: str, decide: Callable[[UserMemory], CorrectionView]) -> None:
    """Make a correction in the user's memory, and print it."""
    with call.forest() as forest:
        done = decide(call.memory(forest))

        def draw(screen: Screen) -> None:
            now = "" if done.text is None else f" -> {clean(done.text, 200)}"
            screen.line(f"{what}: {clean(done.said, 200)}{now}")
            if done.undone is None:
                new = f"fact {done.new_fact_id}; " if done.new_fact_id else ""
                screen.line(f"{new}`memforest undo {done.key}` takes it back", "dim")

        call.show(done, draw)


@command()
@click.option(
    "--turn", nargs=2, metavar="SESSION TURN", help="One turn, by the ids of its session and itself."
)
@click.option("--session", "session_id", metavar="SESSION", help="A session with all its turns.")
@click.option(
    "--fact", "fact_id", metavar="FACT", help="A statement, by its id, with the sentences it was made from."
)
@click.option(
    "--entity",
    metavar="NAME",
    help="Somebody or something: what was said of it by name, and by it if it spoke.",
)
@click.option("--during", nargs=2, metavar="START END", help="What was said from START on and before END.")
@click.option("--expired", is_flag=True, help="What is older than the setting `retention` keeps.")
@click.option("--all", "everything", is_flag=True, help="The whole memory: its files are deleted.")
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(call: Call, /, dry_run: bool, yes: bool, **given: Any) -> None:
    """Delete something with all that was made of it, so that none of its words is left in the files.

    Give exactly one thing. Before it is deleted, the command shows what would go, and asks; where nobody can be asked
    (no terminal) it refuses, unless --yes is given. A backup still has what was deleted.
    """
    wanted = {name: value for name, value in given.items() if value}
    if len(wanted) != 1:
        raise click.UsageError(
            "give exactly one of --turn, --session, --fact, --entity, --during, --expired and --all"
        )
    if not (dry_run or yes or (sys.stdin.isatty() and not call.as_json)):
        raise click.UsageError("nobody can be asked here: give --yes to delete, or --dry-run to count")
    with call.forest() as forest:
        memory = call.memory(forest)
        if dry_run or not yes:
            found = _delete(memory, wanted, dry_run=True)
            if dry_run or not found.gone.get("turns", 0) + found.gone.get("files", 0) + sum(
                found.changed.values()
            ):
                call.show(found, lambda screen: _draw_receipt(screen, found))
                return
            _draw_receipt(Screen(), found)
            click.confirm("Delete this for good?", abort=True, err=True)
        done = _delete(memory, wanted, dry_run=False)
        call.warn(done.warnings)
        call.show(done, lambda screen: _draw_receipt(screen, done))


def _delete(memory: UserMemory, wanted: dict[str, Any], *, dry_run: bool) -> DeleteReceipt:
    if "everything" in wanted:
        return memory.delete_all(dry_run=dry_run)
    if "expired" in wanted:
        return memory.expire(dry_run=dry_run)
    return memory.delete(**wanted, dry_run=dry_run)


def _draw_receipt(screen: Screen, receipt: DeleteReceipt) -> None:
    table = columns("bold", "", "")
    for layer in dict.fromkeys((*receipt.gone, *receipt.changed)):
        gone, changed = receipt.gone.get(layer, 0), receipt.changed.get(layer, 0)
        if gone or changed:
            table.add_row(
                clean(layer.replace("_", " ")),
                f"{gone} {'to go' if receipt.dry_run else 'gone'}" if gone else "",
                f"{changed} changed" if changed else "",
            )
    if not receipt:
        screen.line("Nothing to delete.")
        return
    screen.put(table)
    if receipt.dry_run:
        screen.line("Nothing was deleted.")
    elif receipt.wal_pending:
        screen.line(
            "A reader still holds the log: what was deleted goes from it when that has ended and the memory is closed."
        )
