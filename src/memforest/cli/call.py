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
from memforest.settings import MAX_PAGE
from memforest.times import UNSAFE, json_escape

if TYPE_CHECKING:
    from memforest.cli.screen import Screen
    from memforest.config import Config
    from memforest.memory.blocking import MemForest, UserMemory
    from memforest.protection import Key
    from memforest.store.directory import Survey


T = TypeVar("T")


class StopCommand(Exception):
    """An early end of a command with an exit code.

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
    """The shared options of one run, given before or after the command's name, and the run's state."""

    directory: Path | None = None
    config_file: Path | None = None
    user: str | None = None
    user_from_environment: bool = False
    as_json: bool = False
    verbose: bool = False
    command: str | None = None
    settled_user: str | None = None
    """The user whose memory the command is about, once that is settled."""
    opened: MemForest | None = None
    """The forest that the command works on, in whose time zone days are shown."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def folder(self) -> Path:
        """The directory of the memories."""
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

        self.opened = MemForest(self.folder, self.config(**settings))
        return self.opened

    def memory(self, forest: MemForest) -> UserMemory:
        """Return the memory that a command is about: of ``--user``, or of the only user there is.

        It warns if ``--user`` has no memory: a command that reads then finds nothing.

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
                f"there is no memory in {self.folder} yet. `memforest ingest FILE` makes one, "
                "`memforest demo` shows one, and --dir names another directory"
            )
        if len(known) > 1:
            raise click.UsageError(
                f"there are several users: choose one with --user (or MEMFOREST_USER): {listed}"
            )
        self.settled_user = known[0]
        return forest.user(known[0])

    def run(
        self,
        verb: Callable[[UserMemory], T],
        draw: Callable[[Screen, T], None],
        *,
        none: str = "",
        settings: Mapping[str, str | None] | None = None,
    ) -> T:
        """Run a verb of the memory that the command is about, and print what it returns, with its warnings.

        Args:
            verb: gets the memory.
            draw: puts the result on the screen.
            none: the warning where there is nothing in the result.
            settings: as for `config`.
        """
        with self.forest(**(settings or {})) as forest:
            found = verb(self.memory(forest))
            self.warn(getattr(found, "warnings", ()))
            self.show(found, lambda screen: draw(screen, found))
            if none and not found:
                self.warn([none])
            return found

    def users(self) -> list[str]:
        """Return the users with a memory in the directory, and warn of files that are no memory."""
        found = self.survey()
        self.warn(f"skipped: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable)
        return list(found.users)

    def survey(self) -> Survey:
        """Return the users with a memory in the directory, and the files whose user cannot be read.

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

    def show(self, data: Any, draw: Callable[[Screen], None], *, ok: bool = True) -> None:
        """Print a command's result: the envelope with ``--json``, else what `draw` puts on the screen."""
        with reader_may_leave():
            if self.as_json:
                self.envelope("ok" if ok else "error", data)
                return
            from memforest.cli.screen import Screen

            draw(Screen() if self.opened is None else Screen(zone=self.opened.config.zone))

    def show_until(
        self, data: Mapping[str, Any], draw: Callable[[Screen], None], problem: str, **more: Any
    ) -> None:
        """Print what was done, and fail if there was a problem. With ``--json`` both are one object, with `more`.

        Raises:
            StopCommand: if there was a problem.
        """
        if not (problem and self.as_json):
            self.show(data, draw)
        if problem:
            raise StopCommand(problem, data={**data, **more})

    def envelope(self, status: str, data: Any, *, line: bool = False) -> None:
        """Print the one object that ``--json`` prints; with `line` in one line, as one of several."""
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
        """Print a line about the result: below it on a terminal, on standard error beside records."""
        if screen.records:
            self.complain(text)
        else:
            screen.line(text, "dim")

    def complain(self, text: str) -> None:
        """Print one line on standard error, cleaned."""
        from memforest.cli.screen import clean

        click.echo(clean(text), err=True)


def give_up_output() -> None:
    """Discard the rest of the output, so that flushing it at exit does not fail again.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe.
    """
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Stop printing when the reader of a pipe has closed it, as `head` does; the command keeps its own exit code."""
    try:
        yield
    except BrokenPipeError:
        give_up_output()


pass_call = click.make_pass_decorator(Call, ensure=True)


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


def options(*given: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that gives a command several options, which its help shows in this order."""

    def decorate(function: Any) -> Any:
        """Give a command the options that this decorator was made of."""
        for option in reversed(given):
            function = option(function)
        return function

    return decorate


def flag(*names: str, help: str) -> Callable[[Any], Any]:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def takes(*names: str, of: str, help: str, **more: Any) -> Callable[[Any], Any]:
    """Return an option with a value, which help calls `of`."""
    return click.option(*names, metavar=of, help=help, **more)


