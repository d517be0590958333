"""A merge takes what another memory holds, once, and leaves that one as it is."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.contract.talk import fact, holding, opened, picture, said, shown, statements

from memforest import MemForest, UserMemory
from memforest.errors import InputError, NotFoundError


@pytest.fixture
def ben(woods: MemForest) -> UserMemory:
    """Another memory beside Anna's: of Ben, with a session of the same id as one of hers."""
    woods.ingest_session("ben", "march", said("I live in Porto.", "I own a kiln.", speaker="Ben"))
    woods.ingest_session(
        "ben", "pets", said("My sister Ida has a parrot.", speaker="Ben", start="2024-05-03T10:00:00+00:00")
    )
    return woods.user("ben")


def test_everything_of_the_other_is_here(anna: UserMemory, ben: UserMemory) -> None:
    """Its turns and statements are added to those that are here; a session whose id is taken has another one."""
    mine, theirs, there = statements(anna), statements(ben), picture(ben)
    result = anna.merge("ben")
    assert (result.sessions_added, result.turns_added) == (2, 3)
    assert sorted(statements(anna)) == sorted(mine + theirs)
    assert set(result.renamed) == {"march"}
    renamed = result.renamed["march"]
    assert [text for *_, text in shown(anna)[renamed]] == ["I live in Porto.", "I own a kiln."]
    assert {one.session_id: one.origin for one in anna.sessions()}[renamed] == "ben"
    assert [one.value for one in anna.timeline("Ben", attribute="residence")] == ["Porto"]
    assert picture(ben) == there
    assert anna.verify().ok


def test_a_merge_again_brings_what_is_new(anna: UserMemory, ben: UserMemory) -> None:
    """Nothing twice; a session that has grown there grows here."""
    anna.merge("ben")
    before = picture(anna)
    assert anna.merge("ben").turns_added == 0
    assert picture(anna) == before
    ben.add(said("The parrot talks.", speaker="Ben", start="2024-05-04T10:00:00+00:00"), session_id="pets")
    grown = anna.merge("ben")
    assert (grown.sessions_grown, grown.turns_added) == (1, 1)
    assert anna.verify().ok


def test_a_dry_run_says_what_would_come(anna: UserMemory, ben: UserMemory) -> None:
    """It writes nothing, and its counts are those of the merge."""
    before = picture(anna)
    would = anna.merge("ben", dry_run=True)
    assert would.dry_run
    assert picture(anna) == before
    done = anna.merge("ben")
    assert (would.sessions_added, would.turns_added, would.renamed) == (
        done.sessions_added,
        done.turns_added,
        done.renamed,
    )


def test_people_of_one_name_become_one_or_stay_two(woods: MemForest, anna: UserMemory) -> None:
    """They are named in the result, and `apart` keeps them two."""
    for name in ("b", "c"):
        woods.ingest_session(name, "s", said("I own a kiln.", speaker="Ruth"))
    assert "Ruth" in anna.merge("b").participants_joined
    assert holding(anna.list(entity="Ruth"), "kiln")
    anna.delete(session_id="s")
    result = anna.merge("c", apart=["Ruth"])
    assert "Ruth" not in result.participants_joined
    assert not holding(anna.list(entity="Ruth"), "kiln")
    assert [text for *_, text in shown(anna)["s"]] == ["I own a kiln."]


def test_two_users_of_one_name_have_to_be_told_apart(woods: MemForest, anna: UserMemory) -> None:
    """An InputError that writes nothing until somebody says whether they are one person."""
    woods.register_user("anna2", display_name="Anna")
    woods.ingest_session(
        "anna2", "s", [{"role": "user", "content": "I own a kiln.", "timestamp": "2024-05-01"}]
    )
    before = picture(anna)
    with pytest.raises(InputError):
        anna.merge("anna2")
    assert picture(anna) == before
    anna.merge("anna2", same_person=True)
    assert fact(anna, "kiln").speaker == "Anna"


def test_two_users_may_be_two_people(woods: MemForest, anna: UserMemory) -> None:
    """Then what the other said is not what she said."""
    woods.register_user("anna2", display_name="Anna")
    woods.ingest_session(
        "anna2", "s", [{"role": "user", "content": "I live in Turin.", "timestamp": "2024-05-01"}]
    )
    anna.merge("anna2", same_person=False)
    assert [one.value for one in anna.timeline("Anna", attribute="residence")] == ["Ghent", "Lille"]
    assert fact(anna, "Turin").speaker != "Anna"


