"""The tree of the timem index: which segments, sessions and windows there are, whatever happened before."""

from __future__ import annotations

import sys
import tempfile
import zoneinfo
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.timems import NAME, configured, nodes, shape_of, sound, tree, turns
from tests_long.worlds import fast_folder

from memforest import MemForest
from memforest.errors import ConfigError

START = datetime(2024, 2, 27, 9, tzinfo=timezone.utc)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"segment": 2},
    {"levels": ("segment", "session", "month"), "history_of": "memories"},
    {"levels": ("segment", "session", "day", "week", "month", "year"), "segment": 4},
)


def said(start: datetime, count: int, minutes: float = 1.0) -> list[dict[str, Any]]:
    """Return turns of two people who speak in turn."""
    return [
        {
            "speaker": ("Ana", "Bob")[at % 2],
            "content": f"I saw {at} herons on the lake.",
            "timestamp": (start + timedelta(minutes=minutes * at)).isoformat(),
        }
        for at in range(count)
    ]


def how(own: dict[str, Any]) -> dict[str, Any]:
    """Return what of the settings the shape of a tree depends on."""
    return {
        "segment": own.get("segment", 1),
        **({"levels": own["levels"]} if "levels" in own else {}),
    }


@pytest.fixture(name="folder")
def _folder() -> Any:
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield Path(made)


@pytest.mark.parametrize("own", SETTINGS, ids=str)
def test_a_tree_has_the_windows_that_hold_something(folder: Path, own: dict[str, Any]) -> None:
    """Sessions of 0 to 7 turns on days around a month's end, one past midnight, in an order that is not that of time."""
    with MemForest(folder, configured(own, timezone="Europe/Berlin")) as forest:
        starts = [0, 14, 24, 24 * 3 + 2, 24 * 6, 24 * 40, 24 * 400]
        for at in (3, 0, 5, 1, 6, 2, 4):
            forest.ingest_session("u", f"s{at}", said(START + timedelta(hours=starts[at]), at + 1, 30))
        memory = forest.user("u")
        sound(memory, folder, **how(own))
        again = tree(folder)
        memory.rebuild(index=NAME)
        assert tree(folder) == again


def test_a_session_past_midnight_is_of_the_day_it_starts_on(folder: Path) -> None:
    """And the day's interval covers it; the next day begins with the next session."""
    with MemForest(folder, configured()) as forest:
        forest.ingest_session("u", "late", said(START.replace(hour=23, minute=50), 6, 10))
        forest.ingest_session("u", "next", said(START + timedelta(days=1), 2))
        sound(forest.user("u"), folder)
    month = tree(folder)[4][0][4][0]
    days = month[4][0][4]
    assert [day[1] for day in days] == ["2024-02-27", "2024-02-28"]
    assert days[0][3] > datetime(2024, 2, 28, tzinfo=timezone.utc).timestamp() * 1000


def test_weeks_end_with_their_month(folder: Path) -> None:
    """29 February and 1 March 2024 are days of one ISO week, and of two weeks here."""
    with MemForest(folder, configured()) as forest:
        for day in (2, 3):
            forest.ingest_session("u", f"s{day}", said(START + timedelta(days=day), 2))
        sound(forest.user("u"), folder)
    months = tree(folder)[4][0][4]
    assert [(month[1], [week[1] for week in month[4]]) for month in months] == [
        ("2024-02", ["2024-02/2024-W09"]),
        ("2024-03", ["2024-03/2024-W09"]),
    ]


ZONES = sorted(zoneinfo.available_timezones())
JUMPS = (
    ("Asia/Beirut", datetime(2024, 3, 30, 20, tzinfo=timezone.utc)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 1, tzinfo=timezone.utc)),
    ("Pacific/Apia", datetime(2011, 12, 29, 8, tzinfo=timezone.utc)),
    ("Europe/Berlin", datetime(2024, 10, 26, 20, tzinfo=timezone.utc)),
    ("America/Los_Angeles", datetime(2024, 3, 10, 5, tzinfo=timezone.utc)),
)
"""Zones with the hours before a day of 23 or 25 hours, one that begins at 1 o'clock, one that was skipped."""


