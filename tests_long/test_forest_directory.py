"""A directory of memories: who is in it, what else is, and what may be written there."""

from __future__ import annotations

import json
import os
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
from click.testing import CliRunner

from memforest import Config, MemForest
from memforest.cli import main
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    InputError,
    MemForestError,
    NotFoundError,
    SchemaVersionError,
    SomeUsersFailedError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
    TimestampError,
)
from memforest.models import HashEmbedder
from memforest.store.database import VERSION
from memforest.store.directory import file_name

TURNS = [{"speaker": "Ann", "text": "I live in Porto.", "timestamp": "2024-01-01"}]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")


def a_forest(folder: Path, **settings: Any) -> MemForest:
    """A forest with the word-overlap embedder."""
    return MemForest(folder, Config(embedder=HashEmbedder(), **settings))


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that everybody can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


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


def leave_unfinished(folder: Path, user: str) -> None:
    """Bring a memory into the state of an interrupted ingest."""
    with closing(sqlite3.connect(folder / file_name(user))) as conn, conn:
        conn.execute("UPDATE session SET status = 'received'")
        conn.execute("UPDATE chunk SET status = 'pending'")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """The memories of a, b and c: a's was made with another embedder, those of b and c are unfinished."""
    with a_forest(tmp_path) as forest:
        for user in ("a", "b", "c"):
            forest.ingest_session(user, "s", TURNS, refresh=False)
    for user in ("b", "c"):
        leave_unfinished(tmp_path, user)
    with closing(sqlite3.connect(tmp_path / file_name("a"))) as conn, conn:
        conn.execute("UPDATE meta SET value = 'other-model' WHERE key = 'embedder'")
    return tmp_path


def test_resume_of_all_does_the_rest_and_names_those_that_failed(three: Path) -> None:
    """The error has the user with its reason, and the results of the others."""
    with a_forest(three) as forest:
        with pytest.raises(SomeUsersFailedError) as error:
            forest.resume()
        assert list(error.value.errors) == ["a"]
        assert [one.session_id for one in error.value.results] == ["s", "s"]
        assert [forest.user(user).stats().unfinished for user in ("b", "c")] == [0, 0]


def test_rebuild_and_load_of_all_do_the_rest(three: Path) -> None:
    """As `resume` does; for one user the error is that user's own."""
    with a_forest(three) as forest:
        for operation in (forest.rebuild, forest.load):
            with pytest.raises(SomeUsersFailedError) as error:
                operation()
            assert list(error.value.errors) == ["a"]
        with pytest.raises(MemForestError, match="other-model"):
            forest.load("a")
        forest.save()


def test_a_damaged_memory_is_named_by_an_operation_over_all(three: Path) -> None:
    """Its user cannot be read, so its file is named; other programs' files are not ours to finish."""
    (three / file_name("a")).write_bytes(b"this was a memory once" * 99)
    (three / "music-1.db").write_bytes(b"this never was a memory" * 99)
    with a_forest(three) as forest:
        with pytest.raises(SomeUsersFailedError, match=file_name("a")) as error:
            forest.resume()
        assert list(error.value.files) == [file_name("a")]
        assert isinstance(error.value.files[file_name("a")], ForeignStoreError)


def test_the_program_resumes_the_rest_and_fails(three: Path) -> None:
    """It says what is up to date and what is not, in words and as data."""
    settings = three / "settings.toml"
    settings.write_text('embedder = "hash-words-1@64"')
    start = ("--dir", str(three), "--config", str(settings), "maintain", "resume")
    result = CliRunner().invoke(main, start)
    assert result.exit_code == 1
    assert "2 sessions finished; up to date: b, c." in result.stdout
    assert "user 'a'" in result.stderr
    found = json.loads(CliRunner().invoke(main, [*start, "--json"]).stdout)
    assert (found["status"], found["data"]["users"], list(found["data"]["errors"])) == (
        "error",
        ["b", "c"],
        ["a"],
    )


