"""Measures how alike facts are that have nothing to do with one another, per embedder, and writes the table.

    python scripts/calibrate_scenes.py [CHAT ...] [--check]

Each conversation is ingested into a memory of its own, and its facts are compared as
`memforest.trees.memforest_grow` does, which also brings them to one length: vectors less their mean. *Random* pairs come
from different sessions; *neighbours* from one dialogue chunk or two adjacent ones. The thresholds are quantiles of the random pairs, averaged
over the conversations, so they say how often unrelated facts would pass:

1. `join`: 90% of random pairs are less alike;
2. `merge`: 95%, which says what is worth something in `time`;
3. `second`: 97%, a fact stands in two scenes only when it is very like both;
4. `time`: half the distance from `join` to `merge`, what being at the same time is worth.

All are rounded to `STEP`. The table is made of what is in this repository: the demo conversation and generated
worlds. Chats that are named (any file that `memforest ingest` reads) are measured and printed beside them, and
change nothing: they show whether the table holds for other conversations.

The same weights and conversations give the same table. With `--check` nothing is written and the exit code says
whether the committed table is what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from memforest import (  # noqa: E402
    Config,
    IngestResult,
    MemForest,
)
from memforest.importers import (  # noqa: E402
    FileSession,
    read_sessions,
)
from memforest.models import available  # noqa: E402
from memforest.search.snapshot import load_snapshot  # noqa: E402
from memforest.store.connections import Tx  # noqa: E402
from memforest.store.database import Database  # noqa: E402
from memforest.store.directory import file_name  # noqa: E402
from temporal.phrasing import load_phrasing  # noqa: E402 - the benchmarks are no package
from temporal.worlds import make_worlds  # noqa: E402

DEMO = ROOT / "src" / "memforest" / "data" / "demo" / "nora_and_mateo.json"
TABLE = ROOT / "src" / "memforest" / "data" / "scene_thresholds.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
QUANTILES: Mapping[str, float] = {"join": 0.90, "merge": 0.95, "second": 0.97}
STEP = 0.005
WORLDS = 3
SEED = 1
"""Not the seed that the temporal benchmark reports."""
SHOWN = (0.5, 0.75, 0.9, 0.95, 0.97, 0.99)


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: arguments of `ingest_session` without the user, in order."""

    name: str
    sessions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Likenesses of one conversation's facts: of random pairs and of neighbours."""

    facts: int
    random: NDArray[np.float64]
    neighbours: NDArray[np.float64]

    @property
    def told_apart(self) -> float:
        """How often a pair of neighbours is more alike than a random pair (area under the ROC curve)."""
        both = np.concatenate([self.neighbours, self.random])
        ranks = np.argsort(np.argsort(both, kind="stable"), kind="stable")[: len(self.neighbours)]
        return float(ranks.mean() - (len(self.neighbours) - 1) / 2) / len(self.random)


def own_chats() -> list[Chat]:
    """Return the conversations of this repository."""
    worlds = make_worlds(load_phrasing(), WORLDS, SEED)
    return file_chats(DEMO) + [
        Chat(
            f"world {world.id} of seed {SEED}",
            [{"session_id": one.id, "turns": one.as_input()} for one in world.sessions],
        )
        for world in worlds
    ]


def file_chats(path: Path) -> list[Chat]:
    """Return the conversations of a chat file."""
    memories: dict[str, list[FileSession]] = {}
    for session in read_sessions(path):
        memories.setdefault(session.user or path.stem, []).append(session)
    return [
        Chat(
            user,
            [
                {"session_id": one.session_id, "turns": one.turns, "timestamp": one.timestamp}
                for one in sessions
            ],
        )
        for user, sessions in memories.items()
    ]


