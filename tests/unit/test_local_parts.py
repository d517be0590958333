"""A question taken apart by rule: who stands side by side, what comes before, and which memories answer."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import InputError
from memforest.reading.plan_local import RulePlanner
from memforest.reading.question_parts import MOST, alone, parts_of, scope_of
from memforest.records import QuestionPlan, SubQuery
from memforest.times import EARLIEST

UTC = timezone.utc
NOW = datetime(2031, 6, 30, tzinfo=UTC)
NAMES = {name.casefold(): name for name in ("Ida", "Odd", "Per", "Liv", "Kai", "Åse", "Bergen", "Ida Moe")}


def planned(question: str) -> QuestionPlan:
    """Return the plan that the rules make of a question."""
    plan = asyncio.run(RulePlanner().plan(question, reference=NOW, names=NAMES))
    assert isinstance(plan, QuestionPlan)
    return plan


def texts(question: str, **more: object) -> list[str]:
    """Return the texts of a question's parts."""
    return [one.text for one in parts_of(planned(question), question, **more)]  # type: ignore[arg-type]


@each(
    ("question", "parts"),
    [
        ("What do Ida and Odd both knit?", ["What does Ida knit?", "What does Odd knit?"]),
        ("Are both Ida and Odd left-handed?", ["Is Ida left-handed?", "Is Odd left-handed?"]),
        ("What did Ida and Odd do at noon?", ["What did Ida do at noon?", "What did Odd do at noon?"]),
        (
            "Which maps do Ida, Odd & Per own?",
            ["Which maps does Ida own?", "Which maps does Odd own?", "Which maps does Per own?"],
        ),
        ("What are Ida's and Odd's jobs?", ["What are Ida's jobs?", "What are Odd's jobs?"]),
        ("Does Ida swim more than Odd does?", ["Does Ida swim?", "Does Odd swim?"]),
        (
            "How old is Ida's dog compared to Odd?",
            ["How old is Ida's dog?", "How old is Odd's dog?"],
        ),
        (
            "¿Qué leen Ida y Odd por la noche?",
            ["¿Qué leen Ida por la noche?", "¿Qué leen Odd por la noche?"],
        ),
    ],
)
def test_people_side_by_side_get_a_part_each(question: str, parts: list[str]) -> None:
    """Each part is the question about one of them, and none waits for another."""
    made = parts_of(planned(question), question)
    assert [one.text for one in made] == parts
    assert [one.id for one in made] == [str(at) for at in range(1, len(parts) + 1)]
    assert all(one.depends_on == () for one in made)


@each(
    "question",
    [
        "What does Ida knit?",
        "Did Ida tell Odd of the storm?",
        "What did Ida and Odd build together?",
        "How did Ida and Odd meet?",
        "What is the relationship between Ida and Odd?",
        "Did Ida sail to Bergen and Oslo?",
        "Was haben Ida und Odd gelesen?",
        "伊达和奥德读了什么？",
    ],
)
def test_what_nobody_is_put_beside_stays_whole(question: str) -> None:
    """One person, two who did it with each other, places, and languages without rules."""
    assert texts(question) == [question]


def test_a_first_name_stands_for_the_whole_one() -> None:
    """The plan has the catalogue's name, the question may have a part of it."""
    plan = QuestionPlan(entities=("Ida Moe", "Odd"))
    made = parts_of(plan, "What do Ida and Odd knit?")
    assert [one.text for one in made] == ["What does Ida knit?", "What does Odd knit?"]


def test_more_parts_than_are_allowed_are_one() -> None:
    """A question about six is asked as it is; the bound is the caller's."""
    question = "What do Ida, Odd, Per, Liv, Kai and Åse knit?"
    assert texts(question) == [question]
    assert len(texts(question, most=6)) == 6
    assert texts("What do Ida and Odd knit?", most=1) == ["What do Ida and Odd knit?"]


def test_before_an_event_the_event_is_asked_for_first() -> None:
    """The part about the event names the people of the question, and the question depends on it."""
    first, second = parts_of(
        planned("What did Ida sell before the flood?"), "What did Ida sell before the flood?"
    )
    assert (first.text, first.scope, first.depends_on) == ("Ida: when was the flood?", "short", ())
    assert (second.text, second.depends_on) == ("What did Ida sell before the flood?", (first.id,))


