"""`memforest remember`, `update`, `history`, `undo`, `pin`, `forget` and `delete`: decisions of a person on what was learnt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, command, flag, takes
from memforest.cli.screen import Screen, clean, sources

if TYPE_CHECKING:
    from memforest.memory.blocking import UserMemory
    from memforest.read.receipts import DeleteReceipt
    from memforest.read.stored import CorrectionView, HistoryEntry


@command()
@click.argument("statement", metavar="TEXT")
@takes("--about", of="NAME", help="Whom or what it is about; the user by default.")
@takes("--attribute", of="WORD", help="What of that it tells, as a timeline calls it; with --value.")
@takes("--value", of="TEXT", help="What the attribute is; it ends the value before.")
@takes("--since", of="TIME", help="From when on it is so.")
@takes("--until", of="TIME", help="Until when it was so, exclusive.")
@takes("--replaces", of="FACT", help="A fact that was so until then; it stays true of its time.")
@takes(
    "--source",
    nargs=2,
    of="SESSION TURN",
    help="The turn that says it, by the ids of its session and itself.",
)
def remember(call: Call, statement: str, **given: Any) -> None:
    """Remember one statement, TEXT, and end the one that it replaces. No model is asked.

    Without --source it is stored as said now by the user. The line that is printed names the key that takes it back.
    """
    _decide(call, "Remembered", lambda memory: memory.remember(statement, **given))


@command()
@click.argument("fact_id", metavar="FACT")
@click.argument("text", required=False)
@takes("--from", "valid_from", of="TIME", help="From when on it is so.")
@takes("--to", "valid_to", of="TIME", help="Until when it was so, exclusive.")
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
    """Show what happened to a fact, and what took its place.

    When it was said, corrected and undone, each with its source or key.
    """
    call.run(lambda memory: {"history": memory.history(fact_id)}, _draw_history)


def _draw_history(screen: Screen, found: Mapping[str, Sequence[HistoryEntry]]) -> None:
    rows = (
        (screen.day(one.at), one.kind, clean(one.quote or one.text, 200), sources(one.sources), one.key or "")
        for one in found["history"]
    )
    screen.table(("green", "bold", "", "dim", "dim"), rows)


def _decide(call: Call, what: str, decide: Callable[[UserMemory], CorrectionView]) -> None:
    """Make a correction in the user's memory, and print it."""

    def draw(screen: Screen, done: CorrectionView) -> None:
        now = f" -> {clean(done.text or '', 200)}" if done.kind == "update" else ""
        screen.line(f"{what}: {clean(done.said, 200)}{now}")
        if done.undone is None:
            new = f"fact {done.new_fact_id}; " if done.new_fact_id else ""
            screen.line(f"{new}`memforest undo {done.key}` takes it back", "dim")

    call.run(decide, draw)


@command()
@takes("--turn", nargs=2, of="SESSION TURN", help="One turn, by the ids of its session and itself.")
@takes("--session", "session_id", of="SESSION", help="A session with all its turns.")
@takes("--fact", "fact_id", of="FACT", help="A statement, by its id, with the sentences it was made from.")
@takes(
    "--entity", of="NAME", help="Somebody or something: what was said of it by name, and by it if it spoke."
)
@takes("--during", nargs=2, of="START END", help="What was said from START on and before END.")
@flag("--expired", help="What is older than the setting `retention` keeps.")
@flag("--all", "everything", help="The whole memory: its files are deleted.")
@flag("--dry-run", help="Only count what would go.")
@flag("--yes", help="Do not ask.")
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
            goes = found.gone.get("turns", 0) + found.gone.get("files", 0) + sum(found.changed.values())
            if dry_run or not goes:
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
    if not receipt:
        screen.line("Nothing to delete.")
        return
    goes = "to go" if receipt.dry_run else "gone"
    counts = {
        layer: (receipt.gone.get(layer, 0), receipt.changed.get(layer, 0))
        for layer in (*receipt.gone, *receipt.changed)
    }
    rows = (
        (layer.replace("_", " "), f"{gone} {goes}" if gone else "", f"{changed} changed" if changed else "")
        for layer, (gone, changed) in counts.items()
        if gone or changed
    )
    screen.table(("bold", "", ""), rows)
    if receipt.dry_run:
        screen.line("Nothing was deleted.")
    elif receipt.wal_pending:
        screen.line(
            "A reader still holds the log: what was deleted goes from it when that has ended and the memory is closed."
        )
