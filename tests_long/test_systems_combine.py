"""Several indexes as one: z-scores over the same turns, summed, whatever the order of the names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles import local_reply

from memforest import Config, ConfigError, MemForest, QueryResult
from memforest.models import HashEmbedder
from memforest.ranking import order
from memforest.search.snapshot import Snapshot
from memforest.store.tx import Tx
from memforest.systems import registry
from memforest.systems.base import Found, Hit, NodeHit, Search
from memforest.systems.combine import CombinedIndex, fuse
from memforest.systems.flat.index import FlatIndex
from memforest.systems.memforest.index import MemForestIndex
from memforest.testing import FunctionChat

PLACES = np.arange(6)


def found(*scores: float | None, leads: float = np.inf, **more: Any) -> Found:
    """Return a ranking of turns 0, 1, ... by their scores; None for a turn that was not found.

    What scores `leads` or more has a reason.
    """
    hits = [
        Hit(turn, -1, score, {"half": score / 2, "rest": score / 2}, why="first" * (score >= leads))
        for turn, score in enumerate(scores)
        if score is not None
    ]
    return Found(sorted(hits, key=lambda hit: -hit.score), **more)


def turns(fused: Found) -> list[int]:
    """Return the turns of a ranking, best first."""
    return [hit.turn for hit in fused.hits]


# -- by hand -----------------------------------------------------------------------------------------------


def test_z_scores_are_summed() -> None:
    """Whatever the scales: 10, 20, 30 and 3, 1, 2 are -a, 0, a and a, -a, 0 with a the root of 1.5."""
    hits = list(fuse({"b": found(3, 1, 2), "a": found(10, 20, 30)}, PLACES).hits)
    a = 1.5**0.5
    assert [hit.turn for hit in hits] == [2, 0, 1]
    assert [hit.score for hit in hits] == pytest.approx([a, 0, -a])
    assert hits[0].scores == pytest.approx(
        {"a.half": 15 * a / 10, "a.rest": 15 * a / 10, "a.mean": -2 * a, "b.half": a, "b.rest": a, "b.mean": -2 * a}
    )  # fmt: skip
    weighted = fuse({"b": found(3, 1, 2), "a": found(10, 20, 30)}, PLACES, {"b": 3.0})
    assert [hit.score for hit in weighted.hits] == pytest.approx([2 * a, a, -3 * a])


def test_a_turn_that_an_index_lacks_has_its_lowest_score() -> None:
    """It counts in that index's mean and deviation, and is among the parts."""
    hits = {hit.turn: hit for hit in fuse({"a": found(3, 1, None), "b": found(5, 5, 5)}, PLACES).hits}
    assert hits[2].score == hits[1].score == pytest.approx(-(0.5**0.5))
    assert hits[2].scores["a.absent"] == hits[2].score
    assert set(hits[1].scores) == {"a.half", "a.rest", "a.mean"}  # b's scores do not differ: it says nothing
    assert turns(fuse({"a": found(1, 2), "b": Found(())}, PLACES)) == [1, 0]
    assert turns(fuse({"a": Found(()), "b": Found(())}, PLACES)) == []


def test_a_reason_leads_and_leaves_the_others_apart() -> None:
    """A turn that stands first for a reason stays first, and does not make all others alike."""
    led = Found([Hit(3, 7, 1000.0, why="the timeline says so"), *found(0.3, 0.2, 0.1).hits])
    hits = list(fuse({"a": led, "b": found(0.1, 0.2, 0.29, 0.0)}, PLACES).hits)
    assert [hit.turn for hit in hits] == [3, 0, 1, 2]  # alike in a, they would stand as in b: 2, 1, 0
    assert (hits[0].fact, hits[0].why) == (7, "the timeline says so")


def test_the_index_that_ranks_a_turn_highest_speaks_for_it() -> None:
    """Its fact, leaf and reason; another's where it has none."""
    a = Found([Hit(0, 4, 9.0, leaf=-1), Hit(1, -1, 1.0, leaf=11, browsed=0.5)])
    b = Found([Hit(1, 6, 9.0, leaf=12, why="b"), Hit(0, 5, 1.0, leaf=13, browsed=0.7)])
    hits = {hit.turn: hit for hit in fuse({"a": a, "b": b}, PLACES).hits}
    assert (hits[0].fact, hits[0].leaf, hits[0].browsed) == (4, 13, 0.7)
    assert (hits[1].fact, hits[1].leaf, hits[1].browsed, hits[1].why) == (6, 12, None, "b")


