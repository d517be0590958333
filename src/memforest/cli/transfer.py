"""`memforest export`, `import`, `backup` and `restore`: memories out of the directory, and back in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, columns, counted, size
from memforest.errors import StoreWriteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest.memory.transfer.results import BackupResult, ExportResult, MemoryImport

STREAM = "-"


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--vectors", is_flag=True, help="Take the vectors along, so that the import need not make them."
)
@click.option(
    "--no-summaries", is_flag=True, help="Leave the summaries of trees out; they are made anew when read."
)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@shared_options
@pass_call
def export(call: Call, file: Path, vectors: bool, no_summaries: bool, overwrite: bool) -> None:
    """Write everything that a memory holds into a file of JSON Lines; "-" is standard output.

    `memforest import` makes an equal memory of it. The file is for you alone (mode 0600), and there whole or not at all.
    """
    to_stdout = str(file) == STREAM
    if to_stdout and call.as_json:
        raise click.UsageError("--json prints on standard output too; name a file for the export")
    with call.forest() as forest:
        target: Path | BinaryIO = sys.stdout.buffer if to_stdout else file
        try:
            done = call.memory(forest).export(
                target, vectors=vectors, summaries=not no_summaries, overwrite=overwrite
            )
        except StoreWriteError as exc:
            if isinstance(exc.__cause__, BrokenPipeError):  # who reads has enough
                raise exc.__cause__ from None
            raise
        if to_stdout:
            call.complain(_exported(done))
        else:
            call.show(done, lambda screen: screen.line(_exported(done)), forest=forest)


def _exported(done: ExportResult) -> str:
    where = "" if done.path is None else f" to {clean(done.path)}"
    return f"Exported {_contents(done)}{where}, {size(done.bytes)}."


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@budget_options
@shared_options
@pass_call
def import_(call: Call, file: Path, max_calls: int | None, max_tokens: int | None) -> None:
    """Make a memory from a file that `memforest export` wrote; "-" is standard input.

    The memory is that of --user, or of the user who was exported, and must be a new one. All of the file is stored, or
    nothing of it. No chat model is asked; vectors that the file lacks are made by the embedder.
    """
    from memforest.memory.transfer.verbs import exported_user

    from_stdin = str(file) == STREAM
    asked = None if call.user_from_environment and not from_stdin else call.user
    if asked is None and from_stdin:
        raise click.UsageError("whose memory is it to be? Give --user with standard input")
    user = exported_user(file) if asked is None else asked
    call.settled_user = user
    with call.forest() as forest:
        source: Path | BinaryIO = sys.stdin.buffer if from_stdin else file
        budget = forest.config.ingest_budget.narrowed(max_calls, max_tokens)
        done = forest.user(user).import_(source, budget=budget)
        call.warn((*done.warnings, *(f"{one} is damaged in the file" for one in done.damaged)))
        call.show(done, lambda screen: screen.line(_imported(done)), forest=forest)


def _imported(done: MemoryImport) -> str:
    made = f"; {counted(done.embedded, 'vector')} made" if done.embedded else ""
    return f"Imported {_contents(done)} as the memory of {clean(done.user_id)}{made}."


@click.command()
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option(
    "--all", "everybody", is_flag=True, help="Copy the memories of all users into the directory TARGET."
)
@click.option("--overwrite", is_flag=True, help="Replace copies that are there.")
@shared_options
@pass_call
def backup(call: Call, target: Path, everybody: bool, overwrite: bool) -> None:
    """Copy a memory while it is in use, and check the copy.

    TARGET is a new file, or with --all a directory, which `--dir` can then name.
    """
    with call.forest() as forest:
        if everybody:
            done = forest.backup(target, overwrite=overwrite)
        else:
            done = [call.memory(forest).backup(target, overwrite=overwrite)]
        call.warn(f"{turn} is damaged, in the memory too" for one in done for turn in one.damaged)
        call.show({"backups": done}, lambda screen: _draw(screen, done), forest=forest)


def _draw(screen: Screen, done: Sequence[BackupResult]) -> None:
    table = columns("bold", "", "", "")
    for one in done:
        table.add_row(clean(one.user_id), _contents(one), size(one.bytes), clean(one.path))
    screen.put(table)


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@shared_options
@pass_call
def restore(call: Call, file: Path) -> None:
    """Copy a backup into the directory, as the memory of the user that it is of.

    The user must have no memory there.
    """
    with call.forest() as forest:
        user = forest.restore(file)
        call.settled_user = user
        call.show({"restored": user}, lambda screen: screen.line(f"Restored the memory of {clean(user)}."))


def _contents(one: ExportResult | MemoryImport | BackupResult) -> str:
    named = ((one.sessions, "session"), (one.turns, "turn"), (one.facts, "fact"))
    return ", ".join(counted(count, what) for count, what in named)
