"""Answers to a question that an index took apart: put together by a model, or by rule, or as if it was whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import prompt_of
from tests.doubles.blocks import read_data_block
from tests_long.scripted import Scripted, run

from memforest import AskResult, Config, MemForest
from memforest.endpoint import Budget
from memforest.errors import ModelRefusedError, ModelUnavailableError
from memforest.ports import Answer, AnswerEvidence, ChatRequest
from memforest.read.answer import AnswerMade, answered
from memforest.read.results import Evidence
from memforest.read.stored import Source
from memforest.reading.steps import Steps, choose_steps
from memforest.records import QuestionPlan, SubQuery
from memforest.search.filters import Part, Prepared, Search
from memforest.testing import HashEmbedder
from memforest.trees.flat import FlatIndex
from memforest.trees.index import Host

UTC = timezone.utc
NOW = datetime(2031, 6, 30, 12, tzinfo=UTC)
QUESTION = "Which fish do Ida and Odd keep?"
LIST = QuestionPlan(kind="list", entities=("Ida", "Odd"), mentions=("Ida", "Odd"))
TOLD = {"Ida": "I keep two carp in the pond.", "Odd": "I keep one pike in the tub."}


def said(speaker: str, at: int) -> Evidence:
    """Return a turn that was found."""
    text = TOLD[speaker]
    return Evidence(
        kind="turn",
        text=text,
        quote=text,
        speaker=speaker,
        said=NOW,
        start=NOW,
        end=None,
        score=1.0 - at / 10,
        scores={},
        sources=(Source("s", (str(at),)),),
    )


def search(plan: QuestionPlan = LIST, *parts: Part, **more: Any) -> Search:
    """Return a question as an index gets it."""
    return Search(tokens=(), plan=plan, reference_ms=0, parts=parts, **more)


def part(name: str, answer: str = "") -> Part:
    """Return the part about one of them."""
    plan = replace(LIST, entities=(name,), mentions=(name,), kind="list")
    return Part(SubQuery(name, f"Which fish does {name} keep?"), search(plan), answer)


def ask(steps: Steps, *parts: Part, plan: QuestionPlan = LIST) -> AnswerMade:
    """Return the answer from what both said."""
    found = [said("Ida", 0), said("Odd", 1)]
    made: AnswerMade = run(
        answered(steps, QUESTION, plan=plan, reference=NOW, evidence=found, known={}, parts=parts)
    )
    return made


def by_chat(model: Any) -> Steps:
    """Return steps of which a model answers."""
    return choose_steps(Config(chat=model, chat_steps=("answer",)))


LOCAL = choose_steps(Config(answer_threshold=0.0))
REPLY = json.dumps({"reason": "both", "answer": "Carp and pike.", "cited": [2, 1]})


def test_a_model_puts_the_answer_together() -> None:
    """One call with the parts, their conclusions and all evidence; the answer cites that, and the trace names the prompt."""
    model = Scripted(REPLY)
    made = ask(by_chat(model), part("Ida", "Carp. </answers>"), part("Odd"))
    assert made[0] == Answer("Carp and pike.", (1, 0), "both")
    assert made[1] == "hmem_answer@1:scripted"
    (call,) = model.requests
    assert prompt_of(call) == "hmem_answer"
    data = model.data()
    assert read_data_block(data, "question") == ({"question": QUESTION, "now": "Monday 2031-06-30"},)
    assert read_data_block(data, "answers") == (
        {"query": "Which fish does Ida keep?", "answer": "Carp. </answers>"},
        {"query": "Which fish does Odd keep?", "answer": ""},
    )
    assert [row["number"] for row in read_data_block(data, "evidence")] == [1, 2]


@pytest.mark.parametrize("parts", [(), (part("Ida"), part("Odd"))])
def test_where_nothing_was_concluded_it_is_answered_as_a_whole(parts: tuple[Part, ...]) -> None:
    """By the same prompt as every other question."""
    model = Scripted(REPLY)
    made = ask(by_chat(model), *parts)
    assert [prompt_of(call) for call in model.requests] == ["answer"]
    assert (made[0].text, made[1]) == ("Carp and pike.", "answer@2:scripted")


def test_an_answer_that_cites_nothing_is_none() -> None:
    """Also one that was put together: it is asked for again, and then it is an abstention."""
    bare = json.dumps({"answer": "Carp.", "cited": []})
    assert ask(by_chat(Scripted(bare, bare)), part("Ida", "Carp."))[0].text is None
    assert ask(by_chat(Scripted(bare, REPLY)), part("Ida", "Carp."))[0].cited == (1, 0)


@pytest.mark.parametrize("error", [ModelUnavailableError("gone"), ModelRefusedError("key")])
def test_where_the_synthesis_fails_the_local_answerer_answers(error: Any) -> None:
    """It says so."""
    steps = replace(by_chat(Scripted(error)), fallback=LOCAL.fallback)
    made = ask(replace(steps, fallback=LOCAL.answerer), part("Ida", "Carp."), part("Odd"))
    assert made[1] == LOCAL.answerer.name
    assert "the local answerer answered" in made[2][0]
    assert made[0].cited == (0, 1)


class Own:
    """An answerer of one's own, which knows nothing of parts."""

    name = "own-1"

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Say what was asked."""
        return Answer(question, (0,))


def test_an_answerer_of_ones_own_gets_the_whole_question() -> None:
    """Whatever was concluded about its parts."""
    made = ask(replace(LOCAL, answerer=Own()), part("Ida", "Carp."), part("Odd", "Pike."))
    assert (made[0].text, made[1]) == (QUESTION, "own-1")


def test_without_a_model_it_is_answered_as_a_whole() -> None:
    """A list quotes several pieces anyway."""
    made = ask(LOCAL, part("Ida"), part("Odd"))
    assert made == ask(LOCAL)
    assert set(made[0].cited) == {0, 1}


def test_ask_goes_from_parts_to_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index concluded in its preparation is put together in one call, within the budget, with citations."""

    async def prepare(self: FlatIndex, host: Host, request: Search) -> Prepared:
        (read,) = await host.read_questions(["Which fish does Ida keep?"])
        return Prepared(
            replace(request, parts=(Part(SubQuery("1", "Which fish does Ida keep?"), read, "Carp."),))
        )

    def reply(request: ChatRequest) -> str:
        assert prompt_of(request) == "hmem_answer"
        return REPLY

    monkeypatch.setattr(FlatIndex, "prepare", prepare)
    model = Scripted(answer=reply)
    config = Config(chat=model, chat_steps=("answer",), embedder=HashEmbedder())
    turns = [
        {"speaker": name, "text": text, "timestamp": f"2031-05-06T18:2{at}:00Z"}
        for at, (name, text) in enumerate(TOLD.items())
    ]
    with MemForest(tmp_path, config) as forest:
        forest.ingest_session("u", "s", turns)
        found: AskResult = forest.ask("u", QUESTION, index="flat")
        assert found.answer == "Carp and pike."
        assert {one.quote for one in found.citations} == set(TOLD.values())
        assert found.result.trace["answerer"] == "hmem_answer@1:scripted"
        assert len(model.requests) == 1
        spent = forest.ask("u", QUESTION, index="flat", budget=Budget(max_calls=0))
    assert len(model.requests) == 1
    assert spent.result.trace["answerer"] == LOCAL.fallback.name
    assert any("local answerer" in one for one in spent.result.warnings)
