"""What three more indexes cost the questions of the first: two memories of the same talk side by side.

    python benchmarks/several_indexes.py [--turns 4000] [--rounds 20]

One memory has the index ``memforest``, the other one three more with trees of their own over all chunks and facts.
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

from drift import QUESTION, SESSION, USER, session, spent
from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.nodes import Key, TreeHead
from memforest.store import facts as fact_rows
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Items, Kind
from memforest.store.trees import SqliteArena, placements
from memforest.trees import attached
from memforest.trees.flat import FlatIndex
from memforest.trees.index import Placed, Placing
from memforest.trees.memforest_rows import finished_chunks
from memforest.trees.node import delete, insert

AGAIN = 5
"""Times that a question is repeated."""
FAN_OUT = 8


class Shadow(FlatIndex):
    """Trees of all chunks by session, and one of all facts; what it would rank does not matter here."""

    follows, baseline = frozenset[Kind]({"chunk", "fact"}), False

    def placing(self, tx: Tx) -> ShadowPlacing:
        """Begin to edit the trees."""
        return ShadowPlacing(tx, self.name)


class ShadowPlacing(Placing):
    """Edits the trees inside one write transaction."""

    def __init__(self, tx: Tx, owner: str) -> None:
        self._tx, self._owner, self._arena = tx, owner, SqliteArena(tx)
        self._heads: dict[tuple[str, int], TreeHead] = {}

    def leave(self, items: Items) -> None:
        """Take items out of their trees."""
        for kind in ("chunk", "fact"):
            for item in items.get(kind, ()):
                for tree, leaf in placements(self._tx, self._owner, kind, item):
                    own = tree_rows.head_of(self._tx, tree)[:2]
                    self._heads[own] = delete(self._arena, self._head(*own), self._arena.get(leaf).key)

    def place(self, items: Items) -> None:
        """Place what has no leaf yet."""
        for chunk, of_session, key, span in finished_chunks(self._tx, items.get("chunk", ())):
            self._insert("session", of_session, key, span[1], "chunk", chunk)
        for fact in fact_rows.facts_with_ids(self._tx, items.get("fact", ())).values():
            self._insert("all", 0, fact.leaf_key, fact.leaf_span[1], "fact", fact.row)

    def close(self) -> Placed:
        """Write everything back."""
        for (kind, scope), head in self._heads.items():
            if head.root is None:
                tree_rows.drop_tree(self._tx, head)
            else:
                tree_rows.put_head(self._tx, self._owner, kind, scope, head)
        self._arena.flush()
        return Placed(self._arena.written)

    def _head(self, kind: str, scope: int) -> TreeHead:
        if (kind, scope) not in self._heads:
            found = tree_rows.find_head(self._tx, self._owner, kind, scope)
            new = TreeHead(0, FAN_OUT)
            self._heads[kind, scope] = found or tree_rows.put_head(self._tx, self._owner, kind, scope, new)
        return self._heads[kind, scope]

    def _insert(self, kind: str, scope: int, key: Key, end_ms: int, item_kind: str, item: int) -> None:
        if not placements(self._tx, self._owner, item_kind, item):
            head = self._head(kind, scope)
            self._heads[kind, scope], _ = insert(
                self._arena, head, key=key, start_ms=key[0], end_ms=end_ms, item_kind=item_kind, item=item
            )


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
