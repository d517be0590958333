"""What every surface promises: Python, the command line, REST and MCP tell the same of the same memory.

Each test is run on each surface that has the verb. What is wanted is written out, or is what Python says of the
same story: a surface that leaves something out, or orders it otherwise, is a defect.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.drivers import PythonSurface, Surface
from tests.contract.surfaces import offering, tell

pytest_plugins = ["tests.contract.fixtures_surfaces"]
pytestmark = pytest.mark.timeout(180)  # the first test of all waits for a server to start, on a busy machine

HOME = "Where does Mara live?"
QUESTIONS = (HOME, "What is Tom's dog called?", "Who visited Mara?", "What does Tom do for a living?", "Pim")


def texts(found: Any) -> list[str]:
    """Return what was said, in order."""
    return [one["text"] for one in found]


@pytest.fixture(scope="session")
def truth(python: PythonSurface) -> str:
    """A user of Python who has told the story: what others say is compared with this."""
    return tell(python, "the one to compare with")


@offering("search")
def test_adds_and_finds(surface: Surface, user: str) -> None:
    """What was added is found, as it was said, with who said it, when, and where that stands."""
    done = surface.add(
        user,
        "first",
        [
            {
                "id": "t1",
                "speaker": "Vera",
                "content": "My boat is called Skua.",
                "timestamp": "2024-05-02T07:30:00Z",
            }
        ],
    )
    assert done["turns_added"] == 1
    [found] = surface.search(user, "What is Vera's boat called?")["evidence"]
    assert (found["text"], found["speaker"]) == ("My boat is called Skua.", "Vera")
    assert found["said"] == "2024-05-02T07:30:00+00:00"
    assert found["sources"] == [["first", ["t1"]]]


@offering("search")
def test_evidence_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Order, texts, dates, speakers, sources and ids of evidence are the same on every surface."""
    wrong = [
        question
        for question in QUESTIONS
        if surface.search(told, question, top_k=5) != python.search(truth, question, top_k=5)
    ]
    assert not wrong


@offering("ask")
def test_answers_and_abstains_as_python(
    surface: Surface, told: str, python: PythonSurface, truth: str
) -> None:
    """Answers, citations and reasons are the same on every surface; what nobody said is answered by none."""
    questions = (*QUESTIONS, "What is Mara's shoe size?")
    wrong = [one for one in questions if surface.ask(told, one) != python.ask(truth, one)]
    assert not wrong
    assert "Porto" in surface.ask(told, HOME)["answer"]
    silent = surface.ask(told, "What is Mara's shoe size?")
    assert silent["answer"] is None
    assert silent["reason"]
    assert not silent["citations"]


@offering("timeline")
def test_timeline_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """States with their times and events are told in time order, alike everywhere."""
    found = surface.timeline(told, "Mara")["entries"]
    assert found == python.timeline(truth, "Mara")["entries"]
    homes = surface.timeline(told, "Mara", attribute="residence")["entries"]
    assert [(one["value"], one["start"][:10], (one["end"] or "")[:10]) for one in homes] == [
        ("Bergen", "2024-03-04", "2024-06-10"),
        ("Porto", "2024-06-10", ""),
    ]


@offering("list_facts")
def test_facts_are_those_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Facts have the same ids, texts, times and sources, in the same order."""
    wanted = python.list_facts(truth)["facts"]
    assert surface.list_facts(told)["facts"] == wanted
    if surface.offers("get"):
        assert [surface.get(told, one["fact_id"]) for one in wanted] == wanted
