"""What a browser that errs is worth: recall on a LoCoMo file with a simulated model at every choice.

Run ``python benchmarks/locomo_browse.py FILE``. No model is asked: at each level a simulated browser keeps every node
that leads to a supporting turn with some probability, puts up to so many others beside them (those nearest to the
question), and orders all by nearness with noise. It shows how the weight `Ranking.guided` and the score by places
bear with good and with careless choices, and how many calls a query makes. It says nothing of any real model.
``--leaves`` compares how leaves are compared in recall, which decides the trees that are browsed; *led to* is the share of the
supporting turns that a leaf of one of them stands for.

Questions and measures are those of ``locomo_recall.py``; ``--questions`` takes the first of each conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from random import Random
from typing import get_args

import numpy as np

from locomo import memories
from locomo.conversations import Conversation, Question, read_conversations
from locomo.measures import MEASURES, measure
from memforest import Config, MemForest
from memforest.config import Ranking
from memforest.memory.memory import Memory
from memforest.memory.open import open_memory
from memforest.models import BGE_SMALL, MINILM, Embedder, open_embedder
from memforest.read.evidence import EvidenceReader
from memforest.read.query import surface_names
from memforest.reading.steps import Steps, choose_steps
from memforest.reading.timestamps import parse_timestamp
from memforest.search.cache import SnapshotCache, embedded_forest, forest_of
from memforest.search.filters import Search
from memforest.search.forest import FACT, INNER, Forest
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import question_tokens, without_names
from memforest.times import to_ms
from memforest.trees.browse import Descent, merged, split
from memforest.trees.memforest import MemForestIndex
from memforest.trees.memforest_grow import Leaves, MemForestSettings
from memforest.trees.memforest_recall import nearness_to

SHOWN = ("R@5", "R@10", "R@20", "nDCG@10")
DEPTH = 60
SEED = 7
MODELS = {"minilm": MINILM, "bge": BGE_SMALL}


@dataclass(frozen=True)
class Simulated:
    """A browser: how likely it keeps a right node, and the most wrong ones it adds to a run."""

    name: str
    keeps: float
    adds: int


BROWSERS = (Simulated("good", 0.85, 3), Simulated("careless", 0.65, 6))
WEIGHTS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Asked:
    """A question on its memory, made ready, with the forest rows that lead to a supporting turn."""

    memory: Memory
    snapshot: Snapshot
    request: Search
    gold: frozenset[str]
    where: dict[str, str]
    right: frozenset[int]
    turns: frozenset[int]


def turns_of(snapshot: Snapshot, forest: Forest, leaf: int) -> Sequence[int]:
    """Return the turns, by row, that a leaf stands for."""
    item = int(forest.item[leaf])
    if forest.kind[leaf] == FACT:
        return snapshot.turns_of_fact[item]
    return range(item, int(forest.item_end[leaf]))


def leading_rows(snapshot: Snapshot, forest: Forest, turns: set[int]) -> frozenset[int]:
    """Return the leaves that stand for one of some turns (by row), and all nodes above them."""
    found: set[int] = set()
    for leaf in np.flatnonzero(forest.kind != INNER):
        if not turns.isdisjoint(turns_of(snapshot, forest, int(leaf))):
            found.update(forest.path(int(leaf)))
    return frozenset(found)


def browsed(
    asked: Asked, browser: Simulated, random: Random, index: MemForestIndex
) -> tuple[dict[int, float], int]:
    """Return the leaves that a simulated browser reaches with their scores, and how many calls that takes."""
    request, snapshot = asked.request, asked.snapshot
    assert request.vector is not None
    assert request.bare_vector is not None
    with asked.memory.db.read() as tx:
        trees = index.recall(tx, snapshot, request)
        found = embedded_forest(tx, snapshot, index)
    forest = found.forest
    near = nearness_to(snapshot, found, request.vector, request.bare_vector, index.settings)
    leaves: dict[int, float] = {}
    calls = 0
    for tree, _ in trees:
        way = Descent(forest, int(forest.tree_root[tree]))
        while way.below:
            if way.fits:
                way.keep(way.below, ordered=False)
                continue
            runs = split(way.below)
            calls += len(runs)
            way.keep(merged(_chosen(run, near, asked.right, browser, random) for run in runs), ordered=True)
        for row, score in way.reached.items():
            leaf = int(forest.ids[row])
            leaves[leaf] = max(score, leaves.get(leaf, 0.0))
    return leaves, calls


def led_to(asked: Asked, index: MemForestIndex) -> float:
    """Return the share of the supporting turns that the leaves of the recalled trees stand for."""
    snapshot, reached = asked.snapshot, set[int]()
    with asked.memory.db.read() as tx:
        trees = index.recall(tx, snapshot, asked.request)
        forest = forest_of(tx, snapshot, index)
    wanted = np.isin(forest.tree, [tree for tree, _ in trees]) & (forest.kind != INNER)
    for leaf in np.flatnonzero(wanted).tolist():
        reached |= set(turns_of(snapshot, forest, leaf))
    return len(reached & asked.turns) / max(1, len(asked.turns))


def _chosen(
    run: Sequence[int],
    near: Callable[[Sequence[int]], list[float]],
    right: frozenset[int],
    browser: Simulated,
    random: Random,
) -> list[int]:
    nearness = dict(zip(run, near(run), strict=True))
    kept = [row for row in run if row in right and random.random() < browser.keeps]
    others = sorted((row for row in run if row not in right), key=lambda row: -nearness[row])
    kept += others[: random.randint(0, browser.adds)]
    worth = {row: nearness[row] + 0.25 * (row in right) + random.gauss(0, 0.05) for row in kept}
    return sorted(kept, key=lambda row: -worth[row])[:10]


def measured(asked: Asked, leaves: dict[int, float] | None, weight: float = 1.0) -> tuple[float, ...]:
    """Return the measures of one query with these leaves; None is mode ``"emb"``."""
    request = replace(asked.request, leaves=leaves, ranking=Ranking(guided=weight))
    with asked.memory.db.read() as tx:
        found = MemForestIndex().search(tx, asked.snapshot, request)
        reader = EvidenceReader(tx, asked.snapshot, MemForestIndex(), request)
        evidence = reader.evidence(list(islice(reader.shown(found.hits), DEPTH)))
    named = [turn for one in evidence for source in one.sources for turn in source.turn_ids]
    return tuple(measure(list(dict.fromkeys(named)), asked.gold, asked.where))


async def ready(
    memory: Memory,
    snapshot: Snapshot,
    conversation: Conversation,
    question: Question,
    embedder: Embedder,
    steps: Steps,
) -> Asked:
    """Plan and embed a question, as a query does."""
    said: datetime = parse_timestamp(conversation.sessions[-1].timestamp, timezone=timezone.utc, field="-")[0]
    names = surface_names(snapshot, memory.label)
    plan = await steps.planner.plan(question.text, reference=said, names=names)
    one, bare = await embedder.embed([question.text, without_names(question.text, snapshot.speakers)])
    with memory.db.read() as tx:
        turn_ids = dict(tx.execute("SELECT id, turn_id FROM turn").fetchall())
        forest = forest_of(tx, snapshot, MemForestIndex())
    gold = {row for row, turn in enumerate(snapshot.turns.ids) if turn_ids[int(turn)] in question.gold}
    request = Search(
        tokens=question_tokens(question.text),
        plan=plan,
        reference_ms=to_ms(said),
        vector=one,
        bare_vector=bare,
    )
    right = leading_rows(snapshot, forest, gold)
    return Asked(memory, snapshot, request, question.gold, conversation.turn_session, right, frozenset(gold))


def run(options: argparse.Namespace, work: Path) -> None:
    """Ask all questions in every way and print the means."""
    conversations = read_conversations(options.file)
    config = Config(embedder=options.embedder, reranker=None)
    with MemForest(work, config) as forest:
        memories.build(forest, conversations[: options.conversations])
    steps, embedder = choose_steps(config), open_embedder(MODELS[options.embedder].model_id)
    rows: dict[str, list[tuple[float, ...]]] = {}
    calls: dict[str, list[int]] = {}
    led: dict[str, list[float]] = {}
    for conversation in conversations[: options.conversations]:
        memory = open_memory(work, conversation.id, config, steps)
        with memory.db.read() as tx:
            snapshot = SnapshotCache().get(tx)
        for question in conversation.questions[: options.questions]:
            asked = asyncio.run(ready(memory, snapshot, conversation, question, embedder, steps))
            rows.setdefault("emb", []).append(measured(asked, None))
            for how in options.leaves:
                index = MemForestIndex(MemForestSettings(leaves=how))
                led.setdefault(how, []).append(led_to(asked, index))
                for browser in BROWSERS:
                    name = f"{how}, {browser.name}"
                    leaves, made = browsed(asked, browser, Random(f"{SEED} {question.text}"), index)
                    calls.setdefault(name, []).append(made)
                    for weight in options.weights:
                        rows.setdefault(f"{name}, {weight}", []).append(measured(asked, leaves, weight))
        memory.close()
    print(f"n = {len(rows['emb'])}, {options.embedder}\n{'':24}" + "".join(f"{name:>9}" for name in SHOWN))
    for name, values in rows.items():
        means = 100 * np.array(values).mean(axis=0)
        print(f"{name:24}" + "".join(f"{means[MEASURES.index(one)]:9.1f}" for one in SHOWN))
    for name, shares in led.items():
        print(f"{name}: led to {100 * np.mean(shares):.1f} % of the supporting turns")
    for name, made_by in calls.items():
        print(f"calls of a query, {name}: mean {np.mean(made_by):.1f}, most {max(made_by)}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument("--questions", type=int, default=60, help="of each conversation, the first ones")
    parser.add_argument("--conversations", type=int, help="the first ones")
    parser.add_argument("--leaves", nargs="+", choices=get_args(Leaves), default=[MemForestSettings().leaves])
    parser.add_argument("--weights", nargs="+", type=float, default=WEIGHTS)
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep memories here")
    options = parser.parse_args()
    if options.work is not None:
        run(options, options.work)
        return
    with tempfile.TemporaryDirectory(prefix="locomo-browse-") as folder:
        run(options, Path(folder))


if __name__ == "__main__":
    main()
