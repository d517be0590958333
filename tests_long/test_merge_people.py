"""Who is who when memories merge: owners of one name are asked about, and nobody is joined in silence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, rows, said

from memforest import InputError, MemForest
from memforest.store.directory import file_name


def told(*texts: str, role: str = "user", day: int = 1) -> list[dict[str, str]]:
    """Return turns of a user who is not named."""
    return [
        {"role": role, **{k: v for k, v in one.items() if k != "speaker"}} for one in said(*texts, day=day)
    ]


def two_sams(folder: Path) -> MemForest:
    """Return a forest with two users who both are called Sam."""
    forest = MemForest(folder, fast_config())
    for user, text in (("sam-1", "I live in Davis."), ("sam-2", "I live in Miami.")):
        forest.register_user(user, display_name="Sam")
        forest.ingest_session(user, f"of {user}", told(text, "I am happy with it."))
    return forest


def facts(forest: MemForest, user: str) -> set[str]:
    """Return the statements of a memory."""
    return {one.statement for one in forest.user(user).list().facts}


def test_owners_of_one_name_are_asked_about(folder: Path) -> None:
    """Nothing is merged until the caller says whether they are one person."""
    with two_sams(folder) as forest:
        before = dump(folder / file_name("sam-1"))
        for dry_run in (True, False):
            with pytest.raises(InputError, match="same_person=True"):
                forest.user("sam-1").merge("sam-2", dry_run=dry_run)
        assert differences(before, dump(folder / file_name("sam-1"))) == {}


def test_two_people_of_one_name_stay_two(folder: Path) -> None:
    """The other one is called by name and user: as a speaker, in statements, and in a tree of their own."""
    with two_sams(folder) as forest:
        result = forest.user("sam-1").merge("sam-2", same_person=False)
        assert result.people == {"sam": "Sam (sam-2)"}
        assert "Sam" not in result.participants_joined
        statements = facts(forest, "sam-1")
        assert 'Sam: "I live in Davis."' in statements
        assert 'Sam (sam-2): "I live in Miami."' in statements
        assert not any(one == 'Sam: "I live in Miami."' for one in statements)
        homes = {one.attribute: one for one in forest.user("sam-1").timeline("Sam") if one.kind == "state"}
        assert "Miami" not in str(homes)
        assert "Miami" in str(list(forest.user("sam-1").timeline("Sam (sam-2)")))
        assert forest.user("sam-1").verify().problems == ()
        again = forest.user("sam-1").merge("sam-2")  # what was said of them holds
        assert (again.sessions_same, again.facts_inserted) == (1, 0)
        with pytest.raises(InputError):
            forest.user("sam-1").merge("sam-2", same_person=True)


def test_one_person_with_two_memories_has_one(folder: Path) -> None:
    """Also when the names differ: what the other one said is this user's."""
    with MemForest(folder, fast_config()) as forest:
        forest.register_user("work", display_name="Samantha Reed")
        forest.ingest_session("work", "w", told("I live in Miami.", "I work at Acme."))
        forest.register_user("home", display_name="Sam")
        forest.ingest_session("home", "h", told("I live in Davis.", day=2))
        result = forest.user("home").merge("work", same_person=True)
        assert result.people == {"samantha reed": "Sam"}
        assert facts(forest, "home") == {
            'Sam: "I live in Davis."',
            'Sam: "I live in Miami."',
            'Sam: "I work at Acme."',
        }
        forest.register_user("whole", display_name="Sam")
        forest.ingest_session("whole", "w", told("I live in Miami.", "I work at Acme."))
        forest.ingest_session("whole", "h", told("I live in Davis.", day=2))
        assert forest.user("home").verify().problems == ()
    one, whole = (dump(folder / file_name(user)) for user in ("home", "whole"))
    parts = ("turns", "facts", "occurrences", "entities", "mentions", "states", "fact words", "fact vectors")
    assert differences(whole, one, parts) == {}


def test_who_is_joined_by_name_is_told_and_may_be_kept_apart(folder: Path) -> None:
    """A dry run names people and things of one name; `apart` and `same` say otherwise."""
    with MemForest(folder, fast_config()) as forest:
        for user, place in (("ann", "Oslo"), ("bea", "Kyoto")):
            turns = [
                *said(f"I live in {place}.", speaker="Max"),
                *said(f"Max is my brother. He works at Acme in {place}.", speaker=user, day=2),
            ]
            forest.ingest_session(user, f"of {user}", turns)
        dry = forest.user("ann").merge("bea", dry_run=True)
        assert dry.participants_joined == ("Max",)
        assert "Acme" in dry.entities_joined
        apart = forest.user("ann").merge("bea", apart=["Max"], dry_run=True)
        assert (apart.participants_joined, dict(apart.people)) == ((), {"max": "Max (bea)"})
        forest.user("ann").merge("bea", apart=["Max"])
        assert 'Max (bea): "I live in Kyoto."' in facts(forest, "ann")
        assert forest.user("ann").verify().problems == ()
        again = forest.user("ann").merge("bea")
        assert (again.sessions_same, again.sessions_added) == (1, 0)

        forest.ingest_session("cid", "of cid", said("I live in Lima.", speaker="Maxim"))
        forest.user("ann").merge("cid", same={"Maxim": "Max"})
        assert 'Max: "I live in Lima."' in facts(forest, "ann")
        assert forest.user("ann").verify().problems == ()
        with pytest.raises(InputError):
            forest.user("cid").merge("bea", apart=["Zoe"])


def test_users_without_a_name_are_not_one(folder: Path) -> None:
    """Both are "user" to their memories; the second one of them is asked about, whoever owns the memory now."""
    ids = ["3f2b8c1e-7a54-4c1b-9d53-0a1b2c3d4e5f", "9c1b8c1e-7a54-4c1b-9d53-0a1b2c3d4e5f"]
    with MemForest(folder, fast_config()) as forest:
        for at, user in enumerate(ids):
            forest.ingest_session(user, f"s{at}", told("I live in Oslo."))
        forest.user("into").add("Hello, I live in Lima.")
        forest.user("into").merge(ids[0])
        with pytest.raises(InputError, match="same_person"):
            forest.user("into").merge(ids[1])
        forest.user("into").merge(ids[1], same_person=False)
        assert forest.user("into").verify().problems == ()
    speakers = rows(folder / file_name("into"), "SELECT DISTINCT speaker FROM turn")
    assert {name for (name,) in speakers} == {"into", "user", f"user ({ids[1]})"}
