"""What the graph of a memory costs, by mentions: making it, expanding from entities, paths, nearest entities.

    python benchmarks/graph.py [--mentions 1000 10000 100000]

Memories are made of arrays, without a file: facts that name two speakers and a few of as many entities as a tenth of the mentions,
named as often as words are (a few very often). Times are medians; "floor" is one comparison of a question with the vectors of
all facts, which a query makes anyway, so ratios to it say what the graph adds. A row also has the growth from the size before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from memforest.graph.graph import Graph, make_graph
from memforest.graph.paths import expand, near, path
from memforest.search.scores import cosines
from memforest.search.snapshot import OPEN, Facts, Snapshot, Turns
from memforest.search.vectors import VectorTable
from memforest.store.facts import EntityRow
from memforest.store.reads import RelationRow

DIMENSION = 384
DAY = 86_400_000
A_FACT = 4
"""Entities that a fact names, a speaker among them."""
RELATED = 4
"""One fact of so many relates two entities that it names."""


def name(number: int) -> str:
    """Return a name of two words that is like no other but by chance."""
    random = Random(number)
    words = [
        "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(3)) for _ in range(2)
    ]
    return " ".join(words).title()


def memory(mentions: int, seed: int) -> Snapshot:
    """Return a memory of about so many mentions."""
    random = np.random.default_rng(seed)
    facts, entities = mentions // A_FACT, max(mentions // 10, 8)
    often = np.minimum(random.zipf(1.3, size=(facts, A_FACT - 1)), entities - 2) + 1
    named = np.concatenate([random.integers(0, 2, size=(facts, 1)), often], axis=1)
    rows = np.repeat(np.arange(facts), A_FACT)
    pairs = np.unique(np.stack([rows, named.ravel() + 1], axis=1), axis=0)
    said = np.arange(facts, dtype=np.int64) * (DAY // 20)
    people = {1: EntityRow(1, "ana", "Ana", "participant"), 2: EntityRow(2, "ben", "Ben", "participant")}
    others = {}
    for row in range(3, entities + 1):
        label = name(row)
        others[row] = EntityRow(row, f"{label.lower()} {row}", f"{label} {row}", "thing")
    known = {**people, **others}
    vectors = random.standard_normal((facts, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    flags = np.zeros(facts, dtype=np.bool_)
    ones = np.ones(facts, dtype=np.float32)
    ids = np.arange(1, facts + 1, dtype=np.int64)
    snapshot = Snapshot(
        generation=1,
        dimension=DIMENSION,
        speakers=("Ana", "Ben"),
        entities=known,
        names={one.key: row for row, one in known.items()},
        turns=Turns(
            ids=ids,
            session=np.ones(facts, dtype=np.int64),
            speaker=named[:, 0],
            role=np.zeros(facts, dtype=np.int8),
            said_ms=said,
            length=ones,
            asks=flags,
            asks_last=flags,
            begins=flags,
            same=ids,
            dated=flags,
            known=ones,
            muted=flags,
            previous=ids - 2,
            following=ids,
            vectors=VectorTable.of(np.zeros((facts, DIMENSION), dtype=np.float32)),
        ),
        facts=Facts(
            ids=ids,
            speaker=named[:, 0] + 1,
            start_ms=said,
            end_ms=np.full(facts, OPEN, dtype=np.int64),
            stated=flags,
            said_ms=said,
            pinned=flags,
            key=ids,
            pairs=np.stack([ids - 1, ids - 1], axis=1),
            length=ones,
            vectors=VectorTable.of(vectors),
        ),
        states=(),
        mentions=pairs,
    )
    related = [
        RelationRow(
            at + 1, at + 1, at + 1, int(ends[0]) + 1, "met", int(ends[1]) + 1, int(said[at]), int(said[at])
        )
        for at, ends in enumerate(named[:, [0, 1]])
        if at % RELATED == 0
    ]
    return replace(snapshot, relations=tuple(related))


def median_ms(run: Callable[[int], object], times: int) -> float:
    """Return the median time of a call, which is given its number."""
    took = []
    for number in range(times):
        began = time.perf_counter()
        run(number)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def measure(mentions: int, seed: int, times: int) -> dict[str, float]:
    """Return the medians of one size."""
    snapshot = memory(mentions, seed)
    made: list[Graph] = []
    make_ms = median_ms(lambda _: made.append(make_graph(snapshot)), 3)
    graph, random = made[-1], Random(seed)
    entered = [dict.fromkeys(random.sample(range(len(graph)), 3), 1.0) for _ in range(times)]
    ends = [random.sample(range(len(graph)), 2) for _ in range(times)]
    matrix = snapshot.facts.vectors.rows
    question = matrix[0]
    compared = np.asarray(cosines(matrix, question), dtype=np.float32)
    return {
        "mentions": len(snapshot.mentions),
        "entities": len(graph),
        "edges": len(graph.edges.targets) // 2,
        "relations": len(graph.relations),
        "floor_ms": median_ms(lambda _: cosines(matrix, question), times),
        "make_ms": make_ms,
        "expand_ms": median_ms(lambda at: expand(graph, entered[at]), times),
        "path_ms": median_ms(lambda at: path(graph, snapshot, *ends[at]), times),
        "near_ms": median_ms(lambda _: near(graph, snapshot, compared, 8), times),
        "mb": graph.nbytes / 2**20,
        "vectors_mb": matrix.nbytes / 2**20,
    }


def table(found: Sequence[dict[str, float]]) -> str:
    """Return the figures as a Markdown table, and the ratios below it."""
    lines = [
        "| | " + " | ".join(f"{one['mentions']:,} mentions" for one in found) + " |",
        "|---|" + "---|" * len(found),
    ]
    lines += [
        f"| {key} | "
        + " | ".join(f"{one[key]:,.4g}" if one[key] < 100 else f"{one[key]:,.0f}" for one in found)
        + " |"
        for key in found[0]
    ]
    last, first = found[-1], found[0]
    for key in ("expand_ms", "path_ms", "near_ms", "make_ms"):
        lines.append(
            f"\n{key[:-3]}: {last[key] / last['floor_ms']:.2f} of a comparison with all facts at {last['mentions']:,} mentions; "
            f"{last[key] / first[key]:.1f} x that at {first['mentions']:,}"
        )
    lines.append(f"\nbytes / bytes of the facts' vectors: {last['mb'] / last['vectors_mb']:.2f}")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mentions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--times", type=int, default=50, help="calls that a median is of")
    args = parser.parse_args()
    print(table([measure(size, args.seed, args.times) for size in sorted(args.mentions)]))


if __name__ == "__main__":
    main()
