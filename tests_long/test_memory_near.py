"""Near-duplicates are found by wording, however large the memory is and whatever made it."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, rows

from memforest import Config, MemForest
from memforest.models import MINILM, HashEmbedder

STATED = [
    ("Ana bought 2 boats in Oslo.", "Ana bought two boats in Oslo!"),
    ("Ana sold 12 lamps in Oslo.", "Ana sold twelve lamps in Oslo."),
]
"""Pairs that say the same in other words."""


def config() -> Config:
    """Return a configuration whose embedder has a merge threshold: it goes by a calibrated model's name."""
    embedder = HashEmbedder(384)
    embedder.model_id = MINILM.model_id
    return fast_config(embedder=embedder)


def say(forest: MemForest, session: str, text: str) -> tuple[str, ...]:
    """Ingest one turn; return the texts of the facts that it joined."""
    turn = {"speaker": "Ana", "text": text, "timestamp": f"2023-05-{session}T10:00:00Z"}
    return forest.ingest_session("u", session, [turn]).merged


@pytest.mark.parametrize(("first", "again"), STATED)
def test_another_wording_joins_the_fact(tmp_path: Path, first: str, again: str) -> None:
    """The same in other words is one fact with two occurrences; another thing is another fact."""
    with MemForest(tmp_path, config()) as forest:
        say(forest, "01", first)
        assert len(say(forest, "02", again)) == 1
        assert not say(forest, "03", "I sold the bicycle.")
    assert rows(file_of(tmp_path), "SELECT count(*) FROM fact") == [(2,)]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM derived_wording",
        "UPDATE derived_wording SET wording = x'00' WHERE fact = 0",
    ],
    ids=["emptied", "of other rules"],
)
def test_wordings_are_made_again(tmp_path: Path, damage: str) -> None:
    """Wordings that are gone, or were made by another version's rules, are made anew by the next write."""
    with MemForest(tmp_path, config()) as forest:
        say(forest, "01", STATED[0][0])
    before = rows(file_of(tmp_path), "SELECT * FROM derived_wording")
    with sqlite3.connect(file_of(tmp_path)) as conn:
        conn.execute(damage)
    conn.close()
    with MemForest(tmp_path, config()) as forest:
        assert len(say(forest, "02", STATED[0][1])) == 1
    assert set(before) <= set(rows(file_of(tmp_path), "SELECT * FROM derived_wording"))


def test_a_deleted_fact_leaves_no_wording(tmp_path: Path) -> None:
    """What was overwritten is not merged with."""
    with MemForest(tmp_path, config()) as forest:
        say(forest, "01", STATED[0][0])
        turn = {"speaker": "Ana", "text": "I sold the bicycle.", "timestamp": "2023-05-01T10:00:00Z"}
        forest.ingest_session("u", "01", [turn], replace=True)
        assert not say(forest, "02", STATED[0][1])
    assert rows(file_of(tmp_path), "SELECT count(*) FROM derived_wording WHERE fact != 0") == [(2,)]
