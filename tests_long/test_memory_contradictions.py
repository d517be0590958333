"""Rows that cannot be: every column of every persistent table is given impossible values, one at a time.

No verb raises anything but an error of ours, and `verify` finds the change, unless the column is one of those
listed here, whose values nothing else in the file says again. `verify` looks at every value. The other verbs cost
most of the time: they see one value of each column, another kind of value for the next column; `make test-long` shows them all.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.stored import add_relation
from tests_long.worlds import fast_config, fast_folder, file_of, make_sessions, said

from memforest import MemForest
from memforest.errors import CorruptStoreError, MemForestError
from memforest.store import corrections, facts
from memforest.store.connections import Tx
from memforest.store.database import Database

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ

UNSEEN = {
    "artifact": {"id", "maker", "text", "vector", "vector_of"},
    "chunk": {"maker", "reason"},
    "choice": {"entity", "id", "made_ms", "other", "verdict"},
    "correction": {"key", "made_ms", "precision", "said", "stored_ms"},
    "correction_place": {"correction", "quote", "session_id", "turn_id"},
    "change": {"item", "kind", "seq"},
    "deleted": {"digest"},
    "fact": {"precision", "stored_ms"},
    "mention": {"entity", "roles"},
    "name_use": {"name", "occurrence"},
    "occurrence": {"stored_ms"},
    "origin": {"label", "merged_ms", "user_id"},
    "relation": {"id", "label"},
    "session": {"erased", "stored_ms"},
    "tombstone": {"count", "deleted_ms", "id", "kind", "stored_ms"},
    "state": {"attribute", "id", "previous", "value"},
    "turn": {"origin", "stored_ms"},
    "write_key": {"stored_ms"},
}
"""Columns with a change that no check can see, as another value could as well have been stored."""

ASKED = "Where does Ana live now?"
VERBS: dict[str, Callable[[MemForest], object]] = {
    "query": lambda forest: forest.query("u", ASKED),
    "query of words": lambda forest: forest.query("u", "a red car in Oslo", index="flat"),
    "timeline": lambda forest: forest.user("u").timeline("Ana"),
    "tree": lambda forest: forest.user("u").tree(depth=9),
    "ask": lambda forest: forest.ask("u", "When did Ana move to Oslo?"),
    "list": lambda forest: forest.user("u").list(limit=1000),
    "known at": lambda forest: forest.query("u", ASKED, known_at="2000-01-01"),
    "said by": lambda forest: forest.user("u").list(limit=1000, said_by="2024-02-01"),
    "changes": lambda forest: forest.user("u").changes("2000-01-01", limit=1000),
    "diff": lambda forest: forest.user("u").diff("2023-01-01", "2030-01-01"),
    "add again": lambda forest: forest.ingest_session(
        "u", "k", said("Bob works at Globex.", speaker="Bob"), idempotency_key="a key"
    ),
    "get": lambda forest: forest.user("u").get(forest.user("u").list(limit=1).facts[0].fact_id),
    "sessions": lambda forest: forest.user("u").sessions(),
    "stats": lambda forest: forest.user("u").stats(),
    "replace": lambda forest: forest.ingest_session("u", "s0", said("I sold a tent."), replace=True),
    "resume": lambda forest: forest.resume("u"),
    "repair": lambda forest: forest.user("u").repair(),
}
VALUES = {
    "INTEGER": ("987654", "-3", "4611686018427387904", "NULL", "{other}"),
    "REAL": ("-7.5", "1e300"),
    "TEXT": ("''", "'ghost'", "'{{'", "'[[1]]'", "'[7, \"x\"]'", "CAST(x'4d96' AS TEXT)", "NULL", "{other}"),
    "BLOB": ("x''", "x'01'", "x'0100000000000000'", "{other}"),
}

FEW = {"memforest": {"active_min_facts": 2, "active_min_sessions": 1}}
"""Settings with which entities have trees in small memories."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small memory with trees of all kinds and of two indexes, states, aliases and scenes, closed."""
    folder = tmp_path_factory.mktemp("whole")
    with MemForest(folder, fast_config(indexes=("memforest", "segtree"), index_settings=FEW)) as forest:
        for name, turns in make_sessions(3, sessions=4, most_turns=6):
            forest.ingest_session("u", name, turns)
        user = forest.user("u")
        shown = [one.fact_id for one in user.list()]
        user.pin(shown[0])
        user.forget(shown[1])
        forest.ingest_session("u", "gone", said("I like tea.", "I like jazz."))
        user.delete(session_id="gone")
        user.update(shown[2], "Ana likes tea.", valid_from="2023-01-01", valid_to="2023-02-01")
        forest.ingest_session("u", "k", said("Bob works at Globex.", speaker="Bob"), idempotency_key="a key")
        forest.ingest_session(
            "u", "m", said("Mel moved from Oslo to Kyoto.", "Mel works at Acme.", speaker="Melanie")
        )
        other = tmp_path_factory.mktemp("other")
        with MemForest(other, fast_config()) as others:
            others.ingest_session("v", "v", said("I live in Ghent.", speaker="Vera"))
        forest.user("u").merge("v", directory=other)
        forest.flush()
    db = Database(file_of(folder))
    with db.write() as tx:
        tell(tx)
    db.close()
    return file_of(folder)


