"""Numbers by their value: written in digits or in words, as a time of day, with separators and factors."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.figures import figures
from memforest.reading.reply_checks import invented, read_source
from memforest.records import Chunk, Turn

SAID = datetime(2024, 5, 8, 20, 0, tzinfo=timezone.utc)


def is_said(number: str, told: str) -> bool:
    """Return whether somebody who says a text has said a number."""
    chunk = Chunk("s", 0, (Turn("0", "ann", told, SAID, 0),), (), ("ann",))
    return invented(number, "other", read_source(chunk, timezone.utc)) is None


@each(
    ("number", "told"),
    [
        ("7", "seven"), ("seven", "7"), ("7:00", "7"), ("19:00", "at 7:00"), ("7 pm", "7pm"), ("7:30", "half past seven"), ("19:30", "seven thirty"),
        ("7:30", "las siete y media"), ("25", "twenty-five"), ("25,000", "twenty-five thousand"), ("25k", "25.000"),
        ("1.5 million", "1,500,000"), ("100", "a hundred"), ("250", "two hundred and fifty"), ("12", "a dozen"), ("24", "two dozen"),
        ("7.5", "seven and a half"), ("6,95", "6.95"), ("640.50", "640.5"), ("the 9th", "the ninth"), ("31st", "thirty-first"), ("the 90s", "the nineties"),
        ("2", "twice"), ("1.5 years", "a year and a half"), ("35", "treinta y cinco"), ("٣", "3"), ("25", "二十五"), ("7:00", "每天七点"), ("007", "7"),
        ("150", "百五十"), ("9:30", "half nine"), ("16 k", "16"), ("2,500,000", "2.5m"), ("2300", "two thousand three hundred"), ("2300", "dos mil trescientos"),
        ("1,500,000", "1,5 Millionen"), ("16,000", "16 k"), ("23", "veintitrés"), ("500", "quinientos"),
        ("8:15", "viertel nach acht"), ("30", "dreißig"), ("50 % of it", "half the fees"), ("33 percent", "a third"), ("0.5 bar", "half a bar"),
        ("two", "cats"),
    ],
)  # fmt: skip
def test_the_same_number_in_another_form(number: str, told: str) -> None:
    """As digits and in words, a time of day, a fraction; up to three anybody counts."""
    assert is_said(number, told)


@each(
    ("number", "told"),
    [
        ("17", "7"), ("17:00", "7:00"), ("7:15", "7:30"), ("18", "6"), ("25", "25 thousand"), ("6.95", "9.65"), ("vier", "sechs"),
        ("1000", "tausend" * 3000 + " 7"), ("20", "twenty-five"), ("48213", "48231"), ("1" * 30, "1" * 31), ("10", "a dozen"), ("15", "1,500"),
        ("four cats", "three cats"), ("4", "cats"), ("2 cats", "cats"), ("37", "seven thirty"),
    ],
)  # fmt: skip
def test_another_number(number: str, told: str) -> None:
    """It is made up."""
    assert not is_said(number, told)


def test_a_figure_knows_how_it_is_written() -> None:
    """In words or digits."""
    found = figures("Two cats, 3 dogs on the 13th of May, and forty")
    assert [(one.text, one.written) for one in found] == [
        ("two", True),
        ("3", False),
        ("13", False),
        ("forty", True),
    ]


def test_words_that_only_look_like_numbers_are_none() -> None:
    """Articles, "once", and months."""
    assert figures("Once upon a time, un día de mayo, k, thousandfold") == ()


@given(st.text(alphabet="0123456789.,: ahkpmst", max_size=60))
@settings(max_examples=200)
def test_any_digits_can_be_read(text: str) -> None:
    """Whatever stands between them; no figure is without a reading."""
    assert all(one.readings and one.text in text for one in figures(text))


def test_a_flood_of_factors_is_read() -> None:
    """In one pass, without recursion."""
    assert len(figures("two hundred " * 5_000)) == 5_000
