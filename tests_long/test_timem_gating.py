"""The gate of a recall: what the rules drop, what a model keeps, and what becomes of it when that fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.calendar_tree import CalendarTree, Written, configured
from tests_long.hand_made import Fact, Said, Tree, hand_made, planted, searching, state
from tests_long.worlds import said

from memforest import MemForest, QueryResult, Ranking
from memforest.config import Recall
from memforest.errors import ModelRefusedError, ModelUnavailableError
from memforest.reading import steps_llm as asking
from memforest.records import QuestionPlan, TimeOperator
from memforest.search.filters import RefineCandidate, Refinement, Search
from memforest.trees import attached, timem
from memforest.trees.timem_leaves import FEW, LEAST, SHARE, Chosen, needed, refine

DAY = 86_400_000


def chosen(scores: Sequence[float], nodes: Sequence[int] = (), leaves: Sequence[int] = ()) -> Chosen:
    """Return a recall of all turns with these scores, and of nodes."""
    turns = np.arange(len(scores))
    rows = np.array(nodes, dtype=np.int64)
    return Chosen(turns, np.array(scores), rows, np.ones(len(rows)), np.array(leaves, dtype=np.int64))


def asked(complexity: Any = "simple", **plan: Any) -> Search:
    """Return a question with a complexity, asked on day 1000."""
    return searching(QuestionPlan(complexity=complexity, **plan))


def kept(
    search: Search, scores: Sequence[float], turns: Sequence[Said], facts: Sequence[Fact] = (), **how: Any
) -> list[int]:
    """Return the turns that the rules keep, each of a session by itself."""
    snapshot = hand_made(turns, facts, [Tree("calendar", 0, (("turns", 0, len(turns)),))], **how)
    speaks = np.full(len(turns), -1)
    for row, fact in enumerate(facts):
        speaks[list(fact.turns)] = row
    found = needed(snapshot, planted(snapshot).forest, search, chosen(scores), speaks)
    return [int(turn) for turn in found.turns]


@pytest.mark.parametrize("complexity", ["simple", "hybrid", "complex"])
def test_what_is_far_below_the_best_goes_and_the_first_few_stay(complexity: Any) -> None:
    """By a share of the best score; the first stay however far they are."""
    least, share = LEAST[complexity], SHARE[complexity]
    turns = [Said("Ana", 1)] * 40
    near = [10.0] * 5 + [10.0 * share] * least + [10.0 * share - 0.1] * (35 - least)
    assert kept(asked(complexity), near, turns) == list(range(5 + least))
    far = [10.0] + [0.01 * (40 - n) for n in range(39)]
    assert kept(asked(complexity), far, turns) == list(range(least))
    assert kept(asked(complexity), [-1.0] * 40, turns) == list(range(least))
    assert kept(asked(complexity), [1.0], turns[:1]) == [0]


def test_what_tells_a_time_stays_for_a_question_of_several_facts() -> None:
    """Of a hybrid question all that states one, of others no more than is near."""
    turns, facts = [Said("Ana", 1)] * 40, [Fact((38,), start=3), Fact((39,))]
    scores = [10.0] * 20 + [0.1] * 20
    assert kept(asked("hybrid"), scores, turns, facts) == [*range(20), 38]
    assert kept(asked("simple"), scores, turns, facts) == list(range(20))


def ended(search: Search) -> list[int]:
    """Return what is kept of turns that tell a home that was given up, one that holds, and an event that is over."""
    turns = [Said("Ana", day) for day in (1, 5, 6)]
    facts = [Fact((0,)), Fact((1,)), Fact((2,), start=2, end=3)]
    return kept(
        search,
        [3.0, 2.0, 1.0],
        turns,
        facts,
        states=[state(0, "Porto", 1), state(1, "Lima", 5, previous="Porto")],
    )


def test_a_state_that_has_ended_goes_where_it_is_asked_what_is_so_now() -> None:
    """An event that is over is no state; a state that is alone stays, as nothing else tells of it."""
    assert ended(asked()) == [1, 2]
    assert ended(asked(kind="current")) == [1, 2]
    turns, facts = [Said("Ana", 1), Said("Ana", 5)], [Fact((0,)), Fact((1,))]
    states = [state(0, "Porto", 1), state(1, "Lima", 5, previous="Porto")]
    snapshot = hand_made(turns, facts, [Tree("calendar", 0, (("turns", 0, 2),))], states)
    alone = replace(chosen([3.0, 0.0]), turns=np.array([0]))
    found = needed(snapshot, planted(snapshot).forest, asked(), alone, np.array([0, 1]))
    assert found.turns.tolist() == [0]


@each(
    "search",
    [
        asked("hybrid"),
        asked("complex"),
        asked(kind="first"),
        asked(operator=TimeOperator("predecessor", "Lima")),
        asked(start=datetime(2023, 5, 1, tzinfo=timezone.utc)),
        asked(as_of=datetime(2023, 5, 1, tzinfo=timezone.utc)),
        replace(asked(), as_of_ms=2 * DAY),
        replace(asked(), during_ms=(0, 2 * DAY)),
    ],
)
def test_what_was_so_then_stays_where_that_is_asked(search: Search) -> None:
    """A question for another time, for a course of things or for a judgement is told all states."""
    assert ended(search) == [0, 1, 2]


def test_memories_of_the_same_leaves_are_told_once() -> None:
    """The lowest of those that hold the same leaves; none of which all leaves are shown."""
    shape = ((((("turns", 0, 2), ("turns", 2, 4)),), ((("turns", 4, 6),),)),)
    snapshot = hand_made([Said("Ana", 1)] * 6, trees=[Tree("calendar", 0, shape)])
    forest = planted(snapshot).forest
    leaves = np.flatnonzero(forest.kind != 0).tolist()
    two = int(forest.parent[leaves[0]])
    above, one = int(forest.parent[two]), int(forest.parent[leaves[2]])
    top = int(forest.parent[above])

    def left(nodes: Sequence[int], shown: Sequence[int], scores: Sequence[float] = (9.0,) * 6) -> list[int]:
        found = needed(snapshot, forest, asked(), chosen(scores, nodes, shown), np.full(6, -1))
        return [int(node) for node in found.nodes]

    assert left([two, above, top], leaves[:1]) == [two, top]
    assert left([two, above, one, top], leaves[:2]) == [one, top]
    assert left([above, one], leaves[2:]) == [above]
    assert left([top], leaves) == []
    assert left([leaves[0], two], leaves[:1]) == [leaves[0], two]


def piece(text: str, level: int | None = None, score: float = 1.0, start: int = 0) -> RefineCandidate:
    """Return a candidate; a memory where it has a level."""
    return RefineCandidate(text, text, "Ana", start, score, level=level, start_ms=start, end_ms=start + 1)


def sifted(
    host: Any, found: Sequence[RefineCandidate], search: Search | None = None, **own: Any
) -> Refinement | None:
    """Return what the gate says of candidates."""
    return asyncio.run(refine(host, search or asked(), found, Recall(**own)))


def test_a_memory_whose_every_sentence_is_shown_says_nothing_new() -> None:
    """In whatever pieces its sentences stand, and however they are written; of two alike the better stays."""
    talk = [piece("I bought a canoe, and a lamp."), piece("It RAINS here. Do you ski?")]
    whole = piece("it rains here! I bought a canoe and a lamp.", 1)
    more = piece("It rains here. Ana left Porto.", 2)
    assert sifted(None, [*talk, whole, more], gate="rules") == Refinement(
        kept=(0, 1, 3), trace={"gate": {"by": "rules", "candidates": 4, "kept": 3}}
    )
    assert sifted(None, [talk[0], more], gate="rules") is None
    twins = sifted(None, [more, replace(more, level=3)], gate="rules")
    assert twins is not None
    assert twins.kept == (0,)
    said_twice = [piece("Yes, it rains."), piece("Yes, it rains.")]
    assert sifted(None, said_twice, gate="rules") is None
    assert sifted(None, [*talk, whole], gate="off") is None
    assert sifted(None, [], gate="rules") is None


def host(question: str = "What now?") -> Any:
    """Return as much of a memory as the gate uses."""

    async def look(_work: Callable[..., Any]) -> Any:
        return timezone.utc

    return SimpleNamespace(steps=None, question=question, look=look, timed=lambda _: nullcontext())


FOUND = [
    piece("best", None, start=50),
    piece("week", 3, start=10),
    piece("early", None, start=20),
    *map(piece, "abcd"),
]


@pytest.mark.parametrize(
    ("told", "places"),
    [
        ([0], (3,)),
        ([6, 5], (0, 1)),
        ([4, 4, 99, -1], (2,)),
        ([], tuple(range(FEW))),
        ([99], tuple(range(FEW))),
    ],
)
def test_a_model_keeps_by_number(
    monkeypatch: pytest.MonkeyPatch, told: list[int], places: tuple[int, ...]
) -> None:
    """It reads candidates by level, the earliest first; what is kept stands in its order, and numbers that are none count for nothing."""
    read: list[Any] = []

    async def answer(
        _steps: Any, question: str, complexity: int, shown: Sequence[Any], *, zone: Any
    ) -> list[int]:
        read.extend((question, complexity, zone, [(one.level, one.text) for one in shown]))
        return told

    monkeypatch.setattr(asking, "gate", answer)
    refined = sifted(host(), FOUND, asked("complex"), gate="model")
    assert refined is not None
    assert refined.kept == places
    assert refined.trace == {"gate": {"by": "model", "candidates": 7, "kept": len(places)}}
    assert read[:3] == ["What now?", 2, timezone.utc]
    assert read[3][:3] == [(1, "Ana: a"), (1, "Ana: b"), (1, "Ana: c")]
    assert read[3][4:] == [(1, "Ana: early"), (1, "Ana: best"), (4, "week")]


@pytest.mark.parametrize("count", [1, 2])
def test_of_fewer_than_three_none_goes_by_silence(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A model that keeps nothing of two keeps both."""

    async def silent(*_: Any, **__: Any) -> list[int]:
        return []

    monkeypatch.setattr(asking, "gate", silent)
    refined = sifted(host(), FOUND[:count], gate="model")
    assert refined is not None
    assert refined.kept == tuple(range(count))


