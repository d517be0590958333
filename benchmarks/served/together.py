"""Several processes advance one memory at once: is all of it written, and how much of it is paid for more than once?"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.records import SummaryRequest

__all__ = ["advance_together"]

USER = "everyone"
START = datetime(2024, 1, 3, 9, tzinfo=timezone.utc)
NOW = datetime(2025, 1, 1, tzinfo=timezone.utc)
SESSIONS, TURNS = 40, 8
CALL_S = 0.02
"""What a call of the double takes."""


class _Writer:
    """A summariser as one behind an endpoint is; each call is a line in a file that all processes append to."""

    name = "counting-writer"
    remote = True

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        made = []
        for one in requests:
            await asyncio.sleep(CALL_S)
            what = f"{one.prompt} {one.window or one.start.isoformat()}"
            with self._calls.open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\t{what}\n")
            made.append(f"{what}: {len(one.inputs)} parts")
        return made


def _config(**more: Any) -> Config:
    return Config(
        embedder=HashEmbedder(64),
        indexes=("timem",),
        index_settings={"timem": {"pass_through": False}},
        clock=lambda: NOW,
        **more,
    )


def _told(directory: Path, seed: int) -> None:
    """Store sessions without a model, so that nothing is written of them yet."""
    rng = random.Random(f"advance {seed}")
    with MemForest(directory, _config()) as forest:
        for at in range(SESSIONS):
            begins = START + timedelta(days=3 * at, hours=rng.randrange(9))
            turns = [
                {
                    "speaker": ("Ana", "Bob")[number % 2],
                    "content": f"I counted {rng.randrange(999)} herons.",
                    "timestamp": begins + timedelta(minutes=number),
                }
                for number in range(TURNS)
            ]
            forest.ingest_session(USER, f"s{at}", turns)


def _advance(directory: str, calls: str, start: Any) -> None:
    with MemForest(directory, _config(summariser=_Writer(Path(calls)))) as forest:
        memory = forest.user(USER)
        start.wait()
        memory.advance()


def _run(directory: Path, processes: int) -> tuple[Counter[str], int, float]:
    """Return how often each memory was written, by how many processes, and in how many seconds."""
    calls = directory / "calls.txt"
    calls.touch()
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1)
    workers = [
        context.Process(target=_advance, args=(str(directory / "memory"), str(calls), start))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - began
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a process failed; its traceback is above")
    lines = [line.split("\t") for line in calls.read_text(encoding="utf-8").splitlines()]
    return Counter(what for _, what in lines), len({pid for pid, _ in lines}), took


def advance_together(processes: int, seed: int) -> bool:
    """Advance one memory by one process, and another by several at once; print what was written, and return whether it is the same."""
    print(f"{SESSIONS} sessions of {TURNS} turns; a call takes {CALL_S:g} s; seed {seed}")
    print(
        f"{'processes':>9} {'memories':>9} {'written twice':>14} {'by':>4} {'left':>5} {'problems':>9} {'s':>7}"
    )
    found: list[tuple[int, int, int, int]] = []
    for many in (1, processes):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            _told(folder / "memory", seed)
            written, by, took = _run(folder, many)
            twice = sum(count - 1 for count in written.values())
            before = sum(written.values())
            with MemForest(folder / "memory", _config(summariser=_Writer(folder / "calls.txt"))) as forest:
                forest.user(USER).advance()
                problems = len(forest.user(USER).verify().problems)
            left = len((folder / "calls.txt").read_text(encoding="utf-8").splitlines()) - before
        print(f"{many:>9} {len(written):>9} {twice:>14} {by:>4} {left:>5} {problems:>9} {took:>7.2f}")
        found.append((len(written), twice, left, problems))
    (alone, twice, *_), (together, *_) = found
    return alone == together and not twice and not any(any(row[2:]) for row in found)
