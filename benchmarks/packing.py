"""How the nodes of a tree are packed: where the leaves alone say it, by position, and as the product's MemTree does.

    python benchmarks/packing.py [--leaves 100 1000 10000] [--fan-out 3 8 10] [--sparse 2 4 8] [--trials 50]

A summary is paid for again when the leaves below its node change, so what counts is how many nodes a change renews.

- *anchored*: a leaf whose own hash says so (one in `sparse` times k) ends a node, between such leaves nodes are filled to k; likewise
  on each level above, by the hash of a node's low key. A level of at most k nodes gets the root. The shape follows from the set of
  leaves alone, in whatever order they came (cf. the prolly trees of Noms and Dolt).
- *position*: nodes of k from the left, as bulk loading packs them. A leaf in the middle shifts all that stands behind it.
- *memtree*: `memforest.trees.node`, leaves inserted in time order, then changed one by one; its shape depends on the order of changes.

`fill` is the mean number of children over k, `calls a leaf` the number of inner nodes over that of leaves. `append`, `insert` and
`delete` are the nodes that one change renews: that have other leaves below them than any node had before, on average over the trials, and
at most. Equal sets of leaves give equal trees only where `same` says so: half of the leaves are added in another order.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from memforest.nodes import DictArena, TreeHead
from memforest.trees.node import delete, insert

Node = tuple["Node | int", ...]
"""An inner node: its children in order; a leaf is its key."""


def anchors(key: int, level: int, period: int) -> bool:
    """Return whether a leaf, or a node with this low key, ends a node of the level: one in a period does."""
    hashed = blake2b(f"{level} {key}".encode(), digest_size=8).digest()
    return int.from_bytes(hashed, "little") % period == 0


def low(node: Node | int) -> int:
    """Return the key of the first leaf below a node."""
    while not isinstance(node, int):
        node = node[0]
    return node


def packed(leaves: Sequence[int], k: int, ends: Callable[[int, int], bool]) -> Node | int:
    """Return the root over leaves, packed level by level; `ends` says where a node ends before it is full."""
    row: list[Node | int] = list(leaves)
    level = 0
    while len(row) > k:
        above: list[Node | int] = []
        part: list[Node | int] = []
        for one in row:
            part.append(one)
            if len(part) == k or ends(low(one), level):
                above.append(tuple(part))
                part = []
        if part:
            above.append(tuple(part))
        row, level = above, level + 1
    return tuple(row) if len(row) > 1 else row[0]


def inner(root: Node | int) -> list[Node]:
    """Return all inner nodes, a node with one child left out: it says what its child says."""
    found: list[Node] = []
    stack = [root]
    while stack:
        one = stack.pop()
        if not isinstance(one, int):
            if len(one) > 1:
                found.append(one)
            stack += one
    return found


def below(root: Node | int) -> set[tuple[int, ...]]:
    """Return what each inner node has below it, by which its summary is known."""
    leaves: dict[int, tuple[int, ...]] = {}

    def walk(one: Node | int) -> tuple[int, ...]:
        if isinstance(one, int):
            return (one,)
        leaves[id(one)] = found = tuple(leaf for child in one for leaf in walk(child))
        return found

    walk(root)
    return {leaves[id(one)] for one in inner(root)}


class Tree:
    """The product's tree over the same leaves, as nested tuples."""

    def __init__(self, leaves: Sequence[int], k: int) -> None:
        self._arena, self._head = DictArena(), TreeHead(1, k)
        for leaf in leaves:
            self.add(leaf)

    def add(self, leaf: int) -> None:
        """Insert a leaf."""
        self._head, _ = insert(
            self._arena,
            self._head,
            key=(leaf, ""),
            start_ms=leaf,
            end_ms=leaf + 1,
            item_kind="fact",
            item=leaf,
        )

    def remove(self, leaf: int) -> None:
        """Delete a leaf."""
        self._head = delete(self._arena, self._head, (leaf, ""))

    @property
    def root(self) -> Node | int:
        """The tree as it stands."""

        def drawn(number: int) -> Node | int:
            node = self._arena.nodes[number]
            return tuple(map(drawn, node.children)) if node.children else node.key[0]

        return drawn(self._head.root or 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the table."""

    fill: float
    calls: float
    append: tuple[float, int]
    insert: tuple[float, int]
    delete: tuple[float, int]
    same: bool


def measure(kind: str, sparse: int, count: int, k: int, trials: int, seed: int) -> Measured:
    """Return the figures of a packing over `count` leaves, half of whose keys are left free for inserts."""
    random = Random(seed)
    leaves = sorted(random.sample(range(0, 40 * count, 2), count))

    def ends(key: int, level: int) -> bool:
        return kind == "anchored" and anchors(key, level, sparse * k)

    def made(of: Sequence[int]) -> Node | int:
        return Tree(of, k).root if kind == "memtree" else packed(sorted(of), k, ends)

    root = made(leaves)
    before, nodes = below(root), inner(root)
    renewed: dict[str, list[int]] = {"append": [], "insert": [], "delete": []}
    tree = Tree(leaves, k) if kind == "memtree" else None
    for _ in range(trials):
        extra, gone = random.randrange(1, 40 * count, 2), random.choice(leaves)
        for name, key in (("append", 40 * count + 1), ("insert", extra)):
            if tree is None:
                now = made([*leaves, key])
            else:
                if name == "append":  # what earlier trials left behind is another shape
                    tree = Tree(leaves, k)
                    before = below(tree.root)
                tree.add(key)
                now = tree.root
            renewed[name].append(len(below(now) - before))
            if tree is not None:
                tree.remove(key)
                before = below(tree.root)
        if tree is None:
            now = made([one for one in leaves if one != gone])
        else:
            tree.remove(gone)
            now = tree.root
        renewed["delete"].append(len(below(now) - before))
    shuffled = random.sample(leaves, count)
    change = {name: (statistics.fmean(found), max(found)) for name, found in renewed.items()}
    return Measured(
        statistics.fmean(len(one) for one in nodes) / k,
        len(nodes) / count,
        change["append"],
        change["insert"],
        change["delete"],
        below(made(shuffled)) == below(root),
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="How the nodes of a tree are packed, and what a change renews."
    )
    parser.add_argument("--leaves", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--fan-out", type=int, nargs="+", default=[3, 8, 10])
    parser.add_argument("--sparse", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    print(
        f"{'leaves':>7} {'k':>3} {'packing':<11} {'fill':>5} {'calls/leaf':>10} {'append':>12} {'insert':>14} {'delete':>14}  same"
    )
    for count in given.leaves:
        for k in given.fan_out:
            for kind, sparse in (
                *(("anchored", one) for one in given.sparse),
                ("position", 0),
                ("memtree", 0),
            ):
                one = measure(kind, sparse, count, k, given.trials, given.seed)
                parts = (f"{mean:.1f} <= {most}" for mean, most in (one.append, one.insert, one.delete))
                append, inserted, deleted = parts
                print(
                    f"{count:>7} {k:>3} {kind + (f' {sparse}' if sparse else ''):<11} {one.fill:>5.2f} {one.calls:>10.2f} {append:>12} {inserted:>14} "
                    f"{deleted:>14}  {'yes' if one.same else 'no'}"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