@pytest.mark.parametrize("error", [ModelUnavailableError("down"), ModelRefusedError("no such model")])
def test_a_model_that_fails_keeps_all(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """With a warning that says so."""

    async def failing(*_: Any, **__: Any) -> list[int]:
        raise error

    monkeypatch.setattr(asking, "gate", failing)
    refined = sifted(host(), FOUND, gate="model")
    assert refined is not None
    assert refined.kept is None
    assert refined.trace["gate"] == {"by": "nobody", "candidates": 7, "kept": 7}
    assert refined.warnings == (f"{error}: all that was recalled is kept",)


def text_of(node: Written) -> str | None:
    """Return the first turn below a session, and something of its own for a month."""
    return {1: node.turns[0], 4: "A month in which Ana bought much."}.get(node.level)


@pytest.fixture
def forest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemForest]:
    """Ten sessions of four turns."""
    monkeypatch.setitem(attached.INDEXES, "timem", CalendarTree)
    monkeypatch.setattr(CalendarTree, "texts", staticmethod(text_of))
    with MemForest(folder, configured()) as made:
        for n in range(10):
            things = ("canoe", "lamp", "kettle", "violin") if n < 3 else ("tent", "map", "clock", "rug")
            made.ingest_session(
                "u", f"s{n}", said(*[f"I bought a {one}, number {n}." for one in things], day=n + 1)
            )
        yield made


