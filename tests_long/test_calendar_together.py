"""Dates that are read together with what stands beside or before them, misspelt, or in a title.

Everything is said on Wednesday 15 May 2024, 12:00 UTC.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.table import each

from memforest import Config, MemForest
from memforest.reading.date_language import mended, spelling_of
from memforest.reading.date_phrases import find_dates
from memforest.reading.periods import easter
from memforest.reading.tokens import split_sentences

UTC = timezone.utc
WEDNESDAY = datetime(2024, 5, 15, 12, tzinfo=UTC)


def days(text: str, before: str = "", language: str = "en") -> str:
    """Return each date of a text as its first and, where it has several days, its last one."""
    found = []
    for span in find_dates(text, WEDNESDAY, UTC, (language,), before=before):
        first, last = span.start.date(), span.end.date() - timedelta(days=1)
        found.append(str(first) if first == last else f"{first}..{last}")
    return " ".join(found)


@each(
    ("text", "expected"),
    [
        ("We sail Saturday after next.", "2024-06-01"),
        ("We sail two Saturdays from now.", "2024-05-25"),
        ("We sailed three summers ago.", "2021-06-01..2021-08-31"),
        ("We sail a week on Saturday.", "2024-05-25"),
        ("We sail Saturday week.", "2024-05-25"),
        ("We sail a fortnight tomorrow.", "2024-05-30"),
        ("We sailed a week ago yesterday.", "2024-05-07"),
        ("We sailed a year ago today.", "2023-05-15"),
        ("We sail on Thursday of next week.", "2024-05-23"),
        ("We sail next month, on the 12th.", "2024-06-12"),
        ("We sailed in March last year.", "2023-03-01..2023-03-31"),
        ("We sail on Saturday the 25th.", "2024-05-25"),
        ("We sailed Thursday of the week before last.", "2024-05-02"),
        ("We sailed a year and a half ago.", "2022-11-01..2022-11-30"),
        ("We sail the last two weeks of June.", "2024-06-17..2024-06-30"),
        ("It's the last Friday of the month.", "2024-05-31"),
        ("We're sailing between the 20th and the 23rd.", "2024-05-20..2024-05-23"),
        ("We sailed from 2015 to 2018.", "2015-01-01..2018-12-31"),
        ("We sailed at Easter.", "2024-03-31"),
        ("We raced on Labor Day.", "2023-09-04"),
        ("Regatta: 22/6", "2024-06-22"),
        ("The race on 30 May got cancelled.", "2024-05-30"),
        ("It has to be finished by Friday.", "2024-05-17"),
        ("Starting Monday I sail.", "2024-05-20"),
        ("If it rains on Saturday we stay.", "2024-05-18"),
        ("2020 was stormy.", "2020-01-01..2020-12-31"),
    ],
)
def test_words_around_a_date_say_which_one_is_meant(text: str, expected: str) -> None:
    """What comes again is read alike, whether it is a weekday, a month, a season or a unit."""
    assert days(text) == expected


@each(
    "text",
    [
        *("Wednesday the week after works.", "Friday of that week", "We sailed on the 5th of that month."),
        *("We sailed two weeks ago on Friday.", "It was the last week of school.", "the last weeks"),
        *('I read "One Day in December".', "I'm reading The Guns of August.", "Our song is Summer of '69."),
        *("I live in March, near Ely.", "We live on 5th of November Road.", "In the film they meet in 1985."),
        *("It's not on the 12th.", "Sorry, I meant Friday.", "within a month he was back"),
        *("The parade is on the first Friday of May.", "two days later"),
    ],
)
def test_what_stands_beside_a_date_may_leave_it_open(text: str) -> None:
    """Words of time left unread, titles, places and what is denied are no dates."""
    assert days(text) == ""


@each(
    ("before", "text", "expected"),
    [
        ("The race is on 14 June.", "We arrive two days before.", "2024-06-12"),
        ("The race was last Friday.", "The next day it snowed.", "2024-05-11"),
        ("We married on 3 May 2019.", "He was born two years later.", "2021-01-01..2021-12-31"),
        ("When did you move?", "In March.", "2024-03-01..2024-03-31"),
        ("When will you move?", "In March.", "2025-03-01..2025-03-31"),
        ("When were you born?", "1987", "1987-01-01..1987-12-31"),
        ("How many are there?", "1987", ""),
        ("It is loud.", "We arrive two days before.", ""),
        ("The race is on 14 June.", "We arrive tomorrow.", "2024-05-16"),
    ],
)
def test_a_date_may_hang_on_what_was_said_before(before: str, text: str, expected: str) -> None:
    """An answer has its question's tense; "two days before" counts from the date named last."""
    assert days(text, before) == expected