def test_nodes_are_kept() -> None:
    """On their index's scale of turns, each once; an index without turns has that of its nodes."""
    a = found(10, 20, 30, nodes=[NodeHit(8, 40.0, {"own": 40.0}, "2024-W10"), NodeHit(9, 20.0)])
    b = Found((), nodes=[NodeHit(8, 5.0), NodeHit(7, 3.0)])
    for legs in ({"a": a, "b": b}, {"b": b, "a": a}):
        fused = list(fuse(legs, PLACES).nodes)
        assert [(one.node, round(one.score, 6)) for one in fused] == [(8, 3.44949), (9, 0.0), (7, -1.0)]
        assert fused[0].window == "2024-W10"
        for one in fused:
            assert sum(one.scores.values()) == pytest.approx(one.score)


def test_trees_and_notes_are_kept() -> None:
    """Trees index by index, each once; each note of the first that has it, and how many turns each found."""
    a = found(1, 2, trees=((3, 0.9), (1, 0.4)), notes={"filters": {"turns": 2}, "time_order": None})
    b = found(2, trees=((1, 0.8), (2, 0.7)), notes={"time_order": {"why": "x"}})
    fused = fuse({"b": b, "a": a}, PLACES, {"a": 2.0})
    assert fused.trees == ((3, 0.9), (1, 0.4), (2, 0.7))
    assert fused.notes["filters"] == {"turns": 2}
    assert fused.notes["time_order"] == {"why": "x"}
    assert fused.notes["fusion"] == {
        "a": {"weight": 2.0, "turns": 2, "nodes": 0},
        "b": {"weight": 1.0, "turns": 1, "nodes": 0},
    }


SCORES = st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=6, max_size=6)


@given(SCORES, SCORES, SCORES, st.permutations(range(6)))
def test_fusing_is_fair_and_keeps_an_index_as_it_is(
    one: list[int | None], two: list[int | None], three: list[int | None], places: list[int]
) -> None:
    """With itself an index keeps its order; the order of names makes no difference; parts sum to the score."""
    at = np.array(places)
    alone = [turn for turn, score in enumerate(one) if score is not None]
    ranked = order(np.array([float(one[turn] or 0) for turn in alone]), at[alone])
    for leads in (np.inf, 5):
        leg = found(*one, leads=leads)
        assert turns(fuse({"a": leg, "b": found(*one, leads=leads)}, at)) == [alone[i] for i in ranked]
    legs = {"a": found(*one), "b": found(*two), "c": found(*three)}
    fused = list(fuse(legs, at).hits)
    assert fused == list(fuse(dict(reversed(legs.items())), at).hits)
    assert len(fused) == sum(any(leg[i] is not None for leg in (one, two, three)) for i in range(6))
    for hit in fused:
        assert sum(hit.scores.values()) == pytest.approx(hit.score, abs=1e-9)


# -- end to end --------------------------------------------------------------------------------------------

QUESTIONS = ("What did Mateo buy?", "Where does Nora live now?", "When did Nora adopt the dog?", "zzzz")


class Copy(FlatIndex):
    """The forest's ranking under another name."""

    name = "copy"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return what the forest's index finds."""
        return MemForestIndex().search(tx, snapshot, request)

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return the names of the scopes of the forest's trees."""
        return MemForestIndex().labels(tx, trees)


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    """A forest with the demo conversation."""
    data = json.loads((files("memforest.data") / "demo" / "nora_and_mateo.json").read_text(encoding="utf-8"))
    with MemForest(tmp_path_factory.mktemp("demo"), Config(embedder=HashEmbedder())) as made:
        for session in data["sessions"]:
            made.ingest_session("u", session["session_id"], session["turns"])
        yield made


