"""`memforest encrypt`, `memforest decrypt` and `memforest rekey`. No key is an argument: others can read those."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memforest.cli.call import Call, StopCommand, pass_call, shared_options
from memforest.cli.screen import Screen, clean, counted, error_console

if TYPE_CHECKING:
    from memforest.forest import MemForest
    from memforest.keys import Key
    from memforest.memory.encrypting import Progress, Recrypted

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
    from memforest.keys import Key

    if file is None:
        return None
    try:
        return Key(file.read_text(encoding="ascii"))
    except (OSError, UnicodeError, ConfigError) as exc:
        why = "it is no text of hexadecimal digits" if isinstance(exc, UnicodeError) else exc
        raise click.UsageError(f"the key file {file.name!r} cannot be used: {why}") from None


def _of_environment(name: str) -> Key | None:
    from memforest.errors import ConfigError
    from memforest.keys import Key

    if name not in os.environ:
        return None
    try:
        return Key(os.environ[name])
    except ConfigError as exc:
        raise click.UsageError(f"{name}: {exc}") from None


def _asked(what: str, variable: str, option: str, *, twice: bool = False) -> Key:
    from memforest.errors import ConfigError
    from memforest.keys import Key

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
