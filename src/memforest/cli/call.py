"""One run of the command line: its shared options, and its output as text or as the JSON of `--json`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memforest.plain import plain
from memforest.times import UNSAFE, json_escape

if TYPE_CHECKING:
    from memforest.cli.screen import Screen
    from memforest.config import Config
    from memforest.memory.blocking import MemForest, UserMemory
    from memforest.protection import Key
    from memforest.store.directory import Survey


F = TypeVar("F", bound=Callable[..., Any])


class StopCommand(Exception):
    """Raised to end a command early with an exit code.

    Args:
        message: one line for standard error.
        code: the exit code.
        data: goes into the envelope of ``--json`` beside the message.
    """

    def __init__(self, message: str, *, code: int = 1, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = dict(data or {})


@dataclass(slots=True)
class Call:
    """The shared options as given, before or after the command's name, and what became of them."""

    directory: Path | None = None
    config_file: Path | None = None
    user: str | None = None
    user_from_environment: bool = False
    as_json: bool = False
    verbose: bool = False
    command: str | None = None
    settled_user: str | None = None
    """Whose memory it came to."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def folder(self) -> Path:
        """Where the memories are."""
        if self.directory is not None:
            return self.directory.expanduser()
        from platformdirs import user_data_path

        return user_data_path("memforest", appauthor=False)

    def config(self, **settings: str | bool | Key | None) -> Config:
        """Return the configuration: options over environment over ``--config`` over defaults.

        Args:
            **settings: fields of `Config`; None leaves the default or what environment and file say.

        Raises:
            ConfigError: if a setting is unknown or out of range, or the file cannot be read.
        """
        from memforest.config import load_default_config

        given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        return load_default_config(file=self.config_file, **given)

    def forest(self, **settings: str | bool | Key | None) -> MemForest:
        """Return the forest of the directory, with a configuration as `config` gives it.

        Raises:
            ConfigError: as `config`.
        """
        from memforest.memory.blocking import MemForest

        return MemForest(self.folder, self.config(**settings))

    def memory(self, forest: MemForest) -> UserMemory:
        """Return the memory that a command is about: of ``--user``, or of the only user there is.

        A ``--user`` without a memory is warned of: what reads it finds nothing.

        Raises:
            NotFoundError: if nobody was named, and there is nobody.
            click.UsageError: if there are several users and none was named.
        """
        from memforest.cli.screen import clean
        from memforest.errors import NotFoundError

        self.settled_user = self.user
        if self.user is not None and forest.has_user(self.user):
            return forest.user(self.user)
        known = self.users()
        listed = ", ".join(clean(one, 40) for one in known[:10]) + (" …" if len(known) > 10 else "")
        if self.user is not None:
            self.warn([f"user {self.user!r} has no memory here; there are: {listed or 'none'}"])
            return forest.user(self.user)
        if not known:
            raise NotFoundError(
                f"there is no memory in {self.folder} yet; `memforest ingest FILE` makes one, "
                "`memforest demo` shows one, --dir names another directory"
            )
        if len(known) > 1:
            raise click.UsageError(f"whose memory? Give --user (or MEMFOREST_USER); there are: {listed}")
        self.settled_user = known[0]
        return forest.user(known[0])

    def users(self) -> list[str]:
        """Return who has a memory in the directory, and warn of files there that are none."""
        found = self.survey()
        self.warn(
            f"passed over: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable
        )
        return list(found.users)

    def survey(self) -> Survey:
        """Return who has a memory in the directory, and the files there whose user cannot be read.

        Raises:
            ConfigError: as `config`.
            StoreError: if the directory is none, or cannot be listed.
        """
        from memforest.store.directory import survey

        return survey(self.folder, self.key())

    def key(self) -> Key | None:
        """Return the configured key of the memories' files.

        Raises:
            ConfigError: as `config`.
        """
        from memforest.protection import Key

        return Key.of(self.config().key)

    def show(
        self, data: Any, draw: Callable[[Screen], None], *, forest: MemForest | None = None, ok: bool = True
    ) -> None:
        """Print a command's result: the envelope with ``--json``, else what `draw` puts on the screen."""
        with reader_may_leave():
            if self.as_json:
                self.envelope("ok" if ok else "error", data)
                return
            from memforest.cli.screen import Screen

            draw(Screen() if forest is None else Screen(zone=forest.config.zone))

    def envelope(self, status: str, data: Any, *, line: bool = False) -> None:
        """Print the one object that ``--json`` prints; with `line` in one line, as one of several."""
        pass  # MERGED

        value = {
            "status": status,
            "command": self.command,
            "duration_ms": round((time.perf_counter() - self.started) * 1000, 1),
            "user": self.settled_user,
            "data": data,
        }
        plain_stream = not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")
        click.echo(to_json(value, ascii_only=plain_stream, line=line))

    def warn(self, texts: Iterable[str]) -> None:
        """Print warnings on standard error; with ``--json`` they are part of the data."""
        if not self.as_json:
            for text in dict.fromkeys(texts):
                self.complain(f"Warning: {text}")

    def remark(self, screen: Screen, text: str) -> None:
        """Print a line about the result: behind it on a terminal, on standard error where records are wanted."""
        if screen.records:
            self.complain(text)
        else:
            screen.line(text, "dim")

    def complain(self, text: str) -> None:
        """Print one line on standard error, cleaned."""
        from memforest.cli.screen import clean

        click.echo(clean(text), err=True)


