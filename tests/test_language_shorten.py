"""Sentences cut to a number of words keep that bound, in any script, and what matters of them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memforest.language.counting import count_words
from memforest.language.shorten import find_transition, shorten

WORDS = st.sampled_from(
    [
        "Ana",
        "moved",
        "from",
        "to",
        "Oslo,",
        "7",
        "May",
        "2023",
        "我住在北京",
        "ภาษาไทย",
        "…",
        "no",
        "longer",
        "$40",
        "é",
        "->",
    ]
)
TEXTS = st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=120)


@given(TEXTS, st.integers(-1, 30))
@example("a\u0301" * 30, 1)
def test_a_text_is_cut_to_the_limit(text: str, limit: int) -> None:
    """And one within it is as it was."""
    found = shorten(text, limit)
    assert count_words(found) <= max(limit, 0)
    assert (found == text) or count_words(text) > limit
    if count_words(text) <= limit:
        assert found == text


@given(st.lists(WORDS, min_size=25, max_size=40).map(" ".join), st.integers(1, 12))
def test_what_is_left_was_there(text: str, limit: int) -> None:
    """Every piece between ellipses is a piece of the text, in order."""
    found, at = shorten(text, limit), 0
    assume(found != text)
    for piece in found.rstrip("…").split(" … "):
        at = text.index(piece.rstrip("…"), at) + len(piece.rstrip("…"))


@given(TEXTS, TEXTS)
def test_words_add_up(one: str, other: str) -> None:
    """A space between two texts joins no words."""
    assert count_words(f"{one} {other}") == count_words(one) + count_words(other)


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        (
            "After a long talk with her whole family Ana moved from Davis to Oslo in the end.",
            9,
            "from Davis to Oslo",
        ),
        (
            "After years and years of doubt about it Ana says that she no longer eats meat.",
            8,
            "no longer eats",
        ),
        (
            "Después de hablar con toda su familia Ana se mudó desde Vigo a Lisboa por fin.",
            9,
            "desde Vigo a Lisboa",
        ),
        ("The bike that she had wanted for a long time cost her $450 in a shop nearby.", 8, "$450"),
        ("They went with all their friends and cousins to the coast on 7 May 2023.", 7, "7 May 2023"),
    ],
)
def test_transitions_and_numbers_are_kept(text: str, limit: int, kept: str) -> None:
    """What a summary is asked for later stays, where whole."""
    assert kept in shorten(text, limit)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("She went from Rome to Oslo.", "from Rome to Oslo."),
        ("blue -> red", "blue -> red"),
        ("Ya no come carne.", "Ya no come carne."),
        ("She went home.", None),
        ("from", None),
    ],
)
def test_a_transition_is_found(text: str, found: str | None) -> None:
    """In English, in Spanish, and as an arrow."""
    match = find_transition(text)
    assert (None if match is None else match[0]) == found


@given(st.text(alphabet="eabc\u0301\u0308 ", max_size=60), st.integers(1, 4))
@example("a" * 24 + "\u0301b c", 1)
def test_no_letter_is_parted_from_its_mark(text: str, limit: int) -> None:
    """A cut word ends before the letter whose mark does not fit."""
    found, at = shorten(text, limit), 0
    if found == text:
        return
    for piece in found.rstrip("…").split(" … "):
        at = text.index(piece, at) + len(piece)
        assert not piece or at == len(text) or not unicodedata.category(text[at]).startswith("M")
