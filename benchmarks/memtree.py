"""What one insert into a MemTree costs as the tree grows: nodes written, nodes read, time, fill and height.

    python benchmarks/memtree.py [--arena dict] [--leaves 10000] [--seed 7] [--k 3 8 10]
    python benchmarks/memtree.py --arena sqlite --k 3 8 [--dir DIR]

Every run inserts the same leaves twice into a fresh arena: once counted, once timed with nothing in
between. With ``--arena sqlite`` the timed run is the store's: a real file with the store's pragmas, and for
every insert one write transaction with an arena of its own, as in the worst case of one fact at a time. The
time inside the transaction (reading the path, writing nodes and the head) is measured apart from the commit,
which waits for the disk. Times are the median over windows of 100 inserts, around the 1,000th and at the end.
"""

from __future__ import annotations

import argparse
import platform
import random
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from memforest.nodes import Arena, DictArena, Node, TreeHead
from memforest.store import trees
from memforest.store.database import Database, ensure_schema
from memforest.trees.node import check, insert, walk

Timed = tuple[list[int], list[int]]
"""Time of every insert, and of every commit where there are commits, in ns."""
Time = Callable[[int, Sequence[int]], Timed]
"""Times the inserts of days into a fresh tree of a fan-out."""
WINDOW = 100


@dataclass(slots=True)
class Counted:
    """An arena that counts what passes through it, in nodes and in calls."""

    arena: Arena
    reads: int = 0
    calls: int = 0
    writes: int = 0

    def get(self, node_id: int) -> Node:
        """Read one node."""
        self.reads += 1
        self.calls += 1
        return self.arena.get(node_id)

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Read nodes in one call."""
        self.reads += len(ids)
        self.calls += 1
        return self.arena.get_many(ids)

    def new_id(self) -> int:
        """Return a new id."""
        return self.arena.new_id()

    def put(self, node: Node) -> None:
        """Write one node."""
        self.writes += 1
        self.arena.put(node)

    def drop(self, node_id: int) -> None:
        """Drop one node: a write too."""
        self.writes += 1
        self.arena.drop(node_id)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Times in µs per insert; `fill` is children per place for them."""

    k: int
    order: str
    writes_mean: float
    writes_max: int
    reads_mean: float
    calls_mean: float
    us_1k: float
    us_end: float
    commit_us: float
    fill: float
    height: int
    least: int


def run(time: Time, *, count: int, fan_outs: Sequence[int], seed: int) -> Iterator[Row]:
    """Insert `count` leaves in order and in a seeded random order, for every fan-out; yield a row for each."""
    shuffled = list(range(count))
    random.Random(seed).shuffle(shuffled)
    for k in fan_outs:
        for order, days in (("ordered", range(count)), ("random", shuffled)):
            yield _measure(time, k, order, days)


def _measure(time: Time, k: int, order: str, days: Sequence[int]) -> Row:
    writes: list[int] = []
    arena = DictArena()
    counted, head = Counted(arena), TreeHead(1, k)
    for day in days:
        before = counted.writes
        head = _insert(counted, head, day)
        writes.append(counted.writes - before)
    if problems := check(arena, head):
        raise SystemExit(f"the tree is not sound: {problems[:3]}")
    fans = [len(node.children) for node in walk(arena, head) if node.level]
    took, commits = time(k, days)
    return Row(
        k=k,
        order=order,
        writes_mean=statistics.fmean(writes),
        writes_max=max(writes),
        reads_mean=counted.reads / len(days),
        calls_mean=counted.calls / len(days),
        us_1k=_median_us(took, 1000),
        us_end=_median_us(took, len(took)),
        commit_us=_median_us(commits, len(commits)) if commits else 0.0,
        fill=sum(fans) / (k * len(fans)),
        height=head.height,
        least=next(height for height in range(64) if k**height >= len(days)),
    )


def time_dict(k: int, days: Sequence[int]) -> Timed:
    """Time inserts into the in-memory arena."""
    took = []
    arena, head = DictArena(), TreeHead(1, k)
    for day in days:
        start = perf_counter_ns()
        head = _insert(arena, head, day)
        took.append(perf_counter_ns() - start)
    return took, []


def time_sqlite(directory: Path, k: int, days: Sequence[int]) -> Timed:
    """Time inserts into a fresh file, one transaction each; the tree is checked at the end."""
    took, commits = [], []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        db = Database(Path(folder) / "memtree.db")
        ensure_schema(db)
        with db.write() as tx:
            tree = trees.put_head(tx, "memforest", "entity", 1, TreeHead(0, k)).tree
        for day in days:
            with db.write() as tx:
                start = perf_counter_ns()
                head = trees.find_head(tx, "memforest", "entity", 1)
                assert head is not None
                tx.execute(_FACT, (day, str(day), day))
                arena = trees.SqliteArena(tx)
                trees.put_head(tx, "memforest", "entity", 1, _insert(arena, head, day))
                arena.flush()
                done = perf_counter_ns()
            took.append(done - start)
            commits.append(perf_counter_ns() - done)
        with db.read() as tx:
            _, _, head = trees.head_of(tx, tree)
            if problems := check(trees.SqliteArena(tx), head):
                raise SystemExit(f"the stored tree is not sound: {problems[:3]}")
        db.close()
    return took, commits


_FACT = "INSERT INTO fact VALUES (?, ?, '', '', NULL, NULL, 'unknown', 0, ?, '', '[]', 0, '[]', 0)"
"""What a leaf stands for, and has its time from."""


def _insert(arena: Arena, head: TreeHead, day: int) -> TreeHead:
    return insert(arena, head, key=(day, ""), start_ms=day, end_ms=day + 1, item_kind="fact", item=day)[0]


def _median_us(took: Sequence[int], upto: int) -> float:
    """Return the median, over the last ten windows before insert number `upto`, of their means in µs."""
    last = took[max(0, upto - 10 * WINDOW) : upto]
    windows = [last[i : i + WINDOW] for i in range(0, len(last), WINDOW)]
    return statistics.median(statistics.fmean(window) for window in windows) / 1000


ARENAS = ("dict", "sqlite")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arena", choices=ARENAS, default="dict")
    parser.add_argument("--dir", type=Path, help="where the file is made (default: the temporary directory)")
    parser.add_argument("--leaves", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 8, 10])
    args = parser.parse_args()
    time: Time = time_dict if args.arena == "dict" else partial(time_sqlite, args.dir)
    print(
        f"{args.leaves} inserts into one MemTree, {args.arena} arena, seed {args.seed}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}"
    )
    print(
        "| k | order | written mean, max | read mean (calls) | µs at 1k | µs at end | commit ms | fill "
        "| height (least) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in run(time, count=args.leaves, fan_outs=args.k, seed=args.seed):
        print(
            f"| {row.k} | {row.order} | {row.writes_mean:.2f}, {row.writes_max} "
            f"| {row.reads_mean:.1f} ({row.calls_mean:.1f}) | {row.us_1k:.1f} | {row.us_end:.1f} "
            f"| {row.commit_us / 1000:.2f} | {row.fill:.0%} | {row.height} ({row.least}) |"
        )


if __name__ == "__main__":
    main()
