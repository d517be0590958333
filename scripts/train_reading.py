"""Fits the weights of the small readers of vectors, for one embedder, and writes them.

    python scripts/train_reading.py [--embedder minilm-l6-v2-int8] [--check]

Reads `data/reading/*.toml`: kinds of things that people have, are, do, plan and prefer, each told in every stance and asked for, and
talk that tells of no state (`talk.toml`); questions by what they ask for (`questions.toml`); and what is asked of a memory and what is
not, and events with their questions (`asking.toml`). `data/words/*.toml` has key words that look something up, and as short messages that
do not; only what asks for something told is fitted to them, too. Each sentence is read as `memforest` reads what is said (`LocalExtractor`), half
of them from a speaker with a name, and embedded, as is the message that it stands in. Fitted are (`memforest.search.succession`,
`relevance`):

1. the stance: one softmax over the vectors, by full-batch Adam ("still so" counts as that it holds);
2. the slot space: what varies inside the kinds is whitened, and the directions are kept in which their means differ most
   (linear discriminant analysis; R. A. Fisher 1936, C. R. Rao 1948);
3. the successor: one hidden layer over the features of triples (question, earlier statement, later one) drawn from the kinds.
   Stances and slot space in its features come from fits that had not seen the kind, as no weights will have seen what users say;
4. whether a question asks how something stands at present, a logistic over its vector, and whether it seeks what somebody has told, two layers over it;
5. the relevance of a statement to such a question: one hidden layer over the features of the best candidates of memories of 12 to
   600 statements, drawn from the kinds, events and talk, for questions of kinds that are there and of kinds that are not.

Prints how well held-out kinds are told (six folds, each kind in one), and questions of another hand (`data/held_out`). Everything is seeded, so the same data, embedder and versions
give the same file. `--check` writes nothing and exits with 1 if the committed weights differ from what is fitted by more than 1%.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import numpy as np
from numpy.typing import NDArray

from memforest.models import open_embedder
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, Turn
from memforest.search import relevance
from memforest.search.relevance import GUESS, SAMPLE, Judge
from memforest.search.scores import standardise
from memforest.search.succession import (
    SCALE,
    STANCES,
    TELLING,
    Floats,
    Reader,
    directions,
    features,
    open_weights,
    stances,
    through,
)
from memforest.search.vectors import question_tokens, read_text, turn_text

ROOT = Path(__file__).parent.parent
DATA, WORDS, HELD_OUT = (ROOT / "data" / name for name in ("reading", "words", "held_out"))
WEIGHTS = ROOT / "src" / "memforest" / "data"
SEED, FOLDS, HIDDEN, SEEK_HIDDEN = 9, 6, 8, 16
SLOT = 64
"""Numbers of the slot space. Whitening adds the mean variance to each direction, as the kinds are few."""
NAMES = [
    "Robin",
    "Mina",
    "Tomas",
    "Aiko",
    "Priya",
    "Lars",
    "Chidi",
    "Elena",
    "Omar",
    "Greta",
    "Hugo",
    "Ines",
    "Kofi",
    "Lena",
    "Mateo",
    "Nadia",
    "Olaf",
    "Petra",
    "Quentin",
    "Rosa",
    "Sven",
    "Tara",
    "Umar",
    "Vera",
    "Wout",
    "Xenia",
    "Yara",
    "Zeno",
    "Ada",
    "Boris",
]
"""Those whose statements are not the user's; the user says the other half."""
PER_KIND = 6
"""Pairs of a question and an earlier statement that are drawn from a kind."""
NO_QUESTIONS = ("small_talk", "request", "errand_request")
"""Tables of talk that ask for nothing that somebody has told."""
STILL = "still"
"""Of a kind: it is said again that it stands as before. That tells how it stands, and is drawn as no successor and as nothing else."""
HARD = 400
"""Statements of other kinds nearest to a pair, of which some are drawn."""

Ints = NDArray[np.int64]


QUESTIONS = ("asks", "present", "wanted", "unwanted")
"""Of a kind or event; of how something stands at present; of anything else that somebody may have told; and what asks for nothing of that."""


