"""What is embedded, what is indexed, and the digest that vectors are cached by."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.search.vectors import (
    asks,
    digest,
    index_tokens,
    question_tokens,
    turn_text,
    without_names,
)

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


@each("month", range(1, 13))
def test_a_day_is_asked_for_by_its_name_and_its_number(month: int) -> None:
    """As people say it: the day without a nought, the month in letters."""
    when = datetime(2024, month, 3, tzinfo=timezone.utc)
    spoken = question_tokens(f"3 {when:%B} 2024")
    assert len(spoken) == 3
    assert index_tokens("Ana", "Lunch", when)[:3] == spoken


@each(
    ("text", "expected"),
    [("And you?", True), ("And you? \n\t", True), ("\u4f60\u5462\uff1f", True), ("\u0643\u064a\u0641\u061f", True),
     ("\u056b\u0576\u0579\u055e", True), ("Really? Yes.", False), ("?!", False), ("", False), ("\u201cWhy?\u201d", False)],
)  # fmt: skip
def test_a_text_asks_when_it_ends_by_asking(text: str, expected: bool) -> None:
    """In the scripts that have a mark of their own for it; what stands behind the mark counts, but for spaces."""
    assert asks(text) is expected


@each(
    ("question", "speakers", "bare"),
    [
        ("Did Mary Ann call Ann?", ["Ann", "Mary Ann"], "Did call?"),
        ("Is Ann annoyed by Anna or the Ann-Marie?", ["Ann"], "Is annoyed by Anna or the -Marie?"),
        ("What does (C++) cost Bob?", ["(C++)"], "What does cost Bob?"),  # no pattern of its own
        ("Is it A or I?", ["A", "I"], "Is it A or I?"),  # a letter is no name to be cut
        ("Wo ist ZOË\u2019s Hund ?", ["Zoë"], "Wo ist Hund?"),
        ("\u0410\u043d\u043d\u0430 \u0437\u0434\u0435\u0441\u044c?", ["\u0410\u043d\u043d\u0430"], "\u0437\u0434\u0435\u0441\u044c?"),
        ("Where is Ann-Marie?", ["Ann", "Ann-Marie"], "Where is?"), ("Where does Joann live?", ["Ann"], "Where does Joann live?"),
        ("Ann?", ["Ann"], "Ann?"), ("Where is Lee's cat?", ["Ann Lee"], "Where is cat?"), ("", ["Ann"], ""),
    ],
)  # fmt: skip
def test_a_question_loses_the_names_of_those_who_take_part(
    question: str, speakers: list[str], bare: str
) -> None:
    """Whole words, in any case, with what makes them possessive; but never all that it says."""
    assert without_names(question, speakers) == bare
