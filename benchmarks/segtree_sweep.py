"""What a segment tree adds to a ranking: evidence recall for every way to read the tree, at equal context tokens.

    python benchmarks/segtree_sweep.py FILE [--embedder minilm|bge] [--work DIR] [--every N]

Every conversation of a LoCoMo file becomes one memory with the indexes ``memforest`` and ``segtree``, through the public API.
Its questions (categories 1 to 4 with evidence, asked at the time of the last session) are then ranked in hundreds of ways on
the same tree. Sources: SegTreeMem (arXiv 2606.04555), Figures 6, 7, 13 and 14, Table 3 and App. F.

Counting. Evidence is walked from the top. ``R@10`` and ``R@20``: the share of the supporting turns among the first 10 and
20 turns that it has for sources; a node lists its first 50. Then the share in 256 to 2,048 tokens of context,
where each piece costs the tokens of the line that is shown of it, and one that does not fit ends the context: ``below``
counts the turns below a node although its summary is all that is shown, ``said`` as much of a turn as is shown in whole sentences.
``below`` rises without limit with the size of the nodes (the root has everything); what a reader gets is ``said``. Without
a budget they are the mean over the four. ``10`` is the first ten pieces, whatever their length.

Intervals are 95 %, over questions and (in parentheses) over conversations; with five of those the latter are rough.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memforest.systems.combine import CombinedIndex

from kept import KeptVectors
from locomo.conversations import Conversation, read_conversations
from memforest.models import BGE_SMALL, MINILM, open_embedder
from memforest.systems.flat.index import FlatIndex
from memforest.systems.memforest.index import MemForestIndex
from memforest.systems.segtree.index import SegTreeIndex
from segments import tables
from segments.build import SHARE, VARIANTS, build, build_variant, swapped
from segments.cells import Table, extra_cells, grid, name_of, tree_cells
from segments.control import with_clusters
from segments.ranked import World, open_world, rank, rank_cells

SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
INDEXES = {
    "memforest": MemForestIndex(),
    "flat": FlatIndex(),
    "memforest + segtree": CombinedIndex([MemForestIndex(), SegTreeIndex()]),
}


def ask_grid(
    directory: Path, conversations: Sequence[Conversation], embedder: KeptVectors, seed: int
) -> Table:
    """Rank every question in every way of the grid and beside it, and by the other indexes."""
    table = Table(conversations, seed)
    cells = {**{name_of(key): cell for key, cell in grid().items()}, **dict(extra_cells())}
    for world in _worlds(directory, conversations, embedder):
        for asked in world.asked:
            for name, walked in zip(cells, rank_cells(world, asked, list(cells.values())), strict=True):
                table.add(name, walked)
            for name, index in INDEXES.items():
                table.add(name, rank(world, index, asked))
    return table


def ask_trees(
    table: Table,
    tree: str,
    settings: Mapping[str, Any],
    directory: Path,
    conversations: Sequence[Conversation],
    embedder: KeptVectors,
) -> None:
    """Rank every question in a few ways on a tree that is made otherwise."""
    for world in _worlds(directory, conversations, embedder):
        _ask(table, tree, world, settings)


def ask_orders(
    table: Table, order: str, directory: Path, conversations: Sequence[Conversation], embedder: KeptVectors
) -> None:
    """Rank every question in a few ways on the segment tree and on the control, of the same leaves in the same order."""
    for world in _worlds(directory, conversations, embedder):
        _ask(table, f"segments, {order}", world)
        _ask(table, f"clusters, {order}", with_clusters(world, embedder))


def _ask(table: Table, tree: str, world: World, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
    for name, cell in tree_cells().items():
        way = cell._replace(settings=replace(cell.settings, **settings))
        for asked in world.asked:
            table.add(f"{tree}: {name}", rank_cells(world, asked, [way])[0])


def _worlds(directory: Path, conversations: Sequence[Conversation], embedder: KeptVectors) -> Iterator[World]:
    for conversation in conversations:
        note(f"{directory.name}: {conversation.id}")
        with open_world(directory, conversation, embedder) as world:
            yield world


def note(text: str) -> None:
    """Say on stderr what is being done; a run takes many minutes."""
    print(f"... {text}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's draws")
    parser.add_argument(
        "--swaps", type=int, nargs="+", default=[1], metavar="SEED", help="of exchanges that trade places"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth question alone")
    parser.add_argument("--only", choices=("grid", "order", "trees"), nargs="+", help="some of the tables")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, work: Path) -> None:
    """Make the memories, rank, and print the tables."""
    asked = read_conversations(options.file)
    asked = [replace(one, questions=one.questions[:: options.every]) for one in asked]
    work.mkdir(parents=True, exist_ok=True)
    embedder = KeptVectors(open_embedder(MODELS[options.embedder].model_id), work / "vectors.npz")
    wanted = options.only or ("grid", "order", "trees")
    count = sum(len(one.questions) for one in asked)
    print(
        f"conversations: {len(asked)}, n = {count}; embedder {embedder.model_id}; seed {options.seed} of the draws"
    )
    base = work / "memories"
    note("making what is not there yet")
    build(base, asked, embedder)
    if "grid" in wanted:
        table = ask_grid(base, asked, embedder, options.seed)
        tables.print_grid(table)
        tables.print_levels(table)
        tables.print_added(table)
        tables.print_best(table)
        tables.print_beyond(table)
        tables.print_choice(table)
    if "trees" in wanted:
        table = Table(asked, options.seed)
        ask_trees(table, "default", {}, base, asked, embedder)
        for name, settings in VARIANTS.items():
            directory = work / name.replace("=", "-").replace(" ", "-")
            build_variant(directory, base, asked, embedder, settings)
            ask_trees(table, name, settings, directory, asked, embedder)
        tables.print_trees(table, ["default", *VARIANTS])
    if "order" in wanted:
        table = Table(asked, options.seed)
        build(work / "plain", asked, embedder, infer=False)
        ask_orders(table, "in order", work / "plain", asked, embedder)
        for seed in options.swaps:
            permuted = [swapped(one, SHARE, seed) for one in asked]
            build(work / f"swapped-{seed}", permuted, embedder, infer=False)
            ask_orders(table, f"swapped {seed}", work / f"swapped-{seed}", permuted, embedder)
        tables.print_orders(table, options.swaps)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    print(f"command: python benchmarks/segtree_sweep.py {shlex.join([options.file.name, *arguments[1:]])}")
    with contextlib.ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="segtree-")))
        run(options, work / options.embedder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
