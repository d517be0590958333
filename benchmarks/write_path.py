"""How long does it take to make memory of what was said, with a model that has a price? Against an HTTP double.

    python benchmarks/write_path.py [FILE] [--conversation conv-26] [--sessions 10]
        [--cost reference hosted local] [--in-flight 8 64 512] [--arrival ...]
        [--mem0-python v/bin/python] [--keep RUNS.jsonl] [--repeat 3]

FILE is a LoCoMo file; without one, the sessions are those of the package's demo. The double is the tests' doubles'
server in a process of its own. It waits as long as a declared cost model says (`benchmarks/writing/costs.py`), answers
every step in its form, and has seen every prompt before, in a run without waiting, so that what it thinks about is no
part of any time. Sessions arrive one by one (`ingest_session` in a loop) or as one batch (`ingest_parallel`).

Rows. *memforest* has its vectors from the double's embeddings endpoint, as mem0 does; *memforest, minilm* from the
local model of the install, on this machine's cores. *path* makes the summaries above a write before it returns, instead
of behind it. *concurrency 1* is the same with one request in flight. *mem0ai* is the package itself through its own OpenAI
provider (`benchmarks/writing/mem0_run.py`), a session or two turns in a call of its `add`, and *mem0ai async* its
asynchronous class with all calls of a session at once; make an interpreter for it with ``python -m venv v && v/bin/pip install mem0ai==2.2.1``.

With no such interpreter, those rows are left out, and a line says so.

Columns. *wall* is the time until the last write had returned, *flushed* until its summaries were made as well. *floor* is
what a write takes that asks for all chunks of an arrival at once, then for the summaries over them level by level, and
does nothing else, or the sum of all calls over the calls allowed in flight, if that is more; *ratio* is flushed over
floor. *path* is the longest path of calls that need each other's replies, which no order of the calls can beat, and
*chain* the most calls on it. All are computed from the calls' tokens under the cost model
(`benchmarks/writing/bound.py`), and no order that we chose raises the floor; who needs whom is read off the requests
(`benchmarks/writing/waves.py`). *flight* is the most chat calls that the server saw under way, *late* the most by which it
answered later than declared, and *load* how many processes wanted a core when the run began: times of a busy machine are
not the package's.

*cold start* writes the first session in a new process: what imports take, the first write, and a second one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from memforest.config import Refresh
from writing.costs import COSTS, EMBED, CostModel
from writing.measured import BATCH, ONE_BY_ONE, TARGETS, Measured, breakdown, rows, verdicts
from writing.ours import ENDPOINT, LOCAL, ours_name, run_cold, run_ours
from writing.peers import mem0_name, run_mem0
from writing.server import Double
from writing.sessions import Session, read_sessions

ARRIVALS = {"one": ONE_BY_ONE, "batch": BATCH}
SYSTEMS = ("memforest", "path", "minilm", "serial", "mem0", "cold")
TURNS_PER_ADD = (0, 2)
"""Of mem0: a session in a call, or a pair of turns."""


def note(text: str) -> None:
    """Say on stderr what is being done; a run takes from minutes to hours."""
    print(f"... {text}", file=sys.stderr, flush=True)


class Runs:
    """The runs that were asked for, and those that a file already has."""

    def __init__(self, options: argparse.Namespace, double: Double, sessions: Sequence[Session]) -> None:
        self._options = options
        self._double = double
        self._sessions = sessions
        self._kept: list[Measured] = []
        if options.keep is not None and options.keep.exists():
            lines = options.keep.read_text(encoding="utf-8").splitlines()
            self._kept = [Measured.from_json(json.loads(line)) for line in lines]
        self._seen: set[tuple[str, str]] = set()

    def table(self, cost: str, arrival: str, in_flight: int) -> Iterator[Measured]:
        """Yield the rows of one table, measuring what is not kept."""
        wanted = self._options.systems
        if "memforest" in wanted:
            yield self._ours(cost, arrival, in_flight, ENDPOINT)
        if "path" in wanted:
            yield self._ours(cost, arrival, in_flight, ENDPOINT, "path")
        if "minilm" in wanted:
            yield self._ours(cost, arrival, in_flight, LOCAL)
        if "serial" in wanted:
            yield self._ours(cost, arrival, 1, ENDPOINT)
        if "mem0" in wanted and self._options.mem0_python is not None:
            for turns in TURNS_PER_ADD:
                yield self._mem0(cost, arrival, in_flight, turns)
            yield self._mem0(cost, arrival, in_flight, 2, gathered=True)

    def _ours(
        self, cost: str, arrival: str, in_flight: int, embedder: str, refresh: Refresh | None = None
    ) -> Measured:
        def run(model: CostModel | None) -> Measured:
            return run_ours(
                self._double, self._sessions, cost=model, name=cost, arrival=arrival,
                in_flight=64 if model is None else in_flight, embedder=embedder, refresh=refresh,
            )  # fmt: skip

        return self._find(cost, arrival, in_flight, ours_name(embedder, in_flight, refresh), run)

    def _mem0(
        self, cost: str, arrival: str, in_flight: int, turns: int, *, gathered: bool = False
    ) -> Measured:
        # One by one, mem0 has one call under way, whatever is allowed.
        allowed = in_flight if arrival == BATCH else 1

        def run(model: CostModel | None) -> Measured:
            return run_mem0(
                self._options.mem0_python, self._double, self._sessions, cost=model, name=cost,
                arrival=arrival, in_flight=allowed, turns_per_add=turns, gathered=gathered,
            )  # fmt: skip

        return self._find(cost, arrival, allowed, mem0_name(turns, gathered=gathered), run)

    def _find(
        self,
        cost: str,
        arrival: str,
        in_flight: int,
        system: str,
        run: Callable[[CostModel | None], Measured],
    ) -> Measured:
        """Return a run that is kept, or measure it, after one without waiting that shows the double all prompts."""
        for one in self._kept:
            if (one.cost, one.arrival, one.in_flight, one.system) == (cost, arrival, in_flight, system):
                return one
        if (system, arrival) not in self._seen:
            note(f"{system}, {arrival}: a run without waiting")
            run(None)
            self._seen.add((system, arrival))
        note(f"{system}, {arrival}, cost {cost}, {in_flight} in flight")
        several = [run(COSTS[cost]) for _ in range(self._options.repeat)]
        return self._keep(sorted(several, key=lambda one: one.wall_s)[len(several) // 2])

    def _keep(self, run: Measured) -> Measured:
        self._kept.append(run)
        if self._options.keep is not None:
            with self._options.keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
        return run


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", help="a LoCoMo file; the demo's conversation without")
    parser.add_argument("--conversation", help="which one of the file; the first when not given")
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--cost", nargs="+", choices=tuple(COSTS), default=tuple(COSTS))
    parser.add_argument("--in-flight", nargs="+", type=int, default=(8, 128, 512))
    parser.add_argument("--arrival", nargs="+", choices=tuple(ARRIVALS), default=tuple(ARRIVALS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each row, of which the median is kept")
    parser.add_argument(
        "--mem0-python", type=Path, help="an interpreter with mem0ai; its rows are left out without"
    )
    parser.add_argument("--keep", type=Path, help="a file of runs: read first, and added to")
    return parser.parse_args(arguments)


def head(name: str, sessions: Sequence[Session]) -> list[str]:
    """Return what the tables are about."""
    turns = sum(len(one.turns) for one in sessions)
    packages = ", ".join(f"{one} {version(one)}" for one in ("memforest", "openai"))
    return [
        f"{name}: {len(sessions)} sessions, {turns} turns",
        f"Python {platform.python_version()}, {packages}, {os.cpu_count()} CPUs",
        *(f"cost {cost}: {COSTS[cost].declared}" for cost in COSTS),
        f"a request for embeddings: {EMBED.declared}",
        *(
            f"targets of memforest, {arrival}: "
            + ", ".join(f"{what} <= {most}" for what, most in own.items())
            for arrival, own in TARGETS.items()
        ),
    ]


def print_table(cost: str, arrival: str, in_flight: int, found: Sequence[Measured]) -> None:
    """Print the rows of one table, what they say about the targets, and the steps of the first."""
    print(f"\ncost {cost}, {arrival}, {in_flight} in flight")
    print("\n".join(rows(found)))
    for one in found:
        if verdict := verdicts(one):
            print(f"  {one.system}: {verdict}")
    for one in found:
        if "concurrency 1" not in one.system:
            print(f"  steps of {one.system}")
            print("\n".join(f"  {line}" for line in breakdown(one)))


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    name, sessions = read_sessions(options.file, options.conversation, options.sessions)
    print("\n".join(head(name, sessions)))
    if "mem0" in options.systems and options.mem0_python is None:
        print("no rows of mem0: --mem0-python names no interpreter that has it")
    with contextlib.ExitStack() as stack:
        double = stack.enter_context(Double())
        runs = Runs(options, double, sessions)
        if "cold" in options.systems:
            for cost in options.cost:
                parts = run_cold(double, sessions[0], cost=COSTS[cost])
                print(f"cold start, cost {cost}: " + ", ".join(f"{k} {v:.2f} s" for k, v in parts.items()))
        for cost in options.cost:
            for arrival in options.arrival:
                for in_flight in options.in_flight:
                    found = list(runs.table(cost, ARRIVALS[arrival], in_flight))
                    print_table(cost, ARRIVALS[arrival], in_flight, found)
                    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
