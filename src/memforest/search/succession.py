"""What was said later of the same thing: "Got the keys, York is my home now" after "I live in Leeds".

A question about the present finds the plain statement first, whatever was said after it in other words. `said_later` looks among
the later statements about the same person for those that may tell how the same thing stands since. It reads vectors alone, with
small layers that `scripts/train_reading.py` fits on sentences written for it (`data/reading`):

- whether a question asks how something stands at present, one logistic layer over its vector;
- the *stance* of a statement: that something holds, begins, ends or takes another's place; or that it is over, planned, denied, or
  only touches the subject (a visit, a wish, somebody else's), one softmax over its vector;
- from the stances and from how near the question, the earlier and the later statement are to each other, how likely the later
  one is about what is asked, one hidden layer. Near are two directions, as they are and in the *slot* space: a linear map that
  whitens what varies among statements of one thing (Chicago or Lagos, who it is, how it is told), so that what is left is the thing.

Weights belong to an embedder, so another one has none, and then nothing is looked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.ports import STANDS
from memforest.reading.phrases import is_person
from memforest.reading.tokens import kinship
from memforest.records import QuestionPlan
from memforest.search.filters import Allowed, Search, TurnHit, first_turns
from memforest.search.snapshot import Snapshot
from memforest.search.timeline import valid_until
from memforest.store.connections import Tx
from memforest.store.reads import wordings
from memforest.text import entity_key, lexical_tokens

Floats = NDArray[np.float64]
Row = NDArray[np.float32]

STANCES = (
    *("holds", "begins", "replaces", "ends", "corrects"),
    *("planned", "past", "denied", "near", "other", "event"),
)
"""Classes of the stance: the first `TELLING` tell how a thing stands. "near" only touches the subject, "other" tells of somebody
else, "event" is talk of any other kind."""
TELLING = 5
SCALE = 20.0
"""Brings the parts of a centred unit vector to about 1."""
PRESENT = 0.5
"""Least logit of a question about the present whose words show no time."""
LEAST, SPREAD, SLOPE = 0.25, -2.8, 1.3
"""Least logit of a successor; and a line in the logarithm of how many statements came later, below which it is none either: of many,
any one is less likely to be it. Chosen on the fourth file of everyday cases and LoCoMo (docs/research/ranking.md)."""
APART_MS = 3_600_000
"""What is said within an hour tells of several things, and seldom of a change."""
CHANGES = slice(STANCES.index("begins"), TELLING)
"""The stances that tell a change: that something begins, takes another's place, ends, or is corrected."""
DOUBT, DOUBT_SPREAD, MOST_DOUBTS = 0.45, 0.02, 3
"""Least likeness by which a statement puts an earlier one in doubt, what it rises by with the logarithm of how many there are, and
most that are named. Chosen on the cases of the first two files of everyday cases (docs/research/statements.md)."""
CHANGED = [STANDS.index(one) for one in ("changes", "ends")]
"""What a cross-encoder tells of a change."""
MOST_LATER = 3
"""Most of what was said later that is read again with the question."""
NEAREST = 64
"""How many of the later statements are read, the nearest to the question or to the earlier statement."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Weights for the vectors of one embedder, `d` numbers each.

    `said`, `spoken` and `asked`, shape (d,): the mean vector of statements, turns and questions. `present`, shape (d + 1,): that of `asks_of_present`. `stance`, shape (d + 1, stances).
    `slot`, shape (d, s): the map into the slot space. `shift` and `scale`, shape (f,), standardise the features of `features`; `hidden`, shape (f + 1, h), and `out`, shape (h + 1,),
    are the two layers. The last row of a layer is its bias.
    """

    said: Floats
    spoken: Floats
    asked: Floats
    present: Floats
    stance: Floats
    slot: Floats
    shift: Floats
    scale: Floats
    hidden: Floats
    out: Floats

    def asks_of_present(self, plan: QuestionPlan, question: Floats) -> bool:
        """Return whether a question, shape (d,), asks how a thing stands at its present: by its words, or by its vector."""
        operator = plan.operator or plan.kind_operator
        if plan.dates or (operator is not None and operator.kind != "current"):
            return False
        if operator is not None and plan.kind != "when":
            return True
        return bool(SCALE * (question - self.asked) @ self.present[:-1] + self.present[-1] >= PRESENT)

    def logits(self, question: Floats, earlier: Floats, later: Floats, *, named: NDArray[np.bool_]) -> Floats:
        """Return how likely each of some later statements, shape (n, d), is a successor of an earlier one, shape (n,).

        `earlier` has one for all of them, shape (d,), or one for each.
        `named`, shape (n,): which of them name the person that the question names; what they tell is not somebody else's.
        """
        first = np.broadcast_to(earlier, later.shape)
        before = stances(first, self.said, self.stance)
        found = features(
            question[None] - self.asked,
            first - self.said,
            later - self.said,
            _of_person(before, named),
            _of_person(stances(later, self.said, self.stance), named),
            self.slot,
        )
        return through((found - self.shift) / self.scale, self.hidden, self.out)

    def of_messages(
        self, question: Row, earlier: Row, later: Row, messages: Row, *, named: NDArray[np.bool_]
    ) -> Floats:
        """Return `logits`, the higher of those of each statement and of the message that it stands in.

        A sentence may tell only with its neighbours: "The boxes are in. Third floor, and no lift." A message without a vector says nothing.
        """
        asked, first, told = (each.astype(np.float64) for each in (question, earlier, later))
        whole = np.where(messages.any(axis=1, keepdims=True), messages - self.spoken + self.said, told)
        return np.maximum(*(self.logits(asked, first, some, named=named) for some in (told, whole)))


