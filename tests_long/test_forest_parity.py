"""One implementation behind both surfaces, the same answer every time, and batches with mistakes in them."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions

from memforest import AsyncMemForest, MemForest
from memforest.errors import InputError, MemForestError, TimestampError
from memforest.memory.blocking import UserMemory
from memforest.memory.user import AsyncUserMemory
from memforest.read.results import Evidence, IngestResult, QueryResult, Usage

ROOT = str(Path(__file__).parent.parent)

QUESTIONS = [
    "Where does Ana live?",
    "What did Bob buy?",
    "Who works at Acme?",
    "Where did Melanie live before Oslo?",
    "¿Dónde vive Carla?",
    "When did Ana go to Lisbon?",
    "zzzz",
]


@pytest.fixture
def filled(folder: Path) -> Path:
    """A directory with a memory of user "u" in it."""
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(11, sessions=4):
            forest.ingest_session("u", session_id, turns)
    return folder


def plain(evidence: tuple[Evidence, ...]) -> list[Any]:
    """Return evidence as plain values, to the last bit of every score."""
    return [
        [
            e.text,
            e.quote,
            e.kind,
            e.score.hex(),
            {k: float(v).hex() for k, v in e.scores.items()},
            str(e.sources),
            e.path,
        ]
        for e in evidence
    ]


@pytest.mark.parametrize(("sync", "twin"), [(MemForest, AsyncMemForest), (UserMemory, AsyncUserMemory)])
def test_every_verb_is_on_both_sides(sync: type, twin: type) -> None:
    """The blocking class has each public verb of the async one, with the same parameters and docstring."""
    for name, method in inspect.getmembers(twin, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            other = getattr(sync, name)
            assert other.__doc__ == method.__doc__
            assert inspect.signature(other) == inspect.signature(method)
            assert not inspect.iscoroutinefunction(other)


def test_both_sides_make_the_same_memory_and_give_the_same_answers(folder: Path) -> None:
    """Ingest and query through either surface: equal memories, equal evidence."""
    sessions = make_sessions(12, sessions=2)

    async def run() -> list[Any]:
        async with AsyncMemForest(folder / "async", fast_config()) as forest:
            for session_id, turns in sessions:
                await forest.ingest_session("u", session_id, turns)
            return [plain((await forest.query("u", question)).evidence) for question in QUESTIONS]

    answers = asyncio.run(run())
    with MemForest(folder / "sync", fast_config()) as forest:
        for session_id, turns in sessions:
            forest.ingest_session("u", session_id, turns)
        assert [plain(forest.query("u", question).evidence) for question in QUESTIONS] == answers
    assert differences(dump(file_of(folder / "async")), dump(file_of(folder / "sync"))) == {}


FRESH = """
import json, sys
sys.path.insert(0, sys.argv[2])
from memforest import MemForest
from tests_long.worlds import fast_config
from tests_long.test_forest_parity import QUESTIONS, plain
with MemForest(sys.argv[1], fast_config()) as forest:
    print(json.dumps([plain(forest.query("u", q, index=i).evidence) for q in QUESTIONS for i in ("memforest", "flat")]))
