"""The benchmarks of calendar trees through the index: its calls are those of the arithmetic, and whole runs print their tables."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

import timem_ledger
import timem_manifold
from calendar_tree.counts import RELEASED, Ways, ledger, talk_of
from calendar_tree.double import Counting
from calendar_tree.manifold import Manifold
from calendar_tree.through import backfilled, grown, settings_of
from locomo.conversations import Conversation, Question
from memforest.importers import FileSession
from memforest.models import HashEmbedder
from memforest.read.stored import TreeView
from memforest.times import from_ms

TOPICS = (
    "The blue kayak was out on the cold lake",
    "A loaf of sour bread came out of the oven",
    "My old telescope showed the moon",
    "Our quiet chess club met",
)
INSIDE = replace(RELEASED, weeks="in-month")


def talk(seed: int = 1, sessions: int = 4, most: int = 7) -> Conversation:
    """Return a conversation of sessions on days of three months, one of them cut by a week, with questions."""
    drawn = random.Random(seed)
    days = sorted(drawn.sample(range(1, 80), sessions))
    found = []
    for number, day in enumerate(days, 1):
        turns = tuple(
            {
                "speaker": ("Ana", "Ben")[at % 2],
                "dia_id": f"D{number}:{at + 1}",
                "text": f"{drawn.choice(TOPICS)} {number * 10 + at} times.",
            }
            for at in range(drawn.randrange(2, most))
        )
        month, of_month = divmod(day, 30)
        when = f"2024-{month + 1:02}-{min(of_month + 1, 28):02}T10:00:00Z"
        found.append(FileSession(f"session_{number}", turns, when))
    asked = tuple(
        Question(str(session.turns[0]["text"]), 1 + at % 4, frozenset({str(session.turns[0]["dia_id"])}))
        for at, session in enumerate(found)
    )
    return Conversation(f"c-{seed}", tuple(found), asked)


COMPARED = {
    "all turns": Ways(),
    "children": Ways(history_of="children"),
    "pass-through": Ways(history_of="children", pass_through=True),
    "segments of 2": Ways(segment=2, history_of="children", pass_through=True),
}


@each("name", COMPARED)
def test_the_index_calls_as_the_arithmetic_says(name: str) -> None:
    """The same calls on every level, nothing else, and nothing when it is asked once more; whether it grows or is added.

    What waits for one another comes one after the other, and not everything does.
    """
    ways, conversation = COMPARED[name], talk()
    wanted = ledger(talk_of(conversation), ways)
    assert wanted.calls[0] > wanted.calls[1] > 2
    for made in (grown, backfilled):
        found = made(conversation, ways, Counting(latency_s=0.02))
        assert found.calls == wanted.calls
        assert (found.others, found.again) == (0, 0)
        assert wanted.chain <= found.chain < wanted.total


def test_the_index_has_no_overlapping_weeks() -> None:
    """They are counted, and never made."""
    with pytest.raises(ValueError, match="overlap"):
        settings_of(RELEASED)


def test_the_ledger_through_the_index(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row has what the arithmetic says beside it, and the exit code whether they are one."""
    monkeypatch.setattr(timem_ledger, "read_conversations", lambda _: [talk(sessions=2, most=4)])
    monkeypatch.setattr(timem_ledger, "THROUGH", {"all turns": Ways(history_of="children")})
    assert timem_ledger.main(["tiny.json", "--index", "--latency-ms", "1", "--in-flight", "8"]) == 0
    shown = capsys.readouterr().out
    assert "all turns, grown" in shown
    assert "as counted" in shown
    monkeypatch.setattr(timem_ledger, "counted", lambda talks, ways: ledger([], ways))
    assert timem_ledger.main(["tiny.json", "--index", "--latency-ms", "0", "--in-flight", "8"]) == 1
    assert "NOT as counted" in capsys.readouterr().out


def node(level: int, summary: str, *children: TreeView) -> TreeView:
    """Return a node of a tree."""
    at = from_ms(0)
    return TreeView("", at, at, level, 1, summary, False, children)


def test_texts_are_taken_by_level() -> None:
    """The year has none, and a memory without a text has no vector."""
    tree = node(
        5, "", node(4, "May", node(3, "week", node(2, "  ", node(1, "talk", node(0, "one"), node(0, "two")))))
    )
    assert timem_manifold.texts_of([tree]) == [["one", "two"], ["talk"], [], ["week"], ["May"]]


def test_directions_are_compared_with_the_papers() -> None:
    """Of each measure whether it rises, falls or hardly changes, and what it does there."""
    first, last = Manifold(10, 70, 0.1, 0.3, 0.9, 0.9), Manifold(5, 10, 0.05, 2.0, 0.93, 0.8)
    ways = [line.split(" from ")[0].split()[1] for line in timem_manifold.directions([first, last])]
    papers = [line.split()[-1] for line in timem_manifold.directions([first, last])]
    assert ways == ["falls", "falls", "rises", "stays", "falls"]
    assert papers == ["falls", "rises", "rises", "falls", "falls"]
    assert "(70 to 10); in the paper" in timem_manifold.directions([first, last])[0]


def test_a_manifold_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each level, with as many memories as the arithmetic says."""
    conversations = [talk(1), talk(2), talk(3)]
    monkeypatch.setattr(timem_manifold, "read_conversations", lambda _: conversations)
    monkeypatch.setattr(timem_manifold, "open_embedder", lambda _: HashEmbedder(64))
    assert timem_manifold.main(["tiny.json", "--work", str(tmp_path)]) == 0
    rows = {line[:2]: line.split() for line in capsys.readouterr().out.splitlines()}
    wanted = timem_ledger.counted([talk_of(one) for one in conversations], Ways()).memories
    assert [int(rows[f"L{level}"][1]) for level in range(1, 6)] == list(wanted)
