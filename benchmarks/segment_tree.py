"""What one insert into a segment tree costs as it grows: time, nodes written and nodes read, as ratios to the first size.

    python benchmarks/segment_tree.py [--sizes 1000 10000 100000] [--seed 7] [--rounds 3]

Three kinds of decisions, each with the guards that an index puts on them:

* **well-formed**: talk that mostly goes on where it is, turns now and then, and seldom turns to something else;
* **all NONE**: no leaf belongs to anything before it;
* **never NONE**: every leaf belongs to the lowest node there is.

The guards: at a height of 12, NONE picks level 12 (the root, until that is cut), and a node of 64 children is cut in the middle.
Every tree grows in memory, once a round, and the least of the rounds is told. The time is that of the insert with its cuts: the median, over the last ten windows
of 100 inserts before a size, of their means. The garbage collector is off meanwhile: its work grows with all that is in
memory, not with the tree's path. Nodes written and read are of the last 1,000 inserts.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter_ns

from memforest.nodes import DictArena, Node, TreeHead
from memforest.trees import segment
from memforest.trees.node import Contract, check
from memforest.trees.segment import NewLeaf

WINDOW = 100
HEIGHT_MAX = 12
FAN_OUT_MAX = 64

Decide = Callable[[Random, int], int | None]
"""Picks a level of a tree of a height, or None."""


def well_formed(random: Random, height: int) -> int | None:
    """Go on (78 of 100), turn within what is going on (19), or turn to something else (3)."""
    share = random.random()
    return 1 if share < 0.78 else min(2, height) if share < 0.97 else None


DECISIONS: dict[str, Decide] = {
    "well-formed": well_formed,
    "all NONE": lambda random, height: None,
    "never NONE": lambda random, height: 1,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: of the last 1,000 inserts before a size, and of the tree then."""

    decisions: str
    leaves: int
    us: float
    writes_mean: float
    writes_max: int
    reads_mean: float
    nodes_a_leaf: float
    height: int


def run(name: str, sizes: Sequence[int], seed: int) -> list[Row]:
    """Grow one tree to the largest size and return a row for each."""
    random, decide = Random(seed), DECISIONS[name]
    arena, head, ends = DictArena(), TreeHead(1, 0), list[Node]()
    took, writes, reads, rows = [], [], [], []
    for at in range(1, max(sizes) + 1):
        level = decide(random, head.height) if head.height else None
        leaf = NewLeaf((at, ""), at, at + 1, "turn", at)
        arena.writes = arena.reads = 0
        start = perf_counter_ns()
        head, ends = guarded(arena, head, leaf, level, ends)
        took.append(perf_counter_ns() - start)
        writes.append(arena.writes)
        reads.append(arena.reads)
        if at in sizes:
            rows.append(
                Row(
                    decisions=name,
                    leaves=at,
                    us=_median_us(took),
                    writes_mean=statistics.fmean(writes[-1000:]),
                    writes_max=max(writes[-1000:]),
                    reads_mean=statistics.fmean(reads[-1000:]),
                    nodes_a_leaf=len(arena.nodes) / at,
                    height=head.height,
                )
            )
    if problems := check(arena, head, Contract("partition", unary=False)):
        raise SystemExit(f"the tree is not sound: {problems[:3]}")
    return rows


def guarded(
    arena: DictArena, head: TreeHead, leaf: NewLeaf, level: int | None, ends: list[Node]
) -> tuple[TreeHead, list[Node]]:
    """Insert a leaf with both guards; return the head and the next frontier."""
    if level is None and head.height >= HEIGHT_MAX:
        level = HEIGHT_MAX
    grown = segment.insert(arena, head, leaf, level, ends=ends)
    head, ends = grown.head, [grown.leaf, *grown.above]
    for node in grown.above:
        if len(node.children) >= FAN_OUT_MAX:
            head = segment.cut(arena, head, node.id, FAN_OUT_MAX // 2, ends=ends)
            ends = segment.frontier(arena, head)
    return head, ends


def _median_us(took: Sequence[int]) -> float:
    """Return the median, over the last ten windows, of their means in µs."""
    last = took[-10 * WINDOW :]
    windows = [last[i : i + WINDOW] for i in range(0, len(last), WINDOW)]
    return statistics.median(statistics.fmean(window) for window in windows) / 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    sizes = sorted(args.sizes)
    print(
        f"segment tree in memory, seed {args.seed}, Python {platform.python_version()}, {platform.machine()}"
    )
    print(
        "| decisions | leaves | µs an insert | ratio | nodes written mean, max | ratio | read | nodes a leaf | height |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    gc.disable()
    for name in DECISIONS:
        rounds = [run(name, sizes, args.seed) for _ in range(args.rounds)]
        rows = [min(row, key=lambda one: one.us) for row in zip(*rounds, strict=True)]
        for row in rows:
            print(
                f"| {row.decisions} | {row.leaves:,} | {row.us:.1f} | {row.us / rows[0].us:.2f} "
                f"| {row.writes_mean:.2f}, {row.writes_max} | {row.writes_mean / rows[0].writes_mean:.2f} "
                f"| {row.reads_mean:.1f} | {row.nodes_a_leaf:.2f} | {row.height} |"
            )
        gc.collect()
    gc.enable()


if __name__ == "__main__":
    main()
