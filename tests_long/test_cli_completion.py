"""Tests of shell completion: the scripts, and the commands and options that are offered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest.cli import main


def complete(words: str) -> list[str]:
    """Return what is offered for the last word of a command line; it is a new one after a space."""
    env = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_MEMFOREST_COMPLETE": "bash_complete",
    }
    result = CliRunner().invoke(main, env=env, prog_name="memforest", catch_exceptions=False)
    assert result.stderr == ""
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


def test_commands_and_options_are_completed() -> None:
    """Without reading any memory."""
    assert complete("memforest st") == ["stats"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.timeout(120)
def test_bash_reads_the_script_and_completes(tmp_path: Path) -> None:
    """In a real bash, the function that the script defines fills COMPREPLY."""
    program = tmp_path / "bin" / "memforest"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom memforest.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    lines = [
        'eval "$(_MEMFOREST_COMPLETE=bash_source memforest 2>/dev/null)"',
        "COMP_WORDS=(memforest tree --dep); COMP_CWORD=2",
        "_memforest_completion memforest",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    ran = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    assert ran.stdout.split() == ["--depth"], ran.stderr
