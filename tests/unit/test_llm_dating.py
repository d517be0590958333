"""When a statement holds: which date of the turns is chosen, and how it is written into the text."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.replies import FactReply
from memforest.reading.reply_checks import Dated, date_statement, read_source
from memforest.reading.tokens import detect_language
from memforest.records import Chunk, Turn

UTC = timezone.utc
SAID = datetime(2024, 5, 8, 20, 0, tzinfo=UTC)  # a Wednesday


def dated(text: str, said: str, quote: str = "", zone: Any = UTC, **more: Any) -> Dated:
    """Return the date of a statement that quotes a turn, the whole of it if nothing else is said."""
    source = read_source(Chunk("s", 0, (Turn("0", "Ann", said, SAID, 0),), (), ("Ann",)), zone)
    statement = FactReply(text=text, quote=quote or said, **more)
    return date_statement(statement, text, detect_language(text), source.said[0], statement.quote, source)


def days_of(found: Dated) -> tuple[str, str] | None:
    """Return the first day of a date, and the one behind its last."""
    return None if found.span is None else (str(found.span.start)[:10], str(found.span.end)[:10])


TURN = "On 3 June 2024 I start at the bank, and I went to Oslo yesterday. In July 2024 I fly to Rome."
JUNE, YESTERDAY, JULY = (
    ("2024-06-03", "2024-06-04"),
    ("2024-05-07", "2024-05-08"),
    ("2024-07-01", "2024-08-01"),
)


@each(
    ("text", "more", "days"),
    [
        ("Ann went to Oslo yesterday.", {}, YESTERDAY),
        ("Ann went to Oslo on 7 May 2024.", {}, YESTERDAY),
        ("Ann went to Oslo.", {}, YESTERDAY),
        ("Ann starts at the bank on 3 June 2024.", {}, JUNE),
        ("Ann starts at the bank.", {}, JUNE),
        ("Ann flies to Rome.", {}, JULY),
        ("Ann flies to Rome.", {"quote": "I fly to Rome"}, None),
        ("Ann is busy.", {}, None),
        ("Ann is busy.", {"start": "2024-06-03"}, JUNE),
        ("Ann is busy.", {"start": "2024-06-03T09:00:00"}, JUNE),
        ("Ann is busy.", {"start": "2024-07-04"}, JULY),
        ("Ann is busy.", {"start": "2024-06-04"}, None),
        ("Ann went to Oslo yesterday.", {"start": "2024-06-03"}, JUNE),
        ("Ann went to Oslo yesterday.", {"start": "2020-01-01"}, YESTERDAY),
        ("Ann went to Oslo and flies to Rome in July 2024.", {}, JULY),
    ],
)
def test_a_date_of_the_turn_is_chosen(text: str, more: dict[str, Any], days: tuple[str, str] | None) -> None:
    """That of the words of the text; else that beside its words in the quote; a day that the model gives goes before them."""
    assert days_of(dated(text, TURN, **more)) == days


@each(
    ("start", "unstated"),
    [("2020-01-01", True), ("2024-05-07", False), ("soon", False), ("0001-01-01", False), (None, False)],
)
def test_a_day_that_no_turn_states_is_named(start: str | None, unstated: bool) -> None:
    """In the model's words; what is no day is none."""
    found = dated("Ann went to Oslo yesterday.", TURN, start=start)
    assert days_of(found) == YESTERDAY
    assert found.left_out == (
        (start, "a date that the turns do not state was left out") if unstated else None
    )


@each(
    ("said", "more", "expected"),
    [
        ("Dentist on Monday.", {"kind": "plan", "start": "2024-05-13"}, ("2024-05-13", "2024-05-14")),
        ("I see the dentist on Monday.", {"kind": "plan"}, ("2024-05-13", "2024-05-14")),
        ("I see the dentist on Monday.", {"start": "2024-05-06"}, ("2024-05-06", "2024-05-07")),
        ("I see the dentist on Monday.", {}, None),
        ("I see the dentist on Monday.", {"start": "2024-05-20"}, None),
        ("I'm seeing the dentist on Monday.", {"start": "2024-05-06"}, ("2024-05-06", "2024-05-07")),
        ("I saw the dentist on Monday.", {"kind": "plan"}, ("2024-05-06", "2024-05-07")),
        ("It is due on 03/06/2024.", {"start": "2024-06-03"}, ("2024-06-03", "2024-06-04")),
        ("It is due on 03/06/2024.", {"start": "2024-03-06"}, ("2024-03-06", "2024-03-07")),
    ],
)
def test_the_model_chooses_where_the_words_allow_it(
    said: str, more: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """Of the days that words may mean it says which; a verb in the past leaves no choice, and other days are refused."""
    found = dated(
        "Ann sees the dentist, which is due." if "dentist" in said.lower() else "It is due.", said, **more
    )
    assert days_of(found) == expected
    refused = "start" in more and (expected is None or more["start"] != expected[0])
    assert (found.left_out is not None) == refused


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
    """Those of the text as the turn means them, and the chosen one where the text has no words for it."""
    found = dated("Ann went to Oslo yesterday and flies to Rome.", TURN, start="2024-07-01")
    assert [one.words for one in found.dates] == ["yesterday", "July 2024"]
    assert [str(one.start)[:10] for one in found.dates] == ["2024-05-07", "2024-07-01"]


def test_days_are_those_of_the_zone() -> None:
    """Given as days by the model, or meant by a word."""
    tokyo = ZoneInfo("Asia/Tokyo")
    given_times: list[dict[str, Any]] = [{}, {"start": "2024-05-08"}]
    for more in given_times:
        found = dated("Ann went to Oslo.", "I went to Oslo yesterday.", zone=tokyo, **more)
        assert found.span is not None
        assert found.span.start == datetime(2024, 5, 7, 15, tzinfo=UTC)


@given(day=st.dates(date(2024, 1, 1), date(2024, 12, 31)))
@settings(max_examples=40)
def test_a_day_that_the_model_gives_chooses_what_covers_it(day: date) -> None:
    """Whatever it is: a stated time that has it, or none at all."""
    found = dated("Ann is busy.", TURN, start=day.isoformat())
    covering = [(one, end) for one, end in (JUNE, YESTERDAY, JULY) if one <= day.isoformat() < end]
    assert days_of(found) == (covering[0] if covering else None)
    assert (found.left_out is None) == bool(covering)


@each(
    ("said", "text", "holds"),
    [
        ("The board meets on the ninth.", "The board meets on 10 May 2024.", False),
        ("The board meets on the ninth.", "The board meets on the ninth.", True),
        ("The pitch is Thursday week.", "The pitch is on 17 May 2024.", False),
        ("I start on 3 June.", "Ann starts on 3 June 2024.", True),
        ("I start on 3 June.", "Ann starts on June 3, 2025.", False),
        ("We go in August, back on the 23rd.", "Ann is back on 23 July 2024.", False),
        ("The pitch is on Thursday.", "The pitch is on 16 May 2024.", False),
        ("The pitch is on Thursday.", "The pitch is on 9 May 2024.", True),
        ("I come some day.", "Ann comes last week.", False),
        ("Ich war gestern in Berlin.", "Ann war gestern in Berlin.", True),
        ("Ich war gestern in Berlin.", "Ann war am 6. Mai 2024 in Berlin.", False),
    ],
)
def test_a_date_is_what_the_calendar_makes_of_the_words_of_a_turn(said: str, text: str, holds: bool) -> None:
    """Or the words themselves; what the calendar does not read is taken from no model."""
    assert (dated(text, said).invented is None) is holds
