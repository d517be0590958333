"""What a memory held at a moment, when what people have decided and merged since is not what held then.

The promise is told by a second memory, in which the history ends at that moment: both hold the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.testing import FrozenClock

START = "2024-06-01T12:00:00+00:00"
QUESTIONS = ("Where does Ana live?", "What does Ana drink?", "Who works at Acme?", "Where does Bob live?")

Step = Callable[[UserMemory], object]


def fact_with(memory: UserMemory, text: str, **how: Any) -> str:
    """Return the id of the fact that says a text."""
    return next(
        one.fact_id for one in memory.list(limit=1000, **how) if text in one.text + (one.statement or "")
    )


def undo(memory: UserMemory, text: str, verdict: str) -> object:
    """Undo the last correction of a hidden or pinned statement."""
    history = memory.history(fact_with(memory, text, verdict=verdict))
    return memory.undo(next(one.key or "" for one in list(history)[::-1] if one.kind == verdict))


def ingest(session_id: str, turns: Sequence[Any]) -> Step:
    """Return a step that stores a session."""
    return lambda memory: memory.add(turns, session_id=session_id)


HISTORY: Sequence[tuple[str, Step]] = (
    ("ingest", ingest("a", said("I live in Davis.", "I drink tea.", "I work at Acme."))),
    ("add", ingest("b", said("I live in Miami.", "I drink tea.", day=2))),
    ("forget", lambda m: m.forget(fact_with(m, "drink tea"))),
    ("update", lambda m: m.update(fact_with(m, "Acme"), text="Ana works at Initech.")),
    ("pin", lambda m: m.pin(fact_with(m, "Davis"))),
    ("again", ingest("c", said("I drink tea.", "I live in Oslo.", day=3))),
    ("undo the forgetting", lambda m: undo(m, "tea", "forgotten")),
    ("update again", lambda m: m.update(fact_with(m, "Initech"), text="Ana works at Globex.")),
    ("undo the pin", lambda m: undo(m, "Davis", "pinned")),
    ("forget Miami", lambda m: m.forget(fact_with(m, "Miami"))),
    ("merge", lambda m: m.merge("w")),
)


def run(folder: Path, steps: Sequence[tuple[str, Step]]) -> tuple[MemForest, list[str]]:
    """Return a forest in which a history has happened, and the time after each step."""
    clock = FrozenClock(START)
    forest = MemForest(
        folder,
        fast_config(
            clock=clock,
            indexes=("memforest", "segtree"),
            index_settings={"memforest": {"active_min_facts": 2}},
        ),
    )
    other, times = forest.user("w"), []
    other.add(said("I live in Lima.", "I drink coffee.", speaker="Bob", day=4), session_id="d")
    other.forget(fact_with(other, "coffee"))
    for _, step in steps:
        clock.advance(hours=1)
        step(forest.user("u"))
        times.append(clock().isoformat())
    return forest, times


def told(memory: UserMemory, **when: Any) -> dict[str, Any]:
    """Return all that a memory tells, but for the keys of corrections."""
    found: dict[str, Any] = {"facts": [one.to_dict() for one in memory.list(limit=1000, **when)]}
    for verdict in ("pinned", "forgotten", "corrected"):
        found[verdict] = [one.to_dict() for one in memory.list(limit=1000, verdict=verdict, **when)]
    found["timeline"] = [one.to_dict() for one in memory.timeline("Ana", **when)]
    found["diff"] = [one.to_dict() for one in memory.diff("2023-01-01", "2023-06-01", **when)]
    for question in QUESTIONS:
        for index in ("flat", "facts", "memforest", "segtree"):
            how: Any = {"index": index, "reference_date": "2025-01-01", **when}
            pieces = [
                (
                    one.text,
                    one.quote,
                    one.kind,
                    one.fact_id,
                    one.corrected,
                    one.pinned,
                    str(sorted(map(str, one.sources))),
                )
                for one in memory.search(question, top_k=1000, **how)
                if one.kind != "memory"
            ]
            # Trees grow otherwise when more comes, so of these the order may differ.
            found[f"{question} {index}"] = pieces if index in ("flat", "facts") else sorted(map(str, pieces))
        found[f"{question} ask"] = memory.ask(question, reference_date="2025-01-01", **when).answer
    return found


@pytest.mark.parametrize("end", range(1, len(HISTORY)))
def test_what_was_known_is_what_a_memory_holds_that_ends_there(
    whole: tuple[MemForest, list[str]], tmp_path: Path, end: int
) -> None:
    """Statements, verdicts, quotations, states, evidence and answers, after each step."""
    forest, times = whole
    other, _ = run(tmp_path, HISTORY[:end])
    with other:
        now, then = told(other.user("u")), told(forest.user("u"), known_at=times[end - 1])
        for what in now:
            assert then[what] == now[what], what


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The memory with all of the history."""
    forest, times = run(tmp_path_factory.mktemp("whole"), HISTORY)
    with forest:
        yield forest, times


def test_the_present_is_the_last_moment(whole: tuple[MemForest, list[str]]) -> None:
    """Nothing differs when nothing came later."""
    forest, times = whole
    assert told(forest.user("u"), known_at=times[-1]) == told(forest.user("u"))


def test_an_update_that_was_taken_back_is_warned_of(tmp_path: Path) -> None:
    """While it held, what it corrected is not shown; what it said is not kept, and a warning says so."""
    forest, times = run(tmp_path, [*HISTORY[:4], ("undo", lambda m: undo(m, "Acme", "corrected"))])
    with forest:
        memory = forest.user("u")
        for at, shown in zip(times[2:], (True, False, True), strict=True):
            found = memory.list(known_at=at)
            assert any("Acme" in one.text for one in found) == shown
            assert any("taken back since" in one for one in found.warnings) != shown
        assert not any("Acme" in one.text for one in memory.search("Who works at Acme?", known_at=times[3]))


def test_changes_tell_of_what_was_decided_and_merged(
    whole: tuple[MemForest, list[str]],
) -> None:
    """Each at the time of its verb, and what came by a merge at that of the merge."""
    forest, times = whole
    at = dict(zip((name for name, _ in HISTORY), times, strict=True))
    found = [
        (one.at.isoformat(), one.kind, one.what)
        for one in forest.user("u").changes(START, limit=1000)
        if one.kind in ("corrected", "undone")
    ]
    assert found == [
        (at["forget"], "corrected", "forget"),
        (at["update"], "corrected", "update"),
        (at["pin"], "corrected", "pin"),
        (at["undo the forgetting"], "undone", "forget"),
        (at["update again"], "corrected", "update"),
        (at["undo the pin"], "undone", "pin"),
        (at["forget Miami"], "corrected", "forget"),
        (at["merge"], "corrected", "forget"),
    ]
    brought = [one.session_id for one in forest.user("u").changes(at["merge"]) if one.kind == "stored"]
    assert brought == ["d"]
    memory = forest.user("u")
    assert next(one.kind for one in memory.changes(at["update"], at["pin"])) == "learnt"
