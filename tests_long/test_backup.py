"""Backups: of one moment while others write, checked, private, whole or not there; and restoring them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, eager_config, fast_config, file_of, make_sessions, said

from memforest import MemForest
from memforest.concurrency import Ended
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    InputError,
    NotFoundError,
    SomeUsersFailedError,
    StoreWriteError,
)
from memforest.store import upkeep as copying
from memforest.store.connections import Connection
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.store.files import DatabaseFile, new_file

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")


@pytest.fixture
def filled(folder: Path) -> Path:
    """A directory with the memories of u and v, closed."""
    with MemForest(folder / "a", eager_config()) as forest:
        for name, turns in make_sessions(3, sessions=4):
            forest.ingest_session("u", name, turns)
        forest.ingest_session("v", "s", said("I live in Lima."))
    return folder / "a"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Take root's privileges away for a while: it may write everywhere."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def evidence(forest: MemForest) -> list[tuple[str, str]]:
    """Return what u's memory finds."""
    return [(one.text, one.score.hex()) for one in forest.query("u", "Where does Ana live?", top_k=50)]


def test_a_backup_is_an_equal_memory(filled: Path, folder: Path) -> None:
    """One file with everything in it, private, which says what it holds."""
    before = os.umask(0)
    try:
        with MemForest(filled, eager_config()) as forest:
            done = forest.user("u").backup(folder / "u.bak")
            found = evidence(forest)
    finally:
        os.umask(before)
    assert (done.user_id, done.sessions, done.turns) == (
        "u",
        4,
        len(rows_of(filled / file_name("u"), "turn")),
    )
    assert done.bytes == (folder / "u.bak").stat().st_size
    assert sorted(one.name for one in folder.iterdir()) == ["a", "u.bak"]
    if sys.platform != "win32":
        assert stat.S_IMODE((folder / "u.bak").stat().st_mode) == 0o600
    assert dump(folder / "u.bak") == dump(filled / file_name("u"))
    with MemForest(folder / "b", eager_config()) as forest:
        assert forest.restore(folder / "u.bak") == "u"
        assert evidence(forest) == found
        assert forest.user("u").verify().problems == ()


def rows_of(path: Path, table: str) -> list[Any]:
    """Return the ids of a table."""
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(f"SELECT id FROM {table}").fetchall()


def test_what_is_written_meanwhile_is_not_in_a_backup(
    filled: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the moment at which it began, however often others write between its steps, and does not begin anew."""
    monkeypatch.setattr(copying, "PAGES", 8)
    steps = 0
    with MemForest(filled, eager_config()) as forest:
        database = Database(filled / file_name("u"))
        turns = forest.user("u").stats().turns

        def write() -> None:
            nonlocal steps
            steps += 1
            if steps % 5 == 1:
                forest.ingest_session("u", f"late {steps}", said("I sold the tent to Bob."))

        (folder / "u.bak").touch()
        assert copying.copy_database(database, folder / "u.bak", write).turns == turns
        database.close()
        pages = (folder / "u.bak").stat().st_size // 4096
        assert steps <= pages // 8 + 2
        assert forest.user("u").stats().turns >= turns + 3
    assert len(rows_of(folder / "u.bak", "turn")) == turns


def test_backups_while_another_process_writes(filled: Path, folder: Path) -> None:
    """Each of them is a sound memory with what had been acknowledged before it began."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from tests_long.worlds import *; from memforest import MemForest\n"
        "with MemForest(sys.argv[1], eager_config()) as forest:\n"
        "    for name, turns in make_sessions(8, sessions=12):\n"
        "        forest.ingest_session('u', 'other ' + name, turns); print(name, flush=True)\n"
    )
    root = str(Path(__file__).parent.parent)
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(filled), root], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    done = 0
    with MemForest(filled, eager_config()) as forest:
        for acknowledged, _ in enumerate(writer.stdout, 1):
            result = forest.user("u").backup(folder / "u.bak", overwrite=True)
            assert result.sessions >= 4 + acknowledged
            shutil.rmtree(folder / "b", ignore_errors=True)
            with MemForest(folder / "b", eager_config()) as other:
                other.restore(folder / "u.bak")
                assert other.user("u").verify().problems == ()
            done += 1
    assert (writer.wait(), done) == (0, 12)
    writer.stdout.close()


