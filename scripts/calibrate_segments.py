"""Measures how like a stretch of talk a new exchange must be to join it, per embedder, and writes the table.

    python scripts/calibrate_segments.py [--check]

Generated conversations whose turns of topic are known (`benchmarks/synthetic/stretches.py`, of several seeds and lengths)
are folded into segment trees with each threshold of a grid, as `benchmarks/segtree_fold.py` says and without any guard. What
counts is the tree:

1. a threshold is fit if no conversation's tree is higher than `HEIGHT`, and the stretches of its lowest level agree with
   the known ones as well as with the best threshold, within `TOLERANCE` (F1 of the boundaries, mean of the conversations);
2. the threshold is the middle between the lowest and the highest that are fit, rounded to `STEP`.

The middle, because the ends are steep: too low a threshold misses the first turn of topic, and the tree is flat below it;
too high a one costs levels. Measured are both ways of placing that compare vectors (``centroid`` and ``cosine``, this one
with summaries of the local summariser), each with both vectors of a leaf (``mean`` of its turns' and that of its ``text``).
The range that leaving out one conversation gives is printed, and so is what other values of `PRIOR` would give.

The same weights give the same table. With `--check` nothing is written and the exit code says whether the committed table
is what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from memforest.models import (  # noqa: E402
    Embedder,
    available,
    open_embedder,
)
from segtree_fold import (  # noqa: E402 - the benchmarks are no package
    PRIOR,
    ByCentroid,
    ByCosine,
    Folded,
    boundary_f1,
    fold,
    leaf_texts,
    leaf_vectors,
    parted,
    shape,
    window_diff,
)
from synthetic.stretches import Talk, make_talk  # noqa: E402

TABLE = ROOT / "src" / "memforest" / "data" / "segment_thresholds.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
TALKS: Mapping[str, Sequence[tuple[int, int]]] = {
    "centroid": ((11, 50), (12, 100), (13, 200), (14, 300), (15, 600), (16, 1000)),
    "cosine": ((12, 100), (13, 100)),
}
"""Seed and exchanges of the conversations, per placer; few for ``cosine``, which embeds a summary or two an exchange."""
GRIDS: Mapping[str, NDArray[np.float64]] = {
    "centroid": np.arange(30, 98, 2) / 100,
    "cosine": np.arange(35, 96, 10) / 100,
}
TOLERANCE: Mapping[str, float] = {"centroid": 0.03, "cosine": 0.1}
"""The F1 of the few short conversations of ``cosine`` goes up and down by as much from one threshold to the next."""
HEIGHT, STEP = 6, 0.01
PRIORS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What each threshold of a grid gives for each conversation: arrays of shape (thresholds, conversations)."""

    grid: NDArray[np.float64]
    tolerance: float
    f1: NDArray[np.float64]
    diff: NDArray[np.float64]
    height: NDArray[np.float64]
    nodes_a_leaf: NDArray[np.float64]

    def without(self, place: int) -> Measured:
        """Leave out a conversation."""
        rest = [np.delete(one, place, axis=1) for one in (self.f1, self.diff, self.height, self.nodes_a_leaf)]
        return Measured(self.grid, self.tolerance, *rest)


def measure(placer: str, leaf_vector: str, embedder: Embedder, talks: Sequence[Talk]) -> Measured:
    """Fold every conversation with every threshold."""
    grid = GRIDS[placer]
    found = np.zeros((4, len(grid), len(talks)))
    for column, talk in enumerate(talks):
        vectors = leaf_vectors(embedder, talk.exchanges, of_text=leaf_vector == "text")
        known: dict[str, NDArray[np.float64]] = {}
        for row, tau in enumerate(map(float, grid)):
            if placer == "centroid":
                folded = fold(len(vectors), ByCentroid(vectors, tau))
            else:
                by_cosine = ByCosine(leaf_texts(talk.exchanges), vectors, embedder, tau, known=known)
                folded = fold(len(vectors), by_cosine)
            found[:, row, column] = _agreement(folded, talk)
    return Measured(grid, TOLERANCE[placer], *found)


def _agreement(folded: Folded, talk: Talk) -> tuple[float, float, float, float]:
    begins, tree = parted(folded), shape(folded)
    return (
        boundary_f1(begins, talk.turns_at),
        window_diff(begins, talk.turns_at),
        tree.height,
        tree.nodes_a_leaf,
    )


