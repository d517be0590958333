"""The benchmark of trees per thing that somebody has by turns: its flow, on hand-made scores."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

from locomo_slots import flowed

SCORES = {"a": 3.0, "b": 1.0, "c": 2.0, "d": -1.0}


@each(
    ("slots", "share", "ranked"),
    [
        ([], 0.5, "acbd"),
        ([("abd", False)], 0.0, "acbd"),
        ([("abd", False)], 0.5, "abcd"),  # b has half of a's score, too
        ([("abd", False)], 2.0, "abdc"),
        ([("bd", False)], 2.0, "abcd"),
        ([("bd", False), ("ab", True)], 0.5, "abcd"),  # the best of its slots counts
        ([("d", False)], 5.0, "acbd"),  # nothing below zero flows
        ([("axy", False)], 0.5, "acbd"),  # turns that nothing ranked
    ],
)
def test_turns_share_in_the_best_of_their_slots(
    slots: list[tuple[str, bool]], share: float, ranked: str
) -> None:
    """A turn gains a share of the best score of any of its slots, its own included."""
    assert "".join(flowed(SCORES, [(frozenset(turns), turning) for turns, turning in slots], share)) == ranked
