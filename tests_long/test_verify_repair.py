"""`verify` names every part that is damaged, and `repair` makes it anew or says that it cannot; nothing else changes.

One thing is changed at a time behind memforest's back, in a memory with two indexes. Afterwards questions are answered as
before, and the rows of the index that was not damaged are the very same.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import NAME, ShelfIndex
from tests_long.worlds import fast_config, fast_folder, file_of, make_sessions, rows, said

from memforest import Config, MemForest
from memforest.errors import CorruptStoreError
from memforest.read.verify import DERIVED
from memforest.store import jobs
from memforest.store.database import Database
from memforest.trees import attached

QUESTIONS = ("Where does Ana live?", "What did Bob buy before he moved to Oslo?")
OWNED = {
    table: f"SELECT * FROM {table} x WHERE x.tree IN (SELECT id FROM tree WHERE owner = '{{}}')"
    for table in ("node", "leaf")
}
SAID = (
    "session",
    "turn",
    "chunk",
    "fact",
    "occurrence",
    "occurrence_turn",
    "mention",
    "state",
    "entity",
    "alias",
)


@pytest.fixture(autouse=True)
def shelf() -> Iterator[None]:
    """The second index is known."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    yield
    attached.INDEXES.pop(NAME, None)


def both() -> Config:
    """Return the configuration of a memory with both indexes, in which entities soon have trees."""
    few = {"memforest": {"active_min_facts": 2, "active_min_sessions": 1}}
    return fast_config(indexes=("memforest", NAME), index_settings=few)


@pytest.fixture(scope="module")
def whole() -> Iterator[tuple[Path, Any]]:
    """A memory with trees of all kinds, states, aliases, scenes and jobs, closed; and how it ranks."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        folder = Path(made)
        with MemForest(folder, both()) as forest:
            for name, turns in make_sessions(3, sessions=5, most_turns=8):
                forest.ingest_session("u", name, turns)
            forest.ingest_session("u", "m", said("Mel moved to Kyoto.", speaker="Melanie"))
            forest.user("u").flush()
            shown = ranking(forest)
        db = Database(file_of(folder))
        with db.write() as tx:
            jobs.add(tx, "timem", "close", "day 1", due_ms=0, payload={"days": [1]})
        db.close()
        yield folder, shown
    attached.INDEXES.pop(NAME, None)


@pytest.fixture
def memory(whole: tuple[Path, Any], folder: Path) -> Path:
    """A copy of that memory."""
    shutil.copytree(whole[0], folder, dirs_exist_ok=True)
    return folder


def ranking(forest: MemForest) -> list[tuple[str, float, Mapping[str, float]]]:
    """Return how both indexes and none rank turns for a few questions."""
    found = [
        forest.query("u", question, index=index, top_k=30)
        for question in QUESTIONS
        for index in ("memforest", NAME, "flat")
    ]
    return [(one.text, one.score, one.scores) for result in found for one in result.evidence]


def alter(path: Path, sql: str) -> None:
    """Change a file behind memforest's back; it must change something."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in sql.split("; "):
            changed = conn.execute(statement).rowcount
            assert changed > 0 or statement.startswith("PRAGMA")


def owned(folder: Path, owner: str) -> list[Any]:
    """Return the rows of an index's trees."""
    return [rows(file_of(folder), sql.format(owner)) for sql in OWNED.values()]


TREES = "(SELECT id FROM tree WHERE owner = 'memforest' AND kind = '{}')"
ANA = "(SELECT id FROM tree WHERE owner = 'memforest' AND kind = 'entity' ORDER BY count DESC LIMIT 1)"
FIRST = "(SELECT min(id) FROM leaf WHERE tree = {0})"
LARGEST = "(SELECT id FROM ix_memforest_scene ORDER BY size DESC, id LIMIT 1)"

