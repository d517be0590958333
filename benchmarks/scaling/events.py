"""The hmem index as a memory grows, without a model: what it adds to writing, growing, asking and storing, as ratios."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from memforest import Config, MemForest
from memforest.models import MINILM, Embedder, HashEmbedder
from memforest.search.cache import SnapshotCache, embedded_forest, forest_of
from memforest.search.forest import Forest
from memforest.store.connections import Tx
from memforest.trees.hmem import HMemIndex
from scaling.calendar import FIRST, config_of, spent
from scaling.memories import USER, copied, look, path_of
from scaling.tables import table
from synthetic.chat import Chat

__all__ = [
    "INDEX",
    "Asked",
    "Grown",
    "Ingested",
    "Stored",
    "asked",
    "filled",
    "grown",
    "ingested",
    "opened",
    "report",
    "stored",
    "with_index",
]

INDEX = "hmem"
BATCH = 100
"""Sessions handed over at once."""
A_FACT = 27
"""Statements of a session, about."""


def opened(home: Path, dimension: int) -> MemForest:
    """Open the memory of a directory, by the name of a model whose likenesses were measured: statements are merged, events joined."""
    embedder = HashEmbedder(dimension)
    embedder.model_id = MINILM.model_id
    return MemForest(home, config_of(embedder, "memforest"))


def filled(home: Path, chat: Chat, facts: int, dimension: int) -> None:
    """Ingest sessions, with the local extractor, until a memory has so many facts; one that is there goes on."""
    home.mkdir(parents=True, exist_ok=True)
    with opened(home, dimension) as forest:
        have = _count(home, "fact") if path_of(home).exists() else 0
        done = _count(home, "session") if have else 0
        while have < facts:
            take = max(1, min(BATCH, (facts - have) // A_FACT))
            sessions = [chat.session(number) for number in range(done, done + take)]
            requests = [{"user_id": USER, "session_id": name, "turns": turns} for name, turns in sessions]
            for result in forest.ingest_parallel(requests):
                if isinstance(result, Exception):
                    raise result
            have, done = _count(home, "fact"), done + take


def _count(home: Path, name: str) -> int:
    return int(look(path_of(home), lambda tx: tx.execute(f"SELECT count(*) FROM {name}").fetchone()[0]))


def with_index(home: Path, dimension: int) -> Path:
    """Copy a memory, add the index to the copy, and return where it is."""
    full = copied(home, INDEX)
    with opened(full, dimension) as forest:
        forest.user(USER).add_index(INDEX)
        forest.save(USER)
    return full


@dataclass(frozen=True, slots=True)
class Ingested:
    """Processor time of sessions of 12 to 28 turns, statements and vectors included, in ms a turn."""

    without: float
    with_index: float
    ratio: float
    """The median over sessions."""


def ingested(directory: Path, seed: int, sessions: int, embedder: Callable[[], Embedder]) -> Ingested:
    """Ingest sessions into a memory without the index and one with it, by turns."""
    chat, times, turns = Chat(seed), (list[float](), list[float]()), 0
    configs: list[Config] = [
        config_of(embedder(), "memforest"),
        config_of(embedder(), "memforest", INDEX),
    ]
    forests = [MemForest(directory / str(at), config) for at, config in enumerate(configs)]
    try:
        for number in range(FIRST + sessions):
            name, said = chat.session(number)
            for step in range(2):
                at = (number + step) % 2
                took = spent(partial(forests[at].ingest_session, USER, name, said))
                if number >= FIRST:
                    times[at].append(took)
            turns += len(said) if number >= FIRST else 0
    finally:
        for forest in forests:
            forest.close()
    ratio = statistics.median(one / other for one, other in zip(times[1], times[0], strict=True))
    return Ingested(sum(times[0]) / turns, sum(times[1]) / turns, ratio)


@dataclass(frozen=True, slots=True)
class Grown:
    """Processor time of growing the trees of a memory, in us an event."""

    facts: int
    anew: float
    """Of all windows."""
    after_a_write: float
    """Of those that a write of one fact has touched; the others are taken over."""


def grown(full: Path, chat: Chat, times: int, dimension: int) -> Grown:
    """Write facts one by one, and grow the trees after each, from nothing and from those before."""
    index, cache, found = HMemIndex(), SnapshotCache(), (list[float](), list[float]())
    old: Forest | None = None

    def grow(tx: Tx) -> Forest:
        snapshot = cache.get(tx)
        for took, before in zip(found, (None, old), strict=True):
            took.append(
                spent(partial(index.grow, tx, snapshot, before)) * 1000 / max(1, len(snapshot.facts.ids))
            )
        return index.grow(tx, snapshot, old)

    with opened(full, dimension) as forest:
        for number in range(FIRST + times):
            forest.ingest_session(USER, *chat.fact(1000 + number, 0))
            old = look(path_of(full), grow)
    return Grown(_count(full, "fact"), *(statistics.median(took[FIRST:]) for took in found))


@dataclass(frozen=True, slots=True)
class Asked:
    """Processor time of questions, in ms: medians over the same questions, which both indexes are asked by turns."""

    facts: int
    memforest: float
    hmem: float
    ratio: float
    """The median of the ratios."""
    memforest_written: float
    """The first one after a write of one fact."""
    hmem_written: float
    ratio_written: float


def asked(full: Path, chat: Chat, questions: int, writes: int, dimension: int) -> Asked:
    """Ask a memory that has the index, and the index memforest of the same memory, also right after a write."""
    times: dict[str, list[float]] = {"memforest": [], INDEX: []}
    written: dict[str, list[float]] = {"memforest": [], INDEX: []}
    texts = list(chat.questions(FIRST + questions))
    with opened(full, dimension) as forest:
        for number, text in enumerate(texts):
            for name in sorted(times, reverse=bool(number % 2)):
                took = spent(partial(forest.query, USER, text, index=name))
                if number >= FIRST:
                    times[name].append(took)
        for number in range(2 * writes):
            name = ("memforest", INDEX)[number % 2]
            forest.ingest_session(USER, *chat.fact(1 + number, 0))
            written[name].append(
                spent(partial(forest.query, USER, texts[number // 2 % len(texts)], index=name))
            )
    ms = {name: statistics.median(took) for name, took in times.items()}
    after = {name: statistics.median(took) for name, took in written.items()}
    return Asked(
        _count(full, "fact"),
        ms["memforest"],
        ms[INDEX],
        _ratio(times),
        after["memforest"],
        after[INDEX],
        _ratio(written),
    )


def _ratio(times: dict[str, list[float]]) -> float:
    return statistics.median(one / other for one, other in zip(times[INDEX], times["memforest"], strict=True))


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes in memory of the trees with the vectors that are compared, over those of the vectors."""

    facts: int
    nodes: int
    in_memory: float


