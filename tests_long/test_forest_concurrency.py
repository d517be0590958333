"""Several callers at once: tasks, threads and processes that read and write the same memories."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, said

from memforest import AsyncMemForest, MemForest
from memforest.errors import SessionConflictError, StoreLockedError
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome

ROOT = str(Path(__file__).parent.parent)


class Gate:
    """The local extractor, which waits inside `extract` until it is let go."""

    def __init__(self) -> None:
        self._local = LocalExtractor(timezone=fast_config().zone)
        self.name = self._local.name
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract when the gate is open."""
        self.entered.set()
        await self.open.wait()
        return await self._local.extract(chunks)


def test_tasks_that_ingest_into_one_memory_end_like_one_after_the_other(folder: Path) -> None:
    """Sessions ingested at the same time are all there, and the memory is the one that order makes."""
    sessions = make_sessions(5)

    async def together() -> None:
        async with AsyncMemForest(folder / "a", fast_config()) as forest:
            await asyncio.gather(*(forest.ingest_session("u", s, turns) for s, turns in sessions))
            assert (await forest.user("u").verify()).ok

    asyncio.run(together())
    with MemForest(folder / "b", fast_config()) as forest:
        for session_id, turns in sessions:
            forest.ingest_session("u", session_id, turns)
    assert differences(dump(file_of(folder / "a")), dump(file_of(folder / "b"))) == {}


def test_tasks_that_add_to_one_session_lose_nothing(folder: Path) -> None:
    """Live turns that arrive at once get their own places in the session."""

    async def together() -> None:
        async with AsyncMemForest(folder, fast_config()) as forest:
            ana = forest.user("Ana")
            await asyncio.gather(*(ana.add(f"I bought {i} tents in Oslo.") for i in range(2, 12)))
            (session,) = await ana.sessions()
            assert session.turns == 10
            assert (await ana.stats()).facts == 10
            assert (await ana.verify()).ok

    asyncio.run(together())


def test_the_same_session_at_once_is_stored_once(folder: Path) -> None:
    """Two tasks with the same session: one makes memory of it, the other finds it done."""

    async def together() -> None:
        async with AsyncMemForest(folder, fast_config()) as forest:
            turns = said("I live in Oslo.", "I work at Acme.")
            results = await asyncio.gather(*(forest.ingest_session("u", "s", turns) for _ in range(4)))
            assert sorted(result.turns_added for result in results) == [0, 0, 0, 2]
            stats = await forest.user("u").stats()
            assert (stats.turns, stats.facts, stats.occurrences) == (2, 2, 2)
            assert (await forest.user("u").verify()).ok

    asyncio.run(together())


def test_a_session_that_grows_while_it_is_read_is_whole(folder: Path) -> None:
    """An extraction of the shorter version, still under way, does not pass for the longer one's."""
    gate = Gate()
    turns = said("I live in Oslo.", "I work at Acme.", "I bought a tent.", "I sold my bike.")

    async def run() -> None:
        config = fast_config()
        async with (
            AsyncMemForest(folder, fast_config(extractor=gate)) as slow,
            AsyncMemForest(folder, config) as quick,
        ):
            waiting = asyncio.ensure_future(slow.ingest_session("u", "s", turns[:3]))
            await gate.entered.wait()
            await quick.ingest_session("u", "s", turns)
            gate.open.set()
            await waiting
            assert (await quick.user("u").verify()).ok
            assert (await quick.user("u").stats()).facts == 4

    asyncio.run(run())


def test_a_session_replaced_while_it_is_read_is_the_new_one(folder: Path) -> None:
    """What was extracted from the overwritten version is thrown away, and its writer learns of it."""
    gate = Gate()

    async def run() -> None:
        config = fast_config()
        async with (
            AsyncMemForest(folder, fast_config(extractor=gate)) as slow,
            AsyncMemForest(folder, config) as quick,
        ):
            waiting = asyncio.ensure_future(
                slow.ingest_session("u", "s", said("I live in Oslo.", "I work at Acme."))
            )
            await gate.entered.wait()
            await quick.ingest_session("u", "s", said("I live in Rome.", "I bought a tent."), replace=True)
            gate.open.set()
            with pytest.raises(SessionConflictError, match="overwritten"):
                await waiting
            facts = [fact.text for fact in (await quick.user("u").list()).facts]
            assert not any("Oslo" in text or "Acme" in text for text in facts)
            assert len(facts) == 2
            assert (await quick.user("u").verify()).ok

    asyncio.run(run())