def _of_person(share: Floats, named: NDArray[np.bool_]) -> Floats:
    """Return stances, shape (n, stances), none of them "other" for the statements that name the person asked about."""
    found = share.copy()
    found[named, STANCES.index("other")] = 0.0
    shares: Floats = found / found.sum(axis=1, keepdims=True)
    return shares


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


def features(
    question: Floats, earlier: Floats, later: Floats, stance_before: Floats, stance: Floats, slot: Floats
) -> Floats:
    """Return the features of questions and pairs of statements, shape (n, features).

    Args:
        question: vectors of the questions, less their mean: what all share says nothing of how near two are. Shape (n, d).
        earlier: those of the earlier statements.
        later: those of the later statements.
        stance_before: stances of the earlier statements, shape (n, stances).
        stance: those of the later statements.
        slot: that of a `Reader`.
    """
    share = dict(zip(STANCES, stance.T, strict=True))
    return np.stack(
        [
            *_nearness(question, earlier, later),
            *_nearness(question @ slot, earlier @ slot, later @ slot),
            odds(stance[:, :TELLING].sum(1)),
            odds(share["begins"] + share["replaces"] + share["ends"]),
            *(odds(share[one]) for one in ("near", "other", "planned", "event")),
            odds(share["past"] + share["denied"]),
            odds(stance_before[:, :TELLING].sum(1)),
        ],
        axis=1,
    )


def _nearness(question: Floats, earlier: Floats, later: Floats) -> list[Floats]:
    """Return how near the directions of a question and two statements are, and the later one against the other two."""
    asked, first, last = map(directions, (question, earlier, later))
    before, now, moved = (asked * first).sum(1), (asked * last).sum(1), (first * last).sum(1)
    return [before, now, moved, now - before, np.minimum(now, moved), now * moved]


def directions(vectors: Floats, mean: Floats | float = 0.0) -> Floats:
    """Return the directions of vectors, shape (n, d), from a mean: what all statements share says nothing of how near two are."""
    moved = vectors - mean
    found: Floats = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return found


def odds(share: Floats) -> Floats:
    """Return the logarithms of the odds of some shares, bounded, so that they are about as large as cosines."""
    share = np.clip(share, 2e-3, 1 - 2e-3)
    result: Floats = np.log(share / (1 - share)) / 3
    return result


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


def is_read(text: str) -> bool:
    """Return whether a text is in the script of the weights: of its letters half or more are Latin. One without letters is.

    They were fitted to English. What they make of Spanish, French and German is in docs/research/ranking.md; of Chinese the models know
    one character in four.

    Example:
        >>> is_read("Wifi password?"), is_read("¿Dónde vive Ana?"), is_read("安娜住在哪里？")
        (True, True, False)
    """
    letters = () if text.isascii() else [ch for ch in text if ch.isalpha()]
    return 2 * sum(ch < "\u0250" for ch in letters) >= len(letters)


