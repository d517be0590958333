"""What is embedded, what is indexed, and the digest that vectors are cached by."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st

from memforest.search.texts import digest, index_tokens, question_tokens, turn_text

DAY = datetime(2023, 5, 8, 23, 59, tzinfo=timezone.utc)


def test_the_date_is_indexed_but_not_embedded() -> None:
    """A date helps words and hurts vectors, so only the lexical text has it."""
    assert {"8", "2023"} <= set(index_tokens("Ana", "Lunch", DAY))
    assert turn_text("Ana", "Lunch") == "Ana: Lunch"


def test_the_speaker_is_part_of_both() -> None:
    """Who said it can be asked for by name."""
    assert "ana" in index_tokens("Ana", "Lunch", DAY)


@given(st.text(max_size=80))
def test_tokens_survive_the_index(text: str) -> None:
    """No token is empty, holds a space or a sign at which SQLite's tokeniser would cut it."""
    for token in question_tokens(text):
        assert token
        assert not any(ch.isspace() or ch in "._-'’" for ch in token)


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_equal_texts_share_a_digest(one: str, other: str) -> None:
    """8 bytes that depend on the text alone."""
    assert len(digest(one)) == 8
    assert (digest(one) == digest(other)) == (one == other)
