"""From ranked hits to evidence: names, one candidate per fact, cuts, and what is kept per snapshot."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import Said, hand_made

from memforest.read.query import surface_names
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.search.vectors import without_names


@each(
    ("question", "bare"),
    [
        ("What did Ana's sister buy?", "What did sister buy?"),
        ("What did ANA buy for Bob Ruiz?", "What did buy for?"),
        ("What did Ruiz say?", "What did say?"),
        ("Was there a banana?", "Was there a banana?"),  # whole words only
        ("Ana’s?", "Ana’s?"),  # nothing would be left
        ("Wer ist José?", "Wer ist?"),
    ],
)
def test_participants_names_are_cut_out(question: str, bare: str) -> None:
    """Names say whose tree to look in, not what for."""
    assert without_names(question, ["Ana", "Bob Ruiz", "José"]) == bare


def test_without_participants_the_question_stays() -> None:
    """Nobody to cut out."""
    assert without_names("What?", []) == "What?"


def test_i_means_the_user_who_takes_part() -> None:
    """First person words are names of the user, when the user is a participant."""
    snapshot = hand_made([Said("Ana", 1), Said("Bob", 1)])
    assert surface_names(snapshot, "Ana")["i"] == "Ana"
    assert "i" not in surface_names(snapshot, "Zoe")


def test_what_is_made_once_per_snapshot() -> None:
    """The same snapshot gets the same object, another one its own."""
    made = []

    @once_per_snapshot
    def days(snapshot: Snapshot) -> list[int]:
        made.append(snapshot)
        return [int(ms) for ms in np.unique(snapshot.turns.said_ms)]

    one, other = hand_made([Said("Ana", 1)]), hand_made([Said("Ana", 2)])
    assert days(one) is days(one)
    assert days(one) != days(other)
    assert made == [one, other]
