"""Choosing one of several answers by when it was said."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.search.scores import choose_by_time

SURE, OFF = 6.0, -9.0


def choose(
    kind: str,
    relevance: Sequence[float],
    place: Sequence[int] | None = None,
    *,
    asks: Sequence[int] = (),
    without: Sequence[int] = (),
    anchored: Sequence[int] | None = None,
) -> int | None:
    """Return the chosen row; rows are given by their numbers, and were said in their order unless `place` tells."""
    n = len(relevance)
    rows = np.arange(n)
    return choose_by_time(
        kind,
        np.array(relevance, dtype=np.float64),
        rows if place is None else np.array(place),
        asks=np.isin(rows, asks),
        within=~np.isin(rows, without),
        anchored=None if anchored is None else np.isin(rows, anchored),
    )


@each(
    ("kind", "chosen"),
    [
        ("current", 3),
        ("as_of", 3),
        ("last", 3),
        ("changed_back", 3),
        ("first", 1),
        ("since", 1),
        ("list", None),
    ],
)
def test_the_end_that_an_operator_asks_for(kind: str, chosen: int | None) -> None:
    """The last or first of what answers, whatever was said beside it; nothing for what is no operator on a timeline."""
    relevance = [OFF, SURE, SURE + 1, SURE, OFF]
    assert choose(kind, relevance) == chosen
    mixed = [2, 0, 4, 1, 3]
    again = choose(kind, [relevance[n] for n in mixed], mixed)
    assert again == (None if chosen is None else mixed.index(chosen))


def test_beside_an_anchor() -> None:
    """Before it the last answer, after it the first; with the anchor told several times, outside of all of them."""
    relevance = [SURE, SURE, SURE, OFF, SURE, SURE, SURE]
    assert choose("predecessor", relevance, anchored=[2, 4]) == 1
    assert choose("successor", relevance, anchored=[2, 4]) == 5


@pytest.mark.parametrize("kind", ["predecessor", "successor"])
def test_without_an_anchor_there_is_no_side(kind: str) -> None:
    """None named, none that answers, or nothing on its side: nothing is chosen."""
    assert choose(kind, [SURE, SURE, SURE]) is None
    assert choose(kind, [SURE, SURE, SURE], anchored=[]) is None
    assert choose(kind, [SURE, OFF, SURE], anchored=[1]) is None
    assert choose(kind, [SURE], anchored=[0]) is None


def test_what_ends_by_asking_repeats_the_question() -> None:
    """It is held for three logits less of an answer."""
    assert choose("current", [SURE, SURE - 3]) == 1
    assert choose("current", [SURE, SURE - 3], asks=[1]) == choose("current", [SURE, SURE - 6]) == 0
    assert choose("current", [SURE, 2.0], asks=[0], without=[1]) == 0
    assert choose("current", [2.9], asks=[0]) is None


def test_what_may_not_be_chosen_does_not_count() -> None:
    """It is neither chosen, nor said behind another answer, nor an anchor."""
    assert choose("current", [SURE, SURE, 20.0], without=[2]) == 1
    assert choose("predecessor", [SURE, SURE, SURE], anchored=[2], without=[2]) is None
    assert choose("current", [SURE], without=[0]) is None


def test_nothing_answers() -> None:
    """Below a logit of 0 nothing is chosen, and nothing of nothing."""
    assert choose("current", [-0.1, -0.2]) is None
    assert choose("current", [0.0, OFF]) == 0
    assert choose("current", []) is None


@given(
    st.lists(st.tuples(st.floats(-12, 12), st.booleans(), st.booleans()), min_size=1, max_size=8),
    st.sampled_from(["current", "first"]),
)
def test_it_is_the_likeliest_end(rows: list[tuple[float, bool, bool]], kind: str) -> None:
    """Against the definition, one candidate at a time."""
    logits = [score - 3 * asks for score, asks, _ in rows]
    allowed = [n for n, (_, _, within) in enumerate(rows) if within]
    chosen = choose(
        kind,
        [score for score, _, _ in rows],
        asks=[n for n, (_, asks, _) in enumerate(rows) if asks],
        without=[n for n in range(len(rows)) if n not in allowed],
    )
    if not allowed:
        assert chosen is None
        return
    zero = max(max(logits[n] for n in allowed) - 4, -4)
    likely = {n: 1 / (1 + math.exp(zero - logits[n])) for n in allowed}
    behind = {n: [m for m in allowed if (m > n if kind == "current" else m < n)] for n in allowed}
    weight = {n: likely[n] * math.prod(1 - likely[m] for m in behind[n]) for n in allowed}
    best = max(weight.values())
    if chosen is None:
        assert min(logits[n] for n in allowed if weight[n] == pytest.approx(best)) < 0
    else:
        assert weight[chosen] == pytest.approx(best)
        assert logits[chosen] >= 0
