"""`memforest delete`: counts, asks, and takes away what it was told to."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memforest.cli import main

Run = Callable[..., Result]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Al", "content": "Zoltan adopted a cat.", "timestamp": "2024-01-05T10:01:00Z"},
    {"speaker": "Bo", "content": "I moved to Miami yesterday.", "timestamp": "2024-03-02T10:00:00Z"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory with the memory of `me`."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    assert run("ingest", str(tmp_path / "chat.json"), "--embedder", "hash-words-1@64").exit_code == 0
    return run


def left(run: Run) -> int:
    """Return how many turns there are."""
    data = json.loads(run("stats", "--json").stdout)["data"]
    return int(data["turns"])


@pytest.mark.parametrize(
    ("target", "turns"),
    [
        (("--turn", "chat", "1"), 1),
        (("--session", "chat"), 3),
        (("--entity", "Zoltan"), 1),
        (("--during", "2024-01-01", "2024-02-01"), 2),
        (("--all",), 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_dry_run_counts_what_then_goes(run: Run, target: tuple[str, ...], turns: int) -> None:
    """The dry run writes nothing, and its counts are those of the deletion."""
    session = json.loads(run("sessions", "--json").stdout)["data"]["sessions"][0]["session_id"]
    target = tuple(session if one == "chat" else one for one in target)
    counted = json.loads(run("delete", *target, "--dry-run", "--json").stdout)["data"]
    assert counted["dry_run"]
    assert counted["gone"]["turns"] == turns
    assert left(run) == 3
    done = json.loads(run("delete", *target, "--yes", "--json").stdout)["data"]
    assert {name: done[name] for name in ("gone", "changed")} == {
        name: counted[name] for name in ("gone", "changed")
    } or target == ("--all",)
    again = run("delete", *target, "--yes")
    assert again.exit_code == 1 or "Nothing to delete" in again.stdout


def test_a_fact_is_deleted_by_its_id(run: Run) -> None:
    """As `memforest facts --json` shows it."""
    facts = json.loads(run("facts", "--json").stdout)["data"]["facts"]
    wanted = next(one["fact_id"] for one in facts if "Zoltan" in one["statement"])
    shown = run("delete", "--fact", wanted, "--yes").stdout
    assert "facts\t1 gone" in shown
    assert "Zoltan" not in run("facts", "--json").stdout


def test_without_a_terminal_nobody_is_asked_and_nothing_deleted(run: Run) -> None:
    """It refuses, and names what to give."""
    found = run("delete", "--entity", "Zoltan")
    assert found.exit_code == 2
    assert "--yes" in found.stderr
    assert left(run) == 3


@pytest.mark.parametrize("given", [(), ("--all", "--entity", "Bo"), ("--session", "a", "--turn", "a", "0")])
def test_exactly_one_thing_is_given(run: Run, given: tuple[str, ...]) -> None:
    """None or two are wrong usage."""
    found = run("delete", *given, "--yes")
    assert (found.exit_code, left(run)) == (2, 3)
    assert "exactly one" in found.stderr


@pytest.mark.parametrize(("answer", "turns"), [("n", 3), ("y", 2)])
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_it_asks(run: Run, answer: str, turns: int) -> None:
    """It shows what would go, and does what it is told; no is exit code 130."""
    import pty

    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "memforest", "delete", "--entity", "Zoltan"]
    with subprocess.Popen(
        program, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        os.write(ours, f"{answer}\n".encode())
        out, err = process.communicate(timeout=120)
    assert b"to go" in out
    assert b"for good?" in err
    assert process.returncode == (0 if answer == "y" else 130)
    assert (b"gone" in out) is (answer == "y")
    assert left(run) == turns
    os.close(theirs)
    os.close(ours)


def test_the_commands_of_the_page_run(run: Run) -> None:
    """Those of docs/deleting.md, one after the other, in a memory that has what they name."""
    page = Path(__file__).resolve().parents[1] / "docs" / "deleting.md"
    [block] = re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = [run(*shlex.split(line)[1:]) for line in block.splitlines()]
    assert [one.exit_code for one in shown] == [0, 0, 0]
    assert "1 to go" in shown[0].stdout
    assert "1 gone" in shown[1].stdout
    assert run("stats").exit_code == 1  # there is no memory any more