def ask(forest: MemForest, recall: Recall, **how: Any) -> QueryResult:
    """Recall what was said of the canoe."""
    return forest.query("u", "Where is the canoe?", ranking=Ranking(recall=recall), **{"top_k": 99, **how})


def test_the_rules_leave_less_and_the_best(forest: MemForest) -> None:
    """What is kept is of what was recalled, in the same order; sessions that only repeat a turn are gone."""
    whole = ask(forest, Recall(gate="off")).evidence
    left = ask(forest, Recall(gate="rules")).evidence
    texts = [one.text for one in whole if one.text in {other.text for other in left}]
    assert [one.text for one in left] == list(dict.fromkeys(texts))
    assert len(left) < len(whole)
    assert {one.level for one in whole} == {None, 1, 4}
    turns = {one.text for one in left if one.level is None}
    assert not turns & {one.text for one in left if one.level == 1}
    assert turns & {one.text for one in whole if one.level == 1}
    assert left[0].text == whole[0].text


def test_the_gate_sees_more_than_is_shown(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All candidates, whatever `top_k`; of what is kept no more than that are shown, and what it drops makes room."""
    seen: list[int] = []

    async def last(_host: Any, _request: Any, found: Sequence[RefineCandidate], _recall: Any) -> Refinement:
        seen.append(len(found))
        return Refinement(kept=tuple(range(2, len(found))))

    everything = ask(forest, Recall(gate="off")).evidence
    monkeypatch.setattr(timem, "refine", last)
    result = ask(forest, Recall(gate="rules"), top_k=3)
    assert seen[0] >= 3 + sum(one.level is not None for one in everything)
    assert [one.text for one in result] == [one.text for one in everything[2:5]]
