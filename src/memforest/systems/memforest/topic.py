"""The topic of a question about change: the kind of value it asks for ("What does Bob open with these days?").

Every kind of a memory's values is scored by how near the statements that use them are to the question (about
anybody: what counts is the topic), by the words in front of the values against the gap of the question
("What does she work *on*", "*Where*"), and by the values that the question names itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from memforest.language.phrases import read_statement
from memforest.ranking import Scores, standardise
from memforest.systems.memforest.kinds import Kind
from memforest.systems.memforest.vocabulary import Vocabulary

NEAR = 10
"""Statements, the nearest ones, by which a kind is judged."""
LEXICAL = 0.5
"""Weight of shared words beside the cosine."""
GAP = 0.25
"""Weight of the words in front of the values."""
NAMED = 3.0
"""Weight of the share of the named values that are of a kind."""
MOST_KINDS = 3
"""Kinds that are tried: of the likeliest one the person may never have had two."""
UNHEARD = 2.0
"""Taken from a kind of which nothing was ever said of the person."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a question: the person, and the thing asked about, as scores of facts and as words.

    `dense` and `lexical` are the cosine and BM25 of every fact to the question, shape (m,). `anchor` is text in
    which a value may be named ("before the oolong"), `attribute` the listed attribute that is asked for, if it is
    one, and `gap` the words behind which the thing asked for would stand.
    """

    who: str
    dense: Scores
    lexical: Scores
    anchor: str = ""
    attribute: str | None = None
    gap: Collection[str] = ()


def choose_values(known: Vocabulary, topic: Topic) -> Iterator[dict[str, float]]:
    """Yield the values of the kinds that a question may be about, the likeliest first, with how typical each value is."""
    if not known.kinds:
        return
    fits = _fits(known, topic)
    about = known.about(topic.who)
    near: Scores = np.array(
        [
            _best(fits[kind.rows])
            + _best(fits[kind.rows[about[kind.rows]]])
            - UNHEARD * (not about[kind.rows].any())
            for kind in known.kinds
        ]
    )
    if topic.gap:
        behind = np.array([sum(kind.fronts.get(word, 0.0) for word in topic.gap) for kind in known.kinds])
        near = standardise(near) + GAP * standardise(behind)
    anchored = known.named_in(topic.anchor)
    named = anchored or _known_of(known, topic.attribute)
    if named:
        share = np.array([len(named.intersection(kind.values)) / len(named) for kind in known.kinds])
        near = standardise(near) + NAMED * share
    for row in np.argsort(-near, kind="stable")[:MOST_KINDS].tolist():
        yield _weighted(known, topic, known.kinds[row], anchored)


def _weighted(known: Vocabulary, topic: Topic, kind: Kind, anchored: frozenset[str]) -> dict[str, float]:
    """Return the values of a kind, and those that the anchor names, with how typical each is."""
    chosen = dict(zip(kind.values, kind.typical, strict=True))
    names = {value: weight for value, weight in chosen.items() if value in known.named}
    if 2 * len(names) > len(chosen):
        chosen = names  # "doctor" is no value beside "Dr Sun" and "Dr Ray"
    weighted = {value: 0.1 + weight for value, weight in chosen.items()}
    return (dict.fromkeys(anchored, 1.0) if anchored else _anchor_term(known, topic.anchor)) | weighted


def nearness(known: Vocabulary, topic: Topic, values: dict[str, float]) -> float:
    """Return how near the statements that use some values are to a question, as a share of the nearest of all."""
    fits = _fits(known, topic)
    return _best(fits[known.rows(values)]) / max(_best(fits), 1e-9)


def _best(fits: Scores) -> float:
    """Return the sum of the best `NEAR` over `NEAR`, none below 0: a kind that is hardly talked about is not near."""
    if len(fits) > NEAR:
        fits = np.partition(fits, len(fits) - NEAR)[-NEAR:]
    return float(np.maximum(fits, 0.0).sum()) / NEAR


def _fits(known: Vocabulary, topic: Topic) -> Scores:
    """Return how near every fact is to the topic, by vector and words, less what it owes to naming the person."""
    about = known.about(topic.who)
    dense = topic.dense
    if about.any() and not about.all():
        dense = dense - np.where(about, dense[about].mean() - dense[~about].mean(), 0.0)
    return standardise(dense) + LEXICAL * standardise(topic.lexical)


def _anchor_term(known: Vocabulary, anchor: str) -> dict[str, float]:
    """Return the longest phrase of an anchor that the memory uses, though nothing else shows it to be a value."""
    phrases = (p for s in read_statement(anchor).sentences for p in s.phrases if p.term in known.terms)
    best = max(phrases, key=lambda p: (len(p.term.split()), -p.start), default=None)
    return {} if best is None else {best.term: 1.0}


def _known_of(known: Vocabulary, attribute: str | None) -> frozenset[str]:
    """Return the values that statements are known to give to an attribute."""
    return known.attributes.get(attribute or "", frozenset())
