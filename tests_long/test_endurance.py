"""What wears a memory out: very long sessions, very many of them, a clock that goes back, a disk that fills.

Sizes are small by default; `make test-long` runs the long ones.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import (
    CLOCK,
    differences,
    dump,
    eager_config,
    file_of,
    make_sessions,
)

from memforest import MemForest
from memforest.errors import MemForestError, StoreWriteError
from memforest.memory.memory import Memory
from memforest.memory.open import open_memory
from memforest.reading.steps import choose_steps
from memforest.write.turns import SessionInput

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
TURNS = 10_000 if LONG else 400
SESSIONS = 100_000 if LONG else 200
ROOM = 1_000_000
"""Pages, more than any test fills."""


def many_turns(count: int) -> list[dict[str, Any]]:
    """Return so many turns, a minute apart, no two alike."""
    said = [turn for _, turns in make_sessions(3, sessions=60, most_turns=12) for turn in turns]
    return [
        {
            "speaker": said[n % len(said)]["speaker"],
            "content": f"{said[n % len(said)]['content']} Note {n}.",
            "timestamp": 1_600_000_000 + 60 * n,
        }
        for n in range(count)
    ]


@pytest.mark.soak
def test_a_very_long_session_is_stored_appended_to_and_found(folder: Path) -> None:
    """Every turn is there; one more rewrites a few nodes, not the tree; the same again is no news."""
    turns = many_turns(TURNS)
    with MemForest(folder, eager_config(refresh="path")) as forest:
        assert forest.ingest_session("u", "long", turns).turns_added == TURNS
        more = forest.user("u").add("I moved to Kyoto.", session_id="long", timestamp=1_700_000_000)
        assert more.turns_added == 1
        stats = forest.user("u").stats()
        assert stats.turns == TURNS + 1
        assert stats.dirty_nodes == 0
        # Of thousands: which scenes a turn moves depends on what is said, not on how much.
        assert more.nodes_refreshed < 300
        assert forest.query("u", f"What was note {TURNS - 7}?").evidence[0].quote == turns[-7]["content"]
        assert forest.user("u").verify().ok


@pytest.mark.soak
def test_very_many_sessions_are_stored_listed_and_found(folder: Path) -> None:
    """One turn each; all are listed, the trees are drawn within their limit, and a known one is found."""
    turns = [
        {
            "speaker": "Ana",
            "content": f"I planted tree {n} near lake {n % 997}. Note {n}.",
            "timestamp": 1_600_000_000 + 600 * n,
        }
        for n in range(SESSIONS)
    ]
    with MemForest(folder, eager_config(embedder="none")) as forest:
        for n, turn in enumerate(turns):
            forest.ingest_session("u", f"s{n}", [turn], refresh=False)
        forest.resume("u")
        memory = forest.user("u")
        assert [session.session_id for session in memory.sessions()] == [f"s{n}" for n in range(SESSIONS)]
        stats = memory.stats()
        assert (stats.sessions, stats.turns, stats.dirty_nodes) == (SESSIONS, SESSIONS, 0)
        assert len(memory.tree(depth=9, limit=50)) <= 50
        found = forest.query("u", f"What was note {SESSIONS - 7}?").evidence[0]
        assert found.sources[0].session_id == f"s{SESSIONS - 7}"
        assert memory.verify().ok


@pytest.mark.parametrize("back", [timedelta(microseconds=1), timedelta(hours=2), timedelta(days=400)])
def test_a_clock_that_goes_back_loses_nothing(folder: Path, back: timedelta) -> None:
    """What is said live keeps its order within a session, is never before what was said there, and is all there."""
    now = [CLOCK]
    with MemForest(folder, eager_config(clock=lambda: now[0])) as forest:
        memory = forest.user("u")
        forest.register_user("u", display_name="Ana")
        for text, shift in (
            ("I live in Oslo.", 0 * back),
            ("I moved to Rome.", -back),
            ("I moved to Kyoto.", back / 2),
        ):
            now[0] = CLOCK + shift
            assert memory.add(text, session_id="chat").turns_added == 1
        (session,) = memory.sessions()
        assert session.turns == 3
        assert session.start == CLOCK
        states = [entry.value for entry in memory.timeline("Ana", attribute="residence")]
        assert states == ["Oslo", "Rome", "Kyoto"]
        now[0] = CLOCK - back
        assert (
            memory.add("I bought a tent.").turns_added == 1
        )  # a day's session of its own, or the one there is
        assert memory.stats().turns == 4
        assert memory.verify().ok


def opened(folder: Path) -> Memory:
    """Open the memory of "u" with its database at hand."""
    config = eager_config()
    return open_memory(folder, "u", config, choose_steps(config))


def ingest(memory: Memory, name: str, turns: list[dict[str, Any]], *, refresh: bool = True) -> None:
    """Ingest one session, and raise what goes wrong."""
    [result] = asyncio.run(memory.ingest([SessionInput(name, turns)], refresh=refresh))
    if isinstance(result, MemForestError):
        raise result


def limit_pages(memory: Memory, extra: int) -> None:
    """Leave room for so many more pages; SQLite then says that the disk is full."""
    with memory.db.write() as tx:
        pages = tx.execute("PRAGMA page_count").fetchone()[0]
        tx.execute(f"PRAGMA max_page_count = {pages + extra}")


def test_a_disk_that_fills_during_refresh_loses_nothing(folder: Path) -> None:
    """The error names the fix; every turn stays; with room again `resume` ends where an ordinary run ends."""
    sessions = make_sessions(11, sessions=6, most_turns=14)
    with MemForest(folder / "plain", eager_config()) as forest:
        for name, turns in sessions:
            forest.ingest_session("u", name, turns)
    memory = opened(folder / "full")
    for name, turns in sessions:
        ingest(memory, name, turns, refresh=False)
    limit_pages(memory, 0)
    with pytest.raises(StoreWriteError):
        asyncio.run(memory.flush())
    assert asyncio.run(memory.verify()).ok
    limit_pages(memory, ROOM)
    asyncio.run(memory.resume())
    memory.close()
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "full"))) == {}


@pytest.mark.parametrize("extra", [0, 1, 2, 4, 8, 16, 24, 32, 48, 64])
def test_a_disk_that_fills_at_any_point_loses_nothing_acknowledged(folder: Path, extra: int) -> None:
    """Wherever it fills, what was there is there, and the same call succeeds when there is room."""
    (first, kept), (second, late) = make_sessions(5, sessions=2, most_turns=14)
    with MemForest(folder / "plain", eager_config()) as forest:
        forest.ingest_session("u", first, kept)
        forest.ingest_session("u", second, late)
    memory = opened(folder / "full")
    ingest(memory, first, kept)
    limit_pages(memory, extra)
    try:
        ingest(memory, second, late)
    except StoreWriteError as exc:
        assert "full" in str(exc)  # noqa: PT017  # how far it gets depends on the room
    assert asyncio.run(memory.verify()).ok
    limit_pages(memory, ROOM)
    ingest(memory, second, late)
    memory.close()
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "full"))) == {}
