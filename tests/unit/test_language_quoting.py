"""Quotations are what was said: located in the turn, with a mark where words are left out."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.clauses import (
    MARK,
    QUESTION_WORDS,
    in_full,
    is_bare,
    kept_quote,
    open_question,
    quoted,
)
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, SpokenText, Turn

DAY = datetime(2024, 5, 7, tzinfo=timezone.utc)
PIECES = st.sampled_from(
    ["I moved to Oslo.", "I like it", "How are you?", "Yes.", "no", "Wow!", "- I bought a tent", "¿Y tú?", "Vivo en Lima.",
     "我住在上海。", "今天很热", "🎉", "…", "Mr. Wu left!", "I'm off to Rome in May, can you suggest a hotel?", "[image: a cat]",
     "I saw [photo: a\ndog] it.", "\n", "\n\n", " ", "\t", "\u2028", "a" * 700, "x9Z/" * 80, "Ja, gern.", "Thanks!", "مرحبا؟"]
)  # fmt: skip
SAID = st.one_of(
    st.text(max_size=120),
    st.lists(PIECES, max_size=9).map(" ".join),
    st.lists(PIECES, max_size=9).map("".join),
)


def stands_in(text: str, said: str) -> bool:
    """Return whether every passage of a quotation stands in a turn, white space aside."""
    whole = " ".join(said.split())
    return all(" ".join(part.split()) in whole for part in text.split(MARK))


def statements(said: str, before: str = "") -> list[str]:
    """Return the stored quotes of the statements that the local rules make of a turn."""
    asked = Turn("0", "Ana", before or "Hm.", DAY, 0)
    chunk = Chunk("s", 0, (Turn("1", "Bob", said, DAY, 1),), before=(asked,), participants=("Ana", "Bob"))
    return [one.quote for one in LocalExtractor().extract_chunk(chunk).candidates]


@given(SAID, st.sampled_from(["", "Do you live in Oslo?", "Which day is it?"]))
def test_what_is_quoted_of_a_statement_was_said(said: str, before: str) -> None:
    """Whatever is written, in whatever script: the passages of the turn, and less of it than all if more was skipped."""
    for quote in statements(said, before):
        assert stands_in(quoted(said, quote), said)


@given(SAID, st.text(max_size=60))
def test_a_quote_that_is_not_of_the_turn_quotes_the_turn(said: str, quote: str) -> None:
    """Nothing is shown that was not said, whatever is stored."""
    assert stands_in(quoted(said, quote), said)
    assert quoted(said, None) == said


@each(
    ("said", "shown"),
    [
        ("I live in Oslo. I own a tent.", ["I live in Oslo. I own a tent."]),
        ("I moved  to\nOslo. How are you? I bought a tent.", ["I moved  to\nOslo. … I bought a tent."]),
        ("- I bought a tent\n- I sold a car", ["- I bought a tent\n- I sold a car"]),
        ("Hello! I live in Oslo. Thanks!", ["I live in Oslo."]),
        ("I'm planning a trip to Rome, can you suggest a hotel?", ["I'm planning a trip to Rome …"]),
        ("我住在上海。我喜欢茶。", ["我住在上海。我喜欢茶。"]),
        ("Piano. No, I live in Oslo.", ["No, I live in Oslo."]),
    ],
)
def test_the_sentences_of_a_statement_are_quoted(said: str, shown: list[str]) -> None:
    """Neighbours together as they stand; a mark where a sentence was left out, or cut."""
    assert [quoted(said, quote) for quote in statements(said)] == shown


def test_a_quote_is_stored_as_it_stands() -> None:
    """Pieces that cannot be located are kept as they are."""
    assert kept_quote("A b.  C d.", ["A b.", "C d."]) == "A b.  C d."
    assert kept_quote("A b. So? C d.", ["A b.", "C d."]) == "A b.\nC d."
    assert kept_quote("A b.", ["C d.", "E f."]) == "C d. E f."


@each(
    ("text", "bare"),
    [
        ("Yes", True), ("No, not yet.", True), ("The 12th, I think", True), ("In Porto", True), ("Rain. I have lived there for years.", True), ("十二号", True),
        ("I have lived there for years.", False), ("Yes, and I have lived there ever since I was a child and went to school.", False),
        ("In a town by the sea in the north of the country behind the hills and woods", False),
    ],
)  # fmt: skip
def test_an_answer_is_bare_without_a_clause(text: str, bare: bool) -> None:
    """A few words, or yes or no; a sentence stands for itself. What follows does not count."""
    assert is_bare(text) is bare


@each(
    ("said", "question"),
    [
        ("Is it the 12th?", "Is it the 12th?"),
        ("I forgot. Is it the 12th? Ha.", "Is it the 12th?"),
        ("Is it the 12th? I forgot. It was Mai's.", None),
        ("It is the 12th.", None),
        ("", None),
        ("是十二号吗？", "是十二号吗？"),
    ],
)
def test_the_question_is_the_last_or_last_but_one_sentence(said: str, question: str | None) -> None:
    """What was asked further up has been passed over."""
    assert open_question(said) == question


def test_a_long_question_is_cut_in_front() -> None:
    """Its end is what is answered."""
    found = open_question(f"Do {'really ' * 60}you?") or ""
    assert found.startswith(f"{MARK} really ")
    assert (found.endswith("you?"), len(found.split())) == (True, QUESTION_WORDS + 1)


def test_a_turn_stands_in_the_place_of_its_sentences_while_it_is_short() -> None:
    """Of its own speaker alone."""
    said = "Well. Yes. It is Mai's birthday."
    pair = (SpokenText("Ana", "Is it the 12th?"), SpokenText("Bob", "Yes."))
    assert in_full(pair, "Bob", said, len(said)) == (pair[0], SpokenText("Bob", said))
    assert in_full(pair, "Bob", said, len(said) - 1) == pair
