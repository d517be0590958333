"""Thirty small worlds: what was said, and what a careful reader would answer from it.

Each `worlds/*.toml` has worlds, and each world has turns and expectations: which turn is the first evidence of a question, which are
never evidence, what the evidence shows, what `ask` answers, which values a timeline has. They were written by reading, not
recorded from a run. An expectation with ``waits = 30`` is not met yet; issue 30 mends it, and the mark goes when it is.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, MemForest, QueryResult, UserMemory
from memforest.testing import FrozenClock

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NOW = "2026-06-01T12:00:00Z"
PASTE = "2026-05-30 11:0{0}:17 worker {0} of pool blue: request {1} took {1} ms, cache miss, retry in 3 s\n"

WORLDS: dict[str, dict[str, Any]] = {
    world["name"]: world
    for path in sorted((Path(__file__).parent / "worlds").glob("*.toml"))
    for world in tomllib.loads(path.read_text(encoding="utf-8"))["world"]
}
WAITING = [
    pytest.param(
        name,
        number,
        marks=pytest.mark.xfail(
            strict=True, raises=AssertionError, reason=f"issue {ask['waits']}: {world['about']}"
        ),
    )
    for name, world in WORLDS.items()
    for number, ask in enumerate(world["asks"])
    if "waits" in ask
]


@pytest.fixture(scope="module")
def forest() -> Iterator[MemForest]:
    """One forest with all worlds, a user each, with the embedder of the install."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MemForest(folder, Config(embedder="bge", clock=FrozenClock(NOW))) as made,
    ):
        told.cache_clear()
        yield made


@cache
def told(forest: MemForest, name: str) -> UserMemory:
    """Return the memory of a world, telling it at its first use; turns of one session go in together."""
    world = WORLDS[name]
    sessions: dict[str, list[dict[str, str]]] = {}
    for session, at, who, text in world["said"]:
        turns = sessions.setdefault(session, [])
        person = {"role": "assistant"} if who == "assistant" else {"role": "user", "speaker": who}
        turns.append({"id": f"{session}.{len(turns)}", "content": text, "timestamp": at, **person})
    forest.register_user(name, display_name=world["said"][0][2])
    for session, turns in sessions.items():
        forest.user(name).add(turns, session_id=session)
    return forest.user(name)


def missed(memory: UserMemory, ask: dict[str, Any]) -> list[str]:
    """Return what an expectation of a question misses, in words."""
    question = ask["q"]
    if "pasted" in ask:
        question = "".join(PASTE.format(n % 7, 100 + n) for n in range(ask["pasted"])) + "\n" + question
    options: dict[str, Any] = {name: ask[name] for name in ("as_of", "said_by") if name in ask}
    if "during" in ask:
        options["during"] = tuple(ask["during"])
    wrong = []
    if {"answer", "answer_not", "abstains"} & set(ask):
        wrong += _answered_wrongly(memory.ask(question, **options).answer, ask)
    return wrong + _found_wrongly(memory.search(question, **options), ask)


def _answered_wrongly(answer: str | None, ask: dict[str, Any]) -> list[str]:
    bad = [text for text in ask.get("answer_not", ()) if text in (answer or "")]
    if bad or ask.get("answer", "") not in (answer or "") or (ask.get("abstains") and answer is not None):
        return [f"answers {answer!r}"]
    return []


def _found_wrongly(found: QueryResult, ask: dict[str, Any]) -> list[str]:
    turns = [one.sources[0].turn_ids[0] for one in found.evidence]
    within = turns[: ask.get("within")]
    wrong = [f"{turn} is among {turns}" for turn in ask.get("never", ()) if turn in turns]
    if "first" in ask and turns[:1] != [ask["first"]]:
        wrong.append(f"first is {turns[:3]}, not {ask['first']}")
    if not set(ask.get("has", ())) <= set(within):
        wrong.append(f"the first are {within}")
    return wrong + (_shown_wrongly(found, ask) if turns else [])


def _shown_wrongly(found: QueryResult, ask: dict[str, Any]) -> list[str]:
    best, shows = found.evidence[0], ask.get("shows", "")
    wrong = [f"{bound} is {getattr(best, bound)}" for bound in ("start", "end")
             if bound in ask and getattr(best, bound) != _day(ask[bound])]  # fmt: skip
    if shows not in best.text or shows not in found.context():
        wrong.append(f"shows {best.text!r}, and as context {found.context(200)!r}")
    return wrong


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_is_read_as_a_careful_reader_would(forest: MemForest, name: str) -> None:
    """Evidence, answers, valid times, the order of turns and timelines of a world are those that were written down."""
    world, memory = WORLDS[name], told(forest, name)
    wrong = [
        f"{ask['q']} { ({key: ask[key] for key in ask if key != 'q'}) }: {problem}"
        for ask in world["asks"]
        if "waits" not in ask
        for problem in missed(memory, ask)
    ]
    if "order" in world:
        turns = [turn.id for session in memory.sessions() for turn in memory.turns(session.session_id)]
        if turns != world["order"]:
            wrong.append(f"turns are told as {turns}")
    for line in world.get("timelines", ()):
        values = [
            [entry.value, f"{entry.start:%Y-%m-%d}", f"{entry.end:%Y-%m-%d}" if entry.end else ""]
            for entry in memory.timeline(line["of"], attribute=line["attribute"])
        ]
        if values != line["values"]:
            wrong.append(f"the {line['attribute']} of {line['of']} is {values}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "number"), WAITING)
def test_what_a_world_still_waits_for(forest: MemForest, name: str, number: int) -> None:
    """An expectation that is not met yet; when it is, its `waits` goes."""
    assert not missed(told(forest, name), WORLDS[name]["asks"][number])


def test_every_world_verifies(forest: MemForest) -> None:
    """Nothing that these worlds say leaves a memory that contradicts itself."""
    failing = {name: report.problems for name in WORLDS if not (report := told(forest, name).verify()).ok}
    assert not failing
