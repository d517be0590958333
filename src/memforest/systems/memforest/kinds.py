"""What kinds of things a memory talks about: its values, and which of them are interchangeable.

Nobody lists beforehand that somebody has a podcast or a chess opening. But "dropped the Pirc for the Dutch"
says that two things take each other's place, and "trains at Kinetik", "signed up at Torque" show two that
stand in the same frames. So the noun phrases of a memory's statements are its terms; those that are begun,
ended, had or named are its values; and two values are alike when they replaced each other, were values
of one attribute, stand among the same words, or are told in similar statements.

Source of the idea that words of one kind share their contexts: Z. Harris, Distributional Structure (1954).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores
from memforest.search.snapshot import Snapshot
from memforest.steps.local.stance import (
    Sentence,
    Statement,
    chosen_phrases,
    held_phrases,
    is_thing,
    read_statement,
    turning_points,
)
from memforest.steps.local.states import UNSPECIFIED
from memforest.store.db import Tx
from memforest.text import STOP_WORDS

__all__ = ["Vocabulary", "make_vocabulary", "vocabulary"]

MIN_USES = 2
MAX_VALUES = 1_500
"""Values kept, the most used first: likeness is computed between all pairs."""
PIECE = 0.6
"""A phrase of which this share of uses stands inside a longer one is only a piece of that."""
WINDOW = 3
"""Words on either side that are a value's frame."""
FRAME_WEIGHT, REPLACED_WEIGHT, ATTRIBUTE_WEIGHT = 2.0, 1.5, 1.0
"""Weight of shared frames, of having replaced each other, and of a shared attribute, beside a cosine."""
NEIGHBOURS = 4
CARRY = 0.85
"""Share of a value's relevance that comes from the values it is like."""

_WORD = re.compile(r"[\w&'.-]+")
_FRAME_WORD = re.compile(r"[\w']+")
_NO_FRAME = frozenset(
    [
        "a",
        "an",
        "the",
        "his",
        "her",
        "their",
        "my",
        "its",
        "some",
        "new",
        "old",
        "another",
        "that",
        "this",
        "and",
        "but",
        "so",
        "for",
        "to",
        "of",
    ]
)
_ACTOR = re.compile(r'(?:^|[.!?:] "?|")(?P<name>[^\W\d_a-z][\w-]+)(?:\'s)? (?P<verb>[a-z]+)')


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The terms of a memory: the facts (rows) that use each, which are values, and how alike those are.

    `texts` are the facts' texts by row, `people` the names of persons. `values` are in alphabetical order,
    `rank` says how surely each is a value, `alike` has shape (values, values).
    """

    texts: tuple[str, ...]
    people: frozenset[str]
    uses: Mapping[str, NDArray[np.int64]]
    values: tuple[str, ...]
    rank: Mapping[str, float]
    alike: NDArray[np.float64]
    attributes: Mapping[str, frozenset[str]]
    """The values that some statement is known to give to a listed attribute."""

    def named_in(self, text: str) -> frozenset[str]:
        """Return the values that a text names, the longest where they overlap."""
        low = f" {' '.join(word.strip('.') for word in _WORD.findall(text.lower()))} ".replace("'s ", " 's ")
        found = [value for value in self.values if f" {value} " in low]
        return frozenset(
            value for value in found if not any(value != o and f" {value} " in f" {o} " for o in found)
        )

    def spread(self, relevance: Scores) -> Scores:
        """Return the relevance of values after it has flowed between those that are alike; shape (values,)."""
        if not len(relevance):
            return relevance
        nearest = np.argsort(-self.alike, axis=1, kind="stable")[:, :NEIGHBOURS]
        links = np.zeros_like(self.alike)
        rows = np.arange(len(links))[:, None]
        links[rows, nearest] = np.maximum(self.alike[rows, nearest], 0.0)
        links = np.maximum(links, links.T)
        links /= np.maximum(links.sum(axis=1, keepdims=True), 1e-9)
        flowed = np.linalg.solve(np.eye(len(links)) - CARRY * links, (1 - CARRY) * relevance)
        return np.asarray(flowed, dtype=np.float64)


_MADE: WeakKeyDictionary[Snapshot, Vocabulary] = WeakKeyDictionary()


def vocabulary(tx: Tx, snapshot: Snapshot) -> Vocabulary:
    """Return a memory's vocabulary, made at the first question that needs it."""
    made = _MADE.get(snapshot)
    if made is None:
        texts = [""] * len(snapshot.facts.ids)
        for fact, text in tx.execute("SELECT id, text FROM fact"):
            if fact in snapshot.fact_row:
                texts[snapshot.fact_row[fact]] = text
        acting = _acting_names(texts) | {
            e.label for e in snapshot.entities.values() if e.kind == "participant"
        }
        people = acting | {e.label for e in snapshot.entities.values() if e.kind == "person"}
        states = [
            (state.attribute, value.lower())
            for state in snapshot.states
            for value in (state.value, state.previous)
            if value and state.attribute != UNSPECIFIED
        ]
        made = _MADE[snapshot] = make_vocabulary(texts, people, snapshot.facts.vectors.rows, states, acting)
    return made