"""


def test_the_same_question_has_the_same_answer(filled: Path) -> None:
    """Asked twice, in parallel with others, and in a fresh process: the same evidence, scores to the last bit."""
    with MemForest(filled, fast_config()) as forest:
        asked = [(q, i) for q in QUESTIONS for i in ("memforest", "flat")]
        first = [forest.query("u", q, index=i) for q, i in asked]
        again = forest.query_parallel([{"user_id": "u", "question": q, "index": i} for q, i in asked])
        once_more = [forest.query("u", q, index=i) for q, i in asked[::-1]][::-1]
    answers = [plain(result.evidence) for result in first]
    assert [plain(result.evidence) for result in again if isinstance(result, QueryResult)] == answers
    assert [plain(result.evidence) for result in once_more] == answers
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(filled), ROOT], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(answers))


def test_the_order_of_ingest_does_not_change_an_answer(folder: Path) -> None:
    """Memories made of the same sessions in another order rank the same evidence the same."""
    sessions = make_sessions(13)
    answers = []
    for name, order in (("a", sessions), ("b", sessions[::-1])):
        with MemForest(folder / name, fast_config()) as forest:
            for session_id, turns in order:
                forest.ingest_session("u", session_id, turns)
            answers.append(
                [[e.quote for e in forest.query("u", q, index="flat").evidence] for q in QUESTIONS]
            )
    assert answers[0] == answers[1]


def test_a_repeated_ingest_reports_the_same_work(folder: Path) -> None:
    """What became of each chunk does not depend on the run."""
    session_id, turns = make_sessions(14, sessions=1)[0]
    results = []
    for name in ("a", "b"):
        with MemForest(folder / name, fast_config()) as forest:
            results.append(replace(forest.ingest_session("u", session_id, turns), usage=Usage()))
    assert results[0] == results[1]


def good(user: str, session: str) -> dict[str, Any]:
    """Return a request that works."""
    turn = {"speaker": "Ana", "content": f"I live in {session}.", "timestamp": "2024-01-01"}
    return {"user_id": user, "session_id": session, "turns": [turn]}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        pytest.param({**good("u", "s"), "turns": []}, InputError, id="no turns"),
        pytest.param(
            {**good("u", "s"), "turns": [{"role": "user", "content": "x"}]}, TimestampError, id="no time"
        ),
        pytest.param({**good("", "s")}, InputError, id="no user"),
        pytest.param({"user_id": "u", "turns": []}, InputError, id="no session"),
        pytest.param({**good("u", "s"), "sesion": 1}, InputError, id="a misspelt argument"),
        pytest.param("u", InputError, id="not a mapping"),
        pytest.param({**good("u", "s"), "user_id": ["u"]}, InputError, id="a list for a user"),
        pytest.param({**good("u", "s"), "timestamp": "yesterday"}, TimestampError, id="an unreadable time"),
    ],
)
def test_an_error_in_the_middle_of_a_batch_stays_there(
    folder: Path, bad: Any, error: type[Exception]
) -> None:
    """The request gets its error in its place; those around it, of the same user too, are stored."""
    with MemForest(folder, fast_config()) as forest:
        results = forest.ingest_parallel([good("u", "Oslo"), bad, good("u", "Rome"), good("v", "Kyoto")])
        assert [isinstance(result, IngestResult) for result in results] == [True, False, True, True]
        assert isinstance(results[1], error)
        assert isinstance(results[1], MemForestError)
        assert {s.session_id for s in forest.user("u").sessions()} == {"Oslo", "Rome"}
        assert forest.flush().nodes_dirty == 0
        assert forest.user("v").stats().dirty_nodes == forest.user("u").stats().dirty_nodes == 0


def test_queries_in_a_batch_fail_alone(filled: Path) -> None:
    """An empty question gets its error; the others their evidence, which is none of an unknown user."""
    with MemForest(filled, fast_config()) as forest:
        results = forest.query_parallel(
            [
                {"user_id": "u", "question": "Where does Ana live?"},
                {"user_id": "nobody", "question": "Where does Ana live?"},
                {"user_id": "u", "question": "  "},
                {"user_id": "u", "question": "What did Bob buy?", "top_k": 1},
            ]
        )
    assert [type(r) for r in results] == [QueryResult, QueryResult, InputError, QueryResult]
    assert [bool(r) for r in results if isinstance(r, QueryResult)] == [True, False, True]


def test_empty_batches_are_nothing(folder: Path) -> None:
    """No requests, no results, no file."""
    with MemForest(folder, fast_config()) as forest:
        assert (forest.ingest_parallel([]), forest.query_parallel([])) == ([], [])
    assert list(folder.iterdir()) == []
