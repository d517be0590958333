"""`memforest ingest` and `memforest resume`."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, StopCommand, command, options
from memforest.cli.screen import Screen, clean, columns, counted, size, write_bar

if TYPE_CHECKING:
    from memforest.progress import IngestProgress
    from memforest.read.receipts import ImportedMemory, ImportProgress, ImportResult
    from memforest.read.stored import Stats


DEFAULT_USER = "me"
SHOWN_PROBLEMS = 20
"""Problems that are printed, unless --verbose asks for all."""
SHOWN_KINDS = 6
_IN_OPTIONS = (
    ("pass replace=True to overwrite it", "give --replace to overwrite it"),
    ("or the session one with timestamp=", "or give --timestamp"),
)
"""What problems say, in the words of this command's options."""


budget_options = options(
    click.option("--max-calls", type=click.IntRange(min=0), help="Most calls to models; resume goes on."),
    click.option(
        "--max-tokens", type=click.IntRange(min=0), help="Most tokens, sent and received, to spend on models."
    ),
)
"""The bounds of what a command that writes may spend on models."""


@command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format", "format_name", metavar="NAME", help="Format of the files; told by their content by default."
)
@click.option("--dry-run", is_flag=True, help="Show what the files hold, and store nothing.")
@click.option(
    "--session", "session_id", metavar="ID", help="Name of the file's only session, or of its chat."
)
@click.option("--timestamp", metavar="TIME", help="When messages without a time of their own were said.")
@click.option(
    "--name",
    metavar="NAME",
    help="Who the user is: of messages that say 'role: user', and among the participants.",
)
@click.option("--no-infer", is_flag=True, help="Store the messages as they are; extract no facts.")
@click.option("--replace", is_flag=True, help="Overwrite a stored session that differs.")
@click.option("--timezone", metavar="ZONE", help="Zone of times without an offset, e.g. Europe/Madrid.")
@click.option(
    "--day-first/--month-first",
    default=None,
    help="Whether 03/04/2024 is 3 April; else as the file proves, or the memory's people write.",
)
@click.option("--embedder", metavar="NAME", help="auto, bge, minilm or none, for a memory that has none yet.")
@budget_options
def ingest(
    call: Call,
    files: tuple[Path, ...],
    format_name: str | None,
    dry_run: bool,
    session_id: str | None,
    timestamp: str | None,
    name: str | None,
    no_infer: bool,
    replace: bool,
    timezone: str | None,
    day_first: bool | None,
    embedder: str | None,
    **bounds: int | None,
) -> None:
    """Make memory of chat files.

    A FILE is the export of a chat program (ChatGPT, Claude, Slack, Telegram, WhatsApp, mem0), a list of messages as JSON
    or JSON Lines, CSV or a plain log: docs/importing.md lists all formats. Zip archives are read as they are. "-" is
    standard input. The same file again changes nothing; a longer one adds what is new.

    The memory is that of --user, or of the user that the file names, or "me".
    """
    progress: deque[ImportProgress] = deque(maxlen=1)
    asked = None if call.user_from_environment else call.user
    users: dict[str, None] = {}
    settings = {"timezone": timezone, "day_first": day_first, "embedder": embedder}
    try:
        with call.forest(**settings) as forest, write_bar(quiet=call.as_json or dry_run) as show:

            def report(one: IngestProgress) -> None:
                users[one.user_id] = None
                show(one)

            result = forest.import_file(
                asked,
                [_standard_input() if str(path) == "-" else path for path in files],
                format=format_name,
                session_id=session_id,
                timestamp=timestamp,
                display_name=name,
                default_user=call.user or DEFAULT_USER,
                infer=not no_infer,
                replace=replace,
                dry_run=dry_run,
                budget=forest.config.ingest_budget.narrowed(**bounds),
                on_session=progress.append,
                on_progress=report,
            )
    except KeyboardInterrupt:  # the forest was closed, so nothing is being written any more
        done = list(progress[0].memories) if progress else []
        with call.forest(**settings) as forest:
            held = [forest.user(user).stats() for user in users]
        raise StopCommand(_interrupted(progress, held), code=130, data={"memories": done}) from None
    if len(result.memories) == 1:
        call.settled_user = result.memories[0].user
    _finish(call, result)


def _standard_input() -> io.BytesIO:
    content = io.BytesIO(sys.stdin.buffer.read())
    content.name = "<stdin>"
    return content


