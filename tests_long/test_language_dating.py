"""Days beside relative words: worked out by the calendar, written in ISO form, and nothing else is changed."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from random import Random
from zoneinfo import ZoneInfo

import pytest
from tests.table import each
from tests_long.fuzzing import random_text

from memforest.errors import TimestampError
from memforest.reading.date_phrases import find_dates
from memforest.reading.timestamps import dated_text
from memforest.times import EARLIEST, LATEST

UTC = timezone.utc
MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@each(
    ("text", "dated"),
    [
        ("Ann: I went there yesterday.", "Ann: I went there yesterday (2023-05-07)."),
        ("We camped last week!", "We camped last week (2023-05-01/2023-05-07)!"),
        ("We go next month, or next year.", "We go next month (2023-06), or next year (2024)."),
        ("Last summer was hot.", "Last summer (2022-06-01/2022-08-31) was hot."),
        ("I have had it for three years.", "I have had it for three years (2020/..)."),
        ("I bought it on 5 May.", "I bought it on 5 May (2023-05-05)."),
        ("I moved in May.", "I moved in May (2023-05)."),
        ("It has run since last year.", "It has run since last year (2022)."),
        ("Ayer fui al cine.", "Ayer (2023-05-07) fui al cine."),
        (
            "I left yesterday. We meet tomorrow.",
            "I left yesterday (2023-05-07). We meet tomorrow (2023-05-09).",
        ),
    ],
)
def test_days_stand_beside_relative_words(text: str, dated: str) -> None:
    """A day, month or year by its name, other stretches by their first and last day, and since when something lasts."""
    assert dated_text(text, MONDAY, UTC) == dated


@each(
    "text",
    [
        "I was born on 7 May 1990, in 1990.",
        "Yesterday (Sunday) I swam.",
        "I swim on Fridays.",
        "I swim on Friday.",
        "早上好 昨天",
        "Gestern war ich schwimmen.",
        "",
        "\x00\u2028 no date 🙂",
    ],
)
def test_what_needs_no_day_or_has_none_is_left_alone(text: str) -> None:
    """A year that is said, a bracket that is there, what recurs or is in doubt, and languages without rules."""
    assert dated_text(text, MONDAY, UTC) == text


def test_days_are_those_of_the_zone() -> None:
    """Late in the evening of UTC it is tomorrow in Tokyo."""
    late = MONDAY.replace(hour=20)
    assert dated_text("today", late, UTC) == "today (2023-05-08)"
    assert dated_text("today", late, ZoneInfo("Asia/Tokyo")) == "today (2023-05-09)"


def test_a_numeric_date_of_unknown_order_is_no_date() -> None:
    """Nobody knows whether the day or the month comes first."""
    text = "I moved on 1/2."
    assert dated_text(text, MONDAY, UTC) == text


def test_a_moment_without_a_zone_is_refused() -> None:
    """It has no yesterday."""
    with pytest.raises(TimestampError):
        dated_text("yesterday", MONDAY.replace(tzinfo=None), UTC)


@pytest.mark.parametrize("said", [EARLIEST, LATEST])
def test_at_either_end_of_time_nothing_breaks(said: datetime) -> None:
    """A day that there is not is not written."""
    for text in ("yesterday", "tomorrow", "last week", "next year", "for three years"):
        assert dated_text(text, said, UTC).startswith(text)


@each("seed", range(300))
def test_nothing_that_was_said_is_changed(seed: int) -> None:
    """Without what was put in, the text is the same."""
    text = random_text(Random(seed)) + " We left yesterday, and moved last week."
    dated = dated_text(text, MONDAY, UTC)
    kept, at = [], 0
    for span in find_dates(text, MONDAY, UTC, ("en", "es")):
        kept.append(text[at : span.end_char])
        at = span.end_char
    rest = dated
    for piece in (*kept, text[at:]):
        assert piece in rest
        rest = rest[rest.index(piece) + len(piece) :]
    assert (
        re.sub(r" \(\d{4}[-\d/.W]*\)", "", dated).split() == re.sub(r" \(\d{4}[-\d/.W]*\)", "", text).split()
    )
