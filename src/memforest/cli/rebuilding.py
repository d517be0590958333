"""`memforest rebuild`: what is derived, made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, counted, error_console

if TYPE_CHECKING:
    from memforest.forest import MemForest
    from memforest.memory.inspect.stored import Stale
    from memforest.memory.progress import Report

CONFIGURED = "configured"


@click.command()
@click.option(
    "--stale",
    is_flag=True,
    help="Only what would be made otherwise now: sessions of another extractor or chunk size, changed indexes, summaries.",
)
@click.option("--scopes", is_flag=True, help="All indexes as well, from the start.")
@click.option("--index", metavar="NAME", help="Only this index, from the start.")
@click.option(
    "--embedder",
    is_flag=False,
    flag_value=CONFIGURED,
    metavar="[NAME]",
    help="Give the memory another embedder: auto (the best installed), bge, minilm; the configured one without a NAME.",
)
@click.option("--dry-run", is_flag=True, help="Count what is stale, and make nothing.")
@budget_options
@shared_options
@pass_call
def rebuild(
    call: Call,
    stale: bool,
    scopes: bool,
    index: str | None,
    embedder: str | None,
    dry_run: bool,
    max_calls: int | None,
    max_tokens: int | None,
) -> None:
    """Make anew what is derived: what is stale, one index, or every vector.

    For one user with --user, for all without. Without an option: word rows, summaries and their vectors. Readers are served what there was until the new is there,
    and what is interrupted is finished by the same command.
    """
    settings = {"embedder": embedder} if embedder not in (None, CONFIGURED) else {}
    with call.forest(**settings) as forest:
        call.settled_user = call.user
        users = [call.user] if call.user is not None else call.users()
        if dry_run:
            found = {user: forest.user(user).stale() for user in users}
            call.show(found, lambda screen: _draw(screen, found), forest=forest)
            return
        options: dict[str, Any] = {
            "stale": stale,
            "scopes": scopes,
            "index": index,
            "embedder": embedder is not None,
            "budget": forest.config.ingest_budget.narrowed(max_calls, max_tokens),
        }
        _rebuild(call, forest, users, options)


def _rebuild(call: Call, forest: MemForest, users: Sequence[str], options: dict[str, Any]) -> None:
    try:
        with _progress(quiet=call.as_json) as report:
            forest.rebuild(call.user, **options, progress=report)
    except KeyboardInterrupt:
        raise StopCommand(
            "Interrupted: what was made stays, the rest is as it was. Run the same `memforest rebuild` again to go on.",
            code=130,
        ) from None
    what = ", ".join(clean(user, 40) for user in users)
    call.show(
        {"users": list(users)},
        lambda screen: screen.line(f"Made anew: {what or 'nobody yet'}."),
        forest=forest,
    )


def _draw(screen: Screen, found: dict[str, Stale]) -> None:
    for user, one in found.items():
        lines = [f"{counted(count, 'chunk')} {why}" for why, count in one.chunks.items()]
        lines += [f"{counted(one.sessions, 'session')} to be read again"] if one.sessions else []
        lines += [f"{one.summaries} summaries would be made otherwise"] if one.summaries else []
        lines += [f"index {name}: {why}" for name, why in one.indexes.items()]
        lines += (
            [f"{counted(one.texts, 'text')} without a vector by the configured embedder"] if one.texts else []
        )
        if one.next_embedder is not None:
            lines.append(f"embedder {one.next_embedder}: begun; rebuild --embedder goes on")
        for line in lines or ["nothing is stale"]:
            screen.line(f"{clean(user, 40)}: {clean(line, 300)}")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Report]:
    """Show a progress bar for each kind of thing that is made, on standard error, when that is a terminal.

    Yields:
        A function to call with what is being made, how many are done, and how many there are.
    """
    console = error_console()
    if quiet or not console.is_terminal:
        yield lambda _what, _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description:10}", markup=False), BarColumn(bar_width=28), MofNCompleteColumn())
    with Progress(*parts, TimeElapsedColumn(), console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what)
            progress.update(tasks[what], completed=done, total=total)

        yield report
