"""The score of the memforest index: base legs, leaf order, scope and time, flow down the trees."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import OFF, Fact, Said, Tree, hand_made, planted, searching

from memforest.config import Ranking
from memforest.records import QuestionPlan
from memforest.search.context_scores import LeafScores, base_scores
from memforest.search.filters import Search
from memforest.search.scores import Levels, standardise
from memforest.search.snapshot import Snapshot
from memforest.trees.index import leaf_of_turn
from memforest.trees.memforest_recall import flow, score_leaves, session_blocks


def only(**weights: float) -> Ranking:
    """Return weights with everything off but these."""
    return Ranking(**{**OFF, **weights})


def scored(snapshot: Snapshot, request: Search, lexical: list[float] | None = None) -> LeafScores:
    """Score a hand-made snapshot with given lexical scores."""
    n, m = len(snapshot.turns.ids), len(snapshot.facts.ids)
    return score_leaves(
        snapshot,
        planted(snapshot).forest,
        request,
        base_scores(snapshot, request, np.array(lexical or [0.0] * n), np.zeros(m)),
    )


def test_flow_gives_a_leaf_the_best_of_its_blocks() -> None:
    """A node is worth its best leaf; what it hands down is standardised over leaves and split over levels."""
    values = np.array([0.0, 4.0, 1.0, 0.0])
    levels = Levels.of(np.array([[0, 0, 1, 1], [2, 2, 2, 2]]))
    level_one = standardise(np.array([4.0, 4.0, 1.0, 1.0]))
    np.testing.assert_allclose(flow(values, levels, 0.4), 0.2 * level_one)  # the root tells nothing apart


def test_flow_needs_a_share_and_nodes() -> None:
    """Weight 0, no leaves or no levels: nothing flows."""
    assert not flow(np.array([1.0, 0.0]), Levels.of(np.array([[0, 1]])), 0.0).any()
    assert flow(np.zeros(0), Levels.of(np.zeros((1, 0), dtype=np.int64)), 1.0).shape == (0,)
    assert not flow(np.array([1.0, 0.0]), Levels.of(np.zeros((0, 2), dtype=np.int64)), 1.0).any()


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=24), st.integers(1, 5))
def test_siblings_get_the_same_and_order_is_kept_inside(values: list[int], width: int) -> None:
    """Leaves of one node get the same from it, so flow never changes their order among themselves."""
    h = np.array(values, dtype=np.float64)
    block = np.arange(len(h)) // width
    got = flow(h, Levels.of(block[None, :]), 0.4)
    for node in np.unique(block):
        assert len({round(x, 12) for x in got[block == node]}) == 1


CHUNKS = Tree("session", 1, ((("turns", 0, 2), ("turns", 2, 4)), (("turns", 4, 6), ("turns", 6, 8))))


def test_session_blocks_are_the_nodes_above_each_turn() -> None:
    """Level by level from the chunks' parents to the root; a turn knows its chunk."""
    snapshot = hand_made([Said("Ana", i) for i in range(8)], trees=[CHUNKS])
    first, top = session_blocks(planted(snapshot).forest)
    assert first.tolist() == [2] * 4 + [5] * 4
    assert top.tolist() == [6] * 8
    assert leaf_of_turn(planted(snapshot).forest).tolist() == [0, 0, 1, 1, 3, 3, 4, 4]
    assert planted(snapshot).forest.path(3) == [6, 5, 3]


