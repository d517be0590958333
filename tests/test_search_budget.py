"""Budgets and rendering of evidence."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest.search.budget import fit, render
from memforest.tokens import count_tokens

DAY = datetime(2023, 5, 8, tzinfo=timezone.utc)


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(0, 60))
def test_fit_is_the_longest_prefix_within_the_budget(lines: list[str], budget: int) -> None:
    """What is kept is within the budget, and one more line would not be."""
    kept = fit(lines, budget)
    cost = [count_tokens(line) + 1 for line in lines]
    assert kept == lines[: len(kept)]
    assert sum(cost[: len(kept)]) <= budget
    assert len(kept) == len(lines) or sum(cost[: len(kept) + 1]) > budget


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("東京", 2), ("café", 2)]
)
def test_tokens_are_estimated_from_above(text: str, tokens: int) -> None:
    """Four ASCII characters or one other make a token."""
    assert count_tokens(text) == tokens


def test_a_line_is_dated_and_quotes_what_it_adds() -> None:
    """The statement with its day and number; the quote only when it says more; all on one line."""
    assert (
        render(2, DAY, "Ana", "Ana bought\na kayak.", "Ana bought a kayak.")
        == "[2] 8 May 2023: Ana bought a kayak."
    )
    line = render(1, DAY, "Ana", "Ana bought a kayak.", "I bought it\n today!")
    assert line == '[1] 8 May 2023: Ana bought a kayak. (Ana said: "I bought it today!")'
