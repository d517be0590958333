"""What three more indexes cost the questions of the first: two memories of the same talk side by side.

    python benchmarks/several_indexes.py [--turns 4000] [--rounds 20]

One memory has the index ``memforest``, the other one three more with trees of their own over all turns and facts.
Both hear the same sessions (those of `drift.py`) and are measured in turns. In each round a session of 20 turns is
ingested, a question is asked, and the same question again, several times. Then each memory is opened in a process of
its own, which asks one question; its resident memory is compared at its end. Times are of the processor. `ratio` is
the memory with four indexes to the one with one. Embeddings are by the `HashEmbedder` with 64 numbers.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from drift import QUESTION, SESSION, USER, session, spent
from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.search.forest import NOTHING, TURNS, Forest
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.trees import attached
from memforest.trees.flat import FlatIndex
from memforest.trees.kernel import Growth
from memforest.trees.memforest_grow import fact_order

AGAIN = 5
"""Times that a question is repeated."""
FAN_OUT = 8


class Shadow(FlatIndex):
    """Trees of all turns by session, and one of all facts; what it would rank does not matter here."""

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the trees, none of which has summaries."""
        sessions, of = np.unique(snapshot.turns.session, return_inverse=True)
        facts, rows = np.argsort(fact_order(snapshot), kind="stable"), np.arange(len(of))
        kinds = ["session"] * len(sessions) + ["all"] * bool(len(facts))
        growth = Growth(self.name, snapshot, kinds, np.arange(len(kinds)))
        growth.runs(of, TURNS, rows, rows + 1)
        growth.facts(np.full(len(facts), len(sessions)), facts)
        leaves = np.arange(growth.size)
        growth.pack(leaves, leaves.astype(np.uint64), np.full(len(kinds), FAN_OUT), anchored=False)
        return growth.forest(told=NOTHING)


MORE = tuple(f"shadow{number}" for number in (1, 2, 3))
"""Names of the other indexes."""


def config(indexes: int) -> Config:
    """Return the configuration of a memory with so many indexes."""
    return Config(embedder=HashEmbedder(64), indexes=("memforest", *MORE)[:indexes])


def measure(forests: list[MemForest], first: int, rounds: int) -> list[list[list[float]]]:
    """Return the times of every round: by memory, then by what was done."""
    found: list[list[list[float]]] = [[[], [], []] for _ in forests]
    for number in range(first, first + rounds):
        turns = session(number)
        order = list(zip(forests, found, strict=True))
        for forest, times in order if number % 2 else order[::-1]:  # neither is always the first
            ask = partial(forest.query, USER, QUESTION)
            times[0].append(spent(partial(forest.ingest_session, USER, f"s{number}", turns)))
            times[1].append(spent(ask))
            times[2] += [spent(ask) for _ in range(AGAIN)]
    return found


def resident(directory: Path, indexes: int) -> float:
    """Return the resident memory of a process that has asked one question, in MB."""
    done = subprocess.run(
        [sys.executable, __file__, "--ask", str(directory), "--indexes", str(indexes)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def ask(directory: Path, indexes: int) -> None:
    """Ask one question and print the resident memory of this process, in MB."""
    import resource

    with MemForest(directory, config(indexes)) as forest:
        forest.query(USER, QUESTION)
    unit = 1 if sys.platform == "darwin" else 1024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def main() -> None:
    """Build, measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--indexes", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in MORE:
        attached.INDEXES[name] = type(name, (Shadow,), {"name": name})
    try:
        run(args)
    finally:
        for name in MORE:
            attached.INDEXES.pop(name, None)


def run(args: argparse.Namespace) -> None:
    """Measure both memories and print the table, or ask one question of a memory that is there."""
    if args.ask is not None:
        ask(args.ask, args.indexes)
        return
    with tempfile.TemporaryDirectory() as folder:
        counts = (1, 4)
        directories = [Path(folder) / str(count) for count in counts]
        forests = [MemForest(one, config(n)) for one, n in zip(directories, counts, strict=True)]
        requests = [
            {"user_id": USER, "session_id": f"s{n}", "turns": session(n)}
            for n in range(args.turns // SESSION)
        ]
        for forest in forests:
            forest.ingest_parallel(requests)
        first = len(requests)
        measure(forests, first, 2)  # the first question of a process reads the memory
        times = measure(forests, first + 2, args.rounds)
        stats = [forest.user(USER).stats() for forest in forests]
        for forest in forests:
            forest.close()
        held = [
            [resident(one, n) for _ in range(min(3, args.rounds))]
            for one, n in zip(directories, counts, strict=True)
        ]
    print(
        f"{stats[0].turns:,} turns, {stats[0].facts:,} facts; nodes: {stats[0].nodes:,} and {stats[1].nodes:,}\n"
    )
    print("| | 1 index | 4 indexes | ratio |\n|---|---|---|---|")
    names = ("question after a write, ms", "the same question again, ms", "ingest of 20 turns, ms")
    rows: list[tuple[str, list[list[float]]]] = [
        (name, [one[at] for one in times]) for name, at in zip(names, (1, 2, 0), strict=True)
    ]
    for name, values in [*rows, ("resident memory after a question, MB", held)]:
        print(_row(name, *(statistics.median(one) for one in values)))


def _row(name: str, one: float, four: float) -> str:
    return f"| {name} | {one:.1f} | {four:.1f} | {four / one:.2f} |"


if __name__ == "__main__":
    main()