class Sentence(NamedTuple):
    """A sentence of the data: the kind it is about ("" for talk of none), its stance or one of `QUESTIONS`, and the text.

    The stance of an event is "told". `turn` is the message that a statement stands in, with its speaker.
    """

    kind: str
    stance: str
    text: str
    turn: str = ""


def read_sentences(folder: Path = DATA) -> list[Sentence]:
    """Return the sentences of all files, by file and place."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            kind = name if "asks" in table else ""
            found += [Sentence(kind, "event", text) for text in table.get("lines", [])]
            for stance in (*STANCES, STILL, *QUESTIONS):
                found += [Sentence(kind, stance, text) for text in table.get(stance, [])]
            for number, (told, *asked) in enumerate(table.get("told", [])):
                event = f"event {number}"
                found += [Sentence(event, "told", told), *(Sentence(event, "asks", text) for text in asked)]
            if name in NO_QUESTIONS:
                found += [Sentence("", "unwanted", text) for text in table["lines"]]
    return list(dict.fromkeys(found))


def stated(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return what the extractor states of sentences, up to three statements each; questions stay as they are."""
    extractor, at = LocalExtractor(), datetime(2024, 2, 5, 10, tzinfo=timezone.utc)
    pick = random.Random(SEED)
    found = []
    for one in sentences:
        if one.stance in QUESTIONS:
            found.append(one)
            continue
        speaker = pick.choice(NAMES) if pick.random() < 0.5 else "user"
        turn = Turn("t", speaker, one.text, at, 0, "user")
        outcome = extractor.extract_chunk(Chunk("s", 0, (turn,), participants=(speaker,)))
        message = turn_text(speaker, one.text)
        found += [one._replace(text=read_text(fact.text), turn=message) for fact in outcome.candidates[:3]]
    return found


class Words(NamedTuple):
    """Key words that look something up, and as short messages that do not, with unit vectors, shape (n, d)."""

    vectors: Floats
    seek: NDArray[np.bool_]


def read_words(embedder: str, folder: Path = WORDS) -> Words:
    """Return the key words as an embedder has them."""
    tables = [
        tomllib.loads(path.read_text(encoding="utf-8"))["words"] for path in sorted(folder.glob("*.toml"))
    ]
    seek = {
        text: stance == "wanted" for one in tables for stance in QUESTIONS for text in one.get(stance, ())
    }
    return Words(unit(asyncio.run(open_embedder(embedder).embed(list(seek)))), np.array([*seek.values()]))


class Data(NamedTuple):
    """Statements and questions with unit vectors, shape (n, d); `fold` of each kind, and of talk of none by turns.

    `turns` are the vectors of the messages, those of questions again the questions'.
    """

    kind: NDArray[np.str_]
    stance: NDArray[np.str_]
    vectors: Floats
    turns: Floats
    fold: Ints
    texts: Sequence[str]
    messages: Sequence[str]
    words: Words

    @property
    def asks(self) -> NDArray[np.bool_]:
        """Which are questions, or stand where one does."""
        return np.isin(self.stance, QUESTIONS)

    @property
    def seeks(self) -> NDArray[np.bool_]:
        """Which ask for what somebody has told."""
        return np.isin(self.stance, ("asks", "present", "wanted"))


def read_data(embedder: str) -> Data:
    """Return the data as an embedder has it."""
    found = list(dict.fromkeys(stated(read_sentences())))
    texts, messages = [one.text for one in found], [one.turn or one.text for one in found]
    vectors, turns = (unit(asyncio.run(open_embedder(embedder).embed(some))) for some in (texts, messages))
    kind, stance = np.array([one.kind for one in found]), np.array([one.stance for one in found])
    kinds = np.random.default_rng(SEED).permutation(sorted({*kind.tolist()} - {""})).tolist()
    fold = np.array([kinds.index(k) % FOLDS if k else i % FOLDS for i, k in enumerate(kind.tolist())])
    return Data(kind, stance, vectors, turns, fold, texts, messages, read_words(embedder))


