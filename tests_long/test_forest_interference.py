"""What others do at the worst moment: other processes, other versions, cancellation, full disks, clocks that go back."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests_long.deletions import left_in
from tests_long.worlds import (
    CLOCK,
    differences,
    dump,
    fast_config,
    file_of,
    make_sessions,
    memory_of,
    rows,
    said,
    summaries,
)

import processes
from memforest import AsyncMemForest, MemForest
from memforest.errors import StoreWriteError
from memforest.models import HashEmbedder
from memforest.models.base import Vectors
from memforest.reading.extract_local import LocalExtractor
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import Chunk, ChunkOutcome, SummaryRequest
from memforest.store import derived, meta
from memforest.store.database import Database
from memforest.trees import refresh


@pytest.mark.timeout(600)
def test_processes_on_one_memory_lose_and_double_nothing(folder: Path, soak_seed: int) -> None:
    """What several processes wrote at once is what one process makes of the same sessions."""
    with MemForest(folder, processes.config_of("hash")) as forest:
        forest.register_user(processes.USER)
    jobs = [(str(folder), number, 10, soak_seed, "hash") for number in range(3)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        workers = pool.starmap(processes.work, jobs, chunksize=1)
    verdict = processes.judge(workers, folder, "hash")
    bad = ("errors", "lost turns", "lost facts", "duplicate turns", "duplicate facts", "dirty nodes")
    assert {name: verdict[name] for name in bad} == dict.fromkeys(bad, 0)
    assert verdict["verify"] == "ok"


def test_the_judge_of_the_benchmark_sees_what_is_lost_and_doubled(folder: Path) -> None:
    """A judge that finds nothing on a damaged memory would prove nothing on a sound one."""
    with MemForest(folder, processes.config_of("hash")) as forest:
        forest.register_user(processes.USER)
    worker = processes.work(str(folder), 0, 30, 1, "hash")
    conn = sqlite3.connect(file_of(folder))
    conn.execute("DELETE FROM occurrence WHERE id = (SELECT max(id) FROM occurrence)")
    (name, texts), *_ = worker.sessions.items()
    worker.sessions[name] = [*texts, "One more turn that was acknowledged."]
    shared = "SELECT turn FROM occurrence_turn"
    conn.execute(f"UPDATE turn SET text = 'I bought ticket 0x0.' WHERE id NOT IN ({shared})")
    conn.commit()
    conn.close()
    verdict = processes.judge([worker], folder, "hash")
    assert verdict["lost turns"] >= 1
    assert verdict["lost facts"] >= 1
    assert verdict["verify"] != "ok"


class Prober:
    """Steps that take the file's write lock for a moment whenever they run, and fail when it is held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._local = LocalExtractor(timezone=fast_config().zone)
        self._summariser = LocalSummariser()
        self._embedder = HashEmbedder(32)
        self.name = "prober"
        self.model_id, self.dimension = self._embedder.model_id, self._embedder.dimension
        self.probes = 0

    def _probe(self) -> None:
        conn = sqlite3.connect(file_of(self._folder), timeout=0, isolation_level=None)
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("ROLLBACK")
        conn.close()
        self.probes += 1

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Probe, then extract."""
        self._probe()
        return await self._local.extract(chunks)

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Probe, then summarise."""
        self._probe()
        return await self._summariser.summarise(requests)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Probe, then embed."""
        self._probe()
        return await self._embedder.embed(texts)


def test_no_write_waits_for_a_model(folder: Path) -> None:
    """While any step runs that a model may do, the write lock is free: ingest, growth, replacement, resume, query."""
    prober = Prober(folder)
    with MemForest(folder, fast_config(embedder=prober, extractor=prober, summariser=prober)) as forest:
        forest.ingest_session("u", "s1", said("I live in Oslo.", "I work at Acme.", "I bought a tent."))
        forest.ingest_session(
            "u", "s1", said("I live in Oslo.", "I work at Acme.", "I bought a tent.", "Hm.")
        )
        forest.ingest_session("u", "s1", said("I live in Rome.", "I sold my bike."), replace=True)
        forest.user("u").add("I adopted two cats.")
        forest.ingest_session("u", "s2", said("I like tea.", day=2), refresh=False)
        forest.resume()
        assert forest.query("u", "Where does Ana live?").evidence
        assert forest.user("u").verify().ok
    assert prober.probes > 10


class Tagged:
    """A summariser whose texts say who made them and of what, and which waits where it is told to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.before: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return texts that hold a digest of their inputs."""
        doing, self.before = self.before, None
        if doing is not None:
            await doing()
        return [f"{self.name} {_of(request.inputs)}" for request in requests]


def _of(inputs: Sequence[str]) -> str:
    return blake2b("\0".join(inputs).encode(), digest_size=8).hexdigest()


def test_two_that_refresh_one_memory_do_no_harm(folder: Path) -> None:
    """Of two that made a node's summary one's is kept, and nothing is left to be made."""
    slow, quick = Tagged("slow"), Tagged("quick")

    async def run() -> None:
        async with (
            AsyncMemForest(folder, fast_config(summariser=slow)) as a,
            AsyncMemForest(folder, fast_config(summariser=quick)) as b,
        ):
            for session_id, turns in make_sessions(5, sessions=6, most_turns=12):
                await a.ingest_session("u", session_id, turns, refresh=False)

            async def overtake() -> None:
                await b.resume("u")  # the other one refreshes every level meanwhile

            slow.before = overtake
            await a.resume("u")
            stats = await a.user("u").stats()
            assert stats.dirty_nodes == 0
            assert (await a.user("u").verify()).ok

    asyncio.run(run())
    made = summaries(file_of(folder))
    assert {text.split()[0] for text, _ in made.values()} == {"slow"}  # what was written last
    assert len(rows(file_of(folder), "SELECT DISTINCT digest FROM artifact")) == len(made)


class Echo(Tagged):
    """One whose texts are what they were made of."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return the inputs."""
        await super().summarise(requests)
        return [" ".join(request.inputs) for request in requests]


