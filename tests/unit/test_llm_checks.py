"""What is kept of a statement that a model read, part by part: speaker, person, names, topics, states, and how many."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.entities import MAX_MENTIONS
from memforest.reading.extract_llm import MAX_STATEMENT_CHARS, check_extraction, most_statements
from memforest.reading.replies import Extraction, FactReply
from memforest.reading.reply_source import ChunkSource, read_source
from memforest.records import Chunk, ExtractedFact, Skipped, Turn

UTC = timezone.utc
SAID = datetime(2024, 5, 8, 20, 0, tzinfo=UTC)


def source(*said: tuple[str, str], user: str = "", first: int = 0) -> ChunkSource:
    """Return what (speaker, text) say; with a user, the others are assistants."""
    turns = [
        Turn(str(at), speaker, text, SAID + timedelta(minutes=at), at, (("user" if speaker == user else "assistant") if user else None))
        for at, (speaker, text) in enumerate(said, first)
    ]  # fmt: skip
    return read_source(Chunk("s", 0, tuple(turns), (), tuple(dict.fromkeys(one for one, _ in said))), UTC)


def checked(
    of: ChunkSource, *statements: dict[str, Any], notes: tuple[str, ...] = ()
) -> tuple[list[ExtractedFact], list[Skipped]]:
    """Return what is kept and what is left out of these statements."""
    reply = Extraction(statements=[FactReply.model_validate({"turns": [0], **one}) for one in statements])
    for note in notes:
        reply.note(note)
    return check_extraction(reply, of)


def kept(of: ChunkSource, text: str, **more: Any) -> ExtractedFact:
    """Return the candidate of one statement."""
    (found,), skipped = checked(of, {"text": text, **more})
    assert skipped == []
    return found


TALK = source(
    ("Ann", "I moved to Porto with Rex, my dog, and Bo Silva. I am a nurse at Northwind, my old job was in Faro, and I feel at home."),
    ("Bo", "I sold my red boat to Ann, and my rent went up."),
)  # fmt: skip


@each(("turns", "most"), [(0, 15), (1, 15), (2, 15), (3, 22), (4, 30), (10, 75)])
def test_a_chunk_has_so_many_statements(turns: int, most: int) -> None:
    """Seven and a half a turn, fifteen at least."""
    assert most_statements(turns) == most


@pytest.mark.parametrize("length", [MAX_STATEMENT_CHARS, MAX_STATEMENT_CHARS + 1])
def test_a_statement_may_be_so_long(length: int) -> None:
    """Beyond that it is a copy of the conversation."""
    text = ("Ann moved to Porto with Rex " * 40)[: length - 1] + "."
    found, skipped = checked(TALK, {"text": text})
    assert (len(found), [one.reason for one in skipped]) == (
        (1, []) if length == MAX_STATEMENT_CHARS else (0, ["too long"])
    )


@each(
    ("text", "turns", "reason"),
    [
        ("Ann moved to Porto?", [0], "question"),
        ("?!", [], "empty"),
        ("Ann moved to Porto?", [], "it names no turn of the chunk"),
        ("x" * 700, [9], "too long"),
        ("Ann moved to Porto on 3 May 2019.", [0], "not supported by the turns (a date)"),
        ("Ann moved to Lisbon in 2019.", [0], "not supported by the turns (a date)"),
        ("Ann moved to Lisbon.", [0], "not supported by the turns (a name)"),
    ],
)
def test_one_reason_is_given(text: str, turns: list[int], reason: str) -> None:
    """The first of them: shape, then dates, then the rest."""
    found, (skipped,) = checked(TALK, {"text": text, "turns": turns})
    assert (found, skipped.reason) == ([], reason)


def test_what_is_left_out_stands_at_its_turn() -> None:
    """The first that it names; that of the chunk where it names none; its text is cut."""
    of = source(("Ann", "I moved to Porto."), ("Bo", "I sold my red boat."), first=3)
    long = "Ann sailed to Oslo with Tarek and " * 9
    _, skipped = checked(
        of,
        {"text": long, "turns": [4]},
        {"text": long, "turns": [4, 3]},
        {"text": "Tarek.", "turns": []},
        notes=("cut",),
    )
    assert [one.turn for one in skipped] == [4, 3, 3, 3]
    assert len(skipped[0].text) < 300
    assert (skipped[-1].text, skipped[-1].reason) == ("", "cut")


def test_the_same_words_count_once() -> None:
    """Whatever their case, blanks and accents; another word is another statement."""
    texts = ["Bo sold a red boat.", "bo  SOLD a red boat.", "Bo sold a red boat", "Bo sold the boat to Ann."]
    found, skipped = checked(TALK, *({"text": one, "turns": [1]} for one in texts))
    assert found[0].text == "Bo sold a red boat."
    assert found[-1].text == "Bo sold the boat to Ann."
    assert {one.reason for one in skipped} == {"repeated"}


@given(
    st.permutations(
        ["Ann moved to Porto.", "Tarek sails.", "Bo sold a red boat.", "Ann is a nurse at Northwind.", "?"]
    )
)
@settings(max_examples=20, deadline=None)
def test_the_order_of_a_reply_is_kept_and_decides_nothing(texts: list[str]) -> None:
    """What is kept does not depend on what stands before it."""
    found, skipped = checked(TALK, *({"text": one, "turns": [0, 1]} for one in texts))
    bad = ["Tarek sails.", "?"]
    assert [one.text for one in found] == [one for one in texts if one not in bad]
    assert [one.text for one in skipped] == [one for one in texts if one in bad]


def test_the_speaker_is_the_first_who_does_not_only_ask() -> None:
    """The first of all where everybody asks; turns stand in their order, each once."""
    asked = source(("Bo", "Did you move to Porto?"), ("Cy", "Or to Faro?"), ("Ann", "I moved to Porto."))
    found = kept(asked, "Ann moved to Porto.", turns=[2, 0, 2, 1, 77])
    assert (found.speaker, found.turns) == ("Ann", (0, 1, 2))
    assert kept(asked, "Ann moved to Porto.", turns=[1, 0]).speaker == "Bo"


@each(
    ("text", "read"),
    [
        ("I sold a red boat.", "Bo sold a red boat."),
        ("The user sold a red boat.", "Bo sold a red boat."),
        ("User sold a red boat.", "Bo sold a red boat."),
        ("It is known that the user sold a red boat.", "It is known that Bo sold a red boat."),
        ("The user name of the boat is red.", "Helper: The user name of the boat is red."),
        ("The user-made boat is red.", "Helper: The user-made boat is red."),
        ("My boat is red.", "Bo's boat is red."),
    ],
)
def test_nobody_is_called_the_user(text: str, read: str) -> None:
    """A name stands for "I" and for the user; other things of users keep theirs."""
    of = source(
        ("Bo", "I sold my red boat, it was user-made and had a user name."),
        ("Helper", "The boat of Bo is red."),
        user="Bo",
    )
    turn = 1 if read.startswith("Helper") else 0
    assert kept(of, text, turns=[turn]).text == read


@pytest.mark.parametrize(
    ("people", "read"),
    [(("Bo", "Ann"), "Bo sold Ann a red boat."), (("Bo", "Ann", "Cy"), "Bo sold you a red boat.")],
)
def test_you_is_the_other_one_of_two(people: tuple[str, ...], read: str) -> None:
    """Of three it cannot be told which."""
    of = source(*((one, "I sold you a red boat.") for one in people))
    assert kept(of, "I sold you a red boat.").text == read


def test_a_pronoun_of_another_language_is_left_alone() -> None:
    """Spanish "me" is no English one."""
    of = source(("Lucía", "Marta me vendió un barco rojo en la playa."), ("Marta", "Sí."))
    assert (
        kept(of, "Marta me vendió un barco rojo en la playa.").text
        == "Marta me vendió un barco rojo en la playa."
    )


def test_names_of_a_language_with_other_capitals_are_those_that_are_listed() -> None:
    """In German every noun has one; who takes part is known anyway."""
    of = source(("Jonas", "Ich habe gestern in Berlin ein Fahrrad für meine Schwester gekauft."))
    text = "Jonas kaufte gestern in Berlin ein Fahrrad für die Schwester."
    assert {one.name for one in kept(of, text).mentions} == {"Jonas"}
    assert {one.name for one in kept(of, text, entities=[{"name": "Berlin"}]).mentions} == {"Jonas", "Berlin"}


def test_what_is_beyond_the_bound_is_told_and_a_flood_only_counted() -> None:
    """Four times as many are looked at; the rest is a number."""
    of = source(("Ann", "I own boats of the numbers " + ", ".join(str(n) for n in range(100, 180)) + "."))
    found, skipped = checked(of, *({"text": f"Ann owns boat number {n}."} for n in range(100, 163)))
    assert len(found) == most_statements(1) == 15
    assert [one.reason for one in skipped] == ["over the limit"] * 46
    assert skipped[-1].text == "3 more statements"
    found, skipped = checked(of, *({"text": f"Ann owns boat number {n}."} for n in range(100, 115)))
    assert (len(found), skipped) == (15, [])


def test_of_two_users_neither_is_the_user() -> None:
    """It cannot be told which; somebody of that name keeps it."""
    two = read_source(
        Chunk("s", 0, tuple(Turn(str(n), who, "I sold my red boat to the user.", SAID, n, "user") for n, who in enumerate(("Ann", "Bo"))), (), ("Ann", "Bo")), UTC
    )  # fmt: skip
    assert "The user" in kept(two, "The user sold a red boat.").text
    named = source(("User", "I sold my red boat."), ("Helper", "Good."), user="User")
    assert kept(named, "The user sold a red boat.").text == "User: The user sold a red boat."


@each(
    ("kind", "named"),
    [
        ("place", "place"), ("CITY ", "place"), ("country", "place"), ("company", "organisation"), ("org", "organisation"), ("person", "person"),
        ("people", "person"), ("product", "product"), ("pet", "thing"), ("", "unknown"), ("nonsense", "unknown"),
    ],
)  # fmt: skip
def test_a_listed_kind_is_put_in_our_words(kind: str, named: str) -> None:
    """One that there is not is none."""
    found = kept(TALK, "Ann moved to Porto with Rex.", entities=[{"name": "Rex", "type": kind}])
    assert {one.name: one.kind for one in found.mentions}["Rex"] == named


def test_participants_are_called_as_they_are() -> None:
    """Whatever the model calls them, and whatever their case; who speaks is always mentioned, once."""
    listed = [{"name": "ANN", "type": "place"}, {"name": "bo", "type": "thing"}]
    found = kept(TALK, "Bo sold a red boat to Ann.", turns=[1], entities=listed)
    assert sorted((one.name, one.kind) for one in found.mentions) == [
        ("Ann", "participant"),
        ("Bo", "participant"),
    ]
    assert [one.name for one in kept(TALK, "A red boat was sold.", turns=[1]).mentions] == ["Bo"]


@pytest.mark.parametrize(
    ("text", "role"), [("Rex moved to Porto with Ann.", "subject"), ("Ann moved to Porto with Rex.", "other")]
)
def test_the_subject_stands_first(text: str, role: str) -> None:
    """As a listed name, too."""
    found = kept(TALK, text, entities=[{"name": "Rex", "type": "pet"}])
    assert {one.name: one.role for one in found.mentions}["Rex"] == role


@each(
    "name", ["Faro", "dog", "", "7", "Re", "R" * 90, "Rex moved to Porto with Ann and with somebody whom nobody of them had ever met before in all their lives"]
)  # fmt: skip
def test_what_is_no_name_of_the_statement_is_not_mentioned(name: str) -> None:
    """It has to stand in it as a word, be a name, and be short."""
    found = kept(TALK, "Rex, a dog, moved to Porto with Ann.", entities=[{"name": name, "type": "place"}])
    assert {one.name for one in found.mentions} <= {"Rex", "Porto", "Ann"}


def test_a_statement_mentions_so_many_and_who_says_it() -> None:
    """The first ones; a list of names is no flood of trees."""
    names = [f"Port{chr(97 + n)}a" for n in range(26)]
    of = source(("Ann", f"I saw {', '.join(names)}."))
    found = kept(
        of, f"Ann saw {', '.join(names)}.", entities=[{"name": one, "type": "place"} for one in names]
    )
    assert len(found.mentions) in (MAX_MENTIONS, MAX_MENTIONS + 1)
    assert "Ann" in {one.name for one in found.mentions}


def test_a_value_of_a_state_is_short() -> None:
    """A clause is none."""
    long = "place at Northwind " + "after the job in Faro " * 4
    found = kept(TALK, f"Ann has a {long}", relations=[{**WORK, "value": long.strip()}])
    assert found.states == ()


@pytest.mark.parametrize(
    ("topics", "kept_topics"),
    [
        (["Move", " move ", "HOME"], ("move", "home")),
        (["Ann", "bo", "move"], ("move",)),
        (["", " ", "x" * 41, "x" * 40], ("x" * 40,)),
    ],
)
def test_topics_are_folded_and_no_names_of_participants(
    topics: list[str], kept_topics: tuple[str, ...]
) -> None:
    """Each once, short ones, in their order."""
    assert kept(TALK, "Ann moved to Porto with Rex.", topics=topics).topics == kept_topics


def test_without_usable_topics_the_local_code_finds_some() -> None:
    """They are not the names in the statement."""
    found = kept(TALK, "Ann moved to Porto with Rex, a dog.", topics=["Ann", ""])
    assert found.topics
    assert not {"ann", "porto", "rex"} & set(found.topics)


WORK = {"entity": "Ann", "attribute": "employer", "value": "Northwind"}


@each(
    ("changed", "state"),
    [
        ({}, ("Ann", "employer", "Northwind", None)),
        ({"entity": "ANN"}, ("Ann", "employer", "Northwind", None)),
        ({"attribute": "Place_of  work"}, ("Ann", "place of work", "Northwind", None)),
        ({"attribute": "guild"}, ("Ann", "guild", "Northwind", None)),
        ({"previous": "Faro"}, ("Ann", "employer", "Northwind", "Faro")),
        ({"previous": "Lisbon"}, ("Ann", "employer", "Northwind", None)),
        ({"value": "  Northwind "}, ("Ann", "employer", "Northwind", None)),
        ({"value": "North"}, None),
        ({"value": "Lisbon"}, None),
        ({"value": "Ann"}, None),
        ({"entity": "Tarek"}, None),
        ({"attribute": " "}, None),
        ({"attribute": "x" * 41}, None),
    ],
)
def test_a_listed_state_is_one_that_the_statement_says(
    changed: dict[str, str], state: tuple[Any, ...] | None
) -> None:
    """Of somebody whom it mentions, with a value that stands in it as words; a value before only where it is said."""
    found = kept(TALK, "Ann has a place at Northwind after the job in Faro.", relations=[{**WORK, **changed}])
    assert [(one.entity, one.attribute, one.value, one.previous) for one in found.states] == (
        [state] if state else []
    )


@pytest.mark.parametrize("more", [{"kind": "plan"}, {"negated": True}])
def test_what_is_planned_or_denied_is_no_state(more: dict[str, Any]) -> None:
    """The model's list does not count; the negation is kept."""
    found = kept(TALK, "Ann has a place at Northwind after the job in Faro.", relations=[WORK], **more)
    assert found.states == ()
    assert found.negated is more.get("negated", False)


