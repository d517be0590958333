"""How likely evidence answers a question, in 0..1: `Evidence.relevance`.

A small model computes it, with weights that `scripts/train_reading.py` fits on sentences written for it
(`data/reading`). It multiplies two probabilities: that the question asks for something told (thanks, talk and orders
do not), and that a statement answers it (`features`). It compares a question and a statement with what all of them
share, so that memories of 10 and of 10,000 statements have
one scale. Weights belong to an embedder and to English; of another one, and of other languages, nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memforest.search.filters import NodeHit, Search, TurnHit
from memforest.search.lexical import word_shares
from memforest.search.scores import Ints
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.search.succession import SCALE, STANCES, TELLING, Floats, directions, odds, stances, through
from memforest.store.connections import Tx

SAMPLE = 256
"""Statements of a memory that say how near a question is to any of them."""
GUESS = 0.03
"""Share of the candidates of a search that answer whatever their features are: vectors do not see all that a search has found them by."""
ALIKE, FIRM = 0.09, 16.0
"""The spread of cosines that is expected of a memory, and how many statements that expectation counts for."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Weights for the vectors of one embedder, `d` numbers each.

    `said`, `spoken` and `asked`, shape (d,): the mean vector of statements, turns and questions. `stance`: as in `Reader`.
    `seek_hidden` and `seek_out` are two layers over a question's vector. `pair_shift`, `pair_scale`, `pair_hidden` and `pair_out` are
    those over `features`.
    """

    said: Floats
    spoken: Floats
    asked: Floats
    stance: Floats
    seek_hidden: Floats
    seek_out: Floats
    pair_shift: Floats
    pair_scale: Floats
    pair_hidden: Floats
    pair_out: Floats

    def of_features(self, seeking: float, found: Floats) -> Floats:
        """Return the relevance of statements, shape (n,), given the logit of `seeking` and their `features`."""
        logits = through((found - self.pair_shift) / self.pair_scale, self.pair_hidden, self.pair_out)
        answers = GUESS + (1 - GUESS) / (1 + np.exp(-logits))
        relevance: Floats = answers / (1 + np.exp(-seeking))
        return relevance

    def seeking(self, question: Floats) -> float:
        """Return the logit of how likely a question, by its vector, asks for something that somebody has told."""
        return float(through(SCALE * (question - self.said)[None], self.seek_hidden, self.seek_out)[0])


def features(near: Floats, turn: Floats, others: Floats, many: int, share: Floats, stance: Floats) -> Floats:
    """Return what is known of each of some statements and a question, shape (n, features).

    Args:
        near: cosines of question and statements, as directions from their means, shape (n,).
        turn: the same of the turns that say them.
        others: the same of a sample of the memory's statements, shape (s,).
        many: how many statements the memory has.
        share: of the question's words, by their rarity, that are in the turn, shape (n,).
        stance: of the statements, shape (n, stances).
    """
    best, count = np.maximum(near, turn), len(others) + FIRM
    mean = others.sum() / count
    spread = np.sqrt((((others - mean) ** 2).sum() + FIRM * ALIKE**2) / count)

    of = dict(zip(STANCES, stance.T, strict=True))
    return np.stack(
        [
            *(near, turn, best, (best - mean) / spread / 4, np.full(len(near), np.log(max(many, 1)) / 4)),
            *(share, best * share, odds(stance[:, :TELLING].sum(1))),
            *(odds(of[one]) for one in ("event", "near", "other")),
        ],
        axis=1,
    )


@dataclass(frozen=True, slots=True)
class Relevance:
    """How likely hits answer one question; without a judge, or vectors, it says nothing."""

    tx: Tx
    snapshot: Snapshot
    request: Search
    judge: Judge | None

    def of(self, hits: Sequence[TurnHit | NodeHit]) -> list[float | None]:
        """Return how likely each hit answers the question; None of a summary."""
        said = [hit for hit in hits if isinstance(hit, TurnHit)]
        if not said or self.judge is None or self.request.vector is None:
            return [None] * len(hits)
        judged = iter(_judged(self.tx, self.snapshot, self.judge, self.request, said).tolist())
        return [next(judged) if isinstance(hit, TurnHit) else None for hit in hits]

    def seeks(self) -> float:
        """Return how likely the question asks for something that somebody has told, in [0, 1]; 1 where nothing says it."""
        bare = self.request.bare_vector
        if self.judge is None or bare is None:
            return 1.0
        return float(1 / (1 + np.exp(-self.judge.seeking(bare.astype(np.float64)))))


LIKELY = 0.05
"""Least relevance of what leads because it was said later."""


def _judged(tx: Tx, snapshot: Snapshot, judge: Judge, request: Search, hits: Sequence[TurnHit]) -> Floats:
    """Return the relevance of hits for a question with vectors, shape (n,)."""
    assert request.vector is not None
    bare = request.vector if request.bare_vector is None else request.bare_vector
    facts, turns = snapshot.facts, snapshot.turns
    turn, fact = np.array([hit.turn for hit in hits]), np.array([hit.fact for hit in hits])
    asked = directions(np.stack([bare, request.vector]).astype(np.float64), judge.asked)
    spoken = turns.vectors[turn].astype(np.float64)
    told = (
        np.where(fact[:, None] >= 0, facts.vectors[np.maximum(fact, 0)], spoken) if len(facts.ids) else spoken
    )
    answers = _question_before(snapshot, turn)
    before = directions(turns.vectors[np.maximum(answers, 0)].astype(np.float64), judge.spoken) @ asked[1]
    found = features(
        directions(told, judge.said) @ asked[0],
        np.maximum(directions(spoken, judge.spoken) @ asked[1], np.where(answers >= 0, before, -1.0)),
        directions(facts.vectors[_sample(snapshot)].astype(np.float64), judge.said) @ asked[0],
        len(facts.ids),
        word_shares(tx, snapshot, request.tokens)[turn],
        stances(told, judge.said, judge.stance),
    )
    return judge.of_features(judge.seeking(bare.astype(np.float64)), found)


def _question_before(snapshot: Snapshot, rows: Ints) -> Ints:
    """Return the turn that each of some turns replies to, if another speaker asks in it; else -1."""
    turns = snapshot.turns
    before = turns.previous[rows]
    replies = (before >= 0) & turns.asks[before] & (turns.speaker[before] != turns.speaker[rows])
    return np.where(replies & ~turns.muted[before], before, -1)


@once_per_snapshot
def _sample(snapshot: Snapshot) -> Ints:
    """Return the statements that stand for all of a memory, by their digests, so that they do not depend on the order of arrival."""
    key = snapshot.facts.key
    return np.sort(np.argsort(key, kind="stable")[:SAMPLE])