def repeated(*names: str, of: str, help: str, **more: Any) -> Callable[[Any], Any]:
    """Return an option with a value that may be given several times."""
    return takes(*names, of=of, help=f"{help.removesuffix('.')}; may be repeated.", multiple=True, **more)


def page_limit(default: int | None = None, note: str = "Most rows on one page.") -> Callable[[Any], Any]:
    """Return the option ``--limit`` of a command that lists page by page."""
    shows = default is not None
    return click.option(
        "--limit", type=click.IntRange(1, MAX_PAGE), default=default, show_default=shows, help=note
    )


filter_option = repeated(
    "--filter",
    "filters",
    of="KEY=VALUE",
    help="Only messages with this metadata.",
    callback=lambda *given: read_pairs(*given) or None,
)
said_by_option = takes("--said-by", of="TIME", help="Only what was said by that time.")
moment_options = options(
    said_by_option, takes("--known-at", of="TIME", help="Only what this memory knew at that time.")
)
interval_options = options(
    takes("--as-of", of="TIME", help="Only what was true at that time."),
    takes("--during", nargs=2, of="START END", help="Only what was true at some time from START to END."),
)
cursor_option = takes("--cursor", of="CURSOR", help="Show the next page; the page before prints its cursor.")
embedder_option = takes("--embedder", of="NAME", help="Embedder of a new memory: auto, bge, minilm or none.")
budget_options = options(
    click.option(
        "--max-calls", type=click.IntRange(min=0), help="Most calls to models; `maintain resume` goes on."
    ),
    click.option(
        "--max-tokens", type=click.IntRange(min=0), help="Most tokens to spend on models, sent and received."
    ),
)
"""How much a command that writes may spend on models."""


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store a shared option in the `Call`; the later one on the command line wins."""
    call = ctx.find_object(Call)
    if call is None or value is None or value is False or param.name is None:
        return
    setattr(call, param.name, value)
    if param.name == "user":
        source = ctx.get_parameter_source("user")
        call.user_from_environment = source is click.core.ParameterSource.ENVIRONMENT


def _shared(*, from_environment: bool) -> Callable[[Any], Any]:
    def shared(*names: str, variable: str | None = None, **more: Any) -> Callable[[Any], Any]:
        read = variable if from_environment else None
        return click.option(*names, envvar=read, expose_value=False, callback=_keep, **more)

    folder, file = click.Path(file_okay=False, path_type=Path), click.Path(dir_okay=False, path_type=Path)
    traces = "Show the traceback of an error, and the statements of a model that ingest refused."
    whose = "The user whose memory it is. Needed if there are several. [MEMFOREST_USER]"
    where = "Directory of the memories. Default: your data directory. [MEMFOREST_DIR]"
    settings = "TOML file of settings: models, ranking, budgets. [MEMFOREST_CONFIG]"
    as_json = "Print one JSON object on standard output, and nothing else."
    return options(
        shared("--dir", "directory", type=folder, variable="MEMFOREST_DIR", help=where),
        shared("--config", "config_file", type=file, metavar="FILE", help=settings),
        shared("--user", "-u", variable="MEMFOREST_USER", metavar="USER", help=whose),
        shared("--json", "as_json", is_flag=True, help=as_json),
        shared("--verbose", "-v", is_flag=True, help=traces),
    )


shared_options = _shared(from_environment=False)
"""Gives a command the options that every command takes."""
global_options = _shared(from_environment=True)
"""Gives the root command the same options; only there the environment is read."""


def command(
    name: str | None = None, *, group: click.Group | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a function a command. It gets the `Call`, and takes the shared options too.

    Args:
        name: the command's name; that of the function by default.
        group: add it to this group.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        made = click.command(name)(pass_call(function))
        # By a decorator on top they would stand before the command's own in its help.
        made.params += click.command()(shared_options(lambda: None)).params
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def group(*given: Callable[[Any], Any], alone: bool = False) -> Callable[[Callable[..., Any]], click.Group]:
    """Return a decorator that makes a function a group of commands, which takes the shared options too.

    Args:
        *given: its own options.
        alone: call the function if no subcommand is given.
    """

    def decorate(function: Callable[..., Any]) -> click.Group:
        @click.pass_context
        def entered(ctx: click.Context, /, **options: Any) -> None:
            call = ctx.ensure_object(Call)
            if ctx.invoked_subcommand is not None:
                call.command = f"{ctx.info_name} {ctx.invoked_subcommand}"
            elif alone:
                function(call, **options)

        entered.__doc__ = function.__doc__
        named = click.group(
            function.__name__.replace("_", "-"), invoke_without_command=alone, no_args_is_help=False
        )
        return named(options(*given, shared_options)(entered))

    return decorate


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
