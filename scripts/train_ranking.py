"""Fits how likely each piece of evidence answers a question to conversations written for it, and writes the weights.

    python scripts/train_ranking.py [--check] [--readings FILE]

`data/asked` has conversations with questions, written by five hands, and so has `benchmarks/asking`, in another form. Every
conversation is written to a memory, with each installed embedder and with words alone, and every question is asked.
`memforest.reading.answer_local` says what is known of each of the first pieces, and a softmax over them and "none" is fitted to which
of them say the answer: the most likely weights with a ridge of 3 on standardised inputs, by Newton's method.

The layers and the head of the cross-encoder come first (`train_layers.py`), which are fitted to two thirds of the conversations, too. With what
they read the softmax is fitted to the other third. With ``--readings`` that is kept in a file, and taken from it by the next run, which then trains no layers.

What is printed was held out: the weights for a conversation are fitted to the others. `UNFITTED` ones, which are not English, are in no
fit. `quoted` is the share of answerable questions of which a piece that would be quoted answers; `right` and `wrong` are those that were
answered so at a threshold, and `answered` the unanswerable ones that were.

With `--check` nothing is written, and the exit code says whether the committed weights are what would be written. Both embedders
must be installed, and torch and onnx, which no extra of the package brings, where layers are trained.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest import Config, MemForest
from memforest.models import MS_MARCO
from memforest.ports import Answer, AnswerEvidence
from memforest.read.rerank import pair_text
from memforest.reading.answer_local import (
    BY_WORDS,
    ENOUGH,
    NAMES,
    QUOTES,
    WORTH,
    chances,
    logits_of,
    named,
    read_features,
    read_pieces,
    read_question,
)
from memforest.reading.clauses import asked_in
from memforest.records import QuestionPlan
from memforest.search.succession import standing_by
from memforest.times import to_ms

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ASKED, ASKING = ROOT / "data" / "asked", ROOT / "benchmarks" / "asking"
TABLE = ROOT / "src" / "memforest" / "data" / "answer_scores.json"
LAYERS = TABLE.parent / f"pairs-{MS_MARCO.name}-{MS_MARCO.sha256[:8]}.npz"
VERSION = 3
"""Of the rule above; counted up when it changes."""
UNFITTED = ("espanol", "zhongwen")
PLAIN = tuple(path.stem for path in ASKING.glob("*.toml"))
EMBEDDERS = ("minilm-l6-v2-int8", "bge-small-en-v1.5-int8", "none")
REFERENCE = "2025-11-15"
RIDGE = 3.0
OF_ASSISTANT = 300.0
"""The ridge of `by_assistant`: the conversations ask for little that an assistant said, so they would have it answer nothing."""
READ_ANYWAY = ("replied", "lacks", "new")
"""What a cross-encoder reads by itself."""
PIECES, READ = 20, 12
"""Pieces that are ranked, and that a cross-encoder reads."""
ANSWERS = {"words": 0.62, "relevance": 0.7}
"""Least scores of answers without a cross-encoder, chosen by what is printed; with it 0.75."""
THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: sessions of turns, and questions (asker, text, texts of which each turn with one answers, when it is asked)."""

    name: str
    sessions: Sequence[Sequence[Mapping[str, str]]]
    questions: Sequence[tuple[str, str, Sequence[str], str]]


@dataclass(frozen=True, slots=True)
class Pick:
    """What is known of the first pieces for a question, and which of them answer it."""

    talk: str
    plain: bool
    """Whether it is of `benchmarks/asking`, where most questions have words of their answers: words alone answer no others."""
    answerable: bool
    question: str
    texts: Sequence[str]
    """What a cross-encoder reads of each piece."""
    known: Sequence[dict[str, float]]
    right: Sequence[bool]
    said_ms: Sequence[int]


class Recorder:
    """An answerer that keeps what it is given, and answers nothing."""

    name = "recorder"

    def __init__(self) -> None:
        self.given: tuple[str, QuestionPlan, Sequence[AnswerEvidence]] | None = None

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Keep the question and the evidence."""
        self.given = question, plan, evidence
        return Answer(None)


def talks() -> Iterator[Talk]:
    """Yield the conversations of both folders."""
    for path in sorted(ASKED.glob("*.toml")):
        for one in tomllib.loads(path.read_text(encoding="utf-8"))["conversation"]:
            turns = one["turn"]
            sessions = [
                [
                    {
                        "speaker": turn["speaker"],
                        "role": turn["role"],
                        "text": turn["text"],
                        "timestamp": turn["at"],
                    }
                    for turn in some
                ]
                for _, some in groupby(turns, key=lambda turn: turn["session"])
            ]
            questions = [
                (
                    ask["asker"],
                    ask["question"],
                    [turns[at - 1]["text"] for at in ask["turns"]],
                    turns[-1]["at"],
                )
                for ask in one["question"]
            ]
            yield Talk(one["id"], sessions, questions)
    for path in sorted(ASKING.glob("*.toml")):
        world = tomllib.loads(path.read_text(encoding="utf-8"))
        asked = [(world["user"], question, golds, REFERENCE) for question, *golds in world["questions"]]
        yield Talk(path.stem, list(_sessions(world["talk"])), asked)


def _sessions(talk: str) -> Iterator[list[dict[str, str]]]:
    """Yield the sessions of a conversation written as ``# time`` and ``speaker: text`` lines."""
    for block in talk.strip().split("# ")[1:]:
        when, *lines = block.strip().splitlines()
        at = f"{when.strip().replace(' ', 'T')}:00Z"
        pairs = (line.partition(": ") for line in lines)
        yield [{"speaker": who.strip(), "text": text, "timestamp": at} for who, _, text in pairs]


