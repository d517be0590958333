"""A deletion takes one thing with all that was made of it, and leaves everything else as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import ANNA, fact, files, holding, opened, picture, said, shown, statements, texts

from memforest import MemForest, UserMemory
from memforest.errors import InputError, NotFoundError

KINDS: Mapping[str, Callable[[UserMemory], dict[str, Any]]] = {
    "turn": lambda memory: {"turn": ("april", memory.turns("april")[2].id)},
    "session": lambda memory: {"session_id": "april"},
    "fact": lambda memory: {"fact_id": fact(memory, "dentist").fact_id},
    "entity": lambda memory: {"entity": "Milo"},
    "before": lambda memory: {"during": (None, "2024-04-01T00:00:00Z")},
    "window": lambda memory: {"during": ("2024-04-15T18:01:00Z", "2024-04-15T18:03:00Z")},
    "after": lambda memory: {"during": ("2024-05-20T07:31:00Z", "9999-01-01T00:00:00Z")},
}
"""Each kind of deletion, as arguments of `delete`."""

GONE = {
    "turn": ["My dentist is Dr. Okafor."],
    "session": [text for _, _, text in ANNA["april"]],
    "fact": ["My dentist is Dr. Okafor."],
    "entity": ["My brother Milo adopted two ferrets.", "Milo works at Tannery Lane.", "We met Milo near the harbour on 18 May 2024."],
    "before": [text for _, _, text in ANNA["march"]],
    "window": ["Milo works at Tannery Lane.", "My dentist is Dr. Okafor."],
    "after": [text for _, _, text in ANNA["may"][1:]],
}  # fmt: skip
"""What each of them takes."""


def spoken(memory: UserMemory) -> list[str]:
    """Return the texts of all turns."""
    return [text for turns in shown(memory).values() for *_, text in turns]


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_what_it_names_and_no_more(anna: UserMemory, kind: str) -> None:
    """The turns go with their statements; all other turns stay as they are, and the memory is whole."""
    before = spoken(anna)
    assert set(GONE[kind]) <= set(before)
    receipt = anna.delete(**KINDS[kind](anna))
    assert receipt
    assert spoken(anna) == [text for text in before if text not in GONE[kind]]
    assert not set(GONE[kind]) & set(statements(anna))
    for text in GONE[kind]:
        assert text not in anna.search(text, top_k=50).context(10_000)
    assert anna.verify(deleted=GONE[kind]).ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_counts_what_the_deletion_takes(anna: UserMemory, kind: str) -> None:
    """It writes nothing, and its counts are those of the deletion."""
    before, target = picture(anna), KINDS[kind](anna)
    counted = anna.delete(**target, dry_run=True)
    assert counted.dry_run
    assert picture(anna) == before
    assert anna.delete(**target).counts() == counted.counts()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_the_memory_that_never_had_it(world: Path, folder: Path, kind: str) -> None:
    """It holds and finds what a memory does into which only the rest was put; after reopening too."""
    with opened(world) as forest:
        forest.user("anna").delete(**KINDS[kind](forest.user("anna")))
    with opened(world) as forest, opened(folder / "anew") as anew:
        memory = forest.user("anna")
        anew.register_user("anna", display_name="Anna")
        for name, turns in shown(memory).items():
            talk = [
                {"id": id_, "speaker": who, "timestamp": at, "content": text} for id_, who, at, text in turns
            ]
            anew.ingest_session("anna", name, talk)
        left, fresh = picture(memory), picture(anew.user("anna"))
        for part in ("turns", "facts", "people", "lines"):
            assert left[part] == fresh[part], part
        for question, found in left["found"].items():
            assert [one[0] for one in found] == [one[0] for one in fresh["found"][question]], question


@pytest.mark.parametrize("kind", ["turn", "session", "fact", "entity"])
def test_what_is_gone_is_not_found_to_delete(anna: UserMemory, kind: str) -> None:
    """The same deletion again is a NotFoundError and changes nothing."""
    target = KINDS[kind](anna)
    anna.delete(**target)
    before = picture(anna)
    with pytest.raises(NotFoundError):
        anna.delete(**target)
    assert picture(anna) == before


def test_an_empty_window_takes_nothing(anna: UserMemory) -> None:
    """A window in which nothing was said is deleted without an error, and the receipt is false."""
    before = picture(anna)
    assert not anna.delete(during=("2020-01-01", "2021-01-01"))
    assert picture(anna) == before


def test_deleting_a_change_opens_what_it_had_ended(anna: UserMemory) -> None:
    """Without the move she still lives where she lived."""
    anna.delete(fact(anna, "Lille").fact_id)
    assert [(one.value, one.end) for one in anna.timeline("Anna", attribute="residence")] == [("Ghent", None)]
    assert "Ghent" in (anna.ask("Where does Anna live?").answer or "")


def test_what_was_said_elsewhere_too_stays(anna: UserMemory) -> None:
    """A statement of two places loses the one that was deleted, and is told by the other."""
    anna.add(
        {"speaker": "Anna", "content": "My dentist is Dr. Okafor.", "timestamp": "2024-05-25T10:00:00Z"},
        session_id="x",
    )
    anna.delete(session_id="april")
    one = fact(anna, "dentist")
    assert {source.session_id for source in one.sources} == {"x"}
    assert one.said.month == 5
    assert anna.verify().ok


def test_a_statement_does_not_go_with_its_neighbour(forest: MemForest) -> None:
    """What one says of herself stays when what she had said of another before it is deleted."""
    memory = forest.user("u")
    memory.add(said("Gregor lives in Lisbon.", "I live in Davis."), session_id="s")
    memory.delete(turn=("s", memory.turns("s")[0].id))
    assert texts(memory.turns("s")) == texts(memory.list()) == ["I live in Davis."]


def test_of_a_turn_with_two_statements_the_other_stays(anna: UserMemory) -> None:
    """To delete a statement deletes its sentences; the rest of the turn stays as it was said."""
    anna.add({"speaker": "Ruth", "content": "Milo moved to Bergen. I bought a lathe."}, session_id="x")
    receipt = anna.delete(fact(anna, "Bergen").fact_id)
    assert receipt.changed
    assert texts(anna.turns("x")) == ["I bought a lathe."]
    assert holding(anna.list(), "lathe")
    assert anna.verify(deleted=["Bergen"]).ok


def test_who_spoke_goes_with_all_that_they_said(anna: UserMemory) -> None:
    """An entity that takes part: every turn of theirs, and every sentence that names them."""
    anna.add({"speaker": "Anna", "content": "Ruth moved to Bergen. I bought a lathe."}, session_id="x")
    anna.delete(entity="Ruth")
    assert {turn[1] for turns in shown(anna).values() for turn in turns} == {"Anna"}
    assert texts(anna.turns("x")) == ["I bought a lathe."]
    assert "Ruth" not in [one.name for one in anna.entities()]
    assert anna.verify(deleted=["Ruth", "dulcimer", "marmalade77", "ferrets"]).ok


def test_a_deleted_turn_can_be_said_again(woods: MemForest, anna: UserMemory) -> None:
    """A session of which something was deleted can be ingested again as it was, and is whole then."""
    before = spoken(anna)
    anna.delete(turn=("april", anna.turns("april")[2].id))
    woods.ingest_session(
        "anna",
        "april",
        [{"speaker": who, "timestamp": at, "content": text} for who, at, text in ANNA["april"]],
    )
    assert spoken(anna) == before
    assert holding(anna.list(), "dentist")
    assert anna.verify().ok


def test_the_other_turns_keep_their_ids(anna: UserMemory) -> None:
    """Ids of turns that stay are what they were, and what is added comes behind with an id of its own."""
    before = {turn[3]: turn[0] for turn in shown(anna)["april"]}
    anna.delete(turn=("april", anna.turns("april")[0].id))
    anna.add(
        {"speaker": "Ruth", "content": "I own a kiln.", "timestamp": "2024-04-15T18:05:00Z"},
        session_id="april",
    )
    after = {turn[3]: turn[0] for turn in shown(anna)["april"]}
    assert {text: after[text] for text in before if text in after} == {
        k: v for k, v in before.items() if "Lille" not in k
    }
    assert len(set(after.values())) == len(after) == 4


def test_by_session_and_turn_the_forest_does_the_same(woods: MemForest, anna: UserMemory) -> None:
    """`delete_turn` and `delete_session` of the forest are the same deletions."""
    woods.delete_turn("anna", "april", anna.turns("april")[2].id)
    assert not holding(anna.list(), "dentist")
    woods.delete_session("anna", "april")
    assert [one.session_id for one in anna.sessions()] == ["march", "may"]


def test_deleting_a_user_leaves_no_file_and_no_neighbour_harmed(woods: MemForest, world: Path) -> None:
    """All files of the user go, the other user's stay, and the user may begin anew at once."""
    alone = set(files(world))
    woods.user("ben").add(said("I live in Porto.", speaker="Ben"), session_id="s")
    before = picture(woods.user("ben"))
    assert woods.delete_user("anna")
    assert not alone & set(files(world))
    assert woods.list_users() == ["ben"]
    assert picture(woods.user("ben")) == before
    with pytest.raises(NotFoundError):
        woods.delete_user("anna")
    woods.user("anna").add("I live in Bruges.")
    assert statements(woods.user("anna")) == ["I live in Bruges."]


