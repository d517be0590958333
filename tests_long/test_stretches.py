"""Relevance that flows from stretches of sessions and of what a speaker told, against one piece after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests_long.hand_made import Fact, Said, hand_made, searching

from memforest.config import Ranking
from memforest.records import QuestionPlan
from memforest.search.context_scores import OF_SESSIONS, OF_SPEAKERS, along_stretches
from memforest.search.filters import fact_places
from memforest.search.scores import Scores
from memforest.search.snapshot import Snapshot


def talk(sessions: int, length: int, facts: int) -> Snapshot:
    """Return sessions of two who take turns; every turn up to a number supports a fact of who said it."""
    turns = [
        Said(("Ana", "Bob")[at % 2], day=session * 3 + at / 100, session=session)
        for session in range(sessions)
        for at in range(length)
    ]
    return hand_made(turns, [Fact((row,), speaker=1 + row % 2) for row in range(facts)])


def naive(groups: Sequence[Sequence[int]], values: Scores) -> Scores:
    """Return the z-score of the best of each piece's group, over all pieces."""
    best = np.zeros(len(values))
    for group in groups:
        for row in group:
            best[row] = max(values[one] for one in group)
    spread = best.std()
    return (best - best.mean()) / spread if spread > 1e-12 else np.zeros(len(values))


def cut_up(rows: Sequence[int], size: int) -> list[list[int]]:
    """Return rows in stretches."""
    return [list(rows[at : at + size]) for at in range(0, len(rows), size)]


@pytest.mark.parametrize("length", [1, 7, 40])
def test_a_stretch_of_a_session_is_as_relevant_as_its_best_turn(length: int) -> None:
    """Stretches of 6 and of 18 turns and the session have the weight of session trees together, each a third."""
    snapshot = talk(4, length, 0)
    values = np.random.default_rng(length).normal(size=4 * length)
    sessions = [range(at * length, (at + 1) * length) for at in range(4)]
    levels = [[part for one in sessions for part in cut_up(one, size)] for size in (*OF_SESSIONS, length)]
    wanted = sum(naive(level, values) for level in levels) * 0.9 / 3
    found = along_stretches(snapshot, searching(ranking=Ranking(session_tree=0.9)), values)
    assert set(found) == {"session_stretch"}, "nobody told anything"
    np.testing.assert_allclose(found["session_stretch"], wanted, atol=1e-9)


def test_a_stretch_of_a_speaker_is_as_relevant_as_its_best_statement() -> None:
    """Stretches of 8, 64 and 512 statements of one speaker, in the order in which they were told."""
    snapshot = talk(5, 30, 150)
    values = np.random.default_rng(1).normal(size=150)
    ordered = np.argsort(fact_places(snapshot))
    speakers = [[row for row in ordered.tolist() if row % 2 == who] for who in (0, 1)]
    levels = [[part for one in speakers for part in cut_up(one, size)] for size in OF_SPEAKERS]
    wanted = sum(naive(level, values) for level in levels) * 0.6 / len(levels)
    ranking = Ranking(participant_tree=0.6, session_tree=0)
    found = along_stretches(snapshot, searching(ranking=ranking), values)
    assert set(found) == {"speaker_stretch"}
    np.testing.assert_allclose(found["speaker_stretch"], wanted, atol=1e-9)


def test_questions_that_want_a_list_get_less_of_sessions() -> None:
    """Their weight is that of trees for lists; without a weight nothing flows."""
    snapshot, values = talk(3, 9, 0), np.arange(27.0)
    ranking = Ranking(session_tree=0.4, session_tree_of_lists=0.1, participant_tree=0)
    one = along_stretches(snapshot, searching(ranking=ranking), values)["session_stretch"]
    many = along_stretches(snapshot, searching(QuestionPlan(kind="list"), ranking=ranking), values)
    np.testing.assert_allclose(many["session_stretch"], one / 4)
    off = Ranking(session_tree=0, participant_tree=0)
    assert along_stretches(snapshot, searching(ranking=off), values) == {}
