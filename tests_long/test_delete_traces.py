"""What repeats or tells of deleted text elsewhere goes with it: corrections, reasons, origins."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import NotFoundError
from memforest.records import Chunk, ChunkOutcome, ExtractedFact
from memforest.store import derived

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
    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
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


def corrections(folder: Path) -> list[tuple[Any, ...]]:
    """Return what corrections say."""
    return rows(file_of(folder), "SELECT kind, said, text FROM correction")


@pytest.mark.parametrize("target", WITHIN, ids=["turn", "session", "fact", "entity", "window"])
def test_a_correction_goes_with_the_last_place_of_its_statement(folder: Path, target: Target) -> None:
    """With its texts, its places and what it made; one of another statement stays."""
    fact_id = fact(folder, "Zoltan")
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        user = forest.user("u")
        user.update(fact_id, "Quixby lives in Bergen.")
        user.update(fact(folder, "cat"), "Ana adopted a dog.")
        receipt = user.delete(**target(fact_id))
        assert receipt.gone["corrections"] == 1
        report = user.verify(deleted=["quixby", "bergen", "zoltan"])
        assert report.ok, report.problems
    assert [text for _, _, text in corrections(folder)] == ["Ana adopted a dog."]
    assert rows(file_of(folder), "SELECT session_id, turn_id FROM correction_place") == [("s2", "0")]


def test_deleting_what_an_update_made_deletes_the_sentence_below_it(folder: Path) -> None:
    """Both stand at one sentence: what a person has corrected is not shown again because the correction was deleted."""
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        user = forest.user("u")
        done = user.update(fact(folder, "Zoltan"), "Zoltan lives in Bergen.")
        assert done.new_fact_id is not None
        receipt = user.delete(done.new_fact_id)
        assert (receipt.gone["turns"], receipt.gone["facts"], receipt.gone["corrections"]) == (1, 2, 1)
        with pytest.raises(NotFoundError):
            user.undo(done.key)
        for gone in (done.fact_id, done.new_fact_id):
            with pytest.raises(NotFoundError):
                user.history(gone)
        report = user.verify(deleted=["zoltan", "oslo", "bergen"])
        assert report.ok, report.problems


@pytest.mark.parametrize("verb", ["forget", "pin"])
def test_deleting_what_was_decided_of_deletes_the_decision(folder: Path, verb: str) -> None:
    """A forgotten statement can be deleted by its id, and a pinned one."""
    fact_id = fact(folder, "Zoltan")
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        user = forest.user("u")
        getattr(user, verb)(fact_id)
        assert user.delete(fact_id).gone["corrections"] == 1
        report = user.verify(deleted=["zoltan", "oslo"])
        assert report.ok, report.problems


@pytest.mark.parametrize("verb", ["update", "forget"])
def test_a_correction_stays_where_its_statement_was_said_elsewhere_too(folder: Path, verb: str) -> None:
    """It loses the place that went alone, still holds, and can be undone: then what is left is shown."""
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s3", said("Zoltan lives in Oslo.", day=12))
        user, fact_id = forest.user("u"), fact(folder, "Zoltan")
        done = user.forget(fact_id) if verb == "forget" else user.update(fact_id, "Zoltan lives in Bergen.")
        receipt = forest.delete_turn("u", "s1", "0")
        assert (receipt.gone["corrections"], receipt.changed["corrections"]) == (0, 1)
        assert user.verify().ok
        assert "Zoltan lives in Oslo." not in [one.text for one in user.list()]
        assert [one.sources[0].session_id for one in user.history(fact_id) if one.kind == "said"] == ["s3"]
        user.undo(done.key)
        assert "Zoltan lives in Oslo." in [one.text for one in user.list()]
        assert user.verify().ok
    assert rows(file_of(folder), "SELECT session_id FROM correction_place") == [("s3",)]


@pytest.mark.parametrize("verb", ["update", "forget"])
def test_a_correction_stays_where_another_sentence_of_its_turn_goes(tmp_path: Path, verb: str) -> None:
    """Its own sentence is said there still, if the turn has another text now."""
    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s", said("I live in Davis. Zoltan adopted a cat."))
        user = forest.user("u")
        davis = fact(tmp_path, "Davis")
        done = user.forget(davis) if verb == "forget" else user.update(davis, "Ana lives in Bergen.")
        receipt = user.delete(entity="Zoltan")
        assert (receipt.gone["turns"], receipt.changed["turns"], receipt.gone["corrections"]) == (0, 1, 0)
        shown = [one.text for one in user.list()]
        assert shown == (["Ana lives in Bergen."] if verb == "update" else [])
        report = user.verify(deleted=["zoltan"])
        assert report.ok, report.problems
        user.undo(done.key)
        assert [one.quote for one in user.search("Where does Ana live?").evidence] == ["I live in Davis."]
        assert user.verify().ok


def test_a_correction_has_no_word_that_only_deleted_text_said(tmp_path: Path) -> None:
    """Its statement is worded by the sentence that is left; an update whose text has such a word only hides from then on."""
    with MemForest(tmp_path, fast_config(extractor=Named())) as forest:
        for session_id, day in (("a", 1), ("b", 9)):
            forest.ingest_session("u", session_id, said("Zoltan is here.", "He adopted a cat.", day=day))
        user = forest.user("u")
        first = user.update(fact(tmp_path, "adopted"), "He adopted a dog.")
        second = user.update(first.new_fact_id or "", "Zoltan adopted a dog.")
        user.delete(turn=("a", "0"))
        assert ("update", "Zoltan adopted a cat.", "He adopted a dog.") in corrections(tmp_path)  # said in b
        user.delete(turn=("b", "0"))
        assert corrections(tmp_path) == [
            ("forget", "He adopted a dog.", None),
            ("update", "He adopted a cat.", "He adopted a dog."),
        ]
        report = user.verify(deleted=["zoltan"])
        assert report.ok, report.problems
        assert user.list().facts == ()
        user.undo(second.key)
        assert [one.text for one in user.list()] == ["He adopted a dog."]
        user.undo(first.key)
        assert user.verify().ok


class Named:
    """An extractor that says by name who "he" is."""

    name = "named@1"

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return each turn as a statement."""
        return [
            ChunkOutcome(
                tuple(
                    ExtractedFact(
                        turn.text.replace("He ", "Zoltan "), (turn.ordinal,), turn.speaker, turn.text
                    )
                    for turn in chunk.turns
                )
            )
            for chunk in chunks
        ]