def test_delete_all_is_of_one_user(woods: MemForest, anna: UserMemory) -> None:
    """A dry run counts; the deletion takes everything; the next `add` begins a new memory."""
    woods.user("ben").add(said("I live in Porto.", speaker="Ben"), session_id="s")
    assert anna.delete_all(dry_run=True).gone["turns"] == 12
    assert woods.has_user("anna")
    anna.delete_all()
    assert woods.list_users() == ["ben"]
    assert not anna.search("Where does Anna live?")


def test_a_receipt_has_counts_and_no_words(anna: UserMemory) -> None:
    """It says how much of each layer went, and nothing of what it was."""
    receipt = anna.delete(session_id="april")
    assert receipt.gone["turns"] == 4
    assert receipt.gone["facts"] == 4
    told = json.dumps(receipt.to_dict()) + repr(receipt)
    assert not [word for word in ("Lille", "Okafor", "marmalade77", "Tannery") if word in told]


def test_a_deletion_names_exactly_one_thing(anna: UserMemory) -> None:
    """None or two are an InputError, and nothing goes."""
    before = picture(anna)
    with pytest.raises(InputError):
        anna.delete()
    with pytest.raises(InputError):
        anna.delete(session_id="april", entity="Milo")
    with pytest.raises(InputError):
        anna.delete(during=("2024-05-01", "2024-04-01"))
    assert picture(anna) == before


