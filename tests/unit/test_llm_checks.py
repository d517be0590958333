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
from memforest.reading.reply_checks import ChunkSource, read_source
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
    """Return what is kept and what is left out of these statements, which quote the whole first turn that they name."""
    rows = [{"turns": [min(of.said)], **one} for one in statements]
    quotes = [
        of.said[(row["turns"] or [min(of.said)])[0]].told if set(row["turns"]) <= set(of.said) else ""
        for row in rows
    ]
    reply = Extraction(
        statements=[
            FactReply.model_validate({"quote": quote, **row}) for quote, row in zip(quotes, rows, strict=True)
        ]
    )
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
        ("Ann moved to Porto.", [9], "its quote does not stand in the chunk"),
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
        {"text": "Tarek.", "turns": [], "quote": "x"},
        notes=("cut",),
    )
    assert [one.turn for one in skipped] == [4, 3, 3, 3]
    assert len(skipped[0].text) < 300
    assert (skipped[-1].text, skipped[-1].reason) == ("", "cut")


def test_the_same_words_count_once() -> None:
    """Whatever their case, blanks and full stop; another word is another statement."""
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


def test_the_speaker_is_whose_turn_has_the_quote() -> None:
    """The turns that a statement names stand in their order, each once; not if its quote is of another one."""
    asked = source(("Bo", "Did you move to Porto?"), ("Cy", "Or to Faro?"), ("Ann", "I moved to Porto."))
    found = kept(asked, "Ann moved to Porto.", turns=[2, 0, 2, 1, 77], quote="I moved to Porto")
    assert (found.speaker, found.turns, found.quote) == ("Ann", (0, 1, 2), "I moved to Porto.")
    assert kept(asked, "Ann moved to Porto.", turns=[1], quote="I moved to Porto").turns == (2,)


@each(
    ("text", "read"),
    [
        ("I sold a red boat.", "Bo: I sold a red boat."),
        ("My boat is red.", "Bo: My boat is red."),
        ("The boat is red.", "Bo: The boat is red."),
        ("Bo sold a red boat.", "Bo sold a red boat."),
        ("The boat of World War I is red.", "The boat of World War I is red."),
    ],
)
def test_what_does_not_say_of_whom_it_is_has_its_speaker_in_front(text: str, read: str) -> None:
    """The speaker is "I", and nobody; no word of a statement is changed."""
    of = source(("Bo", "I sold my red boat of World War I."), ("Helper", "The boat of Bo is red."), user="Bo")
    assert kept(of, text).text == read


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


@each(
    ("kind", "named"),
    [
        ("place", "place"), ("PLACE ", "place"), ("organisation", "organisation"), ("product", "product"), ("pet", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_a_listed_kind_is_one_that_there_is(kind: str, named: str) -> None:
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
    (found,), _ = checked(TALK, {"text": f"Ann has a {long}", "relations": [{**WORK, "value": long.strip()}]})
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


UNTOLD = "a relation that the statement does not tell was left out"
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
    text = "Ann has a place at Northwind after the job in Faro."
    (found,), skipped = checked(TALK, {"text": text, "relations": [{**WORK, **changed}]})
    assert [(one.entity, one.attribute, one.value, one.previous) for one in found.states] == (
        [state] if state else []
    )
    assert [one.reason for one in skipped] == [UNTOLD] * (state is None)


@pytest.mark.parametrize("more", [{"kind": "plan"}, {"negated": True}])
def test_what_is_planned_or_denied_is_no_state(more: dict[str, Any]) -> None:
    """The model's list does not count, which is told; the negation is kept."""
    text = "Ann has a place at Northwind after the job in Faro."
    (found,), skipped = checked(TALK, {"text": text, "relations": [WORK], **more})
    assert [one.reason for one in skipped] == [UNTOLD]
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


def test_a_statement_is_one_line() -> None:
    """Nothing else of it is changed."""
    assert kept(TALK, " Ann  moved\nto Porto").text == "Ann moved to Porto"


def test_the_quote_is_as_it_was_said() -> None:
    """Letter by letter, whatever the model made of its case and marks."""
    of = source(("Ann", "I moved to “Porto”,  with Rex."))
    assert (
        kept(of, "Ann moved to Porto.", quote='i MOVED to "porto", with rex').quote
        == "I moved to “Porto”,  with Rex."
    )


@each(
    ("said", "text"),
    [
        ("Ayer compré un barco rojo en la playa.", "Ann has always wanted to own a red boat."),
        ("I bought a red boat at the beach.", "Ann siempre ha querido tener un barco rojo."),
        ("I bought a red boat at the beach.", "Ann wollte schon immer ein rotes Boot haben."),
    ],
)
def test_another_language_than_that_of_the_turns_is_refused(said: str, text: str) -> None:
    """Nothing of it could be compared but names and numbers."""
    found, (skipped,) = checked(source(("Ann", said)), {"text": text})
    assert (found, skipped.statement) == ([], True)


def test_a_quote_that_only_asks_says_nothing() -> None:
    """What is asked is not so; a question beside something else may be quoted."""
    of = source(("Bo", "Do you still play the cello?"), ("Ann", "The red one? I sold it to Bo."))
    found, (skipped,) = checked(of, {"text": "Bo still plays the cello.", "turns": [0]})
    assert (found, skipped.reason) == ([], "its quote only asks")
    assert kept(of, "Ann sold Bo the red one.", turns=[1]).turns == (1,)
