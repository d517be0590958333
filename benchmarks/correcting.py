"""What a correction costs as a memory grows: `update`, `pin`, `forget` and `undo` at 1k, 10k and 100k facts.

    python benchmarks/correcting.py [--sizes 1000 10000 100000] [--dir DIR] [--times 40]   # DIR: kept, and used again

One seeded conversation (`synthetic/chat.py`) is ingested as far as each size asks, as in `scale.py`. Then facts that are
picked at random are corrected and that is undone, on all memories in turn, so that a busy machine is as busy for one as for
the other. Times are the medians of whole calls through the public API, the wait for the disk and the embedding with them; the
ratio is to the smallest size.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.read.stored import CorrectionView
from scale import BATCH, USER, config
from synthetic.chat import Chat

DIMENSION = 64
VERBS = ("update", "pin", "forget", "undo")


def build(folder: Path, facts: int) -> None:
    """Ingest sessions until there are so many facts; a memory that is there is used as it is."""
    chat = Chat(1)
    with MemForest(folder, config(DIMENSION)) as forest:
        user = forest.user(USER)
        have, number = 0, 0
        if forest.has_user(USER):
            have, number = user.stats().facts, user.stats().sessions
        while have < facts:
            take = max(1, min(BATCH, (facts - have) // 27))
            made = [chat.session(at) for at in range(number, number + take)]
            requests = [{"user_id": USER, "session_id": name, "turns": turns} for name, turns in made]
            for result in forest.ingest_parallel(requests):
                if isinstance(result, Exception):
                    raise result
            number += take
            have = user.stats().facts


def timed(call: Callable[[], CorrectionView]) -> tuple[CorrectionView, float]:
    """Return what a call returns, and its ms."""
    started = time.perf_counter()
    done = call()
    return done, 1000 * (time.perf_counter() - started)


def correct(user: UserMemory, fact: str, number: int, times: dict[str, list[float]]) -> None:
    """Correct a fact in every way, and undo each."""
    calls: dict[str, Callable[[], CorrectionView]] = {
        "update": lambda: user.update(fact, f"Ana lives in Springfield {number}."),
        "pin": lambda: user.pin(fact),
        "forget": lambda: user.forget(fact),
    }
    for verb, call in calls.items():
        done, took = timed(call)
        times[verb].append(took)
        times["undo"].append(timed(lambda key=done.key: user.undo(key))[1])  # type: ignore[misc]


def main() -> None:
    """Build the memories, measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--times", type=int, default=40)
    args = parser.parse_args()
    with ExitStack() as stack:
        root = args.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        times: dict[int, dict[str, list[float]]] = {}
        users, facts = {}, {}
        for size in args.sizes:
            build(root / str(size), size)
            forest = stack.enter_context(MemForest(root / str(size), config(DIMENSION)))
            users[size] = forest.user(USER)
            pages = range(0, min(size, 1000), 50)
            facts[size] = [one.fact_id for at in pages for one in users[size].list(offset=at, limit=50)]
            times[size] = {verb: [] for verb in VERBS}
        random = Random(1)
        for number in range(args.times):
            for size in args.sizes:
                correct(users[size], random.choice(facts[size]), number, times[size])
    print("| facts | " + " | ".join(f"{verb} ms | x" for verb in VERBS) + " |")
    print("|" + "---|" * (1 + 2 * len(VERBS)))
    first = {verb: statistics.median(times[args.sizes[0]][verb]) for verb in VERBS}
    for size in args.sizes:
        medians = {verb: statistics.median(times[size][verb]) for verb in VERBS}
        chunks = " | ".join(f"{medians[verb]:.1f} | {medians[verb] / first[verb]:.2f}" for verb in VERBS)
        print(f"| {size:,} | {chunks} |")


if __name__ == "__main__":
    main()
