"""Damage to what was said is found, named, never served as what was said, and never blessed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import CorruptStoreError, SessionConflictError
from memforest.records import Chunk, ChunkOutcome

TURNS = said("I have a dog.", "My PIN is 4711 and I owe Bob 40 euros.", "I live in Porto.")
OTHER = said("I paint houses in Lisbon.", day=2)


def make(folder: Path, embedder: Any) -> Path:
    """Store two sessions and return the file."""
    with MemForest(folder, fast_config(embedder=embedder)) as forest:
        forest.ingest_session("u", "s", TURNS)
        forest.ingest_session("u", "other", OTHER)
    return file_of(folder)


def alter(path: Path, *statements: str) -> None:
    """Change a file behind memforest's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in statements:
            conn.execute(statement)


@pytest.fixture(params=["hash", "none"])
def embedder(request: pytest.FixtureRequest) -> Any:
    """With vectors and without: damage must not need them to be seen."""
    return fast_config().embedder if request.param == "hash" else "none"


CHANGES = {
    "a digit": "text = 'My PIN is 5711 and I owe Bob 40 euros.'",
    "no text any more": "text = CAST(x'4d7920504996204953' AS TEXT)",
    "speaker": "speaker = 'Eve'",
    "role": "role = 'system'",
    "time": "said_ms = said_ms + 60000",
    "time source": "time_source = 'clock'",
    "metadata": """metadata = '{"trusted": true}'""",
    "id": "turn_id = 'another'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_turn_is_named_left_and_not_served(tmp_path: Path, embedder: Any, change: str) -> None:
    """Whatever of it has changed: `repair` makes nothing of it, `verify` goes on failing, queries leave it out."""
    path = make(tmp_path, embedder)
    alter(path, f"UPDATE turn SET {CHANGES[change]} WHERE ordinal = 1")
    derived = {part: dump(path)[part] for part in ("turn vectors", "turn words", "facts")}
    with MemForest(tmp_path, fast_config(embedder=embedder)) as forest:
        user = forest.user("u")
        (problem,) = [one for one in user.verify().problems if one.part == "turn"]
        assert "of session 's'" in problem.message
        assert "replace=True" in problem.message
        for _ in range(2):
            report = user.repair()
            assert problem in report.left
            assert problem in user.verify().problems
        forest.rebuild("u")
        found = forest.query("u", "What is my PIN?", top_k=20)
        assert not [one for one in found.evidence if "PIN" in one.quote or "5711" in one.text]
        assert [one.quote for one in found.evidence]
        assert any("is damaged and left out" in warning and "'s'" in warning for warning in found.warnings)
    assert {part: dump(path)[part] for part in derived} == derived


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_session_itself_heals_a_damaged_turn(tmp_path: Path, embedder: Any, change: str) -> None:
    """Unchanged it is a conflict that says why; with replace=True the memory is as it was made."""
    path = make(tmp_path, embedder)
    before = dump(path)
    alter(path, f"UPDATE turn SET {CHANGES[change]} WHERE ordinal = 1")
    with MemForest(tmp_path, fast_config(embedder=embedder)) as forest:
        with pytest.raises(SessionConflictError):
            forest.ingest_session("u", "s", TURNS)
        with pytest.raises(SessionConflictError):
            forest.user("u").add("One more thing.", session_id="s")
        forest.ingest_session("u", "s", TURNS, replace=True)
        assert forest.user("u").verify().ok
        assert "4711" in forest.query("u", "What is my PIN?").evidence[0].quote
    assert dump(path) == before


class Failing:
    """Reads no chunk."""

    name = "failing"

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Fail on all of them."""
        return [ChunkOutcome(failure="not now") for _ in chunks]


def test_nothing_is_extracted_from_a_damaged_turn(tmp_path: Path) -> None:
    """A chunk that a model is to read again is left when one of its turns is damaged, with a warning; the others are read."""
    config = fast_config(embedder="none", chunk_turns=1)
    with MemForest(tmp_path, replace(config, extractor=Failing())) as forest:
        forest.ingest_session("u", "s", TURNS)
    path = file_of(tmp_path)
    alter(path, "UPDATE turn SET text = 'My PIN is 5711.' WHERE ordinal = 1")
    with MemForest(tmp_path, config) as forest:
        (result,) = forest.resume("u")
        assert len(result.added) == 2
        (warning,) = result.warnings
        assert "is damaged and its chunk is left" in warning
    # What was read by local rules before the damage stays; of what the file says now there is nothing.
    assert rows(path, "SELECT count(*) FROM fact WHERE text LIKE '%4711%'") == [(1,)]
    assert rows(path, "SELECT count(*) FROM fact WHERE text LIKE '%5711%'") == [(0,)]


def test_a_damaged_fact_is_not_served(tmp_path: Path) -> None:
    """A statement that is not what its identity was made of is left out, and the warning names it."""
    path = make(tmp_path, "none")
    alter(path, "UPDATE fact SET text = replace(text, '4711', '5711')")
    with MemForest(tmp_path, fast_config(embedder="none")) as forest:
        found = forest.query("u", "What is my PIN?")
        assert not [one for one in found.evidence if "5711" in one.text]
        assert any("fact f1:" in warning for warning in found.warnings)


INDEX = {
    "a word row": "UPDATE derived_turn_words_content SET c0 = replace(c0, 'lisbon', 'lisboa')",
    "a word row of a fact": "UPDATE derived_fact_words_content SET c0 = replace(c0, 'lisbon', 'lisboa')",
    "all blocks": "UPDATE derived_turn_words_data SET block = zeroblob(length(block)) WHERE id > 10",
    "the structure": "UPDATE derived_turn_words_data SET block = x'00' WHERE id = 10",
    "no blocks": "DELETE FROM derived_turn_words_data WHERE id > 10",
}


@pytest.mark.parametrize("verb", ["repair", "rebuild"])
@pytest.mark.parametrize("damage", INDEX)
def test_a_damaged_lexical_index_is_seen_and_made_anew(tmp_path: Path, damage: str, verb: str) -> None:
    """`verify` names it, `repair` and `rebuild` heal it, and a query answers as before."""
    path = make(tmp_path, "none")
    before = dump(path)
    alter(path, INDEX[damage])
    with MemForest(tmp_path, fast_config(embedder="none")) as forest:
        user = forest.user("u")
        assert {problem.part for problem in user.verify().problems} == {"words"}
        if verb == "repair":
            assert user.repair().ok
        else:
            forest.rebuild("u")
        assert user.verify().ok
        assert "Lisbon" in forest.query("u", "Lisbon").evidence[0].quote
        forest.ingest_session("u", "s", said("All is new."), replace=True)
        forest.ingest_session("u", "s", TURNS, replace=True)
    assert dump(path) == before


@pytest.mark.skipif(
    sqlite3.sqlite_version_info >= (3, 44), reason="SQLite checks FTS5 without the write lock"
)
def test_verify_does_not_fail_while_another_process_writes(tmp_path: Path) -> None:
    """FTS5's own check needs the write lock: where it cannot be had, a note says so and the rest is checked."""
    path = make(tmp_path, "none")
    with (
        MemForest(tmp_path, fast_config(embedder="none", busy_timeout_s=0.1)) as forest,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        report = forest.user("u").verify()
        assert report.ok
        assert any("was not checked by FTS5" in note for note in report.notes)
        other.execute("ROLLBACK")
        assert not any("FTS5" in note for note in forest.user("u").verify().notes)


def test_an_error_of_a_damaged_index_says_what_heals_it(tmp_path: Path) -> None:
    """What can be made again needs no backup."""
    path = make(tmp_path, "none")
    alter(path, INDEX["the structure"])
    with (
        MemForest(tmp_path, fast_config(embedder="none")) as forest,
        pytest.raises(CorruptStoreError),
    ):
        forest.ingest_session("u", "s", said("All is new."), replace=True)
