"""F on snapshots that were put together by hand: how well things have held, which time is asked about, and what memories score."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timezone
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.table import each
from tests_long.hand_made import DAY, Fact, Said, Tree, hand_made, planted, put_forest, searching

from memforest.config import Explore
from memforest.records import QuestionPlan, SubQuery
from memforest.search.context_scores import base_scores
from memforest.search.snapshot import Snapshot
from memforest.times import to_ms
from memforest.trees import hmem_find
from memforest.trees.hmem import HMemIndex
from memforest.trees.hmem_find import Entry, asked_time, held, node_scores, similarities, turn_scores

UTC = timezone.utc
NONE: Any = None
MAY, JUNE = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)


def said(count: int, sessions: int = 1) -> list[Said]:
    """Return turns on days that follow each other, each along an axis of its own, as far as there are some."""
    return [Said("Ana", day=at, session=1 + at * sessions // count, axis=at % 4) for at in range(count)]


@each("seed", range(5))
def test_turns_side_by_side_tell_a_fact_once(seed: int) -> None:
    """Against one turn after the other: a telling begins where the turn before does not support the fact, too."""
    random = Random(seed)
    turns = said(24, sessions=3)
    facts = [Fact(tuple(sorted(random.sample(range(24), random.randint(1, 9))))) for _ in range(12)]
    snapshot = hand_made(turns, facts)
    last, times = held(snapshot)
    for row, fact in enumerate(facts):
        tellings = sum(
            not (turn - 1 in fact.turns and turns[turn - 1].session == turns[turn].session)
            for turn in fact.turns
        )
        assert times[row] == tellings - 1
        assert last[row] == max(turns[turn].day for turn in fact.turns) * DAY


def test_without_facts_nothing_is_held() -> None:
    """There is nothing to count."""
    last, times = held(hand_made(said(3)))
    assert len(last) == len(times) == 0


def test_the_time_of_a_sub_query_goes_before_that_of_its_words() -> None:
    """An open end is the present; one that lies before the start is the start; without a start nothing is asked about."""
    request = replace(searching(), reference_ms=to_ms(datetime(2024, 8, 1, tzinfo=UTC)))
    sub = SubQuery("1", "What then?")
    assert asked_time(sub, request) is None
    of_words = replace(request, plan=QuestionPlan(start=MAY, end=JUNE))
    assert asked_time(sub, of_words) == (to_ms(MAY), to_ms(JUNE))
    open_end = SubQuery("1", "What then?", interval=(JUNE, None))
    assert asked_time(open_end, of_words) == (to_ms(JUNE), request.reference_ms)
    later = SubQuery("1", "What then?", interval=(datetime(9999, 1, 1, tzinfo=UTC), None))
    assert asked_time(later, request) == (to_ms(later.interval[0]), to_ms(later.interval[0]) + 1)  # type: ignore[index]
    assert asked_time(sub, replace(request, plan=QuestionPlan(end=JUNE))) is None


def scored(snapshot: Snapshot, explore: Explore, asked: tuple[int, int] | None = None, **more: Any) -> Any:
    """Return F of the turns; each is spoken for by the first fact that it supports."""
    request = searching(**more)
    base = base_scores(
        snapshot, request, np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
    )
    speaks = np.full(len(snapshot.turns.ids), -1, dtype=np.int64)
    for fact, turn in snapshot.facts.pairs[::-1].tolist():
        speaks[turn] = fact
    similar = similarities(snapshot, request, explore, base)
    nothing = np.zeros(len(snapshot.turns.ids))
    return turn_scores(snapshot, request, explore, asked, similar, speaks, Entry(nothing, nothing))


def test_a_turn_and_its_fact_are_one_with_the_better_of_both() -> None:
    """The cosine of either, the later time of both, and how often the fact was told."""
    snapshot = hand_made(said(6, sessions=6), [Fact((1, 4), axis=0), Fact((2,), axis=3)])
    explore = Explore(similarity_of="cosine", robustness=1, similarity=1)
    found = scored(snapshot, explore)
    np.testing.assert_allclose(found.parts["similarity"], [1, 1, 0, 0, 1, 0], atol=1e-6)
    ages = {0: (1000, 0), 1: (996, 1), 2: (998, 0), 4: (996, 1), 5: (995, 0)}
    for turn, (age, times) in ages.items():
        wanted = math.exp(-age / (365 * (1 + 0.5 * math.log(1 + times))))
        assert found.parts["robustness"][turn] == pytest.approx(wanted)
    np.testing.assert_allclose(found.total, sum(found.parts.values()))
    assert set(found.parts) == {"similarity", "robustness"}, "no time is asked about, and no entity is near"


def test_a_fact_that_states_a_time_fits_by_it() -> None:
    """Said long after, of days that are asked about: the turn fits as the fact does."""
    snapshot = hand_made(said(4), [Fact((3,), start=100, end=101)])
    explore = Explore(similarity=0, robustness=0, time=1)
    found = scored(snapshot, explore, (100 * DAY, 101 * DAY))
    assert found.parts["time"][3] == pytest.approx(1)
    assert (found.parts["time"][:3] < 0.05).all()


def test_a_clock_that_is_wrong_makes_nothing_older() -> None:
    """What was said after the question's present has held as well as what was said just then."""
    snapshot = hand_made([Said("Ana", day=2000), Said("Ana", day=1000)])
    found = scored(snapshot, Explore(similarity=0, time=0, robustness=1))
    np.testing.assert_allclose(found.total, [1, 1])


