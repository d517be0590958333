"""Fits the chances of answers without a model to conversations written for it, and writes the table.

    python scripts/calibrate_answers.py [--check] [--misses]

Each file of `benchmarks/asking` is a conversation with questions, each with pieces of the turns that answer it, or none
where nothing said does. Every conversation is ingested with each installed embedder and with words alone, and every
question is asked. `memforest.reading.answer_local` says what is known of each piece that may answer, and a softmax over
these pieces and "none" (`memforest.reading.answer_local`) is fitted to which of them are right: the most likely weights with
a ridge of 3 on standardised inputs, by Newton's method.

What is printed was held out: the weights for a conversation are fitted to the other ones. `UNFITTED` ones, which are not
English, are in no fit. `right` and `wrong` are the answerable questions that were answered by quotes of which one has an
answer, and by others; `answered` are the unanswerable ones that were answered. At the default threshold, and summed over
all conversations at others.

With `--check` nothing is written, and the exit code says whether the committed table is what would be written; with
`--misses` what was answered wrongly is printed. Both embedders and the cross-encoder (extra ``[bge]``) must be installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest import Config, MemForest
from memforest.config import ANSWER_THRESHOLD
from memforest.models import open_reranker
from memforest.reading import answer_local as answering
from memforest.reading.answer_local import NAMES, LocalAnswerer, chances

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from proportions import Share  # noqa: E402 - its folder was added above

ASKING = ROOT / "benchmarks" / "asking"
TABLE = ROOT / "src" / "memforest" / "data" / "answer_scores.json"
VERSION = 2
"""Of the rule above; counted up when it changes."""
UNFITTED = ("espanol", "zhongwen")
EMBEDDERS = ("minilm", "bge", "none")
REFERENCE = "2025-11-15"
RIDGE = 3.0
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8)


@dataclass(frozen=True, slots=True)
class Pick:
    """What was known of the pieces that might answer a question, none if it was ruled out; `golds` are what answers it."""

    world: str
    question: str
    golds: tuple[str, ...]
    lists: bool
    scored: tuple[answering.ScoredPiece, ...]

    def right(self, one: answering.ScoredPiece) -> bool:
        """Return whether a piece has an answer."""
        return any(gold in one.piece.evidence.quote for gold in self.golds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The score of what would be quoted, and whether that is right."""

    pick: Pick
    score: float
    right: bool
    quotes: tuple[str, ...]


class Recorder(LocalAnswerer):
    """A local answerer that keeps what it knew of the pieces."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.found: tuple[answering.ScoredPiece, ...] = ()

    async def scored(self, *given: Any) -> list[answering.ScoredPiece]:
        """Return what the local answerer does."""
        found = await super().scored(*given)
        self.found = tuple(found)
        return found


def sessions(talk: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield (timestamp, turns) of a conversation written as ``# time`` and ``speaker: text`` lines."""
    for block in talk.strip().split("# ")[1:]:
        when, *lines = block.strip().splitlines()
        pairs = (line.partition(": ") for line in lines)
        yield (
            f"{when.strip().replace(' ', 'T')}:00Z",
            [{"speaker": who.strip(), "text": text} for who, _, text in pairs],
        )


def picks(embedder: str, *, rerank: bool) -> list[Pick]:
    """Ask every question of every conversation."""
    found = []
    for path in sorted(ASKING.glob("*.toml")):
        world = tomllib.loads(path.read_text(encoding="utf-8"))
        recorder = Recorder(reranker=open_reranker("local") if rerank else None)
        config = Config(embedder=embedder, reranker="local" if rerank else None, answerer=recorder)
        with tempfile.TemporaryDirectory(prefix="calibrate-") as folder, MemForest(folder, config) as forest:
            name = world["user"]
            for at, (when, turns) in enumerate(sessions(world["talk"])):
                forest.ingest_session(name, f"s{at}", turns, timestamp=when)
            for question, *golds in world["questions"]:
                recorder.found = ()
                asked = forest.ask(name, question, reference_date=REFERENCE)
                lists = asked.result.plan.kind == "list"
                found.append(Pick(path.stem, question, tuple(golds), lists, recorder.found))
    return found


def fit(found: Sequence[Pick], names: Sequence[str]) -> dict[str, float]:
    """Return the weights by name, with the bias, that make the pieces that are right, or none, likeliest.

    Where several pieces are right, that any of them is counts; the chance of "none" is right where no piece is.
    """
    used = [pick for pick in found if pick.scored]
    x = np.array([[one.known[name] for name in names] for pick in used for one in pick.scored])
    mean, spread = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    ends = np.cumsum([len(pick.scored) for pick in used])
    groups = [
        (z[end - len(pick.scored) : end], np.array([pick.right(one) for one in pick.scored]))
        for pick, end in zip(used, ends, strict=True)
    ]
    b = np.zeros(z.shape[1])
    ridge = np.diag([RIDGE] * len(names) + [0.0])
    for _ in range(60):
        gradient, curvature = ridge @ b, ridge.copy()
        for rows, right in groups:
            slope, bend = _slopes(rows, right, b)
            gradient, curvature = gradient + slope, curvature + bend
        step = np.linalg.solve(curvature, gradient)
        b -= step
        if np.abs(step).max() < 1e-9:
            break
    weights = b[:-1] / spread
    return {
        **{name: round(float(w), 3) for name, w in zip(names, weights, strict=True)},
        "bias": round(float(b[-1] - weights @ mean), 3),
    }