def said_later(
    tx: Tx, snapshot: Snapshot, reader: Reader, request: Search, keep: Allowed, first: int
) -> list[tuple[int, float]]:
    """Return the facts that may tell how a thing stands since an earlier fact told it, the likeliest first, at most `MOST_LATER`.

    Each has by how much its logit is above the least one of what tells that surely.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        reader: weights for the memory's embedder.
        request: the question, with vectors; see `Reader.asks_of_present`. That without the names of speakers is read: all that they say has them.
        keep: what passes the filters.
        first: row of the fact that answers by relevance.
    """
    facts, at = snapshot.facts, request.reference_ms if request.as_of_ms is None else request.as_of_ms
    begun = (facts.start_ms <= at) & (facts.said_ms <= at)
    later = facts.said_ms >= facts.said_ms[first] + APART_MS
    rows = np.flatnonzero(keep.facts & facts.vectors.filled & begun & later)
    if not len(rows) or request.bare_vector is None:
        return []
    question, earlier, many = request.bare_vector, facts.vectors[first], len(rows)
    if len(rows) > NEAREST:
        near = np.maximum(*facts.vectors.cosines_of(question, earlier))[rows]
        rows = rows[np.sort(np.argsort(-near, kind="stable")[:NEAREST])]
    person, texts = Person(snapshot, request.plan), wordings(tx, facts.ids[rows].tolist())
    told = [texts[fact] for fact in facts.ids[rows].tolist()]
    of_person = list(map(person.is_told_of, facts.speaker[rows].tolist(), told))
    # Of another script the vectors know few words, so that one of the question's has to be there.
    asked, said = frozenset(request.tokens), map(_said, told)
    shared = (is_read(text) or not asked.isdisjoint(lexical_tokens(text)) for text in said)
    of_person = [here and own for here, own in zip(of_person, shared, strict=True)]
    messages = snapshot.turns.vectors[first_turns(snapshot)[rows]]
    named = np.array(list(map(person.is_named, told)))
    logits = reader.of_messages(question, earlier, facts.vectors[rows], messages, named=named)
    above = np.where(of_person, logits - max(LEAST, SPREAD + SLOPE * math.log(many)), -np.inf)
    order = np.argsort(-above, kind="stable")[:MOST_LATER]
    return [(int(rows[at]), float(above[at])) for at in order if of_person[at]]


def standing(
    snapshot: Snapshot, reader: Reader | None, request: Search, hits: Sequence[TurnHit]
) -> list[tuple[float, float]]:
    """Return, of each of some hits, how likely it tells how something stands since another of them told it, and how likely another does so of it.

    Both are in 0..1, and 0 where a question does not ask how something stands at its present, or without weights.
    """
    question = request.bare_vector
    if (
        reader is None
        or question is None
        or not reader.asks_of_present(request.plan, question.astype(np.float64))
    ):
        return [(0.0, 0.0)] * len(hits)
    turns, at = snapshot.turns, [hit.turn for hit in hits]
    if not at:
        return []
    of_fact = [snapshot.facts.vectors[hit.fact] if hit.fact >= 0 else turns.vectors[hit.turn] for hit in hits]
    rows, messages, said = np.array(of_fact), turns.vectors[at], turns.said_ms[at]
    likely = np.zeros((len(hits), len(hits)))
    first, last = np.nonzero(said >= said[:, None] + APART_MS)
    if len(first):
        none = np.zeros(len(first), dtype=np.bool_)
        logits = reader.of_messages(question, rows[first], rows[last], messages[last], named=none)
        likely[first, last] = 1 / (1 + np.exp(-logits))
    return most_of(likely)


def standing_by(said_ms: Sequence[int], stands: Floats) -> list[tuple[float, float]]:
    """Return what `standing` does, of texts of which a cross-encoder tells how what is asked about stands by each.

    Args:
        said_ms: when each was said.
        stands: how likely each of `memforest.ports.STANDS` is by each, shape (n, 7).
    """
    said, changes = np.array(said_ms), stands[:, CHANGED].sum(1)
    tells = changes + stands[:, STANDS.index("stands")]
    return most_of(np.where(said[None] >= said[:, None] + APART_MS, tells[:, None] * changes, 0.0))