def give_up_output() -> None:
    """Send what is left of the output nowhere, so that flushing it at exit does not fail once more.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe.
    """
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """End what is printed where its reader has enough, as `head` has; the command goes on to its own exit code."""
    try:
        yield
    except BrokenPipeError:
        give_up_output()


pass_call = click.make_pass_decorator(Call, ensure=True)


def filter_option(command: F) -> F:
    """Give a command the option for metadata that messages must have."""
    return click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda *given: read_pairs(*given) or None,
        help="Only what was said in messages with this metadata; may be repeated.",
    )(command)


def read_pairs(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs; a value that is JSON is taken as such, so that numbers compare as numbers."""
    import json

    pairs: dict[str, Any] = {}
    for pair in values:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE")
        try:
            pairs[key] = json.loads(value)
        except ValueError:
            pairs[key] = value
    return pairs


def moment_options(command: F) -> F:
    """Give a command the options of a moment: what had been said, and what the memory held."""
    for option in (
        click.option("--known-at", metavar="TIME", help="Only what this memory held at that time."),
        click.option("--said-by", metavar="TIME", help="Only what had been said by that time."),
    ):
        command = option(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store a shared option; the one nearer to the command's end wins."""
    call = ctx.find_object(Call)
    if call is None or value is None or value is False or param.name is None:
        return
    setattr(call, param.name, value)
    if param.name == "user":
        source = ctx.get_parameter_source("user")
        call.user_from_environment = source is click.core.ParameterSource.ENVIRONMENT


def _options(*, from_environment: bool) -> list[Callable[[F], F]]:
    def variable(name: str) -> str | None:
        return name if from_environment else None

    return [
        click.option(
            "--dir",
            "directory",
            type=click.Path(file_okay=False, path_type=Path),
            envvar=variable("MEMFOREST_DIR"),
            expose_value=False,
            callback=_keep,
            help="Where the memories are; the platform's data directory by default. [MEMFOREST_DIR]",
        ),
        click.option(
            "--config",
            "config_file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_keep,
            help="A TOML file of settings: models, ranking, budgets. [MEMFOREST_CONFIG]",
        ),
        click.option(
            "--user",
            "-u",
            envvar=variable("MEMFOREST_USER"),
            expose_value=False,
            callback=_keep,
            metavar="USER",
            help="Whose memory; the only one there is by default. [MEMFOREST_USER]",
        ),
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Print one JSON object on standard output, and nothing else.",
        ),
        click.option(
            "--verbose",
            "-v",
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Show the traceback of an error, and the statements that ingest refused of a model.",
        ),
    ]


def shared_options(command: F) -> F:
    """Give a command the options that every command takes."""
    for option in reversed(_options(from_environment=False)):
        command = option(command)
    return command


def global_options(command: F) -> F:
    """Give the root command the same options; only there the environment is read."""
    for option in reversed(_options(from_environment=True)):
        command = option(command)
    return command


def to_json(value: Any, *, ascii_only: bool = False, line: bool = False) -> str:
    r"""Return a value as JSON, indented or in one line, without a character that a terminal would act on.

    Args:
        value: anything that `plain` understands.
        ascii_only: escape everything else too, for streams that cannot carry Unicode.
        line: keep it in one line.

    Example:
        >>> to_json("a\x9bb", ascii_only=False)
        '"a\\u009bb"'
    """
    text = json.dumps(plain(value), ensure_ascii=ascii_only, indent=None if line else 2)
    # Indented JSON has line breaks of its own; those in its texts are escaped already.
    return UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else json_escape(found[0]), text)
