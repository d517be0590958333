"""The trees of the index hmem: where events join, in any order of sessions, and what is above them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests_long import hmems
from tests_long.worlds import make_sessions
from tests_long.writing_double import Writer

from memforest import MemForest

START = datetime(2024, 1, 27, 9, tzinfo=timezone.utc)
TALK = (
    "I bought a red bicycle in the market.",
    "My red bicycle has a new bell.",
    "I painted the kitchen green.",
    "The kitchen is green now, and I like it.",
    "We went to Ghent by train.",
    "The train to Ghent was late.",
)


def said(session: int, lines: tuple[str, ...] = TALK) -> list[dict[str, Any]]:
    """Return the turns of a session, some days behind the one before."""
    start = START + timedelta(days=9 * session, hours=session)
    return [
        {
            "role": "user",
            "content": f"{line[:-1]} {session}.",
            "timestamp": (start + timedelta(minutes=at)).isoformat(),
        }
        for at, line in enumerate(lines)
    ]


def test_events_join_as_the_window_says(tmp_path: Path) -> None:
    """Whatever the order of the sessions, the trees are those of the order in which all was told."""
    with MemForest(tmp_path, hmems.configured({})) as forest:
        memory = forest.user("ana")
        for session in (0, 1, 2, 5, 3, 4):
            forest.ingest_session("ana", f"s{session}", said(session))
        found = hmems.sound(memory, tmp_path)
        sizes = [sum(level == one for level, _ in found) for one in range(4)]
        assert sizes[0] >= sizes[1] >= sizes[2] >= sizes[3] >= 1
        assert sizes[3] < sizes[0]


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_leave_what_the_statements_make(tmp_path: Path, seed: int) -> None:
    """Sessions come in any order, some again with other turns, some go: the trees are those of what is left, at each step."""
    random = Random(seed)
    with MemForest(tmp_path, hmems.configured()) as forest:
        memory = forest.user("ana")
        for name, turns in random.sample(made := make_sessions(seed, sessions=7), len(made)):
            forest.ingest_session("ana", name, turns)
            if random.random() < 0.4:
                forest.delete_session("ana", random.choice(memory.sessions()).session_id)
            if random.random() < 0.3 and (left := memory.sessions()):
                session = random.choice(left).session_id
                forest.delete_turn("ana", session, memory.turns(session)[0].id)
            found = hmems.sound(memory, tmp_path)
        assert found or not hmems.events(tmp_path)


def test_what_comes_late_moves_nothing_outside_of_its_windows(tmp_path: Path) -> None:
    """A statement of January that comes last leaves every node of other months as it was, and nobody tells these again."""
    writer = Writer()
    with MemForest(tmp_path, hmems.configured(summariser=writer, refresh="path")) as forest:
        for session in (1, 4, 7, 10, 13):
            forest.ingest_session("ana", f"s{session}", said(session))
        before = hmems.shape(tmp_path), hmems.texts(tmp_path)
        writer.counts()
        forest.ingest_session("ana", "late", said(0, ("An early bird sang on the roof.",)))
        after = hmems.sound(forest.user("ana"), tmp_path), hmems.texts(tmp_path)
        assert len(after[0]) > len(before[0])
        below = {node for node in before[0] if node[0] < 3}
        assert {node: after[0][node] for node in below} == {node: before[0][node] for node in below}
        assert {node: text for node, text in before[1].items() if after[1][node] != text}.keys() <= {
            node for node in before[1] if node[0] == 3
        }
        assert {one.level for one in writer.asked} <= {3}


@pytest.mark.parametrize(("days", "top"), [(3, 1), (6.9, 1), (7.1, 2), (29, 2), (31, 3)])
def test_levels_come_with_age(tmp_path: Path, days: float, top: int) -> None:
    """Below 7 days there are weeks, up to 30 months too, then years: from the first event to the last one, whatever the clock says."""
    with MemForest(tmp_path, hmems.configured(clock=lambda: START + timedelta(days=500))) as forest:
        forest.ingest_session("ana", "s0", said(0))
        assert {level for level, _ in hmems.shape(tmp_path)} == {0, 1, 4}
        forest.user("ana").advance()
        assert {level for level, _ in hmems.shape(tmp_path)} == {0, 1, 4}
        turn = {
            "role": "user",
            "content": "I met a heron.",
            "timestamp": (START + timedelta(days=days)).isoformat(),
        }
        forest.ingest_session("ana", "s1", [turn])
        assert {level for level, _ in hmems.sound(forest.user("ana"), tmp_path)} == {*range(top + 1), 4}
        forest.delete_session("ana", "s1")
        assert {level for level, _ in hmems.sound(forest.user("ana"), tmp_path)} == {0, 1, 4}


def test_a_tree_shows_windows_and_how_often_each_was_consolidated(tmp_path: Path) -> None:
    """What joins counts, and what is told again, whichever session came last."""
    with MemForest(tmp_path, hmems.configured({"schedule": (-1, -1, -1)})) as forest:
        forest.ingest_session("ana", "b", said(1))
        forest.ingest_session("ana", "a", said(0, TALK[:2]))
        forest.ingest_session("ana", "again", said(1)[:1])
        (tree,) = forest.user("ana").tree(index="hmem", depth=5)
        weeks = [week for month in tree.children for week in month.children]
        assert [(one.title, one.leaves) for one in weeks] == [
            ("week 2024-01/2024-W04, once", 2),
            ("week 2024-02/2024-W06, 6 times", 6),
        ]


def test_turns_can_be_events(tmp_path: Path) -> None:
    """Without extraction every turn is an event, and no statement is."""
    with MemForest(tmp_path, hmems.configured({"events": "turns"})) as forest:
        forest.ingest_session("ana", "s0", said(0), infer=False)
        forest.ingest_session("ana", "s1", said(1), infer=False)
        memory = forest.user("ana")
        hmems.sound(memory, tmp_path, kind="turns")
        assert memory.indexes()[0].counts["L1"] == 2 * len(TALK)
        forest.delete_turn("ana", "s0", "0")
        hmems.sound(memory, tmp_path, kind="turns")
        assert memory.indexes()[0].counts["L1"] == 2 * len(TALK) - 1


def test_without_an_embedder_there_are_no_trees_and_it_says_so(tmp_path: Path) -> None:
    """Events are joined by vectors."""
    with MemForest(tmp_path, hmems.configured(embedder=None)) as forest:
        forest.ingest_session("ana", "s0", said(0))
        assert hmems.shape(tmp_path) == {}
        assert any("no embedder" in note for note in forest.user("ana").stats().notes)
        assert forest.user("ana").verify().ok