def stored(full: Path) -> Stored:
    """Return what the index keeps in memory: its trees, over vectors of its events and memories."""

    def read(tx: Tx) -> tuple[float, int]:
        snapshot, index = SnapshotCache().get(tx), HMemIndex()
        forest, found = forest_of(tx, snapshot, index), embedded_forest(tx, snapshot, index)
        vectors = found.vectors.nbytes + snapshot.facts.vectors.nbytes
        return (forest.nbytes + vectors) / vectors, len(forest.ids)

    in_memory, nodes = look(path_of(full), read)
    return Stored(_count(full, "fact"), nodes, in_memory)


def report(
    directory: Path,
    seed: int,
    sizes: Sequence[int],
    *,
    dimension: int,
    questions: int,
    sessions: int,
    embedder: Callable[[], Embedder],
) -> str:
    """Return the tables of all parts.

    Args:
        directory: where the memories are made; one that is there is used again.
        seed: of the talk.
        sizes: of memories, in facts.
        dimension: of the vectors.
        questions: number of them.
        sessions: of the memories that are written with `embedder`; as many facts are grown after, half as many asked after.
        embedder: of these.
    """
    chat, grows, asks, keeps = Chat(seed), list[Grown](), list[Asked](), list[Stored]()
    for size in sorted(sizes):
        print(f"  {size} facts", file=sys.stderr, flush=True)
        home = directory / str(size)
        filled(home, chat, size, dimension)
        full = with_index(home, dimension)
        grows.append(grown(full, chat, sessions, dimension))
        asks.append(asked(full, chat, questions, max(1, sessions // 2), dimension))
        keeps.append(stored(full))
    print("  writing", file=sys.stderr, flush=True)
    wrote = ingested(directory / "writing", seed, sessions, embedder)
    parts: dict[str, list[dict[str, Any]]] = {
        "Growing": [asdict(one) for one in grows],
        "Asking": [asdict(one) for one in asks],
        "Storing": [asdict(one) for one in keeps],
        "Writing": [asdict(wrote)],
    }
    return "\n\n".join(table(title, found) for title, found in parts.items())