def picks(embedder: str) -> list[Pick]:
    """Ask every question of every conversation."""
    found: list[Pick] = []
    for talk in talks():
        recorder = Recorder()
        config = Config(embedder=embedder, answerer=recorder, reranker=None)
        with tempfile.TemporaryDirectory(prefix="ranking-") as folder, MemForest(folder, config) as forest:
            askers: dict[str, str] = {}
            for asker, question, golds, at in talk.questions:
                if asker not in askers:
                    askers[asker] = f"asker-{len(askers)}"
                    forest.register_user(askers[asker], display_name=asker or None)
                    for number, turns in enumerate(talk.sessions):
                        forest.ingest_session(askers[asker], f"s{number}", turns)
                recorder.given = None
                forest.ask(askers[asker], question, reference_date=at, top_k=PIECES, min_relevance=0.0)
                if recorder.given is not None:
                    found.append(_pick(talk.name, golds, *recorder.given))
    return found


def _pick(
    talk: str, golds: Sequence[str], question: str, plan: QuestionPlan, evidence: Sequence[AnswerEvidence]
) -> Pick:
    asked = asked_in(question)
    read = [one for one in evidence if one.turns is None]
    pieces = read_pieces(enumerate(map(named, read)))
    known = read_features(read_question(asked, plan), pieces, pieces)
    texts = [pair_text(one.before, one.speaker, one.quote) for one in read]
    return Pick(
        talk,
        talk in PLAIN,
        bool(golds),
        asked,
        texts,
        known,
        [any(gold in one.quote for gold in golds) for one in read],
        [to_ms(one.said) for one in read],
    )


Readings = Mapping[tuple[str, str, str], Sequence[float]]
"""Question, text and conversation -> what a cross-encoder that has not seen the conversation reads (`memforest.ports.ReadsStates`)."""


def with_readings(found: Sequence[Pick], readings: Readings) -> list[Pick]:
    """Return the picks of conversations that were read, as far as a cross-encoder reads them."""
    made, talks = [], {talk for _, _, talk in readings}
    for pick in (one for one in found if one.known and one.talk in talks):
        told = np.array([readings[pick.question, text, pick.talk] for text in pick.texts[:READ]])
        known = [{**one, "logit": logit} for one, logit in zip(pick.known[:READ], told[:, 0], strict=True)]
        if any(one["succeeds"] for one in pick.known):
            standings = standing_by(pick.said_ms[:READ], told[:, 1:])
            known = [
                {**one, "succeeds": succeeds, "ended": ended}
                for one, (succeeds, ended) in zip(known, standings, strict=True)
            ]
        made.append(replace(pick, texts=pick.texts[:READ], known=known, right=pick.right[:READ]))
    return made


def readings_of_talks(found: Sequence[Pick], kept: Path | None) -> Readings:
    """Return what is read of the pieces of picks, from a file or by layers that are trained now and written.

    Args:
        found: the picks.
        kept: a file of readings of an earlier run, written if it is not there.
    """
    if kept is not None and kept.exists():
        return {
            (question, text, talk): one for question, text, talk, one in json.loads(kept.read_text("utf-8"))
        }
    # It needs torch, and only it does.
    from train_layers import fitted  # type: ignore[import-not-found]

    pieces = {
        (pick.question, text, pick.talk): right
        for pick in found
        if pick.talk not in UNFITTED
        for text, right in zip(pick.texts[:READ], pick.right[:READ], strict=True)
    }
    layers: dict[str, Any]
    readings: Readings
    layers, readings = fitted(pieces)
    np.savez_compressed(LAYERS, **layers)
    if kept is not None:
        kept.write_text(json.dumps([[*key, one] for key, one in readings.items()]), "utf-8")
    return readings


