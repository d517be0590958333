"""Would a tree per thing that a person has by turns help? Measured on a LoCoMo file.

Run ``python benchmarks/locomo_slots.py FILE --work DIR`` with the directory of a ``locomo_recall.py`` run, or alone.

A *slot* is what one participant has of one kind of values (gyms, cities: `memforest.search.attributes`), and
would be a scope of its own with the facts about it as leaves in time order. *Slots* counts those with at least so many
leaves; *turning* those of them of which some statement tells that one value took another's place. The second table
gives every turn a share of the best score in its slots, as a root that relevance flows through would.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from locomo import memories
from locomo.conversations import Conversation, read_conversations
from locomo.measures import MEASURES, interval, measure
from memforest import Config, MemForest
from memforest.search.snapshot import load_snapshot
from memforest.search.vocabulary import vocabulary
from memforest.store.database import Database
from memforest.store.directory import file_name

MULTI_HOP = 1
LEAVES = (2, 5, 10)
SHARES = (0.1, 0.2, 0.4)
FEWEST = 3
"""Leaves of the slots that the second table uses."""
SEED = 7

Slots = list[tuple[frozenset[str], bool]]


def slots_of(path: Path) -> Slots:
    """Return the turns of every slot of a stored memory, and whether its values are told to turn."""
    db = Database(path)
    try:
        with db.read() as tx:
            snapshot = load_snapshot(tx)
            known = vocabulary(tx, snapshot)
            ids = dict(tx.execute("SELECT id, turn_id FROM turn").fetchall())
            found: Slots = []
            for entity in snapshot.entities.values():
                if entity.kind != "participant":
                    continue
                about = known.about(entity.label)
                for kind in known.kinds:
                    rows = [row for row in known.rows(kind.values).tolist() if about[row]]
                    turns = snapshot.facts.pairs[np.isin(snapshot.facts.pairs[:, 0], rows), 1]
                    turning = any(old in kind.values and new in kind.values for old, new in known.replaced)
                    if len(kind.values) > 1 and len(rows) > 1:
                        named = frozenset(ids[int(snapshot.turns.ids[turn])] for turn in turns)
                        found.append((named, turning))
    finally:
        db.close()
    return found


def flowed(scores: dict[str, float], slots: Slots, share: float) -> list[str]:
    """Return turns by their score and a share of the best score of the slots that each stands in."""
    best: dict[str, float] = {}
    for turns, _ in slots:
        top = max((scores[turn] for turn in turns if turn in scores), default=0.0)
        for turn in turns:
            best[turn] = max(best.get(turn, 0.0), top)
    return sorted(scores, key=lambda turn: -(scores[turn] + share * max(best.get(turn, 0.0), 0.0)))


def scored(forest: MemForest, conversation: Conversation, question: str) -> dict[str, float]:
    """Return every turn with the score of the evidence that names it first."""
    result = forest.query(
        conversation.id,
        question,
        reference_date=conversation.sessions[-1].timestamp,
        top_k=memories.EVERYTHING,
    )
    found: dict[str, float] = {}
    for one in result.evidence:
        for source in one.sources:
            for turn in source.turn_ids:
                found.setdefault(turn, one.score)
    return found


def run(options: argparse.Namespace, work: Path) -> None:
    """Make the memories that are not there, count slots, and rank with and without them."""
    conversations = read_conversations(options.file)
    directory = work / options.embedder / "memories"
    directory.mkdir(parents=True, exist_ok=True)
    rows: dict[float, list[list[float]]] = {share: [] for share in (0.0, *SHARES)}
    hops: list[bool] = []
    with MemForest(directory, Config(embedder=options.embedder, reranker=None)) as forest:
        memories.build(forest, conversations)
        print(f"\nslots of a conversation ({options.embedder})")
        print(f"{'':10}" + "".join(f"{f'>= {n} leaves':>14}{'turning':>9}" for n in LEAVES))
        for one in conversations:
            slots = slots_of(directory / file_name(one.id))
            large = [[turning for turns, turning in slots if len(turns) >= n] for n in LEAVES]
            print(f"{one.id:10}" + "".join(f"{len(found):14}{sum(found):9}" for found in large))
            used = [slot for slot in slots if len(slot[0]) >= FEWEST]
            for question in one.questions:
                scores = scored(forest, one, question.text)
                hops.append(question.category == MULTI_HOP)
                for share, values in rows.items():
                    values.append(measure(flowed(scores, used, share), question.gold, one.turn_session))
    _print(rows, np.array(hops))


def _print(rows: dict[float, list[list[float]]], hops: NDArray[np.bool_]) -> None:
    at = MEASURES.index("R@20")
    base = np.array(rows[0.0])[:, at]
    print(f"\nR@20, %, minus no share in points [95%] ({FEWEST} leaves or more)")
    for name, chosen in (("multi-hop", hops), ("all", np.ones(len(hops), dtype=np.bool_))):
        print(f"{name:10} n = {int(chosen.sum())}, without slots {100 * base[chosen].mean():.1f}")
        for share in SHARES:
            change = np.array(rows[share])[chosen, at] - base[chosen]
            low, high = interval(change, None, SEED)
            mean = 100 * change.mean()
            print(f"  share {share:.1f}  {mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]")


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
