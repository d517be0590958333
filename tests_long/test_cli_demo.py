"""`memforest demo` as a newcomer sees it: with the embedder that comes along, in a terminal of 80 columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memforest.cli import main
from memforest.cli.demo import SHOWN_KINDS

EMBEDDER = "hash-words-1@64"


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of its own and a terminal of 80 columns."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "80")


def run(*args: str) -> Result:
    """Run the program."""
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result


def data(*args: str) -> Any:
    """Run the program and return what it gives as JSON."""
    return json.loads(run(*args, "--json").stdout)["data"]


def test_everything_is_shown_in_80_columns(tmp_path: Path) -> None:
    """Five parts, time and search first, an abstention; no line is wider than the terminal, and a minute reads it all."""
    shown = run("demo", "--embedder", EMBEDDER).stdout
    lines = shown.splitlines()
    assert [line[0] for line in lines if line[1:3] == ". " and line[0].isdigit()] == list("12345")
    assert shown.index("where Mateo lived") < shown.index("Where did Nora live") < shown.index("Not known")
    assert len(shown.split()) < 500
    assert max(map(len, lines)) <= 80
    assert not (tmp_path / "memories").exists()


def test_answers_come_from_the_right_turn_or_not_at_all() -> None:
    """Of all 20 at most two are taken from a turn that the author did not mark, none is given where nothing was said; a third are right."""
    found = data("demo", "--all", "--embedder", "minilm")
    assert len(found["answers"]) == 20
    others = [one for one in found["answers"] if one["answer"] is not None and not one["right"]]
    assert len(others) == found["wrong"] <= 2, [(one["question"], one["answer"]) for one in others]
    assert all(one["answer"] is None for one in found["answers"] if one["expected"] is None)
    assert found["right"] >= 7, [one["question"] for one in found["answers"] if not one["right"]]


def test_one_question_of_each_kind_that_is_shown_is_asked() -> None:
    """Now, then, before, since when, a plain one, and one that nobody can answer."""
    found = data("demo", "--embedder", EMBEDDER)["answers"]
    assert [one["kind"] for one in found] == list(SHOWN_KINDS)
    assert found[-1]["answer"] is None


def test_it_can_be_kept_and_asked(tmp_path: Path) -> None:
    """`--keep` leaves a memory for the other commands; a second demo on it adds nothing."""
    keep = str(tmp_path / "kept")
    assert len(data("demo", "--keep", keep, "--embedder", EMBEDDER, "--all")["answers"]) == 20
    assert data("maintain", "verify", "--dir", keep)["ok"]
    assert data("demo", "--keep", keep)["memory"]["turns_added"] == 0