def _acting_names(texts: Sequence[str]) -> frozenset[str]:
    """Return capitalised words that often open a sentence as its subject and are never written small."""
    counts: Counter[str] = Counter()
    small: set[str] = set()
    for text in texts:
        small.update(word for word in _FRAME_WORD.findall(text) if word.islower())
        for match in _ACTOR.finditer(text):
            verb = match["verb"]
            if verb.endswith(("s", "ed")) or verb in ("is", "was", "has", "had", "went", "got", "took"):
                counts[match["name"]] += 1
    return frozenset(
        name
        for name, n in counts.items()
        if n >= MIN_USES and name.lower() not in small and name.lower() not in STOP_WORDS
    )


def make_vocabulary(
    texts: Sequence[str],
    people: frozenset[str],
    vectors: NDArray[np.float32],
    states: Sequence[tuple[str, str]] = (),
    acting: frozenset[str] | None = None,
) -> Vocabulary:
    """Return the vocabulary of some statements.

    Args:
        texts: the statements.
        people: names of persons.
        vectors: of the statements, shape (m, d); d may be 0.
        states: (attribute, value) pairs that are known to be so.
        acting: the people who act, and so are no values; a partner who is only talked of may be one.
    """
    acting = people if acting is None else acting
    names = {word.lower() for name in acting for word in (name, *name.split())}
    statements = [read_statement(text) for text in texts]
    uses = _uses(statements, names)
    counts = {term: len(rows) for term, rows in uses.items()}
    begun, held, named, pairs = _evidence(statements, counts)
    found = [
        term
        for term, n in counts.items()
        if (begun[term] and (n >= MIN_USES or term in named))
        or held[term] >= MIN_USES
        or (held[term] and " " in term and n >= MIN_USES)
        or ((term in named or is_thing(term)) and n >= MIN_USES)
    ]
    partial = _partial(found, counts)
    replacing = {term for pair in pairs for term in pair}
    rank = {
        term: _surely(term, named, begun, held) + (term in replacing) + begun[term] / counts[term]
        for term in found
        if term not in partial
    }
    best = [term for term in rank if rank[term] >= 0.9] or list(rank)
    values = tuple(sorted(sorted(best, key=lambda term: (-counts[term], term))[:MAX_VALUES]))
    rows = {term: np.array(uses[term], dtype=np.int64) for term in values}
    alike = _likeness(statements, values, rows, vectors, names)
    place = {value: i for i, value in enumerate(values)}
    for old, new in pairs:
        _add(alike, place, old, new, REPLACED_WEIGHT)
    by_attribute: dict[str, set[str]] = defaultdict(set)
    for attribute, value in states:
        by_attribute[attribute].add(value)
    for together in by_attribute.values():
        known = sorted(together & place.keys())
        for i, old in enumerate(known):
            for new in known[i + 1 :]:
                _add(alike, place, old, new, ATTRIBUTE_WEIGHT)
    np.fill_diagonal(alike, 0.0)
    attributes = {name: frozenset(found & place.keys()) for name, found in by_attribute.items()}
    return Vocabulary(tuple(texts), people, rows, values, rank, alike, attributes)


def _surely(term: str, named: set[str], begun: Mapping[str, int], held: Mapping[str, int]) -> float:
    """Return 1 for a name, a thing of a common kind, or a phrase of several words that somebody had or began."""
    compound = " " in term and bool(begun[term] or held[term])
    return float(term in named or is_thing(term) or compound)


def _add(alike: NDArray[np.float64], place: Mapping[str, int], one: str, other: str, weight: float) -> None:
    if one in place and other in place and one != other:
        alike[place[one], place[other]] += weight
        alike[place[other], place[one]] += weight


def _uses(statements: Sequence[Statement], names: set[str]) -> dict[str, list[int]]:
    """Return term -> rows of the statements that use it; terms with a person's name in them are none."""
    uses: dict[str, list[int]] = defaultdict(list)
    for row, statement in enumerate(statements):
        terms = {phrase.term for sentence in statement.sentences for phrase in sentence.phrases}
        for term in terms:
            if names.isdisjoint(word.removesuffix("'s") for word in term.split()):
                uses[term].append(row)
    return uses


