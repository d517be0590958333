"""How days, trees and evidence are shown to a model: whose day it is, what is bounded, what is left out."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles.blocks import read_data_block
from tests.table import each
from tests_long.scripted import Scripted, run

from memforest.ports import Answer, AnswerEvidence
from memforest.reading.prompts import shown_cards, shown_day, shown_days
from memforest.reading.steps_llm import EVIDENCE_CHARS, EVIDENCE_SUMMARY_CHARS, ChatAnswerer
from memforest.records import QuestionPlan, SpokenText, TreeCard
from memforest.times import EARLIEST, LATEST

UTC = timezone.utc
TOKYO = ZoneInfo("Asia/Tokyo")
NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@given(day=st.dates(date(1000, 1, 1), date(9000, 1, 1)))
@settings(max_examples=40)
def test_a_day_is_shown_with_its_weekday(day: date) -> None:
    """In English, and as the calendar has it; at any hour of that day."""
    for hour in (0, 23):
        shown = shown_day(datetime(day.year, day.month, day.day, hour, tzinfo=UTC), UTC)
        name, _, iso = shown.partition(" ")
        assert date.fromisoformat(iso) == day
        assert (
            name
            == ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()]
        )


@each(
    ("start", "end", "zone", "shown"),
    [
        (NOON, None, UTC, "since 2024-06-01"),
        (NOON, NOON, UTC, "2024-06-01"),
        (NOON, NOON + DAY / 2, UTC, "2024-06-01"),
        (NOON, NOON + DAY / 2, TOKYO, "2024-06-01 to 2024-06-02"),
        (NOON, NOON + DAY, UTC, "2024-06-01 to 2024-06-02"),
        (NOON + DAY / 2, NOON + DAY, TOKYO, "2024-06-02"),
        (EARLIEST, NOON, UTC, "until 2024-06-01"),
        (EARLIEST, NOON - DAY / 2, UTC, "until 2024-05-31"),
        (EARLIEST, None, UTC, "since 0001-01-01"),
        (NOON, LATEST, UTC, "2024-06-01 to 9999-12-31"),
    ],
)
def test_an_interval_is_shown_by_its_first_and_last_day(
    start: datetime, end: datetime | None, zone: Any, shown: str
) -> None:
    """Its end is exclusive; the days are those of the zone, and neither end of time overflows."""
    assert shown_days(start, end, zone) == shown


def test_cards_are_numbered_rows() -> None:
    """From 1, by the name that is asked for; what a tree is about only where that is asked for; texts are cut."""
    cards = [
        TreeCard("entity", "A" * 99, NOON, NOON + DAY, 3, "word " * 30),
        TreeCard("session", "s", EARLIEST, NOON, 1, ""),
    ]
    one, two = shown_cards(cards, UTC, number="tree", chars=20, scope=True)
    assert list(one) == ["tree", "kind", "about", "days", "leaves", "text"]
    assert (one["tree"], two["tree"], one["kind"], len(one["about"]), len(one["text"])) == (
        1,
        2,
        "entity",
        80,
        20,
    )
    assert (two["days"], two["leaves"], two["text"]) == ("until 2024-06-01", 1, "")
    (bare, _) = shown_cards(cards, UTC, number="node", chars=20, scope=False)
    assert list(bare) == ["node", "days", "leaves", "text"]
    assert shown_cards([], UTC, number="node", chars=1, scope=True) == []


PIECE = AnswerEvidence(text="Ann lives in Oslo.", quote="I live in Oslo.", speaker="Ann", said=NOON)


def rows(*evidence: AnswerEvidence, zone: Any = UTC) -> tuple[dict[str, Any], ...]:
    """Return the rows that the model is shown."""
    model = Scripted('{"reason": "r", "answer": "Oslo", "cited": [1]}')
    run(
        ChatAnswerer(model.calls, timezone=zone).answer(
            "Where?", plan=QuestionPlan(), reference=NOON, evidence=evidence
        )
    )
    return read_data_block(model.data(), "evidence")


@each(
    ("changed", "more"),
    [
        ({}, {"quote": "I live in Oslo."}),
        ({"quote": ""}, {}),
        ({"quote": "lives in Oslo"}, {}),
        ({"start": NOON}, {"quote": "I live in Oslo."}),
        ({"start": NOON - DAY}, {"quote": "I live in Oslo.", "valid": "since 2024-05-31"}),
        (
            {"start": NOON, "end": NOON + DAY},
            {"quote": "I live in Oslo.", "valid": "2024-06-01 to 2024-06-02"},
        ),
        ({"start": EARLIEST, "end": NOON}, {"quote": "I live in Oslo.", "valid": "until 2024-06-01"}),
    ],
)
def test_evidence_is_shown_with_what_says_more(changed: dict[str, Any], more: dict[str, Any]) -> None:
    """A quote that the statement has already is left out, and a time that is that of saying it."""
    base = {"number": 1, "said": "Saturday 2024-06-01", "speaker": "Ann", "statement": "Ann lives in Oslo."}
    assert rows(AnswerEvidence(**{**vars_of(PIECE), **changed})) == ({**base, **more},)


def vars_of(one: AnswerEvidence) -> dict[str, Any]:
    """Return the fields of a piece of evidence."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_what_was_said_is_shown_as_a_quote() -> None:
    """Without the statement that rules made of it, and with the question in front; of a long turn the sentences found."""
    pair = (SpokenText("Eva", "Is it the 12th?"), SpokenText("Ann", "Yes."))
    one = AnswerEvidence(
        text="Is it the 12th? – Yes.",
        quote="Yes. Of May.",
        said=NOON,
        speaker="Ann",
        statement="Ann says yes.",
        spoken=pair,
    )
    said = {"number": 1, "said": "Saturday 2024-06-01", "speaker": "Ann"}
    assert rows(one) == ({**said, "asked": "Is it the 12th?", "quote": "Yes. Of May."},)
    long = AnswerEvidence(**{**vars_of(one), "quote": "Yes. " * EVIDENCE_CHARS, "spoken": pair[1:]})
    assert rows(long) == ({**said, "quote": "Yes."},)


