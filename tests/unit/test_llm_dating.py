"""When a statement holds: which date of the turns is chosen, and how it is written into the text."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.grounding import Dated, date_statement
from memforest.reading.replies import FactReply
from memforest.reading.reply_source import read_source
from memforest.reading.tokens import detect_language
from memforest.records import Chunk, Turn

UTC = timezone.utc
SAID = datetime(2024, 5, 8, 20, 0, tzinfo=UTC)  # a Wednesday


def dated(text: str, *said: str, zone: Any = UTC, days: int = 0, **more: Any) -> Dated:
    """Return the date of a statement that rests on these turns, which are so many days apart."""
    turns = tuple(
        Turn(str(at), "Ann", one, SAID + at * timedelta(days=days), at) for at, one in enumerate(said)
    )
    source = read_source(Chunk("s", 0, turns, (), ("Ann",)), zone)
    statement = FactReply(text=text, turns=[one.ordinal for one in turns], **more)
    supports = [*source.said.values()]
    return date_statement(statement, text, detect_language(text), supports, source)


def days_of(found: Dated) -> tuple[str, str] | None:
    """Return the first day of a date, and the one behind its last."""
    return None if found.span is None else (str(found.span.start)[:10], str(found.span.end)[:10])


TURN = "On 3 June 2024 I start at the bank, and I went to Oslo yesterday. In July 2024 I fly to Rome."
JUNE, YESTERDAY, JULY = (
    ("2024-06-03", "2024-06-04"),
    ("2024-05-07", "2024-05-08"),
    ("2024-07-01", "2024-08-01"),
)

CHOSEN: list[tuple[dict[str, Any], tuple[str, str] | None]] = [
    ({}, None),
    ({"when": "yesterday"}, YESTERDAY),
    ({"when": "Yesterday"}, YESTERDAY),
    ({"when": "3 June 2024"}, JUNE),
    ({"when": "on 3 June 2024"}, JUNE),
    ({"when": "June"}, JUNE),
    ({"when": "June 3, 2024"}, JUNE),
    ({"when": "2024-06-03"}, JUNE),
    ({"when": "June 3, 2024", "start": "2024-07-09"}, JULY),
    ({"when": "the bank"}, None),
    ({"when": "whenever it suits"}, None),
    ({"when": "the bank", "start": "2024-06-03"}, None),
    ({"start": "2024-06-03"}, JUNE),
    ({"end": "2024-06-03"}, JUNE),
    ({"start": "2024-06-03T09:00:00"}, JUNE),
    ({"start": "2024-06-03", "end": "2024-06-03"}, JUNE),
    ({"start": "2024-07-04", "end": "2024-07-05"}, JULY),
    ({"start": "2024-07-01", "end": "2024-07-31"}, JULY),
    ({"start": "2024-07-01", "end": "2024-08-01"}, None),
    ({"start": "2024-06-03", "end": "2024-06-04"}, None),
    ({"start": "2024-06-04", "end": "2024-06-03"}, None),
    ({"when": "yesterday", "start": "2024-06-03"}, YESTERDAY),
    ({"when": "I start at the bank, and I went to Oslo yesterday", "start": "2024-05-07"}, YESTERDAY),
    ({"when": TURN, "start": "2024-05-07"}, YESTERDAY),
    ({"when": TURN, "start": "2024-07-09"}, JULY),
    ({"when": TURN}, JUNE),
    ({"when": TURN, "start": "2020-01-01"}, JUNE),
]


@each(("given_time", "days"), CHOSEN)
def test_a_date_of_the_turns_is_chosen_by_what_the_model_says(
    given_time: dict[str, Any], days: tuple[str, str] | None
) -> None:
    """By its words where they stand, by its days where a turn states them; of several the one that has both."""
    assert days_of(dated("Ann is busy.", TURN, **given_time)) == days


@each(
    ("more", "unstated"),
    [
        ({"when": "last winter"}, "last winter"),
        ({"start": "2020-01-01", "end": "2020-01-02"}, "2020-01-01 - 2020-01-02"),
        ({"when": "soon", "start": "2020-01-01"}, "soon"),
        ({"start": "soon"}, None),
        ({"when": "the bank"}, None),
        ({"when": "yesterday", "start": "2020-01-01"}, "2020-01-01 - None"),
        ({"when": "yesterday", "start": "2024-05-07"}, None),
        ({"when": "July 2024", "start": "2024-06-20", "end": "2024-07-20"}, None),
    ],
)
def test_a_time_that_no_turn_states_or_that_the_words_exclude_is_named(
    more: dict[str, Any], unstated: str | None
) -> None:
    """In the model's words; what is said, and is no date, is no fault."""
    found = dated("Ann is busy.", TURN, **more).left_out
    assert (found and found[0]) == unstated
    if found is not None:
        assert ("exclude" in found[1]) == ("yesterday" in more.values())


