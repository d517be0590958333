"""A memory's file in the file system, what SQLite says of it, and which error of ours that becomes."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.table import each

from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    InputError,
    MemForestError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreReplacedError,
    StoreWriteError,
)
from memforest.store.connections import (
    UNEXPECTED,
    Connection,
    connect,
    is_of_file,
    mapped_errors,
    set_up_reader,
    set_up_writer,
    sqlite_abilities,
    sqlite_damage,
    transaction,
)
from memforest.store.database import MAX_IDLE_READERS, Database
from memforest.store.files import DatabaseFile, identity_of, state_of
from memforest.store.upkeep import vacuum

PATH = Path("/somewhere/ana-12.db")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="modes are left to the system")


@pytest.fixture
def path(folder: Path) -> Path:
    """The path of a database that there is, with one row and no log."""
    made = folder / "m.db"
    with closing(sqlite3.connect(made)) as conn:
        conn.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)")
        conn.execute("INSERT INTO item VALUES (1, 'a')")
        conn.commit()
    return made


MAPPED = [
    (sqlite3.OperationalError("database is locked"), StoreLockedError, "try again when it is done"),
    (sqlite3.OperationalError("database table is locked: item"), StoreLockedError, "another process"),
    (sqlite3.DatabaseError("file is not a database"), ForeignStoreError, "use another directory"),
    (sqlite3.DatabaseError("database disk image is malformed"), CorruptStoreError, "restore it from a backup"),
    (sqlite3.DatabaseError("vtable constructor failed: words"), CorruptStoreError, "restore it from a backup"),
    (sqlite3.DatabaseError("fts5: corrupt structure record"), CorruptStoreError, "restore it from a backup"),
    (sqlite3.OperationalError("attempt to write a readonly database"), StoreWriteError, "read-only"),
    (sqlite3.OperationalError("database or disk is full"), StoreWriteError, "free some space and run resume()"),
    (sqlite3.OperationalError("unable to open database file"), StoreWriteError, "check the directory"),
    (sqlite3.OperationalError("disk I/O error"), StoreWriteError, "check the directory"),
    (sqlite3.ProgrammingError("Cannot operate on a closed database."), StoreClosedError, "was closed"),
    (sqlite3.OperationalError("something new"), StoreError, "something new"),
    (OSError(13, "Permission denied"), StoreWriteError, "Permission denied; check the directory"),
    (OSError("odd"), StoreWriteError, "odd; check the directory"),
]  # fmt: skip


@each(("error", "kind", "message"), MAPPED)
def test_an_error_of_the_file_is_one_of_ours_that_names_it(
    error: Exception, kind: type[StoreError], message: str
) -> None:
    """With what to do, and from the error that it was; whatever is not the file's goes through."""
    with pytest.raises(StoreError) as caught, mapped_errors(PATH):
        raise error
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert "'ana-12.db'" in str(caught.value)
    assert "/somewhere" not in str(caught.value)
    assert caught.value.__cause__ is error


@each("error", [one("x") for one in (*UNEXPECTED, InputError, RuntimeError)])
def test_a_mistake_in_the_code_is_not_taken_for_damage(error: Exception) -> None:
    """Neither where nothing is looked at, nor where nothing is found."""
    for diagnosis in (None, lambda: None):
        with pytest.raises(type(error)) as caught, mapped_errors(PATH, diagnosis):
            raise error
        assert caught.value is error


@each("error", [*(one("x") for one in UNEXPECTED), sqlite3.IntegrityError("UNIQUE constraint failed"),
                                   sqlite3.DatabaseError("database disk image is malformed"), InputError("x")])  # fmt: skip
def test_an_error_that_only_damage_causes_tells_of_the_damage(error: Exception) -> None:
    """When it is found; of our errors only where they are suspect."""
    found = mapped_errors(PATH, lambda: "two heads", InputError)
    with pytest.raises(CorruptStoreError) as caught, found:
        raise error
    assert caught.value.__cause__ is error
    if isinstance(error, InputError):
        with pytest.raises(InputError), mapped_errors(PATH, lambda: "two heads"):
            raise error


@each("error", [one for one, kind, _ in MAPPED if kind not in (StoreError, CorruptStoreError)])
def test_a_file_that_cannot_be_used_now_is_not_looked_into(error: Exception) -> None:
    """A diagnosis would wait for the same lock, or fail for the same reason."""
    looked: list[int] = []
    with pytest.raises(StoreError), mapped_errors(PATH, lambda: looked.append(1) or "x"):  # type: ignore[func-returns-value]
        raise error
    assert looked == []


