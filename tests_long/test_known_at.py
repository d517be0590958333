"""A memory as it was at a moment: what had been said by then, and what it held by then.

The promise is told by a second memory, in which the history ends at that moment: both hold the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, make_sessions, said

from memforest import MemForest, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.testing import FrozenClock

START = "2024-06-01T12:00:00+00:00"
FEW = 3
QUESTIONS = (
    "Where does Ana live now?",
    "Where did Melanie live before Oslo?",
    "Who works at Acme?",
    "a red car in Kyoto",
    "When did Bob go to Lisbon?",
)
GROWN = ("memforest", "segtree")
"""Indexes whose trees grow otherwise when more comes."""
NAMES = ("Ana", "Bob", "Carla Díaz", "Melanie")

Step = Callable[[MemForest], object]
"""One verb of a history; deletions and corrections are further ones."""


def steps(seed: int) -> list[Step]:
    """Return a random history: sessions in any order, whole, in parts that grow, and turn by turn."""
    random, found = Random(seed), list[list[Step]]()
    for session_id, turns in make_sessions(seed, sessions=5):
        way = random.randrange(3)
        if way == 0:
            found.append([ingest(session_id, turns)])
        elif way == 1:
            cuts = sorted({random.randint(1, len(turns)), len(turns)})
            found.append([ingest(session_id, turns[:cut]) for cut in cuts])
        else:
            found.append([add(session_id, turn) for turn in turns])
    random.shuffle(found)
    # Two histories at a time are told in turns.
    return [
        step for pair in zip(found[::2], [*found[1::2], []], strict=False) for step in _merged(random, *pair)
    ]


def _merged(random: Random, one: list[Step], other: list[Step]) -> list[Step]:
    left, made = [list(one), list(other)], []
    while any(left):
        made.append(random.choice([part for part in left if part]).pop(0))
    return made


def ingest(session_id: str, turns: Sequence[Any]) -> Step:
    """Return a step that ingests a session, or what it has grown by."""
    return lambda forest: forest.ingest_session("u", session_id, turns)


def add(session_id: str, turn: Any) -> Step:
    """Return a step that appends one turn."""
    return lambda forest: forest.user("u").add([turn], session_id=session_id)


def run(folder: Path, history: Sequence[Step]) -> tuple[MemForest, list[str]]:
    """Return a forest in which a history has happened, and the time after each step."""
    clock = FrozenClock(START)
    forest = MemForest(folder, fast_config(clock=clock, indexes=GROWN))
    times = []
    for step in history:
        clock.advance(hours=1)
        step(forest)
        times.append(clock().isoformat())
    return forest, times


def facts_of(memory: UserMemory, **when: Any) -> list[dict[str, Any]]:
    """Return all facts, as plain values without their ids: a fact of a moment has that of now."""
    return [{**fact.to_dict(), "fact_id": ""} for fact in memory.list(limit=1000, **when)]


def lines_of(memory: UserMemory, **when: Any) -> dict[str, Any]:
    """Return the timelines of everybody; None of whom nothing is known."""
    found: dict[str, Any] = {}
    for name in NAMES:
        try:
            found[name] = [{**entry.to_dict(), "fact_ids": []} for entry in memory.timeline(name, **when)]
        except NotFoundError:
            found[name] = None
    return found


def evidence_of(memory: UserMemory, question: str, index: str, **when: Any) -> list[tuple[Any, ...]]:
    """Return what is found for a question, all of it, in order."""
    found = memory.search(question, top_k=1000, index=index, reference_date="2025-01-01", **when)
    return [
        (
            one.text,
            one.kind,
            one.said,
            one.start,
            one.end,
            one.sources if index not in GROWN else tuple(sorted(map(str, one.sources))),
            one.statement,
            round(one.score, 9),
        )
        for one in found
    ]


def same(memory: UserMemory, other: UserMemory, **when: Any) -> None:
    """Check that a memory of a moment holds what another one holds."""
    assert facts_of(memory, **when) == facts_of(other)
    assert lines_of(memory, **when) == lines_of(other)
    for question in QUESTIONS:
        for index in ("flat", "facts"):
            assert evidence_of(memory, question, index, **when) == evidence_of(other, question, index)
        for index in GROWN:  # of these the order may differ, and which summaries there are
            found, there = evidence_of(memory, question, index, **when), evidence_of(other, question, index)
            told = (
                slice(2) if index == "segtree" else slice(-1)
            )  # a fact may be shown at another turn that says it
            assert {one[told] for one in found if one[1] != "memory"} == {
                one[told] for one in there if one[1] != "memory"
            }


@pytest.mark.parametrize("seed", range(FEW))
def test_what_was_known_is_what_a_memory_holds_that_ends_there(tmp_path: Path, seed: int) -> None:
    """Facts, states and evidence, by every index; asked in any order."""
    history = steps(seed)
    forest, times = run(tmp_path / "whole", history)
    with forest:
        random = Random(seed)
        for end in random.sample(range(len(history)), min(4, len(history))):
            other, _ = run(tmp_path / f"until {end}", history[: end + 1])
            with other:
                same(forest.user("u"), other.user("u"), known_at=times[end])


@pytest.mark.parametrize("seed", range(FEW))
def test_what_had_been_said_is_what_a_memory_was_told_that_ends_there(tmp_path: Path, seed: int) -> None:
    """Whole sessions, in whatever order they were ingested."""
    sessions = make_sessions(seed, sessions=6)
    ends = sorted(turns[-1]["timestamp"] for _, turns in sessions)
    forest, _ = run(tmp_path / "whole", [ingest(*one) for one in sessions])
    with forest:
        for number, end in enumerate(ends):
            until = [(name, turns) for name, turns in sessions if turns[-1]["timestamp"] <= end]
            if any(turns[0]["timestamp"] <= end < turns[-1]["timestamp"] for _, turns in sessions):
                continue
            # The same stored times, so that nothing else differs.
            other, _ = run(
                tmp_path / f"{number}", [ingest(*one) if one in until else bool for one in sessions]
            )
            with other:
                same(forest.user("u"), other.user("u"), said_by=end)


def test_a_session_is_cut_where_it_was(tmp_path: Path) -> None:
    """In the middle of a chunk too: a later answer is not among the sources."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Davis.", "I moved to Miami.", "I moved to Oslo."))
        memory = forest.user("u")
        when: Any = {"said_by": "2023-05-01T10:01:00Z"}
        assert [fact.text for fact in memory.list(**when)] == ["I live in Davis.", "I moved to Miami."]
        assert [line.value for line in memory.timeline("Ana", **when)] == ["Davis", "Miami"]
        found = memory.search("Where does Ana live now?", **when)
        assert (found.evidence[0].text, found.evidence[0].end) == ("I moved to Miami.", None)
        assert {one.text for one in found} == {"I live in Davis.", "I moved to Miami."}
        assert "Miami" in str(memory.ask("Where does Ana live?", **when).answer)
        assert memory.search("Where does Ana live now?").evidence[0].text == "I moved to Oslo."


