"""Questions about a time as a whole return what was said then, and a day without a year is one of the memory's."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.table import each

from memforest import Config, MemForest
from memforest.reading.date_phrases import latest_within, years_back
from memforest.reading.plan_local import plan_question
from memforest.testing import FrozenClock

REFERENCE = datetime(2024, 6, 20, 12, tzinfo=timezone.utc)
SESSIONS = {
    "2024-03-04": ["The heron was back at the pond.", "I mended the blue gate with new hinges.", "Good."],
    "2024-05-06": ["We chose walnut for the shelves.", "Do you like walnut?", "The joiner comes on Tuesday."],
    "2024-06-11": ["My flute needs a new pad.", "Rehearsals moved to the town hall."],
    "2024-06-13": ["The soup had too much salt.", "I signed up for a pottery course."],
}


def plan(question: str) -> tuple[str, str | None]:
    """Return the kind of a question's plan and the end of the memory that it asks for."""
    found = plan_question(question, reference=REFERENCE, names={"ana": "Ana"})
    return found.kind, found.operator.kind if found.operator else None


@each(
    ("question", "kind", "end"),
    [
        ("What did we talk about on 4 March?", "sessions", None),
        ("What did we discuss last week?", "sessions", None),
        ("Can you remind me what Ana and I went over on May 6th?", "sessions", None),
        ("What did we talk about last time?", "sessions", "last"),
        ("What was our very first conversation about?", "sessions", "first"),
        ("What happened on 4 May?", "events", None),
        ("What did Ana do last weekend?", "events", None),
        ("¿De qué hablamos la semana pasada?", "sessions", None),
        ("¿De qué hablamos en nuestra primera conversación?", "sessions", "first"),
        ("¿Qué pasó el 4 de mayo?", "events", None),
        ("De quoi avons-nous parlé la dernière fois ?", "sessions", "last"),
        ("Worüber haben wir im ersten Gespräch gesprochen?", "sessions", "first"),
        ("Was ist am 2024-03-04 passiert?", "events", None),
        ("我们上次聊了什么？", "sessions", "last"),
        ("2024年3月4日发生了什么事", "events", None),
        ("What did we say about the gate on 4 March?", "simple", None),
        ("What topics did we cover?", "list", None),
        ("What happened at the wedding?", "simple", None),
        ("When did we last talk?", "when", None),
    ],
)
def test_a_question_without_content_asks_for_a_time_as_a_whole(
    question: str, kind: str, end: str | None
) -> None:
    """Nothing but names, a time and words of talking: sessions. Something to look for, or no time: as ever."""
    assert plan(question) == (kind, end)


def test_the_words_of_the_calendar_are_no_content() -> None:
    """Here "March 4th" is no keyword; the same word outside the date stays."""
    found = plan_question("Did Ana paint the march on March 4th?", reference=REFERENCE, names={"ana": "Ana"})
    assert found.dates == ("March 4th",)
    assert found.keywords == ("paint", "march")


@pytest.fixture
def talks(tmp_path: Path) -> MemForest:
    """A memory of four sessions of Ana with Bo, one a day."""
    forest = MemForest(tmp_path, Config(embedder="none", clock=FrozenClock(REFERENCE)))
    for day, texts in SESSIONS.items():
        turns = [{"speaker": ("Ana", "Bo")[n % 2], "text": text} for n, text in enumerate(texts)]
        forest.ingest_session("ana", session_id=day, timestamp=f"{day}T10:00", turns=turns)
    return forest


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did we talk about on March 4th?", ["2024-03-04"]),
        ("What did we talk about last week?", ["2024-06-11", "2024-06-13"]),
        ("What did we discuss last time?", ["2024-06-13"]),
        ("What did we cover in our first conversation?", ["2024-03-04"]),
        ("Worüber haben wir beim letzten Mal gesprochen?", ["2024-06-13"]),
        ("¿De qué hablamos el 6 de mayo?", ["2024-05-06"]),
        ("What did Bo and I talk about last in May?", ["2024-05-06"]),
    ],
)
def test_the_sessions_of_a_time_come_first_and_take_turns(
    talks: MemForest, question: str, days: list[str]
) -> None:
    """All that was said then stands in front, without a word in common, the first of each session before any second."""
    with talks as forest:
        said = [one.said.date().isoformat() for one in forest.query("ana", question, top_k=20).evidence]
    there = sum(len(SESSIONS[day]) for day in days)
    assert said[: len(days)] == days
    assert sorted(set(said[:there])) == days


