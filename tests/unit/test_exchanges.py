"""Turns are cut into exchanges as the named rule says, whoever speaks how often."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import InputError
from memforest.trees.segtree_grow import LEAF_RULES, MOST_TURNS, LeafRule, leaf_exchanges


def test_an_unknown_rule_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(InputError):
        leaf_exchanges("AB", "triples")  # type: ignore[arg-type]


def cut_all(session: str, rule: LeafRule, opener: str | None = None) -> str:
    """Return the leaves of a session whose speakers are letters, with blanks between them."""
    return " ".join(session[first : last + 1] for first, last in leaf_exchanges(session, rule, opener=opener))


@each(
    ("session", "adjacent", "pairs", "turns"),
    [
        ("", "", "", ""),
        ("A", "A", "A", "A"),
        ("AB", "AB", "AB", "A B"),
        ("ABA", "ABA", "ABA", "A B A"),
        ("ABABBA", "AB ABBA", "AB AB BA", "A B A B B A"),
        ("AABBA", "AABBA", "AA BBA", "A A B B A"),
        ("AAAAA", "AA AAA", "AA AAA", "A A A A A"),
        ("ABCAC", "ABC AC", "AB CAC", "A B C A C"),
    ],
)
def test_leaves_have_every_turn(session: str, adjacent: str, pairs: str, turns: str) -> None:
    """A turn that is in no pair joins the exchange before it, or at the start of a session the one behind."""
    assert [cut_all(session, rule) for rule in LEAF_RULES] == [adjacent, pairs, turns]


def test_leaves_where_the_opener_is_not_answered() -> None:
    """The session's own first speaker opens then; where nobody answers, turns go by two."""
    assert cut_all("BABAB", "adjacent", "A") == "BAB AB"
    assert cut_all("BCBBC", "adjacent", "A") == "BCB BC"
    assert cut_all("BCCBA", "adjacent", "A") == "BCC BA"
    assert cut_all("BBBBB", "adjacent", "A") == "BB BBB"


def test_a_monologue_is_many_leaves() -> None:
    """Behind an answer, before one, and where there is none; so that no text is beyond what can be read."""
    runs = ["AB" + "B" * 10_000, "B" * 9_999 + "AB", "B" * 10_000, "BC" * 5_000 + "AB"]
    assert [len(leaf_exchanges(run, opener="A")) for run in runs] == [626, 5_000, 5_000, 5_001]


SESSIONS = st.text("ABC", max_size=40) | st.builds(
    "".join, st.lists(st.sampled_from(["AB", "B" * 15, "A" * 20, "CB"]), max_size=6)
)


@given(SESSIONS, st.sampled_from(LEAF_RULES), st.sampled_from([None, "A", "C"]))
def test_each_turn_is_in_one_leaf(session: str, rule: LeafRule, opener: str | None) -> None:
    """They tile the session in order, none is longer than the bound, and there are as many as pairs where those are enough."""
    found = leaf_exchanges(session, rule, opener=opener)
    assert [at for first, last in found for at in range(first, last + 1)] == list(range(len(session)))
    assert all(1 <= last - first + 1 <= MOST_TURNS for first, last in found)
    begins = session[:1] if opener is None else opener
    pairs = [at for at, (one, other) in enumerate(pairwise(session)) if one == begins != other]
    if rule == "adjacent" and pairs and len(session) <= MOST_TURNS:
        assert len(found) == len(pairs)
        assert all(any(first <= at < last for first, last in found) for at in pairs)


@given(SESSIONS, SESSIONS, st.sampled_from(LEAF_RULES), st.sampled_from([None, "A", "C"]))
def test_later_turns_change_the_last_leaves_alone(
    session: str, later: str, rule: LeafRule, opener: str | None
) -> None:
    """What ends before the last turns of a session stays as it is when the session grows."""
    before = leaf_exchanges(session, rule, opener=opener)
    settled = [one for one in before if one[1] < len(session) - MOST_TURNS]
    assert list(leaf_exchanges(session + later, rule, opener=opener)[: len(settled)]) == settled


def test_an_unknown_leaf_rule_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(InputError):
        leaf_exchanges("AB", "replies")  # type: ignore[arg-type]
