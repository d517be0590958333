"""The commands of docs/guide run as they stand: a page's blocks in order, in one directory."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest.cli.app import main

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAYS = {"serve", "mcp", "inspect", "demo"}
"""Commands that run until they are ended, or that have tests of their own."""


def _commands(body: str) -> list[list[str]]:
    """Return the commands of memforest in a block of a shell, without those that stay."""
    lines = (shlex.split(line, comments=True) for line in body.replace("\\\n", " ").splitlines())
    return [words[1:] for words in lines if words[:1] == ["memforest"] and not STAYS & {*words}]


WITH_COMMANDS = [
    page
    for page in GUIDES
    if any(kind == "console" and _commands(body) for kind, body in FENCE.findall(page.read_text("utf-8")))
]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_guide_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ends with 0, on what the Python blocks and the commands before it have made."""
    monkeypatch.chdir(tmp_path)
    for kind, body in FENCE.findall(page.read_text("utf-8")):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(body, str(page), "exec"), {"__name__": "__main__"})
        for command in _commands(body) if kind == "console" else ():
            done = CliRunner().invoke(main, command)
            assert done.exit_code == 0, f"{shlex.join(command)}: {done.output}"


def test_guides_are_short() -> None:
    """At most 1,000 words a page, its code with it; the README at most 120 lines."""
    words = {page.name: len(page.read_text("utf-8").split()) for page in GUIDES}
    assert {name: count for name, count in words.items() if count > 1000} == {}
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