def test_a_cancelled_ingest_is_finished_by_resume(folder: Path) -> None:
    """Cancelling the task after the turns were stored leaves them searchable, and the rest to `resume`."""
    gate = Gate()

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config(extractor=gate)) as forest:
            task = asyncio.ensure_future(
                forest.ingest_session("u", "s", said("I live in Oslo.", "I work at Acme."))
            )
            await gate.entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await forest.user("u").stats()).facts == 0
            assert (await forest.query("u", "Who works at Acme?")).evidence[0].text == "I work at Acme."
            gate.open.set()
            (result,) = await forest.resume("u")
            assert len(result.added) == 2
            assert (await forest.user("u").verify()).ok

    asyncio.run(run())


def test_a_query_never_sees_half_a_session_and_never_waits(folder: Path) -> None:
    """While sessions are stored, each query sees each of them with none or all of its turns and facts."""
    sessions = [
        (f"s{i}", said(*(f"I bought {n + 2} boats in Oslo{i}." for n in range(6)), day=i + 1))
        for i in range(8)
    ]

    async def run() -> list[float]:
        waits = []
        async with (
            AsyncMemForest(folder, fast_config()) as writer,
            AsyncMemForest(folder, fast_config()) as reader,
        ):
            await writer.ingest_session("u", "first", said("I live in Rome."))
            writing = asyncio.ensure_future(
                writer.ingest_parallel([{"user_id": "u", "session_id": s, "turns": t} for s, t in sessions])
            )
            while not writing.done():
                started = time.perf_counter()
                result = await reader.query("u", "What did Ana buy in Oslo3?", top_k=1000)
                waits.append(time.perf_counter() - started)
                seen: dict[str, list[str]] = {}
                for evidence in result.evidence:
                    seen.setdefault(evidence.sources[0].session_id, []).append(evidence.kind)
                for session_id, kinds in seen.items():
                    assert session_id == "first" or len(kinds) == 6
                    assert len(set(kinds)) == 1
            assert not [r for r in await writing if isinstance(r, Exception)]
        return waits

    waits = asyncio.run(run())
    assert waits
    assert max(waits) < fast_config().busy_timeout_s / 3  # one that waited for a lock would wait that long


WRITER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from memforest import MemForest
from tests_long.worlds import *
forest = MemForest(sys.argv[1], fast_config())
name, seed = sys.argv[3], int(sys.argv[4])
sys.stdin.readline()
for session_id, turns in make_sessions(seed, sessions=6):
    forest.ingest_session("u", name + session_id, turns)
    forest.user("u").add(name + " said that the tent is red.", session_id="shared")
    print("done", flush=True)
forest.close()
"""


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that take turns as often as Python allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_one_forest_serves_the_loops_of_several_threads(folder: Path) -> None:
    """Also while memories are closed and opened again under it, and when those loops have ended and others begin."""
    config = fast_config(max_open_files=3, max_cache_mb=0)
    forest = AsyncMemForest(folder, config)
    users = [f"user {n}" for n in range(8)]

    async def live(number: int) -> None:
        random = Random(number)
        for step in range(4):
            turns = said(f"I bought {step + 2} tents in Oslo.")
            await forest.ingest_session(random.choice(users), f"{number}.{step}", turns)
            await asyncio.gather(*(look(random.choice(users)) for _ in range(15)))

    async def look(user: str) -> None:
        if await forest.has_user(user):
            await forest.query(user, "Who bought tents?", index="flat")
            await forest.save()

    for start in (0, 4):
        with ThreadPoolExecutor(4) as threads:
            for one in [threads.submit(asyncio.run, live(start + n)) for n in range(4)]:
                one.result()
    asyncio.run(forest.close())
    with MemForest(folder, config) as reader:
        assert sum(reader.user(user).stats().sessions for user in reader.list_users()) == 32
        assert all(reader.user(user).verify().ok for user in reader.list_users())


def test_two_processes_write_and_a_third_reads(folder: Path) -> None:
    """Writers take turns and lose nothing; a reader in another process is answered within a second throughout."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), ROOT, name, seed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, seed in (("a", "1"), ("b", "2"))
    ]
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "first", said("I live in Rome."))
        for process in writers:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        waits = []
        while any(process.poll() is None for process in writers):
            started = time.perf_counter()
            assert forest.query("u", "Where does Ana live?").evidence
            waits.append(time.perf_counter() - started)
            time.sleep(0.02)
        ended = [process.communicate() for process in writers]
        assert [error for _, error in ended] == ["", ""]
        assert [out.count("done") for out, _ in ended] == [6, 6]
        counts = {s.session_id: s.turns for s in forest.user("u").sessions()}
        expected = {
            f"{name}{s}": len(t)
            for name, seed in (("a", 1), ("b", 2))
            for s, t in make_sessions(seed, sessions=6)
        }
        assert counts == {"first": 1, "shared": 12, **expected}
        forest.resume()
        assert forest.user("u").verify().ok
        assert forest.user("u").stats().dirty_nodes == 0
    assert max(waits) < 1