MONDAY = "I was asked to see the dentist on Monday, and to bring the pictures."
"""Said on a Wednesday; nothing tells which Monday."""


@each(
    ("said", "more", "expected"),
    [
        ("Dentist on Monday.", {"kind": "plan", "start": "2024-05-13"}, ("2024-05-13", "2024-05-14")),
        ("I see the dentist on Monday.", {"kind": "plan"}, ("2024-05-13", "2024-05-14")),
        ("I see the dentist on Monday.", {"start": "2024-05-06"}, ("2024-05-06", "2024-05-07")),
        ("I see the dentist on Monday.", {}, None),
        ("I see the dentist on Monday.", {"start": "2024-05-20"}, None),
        ("I'm seeing the dentist on Monday.", {"start": "2024-05-06"}, ("2024-05-06", "2024-05-07")),
        (
            "I saw the dentist on Monday.",
            {"kind": "plan", "start": "2024-05-13"},
            ("2024-05-06", "2024-05-07"),
        ),
        ("It is due on 03/06/2024.", {"start": "2024-06-03"}, ("2024-06-03", "2024-06-04")),
        ("It is due on 03/06/2024.", {"start": "2024-03-06"}, ("2024-03-06", "2024-03-07")),
    ],
)
def test_the_model_chooses_where_the_words_allow_it(
    said: str, more: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """Of the days that words may mean it says which; a verb in the past leaves no choice, and other days are refused."""
    words = "03/06/2024" if "/" in said else "Monday"
    found = dated("Ann has to be there.", said, when=words, **more)
    assert days_of(found) == expected
    refused = "start" in more and (expected is None or more["start"] != expected[0])
    assert (found.left_out is not None) == refused


def test_a_date_of_the_text_goes_before_one_that_is_not_stated() -> None:
    """The text is right, the model's time is not."""
    found = dated("Ann starts at the bank on 3 June 2024.", TURN, when="next spring", start="2025-03-01")
    assert (days_of(found), found.left_out) == (JUNE, None)


WRITTEN: list[tuple[str, dict[str, Any], str]] = [
    ("Ann went to Oslo", {"when": "yesterday"}, "Ann went to Oslo"),
    ("Ann went to Oslo.", {"when": "yesterday"}, "Ann went to Oslo."),
    ("Ann went to Oslo…!  ", {"when": "yesterday"}, "Ann went to Oslo…!  "),
    ("Ann flies to Rome.", {"when": "July 2024"}, "Ann flies to Rome."),
    ("Ann went to Oslo yesterday.", {}, "Ann went to Oslo yesterday."),
    ("Ann went to Oslo yesterday (7 May 2024).", {"when": "yesterday"}, "Ann went to Oslo yesterday (7 May 2024)."),
    ("Ann went yesterday (with Bo) to Oslo.", {"when": "yesterday"}, "Ann went yesterday (with Bo) to Oslo."),
    ("Yesterday Ann went to Oslo.", {"when": "yesterday"}, "Yesterday Ann went to Oslo."),
    ("On 6 May 2024 Ann went to Oslo.", {"when": "yesterday"}, "Ann went to Oslo."),
    ("Ann went to Oslo on 6 May 2024.", {"when": "yesterday"}, "Ann went to Oslo."),
    ("Ann went to Oslo (on 6 May 2024) by train.", {"when": "yesterday"}, "Ann went to Oslo by train."),
    ("Ann went to Oslo (with Bo, on 6 May 2024).", {"when": "yesterday"}, "Ann went to Oslo (with Bo,)."),
    ("Ann went to Oslo (on 6 May 2024 with Bo).", {"when": "yesterday"}, "Ann went to Oslo (with Bo)."),
    ("Ann went to Oslo in (6 May 2024) haste.", {"when": "yesterday"}, "Ann went to Oslo haste."),
    ("Ann went to Oslo (6 May 2024).", {"when": "yesterday"}, "Ann went to Oslo."),
    ("Ann went in May 2019 to Oslo.", {"when": "yesterday"}, "Ann went to Oslo."),
    ("Ann, who starts on 3 June 2024, went to Oslo.", {"when": "yesterday"}, "Ann, who starts on 3 June 2024, went to Oslo."),
]  # fmt: skip


@each(("text", "more", "shown"), WRITTEN)
def test_no_date_is_written_into_a_text_and_wrong_ones_are_taken_out(
    text: str, more: dict[str, Any], shown: str
) -> None:
    """With their prepositions and brackets; what is right stays as the model wrote it."""
    assert dated(text, TURN, **more).text.strip() == shown.strip()


@pytest.mark.parametrize(
    ("text", "dateless"),
    [
        ("Ann went to Oslo on 7 May 2024 with 3 bags.", "3"),
        ("Ann paid 40 euros on 3 June 2024 and 50 in July 2024.", "40 50"),
    ],
)
def test_the_numbers_of_dates_are_not_those_of_the_statement(text: str, dateless: str) -> None:
    """They are checked by themselves."""
    left = dated(text, TURN).dateless
    assert " ".join(word for word in left.split() if word.isdigit()) == dateless


@each(
    ("text", "invented"),
    [
        ("Ann went to Oslo on 2 May 2024.", "2 May 2024"),
        ("Ann went to Oslo last week.", "last week"),
        ("Ann went to Oslo on 8 May 2024.", None),
        ("Ann went to Oslo in 2024.", None),
        ("Ann went to Oslo in May 2024.", None),
        ("Ann flies to Rome on 1 July 2024.", "1 July 2024"),
        ("Ann flies to Rome in 2025.", "2025"),
    ],
)
def test_a_date_that_no_turn_states_is_invented(text: str, invented: str | None) -> None:
    """The day on which it was said is none, nor is a longer time around one that is stated; a part of one is."""
    found = dated(text, TURN).invented
    assert (found is None) == (invented is None)
    assert found is None or invented is None or invented in found


def test_relative_words_of_no_turn_are_invented_whatever_time_is_given() -> None:
    """A date that was worked out wrongly is mended; words that nobody said are not."""
    assert dated("Ann went to Oslo last week.", TURN, when="yesterday").invented == "last week"
    assert dated("Ann went to Oslo on 2 May 2024.", TURN, when="yesterday").invented is None


def test_relative_words_count_from_the_turn_that_has_them() -> None:
    """From the first that has them; from the first of all when none has."""
    turns = ("I sail.", "I sailed yesterday.", "I sailed yesterday, too.")
    assert days_of(dated("Ann sailed yesterday.", *turns, days=10)) == ("2024-05-17", "2024-05-18")
    again = ("I sailed yesterday.", "I sailed yesterday, too.")
    assert days_of(dated("Ann sailed yesterday.", *again, days=10)) == ("2024-05-07", "2024-05-08")


@each(
    "said",
    ["Vivo en Oslo desde hace dos años.", "Llevo dos años en Oslo.", "I have lived in Oslo for two years."],
)
@each("text", ["Ann vive en Oslo desde hace dos años.", "Ann has lived in Oslo for two years."])
def test_since_when_is_said_in_either_language(said: str, text: str) -> None:
    """A translation states the same time, and neither is an invention."""
    found = dated(text, said)
    assert found.invented is None
    assert [one.start.year for one in found.dates] == [2022]


def test_all_dates_of_the_words_are_kept_with_the_statement() -> None:
    """Those of the text as the turns mean them, and the chosen one where the text has no words for it."""
    found = dated("Ann went to Oslo yesterday and flies to Rome.", TURN, when="July 2024")
    assert [one.words for one in found.dates] == ["yesterday", "July 2024"]
    assert [str(one.start)[:10] for one in found.dates] == ["2024-05-07", "2024-07-01"]


def test_days_are_those_of_the_zone() -> None:
    """Given as days by the model, or meant by a word."""
    tokyo = ZoneInfo("Asia/Tokyo")
    given_times: list[dict[str, Any]] = [{"when": "yesterday"}, {"start": "2024-05-08"}]
    for more in given_times:
        found = dated("Ann went to Oslo.", "I went to Oslo yesterday.", zone=tokyo, **more)
        assert found.span is not None
        assert found.span.start == datetime(2024, 5, 7, 15, tzinfo=UTC)


@given(day=st.dates(date(2024, 1, 1), date(2024, 12, 31)), length=st.integers(0, 40))
@settings(max_examples=40)
def test_days_that_the_model_gives_choose_what_covers_them(day: date, length: int) -> None:
    """Whatever they are: a stated time that has all of them, or none at all."""
    last = day + timedelta(days=length)
    found = dated("Ann is busy.", TURN, start=day.isoformat(), end=last.isoformat())
    covering = [
        (one, end)
        for one, end in (JUNE, YESTERDAY, JULY)
        if one <= day.isoformat() and last.isoformat() < end
    ]
    assert days_of(found) == (covering[0] if covering else None)
    assert (found.left_out is None) == bool(covering)


@given(
    words=st.lists(
        st.sampled_from(
            ["yesterday", "3 June 2024", "in", "(", ")", ".", "Ann", "2 May 2023", "…", "every Friday"]
        ),
        max_size=6,
    )
)
@settings(max_examples=40)
def test_writing_dates_loses_nothing_that_is_no_date(words: list[str]) -> None:
    """Whatever the text: it is refused, or what is not a wrong date is still in it."""
    text = " ".join(["Ann", *words])
    found = dated(text, TURN, when="yesterday")
    if found.invented is None:
        assert found.text.count("Ann") == text.count("Ann")
        assert found.text.count("yesterday") == text.count("yesterday")
        assert found.text.count("3 June 2024") == text.count("3 June 2024")


@each(
    ("said", "text", "holds"),
    [
        ("The board meets on the ninth.", "The board meets on 9 May 2024.", True),
        ("The board meets on the ninth.", "The board meets on 10 May 2024.", False),
        ("The board meets on the ninth.", "The board meets on 9 July 2024.", False),
        ("The pitch is Thursday week.", "The pitch is on 16 May 2024.", True),
        ("The pitch is Thursday week.", "The pitch is on 17 May 2024.", False),
        ("The pitch is Thursday week.", "The pitch is on 30 May 2024.", False),
        ("We open in autumn at the earliest.", "Ann opens in autumn 2024 at the earliest.", True),
        ("We open in autumn at the earliest.", "Ann opens in autumn 2027 at the earliest.", False),
        (
            "Am Sonntag ist die Versammlung, und wir sind nicht da.",
            "Am 12. Mai 2024 ist die Versammlung.",
            True,
        ),
        (
            "Am Sonntag ist die Versammlung, und wir sind nicht da.",
            "Am 19. Mai 2024 ist die Versammlung.",
            False,
        ),
        ("Mein Zug geht am Donnerstag, und das ist nicht weit.", "Ann reist am 9. Mai 2024.", True),
        (
            "Ich habe am Donnerstag keine Zeit, und das ist nicht gut.",
            "Ann has the whole day taken on Thursday.",
            True,
        ),
        ("I have had this since the new chef, a fortnight or so.", "Ann has had this for two weeks.", True),
        ("I start on 3 June.", "Ann starts on 3 June 2025.", False),
        ("I start on 3 June.", "Ann starts on June 3, 2025.", False),
        ("We go in August, back on the 23rd.", "Ann is back on 23 August 2024.", True),
        ("We go in August, back on the 23rd.", "Ann is back on 23 July 2024.", False),
        ("The pitch is on Thursday.", "The pitch is on 16 May 2024.", False),
    ],
)
def test_a_date_that_the_calendar_does_not_read_is_refused_if_it_cannot_be_meant(
    said: str, text: str, holds: bool
) -> None:
    """By the number of its day, its weekday, or its month or season; what the calendar reads means what it says."""
    found = dated(text, said)
    assert (found.invented is None) is holds
    assert found.text == text