def most_of(likely: Floats) -> list[tuple[float, float]]:
    """Return of each statement the most of how likely it follows another one, and is followed, given that of pairs (earlier, later)."""
    return list(zip(likely.max(0).tolist(), likely.max(1).tolist(), strict=True))


def doubtful(snapshot: Snapshot, reader: Reader, new: Collection[int]) -> list[tuple[int, int]]:
    """Return pairs of an earlier fact and of a new one that may have ended it, by row id, the likeliest first; no question is needed.

    Both are by one speaker; how near they are counts, that the new one tells a change, and that the earlier one tells how a
    thing stands. A fact without a vector puts nothing in doubt.

    Args:
        snapshot: of the memory, with the new facts.
        reader: weights for the memory's embedder.
        new: the new facts, by row id.
    """
    facts, until = snapshot.facts, valid_until(snapshot)
    found: dict[int, tuple[float, int]] = {}
    for row in snapshot.rows_of_facts(sorted(new)):
        at = facts.said_ms[row]
        before = facts.vectors.filled & (facts.said_ms <= at - APART_MS) & (until > at)
        rows = np.flatnonzero(before & (facts.speaker == facts.speaker[row]))
        if not facts.vectors.filled[row] or not len(rows):
            continue
        bar = DOUBT + DOUBT_SPREAD * math.log(len(rows))
        near = np.argsort(-facts.vectors.cosines_at(rows, facts.vectors[row]), kind="stable")
        rows = rows[near[:NEAREST]]
        both = facts.vectors[np.r_[rows, row]].astype(np.float64)
        told, moved = stances(both, reader.said, reader.stance), directions(both, reader.said)
        likely = moved[:-1] @ moved[-1] + 0.1 * odds(told[-1:, CHANGES].sum(1))
        likely += 0.03 * odds(told[:-1, :TELLING].sum(1))
        for place in np.flatnonzero(likely >= bar).tolist():
            fact, doubt = int(facts.ids[rows[place]]), (float(likely[place]), int(facts.ids[row]))
            found[fact] = max(doubt, found.get(fact, doubt))
    ordered = sorted(found.items(), key=lambda one: (-one[1][0], one[0]))
    return [(fact, by) for fact, (_, by) in ordered[:MOST_DOUBTS]]


class Person:
    """The person whom a question asks about, who may be nobody in particular."""

    def __init__(self, snapshot: Snapshot, plan: QuestionPlan) -> None:
        self.name = next(iter((*plan.owners, *plan.entities)), "")
        self.entity = snapshot.names.get(entity_key(self.name) or "")
        asked, own = {*plan.keywords, *(plan.topic or ())}, self.name in ("", plan.asker)
        self._kin = sorted(asked & kinship("en")) if own else []
        """Whom somebody asks about who names a relative: "Where does *Mum* live?"."""
        self._called = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, self._kin or [self.name]))})(?!\w)(?:['’]s?(?P<noun>(?: [\w-]+){{1,3}}))?",
            re.IGNORECASE,
        )
        self._others = any(map(is_person, asked))
        """Whether the question is about somebody who is something to the person: "Ana's brother", "my doctor"."""
        self._by_others = bool(self._kin) or not own

    def is_named(self, text: str) -> bool:
        """Return whether a statement names the person, and it is not who asks."""
        return self._by_others and self._called.search(_said(text)) is not None

    def is_told_of(self, speaker: int, text: str) -> bool:
        """Return whether a statement by a speaker (an entity's row) may tell of the person: said by them or naming them.

        "Ana's brother is in Rome" tells nothing of Ana, and neither does "My brother is in Rome" that Ana says.
        """
        said = _said(text)
        found = self._called.search(said) if self.name or self._kin else None
        if found is None:
            if self._kin or (self.name and speaker != self.entity):
                return False
            found = _ANOTHERS.match(said)
        noun = (found and found["noun"]) or ""
        return self._others or not any(map(is_person, noun.split()))


_ANOTHERS = re.compile(
    r"\W*(?:my|our|the|an?|some|\w[\w-]*['’]s)(?P<noun>(?: [\w-]+){1,3})(?!.*\b(?:I|we)\b)", re.IGNORECASE
)
"""Opens a sentence in which somebody acts, and the speaker does not."""


def _said(text: str) -> str:
    """Return a statement without its speaker."""
    return text.partition(": ")[2] or text
