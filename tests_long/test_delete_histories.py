"""Whatever was ingested, appended, replaced, corrected and deleted, in whatever order: the memory holds what is made of what remains."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Crasher
from tests_long.deletions import KINDS, random_target, stored
from tests_long.worlds import fast_config, file_of, rows

from memforest import AsyncMemForest, MemForest, UserMemory
from memforest.errors import CorrectionError, InputError, SessionConflictError
from memforest.records import ChunkOutcome, ExtractedFact

START = datetime(2023, 1, 1, 9, tzinfo=timezone.utc)
PEOPLE = ("Nora", "Tomas", "Ilse")
SAID = (
    "{who} works at {firm}.",
    "{who} lives in {city}.",
    "I bought a {thing} in {city}.",
    "I moved from {city} to {other}.",
    "I like {thing}s.",
    "{who} adopted {n} cats.",
)
"""Sentences that mean the same whatever stands before them."""
OF_ONESELF = [one for one in SAID if one.startswith("I ")]


DECIDED = ("update", "forget", "pin", "undo")


def sentence(random: Random, said: Sequence[str] = SAID) -> str:
    """Return something to say."""
    return random.choice(said).format(
        who=random.choice(("Gregor", "Fatima")),
        firm=random.choice(("Acme", "Initech")),
        city=random.choice(("Oslo", "Lisbon")),
        other=random.choice(("Kyoto", "Davis")),
        thing=random.choice(("guitar", "tent")),
        n=random.randint(2, 4),
    )


def session(random: Random, number: int, most: int = 6) -> list[dict[str, Any]]:
    """Return turns with ids of their own, of sentences that come again in other sessions."""
    turns = []
    for at in range(random.randint(1, most)):
        text = sentence(random)
        if random.random() < 0.5:  # two sentences about others may become one statement
            text += " " + sentence(random, OF_ONESELF)
        said = (START + timedelta(days=number, minutes=at)).isoformat()
        turns.append(
            {"speaker": PEOPLE[at % 2 + number % 2], "content": text, "timestamp": said, "id": f"t{at}"}
        )
    return turns


def what_is_held(folder: Path) -> dict[str, Any]:
    """Return turns, facts with where and how each was said, states and entities, by names alone."""
    path = file_of(folder)
    at = """(SELECT group_concat(s.session_id || ' ' || t.turn_id) FROM occurrence_turn x JOIN turn t ON t.id = x.turn
        JOIN session s ON s.id = t.session WHERE x.occurrence = o.id)"""
    return {
        "turns": rows(path, "SELECT s.session_id, t.turn_id, t.speaker, t.text, t.said_ms FROM turn t JOIN session s ON s.id = t.session"),
        "facts": rows(path, "SELECT fact_id, text, speaker, said_ms, start_ms, end_ms FROM fact"),
        "occurrences": rows(path, f"SELECT f.fact_id, coalesce(o.text, f.text), o.speaker, o.said_ms, {at} FROM occurrence o JOIN fact f ON f.id = o.fact"),
        "mentions": rows(path, f"SELECT f.fact_id, e.key, m.roles, {at} FROM mention m JOIN fact f ON f.id = m.fact JOIN entity e ON e.id = m.entity JOIN occurrence o ON o.id = m.occurrence"),
        "states": rows(path, f"SELECT e.key, s.attribute, s.value, s.change, s.at_ms, f.fact_id, {at} FROM state s JOIN entity e ON e.id = s.entity JOIN fact f ON f.id = s.fact JOIN occurrence o ON o.id = s.occurrence"),
        "relations": rows(path, f"SELECT s.key, r.label, t.key, f.fact_id, {at} FROM relation r JOIN entity s ON s.id = r.source JOIN entity t ON t.id = r.target JOIN fact f ON f.id = r.fact JOIN occurrence o ON o.id = r.occurrence"),
        "names": rows(path, f"SELECT e.key, coalesce(n.name, e.label), f.fact_id, {at} FROM mention m JOIN fact f ON f.id = m.fact JOIN entity e ON e.id = m.entity JOIN occurrence o ON o.id = m.occurrence LEFT JOIN name_use n ON n.occurrence = o.id AND n.entity = e.id WHERE m.roles != 1"),
        "entities": rows(path, "SELECT key, kind = 'participant' FROM entity"),
    }  # fmt: skip


def remaining(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the sessions that are left, as they could be ingested."""
    found: dict[str, list[dict[str, Any]]] = {}
    sql = "SELECT s.session_id, t.ordinal, t.turn_id, t.speaker, t.text, t.said_ms FROM turn t JOIN session s ON s.id = t.session"
    for session_id, _, turn_id, speaker, text, said_ms in rows(file_of(folder), sql):
        said = datetime.fromtimestamp(said_ms / 1000, timezone.utc).isoformat()
        found.setdefault(session_id, []).append(
            {"speaker": speaker, "content": text, "timestamp": said, "id": turn_id}
        )
    return found


