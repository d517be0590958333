"""What it costs to read a memory as it was, and what has changed, as the memory grows: ratios to the smallest size.

    python benchmarks/three_times.py [--sizes 1000 10000 100000] [--rounds 15] [--dir DIR]   # DIR: kept, and used again

One seeded conversation (`synthetic/chat.py`) is ingested through the public API, by words alone, into a memory of each
size; the clock moves on by an hour with each session, so the sessions are spread over stored time. Then each verb is timed,
sizes in turn, so that a busy machine is as busy for one as for the other. What is read from the file is read through
indexes; what is computed on the arrays of the memory in use, as any search is.

- *search*: one question, warm: what the others are compared with.
- *search as_of*, *known_at, again*: the same question at one time, and at one moment that was asked for before.
- *known_at, first*: the first question at a moment: the smaller memory is made of the whole one. Late moments leave
  out the last ten sessions, early ones half of all.
- *changes*: a page of 50 in the middle of stored time. *diff*: one month in the middle, of everybody or of one person.
- *timeline*: of one friend, now and as it was known in the middle.

The figures are medians of processor time of the process, in ms.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

from memforest import Config, MemForest
from memforest.memory.blocking import UserMemory
from memforest.testing import FrozenClock
from synthetic.chat import USER as SPEAKER
from synthetic.chat import Chat

USER = "ana"
BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)
STEP = timedelta(hours=1)
BATCH = 50
PAGE = 50

Verb = Callable[[], object]


class Sized:
    """A memory of one size, and the verbs that are timed on it."""

    def __init__(self, directory: Path, facts: int, chat: Chat) -> None:
        self.clock = FrozenClock(BEGIN)
        self.forest = MemForest(directory, Config(embedder="none", clock=self.clock, max_cache_mb=4000))
        self.memory: UserMemory = self.forest.user(USER)
        self.sessions = self._fill(facts, chat)
        found = self.memory.stats()
        self.facts, self.turns = found.facts, found.turns
        self.friend = self._friend()
        self.question = f"Where did {self.friend} go?"
        self._fresh = count(1)

    def _fill(self, facts: int, chat: Chat) -> int:
        """Ingest sessions until the memory has so many facts; return how many sessions there are."""
        done = len(self.memory.sessions()) if self.forest.has_user(USER) else 0
        have = self.memory.stats().facts if done else 0
        started = time.perf_counter()
        while have < facts:
            for number in range(done, done + BATCH):
                self.clock.set(BEGIN + number * STEP)
                self.forest.ingest_session(USER, *chat.session(number), refresh=False)
            done += BATCH
            have = self.memory.stats().facts
            if done % 500 == 0:
                took = time.perf_counter() - started
                print(f"  {have} of {facts} facts after {took:.0f} s", file=sys.stderr, flush=True)
        self.clock.set(BEGIN + done * STEP)
        return done

    def _friend(self) -> str:
        """Return a friend of whom about ten things are told, one of them in the first half of the memory."""
        page = self.memory.list(offset=self.facts // 4, limit=40)
        names = {name for fact in page for name in fact.entities if name != SPEAKER}
        return min(sorted(names), key=lambda name: abs(self.memory.list(entity=name, limit=1).total - 10))

    def stored(self, share: float) -> datetime:
        """Return a moment of stored time, 0 for the first session and 1 for the last."""
        return BEGIN + self.sessions * share * STEP

    def late(self) -> datetime:
        """Return another moment at each call, before the last ten sessions."""
        return self.stored(1) - 10 * STEP + timedelta(seconds=next(self._fresh))

    def early(self) -> datetime:
        """Return another moment at each call, in the middle."""
        return self.stored(0.5) + timedelta(seconds=next(self._fresh))

    def verbs(self) -> dict[str, Verb]:
        """Return the verbs by name."""
        search, memory = self.memory.search, self.memory
        said = memory.list(offset=self.facts // 2, limit=1).facts[0].said
        month, middle = (said, said + timedelta(days=30)), self.stored(0.5)
        known: dict[str, Any] = {"known_at": middle}
        return {
            "search": lambda: search(self.question),
            "search as_of": lambda: search(self.question, as_of=said),
            "search known_at, again": lambda: search(self.question, **known),
            "search known_at late, first": lambda: search(self.question, known_at=self.late()),
            "search known_at early, first": lambda: search(self.question, known_at=self.early()),
            "changes": lambda: memory.changes(middle, limit=PAGE),
            "diff": lambda: memory.diff(*month),
            "diff of one": lambda: memory.diff(*month, entity=self.friend),
            "timeline": lambda: memory.timeline(self.friend),
            "timeline known_at": lambda: memory.timeline(self.friend, **known),
        }


def measure(sizes: list[Sized], rounds: int) -> dict[str, list[float]]:
    """Return the median of each verb at each size, in ms of processor time."""
    verbs = [one.verbs() for one in sizes]
    found: dict[str, list[float]] = {}
    for name in verbs[0]:
        times: list[list[float]] = [[] for _ in sizes]
        for number in range(rounds + 1):
            for at, own in enumerate(verbs):
                started = time.process_time()
                own[name]()
                if number:  # the first one warms up
                    times[at].append((time.process_time() - started) * 1000)
        found[name] = [statistics.median(one) for one in times]
    return found


def main() -> None:
    """Build the memories, time the verbs, and print a table."""
    parser = argparse.ArgumentParser(description="time what reads a memory over time")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chat = Chat(args.seed)
        sizes = [Sized((args.dir or Path(folder)) / str(size), size, chat) for size in args.sizes]
        found = measure(sizes, args.rounds)
        print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}\n")
        print("| ms | " + " | ".join(f"{one.facts:,} facts" for one in sizes) + " | ratio |")
        print("|---|" + "---|" * (len(sizes) + 1))
        for name, times in found.items():
            chunks = " | ".join(f"{ms:.3g}" for ms in times)
            print(f"| {name} | {chunks} | {times[-1] / times[0]:.1f} |")
        for one in sizes:
            one.forest.close()


if __name__ == "__main__":
    main()
