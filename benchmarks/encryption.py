"""What does encryption cost? The same sessions and questions on memories with a key and without, in one run.

    python benchmarks/encryption.py [--sessions 60] [--rounds 3] [--embedder minilm|hash] [--dir DIR]

Sessions of one seeded conversation (`synthetic/chat.py`) go one after the other into two memories, a plain and an encrypted
one, in turn, so that a busy machine is as busy for one as for the other. Then both answer the same questions, in turn:
*warm* on a forest that stays open, *cold* on one that was opened for the question. Times are processor time of the whole
process, which other programs do not disturb, and wall time beside it. A ratio is encrypted over plain, of the sums of a
round; the line shows the median of the rounds. With `--embedder hash` no model's time is in the figures, which is the
store's cost alone.

Encrypting and decrypting the memory as a whole are timed at the end, with its size.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memforest import Config, MemForest
from memforest.models import HashEmbedder
from memforest.store.connections import cipher_version
from synthetic.chat import Chat

USER = "ana"
KEY = bytes(range(32))
KINDS = ("plain", "encrypted")
TARGET = 1.25

Spent = dict[tuple[str, str], list[float]]
"""(what was done, with which memory) -> seconds of processor time and of wall time."""


def timed(spent: Spent, what: str, kind: str, work: Callable[[], Any]) -> None:
    """Do some work and add up what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    kept = spent.setdefault((what, kind), [0.0, 0.0])
    kept[0] += time.process_time() - cpu
    kept[1] += time.perf_counter() - wall


def config(kind: str, embedder: str) -> Config:
    """Return the settings of a memory."""
    chosen: Any = HashEmbedder(384) if embedder == "hash" else embedder
    return Config(embedder=chosen, key=KEY if kind == "encrypted" else None)


def run(folder: Path, seed: int, options: argparse.Namespace) -> Spent:
    """Make both memories and ask them; return what it took."""
    spent: Spent = {}
    chat = Chat(seed)
    forests = {kind: MemForest(folder / kind, config(kind, options.embedder)) for kind in KINDS}
    for kind in KINDS:  # the first write loads the model
        forests[kind].ingest_session(USER, *chat.fact(0, 0))
    for number in range(options.sessions):
        name, turns = chat.session(number)
        for kind in KINDS[:: 1 if number % 2 else -1]:
            forest = forests[kind]
            timed(spent, "ingest", kind, lambda f=forest, n=name, t=turns: f.ingest_session(USER, n, t))  # type: ignore[misc]
    questions = list(chat.questions(options.questions))
    for warm_up in (True, False):
        for number, question in enumerate(questions):
            for kind in KINDS[:: 1 if number % 2 else -1]:
                forest = forests[kind]
                into: Spent = {} if warm_up else spent
                timed(into, "query, warm", kind, lambda f=forest, q=question: f.query(USER, q))  # type: ignore[misc]
    for number, question in enumerate(questions[: options.questions // 4]):
        for kind in KINDS[:: 1 if number % 2 else -1]:
            forests[kind].close()
            forest = forests[kind]
            timed(spent, "query, cold", kind, lambda f=forest, q=question: f.query(USER, q))  # type: ignore[misc]
    for forest in forests.values():
        forest.close()
    return spent


def whole(folder: Path, options: argparse.Namespace) -> list[str]:
    """Encrypt and decrypt a memory as a whole; return a line for each."""
    [path] = (folder / "plain").glob("*.db")
    size, lines = path.stat().st_size, []
    with MemForest(folder / "plain", config("encrypted", options.embedder)) as forest:
        for name, work in (("encrypt", forest.encrypt), ("rekey", lambda: forest.rekey(KEY[::-1]))):
            spent: Spent = {}
            timed(spent, name, "", work)
            wall = spent[name, ""][1]
            lines.append(f"{name}: {size / 1e6:.1f} MB in {wall:.2f} s, {size / 1e6 / wall:.0f} MB/s")
    return lines


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument(
        "--dir", type=Path, default=None, help="where the memories are; a temporary directory by default"
    )
    options = parser.parse_args()
    version = cipher_version()
    if version is None:
        parser.error("SQLCipher is not installed: pip install 'memforest[encrypted]'")
    print(
        f"SQLCipher {version}, Python {platform.python_version()}, {os.cpu_count()} cores; {options.embedder}"
    )
    rounds: list[Spent] = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            rounds.append(run(Path(folder), number, options))
            lines = whole(Path(folder), options)
    print(
        f"{'':12} {'plain ms':>9} {'encrypted':>9} {'ratio cpu':>9} {'ratio wall':>10}   target <= {TARGET}"
    )
    counts = {
        "ingest": options.sessions,
        "query, warm": options.questions,
        "query, cold": options.questions // 4,
    }
    for what, count in counts.items():
        plain, encrypted = (
            [statistics.median(one[what, kind][i] for one in rounds) for i in (0, 1)] for kind in KINDS
        )
        ratios = [
            statistics.median(one[what, "encrypted"][i] / one[what, "plain"][i] for one in rounds)
            for i in (0, 1)
        ]
        print(
            f"{what:12} {plain[0] / count * 1e3:9.2f} {encrypted[0] / count * 1e3:9.2f} {ratios[0]:9.3f} {ratios[1]:10.3f}"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
