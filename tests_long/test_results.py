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
from tests.table import each

from memforest import MemForest
from memforest.plain import Result, plain
from memforest.read.results import ChunkReport, Evidence, FlushResult, IngestResult, Usage
from memforest.read.stored import Problem, RepairReport, TreeView, VerifyReport, turn_sources
from memforest.records import StepUsage

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
    query, page = results["query"], results["page"]
    ask = replace(results["ask"], answer="Davis", citations=query.evidence[:1])
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


def chunk(status: Any, *skipped: tuple[str, str]) -> ChunkReport:
    """Return the report of a chunk."""
    return ChunkReport(("0",), status, skipped, "no model" if status in ("failed", "left") else None)


def test_a_write_counts_its_chunks_by_what_became_of_them() -> None:
    """Failed and left ones are named, extracted ones counted, and what was skipped is one list."""
    chunks = tuple(map(chunk, ("extracted", "verbatim", "failed", "left", "extracted")))
    done = IngestResult(
        "s", 5, added=("a", "b"), merged=("c",), chunks=(*chunks, chunk("extracted", ("1", "short")))
    )
    assert (done.failed, done.left, done.chunks_extracted) == ((chunks[2],), (chunks[3],), 3)
    assert (done.facts_inserted, done.facts_merged, done.skipped) == (2, 1, (("1", "short"),))
    assert repr(done) == (
        "IngestResult('s': 5 turns and 2 facts added, 1 merged, 1 chunks failed, 1 chunks left)"
    )
    assert repr(replace(done, chunks=(), warnings=("w", "v"))).endswith("1 merged, 2 warnings)")


@each(
    ("turns", "replaced", "unchanged"),
    [(0, False, True), (1, False, False), (0, True, False), (1, True, False)],
)
def test_what_was_replaced_has_changed(turns: int, replaced: bool, unchanged: bool) -> None:
    """So has what gained a turn; what was only tried again has not, and its chunks are told."""
    done = IngestResult("s", turns, replaced=replaced)
    assert done.unchanged == unchanged
    assert ("unchanged" in repr(done)) == unchanged
    assert "0 facts added" in repr(IngestResult("s", 0, chunks=(chunk("failed"),)))


USED = st.builds(
    StepUsage, calls=st.integers(0, 9), failures=st.integers(0, 9), prompt_tokens=st.integers(0, 99)
)
USAGES = st.builds(
    Usage,
    st.dictionaries(st.sampled_from(["turn", "fact"]), st.integers(0, 9)),
    st.dictionaries(st.sampled_from(["plan", "search"]), st.integers(0, 9)),
    st.dictionaries(st.sampled_from(["extract", "judge"]), USED),
    st.integers(0, 9),
)


@given(USAGES, USAGES, USAGES)
def test_usages_add_up_in_any_order(one: Usage, other: Usage, third: Usage) -> None:
    """Nothing is lost of either; the most at once is the larger, as they need not have been at once."""
    both = one.plus(other)
    assert both == other.plus(one)
    assert both.plus(third) == one.plus(other.plus(third))
    assert one.plus(Usage()) == one
    for name in ("model_calls", "failures", "prompt_tokens"):
        assert getattr(both, name) == getattr(one, name) + getattr(other, name)
    assert sum(both.embeds.values()) == sum(one.embeds.values()) + sum(other.embeds.values())
    assert both.most_in_flight == max(one.most_in_flight, other.most_in_flight)


def test_the_sums_of_a_usage_are_each_of_their_own() -> None:
    """Calls, tokens of three kinds and failures, over all steps."""
    step = StepUsage(calls=1, failures=2, prompt_tokens=30, completion_tokens=400, cached_tokens=5000)
    used = Usage(steps={"extract": step, "judge": step})
    assert (used.model_calls, used.failures) == (2, 4)
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (60, 800, 10_000)


def test_flushes_of_one_memory_and_of_two_differ_in_what_is_left() -> None:
    """One after the other the later says what is left; side by side both have something left. Warnings are told once."""
    one = FlushResult(3, 5, Usage({"turn": 1}), ("a", "b"))
    other = FlushResult(4, 2, Usage({"turn": 2}), ("b", "c"))
    after, beside = one.plus(other), one.beside(other)
    assert (after.nodes_refreshed, after.nodes_dirty, beside.nodes_refreshed, beside.nodes_dirty) == (
        7,
        2,
        7,
        7,
    )
    assert after.warnings == beside.warnings == ("a", "b", "c")
    assert after.usage.embeds == beside.usage.embeds == {"turn": 3}
    assert repr(after) == "FlushResult(7 summaries made, 2 out of date, 3 warnings)"
    assert repr(FlushResult()) == "FlushResult(0 summaries made, 0 out of date)"


def test_reports_say_how_much_is_wrong_and_what_first() -> None:
    """In one line, cut; a repair says what it did as well."""
    wrong = tuple(Problem("tree", f"{n} {'x' * 500}") for n in range(3))
    assert repr(VerifyReport(wrong, {})).startswith("VerifyReport(3 problems, first '0 xxx")
    assert len(repr(VerifyReport(wrong, {}))) < 200
    assert repr(VerifyReport((), {"trees": 3})) == "VerifyReport(ok)"
    left = RepairReport(("a", "b"), wrong[:1])
    assert (repr(left), left.ok, len(left), list(left)) == (
        "RepairReport(2 things done, 1 problems left)",
        False,
        1,
        [wrong[0]],
    )
    assert (left.to_dict()["ok"], VerifyReport(wrong, {}).to_dict()["ok"], RepairReport((), ()).ok) == (
        False,
        False,
        True,
    )


def test_a_line_of_a_prompt_is_of_its_kind() -> None:
    """A statement with its day and quotation; a summary with its days, level, window and how much it sums up."""
    said = Evidence("Bob moved.", "I moved.", "Bob", "fact", 1.0, {}, WHEN, WHEN, None, ())
    assert said.line(3) == '[3] 1 Jan 2024: Bob moved. (Bob said: "I moved.")'
    summed = replace(
        said, kind="memory", quote="", speaker="", end=WHEN + timedelta(days=7), level=2, turns=9
    )
    assert summed.line(1) == "[1] 1 Jan 2024 to 7 Jan 2024, level 2, summary of 9 turns: Bob moved."
    assert "level 2, 2024-W01, summary" in replace(summed, window="2024-W01").line(1)
    assert "summary of 1 turn:" in replace(summed, turns=1).line(1)
    assert repr(said) == "Evidence('Bob moved.', fact, 1.00, said 2024-01-01)"


@pytest.mark.parametrize(
    ("pairs", "sources"),
    [
        ([], ()),
        ([("a", "1"), ("a", "2"), ("a", "1")], (("a", ("1", "2")),)),
        ([("b", "1"), ("a", "1"), ("b", "0")], (("b", ("1", "0")), ("a", ("1",)))),
    ],
)
def test_sources_are_grouped_as_they_come(pairs: list[tuple[str, str]], sources: tuple[Any, ...]) -> None:
    """By session, each turn once; neither sessions nor turns are sorted."""
    assert tuple((one.session_id, one.turn_ids) for one in turn_sources(pairs)) == sources
