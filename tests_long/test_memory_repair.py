"""Tests of `repair` and `memforest maintain repair`: what is derived is made anew, what was said stays as it was."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, summaries

from memforest import MemForest
from memforest.cli import main

BREAKAGES = {
    "words gone": "DELETE FROM derived_turn_words WHERE rowid % 2; DELETE FROM derived_fact_words",
    "stray words": "INSERT INTO derived_fact_words (rowid, words) VALUES (99999, 'stray')",
    "a vector of another text": "UPDATE derived_fact_vector SET digest = x'00'",
    "a vector of another length": "UPDATE derived_turn_vector SET vector = x'003c' WHERE item = 1",
    "a vector not of unit length": "UPDATE derived_turn_vector SET vector = zeroblob(length(vector))",
    "vectors gone": "DELETE FROM derived_turn_vector; DELETE FROM derived_fact_vector; UPDATE artifact SET vector = NULL",
    "summaries gone": "DELETE FROM artifact",
    "summaries that cannot be read": "UPDATE artifact SET text = x'00'",
    "summaries of something else": "UPDATE artifact SET digest = randomblob(12)",
    "summaries' vectors not of unit length": "UPDATE artifact SET vector = zeroblob(length(vector))",
}
NOT_SEEN_BY_VERIFY = {"vectors gone", "summaries gone"}
"""What is only unfinished."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one memory of a few sessions."""
    with MemForest(tmp_path, fast_config()) as forest:
        for name, turns in make_sessions(7, sessions=5, most_turns=12):
            forest.ingest_session("u", name, turns)
        forest.flush("u")
    return tmp_path


def alter(path: Path, sql: str) -> None:
    """Change a file behind memforest's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in sql.split("; "):
            conn.execute(statement)


@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_derived_is_made_anew(folder: Path, name: str) -> None:
    """After `repair` nothing is wrong, and the memory is the one it was, trees and vectors included."""
    before = dump(file_of(folder)), summaries(file_of(folder))
    alter(file_of(folder), BREAKAGES[name])
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").verify().ok == (name in NOT_SEEN_BY_VERIFY)
        report = forest.user("u").repair()
        assert report.ok, report.left
        assert report.did
        assert forest.user("u").verify().ok
        assert forest.user("u").stats().dirty_nodes == 0
    assert differences(before[0], dump(file_of(folder))) == {}
    assert summaries(file_of(folder)) == before[1]


@pytest.mark.parametrize(
    ("name", "sql", "part"),
    [
        ("a turn", "PRAGMA foreign_keys = off; DELETE FROM turn WHERE ordinal = 1", "file"),
        ("a text", "UPDATE fact SET text = 'Somebody wrote this.' WHERE id = 1", "fact"),
        ("a chunk", "UPDATE chunk SET last = last + 1 WHERE id = 1", "session"),
    ],
)
def test_what_was_said_is_left_alone_and_named(folder: Path, name: str, sql: str, part: str) -> None:
    """Turns, facts and chunks cannot be made anew: they stay as they are, and the report says which are wrong."""
    alter(file_of(folder), sql)
    tables = ("session", "turn", "chunk", "fact", "occurrence")

    def said() -> list[Any]:
        with closing(sqlite3.connect(file_of(folder))) as conn:
            return [conn.execute(f"SELECT * FROM {table}").fetchall() for table in tables]

    before = said()
    with MemForest(folder, fast_config()) as forest:
        report = forest.user("u").repair()
    assert not report.ok, name
    assert part in {problem.part for problem in report.left}
    assert said() == before


def test_a_damaged_file_is_not_written_to(folder: Path) -> None:
    """SQLite finds it damaged: no byte of it changes."""
    path = file_of(folder)
    alter(path, "PRAGMA foreign_keys = off; DELETE FROM session WHERE id = 1")
    before = path.read_bytes()
    with MemForest(folder, fast_config()) as forest:
        report = forest.user("u").repair()
        assert (report.did, report.ok) == ((), False)
    assert path.read_bytes() == before


def test_free_space_is_given_back(folder: Path) -> None:
    """A file that has shrunk within is written anew, and still sound."""
    path = file_of(folder)
    alter(path, "CREATE TABLE big (x BLOB); INSERT INTO big VALUES (zeroblob(3000000)); DROP TABLE big")
    size = path.stat().st_size
    with MemForest(folder, fast_config()) as forest:
        report = forest.user("u").repair()
        assert any("gave back" in text for text in report.did)
    assert path.stat().st_size < size / 2


Run = Callable[..., Result]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on the directory."""
    monkeypatch.setenv("MEMFOREST_DIR", str(folder))

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, args, catch_exceptions=False)

    return run


