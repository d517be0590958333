"""`memforest ingest` and `memforest resume`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, counted, error_console, size

if TYPE_CHECKING:
    from memforest.cli.loading import Loaded, OnSession, Plan

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["budget_options", "draw_loaded", "ingest", "progress_of", "resume"]


def budget_options(command: F) -> F:
    """Give a command that writes the bounds of what it may spend on models."""
    for option in (
        click.option(
            "--max-tokens",
            type=click.IntRange(min=0),
            help="Most tokens, sent and received, to spend on models.",
        ),
        click.option("--max-calls", type=click.IntRange(min=0), help="Most calls to models; resume goes on."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--session", "session_id", metavar="ID", help="Name of the file's only session.")
@click.option("--timestamp", metavar="TIME", help="When messages without a time of their own were said.")
@click.option("--name", metavar="NAME", help="Who speaks where a message only says 'role: user'.")
@click.option("--no-infer", is_flag=True, help="Store the messages as they are; extract no facts.")
@click.option("--replace", is_flag=True, help="Overwrite a stored session that differs.")
@click.option("--timezone", metavar="ZONE", help="Zone of times without an offset, e.g. Europe/Madrid.")
@click.option(
    "--day-first/--month-first",
    default=None,
    help="Whether 03/04/2024 is 3 April; else as the memory's people write.",
)
@click.option("--embedder", metavar="NAME", help="auto, bge, minilm or none, for a memory that has none yet.")
@budget_options
@shared_options
@pass_call
def ingest(
    call: Call,
    files: tuple[Path, ...],
    session_id: str | None,
    timestamp: str | None,
    name: str | None,
    no_infer: bool,
    replace: bool,
    timezone: str | None,
    day_first: bool | None,
    embedder: str | None,
    max_calls: int | None,
    max_tokens: int | None,
) -> None:
    """Make memory of chat files.

    A FILE is JSON or JSON Lines: a list of messages with role, content and timestamp (one session), an
    object with "turns" or "sessions", or a LoCoMo file, which fills one memory per sample_id. "-" is
    standard input. The same file again changes nothing; a longer one adds what is new.

    The memory is that of --user, or of the user that the file names, or "me".
    """
    from memforest.cli.loading import IngestOptions, Loaded, load, name_user, plan_memories, read_file
    from memforest.forest.options import read_time

    found = [
        memory
        for path in files
        for memory in read_file(path, session_id=session_id, stdin=lambda: sys.stdin.buffer.read())
    ]
    asked = None if call.user_from_environment else call.user
    plans = plan_memories(found, user=asked, fallback=call.user)
    if len(plans) == 1:
        call.settled_user = plans[0].user
    done: list[Loaded] = []
    with call.forest(timezone=timezone, day_first=day_first, embedder=embedder) as forest:
        options = IngestOptions(
            timestamp=timestamp,
            infer=not no_infer,
            replace=replace,
            budget=forest.config.ingest_budget.narrowed(max_calls, max_tokens),
        )
        read_time(timestamp, forest.config, "--timestamp")  # a wrong one is wrong for every session
        try:
            with progress_of(plans, quiet=call.as_json) as on_session:
                for plan in plans:
                    done.append(Loaded(plan.user))
                    if name is not None:
                        name_user(forest, plan, options, name)
                    load(forest, plan, options, done[-1], on_session)
        except KeyboardInterrupt:
            raise StopCommand(_interrupted(plans, done), code=130, data={"memories": done}) from None
    _finish(call, done)


def _finish(call: Call, done: Sequence[Loaded]) -> None:
    """Print the summary, and fail when a session did."""
    failures = [error for one in done for error in one.errors]
    if failures and call.as_json:
        raise StopCommand(_failed(failures), data={"memories": list(done)})
    call.warn(text for one in done for text in one.warnings)
    call.show(
        {"memories": list(done)}, lambda screen: draw_loaded(screen, done, call.folder, verbose=call.verbose)
    )
    if len(failures) > 1:
        for failure in failures:
            call.complain(failure)
    if failures:
        raise StopCommand(_failed(failures))


def _failed(failures: Sequence[str]) -> str:
    if len(failures) == 1:
        return failures[0]
    return f"{len(failures)} sessions were not stored, all others are; the first: {failures[0]}"


def _interrupted(plans: Sequence[Plan], done: Sequence[Loaded]) -> str:
    """Say what is stored already, and how to go on."""
    total = sum(len(plan.sessions) for plan in plans)
    stored = sum(one.sessions_new + one.sessions_unchanged for one in done)
    turns = sum(one.turns_added for one in done)
    return (
        f"Interrupted: {stored} of {total} sessions are stored ({turns} turns were new) and stay so. "
        "Run the same `memforest ingest` again to go on, or `memforest resume` to finish only what was begun."
    )


@contextmanager
def progress_of(plans: Sequence[Plan], *, quiet: bool) -> Iterator[OnSession]:
    """Show a progress bar over all turns on standard error, when that is a terminal.

    Yields:
        A function to call after each session.
    """
    console = error_console()
    if quiet or not console.is_terminal:
        yield lambda _session: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("turns"),
        TimeElapsedColumn(),
    )
    with Progress(*parts, console=console, transient=True) as progress:
        task = progress.add_task("Reading", total=sum(plan.turns for plan in plans))
        yield lambda session: progress.update(
            task, advance=len(session.turns), description=f"{clean(session.session_id, 22):22}"
        )


def draw_loaded(screen: Screen, done: Sequence[Loaded], folder: Path, *, verbose: bool = False) -> None:
    """Print what became of the sessions, per memory; if verbose, with the statements of a model that were refused."""
    for one in done:
        known = f", {one.sessions_unchanged} known already" if one.sessions_unchanged else ""
        wrong = f", {one.sessions_failed} not stored" if one.sessions_failed else ""
        screen.line(f"{clean(one.user, 40)}: {counted(one.sessions_new, 'session')}{known}{wrong}", "bold")
        table = columns("dim", "")
        refused = f", {one.turns_refused} refused" if one.turns_refused else ""
        table.add_row("  turns", f"{one.turns_added} added in {one.seconds:.1f} s{refused}")
        table.add_row(
            "  facts",
            f"{one.facts_added} added, {one.facts_merged} merged, {one.facts_superseded} superseded",
        )
        reasons = ", ".join(f"{clean(reason, 30)} {count}" for reason, count in one.skipped.most_common(6))
        table.add_row("  no fact in", f"{one.skipped.total()} pieces" + (f": {reasons}" if reasons else ""))
        for statement in one.refused if verbose else ():
            table.add_row("  refused", clean(str(statement), 400))
        if one.failed_chunks:
            table.add_row(
                "  failed",
                f"{counted(one.failed_chunks, 'chunk')} ({clean(one.failure or 'no reason', 200)}); "
                "their turns are stored, `memforest resume` retries",
            )
        if one.left_chunks:
            table.add_row(
                "  left", f"{one.left_chunks} chunks; the budget is used up, `memforest resume` goes on"
            )
        if one.model_calls:
            failures = f", {one.model_failures} without a usable reply" if one.model_failures else ""
            table.add_row(
                "  model", f"{counted(one.model_calls, 'call')}, {one.model_tokens} tokens{failures}"
            )
        model = clean(one.embedder or "no model (searching by words only)")
        table.add_row("  embedded", f"{one.embedded.total()} texts with {model}")
        table.add_row("  file", f"{size(one.bytes)} in {clean(str(folder))}")
        screen.put(table)


@click.command()
@budget_options
@shared_options
@pass_call
def resume(call: Call, max_calls: int | None, max_tokens: int | None) -> None:
    """Finish what an interrupted ingest left.

    Sessions received but not read, chunks that failed, missing vectors, indexes that are behind, summaries out
    of date; for one user with --user, for all without. Bounds on models hold for each user.
    """
    from memforest.errors import SomeUsersFailedError

    with call.forest() as forest:
        if call.user is not None:
            call.memory(forest)
        wrong: SomeUsersFailedError | None = None
        try:
            results = forest.resume(
                call.user, budget=forest.config.ingest_budget.narrowed(max_calls, max_tokens)
            )
        except SomeUsersFailedError as exc:
            wrong, results = exc, exc.results
        known = [call.user] if call.user is not None else forest.survey().users
        users = [user for user in known if wrong is None or user not in wrong.errors]
        stats = {user: forest.user(user).stats() for user in users}
        failed = sum(found.failed_chunks for found in stats.values())
        late = {
            user: {name: one["lag"] for name, one in found.indexes.items() if one["lag"] and one["usable"]}
            for user, found in stats.items()
        }
        data = {
            "sessions": [result.session_id for result in results],
            "users": users,
            "failed_chunks": failed,
            "behind": {user: lags for user, lags in late.items() if lags},
        }
        if wrong is not None and call.as_json:
            raise StopCommand(str(wrong), data={**data, "errors": wrong.errors, "files": wrong.files})

        def draw(screen: Screen) -> None:
            screen.line(
                f"{counted(len(results), 'session')} finished; up to date: {', '.join(users) or 'nobody yet'}."
            )
            if failed:
                screen.line(f"{failed} chunks still fail; their turns are stored and found by their words.")
            for user, lags in late.items():
                for name in lags:
                    screen.line(f"{user}: the index {name} is still behind; `memforest index list` says why.")

        call.warn(text for result in results for text in result.warnings)
        call.show(data, draw, forest=forest)
        if wrong is not None:
            raise StopCommand(str(wrong))