def test_an_undone_correction_that_names_somebody_goes_with_them(folder: Path) -> None:
    """Nothing else names them, so that no turn is changed."""
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        user = forest.user("u")
        done = user.update(fact(folder, "cat"), "Ana adopted Quixby.")
        user.undo(done.key)
        receipt = user.delete(entity="Quixby")
        assert (receipt.gone["turns"], receipt.gone["corrections"]) == (0, 1)
        report = user.verify(deleted=["quixby"])
        assert report.ok, report.problems
        with pytest.raises(NotFoundError):
            user.delete(entity="Quixby")


def test_a_write_with_a_key_that_comes_again_brings_nothing_back(folder: Path) -> None:
    """It is known, and tells of what is left."""
    turns = said("Quixby lives in Bergen.", "I like jam.", day=20)
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        first = forest.ingest_session("u", "k", turns, idempotency_key="key")
        forest.user("u").delete(entity="Quixby")
        again = forest.ingest_session("u", "k", turns, idempotency_key="key")
        assert (again.replayed, again.turns_added) == (True, 2)
        assert set(again.added) < set(first.added)
        report = forest.user("u").verify(deleted=["quixby"])
        assert report.ok, report.problems


def everything(folder: Path, other: Path) -> MemForest:
    """Return a memory that was made with every verb, and tells of Zoltan in Oslo on every path."""
    text = "Zoltan lives in Oslo."
    with MemForest(other / "merged", fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("v", "v1", said(text, "Zoltan likes jam.", speaker="Vera", day=2))
        forest.user("v").update(fact(other / "merged", "jam"), "Zoltan likes honey from Oslo.")
    with MemForest(other / "exported", fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("w", "w1", said(text, "Zoltan likes tea.", day=3))
        forest.user("w").forget(fact(other / "exported", "tea"))
        forest.user("w").export(other / "w.jsonl")
    forest = MemForest(folder, fast_config(chunk_turns=1))
    user = forest.user("u")
    user.import_(other / "w.jsonl")
    user.add("Zoltan works at Acme.", session_id="added", idempotency_key="a key")
    turns = [
        {**one, "metadata": {"place": "with Zoltan in Oslo"}} for one in said(text, "I like tea.", day=12)
    ]
    forest.ingest_session("u", "s3", turns, metadata={"about": "Zoltan"})
    forest.ingest_session("u", "s4", said("I like jam.", day=20), metadata={"about": ["Oslo"]})
    user.update(fact(folder, "Zoltan works"), "Zoltan works at Oslo Ltd.")
    user.pin(fact(folder, "Zoltan lives"))
    user.undo(user.forget(fact(folder, "Zoltan lives")).key)
    user.merge("v", directory=other / "merged")
    forest.flush()
    return forest


def test_no_column_of_any_table_has_it_after_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts, JSON and bytes: nothing is skipped because of its type."""
    monkeypatch.setattr(derived, "LEVEL", 0)
    folder = tmp_path / "here"
    with everything(folder, tmp_path) as forest:
        user = forest.user("u")
        there = {"correction.said", "correction.text", "turn.metadata", "session.metadata", "entity.label"}
        assert there <= columns_with(folder, b"zoltan")
        assert rows(file_of(folder), "SELECT count(*) FROM correction") == [(5,)]
        for name in ("Zoltan", "Oslo"):
            user.delete(entity=name)
            assert columns_with(folder, name.lower().encode()) == set()
        report = user.verify(deleted=["zoltan", "oslo"])
        assert report.ok, report.problems


def columns_with(folder: Path, needle: bytes) -> set[str]:
    """Return the columns, of tables of all kinds, in whose values some bytes stand, in whatever case."""
    found = set()
    with closing(sqlite3.connect(file_of(folder))) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            for row in db.execute(f"SELECT * FROM {table}"):
                for name, value in zip(names, row, strict=True):
                    raw = value if isinstance(value, bytes) else str(value).encode()
                    if needle in raw.lower():
                        found.add(f"{table}.{name}")
    return found


@pytest.mark.parametrize("target", WITHIN, ids=["turn", "session", "fact", "entity", "window"])
def test_other_traces_go(folder: Path, target: Target) -> None:
    """The reason of a failed chunk beside it, and where it came from."""
    fact_id = fact(folder, "Zoltan")
    of = "session = (SELECT id FROM session WHERE session_id = 's1') AND ordinal"
    execute(
        folder,
        ("INSERT INTO origin (id, memory, user_id, merged_ms) VALUES (1, 'another', 'zoltan', 1)", ()),
        (f"UPDATE turn SET origin = 1 WHERE {of} = 0", ()),
        (f"UPDATE chunk SET reason = 'cannot read Zoltan' WHERE {of} = 1", ()),
    )
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        assert "residue" in {one.part for one in forest.user("u").verify(deleted=["zoltan"]).problems}
        forest.user("u").delete(**target(fact_id))
        report = forest.user("u").verify(deleted=["zoltan", "oslo"])
        assert not [one for one in report.problems if one.part == "residue"]