@each(
    ("error", "expected"),
    [
        *((error, True) for error, kind, _ in MAPPED if kind is not StoreError and not isinstance(error, (OSError, sqlite3.ProgrammingError))),
        (StoreLockedError("x"), True), (CorruptStoreError("x"), True), (StoreError("x"), False),
        (MemForestError("x"), False), (ValueError("x"), False), (sqlite3.OperationalError("no such table: ix_full"), False),
        (sqlite3.OperationalError('near "FULL": syntax error'), False),
        (sqlite3.OperationalError("table ix_locked has no column named busy"), False), (sqlite3.OperationalError("table ix_readonly already exists"), False), (sqlite3.OperationalError("something new"), False),
        (sqlite3.IntegrityError("database is locked"), False), (sqlite3.InterfaceError("disk I/O error"), False),
    ],
)  # fmt: skip
def test_whose_an_error_is(error: Exception, expected: bool) -> None:
    """The file's, or that of the code that met it; a statement that is refused says nothing against the file."""
    assert is_of_file(error) is expected


def test_damage_that_sqlite_finds_says_what_to_do(path: Path) -> None:
    """Of a sound file nothing is said; one that cannot be read says why."""
    with closing(connect(path, 1.0)) as conn:
        assert sqlite_damage(conn) is None
        conn.execute("PRAGMA writable_schema = on")
        conn.execute("UPDATE sqlite_schema SET rootpage = 77")
    with closing(connect(path, 1.0)) as conn:
        assert str(sqlite_damage(conn)).endswith("; restore it from a backup")
    path.write_bytes(b"x" * 4096)
    with closing(connect(path, 1.0)) as conn:
        assert sqlite_damage(conn) == "file is not a database; restore it from a backup"


def test_damage_is_told_whose_name_cannot_be_read(path: Path) -> None:
    """SQLite's error names a table by the bytes that stand in the file now, and Python cannot read the error."""
    with closing(connect(path, 1.0)) as conn:
        conn.execute('CREATE TABLE "é" (a)')
        conn.execute("PRAGMA writable_schema = on")
        conn.execute("UPDATE sqlite_schema SET sql = 'CREATE' WHERE name = 'é'")
        conn.execute("PRAGMA wal_checkpoint(truncate)")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\x96\x96"))
    with closing(connect(path, 1.0)) as conn:
        assert sqlite_damage(conn) == "the name of a table cannot be read; restore it from a backup"


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_new_file_is_its_owners_alone(folder: Path, umask: int) -> None:
    """Whatever the umask takes away or leaves."""
    before = os.umask(umask)
    try:
        made = DatabaseFile(folder / "m.db", readonly=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert (made.private, made.existed, made.readonly) == (True, False, False)


@POSIX
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o601])
def test_rights_of_others_are_taken_when_a_file_is_to_be_written(path: Path, mode: int) -> None:
    """Of the log and its index too; one that is only looked at is left as it is."""
    files = [path, path.with_name("m.db-wal"), path.with_name("m.db-shm")]
    for one in files:
        one.touch()
        one.chmod(mode)
    DatabaseFile(path, readonly=True)
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {mode}
    assert DatabaseFile(path, readonly=False).private
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


@POSIX
def test_a_link_beside_the_file_leads_nowhere(path: Path) -> None:
    """What it leads to keeps its rights."""
    other = path.with_name("other")
    other.touch()
    other.chmod(0o644)
    path.with_name("m.db-wal").symlink_to(other)
    assert DatabaseFile(path, readonly=False).private
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_refused(folder: Path, readonly: bool, there: bool) -> None:
    """Even one to nowhere, which would make a file there."""
    target, link = folder / "target.db", folder / "m.db"
    if there:
        target.write_bytes(b"x" * 600)
    link.symlink_to(target)
    with pytest.raises(ForeignStoreError):
        DatabaseFile(link, readonly=readonly)
    assert target.exists() is there


@pytest.mark.parametrize(("size", "refused"), [(0, False), (1, True), (511, True), (512, False)])
def test_what_is_too_small_for_a_database_is_refused(folder: Path, size: int, refused: bool) -> None:
    """SQLite would take a file of one byte for an empty one, and write over it."""
    made = folder / "m.db"
    made.write_bytes(b"x" * size)
    if refused:
        with pytest.raises(ForeignStoreError):
            DatabaseFile(made, readonly=False)
    else:
        assert DatabaseFile(made, readonly=False).existed is (size > 0)
    assert made.read_bytes() == b"x" * size


