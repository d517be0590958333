"""The timem index as a memory grows, without a model: what it adds to writing, advancing, asking and storing, as ratios."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from memforest import Config, MemForest
from memforest.models import Embedder, HashEmbedder
from memforest.search.cache import SnapshotCache, embedded_forest, forest_of
from memforest.store import meta
from memforest.store.connections import Tx
from memforest.trees.attached import make_index
from scaling.asking import file_bytes
from scaling.memories import NOW, USER, copied, fill, look, path_of
from scaling.tables import table
from synthetic.chat import Chat
from synthetic.turning import TurningTalk

__all__ = [
    "INDEX",
    "Advanced",
    "Asked",
    "Ingested",
    "Stored",
    "advanced",
    "asked",
    "ingested",
    "report",
    "spent",
    "stored",
    "with_index",
]

INDEX = "timem"
YOUNG = 36
"""Sessions of a memory of a month; there is one every 20 hours."""
TURNS = 8
"""Turns of the session of the day that is advanced over: the same at every size."""
FIRST = 4
"""Sessions, questions or days in front of those that count, as models and caches are not warm."""


def config_of(embedder: Embedder, *indexes: str) -> Config:
    """Return the configuration of a memory with some indexes."""
    return Config(embedder=embedder, clock=lambda: NOW, indexes=indexes, refresh="lazy")


def opened(directory: Path, dimension: int) -> MemForest:
    """Open the memories of a directory."""
    return MemForest(directory, config_of(HashEmbedder(dimension), "memforest"))


def with_index(home: Path, dimension: int) -> Path:
    """Copy a memory, add the index to the copy, have all memories written, and return where it is."""
    full = copied(home, INDEX)
    with opened(full, dimension) as forest:
        forest.user(USER).add_index(INDEX)
        forest.user(USER).advance()
        forest.save(USER)
    return full


def spent(run: Callable[[], object]) -> float:
    """Return the processor time of a call, in ms."""
    began = process_time()
    run()
    return (process_time() - began) * 1000


@dataclass(frozen=True, slots=True)
class Ingested:
    """Processor time of sessions of 12 to 28 turns, statements and vectors included, in ms a turn."""

    without: float
    with_index: float
    ratio: float
    """The median over sessions; nothing is written then but the tree."""
    written: float
    """The same with an `advance` behind every session, which writes what there is to tell of it."""


def ingested(directory: Path, seed: int, sessions: int, embedder: Callable[[], Embedder]) -> Ingested:
    """Ingest sessions into a memory without the index, one with it, and one that is advanced too, by turns."""
    chat, times = Chat(seed), [list[float]() for _ in range(3)]
    forests = [
        MemForest(directory / str(at), config_of(embedder(), "memforest", *([INDEX] if at else [])))
        for at in range(3)
    ]
    turns = 0
    try:
        for number in range(FIRST + sessions):
            name, said = chat.session(number)
            turns += len(said) if number >= FIRST else 0
            for step in range(3):
                at = (number + step) % 3
                took = spent(partial(forests[at].ingest_session, USER, name, said))
                if at == 2:
                    took += spent(forests[at].user(USER).advance)
                if number >= FIRST:
                    times[at].append(took)
    finally:
        for forest in forests:
            forest.close()
    ratios = [
        statistics.median(one / other for one, other in zip(times[at], times[0], strict=True))
        for at in (1, 2)
    ]
    return Ingested(sum(times[0]) / turns, sum(times[1]) / turns, ratios[0], ratios[1])


@dataclass(frozen=True, slots=True)
class Advanced:
    """Processor time of `advance`, in ms."""

    segments: int
    day: float
    """Over a day with one session of `TURNS` turns, the median."""
    to_young: float
    """To the same days in a memory of a month, the median; the two by turns."""
    again: float
    """A second one, the median."""
    again_wrote: int
    """Transactions of second ones that wrote."""


def advanced(full: Path, young: Path, talk: TurningTalk, days: int, dimension: int) -> Advanced:
    """Advance over days behind the last one, in a memory and in a young one, by turns.

    Args:
        full: directory of a memory that has the index.
        young: of another one.
        talk: what is said.
        days: so many count.
        dimension: of the vectors.
    """
    homes = [copied(full, "days"), copied(young, "days")]
    took: list[list[float]] = [[], []]
    again, wrote = list[float](), 0
    ends = [_end(home) for home in homes]
    forests = [opened(home, dimension) for home in homes]
    try:
        for day in range(FIRST + days):
            said = talk.session(day)[1][:TURNS]
            for step in range(2):
                at = (day + step) % 2
                begins = ends[at] + timedelta(days=1 + day)
                turns = [
                    {**one, "timestamp": (begins + timedelta(minutes=number)).isoformat()}
                    for number, one in enumerate(said)
                ]
                forests[at].ingest_session(USER, f"day {day}", turns, infer=False)
                memory = forests[at].user(USER)
                over = partial(memory.advance, as_of=begins + timedelta(days=1))
                took[at].append(spent(over))
                if at == 0:
                    before = look(path_of(homes[0]), meta.generation)
                    again.append(spent(over))
                    wrote += look(path_of(homes[0]), meta.generation) - before
        levels = forests[0].user(USER).stats().indexes[INDEX]["levels"]
    finally:
        for forest in forests:
            forest.close()
    old, new = (times[FIRST:] for times in took)
    return Advanced(
        segments=levels["segment"],
        day=statistics.median(old),
        to_young=statistics.median(one / other for one, other in zip(old, new, strict=True)),
        again=statistics.median(again[FIRST:]),
        again_wrote=wrote,
    )


def _end(home: Path) -> datetime:
    """Return the end of the day on which the last turn was said."""
    last = look(path_of(home), lambda tx: tx.execute("SELECT max(said_ms) FROM turn").fetchone()[0])
    day = datetime.fromtimestamp(last / 1000, timezone.utc).date()
    return datetime(day.year, day.month, day.day, 9, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Asked:
    """Processor time of questions, in ms: medians over the same questions, which both indexes are asked by turns."""

    turns: int
    memforest: float
    timem: float
    ratio: float
    """The median of the ratios."""


def asked(full: Path, talk: TurningTalk, sessions: int, questions: int, dimension: int) -> Asked:
    """Ask a memory that has the index, and the index memforest of the same memory."""
    times: dict[str, list[float]] = {"memforest": [], INDEX: []}
    with opened(full, dimension) as forest:
        for number, text in enumerate(talk.questions(FIRST + questions, sessions)):
            for name in sorted(times, reverse=bool(number % 2)):
                took = spent(partial(forest.query, USER, text, index=name))
                if number >= FIRST:
                    times[name].append(took)
    pairs = zip(times[INDEX], times["memforest"], strict=True)
    return Asked(
        look(path_of(full), lambda tx: tx.execute("SELECT count(*) FROM turn").fetchone()[0]),
        statistics.median(times["memforest"]),
        statistics.median(times[INDEX]),
        statistics.median(one / other for one, other in pairs),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of the tree with its vectors over those of the vectors alone."""

    nodes: int
    in_memory: float
    in_file: float
    """What the index adds to the file, texts included, over its memories' vectors there."""
    file_a_node: float
    """Bytes that it adds, a node."""


