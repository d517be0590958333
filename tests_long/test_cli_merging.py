"""`memforest merge`: one memory, of another directory, a dry run, and what has to be said."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said

from memforest import MemForest
from memforest.cli import main

EMBEDDER = ("--embedder", "hash-words-1@32")


@pytest.fixture
def memories(tmp_path: Path) -> Path:
    """A directory with the memories of ann and bob, who both know a Max, in sessions of one id."""
    with MemForest(tmp_path / "here", fast_config()) as forest:
        for user, place in (("ann", "Davis"), ("bob", "Oslo")):
            turns = [*said(f"I live in {place}.", speaker="Max"), *said("Hello!", speaker=user, day=2)]
            forest.ingest_session(user, "s", turns)
    return tmp_path / "here"


def run(folder: Path, *args: str) -> Result:
    """Run the program on a directory."""
    return CliRunner().invoke(main, ["--dir", str(folder), *args], catch_exceptions=False)


def sessions(folder: Path, user: str) -> int:
    """Return how many sessions a memory has."""
    with MemForest(folder, fast_config()) as forest:
        return len(forest.user(user).sessions())


def test_a_dry_run_then_a_merge(memories: Path) -> None:
    """The first says what would be done, and who becomes one; the second does it, and the third finds it done."""
    dry = run(memories, "merge", "bob", "--user", "ann", "--dry-run")
    assert "would be added" in dry.stdout
    assert "Max" in dry.stdout
    assert sessions(memories, "ann") == 1
    done = run(memories, "merge", "bob", "--user", "ann")
    assert (done.exit_code, sessions(memories, "ann")) == (0, 2)
    assert "session s~" in " ".join(done.stdout.split()) or "is called s~" in done.stdout
    again = run(memories, "--json", "merge", "bob", "--user", "ann")
    (merged,) = json.loads(again.stdout)["data"]["merged"].values()
    assert (merged["sessions_added"], merged["sessions_same"]) == (0, 1)


def test_people_are_kept_apart_or_joined(memories: Path) -> None:
    """`--apart` and `--same` reach the merge."""
    found = run(memories, "--json", "merge", "bob", "--user", "ann", "--apart", "Max", "--same", "bob=ann")
    assert json.loads(found.stdout)["data"]["merged"]["ann"]["people"] == {"max": "Max (bob)", "bob": "ann"}


def test_another_directory(memories: Path, tmp_path: Path) -> None:
    """One user's memory of another directory. Vectors must be of one embedder."""
    there = tmp_path / "there"
    what = ("merge", "bob", "--from-dir", str(memories), "--user", "cid")
    refused = run(there, *what, "--embedder", "hash-words-1@64")
    assert refused.exit_code != 0
    assert "hash-words-1@32" in refused.stderr
    assert run(there, *what, *EMBEDDER).exit_code == 0
    assert sessions(there, "cid") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "Missing argument 'FROM'"),
        (("bob",), "give --user"),
        (("ann", "--user", "ann"), "into itself"),
        (("zoe", "--user", "ann"), "zoe"),
        (("bob", "--user", "ann", "--apart", "Zoe"), "nobody and nothing"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_an_error_that_names_the_fix(
    memories: Path, args: tuple[str, ...], words: str
) -> None:
    """And nothing is written."""
    found = run(memories, "merge", *(one.format(memories=memories) for one in args))
    assert found.exit_code != 0
    assert words in " ".join(found.stderr.split())
    assert sessions(memories, "ann") == 1


def test_owners_of_one_name_are_asked_about(tmp_path: Path) -> None:
    """The command says which options answer it."""
    with MemForest(tmp_path, fast_config()) as forest:
        for user in ("sam-1", "sam-2"):
            forest.register_user(user, display_name="Sam")
            forest.user(user).add("I live in Oslo.", session_id=user)
    asked = run(tmp_path, "merge", "sam-2", "--user", "sam-1")
    assert asked.exit_code != 0
    assert "same_person" in asked.stderr
    assert run(tmp_path, "merge", "sam-2", "--user", "sam-1", "--two-people").exit_code == 0
