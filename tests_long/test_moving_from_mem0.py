"""The commands of docs/moving-from-mem0.md run as they stand, on the memory that its first example makes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest.cli.app import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "moving-from-mem0.md"
TEXT = PAGE.read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, body in FENCES if kind == "bash" for line in body.splitlines()]


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds what the page says is there."""
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(next(body for kind, body in FENCES if kind == "python"), str(PAGE), "exec"), {})
    assert len(COMMANDS) == 5
    for command in COMMANDS:
        program, *args = shlex.split(command)
        done = CliRunner().invoke(main, args)
        assert (program, done.exit_code) == ("memforest", 0), done.output
        expected = "Lisbon" if "--as-of" in args else "Porto" if "changes" not in args else ""
        assert expected in done.stdout


def test_every_verb_of_mem0_has_its_place() -> None:
    """Those that its documentation lists."""
    for verb in ("add", "search", "get", "get_all", "update", "delete", "delete_all", "history", "reset"):
        assert f"`m.{verb}(" in TEXT