def checks(result: Result, name: str) -> list[dict[str, str]]:
    """Return the checks of one name."""
    return [one for one in json.loads(result.stdout)["data"]["checks"] if one["name"] == name]


def test_doctor_repairs_only_when_asked(run: Run, folder: Path) -> None:
    """`doctor` looks; `maintain repair` says what it did, and `maintain verify` is content."""
    alter(file_of(folder), f"{BREAKAGES['words gone']}; DELETE FROM artifact")
    assert run("maintain", "verify").exit_code == 1
    assert checks(run("doctor", "--json"), "repair") == []
    assert run("maintain", "verify").exit_code == 1
    (done,) = checks(run("maintain", "repair", "--json"), "repair")
    assert done["status"] == "ok"
    assert "made the lexical index anew" in done["detail"]
    assert run("maintain", "verify").exit_code == 0
    (state,) = checks(run("doctor", "--json"), "memory")
    assert state["status"] == "ok"


def test_doctor_repairs_the_others_beside_a_file_it_cannot(run: Run, folder: Path) -> None:
    """Another program's file is named and stays as it is; the memories beside it are repaired."""
    foreign = folder / "other-1.db"
    with closing(sqlite3.connect(foreign)) as conn:
        conn.execute("CREATE TABLE x (y)")
    content = foreign.read_bytes()
    alter(file_of_user(folder), BREAKAGES["words gone"])
    result = run("maintain", "repair", "--json")
    assert result.exit_code == 0
    found = checks(result, "repair")
    assert [one["status"] for one in found] == ["note", "ok"]
    assert "another program's database" in found[0]["fix"]
    assert foreign.read_bytes() == content
    assert run("maintain", "verify", "--user", "u").exit_code == 0


def test_doctor_says_what_it_does_not_repair(run: Run, folder: Path) -> None:
    """A wrong fact is named with what to do, and the exit code is 1."""
    alter(file_of(folder), "UPDATE fact SET text = 'Somebody wrote this.' WHERE id = 1")
    result = run("maintain", "repair", "--json")
    assert result.exit_code == 1
    left = [one for one in checks(result, "repair") if one["status"] == "broken"]
    assert "not repaired" in left[0]["detail"]
    assert "backup" in left[0]["fix"]


def test_doctor_repairs_one_user_when_one_is_named(run: Run, folder: Path) -> None:
    """`--user` leaves the other memories as they are."""
    with MemForest(folder, fast_config()) as forest:
        forest.register_user("other")
    found = checks(run("maintain", "repair", "--user", "other", "--json"), "repair")
    assert [one["detail"].split(":")[0] for one in found] == ["other"]


def test_one_bad_file_does_not_hide_the_others(run: Run, folder: Path) -> None:
    """`list_users` gives the good ones; the program goes on and warns, naming the file."""
    (folder / "broken-0.db").write_bytes(b"this is no database, but long enough" * 9)
    with MemForest(folder, fast_config()) as forest:
        assert forest.list_users() == ["u"]
        assert forest.resume() == []
        forest.load()
    result = run("stats")
    assert result.exit_code == 0
    assert "broken-0.db" in result.stderr
    assert "doctor" in result.stderr


def file_of_user(folder: Path) -> Path:
    """Return the file of "u"."""
    (path,) = folder.glob("u-*.db")
    return path
