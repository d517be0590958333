"""What deleting a turn costs as a memory grows: at 1k, 10k and 100k facts.

    python benchmarks/deleting.py [--sizes 1000 10000 100000] [--turns 40] [--dir DIR]   # DIR: kept, and used again

One seeded conversation (`synthetic/chat.py`) is ingested through the public API as far as each size asks. Then turns
that are drawn at random are deleted one by one, at all sizes in turn, so that a busy machine is as busy for one as for
the other.

- *delete*: the whole call, to the receipt. *first*: the first one after the memory was opened, in which the gaps of all
  pages are looked at; later ones look at those that have changed.
- *rows*: the transaction that deletes, its commit included. *log*: emptying the log behind it, gaps included.
- *x 1k*: the median call as a multiple of that at the smallest size.

FTS5 can purge words without rewriting the lexical index from SQLite 3.42 on; before, each deletion rewrites it, which
takes longer in a large memory. The first line says which it is; `MEMFOREST_TEST_SQLITE=pysqlite3` with tests_long/other_sqlite
on PYTHONPATH measures another one.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.store import upkeep
from memforest.write import delete
from synthetic.chat import Chat

USER = "ana"
BATCH = 200


def build(directory: Path, facts: int) -> MemForest:
    """Return a forest whose memory has at least so many facts."""
    forest = MemForest(directory, Config(embedder=HashEmbedder(64)))
    chat, number = Chat(1), 0
    forest.register_user(USER)
    while forest.user(USER).stats().facts < facts:
        sessions = [chat.session(number + at) for at in range(max(1, min(BATCH, facts // 10)))]
        forest.ingest_parallel(
            [{"user_id": USER, "session_id": one, "turns": turns} for one, turns in sessions], refresh=False
        )
        number += len(sessions)
    forest.save()
    return forest


def timed(spent: list[float], work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that adds the time of each call, in ms."""

    def run(*args: Any) -> Any:
        started = time.perf_counter()
        try:
            return work(*args)
        finally:
            spent.append((time.perf_counter() - started) * 1000)

    return run


def measure(forests: Sequence[MemForest], turns: int) -> list[dict[str, list[float]]]:
    """Delete turns in all forests in turn; return what each call and its parts took, in ms."""
    random = Random(1)
    found: list[dict[str, list[float]]] = [{"delete": [], "rows": [], "log": []} for _ in forests]
    rows, log = delete.delete_target, upkeep.purge
    places = [[(one.session_id, one.turns) for one in forest.user(USER).sessions()] for forest in forests]
    for _ in range(turns):
        for forest, spent, sessions in zip(forests, found, places, strict=True):
            session_id, count = random.choice([one for one in sessions if one[1]])
            sessions.remove((session_id, count))  # one of a session, so that the turn is there
            with (
                patch.object(delete, "delete_target", timed(spent["rows"], rows)),
                patch.object(delete, "purge", timed(spent["log"], log)),
            ):
                timed(spent["delete"], forest.delete_turn)(USER, session_id, str(random.randrange(count)))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--dir", type=Path)
    asked = parser.parse_args()
    print(f"SQLite {sqlite3.sqlite_version}; ms, medians of {asked.turns} turns")
    print(
        "| facts | turns | MB | delete | p90 | rows | log | first | x smallest |\n|---|---|---|---|---|---|---|---|---|"
    )
    with ExitStack() as stack:
        directory = asked.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        forests = [stack.enter_context(build(directory / str(size), size)) for size in asked.sizes]
        stats = [forest.user(USER).stats() for forest in forests]
        found = measure(forests, asked.turns)
        least = statistics.median(found[0]["delete"][1:])
        for one, spent in zip(stats, found, strict=True):
            parts = {name: statistics.median(times[1:]) for name, times in spent.items()}
            p90 = statistics.quantiles(spent["delete"][1:], n=10)[-1]
            print(
                f"| {one.facts:,} | {one.turns:,} | {one.bytes / 1e6:.0f} | {parts['delete']:.1f} | {p90:.1f} | {parts['rows']:.1f}"
                f" | {parts['log']:.1f} | {spent['delete'][0]:.0f} | {parts['delete'] / least:.2f} |"
            )


if __name__ == "__main__":
    main()