@pytest.fixture
def told_twice(tmp_path: Path) -> MemForest:
    """A memory that learns in June that Ana lives in Davis, and in July that she had moved to Miami in May."""
    clock = FrozenClock("2024-06-10T00:00:00+00:00")
    forest = MemForest(tmp_path, fast_config(clock=clock))
    forest.ingest_session("u", "june", [turn("I live in Davis.", "2024-01-05T00:00:00Z")])
    clock.set("2024-07-10T00:00:00+00:00")
    forest.ingest_session("u", "july", [turn("I moved to Miami.", "2024-05-01T00:00:00Z")])
    return forest


def turn(text: str, at: str) -> dict[str, str]:
    """Return one turn of Ana."""
    return {"speaker": "Ana", "content": text, "timestamp": at}


def test_as_of_and_known_at_are_two_axes(told_twice: MemForest) -> None:
    """What was so in June, as it was known in June and as it is known in July."""
    with told_twice as forest:
        memory, june = forest.user("u"), "2024-06-15T00:00:00Z"

        def homes(**when: Any) -> list[str]:
            return [fact.text for fact in memory.list(**when)]

        assert homes(as_of=june) == ["I moved to Miami."]
        assert homes(as_of=june, known_at=june) == ["I live in Davis."]
        assert homes(as_of="2024-03-01", known_at=june) == homes(as_of="2024-03-01") == ["I live in Davis."]
        assert homes(known_at=june, said_by="2023-12-01") == []
        assert homes(during=("2024-06-01", "2024-06-30"), known_at=june) == ["I live in Davis."]
        [line] = memory.timeline("Ana", known_at=june)
        assert (line.value, line.end) == ("Davis", None)
        assert memory.search("Where does Ana live now?", known_at=june).evidence[0].text == "I live in Davis."
        assert not memory.search("Where does Ana live now?", known_at="2024-06-01")
        with pytest.raises(NotFoundError):
            memory.timeline("Ana", known_at="2024-06-01")