DERIVED_DAMAGE: dict[str, tuple[str, str | None, str]] = {
    # name: (part, index, statements)
    "words of a turn": ("words", None, "DELETE FROM derived_turn_words WHERE rowid = 1"),
    "words of a fact": ("words", None, "UPDATE derived_fact_words SET words = 'other' WHERE rowid = 1"),
    "words of nothing": (
        "words",
        None,
        "INSERT INTO derived_turn_words (rowid, words) VALUES (9999, 'stray')",
    ),
    "a turn's vector": ("vector", None, "UPDATE derived_turn_vector SET digest = x'00' WHERE item = 1"),
    "a turn's vector, its length": (
        "vector",
        None,
        "UPDATE derived_turn_vector SET vector = x'003c' WHERE item = 1",
    ),
    "a summary's vector": (
        "vector",
        None,
        "UPDATE derived_node_vector SET vector = zeroblob(length(vector)) WHERE item = (SELECT min(item) FROM derived_node_vector)",
    ),
    "a fact's vector": (
        "vector",
        None,
        "UPDATE derived_fact_vector SET digest = x'00' WHERE item = (SELECT min(item) FROM derived_fact_vector)",
    ),
    "a job's state": ("job", None, "UPDATE job SET state = 'lost'"),
    "a job's payload": ("job", None, "UPDATE job SET payload = '[1'"),
    "a fan-out": ("tree", "memforest", f"UPDATE tree SET k = k + 1 WHERE id = {ANA}"),
    "a tree's count": ("tree", "memforest", f"UPDATE tree SET count = count + 1 WHERE id = {ANA}"),
    "a lost root": ("tree", "memforest", f"UPDATE tree SET root = NULL WHERE id = {ANA}"),
    "an interval": ("tree", "memforest", f"UPDATE node SET end_ms = end_ms + 5 WHERE tree = {ANA}"),
    "a level": ("tree", "memforest", f"UPDATE node SET level = level + 1 WHERE tree = {ANA}"),
    "a node's children": ("tree", "memforest", f"UPDATE node SET children = x'' WHERE tree = {ANA}"),
    "a leaf of nothing": ("tree", "memforest", f"UPDATE leaf SET fact = NULL WHERE id = {FIRST.format(ANA)}"),
    "a leaf of what is gone": (
        "tree",
        "memforest",
        f"UPDATE leaf SET fact = 9999 WHERE id = {FIRST.format(ANA)}",
    ),
    "a leaf gone": ("tree", "memforest", f"DELETE FROM leaf WHERE id = {FIRST.format(ANA)}"),
    "the other index's span": ("tree", NAME, "UPDATE node SET span_lo = span_lo + 1 WHERE level = 7"),
    "the other index's leaf": (
        "tree",
        NAME,
        f"DELETE FROM leaf WHERE id = (SELECT min(l.id) FROM leaf l JOIN tree t ON t.id = l.tree WHERE t.owner = '{NAME}')",
    ),
    "a leaf elsewhere": (
        "placement",
        "memforest",
        "UPDATE tree SET scope = (SELECT max(id) FROM entity) + 1000 WHERE id = " + ANA,
    ),
    "an entity's tree": (
        "placement",
        "memforest",
        f"DELETE FROM ix_memforest_active WHERE entity = (SELECT scope FROM tree WHERE id = {ANA})",
    ),
    "a scene's number": (
        "placement",
        "memforest",
        "UPDATE meta SET value = '1' WHERE key = 'next:ix_memforest_scene'",
    ),
    "a centroid": (
        "scene",
        "memforest",
        f"UPDATE ix_memforest_scene SET centroid = zeroblob(length(centroid)) WHERE id = {LARGEST}",
    ),
    "a centroid's length": (
        "scene",
        "memforest",
        f"UPDATE ix_memforest_scene SET centroid = x'00' WHERE id = {LARGEST}",
    ),
    "a scene's size": (
        "scene",
        "memforest",
        f"UPDATE ix_memforest_scene SET size = size + 1 WHERE id = {LARGEST}",
    ),
    "a scene's model": (
        "scene",
        "memforest",
        f"UPDATE ix_memforest_scene SET model = 'other' WHERE id = {LARGEST}",
    ),
    "a main scene": (
        "scene",
        "memforest",
        f"UPDATE ix_memforest_scene_member SET main = 0 WHERE scene = {LARGEST}",
    ),
    "a scene's members": (
        "scene",
        "memforest",
        f"DELETE FROM ix_memforest_scene_member WHERE scene = {LARGEST}",
    ),
}

