"""The benchmarks of the index hmem: what they count, what they compare, and whole runs on small talk."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.doubles import CountingChat

import hmem_calls
import hmem_recall
import hmem_score
from calendar_tree.table import Table
from calendar_tree.told import MEASURES, PIECES, Piece, Talked, tellable, walk
from exploring import missed
from exploring.apart import Apart
from exploring.shown import shown
from exploring.ways import ABLATIONS, BASE, DEFAULT, FORMS, PAPER, SCOPES, Way, named
from locomo import measures
from locomo.conversations import Conversation, Question
from memforest import Config, MemForest
from memforest.config import Explore
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


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    """Return a forest with the talk and its indexes."""
    with MemForest(tmp_path_factory.mktemp("talk"), Config(embedder=HashEmbedder(64))) as made:
        for one in talk().sessions:
            made.ingest_session("talk", one.session_id, one.turns, timestamp=one.timestamp)
        assert hmem_recall.prepared(made, [talk()], []) == ["flat", "hmem", "memforest"]
        yield made


def test_r_after_a_year() -> None:
    """To four digits, as eq. 2 has it by its appendix's numbers."""
    found = [round(one, 4) for one in hmem_score.r_of(365, hmem_score.TIMES)]
    assert dict(zip(hmem_score.TIMES, found, strict=True)) == {
        0: 0.3679,
        1: 0.4759,
        5: 0.5901,
        10: 0.6346,
        50: 0.7138,
    }


def test_t_of_pairs() -> None:
    """Between 0 and 1, and less the farther a memory is away."""
    found = {pair.name: hmem_score.t_of(pair) for pair in hmem_score.PAIRS}
    assert found["the same day"] == pytest.approx(1, abs=0.001)
    assert all(0 <= one <= 1 for one in found.values())
    far = [found[name] for name in ("the same day", "the day after", "a week later", "a year later")]
    assert far == sorted(far, reverse=True)


def test_the_first_pieces_are_counted_whatever_their_length() -> None:
    """Turns, sentences of memories, tokens, and how many are memories; fewer pieces than that are all there are."""
    line = "We painted the garden fence green."
    said = Talked(
        {"a": tellable(line), "b": (), **{str(n): () for n in range(9)}},
        {"a": 0, "b": 0, **{str(n): n for n in range(9)}},
    )
    pieces = [Piece(3000, (str(n),), (), "") for n in range(9)] + [
        Piece(7, (), (), line),
        Piece(5, ("b",), (), ""),
    ]
    found = dict(zip(MEASURES, walk(pieces, frozenset("ab"), said), strict=True))
    assert [found[f"found@{n}"] for n in PIECES[:3]] == [0.0, 0.5, 1.0]
    assert [found[f"tokens@{n}"] for n in PIECES[:3]] == [15_000, 27_007, 27_012]
    assert [found[f"memories@{n}"] for n in PIECES[:3]] == [0, 1, 1]
    assert found["found@50"] == found["found"] == 1.0
    assert found["found 2048"] == 0.0


def test_a_table_of_some_categories() -> None:
    """Has their questions alone, with the conversations that these are of."""
    table = Table([talk(), replace(talk(), id="more")], 7)
    for value in (1.0, 0.5, 0.0, 1.0, 1.0, 1.0):
        table.add("x", [value] * len(MEASURES))
    hops = table.of(1)
    assert hops.column("x", "found@20").tolist() == [0.5, 0.0, 1.0, 1.0]
    assert (hops.conversation.tolist(), hops.category.tolist()) == ([0, 0, 1, 1], [1, 1, 1, 1])
    assert table.of(1, 4).mean("x", "found@20") == table.mean("x", "found@20") == 75.0


def test_each_way_differs_by_its_own_switch() -> None:
    """Of Table 5 those that are options of the index; what the paper has figures for is asked."""
    changed = [
        name
        for way in (*ABLATIONS.values(), *SCOPES.values())
        for name in Explore.__dataclass_fields__
        if getattr(way.explore, name) != getattr(Explore(), name)
    ]
    assert Counter(changed) == Counter(["tree", "robustness", "follow_up", "known", *["scope"] * 4])
    assert {*ABLATIONS, *SCOPES, DEFAULT} >= set(PAPER)
    assert all(way.explore is not None and way.index == DEFAULT for way in FORMS.values())


