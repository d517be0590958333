"""Tests of shell completion: the scripts, and the names that are offered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest import Config, MemForest
from memforest.cli import main
from memforest.cli.completing import is_safe
from memforest.models import HashEmbedder

WHEN = "2024-01-05T10:00:00Z"
SESSIONS = ("trip", "two words", "$(reboot)", "-rf", "tea;ls", "`id`", "té", "t\nx", "~root", "t*")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with two users; "ana" has sessions with all kinds of names."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder(32))) as forest:
        for name in SESSIONS:
            forest.ingest_session("ana", name, [{"speaker": "Bo", "content": "Hi Ana.", "timestamp": WHEN}])
        forest.register_user("a b; reboot")
    return tmp_path


def complete(words: str, folder: Path | None = None) -> list[str]:
    """Return what is offered for the last word of a command line; it is a new one after a space."""
    env = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_MEMFOREST_COMPLETE": "bash_complete",
    }
    if folder is not None:
        env["MEMFOREST_DIR"] = str(folder)
    result = CliRunner().invoke(main, env=env, prog_name="memforest", catch_exceptions=False)
    assert result.stderr == ""
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


def test_commands_and_options_are_completed() -> None:
    """Without reading any memory."""
    assert complete("memforest st") == ["stats"]
    assert complete("memforest tree --h") == ["--html", "--help"]


def test_indexes_are_completed() -> None:
    """By their first letters."""
    assert complete("memforest ask --index f") == ["facts", "flat"]


def test_users_sessions_and_entities_are_completed(folder: Path) -> None:
    """From the directory that --dir, or the environment, names; of the user that --user names."""
    assert complete("memforest stats --user ", folder) == ["ana"]
    assert complete(f"memforest --dir {folder} stats -u a") == ["ana"]
    assert complete("memforest facts -u ana --session tr", folder) == ["trip"]
    assert complete("memforest timeline -u ana B", folder) == ["Bo"]
    with MemForest(folder, Config(embedder=None)) as forest:
        turns = [{"speaker": "Bo", "text": "I moved to Bergen.", "timestamp": "2024-03-01"}]
        forest.ingest_session("ana", "té", turns, replace=True)
    assert complete("memforest relations -u ana B", folder) == ["Bergen", "Bo"]  # a name without a tree
    assert complete("memforest tree -u ana ", folder) == ["Bo", "trip", "té"]


def test_names_that_a_shell_would_act_on_are_not_offered(folder: Path) -> None:
    """A session may be called anything; completing it must not run it."""
    assert complete("memforest facts -u ana --session ", folder) == ["trip", "té"]
    assert not any(map(is_safe, ("", "a b", "a$b", "a`b", "a;b", "a&b", "a|b", "a>b", "a'b", 'a"b', "a\\b", "a!b", "-a",
                                 "a*", "a?", "a[b]", "a{b}", "a(b", "~a", "#a", "a\nb", "a\x1bb", "a=b", "")))  # fmt: skip


def test_completing_never_fails(folder: Path, tmp_path: Path) -> None:
    """Nobody named, nobody there, a file of something else: nothing is offered, and nothing is made."""
    (folder / "bad-1.db").write_bytes(b"not a database, though long enough to be read" * 5)
    assert complete("memforest stats --user ", folder) == ["ana"]
    assert complete("memforest tree ", folder) == []
    assert complete("memforest tree -u nobody ", folder) == []
    assert complete("memforest tree ", tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    """The script names the program and the variable that it answers to."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_MEMFOREST_COMPLETE={shell}_complete" in result.stdout
    told = CliRunner().invoke(main, ["completion", shell, "--json"]).stdout
    assert json.loads(told)["data"]["script"] == result.stdout.removesuffix("\n")
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.timeout(120)
def test_bash_reads_the_script_and_completes(folder: Path, tmp_path: Path) -> None:
    """In a real bash, the function that the script defines fills COMPREPLY."""
    program = tmp_path / "bin" / "memforest"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom memforest.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    lines = [
        'eval "$(memforest completion bash 2>/dev/null)"',
        "COMP_WORDS=(memforest facts --user ana --session tr); COMP_CWORD=5",
        "_memforest_completion memforest",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    ran = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "MEMFOREST_DIR": str(folder)},
    )
    assert ran.stdout.split() == ["trip"], ran.stderr
