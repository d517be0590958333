"""Fits the weights by which a later statement is known to tell of the same thing, for one embedder, and writes them.

    python scripts/train_succession.py [--embedder minilm-l6-v2-int8] [--check]

Reads `data/reading/*.toml`: kinds of things that people have, are, do, plan and prefer, each told in every stance and asked for, and
talk that tells of no state. Each sentence is read as `memforest` reads what is said (`LocalExtractor`), half of them from a
speaker with a name, and embedded. Four parts are fitted (`memforest.search.succession`):

1. whether a question asks how something stands at present (`data/questions/fitted.toml`), a logistic;
2. the stance: one softmax over the vectors, by full-batch Adam;
3. the slot space: what varies inside the kinds is whitened, and the directions are kept in which their means differ most
   (linear discriminant analysis; R. A. Fisher 1936, C. R. Rao 1948);
4. the successor: one hidden layer over the features of triples (question, earlier statement, later one) drawn from the kinds.
   Stances and slot space in its features come from fits that had not seen the kind, as no weights will have seen what users say.

Prints how well held-out kinds are told (six folds, each kind in one), and questions of another hand (`data/questions/held_out.toml`). Everything is seeded, so the same data, embedder and versions
give the same file. `--check` writes nothing and exits with 1 if the committed weights differ from what is fitted by more than 1%.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
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
from memforest.ports import embed_questions
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, Turn
from memforest.search.succession import (
    SCALE,
    STANCES,
    TELLING,
    Floats,
    features,
    open_reader,
    stances,
    through,
)

ROOT = Path(__file__).parent.parent
DATA, QUESTIONS, WEIGHTS = (
    ROOT / "data" / "reading",
    ROOT / "data" / "questions",
    ROOT / "src" / "memforest" / "data",
)
SEED, FOLDS, HIDDEN = 9, 6, 8
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
PER_KIND = 14
"""Pairs of a question and an earlier statement that are drawn from a kind."""
HARD = 400
"""Statements of other kinds nearest to a pair, of which some are drawn."""

Ints = NDArray[np.int64]


class Sentence(NamedTuple):
    """A sentence of the data: the kind it is about ("" for talk of none), its stance or "asks", and the text."""

    kind: str
    stance: str
    text: str


def read_sentences(folder: Path = DATA) -> list[Sentence]:
    """Return the sentences of all files, by file and place."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            kind = name if "asks" in table else ""
            found += [Sentence(kind, "event", text) for text in table.get("lines", [])]
            for stance in (*STANCES, "asks"):
                found += [Sentence(kind, stance, text) for text in table.get(stance, [])]
    return list(dict.fromkeys(found))