def test_what_was_deleted_is_told_as_a_count_to_the_past(anna: UserMemory) -> None:
    """A question at a moment when it was held does not find it, and is warned of how much is gone."""
    anna.delete(session_id="april")
    found = anna.search("Where does Anna live?", known_at="2024-05-01", top_k=50)
    assert "Lille" not in found.context(10_000)
    assert found.warnings
    assert [one.kind for one in anna.changes("2024-06-01")].count("deleted") >= 1
    assert not [one for one in anna.changes("2024-01-01", limit=1000) if "Lille" in one.text]


def test_a_replaced_turn_leaves_no_word_in_a_correction(anna: UserMemory, woods: MemForest) -> None:
    """Also where another sentence of it stays, and of a correction of what a correction has made."""
    anna.add(said("I met Zoltan in Narvik. She works there now."), session_id="talk")
    for text in ("I saw Zoltan in Rome.", "I saw Zoltan in Rome twice."):
        anna.update(fact(anna, "Zoltan").fact_id, text)
    woods.ingest_session("anna", "talk", said("She works there now. I own a kiln."), replace=True)
    assert anna.verify(deleted=["Zoltan", "Narvik"]).ok
    assert not holding(anna.list(verdict="corrected"), "Zoltan")
    assert holding(anna.list(), "kiln")
