"""After a deletion no byte of what was deleted is left in any file, whatever was deleted and however often."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests_long.deletions import (
    KINDS,
    conversation,
    counted,
    gone,
    left_in,
    random_target,
    said_words,
    stored,
)
from tests_long.worlds import fast_config, file_of

from deleted.scanner import dead_terms
from memforest import MemForest
from memforest.store import connections, derived

FEW, MANY = 6, 200
"""Deletions of each kind: always, and in a soak."""
SOAK = int(os.environ.get("MEMFOREST_SOAK_SEEDS", "0")) > 0


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store summaries as they are: a compressed one would hide what is looked for in the files."""
    monkeypatch.setattr(derived, "LEVEL", 0)


def begin(forest: MemForest, random: Random, sessions: int) -> None:
    """Ingest conversations and make all summaries."""
    for number in range(sessions):
        forest.ingest_session("u", f"s{number}", conversation(random, number))
    forest.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_words_are_in_no_file(tmp_path: Path, kind: str, soak_seed: int) -> None:
    """One deletion after the other, each receipt is an independent count, the dry run's too, and no word that only deleted text said is left."""
    random = Random(f"{kind} {soak_seed}")
    many = MANY if SOAK else FEW
    with MemForest(tmp_path, fast_config()) as forest:
        begin(forest, random, 120 if SOAK else 12)
        memory, lost = forest.user("u"), set[str]()
        for number in range(many):
            target = random_target(random, memory, tmp_path, kind)
            if target is None:
                begin(forest, random, 3)
                continue
            before, said = counted(tmp_path), stored(tmp_path)
            expected = memory.delete(**target, dry_run=True)
            assert counted(tmp_path) == before
            receipt = memory.delete(**target)
            after = stored(tmp_path)
            assert receipt.counts() == expected.counts()
            assert not receipt.wal_pending
            assert receipt.secure_delete is (True if receipt else None)
            found = gone(before, counted(tmp_path))
            # What lost its vector may have got one of its new text.
            assert {layer: receipt.gone[layer] for layer in found} == found, target
            lost |= said_words(said.values()) - said_words(after.values())
            if number % 5 == 0:
                forest.flush()
            if number % 10 == 0 or number > many - 3:
                assert left_in(tmp_path, lost) == []
                assert dead_terms(file_of(tmp_path)) == set()
        forest.flush()
        assert left_in(tmp_path, lost) == []
        assert lost
        report = memory.verify(deleted=sorted(lost)[:50])
        assert report.ok, report.problems
    assert left_in(tmp_path, lost) == []


def test_verify_finds_what_is_left(tmp_path: Path) -> None:
    """A word that is still there is named with its places: in the raw bytes, in rows, and in compressed summaries."""
    derived.LEVEL = 6  # put back by the fixture
    with MemForest(tmp_path, fast_config()) as forest:
        begin(forest, Random(3), 4)
        forest.save()
        there = sorted(said_words(stored(tmp_path).values()))[0]
        report = forest.user("u").verify(deleted=["neverwassaid", there.upper()])
        assert not report.ok
        assert {problem.part for problem in report.problems} == {"residue"}
        assert all("deleted text 1" in problem.message for problem in report.problems)
        places = " ".join(problem.message for problem in report.problems)
        assert f"'{file_of(tmp_path).name}', at byte" in places
        assert "turn.text" in places
        assert "derived_summary.text" in places


def test_a_reader_that_holds_the_log_is_told(tmp_path: Path) -> None:
    """The words stay in the log while somebody reads it; the receipt says so, and saving behind the reader finishes."""
    with MemForest(tmp_path, fast_config()) as forest:
        begin(forest, Random(4), 4)
        forest.save()
        turn, text = sorted(stored(tmp_path).items())[0]
        others = [other for key, other in stored(tmp_path).items() if key != turn]
        lost = said_words([text]) - said_words(others)
        with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turn").fetchone()
            receipt = forest.user("u").delete(turn=turn)
            assert receipt.wal_pending
            assert left_in(tmp_path, lost)
            assert forest.query("u", text).evidence is not None  # readers of this process see it gone
            assert turn not in stored(tmp_path)
            reader.execute("ROLLBACK")
            forest.save()
            assert left_in(tmp_path, lost) == []


def test_a_build_that_overwrites_nothing_writes_the_file_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where "secure_delete" is off, the receipt says so, and the file is written anew."""
    off = [one if one[0] != "secure_delete" else ("secure_delete", "off", 0) for one in connections.PRAGMAS]
    monkeypatch.setattr(connections, "PRAGMAS", tuple(off))
    random = Random(6)
    with MemForest(tmp_path, fast_config()) as forest:
        begin(forest, random, 6)
        lost = set[str]()
        for kind in KINDS:
            target = random_target(random, forest.user("u"), tmp_path, kind)
            assert target is not None
            said = stored(tmp_path)
            receipt = forest.user("u").delete(**target)
            assert (receipt.secure_delete, receipt.vacuumed) == ((False, True) if receipt else (None, False))
            lost |= said_words(said.values()) - said_words(stored(tmp_path).values())
        assert lost
        assert left_in(tmp_path, lost) == []


def test_the_scanner_reads_the_pages_of_the_lexical_index(tmp_path: Path) -> None:
    """Terms stand there with what they share with the one before left out; those of deleted rows stay until they are purged."""
    with MemForest(tmp_path, fast_config()) as forest:
        begin(forest, Random(8), 3)
    path = file_of(tmp_path)
    assert dead_terms(path) == set()
    optimize = "INSERT INTO derived_turn_words (derived_turn_words) VALUES ('optimize')"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(optimize)
    with closing(sqlite3.connect(path)) as db, db:
        tokens = set(
            db.execute("SELECT c0 FROM derived_turn_words_content WHERE id = 1").fetchone()[0].split()
        )
        db.execute("DELETE FROM derived_turn_words WHERE rowid = 1")
    found = dead_terms(path)
    assert found
    assert found <= tokens
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(optimize)
    assert dead_terms(path) == set()
