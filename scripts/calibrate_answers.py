"""Fits the score of answers without a model to conversations written for it, and writes the table.

    python scripts/calibrate_answers.py [--check] [--misses]

Each file of `benchmarks/asking` is a conversation with questions, each with pieces of the turns that answer it, or none
where nothing said does. Every conversation is ingested with each installed embedder and with words alone, and every
question is asked. `memforest.steps.local.relevance` says what is known of the piece that would be quoted (coverage,
and the logit of the cross-encoder where it is installed), and a logistic regression (ridge 1 on standardised inputs,
Newton's method) fits that to whether the piece is a right one.

The conversations of `HELD` are left out of the fit: the printed table has them beside the others. `right`, `wrong` and
`answered` are parts of the answerable questions that are answered by a right turn and by another one, and of the
unanswerable ones that are answered, at the default threshold.

With `--check` nothing is written, and the exit code says whether the committed table is what would be written; with
`--misses` what was answered wrongly in the fitted conversations is printed. Both embedders and the cross-encoder
(extra ``[bge]``) must be installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest import Config, MemForest
from memforest.models import open_reranker
from memforest.steps.local import answer as answering
from memforest.steps.local.answer import LocalAnswerer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ASKING = ROOT / "benchmarks" / "asking"
TABLE = ROOT / "src" / "memforest" / "data" / "answer_scores.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
HELD = ("tutoring", "support", "espanol", "zhongwen")
EMBEDDERS = ("minilm", "bge", "none")
REFERENCE = "2025-11-15"


@dataclass(frozen=True, slots=True)
class Pick:
    """What would be quoted for a question, and how it ended; `inputs` are coverage, leading and logit, None where nothing may be quoted."""

    world: str
    question: str
    answerable: bool
    right: bool
    answered: bool
    quote: str
    inputs: tuple[float, bool, float] | None


class Recorder(LocalAnswerer):
    """A local answerer that keeps what it knew of the piece it ranked first."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.first: answering.Scored | None = None

    async def ranked(self, *given: Any) -> list[answering.Scored]:
        """Return what the local answerer does."""
        found = await super().ranked(*given)
        self.first = found[0]
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
            for question, *gold in world["questions"]:
                recorder.first = None
                answer = forest.ask(name, question, reference_date=REFERENCE)
                first = recorder.first
                quote = "" if first is None else first.piece.evidence.quote
                right = any(part in quote for part in gold)
                inputs = None if first is None else known(first)
                found.append(
                    Pick(path.stem, question, bool(gold), right, not answer.abstained, quote, inputs)
                )
    return found


def known(first: answering.Scored) -> tuple[float, bool, float]:
    """Return what the score of a piece is made of; where a timeline leads, that counts in place of coverage."""
    leads = first.piece.evidence.leads
    return (0.0 if leads else first.coverage, leads, first.logit)


def fit(rows: Sequence[Sequence[float]], right: Sequence[bool]) -> tuple[NDArray[np.float64], float]:
    """Return weights and bias of a ridge logistic regression."""
    x, y = np.array(rows), np.array(right, dtype=np.float64)
    mean, spread = x.mean(0), x.std(0)
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    ridge = np.diag([1.0] * x.shape[1] + [0.0])
    b = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ b))
        b -= np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z + ridge, z.T @ (p - y) + ridge @ b)
    weights = b[:-1] / spread
    return weights, float(b[-1] - weights @ mean)


def shares(found: Sequence[Pick]) -> str:
    """Return right, wrong and answered of a list of picks."""
    able = [one for one in found if one.answerable]
    unable = [one for one in found if not one.answerable]
    right = sum(one.answered and one.right for one in able) / max(len(able), 1)
    wrong = sum(one.answered and not one.right for one in able) / max(len(able), 1)
    answered = sum(one.answered for one in unable) / max(len(unable), 1)
    return f"{len(able):4d} {right:6.0%} {wrong:6.0%} {len(unable):4d} {answered:6.0%}"


def report(name: str, found: Sequence[Pick], misses: bool) -> None:
    """Print how the questions ended: of the fitted conversations together, of the others each."""
    fitted = [one for one in found if one.world not in HELD]
    print(f"{name:24s} {'fitted':12s} {shares(fitted)}")
    for world in HELD:
        print(f"{'':24s} {world:12s} {shares([one for one in found if one.world == world])}")
    for one in fitted if misses else ():
        if one.answered and not (one.answerable and one.right):
            print(f"    {'wrong' if one.answerable else 'unanswerable'}: {one.question} -> {one.quote[:90]}")


def fitted_weights(found: Sequence[Pick], rerank: bool) -> dict[str, Any]:
    """Return an entry of the table."""
    used = [one for one in found if one.world not in HELD and one.inputs is not None]
    rows = [one.inputs[: 2 + rerank] for one in used if one.inputs is not None]
    weights, bias = fit(rows, [one.right for one in used])
    names = ("coverage", "leads", "logit")[: 2 + rerank]
    return {
        "weights": {
            **{name: round(float(w), 2) for name, w in zip(names, weights, strict=True)},
            "bias": round(bias, 2),
        },
        "questions": len(used),
        "right": sum(one.right for one in used),
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
    parser.add_argument(
        "--misses", action="store_true", help="print wrong answers of the fitted conversations"
    )
    given = parser.parse_args()
    print(f"{'':37s} {'n':>4s} {'right':>6s} {'wrong':>6s} {'n':>4s} {'answered':>6s}")
    words: list[Pick] = []
    for embedder in EMBEDDERS:
        words += (found := picks(embedder, rerank=False))
        report(embedder, found, given.misses)
    read: list[Pick] = []
    for embedder in EMBEDDERS[:2]:
        read += (found := picks(embedder, rerank=True))
        report(f"{embedder}, cross-encoder", found, given.misses)
    scorers: Mapping[str, Any] = {
        open_reranker("local").model_id: fitted_weights(read, True),
        "words": fitted_weights(words, False),
    }
    text = json.dumps({"version": VERSION, "scorers": scorers}, indent=2) + "\n"
    leads = [one for one in words + read if one.inputs is not None and one.inputs[1]]
    print(f"a timeline led {len(leads)} times and was right {sum(one.right for one in leads)} times")
    if given.check:
        return int(text != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