def decide(random: Random, memory: UserMemory, folder: Path, kind: str) -> None:
    """Correct something, or take a correction back; what cannot be, such as correcting what is hidden, is refused."""
    column = "SELECT key FROM correction" if kind == "undo" else "SELECT fact_id FROM fact"
    found = sorted(rows(file_of(folder), column))
    if not found:
        return
    [chosen] = random.choice(found)
    with suppress(CorrectionError, InputError):
        if kind == "update":
            memory.update(chosen, sentence(random))
        else:
            {"forget": memory.forget, "pin": memory.pin, "undo": memory.undo}[kind](chosen)


def undo_all(memory: UserMemory, folder: Path) -> None:
    """Take every correction back that holds, the last one first."""
    sql = "SELECT made_ms, id, key FROM correction WHERE undone_ms IS NULL"
    for _, _, key in sorted(rows(file_of(folder), sql), reverse=True):
        memory.undo(key)


def take_step(random: Random, forest: MemForest, folder: Path, step: int) -> str:
    """Do something to a memory, and return what."""
    number, memory = random.randrange(5), forest.user("u")
    kind = random.choice(("ingest", "ingest", "replace", "append", "flush", *DECIDED, *KINDS))
    if kind in ("ingest", "replace"):
        with suppress(SessionConflictError):
            forest.ingest_session("u", f"s{number}", session(random, number), replace=kind == "replace")
    elif kind == "append":
        # In some sessions it is said after all corrections were made.
        said = (START + timedelta(days=number + (900 if number % 2 else 9), minutes=step)).isoformat()
        text = f"{sentence(random)} I like tent {step}."
        turn = {"speaker": "Nora", "content": text, "timestamp": said, "id": f"a{step}"}
        memory.add(turn, session_id=f"s{number}")
    elif kind == "flush":
        forest.flush()
    elif kind in DECIDED:
        decide(random, memory, folder, kind)
    elif target := random_target(random, memory, folder, kind):
        counted = memory.delete(**target, dry_run=True)
        assert memory.delete(**target).counts() == counted.counts()
    return kind


