"""What a question costs with the index, beside its floor and beside `memforest` with and without the index."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from memforest import MemForest
from memforest.models import HashEmbedder
from memforest.search.cache import SnapshotCache, embedded_forest, forest_of
from memforest.search.lexical import bm25
from memforest.search.scores import cosines
from memforest.search.vectors import question_tokens
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.trees.segtree import SegTreeIndex
from scaling.memories import INDEX, USER, copied, look, opened, path_of, settings_of
from synthetic.turning import TurningTalk

__all__ = ["NAMES", "WRITES", "Asked", "asked", "file_bytes", "stored"]

WARM_UP = 5
WRITES = 5
"""Questions that are the first after a write."""
NAMES = ("fused", "cosine", "memforest", "memforest alone")
"""The index with either scorer; the index memforest of the same memory, and of a copy that has no other."""


@dataclass(slots=True)
class Asked:
    """Processor time of a question, in ms: medians over the same questions, which all are asked in turn."""

    floor: float = 0.0
    """Embedding the question, one product with the vectors of turns and facts, and the words of both."""
    cold: dict[str, float] = field(default_factory=dict)
    """The first one of all, which reads the memory."""
    warm: dict[str, float] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)
    """Median over questions of `warm` / `floor`."""
    written: dict[str, float] = field(default_factory=dict)
    """The first one after a session of one turn was written."""
    write: dict[str, float] = field(default_factory=dict)
    """That write."""


def asked(directory: Path, talk: TurningTalk, sessions: int, questions: int, dimension: int) -> Asked:
    """Ask a memory that has the index.

    Args:
        directory: of the memory.
        talk: what was said.
        sessions: of it that the memory has.
        questions: number of them.
        dimension: of the vectors.
    """
    alone = copied(directory, "alone")
    with opened(alone, dimension) as forest:
        forest.user(USER).drop_index(INDEX)
    found, texts = Asked(), list(talk.questions(WARM_UP + questions, sessions))
    forests = [opened(directory, dimension, scorer="fused"), opened(directory, dimension, scorer="cosine")]
    forests += [forests[0], opened(alone, dimension)]
    ways = [
        (name, forest, INDEX if name in ("fused", "cosine") else "memforest")
        for name, forest in zip(NAMES, forests, strict=True)
    ]
    try:
        for name, forest, index in ways:
            found.cold[name] = _spent(partial(forest.query, USER, texts[0], index=index))
        times = _in_turn(ways, texts[1:])[WARM_UP - 1 :]
        _write(found, talk, sessions, ways, texts[-1])
    finally:
        for forest in (forests[0], forests[1], forests[3]):
            forest.close()
    floors = look(path_of(directory), lambda tx: _floors(tx, dimension, texts[WARM_UP:]))
    found.floor = statistics.median(floors)
    for at, name in enumerate(NAMES):
        found.warm[name] = statistics.median(one[at] for one in times)
        found.ratio[name] = statistics.median(
            one[at] / floor for one, floor in zip(times, floors, strict=True)
        )
    return found


def _in_turn(ways: Sequence[tuple[str, MemForest, str]], texts: Sequence[str]) -> list[list[float]]:
    """Return the times of every question by way; none of them is always the first."""
    found = []
    for number, text in enumerate(texts):
        times = [0.0] * len(ways)
        for step in range(len(ways)):
            at = (number + step) % len(ways)
            _, forest, index = ways[at]
            times[at] = _spent(partial(forest.query, USER, text, index=index))
        found.append(times)
    return found


def _write(
    found: Asked, talk: TurningTalk, sessions: int, ways: Sequence[tuple[str, MemForest, str]], text: str
) -> None:
    """Write one turn and ask, some times, in the memory with the index and in the one without."""
    took: dict[str, list[float]] = {name: [] for name in NAMES}
    wrote: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(sessions, sessions + WRITES):
        session, said = talk.session(number)
        for what, forest in (("with", ways[0][1]), ("without", ways[3][1])):
            wrote[what].append(_spent(partial(forest.ingest_session, USER, session, said[:1], infer=False)))
        for name, forest, index in ways:
            took[name].append(_spent(partial(forest.query, USER, text, index=index)))
    found.written = {name: statistics.median(times) for name, times in took.items()}
    found.write = {name: statistics.median(times) for name, times in wrote.items()}


def _floors(tx: Tx, dimension: int, questions: Sequence[str]) -> list[float]:
    """Return the least that each question could take."""
    embedder, snapshot = HashEmbedder(dimension), SnapshotCache().get(tx)
    matrix = np.concatenate([snapshot.turns.vectors.rows, snapshot.facts.vectors.rows])

    def floor(text: str) -> None:
        cosines(matrix, asyncio.run(embedder.embed([text]))[0])
        bm25(tx, snapshot, "turn", question_tokens(text))
        bm25(tx, snapshot, "fact", question_tokens(text))

    for text in questions:
        floor(text)  # warms the postings
    return [_spent(partial(floor, text)) for text in questions]


def _spent(run: Callable[[], object]) -> float:
    began = process_time()
    run()
    return (process_time() - began) * 1000


def stored(directory: Path) -> dict[str, float]:
    """Return what the trees of the index take in memory over what the vectors that are compared take, and bytes of both."""

    def read(tx: Tx) -> dict[str, float]:
        snapshot, index = SnapshotCache().get(tx), SegTreeIndex(settings_of())
        forest, trees = forest_of(tx, snapshot, index), embedded_forest(tx, snapshot, index)
        leaves, inner = snapshot.turns.vectors.nbytes, trees.vectors.nbytes
        return {
            "nodes": len(forest.ids),
            "fused bytes / vectors": (forest.nbytes + leaves) / leaves,
            "cosine bytes / vectors": (forest.nbytes + inner + leaves) / (inner + leaves),
            "bytes a node without vectors": forest.nbytes / len(forest.ids),
        }

    return look(path_of(directory), read)


def file_bytes(directory: Path) -> int:
    """Return the bytes of the pages of a file that are in use."""
    db = Database(path_of(directory))
    try:
        with db.read() as tx:
            pages, free, size = (
                tx.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
    finally:
        db.close()
    return int((pages - free) * size)
