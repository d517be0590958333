"""The life of relations, names as they are spelled, and choices: whatever is done to a memory, they are what its statements tell."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, rows, said

from memforest import MemForest
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome, Mention, Relation
from memforest.store import corrections, meta
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.store.upkeep import bytes_with, rows_with

OURS = ("relations", "names", "choices", "entities", "aliases", "mentions")
TELLS = re.compile(r"(\w+) (met|visited|married) (\w+)")


class Relating(LocalExtractor):
    """The rules, and what two names with one of three verbs between them tell; names are spelled as they stand."""

    def __init__(self, version: int = 1) -> None:
        super().__init__()
        self.name = f"relating-{version}"

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract as the rules do, with relations."""
        made = await super().extract(chunks)
        return [replace(one, candidates=tuple(map(_told, one.candidates))) for one in made]


def _told(candidate: Any) -> Any:
    found = [Relation(*match.groups()) for match in TELLS.finditer(candidate.text)]
    named = [Mention(name, "person", "object") for one in found for name in (one.source, one.target)]
    kept = [one for one in candidate.mentions if one.name not in {name.name for name in named}]
    return replace(candidate, relations=tuple(found), mentions=(*kept, *named))


def relating(**settings: Any) -> Any:
    """Return a configuration with the extractor of this file."""
    return fast_config(**{"extractor": Relating(), "chunk_turns": 2, **settings})


SESSIONS = {
    "a": said("Dario met Orrin.", "Velma visited Orrin.", day=1),
    "b": said("ORRIN married Velma.", "Dario met Orrin.", day=2, speaker="Bob"),
    "c": said("Mel met Dario.", "orrin visited Melanie.", day=3, speaker="Melanie"),
}


def fill(folder: Path, names: Sequence[str] = tuple(SESSIONS), user: str = "u", **settings: Any) -> Path:
    """Make a memory of some sessions, in order."""
    with MemForest(folder, relating(**settings)) as forest:
        for name in names:
            forest.ingest_session(user, name, SESSIONS[name])
    return folder / file_name(user)


def decide(path: Path, verdict: Any, one: str, other: str, made_ms: int = 5) -> None:
    """Record a person's decision about two entities."""
    db = Database(path)
    with db.write() as tx:
        who = dict(tx.execute("SELECT key, id FROM entity").fetchall())
        corrections.add(tx, verdict, who[one], who[other], made_ms)
        meta.bump(tx)
    db.close()


def told(path: Path) -> list[tuple[str, str, str]]:
    """Return the relations, without the facts that tell them."""
    return [one[1:] for one in dump(path)["relations"]]


def decided(path: Path) -> list[tuple[Any, ...]]:
    """Return the choices."""
    found: list[tuple[Any, ...]] = dump(path)["choices"]
    return found


def sound(folder: Path, user: str = "u") -> None:
    """Check the memory."""
    with MemForest(folder, relating()) as forest:
        assert forest.user(user).verify().problems == ()


def test_what_is_told_is_stored_with_how_it_is_spelled(tmp_path: Path) -> None:
    """The pieces of this file tell something: relations of all three sessions, two spellings of one name, and a short form."""
    path = fill(tmp_path)
    assert set(told(path)) == {
        ("dario", "met", "orrin"),
        ("velma", "visited", "orrin"),
        ("orrin", "married", "velma"),
        ("melanie", "met", "dario"),
        ("orrin", "visited", "melanie"),
    }
    spelled = {(key, name) for _, key, name, _ in dump(path)["names"]}
    assert {("orrin", "Orrin"), ("orrin", "ORRIN"), ("orrin", "orrin"), ("melanie", "Mel")} <= spelled
    sound(tmp_path)


@pytest.mark.parametrize("order", [*permutations(SESSIONS)][1:], ids="".join)
def test_the_order_of_sessions_changes_nothing(tmp_path: Path, order: tuple[str, ...]) -> None:
    """Neither what is told nor how often a name is spelled how."""
    first, second = fill(tmp_path / "1"), fill(tmp_path / "2", order)
    assert differences(dump(first), dump(second), OURS) == {}


def test_a_session_that_is_overwritten_or_read_again_leaves_what_it_tells_now(tmp_path: Path) -> None:
    """As if it had been so from the beginning."""
    path = fill(tmp_path / "1", ("a", "b"))
    with MemForest(tmp_path / "1", relating()) as forest:
        forest.ingest_session("u", "a", SESSIONS["c"], replace=True)
        forest.ingest_session("u", "a", SESSIONS["a"], replace=True)
        forest.ingest_session("u", "c", SESSIONS["c"][:1])
        forest.ingest_session("u", "c", SESSIONS["c"])
    with MemForest(tmp_path / "1", relating(extractor=Relating(2), chunk_turns=1)) as forest:
        forest.user("u").rebuild(stale=True)
    assert differences(dump(fill(tmp_path / "2")), dump(path), OURS) == {}
    sound(tmp_path / "1")