def _finish(call: Call, result: ImportResult) -> None:
    """Print the result of an import, and fail if something could not be stored."""
    problems = list(result.problems)
    for theirs, ours in _IN_OPTIONS:
        problems = [problem.replace(theirs, ours) for problem in problems]
    data = {"files": result.files, "memories": result.memories, "dry_run": result.dry_run}
    if problems and call.as_json:
        raise StopCommand(_failed(problems), data=data)
    call.warn(text for one in result.memories for text in one.warnings)

    def draw(screen: Screen) -> None:
        _draw_files(screen, result)
        if not result.dry_run:
            draw_memories(screen, result.memories, call.folder, verbose=call.verbose)

    call.show(data, draw)
    if len(problems) > 1:
        shown = problems if call.verbose else problems[:SHOWN_PROBLEMS]
        for problem in shown:
            call.complain(problem)
        if len(problems) > len(shown):
            call.complain(f"and {len(problems) - len(shown)} more; --verbose shows all")
    if problems:
        raise StopCommand(_failed(problems))


def _failed(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} parts of the files are not stored, everything else is; the first: {problems[0]}"


def _interrupted(progress: Sequence[ImportProgress], held: Sequence[Stats]) -> str:
    """Return the message after an interruption: what is finished, what the memories hold, and how to go on."""
    done = progress[0].memories if progress else []
    finished = sum(one.sessions_new + one.sessions_unchanged for one in done)
    turns, sessions = sum(one.turns for one in held), sum(one.sessions for one in held)
    unread = sum(one.unfinished for one in held)
    return (
        f"Interrupted: {finished} sessions of the files are finished; the memory holds {turns} turns in {sessions} sessions, {unread} of them "
        "not read to their end, and all that stays. "
        "Run the same `memforest ingest` again to go on, or `memforest resume` to finish only what was begun."
    )


def _draw_files(screen: Screen, result: ImportResult) -> None:
    """Print what each file holds, except files that were stored without remark."""
    for one in result.files:
        if not (result.dry_run or one.left_out or one.notes or one.wrong_count):
            continue
        screen.line(f"{clean(one.source, 60)}: {clean(one.format, 40)}", "bold")
        table = columns("dim", "")
        span = ""
        if one.start is not None and one.end is not None:
            span = f", {one.start:%Y-%m-%d %H:%M} to {one.end:%Y-%m-%d %H:%M} UTC"
        table.add_row("  holds", f"{counted(one.sessions, 'session')}, {counted(one.turns, 'turn')}{span}")
        users = ", ".join(clean(user, 40) for user in one.users[:SHOWN_KINDS])
        more = f" and {len(one.users) - SHOWN_KINDS} more" if len(one.users) > SHOWN_KINDS else ""
        if result.dry_run:
            table.add_row("  memories", f"{users}{more}")
        for label, found in (("left out", one.left_out), ("noted", one.notes)):
            for what, count in sorted(found.items(), key=lambda pair: -pair[1]):
                table.add_row(f"  {label}", f"{count} × {clean(what, 100)}")
        if one.wrong_count:
            table.add_row("  not read", counted(one.wrong_count, "part"))
        screen.put(table)
    if result.dry_run:
        screen.line("Nothing was stored (--dry-run).", "dim")


def draw_memories(
    screen: Screen, done: Sequence[ImportedMemory], folder: Path, *, verbose: bool = False
) -> None:
    """Print the results of an import for each memory; if verbose, with the refused statements of a model."""
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


@command()
@budget_options
def resume(call: Call, **bounds: int | None) -> None:
    """Finish what an interrupted ingest left.

    Sessions received but not read, chunks that failed, missing vectors, summaries out
    of date; for one user with --user, for all without. Bounds on models hold for each user.
    """
    from memforest.errors import SomeUsersFailedError

    with call.forest() as forest:
        call.settled_user = call.user
        wrong: SomeUsersFailedError | None = None
        try:
            with write_bar(quiet=call.as_json) as show:
                results = forest.resume(
                    call.user,
                    budget=forest.config.ingest_budget.narrowed(**bounds),
                    on_progress=show,
                )
        except SomeUsersFailedError as exc:
            wrong, results = exc, exc.results
        known = [call.user] if call.user is not None else forest.survey().users
        users = [user for user in known if wrong is None or user not in wrong.errors]
        stats = {user: forest.user(user).stats() for user in users}
        failed = sum(found.failed_chunks for found in stats.values())
        data = {
            "sessions": [result.session_id for result in results],
            "users": users,
            "failed_chunks": failed,
        }
        if wrong is not None and call.as_json:
            raise StopCommand(str(wrong), data={**data, "errors": wrong.errors, "files": wrong.files})

        def draw(screen: Screen) -> None:
            screen.line(
                f"{counted(len(results), 'session')} finished; up to date: {', '.join(users) or 'nobody yet'}."
            )
            if failed:
                screen.line(f"{failed} chunks still fail; their turns are stored and found by their words.")

        call.warn(text for result in results for text in result.warnings)
        call.show(data, draw)
        if wrong is not None:
            raise StopCommand(str(wrong))