def _slopes(
    rows: NDArray[np.float64], right: NDArray[np.bool_], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gradient of one question's loss, and a bound of its curvature: that of the softmax over all pieces."""
    sums = rows @ b
    parts = np.exp(sums - max(0.0, float(sums.max())))
    p = parts / (parts.sum() + np.exp(-max(0.0, float(sums.max()))))
    q = parts * right / (parts @ right) if right.any() else np.zeros(len(rows))
    slope: NDArray[np.float64] = rows.T @ (p - q)
    mean = rows.T @ p
    bend: NDArray[np.float64] = (rows * p[:, None]).T @ rows - np.outer(mean, mean)
    return slope, bend


def outcome(pick: Pick, weights: Mapping[str, float]) -> Outcome:
    """Return what would be answered with other weights than the shipped ones."""
    if not pick.scored:
        return Outcome(pick, 0.0, False, ())
    odds = chances([one.known for one in pick.scored], weights)
    scored = [replace(one, chance=chance) for one, chance in zip(pick.scored, odds, strict=True)]
    chosen, score = answering.listed(scored) if pick.lists else answering.best(scored)
    return Outcome(
        pick, score, any(map(pick.right, chosen)), tuple(one.piece.evidence.quote for one in chosen)
    )


def held_out(found: Sequence[Pick], names: Sequence[str]) -> list[Outcome]:
    """Return how every question ends with weights that are fitted to the other conversations."""
    ended = []
    for world in dict.fromkeys(one.world for one in found):
        weights = fit([one for one in found if one.world not in (world, *UNFITTED)], names)
        ended += [outcome(one, weights) for one in found if one.world == world]
    return ended


def shares(ended: Sequence[Outcome], threshold: float) -> str:
    """Return right, wrong and answered, with their 95% intervals."""
    able = [one for one in ended if one.pick.golds]
    unable = [one for one in ended if not one.pick.golds]
    right = sum(one.right and one.score >= threshold for one in able)
    wrong = sum(not one.right and one.score >= threshold for one in able)
    answered = sum(one.score >= threshold for one in unable)
    chunks = (Share(right, len(able)), Share(wrong, len(able)), Share(answered, len(unable)))
    return f"{len(able):4d}{chunks[0]!s:>20}{chunks[1]!s:>19}{len(unable):5d}{chunks[2]!s:>19}"


def report(name: str, ended: Sequence[Outcome], *, misses: bool, by_world: bool) -> None:
    """Print how the questions ended: of the English conversations together, and where it is asked for, of each."""
    english = [one for one in ended if one.pick.world not in UNFITTED]
    print(f"{name:22s} {shares(english, ANSWER_THRESHOLD)}")
    for world in dict.fromkeys(one.pick.world for one in ended) if by_world else ():
        print(f"  {world:20s} {shares([one for one in ended if one.pick.world == world], ANSWER_THRESHOLD)}")
    for threshold in THRESHOLDS if by_world else ():
        print(f"  at {threshold:.2f}              {shares(english, threshold)}")
    for one in english if misses else ():
        if one.score >= ANSWER_THRESHOLD and not one.right:
            kind = "wrong" if one.pick.golds else "unanswerable"
            print(f"    {kind}: {one.pick.question} -> {' / '.join(one.quotes)[:160]}")


def calibrated(
    found: Mapping[str, list[Pick]], names: Sequence[str], given: argparse.Namespace
) -> dict[str, Any]:
    """Print how the questions ended with each embedder, and return an entry of the table, fitted to all of them."""
    pooled = [one for picked in found.values() for one in picked]
    ended = held_out(pooled, names)
    for name, picked in found.items():
        mine = set(map(id, picked))
        report(
            name,
            [one for one in ended if id(one.pick) in mine],
            misses=given.misses,
            by_world=name.startswith("minilm"),
        )
    used = [one for one in pooled if one.world not in UNFITTED]
    return {
        "weights": fit(used, names),
        "questions": len(used),
        "script": f"scripts/calibrate_answers.py {VERSION}",
    }


def main() -> int:
    """Print how the questions ended, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the table would change"
    )
    parser.add_argument("--misses", action="store_true", help="print what was answered wrongly")
    given = parser.parse_args()
    print(f"{'':22s} {'n':>4s}{'right':>20s}{'wrong':>19s}{'n':>5s}{'answered':>19s}")
    words = {embedder: picks(embedder, rerank=False) for embedder in EMBEDDERS}
    entry = calibrated(words, NAMES, given)
    read = {f"{embedder}, cross-encoder": picks(embedder, rerank=True) for embedder in EMBEDDERS[:2]}
    scorers = {
        open_reranker("local").model_id: calibrated(read, (*NAMES, "logit"), given),
        "words": entry,
    }
    text = json.dumps({"version": VERSION, "scorers": scorers}, indent=2) + "\n"
    if given.check:
        return int(text != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
