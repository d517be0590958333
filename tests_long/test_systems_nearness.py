"""Nearness to the days that a question asks about, and that a stated day binds."""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import Fact, Said, hand_made

from memforest import Config, MemForest
from memforest.records import QuestionPlan
from memforest.search.context_scores import nearness
from memforest.times import EARLIEST

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def window(start: float | None, end: float | None) -> QuestionPlan:
    """Return a plan with a window in days since 1970."""
    days = [None if day is None else EPOCH + timedelta(days=day) for day in (start, end)]
    return QuestionPlan(start=days[0], end=days[1])


def near(plan: QuestionPlan, *days: float) -> list[float]:
    """Return the nearness of turns said on the given days."""
    found: list[float] = nearness(
        hand_made([Said("Ana", day, session=n) for n, day in enumerate(days)]), plan
    ).tolist()
    return found


def test_beside_a_day_the_next_one_is_far_and_beside_a_month_it_is_near() -> None:
    """The fall is in proportion to the window, and the same before and after it."""
    inside, next_day, before = near(window(100, 101), 100.3, 101.01, 99.5)
    assert inside == 1.0
    assert next_day == before < 0.4
    inside, next_day, week = near(window(100, 130), 115, 130.5, 137)
    assert inside == 1.0
    assert next_day > 0.95
    assert week > 0.5


@given(st.integers(1, 400), st.floats(0, 30))
def test_nearness_falls_with_every_day_away(length: int, away: float) -> None:
    """Inside a window nothing is lost; a day further off is never nearer."""
    first, then, start = near(window(500, 500 + length), 500 + length + away, 501 + length + away, 500)
    assert start == 1.0 > first > then


def test_the_first_instant_of_a_day_belongs_to_it_and_the_last_does_not() -> None:
    """A window is half-open."""
    first, after = near(window(100, 101), 100, 101)
    assert first == 1.0 > after


def test_open_windows_fall_off_over_days() -> None:
    """A window that is open on one side has no length: what lies on its other side falls off over two weeks."""
    assert near(window(100, None), 5000, 100)[0] == 1.0
    soon, late = near(QuestionPlan(start=EARLIEST, end=EPOCH + timedelta(days=100)), 101, 160)
    assert 1.0 > soon > 0.8 > late


def test_a_dated_statement_counts_by_its_time_and_an_undated_one_by_its_day() -> None:
    """What was said on the day about another time is not of the day; what tells of the day later is."""
    turns = [Said("Ana", 100.5), Said("Ana", 100.5), Said("Ana", 300, session=2)]
    facts = [Fact((0,), start=40, end=41), Fact((1,)), Fact((2,), start=100, end=101)]
    other, same, later = nearness(hand_made(turns, facts), window(100, 101)).tolist()
    assert other < 0.01
    assert same == later == 1.0


def test_a_statement_about_a_year_says_little_about_a_day() -> None:
    """The longer the time that a statement tells, the less it tells of one day of it."""
    turns = [Said("Ana", 900), Said("Ana", 900)]
    facts = [Fact((0,), start=0, end=365), Fact((1,), start=98, end=105)]
    year, week = nearness(hand_made(turns, facts), window(182, 183)).tolist()[0], 1 / 7
    assert year == pytest.approx(1 / 365)
    assert nearness(hand_made(turns, facts), window(101, 102)).tolist()[1] == pytest.approx(week)


PLAIN = ("{} came out of the oven, baking calms me.", "Two trays of {} were baked by noon.")
LOUD = "I bake {0} because I love to bake, and what I bake I bake twice: {0}."
THINGS = ("rye loaves", "lemon tarts", "plum cakes", "seed rolls", "walnut bread", "cheese scones")
DAYS = ("{d} {m}", "{m} {d}th", "the {d}th of {m}", "{m} {d}, {y}")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stated_day_binds(tmp_path: Path, seed: int) -> None:
    """Of many like things told on neighbouring days, that of the day asked for comes first, though others say it louder."""
    draw, day, asked, sessions = random.Random(seed), datetime(2024, 1, 3, tzinfo=timezone.utc), [], []
    for n in range(60):
        day += timedelta(days=draw.choice([1, 1, 2, 3]))
        loud = draw.random() < 0.5
        text = (LOUD if loud else draw.choice(PLAIN)).format(draw.choice(THINGS))
        said = day + timedelta(hours=draw.randrange(7, 22))
        turns = [
            {"speaker": "Nina", "text": one}
            for one in draw.sample([text, "It rained.", "The bus was late."], 3)
        ]
        sessions.append({"user_id": "nina", "session_id": str(n), "timestamp": said, "turns": turns})
        if not loud and 4 <= day.day <= 20:
            when = draw.choice(DAYS).format(d=day.day, m=day.strftime("%B"), y=day.year)
            asked.append((f"What did I bake on {when}?", text, day.date()))
    assert len(asked) > 8
    with MemForest(tmp_path, Config(embedder="none")) as forest:
        forest.ingest_parallel(sessions)
        for question, told, on in asked:
            best = forest.query("nina", question, reference_date=day + timedelta(days=2), top_k=1).evidence[0]
            assert (best.quote, best.said.date()) == (told, on), question