def test_a_state_is_listed_once() -> None:
    """However often the model lists it."""
    found = kept(
        TALK,
        "Ann has a place at Northwind after the job in Faro.",
        relations=[WORK, WORK, {**WORK, "attribute": "Employer"}],
    )
    assert len(found.states) == 1


@each(
    ("text", "read"),
    [
        ("Ann moved to Porto", "Ann moved to Porto."), ("Ann moved to Porto!", "Ann moved to Porto!"), ("rex moved with Ann", "Rex moved with Ann."),
        ("Ann  moved\nto Porto", "Ann moved to Porto."), ("Ann moved to Porto (with Rex)", "Ann moved to Porto (with Rex)."),
        ("Ann moved to Porto…", "Ann moved to Porto…"),
    ],
)  # fmt: skip
def test_a_statement_is_a_sentence(text: str, read: str) -> None:
    """One line, a capital, and one full stop."""
    assert kept(TALK, text).text == read


def test_a_script_without_spaces_has_its_own_full_stop() -> None:
    """And no capitals."""
    of = source(("小明", "我昨天搬到了北京，在一家银行工作。"))
    assert kept(of, "小明搬到了北京，在银行工作").text == "小明搬到了北京，在银行工作。"


def test_the_quote_is_of_all_turns() -> None:
    """Of each the sentences that say it."""
    found = kept(TALK, "Ann moved to Porto and bought a red boat of Bo.", turns=[0, 1])
    assert found.quote.startswith("I moved to Porto with Rex")
    assert found.quote.endswith("my rent went up.")
