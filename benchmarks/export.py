"""What taking a memory out and in costs, beside writing it: export, import, backup.

    python benchmarks/export.py [--turns 4000] [--plain 20000] [--megabytes 1000]

Two memories are made through the public API: one of talk full of change (`drift.py`), with its statements, trees and
scenes; and one of turns that are stored as they are said, without statements (``infer=False``, no embedder), of which an
export is nearly all text. Each is exported, with vectors and without, and imported. Times are of the processor; `ratio` is
how much of ingesting the same turns in the same run. `json` is the least that reading such a file can cost: its lines
through `json.loads`.

Then a memory's file is filled up to two sizes, and each is backed up in a process of its own: `seconds` are of the wall,
and `peak` is the most resident memory of that process, which must not grow with the file.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from drift import SESSION, USER, config, session
from memforest import Config, MemForest


def spent(work: Callable[[], Any]) -> float:
    """Return the processor time of some work, in seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def fill(folder: Path, settings: Config, turns: int, *, infer: bool) -> None:
    """Make a memory of so many turns."""
    with MemForest(folder, settings) as forest:
        for number in range(turns // SESSION):
            forest.ingest_session(USER, f"s{number}", session(number), infer=infer)
        forest.flush()


def read(path: Path) -> None:
    """Read a file's lines as JSON."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)


def costs(folder: Path, settings: Config, turns: int, *, infer: bool) -> list[tuple[str, float, int]]:
    """Return (what, seconds, bytes of the file) of each way."""
    made = folder / "made"
    found = [("ingest", spent(lambda: fill(made, settings, turns, infer=infer)), 0)]
    for vectors in (False, True) if infer else (False,):
        path, name = folder / f"{vectors}.jsonl", "with vectors" if vectors else ""
        with MemForest(made, settings) as forest:
            memory = forest.user(USER)
            memory.stats()  # opened
            out = spent(lambda: memory.export(path, vectors=vectors))  # noqa: B023  # called at once
        size = path.stat().st_size
        found.append((f"export {name}", out, size))
        with MemForest(folder / f"in {vectors}", settings) as forest:
            taken = spent(lambda: forest.user(USER).import_(path))  # noqa: B023  # called at once
            assert forest.user(USER).stats().turns == turns
        found.append((f"import {name}", taken, size))
    found.append(
        ("json", spent(lambda: read(folder / "False.jsonl")), (folder / "False.jsonl").stat().st_size)
    )
    return found


def table(title: str, turns: int, found: list[tuple[str, float, int]]) -> None:
    """Print what was measured."""
    print(f"\n| {title}, {turns} turns | turns/s | ratio to ingest | bytes a turn |\n|---|---|---|---|")
    for what, seconds, size in found:
        print(
            f"| {what.strip()} | {turns / seconds:,.0f} | {seconds / found[0][1]:.4f} | {size // turns or ''} |"
        )


def grow(folder: Path, megabytes: int) -> None:
    """Make a memory whose file has so many megabytes, most of them in a table that nothing reads."""
    with MemForest(folder, Config(embedder="none")) as forest:
        forest.ingest_session(USER, "s", session(1))
    [path] = folder.glob("*.db")
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("CREATE TABLE filling (bytes BLOB)")
        conn.executemany("INSERT INTO filling VALUES (randomblob(1000000))", [()] * megabytes)


def back_up(folder: Path) -> None:
    """Back up a memory, and print how long it took and the most memory that this process had."""
    with MemForest(folder, Config(embedder="none")) as forest:
        start = time.perf_counter()
        size = forest.user(USER).backup(folder / "backup", overwrite=True).bytes
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"| {size / 1e6:,.0f} MB | {seconds:.1f} | {size / 1e6 / seconds:,.0f} MB/s | {peak} MiB |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=4_000)
    parser.add_argument("--plain", type=int, default=20_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--back-up", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.back_up is not None:
        back_up(args.back_up)
        return
    for title, settings, turns, infer in (
        ("statements and trees", config(), args.turns, True),
        ("turns alone", Config(embedder="none", chunk_turns=SESSION), args.plain, False),
    ):
        with tempfile.TemporaryDirectory() as folder:
            table(title, turns, costs(Path(folder), settings, turns, infer=infer))
    print("\n| backup of | seconds | | peak |\n|---|---|---|---|", flush=True)
    for megabytes in (args.megabytes // 10, args.megabytes):
        with tempfile.TemporaryDirectory() as folder:
            grow(Path(folder), megabytes)
            subprocess.run([sys.executable, __file__, "--back-up", folder], check=True)


if __name__ == "__main__":
    main()
