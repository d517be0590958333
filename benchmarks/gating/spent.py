"""What memory costs in processor time, which other work on the machine disturbs less than the clock on the wall.

Memories of synthetic chat (`synthetic/chat.py`) are made through the public API, then copied for every round; each round of
each memory is a process of its own. Texts are embedded by the `HashEmbedder` in as many dimensions as the shipped models have,
so that no model's time is in the figures.
"""

from __future__ import annotations

import compileall
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from gating.apart import apart
from gating.rows import Row, counted, of_rounds
from memforest import Config, MemForest
from memforest.models import MINILM, HashEmbedder
from sizes import PACKAGE
from synthetic.chat import Chat

__all__ = ["CALIBRATION", "SEED", "config", "exchange", "rows"]

SEED = 7
"""Of the chat."""
USER = "ana"
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
DIMENSION = 384
SIZES = (1_000, 10_000)
"""Facts of a memory."""
INDEXES = ("memforest", "flat")
BATCH = 100
"""Sessions handed over at once."""
WARM_UP, QUESTIONS, EXCHANGES, USERS = 20, 60, 12, 8
CALIBRATION = "a fixed piece of Python and NumPy (how fast the machine is)"

_IMPORT = """
import time
began = time.process_time()
import memforest
imported = time.process_time()
memforest.MemForest
print(imported - began, time.process_time() - began)
"""

Took = dict[str, float]
"""Name of a row -> ms of processor time."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A memory that is copied for every round."""

    index: str
    facts: int
    folder: Path
    sessions: int
    ms_per_turn: float
    megabytes: float

    @property
    def label(self) -> str:
        return f"{self.index}, {self.facts:,} facts"


def config(**settings: Any) -> Config:
    """Return the configuration of all memories of the gates that need no model."""
    embedder = HashEmbedder(DIMENSION)
    # By the name of a model that has a merge threshold, or no fact would be compared with those that are stored.
    embedder.model_id = MINILM.model_id
    return Config(embedder=embedder, clock=lambda: NOW, **settings)


def exchange(number: int) -> list[dict[str, str]]:
    """Return what a user says and an assistant answers; other words for every number."""
    chat = Chat(SEED + 1)
    told = [chat.fact(number * 2 + at, number)[1][0]["text"] for at in (0, 1)]
    return [{"role": "user", "content": told[0]}, {"role": "assistant", "content": told[1]}]


def rows(work: Path, rounds: int, sizes: Sequence[int] = SIZES) -> list[Row]:
    """Return the rows of processor time.

    Args:
        work: a folder for the memories; what is in it of another run is not used.
        rounds: how often everything but writing the memories is measured.
        sizes: facts of the memories.
    """
    compileall.compile_dir(
        PACKAGE, quiet=2
    )  # else whoever imports a module first compiles it, in every process
    made = [apart(make, work, index, facts) for facts in sizes for index in INDEXES]
    took: dict[str, list[float]] = {}
    for number in range(rounds):
        measured = {CALIBRATION: apart(calibrate), **imports(), **apart(new_users, work / f"users{number}")}
        for one in made:
            copy = work / f"round{number}-{one.folder.name}"
            shutil.copytree(one.folder, copy)
            measured |= {f"{one.label}: {name}": ms for name, ms in apart(measure, copy, one).items()}
            shutil.rmtree(copy)
        for name, ms in measured.items():
            took.setdefault(name, []).append(ms)
    found = [of_rounds(name, "ms", times, fixed=name == CALIBRATION) for name, times in took.items()]
    for one in made:
        found.append(of_rounds(f"{one.label}: writing them, a turn", "ms", [one.ms_per_turn]))
        found.append(counted(f"{one.label}: its files", "MB", one.megabytes))
    return found


def make(work: Path, index: str, facts: int) -> _Made:
    """Make a memory of at least so many facts, session by session in batches."""
    chat, folder = Chat(SEED), work / f"{index}-{facts}"
    number = turns = have = 0
    began = time.process_time()
    with MemForest(folder, config(indexes=(index,))) as forest:
        while have < facts:
            rate = have / number if number else facts
            requests = []
            for at in range(number, number + max(1, min(BATCH, round((facts - have) / rate)))):
                name, told = chat.session(at)
                requests.append({"user_id": USER, "session_id": name, "turns": told})
                turns += len(told)
            for result in forest.ingest_parallel(requests):
                if isinstance(result, Exception):
                    raise result
            number += len(requests)
            have = forest.user(USER).stats().facts
        forest.save(USER)
    ms = 1000 * (time.process_time() - began) / turns
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    return _Made(index, facts, folder, number, ms, megabytes)


def measure(folder: Path, made: _Made) -> Took:
    """Open a memory, ask and add; return the medians."""
    asked = list(Chat(SEED).questions(1 + WARM_UP + QUESTIONS + EXCHANGES))
    began = time.process_time()
    with MemForest(folder, config(indexes=(made.index,))) as forest:
        user = forest.user(USER)
        user.search(asked.pop())
        cold = 1000 * (time.process_time() - began)
        for _ in range(WARM_UP):
            user.search(asked.pop())
        warm = [_ms(user.search, asked.pop()) for _ in range(QUESTIONS)]
        user.add(exchange(0))
        adding, after = [], []
        for number in range(1, EXCHANGES):
            adding.append(_ms(user.add, exchange(number)))
            after.append(_ms(user.search, asked.pop()))
    return {
        "add of an exchange": statistics.median(adding),
        "search": statistics.median(warm),
        "open and first search": cold,
        "first search after an add": statistics.median(after),
    }


def new_users(folder: Path) -> Took:
    """Return what a memory of a new user takes, others having been made."""
    with MemForest(folder, config()) as forest:
        forest.register_user("first")
        took = [_ms(forest.register_user, f"user{number}") for number in range(USERS)]
    return {"a new user's memory": statistics.median(took)}


def imports() -> Took:
    """Return what importing the package takes in an interpreter that has done nothing yet."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
    bare, whole = (1000 * float(seconds) for seconds in done.stdout.split())
    return {"import memforest": bare, "import memforest, and its MemForest": whole}


def calibrate() -> float:
    """Return the ms of processor time of a fixed piece of work: to tell a slower machine from slower code."""
    random = np.random.default_rng(SEED)
    rows = random.standard_normal((4_000, DIMENSION)).astype(np.float32)

    def work() -> None:
        counts: dict[str, int] = {}
        for number in range(100_000):
            word = f"word {number % 977}"
            counts[word] = counts.get(word, 0) + 1
        for row in rows[:40]:
            np.argsort(rows @ row)

    work()
    return statistics.median(_ms(work) for _ in range(5))


def _ms(run: Callable[..., object], *given: object) -> float:
    began = time.process_time()
    run(*given)
    return 1000 * (time.process_time() - began)