def ask(forest: MemForest, question: str, index: Any, **options: Any) -> QueryResult:
    """Query, with everything that is found."""
    return forest.query("u", question, index=index, reference_date="2026-01-01", **{"top_k": 999, **options})


def said(result: QueryResult) -> list[Any]:
    """Return what is found without its scores."""
    return [(one.text, one.kind, one.sources, one.path, one.why) for one in result]


def turns_of(result: QueryResult) -> set[tuple[str, str]]:
    """Return every turn that some evidence is from."""
    return {(s.session_id, turn) for one in result for s in one.sources for turn in s.turn_ids}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_index_with_itself(forest: MemForest, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    """Gives its own order, facts, paths and reasons."""
    monkeypatch.setitem(registry._REGISTERED, "copy", Copy)
    assert said(ask(forest, question, ("copy", "memforest"))) == said(ask(forest, question, "memforest"))


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_order_of_names_makes_no_difference(forest: MemForest, question: str) -> None:
    """The same evidence with the same scores, whose parts say which index they are of; a list is as good as a tuple."""
    both = ask(forest, question, ["flat", "memforest"], explain=True)
    assert both.index == "flat,memforest"
    assert both.evidence == ask(forest, question, ("memforest", "flat")).evidence
    assert turns_of(both) == turns_of(ask(forest, question, "flat"))
    for one in both:
        assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-6)
        assert {name.split(".")[0] for name in one.scores} <= {"flat", "memforest"}
    assert set(both.trace["explain"]["fusion"]) == {"flat", "memforest"}
    assert ask(forest, question, ("flat",)).evidence == ask(forest, question, "flat").evidence


class Unscored(MemForestIndex):
    """One that hands back its hits alone, as an index may."""

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return what memforest finds."""
        return replace(super().search(tx, snapshot, request), scored=None)


@pytest.mark.parametrize("question", QUESTIONS)
def test_hits_alone_are_fused_alike(
    forest: MemForest, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """The arrays of a ranking say what its hits say, also under a filter."""
    for options in ({}, {"as_of": "2025-09-01"}):
        arrays = ask(forest, question, ("flat", "memforest"), **options)
        with monkeypatch.context() as patch:
            patch.setitem(registry._REGISTERED, "memforest", Unscored)
            assert ask(forest, question, ("flat", "memforest"), **options).evidence == arrays.evidence


def test_what_leads_in_one_index_leads_in_both(forest: MemForest) -> None:
    """Time order's answer stays in front, with its reason, and ask quotes it."""
    question = "Where does Nora live now?"
    first = ask(forest, question, "memforest").evidence[0]
    both = ask(forest, question, ("flat", "memforest"))
    assert first.why
    assert (both.evidence[0].text, both.evidence[0].why) == (first.text, first.why)
    answer = forest.ask("u", question, index=("flat", "memforest"), reference_date="2026-01-01")
    assert answer.citations[0].sources == first.sources


def test_a_model_browses_if_one_of_the_indexes_has_trees(forest: MemForest, tmp_path: Path) -> None:
    """The leaves that it reaches count for the index that has them."""
    config = Config(chat=FunctionChat(local_reply), chat_steps=["plan", "browse"], embedder=HashEmbedder())
    with MemForest(tmp_path, config) as guided:
        for n in range(3):
            turns = [{"speaker": "Ana", "content": f"I saw bird number {i} at lake {n}."} for i in range(9)]
            guided.ingest_session("u", f"s{n}", turns, timestamp=f"2024-0{n + 1}-01")
        found = guided.query("u", "Which bird did Ana see at lake 2?", index=("flat", "memforest"))
        assert found.trace["mode"] == "llm+planner"
        assert found.trace["browse"]
        assert any("memforest.browse" in one.scores for one in found)


def test_indexes_and_weights_are_checked() -> None:
    """None, one twice, and weights that are no weights or of another index."""
    with pytest.raises(ConfigError):
        CombinedIndex([])
    with pytest.raises(ConfigError):
        CombinedIndex([FlatIndex(), FlatIndex()])
    for weights in ({"x": 1.0}, {"flat": -1.0}, {"flat": float("nan")}):
        with pytest.raises(ConfigError, match="weight"):
            CombinedIndex([FlatIndex()], weights)
