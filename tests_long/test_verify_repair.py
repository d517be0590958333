"""`verify` names every part that is damaged, and `repair` makes it anew or says that it cannot; nothing else changes.

One thing is changed at a time behind memforest's back, in a memory with two indexes. Afterwards questions are answered as
before, and the trees and their summaries are the same.
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

from tests_long.shelf import ShelfIndex
from tests_long.worlds import (
    differences,
    dump,
    fast_config,
    fast_folder,
    file_of,
    make_sessions,
    rows,
    said,
    summaries,
)

from memforest import Config, MemForest
from memforest.errors import CorruptStoreError
from memforest.read.verify import DERIVED
from memforest.trees import attached

QUESTIONS = ("Where does Ana live?", "What did Bob buy before he moved to Oslo?")
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
    attached.INDEXES.pop(ShelfIndex.name, None)


def both() -> Config:
    """Return the configuration of a memory with both indexes, in which entities soon have trees."""
    few = {"memforest": {"active_min_facts": 2, "active_min_sessions": 1}}
    return fast_config(indexes=("memforest", ShelfIndex.name), index_settings=few)


@pytest.fixture(scope="module")
def whole() -> Iterator[tuple[Path, Any]]:
    """A memory with trees of all kinds, states, aliases and scenes, closed; and how it ranks."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        folder = Path(made)
        with MemForest(folder, both()) as forest:
            for name, turns in make_sessions(3, sessions=5, most_turns=8):
                forest.ingest_session("u", name, turns)
            forest.ingest_session("u", "m", said("Mel moved to Kyoto.", speaker="Melanie"))
            forest.user("u").flush()
            shown = ranking(forest)
        yield folder, shown
    attached.INDEXES.pop(ShelfIndex.name, None)


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
        for index in ("memforest", ShelfIndex.name, "flat")
    ]
    return [(one.text, one.score, one.scores) for result in found for one in result.evidence]


def alter(path: Path, sql: str) -> None:
    """Change a file behind memforest's back; it must change something."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in sql.split("; "):
            changed = conn.execute(statement).rowcount
            assert changed > 0 or statement.startswith("PRAGMA")


ONE = "(SELECT min(id) FROM artifact WHERE vector IS NOT NULL)"

DERIVED_DAMAGE: dict[str, tuple[str, str]] = {
    # name: (part, statement)
    "words of a turn": ("words", "DELETE FROM derived_turn_words WHERE rowid = 1"),
    "words of a fact": ("words", "UPDATE derived_fact_words SET words = 'other' WHERE rowid = 1"),
    "words of nothing": ("words", "INSERT INTO derived_turn_words (rowid, words) VALUES (9999, 'stray')"),
    "a turn's vector": ("vector", "UPDATE derived_turn_vector SET digest = x'00' WHERE item = 1"),
    "a turn's vector, its length": (
        "vector",
        "UPDATE derived_turn_vector SET vector = x'003c' WHERE item = 1",
    ),
    "a fact's vector": (
        "vector",
        "UPDATE derived_fact_vector SET digest = x'00' WHERE item = (SELECT min(item) FROM derived_fact_vector)",
    ),
    "a summary": ("summary", f"UPDATE artifact SET text = x'00' WHERE id = {ONE}"),
    "what a summary is of": ("summary", f"UPDATE artifact SET digest = x'00' WHERE id = {ONE}"),
    "a summary's vector": (
        "summary",
        f"UPDATE artifact SET vector = zeroblob(length(vector)) WHERE id = {ONE}",
    ),
    "a summary's vector, its length": ("summary", f"UPDATE artifact SET vector = x'003c' WHERE id = {ONE}"),
}

LASTING_DAMAGE = {
    "a turn": ("turn", "UPDATE turn SET text = text || ' not' WHERE id = 1"),
    "a session": ("session", "UPDATE chunk SET last = last + 1 WHERE id = 1"),
    "a fact": ("fact", "UPDATE fact SET text = 'Somebody wrote this.' WHERE id = 1"),
    "a mention": ("fact", "UPDATE mention SET roles = 99 WHERE fact = 1"),
    "an entity": ("entity", "UPDATE entity SET label = 'Zed' WHERE id = 1"),
    "a setting": ("setting", "UPDATE meta SET value = '1' WHERE key = 'next:turn'"),
    "a kind of note": ("setting", "UPDATE change SET kind = 'odd' WHERE seq = (SELECT min(seq) FROM change)"),
    "a text": ("text", "UPDATE occurrence SET speaker = CAST(x'ff' AS TEXT) WHERE id = 1"),
    "a row": ("file", "PRAGMA foreign_keys = off; DELETE FROM turn WHERE id = 1"),
}


@pytest.mark.parametrize("name", DERIVED_DAMAGE)
def test_what_is_derived_is_named_and_made_anew(memory: Path, whole: tuple[Path, Any], name: str) -> None:
    """The part is named; afterwards all is well, ranks as before, and every summary and vector is there again."""
    part, sql = DERIVED_DAMAGE[name]
    path = file_of(memory)
    before = dump(path), summaries(path)
    alter(path, sql)
    with MemForest(memory, both()) as forest:
        user = forest.user("u")
        found = {problem.part for problem in user.verify().problems}
        assert found - {"tree"} == {part}  # of vectors of two lengths no trees can be grown
        report = user.repair()
        assert report.ok, report.left
        assert report.did
        assert user.verify().problems == ()
        assert ranking(forest) == whole[1]
        forest.flush()
    assert differences(before[0], dump(path)) == {}
    assert summaries(path) == before[1]


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
    """A part that is added to the list needs its damage; trees are grown when they are read, and in no file."""
    assert {part for part, _ in DERIVED_DAMAGE.values()} | {"tree"} == DERIVED
    assert DERIVED.isdisjoint(part for part, _ in LASTING_DAMAGE.values())
