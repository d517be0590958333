"""What of a model's plan, answer and follow-up may be used: pure checks."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.explore_llm import (
    FOLLOW_UP_CHARS,
    MOST_YEARS,
    PARAPHRASE,
    PlannedPart,
    QuestionParts,
    anchors_of,
    answer_problem,
    follow_up_refused,
    hint_of,
    in_order,
    plan_problem,
)
from memforest.records import SubQuery
from memforest.text import lexical_tokens

UTC = timezone.utc
NOW = datetime(2031, 6, 30, 12, tzinfo=UTC)
QUESTION = "Which harbour did Odd's boat leave in May 2031?"


def part(id: str, text: str = "Which harbour was it?", *needs: str, **more: Any) -> PlannedPart:
    """Return one part of a plan."""
    return PlannedPart(id=id, text=text, depends_on=list(needs), **more)


def problem(*parts: PlannedPart, most: int = 5) -> str | None:
    """Return what is wrong with a plan of these parts."""
    return plan_problem(QuestionParts(queries=list(parts)), QUESTION, most)


def test_a_plan_that_can_be_answered_has_no_problem() -> None:
    """One part, and parts that need each other in a row, a fork and a join."""
    assert problem(part("1")) is None
    assert problem(part("c", "And who?", "b", "a"), part("b", "When?", "a"), part("a")) is None


@each(
    ("parts", "told"),
    [
        ([], "there is none"),
        ([part(str(at)) for at in range(50)], "there are 50; at most 5"),
        ([part("1"), part("1")], "two sub-queries have the id"),
        ([part("1"), part("2", "Who?", "9")], "no sub-query has that id"),
        ([part("1", "Who?", "1")], "circle"),
        ([part("1", "Who?", "2"), part("2", "Who?", "1")], "circle"),
        ([part(" ")], "id"),
        ([part("1", "")], "text"),
        ([part("1", "Who praises the King of Norway?")], "no word of the question"),
    ],
)
def test_a_plan_that_cannot_is_refused_with_the_reason(parts: list[PlannedPart], told: str) -> None:
    """Too many, none, repeated and unknown ids, circles, blanks, and another question."""
    assert told in str(problem(*parts))


def test_the_bound_is_the_callers() -> None:
    """Two parts are too many where one is the most."""
    assert problem(part("1"), part("2"), most=2) is None
    assert problem(part("1"), part("2"), most=1) is not None


def test_a_part_that_waits_may_have_other_words() -> None:
    """What another part has yet to find out is put in words of its own."""
    assert problem(part("1"), part("2", "Who lives there?", "1")) is None


@given(st.integers(1, 6), st.randoms())
def test_parts_stand_behind_those_they_need(n: int, chance: random.Random) -> None:
    """Whatever the order they come in; every part stays, once."""
    parts = [
        part(str(at), "Which harbour?", *(str(one) for one in range(at) if chance.random() < 0.4))
        for at in range(n)
    ]
    chance.shuffle(parts)
    reply = QuestionParts(queries=parts)
    assert plan_problem(reply, QUESTION, 6) is None
    found = [one.id for one in in_order(reply)]
    assert sorted(found) == sorted(one.id for one in parts)
    for one in parts:
        assert all(found.index(need) < found.index(one.id) for need in one.depends_on)


def test_parts_that_need_nothing_keep_their_order() -> None:
    """The first that the model names is the first."""
    assert [one.id for one in in_order(QuestionParts(queries=[part("z"), part("a"), part("m")]))] == [
        "z",
        "a",
        "m",
    ]


def hint(zone: Any = UTC, question: str = QUESTION, **told: Any) -> tuple[Any, str | None]:
    """Return the time of a part."""
    return hint_of(part("1", **told), question, NOW, zone)


def test_words_of_the_question_go_before_days_of_the_model() -> None:
    """The calendar says what May 2031 is, in the zone; the model's days count for nothing then."""
    may = (datetime(2031, 5, 1, tzinfo=UTC), datetime(2031, 6, 1, tzinfo=UTC))
    assert hint(when="in May 2031", start="1999-01-01", end="1999-01-02") == (may, None)
    (start, _), _ = hint(zone=ZoneInfo("Asia/Tokyo"), when="May 2031")
    assert start == may[0] - timedelta(hours=9)


def test_days_count_where_the_words_say_nothing() -> None:
    """The end is the day behind the last; one day alone is a day, and since a day is open."""
    day = datetime(2031, 5, 6, tzinfo=UTC)
    assert hint(when="around the flood", start="2031-05-06", end="2031-05-07") == (
        (day, day + timedelta(2)),
        None,
    )
    assert hint(start="2031-05-06") == ((day, None), None)
    assert hint(end="2031-05-06") == ((day, day + timedelta(1)), None)
    assert hint() == (None, None)


def test_words_that_the_question_lacks_are_not_read() -> None:
    """A time that the model made up is none."""
    assert hint(when="in May 2030", question="Which harbour?") == (None, None)


@each(
    ("start", "end", "told"),
    [
        ("2031-05-07", "2031-05-06", "before it begins"),
        ("9999-12-31", "9999-12-31", f"{MOST_YEARS} years"),
        ("0001-01-01", "2031-05-06", f"{MOST_YEARS} years"),
        ("soon", "2031-05-06", "no two days"),
        ("2031-02-30", None, "no two days"),
    ],
)
def test_days_that_cannot_be_are_left_out_and_said(start: str, end: str | None, told: str) -> None:
    """Reversed, at the end of the calendar, and no days at all."""
    interval, why = hint(start=start, end=end)
    assert interval is None
    assert told in str(why)


