"""What memory costs as it grows: inserts, refresh, queries, memory, file, opening, at 1k, 10k and 100k facts.

    python benchmarks/scale.py [--sizes 1000 10000 100000] [--dir DIR] [--json FILE]   # DIR: kept, and used again
    python benchmarks/scale.py --index segtree           # what that index adds, in turns: see below
    python benchmarks/scale.py --index timem --sizes 20000 200000   # likewise, 10k and 100k segments
    python benchmarks/scale.py --index hmem              # likewise, in facts

One seeded conversation (`synthetic/chat.py`) is ingested through the public API, the local extractor included, as far
as each size asks, into a memory of its own. These are then measured in turn, so that a busy machine is as busy for
one as for the other. Texts are embedded by the deterministic `HashEmbedder` with as many dimensions as
the shipped models have, so that vectors weigh what they weigh in use and no model's time is in the figures.

- *insert*: sessions of one turn that states one thing, half of them said last and half at any time before. The
  time inside the two write transactions (receive, commit) is apart from the wait for the disk at their end.
- *refresh*: the summaries that one such fact makes anew, at once; the trees are grown for that.
- *query*: in a process of its own, which opens the file, asks one question cold (the snapshot is read), warms up on
  20 questions and is timed on others. Beside each query stands its floor, timed in the same process: the
  question's embedding, one product of the vectors of turns and facts with it, and the same lexical scores. The
  ratio is the median over questions of query / floor. `cpu`: the same in processor time of the whole process,
  which is what a query takes on a machine with nothing else to do.
- *RSS*: of that process after its questions, `x vectors`: as a multiple of the float32 vectors it holds.

With `--index segtree` sizes are turns, each a leaf, of talk with turns of topic (`synthetic/turning.py`), stored without
extraction. All times are of the processor. *Growing*: the tree of what is stored, at a likeness that gives trees
of the usual shape, and at two that give degenerate ones. *Asking*: with the scorers fused and cosine, and with the index
memforest of the same memory and of a copy without segtree; `written` is the first question after a write of one turn.
*Changes*, and *Writing* with the installed model (`--embedder`), each beside a memory without the index.

With `--index timem` sizes are turns too, half as many segments. *Writing* as above; `written` has an `advance` behind every
session. *Advancing* over a day, beside the same day in a memory of a month. *Asking*, beside the index memforest of the same
memory. *Storing*: the tree and its vectors over the vectors. Every pair is measured by turns; look at the ratios.

With `--index hmem` sizes are facts. *Growing*: the trees, from nothing, and those of windows that a write of one fact has touched.
*Asking*, beside the index memforest of the same memory, also right after a write. *Storing* and *Writing* as with timem.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from memforest import Config, MemForest
from memforest.models import MINILM, HashEmbedder, open_embedder
from memforest.search.cache import SnapshotCache
from memforest.search.lexical import bm25
from memforest.search.scores import cosines
from memforest.search.vectors import question_tokens
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.store.meta import count_rows, size_bytes, vectors_by_kind
from scaling import calendar, events
from scaling.segtree import Sizes, report
from synthetic.chat import Chat

USER = "ana"
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
BATCH = 200
"""Sessions handed over at once."""
WARM_UP = 20


@dataclass(slots=True)
class Row:
    """What was measured at one size. Times in ms."""

    facts: int
    turns: int = 0
    build_s: float = 0.0
    insert_ms: float = 0.0
    insert_p95_ms: float = 0.0
    commit_ms: float = 0.0
    refresh_ms: float = 0.0
    refreshed: float = 0.0
    open_ms: float = 0.0
    cold_ms: float = 0.0
    warm_p50_ms: float = 0.0
    warm_p95_ms: float = 0.0
    floor_p50_ms: float = 0.0
    ratio: float = 0.0
    cpu_p50_ms: float = 0.0
    cpu_p95_ms: float = 0.0
    floor_cpu_ms: float = 0.0
    cpu_ratio: float = 0.0
    rss_mb: float = 0.0
    peak_mb: float = 0.0
    vectors_mb: float = 0.0
    file_mb: float = 0.0


def config(dimension: int) -> Config:
    """Return the configuration of every step of the benchmark."""
    embedder = HashEmbedder(dimension)
    # By the name of a model that has a merge threshold, or no fact would be compared with those that are stored.
    embedder.model_id = MINILM.model_id
    return Config(embedder=embedder, clock=lambda: NOW)


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one insert took, in ms, and how many summaries it made."""

    inside: float
    wait: float
    refresh: float
    refreshed: int


