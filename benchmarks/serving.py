"""What a server costs beside the library in one's own process, and what it holds on to.

    python benchmarks/serving.py [--sessions 60] [--questions 300] [--embedder minilm]
    python benchmarks/serving.py --part soak [--requests 100000]
    python benchmarks/serving.py --part tenants [--tenants 1000] [--users 10]

*latency*: one question at a time on the same memory, new to all: in process, over REST on a kept connection, over MCP on stdio
with the official client. The ways take turns in a drawn order. The difference of the medians has a 95 % interval by bootstrap
over questions.

*throughput*: questions at once, `--width` in flight, in process and over REST in turn, each round with questions that neither
has seen. The client of REST takes its part of the same cores.

*soak*: requests of which half search, half list and one in fifty writes, over some users; the resident set of the server at the
end beside that after the first eleventh.

*tenants*: each user of each tenant adds a turn and asks for it; open files and resident set of the server on the way, beside
what `Config.max_open_files` and `Config.max_cache_mb` allow.

The talk is synthetic (benchmarks/synthetic), the seed fixed. `soak` and `tenants` use the tests' word-overlap embedder unless
another is named. Linux: the resident set is read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import platform
import statistics
import tempfile
from pathlib import Path

from memforest import Config, MemForest, __version__
from scaling.tables import table
from served.latency import latencies, paired, percentile
from served.load import WRITES, soaked, throughput
from served.tenants import crowd
from synthetic.chat import Chat

USER = "Ana"
SEED = 7
HASH = "hash-words-1@256"
SOAK_USERS = 20


def main() -> None:
    """Run the parts that are asked for, and print their tables."""
    options = _options()
    print(f"memforest {__version__}, Python {platform.python_version()}, seed {SEED}\n")
    with tempfile.TemporaryDirectory() as folder:
        for part in options.part or ("latency", "throughput"):
            place = Path(folder) / part
            place.mkdir()
            {"latency": _latency, "throughput": _throughput, "soak": _soak, "tenants": _tenants}[part](
                place, options
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", action="append", choices=("latency", "throughput", "soak", "tenants"))
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="at most, of soak and of tenants; all when not given"
    )
    parser.add_argument(
        "--writes", type=float, default=WRITES, help="share of the soak's requests that write"
    )
    parser.add_argument("--embedder", help="minilm for latency and throughput, word overlap else")
    return parser.parse_args()


def _filled(place: Path, config: Config, sessions: int, users: tuple[str, ...] = (USER,)) -> None:
    with MemForest(place, config) as forest:
        chat = Chat(SEED)
        for user in users:
            for number in range(sessions):
                name, turns = chat.session(number)
                forest.ingest_session(user, name, turns)
        facts = forest.user(users[0]).stats().facts
    print(f"{len(users)} memories of {sessions} sessions, {facts} facts in the first\n")


def _latency(place: Path, options: argparse.Namespace) -> None:
    config = Config(embedder=options.embedder or "minilm")
    _filled(place, config, options.sessions)
    questions = list(Chat(SEED).questions(options.questions))
    took = asyncio.run(latencies(place, USER, questions, config))
    rows = []
    for name, values in took.items():
        middle, low, high = paired(values, took["in process"])
        rows.append(
            {
                "way": name,
                "n": len(values),
                "p50 ms": statistics.median(values),
                "p95 ms": percentile(values, 0.95),
                "p50 beside in process, ms": f"{middle:+.2f} [{low:+.2f}, {high:+.2f}]",
            }
        )
    print(table(f"One question at a time, {config.embedder}", rows), "\n")


def _throughput(place: Path, options: argparse.Namespace) -> None:
    config = Config(embedder=options.embedder or "minilm")
    _filled(place, config, options.sessions)
    questions = list(Chat(SEED + 1).questions(options.questions * options.rounds))
    found = asyncio.run(throughput(place, USER, questions, config, options.width, options.rounds))
    rows = [
        {"round": n, "in process, 1/s": one, "REST, 1/s": other, "ratio": other / one}
        for n, (one, other) in enumerate(found, 1)
    ]
    print(table(f"{options.width} in flight, {config.embedder}", rows))
    print(f"\nmedian ratio {statistics.median(other / one for one, other in found):.2f}\n")


def _soak(place: Path, options: argparse.Namespace) -> None:
    config = Config(embedder=options.embedder or HASH)
    users = tuple(f"user {n}" for n in range(SOAK_USERS))
    _filled(place, config, 6, users)
    questions = list(Chat(SEED).questions(2_000))
    told = asyncio.run(
        soaked(place, users, questions, config, options.requests, options.minutes, options.writes)
    )
    rows = [
        {"step": n, "resident MB": mb, "open files": files}
        for n, (mb, files) in enumerate(zip(told.resident_mb, told.open_files, strict=True), 1)
    ]
    print(table(f"{told.requests:,} requests in {told.seconds:,.0f} s, {told.refused} refused", rows))
    print(f"\ngrowth of the resident set {told.growth:+.1%}\n")


def _tenants(place: Path, options: argparse.Namespace) -> None:
    config = Config(embedder=options.embedder or HASH)
    rows = asyncio.run(crowd(place, options.tenants, options.users, config, options.minutes))
    print(table(f"{options.tenants:,} tenants with {options.users} users each", rows))
    print(
        f"\nbounds: {config.max_open_files} files and {config.max_cache_mb} MB of snapshots, over all tenants\n"
    )


if __name__ == "__main__":
    main()