def unit(rows: NDArray[np.float32]) -> Floats:
    """Return vectors of length 1."""
    made = rows.astype(np.float64)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def fit_layers(
    rows: Floats, goal: Floats, sizes: Sequence[int], *, steps: int, batch: int, rate: float, l2: float
) -> list[Floats]:
    """Return layers (the last row of each is its bias) fitted to goals, shape (n, c), by Adam; rectified between layers.

    With several goals the loss is the cross-entropy of a softmax over them, with one that of a logistic.
    """
    rng = np.random.default_rng(SEED)
    widths = [rows.shape[1], *sizes, goal.shape[1]]
    layers = [np.vstack([rng.normal(size=(a, b)) / np.sqrt(a), np.zeros(b)]) for a, b in pairwise(widths)]
    first, second = [np.zeros_like(one) for one in layers], [np.zeros_like(one) for one in layers]
    for step in range(1, steps + 1):
        take = slice(None) if batch >= len(rows) else rng.integers(0, len(rows), batch)
        seen = [rows[take]]
        for place, layer in enumerate(layers):
            out = seen[-1] @ layer[:-1] + layer[-1]
            seen.append(np.maximum(out, 0) if place + 1 < len(layers) else out)
        odds = np.exp(seen[-1] - seen[-1].max(axis=1, keepdims=True))
        told = odds / odds.sum(axis=1, keepdims=True) if goal.shape[1] > 1 else 1 / (1 + np.exp(-seen[-1]))
        error = (told - goal[take]) / len(seen[0])
        for place in range(len(layers) - 1, -1, -1):
            slope = np.vstack([seen[place].T @ error + l2 * layers[place][:-1], error.sum(0)])
            error = (error @ layers[place][:-1].T) * (seen[place] > 0) if place else error
            first[place] = 0.9 * first[place] + 0.1 * slope
            second[place] = 0.999 * second[place] + 0.001 * slope**2
            moved = first[place] / (1 - 0.9**step), second[place] / (1 - 0.999**step)
            layers[place] = layers[place] - rate * moved[0] / (np.sqrt(moved[1]) + 1e-8)
    return layers


def fit_stance(data: Data, rows: Ints, said: Floats) -> Floats:
    """Return the layer of the stance, fitted to some statements."""
    rows = rows[data.stance[rows] != "told"]
    told = np.where(data.stance[rows] == STILL, "holds", data.stance[rows]).tolist()
    goal = np.eye(len(STANCES))[[STANCES.index(one) for one in told]]
    return fit_layers(
        SCALE * (data.vectors[rows] - said), goal, (), steps=250, batch=len(rows), rate=0.05, l2=1e-2
    )[0]


def fit_slot(centred: Floats, kind: NDArray[np.str_]) -> Floats:
    """Return the map into the slot space, shape (d, `SLOT`), fitted to centred vectors of kinds."""
    names = sorted({*kind.tolist()} - {""})
    means = np.array([centred[kind == one].mean(0) for one in names])
    inside = [centred[kind == one] - mean for one, mean in zip(names, means, strict=True)]
    scatter = sum(each.T @ each for each in inside) / sum(map(len, inside))
    spread, axes = np.linalg.eigh(scatter + np.trace(scatter) / len(scatter) * np.eye(len(scatter)))
    whitened = axes / np.sqrt(spread)
    apart = means @ whitened
    _, _, main = np.linalg.svd(apart - apart.mean(0), full_matrices=False)
    found: Floats = whitened @ main[:SLOT].T
    return found


def fit_present(data: Data, asked: Floats) -> Floats:
    """Return the logistic that tells questions about the present from others; those of the kinds ask about it, of events none."""
    is_told = np.array([is_event(one) for one in data.kind.tolist()])
    rows = np.flatnonzero(data.asks)
    goal = (data.stance[rows] == "present") | ((data.stance[rows] == "asks") & ~is_told[rows])
    return fit_layers(
        SCALE * (data.vectors[rows] - asked),
        goal[:, None].astype(float),
        (),
        steps=300,
        batch=len(rows),
        rate=0.05,
        l2=1e-2,
    )[0][:, 0]