def test_the_end_of_the_calendar_is_no_error() -> None:
    """Where the present itself is there."""
    late = datetime(9999, 12, 31, tzinfo=UTC)
    assert hint_of(part("1", start="9999-12-31", end="9999-12-31"), QUESTION, late, UTC)[0] is None


def test_a_name_in_an_answer_has_to_be_shown() -> None:
    """In a line, as a speaker, or in the question; months and days may be worked out."""
    known = ["The boat lay in Bergen.", "Odd"]
    assert answer_problem("It lay in Bergen, says Odd.", known) is None
    assert answer_problem("He left on Friday, 6 May 2031.", known) is None
    assert answer_problem("", known) is None
    assert "oslo" in str(answer_problem("It lay in Oslo.", known))


SUB = SubQuery("1", "Who repaired the tandem of Marit?")
SEEN = anchors_of(
    ["It was the dentist's brother who did it, for a cake.", "A dentist bought the boat for 4,100."]
)
MISSING = "the name of the dentist's brother"


@each(
    ("query", "told"),
    [
        ("What is the name of the dentist's brother?", None),
        ("Which brother did the dentist name when he bought the boat?", None),
        ("", "asks nothing"),
        (" \t", "asks nothing"),
        ("Who was it that repaired Marit's tandem?", "other words"),
        ("Who repaired it?", "other words"),
        ("Who is the president of the harbour club?", "what is missing"),
        ("What is the price of the cake for the boat?", "what is missing"),
        ("x" * (FOLLOW_UP_CHARS + 1), "characters"),
    ],
)
def test_a_follow_up_asks_for_what_is_missing_with_an_anchor(query: str, told: str | None) -> None:
    """A paraphrase, another question, nothing at all and a flood of text are refused, with the reason."""
    found = follow_up_refused(query, SUB, SEEN, missing=MISSING)
    assert found is None if told is None else told in str(found)


def test_an_anchor_is_of_the_first_evidence_and_not_of_the_question() -> None:
    """What the question had already leads to what was found already."""
    query = "What is the name of the plumber's aunt?"
    missing = "the name of the plumber's aunt"
    assert "first evidence" in str(follow_up_refused(query, SUB, SEEN, missing=missing))
    assert follow_up_refused(query, SUB, anchors_of(["A plumber came."]), missing=missing) is None
    only_old = anchors_of([SUB.text])
    assert "first evidence" in str(follow_up_refused(query, SUB, only_old, missing=missing))


def test_without_evidence_no_follow_up_passes() -> None:
    """There is nothing to hold on to."""
    assert follow_up_refused("What is the name of the dentist's brother?", SUB, ()) is not None


def test_what_is_missing_may_be_unsaid() -> None:
    """By rule the slot is the question; a model that names none in words of content asks for nothing."""
    query = "What is the dentist's brother called?"
    assert follow_up_refused(query, SUB, SEEN) is None
    assert "missing" in str(follow_up_refused(query, SUB, SEEN, missing="who it was"))


def test_follow_ups_in_scripts_without_spaces_or_capitals() -> None:
    """Tokens are those of the search, so nothing depends on capitals."""
    sub = SubQuery("1", "谁修好了自行车？")
    seen = anchors_of(["是牙医的弟弟修的。"])
    assert follow_up_refused("牙医的弟弟叫什么名字？", sub, seen, missing="牙医的弟弟的名字") is None
    assert follow_up_refused("谁修好了自行车？", sub, seen) == "it is the sub-query in other words"


@each(
    ("missing", "told"),
    [
        ("the author of the story about the lighthouse", None),
        ("the name of the lighthouse", None),
        ("which author", "other words"),
        (None, "other words"),
    ],
)
def test_a_follow_up_like_the_sub_query_may_ask_for_what_is_new(
    missing: str | None, told: str | None
) -> None:
    """A follow-up of the form of the paper's case study B is asked; where nothing of what is missing is new it is a paraphrase."""
    sub = SubQuery("1", "Which famous author's tales does Nora enjoy reading aloud in class?")
    further = (
        "Which famous author wrote the story about the lighthouse that Nora enjoys reading aloud in class?"
    )
    seen = anchors_of(["Nora", "I enjoy reading a story about a lighthouse I once saw aloud in class."])
    found = follow_up_refused(further, sub, seen, missing=missing)
    assert found is None if told is None else told in str(found)


WORDS = st.lists(
    st.sampled_from(
        ["boat", "cake", "dentist", "brother", "tandem", "repaired", "Marit", "harbour", "4,100", "name"]
    ),
    max_size=6,
)


@given(WORDS, WORDS, WORDS)
def test_what_passes_keeps_the_rules(query: list[str], sub: list[str], seen: list[str]) -> None:
    """Whatever is asked: a token is new and of the evidence, and the two questions are not alike."""
    asked = SubQuery("1", " ".join(["Who", *sub]))
    if follow_up_refused(" ".join(query), asked, anchors_of(seen)) is not None:
        return
    mine, before = set(lexical_tokens(" ".join(query))), set(lexical_tokens(asked.text))
    assert (mine - before) & anchors_of(seen)
    assert len(mine & before) < PARAPHRASE * len(mine | before)
