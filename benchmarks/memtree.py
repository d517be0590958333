"""What one insert into a MemTree costs as the tree grows: nodes written, nodes read, time, fill and height.

    python benchmarks/memtree.py [--leaves 10000] [--seed 7] [--k 3 8 10]

Every run inserts the same leaves twice into a fresh arena: once counted, once timed with nothing in
between. `run` takes the arena's factory, so that an arena over a database is measured by the same code.
Times are the median over windows of 100 inserts, around the 1,000th and at the end.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter_ns

from memforest.tree import Arena, DictArena, Node, TreeHead, check, insert, walk

MakeArena = Callable[[], AbstractContextManager[Arena]]
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
    fill: float
    height: int
    least: int


def run(make_arena: MakeArena, *, count: int, fan_outs: Sequence[int], seed: int) -> Iterator[Row]:
    """Insert `count` leaves in order and in a seeded random order, for every fan-out; yield a row for each."""
    shuffled = list(range(count))
    random.Random(seed).shuffle(shuffled)
    for k in fan_outs:
        for order, days in (("ordered", range(count)), ("random", shuffled)):
            yield _measure(make_arena, k, order, days)


def _measure(make_arena: MakeArena, k: int, order: str, days: Sequence[int]) -> Row:
    writes: list[int] = []
    with make_arena() as arena:
        counted, head = Counted(arena), TreeHead(1, k)
        for day in days:
            before = counted.writes
            head = _insert(counted, head, day)
            writes.append(counted.writes - before)
        if problems := check(arena, head):
            raise SystemExit(f"the tree is not sound: {problems[:3]}")
        fans = [len(node.children) for node in walk(arena, head) if node.level]
    with make_arena() as arena:
        took = _timed(arena, TreeHead(1, k), days)
    return Row(
        k=k,
        order=order,
        writes_mean=statistics.fmean(writes),
        writes_max=max(writes),
        reads_mean=counted.reads / len(days),
        calls_mean=counted.calls / len(days),
        us_1k=_median_us(took, 1000),
        us_end=_median_us(took, len(took)),
        fill=sum(fans) / (k * len(fans)),
        height=head.height,
        least=next(height for height in range(64) if k**height >= len(days)),
    )


def _timed(arena: Arena, head: TreeHead, days: Sequence[int]) -> list[int]:
    """Return the time of every insert in ns."""
    took = []
    for day in days:
        start = perf_counter_ns()
        head = _insert(arena, head, day)
        took.append(perf_counter_ns() - start)
    return took


def _insert(arena: Arena, head: TreeHead, day: int) -> TreeHead:
    return insert(arena, head, key=(day, ""), start_ms=day, end_ms=day + 1, item_kind="fact", item=day)[0]


def _median_us(took: Sequence[int], upto: int) -> float:
    """Return the median, over the last ten windows before insert number `upto`, of their means in µs."""
    last = took[max(0, upto - 10 * WINDOW) : upto]
    windows = [last[i : i + WINDOW] for i in range(0, len(last), WINDOW)]
    return statistics.median(statistics.fmean(window) for window in windows) / 1000


@contextmanager
def dict_arena() -> Iterator[Arena]:
    """Make the in-memory reference arena."""
    yield DictArena()


ARENAS: dict[str, MakeArena] = {"dict": dict_arena}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arena", choices=sorted(ARENAS), default="dict")
    parser.add_argument("--leaves", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 8, 10])
    args = parser.parse_args()
    print(
        f"{args.leaves} inserts into one MemTree, {args.arena} arena, seed {args.seed}, "
        f"Python {platform.python_version()}, {platform.machine()}"
    )
    print(
        "| k | order | written mean, max | read mean (calls) | µs at 1k | µs at end | fill | height (least) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in run(ARENAS[args.arena], count=args.leaves, fan_outs=args.k, seed=args.seed):
        print(
            f"| {row.k} | {row.order} | {row.writes_mean:.2f}, {row.writes_max} "
            f"| {row.reads_mean:.1f} ({row.calls_mean:.1f}) | {row.us_1k:.1f} | {row.us_end:.1f} "
            f"| {row.fill:.0%} | {row.height} ({row.least}) |"
        )


if __name__ == "__main__":
    main()