def test_any_history_ends_like_a_memory_of_what_remains(tmp_path: Path, soak_seed: int) -> None:
    """Turns, facts by identity with their occurrences, mentions, states and entities; trees and verdicts by `verify`."""
    random, folder = Random(soak_seed + 7), tmp_path / "grown"
    with MemForest(folder, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s0", session(random, 0))
        for step in range(28):
            kind = take_step(random, forest, folder, step)
            if step % 4 == 3:
                report = forest.user("u").verify()
                assert report.ok, (step, kind, report.problems)
        forest.flush()
        undo_all(forest.user("u"), folder)
        assert forest.user("u").verify().ok
    left = remaining(tmp_path / "grown")
    with MemForest(tmp_path / "fresh", fast_config(chunk_turns=1)) as forest:
        forest.register_user("u")
        for session_id, turns in left.items():
            forest.ingest_session("u", session_id, turns)
    grown, fresh = what_is_held(tmp_path / "grown"), what_is_held(tmp_path / "fresh")
    for name in grown:
        assert grown[name] == fresh[name], name


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """Return the process that forks and kills."""
    if sys.platform == "win32":
        pytest.skip("needs fork")
    made = Crasher()
    yield made
    made.close()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_the_middle_it_is_done_or_not_begun(
    tmp_path: Path, crasher: Crasher, kind: str, moment: str
) -> None:
    """Never half: before its commit all is as it was; behind it the rows are gone, and deleting again finds nothing."""
    random = Random(f"{kind} {moment}")
    with MemForest(tmp_path, fast_config()) as forest:
        for number in range(4):
            forest.ingest_session("u", f"s{number}", session(random, number))
        target = random_target(random, forest.user("u"), tmp_path, kind)
        if kind == "window":
            target = {"during": (START.isoformat(), (START + timedelta(days=1)).isoformat())}
        expected = forest.user("u").delete(**target or {}, dry_run=True)
    before, turns = what_is_held(tmp_path), stored(tmp_path)
    ended, writes = crasher.delete(str(tmp_path), target or {}, at=0, moment=moment)
    assert (ended, writes) == (9, 1)
    with MemForest(tmp_path, fast_config()) as forest:
        forest.resume("u")
        assert forest.user("u").verify().ok
        if moment == "before":
            assert what_is_held(tmp_path) == before
            done = forest.user("u").delete(**target or {})
            said = ("sessions", "turns", "chunks", "facts", "occurrences", "mentions", "states", "entities")
            assert [done.gone[layer] for layer in said] == [expected.gone[layer] for layer in said]
        else:
            assert len(turns) - len(stored(tmp_path)) == expected.gone["turns"]
            assert len(before["facts"]) - len(what_is_held(tmp_path)["facts"]) == expected.gone["facts"]
            assert forest.user("u").verify().ok


class Slow:
    """An extractor that waits until it is told to go on."""

    name = "slow@1"

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def extract(self, chunks: Any) -> list[ChunkOutcome]:
        """Return each turn as a statement that repeats what was read before it."""
        self.begun.set()
        await self.go_on.wait()
        return [
            ChunkOutcome(
                candidates=tuple(
                    ExtractedFact(
                        " ".join(one.text for one in (*chunk.before, turn)),
                        (turn.ordinal,),
                        turn.speaker,
                        turn.text,
                    )
                    for turn in chunk.turns
                )
            )
            for chunk in chunks
        ]


@pytest.mark.parametrize("target", [{"session_id": "s"}, {"turn": ("s", "t0")}, {"turn": ("s", "t1")}])
def test_what_is_deleted_while_it_is_ingested_does_not_come_back(
    tmp_path: Path, target: dict[str, Any]
) -> None:
    """Another process deletes between the storing of the turns and the commit of what was read of them: that is not written."""
    turns = [
        {"id": f"t{n}", "speaker": "Ana", "content": text, "timestamp": START + timedelta(minutes=n)}
        for n, text in enumerate(("Zoltan came.", "Quixotic weather.", "I like tea."))
    ]
    word = {"t0": "zoltan", "t1": "quixotic"}[target.get("turn", ("s", "t0"))[1]]

    async def run() -> None:
        slow = Slow()
        config = fast_config(extractor=slow, chunk_turns=1)
        async with AsyncMemForest(tmp_path, config) as forest:
            ingest = asyncio.ensure_future(forest.ingest_session("u", "s", turns))
            await slow.begun.wait()
            program = (
                "import sys, json; from memforest import MemForest, Config; from memforest.models import HashEmbedder\n"
                "forest = MemForest(sys.argv[1], Config(embedder=HashEmbedder(32)))\n"
                "forest.user('u').delete(**json.loads(sys.argv[2])); forest.close()"
            )
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, str(tmp_path), json.dumps(target)
            )
            assert await process.wait() == 0
            slow.go_on.set()
            with pytest.raises(SessionConflictError):
                await ingest
            await forest.resume("u")
            report = await forest.user("u").verify(deleted=[word])
            assert report.ok, report.problems

    asyncio.run(run())