def test_a_file_that_is_only_looked_at_is_not_made(folder: Path) -> None:
    """That it is not there is an error of the file system."""
    with pytest.raises(FileNotFoundError):
        DatabaseFile(folder / "m.db", readonly=True)
    assert list(folder.iterdir()) == []


def test_looking_leaves_no_trace(path: Path) -> None:
    """No log, no index, no change; and writing is refused."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode = wal")
    before = state_of(path)
    file = DatabaseFile(path, readonly=True)
    with closing(file.connect(1.0)) as conn:
        assert conn.execute("SELECT text FROM item").fetchall() == [("a",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            conn.execute("DELETE FROM item")
        assert [one.name for one in path.parent.iterdir()] == ["m.db"]
    assert (state_of(path), file.outdated) == (before, False)
    file.check_unchanged()


@pytest.mark.parametrize("logged", [True, False])
def test_a_file_that_is_written_while_it_is_looked_at_is_noticed(path: Path, logged: bool) -> None:
    """What was read from one without a log may be of two states; with a log it is of one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        if logged:
            conn.execute("PRAGMA journal_mode = wal")
            conn.execute("INSERT INTO item VALUES (2, 'b')")
        file = DatabaseFile(path, readonly=True)
        with closing(file.connect(1.0)) as seen:
            assert seen.execute("SELECT count(*) FROM item").fetchone()[0] == 1 + logged
            conn.executemany("INSERT INTO item (text) VALUES (?)", [("x" * 999,)] * 20)
            assert file.outdated
            if logged:
                file.check_unchanged()
            else:
                with pytest.raises(StoreLockedError):
                    file.check_unchanged()
        with closing(file.connect(1.0)) as again:
            assert again.execute("SELECT count(*) FROM item").fetchone()[0] == 21 + logged
            assert not file.outdated


@pytest.mark.parametrize("name", ["m.db", "a b%20c?d#e.db", "zoë \u202e犬.db", "m&mode=rw.db"])
def test_a_file_of_any_name_is_looked_at(folder: Path, name: str) -> None:
    """No character of it is read as one of the address by which SQLite opens it."""
    made = folder / name
    with closing(sqlite3.connect(made)) as conn:
        conn.execute("CREATE TABLE item (id INTEGER)")
    with closing(DatabaseFile(made, readonly=True).connect(1.0)) as seen:
        assert seen.execute("SELECT count(*) FROM item").fetchone() == (0,)
    assert [one.name for one in folder.iterdir()] == [name]


def test_a_file_is_another_when_it_was_put_in_its_place(path: Path) -> None:
    """Whatever its bytes; one that was written is the same, and one that is gone is none."""
    before = identity_of(path)
    with path.open("ab") as written:
        written.write(b"x")
    assert identity_of(path) == before
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    assert identity_of(copy) != before
    copy.replace(path)
    assert identity_of(path) not in (before, None)
    path.unlink()
    assert identity_of(path) is None


