"""How nodes are packed: where the leaves alone say it, and from the left, as in the paper's tree that grows to the right.

    python benchmarks/packing.py [--leaves 100 1000 10000] [--fan-out 3 8 10] [--sparse 2 4 8] [--trials 50]

A summary is paid for again when the leaves below its node change, so what counts is how many nodes a change renews. Both
packings are those of `memforest.trees.kernel.packed`; *anchored* ends a node also where a leaf says so, one in `sparse` times k.

`fill` is the mean number of children over k, `calls a leaf` the number of inner nodes over that of leaves, `depth` that of the
leaves. `append`, `insert` and `delete` are the nodes that one leaf behind all, one leaf anywhere between, and one leaf less
renew: that have other leaves below them than any node had before, on average over the trials and at most.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import mixed
from memforest.trees import kernel

Ints = NDArray[np.int64]
Packing = Literal["anchored", "paper"]


def levels(leaves: Ints, k: int, packing: Packing) -> list[Ints]:
    """Return where nodes begin among the leaves, level by level up to the root, as `memforest.trees.kernel.Growth.pack` does."""
    starts, marks, found = np.arange(len(leaves)), mixed(leaves.astype(np.uint64)), list[Ints]()
    while len(starts) > 1:
        one_tree, width = np.zeros(len(starts), dtype=np.int64), np.array([k])
        group = kernel.packed(one_tree, mixed(marks, len(found)), width, anchored=packing == "anchored")
        first = np.flatnonzero(np.r_[True, np.diff(group) != 0])
        starts, marks = starts[first], marks[first]
        found.append(starts)
    return found


def below(leaves: Ints, made: Sequence[Ints]) -> set[bytes]:
    """Return what each node has below it, by which its summary is known; a node with one child says what that says."""
    ends = [np.r_[starts[1:], len(leaves)] for starts in made]
    return {
        leaves[first:end].tobytes()
        for starts, after in zip(made, ends, strict=True)
        for first, end in zip(starts.tolist(), after.tolist(), strict=True)
        if end - first > 1
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the table: means and maxima of the nodes that a change renews."""

    fill: float
    calls: float
    depth: int
    append: tuple[float, int]
    insert: tuple[float, int]
    delete: tuple[float, int]


def measure(packing: Packing, count: int, k: int, trials: int, seed: int) -> Measured:
    """Return the figures of a packing over `count` leaves, among whose numbers as many are free for inserts."""
    random = np.random.default_rng(seed)
    leaves = np.sort(random.choice(40 * count, count, replace=False)) * 2
    made = levels(leaves, k, packing)
    before = below(leaves, made)
    renewed: dict[str, list[int]] = {"append": [], "insert": [], "delete": []}
    for _ in range(trials):
        changed = {
            "append": np.append(leaves, 80 * count + int(random.integers(10**9))),
            "insert": np.sort(np.append(leaves, 2 * int(random.integers(40 * count)) + 1)),
            "delete": np.delete(leaves, int(random.integers(count))),
        }
        for name, now in changed.items():
            renewed[name].append(len(below(now, levels(now, k, packing)) - before))
    children = [len(one) for one in (leaves, *made)]
    nodes = sum(children[1:])
    spread = {name: (float(np.mean(found)), max(found)) for name, found in renewed.items()}
    return Measured(sum(children[:-1]) / nodes / k, nodes / count, len(made), **spread)


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--leaves", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--fan-out", type=int, nargs="+", default=[3, 8, 10])
    parser.add_argument("--sparse", type=int, nargs="+", default=[kernel.SPARSE])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    print(f"{'leaves':>7} {'k':>3} {'packing':<12}{'fill':>5}{'calls/leaf':>11}{'depth':>6}", end="")
    print("".join(f"{name:>16}" for name in ("append", "insert", "delete")))
    for count in given.leaves:
        for k in given.fan_out:
            ways: list[tuple[Packing, int]] = [("anchored", one) for one in given.sparse]
            for packing, sparse in (*ways, ("paper", 0)):
                kernel.SPARSE = sparse or kernel.SPARSE
                one = measure(packing, count, k, given.trials, given.seed)
                shown = "".join(
                    f"{f'{mean:.1f} <= {most}':>16}" for mean, most in (one.append, one.insert, one.delete)
                )
                name = f"{packing} {sparse or ''}"
                print(
                    f"{count:>7} {k:>3} {name:<12}{one.fill:>5.2f}{one.calls:>11.2f}{one.depth:>6}{shown}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
