"""What was said later of the same thing: "Got the keys, York is my home now" after "I live in Leeds".

A question about the present finds the plain statement first, whatever was said after it in other words. `successor` looks among
the later statements about the same person for one that tells how the same thing stands since. It reads vectors alone, with two
small layers that `scripts/train_reading.py` fits on sentences written for it (`data/reading`):

- the *stance* of a statement: that something holds, begins, ends or takes another's place; or that it is over, planned, denied, or
  only touches the subject (a visit, a wish, somebody else's), one softmax over its vector;
- from the stances and from how near the question, the earlier and the later statement are to each other, how likely the later
  one is about what is asked, one hidden layer.

Weights belong to an embedder, so another one has none, and then nothing is looked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.reading.tokens import kinship
from memforest.records import QuestionPlan
from memforest.search.filters import Allowed, Search, fact_places
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.store.snapshot import wordings
from memforest.text import entity_key

Floats = NDArray[np.float64]

STANCES = (
    *("holds", "begins", "replaces", "ends", "corrects"),
    *("planned", "past", "denied", "near", "other", "event"),
)
"""Classes of the stance: the first `TELLING` tell how a thing stands. "near" only touches the subject, "other" tells of somebody
else, "event" is talk of any other kind."""
TELLING = 5
SCALE = 20.0
"""Brings the parts of a centred unit vector to about 1."""
LEAST, SPREAD = 0.0, -1.0
"""Least logit of a successor; and the same less the logarithm of how many statements came later: of many, any one is less likely
to be it. Chosen on 140 everyday cases, of which 40 have no change (docs/ranking.md)."""
SURE = 0.8
"""Logit from which on a successor is taken for the answer; below it leads the evidence and no more."""
MARGIN = 0.7
"""Of those within so much of the best logit, the one that was said last is the successor."""
APART_MS = 3_600_000
"""What is said within an hour tells of several things, and seldom of a change."""
NEAREST = 64
"""How many of the later statements are read, the nearest to the question or to the earlier statement."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Weights for the vectors of one embedder, `d` numbers each.

    `said` and `asked`, shape (d,): the mean vector of statements and of questions. `stance`, shape (d + 1, stances).
    `shift` and `scale`, shape (f,), standardise the features of `features`; `hidden`, shape (f + 1, h), and `out`, shape (h + 1,),
    are the two layers. The last row of a layer is its bias.
    """

    said: Floats
    asked: Floats
    stance: Floats
    shift: Floats
    scale: Floats
    hidden: Floats
    out: Floats

    def logits(self, question: Floats, earlier: Floats, later: Floats) -> Floats:
        """Return how likely each of some later statements, shape (n, d), is a successor of an earlier one, shape (n,)."""
        each = (len(later), 1)
        found = features(
            directions(np.tile(question, each), self.asked),
            directions(np.tile(earlier, each), self.said),
            directions(later, self.said),
            np.tile(stances(earlier[None], self.said, self.stance), each),
            stances(later, self.said, self.stance),
        )
        return through((found - self.shift) / self.scale, self.hidden, self.out)


def stances(vectors: Floats, said: Floats, layer: Floats) -> Floats:
    """Return the probabilities of `STANCES` for statements, shape (n, stances), given their unit vectors, shape (n, d).

    `said` and `layer` are those of a `Reader`.
    """
    logits = SCALE * (vectors - said) @ layer[:-1] + layer[-1]
    odds: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = odds / odds.sum(axis=1, keepdims=True)
    return shares


def through(rows: Floats, hidden: Floats, out: Floats) -> Floats:
    """Return what the two layers of a `Reader` make of standardised features, shape (n, f): one logit each, shape (n,)."""
    logits: Floats = np.maximum(rows @ hidden[:-1] + hidden[-1], 0) @ out[:-1] + out[-1]
    return logits


def directions(vectors: Floats, mean: Floats) -> Floats:
    """Return the directions of vectors from a mean: what all statements share says nothing of how near two are."""
    moved = vectors - mean
    found: Floats = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return found


def features(
    question: Floats, earlier: Floats, later: Floats, stance_before: Floats, stance: Floats
) -> Floats:
    """Return the features of pairs of statements and a question, shape (n, features).

    Args:
        question: directions of the questions from their mean, shape (n, d).
        earlier: those of the earlier statements.
        later: those of the later statements.
        stance_before: stances of the earlier statements, shape (n, stances).
        stance: those of the later statements.
    """

    def odds(share: Floats) -> Floats:
        share = np.clip(share, 2e-3, 1 - 2e-3)
        result: Floats = np.log(share / (1 - share)) / 3
        return result

    before, now, moved = (
        (a * b).sum(1) for a, b in ((question, earlier), (question, later), (earlier, later))
    )
    share = dict(zip(STANCES, stance.T, strict=True))
    return np.stack(
        [
            *(before, now, moved, now - before, np.minimum(now, moved), now * moved),
            odds(stance[:, :TELLING].sum(1)),
            odds(share["begins"] + share["replaces"] + share["ends"]),
            *(odds(share[one]) for one in ("near", "other", "planned", "event")),
            odds(share["past"] + share["denied"]),
            odds(stance_before[:, :TELLING].sum(1)),
        ],
        axis=1,
    )


W = TypeVar("W")


def open_weights(model_id: str, kind: type[W]) -> W | None:
    """Return the weights of a kind, a dataclass of arrays, for an embedder, or None if the package has none for it."""
    stored = _stored(model_id)
    return kind(**{part: stored[part] for part in kind.__annotations__}) if stored else None


@cache
def _stored(model_id: str) -> Mapping[str, Floats]:
    name = f"reading-{model_id.replace('@', '-')}.npz"
    path = files("memforest.data") / name
    if re.fullmatch(r"[\w.-]+", name) is None or not path.is_file():
        return {}
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {part: stored[part].astype(np.float64) for part in stored.files}


def is_of_present(plan: QuestionPlan) -> bool:
    """Return whether a question shows by its words that it asks how a thing stands at its present."""
    operator = plan.operator or plan.kind_operator
    return operator is not None and operator.kind == "current" and plan.kind != "when" and not plan.dates


def successor(
    tx: Tx, snapshot: Snapshot, reader: Reader, request: Search, keep: Allowed, first: int
) -> tuple[int, bool] | None:
    """Return the fact that tells how a thing stands since an earlier fact told it, and whether that is sure; None if none does.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        reader: weights for the memory's embedder.
        request: the question, with vectors; see `is_of_present`. That without the names of speakers is read: all that they say has them.
        keep: what passes the filters.
        first: row of the fact that answers by relevance.
    """
    facts, at = snapshot.facts, request.reference_ms if request.as_of_ms is None else request.as_of_ms
    place = fact_places(snapshot)
    begun = (facts.start_ms <= at) & (facts.said_ms <= at)
    later = facts.said_ms >= facts.said_ms[first] + APART_MS
    rows = np.flatnonzero(keep.facts & facts.vectors.filled & begun & later)
    if not len(rows) or request.bare_vector is None:
        return None
    question, earlier, many = request.bare_vector, facts.vectors[first], len(rows)
    if len(rows) > NEAREST:
        near = np.maximum(*facts.vectors.cosines_of(question, earlier))[rows]
        rows = rows[np.sort(np.argsort(-near, kind="stable")[:NEAREST])]
    logits = reader.logits(
        *(vectors.astype(np.float64) for vectors in (question, earlier, facts.vectors[rows]))
    )
    likely = logits >= max(LEAST, SPREAD + math.log(many))
    rows, logits = rows[likely], logits[likely]
    person, texts = Person(snapshot, request.plan), wordings(tx, facts.ids[rows].tolist())
    said = [person.is_told_of(int(facts.speaker[row]), texts[int(facts.ids[row])]) for row in rows.tolist()]
    rows, logits = rows[said], logits[said]
    if not len(rows):
        return None
    near = np.flatnonzero(logits >= logits.max() - MARGIN)
    best = near[place[rows[near]].argmax()]
    return int(rows[best]), bool(logits[best] >= SURE)


class Person:
    """The person whom a question asks about, who may be nobody in particular."""

    def __init__(self, snapshot: Snapshot, plan: QuestionPlan) -> None:
        self.name = next(iter((*plan.owners, *plan.entities)), "")
        self.entity = snapshot.names.get(entity_key(self.name) or "")
        kin, asked = kinship("en"), (*plan.keywords, *(plan.topic or ()))
        self.kin = kin if kin.isdisjoint(asked) else frozenset()
        """Words for relatives, whose state is not the person's; none where the question is about one."""

    def is_told_of(self, speaker: int, text: str) -> bool:
        """Return whether a statement by a speaker (an entity's row) may tell of the person: said by them or naming them.

        "Ana's brother is in Rome" tells nothing of Ana.
        """
        named = re.search(rf"(?<!\w){re.escape(self.name)}(?!\w)", text, re.IGNORECASE)
        if self.name and named is None and speaker != self.entity:
            return False
        owner = re.match(
            rf"\W*(?:the )?{re.escape(self.name)}(?:['’]s?)((?: [\w-]+){{1,3}})", text, re.IGNORECASE
        )
        return not self.name or owner is None or self.kin.isdisjoint(owner[1].lower().split())
