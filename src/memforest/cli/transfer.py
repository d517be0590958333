"""`memforest export`, `import`, `backup` and `restore`: memories out of the directory, and back in.

`memforest encrypt`, `memforest decrypt` and `memforest rekey`. No key is an argument: others can read those.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, columns, counted, error_console, size
from memforest.errors import StoreWriteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest.memory.blocking import MemForest
    from memforest.memory.open import Progress, Recrypted
    from memforest.protection import Key
    from memforest.read.receipts import BackupResult, ExportResult, MemoryImport


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
    from memforest.memory.transfer import exported_user

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


F = TypeVar("F", bound=Callable[..., Any])

NEW_KEY = "MEMFOREST_NEW_KEY"


def _key_file(name: str, what: str) -> Callable[[F], F]:
    return click.option(
        name,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"A file that holds {what}, as hexadecimal digits.",
    )


_OWN_KEY = _key_file("--key-file", "the key; else MEMFOREST_KEY is read, or the terminal asked")


@click.command()
@_OWN_KEY
@shared_options
@pass_call
def encrypt(call: Call, key_file: Path | None) -> None:
    """Encrypt the memories of the directory.

    Of --user, or all. A memory that another program has open is left as it is, and named. After an interruption the same
    command goes on; what is encrypted already stays so.
    """
    _run(
        call,
        _key(call, key_file),
        "encrypted",
        lambda forest, progress: forest.encrypt(call.user, progress=progress),
    )


@click.command()
@_OWN_KEY
@shared_options
@pass_call
def decrypt(call: Call, key_file: Path | None) -> None:
    """Decrypt the memories of the directory.

    Of --user, or all. Then they are used without a key. The salts stay for backups that are still encrypted.
    """
    _run(
        call,
        _key(call, key_file),
        "decrypted",
        lambda forest, progress: forest.decrypt(call.user, progress=progress),
    )


@click.command()
@_OWN_KEY
@_key_file("--new-key-file", f"the new key; else {NEW_KEY} is read, or the terminal asked")
@shared_options
@pass_call
def rekey(call: Call, key_file: Path | None, new_key_file: Path | None) -> None:
    """Encrypt the memories of the directory with another key.

    Of --user, or all. After an interruption the same command goes on, with the same two keys.
    """
    key = _key(call, key_file)
    new = (
        _read(new_key_file)
        or _of_environment(NEW_KEY)
        or _asked("New key", NEW_KEY, "--new-key-file", twice=True)
    )
    _run(
        call,
        key,
        "encrypted with the new key",
        lambda forest, progress: forest.rekey(new, call.user, progress=progress),
    )


def _run(call: Call, key: Key, done: str, work: Callable[[MemForest, Progress], Recrypted]) -> None:
    """Do the work and say what was done."""
    from memforest.errors import SomeUsersFailedError

    failed: SomeUsersFailedError | None = None
    with call.forest(key=key, reranker="none", embedder="none") as forest:
        try:
            with _progress(quiet=call.as_json) as progress:
                result = work(forest, progress)
        except SomeUsersFailedError as exc:
            failed, [result] = exc, exc.results
    data = {"done": result.done, "already": result.already}
    if failed is not None and call.as_json:
        raise StopCommand(str(failed), data={**data, "files": failed.files})

    def draw(screen: Screen) -> None:
        left = f", {len(result.already)} were so already" if result.already else ""
        screen.line(f"{counted(len(result.done), 'file')} {done}{left}, in {clean(str(call.folder))}.")

    call.show(data, draw)
    if failed is not None:
        raise StopCommand(str(failed))


def _key(call: Call, file: Path | None) -> Key:
    """Return the key of the memories: of a file, the environment, or whoever sits at the terminal."""
    if file is None and (key := call.key()) is not None:
        return key
    return _read(file) or _asked("Key", "MEMFOREST_KEY", "--key-file")


def _read(file: Path | None) -> Key | None:
    from memforest.errors import ConfigError
    from memforest.protection import Key

    if file is None:
        return None
    try:
        return Key(file.read_text(encoding="ascii"))
    except (OSError, UnicodeError, ConfigError) as exc:
        why = "it is no text of hexadecimal digits" if isinstance(exc, UnicodeError) else exc
        raise click.UsageError(f"the key file {file.name!r} cannot be used: {why}") from None


def _of_environment(name: str) -> Key | None:
    from memforest.errors import ConfigError
    from memforest.protection import Key

    if name not in os.environ:
        return None
    try:
        return Key(os.environ[name])
    except ConfigError as exc:
        raise click.UsageError(f"{name}: {exc}") from None


def _asked(what: str, variable: str, option: str, *, twice: bool = False) -> Key:
    from memforest.errors import ConfigError
    from memforest.protection import Key

    if not _can_ask():
        raise click.UsageError(f"there is no key; set {variable}, or give {option}")
    try:
        return Key(click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True))
    except ConfigError as exc:
        raise click.UsageError(str(exc)) from None


def _can_ask() -> bool:
    return sys.stdin.isatty()


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """Show a progress bar over the files on standard error, when that is a terminal."""
    console = error_console()
    if quiet or not console.is_terminal:
        yield lambda _done, _total, _file: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    ) as shown:
        task = shown.add_task("Memories", total=None)
        yield lambda done, total, file: shown.update(
            task, completed=done, total=total, description=clean(file, 22)
        )
