"""The gaps of pages: copies of rows that SQLite has moved, and nothing else, are overwritten."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from memforest.store.connections import transaction
from memforest.store.database import Database
from memforest.store.files import descriptors, raw_files, read_log, scrub
from memforest.store.upkeep import purge


def fill(db: Database, random: Random, rows: int) -> list[str]:
    """Write rows of random length, change some and delete some; return the words that are gone."""
    with db.write() as tx:
        tx.execute(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
        )
        tx.execute("INSERT OR IGNORE INTO meta VALUES ('generation', '1')")
        tx.execute("CREATE TABLE IF NOT EXISTS said (id INTEGER PRIMARY KEY, word TEXT UNIQUE, more TEXT)")
    words = [f"w{random.randrange(10**9):09}q" for _ in range(rows)]
    with db.write() as tx:
        for word in words:
            tx.execute("INSERT INTO said (word, more) VALUES (?, ?)", (word, word * random.randint(1, 40)))
    with db.write() as tx:
        for word in random.sample(words, rows // 2):
            tx.execute("UPDATE said SET more = ? WHERE word = ?", (word * random.randint(1, 60), word))
    gone = random.sample(words, rows * 2 // 3)
    for word in gone:
        with db.write() as tx:
            tx.execute("DELETE FROM said WHERE word = ?", (word,))
    return gone


def left(path: Path, words: list[str]) -> int:
    """Return how many words are in the files."""
    raw = b"".join(content for _, content in raw_files(path))
    return sum(word.encode() in raw for word in words)


def test_copies_of_moved_rows_are_overwritten(tmp_path: Path) -> None:
    """They are there without it, and gone with it; all rows read as before, and SQLite finds the file sound."""
    copies = 0
    for seed in range(40):
        path = tmp_path / f"{seed}.db"
        with closing(Database(path)) as db:
            gone = fill(db, Random(seed), 300)
            db.checkpoint()
            copies += left(path, gone)
            with db.read() as tx:
                before = tx.execute("SELECT * FROM said").fetchall()
            assert not purge(db)[1]
            assert left(path, gone) == 0
            assert scrub(path) == 0
            with db.read() as tx:
                assert tx.execute("SELECT * FROM said").fetchall() == before
                assert tx.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if copies > 2:
            break
    assert copies  # else this test tests nothing


def test_only_pages_that_have_changed_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the log tells which; when others have written or begun it anew, all are."""
    looked: list[object] = []

    def watched(path: Path, pages: object = None) -> int:
        looked.append(pages)
        return scrub(path, pages)  # type: ignore[arg-type]

    monkeypatch.setattr("memforest.store.upkeep.scrub", watched)
    path, random = tmp_path / "m.db", Random(2)
    with closing(Database(path)) as db, closing(Database(path)) as other:
        gone = fill(db, random, 300)
        purge(db)
        for _ in range(3):
            gone += fill(db, random, 20)
            purge(db)
            assert left(path, gone) == 0
        assert looked[0] is None
        assert all(pages for pages in looked[1:])
        gone += fill(other, random, 20)
        other.checkpoint()
        purge(db)
        assert looked[-1] is None
        assert left(path, gone) == 0


def test_other_connections_bring_nothing_back(tmp_path: Path) -> None:
    """A connection that has pages in memory from before reads them anew, so that its next write has no old copies."""
    path, random = tmp_path / "m.db", Random(3)
    with closing(Database(path)) as db, closing(Database(path)) as other:
        gone = fill(db, random, 400)
        with other.write() as tx:
            tx.execute("SELECT sum(length(word) + length(more)) FROM said").fetchall()
            tx.execute("UPDATE said SET more = more || 'x' WHERE id % 7 = 0")
        purge(db)
        with other.write() as tx:
            tx.execute("UPDATE said SET more = more || 'y'")
        other.checkpoint()
        assert left(path, gone) == 0


def test_a_reader_goes_on_with_its_state(tmp_path: Path) -> None:
    """What it sees does not change, and the log stays till it has ended."""
    path = tmp_path / "m.db"
    with closing(Database(path)) as db, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        gone = fill(db, Random(4), 200)
        with transaction(reader):  # type: ignore[arg-type]  # it has what is used of one
            count = reader.execute("SELECT count(*) FROM said").fetchone()
            with db.write() as tx:
                tx.execute("DELETE FROM said WHERE id < 100")
            assert purge(db)[1]
            assert db.unfinished
            assert reader.execute("SELECT count(*) FROM said").fetchone() == count
        assert not purge(db)[1]
        assert left(path, gone) == 0


def test_a_file_of_another_form_is_left_as_it_is(tmp_path: Path) -> None:
    """An encrypted one, say: its pages cannot be told."""
    path = tmp_path / "m.db"
    path.write_bytes(bytes(range(256)) * 64)
    assert scrub(path) == 0
    assert path.read_bytes() == bytes(range(256)) * 64


def test_the_descriptor_goes_with_the_last_connection(tmp_path: Path) -> None:
    """To close it earlier would drop this process's locks; to keep it would leak it."""
    path = tmp_path / "m.db"
    with closing(Database(path)) as db:
        identity = db.file.identity or (0, 0)
        with closing(Database(path)) as other:
            fill(other, Random(5), 20)
            purge(other)
            assert len(descriptors[identity]) == 1
        assert len(descriptors[identity]) == 1
        assert read_log(path) is None
        with db.write() as tx:
            tx.execute("DELETE FROM said")
    assert identity not in descriptors
