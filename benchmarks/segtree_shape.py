"""What shape do segment trees have, and how many calls does a leaf cost? Measured on a LoCoMo file, without a model.

    python benchmarks/segtree_shape.py FILE [--embedder NAME] [--leaf-vector mean|text] [--placer NAME ...]

Leaves are exchanges (`memforest.trees.segtree_grow.leaf_exchanges`, ``"adjacent"``) of all sessions in order. `segtree_fold.py` says
how they are placed: ``centroid`` and ``cosine`` by vectors with the calibrated threshold (``paper``: cosine with a threshold
that does not fall). Nothing bounds the height or the fan-out. What nodes say is the local summariser's.

Depth is counted in nodes from the root to the leaf, both included; edges are one fewer. The paper does not say how it counts.
Its other columns leave it open ((nodes - 1) / (nodes - leaves) is its branching either way), but in nodes its cosine tree
(mean 3.46) is a root, stretches and leaves with a few levels more, which is what Algorithm 1 gives.

*Calls, placing* are calls of the placer a leaf; *selected* adds one summary for each insert that touches a node above the leaf,
which is what the paper's .93 to .96 for cosine imply; *path* adds one for each node above the new leaf, as its Algorithm 1
says. With ``centroid`` nothing has to be summarised for placing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from locomo.conversations import Conversation, read_conversations
from memforest.models import Embedder, open_embedder
from memforest.trees.segtree_grow import leaf_exchanges
from segtree_fold import (
    FALL,
    ByCentroid,
    ByCosine,
    Shape,
    Texts,
    fold,
    leaf_texts,
    leaf_vectors,
    shape,
)

__all__ = ["PAPER", "Row", "exchanges_of", "main", "mean_row", "measure", "read_exchanges", "threshold"]

PLACERS = ("centroid", "cosine", "paper")
PAPER = {
    "cosine": (281, 352, 4.00, 3.46, 0.60, 5.10, 0.96),
}
"""Table 5 of arXiv 2606.04555, LoCoMo: leaves, nodes, max / mean / std of depth, branching, calls a leaf; means of ten."""
WANTED = {"nodes a leaf": (1.15, 1.35), "branching": (4.0, 7.0), "height": (0.0, 6.0)}
"""What the calibrated threshold should give on each conversation; never used to choose it."""

Exchange = tuple[tuple[str, str], ...]
"""The turns of one leaf: who speaks, and what is said."""


@dataclass(frozen=True, slots=True)
class Row:
    """One tree: its shape and its calls a leaf."""

    shape: Shape
    placing: float
    selected: float
    path: float


def read_exchanges(path: Path) -> dict[str, list[Exchange]]:
    """Return the exchanges of each conversation of a file; they begin with its `speaker_a`, as the paper's leaf counts do."""
    value = json.loads(path.read_bytes())
    samples = value if isinstance(value, list) else [value]
    return {
        one.id: exchanges_of(one, str(sample["conversation"]["speaker_a"]))
        for one, sample in zip(read_conversations(path), samples, strict=True)
    }


def exchanges_of(conversation: Conversation, opener: str) -> list[Exchange]:
    """Return the exchanges of a conversation, session by session."""
    found = []
    for session in conversation.sessions:
        turns = [(str(turn["speaker"]), str(turn["text"])) for turn in session.turns]
        for first, last in leaf_exchanges([speaker for speaker, _ in turns], "adjacent", opener=opener):
            found.append(tuple(turns[first : last + 1]))
    return found


def measure(
    placer: str, exchanges: Sequence[Exchange], embedder: Embedder, *, of_text: bool, tau: float
) -> Row:
    """Grow the tree of some exchanges with a placer and measure it."""
    made = _placer(placer, exchanges, embedder, of_text, tau)
    folded = fold(len(exchanges), made)
    count = len(exchanges)
    annotated = made.annotated if isinstance(made, Texts) else 0
    selected = count - 1 if isinstance(made, Texts) else 0
    return Row(
        shape(folded),
        placing=made.calls / count,
        selected=(made.calls + selected) / count,
        path=(made.calls + annotated) / count,
    )


