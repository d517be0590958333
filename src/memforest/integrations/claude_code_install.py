"""`memforest hook` and `memforest claude-code`: answer Claude Code's hooks, and install them.

The hooks come as a plugin in the user's skills directory, which Claude Code loads in every session
(https://code.claude.com/docs/en/plugins-reference#skills-directory-plugins). The plugin has a folder of its own, with a manifest,
hooks and an MCP server. No settings change, and deleting the folder removes everything. At the end of a session Claude Code gives a
hook 1.5 seconds. That is enough to start a process.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from memforest import __version__
from memforest.cli.call import Call, StopCommand, command, flag, group, takes
from memforest.integrations import claude_code as hooks
from memforest.store.files import new_file

TIMEOUT_S = 5
"""Time limit for Claude Code. It is longer than a hook's own, so the hook ends by itself."""
ABOUT = "Remembers what was said in earlier sessions, with memforest on this machine."
_MANIFEST, _HOOKS, _SERVERS = ".claude-plugin/plugin.json", "hooks/hooks.json", ".mcp.json"

_server = takes("--server", of="URL", envvar="MEMFOREST_SERVER", default=hooks.DEFAULT_SERVER, show_default=True,
                help="A running `memforest serve`; put its key into MEMFOREST_SERVER_KEY. [MEMFOREST_SERVER]")  # fmt: skip
_yes = flag("--yes", help="Do not ask.")


def _place(call: Call, server: str) -> hooks.Place:
    config = None if call.config_file is None else str(call.config_file.absolute())
    return hooks.Place(
        call.folder.absolute(), call.user, server, os.environ.get("MEMFOREST_SERVER_KEY"), config
    )


@command()
@click.argument("event", type=click.Choice(list(hooks.EVENTS)))
@_server
def hook(call: Call, event: str, server: str) -> None:
    """Answer a hook of Claude Code. Its plugin calls this command.

    JSON comes on standard input, and the answer goes to standard output. The command ends within 2 seconds. If something fails, it prints nothing and its exit code is 0, so it never stops Claude
    Code. `memforest claude-code status` shows the last failure.
    """
    hooks.run(event, _place(call, server))


@group()
def claude_code(call: Call) -> None:
    """Give Claude Code this memory, or remove it; see docs/claude-code.md."""


@command(group=claude_code)
@_server
@flag("--no-mcp", help="Install only the hooks, not the tools of `memforest mcp`.")
@_yes
def install(call: Call, server: str, no_mcp: bool, yes: bool) -> None:
    """Install the plugin: hooks, and the tools of `memforest mcp`. It shows the changes, and asks."""
    place = _place(call, server)
    place = replace(place, user=place.whose())
    tools = not no_mcp and place.is_here and find_spec("mcp") is not None
    if not (no_mcp or tools):
        call.complain("the plugin has no tools: they need the extra [mcp], and a memory on this machine")
    _change(call, plugin(place, mcp=tools), yes)


@command(group=claude_code)
@_yes
def uninstall(call: Call, yes: bool) -> None:
    """Delete the plugin; the memory stays. It shows the changes, and asks."""
    _change(call, dict.fromkeys((_MANIFEST, _HOOKS, _SERVERS)), yes)


@command(group=claude_code)
@_server
def status(call: Call, server: str) -> None:
    """Show whether the plugin is installed, whose memory it uses, whether a server runs, and the last failure."""
    place, told = _place(call, server), dict[str, Any](plugin=str(folder()), installed=False)
    with suppress(OSError, ValueError, LookupError):
        line = json.loads((folder() / _HOOKS).read_bytes())["hooks"]["Stop"][0]["hooks"][0]["command"]
        place = hooks.Place.of(shlex.split(line)[4:])
        told["installed"] = True
    told["directory"] = str(place.directory)
    try:
        user = told["user"] = place.whose()
        told["server"] = place.server if place.ask(user) else "none; each hook opens the memory"
    except hooks.HookError as exc:
        told["problem"] = str(exc)
    told |= {f"last failure: {name}": one for name, one in hooks.Notes(place, "last").read().items()}
    rows = [(name, str(one)) for name, one in told.items()]
    call.show(told, lambda screen: screen.table(("bold", ""), rows))


def folder() -> Path:
    """Return where the plugin is."""
    return hooks.config_folder() / "skills" / "memforest"


def plugin(place: hooks.Place, *, mcp: bool) -> dict[str, str | None]:
    """Return the plugin's files: name -> text, or None for one that it does not have.

    Args:
        place: where the memory is, and whose it is.
        mcp: whether it has the tools.
    """

    def handler(event: str) -> dict[str, Any]:
        line = [sys.executable, "-m", "memforest.integrations.claude_code", event, *place.options()]
        return {"type": "command", "command": shlex.join(line), "timeout": TIMEOUT_S}

    tools = ["-m", "memforest", "--dir", str(place.directory), "--user", place.whose(), "mcp"]
    made: dict[str, Any] = {
        _MANIFEST: {"name": "memforest", "version": __version__, "description": ABOUT},
        _HOOKS: {"hooks": {theirs: [{"hooks": [handler(event)]}] for event, theirs in hooks.EVENTS.items()}},
        _SERVERS: {"mcpServers": {"memory": {"command": sys.executable, "args": tools}}} if mcp else None,
    }
    return {name: one and json.dumps(one, indent=2, ensure_ascii=False) + "\n" for name, one in made.items()}


def _change(call: Call, files: dict[str, str | None], yes: bool) -> None:
    """Show how the plugin's files differ, ask, and write or delete them; other files in their folders stay.

    Raises:
        StopCommand: if there is a plugin that is not ours, or a file cannot be deleted.
        click.UsageError: if nobody can be asked.
        MemForestError: if a file cannot be written.
    """
    paths = {folder() / name: new for name, new in files.items()}
    old = {path: path.read_text("utf-8", "replace") if path.is_file() else None for path in paths}
    if ABOUT not in (old[folder() / _MANIFEST] or ABOUT):
        raise StopCommand(f"there is another plugin in {folder()}; nothing was changed")
    changes = {path: new for path, new in paths.items() if new != old[path]}
    if changes and not yes and (call.as_json or not sys.stdin.isatty()):
        raise click.UsageError("without a terminal, give --yes")
    for path, new in changes.items() if not call.as_json else ():
        before, after = ((one or "").splitlines() for one in (old[path], new))
        lines = difflib.unified_diff(before, after, str(path), str(path), "now", "then", lineterm="")
        click.echo("\n".join(lines))
    if changes and not yes:
        click.confirm("Write this?", abort=True, err=True)
    for path, new in changes.items():
        if new is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path, overwrite=True) as made:
                made.write_text(new, "utf-8")
            continue
        path.unlink()
        for above in (path.parent, folder()):
            with suppress(OSError):  # something else is in it
                above.rmdir()
    done = "Done. New sessions of Claude Code use it." if changes else "Nothing to change."
    call.show({"changed": [str(path) for path in changes]}, lambda screen: screen.line(done))