def tell(tx: Tx) -> None:
    """Record relations, another spelling and choices, as if two statements that name two had told them."""
    pairs = tx.execute(
        """SELECT a.fact, a.occurrence, min(a.entity), max(b.entity) FROM mention a JOIN mention b
           ON b.occurrence = a.occurrence AND b.entity > a.entity GROUP BY 1, 2 ORDER BY 2 LIMIT 2"""
    ).fetchall()
    for fact, occurrence, source, target in pairs:
        add_relation(tx, (fact, occurrence), source, f"met {fact}", target)
        facts.add_named(tx, names=[(occurrence, source, "A. B.")])
        corrections.add(tx, "same", source, target, 7)
        corrections.add(tx, "apart", source, target, 8)
    assert len(pairs) == 2


def columns(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (table, column, type) of every persistent table."""
    with closing(sqlite3.connect(path)) as conn:
        tables = conn.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict"
        ).fetchall()
        for (table,) in sorted(tables):
            if not table.startswith("derived"):
                for row in conn.execute(f"PRAGMA table_info({table})"):
                    yield table, row[1], row[2]


TABLES = [
    "alias",
    "alias_use",
    "artifact",
    "change",
    "choice",
    "chunk",
    "correction",
    "correction_place",
    "deleted",
    "entity",
    "fact",
    "index_",
    "mention",
    "meta",
    "name_use",
    "occurrence",
    "occurrence_turn",
    "origin",
    "relation",
    "session",
    "spent",
    "state",
    "tombstone",
    "turn",
    "write_key",
]


def alter(path: Path, table: str, column: str, value: str) -> bool:
    """Give the last row another value in a column; return whether that was possible and is a change."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        key = [row[1] for row in conn.execute(f"PRAGMA table_info({table})") if row[5]] or ["rowid"]
        order = ", ".join(f"{name} DESC" for name in key)
        row = conn.execute(f"SELECT {', '.join(key)} FROM {table} ORDER BY {order} LIMIT 1").fetchone()
        if row is None:
            return False
        other = f"(SELECT {column} FROM {table} ORDER BY {', '.join(key)} LIMIT 1)"
        conn.execute("PRAGMA ignore_check_constraints = on")
        where = " AND ".join(f"{name} IS ?" for name in key)
        new = value.format(other=other)
        try:
            done = conn.execute(
                f"UPDATE {table} SET {column} = {new} WHERE {where} AND {column} IS NOT {new}", row
            )
        except sqlite3.IntegrityError:
            return False
        return done.rowcount == 1


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of vectors that are no numbers any more
@pytest.mark.parametrize("table", TABLES)
def test_a_value_that_cannot_be_is_an_error_of_ours_and_found(whole: Path, table: str) -> None:
    """Every verb works or raises an error of ours; `verify` is not content, but for the columns listed above."""
    raw, unseen = [], set()
    for number, (_, column, kind) in (one for one in enumerate(columns(whole)) if one[1][0] == table):
        verbs = VERBS
        first = number % len(VALUES[kind])
        for value in VALUES[kind][first:] + VALUES[kind][:first]:
            with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
                shutil.copy(whole, made)
                if not alter(Path(made) / whole.name, table, column, value):
                    continue
                found, errors = run(Path(made), verbs)
            verbs = VERBS if LONG else {}
            raw += [f"{table}.{column} = {value}: {error}" for error in errors]
            if found:
                unseen.add(column)
    assert raw == []
    assert unseen == UNSEEN.get(table, set())


def run(folder: Path, verbs: dict[str, Callable[[MemForest], object]]) -> tuple[bool, list[str]]:
    """Return whether `verify` is content, and what the verbs raised that is no error of ours."""
    errors = []
    try:
        with MemForest(
            folder,
            fast_config(index_settings=FEW),
        ) as forest:
            content = forest.user("u").verify().ok
            for name, verb in verbs.items():
                try:
                    verb(forest)
                except MemForestError:
                    pass
                except Exception as exc:  # noqa: BLE001  # that is what is looked for
                    errors.append(f"{name}: {exc!r}")
    except MemForestError:
        content = False
    return content, errors


def test_the_tables_are_all_persistent_ones(whole: Path) -> None:
    """No table is forgotten here."""
    assert sorted({table for table, _, _ in columns(whole)}) == TABLES


@pytest.mark.parametrize("verb", ["query", "timeline", "tree", "list"])
def test_the_error_says_what_is_wrong_and_what_to_do(whole: Path, tmp_path: Path, verb: str) -> None:
    """Not "JSONDecodeError" or "KeyError: 987654", but which rows contradict each other, and what helps."""
    shutil.copy(whole, tmp_path)
    with closing(sqlite3.connect(tmp_path / whole.name, isolation_level=None)) as conn:
        conn.execute("UPDATE fact SET topics = '['")
    with (
        MemForest(tmp_path, fast_config()) as forest,
        pytest.raises(CorruptStoreError),
    ):
        VERBS[verb](forest)
