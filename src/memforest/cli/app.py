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
        "demo": ("demo", "Try a memory on a sample conversation."),
        "ingest": ("ingest", "Read chat files into a memory."),
        "doctor": ("doctor", "Check this installation and its memories."),
    },
    "Ask": {
        "search": ("asking", "Find the evidence for a question."),
        "ask": ("asking", "Answer a question with citations, or say that the memory has no answer."),
    },
    "Look": {
        "timeline": ("listing", "Show the states and events of an entity, in time order."),
        "facts": ("listing", "List the facts, in time order."),
        "profile": ("entities", "Show the profile of NAME, or of all speakers."),
        "entities": ("entities", "List people, places and things; merge or split them."),
        "relations": ("entities", "Show the relations of NAME, or the path from NAME to OTHER."),
        "diff": ("listing", "Compare the states at time A and time B, or list what was stored between them."),
        "sessions": ("listing", "List the sessions in time order, or show the turns of one."),
        "users": ("listing", "List the users who have a memory in the directory."),
        "tree": ("inspecting", "Draw the trees of a memory."),
        "stats": ("inspecting", "Count what is stored, and show its size."),
    },
    "Correct": {
        "remember": ("correcting", "Store one statement, and end the one it replaces."),
        "update": ("correcting", "Correct the text or the times of a fact."),
        "pin": ("correcting", "Pin a fact: it is in the evidence of every question."),
        "forget": ("correcting", "Hide a fact. Its turn stays in the file."),
        "undo": ("correcting", "Undo an update, a pin or a forget."),
        "history": ("correcting", "Show what happened to a fact, and what replaced it."),
        "delete": ("correcting", "Delete a turn, session, fact, entity, period or memory for good."),
    },
    "Move": {
        "export": ("transfer", "Write a whole memory to a file of JSON Lines."),
        "import": ("transfer", "Create a memory from a file of `memforest export`."),
        "backup": ("transfer", "Copy a memory while it is in use, and check the copy."),
        "restore": ("transfer", "Restore a backup into the directory."),
        "merge": ("transfer", "Merge the memory of one user into another's."),
        "key": ("transfer", "Encrypt or decrypt the memories of the directory, or change their key."),
    },
    "Serve": {
        "serve": ("server.commands", "Serve the memories of --dir over REST and MCP, with the inspector."),
        "mcp": ("server.commands", "Give an agent this memory over the Model Context Protocol."),
        "inspect": ("server.commands", "Open the inspector in a browser, until Ctrl-C."),
        "keys": ("server.commands", "Create, list and revoke the keys of a server."),
        "claude-code": ("integrations.claude_code_install", "Give Claude Code this memory, or remove it."),
        "hook": ("integrations.claude_code_install", "Answer a hook of Claude Code."),
    },
    "Measure": {"eval": ("evaluation.commands", "Measure memories on benchmarks or on your own questions.")},
    "Maintain": {
        "maintain": ("maintain", "Resume, rebuild, verify, repair or advance memories."),
        "index": ("maintain", "List, add or drop the indexes of a memory."),
    },
}
"""Section of ``memforest --help`` -> command name -> (module, line in the help).

The module is one of this package, or of another room. The lines stand here so that ``--help`` imports no command."""
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
            sys.exit(_fail(call, StopCommand(f"cannot write the output: {exc.strerror or exc}")))
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
    """Long-term memory for LLM agents.

    It stores conversations and finds the turns that answer a question, with their dates. You need no API key
    and no server: each user has one SQLite file. Start with `memforest demo`.
    """
    call = ctx.find_object(Call)
    if call is not None:
        call.command = ctx.invoked_subcommand
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
