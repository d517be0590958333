"""What merging memories costs against writing all of it into one memory again (paper §5.6, Fig. 5 and Table 10).

    python benchmarks/merging.py [--users 8] [--turns 200] [--model-turns 80] [--seed 1] [--embedder hash minilm]
        [--latency 0.3] [--in-flight 8] [--skip-model] [--json FILE]

Each user has a conversation of their own (`benchmarks/synthetic/chat.py`: people, places and words drawn from the seed),
and a memory of it. Then, user by user, one memory reads all conversations again (*re-ingest*), and another one merges the
memories that are there (*merge*). A row has the sums over the first N users, as in the paper. Times are wall time, of
both in turns, so that a busy machine is as busy for one as for the other; the directory is in memory where there is one.

Without a model: the sessions are written one after the other; *hash* has vectors that cost nothing, so that only what is
written counts, *minilm* those of the model of the install. With a model: all sessions of a user at once, and the summaries
are waited for. The model is the tests' doubles' server, which answers each step by its own rules after `--latency`
seconds; *calls* are those of all steps, *extract* those of extraction alone. *facts* and *trees* are what the two memories
hold, and how much the merged one differs; *session* and *entity* trees are always the same, scenes depend on the order
in which things came. At the end both are verified.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the doubles of the tests

from tests.doubles import ChatServer, Latency

from memforest import ChatEndpoint, Config, MemForest
from memforest.models import HashEmbedder
from memforest.read.results import Usage
from synthetic.chat import USER, Chat

TURNS, MODEL_TURNS, USERS, SEED = 200, 80, 8, 1
NAMES = ("Ana", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jo")


@dataclass(frozen=True, slots=True)
class Row:
    """The sums over the first users, of re-ingesting and of merging."""

    users: int
    ingest_s: float
    merge_s: float
    ingest_calls: int
    merge_calls: int
    merge_extract_calls: int
    ingest_facts: int
    merge_facts: int
    ingest_trees: int
    merge_trees: int


class Spent:
    """The wall time and the calls of some operations, in sum."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls: dict[str, int] = {}

    def time(self, work: Callable[[], Sequence[Usage]]) -> None:
        """Run some work, and add what it took."""
        started = perf_counter()
        used = work()
        self.seconds += perf_counter() - started
        for usage in used:
            for step, one in usage.steps.items():
                if step != "embed":
                    self.calls[step] = self.calls.get(step, 0) + one.calls


def conversation(seed: int, user: int, turns: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the sessions of a user, under ids of their own."""
    chat, name = Chat(seed * 1_000 + user), NAMES[user]
    made: list[tuple[str, list[dict[str, Any]]]] = []
    while sum(len(said) for _, said in made) < turns:
        session_id, said = chat.session(len(made))
        own = [{**turn, "speaker": name} if turn["speaker"] == USER else turn for turn in said]
        made.append((f"{name}-{session_id}", own))
    return made


def measure(folder: str, config: Config, seed: int, users: int, turns: int, *, together: bool) -> list[Row]:
    """Return a row for each number of users from two on."""
    talks = [conversation(seed, user, turns) for user in range(users)]
    ingest, merge, rows = Spent(), Spent(), []
    with MemForest(folder, config) as forest:

        def write(user: str, sessions: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[Usage]:
            if together:
                requests = [{"user_id": user, "session_id": name, "turns": said} for name, said in sessions]
                used = [one.usage for one in forest.ingest_parallel(requests)]  # type: ignore[union-attr]
                return [*used, forest.user(user).flush().usage]
            return [forest.ingest_session(user, name, said).usage for name, said in sessions]

        def join(user: str) -> list[Usage]:
            used = [forest.user("merged").merge(user).usage]
            return [*used, forest.user("merged").flush().usage] if together else used

        for at, sessions in enumerate(talks):
            forest.register_user(NAMES[at])
            write(NAMES[at], sessions)
        forest.register_user("merged")
        for at, sessions in enumerate(talks):
            ingest.time(lambda sessions=sessions: write("whole", sessions))  # type: ignore[misc]
            merge.time(lambda at=at: join(NAMES[at]))  # type: ignore[misc]
            whole, merged = forest.user("whole").stats(), forest.user("merged").stats()
            trees = [sum(sum(kinds.values()) for kinds in one.trees.values()) for one in (whole, merged)]
            rows.append(
                Row(
                    at + 1,
                    ingest.seconds,
                    merge.seconds,
                    sum(ingest.calls.values()),
                    sum(merge.calls.values()),
                    merge.calls.get("extract", 0),
                    whole.facts,
                    merged.facts,
                    *trees,
                )
            )
        for user in ("whole", "merged"):
            report = forest.user(user).verify()
            assert report.ok, report.problems
    return rows[1:]


def table(title: str, rows: Sequence[Row], *, calls: bool) -> str:
    """Return the rows as a table."""
    head = ["N", "re-ingest, s", "merge, s", "faster"]
    head += ["calls", "of merge", "extract"] if calls else []
    head += ["facts", "of merge", "", "trees", "of merge", ""]
    lines = [f"**{title}**", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for one in rows:
        chunks = [
            one.users,
            f"{one.ingest_s:.2f}",
            f"{one.merge_s:.2f}",
            f"{one.ingest_s / one.merge_s:.1f}x",
        ]
        chunks += [one.ingest_calls, one.merge_calls, one.merge_extract_calls] if calls else []
        for whole, merged in ((one.ingest_facts, one.merge_facts), (one.ingest_trees, one.merge_trees)):
            chunks += [whole, merged, f"{(merged - whole) / whole:+.1%}"]
        lines.append("| " + " | ".join(str(chunk) for chunk in chunks) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=USERS, choices=range(2, len(NAMES) + 1), metavar="N")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--model-turns", type=int, default=MODEL_TURNS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--embedder", nargs="*", choices=("hash", "minilm"), default=["hash", "minilm"])
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--skip-model", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"seed {args.seed}, {os.cpu_count()} cores{load}, Python {sys.version.split()[0]}\n")
    found: dict[str, list[Row]] = {}
    for name in args.embedder:
        config = Config(embedder=HashEmbedder(64) if name == "hash" else name)
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            rows = measure(folder, config, args.seed, args.users, args.turns, together=False)
        found[name] = rows
        print(table(f"without a model, {name}, {args.turns} turns a user", rows, calls=False) + "\n")
    if not args.skip_model:
        with (
            ChatServer(latency=Latency(base_s=args.latency), keep_bodies=False) as server,
            tempfile.TemporaryDirectory(dir=memory) as folder,
        ):
            chat = ChatEndpoint(model="double", base_url=server.url, max_in_flight=args.in_flight)
            config = Config(chat=chat, embedder=HashEmbedder(64))
            rows = measure(folder, config, args.seed, args.users, args.model_turns, together=True)
        found["model"] = rows
        title = f"with a model, {args.latency} s a call, {args.in_flight} in flight, {args.model_turns} turns a user"
        print(table(title, rows, calls=True))
    if args.json:
        plain = {name: [asdict(row) for row in rows] for name, rows in found.items()}
        args.json.write_text(json.dumps({"seed": args.seed, "rows": plain}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