SOUGHT = (
    "questions state",
    "questions was",
    "questions event",
    "questions view",
    "talk facts",
    "words words",
)
"""Tables of the held-out files whose lines ask for what somebody has told; the first asks of the present."""


def held_out(embedder: str, weights: dict[str, Floats]) -> list[str]:
    """Return how well questions of another hand are told."""
    texts = [
        (f"{path.stem} {what}", text)
        for path in sorted(HELD_OUT.glob("*.toml"))
        for what, table in tomllib.loads(path.read_text(encoding="utf-8")).items()
        for text in table["lines"]
    ]
    rows = unit(asyncio.run(open_embedder(embedder).embed([text for _, text in texts])))
    what = np.array([one for one, _ in texts])
    found = []
    present = SCALE * (rows - weights["asked"]) @ weights["present"][:-1] + weights["present"][-1]
    seeks = through(SCALE * (rows - weights["said"]), weights["seek_hidden"], weights["seek_out"])
    for name, logits, positive in (("present", present, SOUGHT[:1]), ("seeks", seeks, SOUGHT)):
        right = np.isin(what, positive)
        found += [
            f"another hand: {name} against {one} {auc(logits[right], logits[what == one]):.3f}"
            for one in sorted({*what.tolist()} - {*positive})
        ]
    return found


def is_event(kind: str) -> bool:
    """Return whether a kind is one event."""
    return kind.startswith("event ")


def draw(data: Data) -> Ints:
    """Return triples of rows (question, earlier, later) and whether the later one is a successor, shape (t, 4)."""
    rng = np.random.default_rng(SEED)
    tells = np.isin(data.stance, (*STANCES[:TELLING], STILL))
    talk = np.flatnonzero((data.kind == "") & ~data.asks)
    found: list[tuple[int, int, int, int]] = []

    def some(rows: Ints, count: int) -> list[int]:
        return rng.choice(rows, count).tolist() if len(rows) else []

    for kind in (one for one in sorted({*data.kind.tolist()} - {""}) if not is_event(one)):
        of = {one: np.flatnonzero((data.kind == kind) & (data.stance == one)) for one in (*STANCES, "asks")}
        changes = np.concatenate([of[one] for one in ("begins", "replaces", "ends", "corrects")])
        others = np.flatnonzero((data.kind != kind) & (data.kind != "") & (tells | (data.stance == "near")))
        for _ in range(min(PER_KIND, len(of["holds"]))):
            asked, before = rng.choice(of["asks"]), rng.choice(of["holds"])
            cosines = data.vectors[others] @ (data.vectors[asked] + data.vectors[before])
            near = others[np.argpartition(-cosines, HARD)[:HARD]]
            right = [*some(changes, 6), *some(of["holds"], 1), *some(of["planned"], 1)]
            wrong = [*some(of["near"], 3), *some(of["other"], 2), *some(of["past"], 1)]
            wrong += [*some(near, 3), *some(others, 4), *some(talk, 5)]
            found += [(asked, before, later, 1) for later in right] + [
                (asked, before, later, 0) for later in wrong
            ]
    return np.array(found)


def auc(right: Floats, wrong: Floats) -> float:
    """Return the share of pairs in which the right one is above the wrong one."""
    ranks = np.concatenate([right, wrong]).argsort().argsort() + 1.0
    return float((ranks[: len(right)].sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))