@pytest.mark.parametrize("similarity_of", ["fused", "cosine"])
def test_without_vectors_words_are_all(similarity_of: Any) -> None:
    """The turn with the words of the question is the most similar one."""
    snapshot = hand_made(said(5))
    request = replace(searching(), vector=None, bare_vector=None)
    words = np.array([0.0, 0.0, 3.0, 1.0, 0.0])
    base = base_scores(snapshot, request, words, np.zeros(0))
    found = similarities(snapshot, request, Explore(similarity_of=similarity_of), base)
    assert int(found.argmax()) == 2


def memory(axes: dict[int, int]) -> Snapshot:
    """Return five facts below two memories and what is above both; `axes` gives the nodes vectors by row."""
    shape = ((("fact", 0), ("fact", 1), ("fact", 2)), (("fact", 3), ("fact", 4)))
    facts = [Fact((at,), axis=at % 4) for at in range(4)] + [Fact((4, 5), axis=0)]
    return hand_made(said(6, sessions=6), facts, [Tree("year", 2024, shape, axes)])


def node_parts(snapshot: Snapshot, explore: Explore) -> dict[int, dict[str, float]]:
    """Return the parts of F of the inner nodes by row."""
    trees, index, request = planted(snapshot), HMemIndex(), searching()
    put_forest(snapshot, trees, index)
    forest = trees.forest
    base = base_scores(snapshot, request, np.zeros(6), np.zeros(5))
    with patch.object(hmem_find, "embedded_forest", lambda *_: trees):
        found = node_scores(NONE, snapshot, index, forest.inner, request, explore, None, base)
    return {
        int(row): {name: float(part[at]) for name, part in found.parts.items()}
        for at, row in enumerate(forest.inner)
    }


def test_a_memory_is_as_like_as_its_text_or_its_events_on_average() -> None:
    """The first has a vector along the question, the others have none."""
    parts = node_parts(memory({3: 0}), Explore(similarity_of="cosine", similarity=1))
    similar = [parts[row].get("similarity", 0.0) for row in (3, 6, 7)]
    np.testing.assert_allclose(similar, [1, (0 + 1) / 2, (1 + 0 + 0 + 0 + 1) / 5], atol=1e-3)


def test_a_memory_has_held_since_its_last_event_and_by_every_one() -> None:
    """What counts is what was told below it but for the first time, r the last of these times."""
    parts = node_parts(memory({}), Explore(robustness=1))
    for row, (last, times) in {3: (2, 2), 6: (5, 2), 7: (5, 5)}.items():
        wanted = math.exp(-(1000 - last) / (365 * (1 + 0.5 * math.log(1 + times))))
        assert parts[row]["robustness"] == pytest.approx(wanted)


def test_fused_memories_stand_on_the_scale_of_turns() -> None:
    """One that is as like as a turn is, is worth what vectors alone say of that turn; none is worth more than the best."""
    snapshot, explore = memory({3: 0}), Explore(similarity=1, robustness=0)
    parts = node_parts(snapshot, explore)
    request = searching()
    base = base_scores(snapshot, request, np.zeros(6), np.zeros(5))
    weights = request.ranking.turn + request.ranking.fact
    wanted = weights * (base.turn[0] - base.turn.mean()) / base.turn.std()
    assert parts[3]["similarity"] == pytest.approx(wanted, abs=1e-5)
    assert max(one["similarity"] for one in parts.values()) == parts[3]["similarity"]
