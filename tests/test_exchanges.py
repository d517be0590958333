"""Turns are cut into exchanges as the named rule says, whoever speaks how often."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest.errors import InputError
from memforest.exchanges import EXCHANGE_RULES, ExchangeRule, exchanges_of


def cut(session: str, rule: ExchangeRule, opener: str | None = None) -> str:
    """Return the exchanges of a session whose speakers are letters, with blanks between them."""
    return " ".join(session[one.first : one.last + 1] for one in exchanges_of(session, rule, opener=opener))


@pytest.mark.parametrize(
    ("session", "pairs", "rest", "replies", "answered"),
    [
        ("", "", "", "", ""),
        ("A", "", "A", "A", ""),
        ("AB", "AB", "AB", "AB", "AB"),
        ("ABA", "AB", "AB A", "AB A", "AB"),
        ("ABABBA", "AB AB BA", "AB AB BA", "AB ABB A", "AB AB"),
        ("AABBA", "AA BB", "AA BB A", "AABB A", "AB"),
        ("AAAA", "AA AA", "AA AA", "AAAA", ""),
        ("ABCAC", "AB CA", "AB CA C", "ABC AC", "AB AC"),
        ("ABCB", "AB CB", "AB CB", "ABCB", "AB"),
    ],
)
def test_the_rules(session: str, pairs: str, rest: str, replies: str, answered: str) -> None:
    """Odd numbers, one speaker, three speakers, and one who speaks several times in a row."""
    assert [cut(session, rule) for rule in EXCHANGE_RULES] == [pairs, rest, replies, answered]


def test_the_opener_of_the_conversation_need_not_begin_the_session() -> None:
    """What was said before the opener's first turn is an exchange of its own, or in none."""
    assert cut("BABAB", "replies", "A") == "B AB AB"
    assert cut("BABAB", "answered", "A") == "AB AB"
    assert cut("BCB", "replies", "A") == "BCB"
    assert cut("BCB", "answered", "A") == ""


@given(st.text("ABC", max_size=40), st.sampled_from(EXCHANGE_RULES), st.sampled_from([None, "A", "C"]))
def test_exchanges_are_runs_in_order(session: str, rule: ExchangeRule, opener: str | None) -> None:
    """They never overlap, and with two of the rules leave no turn out."""
    found = exchanges_of(session, rule, opener=opener)
    assert all(0 <= one.first <= one.last < len(session) for one in found)
    assert all(before.last < after.first for before, after in pairwise(found))
    if rule in ("pairs+rest", "replies"):
        assert [at for one in found for at in range(one.first, one.last + 1)] == list(range(len(session)))


def test_an_unknown_rule_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(InputError, match="no rule 'triples' for exchanges; known: pairs, pairs"):
        exchanges_of("AB", "triples")  # type: ignore[arg-type]