def stated(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return what the extractor states of sentences, up to three statements each; questions stay as they are."""
    extractor, at = LocalExtractor(), datetime(2024, 2, 5, 10, tzinfo=timezone.utc)
    pick = random.Random(SEED)
    found = []
    for one in sentences:
        if one.stance == "asks":
            found.append(one)
            continue
        speaker = pick.choice(NAMES) if pick.random() < 0.5 else "user"
        turn = Turn("t", speaker, one.text, at, 0, "user")
        outcome = extractor.extract_chunk(Chunk("s", 0, (turn,), participants=(speaker,)))
        found += [one._replace(text=fact.text) for fact in outcome.candidates[:3]]
    return found


class Data(NamedTuple):
    """Statements and questions with unit vectors, shape (n, d); `fold` of each kind, and of talk of none by turns."""

    kind: NDArray[np.str_]
    stance: NDArray[np.str_]
    vectors: Floats
    fold: Ints

    @property
    def asks(self) -> NDArray[np.bool_]:
        """Which are questions."""
        return np.asarray(self.stance == "asks")


def read_data(embedder: str) -> Data:
    """Return the data as an embedder has it."""
    found = list(dict.fromkeys(stated(read_sentences())))
    rows = asyncio.run(open_embedder(embedder).embed([one.text for one in found])).astype(np.float64)
    kind, stance = np.array([one.kind for one in found]), np.array([one.stance for one in found])
    kinds = np.random.default_rng(SEED).permutation(sorted({*kind.tolist()} - {""})).tolist()
    fold = np.array([kinds.index(k) % FOLDS if k else i % FOLDS for i, k in enumerate(kind.tolist())])
    return Data(kind, stance, rows / np.linalg.norm(rows, axis=1, keepdims=True), fold)


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
    goal = np.eye(len(STANCES))[[STANCES.index(one) for one in data.stance[rows].tolist()]]
    return fit_layers(
        SCALE * (data.vectors[rows] - said), goal, (), steps=250, batch=len(rows), rate=0.05, l2=1e-2
    )[0]


def fit_present(embedder: str, asked: Floats) -> tuple[Floats, list[str]]:
    """Return the layer that knows questions about the present, and how well it tells those of another hand."""
    logits, of = {}, {}
    for name in ("fitted", "held_out"):
        tables = tomllib.loads((QUESTIONS / f"{name}.toml").read_text(encoding="utf-8"))
        texts = [(what, text) for what, table in tables.items() for text in table["lines"]]
        rows = np.asarray(asyncio.run(embed_questions(open_embedder(embedder), [text for _, text in texts])))
        logits[name] = SCALE * (rows.astype(np.float64) - asked)
        of[name] = np.array([what for what, _ in texts])
    goal = (of["fitted"] == "state")[:, None].astype(float)
    layer = fit_layers(logits["fitted"], goal, (), steps=300, batch=len(goal), rate=0.05, l2=1e-2)[0]
    told, present = logits["held_out"] @ layer[:-1, 0], of["held_out"] == "state"
    lines = [
        f"question of the present against {one} {auc(told[present], told[of['held_out'] == one]):.3f}"
        for one in sorted({*of["held_out"].tolist()} - {"state"})
    ]
    return layer[:, 0], lines


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


def draw(data: Data) -> Ints:
    """Return triples of rows (question, earlier, later) and whether the later one is a successor, shape (t, 4)."""
    rng = np.random.default_rng(SEED)
    tells = np.isin(data.stance, STANCES[:TELLING])
    talk = np.flatnonzero((data.kind == "") & ~data.asks)
    found: list[tuple[int, int, int, int]] = []
    for kind in sorted({*data.kind.tolist()} - {""}):
        of = {one: np.flatnonzero((data.kind == kind) & (data.stance == one)) for one in (*STANCES, "asks")}
        changes = np.concatenate([of[one] for one in ("begins", "replaces", "ends", "corrects")])
        others = np.flatnonzero((data.kind != kind) & (data.kind != "") & (tells | (data.stance == "near")))
        for _ in range(PER_KIND):
            asked, before = rng.choice(of["asks"]), rng.choice(of["holds"])
            near = others[
                np.argsort(-(data.vectors[others] @ (data.vectors[asked] + data.vectors[before])))[:HARD]
            ]
            right = [*rng.choice(changes, 6), rng.choice(of["holds"]), rng.choice(of["planned"])]
            wrong = [*rng.choice(of["near"], 3), *rng.choice(of["other"], 2), rng.choice(of["past"])]
            wrong += [*rng.choice(near, 3), *rng.choice(others, 4), *rng.choice(talk, 5)]
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
    said, asked = data.vectors[statements].mean(0), data.vectors[data.asks].mean(0)
    unseen = np.zeros((len(data.vectors), len(STANCES)))
    for fold in range(FOLDS):
        rows = statements[data.fold[statements] == fold]
        layer = fit_stance(data, statements[data.fold[statements] != fold], said)
        unseen[rows] = stances(data.vectors[rows], said, layer)
    share = unseen[:, :TELLING].sum(1)
    tells = np.isin(data.stance, STANCES[:TELLING])
    told = [
        f"tells against {one} {auc(share[tells], share[data.stance == one]):.3f}" for one in STANCES[TELLING:]
    ]
    centred = data.vectors - np.where(data.asks[:, None], asked, said)
    question, before, later, goal = draw(data).T
    found = np.empty((len(goal), 0))
    for fold in range(FOLDS):
        here, seen = data.fold[before] == fold, data.fold != fold
        slot = fit_slot(centred[seen], data.kind[seen])
        rows = [of[here] for of in (question, before, later)]
        q, b, n = rows
        made = features(centred[q], centred[b], centred[n], unseen[b], unseen[n], slot)
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
    weights = {
        "said": said,
        "asked": asked,
        "stance": stance,
        "slot": fit_slot(centred, data.kind),
        "shift": shift,
        "scale": scale,
        "hidden": hidden,
        "out": out[:, 0],
    }
    return weights, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print and write; return 1 if `--check` finds other weights."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--embedder", default="minilm-l6-v2-int8")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    model_id = open_embedder(options.embedder).model_id
    weights, told = fit(read_data(options.embedder))
    weights["present"], of_questions = fit_present(options.embedder, weights["asked"])
    print(*told, *of_questions, sep="\n")
    if options.check:
        stored = open_reader(model_id)
        return int(
            stored is None
            or any(
                not np.allclose(getattr(stored, part), made, rtol=0.01, atol=0.01)
                for part, made in weights.items()
            )
        )
    path = WEIGHTS / f"succession-{model_id.replace('@', '-')}.npz"
    half: dict[str, Any] = {part: made.astype(np.float16) for part, made in weights.items()}
    np.savez_compressed(path, **half)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