def test_a_target_that_is_there_is_not_overwritten_unasked(filled: Path, folder: Path) -> None:
    """A file, a link, a directory, a place that is not there; nothing is left beside it."""
    taken, link = folder / "x.bak", folder / "link.bak"
    taken.write_text("mine")
    link.symlink_to(taken)
    with MemForest(filled, eager_config()) as forest:
        for target in (taken, link):
            with pytest.raises(InputError):
                forest.user("u").backup(target)
        with pytest.raises(InputError):
            forest.user("u").backup(folder, overwrite=True)
        with pytest.raises(InputError):
            forest.user("u").backup(folder / "nowhere" / "x")
        with pytest.raises(NotFoundError):
            forest.user("nobody").backup(folder / "y")
        forest.user("u").backup(link, overwrite=True)
    assert taken.read_text() == "mine"
    assert not link.is_symlink()
    assert sorted(one.name for one in folder.iterdir()) == ["a", "link.bak", "x.bak"]


def test_a_damaged_file_makes_no_backup(filled: Path, folder: Path) -> None:
    """SQLite's check of the copy finds what is wrong with the original; the last good backup stays."""
    path = filled / file_name("u")
    with MemForest(filled, eager_config()) as forest:
        forest.user("u").backup(folder / "u.bak")
    good = (folder / "u.bak").read_bytes()
    raw = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as conn:
        [root] = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'occurrence_fact'").fetchone()
    raw[(root - 1) * 4096 + 8 : (root - 1) * 4096 + 200] = b"\xff" * 192
    path.write_bytes(raw)
    with MemForest(filled, eager_config()) as forest, pytest.raises(CorruptStoreError, match="damaged"):
        forest.user("u").backup(folder / "u.bak", overwrite=True)
    assert (folder / "u.bak").read_bytes() == good
    assert sorted(one.name for one in folder.iterdir()) == ["a", "u.bak"]


def test_damaged_turns_are_named_and_copied(filled: Path, folder: Path) -> None:
    """A backup of what there is beats none; `verify` names them in the memory too."""
    with closing(sqlite3.connect(filled / file_name("v"))) as conn, conn:
        conn.execute("UPDATE turn SET text = 'I live in Rome.'")
    with MemForest(filled, eager_config()) as forest:
        [named] = forest.user("v").backup(folder / "v.bak").damaged
    assert named == "turn '0' (number 0) of session 's'"


class Forgetful(Connection):
    """Loses a turn when it is closed, as a disk may."""

    def close(self) -> None:
        """Close without the last turn."""
        self.execute("DELETE FROM turn WHERE id = (SELECT max(id) FROM turn)")
        super().close()


class ForgetfulFile(DatabaseFile):
    """A file to which what is written does not all come."""

    def connect(self, timeout_s: float) -> Connection:
        """Return a connection that loses something."""
        return sqlite3.connect(self.path, isolation_level=None, factory=Forgetful)