def test_the_most_telling_turn_comes_first_and_a_question_last(talks: MemForest) -> None:
    """Of one session a long statement leads, and what only asks does not; each says why it is there."""
    with talks as forest:
        found = forest.query("ana", "What did we talk about on 6 May?", top_k=3).evidence
    assert [one.quote for one in found][-1] == "Do you like walnut?"
    assert {one.why for one in found} == {"said in the time asked about"}


def test_what_happened_on_a_day_includes_what_was_told_of_it_later(tmp_path: Path) -> None:
    """A statement that tells of the day counts wherever it was said, and one said then about another day does not."""
    with MemForest(tmp_path, Config(embedder="none")) as forest:
        for day, text in (
            ("2024-03-04", "I went to Genoa on 12 January 2024."),
            ("2024-03-09", "I broke my wrist on 4 March 2024."),
            ("2024-03-20", "I bought a kettle."),
        ):
            forest.ingest_session(
                "ana", session_id=day, timestamp=day, turns=[{"speaker": "Ana", "text": text}]
            )
        asked = "What happened on 4 March 2024?"
        first = forest.query("ana", asked, reference_date="2024-06-01").evidence[0]
    assert first.quote == "I broke my wrist on 4 March 2024."


def test_time_filters_hold_for_sessions_too(talks: MemForest) -> None:
    """As of May, "the last time" is in May."""
    with talks as forest:
        found = forest.query("ana", "What did we discuss last time?", as_of="2024-05-31", top_k=1).evidence
    assert found[0].said.date().isoformat() == "2024-05-06"


@pytest.mark.parametrize(
    ("now", "given", "year"),
    [
        ("2031-09-01", None, 2024),  # the memory is of 2024: its own 6 May
        ("2024-06-20", None, 2024),
        ("2031-09-01", "2031-09-01", 2031),  # who gives a reference date means it
    ],
)
def test_a_day_without_a_year_is_the_last_one_of_the_memory(
    tmp_path: Path, talks: MemForest, now: str, given: str | None, year: int
) -> None:
    """Without a reference date "May 6th" is the memory's; with one it is relative to that."""
    talks.close()
    clock = FrozenClock(datetime.fromisoformat(f"{now}T12:00+00:00"))
    with MemForest(tmp_path, Config(embedder="none", clock=clock)) as forest:
        result = forest.query("ana", "What did we choose on May 6th?", reference_date=given)
    assert result.plan.start == datetime(year, 5, 6, tzinfo=timezone.utc)


def test_relative_and_uncovered_days_go_by_the_clock(tmp_path: Path, talks: MemForest) -> None:
    """The clock decides on "last week", and on a day of which no year lies in the memory."""
    talks.close()
    clock = FrozenClock(datetime(2031, 9, 1, 12, tzinfo=timezone.utc))
    with MemForest(tmp_path, Config(embedder="none", clock=clock)) as forest:
        starts = [
            forest.query("ana", f"What did we choose {when}?").plan.start
            for when in ("last week", "on August 8th")
        ]
    assert [start.year for start in starts if start] == [2031, 2031]


def test_years_back_keeps_the_day_and_skips_what_is_not_there() -> None:
    """29 February goes back to the last leap year that is covered."""
    leap = datetime(2028, 2, 29, tzinfo=timezone.utc)
    first, last = datetime(2019, 1, 1, tzinfo=timezone.utc), datetime(2025, 1, 1, tzinfo=timezone.utc)
    assert years_back(leap, 1, timezone.utc) is None
    assert latest_within(leap, datetime(2028, 3, 1, tzinfo=timezone.utc), first, last, timezone.utc) == 4
    assert latest_within(leap, None, last, last, timezone.utc) is None
    march = datetime(2027, 3, 1, tzinfo=timezone.utc)
    assert years_back(leap, 1, timezone.utc, ends=True) == march  # 28 February ends there in 2027
