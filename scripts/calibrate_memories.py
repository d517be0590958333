"""Measures how alike statements are that have nothing to do with one another, for joining them to memories, and writes the table.

    python scripts/calibrate_memories.py [CHAT ...] [--check]

Each conversation is ingested into a memory of its own, and the vectors of its statements are compared as
`memforest.trees.hmem_grow` does. *Unrelated* pairs are those of different sessions. The thresholds are quantiles of their
likeness, averaged over the conversations, so they say how often an unrelated pair would pass:

1. `week`: 99.5% are less alike;
2. `month`: 99%;
3. `year`: 98%.

They fall with the level as the paper's do (H-Mem, arXiv 2605.15701, App. A.2: .8 .7 .6, of another embedder), where fewer nodes
are left to be compared. All are rounded to `STEP`. The table is made of what is in this repository, the demo conversation and
generated worlds. Chats that are named (any file that `memforest ingest` reads) are measured and printed beside them, and
change nothing.

The same weights and conversations give the same table. With `--check` nothing is written and the exit code says
whether the committed table is what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from scripts.calibrate_scenes import Chat, chunks_of_facts, file_chats, ingested, own_chats  # noqa: E402

from memforest.models import available  # noqa: E402
from memforest.search.snapshot import load_snapshot  # noqa: E402

TABLE = ROOT / "src" / "memforest" / "data" / "memory_thresholds.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
QUANTILES: Mapping[str, float] = {"week": 0.995, "month": 0.99, "year": 0.98}
STEP = 0.01
SHOWN = (0.5, 0.9, 0.95, 0.98, 0.99, 0.995)

Likenesses = NDArray[np.float64]


def measure(chat: Chat, embedder: str) -> Likenesses:
    """Ingest a conversation and return how alike its unrelated statements are.

    Raises:
        MemForestError: if a session is refused.
    """
    with ingested(chat, embedder) as tx:
        facts, places = load_snapshot(tx).facts, chunks_of_facts(tx)
    vectors = np.asarray(facts.vectors.rows, dtype=np.float64)
    of = np.array([places[fact][0] for fact in facts.ids.tolist()])
    one, other = np.triu_indices(len(vectors), 1)
    alike: Likenesses = (vectors @ vectors.T)[one, other][of[one] != of[other]]
    return alike


def thresholds(measured: Sequence[Likenesses]) -> dict[str, float]:
    """Return the thresholds by the rule of the module."""
    return {
        name: round(round(float(np.mean([np.quantile(one, share) for one in measured])) / STEP) * STEP, 4)
        for name, share in QUANTILES.items()
    }


def report(model_id: str, named: Sequence[tuple[str, Likenesses]]) -> None:
    """Print the likenesses of every conversation."""
    print(f"\n{model_id}")
    print(f"| conversation | pairs | {' | '.join(f'{q:.1%}' for q in SHOWN)} |")
    print("|---" * (len(SHOWN) + 2) + "|")
    for name, one in named:
        print(f"| {name} | {len(one)} | {' | '.join(f'{q:.3f}' for q in np.quantile(one, SHOWN))} |")


def main() -> int:
    """Measure, print, and write or compare the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chats", nargs="*", type=Path, metavar="CHAT", help="measure these too")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table would change")
    args = parser.parse_args()
    own, others = own_chats(), [chat for path in args.chats for chat in file_chats(path)]
    before = TABLE.read_text(encoding="utf-8") if TABLE.exists() else '{"models": {}}'
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
            "pairs": sum(len(one) for one in measured),
            "conversations": len(measured),
            "script": f"scripts/calibrate_memories.py {VERSION}",
        }
    after = json.dumps({"version": VERSION, "models": dict(sorted(models.items()))}, indent=2) + "\n"
    if args.check:
        return int(after != before)
    TABLE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
