"""What it costs to find a fact's scene, as a memory grows.

Run ``python benchmarks/scene_routing.py``. Facts are unit vectors around topics that come up and fade; nothing is
stored, so what is measured is the clustering alone: the product with the means, splits and merges. The last
column is the time of one fact that comes to a memory of that size, with reading its centroids from a table.
All times are processor time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np

from memforest.store import meta
from memforest.store.database import Database, ensure_schema
from memforest.trees import memforest_rows
from memforest.trees.memforest_place import ForestPlacing
from memforest.trees.memforest_rows import DEFAULTS
from memforest.trees.scenes import Clusters, DictPlaces, Member, SceneThresholds, scene_thresholds

DIMENSION = 384
DAY_MS = 86_400_000
FACTS_A_DAY = 20
TOPICS = 2000
MODEL = "bge-small-en-v1.5-int8@68807e3f"


def make_facts(count: int, seed: int) -> list[Member]:
    """Return facts in time order: a common direction, a topic's, and noise of their own."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=DIMENSION)
    topics = rng.normal(size=(TOPICS, DIMENSION))
    found = []
    for i in range(count):
        vector = common + 0.6 * topics[rng.zipf(1.3) % TOPICS] + 0.6 * rng.normal(size=DIMENSION)
        start = (i // FACTS_A_DAY) * DAY_MS
        found.append(Member(i, (vector / np.linalg.norm(vector)).astype(np.float32), start, start + 1))
    return found


def measure(facts: Sequence[Member], rules: SceneThresholds) -> dict[str, float]:
    """Route facts in sessions of 20, and return what there is then and what it took."""
    places = DictPlaces({one.fact: one for one in facts})
    clusters = Clusters(places, (), (), np.zeros((0, DIMENSION), dtype=np.float32))
    started = process_time()
    for start in range(0, len(facts) - 1, FACTS_A_DAY):
        clusters.route(facts[start : min(start + FACTS_A_DAY, len(facts) - 1)], rules)
    taken = process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        db = Database(Path(folder) / "scenes.db")
        ensure_schema(db)
        with db.write() as tx:
            memforest_rows.make_tables(tx)
            meta.put(tx, "embedder", MODEL)
            placing = ForestPlacing(tx, DEFAULTS)
            number = {scene: placing.begin() for scene in clusters.ids}
            for scene in clusters.ids:
                memforest_rows.put_scene(tx, number[scene], *clusters.mean(scene))
        places.scenes = {number[scene]: members for scene, members in places.scenes.items()}
        single = []
        for _ in range(20):
            kept = DictPlaces(
                places.facts, {scene: dict(facts) for scene, facts in places.scenes.items()}, 10**6
            )
            for scene in kept.scenes:
                kept.hull(scene)  # a tree's root tells it without a count
            began = process_time()
            with db.read() as tx:
                stored = Clusters(kept, *memforest_rows.centroids(tx))
            stored.route(facts[-1:], rules)
            single.append(process_time() - began)
        db.close()
    return {
        "scenes": len(clusters.ids),
        "largest": float(clusters.sizes.max()),
        "us a fact": taken / len(facts) * 1e6,
        "one fact, ms": float(np.median(single)) * 1e3,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="FACTS")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    everything = make_facts(max(options.sizes), options.seed)
    for at, size in enumerate(options.sizes):
        found = measure(everything[:size], scene_thresholds(MODEL))
        if at == 0:
            print(f"{'facts':>8}" + "".join(f"{name:>14}" for name in found))
        print(f"{size:8}" + "".join(f"{value:14.1f}" for value in found.values()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
