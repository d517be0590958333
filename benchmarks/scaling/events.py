"""The hmem index as a memory grows, without a model: what it adds to writing, placing, asking and storing, as ratios."""

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
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.times import to_ms
from memforest.trees.hmem_grow import trees
from memforest.trees.hmem_rows import HMemSettings, made_by
from scaling.calendar import FIRST, config_of, spent
from scaling.memories import NOW, USER, copied, look, path_of
from scaling.tables import table
from synthetic.chat import Chat

__all__ = [
    "INDEX",
    "Asked",
    "Ingested",
    "Placed",
    "Stored",
    "asked",
    "filled",
    "ingested",
    "opened",
    "placed",
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


def with_index(home: Path, dimension: int) -> tuple[Path, float]:
    """Copy a memory, add the index to the copy, and return where it is, and the processor time of an event, in ms."""
    full = copied(home, INDEX)
    with opened(full, dimension) as forest:
        added = spent(partial(forest.user(USER).add_index, INDEX))
        forest.save(USER)
    return full, added / _count(full, "fact")


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
class Placed:
    """Processor time of placing an event at the end of a memory, in ms."""

    facts: int
    added: float
    """When the index is added to the memory."""
    of_session: float
    """With the others of its session, in one transaction."""
    alone: float
    """In a transaction of its own."""


def placed(full: Path, times: int, added: float) -> Placed:
    """Take the last events back and place them again."""
    settings, found = HMemSettings(), (list[float](), list[float]())
    db = Database(path_of(full))
    try:
        for number in range(FIRST + times):
            for size, took in zip((A_FACT, 1), found, strict=True):
                with db.write() as tx:
                    ms = _again(tx, settings, size) / size
                if number >= FIRST:
                    took.append(ms)
    finally:
        db.close()
    return Placed(_count(full, "fact"), added, *(statistics.median(took) for took in found))


def _again(tx: Tx, settings: HMemSettings, size: int) -> float:
    made = made_by(tx)
    assert made is not None
    last = tx.execute(
        "SELECT founder FROM ix_hmem_node WHERE level = 0 ORDER BY said_ms DESC, tie DESC LIMIT ?", (size,)
    )
    items = [item for (item,) in last]
    gone = trees(tx, settings, made, to_ms(NOW))
    gone.take(items)
    gone.close()

    def put() -> None:
        edited = trees(tx, settings, made, to_ms(NOW))
        edited.put(items)
        edited.close()

    return spent(put)


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
        snapshot = SnapshotCache().get(tx)
        forest, found = forest_of(tx, snapshot, INDEX), embedded_forest(tx, snapshot, INDEX)
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
        sessions: of the memories that are written with `embedder`; as many transactions are placed, half as many writes asked after.
        embedder: of these.
    """
    chat, places, asks, keeps = Chat(seed), list[Placed](), list[Asked](), list[Stored]()
    for size in sorted(sizes):
        print(f"  {size} facts", file=sys.stderr, flush=True)
        home = directory / str(size)
        filled(home, chat, size, dimension)
        full, added = with_index(home, dimension)
        places.append(placed(full, sessions, added))
        asks.append(asked(full, chat, questions, max(1, sessions // 2), dimension))
        keeps.append(stored(full))
    print("  writing", file=sys.stderr, flush=True)
    wrote = ingested(directory / "writing", seed, sessions, embedder)
    to_first = [
        {
            **asdict(one),
            "to first": one.of_session / places[0].of_session,
            "alone to first": one.alone / places[0].alone,
        }
        for one in places
    ]
    parts: dict[str, list[dict[str, Any]]] = {
        "Placing": to_first,
        "Asking": [asdict(one) for one in asks],
        "Storing": [asdict(one) for one in keeps],
        "Writing": [asdict(wrote)],
    }
    return "\n\n".join(table(title, found) for title, found in parts.items())