def _evidence(
    statements: Sequence[Statement], counts: Mapping[str, int]
) -> tuple[Counter[str], Counter[str], set[str], list[tuple[str, str]]]:
    """Return how often each term is begun or ended and had, which are names, and what replaced what."""
    begun: Counter[str] = Counter()
    held: Counter[str] = Counter()
    named: set[str] = set()
    pairs: list[tuple[str, str]] = []
    for sentence in (sentence for statement in statements for sentence in statement.sentences):
        turned = turning_points(sentence, counts)
        begun.update(term for term, _ in turned)
        held.update(held_phrases(sentence, counts))
        named.update(phrase.term for phrase in sentence.phrases if phrase.named and phrase.start > 0)
        ended = [term for term, stance in turned if stance == "end"]
        taken = [term for term, stance in turned if stance != "end"]
        if len(ended) == 1 and len(taken) == 1 and ended != taken:
            pairs.append((ended[0], taken[0]))
    return begun, held, named, pairs


def _partial(values: Iterable[str], counts: Mapping[str, int]) -> set[str]:
    """Return the values that are only a piece of another, or another with an accidental neighbour."""
    by_word: dict[str, list[str]] = defaultdict(list)
    for value in values:
        for word in set(value.split()):
            by_word[word].append(value)
    out: set[str] = set()
    for found in by_word.values():
        for value in found:
            for other in found:
                if other != value and f" {value} " in f" {other} ":
                    out.add(value if counts[other] >= PIECE * counts[value] else other)
    return out


def _likeness(
    statements: Sequence[Statement],
    values: Sequence[str],
    rows: Mapping[str, NDArray[np.int64]],
    vectors: NDArray[np.float32],
    names: set[str],
) -> NDArray[np.float64]:
    """Return how alike the statements about two values are: cosine of their means, and shared frames."""
    frames = _frames(statements, values, names)
    alike = FRAME_WEIGHT * (frames @ frames.T)
    if vectors.ndim == 2 and vectors.shape[1] and len(values):
        centred = vectors - vectors.mean(axis=0)
        profile = np.array([centred[rows[value]].mean(axis=0) for value in values], dtype=np.float64)
        profile /= np.maximum(np.linalg.norm(profile, axis=1, keepdims=True), 1e-9)
        alike += profile @ profile.T
    return alike


def _frames(statements: Sequence[Statement], values: Sequence[str], names: set[str]) -> NDArray[np.float64]:
    """Return the words around each value, weighted by how few values they stand beside; unit rows."""
    wanted = frozenset(values)
    found: dict[str, Counter[tuple[str, ...]]] = {value: Counter() for value in values}
    for statement in statements:
        asked = [w for w in _FRAME_WORD.findall(statement.asked.lower()) if w not in STOP_WORDS]
        for sentence in statement.sentences:
            for term, frame in _sentence_frames(sentence, wanted, names):
                found[term].update(frame)
                found[term].update({("asked", _mask(word, names)): 1 for word in asked})
    spread = Counter(key for frame in found.values() for key in frame)
    column = {key: i for i, key in enumerate(k for k, n in spread.items() if n > 1)}
    out = np.zeros((len(values), max(len(column), 1)))
    for row, value in enumerate(values):
        for key, n in found[value].items():
            if key in column:
                out[row, column[key]] = np.log1p(n) * np.log(len(values) / spread[key])
    norms: NDArray[np.float64] = np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    return out / norms


def _sentence_frames(
    sentence: Sentence, wanted: frozenset[str], names: set[str]
) -> Iterable[tuple[str, dict[tuple[str, ...], float]]]:
    """Yield (value, its frame in this sentence): words by side and distance."""
    for phrase in chosen_phrases(sentence, wanted):
        left = _framing(sentence.text[: phrase.start], names)[-WINDOW:][::-1]
        right = _framing(sentence.text[phrase.end :], names)[:WINDOW]
        frame: dict[tuple[str, ...], float] = defaultdict(float)
        for side, words in (("left", left), ("right", right)):
            for distance, word in enumerate(words):
                frame[side, word] += 1 / (1 + distance / 2)
            if words:
                frame[side, "next", words[0]] += 1.0
        if len(left) > 1:
            frame["left", left[1], left[0]] += 1.5
        yield phrase.term, frame


def _framing(text: str, names: set[str]) -> list[str]:
    return [_mask(word, names) for word in _FRAME_WORD.findall(text.lower()) if word not in _NO_FRAME]


def _mask(word: str, names: set[str]) -> str:
    return "§" if word.removesuffix("'s") in names else word
