"""The benchmarks of the index hmem: what they count, what they compare, and whole runs on small talk."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.doubles import CountingChat

import hmem_calls
from locomo.conversations import Conversation, Question
from memforest import Config, MemForest
from memforest.importers import FileSession
from memforest.models import HashEmbedder

TALK = (
    ("Ana", "I bought a red bicycle in the old market."),
    ("Ben", "My sister Lena lives in Oslo near the harbour."),
    ("Ana", "My red bicycle from the old market has a new bell."),
    ("Ben", "Lena repaired a wooden boat in Oslo last spring."),
)


def talk(sessions: int = 3) -> Conversation:
    """Return two people who say much the same in each session, with questions of two categories."""
    told = tuple(
        FileSession(
            f"session_{number}",
            tuple(
                {"speaker": who, "dia_id": f"D{number}:{at}", "text": f"{text[:-1]} {number}."}
                for at, (who, text) in enumerate(TALK, 1)
            ),
            f"2024-03-{2 * number:02}T10:00:00Z",
        )
        for number in range(1, sessions + 1)
    )
    return Conversation(
        "talk",
        told,
        (
            Question("What did Ana buy in the market?", 4, frozenset({"D1:1"})),
            Question("Where did Ben's sister repair a boat?", 1, frozenset({"D1:4", "D2:4"})),
            Question("What do Ana and Ben like?", 1, frozenset({"D1:2"})),
        ),
    )


def test_touched_parents_are_those_of_what_is_new_or_told_again() -> None:
    """A parent counts once for all its events, and what did not change does not count."""
    before = hmem_calls.Seen({10: (5, 0, 10), 11: (5, 0, 11)}, 2, 0)
    after = hmem_calls.Seen({10: (5, 1, 10), 11: (5, 0, 11), 12: (6, 0, 10)}, 2, 1)
    assert after.touched(before) == 1
    assert after.touched(None) == 2
    assert after.touched(after) == 0


def test_rarer_consolidations_are_fewer() -> None:
    """The same memories for fewer calls, each within its bound; told once, every memory that joins several is one call."""
    embedder = HashEmbedder(64)
    each = hmem_calls.consolidated("each", talk(6), embedder, 1)
    once = hmem_calls.consolidated("once", talk(6), embedder, 0)
    assert (each.events, each.memories) == (once.events, once.memories)
    assert once.calls == once.memories > 0
    assert once.calls < each.calls
    assert all(one.calls <= one.bound for one in (each, once))
    assert (each.writes, once.writes) == (6, 1)
    assert once.row(each.calls).endswith(f"| {100 * (1 - once.calls / each.calls):.1f} |")


def test_calls_of_a_question_with_a_follow_up(tmp_path: Path) -> None:
    """A plan, a call for the part, another one behind the follow-up, and the answer; one more would break it.

    The double finds no name, so that nothing is there to be put together, and the ordinary prompt answers.
    """
    double = CountingChat()
    config = Config(
        embedder=HashEmbedder(64),
        indexes=("hmem",),
        chat=double,
        chat_steps=("plan", "answer"),
        refresh="lazy",
    )
    with MemForest(tmp_path, config) as made:
        turns = [
            {"speaker": "Marit", "text": "My neighbour repaired the tandem."},
            {"speaker": "Odd", "text": "The name of Marit's neighbour is Ole."},
        ]
        made.ingest_session("u", "s", turns, timestamp="2024-03-02T10:00:00Z")
        question = Question("Who repaired the tandem?", 1, frozenset({"D1:1"}))
        found = hmem_calls.asked(made, double, question, "2024-03-03T10:00:00Z")
    assert (found.parts, found.follow_ups) == (1, 1)
    assert found.calls == Counter(hmem_plan=1, hmem_reason=2, answer=1)
    assert found.calls.total() == hmem_calls.calls_allowed(1, 1)
    assert found.is_kept
    assert not replace(found, follow_ups=0).is_kept


def test_extraction_is_not_asked_more_often_with_the_index() -> None:
    """The requests are the same ones; chunks are read side by side, so their order is open."""
    alone, beside = (
        hmem_calls.extracted(talk(1), HashEmbedder(64), one)
        for one in (("memforest",), ("memforest", "hmem"))
    )
    assert len(alone) > 0
    assert sorted(repr(one.messages) for one in alone) == sorted(repr(one.messages) for one in beside)
