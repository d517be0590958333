"""Numbers by their value: written in digits or in words, as a time of day, with separators and factors."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.reply_text import converted, figures, fractions


def readings_of(text: str) -> frozenset[str]:
    """Return all readings of all numbers of a text."""
    return frozenset(reading for one in figures(text) for reading in one.readings)


@each(
    ("one", "other"),
    [
        ("7", "seven"), ("7", "7:00"), ("at 7", "at 19:00"), ("7 pm", "19:00"), ("7 p.m.", "7pm"), ("half past seven", "7:30"), ("seven thirty", "19:30"),
        ("quarter to eight", "7:45"), ("las siete y media", "7:30"), ("25", "twenty-five"), ("25,000", "twenty-five thousand"), ("25k", "25.000"),
        ("1.5 million", "1,500,000"), ("a hundred", "100"), ("two hundred and fifty", "250"), ("a dozen", "12"), ("half a dozen", "6"), ("two dozen", "24"),
        ("seven and a half", "7.5"), ("6,95", "6.95"), ("640.50", "640.5"), ("the ninth", "9th"), ("31st", "thirty-first"), ("the 90s", "the nineties"),
        ("twice", "2"), ("a year and a half", "1.5 years"), ("treinta y cinco", "35"), ("٣", "3"), ("二十五", "25"), ("每天七点", "7:00"), ("007", "7"),
        ("half nine", "9:30"), ("a tenner", "10"), ("1 hour 28 minutes", "1:28"), ("16 k", "16"), ("2.5m", "2,500,000"), ("two thousand three hundred", "2300"), ("dos mil trescientos", "2300"), ("1,5 Millionen", "1,500,000"), ("16 k", "16,000"), ("halb neun", "8:30"), ("veintitrés", "23"), ("nueve menos cuarto", "8:45"), ("quinientos", "500"), ("zwanzig nach sieben", "7:20"), ("ten past eight", "8:10"), ("viertel nach acht", "8:15"), ("dreihundertzwanzig", "320"), ("fünfundvierzig", "45"),
        ("zweitausendachthundert", "2.800"), ("dreißig", "30"),
    ],
)  # fmt: skip
def test_the_same_number_in_another_form(one: str, other: str) -> None:
    """They share a reading."""
    assert not readings_of(one).isdisjoint(readings_of(other))


@each(
    ("one", "other"),
    [
        ("7", "17"), ("7 am", "7 pm"), ("7:00", "17:00"), ("7:30", "7:15"), ("6", "18"), ("25", "25 thousand"), ("1,500", "1.5"), ("6.95", "9.65"),
        ("half past seven", "7"), ("sechs", "vier"), ("half nine", "halb neun"), ("16k", "16"), ("open 24 hours 7 days", "24:07"), ("tausend" * 3000 + " 7", "1000"), ("five to nine", "8:55"), ("twenty-five", "20"), ("48213", "48231"), ("1" * 30, "1" * 31), ("a dozen", "10"),
    ],
)  # fmt: skip
def test_another_number(one: str, other: str) -> None:
    """They share none."""
    assert readings_of(one).isdisjoint(readings_of(other))
    assert readings_of(one)
    assert readings_of(other)


def test_a_fraction_is_a_percentage_or_a_decimal() -> None:
    """Half the fees are 50 percent of them, not 50 euros."""
    assert not readings_of("50 % of the fees").isdisjoint(fractions("half the fees"))
    assert not readings_of("20 percent").isdisjoint(fractions("a fifth of the disk"))
    assert not readings_of("0.5 bar").isdisjoint(fractions("half a bar"))
    assert readings_of("50 euros").isdisjoint(fractions("half the fees"))


def test_a_number_in_another_unit_has_the_same_digits() -> None:
    """Cents and euros, tonnes and kilograms; not where both are whole, as 15 and 1,500 are two things."""
    (euros,), (kilos,), (people,) = figures("0.61"), figures("1,500 kg"), figures("1,500")
    assert not converted(euros).isdisjoint(readings_of("61 cents"))
    assert not converted(kilos).isdisjoint(readings_of("1.5 tonnes"))
    assert converted(people).isdisjoint(readings_of("15"))
    assert all(not converted(one) for one in figures(f"sixty-one, {'7' * 30}"))


def test_a_figure_knows_how_it_is_written() -> None:
    """In words or digits, as an ordinal in digits, and in front of what."""
    found = figures("Two cats, 3 dogs on the 13th of May, and forty")
    assert [(one.text, one.written, one.ordinal, one.noun) for one in found] == [
        ("two", True, False, "cats"),
        ("3", False, False, "dogs"),
        ("13th", False, True, "of"),
        ("forty", True, False, ""),
    ]


def test_words_that_only_look_like_numbers_are_none() -> None:
    """Articles, "once", and months."""
    assert figures("Once upon a time, un día de mayo, k, thousandfold, mil") == ()


@given(st.text(alphabet="0123456789.,: ahkpmst", max_size=60))
@settings(max_examples=200)
def test_any_digits_can_be_read(text: str) -> None:
    """Whatever stands between them; no figure is without a reading."""
    assert all(one.readings and one.text in text for one in figures(text))


def test_a_flood_of_factors_is_read() -> None:
    """In one pass, without recursion."""
    assert len(figures("two hundred " * 5_000)) == 5_000