def test_how_questions_are_taken_apart_is_counted() -> None:
    """By scope, without follow-ups; shares are of the sub-queries."""
    parts = [
        {"scope": "short", "text": "a", "interval": [None, None]},
        {"scope": "long", "text": "b"},
        {"scope": "long", "text": "c", "follows": "2"},
    ]
    made = Apart()
    made.add("q", {"explore": {"sub_queries": parts, "follow_ups": {"asked": 1, "refused": ["no anchor"]}}})
    assert (made.questions, made.taken_apart, made.scopes) == (1, 1, Counter(short=1, long=1))
    assert made.row("x") == "| x | 1 | 2 | 2.00 | 50.0 | 50.0 | 0.0 | 50.0 | 50.00 | 1 |"
    both = made + made
    assert (both.questions, both.timed, both.followed) == (2, 2, [("q", "c"), ("q", "c")])
    assert Apart().row("none").startswith("| none | 0 | 0 | 0.00 |")


def test_where_missed_turns_are() -> None:
    """By rank, with what led to them; a bin that is empty has no line."""
    one = missed.Missed(30, 5, led=True, near=False, word=True, beside=False, event=True)
    lost = replace(one, rank=0, base=0, led=False)
    assert missed.deepest(one) == (21, 50)
    assert missed.deepest(lost) is None
    assert missed.table([one, one, lost], 20) == [
        "| 21 to 50 | 2 | 100 | 0 | 100 | 0 | 100 | 100 |",
        "| nowhere | 1 | 0 | 0 | 100 | 0 | 100 | 0 |",
        "| all | 3 | 67 | 0 | 100 | 0 | 100 | 67 |",
    ]


def test_what_is_looked_at_of_a_missed_turn() -> None:
    """Its first piece, the words it shares but names and function words, and the turns beside it."""
    line = "We painted the garden fence green."
    said = Talked({"a": tellable(line), "b": ()}, {})
    pieces = [Piece(1, ("b",), (), ""), Piece(1, (), (), line), Piece(1, ("a",), (), "")]
    assert [missed.first_found(pieces, turn, said) for turn in "ab"] == [2, 1]
    assert missed.first_found(pieces[:1], "a", said) == 0
    assert missed.shares_a_word("What did Ana paint?", "I painted it", ["Ana"])
    assert not missed.shares_a_word("What did Ana say?", "Ana and the dog", ["Ana"])
    assert missed.neighbours(["a", "b", "c"]) == {
        "a": frozenset("b"),
        "b": frozenset("ac"),
        "c": frozenset("b"),
    }


def test_ways_are_asked(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question in every way."""
    monkeypatch.setattr(measures, "DRAWS", 20)
    monkeypatch.setattr(hmem_recall, "FIRST", 2)
    table = Table([talk()], 7)
    ways = {**named((BASE, DEFAULT)), "short": SCOPES["always short"]}
    apart = hmem_recall.ask_ways(table, ways, forest, [talk()])
    assert table.names() == [BASE, DEFAULT, "short"]
    assert {category: one.questions for category, one in apart.items()} == {4: 1, 1: 2}
    assert table.mean("short", "memories@50") == 0
    monkeypatch.setattr(hmem_recall, "FIRST", 20)
    assert all(
        line.count("|") == len(hmem_recall.HEAD) + 1 for line in hmem_recall.rows(table, table.names())
    )


def test_missed_turns_are_those_that_are_not_found(
    forest: MemForest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all pieces none is; with none every turn of a question of several hops is."""
    found, wanted = hmem_recall.missed_turns(forest, [talk()], Way(DEFAULT))
    assert (found, wanted) == ([], 3)
    monkeypatch.setattr(hmem_recall, "FIRST", 0)
    found, _ = hmem_recall.missed_turns(forest, [talk()], Way(DEFAULT))
    assert len(found) == 3
    assert all(one.rank >= 1 and one.base >= 1 and one.event for one in found)
    assert any(one.led for one in found)


def test_ways_and_profiles_are_shown_with_turns(forest: MemForest) -> None:
    """Each step and each line has turns of the talk behind it."""
    lines = list(shown(forest, talk()))
    assert lines[0] == "talk: Ana and Ben"
    profiles = [at for at, line in enumerate(lines) if line.startswith("  profile of")]
    assert [lines[at].split()[2] for at in profiles] == ["Ana,", "Ben,"]
    assert all(
        lines[at + 1].startswith("      D")
        for at, line in enumerate(lines[profiles[0] :], profiles[0])
        if line.startswith("    ") and not line.startswith("     ")
    )
    assert "      D1:2 Ben: My sister Lena lives in Oslo near the harbour 1." in lines


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