def test_long_evidence_is_shown_in_part_and_nobody_is_no_speaker() -> None:
    """Statements and quotes up to a bound, summaries up to a larger one; each has its own number."""
    long = AnswerEvidence(**{**vars_of(PIECE), "text": "a " * 5000, "quote": "b " * 5000, "speaker": ""})
    summary = AnswerEvidence(**{**vars_of(long), "start": NOON, "end": NOON + DAY, "turns": 7})
    one, two = rows(long, summary, zone=TOKYO)
    assert (len(one["statement"]), len(one["quote"]), "speaker" in one) == (
        EVIDENCE_CHARS,
        EVIDENCE_CHARS,
        False,
    )
    assert set(two) == {"number", "days", "summary_of_turns", "statement"}
    assert (two["number"], two["days"], len(two["statement"])) == (
        2,
        "2024-06-01 to 2024-06-02",
        EVIDENCE_SUMMARY_CHARS,
    )


@each(
    ("cited", "read"),
    [([1], (0,)), ([2, 1], (1, 0)), ([2, 2, 1], (1, 0)), ([0, 3, -1, 2], (1,)), (["2"], (1,))],
)
def test_an_answer_cites_what_it_was_shown(cited: list[Any], read: tuple[int, ...]) -> None:
    """Each piece once, in the model's order; other numbers are left out."""
    import json

    model = Scripted(json.dumps({"reason": "r", "answer": "Oslo", "cited": cited}))
    found: Answer = run(
        ChatAnswerer(model.calls).answer(
            "Where?", plan=QuestionPlan(), reference=NOON, evidence=[PIECE, PIECE]
        )
    )
    assert (found.text, found.cited, found.reason) == ("Oslo", read, "r")