def fit(data: Data) -> tuple[dict[str, Floats], list[str]]:
    """Return the weights, and what is told of held-out kinds."""
    statements = np.flatnonzero(~data.asks)
    said, asked = data.vectors[statements].mean(0), data.vectors[data.seeks].mean(0)
    unseen = np.zeros((len(data.vectors), len(STANCES)))
    for fold in range(FOLDS):
        rows = statements[data.fold[statements] == fold]
        layer = fit_stance(data, statements[data.fold[statements] != fold], said)
        unseen[rows] = stances(data.vectors[rows], said, layer)
    share = unseen[:, :TELLING].sum(1)
    tells = np.isin(data.stance, (*STANCES[:TELLING], STILL))
    told = [
        f"tells against {one} {auc(share[tells], share[data.stance == one]):.3f}" for one in STANCES[TELLING:]
    ]
    is_told = np.array([is_event(one) for one in data.kind.tolist()])
    centred = data.vectors - np.where(data.asks[:, None], asked, said)
    question, before, later, goal = draw(data).T
    found = np.empty((len(goal), 0))
    for fold in range(FOLDS):
        here, seen = data.fold[before] == fold, (data.fold != fold) & ~is_told
        slot = fit_slot(centred[seen], data.kind[seen])
        rows = [of[here] for of in (question, before, later)]
        asks, first, last = rows
        made = features(centred[asks], centred[first], centred[last], unseen[first], unseen[last], slot)
        found = np.zeros((len(goal), made.shape[1])) if not found.size else found
        found[here] = made
    shift, scale = found.mean(0), found.std(0)
    rows, logits = (found - shift) / scale, np.zeros(len(goal))

    def layers(take: NDArray[np.bool_]) -> list[Floats]:
        return fit_layers(
            rows[take], goal[take, None].astype(float), (HIDDEN,), steps=4_000, batch=512, rate=3e-3, l2=1e-3
        )

    for fold in range(FOLDS):
        here = data.fold[before] == fold
        hidden, out = layers(~here)
        logits[here] = through(rows[here], hidden, out[:, 0])
    of = data.stance[later]
    same = data.kind[before] == data.kind[later]
    right = logits[goal == 1]
    for name, wrong in (
        ("near", same & (of == "near")),
        ("others", same & (of == "other")),
        ("other kinds", ~same & (of != "event")),
        ("talk", of == "event"),
    ):
        told.append(f"successor against {name} {auc(right, logits[wrong & (goal == 0)]):.3f}")
    hidden, out = layers(np.ones(len(goal), dtype=np.bool_))
    stance = fit_stance(data, statements, said)
    judging, how = fit_relevance(data, said, asked, unseen)
    weights = {
        **judging,
        "said": said,
        "asked": asked,
        "present": fit_present(data, asked),
        "stance": stance,
        "slot": fit_slot(centred[~is_told], data.kind[~is_told]),
        "shift": shift,
        "scale": scale,
        "hidden": hidden,
        "out": out[:, 0],
    }
    return weights, [*told, *how]


def fit_seeking(data: Data, rows: Ints, said: Floats) -> list[Floats]:
    """Return the layers that tell what asks for something told from thanks, orders, general questions and plain talk."""
    talk = rows[(data.kind[rows] == "") & (data.stance[rows] == "event")][::2]
    none = rows[data.stance[rows] == "unwanted"]
    taken = np.concatenate([rows[data.seeks[rows]], none, none, none, talk])
    short = np.repeat(np.arange(len(data.words.seek)), 3)
    return fit_layers(
        SCALE * (np.concatenate([data.vectors[taken], data.words.vectors[short]]) - said),
        np.concatenate([data.seeks[taken], data.words.seek[short]])[:, None].astype(float),
        (SEEK_HIDDEN,),
        steps=1_200,
        batch=512,
        rate=0.02,
        l2=1e-2,
    )


MEMORIES, SMALLEST, LARGEST, CANDIDATES = 150, 12, 600, 20
ANSWERING = (*STANCES[:TELLING], STILL, "planned", "past", "denied", "told")
"""Stances of statements that answer a question of their kind."""


class Pairs(NamedTuple):
    """Candidates for questions: the rows of both, the features, which group a question is of, and whether a candidate answers it."""

    question: Ints
    candidate: Ints
    features: Floats
    group: NDArray[np.str_]
    answers: NDArray[np.bool_]