def test_the_cut_comes_after_the_moment(told_twice: MemForest) -> None:
    """`top_k` pieces of what there was, however much came later that is more like the question."""
    with told_twice as forest:
        for number in range(30):
            forest.ingest_session("u", f"l{number}", [turn("Where I live is Oslo.", "2024-08-01T00:00:00Z")])
        found = forest.query("u", "Where does Ana live?", top_k=1, known_at="2024-06-15", explain=True)
        assert [one.text for one in found] == ["I live in Davis."]
        filters = found.trace["explain"]["filters"]
        assert (filters["turns"], str(filters["known_at"])[:10], filters["said_by"]) == (
            1,
            "2024-06-15",
            None,
        )


def test_deletions_since_are_counted(told_twice: MemForest) -> None:
    """Of what was held then, and not of what came and went later; search, ask, list and diff say so."""
    with told_twice as forest:
        memory, clock = forest.user("u"), forest._async._pool.config.clock
        assert isinstance(clock, FrozenClock)
        clock.set("2024-08-10T00:00:00+00:00")
        memory.delete(session_id="june")
        forest.ingest_session("u", "august", [turn("I like tea.", "2024-08-01T00:00:00Z")])
        clock.set("2024-08-15T00:00:00+00:00")
        memory.delete(session_id="august")
        when: Any = {"known_at": "2024-06-20"}
        told = "1 turn(s) and 1 statement(s) that this memory held then have been deleted since"
        assert any(told in one for one in memory.search("Davis", **when).warnings)
        assert any(told in one for one in memory.ask("Davis?", **when).result.warnings)
        assert any(told in one for one in memory.list(**when).warnings)
        assert any(told in one for one in memory.diff("2024-01-01", "2024-06-01", **when).warnings)
        assert not any("deleted" in one for one in memory.search("Davis").warnings)
        assert not any("deleted" in one for one in memory.search("Davis", known_at="2024-08-20").warnings)
        assert any(told in one for one in memory.search("Davis", known_at="2024-07-20").warnings)


def test_a_hidden_statement_is_hidden_while_it_was(told_twice: MemForest) -> None:
    """From the correction on until it is undone; `verdict` finds it meanwhile."""
    with told_twice as forest:
        memory, clock = forest.user("u"), forest._async._pool.config.clock
        assert isinstance(clock, FrozenClock)
        [davis, _] = memory.list()
        clock.set("2024-08-20T00:00:00+00:00")
        made = memory.forget(davis.fact_id)
        clock.set("2024-08-30T00:00:00+00:00")
        memory.undo(made.key)
        for day, shown in ((19, True), (20, False), (29, False), (30, True)):
            when: Any = {"known_at": f"2024-08-{day}T00:00:00Z"}
            assert len(memory.list(**when)) == 1 + shown
            hidden = [(one.text, one.verdict) for one in memory.list(verdict="forgotten", **when)]
            assert hidden == ([] if shown else [("I live in Davis.", "forgotten")])
            assert [one.value for one in memory.timeline("Ana", **when)] == ["Davis"] * shown + ["Miami"]
            assert any("Davis" in one.text for one in memory.search("Davis", **when)) == shown