def test_listing_writes_nothing(tmp_path: Path) -> None:
    """Not into an empty file, nor into a database without tables, nor beside a memory."""
    with a_forest(tmp_path) as forest:
        forest.ingest_session("u", "s", TURNS)
    (tmp_path / "notes-2024.db").touch()
    with closing(sqlite3.connect(tmp_path / "my-app.db")) as conn, conn:
        conn.execute("PRAGMA user_version = 7")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with a_forest(tmp_path) as forest:
        found = forest.survey()
        assert found.users == ("u",)
        assert [one.file for one in found.unreadable] == ["my-app.db"]
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@POSIX
@pytest.mark.parametrize("name", ["a?b=c&d#e", "100% 'x' ü", "mode=ro"])
def test_any_name_of_a_directory_can_be_listed(tmp_path: Path, name: str) -> None:
    """Signs that mean something in an address are a name's own."""
    with a_forest(tmp_path / name) as forest:
        forest.ingest_session("u", "s", TURNS)
        forest.close()
        assert forest.list_users() == ["u"]


def test_a_user_whose_memory_is_in_use_is_listed(tmp_path: Path) -> None:
    """Another connection may write at the time, and what is only in its log counts."""
    with a_forest(tmp_path) as forest:
        forest.ingest_session("u", "s", TURNS)
        with closing(sqlite3.connect(tmp_path / file_name("u"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert forest.list_users() == ["u"]
            other.execute("ROLLBACK")


def test_a_file_that_stays_locked_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By `survey`, and by a warning of `list_users`: it is not left out without a word."""
    with a_forest(tmp_path) as forest:
        forest.ingest_session("u", "s", TURNS)
    with closing(sqlite3.connect(tmp_path / file_name("u"), isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO meta VALUES ('note', 'changed')")
        other.execute("COMMIT")
        with a_forest(tmp_path) as forest:
            [one] = forest.survey().unreadable
            assert isinstance(one.error, StoreLockedError)
            assert forest.list_users() == []
    assert file_name("u") in caplog.text


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    """Whoever lists, asks or writes is told, and it stays as it is."""
    file = tmp_path / "memories.txt"
    file.write_text("not a directory")
    with a_forest(file) as forest:
        for call in (
            forest.list_users,
            lambda: forest.has_user("u"),
            lambda: forest.query("u", "Where?"),
            lambda: forest.ingest_session("u", "s", TURNS),
        ):
            with pytest.raises(StoreError):
                call()
    with a_forest(tmp_path / "nowhere") as forest:
        assert forest.list_users() == []
        assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("turns", "more"),
    [
        ([], {}),
        ([{"speaker": "Ann"}], {}),
        ([{"speaker": "Ann", "text": "Hello."}], {}),
        (TURNS, {"timestamp": "soon"}),
        (TURNS, {"metadata": {"at": object()}}),
    ],
)
def test_a_first_session_that_is_refused_leaves_no_memory(tmp_path: Path, turns: Any, more: Any) -> None:
    """Alone, among several, or added live: no file, no directory, no user."""
    folder = tmp_path / "forest"
    with a_forest(folder) as forest:
        with pytest.raises(InputError):
            forest.ingest_session("new", "s", turns, **more)
        [result] = forest.ingest_parallel([{"user_id": "new", "session_id": "s", "turns": turns, **more}])
        assert isinstance(result, InputError)
        if turns != [{"speaker": "Ann", "text": "Hello."}]:  # the clock stamps what is live
            with pytest.raises(InputError):
                forest.user("new").add(turns, **more)
        assert not forest.has_user("new")
        assert not folder.exists()


def test_one_good_session_makes_the_memory(tmp_path: Path) -> None:
    """Those that are refused beside it keep their own reasons."""
    sessions: list[dict[str, Any]] = [
        {"user_id": "new", "session_id": "none", "turns": []},
        {"user_id": "new", "session_id": "untimed", "turns": [{"speaker": "Ann", "text": "Hello."}]},
    ]
    good = {"user_id": "new", "session_id": "good", "turns": TURNS}
    with a_forest(tmp_path) as forest:
        empty, untimed = forest.ingest_parallel(sessions)
        assert (type(empty), type(untimed)) == (InputError, TimestampError)
        empty, untimed, stored = forest.ingest_parallel([*sessions, good])
        assert (type(empty), type(untimed)) == (InputError, TimestampError)
        assert not isinstance(stored, MemForestError)
        assert forest.list_users() == ["new"]


def test_an_embedder_that_cannot_be_had_leaves_no_memory(tmp_path: Path) -> None:
    """It is looked for before the file is made; one that fails later leaves what is stored."""
    folder = tmp_path / "forest"
    with MemForest(folder, Config(embedder="minilm-l6-v2-int8@00000000")) as forest:
        with pytest.raises(MemForestError, match="00000000"):
            forest.ingest_session("new", "s", TURNS)
        assert not forest.has_user("new")
        assert not folder.exists()

    def broken(texts: list[str]) -> Any:
        raise OSError("the model is gone")

    with MemForest(folder, Config(embedder=broken)) as forest:
        with pytest.raises(MemForestError):
            forest.ingest_session("new", "s", TURNS)
        assert forest.has_user("new")
        assert forest.user("new").stats().turns == 1


def test_a_file_without_an_owner_is_no_user(tmp_path: Path) -> None:
    """What a full disk leaves of a memory that was never begun."""
    (tmp_path / file_name("u")).touch()
    with a_forest(tmp_path) as forest:
        assert not forest.has_user("u")
        assert not forest.query("u", "Where?")


def modes(*paths: Path) -> set[int]:
    """Return the permissions of files."""
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_files_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    """Database, log and index 0600, the directory that is made 0700, whatever the umask."""
    code = (
        "import os, sys; from memforest import Config, MemForest\n"
        f"os.umask({umask}); forest = MemForest(sys.argv[1], Config(embedder='none'))\n"
        f"forest.ingest_session('u', 's', {TURNS!r}); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "forest")], check=True, timeout=50)
    assert modes(tmp_path / "forest") == {0o700}
    assert len(list((tmp_path / "forest").iterdir())) == 3
    assert modes(*(tmp_path / "forest").iterdir()) == {0o600}


@POSIX
def test_a_memory_that_others_could_read_is_taken_back(tmp_path: Path) -> None:
    """As soon as its owner opens it to write; looking changes nothing, nor is a directory of one's own changed."""
    tmp_path.chmod(0o755)
    path = tmp_path / file_name("u")
    with a_forest(tmp_path) as forest:
        forest.ingest_session("u", "s", TURNS)
    path.chmod(0o644)
    with a_forest(tmp_path) as forest:
        assert forest.list_users() == ["u"]
        assert modes(path) == {0o644}
        forest.query("u", "Where does Ann live?")
        assert modes(path, *tmp_path.glob("*-wal")) == {0o600}
    assert modes(tmp_path) == {0o755}


@POSIX
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_readable_memory_is_said(tmp_path: Path) -> None:
    """Its mode is not ours to change."""
    path = tmp_path / file_name("u")
    with a_forest(tmp_path) as forest:
        forest.ingest_session("u", "s", TURNS)
    path.chmod(0o644)
    os.chown(path, 65534, 65534)
    with a_forest(tmp_path) as forest:
        assert "more than its owner can read it" in forest.query("u", "Where?").warnings[0]
    assert modes(path) == {0o644}


@POSIX
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_the_place_of_a_memory_is_refused(tmp_path: Path, there: bool) -> None:
    """Nothing is written to where it leads; the directory may be a link."""
    elsewhere, folder = tmp_path / "elsewhere.db", tmp_path / "forest"
    folder.mkdir()
    if there:
        elsewhere.touch()
    (folder / file_name("u")).symlink_to(elsewhere)
    with a_forest(folder) as forest, pytest.raises(ForeignStoreError):
        forest.ingest_session("u", "s", TURNS)
    assert elsewhere.exists() == there
    assert not there or elsewhere.read_bytes() == b""
    (tmp_path / "linked").symlink_to(folder)
    with a_forest(tmp_path / "linked") as forest:
        forest.ingest_session("v", "s", TURNS)
        assert forest.list_users() == ["v"]


@POSIX
def test_a_directory_that_cannot_be_written_can_be_searched(open_place: Path) -> None:
    """With and without a log beside the file; a write there is refused, and listing is not silently empty."""
    folder = open_place / "forest"
    with a_forest(folder) as forest:
        forest.ingest_session("u", "s", TURNS)
    code = (
        "import os, sys; from memforest import Config, MemForest\n"
        "forest = MemForest(sys.argv[1], Config(embedder='hash-words-1@64')); "
        f"forest.ingest_session('v', 's', {TURNS!r}); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=50)
    assert (folder / f"{file_name('v')}-wal").stat().st_size
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm"}
    with as_nobody(), a_forest(folder) as forest:
        assert forest.list_users() == ["u", "v"]
        for user in ("u", "v"):
            [found] = forest.query(user, "Where does Ann live?").evidence
            assert found.text == "I live in Porto."
            assert forest.user(user).verify().ok
            with pytest.raises(StoreWriteError, match="read-only"):
                forest.ingest_session(user, "s2", TURNS)
        with pytest.raises(StoreWriteError):
            forest.ingest_session("new", "s", TURNS)
    folder.chmod(0o755)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm"} == before


@POSIX
def test_what_cannot_be_read_without_writing_is_said(open_place: Path) -> None:
    """A log without its index, and a file of another schema: each is an error of ours that says which."""
    folder = open_place / "forest"
    with a_forest(folder) as forest:
        forest.ingest_session("u", "s", TURNS)
        forest.ingest_session("other", "s", TURNS)
        forest.save("other")
        (folder / "kept").write_bytes((folder / f"{file_name('u')}-wal").read_bytes())
    (folder / "kept").rename(folder / f"{file_name('u')}-wal")
    with closing(sqlite3.connect(folder / file_name("other"))) as conn, conn:
        conn.execute(f"PRAGMA user_version = {VERSION + 1}")
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    with as_nobody(), a_forest(folder) as forest:
        with pytest.raises(StoreWriteError):
            forest.query("u", "Where does Ann live?")
        with pytest.raises(SchemaVersionError):
            forest.query("other", "Where does Ann live?")
    folder.chmod(0o755)


@POSIX
def test_a_read_only_memory_that_is_written_elsewhere_is_read_anew(open_place: Path) -> None:
    """Whoever may write does so beside a reader who may not; the reader sees it at its next question."""
    folder = open_place / "forest"
    with a_forest(folder) as forest:
        forest.ingest_session("u", "s", TURNS)
    folder.chmod(0o555)
    (folder / file_name("u")).chmod(0o444)
    with a_forest(folder) as reader:
        with as_nobody():
            assert reader.user("u").stats().turns == 1
        folder.chmod(0o755)
        (folder / file_name("u")).chmod(0o644)
        with a_forest(folder) as writer:
            writer.ingest_session("u", "later", [{**TURNS[0], "text": "I moved to Rome."}])
        folder.chmod(0o555)
        (folder / file_name("u")).chmod(0o444)
        with as_nobody():
            assert reader.user("u").stats().turns == 2
    folder.chmod(0o755)


@POSIX
def test_a_directory_that_cannot_be_listed_is_named(open_place: Path) -> None:
    """It is not taken for an empty one."""
    folder = open_place / "forest"
    folder.mkdir(mode=0o000)
    folder.chmod(0o000)
    with as_nobody(), a_forest(folder) as forest, pytest.raises(StoreError):
        forest.list_users()
    folder.chmod(0o755)


def test_the_error_of_several_users_can_be_sent(three: Path) -> None:
    """A process pool pickles what it raises."""
    import pickle

    error = SomeUsersFailedError(
        "resume", {"a": NotFoundError("no")}, {"f.db": CorruptStoreError("bad")}, [1]
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.results) == (str(error), [1])
    assert again.errors.keys() == {"a"}
