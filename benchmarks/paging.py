"""What a page of 50 costs as a memory grows: facts, facts of somebody, sessions, turns, a timeline, at 1k and 10k facts.

    python benchmarks/paging.py [--sizes 1000 10000] [--dir DIR] [--times 20]   # DIR: kept, and used again

One seeded conversation (`synthetic/chat.py`) is ingested as far as each size asks, as in `correcting.py`. *Cold* is the first
page of a forest that has just been opened, whose memory nothing has read; *at* is a page in the middle, by cursor, and *offset*
the same page by offset. Times are the medians of whole calls through the public API, on all memories in turn, so that a busy
machine is as busy for one as for the other; the ratio is to the smallest size.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from correcting import DIMENSION, build
from memforest import MemForest
from memforest.memory.blocking import UserMemory
from scale import USER, config

LIMIT = 50

Calls = Mapping[str, Callable[[UserMemory], object]]


def ms(call: Callable[[], object]) -> float:
    """Return what a call takes."""
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def calls(user: UserMemory) -> Calls:
    """Return the pages that are measured, those in the middle by the cursor of the page before."""
    total, sessions = user.list(limit=1).total, user.sessions(limit=1).total
    before = user.list(offset=total // 2 - 1, limit=1).next_cursor
    person = user.entities(limit=1).entities[0].name
    of = user.list(entity=person, limit=1).total
    of_before = user.list(entity=person, offset=of // 2 - 1, limit=1).next_cursor
    cursor = None
    for _ in range(sessions // 2 // 1000):
        cursor = user.sessions(limit=1000, cursor=cursor).next_cursor
    cursor = user.sessions(limit=max(1, sessions // 2 % 1000), cursor=cursor).next_cursor
    events = user.timeline(person, limit=1).total
    entry = user.timeline(person, limit=min(1000, max(1, events // 2))).next_cursor
    return {
        "facts at": lambda to: to.list(limit=LIMIT, cursor=before),
        "facts offset": lambda to: to.list(limit=LIMIT, offset=total // 2),
        "of a person at": lambda to: to.list(limit=LIMIT, entity=person, cursor=of_before),
        "so at a time": lambda to: to.list(limit=LIMIT, as_of="2030-01-01"),
        "sessions at": lambda to: to.sessions(limit=LIMIT, cursor=cursor),
        "timeline at": lambda to: to.timeline(person, limit=LIMIT, cursor=entry),
    }


def cold(folder: Path, call: Callable[[UserMemory], object]) -> float:
    """Return what a call takes that is the first of a forest; opening the file is not in it."""
    with MemForest(folder, config(DIMENSION)) as forest:
        user = forest.user(USER)
        user.stats()
        return ms(lambda: call(user))


COLD: Calls = {
    "facts cold": lambda user: user.list(limit=LIMIT),
    "sessions cold": lambda user: user.sessions(limit=LIMIT),
}


def main() -> None:
    """Build the memories, measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--times", type=int, default=20)
    args = parser.parse_args()
    with ExitStack() as stack:
        root = args.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found: dict[str, dict[int, list[float]]] = {}
        users: dict[int, tuple[UserMemory, Calls]] = {}
        for size in args.sizes:
            build(root / str(size), size)
        for _ in range(max(3, args.times // 4)):
            for name, call in COLD.items():
                for size in args.sizes:
                    took = cold(root / str(size), call)
                    found.setdefault(name, {}).setdefault(size, []).append(took)
        for size in args.sizes:
            user = stack.enter_context(MemForest(root / str(size), config(DIMENSION))).user(USER)
            users[size] = user, calls(user)
        for _ in range(args.times):
            for size, (user, own) in users.items():
                for name, call in own.items():
                    took = ms(lambda call=call, user=user: call(user))  # type: ignore[misc]
                    found.setdefault(name, {}).setdefault(size, []).append(took)
    print("| page of 50 | " + " | ".join(f"{size:,} facts: ms | x" for size in args.sizes) + " |")
    print("|" + "---|" * (1 + 2 * len(args.sizes)))
    for name, times in found.items():
        medians = [statistics.median(times[size]) for size in args.sizes]
        chunks = " | ".join(f"{one:.1f} | {one / medians[0]:.2f}" for one in medians)
        print(f"| {name} | {chunks} |")


if __name__ == "__main__":
    main()