class Memory:
    """One person's memory as it is simulated: statements of some kinds and events among talk."""

    def __init__(self, data: Data, rng: np.random.Generator) -> None:
        many = int(np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST))))
        kinds = sorted({*data.kind.tolist()} - {""})
        self.groups = {
            "of a kind": self._some(rng, [one for one in kinds if not is_event(one)], many / 10),
            "of an event": self._some(rng, [one for one in kinds if is_event(one)], many / 12),
        }
        rows: list[int] = []
        for kind in [one for group in self.groups.values() for one in group]:
            own = np.flatnonzero((data.kind == kind) & ~data.asks)
            rows += own.tolist() if is_event(kind) else rng.choice(own, rng.integers(1, 9)).tolist()
        talk = np.flatnonzero((data.kind == "") & ~data.asks)
        rows += rng.choice(talk, max(0, many - len(rows))).tolist()
        self.rows = np.unique(rows)
        self.words = [{*question_tokens(data.messages[row])} for row in self.rows.tolist()]
        held = Counter(word for words in self.words for word in words)
        self.rarity = {word: np.log1p((len(self.rows) - n + 0.5) / (n + 0.5)) for word, n in held.items()}
        self.rarest = float(np.log1p((len(self.rows) + 0.5) / 0.5))
        self.sample = rng.permutation(self.rows)[:SAMPLE]

    @staticmethod
    def _some(rng: np.random.Generator, kinds: list[str], about: float) -> list[str]:
        count = int(np.clip(about * rng.uniform(0.6, 1.4), 1, len(kinds) - 8))
        return list(rng.choice(kinds, count, replace=False))

    def shares(self, question: str) -> Floats:
        """Return the share of a question's words that each statement's message has, as `word_shares` does."""
        asked = {*question_tokens(question)}
        total = sum(self.rarity.get(word, self.rarest) for word in asked) or 1.0
        return np.array([sum(self.rarity[word] for word in asked & words) for words in self.words]) / total


def draw_pairs(data: Data, said: Floats, asked: Floats, unseen: Floats) -> tuple[Pairs, Floats]:
    """Return the best candidates of simulated memories for questions, and the mean vector of messages."""
    rng = np.random.default_rng(SEED)
    spoken = data.turns[~data.asks].mean(0)
    near, turn = directions(data.vectors, said), directions(data.turns, spoken)
    question = directions(data.vectors, asked)
    kinds = sorted({*data.kind.tolist()} - {""})
    asks = {kind: np.flatnonzero((data.kind == kind) & (data.stance == "asks")) for kind in kinds}
    talk = np.flatnonzero((data.kind == "") & (data.stance == "event"))
    made: list[tuple[Any, ...]] = []
    for _ in range(MEMORIES):
        memory = Memory(data, rng)
        rows = memory.rows
        drawn: list[tuple[str, int]] = []
        for group, there in memory.groups.items():
            away = [kind for kind in kinds if is_event(kind) == is_event(there[0]) and kind not in there]
            drawn += [(group, rng.choice(asks[kind])) for kind in rng.permutation(there)[:8]]
            drawn += [
                (f"{group} that is not there", rng.choice(asks[kind])) for kind in rng.permutation(away)[:4]
            ]
        drawn += [("of anything", one) for one in rng.choice(np.flatnonzero(data.stance == "wanted"), 2)]
        drawn += [("unwanted", one) for one in rng.choice(np.flatnonzero(data.stance == "unwanted"), 10)]
        drawn += [("talk", one) for one in rng.choice(talk, 2)]
        for group, one in drawn:
            shares = memory.shares(data.texts[one])
            dense = data.vectors[rows] @ data.vectors[one], data.turns[rows] @ data.vectors[one]
            scores = 0.35 * standardise(dense[1]) + 0.35 * standardise(np.maximum(*dense))
            best = np.argsort(-(scores + 0.3 * standardise(shares)), kind="stable")[:CANDIDATES]
            told = rows[best]
            found = relevance.features(
                near[told] @ question[one],
                turn[told] @ question[one],
                near[memory.sample] @ question[one],
                len(rows),
                shares[best],
                unseen[told],
            )
            same = (data.kind[told] == data.kind[one]) & np.isin(data.stance[told], ANSWERING)
            right = same & bool(data.kind[one]) & (data.stance[one] == "asks")
            made.append((np.full(len(told), one), told, found, np.full(len(told), group), right))
    return Pairs(*(np.concatenate(part) for part in zip(*made, strict=True))), spoken