def fit(found: Sequence[Pick], names: Sequence[str]) -> dict[str, float]:
    """Return the weights by name, with the bias, that make the pieces that are right, or none, likeliest.

    Where several pieces are right, that any of them is counts; the chance of "none" is right where no piece is.
    """
    used = [pick for pick in found if pick.known]
    x = np.array([[one[name] for name in names] for pick in used for one in pick.known])
    mean, spread = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    ends = np.cumsum([len(pick.known) for pick in used])
    groups = [
        (z[end - len(pick.known) : end], np.array(pick.right)) for pick, end in zip(used, ends, strict=True)
    ]
    b = np.zeros(z.shape[1])
    ridge = np.diag([*(OF_ASSISTANT if name == "by_assistant" else RIDGE for name in names), 0.0])
    for _ in range(60):
        gradient, curvature = ridge @ b, ridge.copy()
        for rows, right in groups:
            slope, bend = _slopes(rows, right, b)
            gradient, curvature = gradient + slope, curvature + bend
        step = np.linalg.solve(curvature, gradient)
        step /= max(1.0, float(np.abs(step).max()))  # far from the best weights a whole step may overshoot
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


def report(name: str, found: Sequence[Pick], names: Sequence[str]) -> dict[str, float]:
    """Print how the questions end with weights that are fitted to the other conversations, and return the line of the relevance.

    It is the logistic of whether a piece is right over its logit, so that each counts alone.
    """
    ended: dict[bool, list[tuple[float, bool]]] = {True: [], False: []}
    each: list[tuple[float, bool]] = []
    for talk in dict.fromkeys(one.talk for one in found if one.talk not in UNFITTED):
        weights = fit([one for one in found if one.talk not in (talk, *UNFITTED)], names)
        for one in found:
            if one.talk == talk:
                logits = logits_of(one.known, weights)
                each += zip(logits, one.right, strict=True)
                quoted, score = quotes(chances(logits)) if logits else ([], 0.0)
                ended[one.answerable].append((score, any(one.right[at] for at in quoted)))
    able, unable = ended[True], ended[False]
    print(
        f"{name}: {len(able)} answerable, {len(unable)} not; quoted {100 * np.mean([right for _, right in able]):.1f}"
    )
    for bar in THRESHOLDS:
        shares = (
            [right and chance >= bar for chance, right in able],
            [not right and chance >= bar for chance, right in able],
            [chance >= bar for chance, _ in unable],
        )
        right, wrong, answered = (100 * np.mean(one) for one in shares)
        print(f"  at {bar:.2f}: right {right:.1f}  wrong {wrong:.1f}  answered {answered:.1f}")
    x, y = np.array(each).T
    z, line = np.c_[x, np.ones(len(x))], np.zeros(2)
    for _ in range(30):
        told = 1 / (1 + np.exp(-z @ line))
        line -= np.linalg.solve((z.T * (told * (1 - told))) @ z, z.T @ (told - y))
    return {"slope": round(float(line[0]), 3), "shift": round(float(line[1]), 3)}


def quotes(found: Sequence[float]) -> tuple[list[int], float]:
    """Return which pieces `ask` would quote, given their chances, and the chance that any of them is right."""
    best, *others = sorted(range(len(found)), key=lambda at: -found[at])
    quoted, score = [best], found[best]
    for at in others:
        if len(quoted) < QUOTES and score < ENOUGH and found[at] >= WORTH * found[best]:
            quoted, score = [*quoted, at], score + found[at]
    return quoted, score


def main() -> int:
    """Print how the questions ended, and write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the weights would change"
    )
    parser.add_argument("--readings", type=Path, help="keep what is read here, or take it from here")
    given = parser.parse_args()
    if given.check and not (given.readings and given.readings.exists()):
        parser.error("--check needs the --readings of an earlier run")
    found = {embedder: picks(embedder) for embedder in EMBEDDERS}
    near = [one for name in EMBEDDERS[:2] for one in found[name]]
    sets: dict[str, tuple[list[Pick], Sequence[str]]] = {
        "words": ([one for some in found.values() for one in some if one.plain], BY_WORDS),
        "relevance": (near, NAMES),
    }
    sets[MS_MARCO.model_id] = (
        with_readings(near, readings_of_talks(near, given.readings)),
        (*(name for name in NAMES if name not in READ_ANYWAY), "logit"),
    )
    scorers: dict[str, Any] = {}
    for name, (some, names) in sets.items():
        line = report(name, some, names)
        used = [one for one in some if one.talk not in UNFITTED]
        scorers[name] = {
            "weights": fit(used, names),
            "relevance": line,
            "answer": {"threshold": ANSWERS.get(name, 0.75)},
            "questions": len(used),
            "script": f"scripts/train_ranking.py {VERSION}",
        }
    text = json.dumps({"version": VERSION, "scorers": scorers}, indent=2) + "\n"
    if given.check:
        return int(text != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
