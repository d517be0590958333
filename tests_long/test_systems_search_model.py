"""What every index promises of what it finds, on random small memories: each allowed turn once, best first, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, OFF, Fact, Said, hand_made, planted, searching, state
from tests_long.small_worlds import AXES, FEW, World, worlds

from memforest.config import Ranking
from memforest.records import QuestionPlan
from memforest.search.context_scores import fused, read_base
from memforest.search.filters import (
    IndexResult,
    Search,
    TurnHit,
    allowed,
    fact_places,
    first_turns,
    turn_places,
)
from memforest.search.scores import standardise
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.store.database import Database, ensure_schema
from memforest.trees import memforest
from memforest.trees.flat import FactsIndex, FlatIndex
from memforest.trees.index import Index
from memforest.trees.memforest import MemForestIndex
from memforest.trees.memforest_grow import MemForestSettings

EVERYTHING = (FlatIndex(), MemForestIndex())
REACHED = MemForestIndex(
    MemForestSettings(evidence="reached", beam_width=99, recall_trees=99, facts_to_trees=99)
)
of_turns = st.sampled_from(EVERYTHING)


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    """A read transaction on an empty memory: no words are stored, so that vectors decide, and trees are those made by hand."""
    db = Database(tmp_path_factory.mktemp("search") / "m.db")
    ensure_schema(db)
    with pytest.MonkeyPatch.context() as patch, db.read() as opened:
        patch.setattr(memforest, "forest_of", lambda tx, snapshot, index: planted(snapshot).forest)
        patch.setattr(memforest, "embedded_forest", lambda tx, snapshot, index: planted(snapshot))
        yield opened
    db.close()


@st.composite
def requests(draw: st.DrawFn) -> Search:
    """Return a question along some axis, with or without filters, explanation, and a kind."""
    as_of = draw(st.one_of(st.none(), st.integers(-1, 11)))
    start = draw(st.one_of(st.none(), st.integers(-1, 11)))
    kind = draw(st.sampled_from(["simple", "list", "when", "current"]))
    entities = draw(st.sampled_from([(), ("Ana",), ("Ana", "Bob")]))
    plan = QuestionPlan(kind=kind, entities=entities, attribute="home" if kind == "current" else None)  # type: ignore[arg-type]
    return replace(
        searching(plan, axis=draw(st.integers(0, 3))),
        as_of_ms=None if as_of is None else as_of * DAY,
        during_ms=None if start is None else (start * DAY, (start + draw(st.integers(1, 4))) * DAY),
        explain=draw(st.booleans()),
    )


def shown(found: IndexResult) -> list[tuple[int, int, float, int, str]]:
    """Return the hits of a ranking, best first, without the index that they name."""
    return [(hit.turn, hit.fact, round(hit.score, 9), hit.leaf, hit.why) for hit in found.hits]


def check_order(hits: list[TurnHit], snapshot: Snapshot) -> None:
    """Check that hits stand by score behind what leads, and those of equal scores by when they were said."""
    places = turn_places(snapshot)
    keys = [(-hit.lead, -round(hit.score, 9), int(places[hit.turn])) for hit in hits]
    assert keys == sorted(keys)


@FEW
@given(worlds, of_turns, requests())
def test_each_allowed_turn_is_found_once_best_first(tx: Tx, it: World, index: Index, request: Search) -> None:
    """And no other; a score is the sum of its parts."""
    found = index.search(tx, it.snapshot, request)
    hits = list(found.hits)
    keep = allowed(it.snapshot, request)
    assert sorted(hit.turn for hit in hits) == np.flatnonzero(keep.turns).tolist()
    check_order(hits, it.snapshot)
    for hit in hits:
        assert sum(hit.scores.values()) == pytest.approx(hit.score, abs=1e-9)


@FEW
@given(worlds, of_turns, requests())
def test_the_fact_that_speaks_for_a_turn_is_one_of_its_own(
    tx: Tx, it: World, index: Index, request: Search
) -> None:
    """One that passes the filters; there is none only where no fact of the turn does. The leaf holds the turn."""
    keep = allowed(it.snapshot, request)
    for hit in index.search(tx, it.snapshot, request).hits:
        own = [fact for fact in it.supports(hit.turn) if keep.facts[fact]]
        assert hit.fact in own if own else hit.fact == -1
        if hit.leaf >= 0:
            assert hit.turn in it.said_at(hit.leaf)
        assert (hit.leaf >= 0) == (index is not EVERYTHING[0])


@FEW
@given(worlds, of_turns, requests())
def test_to_explain_changes_no_ranking(tx: Tx, it: World, index: Index, request: Search) -> None:
    """The same hits with the same scores; only what is told of them is more."""
    plain = index.search(tx, it.snapshot, replace(request, explain=False))
    told = index.search(tx, it.snapshot, replace(request, explain=True))
    assert shown(plain) == shown(told)
    assert plain.trees == ()
    assert bool(told.trees) == (index is not EVERYTHING[0])


@FEW
@given(worlds, st.integers(0, 3))
def test_flat_ranks_a_turn_by_itself_and_its_facts(tx: Tx, it: World, axis: int) -> None:
    """By the best of the cosines, standardised, with the share that words leave to vectors."""
    best = np.array(
        [
            max([turn.axis == axis, *(it.facts[fact].axis == axis for fact in it.supports(row))])
            for row, turn in enumerate(it.turns)
        ],
        dtype=np.float64,
    )
    wanted = 0.65 * (best - best.mean()) / (best.std() or 1.0)
    hits = list(FlatIndex().search(tx, it.snapshot, searching(axis=axis)).hits)
    assert [hit.score for hit in hits] == pytest.approx([wanted[hit.turn] for hit in hits], abs=1e-6)
    unembedded = FlatIndex().search(tx, it.snapshot, replace(searching(), vector=None))
    assert {hit.score for hit in unembedded.hits} == {0.0}


@FEW
@given(worlds, requests())
def test_facts_are_found_each_once_at_the_turn_that_said_them_first(
    tx: Tx, it: World, request: Search
) -> None:
    """Those that pass the filters, by their cosine; of equal ones the one said first."""
    hits = list(FactsIndex().search(tx, it.snapshot, request).hits)
    keep, first, places = allowed(it.snapshot, request), first_turns(it.snapshot), fact_places(it.snapshot)
    axis = int(np.argmax(request.vector)) if request.vector is not None else 0
    near = {fact: float(it.facts[fact].axis == axis) for fact in np.flatnonzero(keep.facts).tolist()}
    assert [hit.fact for hit in hits] == sorted(near, key=lambda fact: (-near[fact], places[fact]))
    assert [hit.turn for hit in hits] == [first[hit.fact] for hit in hits]
    assert all(
        hit.scores == {"cosine": hit.score} and hit.score == pytest.approx(near[hit.fact]) for hit in hits
    )


@FEW
@given(worlds, requests())
def test_only_what_browse_reached_is_found_in_the_paper_s_form(tx: Tx, it: World, request: Search) -> None:
    """With a beam as wide as the trees: what any leaf stands for and passes, each once, at the best of its leaves."""
    hits = list(REACHED.search(tx, it.snapshot, request).hits)
    keep, first = allowed(it.snapshot, request), first_turns(it.snapshot)
    lone = {int(r) for r in it.forest.tree_root if it.kind(int(r)) == "scene" and not it.children(int(r))}
    leaves = [row for row in range(len(it.forest.ids)) if not it.children(row) and row not in lone]
    facts = {int(it.forest.item[leaf]) for leaf in leaves if it.is_fact(leaf)}
    wanted = {(int(first[fact]), fact) for fact in facts if keep.facts[fact]}
    wanted |= {
        (turn, -1) for leaf in leaves if not it.is_fact(leaf) for turn in it.said_at(leaf) if keep.turns[turn]
    }
    assert {(hit.turn, hit.fact) for hit in hits} == wanted
    assert len(hits) == len(wanted)
    scores = [round(hit.score, 9) for hit in hits]
    assert scores == sorted(scores, reverse=True)


@FEW
@given(worlds, st.integers(0, 3))
def test_every_index_can_take_the_legs(tx: Tx, it: World, axis: int) -> None:
    """What memforest ranks by when everything else is off; without an embedder, words alone."""
    request = searching(axis=axis, ranking=Ranking(**{**OFF, "turn": 0.4, "fact": 0.6}))
    base = read_base(tx, it.snapshot, request)
    assert base.turn == pytest.approx(it.snapshot.turns.vectors.cosines(AXES[axis]))
    hits = MemForestIndex().search(tx, it.snapshot, request).hits
    ranked = {hit.turn: hit.score for hit in hits}
    assert [ranked[turn] for turn in range(len(it.turns))] == pytest.approx(
        standardise(fused(it.snapshot, request, base).total)
    )
    wordless = replace(request, vector=None)
    assert not fused(it.snapshot, wordless, read_base(tx, it.snapshot, wordless)).total.any()


@FEW
@given(worlds, st.integers(0, 11))
def test_what_time_order_answers_stands_in_front(tx: Tx, it: World, day: int) -> None:
    """Where Ana lives now is the state of the day of asking: its turns lead, with the reason, and nothing else does."""
    plan = QuestionPlan(kind="current", entities=("Ana",), attribute="home")
    request = replace(searching(plan), reference_ms=day * DAY)
    hits = list(MemForestIndex().search(tx, it.snapshot, request).hits)
    said = {fact: it.turns[it.facts[fact].turns[0]].day for fact in it.states}
    holds = [fact for fact, end in it.states.items() if said[fact] <= day < end and _known(it)]
    leads = [hit for hit in hits if hit.why]
    assert hits[: len(leads)] == leads
    assert {hit.turn for hit in leads} == {turn for fact in holds for turn in it.facts[fact].turns}
    assert all(hit.fact in holds and hit.why.startswith("current of home: place") for hit in leads)


def _known(it: World) -> bool:
    """Return whether the entity that the states are of is Ana: the first who speaks is."""
    return it.turns[0].speaker == "Ana"


@pytest.mark.parametrize("asked", [None, "emb"])
def test_no_question_reads_a_memory_without_turns(tx: Tx, asked: Any) -> None:
    """Nothing is found in an empty memory, by any index, and nothing is wrong."""
    nothing = hand_made([])
    for index in (*EVERYTHING, FactsIndex()):
        assert list(index.search(tx, nothing, replace(searching(), asked_mode=asked)).hits) == []


def test_an_answer_of_time_order_passes_the_filters_itself(tx: Tx) -> None:
    """It does not lead for a turn that is there for another of its facts, as one of an asked window."""
    made = hand_made([Said("Ana", 5)], [Fact((0,)), Fact((0,), start=0, end=1)], states=[state(0, "Oslo", 5)])
    asked = searching(QuestionPlan(kind="current", entities=("Ana",), attribute="home"))
    for during, fact, why in (((4 * DAY, 6 * DAY), 0, "current of home: Oslo"), ((0, DAY), 1, "")):
        (hit,) = MemForestIndex().search(tx, made, replace(asked, during_ms=during)).hits
        assert (hit.fact, hit.why) == (fact, why)


def test_facts_of_one_turn_stand_by_what_they_say(tx: Tx) -> None:
    """Whatever the order in which they were stored; those of another turn stay where they were said."""
    made = hand_made([Said("Ana", 1), Said("Ana", 1)], [Fact((0,)), Fact((0,)), Fact((0,)), Fact((1,))])
    turned = replace(made, facts=replace(made.facts, key=np.array([2, 0, 1, 0])))
    assert fact_places(turned).tolist() == [2, 0, 1, 3]


@FEW
@given(worlds, st.integers(0, 3))
def test_without_a_bare_question_the_whole_one_is_compared(tx: Tx, it: World, axis: int) -> None:
    """Where a question names nobody its vector stands for both."""
    request = searching(axis=axis)
    index = MemForestIndex()
    bare = index.search(tx, it.snapshot, replace(request, bare_vector=None))
    assert shown(bare) == shown(index.search(tx, it.snapshot, request))