def test_a_short_tree_repeats_its_root() -> None:
    """Trees of different height stand side by side: every turn has a node on every level."""
    small = Tree("session", 2, (("turns", 8, 10),))
    snapshot = hand_made([Said("Ana", i, session=1 + i // 8) for i in range(10)], trees=[CHUNKS, small])
    assert session_blocks(planted(snapshot).forest)[:, 8:].tolist() == [[8, 8], [8, 8]]


def test_relevance_flows_down_the_session_tree() -> None:
    """A turn beside the best match, in the same node, beats an equal turn in another node."""
    snapshot = hand_made([Said("Ana", i) for i in range(8)], trees=[CHUNKS])
    lexical = [1.0, 0, 0, 9.0, 1.0, 0, 0, 0]
    total = scored(snapshot, searching(ranking=only(lexical=1.0, session_tree=0.4)), lexical).total
    assert total[0] > total[4]
    without = scored(snapshot, searching(ranking=only(lexical=1.0)), lexical).total
    assert without[0] == without[4]


def test_relevance_flows_through_facts_in_the_speakers_tree() -> None:
    """Facts beside a relevant one in their speaker's tree lift the turns that support them."""
    facts = [Fact((i,), speaker=1) for i in range(4)]
    tree = Tree("entity", 1, ((("fact", 0), ("fact", 1)), (("fact", 2), ("fact", 3))))
    snapshot = hand_made([Said("Ana", i, session=i) for i in range(5)], facts, [tree])
    parts = scored(
        snapshot, searching(ranking=only(lexical=1.0, participant_tree=0.2)), [9, 0, 0, 0, 0]
    ).parts
    got = parts["participant_tree"]
    assert got[0] == got[1] > got[2] == got[3]
    assert got[4] == 0  # it supports no fact


def test_a_fact_lifts_the_turns_that_support_it() -> None:
    """A turn is as near to the question as itself or the best of its facts."""
    snapshot = hand_made([Said("Ana", 1), Said("Ana", 2), Said("Ana", 3, axis=0)], [Fact((1,), axis=0)])
    total = scored(snapshot, searching(ranking=only(fact=1.0))).total
    assert total[1] == pytest.approx(total[2])
    assert total[1] > total[0]


def test_neighbours_share_what_is_relevant() -> None:
    """The turn after a match gets more than the one before it; another session's turn gets nothing."""
    turns = [Said("Ana", 1), Said("Ana", 1), Said("Ana", 1), Said("Ana", 2, session=2)]
    parts = scored(
        hand_made(turns), searching(ranking=only(lexical=1.0, before=0.2, after=0.1)), [0, 9, 0, 0]
    ).parts
    got = parts["leaf_order"]
    assert got[2] > got[0] > 0
    assert got[1] == got[3] == 0


def test_an_answer_gets_more_from_its_question() -> None:
    """A turn behind another speaker's question gets the reply share; one behind the speaker's own does not."""
    turns = [
        Said("Ana", 1, asks=True),
        Said("Bob", 1),
        Said("Ana", 2, session=2, asks=True),
        Said("Ana", 2, session=2),
    ]
    parts = scored(
        hand_made(turns), searching(ranking=only(lexical=1.0, before=0.2, reply=0.1)), [5, 0, 5, 0]
    ).parts
    assert parts["leaf_order"][1] == pytest.approx(1.5 * parts["leaf_order"][3])


@pytest.mark.parametrize(("named", "lifted"), [(("Ana",), [0]), ((), []), (("Ana", "Bob"), [])])
def test_only_a_single_named_participant_counts(named: tuple[str, ...], lifted: list[int]) -> None:
    """Naming both speakers, or none, says nothing about who said it."""
    snapshot = hand_made([Said("Ana", 1), Said("Bob", 1)])
    parts = scored(snapshot, searching(QuestionPlan(entities=named), ranking=only(speaker=1.0))).parts
    assert np.flatnonzero(parts.get("speaker", np.zeros(2))).tolist() == lifted


def test_an_assistants_turn_inherits_more_from_the_users() -> None:
    """It need not be a question; the other way round, and between people, it is the common share."""
    roles = [("user", "assistant"), ("assistant", "user"), ("", ""), ("user", "user")]
    turns = [Said("AB"[i % 2], 1, session=i // 2, role=roles[i // 2][i % 2]) for i in range(8)]
    ranking = only(lexical=1.0, before=0.2, reply=0.1, assistant_reply=0.3)
    got = scored(hand_made(turns), searching(ranking=ranking), [5, 0] * 4).parts["leaf_order"]
    assert got[1] == pytest.approx(2.5 * got[3])
    assert got[3] == got[5] == got[7] > 0


@each(("asked", "lifted"), [(("Bob",), [1]), (("Ana", "Bob"), [0, 1]), ((), []), (("Zoe",), [])])
def test_whose_words_are_asked_for_decides(asked: tuple[str, ...], lifted: list[int]) -> None:
    """A plan that says whose words it wants is followed, whoever else the question names."""
    snapshot = hand_made([Said("Ana", 1), Said("Bob", 1)])
    plan = QuestionPlan(entities=("Ana",), speakers=asked)
    parts = scored(snapshot, searching(plan, ranking=only(speaker=1.0))).parts
    assert np.flatnonzero(parts.get("speaker", np.zeros(2))).tolist() == lifted


def test_priors_of_a_turn() -> None:
    """Longer turns gain, turns that end by asking lose, and a "when" question wants turns that tell a time."""
    turns = [Said("Ana", 1, words=30), Said("Ana", 1, words=3), Said("Ana", 1, words=3, asks_last=True)]
    snapshot = hand_made(turns, [Fact((1,), start=0.5)])
    weights = only(length=0.2, question=0.3, temporal=0.4)
    parts = scored(snapshot, searching(QuestionPlan(kind="when"), ranking=weights)).parts
    assert parts["length"][0] > parts["length"][1]
    assert parts["question"][2] < 0
    assert np.flatnonzero(parts["temporal"]).tolist() == [1]
    assert "temporal" not in scored(snapshot, searching(ranking=weights)).parts


def test_the_total_is_a_standard_score_plus_flow() -> None:
    """Parts are in the unit of the total, so `scores` of evidence add up, but for a constant."""
    snapshot = hand_made([Said("Ana", i, words=3 + i) for i in range(8)], trees=[CHUNKS])
    found = scored(snapshot, searching(), [0, 3, 1, 0, 2, 0, 0, 5])
    parts = np.sum(list(found.parts.values()), axis=0)
    np.testing.assert_allclose(found.total - found.total.mean(), parts - parts.mean(), atol=1e-9)


def test_without_an_embedder_the_lexical_leg_stands_alone() -> None:
    """No vectors, no error: ranking goes by words and structure."""
    snapshot = hand_made([Said("Ana", i) for i in range(8)], trees=[CHUNKS])
    request = Search((), QuestionPlan(), 0)
    found = scored(snapshot, request, [0, 0, 9, 0, 0, 0, 0, 0])
    assert int(np.argmax(found.total)) == 2
    assert not {"turn", "fact"} & set(found.parts)


def test_all_weights_off_ranks_nothing() -> None:
    """A weight of 0 switches its part off, which is how the ablation works."""
    snapshot = hand_made([Said("Ana", i, words=i + 1, axis=i % 4) for i in range(8)], trees=[CHUNKS])
    assert not scored(snapshot, searching(ranking=only()), [1.0] * 7 + [2.0]).total.any()