def test_a_correction_tells_instead_and_is_taken_back(tmp_path: Path) -> None:
    """What it hides keeps its relations, for the graph to leave out; undone, all is as before."""
    path = fill(tmp_path)
    before = dump(path)
    with MemForest(tmp_path, relating()) as forest:
        user = forest.user("u")
        fact = next(one.fact_id for one in user.list(limit=99) if "married" in one.text)
        done = user.update(fact, "Orrin lives in Zwolle.")
        assert "zwolle" in {one[0] for one in dump(path)["entities"]}
        user.undo(done.key)
    assert differences(before, dump(path), OURS) == {}


def test_nothing_is_left_of_what_was_deleted(tmp_path: Path) -> None:
    """No relation, no spelling and no choice, in no row and no byte; the receipt counts them."""
    path = fill(tmp_path)
    decide(path, "same", "melanie", "orrin")
    decide(path, "apart", "dario", "orrin")
    with MemForest(tmp_path, relating()) as forest:
        user = forest.user("u")
        receipt = user.delete(session_id="c")
        assert (receipt.gone["relations"], receipt.gone["choices"]) == (2, 1)
        assert receipt.gone["aliases"] >= 2
        user.delete(session_id="b")
        db = Database(path)
        with db.read() as tx:
            assert [*rows_with(tx, ["Melanie", "married"])] == []
        db.close()
    assert [*bytes_with(path, ["Melanie", "ORRIN married"])] == []
    assert set(told(path)) == {("dario", "met", "orrin"), ("velma", "visited", "orrin")}
    assert decided(path) == [("apart", "dario", "orrin", 5)]
    fill(tmp_path / "2", ("a",))
    assert differences(dump(file_of(tmp_path / "2")), dump(path), ("relations", "names", "mentions")) == {}
    sound(tmp_path)


def test_a_sentence_that_goes_takes_what_it_tells(tmp_path: Path) -> None:
    """Of a turn that stays; the same told elsewhere stays."""
    with MemForest(tmp_path, relating()) as forest:
        forest.ingest_session("u", "s", said("Dario met Orrin. Velma visited Quill."))
        forest.ingest_session("u", "t", said("Dario met Orrin.", day=2))
        forest.user("u").delete(entity="Quill")
    path = file_of(tmp_path)
    assert set(told(path)) == {("dario", "met", "orrin")}
    assert not rows(path, "SELECT 1 FROM entity WHERE key = 'quill'")
    sound(tmp_path)


def test_a_spelling_that_was_the_label_goes_with_what_spelled_it(tmp_path: Path) -> None:
    """What is left is counted as if the label had always been another one."""
    with MemForest(tmp_path, relating()) as forest:
        forest.ingest_session("u", "b", said("ORRIN married Velma.", day=2))
    path = fill(tmp_path, ("a", "c"))
    assert rows(path, "SELECT label FROM entity WHERE key = 'orrin'") == [("ORRIN",)]
    with MemForest(tmp_path, relating()) as forest:
        forest.user("u").delete(session_id="b")
    assert rows(path, "SELECT label FROM entity WHERE key = 'orrin'") == [("Orrin",)]
    assert rows(path, "SELECT name FROM name_use WHERE name IN ('ORRIN', 'Orrin')") == []
    again = fill(tmp_path / "2", ("a", "c"))
    assert differences(dump(again), dump(path), ("relations", "names", "mentions", "aliases")) == {}