@pytest.mark.parametrize(("zone", "start"), JUMPS)
def test_days_of_another_length(folder: Path, zone: str, start: datetime) -> None:
    """A session each hour for two days: each is in one day, and days hold as many as they have hours."""
    with MemForest(folder, configured(timezone=zone)) as forest:
        for hour in range(48):
            forest.ingest_session("u", f"s{hour:02}", said(start + timedelta(hours=hour), 1), infer=False)
        sound(forest.user("u"), folder)


def test_any_zone_has_one_tree_whatever_the_order(folder: Path, soak_seed: int) -> None:
    """In many zones: sessions at random times, in any order, some that grow, have the windows that calendar and zone say."""
    random = Random(f"zones {soak_seed}")
    many = 12 if soak_seed < 3 else 60
    for number, zone in enumerate(random.sample(ZONES, many)):
        config = configured(random.choice(SETTINGS), timezone=zone)
        own = dict(config.index_settings[NAME])  # type: ignore[call-overload]
        begin = datetime(
            random.randint(1970, 2037), random.randint(1, 12), random.randint(1, 28), tzinfo=timezone.utc
        )
        with MemForest(folder / str(number), config) as forest:
            for at in random.sample(range(8), 8):
                start = begin + timedelta(hours=at * 13, minutes=random.randint(0, 700))
                forest.ingest_session("u", f"s{at}", said(start, random.randint(1, 6), 20), infer=False)
            sound(forest.user("u"), folder / str(number), **how(own))


def test_a_session_that_grows_by_single_turns(folder: Path) -> None:
    """Each makes a segment, or completes one."""
    with MemForest(folder, configured()) as forest:
        memory = forest.user("u")
        for one in said(START, 7):
            memory.add(one, session_id="s")
            sound(memory, folder)


def test_what_is_deleted_leaves_what_was_said_before_it_as_it_is(folder: Path) -> None:
    """The turns behind it in its session are paired anew, as if it had never been said; no other segment changes."""
    with MemForest(folder, configured()) as forest:
        forest.ingest_session("u", "s", said(START, 8))
        forest.ingest_session("u", "t", said(START + timedelta(days=1), 2))
        memory = forest.user("u")
        memory.advance()
        names = [one.turn for one in turns(folder) if one.session == "s"]
        before = {one[2:] for one in nodes(tree(folder, texts=True)) if one[0] < 2}
        memory.delete(turn=("s", names[3]))
        sound(memory, folder)
        after = nodes(tree(folder, texts=True))
        assert [one[4] for one in after if one[0] == 0][:4] == [
            (names[0], names[1]),
            (names[2], names[4]),
            (names[5], names[6]),
            (names[7],),
        ]
        kept = [one for one in after if one[0] < 2 and one[2:] in before]
        assert [one[4] for one in kept] == [(names[0], names[1]), ("0", "1")], (
            "both sessions followed what went"
        )
        forest.delete_session("u", "s")
        sound(memory, folder)
        forest.delete_session("u", "t")
        assert tree(folder) == () == shape_of(turns(folder), "UTC")


@each(
    ("own", "message"),
    [
        ({"levels": ("segment", "day")}, "levels"),
        ({"levels": ("segment", "session", "month", "day")}, "in this order"),
        ({"levels": ("segment", "session", "decade")}, "levels"),
        ({"history": (3, 3)}, "one for each of the 5 levels"),
        ({"segment": 0}, "segment"),
        ({"history_of": "dreams"}, "history_of"),
    ],
)
def test_a_wrong_setting_is_refused(own: dict[str, Any], message: str) -> None:
    """With its name, before a file is opened."""
    with pytest.raises(ConfigError, match=message):
        MemForest("nowhere", configured(own))
