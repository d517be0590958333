"""Whether writing and asking cost more in a larger memory: processor time in two memories side by side.

    python benchmarks/drift.py [--turns 2000 20000] [--rounds 15] [--dir DIR]   # DIR: memories are kept, used again

Two people tell each other where they live and work, what they bought and whom they met: talk full of change, so that
attributes have timelines of hundreds of values. A memory of each size is made through the public API, then copied, and
all copies are measured in turns, so that a busy machine is as busy for one as for the other. In each round, a session
of 20 turns is ingested (summaries and all), then a question about change is asked, then asked again. What counts is
the time of the processor, of the whole process; `ratio` is the largest memory to the smallest. Embeddings are by the
`HashEmbedder` with 64 numbers.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from memforest import Config, MemForest
from memforest.models import HashEmbedder

USER = "ann"
SESSION = 20
QUESTION = "Where does Ann live now?"

_PLACES = ("Porto", "Lisbon", "Bergen", "Ghent", "Turin", "Lyon", "Graz", "Cork", "Vigo", "Malmo")
_THINGS = ("kayak", "telescope", "bicycle", "guitar", "lamp", "camera", "carpet", "oven", "tent", "desk")
_JOBS = ("nurse", "welder", "teacher", "baker", "lawyer", "pilot")
_SISTERS = ("Clara", "Dora", "Eva")
_SAID = (
    "I moved to {place} last month, the flat has {few} windows.",
    "I bought a {thing} number {many} yesterday in {place}.",
    "I started working as a {job} at company{some}.",
    "My sister {sister} came to visit me from {place}, we talked for {some} minutes.",
    "That sounds great! Did you like the {thing}?",
    "I love {thing}s, I have had {many} of them since 20{few}.",
    "Yesterday I went to {place} with {sister} and lost {many} euros.",
    "I live in {place} now and I no longer work for company{some}.",
)


def session(number: int) -> list[dict[str, Any]]:
    """Return a session of twenty turns; one a day."""
    random = Random(number)
    day = f"{2010 + number // 336}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"
    return [
        {
            "speaker": ("Ann", "Bob")[at % 2],
            "text": random.choice(_SAID).format(
                place=random.choice(_PLACES),
                thing=random.choice(_THINGS),
                job=random.choice(_JOBS),
                sister=random.choice(_SISTERS),
                few=random.randrange(10, 24),
                some=random.randrange(2, 1_000),
                many=random.randrange(2, 100_000),
            ),
            "timestamp": f"{day}T10:{at:02}:00Z",
        }
        for at in range(SESSION)
    ]


def config() -> Config:
    """Return the configuration of all memories."""
    return Config(embedder=HashEmbedder(64))


def build(directory: Path, turns: int) -> None:
    """Make a memory of so many turns, or finish one."""
    with MemForest(directory, config()) as forest:
        for number in range(turns // SESSION):
            forest.ingest_session(USER, f"s{number}", session(number))


def spent(act: Callable[[], Any]) -> float:
    """Return the processor time of something, in ms."""
    started = time.process_time()
    act()
    return (time.process_time() - started) * 1000


def measure(forests: list[MemForest], first: int, rounds: int) -> list[list[list[float]]]:
    """Return the times of every round: by memory, then by what was done."""
    found: list[list[list[float]]] = [[[], [], []] for _ in forests]
    for number in range(first, first + rounds):
        turns = session(number)
        for forest, times in zip(forests, found, strict=True):
            ask = partial(forest.query, USER, QUESTION)
            times[0].append(spent(partial(forest.ingest_session, USER, f"s{number}", turns)))
            times[1].append(spent(ask))
            times[2].append(spent(ask))
    return found


def main() -> None:
    """Build, measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = args.dir or Path(folder) / "kept"
        forests = []
        for turns in args.turns:
            build(kept / str(turns), turns)
            copy = Path(folder) / f"copy-{turns}"
            shutil.copytree(kept / str(turns), copy)
            forests.append(MemForest(copy, config()))
        first = max(args.turns) // SESSION + 1_000
        measure(forests, first - 2, 2)  # the first question of a process reads the memory
        found = measure(forests, first, args.rounds)
        for forest in forests:
            forest.close()
    print("| processor, ms | " + " | ".join(f"{turns:,} turns" for turns in args.turns) + " | ratio |")
    print("|---|" + "---|" * (len(args.turns) + 1))
    names = ("ingest of 20 turns", "first question about change after it", "the same question again")
    for at, name in enumerate(names):
        medians = [statistics.median(times[at]) for times in found]
        chunks = " | ".join(f"{ms:.0f}" for ms in medians)
        print(f"| {name} | {chunks} | {medians[-1] / medians[0]:.2f} |")


if __name__ == "__main__":
    main()
