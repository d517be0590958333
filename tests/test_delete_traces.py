"""What repeats or tells of deleted text elsewhere goes with it: corrections, kept results of writes, jobs, reasons, origins."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import fast_config, file_of, rows, said

from memforest import MemForest

Target = Callable[[str], dict[str, Any]]

WITHIN: tuple[Target, ...] = (
    lambda _: {"turn": ("s1", "0")},
    lambda _: {"session_id": "s1"},
    lambda fact: {"fact_id": fact},
    lambda _: {"entity": "Zoltan"},
    lambda _: {"during": (None, "2023-05-02")},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a memory that was told of Zoltan in one session, and of a cat in another."""
    with MemForest(tmp_path, fast_config(cell_turns=1)) as forest:
        forest.ingest_session("u", "s1", said("Zoltan lives in Oslo.", "I like tea."))
        forest.ingest_session("u", "s2", said("I adopted a cat.", day=9))
    return tmp_path


def fact(folder: Path, text: str) -> str:
    """Return the id of a fact."""
    [found] = [one for one, other in rows(file_of(folder), "SELECT fact_id, text FROM fact") if text in other]
    return str(found)


def execute(folder: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Write rows by hand."""
    with closing(sqlite3.connect(file_of(folder))) as db, db:
        for sql, values in statements:
            db.execute(sql, values)


def correct(folder: Path, number: int, fact_id: str, text: str, *places: tuple[str, str]) -> None:
    """Store that a statement was corrected."""
    execute(
        folder,
        (
            "INSERT INTO correction (id, key, kind, fact_id, text, precision, made_ms) VALUES (?, ?, 'update', ?, ?, 'day', 1)",
            (number, f"key {number}", fact_id, text),
        ),
        *(
            ("INSERT INTO correction_place VALUES (?, ?, ?, ?)", (number, *place, b"digest of it"))
            for place in places
        ),
    )


@pytest.mark.parametrize("target", WITHIN, ids=["turn", "session", "fact", "entity", "window"])
def test_a_correction_goes_with_the_last_place_of_its_statement(folder: Path, target: Target) -> None:
    """With its text and its places; one of another statement stays."""
    fact_id, other = fact(folder, "Zoltan"), fact(folder, "cat")
    correct(folder, 1, fact_id, "Quixby lives in Bergen.", ("s1", "0"))
    correct(folder, 2, other, "Ana adopted a dog.", ("s2", "0"))
    with MemForest(folder, fast_config(cell_turns=1)) as forest:
        receipt = forest.user("u").delete(**target(fact_id))
        assert receipt.gone["corrections"] == 1
        assert forest.user("u").verify(deleted=["quixby", "bergen", "zoltan"]).ok
    assert rows(file_of(folder), "SELECT id, text FROM correction") == [(2, "Ana adopted a dog.")]
    assert rows(file_of(folder), "SELECT correction, turn_id FROM correction_place") == [(2, "0")]


def test_a_correction_stays_where_its_statement_was_said_elsewhere_too(folder: Path) -> None:
    """It loses the place that went alone."""
    with MemForest(folder, fast_config(cell_turns=1)) as forest:
        forest.ingest_session("u", "s3", said("Zoltan lives in Oslo.", day=12))
    correct(folder, 1, fact(folder, "Zoltan"), "Zoltan lives in Bergen.", ("s1", "0"), ("s3", "0"))
    with MemForest(folder, fast_config(cell_turns=1)) as forest:
        receipt = forest.delete_turn("u", "s1", "0")
        assert (receipt.gone["corrections"], receipt.changed["corrections"]) == (0, 1)
    assert rows(file_of(folder), "SELECT correction, session_id FROM correction_place") == [(1, "s3")]


def test_what_a_correction_put_there_goes_with_it(folder: Path) -> None:
    """An occurrence that a correction made is no statement of a turn: it goes when the correction does."""
    fact_id = fact(folder, "Zoltan")
    correct(folder, 1, fact_id, "Ana adopted a cat.", ("s1", "0"))
    made = "(SELECT id FROM fact WHERE text LIKE '%cat%')"
    execute(folder, (f"UPDATE occurrence SET correction = 1 WHERE fact = {made}", ()))
    with MemForest(folder, fast_config(cell_turns=1)) as forest:
        receipt = forest.delete_turn("u", "s1", "0")
        assert (receipt.gone["corrections"], receipt.gone["facts"]) == (1, 2)
        assert forest.user("u").verify().ok


@pytest.mark.parametrize("target", WITHIN, ids=["turn", "session", "fact", "entity", "window"])
def test_other_traces_go(folder: Path, target: Target) -> None:
    """The result that was kept of the write, a job that repeats what was said, a reason that tells of it, and where it came from."""
    fact_id = fact(folder, "Zoltan")
    session = "(SELECT id FROM session WHERE session_id = 's1')"
    job = "INSERT INTO job (owner, key, kind, payload, state, due_ms, tries, reason) VALUES ('memforest', ?, 'k', ?, 'failed', 1, 8, ?)"
    execute(
        folder,
        (
            f"INSERT INTO write_key VALUES (?, ?, {session}, 'learnt: Zoltan lives in Oslo.', 1)",
            (b"k", b"r"),
        ),
        (job, ("one", '{"text": "Zoltan lives in Oslo."}', None)),
        (job, ("two", "{}", "cannot read Zoltan")),
        (job, ("three", "{}", "no such file")),
        ("INSERT INTO origin VALUES (1, 'another', 'zoltan', 1)", ()),
        (f"UPDATE turn SET origin = 1 WHERE session = {session} AND ordinal = 0", ()),
    )
    with MemForest(folder, fast_config(cell_turns=1)) as forest:
        forest.user("u").delete(**target(fact_id))
        report = forest.user("u").verify(deleted=["zoltan", "oslo"])
        assert not [one for one in report.problems if one.part == "residue"]
    assert [row[0] for row in rows(file_of(folder), "SELECT key FROM job")] == ["three", "two"]
    assert not [row for row in rows(file_of(folder), "SELECT result FROM write_key") if row[0]]