def test_corrections_come_along(anna: UserMemory, ben: UserMemory) -> None:
    """What was forgotten, updated or pinned there is so here; undone there, it is undone by the next merge."""
    ben.update(fact(ben, "Porto").fact_id, "Ben lives in Braga.")
    key = ben.forget(fact(ben, "parrot").fact_id).key
    anna.merge("ben")
    assert holding(anna.list(), "Braga")
    assert not holding(anna.list(), "Porto")
    assert not holding(anna.list(), "parrot")
    ben.undo(key)
    anna.merge("ben")
    assert holding(anna.list(), "parrot")
    assert anna.verify().ok


def test_a_merge_survives_reopening_and_export(world: Path, folder: Path) -> None:
    """A merged memory is one like any other, and is merged with on after it was moved."""
    with opened(world) as forest:
        forest.ingest_session("ben", "march", said("I live in Porto.", speaker="Ben"))
        forest.user("anna").merge("ben")
        before = picture(forest.user("anna"))
        forest.user("anna").export(folder / "out.jsonl")
    with opened(world) as forest, opened(folder / "in") as other:
        assert picture(forest.user("anna")) == before
        other.user("anna").import_(folder / "out.jsonl")
        assert picture(other.user("anna")) == before
        assert other.user("anna").merge("ben", directory=world).turns_added == 0


def test_several_memories_are_merged_into_one(woods: MemForest, ben: UserMemory) -> None:
    """Into one that is made if there is none; the others stay."""
    result = woods.merge_user_forests(["anna", "ben"], "team")
    assert result.facts_inserted > 10
    team = woods.user("team")
    assert statements(team) == sorted(statements(woods.user("anna")) + statements(ben))
    assert woods.list_users() == ["anna", "ben", "team"]
    assert team.verify().ok


def test_forks_are_merged_in_any_order(folder: Path) -> None:
    """Memories that took over the same sessions and went on apart can be merged again, whoever begins."""
    for seed in range(3):
        random = Random(f"forks {seed}")
        with opened(folder / str(seed)) as forest:
            names = ["a", "b", "c"]
            for at, name in enumerate(names):
                forest.ingest_session(
                    name,
                    "s",
                    said(
                        f"I own kiln {name}.", speaker=f"P{name}", start=f"2024-05-0{at + 1}T10:00:00+00:00"
                    ),
                )
            for step in range(9):
                into, source = random.sample(names, 2)
                forest.user(into).merge(source, same_person=False)
                grown = random.choice(names)
                session = random.choice([one.session_id for one in forest.user(grown).sessions()])
                turn = {
                    "id": f"{seed}-{step}",
                    "speaker": f"P{grown}",
                    "content": f"I own loom {step}.",
                    "timestamp": f"2024-05-2{step}T10:00:00Z",
                }
                forest.user(grown).add(turn, session_id=session)
            for into in names:
                for source in names:
                    if into != source:
                        forest.user(into).merge(source, same_person=False)
                        assert forest.user(into).merge(source, same_person=False).turns_added == 0
            for name in names:
                memory = forest.user(name)
                assert memory.verify().ok
                spoken = {text for turns in shown(memory).values() for *_, text in turns}
                assert spoken == {f"I own kiln {one}." for one in names} | {
                    f"I own loom {one}." for one in range(9)
                }


def test_what_was_deleted_here_does_not_come_back_in_words(
    woods: MemForest, anna: UserMemory, ben: UserMemory
) -> None:
    """Of a session that is left nothing comes again, neither as a turn nor in a correction of the other memory."""
    anna.merge("ben")
    ben.update(fact(ben, "Porto").fact_id, "Ben lives in Braga.")
    anna.delete(fact(anna, "Porto").fact_id)
    anna.merge("ben")
    assert anna.verify(deleted=["Porto", "Braga"]).ok
    assert not holding(anna.list(), "Braga")
    assert anna.verify().ok


def test_what_cannot_be_merged_writes_nothing(
    woods: MemForest, anna: UserMemory, ben: UserMemory, folder: Path
) -> None:
    """Itself, a user or a directory that is not there, a name that nobody has."""
    before = picture(anna)
    for call, error in (
        (lambda: anna.merge("anna"), InputError),
        (lambda: anna.merge("nobody"), NotFoundError),
        (lambda: anna.merge("ben", directory=folder / "nothing"), NotFoundError),
        (lambda: anna.merge("ben", apart=["Zoe"]), InputError),
        (lambda: woods.merge_user_forests(["ben", "nobody"], "team"), NotFoundError),
        (lambda: woods.merge_user_forests(["ben", "ben"], "team"), InputError),
    ):
        with pytest.raises(error):
            call()
    assert picture(anna) == before
    assert woods.list_users() == ["anna", "ben"]
