"""Do scenes put together what belongs together? Measured on a LoCoMo file.

Run ``python benchmarks/locomo_scenes.py FILE --work DIR`` with the directory of a ``locomo_recall.py`` run, or alone.

The file names no topics, so agreement is measured with what it has: the turns that one multi-hop question needs
belong together, although they are of different sessions. *Together* is the share of pairs of such turns, of
different sessions, with facts in a common scene; *by chance* the same for random turns of those sessions with as
many facts. *Neighbours* is the share of pairs of facts of adjacent dialogue chunks in a common scene, *random* that of
pairs from different sessions. *Outside* counts facts in no scene.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from locomo import memories
from locomo.conversations import Conversation, read_conversations
from memforest import Config, MemForest
from memforest.search.cache import SnapshotCache
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.trees.memforest_grow import DEFAULTS, scenes_of

MULTI_HOP = 1
DRAWS = 20
SEED = 7


def measure(path: Path, conversation: Conversation) -> dict[str, float]:
    """Return how far the scenes of one stored conversation agree with what belongs together."""
    db = Database(path)
    try:
        with db.read() as tx:
            snapshot = SnapshotCache().get(tx)
            scenes, _ = scenes_of(tx, snapshot, DEFAULTS)
            told = tx.execute(
                """SELECT DISTINCT t.turn_id, o.fact, c.session, c.ordinal FROM occurrence_turn x
                   JOIN turn t ON t.id = x.turn JOIN occurrence o ON o.id = x.occurrence JOIN chunk c ON c.id = o.chunk
                   ORDER BY o.said_ms, o.tie"""
            ).fetchall()
    finally:
        db.close()
    inside: dict[int, set[int]] = {}
    for fact, scene in zip(snapshot.facts.ids[scenes.facts].tolist(), scenes.scene.tolist(), strict=True):
        inside.setdefault(fact, set()).add(scene)
    facts_of: dict[str, list[int]] = {}
    for turn, fact, _, _ in told:
        facts_of.setdefault(turn, []).append(fact)
    place = {fact: (session, chunk) for _, fact, session, chunk in reversed(told)}
    together, chance = _questions(conversation, facts_of, inside)
    near, far = _pairs(place, inside)
    return {"together": together, "by chance": chance, "neighbours": near, "random": far}


def _share(one: Sequence[int], other: Sequence[int], inside: Mapping[int, set[int]]) -> bool:
    return any(inside.get(a, set()) & inside.get(b, set()) for a in one for b in other)


def _questions(
    conversation: Conversation, facts_of: Mapping[str, list[int]], inside: Mapping[int, set[int]]
) -> tuple[float, float]:
    """Return the share of pairs of turns of one question that are together, and by chance."""
    random = Random(SEED)
    where = conversation.turn_session
    by_session: dict[str, list[str]] = {}
    for turn in facts_of:
        by_session.setdefault(where[turn], []).append(turn)
    hits, drawn = [], []
    for question in conversation.questions:
        if question.category != MULTI_HOP:
            continue
        gold = sorted(turn for turn in question.gold if turn in facts_of)
        for one, other in combinations(gold, 2):
            if where[one] == where[other]:
                continue
            hits.append(_share(facts_of[one], facts_of[other], inside))
            for _ in range(DRAWS):
                pair = [
                    random.choice(
                        [t for t in by_session[where[turn]] if len(facts_of[t]) == len(facts_of[turn])]
                    )
                    for turn in (one, other)
                ]
                drawn.append(_share(facts_of[pair[0]], facts_of[pair[1]], inside))
    return float(np.mean(hits)), float(np.mean(drawn))


def _pairs(place: Mapping[int, tuple[int, int]], inside: Mapping[int, set[int]]) -> tuple[float, float]:
    """Return the share of neighbouring, and of random, pairs of facts in a common scene."""
    near, far = [], []
    for one, other in combinations(sorted(place), 2):
        same = bool(inside.get(one, set()) & inside.get(other, set()))
        (session, chunk), (session_, chunk_) = place[one], place[other]
        if session != session_:
            far.append(same)
        elif abs(chunk - chunk_) <= 1:
            near.append(same)
    return float(np.mean(near)), float(np.mean(far))


def counts(forest: MemForest, user: str) -> dict[str, float]:
    """Return the numbers of facts, scenes and trees."""
    found = forest.user(user).stats()
    scenes = found.indexes["memforest"]
    return {
        "facts": found.facts,
        "outside": scenes["facts_in_no_scene"],
        "scenes": scenes["scenes"],
        "largest": scenes["largest_scene"],
        "in two": scenes["facts_in_two_scenes"],
    }


def run(options: argparse.Namespace, work: Path) -> None:
    """Make the memories that are not there, and measure."""
    conversations = read_conversations(options.file)
    directory = work / options.embedder / "memories"
    directory.mkdir(parents=True, exist_ok=True)
    with MemForest(directory, Config(embedder=options.embedder, reranker=None)) as forest:
        memories.build(forest, conversations)
        table: list[dict[str, Any]] = []
        for one in conversations:
            table.append({**counts(forest, one.id), **measure(directory / file_name(one.id), one)})
            assert forest.user(one.id).verify().ok
        print(f"\n{options.embedder}")
        _print(conversations, table)


def _print(conversations: Sequence[Conversation], table: Sequence[Mapping[str, Any]]) -> None:
    print(f"{'':10}" + "".join(f"{name:>12}" for name in table[0]))
    for one, row in zip(conversations, table, strict=True):
        print(f"{one.id:10}" + "".join(_chunk(value) for value in row.values()))
    means = {name: float(np.mean([row[name] for row in table])) for name in table[0]}
    print(f"{'mean':10}" + "".join(_chunk(value) for value in means.values()))


def _chunk(value: float) -> str:
    return f"{value:12}" if isinstance(value, int) else f"{value:12.3f}" if value < 1 else f"{value:12.1f}"


def main(arguments: Sequence[str]) -> int:
    """Run the measurement; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--embedder", choices=("minilm", "bge"), default="minilm")
    parser.add_argument("--work", type=Path, metavar="DIR", help="memories are kept here")
    options = parser.parse_args(arguments)
    if options.work is not None:
        run(options, options.work)
    else:
        with tempfile.TemporaryDirectory(prefix="locomo-") as folder:
            run(options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