class Wordy(Relating):
    """Tells relations in words of another turn, as a model may."""

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract with another label."""
        made = await super().extract(chunks)
        return [
            replace(
                one,
                candidates=tuple(
                    replace(
                        found, relations=tuple(replace(r, label="besotted with") for r in found.relations)
                    )
                    for found in one.candidates
                ),
            )
            for one in made
        ]


def test_a_label_of_words_that_only_a_deleted_turn_said_goes(tmp_path: Path) -> None:
    """And the statement that it was told of stays, as it has none of them."""
    with MemForest(tmp_path, relating(extractor=Wordy())) as forest:
        forest.ingest_session("u", "s", said("I am besotted.", "Dario met Orrin."))
        path = file_of(tmp_path)
        assert told(path) == [("dario", "besotted with", "orrin")]
        turn = forest.user("u").turns("s")[0].id
        forest.user("u").delete(turn=("s", turn))
        assert any("Dario met Orrin" in one.text for one in forest.user("u").list())
    assert told(path) == []
    sound(tmp_path)


def test_a_name_that_nobody_speaks_by_any_more_goes_with_what_is_short_for_it(tmp_path: Path) -> None:
    """Turn after turn goes in which somebody speaks; who is meant by a short form beside them would still be known by the whole name.

    As long as another session has them speak, or a statement names them in full, nothing of that goes.
    """
    turns = [
        {**turn, "speaker": speaker}
        for turn, speaker in zip(
            said("I like tea.", "Zarbin works at Acme.", "I like jam.", day=1),
            ("Zarbin Quellstrom", "Bob", "Zarbin Quellstrom"),
            strict=True,
        )
    ]
    with MemForest(tmp_path, relating()) as forest:
        memory = forest.user("u")
        forest.ingest_session("u", "s", turns)
        forest.ingest_session("u", "later", said("Zarbin Quellstrom has a boat.", day=2, speaker="Bob"))
        assert rows(file_of(tmp_path), "SELECT key FROM alias") == [("zarbin",)]
        for gone in ("0", "2"):
            memory.delete(turn=("s", gone))
        assert any("Acme" in one.text for one in memory.list())
        expected = memory.delete(session_id="later", dry_run=True).counts()
        assert memory.delete(session_id="later").counts() == expected
        assert memory.verify(deleted=["Quellstrom"]).ok
        assert memory.turns("s")[0].text == "Zarbin works at Acme."
        sound(tmp_path)
    assert not rows(file_of(tmp_path), "SELECT key FROM entity WHERE key LIKE '%quellstrom%'")


def test_a_choice_outlives_that_its_names_are_read_again(tmp_path: Path) -> None:
    """By other rules, when a session is overwritten with what names them too, and when it grows."""
    path = fill(tmp_path, ("c",))
    decide(path, "same", "dario", "orrin")
    with MemForest(tmp_path, relating(extractor=Relating(2))) as forest:
        forest.user("u").rebuild(stale=True)
        again = [{**turn, "content": turn["content"] + " Really."} for turn in SESSIONS["c"]]
        forest.ingest_session("u", "c", again, replace=True)
        forest.ingest_session("u", "c", [*again, *said("It rained.", day=4)])
    assert decided(path) == [("same", "dario", "orrin", 5)]
    sound(tmp_path)


def test_a_choice_goes_with_a_name_that_nothing_has_any_more(tmp_path: Path) -> None:
    """When the session is overwritten without it; its entity goes too."""
    path = fill(tmp_path, ("c",))
    decide(path, "same", "dario", "orrin")
    with MemForest(tmp_path, relating()) as forest:
        forest.ingest_session("u", "c", said("Dario met Velma.", speaker="Melanie"), replace=True)
    assert decided(path) == []
    assert {one[0] for one in dump(path)["entities"]} == {"dario", "melanie", "velma"}
    sound(tmp_path)


def test_an_import_has_all_of_it(tmp_path: Path) -> None:
    """Relations, spellings and choices, the latter in their order."""
    path = fill(tmp_path / "1")
    decide(path, "same", "dario", "orrin", 9)
    decide(path, "apart", "dario", "orrin", 3)
    with MemForest(tmp_path / "1", relating()) as forest:
        forest.user("u").export(tmp_path / "x.jsonl")
    with MemForest(tmp_path / "2", relating()) as forest:
        forest.register_user("v")
        user = forest.user("v")
        user.import_(tmp_path / "x.jsonl")
        assert user.verify().problems == ()
    copy = file_of(tmp_path / "2")
    assert differences(dump(path), dump(copy), OURS) == {}
    assert [one[0] for one in rows(copy, "SELECT verdict, id FROM choice ORDER BY id")] == ["apart", "same"]


def test_a_merge_is_as_if_all_had_been_said_in_one_memory(tmp_path: Path) -> None:
    """Also of names that have other labels there; choices come once, and those whose entities came."""
    path = fill(tmp_path, ("a",))
    other = fill(tmp_path, ("b", "c"), "v")
    decide(path, "same", "dario", "orrin", 3)
    decide(other, "apart", "dario", "orrin", 7)
    with MemForest(tmp_path, relating()) as forest:
        for _ in range(2):
            forest.user("u").merge("v", same_person=False)
        assert forest.user("u").verify().problems == ()
    whole = fill(tmp_path / "whole")
    assert differences(dump(whole), dump(path), ("relations", "names", "aliases", "mentions")) == {}
    assert decided(path) == [("apart", "dario", "orrin", 7), ("same", "dario", "orrin", 3)]
    db = Database(path)
    with db.read() as tx:
        assert [one.verdict for one in corrections.read(tx)] == ["apart"]
    db.close()


def test_who_is_called_otherwise_here_is_so_in_what_is_told(tmp_path: Path) -> None:
    """In names, and in labels that name them; a choice about two who are one here is none."""
    path = fill(tmp_path, ("a",))
    other = fill(tmp_path, ("b", "c"), "v")
    decide(other, "same", "velma", "orrin", 7)
    with MemForest(tmp_path, relating()) as forest:
        forest.user("u").merge("v", same={"Velma": "Orrin", "Dario": "Dario Fo"}, same_person=False)
        assert forest.user("u").verify().problems == ()
    found = set(told(path))
    assert ("dario fo", "met", "orrin") in found
    assert ("melanie", "met", "dario fo") in found
    assert not any(source == target for source, _, target in found)
    assert ("orrin", "married", "velma") not in found
    assert decided(path) == []
    assert {name for _, key, name, _ in dump(path)["names"] if key == "dario fo"} == {"Dario Fo"}