def fit(measured: Measured) -> tuple[float, float]:
    """Return the lowest and the highest threshold of those that are fit.

    Raises:
        ValueError: if every threshold makes a tree that is too high.
    """
    low_enough = measured.height.max(axis=1) <= HEIGHT
    if not low_enough.any():
        raise ValueError(f"every threshold gives a tree of more than {HEIGHT} levels")
    scores = np.where(low_enough, measured.f1.mean(axis=1), -1.0)
    good = scores >= scores.max() - measured.tolerance
    low, high = np.flatnonzero(good)[[0, -1]]
    return float(measured.grid[low]), float(measured.grid[high])


def threshold(measured: Measured) -> float:
    """Return the middle of the thresholds that are fit."""
    return round(round(sum(fit(measured)) / 2 / STEP) * STEP, 4)


def report(name: str, measured: Measured) -> None:
    """Print what each threshold gives, the range that is fit, and what leaving out a conversation changes."""
    print(f"\n{name}\n\n| tau | F1 | WindowDiff | height, most | nodes a leaf | F1 of each conversation |")
    print("|---|---|---|---|---|---|")
    for row, tau in enumerate(measured.grid):
        each = " ".join(f"{value:.2f}" for value in measured.f1[row])
        means = [float(one[row].mean()) for one in (measured.f1, measured.diff, measured.nodes_a_leaf)]
        print(
            f"| {tau:.2f} | {means[0]:.3f} | {means[1]:.3f} | {measured.height[row].max():.0f} "
            f"| {means[2]:.3f} | {each} |"
        )
    low, high = fit(measured)
    left_out = [threshold(measured.without(place)) for place in range(measured.f1.shape[1])]
    print(
        f"fit: {low:.2f} to {high:.2f}; threshold {threshold(measured):.2f}; with one conversation left out "
        f"{min(left_out):.2f} to {max(left_out):.2f}"
    )


def report_priors(embedder: Embedder, talks: Sequence[Talk], tau: float) -> None:
    """Print the agreement with other priors, at the threshold."""
    rows = [leaf_vectors(embedder, talk.exchanges) for talk in talks]
    print("\n| prior | F1 | WindowDiff |\n|---|---|---|")
    for prior in PRIORS:
        found = [
            _agreement(fold(len(vectors), ByCentroid(vectors, tau, prior=prior)), talk)
            for vectors, talk in zip(rows, talks, strict=True)
        ]
        f1, diff = np.mean(found, axis=0)[:2]
        print(f"| {prior:g}{' (PRIOR)' if prior == PRIOR else ''} | {f1:.3f} | {diff:.3f} |")


def calibrate(model_id: str) -> dict[str, object]:
    """Return an embedder's line of the table."""
    embedder = open_embedder(model_id)
    line: dict[str, object] = {}
    for placer, sizes in TALKS.items():
        talks = [make_talk(seed, exchanges) for seed, exchanges in sizes]
        for leaf_vector in ("mean", "text"):
            name = f"{placer}_{leaf_vector}"
            measured = measure(placer, leaf_vector, embedder, talks)
            report(f"{model_id}, {name}", measured)
            line[name] = threshold(measured)
        if placer == "centroid":
            report_priors(embedder, talks, float(str(line["centroid_mean"])))
    return {
        **line,
        "exchanges": {placer: sum(count for _, count in sizes) for placer, sizes in TALKS.items()},
        "conversations": {placer: len(sizes) for placer, sizes in TALKS.items()},
        "script": f"scripts/calibrate_segments.py {VERSION}",
    }


def main() -> int:
    """Measure, print, and write or compare the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table would change")
    args = parser.parse_args()
    before = TABLE.read_text(encoding="utf-8") if TABLE.exists() else '{"models": {}}'
    # An embedder that is not installed here keeps its line.
    models: dict[str, object] = dict(json.loads(before)["models"])
    for status in available():
        if status.installed:
            models[status.model_id] = calibrate(status.model_id)
    after = json.dumps({"version": VERSION, "models": dict(sorted(models.items()))}, indent=2) + "\n"
    if args.check:
        return int(after != before)
    TABLE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