def _placer(
    name: str, exchanges: Sequence[Exchange], embedder: Embedder, of_text: bool, tau: float
) -> ByCentroid | ByCosine:
    texts = leaf_texts(exchanges)
    vectors: NDArray[np.float64] = leaf_vectors(embedder, exchanges, of_text=of_text)
    if name == "centroid":
        return ByCentroid(vectors, tau)
    return ByCosine(texts, vectors, embedder, tau, fall=1.0 if name == "paper" else FALL)


def threshold(model_id: str, placer: str, leaf_vector: str) -> float:
    """Return the calibrated threshold.

    Raises:
        KeyError: if the embedder was not calibrated.
    """
    text = files("memforest.data").joinpath("segment_thresholds.json").read_text(encoding="utf-8")
    name = "centroid" if placer == "centroid" else "cosine"
    return float(json.loads(text)["models"][model_id][f"{name}_{leaf_vector}"])


def mean_row(rows: Sequence[Row]) -> list[float]:
    """Return the means of the columns, in the order of the printed table."""
    return [fmean(column) for column in zip(*map(_columns, rows), strict=True)]


def _columns(row: Row) -> list[float]:
    tree = row.shape
    leaves, nodes, *depths, branching, height = astuple(tree)
    return [leaves, nodes, tree.nodes_a_leaf, *depths, branching, height, row.placing, row.selected, row.path]


def _line(name: str, values: Sequence[float]) -> str:
    leaves, nodes, a_leaf, most, mean, std, branching, height, *calls = values
    shown = [f"{leaves:.0f}", f"{nodes:.0f}", f"{a_leaf:.3f}", f"{most:.2f}", f"{mean:.2f}", f"{std:.2f}"]
    return (
        " | ".join([f"| {name}", *shown, f"{branching:.2f}", f"{height:g}", *(f"{one:.2f}" for one in calls)])
        + " |"
    )


def verdict(rows: Sequence[Row]) -> str:
    """Say whether every tree has the shape that is wanted."""
    wrong = [
        f"{name} {value:.2f}"
        for row in rows
        for (name, (low, high)), value in zip(
            WANTED.items(), (row.shape.nodes_a_leaf, row.shape.branching, row.shape.height), strict=True
        )
        if not low <= value <= high
    ]
    wanted = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in WANTED.items())
    return f"{wanted}: {'held by every conversation' if not wrong else 'missed: ' + ', '.join(wrong)}"


def report(
    name: str, conversations: Mapping[str, Sequence[Exchange]], run: Callable[[Sequence[Exchange]], Row]
) -> None:
    """Print the table of one placer."""
    columns = "leaves | nodes | nodes a leaf | max depth | mean depth | std | branching | height | placing | selected | path"
    print(f"| conversation | {columns} |\n" + "|---" * 12 + "|")
    begun, rows = time.perf_counter(), []
    for conversation, exchanges in conversations.items():
        rows.append(run(exchanges))
        print(_line(conversation, _columns(rows[-1])), flush=True)
    print(_line("mean", mean_row(rows)))
    if name in PAPER:
        leaves, nodes, most, mean, std, branching, calls = PAPER[name]
        print(
            f"| paper, Table 5 | {leaves} | {nodes} | {nodes / leaves:.3f} | {most:.2f} | {mean:.2f} | {std:.2f} "
            f"| {branching:.2f} | | | {calls:.2f} | |"
        )
    print(f"\n{verdict(rows)} ({time.perf_counter() - begun:.0f} s)")


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--embedder", default="minilm-l6-v2-int8")
    parser.add_argument("--leaf-vector", choices=("mean", "text"), default="mean")
    parser.add_argument("--placer", nargs="+", choices=PLACERS, default=PLACERS)
    parser.add_argument("--tau", type=float, help="in the place of the calibrated threshold")
    args = parser.parse_args()
    embedder = open_embedder(args.embedder)
    conversations = read_exchanges(args.file)
    total = sum(map(len, conversations.values()))
    print(
        f"{len(conversations)} conversations, {total:,} leaves, {embedder.model_id}, leaf vector {args.leaf_vector}"
    )
    for name in args.placer:
        tau = args.tau if args.tau is not None else threshold(embedder.model_id, name, args.leaf_vector)
        print(f"\n{name}, tau {tau:g}\n")
        run = partial(measure, name, embedder=embedder, of_text=args.leaf_vector == "text", tau=tau)
        report(name, conversations, run)


if __name__ == "__main__":
    main()
