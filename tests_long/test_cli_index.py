"""`memforest index`, and how the other commands show indexes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import ShelfIndex

from memforest.cli import main
from memforest.trees import attached

Run = Callable[..., Result]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Bo", "content": "I moved to Miami yesterday.", "timestamp": "2024-03-02T10:00:00Z"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory with the memory of `me`, where the shelf is known."""
    monkeypatch.setitem(attached.INDEXES, "shelf", ShelfIndex)
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    assert run("ingest", str(chat), "--embedder", "hash-words-1@64").exit_code == 0
    return run


def test_an_index_is_added_listed_searched_and_dropped(run: Run) -> None:
    """Each in a line, or in the envelope of `--json`."""
    assert run("index", "add", "shelf").stdout == "Added shelf: 3 trees with 3 leaves.\n"
    assert "shelf\t3 trees\t3 leaves" in run("index", "list").stdout.splitlines()
    listed = json.loads(run("index", "list", "--json").stdout)
    assert listed["command"] == "index list"
    assert ("shelf", 3) in [(one["name"], one["leaves"]) for one in listed["data"]["indexes"]]
    assert "index\tshelf" in run("stats").stdout
    assert "indexes memforest, shelf" in run("doctor").stdout
    found = json.loads(run("search", "Where does Bo live?", "--index", "shelf", "--json").stdout)["data"]
    assert found["index"] == "shelf"
    assert run("maintain", "verify").exit_code == 0
    assert run("index", "drop", "shelf").stdout == "Dropped shelf.\n"
    assert "shelf" not in run("index", "list").stdout


def test_settings_are_given_as_pairs(run: Run) -> None:
    """`--set KEY=VALUE`, with numbers as numbers; they are in what is listed."""
    assert run("index", "add", "flat").exit_code == 0
    assert run("index", "drop", "memforest").exit_code == 0
    added = run("index", "add", "memforest", "--set", "entity_k=5", "--set", "active_min_facts=2", "--json")
    settings = json.loads(added.stdout)["data"]["settings"]
    assert (settings["entity_k"], settings["active_min_facts"]) == (5, 2)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("add", "nosuch"), "unknown index 'nosuch'; known: facts, "),
        (("add", "memforest"), "has the index 'memforest' already"),
        (("add", "memforest", "--set", "wide"), "not of the form KEY=VALUE"),
        (("add", "flat", "--set", "wide=1"), "[index.flat] unknown setting wide"),
        (("drop", "shelf"), "this memory has no index 'shelf'; it has: memforest"),
        (("drop", "memforest"), "'memforest' is the only index"),
    ],
)
def test_mistakes_are_one_line(run: Run, args: tuple[str, ...], says: str) -> None:
    """On standard error, with an exit code that is not 0."""
    result = run("index", *args)
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