def stored(home: Path, full: Path) -> Stored:
    """Return what the index keeps, in memory and in the file."""

    def read(tx: Tx) -> tuple[float, int]:
        snapshot = SnapshotCache().get(tx)
        index = make_index(INDEX)
        forest, trees = forest_of(tx, snapshot, index), embedded_forest(tx, snapshot, index)
        return (forest.nbytes + trees.vectors.nbytes) / trees.vectors.nbytes, len(forest)

    in_memory, nodes = look(path_of(full), read)
    added = file_bytes(full) - file_bytes(home)
    vectors = look(path_of(full), _node_vectors) - look(path_of(home), _node_vectors)
    return Stored(nodes, in_memory, added / vectors, added / nodes)


def _node_vectors(tx: Tx) -> int:
    """Return the bytes of the vectors of nodes, as they are stored."""
    return int(tx.execute("SELECT coalesce(sum(length(vector)), 0) FROM artifact").fetchone()[0])


def report(
    directory: Path,
    seed: int,
    turns: Sequence[int],
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
        turns: sizes of memories; a segment has two turns.
        dimension: of the vectors.
        questions: number of them.
        sessions: of the memories that are written with `embedder`; half as many days are advanced over.
        embedder: of these.
    """
    talk = TurningTalk(seed)
    month = directory / "month"
    fill(month, talk, sum(len(talk.session(number)[1]) for number in range(YOUNG)), dimension)
    young = with_index(month, dimension)
    days, asks, keeps = list[Advanced](), list[Asked](), list[Stored]()
    for size in sorted(turns):
        print(f"  {size} turns", file=sys.stderr, flush=True)
        home = directory / str(size)
        said = fill(home, talk, size, dimension)
        full = with_index(home, dimension)
        keeps.append(stored(home, full))
        asks.append(asked(full, talk, said, questions, dimension))
        days.append(advanced(full, young, talk, max(1, sessions // 2), dimension))
    print("  writing", file=sys.stderr, flush=True)
    wrote = ingested(directory / "writing", seed, sessions, embedder)
    parts: Mapping[str, Sequence[Any]] = {
        "Writing": [wrote],
        "Advancing": days,
        "Asking": asks,
        "Storing": keeps,
    }
    return "\n\n".join(table(title, [asdict(one) for one in found]) for title, found in parts.items())
