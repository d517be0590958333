"""After a deletion no byte of what was deleted is left in any file, whatever was deleted and however often."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
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
from tests_long.worlds import fast_config, file_of, rows, summaries

from deleted.scanner import dead_terms
from memforest import MemForest
from memforest.store import connections, derived
from memforest.write.batch import SessionWriter

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
        assert "artifact.text" in places


INDEXES = ("memforest", "segtree", "timem", "hmem")


def _replace(forest: MemForest, folder: Path) -> None:
    turns = [{"speaker": "Nora", "content": "I like tea.", "timestamp": "2023-01-01T09:00:00Z"}]
    forest.ingest_session("u", "s0", turns, replace=True)


def _merge_over(forest: MemForest, folder: Path) -> None:
    """Merge a memory that has another session of the same id."""
    turns = [{"speaker": "Nora", "content": "I like tea.", "timestamp": "2023-01-01T09:00:00Z"}]
    forest.ingest_session("v", "s0", turns)
    forest.merge_user_forests(["v"], "u", overwrite=True)
    forest.delete_user("v")


def _expire(forest: MemForest, folder: Path) -> None:
    """Close the memory, and let another one keep less."""
    forest.close()
    with MemForest(folder / "u", fast_config(indexes=INDEXES, retention="515 days")) as keeps_less:
        assert keeps_less.user("u").expire()


def _delete(kind: str) -> Callable[[MemForest, Path], None]:
    def go(forest: MemForest, folder: Path) -> None:
        memory, path = forest.user("u"), file_of(folder / "u")
        if kind == "turn":
            turn = min(turn for session, turn in stored(folder / "u") if session == "s0")
            memory.delete(turn=("s0", turn))
        elif kind == "session":
            memory.delete(session_id="s0")
        elif kind == "window":
            memory.delete(during=("2023-01-01", "2023-01-03"))
        elif kind == "fact":
            memory.delete(min(row[0] for row in rows(path, "SELECT fact_id FROM fact")))
        elif kind == "entity":
            sql = "SELECT label FROM entity WHERE kind != 'participant'"
            memory.delete(entity=min(row[0] for row in rows(path, sql)))

    return go


GOING: dict[str, Callable[[MemForest, Path], None]] = {
    **{kind: _delete(kind) for kind in KINDS},
    "replace": _replace,
    "merge over": _merge_over,
    "retention": _expire,
}
"""Everything that deletes what was said."""


@pytest.mark.parametrize("verb", GOING)
@pytest.mark.parametrize("refresh", ["lazy", "path"])
def test_no_summary_of_any_index_tells_of_what_has_gone(folder: Path, verb: str, refresh: str) -> None:
    """All indexes have written of it; when the verb has come back, no file has a word of it, and later ones bring none back."""
    random = Random(verb)
    with MemForest(folder / "u", fast_config(indexes=INDEXES, refresh=refresh)) as forest:
        for number in range(5):
            forest.ingest_session("u", f"s{number}", conversation(random, number))
        forest.flush()
        forest.user("u").advance(force=True)
        before = stored(folder / "u")
        told = said_words(text for text, _ in summaries(file_of(folder / "u")).values())
        assert {key.partition("/")[0] for key in summaries(file_of(folder / "u"))} == set(INDEXES)
        GOING[verb](forest, folder)
        lost = said_words(before.values()) - said_words(stored(folder / "u").values())
        assert lost & told
        assert left_in(folder / "u", lost) == []
    with MemForest(folder / "u", fast_config(indexes=INDEXES)) as forest:
        forest.flush()
        forest.user("u").advance(force=True)
        assert forest.user("u").verify(deleted=sorted(lost)).ok
    assert left_in(folder / "u", lost) == []


@pytest.mark.parametrize("verb", ["session", "replace"])
def test_a_deletion_that_dies_before_its_sweep_is_swept_when_the_memory_is_opened(
    folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made of the deleted text goes then, whoever opens the memory, and before anything is read."""
    random = Random(5)
    with MemForest(folder / "u", fast_config(indexes=INDEXES)) as forest:
        for number in range(4):
            forest.ingest_session("u", f"s{number}", conversation(random, number))
        forest.flush()
        before = stored(folder / "u")
        with monkeypatch.context() as patch:

            def dies(*_: object) -> int:
                raise RuntimeError("power is off")

            patch.setattr(SessionWriter, "sweep", dies)
            with pytest.raises(RuntimeError):
                GOING[verb](forest, folder)
        lost = said_words(before.values()) - said_words(stored(folder / "u").values())
        assert left_in(folder / "u", lost)
    with MemForest(folder / "u", fast_config(indexes=INDEXES)) as forest:
        forest.user("u").stats()
        assert left_in(folder / "u", lost) == []


def test_a_deletion_that_dies_before_its_log_is_emptied_is_finished(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made of it is swept by then; that the log is still to be emptied is known to whoever opens the memory."""
    marks = "SELECT value FROM meta WHERE key = 'sweep'"
    random = Random(6)
    with MemForest(folder / "u", fast_config(indexes=INDEXES)) as forest:
        for number in range(4):
            forest.ingest_session("u", f"s{number}", conversation(random, number))
        forest.flush()
        before = stored(folder / "u")
        forest.user("u").delete(session_id="s1")
        assert rows(file_of(folder / "u"), marks) == []
        with monkeypatch.context() as patch:

            def dies(*_: object) -> tuple[bool, bool]:
                raise RuntimeError("power is off")

            patch.setattr("memforest.write.delete.purge", dies)
            with pytest.raises(RuntimeError):
                forest.user("u").delete(session_id="s2")
        lost = said_words(before.values()) - said_words(stored(folder / "u").values())
    assert rows(file_of(folder / "u"), marks) == [("2",)]
    with MemForest(folder / "u", fast_config(indexes=INDEXES)) as forest:
        forest.user("u").stats()
        assert rows(file_of(folder / "u"), marks) == []
        assert left_in(folder / "u", lost) == []


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
