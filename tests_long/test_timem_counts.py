"""The arithmetic of calendar trees: which memories sessions make, what each waits for, and what that costs."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

import timem_ledger
from calendar_tree.counts import LEVELS, RELEASED, Talk, Ways, ledger, memories_of, session_chain, talk_of
from locomo.conversations import read_conversations
from memforest.reading.periods import Unit, window_of

# Thursday; the week ends on Sunday, 3 March, the month on the day itself.
LEAP_DAY = date(2024, 2, 29)
FRIDAY = date(2024, 3, 1)


def day(offset: int) -> date:
    """Return a day so many after the leap day."""
    return LEAP_DAY + timedelta(days=offset)


def some_talk(seed: int, sessions: int = 40) -> list[Talk]:
    """Return sessions on random days of two years, some on one day, out of order."""
    drawn = random.Random(seed)
    return [Talk(day(drawn.randrange(700)), drawn.randrange(1, 20)) for _ in range(sessions)]


def test_a_session_is_cut_into_exchanges() -> None:
    """An odd last turn is an exchange of its own, or left out; a segment has so many exchanges, the last one fewer."""
    assert [Ways().segments(n) for n in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert [RELEASED.segments(n) for n in (1, 2, 3, 4)] == [0, 1, 1, 2]
    assert [Ways(segment=4).segments(n) for n in (1, 8, 9, 17)] == [1, 1, 2, 3]


def test_a_session_of_nothing_makes_nothing() -> None:
    """A session of one turn has no exchange for the released driver, and so no node at any level."""
    assert ledger([Talk(FRIDAY, 1)], RELEASED).memories == (0,) * LEVELS
    assert ledger([Talk(FRIDAY, 1)], Ways()).memories == (1,) * LEVELS
    assert ledger([], Ways()) == ((0,) * LEVELS, (0,) * LEVELS, 0, 0)


def test_the_released_scheduler_makes_a_cut_week_twice() -> None:
    """Up to the month's end, and in full; a week in a month once. Weeks in months do not overlap."""
    talk = [Talk(LEAP_DAY, 2), Talk(FRIDAY, 2), Talk(day(20), 2)]
    weeks = [one.window for one in memories_of(talk, RELEASED) if one.level == 4]
    monday = date(2024, 2, 26)
    assert weeks == [(monday, LEAP_DAY), (monday, date(2024, 3, 3)), (date(2024, 3, 18), date(2024, 3, 24))]
    inside = [one.window for one in memories_of(talk, Ways()) if one.level == 4]
    assert inside == [(monday, LEAP_DAY), (FRIDAY, date(2024, 3, 3)), weeks[2]]


def test_a_cut_week_without_sessions_at_its_end_is_still_made_twice() -> None:
    """The scheduler asks whether the window holds something, and both do; the month behind it has no node."""
    made = memories_of([Talk(LEAP_DAY, 2)], RELEASED)
    assert [one.level for one in made] == [1, 2, 3, 4, 4, 5]
    assert made[-1].children == (3,)
    assert ledger([Talk(LEAP_DAY, 2)], Ways()).memories == (1, 1, 1, 1, 1)


@each("seed", range(20))
def test_windows_are_those_of_the_calendar(seed: int) -> None:
    """As many days, weeks in months and months as the package's calendar has keys for the sessions."""
    talk = some_talk(seed)
    units: tuple[Unit, ...] = ("day", "week_of_month", "month")
    noons = [datetime(one.day.year, one.day.month, one.day.day, 12, tzinfo=timezone.utc) for one in talk]
    keys = tuple(len({window_of(noon, unit, timezone.utc).key for noon in noons}) for unit in units)
    assert ledger(talk, Ways()).memories[2:] == keys


@each("seed", range(5))
@each("name", timem_ledger.WAYS)
def test_the_tree_is_whole(seed: int, name: str) -> None:
    """Children lie one level below within the window, none is left out, and what is waited for comes before."""
    ways = timem_ledger.WAYS[name]
    made = memories_of(some_talk(seed), ways)
    told: set[int] = set()
    for at, one in enumerate(made):
        assert bool(one.children) == (one.level > 1)
        assert all(before < at for before in one.waits_for)
        for child in one.children:
            assert made[child].level == one.level - 1
            assert made[child].window[1] <= one.window[1]
        told.update(one.children)
    left = {at for at, one in enumerate(made) if one.level < LEVELS} - told
    counts = ledger(some_talk(seed), ways).memories
    if ways.weeks == "in-month":
        assert left == set()
        assert list(counts) == sorted(counts, reverse=True)
    else:  # a full week of which the second month has no session
        assert all(made[at].window[0].month != made[at].window[1].month for at in left)


