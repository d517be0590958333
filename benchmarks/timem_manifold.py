"""How memories of a calendar tree lie in the space of their vectors, level by level, with conversations as users.

    python benchmarks/timem_manifold.py FILE [--embedder minilm|bge] [--work DIR]

Every conversation of a LoCoMo file becomes one memory with the index ``timem``, without a model, and all its windows are
written. The text of every memory is embedded, and the measures of TiMem's Appendix D are taken of each level over all
conversations; `calendar_tree.manifold` says how. The paper's Table 11 stands beside them: it has ten conversations, a model's summaries,
another embedder and another projection, so what can be compared is the direction from level to level.

*drawn* is the intrinsic dimension of as many segments drawn at random: a level of few memories has few dimensions whatever they say.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from calendar_tree.build import INDEX, build, config_of
from calendar_tree.counts import LEVELS
from calendar_tree.manifold import NEIGHBOURS, VARIANCE, Manifold, Matrix, drawn_dimension, manifold, users_of
from kept import KeptVectors
from locomo.conversations import Conversation, read_conversations
from memforest import MemForest
from memforest.models import BGE_SMALL, MINILM, Embedder, open_embedder
from memforest.read.stored import TreeView

__all__ = ["PAPER", "directions", "main", "measure", "texts_of"]

SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}
PAPER: Mapping[str, Sequence[float]] = {
    "L1": (73, 0.093, 0.30, 0.950, 0.941),
    "L2": (35, 0.273, 0.77, 0.964, 0.955),
    "L3": (37, 0.274, 0.76, 0.963, 0.955),
    "L4": (28, 0.329, 0.89, 0.972, 0.964),
    "L5": (13, 0.574, 2.14, 0.818, 0.862),
}
"""Table 11 of arXiv 2601.02845: intrinsic dimension, silhouette, separation ratio, trustworthiness, continuity."""
NAMES = tuple(PAPER)
STAYS = 0.05
"""Part of a measure by which it has to change to rise or fall."""


def texts_of(roots: Sequence[TreeView]) -> list[list[str]]:
    """Return the texts of the memories of a conversation, by level from L1 on; those that have none are left out."""
    found: list[list[str]] = [[] for _ in range(LEVELS)]
    for node in _walk(roots):
        if node.level < LEVELS and node.summary.strip():
            found[node.level].append(node.summary)
    return found


def _walk(nodes: Sequence[TreeView]) -> Iterator[TreeView]:
    for node in nodes:
        yield node
        yield from _walk(node.children)


def measure(
    texts: Sequence[Sequence[Sequence[str]]], embedder: Embedder, seed: int
) -> list[tuple[Manifold, float]]:
    """Return the measures of each level, and the dimension of as many segments.

    Args:
        texts: of each conversation, by level.
        embedder: of the texts.
        seed: of the segments that are drawn.
    """
    made, segments = [], None
    for level in range(LEVELS):
        flat = [text for one in texts for text in one[level]]
        rows: Matrix = np.asarray(asyncio.run(embedder.embed(flat)), dtype=np.float64)
        segments = rows if segments is None else segments
        found = manifold(rows, users_of([len(one[level]) for one in texts]))
        made.append((found, drawn_dimension(segments, len(rows), seed)))
    return made


def directions(found: Sequence[Manifold]) -> list[str]:
    """Say what becomes of each measure from the segments to the months, and whether it does in the paper."""
    first, last = found[0], found[-1]
    lines = []
    for at, name in enumerate(("dimension", "silhouette", "separation", "trustworthiness", "continuity")):
        before, after = float(getattr(first, name)), float(getattr(last, name))
        here, paper = _way(before, after), _way(PAPER["L1"][at], PAPER["L5"][at])
        lines.append(f"{name} {here} from L1 to L5 ({before:.3g} to {after:.3g}); in the paper it {paper}")
    return lines


def _way(before: float, after: float) -> str:
    if abs(after - before) < STAYS * abs(before):
        return "stays"
    return "rises" if after > before else "falls"


def print_table(found: Sequence[tuple[Manifold, float]]) -> None:
    """Print the measures beside the paper's."""
    print(
        f"{'':3} {'memories':>8} {'dim':>6} {'drawn':>6} {'silh':>6} {'sep':>6} {'trust':>6} {'cont':>6}   paper: dim silh sep trust cont"
    )
    for name, (one, drawn) in zip(NAMES, found, strict=True):
        dim, *paper = PAPER[name]
        print(
            f"{name:3} {one.memories:>8} {one.dimension:>6} {drawn:>6.0f} {one.silhouette:>6.3f} {one.separation:>6.2f} "
            f"{one.trustworthiness:>6.3f} {one.continuity:>6.3f}   {dim:>10g} "
            + " ".join(f"{value:g}" for value in paper)
        )


def run(options: argparse.Namespace, work: Path) -> None:
    """Make the memories, measure, and print."""
    conversations = read_conversations(options.file)
    work.mkdir(parents=True, exist_ok=True)
    embedder = KeptVectors(open_embedder(MODELS[options.embedder].model_id), work / "vectors.npz")
    build(work / "memories", conversations, embedder)
    texts = [texts_of(_trees(work / "memories", one, embedder)) for one in conversations]
    print(
        f"conversations: {len(conversations)}; embedder {embedder.model_id}; no model; {VARIANCE:.0%} of the variance; "
        f"{NEIGHBOURS} neighbours; seed {options.seed}"
    )
    found = measure(texts, embedder, options.seed)
    print_table(found)
    for line in directions([one for one, _ in found]):
        print(line)


def _trees(directory: Path, conversation: Conversation, embedder: KeptVectors) -> list[TreeView]:
    with MemForest(directory, config_of(embedder)) as forest:
        return list(forest.user(conversation.id).tree(index=INDEX, depth=LEVELS + 1))


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the segments that are drawn")
    options = parser.parse_args(arguments)
    print(f"command: python benchmarks/timem_manifold.py {shlex.join([options.file.name, *arguments[1:]])}")
    with contextlib.ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timem-")))
        run(options, work / options.embedder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
