"""What a write superseded: equal to what reading all observations gives."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.stored import superseded
from tests_long.worlds import fast_config, fast_folder, file_of, said

from memforest import MemForest
from memforest.search.snapshot import OPEN, load_snapshot
from memforest.search.timeline import (
    settled,
    superseded_facts,
    timelines,
    valid_until,
)
from memforest.store import reads
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.facts import facts_with_ids


def of_all(tx: Tx, new: Sequence[int]) -> set[int]:
    """Return what new observations superseded, by the whole timeline of each attribute."""
    found: set[int] = set()
    for state in reads.states_with_ids(tx, new):
        same = [
            s for s in reads.states_seen(tx) if (s.entity, s.attribute) == (state.entity, state.attribute)
        ]
        told = settled(same)
        found |= superseded(told, [one for one in told if one.row == state.row])
    return found


def test_the_same_in_a_file_whatever_the_order_of_sessions() -> None:
    """Moves are told forwards, backwards and again; each write is compared with the whole timelines of its file."""
    random, told = Random(11), 0
    moved = (
        "I live in {}.",
        "I moved to {} last month.",
        "I moved from {} to Oslo.",
        "I no longer live in {}.",
    )
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder, MemForest(folder, fast_config()) as forest:
        for step in range(40):
            day = f"20{random.randrange(10, 20)}-0{random.randrange(1, 9)}-1{random.randrange(9)}"
            moves = [
                random.choice(moved).format(random.choice(["Rome", "Oslo", "Vigo", "Lyon"])) for _ in range(3)
            ]
            turns: list[dict[str, Any]] = [
                {"speaker": "Ana", "content": text, "timestamp": f"{day}T10:0{i}:00Z"}
                for i, text in enumerate(moves)
            ]
            result = forest.ingest_session("u", f"s{step}", turns, refresh=False)
            db = Database(file_of(Path(folder)))
            with db.read() as tx:
                new = [
                    row[0]
                    for row in tx.execute(
                        """SELECT s.id FROM state s JOIN occurrence o ON o.id = s.occurrence JOIN chunk c ON c.id = o.chunk
                           JOIN session e ON e.id = c.session WHERE e.session_id = ? AND s.attribute = 'residence'""",
                        (f"s{step}",),
                    )
                ]
                expected = of_all(tx, new)
                assert {fact for fact, _ in superseded_facts(tx, new)} == expected
                texts = facts_with_ids(tx, expected)
            db.close()
            told += len(expected)
            assert set(result.superseded) >= {fact.text for fact in texts.values()}
        assert told > 10


@pytest.mark.parametrize(
    ("first", "second", "ended"),
    [
        ("I live in Rome.", "I live in Oslo.", 'Ana: "I live in Rome."'),
        ("I work at Acme.", "I work at Initech.", 'Ana: "I work at Acme."'),
        ("My bank is Chase.", "My bank is now Monzo.", 'Ana: "My bank is Chase."'),
        ("My brother is Piet.", "My brother is Karel.", None),
        ("My dog is Rex.", "My dog is Bello.", None),
    ],
)
def test_what_somebody_may_have_several_of_ends_nothing(
    folder: Path, first: str, second: str, ended: str | None
) -> None:
    """A new residence takes the place of the old one, a second dog does not: in results, and in what is valid now."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said(first, day=1))
        result = forest.ingest_session("u", "b", said(second, day=2))
        assert result.superseded == (() if ended is None else (ended,))
        db = Database(file_of(folder))
        with db.read() as tx:
            snapshot = load_snapshot(tx)
            assert len(snapshot.states) == 2
            assert len(timelines(snapshot)) == 1
            assert (valid_until(snapshot) != OPEN).tolist() == [ended is not None, False]
        db.close()


def test_a_state_at_another_time_than_its_fact_is_found(folder: Path) -> None:
    """The time by which observations are found is checked against the facts."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session(
            "u", "s", [{"speaker": "Ana", "content": "I live in Rome.", "timestamp": "2020-01-01"}]
        )
        assert forest.user("u").verify().ok
        with sqlite3.connect(file_of(folder)) as conn:
            conn.execute("UPDATE state SET at_ms = at_ms + 1")
        conn.close()
        assert [problem.part for problem in forest.user("u").verify().problems] == ["fact"]


def test_changes_of_two_things_end_nothing_of_each_other(folder: Path) -> None:
    """Nobody said what changed: a tea and a gym are two timelines, until a statement links them."""
    told = (
        "I swapped Keemun for Assam.",
        "I switched from Ironworks to Fitbox.",
        "I swapped Assam for Sencha.",
    )
    with MemForest(folder, fast_config()) as forest:
        found = [
            forest.ingest_session("u", f"s{day}", said(text, day=day)) for day, text in enumerate(told, 1)
        ]
        assert [len(one.superseded) for one in found] == [0, 0, 1]
        entries = [one for one in forest.user("u").timeline("Ana") if one.kind == "state"]
        assert {one.value for one in entries if one.end is None} == {"Sencha", "Fitbox"}
        with Database(file_of(folder)).read() as tx:
            lines = timelines(load_snapshot(tx)).values()
            assert sorted([s.value for s in line] for line in lines) == [
                ["Ironworks", "Fitbox"],
                ["Keemun", "Assam", "Sencha"],
            ]