@pytest.mark.parametrize("verb", ["delete", "replace"])
def test_a_summary_of_what_has_gone_meanwhile_is_not_kept(
    folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process deletes what a summary that is under way tells of: no file has a word of it when both are done."""
    monkeypatch.setattr(derived, "LEVEL", 0)
    summariser = Echo("echo")

    async def run() -> None:
        async with (
            AsyncMemForest(folder, fast_config(summariser=summariser)) as a,
            AsyncMemForest(folder, fast_config()) as b,
        ):
            for name, thing in (("s", "quixbotters"), ("t", "tents")):
                turns = said(*(f"I bought {i} {thing} in Oslo." for i in range(2, 9)))
                await a.ingest_session("u", name, turns, refresh=False)

            async def interfere() -> None:
                if verb == "delete":
                    await b.user("u").delete(session_id="s")
                else:
                    await b.ingest_session("u", "s", said("I like tea."), replace=True)

            summariser.before = interfere
            await a.flush("u")
            assert summariser.before is None
            assert (await a.user("u").stats()).dirty_nodes == 0
            assert left_in(folder, ["quixbotters"]) == []
            assert left_in(folder, ["tents"]) == ["tents"]
            assert any("tents" in text for text, _ in summaries(file_of(folder)).values())

    asyncio.run(run())
    assert left_in(folder, ["quixbotters"]) == []


def test_reading_by_one_index_keeps_the_summaries_of_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nothing asks for any more goes when it is most of all; what another index asks for is none of it."""
    monkeypatch.setattr(refresh, "WRITE_NODES", 2)
    with MemForest(folder, fast_config(indexes=("memforest", "segtree"))) as forest:
        for session_id, turns in make_sessions(3, sessions=6):
            forest.ingest_session("u", session_id, turns)
        forest.flush()
        forest.ingest_session("u", "new", said("I live in Oslo."))
        before = {row for row in summaries(file_of(folder)) if row.startswith("memforest")}
        assert forest.user("u").tree(index="segtree", depth=9)
        after = summaries(file_of(folder)).keys()
        assert before <= after
        assert any(row.startswith("segtree") for row in after)


class CancelledAt:
    """Awaits a coroutine and cancels the task at its n-th suspension."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int) -> None:
        self._coroutine = coroutine
        self._left = at

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        waiting = next(steps, None)
        while waiting is not None:
            self._left -= 1
            task = asyncio.current_task()
            if self._left == 0 and task is not None:
                task.cancel()
            try:
                got = yield waiting
            except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - whatever it is, it is the coroutine's
                waiting = steps.throw(exc)
            else:
                try:
                    waiting = steps.send(got)
                except StopIteration as end:
                    return end.value
        return None


async def cancelled(make: Callable[[], Coroutine[Any, Any, Any]], at: int) -> bool:
    """Run a coroutine in a task and cancel it at its n-th suspension; return whether it came so far."""

    async def run() -> None:
        await CancelledAt(make(), at)

    try:
        await asyncio.ensure_future(run())
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.timeout(120)
def test_an_ingest_that_is_cancelled_at_any_await_can_be_made_again(folder: Path) -> None:
    """Wherever the task is cancelled, the same call again gives the memory that an undisturbed one gives."""
    first, second = make_sessions(7, sessions=2, most_turns=6)
    with MemForest(folder / "whole", fast_config()) as forest:
        for session in (first, second):
            forest.ingest_session("u", *session)
        forest.flush()
    expected = dump(file_of(folder / "whole"))

    async def run() -> int:
        for at in range(1, 200):
            place = folder / str(at)
            async with AsyncMemForest(place, fast_config()) as forest:
                await forest.ingest_session("u", *first)
                if not await cancelled(partial(forest.ingest_session, "u", *second), at):
                    return at
                assert not any(one.users for one in forest._pool._held.values())
                await forest.ingest_session("u", *second)
                await forest.resume("u")
                await forest.flush()
                assert (await forest.user("u").verify()).ok, at
            assert differences(dump(file_of(place)), expected) == {}, at
        return 0

    assert asyncio.run(run()) > 3


@pytest.mark.timeout(120)
def test_a_query_that_is_cancelled_at_any_await_leaves_nothing_behind(folder: Path) -> None:
    """The next question is answered, the memory can be written, and nothing counts as in use."""

    async def run() -> int:
        async with AsyncMemForest(folder, fast_config()) as forest:
            await forest.ingest_session("u", "s", said("I live in Oslo.", "I work at Acme."))
            for at in range(1, 100):
                await forest.close()  # so that opening is among what is cancelled
                came_so_far = await cancelled(lambda: forest.query("u", "Who works at Acme?"), at)
                assert not any(one.users for one in forest._pool._held.values())
                assert (await forest.query("u", "Who works at Acme?")).evidence[0].quote == "I work at Acme."
                if not came_so_far:
                    await forest.user("u").add("I like tea.")
                    assert (await forest.user("u").verify()).ok
                    return at
        return 0

    assert asyncio.run(run()) > 3


def test_a_disk_that_fills_during_a_refresh_loses_nothing(folder: Path) -> None:
    """The error says so; what was said and extracted is there, and `resume` makes the summaries later."""
    summariser = Tagged("one")

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config(summariser=summariser)) as forest:
            await forest.ingest_session("u", "s1", said("I live in Oslo."))
            db = memory_of(forest).db

            async def fill() -> None:
                with db.write() as tx:
                    # Use up the free pages, then allow no more.
                    tx.execute(f"PRAGMA max_page_count = {tx.execute('PRAGMA page_count').fetchone()[0]}")

            async def summaries_of_some_size(requests: Sequence[SummaryRequest]) -> list[str]:
                await fill()
                return [
                    f"one {_of(request.inputs)} {Random(1).randbytes(300_000).hex()}" for request in requests
                ]

            good, summariser.summarise = summariser.summarise, summaries_of_some_size  # type: ignore[method-assign]
            with pytest.raises(StoreWriteError):
                await forest.ingest_session(
                    "u", "s2", said(*(f"I bought {i} tents." for i in range(2, 9)), day=2), refresh=True
                )
            stats = await forest.user("u").stats()
            assert (stats.turns, stats.facts) == (8, 8)
            assert stats.dirty_nodes > 0
            assert (await forest.query("u", "Who bought 5 tents?")).evidence[0].quote == "I bought 5 tents."
            summariser.summarise = good  # type: ignore[method-assign]
            with db.write() as tx:
                tx.execute("PRAGMA max_page_count = 1000000")
            await forest.resume("u")
            assert (await forest.user("u").stats()).dirty_nodes == 0
            assert (await forest.user("u").verify()).ok

    asyncio.run(run())


@pytest.mark.parametrize("back", [timedelta(seconds=1), timedelta(hours=3), timedelta(days=400)])
def test_a_clock_that_goes_back_disturbs_no_order(folder: Path, back: timedelta) -> None:
    """Live turns keep the order in which they came, and leaves stay in time order."""
    now = [CLOCK]

    def clock() -> datetime:
        now[0] -= back
        return now[0]

    with MemForest(folder, fast_config(clock=clock)) as forest:
        for i in range(2, 9):
            forest.user("Ana").add(f"I bought {i} tents in Oslo.", session_id="live")
        forest.user("Ana").add("I live in Rome.")
        forest.ingest_session("Ana", "s", said("I work at Acme."))
        texts = rows(file_of(folder), "SELECT ordinal, said_ms, text FROM turn WHERE text LIKE '%tents%'")
        assert [text for _, _, text in texts] == [f"I bought {i} tents in Oslo." for i in range(2, 9)]
        assert [ms for _, ms, _ in texts] == sorted(ms for _, ms, _ in texts)
        assert forest.query("Ana", "Where does Ana live?").evidence
        assert forest.user("Ana").verify().ok
        assert forest.flush("Ana").nodes_dirty == 0
        assert forest.user("Ana").verify().ok
    with MemForest(folder, fast_config()) as again:
        assert again.user("Ana").verify().ok


def test_the_generation_never_goes_back(folder: Path) -> None:
    """Each write raises it, whatever the clock says, so no reader takes an older state for a newer one."""
    seen = []
    with MemForest(folder, fast_config()) as forest:
        for i in range(4):
            forest.user("Ana").add(f"I bought {i + 2} tents.")
            db = Database(file_of(folder))
            with db.read() as tx:
                seen.append(meta.generation(tx))
            db.close()
    assert np.all(np.diff(seen) > 0)