@pytest.mark.parametrize("of", ["memories", "children"])
def test_history_ends_before(of: str) -> None:
    """At most three of the level, or of the one below, all of earlier windows; those of a segment are of its session."""
    ways = Ways(history_of="memories" if of == "memories" else "children")
    made = memories_of(some_talk(3), ways)
    below = 0 if of == "memories" else 1
    some = 0
    for one in made:
        assert len(one.history) <= 3
        assert set(one.history).isdisjoint(one.children)
        for at in one.history:
            some += 1
            assert made[at].level == one.level - below
            assert made[at].window[1] < one.window[0] or one.level < 3
    assert some > 20
    segments = [one for one in made if one.level == 1]
    assert all(made[at].window == one.window for one in segments for at in one.history)


def test_the_order_of_sessions_does_not_matter() -> None:
    """Sessions of other days in any order make the same memories."""
    talk = list({one.day: one for one in some_talk(4)}.values())
    shuffled = random.Random(1).sample(talk, len(talk))
    assert memories_of(shuffled, Ways()) == memories_of(talk, Ways())


def test_a_window_with_one_child_is_not_written() -> None:
    """With pass-through it costs nothing, waits for its child alone, and what is above it waits for as long as that."""
    talk = [Talk(LEAP_DAY, 4), Talk(day(40), 2), Talk(day(40), 2)]
    found = ledger(talk, Ways(pass_through=True))
    assert found.calls == (4, 1, 1, 0, 0)
    assert found.memories == (4, 3, 2, 2, 2)
    for one in memories_of(talk, Ways(pass_through=True)):
        assert one.is_written or (one.waits_for == one.children and len(one.children) == 1)


def test_chains() -> None:
    """Segments wait for the ones before, levels for the ones below and, in a backfill, for the windows before."""
    one = [Talk(LEAP_DAY, 10)]
    assert ledger(one, Ways())[2:] == (5 + 4, 5 + 4)
    assert ledger(one, Ways(history=(0,) * LEVELS))[2:] == (5, 5)
    assert ledger(one, Ways(history_of="children"))[2:] == (5, 5)
    assert ledger(one, Ways(pass_through=True))[2:] == (5 + 1, 5 + 1)
    months = [Talk(day(40 * at), 10) for at in range(6)]
    found = ledger(months, Ways())
    assert (found.chain, found.session_chain) == (5 + 1 + 1 + 1 + 6, 5 + 4)
    assert ledger(months, Ways(history_of="children")).chain == 5
    every_day = [Talk(day(at), 2) for at in range(28)]
    assert ledger(every_day, replace(Ways(), history=(3, 3, 3, 0, 0))).chain == 1 + 28 + 1 + 1 + 1


def test_a_session_that_comes_last_makes_what_is_above_it_anew() -> None:
    """Its chain has its own segments and one memory a level, whatever was there before."""
    made = memories_of([Talk(LEAP_DAY, 30), Talk(LEAP_DAY, 4)], Ways())
    sessions = [at for at, one in enumerate(made) if one.level == 2]
    assert [session_chain(made, at) for at in sessions] == [15 + 4, 2 + 4]


def locomo_file(folder: Path) -> Path:
    """Write a conversation of three turns before a month's end, two behind it, and two in a week that another end cuts."""
    chat = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_1_date_time": "11:50 pm on 29 February, 2024",
        "session_1": [{"speaker": "Ann", "dia_id": f"D1:{at}", "text": "so it is"} for at in range(3)],
        "session_2_date_time": "1:00 am on 1 March, 2024",
        "session_2": [{"speaker": "Bob", "dia_id": f"D2:{at}", "text": "so it was"} for at in range(2)],
        "session_3_date_time": "9:00 am on 30 April, 2024",
        "session_3": [{"speaker": "Bob", "dia_id": f"D3:{at}", "text": "so be it"} for at in range(2)],
    }
    path = folder / "talk.json"
    path.write_text(json.dumps([{"sample_id": "c-1", "conversation": chat, "qa": []}]), encoding="utf-8")
    return path


def test_a_conversation_is_read(tmp_path: Path) -> None:
    """A session counts for the day on which it begins."""
    talks = [talk_of(one) for one in read_conversations(locomo_file(tmp_path))]
    assert talks == [[Talk(LEAP_DAY, 3), Talk(FRIDAY, 2), Talk(date(2024, 4, 30), 2)]]


def test_the_ledger_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each way to make the tree, with its calls; files are named without their folders."""
    assert timem_ledger.main([str(locomo_file(tmp_path))]) == 0
    shown = capsys.readouterr().out
    rows = {line[:66].strip(): line[66:].split() for line in shown.splitlines()}
    assert rows["released"] == ["3", "3", "3", "4", "3", "16", "13", "+433.3%", "7", "6"]
    assert rows["weeks in months"][:6] == ["3", "3", "3", "3", "3", "15"]
    assert rows["all turns"][:8] == ["4", "3", "3", "3", "3", "16", "12", "+300.0%"]
    assert rows["all turns, pass-through"][:6] == ["4", "1", "0", "0", "0", "5"]
    assert "1 sessions have an odd last turn; 9 of 9 days, weeks and months have one child" in shown
    assert str(tmp_path) not in shown
