"""`memforest remember`, `update`, `history`, `undo`, `pin`, `forget` and `delete`: corrections by a person."""

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
@takes("--about", of="NAME", help="The entity it is about; the user by default.")
@takes("--attribute", of="WORD", help="The attribute it states, e.g. residence; needs --value.")
@takes("--value", of="TEXT", help="The value of the attribute; it ends the value before.")
@takes("--since", of="TIME", help="When it became true.")
@takes("--until", of="TIME", help="When it stopped being true (exclusive).")
@takes("--replaces", of="FACT", help="The fact that ends when this one begins.")
@takes("--source", nargs=2, of="SESSION TURN", help="The turn that says it: session id and turn id.")
def remember(call: Call, statement: str, **given: Any) -> None:
    """Store one statement, and end the one it replaces. No model is asked.

    Without --source, it is stored as a turn that the user says now. The output has the key for `memforest undo`.
    """
    _decide(call, "Remembered", lambda memory: memory.remember(statement, **given))


@command()
@click.argument("fact_id", metavar="FACT")
@click.argument("text", required=False)
@takes("--from", "valid_from", of="TIME", help="When it became true.")
@takes("--to", "valid_to", of="TIME", help="When it stopped being true (exclusive).")
def update(call: Call, fact_id: str, text: str | None, valid_from: str | None, valid_to: str | None) -> None:
    """Correct the text or the times of a fact. The turn it comes from does not change.

    `memforest facts --ids` shows the ids of facts. The output has the key for `memforest undo`.
    """
    times = {"valid_from": valid_from, "valid_to": valid_to}
    _decide(call, "Corrected", lambda memory: memory.update(fact_id, text, **times))


@command()
@click.argument("fact_id", metavar="FACT")
def pin(call: Call, fact_id: str) -> None:
    """Pin a fact: it is in the evidence of every question."""
    _decide(call, "Pinned", lambda memory: memory.pin(fact_id))


@command()
@click.argument("fact_id", metavar="FACT")
def forget(call: Call, fact_id: str) -> None:
    """Hide a fact. Its turn stays in the file; `memforest delete` removes both."""
    _decide(call, "Forgotten", lambda memory: memory.forget(fact_id))


@command()
@click.argument("key")
def undo(call: Call, key: str) -> None:
    """Undo an update, a pin or a forget. KEY is what that command printed."""
    _decide(call, "Undone", lambda memory: memory.undo(key))


@command()
@click.argument("fact_id", metavar="FACT")
def history(call: Call, fact_id: str) -> None:
    """Show what happened to a fact, and what replaced it.

    Each row is a time at which it was said, corrected or restored, with the source or the key.
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
@takes("--turn", nargs=2, of="SESSION TURN", help="One turn: session id and turn id.")
@takes("--session", "session_id", of="SESSION", help="A session with all its turns.")
@takes("--fact", "fact_id", of="FACT", help="A fact, by its id, with the sentences it was made from.")
@takes("--entity", of="NAME", help="An entity: what names it, and what it said itself.")
@takes("--during", nargs=2, of="START END", help="What was said from START until before END.")
@flag("--expired", help="What is older than the setting `retention` allows.")
@flag("--all", "everything", help="The whole memory: its files are deleted.")
@flag("--dry-run", help="Only count what would be deleted.")
@flag("--yes", help="Do not ask.")
def delete(call: Call, /, dry_run: bool, yes: bool, **given: Any) -> None:
    """Delete a turn, session, fact, entity, period or memory for good.

    None of its words stay in the files, nor anything that was made of it. Give exactly one thing to delete. The
    command shows what would go, and asks. Without a terminal it cannot ask, and needs --yes. Backups still have what
    you delete.
    """
    wanted = {name: value for name, value in given.items() if value}
    if len(wanted) != 1:
        raise click.UsageError(
            "give exactly one of --turn, --session, --fact, --entity, --during, --expired or --all"
        )
    if not (dry_run or yes or (sys.stdin.isatty() and not call.as_json)):
        raise click.UsageError("without a terminal, give --yes to delete or --dry-run to count")
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
            "A reader still uses the log. Its deleted text goes when the reader ends and the memory is closed."
        )