def test_after_an_event_each_person_waits_for_it() -> None:
    """Both at once: one part for the event, one for each person."""
    made = parts_of(
        planned("What did Ida and Odd do after the flood?"), "What did Ida and Odd do after the flood?"
    )
    assert [one.depends_on for one in made] == [(), ("1",), ("1",)]
    assert [one.text for one in made[1:]] == [
        "What did Ida do after the flood?",
        "What did Odd do after the flood?",
    ]


def test_a_spanish_event_is_asked_for_in_spanish() -> None:
    """The language of the question is kept."""
    question = "¿Qué vendió Ida antes de la boda?"
    assert texts(question) == ["Ida: ¿cuándo fue la boda?", question]


def test_a_name_alone_is_no_event() -> None:
    """When a person or a town was is not asked."""
    question = "Where did Ida live before Bergen?"
    assert texts(question) == [question]


@each(
    ("question", "scope"),
    [
        ("When did Ida sail?", "short"),
        ("Where does Odd work?", "short"),
        ("Who fixed the roof?", "short"),
        ("¿Dónde trabaja Odd?", "short"),
        ("Where does Odd usually swim?", "long"),
        ("What does Ida like?", "long"),
        ("What is the relationship of Ida to Odd?", "long"),
        ("¿Qué suele cenar Ida?", "long"),
        ("What would Ida do with a boat?", "long"),
        ("What did Ida say about the roof?", "mixed"),
        ("Was sagte Ida zum Dach?", "mixed"),
    ],
)
def test_the_scope_goes_by_the_words(question: str, scope: str) -> None:
    """A single thing is in what was said, what is usual in what was written of longer times, the rest in both."""
    assert scope_of(planned(question), question) == scope
    assert alone(planned(question), question).scope == scope


def test_the_time_is_that_of_the_plan() -> None:
    """A month, an open end and an open beginning; without one, none."""
    start, end = datetime(2031, 5, 1, tzinfo=UTC), datetime(2031, 6, 1, tzinfo=UTC)
    for plan, interval in (
        (QuestionPlan(start=start, end=end), (start, end)),
        (QuestionPlan(start=start), (start, None)),
        (QuestionPlan(end=end), (EARLIEST, end)),
        (QuestionPlan(), None),
    ):
        assert alone(plan, "What broke?").interval == interval


def test_the_event_has_not_the_time_of_the_question() -> None:
    """The window is that of what is asked, not of what it is relative to."""
    question = "What did Ida sell after the flood in May 2031?"
    made = parts_of(
        QuestionPlan(start=NOW, operator=planned("What did Ida sell after the flood?").operator), question
    )
    assert [one.interval is None for one in made] == [True, False]


def test_parts_of_a_plan_are_taken_as_they_are() -> None:
    """A planner of one's own has the last word, within the bound."""
    own = (SubQuery("a", "Who?"), SubQuery("b", "Where?", ("a",)))
    plan = QuestionPlan(mentions=("Ida", "Odd"), sub_queries=own)
    assert parts_of(plan, "What do Ida and Odd knit?") == list(own)
    assert len(parts_of(plan, "What does Ida knit?", most=1)) == 1


def test_a_blank_question_is_refused() -> None:
    """There is nothing to ask."""
    with pytest.raises(InputError, match="text"):
        parts_of(QuestionPlan(), " \n")


@given(
    st.lists(
        st.sampled_from(
            [
                "Ida",
                "Odd",
                "Per",
                "and",
                "both",
                "than",
                ",",
                "before",
                "the",
                "flood",
                "’s",
                "do",
                "?",
                "<b>",
                "\u202e",
                "$",
            ]
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_question_has_parts_that_can_be_answered_in_order(pieces: list[str]) -> None:
    """Few enough, none empty, each behind what it needs; the last words of nobody are lost to a blank part."""
    question = " ".join(pieces)
    made = parts_of(planned(question), question)
    assert 1 <= len(made) <= MOST
    seen: set[str] = set()
    for one in made:
        assert one.text.strip()
        assert seen.issuperset(one.depends_on)
        assert one.id not in seen
        seen.add(one.id)
