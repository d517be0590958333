"""`memforest export`, `import`, `backup`, `restore`, `merge` and `key`: memories as files.

No command takes a key as an argument, since other users of the machine can read arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from memforest.cli.call import (
    Call,
    budget_options,
    command,
    embedder_option,
    flag,
    group,
    read_pairs,
    repeated,
)
from memforest.cli.screen import Screen, clean, counted, progress_bars, size
from memforest.errors import StoreWriteError

if TYPE_CHECKING:
    from memforest.memory.blocking import MemForest
    from memforest.memory.open import Progress, Recrypted
    from memforest.protection import Key
    from memforest.read.receipts import BackupResult, ExportResult, MemoryImport, MergeResult


STREAM = "-"
MOST_NAMES = 12
"""Most names to list that both memories know."""


_FILE = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@command()
@_FILE
@flag("--vectors", help="Include the vectors: the import is faster.")
@flag("--no-summaries", help="Leave out the summaries; they are made again when read.")
@flag("--overwrite", help="Replace an existing file.")
def export(call: Call, file: Path, vectors: bool, no_summaries: bool, overwrite: bool) -> None:
    """Write a whole memory to a file of JSON Lines; "-" is standard output.

    `memforest import` makes the same memory from it. Only you can read the file (mode 0600). If the export fails,
    no file is left.
    """
    to_stdout = str(file) == STREAM
    if to_stdout and call.as_json:
        raise click.UsageError("--json uses standard output too; name a file for the export")
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
        where = "" if done.path is None else f" to {clean(done.path)}"
        text = f"Exported {_contents(done)}{where}, {size(done.bytes)}."
        if to_stdout:
            call.complain(text)
        else:
            call.show(done, lambda screen: screen.line(text))


@command("import")
@_FILE
@budget_options
def import_(call: Call, file: Path, **bounds: int | None) -> None:
    """Create a memory from a file of `memforest export`; "-" is standard input.

    The memory is for --user, or for the user in the file, who must have no memory yet. The import stores the whole
    file or nothing. It asks no chat model; the embedder makes vectors that the file lacks.
    """
    from memforest.memory.transfer import exported_user

    from_stdin = str(file) == STREAM
    asked = None if call.user_from_environment and not from_stdin else call.user
    if asked is None and from_stdin:
        raise click.UsageError("give --user with standard input: the user whose memory it becomes")
    user = exported_user(file) if asked is None else asked
    call.settled_user = user
    with call.forest() as forest:
        source: Path | BinaryIO = sys.stdin.buffer if from_stdin else file
        budget = forest.config.ingest_budget.narrowed(**bounds)
        done = forest.user(user).import_(source, budget=budget)
        call.warn((*done.warnings, *(f"{one} is damaged in the file" for one in done.damaged)))
        made = f"; {counted(done.embedded, 'vector')} made" if done.embedded else ""
        text = f"Imported {_contents(done)} as the memory of {clean(done.user_id)}{made}."
        call.show(done, lambda screen: screen.line(text))


@command()
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@flag("--all", "everybody", help="Copy the memories of all users into the directory TARGET.")
@flag("--overwrite", help="Replace existing copies.")
def backup(call: Call, target: Path, everybody: bool, overwrite: bool) -> None:
    """Copy a memory while it is in use, and check the copy.

    TARGET is a new file. With --all it is a directory, which you can use as --dir.
    """
    with call.forest() as forest:
        if everybody:
            done = forest.backup(target, overwrite=overwrite)
        else:
            done = [call.memory(forest).backup(target, overwrite=overwrite)]
        call.warn(f"{turn} is damaged, in the memory and in the copy" for one in done for turn in one.damaged)
        rows = [(one.user_id, _contents(one), size(one.bytes), one.path) for one in done]
        call.show({"backups": done}, lambda screen: screen.table(("bold", "", "", ""), rows))


@command()
@_FILE
def restore(call: Call, file: Path) -> None:
    """Restore a backup into the directory, as the memory of its user.

    The user must have no memory there yet.
    """
    with call.forest() as forest:
        user = forest.restore(file)
        call.settled_user = user
        call.show({"restored": user}, lambda screen: screen.line(f"Restored the memory of {clean(user)}."))


def _contents(one: ExportResult | MemoryImport | BackupResult) -> str:
    named = ((one.sessions, "session"), (one.turns, "turn"), (one.facts, "fact"))
    return ", ".join(counted(count, what) for count, what in named)


NEW_KEY = "MEMFOREST_NEW_KEY"


def _key_file(name: str, what: str) -> Callable[[Any], Any]:
    return click.option(
        name,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"A file with {what}, in hexadecimal digits.",
    )


_OWN_KEY = _key_file("--key-file", "the key (default: MEMFOREST_KEY, else you are asked)")


@group()
def key(call: Call) -> None:
    """Encrypt or decrypt the memories of the directory, or change their key.

    It does so for --user, or for all users. After an interruption, run the same command again.
    """


@command("set", group=key)
@_OWN_KEY
def encrypt(call: Call, key_file: Path | None) -> None:
    """Encrypt the memories of the directory. A memory that another program has open is skipped, and named."""
    _run(
        call, _key(call, key_file), "encrypted", lambda forest, show: forest.encrypt(call.user, progress=show)
    )


@command("remove", group=key)
@_OWN_KEY
def decrypt(call: Call, key_file: Path | None) -> None:
    """Decrypt the memories of the directory. The salts stay: encrypted backups still need them."""
    _run(
        call, _key(call, key_file), "decrypted", lambda forest, show: forest.decrypt(call.user, progress=show)
    )


@command("change", group=key)
@_OWN_KEY
@_key_file("--new-key-file", f"the new key (default: {NEW_KEY}, else you are asked)")
def rekey(call: Call, key_file: Path | None, new_key_file: Path | None) -> None:
    """Change the key of the memories. After an interruption, give the same two keys again."""
    own = _key(call, key_file)
    new = _read_key("New key", NEW_KEY, "--new-key-file", new_key_file, twice=True)
    _run(
        call,
        own,
        "encrypted with the new key",
        lambda forest, show: forest.rekey(new, call.user, progress=show),
    )


def _run(call: Call, key: Key, done: str, work: Callable[[MemForest, Progress], Recrypted]) -> None:
    """Encrypt or decrypt with a progress bar, and print the result."""
    from memforest.errors import SomeUsersFailedError

    problem, files = "", {}
    with call.forest(key=key, reranker="none", embedder="none") as forest:
        try:
            with progress_bars(quiet=call.as_json) as show:
                result = work(forest, lambda done, total, file: show("Memories", done, total, file))
        except SomeUsersFailedError as exc:
            problem, files, [result] = str(exc), exc.files, exc.results

    def draw(screen: Screen) -> None:
        left = f", {len(result.already)} already were" if result.already else ""
        screen.line(f"{counted(len(result.done), 'file')} {done}{left}, in {call.folder}.")

    call.show_until({"done": result.done, "already": result.already}, draw, problem, files=files)


def _key(call: Call, file: Path | None) -> Key:
    """Return the key of the memories: from a file, the configuration, or the terminal."""
    if file is None and (configured := call.key()) is not None:
        return configured
    return _read_key("Key", "MEMFOREST_KEY", "--key-file", file)


def _read_key(what: str, variable: str, option: str, file: Path | None, *, twice: bool = False) -> Key:
    """Return a key: from a file if one is given, else from an environment variable, else from the terminal.

    Raises:
        click.UsageError: if it is no key, or there is none and nobody can be asked.
    """
    from memforest.errors import ConfigError
    from memforest.protection import Key

    try:
        if file is not None:
            before = f"the key file {file.name!r} cannot be used: "
            return Key(file.read_text(encoding="ascii"))
        if variable in os.environ:
            before = f"{variable}: "
            return Key(os.environ[variable])
        if not sys.stdin.isatty():
            raise click.UsageError(f"there is no key: set {variable} or give {option}")
        before = ""
        return Key(click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True))
    except (OSError, UnicodeError, ConfigError) as exc:
        why = "it must be hexadecimal digits" if isinstance(exc, UnicodeError) else exc
        raise click.UsageError(f"{before}{why}") from None


@command()
@click.argument("from_user", metavar="FROM")
@click.option(
    "--from-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of FROM's memory. Default: the same as --dir.",
)
@flag("--dry-run", help="Only show what would be done.")
@click.option(
    "--same-person/--two-people",
    default=None,
    help="Whether FROM and USER are one person. Needed if both have the same display name.",
)
@repeated("--same", of="THERE=HERE", help="An entity that has another name here.", callback=read_pairs)
@repeated("--apart", of="NAME", help="NAME is another entity there than here.")
@embedder_option
@budget_options
def merge(
    call: Call,
    /,
    from_user: str,
    from_dir: Path | None,
    same: dict[str, Any],
    embedder: str | None,
    max_calls: int | None,
    max_tokens: int | None,
    **given: Any,
) -> None:
    """Merge the memory of one user into another's.

    The memory of FROM goes into that of --user. FROM's own memory does not change, and nothing is extracted again. A
    second merge adds only what is new. People and things with the same name become one entity; --dry-run names them.
    """
    into = call.settled_user = call.user
    if into is None:
        raise click.UsageError("give --user: the user whose memory FROM goes into")
    with call.forest(embedder=embedder) as forest:
        done = forest.user(into).merge(
            from_user,
            directory=from_dir,
            **given,
            same={key: str(name) for key, name in same.items()},
            budget=forest.config.ingest_budget.narrowed(max_calls, max_tokens),
        )
        call.warn(done.warnings)
        call.show({"merged": {into: done}}, lambda screen: _draw(screen, into, done))


def _draw(screen: Screen, user: str, one: MergeResult) -> None:
    would = "would be " if one.dry_run else ""
    screen.line(
        f"{clean(one.user_id, 40)} into {clean(user, 40)}: {counted(one.sessions_added, 'session')} {would}added, "
        f"{one.sessions_grown} {would}grown, {one.sessions_same} known already",
        "bold",
    )
    rows = [
        ("turns", f"{one.turns_added} {would}added"),
        ("facts", f"{one.facts_inserted} {would}added, {one.facts_merged} {would}merged"),
    ]
    if not one.dry_run:
        rows.append(("summaries", f"{one.summaries_copied} copied, {one.nodes_refreshed} made"))
    for what, names in (("session", one.renamed), ("name", one.people)):
        rows += [(what, f"{clean(there)} is called {clean(here)} here") for there, here in names.items()]
    for what, joined in (("people", one.participants_joined), ("things", one.entities_joined)):
        more = f" and {len(joined) - MOST_NAMES} more" if len(joined) > MOST_NAMES else ""
        listed = clean(", ".join(joined[:MOST_NAMES]), 400)
        rows += [(what, f"with the same name, now one: {listed}{more}")] if joined else []
    screen.fields(rows)
