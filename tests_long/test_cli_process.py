"""Tests of `memforest` as a process of its own: start-up, Ctrl-C, a reader beside a writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, MemForest
from memforest.models import HashEmbedder

# Python ignores SIGINT when its parent did (a shell's background job); a user's terminal does not.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from memforest.cli import main; main()"
)
EMBEDDER = "hash-words-1@64"

pytestmark = pytest.mark.timeout(180)  # several processes, each with its imports, on a busy machine

SESSIONS = 80


def memforest(*args: str, folder: Path) -> subprocess.Popen[str]:
    """Start the program on a directory."""
    return subprocess.Popen(
        [sys.executable, "-c", START, "--dir", str(folder), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
    )


def finished(*args: str, folder: Path) -> tuple[int, str, str]:
    """Run the program to its end and return exit code, output and errors."""
    with memforest(*args, folder=folder) as process:
        output, errors = process.communicate(timeout=100)
    return process.returncode, output, errors


def stats(folder: Path) -> dict[str, Any]:
    """Return the data of `stats`."""
    code, output, errors = finished("stats", "--json", folder=folder)
    assert code == 0, errors
    found: dict[str, Any] = json.loads(output)["data"]
    return found


def many_sessions(path: Path) -> Path:
    """Write a file with enough sessions to be interrupted in."""
    sessions = [
        {
            "session_id": f"s{n}",
            "turns": [
                {
                    "speaker": ("Ana", "Bo")[turn % 2],
                    "content": f"I bought {n * 8 + turn} apples in town {n}.",
                    "timestamp": 1_700_000_000 + n * 3600 + turn * 60,
                }
                for turn in range(8)
            ],
        }
        for n in range(SESSIONS)
    ]
    path.write_text(json.dumps({"sessions": sessions}), encoding="utf-8")
    return path


def test_help_needs_none_of_the_heavy_modules() -> None:
    """`memforest --help` imports neither numpy nor rich nor a model, so that it answers at once."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom memforest.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'rich', 'onnxruntime', 'sqlite3', 'asyncio'} & (set(sys.modules) - before)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_killed_ingest_goes_on(tmp_path: Path) -> None:
    """What was stored before each kill is there; the same command completes it, as if it had not been killed."""
    folder, whole, file = tmp_path / "killed", tmp_path / "whole", many_sessions(tmp_path / "chats.json")
    assert finished("ingest", str(file), "--embedder", EMBEDDER, folder=whole)[0] == 0
    with MemForest(folder, Config(embedder=HashEmbedder(64))) as reader:
        for kill in range(1, 3):
            with memforest("ingest", str(file), "--embedder", EMBEDDER, folder=folder) as writer:
                deadline = time.monotonic() + 40
                while time.monotonic() < deadline and writer.poll() is None:
                    if reader.has_user("me") and reader.user("me").stats().sessions >= 25 * kill:
                        break
                    time.sleep(0.02)
                writer.kill()
            assert 25 * kill <= reader.user("me").stats().sessions < SESSIONS
    assert finished("ingest", str(file), folder=folder)[0] == 0
    assert finished("maintain", "verify", folder=folder)[0] == 0
    pages = [finished("facts", "--json", "--limit", "1000", folder=one)[1] for one in (folder, whole)]
    facts = [json.loads(page)["data"]["facts"] for page in pages]
    assert all(fact.pop("stored") for page in facts for fact in page)  # the one thing that the clock decides
    assert len(facts[0]) == stats(folder)["turns"] == SESSIONS * 8
    assert facts[0] == facts[1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_interrupted_ingest_keeps_what_it_stored_and_goes_on(tmp_path: Path) -> None:
    """Ctrl-C exits with 130 and says what is stored; a reader sees it meanwhile; the same command completes."""
    folder, file = tmp_path / "memories", many_sessions(tmp_path / "chats.json")
    first = tmp_path / "first.json"
    first.write_text('[{"speaker": "Ana", "content": "I like tea.", "timestamp": "2024-01-01"}]')
    assert finished("ingest", str(first), "--embedder", EMBEDDER, folder=folder)[0] == 0
    with memforest("ingest", str(file), folder=folder) as writer, MemForest(folder) as reader:
        deadline = time.monotonic() + 40
        while (seen := reader.user("me").stats().sessions) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        writer.send_signal(signal.SIGINT)
        output, errors = writer.communicate(timeout=20)
    assert 4 <= seen < SESSIONS
    assert (writer.returncode, output) == (130, "")
    assert errors.startswith("Interrupted. ")
    assert "memforest maintain resume" in errors
    assert "Traceback" not in errors
    promised = int(errors.split()[1])
    kept = stats(folder)["sessions"]
    assert f"{stats(folder)['turns']} turns in {kept} sessions" in errors
    assert promised + 1 <= kept <= promised + 2  # one was there before; one may be received but not counted
    assert kept < SESSIONS

    code, output, errors = finished("ingest", str(file), "--json", folder=folder)
    assert (code, errors) == (0, "")
    (memory,) = json.loads(output)["data"]["memories"]
    assert memory["sessions_new"] + memory["sessions_unchanged"] == SESSIONS
    assert memory["sessions_unchanged"] >= promised
    done = stats(folder)
    assert (done["sessions"], done["turns"]) == (SESSIONS + 1, SESSIONS * 8 + 1)
    assert finished("maintain", "verify", folder=folder)[0] == 0


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    """`memforest ... | head` ends quietly."""
    with memforest("demo", "--embedder", EMBEDDER, folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(timeout=100)
    assert "Traceback" not in errors


def test_output_survives_a_terminal_without_unicode(tmp_path: Path) -> None:
    """On an ASCII stream text is shown with replacements, and JSON keeps every character, escaped."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for extra in ([], ["--json"]):
        ran = subprocess.run(
            [sys.executable, "-c", START, "demo", "--all", "--embedder", EMBEDDER, *extra],
            capture_output=True,
            env=environment,
            timeout=100,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    asked = [one["question"] for one in json.loads(ran.stdout)["data"]["answers"]]
    assert any(question.startswith("¿Cuál") for question in asked)


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    """Read so many lines of a program's output."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_the_package_can_be_run(tmp_path: Path) -> None:
    """`python -m memforest` is the command, for whose script is not on the path."""
    ran = subprocess.run(
        [sys.executable, "-m", "memforest", "--dir", str(tmp_path), "users", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, json.loads(ran.stdout)["status"]) == (0, "ok"), ran.stderr
