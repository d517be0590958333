"""`memforest ingest` of what other programs export: what is printed, what is stored, and the exit code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memforest.cli import main

DATA = Path(__file__).parent / "data" / "imports"
EMBEDDER = ("--embedder", "hash-words-1@64")

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory of its own."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*args: str | Path, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, [str(one) for one in args], input=stdin, catch_exceptions=False)

    return run


def sessions(run: Run, *args: str) -> set[str]:
    """Return the ids of the sessions that are stored."""
    facts = run("facts", "--json", *args)
    stats = json.loads(facts.stdout)
    assert stats["status"] == "ok", stats
    return {source["session_id"] for one in stats["data"]["facts"] for source in one["sources"]}


def packed(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """Write a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in files.items():
            archive.writestr(entry, content)
    (folder / name).write_bytes(target.getvalue())
    return folder / name


def memory_of(result: Result) -> dict[str, Any]:
    """Return what became of the only memory, from an envelope."""
    (memory,) = json.loads(result.stdout)["data"]["memories"]
    return dict(memory)


def test_an_archive_is_ingested_and_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    """As it is downloaded, with files beside that are no chat."""
    file = packed(tmp_path, "export.zip", {"conversations.json": (DATA / "chatgpt.json").read_bytes(), "chat.html": b"<p>"})  # fmt: skip
    first = run("ingest", file, "--user", "ana", *EMBEDDER, "--json")
    assert (first.exit_code, first.stderr) == (0, "")
    assert (memory_of(first)["sessions_new"], memory_of(first)["turns_added"]) == (1, 5)
    (found,) = json.loads(first.stdout)["data"]["files"]
    assert (found["format"], found["left_out"]["file of the archive that is no chat"]) == ("chatgpt", 1)
    again = memory_of(run("ingest", file, "--user", "ana", "--json"))
    assert (again["sessions_unchanged"], again["turns_added"]) == (1, 0)


def test_a_dry_run_prints_what_would_be_and_stores_nothing(run: Run, tmp_path: Path) -> None:
    """Format, sessions, turns, times, and what would be left out."""
    shown = run("ingest", DATA / "telegram.json", "--dry-run")
    assert shown.exit_code == 0
    for word in ("telegram", "image, sound or file", "notice of the app", "Nothing was stored"):
        assert word in shown.stdout
    assert not (tmp_path / "memories").exists() or not list((tmp_path / "memories").rglob("*.db"))


def test_an_order_of_day_and_month_that_nothing_proves_is_asked_for(run: Run, tmp_path: Path) -> None:
    """The error names the options, and with either the chat is stored on that day."""
    chat = tmp_path / "chat.txt"
    chat.write_text("03/04/2024, 10:00 - Ana: I live in Porto.\n03/04/2024, 10:01 - Bo: So do I.\n")
    refused = run("ingest", chat, *EMBEDDER)
    assert refused.exit_code == 1
    assert "--day-first or --month-first" in refused.stderr
    for option, day in (("--day-first", "2024-04-03"), ("--month-first", "2024-03-04")):
        assert run("ingest", chat, "--user", option[2:], option, *EMBEDDER).exit_code == 0
        assert sessions(run, "--user", option[2:]) == {f"chat/{day}"}


def test_a_format_can_be_named_and_an_unknown_one_is_refused(run: Run) -> None:
    """The error lists the formats."""
    stated = run("ingest", DATA / "log.txt", "--format", "log", *EMBEDDER)
    assert stated.exit_code == 0
    unknown = run("ingest", DATA / "log.txt", "--format", "diary")
    assert unknown.exit_code == 1
    assert "unknown format 'diary'; known: adk, ai-sdk, aider, chatgpt" in unknown.stderr


def test_the_rest_of_a_damaged_archive_is_stored(run: Run, tmp_path: Path) -> None:
    """What climbs out, and what is cut off, is named on standard error; the exit code is 1; nothing is written beside."""
    message = json.dumps(
        {"speaker": "Ana", "content": "I live in Porto.", "timestamp": "2024-05-01"}
    ).encode()
    bad = {"../evil.json": b"[" + message + b"]", "cut.json": b"[" + message + b",\n" + message[:-20]}
    file = packed(tmp_path, "export.zip", {**bad, "good.json": b"[" + message + b"]"})
    before = {one for one in tmp_path.iterdir() if one.name != "memories"}
    result = run("ingest", file, *EMBEDDER)
    assert result.exit_code == 1
    assert "its path leads out of the archive" in result.stderr
    assert "the file ends here, in the middle of its JSON" in result.stderr
    assert sessions(run) == {"good", "cut"}
    assert {one for one in tmp_path.iterdir() if one.name != "memories"} == before


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bomb.json", b"[" + b" " * (32 << 20) + b"]", "zip bomb"),
        ("notes.txt", b"nothing of a chat", "none is a chat"),
    ],
)
def test_an_archive_that_is_refused_makes_no_memory(
    run: Run, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    """Whose user it would have been is not entered either."""
    result = run("ingest", packed(tmp_path, "export.zip", {name: content}), "--user", "ana", *EMBEDDER)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert not list((tmp_path / "memories").rglob("*.db"))


def test_standard_input_may_be_an_archive(run: Run, tmp_path: Path) -> None:
    """Bytes, not text."""
    file = packed(tmp_path, "export.zip", {"conversations.json": (DATA / "claude.json").read_bytes()})
    result = run("ingest", "-", *EMBEDDER, "--json", stdin=file.read_bytes())
    assert memory_of(result)["sessions_new"] == 1