def test_the_state_of_a_file_counts_its_log(path: Path) -> None:
    """Which is what grows when somebody writes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        assert state_of(path)[3] == 0
        conn.execute("PRAGMA journal_mode = wal")
        conn.execute("INSERT INTO item VALUES (2, 'b')")
        assert state_of(path)[3] == path.with_name("m.db-wal").stat().st_size > 0


def failing(conn: Connection, error: type[BaseException]) -> None:
    """Write, leave a query unread, and fail."""
    conn.execute("DELETE FROM item")
    rows = conn.execute("SELECT * FROM item UNION ALL SELECT 1, 2 UNION ALL SELECT 3, 4")
    next(rows)
    raise error("mine")


def ended(conn: Connection) -> None:
    """End the transaction, as a full disk does, and fail."""
    conn.execute("ROLLBACK")
    raise ValueError("mine")


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing(
    path: Path, writes: bool, error: type[BaseException]
) -> None:
    """Not even an open one: the next begins at once."""
    with closing(connect(path, 1.0)) as conn:
        with pytest.raises(error), transaction(conn, writes=writes):
            failing(conn, error)
        assert not conn.in_transaction
        with transaction(conn):
            assert conn.execute("SELECT count(*) FROM item").fetchone() == (1,)


def test_a_query_that_was_not_read_to_its_end_keeps_no_old_state(path: Path) -> None:
    """Though whoever caught the error holds on to it: the next transaction sees what was written since."""
    with closing(connect(path, 1.0)) as conn, closing(connect(path, 1.0)) as other:
        set_up_writer(other)
        with pytest.raises(KeyError) as caught, transaction(conn):
            failing(conn, KeyError)
        other.execute("INSERT INTO item VALUES (5, 'e')")
        with transaction(conn):
            assert conn.execute("SELECT count(*) FROM item").fetchone() == (2,)
        assert caught.value.__traceback__ is not None


def test_a_transaction_that_only_reads_writes_nothing(path: Path) -> None:
    """One that writes does, also when the engine has ended it already."""
    with closing(connect(path, 1.0)) as conn:
        with transaction(conn):
            conn.execute("INSERT INTO item VALUES (2, 'b')")
        with transaction(conn, writes=True):
            conn.execute("INSERT INTO item VALUES (3, 'c')")
        assert conn.execute("SELECT id FROM item").fetchall() == [(1,), (3,)]
        with pytest.raises(ValueError, match="mine"), transaction(conn, writes=True):
            ended(conn)


def test_a_reader_cannot_write_and_a_writer_keeps_every_promise(path: Path) -> None:
    """A pragma that SQLite does not take is an error, not a promise that is broken in silence."""
    with closing(connect(path, 1.0)) as conn:
        set_up_writer(conn)
        conn.execute("INSERT INTO item VALUES (2, 'b')")
        set_up_reader(conn)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            conn.execute("INSERT INTO item VALUES (3, 'c')")
    refused = pytest.raises(StoreError)
    with closing(connect(":memory:", 1.0)) as conn, refused:
        set_up_writer(conn)


def test_a_text_that_is_no_text_any_more_can_be_read(path: Path) -> None:
    """With a sign in the place of what cannot."""
    with closing(connect(path, 1.0)) as conn:
        assert conn.execute("SELECT CAST(x'41ff42' AS TEXT)").fetchone() == ("A\ufffdB",)


def test_readers_are_kept_up_to_a_number(folder: Path) -> None:
    """However many read at once; and each is given back when its read fails."""
    with closing(Database(folder / "m.db")) as db:
        for _ in range(3):
            with db.read() as one, db.read() as two, db.read() as three, db.read() as four:
                assert len({one, two, three, four}) == 4
            with pytest.raises(KeyError), db.read():
                raise KeyError("mine")
            assert db.open_files <= 1 + MAX_IDLE_READERS + 5 + 1
        kept = set()
        for _ in range(5):
            with db.read() as tx:
                kept.add(tx)
        assert len(kept) == 1


@pytest.mark.parametrize(
    "verb",
    [lambda db: db.write().__enter__(), lambda db: db.read().__enter__(), lambda db: db.fresh().__enter__(),
     lambda db: db.checkpoint(), lambda db: vacuum(db)],
)  # fmt: skip
@pytest.mark.parametrize("end", ["close", "delete", "replace"])
def test_no_verb_goes_on_with_a_file_that_is_not_there(
    folder: Path, verb: Callable[[Database], Any], end: str
) -> None:
    """Closed, deleted or replaced: the error says which, and nothing is written to what is there now."""
    path = folder / "m.db"
    with closing(Database(path)) as db:
        if end == "close":
            db.close()
            db.close()
            assert db.open_files == 0
        else:
            path.rename(folder / "away")
            if end == "replace":
                path.write_bytes(b"other")
        with pytest.raises(StoreClosedError if end == "close" else StoreReplacedError):
            verb(db)
        assert end != "replace" or path.read_bytes() == b"other"


def test_what_explains_an_error_is_asked_what_is_wrong(folder: Path) -> None:
    """A mistake of the code stays one while nothing is found."""
    with closing(Database(folder / "m.db")) as db:
        error = LookupError("row 7")
        with pytest.raises(LookupError) as caught:
            db.explain(error)
        assert caught.value is error
        db.examine_with(lambda tx: f"{tx.execute('SELECT 40 + 2').fetchone()[0]} rows are lost; weep")
        with pytest.raises(CorruptStoreError):
            db.explain(error)
        with pytest.raises(InputError):
            db.explain(InputError("given"))


def test_a_file_that_is_looked_at_is_ours_or_empty(path: Path) -> None:
    """Another program's is refused, and left as it is; an empty one is nobody's."""
    before = path.read_bytes()
    with pytest.raises(ForeignStoreError):
        Database(path, readonly=True)
    assert path.read_bytes() == before
    path.write_bytes(b"")
    with closing(Database(path, readonly=True)) as db, pytest.raises(StoreWriteError), db.write():
        pass
    assert path.read_bytes() == b""


def test_nothing_is_missing_here() -> None:
    """The store can work with this SQLite."""
    assert sqlite_abilities() == (sqlite3.sqlite_version, [])
