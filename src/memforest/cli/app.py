"""The root command: shared options, commands imported at their use, and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. An error is one line on standard error, or an
envelope with ``"status": "error"`` when ``--json`` is given.
"""

from __future__ import annotations

import difflib
import importlib
import keyword
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from memforest import __version__
from memforest.cli.call import Call, StopCommand, give_up_output, global_options
from memforest.errors import MemForestError

SECTIONS = {
    "Start": {
        "demo": ("demo", "Show what a memory does, on a conversation that comes along."),
        "ingest": ("ingest", "Make memory of chat files."),
        "doctor": ("doctor", "Check this installation and the memories in it."),
    },
    "Ask": {
        "search": ("asking", "Find the evidence for a question."),
        "ask": ("asking", "Answer a question with citations, or say that memory has no answer."),
    },
    "Look": {
        "timeline": ("listing", "Show what is known of somebody or something, in time order."),
        "facts": ("listing", "List what was learnt, in time order."),
        "profile": ("entities", "Show the profile of NAME, or of all who took part."),
        "entities": ("entities", "List whom and what statements name; decide that two are one, or not."),
        "relations": ("entities", "Show what relates NAME to others, or the way from NAME to OTHER."),
        "diff": ("listing", "Show what was so at time A and not at time B, or what was stored between."),
        "sessions": ("listing", "List the sessions in time order, or show what was said in one."),
        "users": ("listing", "List who has a memory in the directory."),
        "tree": ("inspecting", "Draw the forest, the trees of an index, or those of a SCOPE."),
        "stats": ("inspecting", "Count what is stored, and say how large it is."),
    },
    "Correct": {
        "remember": ("correcting", "Remember one statement, TEXT, and end the one that it replaces."),
        "update": ("correcting", "Correct a fact: TEXT, or another time, holds instead."),
        "pin": ("correcting", "Pin a fact: it is among the evidence of every question."),
        "forget": ("correcting", "Forget a fact: it is not shown any more."),
        "undo": ("correcting", "Take a correction back, by its KEY: an update, a pin, or a forgetting."),
        "history": ("correcting", "Show what happened to a fact, and what took its place."),
        "delete": ("correcting", "Delete something with all that was made of it."),
    },
    "Move": {
        "export": ("transfer", "Write everything that a memory holds into a file of JSON Lines."),
        "import": ("transfer", "Make a memory from a file that `memforest export` wrote."),
        "backup": ("transfer", "Copy a memory while it is in use, and check the copy."),
        "restore": ("transfer", "Copy a backup into the directory, as the memory of its user."),
        "merge": ("transfer", "Merge the memory of one user into that of another."),
        "key": ("transfer", "Encrypt the memories of the directory, decrypt them, or change their key."),
    },
    "Serve": {
        "serve": ("server.commands", "Serve the memories of --dir: REST, MCP and the inspector."),
        "mcp": ("server.commands", "Give an agent this memory, by the Model Context Protocol."),
        "inspect": ("server.commands", "Look into the memories of --dir in a browser, until Ctrl-C."),
        "keys": ("server.commands", "Make, list and revoke the keys of a server."),
        "claude-code": ("integrations.claude_code_install", "Give Claude Code this memory, or take it away."),
        "hook": ("integrations.claude_code_install", "Answer a hook of Claude Code."),
    },
    "Measure": {
        "eval": ("evaluation.commands", "Measure memories by benchmarks, or by your own questions."),
    },
    "Maintain": {
        "maintain": ("maintain", "Resume, rebuild, verify, repair, and advance by the calendar."),
        "index": ("maintain", "List the indexes of a memory, add one, or drop one."),
    },
}
"""Section of ``memforest --help`` -> command name -> module of this package, or of another room, and the line that the help
shows, kept here so that help imports no command."""
COMMANDS = {name: one for section in SECTIONS.values() for name, one in section.items()}

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


class Root(click.Group):
    """The group of all commands; calling it runs the program and exits."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order of a first visit."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            if not ctx.resilient_parsing and (near := difflib.get_close_matches(cmd_name, COMMANDS, 1)):
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {near[0]!r}?")
            return None
        where = COMMANDS[cmd_name][0]
        module = importlib.import_module(f"memforest.{where}" if "." in where else f"memforest.cli.{where}")
        attribute = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command: click.Command = getattr(module, attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of commands without importing them."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def main(  # type: ignore[override]  # always exits, whatever standalone_mode says
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the program and exit with its code.

        Args:
            args: the arguments; those of the process when not given.
            prog_name: shown in help.
            **extra: as for `click.Group.main`.
        """
        given = list(sys.argv[1:] if args is None else args)
        options = given[: given.index("--")] if "--" in given else given
        call = Call(as_json="--json" in options)
        _be_robust()
        # Threads of BLAS spin while they wait for one another: half of a search's processor time. numpy is yet to be loaded.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        try:
            code = super().main(
                args, prog_name or "memforest", **{**extra, "standalone_mode": False, "obj": call}
            )
        except (StopCommand, MemForestError, click.ClickException, click.Abort) as exc:
            sys.exit(_fail(call, exc))
        except OSError as exc:  # a full disk under a redirected output; a reader that has gone is click's
            give_up_output()
            call.as_json = False
            sys.exit(_fail(call, StopCommand(f"the output cannot be written: {exc.strerror or exc}")))
        sys.exit(code if isinstance(code, int) else 0)


def _be_robust() -> None:
    """Replace characters that a terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _fail(call: Call, exc: Exception) -> int:
    """Report an error, and return the exit code that goes with it."""
    code, message, data = _described(exc)
    if call.verbose:
        traceback.print_exception(exc)
    if call.as_json:
        call.envelope("error", {**data, "error": type(exc).__name__, "message": message})
    else:
        call.complain(message if code == INTERRUPTED else f"Error: {message}")
    return code


def _described(exc: Exception) -> tuple[int, str, dict[str, Any]]:
    """Return the exit code, the message and the further data of an error."""
    if isinstance(exc, StopCommand):
        return exc.code, exc.message, exc.data
    if isinstance(exc, click.Abort):
        return INTERRUPTED, "Interrupted.", {}
    if isinstance(exc, click.UsageError):
        where = "memforest" if exc.ctx is None else exc.ctx.command_path
        return 2, f"{exc.format_message()} (see `{where} --help`)", {}
    if isinstance(exc, click.ClickException):
        return exc.exit_code, exc.format_message(), {}
    return 1, str(exc), {}


@click.group(
    cls=Root,
    name="memforest",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="memforest", message="%(prog)s %(version)s")
@global_options
@click.pass_context
def main(ctx: click.Context) -> None:
    """Long-term memory for LLM agents: conversations in, the evidence of the right time out.

    No API key, no server: one SQLite file per user, in a directory of yours. Begin with
    `memforest demo`.
    """
    call = ctx.find_object(Call)
    if call is not None:
        call.command = ctx.invoked_subcommand
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