class Growing:
    """A memory that is filled up to one size after the other."""

    def __init__(self, directory: Path, chat: Chat, dimension: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.forest = MemForest(directory, config(dimension))
        self.path = directory / file_name(USER)
        self.chat = chat
        self.sessions = self.probes = 0
        if self.path.exists():
            self.sessions, self.probes = self.look(_numbers)  # type: ignore[misc]  # two numbers
        self.build_s = 0.0
        self.costs: list[_Cost] = []

    def look(self, read: Callable[[Tx], object]) -> object:
        """Read in a connection of its own."""
        db = Database(self.path)
        try:
            with db.read() as tx:
                return read(tx)
        finally:
            db.close()

    def count(self) -> dict[str, int]:
        """Return the rows of every table."""
        return self.look(count_rows)  # type: ignore[return-value]  # what count_rows returns

    def fill(self, facts: int) -> dict[str, int]:
        """Ingest sessions until the memory has that many facts."""
        have, shown = (self.count() if self.sessions else {"fact": 0}), time.perf_counter()
        while have["fact"] < facts:
            rate = have["fact"] / self.sessions if self.sessions else 27
            take = max(1, min(BATCH, int((facts - have["fact"]) / rate)))
            requests = []
            for number in range(self.sessions, self.sessions + take):
                name, turns = self.chat.session(number)
                requests.append({"user_id": USER, "session_id": name, "turns": turns})
            started = time.perf_counter()
            for result in self.forest.ingest_parallel(requests):
                if isinstance(result, Exception):
                    raise result
            self.build_s += time.perf_counter() - started
            self.sessions += take
            have = self.count()
            if time.perf_counter() - shown > 20:
                shown = time.perf_counter()
                print(f"  {have['fact']} facts after {self.build_s:.0f} s", file=sys.stderr, flush=True)
        return have

    def insert_fact(self, random: Random) -> None:
        """Add one fact and note what it cost."""
        self.probes += 1
        at = self.sessions if self.probes % 2 else random.randrange(self.sessions)
        result = self.forest.ingest_session(USER, *self.chat.fact(self.probes, at))
        ms = result.usage.ms
        wait = ms["store.commit"] + ms["route.commit"]
        self.costs.append(
            _Cost(
                inside=ms["store"] + ms["route"] - wait,
                wait=wait,
                refresh=ms["refresh"],
                refreshed=result.nodes_refreshed,
            )
        )

    def tell(self, row: Row) -> None:
        """Put what the inserts cost into a row; the first one opened the file, and does not count."""
        costs = self.costs[1:]
        row.insert_ms, row.insert_p95_ms = (_p([c.inside for c in costs], q) for q in (50, 95))
        row.commit_ms = _p([c.wait for c in costs], 50)
        row.refresh_ms = _p([c.refresh for c in costs], 50)
        row.refreshed = statistics.fmean(c.refreshed for c in costs)

    def checkpoint(self) -> None:
        """Fold the log into the file and let go of it."""
        self.forest.save(USER)


def _numbers(tx: Tx) -> tuple[int, int]:
    """Return how many of the chat's sessions, and how many single facts, a memory has."""
    found = dict(tx.execute("SELECT substr(session_id, 1, 1), count(*) FROM session GROUP BY 1").fetchall())
    return found.get("s", 0), found.get("f", 0)


@dataclass(frozen=True, slots=True)
class _Took:
    """Wall and processor time of this process, in ms."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> _Took:
        return cls(time.perf_counter() * 1000, time.process_time() * 1000)

    @classmethod
    def since(cls, began: _Took) -> _Took:
        now = cls.now()
        return cls(now.wall - began.wall, now.cpu - began.cpu)


def measure(path: Path, chat: Chat, dimension: int, questions: int) -> dict[str, float]:
    """Open a memory, ask questions, and return what it took."""
    started = time.perf_counter()
    forest = MemForest(path.parent, config(dimension))
    forest.load(USER)
    opened = time.perf_counter() - started
    asked = list(chat.questions(1 + WARM_UP + questions))
    cold = _timed_ms(lambda: forest.query(USER, asked[0]))
    for question in asked[1 : 1 + WARM_UP]:
        forest.query(USER, question)
    took: list[_Took] = []
    steps: dict[str, list[float]] = {}
    for question in asked[1 + WARM_UP :]:
        began = _Took.now()
        result = forest.query(USER, question)
        took.append(_Took.since(began))
        for step, ms in result.usage.ms.items():
            steps.setdefault(step, []).append(ms)
    rss, peak = _rss_mb(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    forest.close()
    floors, vectors = _floors(path, dimension, asked[1 + WARM_UP :])
    return {
        "open_ms": opened * 1000,
        "cold_ms": cold,
        "warm_p50_ms": _p([t.wall for t in took], 50),
        "warm_p95_ms": _p([t.wall for t in took], 95),
        "floor_p50_ms": _p([t.wall for t in floors], 50),
        "ratio": statistics.median(a.wall / b.wall for a, b in zip(took, floors, strict=True)),
        "cpu_p50_ms": _p([t.cpu for t in took], 50),
        "cpu_p95_ms": _p([t.cpu for t in took], 95),
        "floor_cpu_ms": _p([t.cpu for t in floors], 50),
        "cpu_ratio": statistics.median(a.cpu / b.cpu for a, b in zip(took, floors, strict=True)),
        "rss_mb": rss,
        "peak_mb": peak,
        "vectors_mb": vectors,
        **{f"step {step}": _p(values, 50) for step, values in steps.items()},
    }


def _floors(path: Path, dimension: int, questions: Sequence[str]) -> tuple[list[_Took], float]:
    """Return the least that each question could take, in ms, and the MB of the memory's vectors."""
    embedder, db = HashEmbedder(dimension), Database(path)
    took: list[_Took] = []
    with db.read() as tx:
        snapshot = SnapshotCache().get(tx)
        held = sum(vectors_by_kind(tx).values()) * dimension * 4
        matrix = np.concatenate([snapshot.turns.vectors.rows, snapshot.facts.vectors.rows])
        for _ in range(2):  # the first round warms the postings
            took.clear()
            for question in questions:
                began = _Took.now()
                vector = asyncio.run(embedder.embed([question]))[0]
                cosines(matrix, vector)
                bm25(tx, snapshot, "turn", question_tokens(question))
                bm25(tx, snapshot, "fact", question_tokens(question))
                took.append(_Took.since(began))
    db.close()
    return took, held / 2**20


def _rss_mb() -> float:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _timed_ms(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def _p(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))


def table(rows: Sequence[Row]) -> str:
    """Return the measurements as a Markdown table, a column per size."""
    names = [field.name for field in fields(Row)]
    lines = ["| | " + " | ".join(f"{row.facts:,} facts" for row in rows) + " |", "|---|" + "---|" * len(rows)]
    for name in names[1:]:
        values = (getattr(row, name) for row in rows)
        lines.append(
            f"| {name} | "
            + " | ".join(f"{value:,.4g}" if value < 100 else f"{value:,.0f}" for value in values)
            + " |"
        )
    last, first = rows[-1], rows[0]
    lines.append(
        f"\nInsert at {last.facts:,} / at {first.facts:,}: {last.insert_ms / first.insert_ms:.2f}; "
        f"query / floor at {last.facts:,}: {last.ratio:.2f} (processor time {last.cpu_ratio:.2f}); RSS / vectors: {last.rss_mb / last.vectors_mb:.2f}"
    )
    return "\n".join(lines)


def run(args: argparse.Namespace, directory: Path) -> list[Row]:
    """Build a memory of every size, and measure them in turn."""
    memories, rows = [], []
    for size in sorted(args.sizes):
        growing = Growing(directory / str(size), Chat(args.seed), args.dimension)
        have = growing.fill(size)
        memories.append(growing)
        rows.append(Row(have["fact"], have["turn"], growing.build_s))
    random = Random(args.seed)
    for _ in range(args.inserts + 1):
        for growing in memories:
            growing.insert_fact(random)
    for growing, row in zip(memories, rows, strict=True):
        growing.tell(row)
        growing.checkpoint()
        growing.forest.close()
        row.file_mb = growing.look(size_bytes) / 2**20  # type: ignore[operator]  # a number of bytes
        command = [sys.executable, __file__, "--measure", str(growing.path), "--seed", str(args.seed)]
        command += ["--dimension", str(args.dimension), "--questions", str(args.questions)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # this script
        for name, value in json.loads(done.stdout).items():
            if name.startswith("step "):
                print(f"  {row.facts} {name}: {value:.2f} ms", file=sys.stderr)
            else:
                setattr(row, name, value)
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="in facts")
    parser.add_argument(
        "--dir", type=Path, help="where memories are made and kept (default: a temporary directory)"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--inserts", type=int, default=60, help="facts inserted one at a time per size")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--index", choices=["segtree", "timem", "hmem"], help="measure what that index adds")
    parser.add_argument(
        "--embedder", default=MINILM.name, help="of the memories that are written with --index, or hash"
    )
    parser.add_argument("--sessions", type=int, default=20, help="written into these")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, Chat(args.seed), args.dimension, args.questions)))
        return
    print(
        f"seed {args.seed}, {args.dimension} dimensions, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.machine()}, {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory() as scratch:
        directory = args.dir or Path(scratch)
        if args.index:
            hashing = args.embedder == "hash"
            embedder = (
                partial(HashEmbedder, args.dimension) if hashing else partial(open_embedder, args.embedder)
            )
            if args.index in (calendar.INDEX, events.INDEX):
                made = calendar.report if args.index == calendar.INDEX else events.report
                print(
                    made(
                        directory,
                        args.seed,
                        args.sizes,
                        dimension=args.dimension,
                        questions=args.questions,
                        sessions=args.sessions,
                        embedder=embedder,
                    )
                )
                return
            sizes = Sizes(args.sizes, args.dimension, args.questions, args.sessions, embedder)
            print(report(directory, args.seed, sizes))
            return
        rows = run(args, directory)
    print(table(rows))
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
