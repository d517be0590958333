"""Many processes on one memory, and many users in one process: what goes wrong, and what it costs.

    python benchmarks/processes.py --advance 4
    python benchmarks/processes.py [--processes 8] [--operations 500] [--users 5000] [--seed 7] [--dir DIR]

First part: every process makes the given number of mixed operations on the same memory: new sessions, sessions
that other processes ingest too, live turns added to one session by all, and queries, in a seeded order of its
own. Afterwards the file is compared with what was acknowledged, and with a memory that one process makes of the
same sessions in another order:

- *lost* are acknowledged turns that are not stored, and facts that the other memory has and this one has not;
- *duplicates* are turns stored twice, facts with the same identity, and facts that one turn supports twice.

Second part: users are opened in turn, each with a session and a question. Open files are counted and the
resident set is measured after each; growth is counted from the tenth user on, when everything is imported.

With `--advance`, processes write the windows of one memory with a model's double at once, and each call is counted.

The embedder is the tests' word-overlap one unless another is named, so that the figures are of the store.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memforest import Config, MemForest
from memforest.errors import MemForestError
from memforest.models import HashEmbedder
from memforest.store.directory import file_name
from served.together import advance_together

USER = "everyone"
SHARED = "shared"
"""The session that all processes add live turns to."""
STATEMENTS = (
    "I live in {city}.",
    "I moved from {city} to {other} last week.",
    "I work at {firm} now.",
    "I bought a {thing} in {city}.",
    "{who} and I went to {city} on 3 March 2023.",
    "{who} is my sister. She lives in {city}.",
    "How are you?",
)
PEOPLE = ("Ana", "Bob", "Carla", "Melanie")
CITIES = ("Davis", "Miami", "Lisbon", "Oslo", "Kyoto")
FIRMS = ("Acme", "Initech", "Globex")
THINGS = ("car", "bike", "guitar", "tent")
QUESTIONS = ("Where does Ana live?", "Who works at Acme?", "What did Bob buy in Oslo?", "Where did Carla go?")
COMMON = 40
"""Sessions that every process ingests too: whoever comes first stores them."""
WARM_USERS = 10

Turn = dict[str, Any]
Known = set[tuple[str, str, str]]
"""(session id, turn id, fact id) of every support."""


@dataclass(slots=True)
class Worker:
    """What one process did. Times in ms."""

    errors: list[str] = field(default_factory=list)
    sessions: dict[str, list[str]] = field(default_factory=dict)
    """Session id -> the texts of its turns, as acknowledged."""
    added: list[str] = field(default_factory=list)
    ingest_ms: list[float] = field(default_factory=list)
    query_ms: list[float] = field(default_factory=list)


def make_turns(rng: random.Random, tag: str) -> list[Turn]:
    """Return a short session; equal statements come again in others, and one names the session."""
    day, speakers = rng.randint(1, 28), rng.sample(PEOPLE, 2)
    turns: list[Turn] = []
    for i in range(rng.randint(1, 4)):
        city, other = rng.sample(CITIES, 2)
        text = rng.choice(STATEMENTS).format(
            city=city,
            other=other,
            firm=rng.choice(FIRMS),
            thing=rng.choice(THINGS),
            who=rng.choice(PEOPLE),
        )
        turns.append(
            {
                "speaker": speakers[i % 2],
                "content": text if i else f"{text} I bought ticket {tag}.",
                "timestamp": f"2023-{rng.randint(1, 12):02}-{day:02}T10:{i:02}:00Z" if not i else None,
            }
        )
        turns[-1]["timestamp"] = turns[0]["timestamp"].replace("10:00", f"10:{i:02}")
    return turns


def config_of(embedder: str) -> Config:
    """Return the configuration of every process."""
    return Config(embedder=HashEmbedder() if embedder == "hash" else embedder, busy_timeout_s=60.0)


def work(directory: str, number: int, operations: int, seed: int, embedder: str) -> Worker:
    """Make mixed operations on the common memory; an error is recorded and the work goes on."""
    done, rng = Worker(), random.Random(seed * 1000 + number)
    with MemForest(directory, config_of(embedder)) as forest:
        forest.query(USER, QUESTIONS[0])  # not timed: a process's first question loads word lists
        for step in range(operations):
            kind = rng.choices(("query", "own", "common", "add"), (50, 30, 10, 10))[0]
            started = time.perf_counter()
            try:
                if kind == "query":
                    forest.query(USER, rng.choice(QUESTIONS))
                elif kind == "add":
                    text = f"I bought ticket {number}x{step}."
                    forest.user(USER).add(text, session_id=SHARED)
                    done.added.append(text)
                else:
                    _ingest(forest, kind, number, step, rng, seed, done)
            except MemForestError as exc:
                done.errors.append(f"{kind}: {type(exc).__name__}: {exc}")
            took = (time.perf_counter() - started) * 1000
            (done.query_ms if kind == "query" else done.ingest_ms).append(took)
    return done


def _ingest(
    forest: MemForest, kind: str, number: int, step: int, rng: random.Random, seed: int, done: Worker
) -> None:
    """Ingest a session of this process, or one that all processes ingest with the same turns."""
    if kind == "own":
        name, source = f"p{number}-{step}", rng
    else:
        common = rng.randrange(COMMON)
        name, source = f"common-{common}", random.Random(seed + common)
    turns = make_turns(source, name)
    forest.ingest_session(USER, name, turns)
    done.sessions[name] = [turn["content"] for turn in turns]


def stored(path: Path) -> tuple[dict[str, list[tuple[str, str, str, int]]], Known, Counter[str]]:
    """Return (session -> its turns as (id, speaker, text, ms)), every support, and how often each fact is there."""
    conn = sqlite3.connect(path)
    sessions: dict[str, list[tuple[str, str, str, int]]] = {}
    for name, *turn in conn.execute(
        """SELECT s.session_id, t.turn_id, t.speaker, t.text, t.said_ms FROM turn t
           JOIN session s ON s.id = t.session ORDER BY s.session_id, t.ordinal"""
    ):
        sessions.setdefault(name, []).append((turn[0], turn[1], turn[2], turn[3]))
    supports = conn.execute(
        """SELECT s.session_id, t.turn_id, f.fact_id FROM occurrence o JOIN fact f ON f.id = o.fact
           JOIN occurrence_turn x ON x.occurrence = o.id JOIN turn t ON t.id = x.turn
           JOIN session s ON s.id = t.session"""
    ).fetchall()
    facts = Counter(
        f"{text.casefold()}|{start}|{end}"
        for text, start, end in conn.execute("SELECT text, start_ms, end_ms FROM fact")
    )
    conn.close()
    facts.update({f"support {key}": n for key, n in Counter(supports).items() if n > 1})
    return sessions, {(row[0], row[1], row[2]) for row in supports}, facts


def sequential(directory: Path, sessions: dict[str, list[tuple[str, str, str, int]]], embedder: str) -> Known:
    """Make a memory of the same sessions in one process, in the order of their names; return its supports."""
    with MemForest(directory, config_of(embedder)) as forest:
        for name in sorted(sessions):
            turns = [
                {"id": turn, "speaker": speaker, "content": text, "timestamp": ms / 1000}
                for turn, speaker, text, ms in sessions[name]
            ]
            forest.ingest_session(USER, name, turns, refresh=False)
    return stored(directory / file_name(USER))[1]


def judge(workers: list[Worker], directory: Path, embedder: str) -> dict[str, Any]:
    """Compare the file with what the processes acknowledged, and with a memory made by one process."""
    sessions, supports, facts = stored(directory / file_name(USER))
    texts = {name: [turn[2] for turn in turns] for name, turns in sessions.items()}
    lost_turns = [name for w in workers for name, said in w.sessions.items() if texts.get(name) != said]
    added = Counter(texts.get(SHARED, []))
    lost_turns += [text for w in workers for text in w.added if not added[text]]
    twice = [text for text, n in added.items() if n > 1]
    alone = sequential(directory / "alone", sessions, embedder)
    with MemForest(directory, config_of(embedder)) as forest:
        forest.resume(USER)
        report, stats = forest.user(USER).verify(), forest.user(USER).stats()
    return {
        "errors": sum(len(w.errors) for w in workers),
        "lost turns": len(lost_turns),
        "lost facts": len(alone - supports),
        "duplicate turns": len(twice),
        "duplicate facts": sum(n > 1 for n in facts.values()) + len(supports - alone),
        "verify": "ok" if report.ok else f"{len(report.problems)} problems",
        "sessions": stats.sessions,
        "turns": stats.turns,
        "facts": stats.facts,
        "dirty nodes": stats.dirty_nodes,
        "first errors": [error for w in workers for error in w.errors][:3] + list(report.problems[:3]),
    }


def many_processes(directory: Path, processes: int, operations: int, seed: int, embedder: str) -> bool:
    """Run the first part, print its table, and return whether nothing was lost, doubled or refused."""
    with MemForest(directory, config_of(embedder)) as forest:
        forest.register_user(USER)
    started = time.perf_counter()
    jobs = [(str(directory), number, operations, seed, embedder) for number in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        workers = pool.starmap(work, jobs, chunksize=1)
    took = time.perf_counter() - started
    verdict = judge(workers, directory, embedder)
    ingests, queries = ([ms for w in workers for ms in getattr(w, f"{k}_ms")] for k in ("ingest", "query"))
    first = verdict.pop("first errors")
    print(f"{processes} processes x {operations} operations on one memory, {took:.1f} s")
    for name, value in verdict.items():
        print(f"  {name:<16} {value}")
    for name, times in (("writes", ingests), ("queries", queries)):
        print(
            f"  {name:<16} {len(times)}, ms p50 {_at(times, 50):.1f} p95 {_at(times, 95):.1f} max {max(times):.1f}"
        )
    for problem in first:
        print(f"  ! {problem}")
    bad = ("errors", "lost turns", "lost facts", "duplicate turns", "duplicate facts", "dirty nodes")
    return not any(verdict[name] for name in bad) and verdict["verify"] == "ok"


def many_users(directory: Path, users: int, embedder: str) -> tuple[int, float]:
    """Run the second part, print its table, and return the most open files and the growth in MB."""
    started, most, base, growth = time.perf_counter(), 0, 0.0, 0.0
    before = open_files()
    with MemForest(directory, config_of(embedder)) as forest:
        for i in range(users):
            user = f"user {i}"
            forest.ingest_session(user, "s", make_turns(random.Random(i), str(i)))
            assert forest.query(user, "Where did Ana go?").evidence
            most = max(most, open_files())
            if i + 1 == min(WARM_USERS, users):
                base = resident_mb()
            growth = max(growth, resident_mb() - base if base else 0.0)
    print(f"{users} users opened in turn, {time.perf_counter() - started:.1f} s")
    print(f"  most open files  {most} ({before} before the first user)")
    print(f"  growth           {growth:.1f} MB of resident memory, on top of {base:.1f} MB")
    return most, growth


def open_files() -> int:
    """Return how many file descriptors this process has open; 0 where the system does not say."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        if Path(folder).is_dir():
            return len(os.listdir(folder)) - 1  # noqa: PTH208 - the listing itself has one open
    return 0


def resident_mb() -> float:
    """Return the resident set of this process in MB; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return 0.0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _at(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1] if len(times) > 1 else sum(times)


def main() -> int:
    """Run both parts; the exit code says whether the promises hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--operations", type=int, default=500, help="of each process")
    parser.add_argument("--users", type=int, default=5000, help="0 leaves the second part out")
    parser.add_argument(
        "--advance", type=int, metavar="N", help="instead: N processes advance a memory of windows at once"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--embedder", default="hash", help="hash, minilm, bge or none")
    parser.add_argument("--dir", type=Path, help="where to work; a temporary directory when not given")
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} CPUs")
    if args.advance:
        good = advance_together(args.advance, args.seed)
        print("together they write what one alone does" if good else "a promise is broken")
        return 0 if good else 1
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        good = True
        if args.processes:
            one = Path(folder, "one")
            good = many_processes(one, args.processes, args.operations, args.seed, args.embedder)
        if args.users:
            most, growth = many_users(Path(folder, "many"), args.users, args.embedder)
            good &= most <= 64 and growth <= 200
    print("all promises hold" if good else "a promise is broken")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