@contextmanager
def ingested(chat: Chat, embedder: str) -> Iterator[Tx]:
    """Ingest a conversation, and give a read transaction of its memory.

    Raises:
        MemForestError: if a session is refused.
    """
    with tempfile.TemporaryDirectory(prefix="calibrate-") as folder:
        with MemForest(folder, Config(embedder=embedder)) as forest:
            for result in forest.ingest_parallel([{"user_id": "u", **one} for one in chat.sessions]):
                if not isinstance(result, IngestResult):
                    raise result
        db = Database(Path(folder) / file_name("u"))
        try:
            with db.read() as tx:
                yield tx
        finally:
            db.close()


def chunks_of_facts(tx: Tx) -> dict[int, tuple[int, int]]:
    """Return the session of each fact, and its dialogue chunk there: where it was said first."""
    found = tx.execute(
        """SELECT o.fact, c.session, c.ordinal FROM occurrence o JOIN chunk c ON c.id = o.chunk
           ORDER BY o.said_ms DESC, o.tie DESC"""
    )
    return {row[0]: (row[1], row[2]) for row in found}


def measure(chat: Chat, embedder: str) -> Measured:
    """Ingest a conversation and compare its facts.

    Raises:
        MemForestError: if a session is refused.
    """
    with ingested(chat, embedder) as tx:
        facts, places = load_snapshot(tx).facts, chunks_of_facts(tx)
    rows = np.asarray(facts.vectors.rows, dtype=np.float64)
    background = rows.mean(axis=0)
    alike = (rows - background) @ (rows - background).T / (1 - background @ background)
    session, chunk = np.array([places[fact] for fact in facts.ids.tolist()]).T
    one, other = np.triu_indices(len(rows), 1)
    same = session[one] == session[other]
    near = same & (np.abs(chunk[one] - chunk[other]) <= 1)
    return Measured(len(rows), alike[one, other][~same], alike[one, other][near])


def thresholds(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the thresholds by the rule of the module."""
    found = {
        name: float(np.mean([np.quantile(one.random, share) for one in measured]))
        for name, share in QUANTILES.items()
    }
    found["time"] = (found["merge"] - found["join"]) / 2
    return {name: round(round(value / STEP) * STEP, 4) for name, value in found.items()}


def report(model_id: str, named: Sequence[tuple[str, Measured]]) -> None:
    """Print the likenesses of every conversation."""
    print(f"\n{model_id}")
    print("| conversation | facts | random " + " | ".join(f"{q:.0%}" for q in SHOWN), end="")
    print(" | neighbours 50% | 90% | told apart |")
    print("|---" * (len(SHOWN) + 5) + "|")
    for name, one in named:
        shown = [f"{value:.3f}" for value in np.quantile(one.random, SHOWN)]
        shown += [f"{value:.3f}" for value in np.quantile(one.neighbours, (0.5, 0.9))]
        print(f"| {name} | {one.facts} | {' | '.join(shown)} | {one.told_apart:.3f} |")


def main() -> int:
    """Measure, print, and write or compare the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chats", nargs="*", type=Path, metavar="CHAT", help="measure these too")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table would change")
    args = parser.parse_args()
    own, others = own_chats(), [chat for path in args.chats for chat in file_chats(path)]
    before = TABLE.read_text(encoding="utf-8")
    # An embedder that is not installed here keeps its line.
    models: dict[str, object] = dict(json.loads(before)["models"])
    for status in available():
        if not status.installed:
            continue
        measured = [measure(chat, status.model_id) for chat in own]
        elsewhere = [measure(chat, status.model_id) for chat in others]
        report(
            status.model_id, [(c.name, m) for c, m in zip(own + others, measured + elsewhere, strict=True)]
        )
        found = thresholds(measured)
        print(f"thresholds: {found}" + (f"; of the named chats: {thresholds(elsewhere)}" if others else ""))
        models[status.model_id] = {
            **found,
            "facts": sum(one.facts for one in measured),
            "conversations": len(measured),
            "script": f"scripts/calibrate_scenes.py {VERSION}",
        }
    after = json.dumps({"version": VERSION, "models": dict(sorted(models.items()))}, indent=2) + "\n"
    if args.check:
        return int(after != before)
    TABLE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
