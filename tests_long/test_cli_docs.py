"""docs/cli.md names every command and option, as the running code has them.

``MEMFOREST_WRITE_DOCS=1`` writes the generated blocks anew (`make docs`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
from tests.table import each

from memforest.cli.app import COMMANDS, main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ
SHARED = {param.name for param in main.params} | {"help"}


def command(name: str) -> click.Command:
    """Import a command as `memforest NAME` does."""
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def option_row(option: click.Option) -> str:
    """Return an option as a row of a table."""
    value = ""
    if not option.is_flag:
        choices = getattr(option.type, "choices", None)
        value = " " + (
            option.metavar or ("|".join(choices) if choices else option.type.name.split(" ")[0].upper())
        )
    default = f" Default: {option.default}." if option.show_default and option.default is not None else ""
    name = f"{', '.join(option.opts)}{value}".replace("|", "\\|")
    return f"| `{name}` | {option.help}{default} |"


def options_of(shown: click.Command, *, shared: bool) -> str:
    """Return a table of a command's options, of the shared ones or of its own."""
    rows = [
        option_row(param)
        for param in shown.params
        if isinstance(param, click.Option) and (param.name in SHARED) == shared
    ]
    return "\n".join(["| option | |", "|---|---|", *rows, ""]) if rows else ""


def parts(name: str) -> dict[str, click.Command]:
    """Return a command and those below it, by what is typed."""
    shown = command(name)
    below = shown.commands if isinstance(shown, click.Group) else {}
    return {name: shown, **{f"{name} {one}": found for one, found in below.items()}}


def section(name: str, shown: click.Command) -> str:
    """Return the section of one command: usage, what it does, its own options."""
    arguments = " ".join(
        (param.metavar or param.human_readable_name.upper())
        if param.required
        else f"[{param.human_readable_name.upper()}]"
        for param in shown.params
        if isinstance(param, click.Argument)
    )
    usage = f"### `memforest {name}{' ' + arguments if arguments else ''}`"
    prose = "\n\n".join(" ".join(part.split()) for part in (shown.help or "").split("\n\n"))
    table = options_of(shown, shared=False)
    return "\n\n".join(part for part in (usage, prose, table) if part).rstrip() + "\n"


def check_block(name: str, expected: str) -> None:
    """Compare a generated block of the page with what it should be, or write it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
    assert found, f"docs/cli.md has no block {name!r}"
    if WRITE and found[1] != expected:
        PAGE.write_text(text[: found.start(1)] + expected + text[found.end(1) :], encoding="utf-8")
        return
    assert found[1] == expected, f"docs/cli.md: the block {name!r} is out of date; run `make docs`"


def test_every_command_and_option_is_documented() -> None:
    """The page shows each command with its usage, its help and all of its options."""
    check_block(
        "commands", "\n" + "\n".join(section(*one) for name in COMMANDS for one in parts(name).items()) + "\n"
    )


def test_the_shared_options_are_documented() -> None:
    """The options that every command takes stand in a table of their own."""
    check_block("shared", "\n" + options_of(main, shared=True) + "\n")


@each("name", COMMANDS)
def test_the_overview_says_what_the_command_says(name: str) -> None:
    """The line in `memforest --help`, kept apart so that help is fast, is the first line of the command's own."""
    shown = command(name)
    line = " ".join((shown.help or "").split("\n\n")[0].split())
    assert COMMANDS[name][1].rstrip(".") in line
    assert shown.name == name


@each("name", COMMANDS)
def test_every_command_takes_the_shared_options_and_explains_the_others(name: str) -> None:
    """The shared options work after every command's name, and no option is without help."""
    for shown in parts(name).values():
        options = [param for param in shown.params if isinstance(param, click.Option)]
        assert {"directory", "user", "as_json", "verbose"} <= {option.name for option in options}
        assert [option.name for option in options if not option.help] == []


def test_commands_in_the_prose_exist() -> None:
    """Every `memforest WORD` and every `--option` on the page is one that there is."""
    text = PAGE.read_text(encoding="utf-8")
    used = set(re.findall(r"memforest ([a-z]+(?:-[a-z]+)*)", text))
    assert used <= {*COMMANDS, "puts", "does", "unless", "itself"}
    known = {
        opt
        for name in COMMANDS
        for shown in parts(name).values()
        for param in shown.params
        for opt in (*param.opts, *param.secondary_opts)
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known | {"--help", "--version"}
