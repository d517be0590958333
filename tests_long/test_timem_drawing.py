"""`tree --index timem` and `stats`: windows by their names, and how many memories are written and how many wait."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_timem_profiles import Model
from tests_long.timems import configured

from memforest import MemForest
from memforest.cli.inspecting import draw_trees
from memforest.cli.screen import Screen
from memforest.errors import ModelError
from memforest.read.stored import TreeView
from memforest.records import SummaryRequest

NOW = datetime(2024, 6, 10, tzinfo=timezone.utc)
DAYS = ("2024-04-30", "2024-05-01", "2024-06-09")


def filled(folder: Path, own: Mapping[str, object] | None = None, **options: object) -> MemForest:
    """Return a forest with a session of two turns on each day."""
    forest = MemForest(folder, configured(own, clock=lambda: NOW, **options))
    for day in DAYS:
        turns = [{"speaker": who, "content": f"{who} lives in Davis."} for who in ("Ana", "Ben")]
        forest.ingest_session("u", f"talk of {day}", turns, timestamp=f"{day}T10:00:00Z")
    return forest


def below(view: TreeView) -> list[str]:
    """Return the names on the way down to the first leaf."""
    return [view.title, *(below(view.children[0]) if view.children else [])]


def test_a_tree_shows_the_calendar(folder: Path) -> None:
    """Year, month, week, day, session, segment, each with its name; windows with their key. A week is cut at the month's end."""
    with filled(folder) as forest:
        [root] = forest.user("u").tree(index="timem", depth=9)
    [year] = root.children
    april, may, june = year.children
    assert below(root) == [
        "calendar of all sessions",
        "year 2024",
        "month 2024-04",
        "week 2024-W18",
        "day 2024-04-30",
        "session talk of 2024-04-30",
        "segment",
    ]
    assert [one.children[0].title for one in (april, may)] == ["week 2024-W18"] * 2
    assert april.children[0].window != may.children[0].window
    session = may.children[0].children[0].children[0]
    assert (year.window, may.window, session.window) == ("2024", "2024-05", None)
    assert may.summary.startswith("## Ana"), "what has ended is written before it is shown"
    assert (june.summary, june.dirty, root.dirty) == ("", False, False), (
        "nothing is out of date of what is not written"
    )


def test_the_names_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal and into a pipe."""
    with filled(folder) as forest:
        found = forest.user("u").tree(index="timem", depth=9)
    draw_trees(Screen(laid_out=True), "u", found)
    drawn = capsys.readouterr().out
    draw_trees(Screen(laid_out=False), "u", found)
    records = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    for name in ("year 2024", "month 2024-05", "week 2024-W23", "day 2024-06-09"):
        assert name in drawn
        assert name in [row[1] for row in records]
    assert "out of date" not in drawn


def test_stats_count_memories(folder: Path) -> None:
    """Written, and waiting for their time or for a model that can."""

    class Failing(Model):
        async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
            return [
                ModelError("it is down") if one.window == "2024-05" else text
                for one, text in zip(requests, await super().summarise(requests), strict=True)
            ]

    model = Failing(dict.fromkeys(("2024-04", "2024-06"), "Lives in Davis."))
    with filled(folder, {"pass_through": False}, summariser=model) as forest:
        memory = forest.user("u")
        counted = []
        for force in (False, True):
            memory.advance(force=force)
            found = memory.stats().indexes["timem"]
            assert found["levels"] == {"segment": 3, "session": 3, "day": 3, "week": 3, "month": 3}
            counted.append(found["memories"])
    assert counted == [{"written": 13, "waiting": 2}, {"written": 14, "waiting": 1}], (
        "May, and June until it is forced"
    )