def fit_relevance(
    data: Data, said: Floats, asked: Floats, unseen: Floats
) -> tuple[dict[str, Floats], list[str]]:
    """Return the weights of relevance, and what is told of held-out kinds.

    Args:
        data: statements and questions.
        said: the mean vector of statements.
        asked: that of questions.
        unseen: stances of statements from fits that had not seen their kinds.
    """
    every = np.arange(len(data.vectors))
    seeking = np.zeros(len(every))
    for fold in range(FOLDS):
        hidden, out = fit_seeking(data, every[data.fold != fold], said)
        here = data.fold == fold
        seeking[here] = through(SCALE * (data.vectors[here] - said), hidden, out[:, 0])
    pairs, spoken = draw_pairs(data, said, asked, unseen)
    shift, scale = pairs.features.mean(0), pairs.features.std(0)
    rows, goal = (pairs.features - shift) / scale, pairs.answers.astype(float)
    fitted, fold_of = data.seeks[pairs.question], data.fold[pairs.question]

    def layers(take: NDArray[np.bool_]) -> list[Floats]:
        return fit_layers(rows[take], goal[take, None], (HIDDEN,), steps=4_000, batch=512, rate=3e-3, l2=1e-3)

    found = np.zeros(len(goal))
    for fold in range(FOLDS):
        here = fold_of == fold
        hidden, out = layers(fitted & ~here)
        found[here] = 1 / (1 + np.exp(-through(rows[here], hidden, out[:, 0])))
    found = (GUESS + (1 - GUESS) * found) / (1 + np.exp(-seeking[pairs.question]))
    told = [
        f"seeks against what does not {auc(seeking[data.seeks], seeking[data.stance == 'unwanted']):.3f}",
        f"relevance {auc(found[pairs.answers], found[~pairs.answers]):.3f}",
        *reliability("said, is", found, pairs.answers),
    ]
    hidden, out = layers(fitted)
    seek_hidden, seek_out = fit_seeking(data, every, said)
    return {
        "spoken": spoken,
        "seek_hidden": seek_hidden,
        "seek_out": seek_out[:, 0],
        "pair_shift": shift,
        "pair_scale": scale,
        "pair_hidden": hidden,
        "pair_out": out[:, 0],
    }, told


BANDS = (0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.01)


def reliability(name: str, found: Floats, right: NDArray[np.bool_]) -> list[str]:
    """Return, by bands of relevance, its mean, the share that is right, and how many there are."""
    return [
        f"{name}: {found[band].mean():.3f} {right[band].mean():.3f} (n={band.sum()})"
        for least, most in pairwise(BANDS)
        if (band := (found >= least) & (found < most)).any()
    ]


def parts_of(weights: Reader | Judge | None) -> dict[str, Floats]:
    """Return stored weights by name; none where nothing is stored."""
    return {} if weights is None else {one.name: getattr(weights, one.name) for one in fields(weights)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print and write; return 1 if `--check` finds other weights."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--embedder", default="minilm-l6-v2-int8")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    model_id = open_embedder(options.embedder).model_id
    weights, told = fit(read_data(options.embedder))
    print(*told, *held_out(options.embedder, weights), sep="\n")
    if options.check:
        stored = {**parts_of(open_weights(model_id, Reader)), **parts_of(open_weights(model_id, Judge))}
        same = (
            np.allclose(stored[part], made, rtol=0.01, atol=0.01)
            for part, made in weights.items()
            if part in stored
        )
        return int(not weights.keys() <= stored.keys() or not all(same))
    path = WEIGHTS / f"reading-{model_id.replace('@', '-')}.npz"
    half: dict[str, Any] = {part: made.astype(np.float16) for part, made in weights.items()}
    np.savez_compressed(path, **half)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
