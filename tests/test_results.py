"""Results print in one line, serialise as they are, and are iterated over what they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest import MemForest
from memforest.memory.plain import Result, plain
from memforest.memory.results import Problem, RepairReport, TreeView, VerifyReport

WHEN = datetime(2024, 1, 1, tzinfo=timezone.utc)
TURNS = [
    {"speaker": "Bob", "text": "I live\nin Davis.", "timestamp": WHEN, "n": {"deep": [1, None]}},
    {
        "speaker": "Bob",
        "text": f"I moved to Miami {'very ' * 400}quickly.",
        "timestamp": WHEN + timedelta(days=9),
    },
]


@pytest.fixture
def results(forest: MemForest) -> dict[str, Any]:
    """A result of every verb."""
    bob = forest.user("bob")
    stored = forest.ingest_session("bob", "line\nbreak", TURNS)
    return {
        "ingest": stored,
        "again": forest.ingest_session("bob", "line\nbreak", TURNS),
        "query": bob.search("Where does Bob live?", explain=True),
        "none": bob.search("Where does Bob live?", as_of="1999-01-01"),
        "ask": bob.ask("Where does Bob live?"),
        "abstention": bob.ask("Who is the president of the chess club?", as_of="1999-01-01"),
        "page": bob.list(),
        "fact": bob.list().facts[0],
        "sessions": bob.sessions()[0],
        "timeline": bob.timeline("Bob")[0],
        "tree": bob.tree(depth=3)[0],
        "stats": bob.stats(),
        "verify": bob.verify(),
        "repair": bob.repair(),
        "rebuild": forest.rebuild("bob") or bob.rebuild(),
        "survey": forest.survey(),
    }


def test_every_result_is_one_short_line(results: dict[str, Any]) -> None:
    """Whatever was said, and however much of it."""
    for one in results.values():
        for shown in (repr(one), str(one)):
            assert shown.startswith(f"{type(one).__name__}(")
            assert "\n" not in shown
            assert len(shown) < 250
    assert repr(results["query"]).startswith("QueryResult(2 evidence, best '")
    assert repr(results["verify"]) == "VerifyReport(ok)"
    assert repr(results["again"]) == r"IngestResult('line\nbreak': unchanged)"


def test_every_result_goes_through_json(results: dict[str, Any]) -> None:
    """Without a `default=`, strictly, and with times that `fromisoformat` reads."""
    for one in results.values():
        assert isinstance(one, Result)
        made = one.to_dict()
        assert json.loads(json.dumps(made, allow_nan=False)) == made
    evidence = results["query"].to_dict()["evidence"][0]
    assert datetime.fromisoformat(evidence["said"]) == results["query"].evidence[0].said
    assert results["verify"].to_dict()["ok"] is True


def test_results_are_iterated_over_what_they_hold(results: dict[str, Any]) -> None:
    """What is found is true, what is not is false; a report is true when nothing is wrong."""
    query, page, ask = results["query"], results["page"], results["ask"]
    assert (list(query), len(query)) == (list(query.evidence), len(query.evidence))
    assert (list(page), len(page)) == (list(page.facts), len(page.facts))
    assert list(ask) == list(ask.citations)
    assert all((query, page, ask, results["verify"], results["repair"], results["again"]))
    assert not results["none"]
    assert not results["abstention"]
    wrong = VerifyReport((Problem("tree", "a leaf is missing"),), {})
    assert (bool(wrong), [one.part for one in wrong]) == (False, ["tree"])
    assert not RepairReport((), wrong.problems)


def test_numbers_of_numpy_and_what_has_no_form_become_plain() -> None:
    """An array is a list, a number that is not finite is None, anything else its text."""
    value = {
        1: np.float32(0.5),
        "b": np.arange(2),
        "c": float("inf"),
        "d": {b"x"},
        "e": ValueError("no"),
        "f": np.int64(3),
    }
    assert plain(value) == {
        "1": 0.5,
        "b": [0, 1],
        "c": None,
        "d": ["b'x'"],
        "e": {"error": "ValueError", "message": "no"},
        "f": 3,
    }


def test_depth_is_no_danger(results: dict[str, Any]) -> None:
    """What is nested a hundred thousand times is cut, whether it is metadata or a tree."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    tree = TreeView("", WHEN, WHEN, 0, 1, "", False)
    for _ in range(3000):
        tree = replace(tree, children=(tree,))
    evidence = replace(results["query"].evidence[0], metadata={"deep": deep})
    for one in (evidence, tree, replace(results["query"], evidence=(evidence,))):
        json.dumps(one.to_dict())
        json.dumps(one.to_dict(), indent=2)
        assert len(repr(one)) < 250


@given(
    st.recursive(
        st.none() | st.floats() | st.text() | st.dates() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)
def test_anything_becomes_json(value: Any) -> None:
    """`json.dumps` takes it, strictly."""
    json.dumps(plain(value), allow_nan=False)
