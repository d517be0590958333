"""`memforest index`, and how the other commands show indexes."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.dummy_index.index import Dummy
from tests_long.worlds import file_of

from memforest.cli import main
from memforest.store.indexes import Items
from memforest.trees import attached

Run = Callable[..., Result]
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z"},
    {"speaker": "Bo", "content": "I moved to Miami yesterday.", "timestamp": "2024-03-02T10:00:00Z"},
]


@pytest.fixture
def dummy() -> Iterator[None]:
    """The dummy index is known."""
    attached.INDEXES[Dummy.name] = Dummy
    yield
    attached.INDEXES.pop("dummy", None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dummy: None) -> Run:
    """Run the program on a directory with the memory of `me`."""
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
    assert run("index", "add", "dummy").stdout == "Added dummy: 1 tree with 2 leaves.\n"
    assert run("index", "list").stdout.splitlines()[0] == "dummy\t1 tree\t2 leaves\t"
    listed = json.loads(run("index", "list", "--json").stdout)
    assert listed["command"] == "index list"
    shown = [(one["name"], one["lag"], one["leaves"]) for one in listed["data"]["indexes"]]
    assert ("dummy", 0, 2) in shown
    found = json.loads(run("search", "Where does Bo live?", "--index", "dummy", "--json").stdout)["data"]
    assert (found["index"], found["trace"]["lag"]) == ("dummy", 0)
    assert run("index", "drop", "dummy").stdout == "Dropped dummy.\n"
    assert "dummy" not in run("index", "list").stdout


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
        (("add", "nosuch"), "'nosuch' is unknown; known: facts, "),
        (("add", "memforest"), "has the index 'memforest' already"),
        (("add", "memforest", "--set", "wide"), "not of the form KEY=VALUE"),
        (("add", "flat", "--set", "wide=1"), "[index.flat] there is no setting wide"),
        (("drop", "dummy"), "this memory has no index 'dummy'; it has: memforest"),
        (("drop", "memforest"), "'memforest' is the only index"),
    ],
)
def test_mistakes_are_one_line(run: Run, args: tuple[str, ...], says: str) -> None:
    """On standard error, with an exit code that is not 0."""
    result = run("index", *args)
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_commands_show_an_index_that_is_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stats`, `verify`, `doctor`, `index list` and `search` do, and `resume` says what it could not move on."""
    assert run("index", "add", "dummy").exit_code == 0
    with sqlite3.connect(file_of(tmp_path / "memories")) as conn:
        conn.execute("UPDATE index_ SET cursor = 0, began = 0 WHERE name = 'dummy'")
    conn.close()
    assert "of the feed behind; `memforest resume` goes on" in run("index", "list").stdout
    assert "index\tdummy; " in run("stats").stdout
    assert "'dummy' has not placed" in run("verify").stdout
    assert "index dummy: " in run("doctor").stdout
    assert "'dummy' has not placed" in run("search", "Where?", "--index", "dummy").stderr

    def boom(self: object, items: Items) -> None:
        raise RuntimeError("boom")

    with monkeypatch.context() as patch:
        patch.setattr("tests_long.dummy_index.index._Placing.place", boom)
        assert "the index dummy is still behind" in run("resume").stdout
        assert json.loads(run("resume", "--json").stdout)["data"]["behind"]["me"]["dummy"] > 0
        assert "(failed: RuntimeError: boom)" in run("index", "list").stdout
    assert "behind" not in run("resume").stdout
    assert run("verify").exit_code == 0


def complete(words: str) -> list[str]:
    """Return what the shell is offered for the last word."""
    count = str(len(words.split(" ")) - 1)
    env = {"COMP_WORDS": words, "COMP_CWORD": count, "_MEMFOREST_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, (), env=env, prog_name="memforest")
    return [line.partition(",")[2] for line in result.stdout.splitlines()]