def test_a_copy_that_differs_is_refused(filled: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is read back and compared with what was copied, turn by turn."""
    monkeypatch.setattr(copying, "DatabaseFile", ForgetfulFile)
    refused = pytest.raises(CorruptStoreError)
    with MemForest(filled, eager_config()) as forest, refused:
        forest.user("u").backup(folder / "u.bak")
    assert [one.name for one in folder.iterdir()] == ["a"]


def test_a_disk_that_fills_leaves_no_half_backup(
    filled: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and names the file that was to be written."""

    class Small(DatabaseFile):
        def connect(self, timeout_s: float) -> Connection:
            conn = super().connect(timeout_s)
            conn.execute("PRAGMA max_page_count = 20")
            return conn

    monkeypatch.setattr(copying, "DatabaseFile", Small)
    with MemForest(filled, eager_config()) as forest:
        with pytest.raises(StoreWriteError):
            forest.user("u").backup(folder / "u.bak")
        monkeypatch.undo()
        assert forest.user("u").backup(folder / "u.bak").sessions == 4
    assert sorted(one.name for one in folder.iterdir()) == ["a", "u.bak"]


def test_a_backup_that_is_ended_leaves_nothing(filled: Path, folder: Path) -> None:
    """Between two of its steps, as when the caller is cancelled."""
    database = Database(filled / file_name("u"))

    def end() -> None:
        raise Ended

    with pytest.raises(Ended), new_file(folder / "u.bak", overwrite=False) as path:
        copying.copy_database(database, path, end)
    database.close()
    assert [one.name for one in folder.iterdir()] == ["a"]


@POSIX
def test_a_memory_that_cannot_be_written_is_exported_and_backed_up() -> None:
    """Neither leaves a trace beside it."""
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "a", Path(place) / "out"
        Path(place).chmod(0o755)
        out.mkdir()
        out.chmod(0o777)
        with MemForest(folder, fast_config()) as forest:
            forest.ingest_session("u", "s", said("I live in Lima.", "I bought a tent."))
        folder.chmod(0o555)
        (folder / file_name("u")).chmod(0o444)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with as_nobody(), MemForest(folder, fast_config()) as forest:
            assert forest.user("u").export(out / "x.jsonl").turns == 2
            assert forest.user("u").backup(out / "u.bak").turns == 2
            assert [turn.text for turn in forest.user("u").turns("s")] == [
                "I live in Lima.",
                "I bought a tent.",
            ]
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        folder.chmod(0o755)


def test_all_memories_are_copied_into_a_directory_of_memories(filled: Path, folder: Path) -> None:
    """It can be opened as it is; of one user too; and copies that are there stay unless asked."""
    with MemForest(filled, eager_config()) as forest:
        assert [one.user_id for one in forest.backup(folder / "copy")] == ["u", "v"]
        found = evidence(forest)
        with pytest.raises(SomeUsersFailedError) as failed:
            forest.backup(folder / "copy")
        assert sorted(failed.value.errors) == ["u", "v"]
        [one] = forest.backup(folder / "copy", "v", overwrite=True)
        assert one.path == str(folder / "copy" / file_name("v"))
        with pytest.raises(InputError):
            forest.backup(folder / "copy" / ".." / "a", overwrite=True)
        with pytest.raises(NotFoundError):
            forest.backup(folder / "copy", "nobody")
    if sys.platform != "win32":
        assert stat.S_IMODE((folder / "copy").stat().st_mode) == 0o700
    with MemForest(folder / "copy", eager_config()) as forest:
        assert forest.list_users() == ["u", "v"]
        assert evidence(forest) == found


def test_one_memory_that_fails_does_not_keep_the_others_from_their_backup(filled: Path, folder: Path) -> None:
    """The error names it, and `.results` are those that were copied."""
    (filled / file_name("u")).write_bytes(b"\0" * 5000)
    with MemForest(filled, eager_config()) as forest, pytest.raises(SomeUsersFailedError) as failed:
        forest.backup(folder / "copy")
    assert list(failed.value.files) == [file_name("u")]
    assert [one.user_id for one in failed.value.results] == ["v"]


def test_a_backup_is_restored_only_where_there_is_no_memory(filled: Path, folder: Path) -> None:
    """Neither a memory nor its log is overwritten, and the backup stays as it was."""
    with MemForest(filled, eager_config()) as forest:
        forest.user("u").backup(folder / "u.bak")
        before = (folder / "u.bak").read_bytes()
        with pytest.raises(InputError):
            forest.restore(folder / "u.bak")
    with MemForest(folder / "b", eager_config()) as forest:
        assert forest.restore(folder / "u.bak") == "u"
    path = folder / "b" / file_name("u")
    assert dump(path) == dump(folder / "u.bak")
    path.rename(path.with_name(path.name + "-wal"))
    with MemForest(folder / "b", eager_config()) as forest, pytest.raises(InputError, match=r"db-wal'\)"):
        forest.restore(folder / "u.bak")
    assert (folder / "u.bak").read_bytes() == before


def test_what_is_no_backup_is_not_restored(forest: MemForest, tmp_path: Path) -> None:
    """Another program's file, an empty one, a truncated one, none."""
    forest.ingest_session("u", "s", said("I live in Lima."))
    forest.user("u").backup(tmp_path / "u.bak")
    (tmp_path / "text").write_text("hello" * 1000)
    (tmp_path / "short").write_bytes((tmp_path / "u.bak").read_bytes()[:30_000])
    with closing(sqlite3.connect(tmp_path / "other")) as conn, conn:
        conn.execute("CREATE TABLE mine (x)")
    with MemForest(tmp_path / "b", fast_config()) as other:
        with pytest.raises(InputError):
            other.restore(tmp_path / "nothing")
        with pytest.raises(ForeignStoreError):
            other.restore(tmp_path / "text")
        with pytest.raises(ForeignStoreError):
            other.restore(tmp_path / "other")
        with pytest.raises(CorruptStoreError):
            other.restore(tmp_path / "short")
        assert other.list_users() == []
    assert file_name("u") == file_of(tmp_path / "forest").name
