"""The bar of long writes: what it counts, where it is drawn, and where it is not."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said

from memforest import IngestProgress, MemForest
from memforest.cli import main, screen
from memforest.cli.screen import Tally, write_bar
from memforest.progress import Stage


def told(tally: Tally, *events: tuple[Stage, str | None, int, int, int]) -> list[tuple[int, int, str]]:
    """Return what is counted after each event: done, total, unit."""
    found = []
    for stage, session, done, failed, total in events:
        tally.add(IngestProgress(stage, "u", session, done, failed, total))
        found.append((tally.done, tally.total, tally.unit))
    return found


def test_turns_count_as_their_chunks_are_read() -> None:
    """Failed ones too; the total is that of the files from the start, and each session fills its part of it."""
    found = told(
        Tally(),
        ("received", None, 20, 0, 20),
        ("received", "a", 12, 0, 12),
        ("extracted", "a", 0, 0, 4),
        ("extracted", "a", 1, 1, 4),
        ("extracted", "a", 3, 1, 4),
        ("finished", "a", 1, 0, 1),
        ("received", "b", 8, 0, 8),  # known already: no chunk of it is read
        ("finished", "b", 1, 0, 1),
    )
    assert [done for done, *_ in found] == [0, 0, 0, 6, 12, 12, 12, 20]
    assert {(total, unit) for _, total, unit in found} == {(20, "turns")}


def test_sessions_that_are_resumed_count_by_their_chunks() -> None:
    """Their turns are not told; the total grows with each that is begun. What the budget leaves is passed over."""
    found = told(
        Tally(),
        ("extracted", "a", 0, 0, 4),
        ("extracted", "b", 0, 0, 2),
        ("extracted", "b", 1, 0, 2),
        ("extracted", "a", 2, 0, 4),
        ("finished", "a", 1, 0, 1),
        ("finished", "b", 1, 0, 1),
    )
    assert found == [(0, 4, "chunks"), (0, 6, "chunks"), (1, 6, "chunks"), *[(3, 6, "chunks")], (5, 6, "chunks"), (6, 6, "chunks")]  # fmt: skip


def test_sessions_of_two_users_are_two() -> None:
    """Although they have one name; one that could not be stored counts nothing."""
    tally = Tally()
    for user in ("u", "v"):
        tally.add(IngestProgress("received", user, "s", 3, 0, 3))
    tally.add(IngestProgress("finished", "u", "s", 1, 0, 1))
    tally.add(IngestProgress("finished", "u", "other", 0, 1, 1))
    assert (tally.done, tally.total, tally.name) == (3, 6, "other")


def test_summaries_are_counted_apart() -> None:
    """They are no part of the turns."""
    tally = Tally()
    told(tally, ("received", "a", 3, 0, 3), ("refreshed", None, 1, 0, 7))
    assert (tally.made, tally.to_make, tally.done, tally.total) == (1, 7, 0, 3)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is drawn on a terminal of 100 columns."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(screen, "error_console", lambda: console)
    return file


def test_the_bar_is_drawn_on_a_terminal(drawn: io.StringIO, tmp_path: Path) -> None:
    """With the session, the counts and the summaries; whatever a session is called, it stays on its line."""
    with write_bar(quiet=False) as show, MemForest(tmp_path, fast_config(refresh="path")) as forest:
        forest.ingest_session("u", "s\x1b[31m\n1", said("I live in Oslo.", "I have a dog."), on_progress=show)
    text = drawn.getvalue()
    assert "2/2 turns" in text
    assert "summaries" in text
    assert "\x1b[31m" not in text


@pytest.mark.parametrize("quiet", [True, False])
def test_the_bar_is_drawn_nowhere_else(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither into a pipe, nor where only JSON is wanted."""
    file = io.StringIO()
    monkeypatch.setattr(screen, "error_console", lambda: Console(file=file, force_terminal=quiet))
    with write_bar(quiet=quiet) as show:
        show(IngestProgress("received", "u", "s", 1, 0, 1))
    assert file.getvalue() == ""


def run(folder: Path, *args: Any) -> Result:
    """Run a command on a memory."""
    return CliRunner().invoke(main, [*map(str, args), "--dir", str(folder / "memory"), "--user", "u"])


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[IngestProgress]:
    """What the bar is told."""
    found: list[IngestProgress] = []
    add: Callable[[Tally, IngestProgress], None] = Tally.add

    def note(tally: Tally, one: IngestProgress) -> None:
        found.append(one)
        add(tally, one)

    monkeypatch.setattr(Tally, "add", note)
    return found


@pytest.mark.usefixtures("drawn")
def test_ingest_and_resume_drive_it(tmp_path: Path, heard: list[IngestProgress]) -> None:
    """By the hook, chunk by chunk; with --json there is none."""
    turns = [
        {"role": "user", "content": one["content"], "timestamp": one["timestamp"]}
        for one in said("I live in Oslo.")
    ]
    (tmp_path / "chat.json").write_text(json.dumps(turns), encoding="utf-8")
    assert run(tmp_path, "ingest", tmp_path / "chat.json", "--embedder", "none", "--json").exit_code == 0
    assert heard == []
    turns += [{**turns[0], "content": "I have a dog."}]
    (tmp_path / "chat.json").write_text(json.dumps(turns), encoding="utf-8")
    assert run(tmp_path, "ingest", tmp_path / "chat.json").exit_code == 0
    assert [one.stage for one in heard] == ["received", "received", "extracted", "extracted", "finished"]
    assert heard[0] == IngestProgress("received", "u", None, 2, 0, 2)
    heard.clear()
    with MemForest(tmp_path / "memory", fast_config(embedder="none")) as forest:
        forest.ingest_session("u", "later", said("I like tea."), defer=True)
    assert run(tmp_path, "maintain", "resume").exit_code == 0
    assert [one.stage for one in heard if one.session_id is not None] == [
        "extracted",
        "extracted",
        "finished",
    ]
    assert {one.session_id for one in heard} == {"later", None}  # and summaries