def test_a_lock_that_is_never_released_is_an_error_and_readers_go_on(folder: Path) -> None:
    """Another program that holds the write lock: writing fails with the reason, queries are answered."""
    with MemForest(folder, fast_config(busy_timeout_s=0.1)) as forest:
        forest.ingest_session("u", "s1", said("I live in Oslo."))
        other = sqlite3.connect(file_of(folder), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError):
            forest.ingest_session("u", "s2", said("I work at Acme.", day=2))
        assert forest.query("u", "Where does Ana live?").evidence
        other.execute("ROLLBACK")
        other.close()
        forest.ingest_session("u", "s2", said("I work at Acme.", day=2))
        assert len(forest.user("u").sessions()) == 2


def test_closing_does_not_wait_for_another_process(folder: Path) -> None:
    """A reader elsewhere cannot hold up `close`; the log stays beside the file, and nothing is lost."""
    forest = MemForest(folder, fast_config())
    forest.ingest_session("u", "s1", said("I live in Oslo."))
    other = sqlite3.connect(file_of(folder), isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM turn").fetchone()
    forest.ingest_session("u", "s2", said("I work at Acme.", day=2))
    started = time.perf_counter()
    forest.close()
    assert time.perf_counter() - started < 5
    other.close()
    with MemForest(folder, fast_config()) as again:
        assert len(again.user("u").sessions()) == 2


def test_few_files_are_open_however_many_users_there_are(folder: Path) -> None:
    """The memory used longest ago is closed, one in use never, and each opens again by itself."""

    async def run() -> None:
        config = fast_config(max_open_files=16)
        async with AsyncMemForest(folder, config, max_workers=2) as forest:
            users = [f"user {i}" for i in range(14)]
            await forest.ingest_parallel(
                [{"user_id": user, "session_id": "s", "turns": said("I live in Oslo.")} for user in users]
            )
            for user in users:
                assert (await forest.query(user, "Where does Ana live?")).evidence
                # What is kept, and the reading connection that the last query has opened.
                assert forest._pool.open_files <= 16 + 2
            results = await forest.query_parallel(
                [{"user_id": u, "question": "Where does Ana live?"} for u in users]
            )
            assert [type(result).__name__ for result in results] == ["QueryResult"] * len(users)
            assert len(forest._pool.opened) < len(users)
            assert await forest.list_users() == sorted(users)

    asyncio.run(run())


def test_the_files_counted_are_the_files_open(folder: Path) -> None:
    """The pool's count is what the system says, so the bound is one."""
    listing = Path("/proc/self/fd")
    if not listing.is_dir():
        pytest.skip("this system does not list a process's open files")

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config()) as forest:
            for user in ("a", "b", "c"):
                await forest.ingest_session(user, "s", said("I live in Oslo."))
                await asyncio.gather(*(forest.query(user, "Where does Ana live?") for _ in range(3)))
            assert len(held()) == forest._pool.open_files
        assert held() == []

    def held() -> list[str]:
        return [path for path in map(os.path.realpath, listing.iterdir()) if str(folder) in path]

    asyncio.run(run())


def test_few_bytes_are_cached_however_many_users_there_are(folder: Path) -> None:
    """Snapshots beyond the bound go, the one used longest ago first, and are read again when asked."""

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config(max_cache_mb=0)) as forest:
            for user in ("a", "b", "c", "a"):
                await forest.ingest_session(user, "s", said("I live in Oslo."))
                before = await forest.query(user, "Where does Ana live?")
                assert (await forest.query(user, "Where does Ana live?")).evidence == before.evidence
                held = forest._pool._held.items()
                kept = [u for u, one in held if one.memory is not None and one.memory.cached_bytes]
                assert kept == [user]

    asyncio.run(run())