def test_positions_are_those_of_the_text_alone() -> None:
    """What was said before moves no character."""
    text = "We arrive two days before."
    (span,) = find_dates(text, WEDNESDAY, UTC, ("en",), before="The race is on 14 June.")
    assert text[span.start_char : span.end_char] == span.text == "two days before"


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("We sail tommorow.", "tommorow", "2024-05-16"),
        ("We sailed last Thrusday night.", "last Thrusday night", "2024-05-09"),
        ("It was in Febuary 2021.", "Febuary 2021", "2021-02-01..2021-02-28"),
    ],
)
def test_long_words_are_read_misspelt(text: str, words: str, expected: str) -> None:
    """The words are reported as they were written."""
    (span,) = find_dates(text, WEDNESDAY, UTC, ("en",))
    assert (span.text, days(text)) == (words, expected)
    assert text[span.start_char : span.end_char] == words


def test_other_words_and_plurals_are_not_mended() -> None:
    """Only what is one slip away from a long word of the calendar is."""
    spelling = spelling_of(["tomorrow", "tuesday", "thursday", "august", "sunday"])
    for text in ("Tuesdays", "thursday", "Augusta", "sundae", "someday", "torrent"):
        assert mended(text, None, [spelling]) == (text, None)


@each(("year", "expected"), [(1961, (4, 2)), (2000, (4, 23)), (2024, (3, 31)), (2038, (4, 25))])
def test_easter_is_that_of_the_western_churches(year: int, expected: tuple[int, int]) -> None:
    """Known dates, an early and the latest possible one among them."""
    assert easter(year) == date(year, *expected)


def test_a_memory_reads_dates_across_turns(tmp_path: Path) -> None:
    """The answer to a question, a yes to a date, and what is so long before a date of the turn before."""
    said = [
        ("Bo", "When did you move?"),
        ("Ada", "In March."),
        ("Bo", "Is the race on 14 June?"),
        ("Ada", "Yes."),
        ("Bo", "The race starts on 14 June."),
        ("Ada", "I arrive two days before."),
    ]
    turns = [
        {"id": f"t{at}", "speaker": speaker, "content": text, "timestamp": WEDNESDAY + timedelta(minutes=at)}
        for at, (speaker, text) in enumerate(said)
    ]
    with MemForest(tmp_path / "memory", Config(embedder="none")) as forest:
        forest.ingest_session("ada", "s", turns)
        found = {
            turn: str(one.start.date())
            for fact in forest.user("ada").list(limit=20)
            for source in fact.sources
            for turn in source.turn_ids
            for one in fact.dates
        }
    assert (found["t1"], found["t3"], found["t5"]) == ("2024-03-01", "2024-06-14", "2024-06-12")


def test_the_number_of_a_day_ends_no_sentence() -> None:
    """A date such as 5 March in German stays whole, and another number may end a sentence."""
    whole = "Der Termin ist am 5. März 2024."
    assert [piece.text for piece in split_sentences(whole)] == [whole]
    assert len(split_sentences("I turned 5. Then we moved.")) == 2