LASTING_DAMAGE = {
    "a turn": ("turn", "UPDATE turn SET text = text || ' not' WHERE id = 1"),
    "a session": ("session", "UPDATE chunk SET last = last + 1 WHERE id = 1"),
    "a fact": ("fact", "UPDATE fact SET text = 'Somebody wrote this.' WHERE id = 1"),
    "a mention": ("fact", "UPDATE mention SET roles = 99 WHERE fact = 1"),
    "an entity": ("entity", "UPDATE entity SET label = 'Zed' WHERE id = 1"),
    "a setting": ("setting", "UPDATE meta SET value = '1' WHERE key = 'next:turn'"),
    "a kind of note": ("setting", "UPDATE feed SET kind = 9 WHERE seq = (SELECT min(seq) FROM feed)"),
    "a text": ("text", "UPDATE occurrence SET speaker = CAST(x'ff' AS TEXT) WHERE id = 1"),
    "a row": ("file", "PRAGMA foreign_keys = off; DELETE FROM turn WHERE id = 1"),
}


@pytest.mark.parametrize("name", DERIVED_DAMAGE)
def test_what_is_derived_is_named_and_made_anew(memory: Path, whole: tuple[Path, Any], name: str) -> None:
    """The part and the index are named; afterwards all is well, ranks as before, and the other index has its very rows."""
    part, index, sql = DERIVED_DAMAGE[name]
    others = [one for one in ("memforest", NAME) if one != index]
    before = {one: owned(memory, one) for one in others}
    alter(file_of(memory), sql)
    with MemForest(memory, both()) as forest:
        user = forest.user("u")
        problems = user.verify().problems
        assert (part, index) in {(problem.part, problem.index) for problem in problems}
        assert {problem.index for problem in problems} <= {index, None}
        report = user.repair()
        assert report.ok, report.left
        assert report.did
        assert user.verify().problems == ()
        assert ranking(forest) == whole[1]
    after = {one: owned(memory, one) for one in others}
    assert after == before or name == "a fact's vector"  # with which a fact is placed again, by both


@pytest.mark.parametrize("name", LASTING_DAMAGE)
def test_what_was_said_is_named_and_left(memory: Path, name: str) -> None:
    """It cannot be made anew: `repair` leaves it as it stands, and its report says so."""
    part, sql = LASTING_DAMAGE[name]
    path = file_of(memory)
    alter(path, sql)
    before = [rows(path, f"SELECT * FROM {table}") for table in SAID]
    with MemForest(memory, both()) as forest:
        user = forest.user("u")
        assert part in {problem.part for problem in user.verify().problems}
        report = user.repair()
        assert not report.ok
        assert part in {problem.part for problem in report.left}
        assert all(problem.message for problem in report.left)
        assert part in {problem.part for problem in user.verify().problems}
    assert [rows(path, f"SELECT * FROM {table}") for table in SAID] == before


@pytest.mark.parametrize("value", ["many", "0", "", "9" * 5000])
def test_a_setting_without_which_a_memory_cannot_be_opened_is_named(memory: Path, value: str) -> None:
    """The error says which file, which setting, and what to do."""
    alter(file_of(memory), f"UPDATE meta SET value = '{value}' WHERE key = 'chunk_turns'")
    with (
        MemForest(memory, both()) as forest,
        pytest.raises(CorruptStoreError),
    ):
        forest.user("u").verify()


def test_every_part_that_repair_makes_anew_is_damaged_here() -> None:
    """A part that is added to the list needs its damage."""
    assert {part for part, _, _ in DERIVED_DAMAGE.values()} | {"index"} == DERIVED | {"index"}
    assert DERIVED.isdisjoint(part for part, _ in LASTING_DAMAGE.values())
