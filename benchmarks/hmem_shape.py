"""What shape does the index hmem give a conversation? The columns of Table 7, without a model, on a LoCoMo file.

    python benchmarks/hmem_shape.py FILE [--embedder minilm|bge] [--work DIR]

Every conversation becomes one memory, whose index is made anew with each schedule; likenesses are those of `SCHEDULES`, or as
measured for the embedder (``calibrated``). A row is the mean of the conversations, and for ``calibrated`` each is shown too.
*Fragments* are turns, L1 events (statements), L2 to L4 the memories of weeks, months and years. Entities are what names mean
after they are resolved, edges what relates two of them: relations, and being named together.
The paper's row (H-Mem, arXiv 2605.15701, Table 7) has events, entities and relations from a model, and another embedder, so only
its order, L1 >= L2 >= L3 >= L4, is a target.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from locomo.conversations import Conversation, read_conversations
from memforest import Config, MemForest
from memforest.graph.graph import graph_of
from memforest.models import BGE_SMALL, MINILM, Embedder
from memforest.search.snapshot import load_snapshot
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.trees.hmem_grow import SCHEDULES

__all__ = ["PAPER", "graph_sizes", "main", "memories", "row", "shown"]

MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
COLUMNS = ("fragments", "L1", "L2", "L3", "L4", "entities", "edges")
PAPER = (596.5, 995.1, 563.7, 419.7, 100.9, 828.6, 3670.8)
"""Table 7 of arXiv 2605.15701, LoCoMo, a conversation."""


def row(forest: MemForest, user: str, schedule: str, drawn: Mapping[str, int]) -> Mapping[str, float]:
    """Make the index of a memory anew with a schedule, and return the columns."""
    memory = forest.user(user)
    if any(one.name == "hmem" for one in memory.indexes()):
        memory.drop_index("hmem")
    view = memory.add_index("hmem", {"schedule": schedule})
    return {**view.counts, **drawn}


def graph_sizes(folder: Path, user: str) -> Mapping[str, int]:
    """Return how many entities a memory has, and how many edges join them."""
    db = Database(folder / file_name(user))
    try:
        with db.read() as tx:
            graph = graph_of(load_snapshot(tx))
    finally:
        db.close()
    return {"entities": len(graph), "edges": len(graph.edges.targets) // 2}


def shown(name: str, found: Mapping[str, float] | Sequence[float]) -> str:
    """Return a line of the table."""
    values = [found[column] for column in COLUMNS] if isinstance(found, Mapping) else list(found)
    ratios = [values[at] / values[1] for at in (2, 3, 4)]
    chunks = [f"{value:.1f}" for value in values] + [f"{ratio:.2f}" for ratio in ratios]
    return f"| {name} | {' | '.join(chunks)} |"


@contextlib.contextmanager
def memories(
    conversations: Sequence[Conversation], embedder: str | Embedder, work: Path | None
) -> Iterator[tuple[MemForest, Path]]:
    """Ingest the conversations, each as a memory, or open those of an earlier run."""
    with contextlib.ExitStack() as stack:
        folder = work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hmem-")))
        forest = stack.enter_context(MemForest(folder, Config(embedder=embedder, refresh="lazy")))
        known = set(forest.list_users())
        for one in conversations:
            if one.id not in known:
                for session in one.sessions:
                    forest.ingest_session(
                        one.id, session.session_id, session.turns, timestamp=session.timestamp
                    )
        yield forest, folder


def main() -> None:
    """Read the file, build, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--embedder", choices=MODELS, default="minilm")
    parser.add_argument("--work", type=Path, help="where memories are kept for another run")
    args = parser.parse_args()
    conversations = read_conversations(args.file)
    model = MODELS[args.embedder].model_id
    print(f"embedder {model}; {len(conversations)} conversations\n")
    print(f"| schedule | {' | '.join(COLUMNS)} | L2/L1 | L3/L1 | L4/L1 |")
    print("|---" * (len(COLUMNS) + 4) + "|")
    with memories(conversations, model, args.work) as (forest, folder):
        drawn = {one.id: graph_sizes(folder, one.id) for one in conversations}
        for schedule in (*SCHEDULES, "calibrated"):
            found = [row(forest, one.id, schedule, drawn[one.id]) for one in conversations]
            name = schedule if schedule not in SCHEDULES else f"{schedule} {SCHEDULES[schedule]}"
            print(shown(name, {column: fmean(one[column] for one in found) for column in COLUMNS}))
        for one, measured in zip(conversations, found, strict=True):
            assert measured["L1"] >= measured["L2"] >= measured["L3"] >= measured["L4"]
            print(shown(f"calibrated, {one.id}", measured))
    print(shown("paper (a model's events)", PAPER))


if __name__ == "__main__":
    main()
