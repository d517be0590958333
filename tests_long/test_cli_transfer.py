"""`memforest export`, `import`, `backup`, `restore`, and `sessions` of one session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memforest.cli import main
from memforest.store.directory import file_name

CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Ana", "content": "I adopted\n\ta dog \x1b[31m.", "timestamp": "2024-01-05T10:01:00Z"},
]

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory with the memory of `me`, from within `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))

    def run(*args: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, args, input=stdin, catch_exceptions=False)

    (tmp_path / "chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    assert run("ingest", "chat.json", "--embedder", "hash-words-1@64").exit_code == 0
    return run


def data(result: Result) -> Any:
    """Return the data of an envelope."""
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)["data"]


def test_a_session_is_shown_as_it_was_said(run: Run) -> None:
    """One line a turn, cleaned, where records are wanted; to the letter as JSON."""
    assert run("sessions", "chat").stdout == (
        "2024-01-05 10:00\tBo\t\tI live in Davis.\n2024-01-05 10:01\tAna\t\tI adopted a dog [31m.\n"
    )
    told = data(run("sessions", "chat", "--json"))
    assert [turn["text"] for turn in told["turns"]] == [turn["content"] for turn in CHAT]
    wrong = run("sessions", "nope")
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        "Error: there is no session 'nope'; list the sessions for their ids\n",
    )


def test_export_and_import(run: Run) -> None:
    """Under the name of who was exported, or of --user; a second time it is refused."""
    assert run("export", "me.jsonl").stdout.startswith("Exported 1 session, 2 turns, ")
    again = run("export", "me.jsonl")
    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert (
        data(run("export", "me.jsonl", "--overwrite", "--vectors", "--no-summaries", "--json"))["turns"] == 2
    )
    assert "summaries" not in data(run("export", "x.jsonl", "--no-summaries", "--json"))["rows"]
    assert "this one has content" in run("import", "me.jsonl").stderr
    done = run("import", "me.jsonl", "--user", "you")
    assert done.stdout.startswith("Imported 1 session, 2 turns, ")
    assert " as the memory of you" in done.stdout
    elsewhere = data(run("import", "me.jsonl", "--dir", "other", "--json"))
    assert (elsewhere["user_id"], elsewhere["turns"]) == ("me", 2)
    assert run("sessions", "chat", "--dir", "other").stdout == run("sessions", "chat", "--user", "me").stdout


def test_standard_output_and_input(run: Run) -> None:
    """The file alone goes through the pipe; whose memory it is to be must be said."""
    out = run("export", "-")
    assert out.stdout_bytes.startswith(b'{"format":"memforest export","schema":1,')
    assert out.stderr.startswith("Exported 1 session")
    assert run("import", "-", stdin=out.stdout_bytes).exit_code == 2
    assert run("import", "-", "--user", "piped", stdin=out.stdout_bytes[:-9]).exit_code == 1
    assert "piped" not in run("users").stdout
    assert run("import", "-", "--user", "piped", stdin=out.stdout_bytes).exit_code == 0
    assert run("users").stdout == "me\npiped\n"
    assert run("export", "-", "--json").exit_code == 2


def test_a_reader_who_has_enough_is_no_error(run: Run, tmp_path: Path) -> None:
    """As everywhere in a pipe."""
    many = [{**CHAT[0], "content": f"I bought {n} red tents in Davis."} for n in range(400)]
    (tmp_path / "many.json").write_text(json.dumps(many), encoding="utf-8")
    assert run("ingest", "many.json", "--user", "me", "--no-infer").exit_code == 0
    with subprocess.Popen(
        [sys.executable, "-m", "memforest", "export", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_backup_and_restore(run: Run) -> None:
    """Of one user into a file, of all into a directory; a restored memory is the same."""
    said = run("sessions", "chat").stdout
    assert run("ingest", "chat.json", "--user", "you").exit_code == 0
    assert run("backup", "me.bak", "--user", "me").stdout.startswith("me\t1 session, 2 turns, ")
    assert [one["user_id"] for one in data(run("backup", "all", "--all", "--json"))["backups"]] == [
        "me",
        "you",
    ]
    assert run("sessions", "chat", "--dir", "all", "--user", "me").stdout == said
    refused = run("restore", "me.bak")
    assert refused.exit_code == 1
    assert "user 'me' has a memory" in refused.stderr
    Path("memories", file_name("me")).unlink()
    assert run("restore", "me.bak").stdout == "Restored the memory of me.\n"
    assert run("sessions", "chat", "--user", "me").stdout == said
    assert run("backup", "x.bak").exit_code == 2  # whose?
