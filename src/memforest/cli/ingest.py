"""`memforest ingest` and `memforest maintain resume`."""

from __future__ import annotations

import io
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, budget_options, command, embedder_option, flag, takes
from memforest.cli.screen import Screen, clean, counted, size, write_bar

if TYPE_CHECKING:
    from memforest.progress import IngestProgress
    from memforest.read.receipts import ImportedMemory, ImportProgress, ImportResult
    from memforest.read.stored import Stats

DEFAULT_USER = "me"
SHOWN_PROBLEMS = 20
"""Most problems that are printed without --verbose."""
SHOWN_KINDS = 6
_IN_OPTIONS = (
    ("pass replace=True to overwrite it", "give --replace to overwrite it"),
    ("or the session one with timestamp=", "or give --timestamp"),
)
"""What the library says in a problem -> the same with this command's options."""


@command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@takes("--format", of="NAME", help="Format of the files. Default: found by their content.")
@flag("--dry-run", help="Show what the files hold, and store nothing.")
@takes("--session", "session_id", of="ID", help="Id of the file's only session, or of its only chat.")
@takes("--timestamp", of="TIME", help="Time of messages that have none.")
@takes(
    "--name",
    "display_name",
    of="NAME",
    help="The user's name: in the chats, and for messages with the role 'user'.",
)
@flag("--no-infer", help="Store the messages only; extract no facts.")
@flag("--replace", help="Overwrite stored sessions that differ.")
@takes("--timezone", of="ZONE", help="Time zone of times without an offset, e.g. Europe/Madrid.")
@click.option(
    "--day-first/--month-first",
    default=None,
    help="Read 03/04/2024 as 3 April, or as March 4. Default: as the file or the memory's people write.",
)
@embedder_option
@budget_options
def ingest(
    call: Call,
    /,
    files: tuple[Path, ...],
    no_infer: bool,
    timezone: str | None,
    day_first: bool | None,
    embedder: str | None,
    max_calls: int | None,
    max_tokens: int | None,
    **given: Any,
) -> None:
    """Read chat files into a memory.

    A FILE is an export of ChatGPT, Claude, Slack, Telegram, WhatsApp, Discord, Messenger or mem0. It may also be a
    transcript of a coding agent, or messages as JSON, JSON Lines, CSV or a plain log. docs/formats.md lists all
    formats. Zip archives need no unpacking, and "-" is standard input.

    You can give a file again: only what is new is added. The memory belongs to --user. Without --user it
    belongs to the user that the file names, or else to "me".
    """
    progress: deque[ImportProgress] = deque(maxlen=1)
    asked = None if call.user_from_environment else call.user
    users: dict[str, None] = {}
    settings = {"timezone": timezone, "day_first": day_first, "embedder": embedder}
    try:
        with call.forest(**settings) as forest, write_bar(quiet=call.as_json or given["dry_run"]) as show:

            def report(one: IngestProgress) -> None:
                users[one.user_id] = None
                show(one)

            result = forest.import_file(
                asked,
                [_standard_input() if str(path) == "-" else path for path in files],
                **given,
                default_user=call.user or DEFAULT_USER,
                infer=not no_infer,
                budget=forest.config.ingest_budget.narrowed(max_calls, max_tokens),
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
    shown = problems if call.verbose else problems[:SHOWN_PROBLEMS]
    for problem in shown if len(problems) > 1 else ():
        call.complain(problem)
    if len(problems) > len(shown):
        call.complain(f"and {len(problems) - len(shown)} more; --verbose shows all")
    if problems:
        raise StopCommand(_failed(problems))


def _failed(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} parts of the files were not stored, all others were. The first: {problems[0]}"


def _interrupted(progress: Sequence[ImportProgress], held: Sequence[Stats]) -> str:
    """Return the message after an interruption: what is finished, what the memories hold, and how to go on."""
    done = progress[0].memories if progress else []
    finished = sum(one.sessions_new + one.sessions_unchanged for one in done)
    turns, sessions = sum(one.turns for one in held), sum(one.sessions for one in held)
    unread = sum(one.unfinished for one in held)
    return (
        f"Interrupted. {finished} sessions of the files are done. The memory keeps {turns} turns in {sessions} sessions; "
        f"facts are still missing from {unread} of them. "
        "To go on, run the same `memforest ingest` again. `memforest maintain resume` finishes only the stored sessions."
    )


def _draw_files(screen: Screen, result: ImportResult) -> None:
    """Print what each file holds, except files that were stored without remark."""
    for one in result.files:
        if not (result.dry_run or one.left_out or one.notes or one.wrong_count):
            continue
        screen.line(f"{clean(one.source, 60)}: {clean(one.format, 40)}", "bold")
        span = ""
        if one.start is not None and one.end is not None:
            span = f", {one.start:%Y-%m-%d %H:%M} to {one.end:%Y-%m-%d %H:%M} UTC"
        rows = [("holds", f"{counted(one.sessions, 'session')}, {counted(one.turns, 'turn')}{span}")]
        if result.dry_run:
            users = ", ".join(clean(user, 40) for user in one.users[:SHOWN_KINDS])
            more = f" and {len(one.users) - SHOWN_KINDS} more" if len(one.users) > SHOWN_KINDS else ""
            rows.append(("memories", f"{users}{more}"))
        for label, found in (("left out", one.left_out), ("noted", one.notes)):
            rows += [(label, f"{count} × {clean(what, 100)}") for what, count in Counter(found).most_common()]
        if one.wrong_count:
            rows.append(("not read", counted(one.wrong_count, "part")))
        screen.fields(rows)
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
        screen.fields(_stored(one, folder, verbose=verbose))


def _stored(one: ImportedMemory, folder: Path, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield what is told of an import into one memory, each with its label."""
    refused = f", {one.turns_refused} refused" if one.turns_refused else ""
    yield "turns", f"{one.turns_added} added in {one.seconds:.1f} s{refused}"
    yield "facts", f"{one.facts_added} added, {one.facts_merged} merged, {one.facts_superseded} superseded"
    reasons = ", ".join(f"{clean(reason, 30)} {count}" for reason, count in one.skipped.most_common(6))
    yield "no fact in", f"{one.skipped.total()} pieces" + (f": {reasons}" if reasons else "")
    for statement in one.refused if verbose else ():
        yield "refused", clean(str(statement), 400)
    if one.failed_chunks:
        why = clean(one.failure or "no reason", 200)
        still = "their turns are stored, `memforest maintain resume` retries"
        yield "failed", f"{counted(one.failed_chunks, 'chunk')} ({why}); {still}"
    if one.left_chunks:
        yield "left", f"{one.left_chunks} chunks: the budget is used up; `memforest maintain resume` goes on"
    if one.model_calls:
        failures = f", {one.model_failures} without a usable reply" if one.model_failures else ""
        yield "model", f"{counted(one.model_calls, 'call')}, {one.model_tokens} tokens{failures}"
    model = one.embedder or "no model (searching by words only)"
    yield "embedded", f"{one.embedded.total()} texts with {model}"
    yield "file", f"{size(one.bytes)} in {folder}"


@command()
@budget_options
def resume(call: Call, **bounds: int | None) -> None:
    """Finish what an interrupted ingest left.

    It reads unread sessions and failed chunks, and makes missing vectors and outdated summaries. It does so for
    --user, or for all users. --max-calls and --max-tokens are limits for each user.
    """
    from memforest.errors import SomeUsersFailedError

    with call.forest() as forest:
        call.settled_user = call.user
        problem = ""
        wrong: dict[str, Mapping[str, object]] = {"errors": {}, "files": {}}
        try:
            with write_bar(quiet=call.as_json) as show:
                budget = forest.config.ingest_budget.narrowed(**bounds)
                results = forest.resume(call.user, budget=budget, on_progress=show)
        except SomeUsersFailedError as exc:
            problem, results, wrong = str(exc), exc.results, {"errors": exc.errors, "files": exc.files}
        known = [call.user] if call.user is not None else forest.survey().users
        users = [user for user in known if user not in wrong["errors"]]
        failed = sum(forest.user(user).stats().failed_chunks for user in users)

        def draw(screen: Screen) -> None:
            finished = f"{counted(len(results), 'session')} finished"
            screen.line(f"{finished}; up to date: {', '.join(users) or 'nobody yet'}.")
            if failed:
                screen.line(f"{failed} chunks still fail. Search finds their turns by their words.")

        call.warn(text for result in results for text in result.warnings)
        sessions = [result.session_id for result in results]
        data = {"sessions": sessions, "users": users, "failed_chunks": failed}
        call.show_until(data, draw, problem, **wrong)
