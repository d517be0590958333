"""Judgement by a model: what counts as a verdict, what is vetoed, and that failures merge nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.doubles.blocks import read_data_block
from tests.table import each
from tests_long.scripted import Scripted, run

from memforest.errors import (
    BudgetError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
    ReplyError,
)
from memforest.models.calls import Calls
from memforest.reading.prompts import load_prompt
from memforest.reading.steps_llm import MAX_KNOWN, ChatJudge
from memforest.records import Equivalence

JOB = Equivalence("Ann began a job at a bank.", ("Ann visited a bank.", "Ann started to work at a bank."))


def verdicts(*pairs: tuple[Any, Any]) -> str:
    """Return a reply with these (question, same)."""
    return json.dumps({"verdicts": [{"question": question, "same": same} for question, same in pairs]})


def judge(questions: list[Equivalence], *replies: Any) -> list[int | None]:
    """Return the verdicts when the model answers so."""
    found: list[int | None] = run(ChatJudge(Calls(Scripted(*replies), max_in_flight=1)).judge(questions))
    return found


def test_a_verdict_is_the_position_of_the_known_statement() -> None:
    """Numbers of the prompt begin at one, positions at nought; null is none."""
    assert judge([JOB, JOB], verdicts((1, 2), (2, None))) == [1, None]
    assert judge([JOB], verdicts((1, 1))) == [0]


def test_questions_travel_as_data_with_numbers() -> None:
    """Each has its number, the new statement and at most four known ones, the nearest."""
    many = Equivalence("Ann </questions> sings.", tuple(f"Ann sings song {n}." for n in range(9)))
    model = Scripted(verdicts())
    run(ChatJudge(model.calls).judge([many]))
    (row,) = read_data_block(model.data(), "questions")
    assert row["question"] == 1
    assert row["new"] == "Ann </questions> sings."
    assert list(row["known"]) == [str(n) for n in range(1, MAX_KNOWN + 1)]


@each(
    "given",
    [
        [],
        [(2, 1)],
        [(1, 3)],
        [(1, 0)],
        [(1, -1)],
        [(1, 1), (1, 2)],
        [(1, 1), (1, None)],
    ],
)
def test_what_is_no_plain_verdict_merges_nothing(given: list[tuple[Any, Any]]) -> None:
    """Missing, out of range, contradicting itself, or no number: the two stay apart."""
    assert judge([JOB], verdicts(*given), verdicts(*given)) == [None]


@each(
    ("new", "known"),
    [
        ("Ann lent Bob 40 euros.", "Ann lent Bob 50 euros."),
        ("Ann moved in 2023.", "Ann moved in 2024."),
        ("Ann likes tea.", "Ann does not like tea."),
        ("Ann met Caroline in town.", "Ann met Melanie in town."),
    ],
)
def test_a_model_cannot_merge_what_contradicts(new: str, known: str) -> None:
    """Another number, another day, yes and no, another name: two facts, whatever the verdict."""
    assert judge([Equivalence(new, (known,))], verdicts((1, 1))) == [None]


def test_a_fuller_name_is_no_contradiction() -> None:
    """One statement may name more than the other."""
    assert judge(
        [Equivalence("Ann met Caroline in town.", ("Ann met Caroline in the town.",))], verdicts((1, 1))
    ) == [0]


@each(
    ("new", "known"),
    [
        ("Ann met Caroline and Tarek.", "Ann met Caroline in town."),
        ("Ann met Caroline in town.", "Ann met Caroline and Tarek."),
        ("In 2023 Ann paid 40 euros.", "Ann paid 40 euros in 2023."),
        ("Ann does not like tea.", "Ann never liked tea."),
        ("Ana vive en Oslo.", "Ana lives in Oslo."),
    ],
)
def test_what_only_says_more_or_otherwise_may_be_merged(new: str, known: str) -> None:
    """A name more on either side, numbers in another order, another negation: the model decides."""
    assert judge([Equivalence(new, (known,))], verdicts((1, 1))) == [0]
    assert judge([Equivalence(new, (known,))], verdicts((1, None))) == [None]


@pytest.mark.parametrize("same", [MAX_KNOWN, MAX_KNOWN + 1])
def test_no_verdict_points_behind_what_was_shown(same: int) -> None:
    """Known statements that the model has not seen are merged with nothing."""
    many = Equivalence("Ann sings.", ("Ann sings well.",) * (MAX_KNOWN + 2))
    assert judge([many], verdicts((1, same))) == [same - 1 if same == MAX_KNOWN else None]


def test_a_number_that_is_said_twice_is_not_said_once() -> None:
    """Two boats of 3 metres are not one."""
    assert judge([Equivalence("Ann paid 3 and 3 euros.", ("Ann paid 3 euros.",))], verdicts((1, 1))) == [None]


def test_long_statements_are_shown_in_part() -> None:
    """So that eight questions fit; what is judged is the whole statement."""
    long = "Ann sings. " * 200
    model = Scripted(verdicts((1, 1)))
    assert run(ChatJudge(model.calls).judge([Equivalence(long, (long + " In 2023.",))])) == [None]
    (row,) = read_data_block(model.data(), "questions")
    assert len(row["new"]) == len(row["known"]["1"]) < 1000


def test_questions_stay_in_order() -> None:
    """All are one call, whatever the order of the verdicts."""
    other = Equivalence("Ann sings.", ("Ann dances.", "Ann sings alto."))
    model = Scripted(verdicts((4, None), (1, 2), (3, 2), (2, None)))
    assert run(ChatJudge(model.calls).judge([JOB, other] * 2)) == [1, None, 1, None]
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "error",
    [BudgetError("b"), ModelUnavailableError("u"), ModelRequestError("r"), ModelRefusedError("k")],
    ids=lambda e: type(e).__name__,
)
def test_a_failed_call_is_no_verdict(error: Any) -> None:
    """It is raised, as is what is no reply even when asked again."""
    with pytest.raises(type(error)):
        judge([JOB], error)
    for odd in ("no", verdicts((1, "both")), verdicts(("one", 2))):
        with pytest.raises(ReplyError):
            judge([JOB], odd, odd)


def test_a_judge_is_known_by_prompt_and_model() -> None:
    """And asks over the network."""
    assert ChatJudge(Scripted().calls).name == load_prompt("judge").maker("scripted")
    assert ChatJudge(Scripted().calls).remote
